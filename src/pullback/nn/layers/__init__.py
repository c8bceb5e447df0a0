"""Layers. Each only describes: what comes out, which parameters it needs, which expression it stands for."""

from .attention import MultiHeadAttention
from .base import Context, Layer, Parameter, Spec
from .basic import Activation, Connected, Dropout, Flatten, Input, Logistic, Softmax
from .combine import Add, Concatenate, Lambda, Residual
from .convolution import AvgPool, Convolutional, MaxPool
from .merge import Route, Shortcut
from .normalization import BatchNorm
from .recurrent import GRU, LSTM, Bidirectional, Embedding, Masking, SimpleRNN, TimeDistributed
from .sample_norm import GroupNorm, LayerNorm, RMSNorm
from .sublayers import CRNN, RNN, ConvLSTM

__all__ = [
    "Activation", "Add", "AvgPool", "BatchNorm", "Bidirectional", "CRNN", "Concatenate", "Connected", "Context",
    "ConvLSTM", "Convolutional", "Dropout", "Embedding", "Flatten", "GRU", "GroupNorm", "Input", "LSTM", "Lambda",
    "Layer", "LayerNorm", "Logistic", "Masking", "MaxPool", "MultiHeadAttention", "Parameter", "RMSNorm", "RNN",
    "Residual", "Route", "Shortcut", "SimpleRNN", "Softmax", "Spec", "TimeDistributed",
]  # fmt: skip
