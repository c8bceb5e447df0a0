"""Layers. Each only describes: what comes out, which parameters it needs, which expression it stands for."""

from .attention import MultiHeadAttention
from .base import Context, Layer, Parameter, Spec
from .basic import Activation, Connected, Dropout, Flatten, Input, Logistic, Softmax
from .combine import Add, Concatenate, Lambda, Residual
from .convolution import AvgPool, Convolutional, MaxPool
from .merge import Route, Shortcut
from .normalization import BatchNorm
from .sample_norm import GroupNorm, LayerNorm, RMSNorm

__all__ = [
    "Activation", "Add", "AvgPool", "BatchNorm", "Concatenate", "Connected", "Context", "Convolutional", "Dropout",
    "Flatten", "GroupNorm", "Input", "Lambda", "Layer", "LayerNorm", "Logistic", "MaxPool", "MultiHeadAttention",
    "Parameter", "RMSNorm", "Residual", "Route", "Shortcut", "Softmax", "Spec",
]  # fmt: skip
