"""Layers. Each only describes: what comes out, which parameters it needs, which expression it stands for."""

from .attention import MultiHeadAttention
from .base import Context, Layer, Parameter, Spec
from .basic import Activation, Connected, Dropout, Flatten, Input, Logistic, Softmax
from .combine import Add, Concatenate, Lambda, Residual
from .convolution import AvgPool, Convolutional, MaxPool
from .cost import Cost
from .detection import Detection, GaussianYolo, Iseg, Region, Yolo
from .grouped_softmax import GroupedSoftmax
from .merge import Route, Sam, ScaleChannels, Shortcut
from .normalization import BatchNorm, BatchStatistics
from .rearrange import Crop, FlatReorg, Reorg, Reorg3d, Reshape, Shuffler, Upsample
from .recurrent import GRU, LSTM, Bidirectional, Embedding, Masking, SimpleRNN, TimeDistributed
from .sample_norm import GroupNorm, LayerNorm, RMSNorm
from .scaling import DropBlock, Empty, Implicit, L1Norm, L2Norm, Normalization
from .sublayers import CRNN, RNN, ConvLSTM, GatedGRU, GatedLSTM
from .unshared import BlurredConvolutional, BlurredMaxPool, ChannelMaxPool, Deconvolutional, Local

__all__ = [
    "Activation", "Add", "AvgPool", "BatchNorm", "BatchStatistics", "Bidirectional", "BlurredConvolutional",
    "BlurredMaxPool", "CRNN", "ChannelMaxPool", "Concatenate", "Connected", "Context", "ConvLSTM", "Convolutional",
    "Cost", "Crop", "Deconvolutional", "Detection", "DropBlock", "Dropout", "Embedding", "Empty", "FlatReorg",
    "Flatten", "GRU", "GatedGRU", "GatedLSTM", "GaussianYolo", "GroupNorm", "GroupedSoftmax", "Implicit", "Input",
    "Iseg", "L1Norm", "L2Norm", "LSTM", "Lambda", "Layer", "LayerNorm", "Local", "Logistic", "Masking", "MaxPool",
    "MultiHeadAttention", "Normalization", "Parameter", "RMSNorm", "RNN", "Region", "Reorg", "Reorg3d", "Reshape",
    "Residual", "Route", "Sam", "ScaleChannels", "Shortcut", "Shuffler", "SimpleRNN", "Softmax", "Spec",
    "TimeDistributed", "Upsample", "Yolo",
]  # fmt: skip
