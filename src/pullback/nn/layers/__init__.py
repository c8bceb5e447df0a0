"""Layers. Each only describes: what comes out, which parameters it needs, which expression it stands for."""

from .base import Context, Layer, Parameter, Spec
from .basic import Activation, Connected, Dropout, Flatten, Input, Logistic, Softmax
from .convolution import AvgPool, Convolutional, MaxPool
from .merge import Route, Shortcut
from .normalization import BatchNorm

__all__ = [
    "Activation", "AvgPool", "BatchNorm", "Connected", "Context", "Convolutional", "Dropout", "Flatten", "Input",
    "Layer", "Logistic", "MaxPool", "Parameter", "Route", "Shortcut", "Softmax", "Spec",
]  # fmt: skip
