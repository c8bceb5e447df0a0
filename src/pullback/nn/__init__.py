"""Networks: layers, losses, metrics, optimizers, schedules, training, model files."""

from . import initializers, losses, metrics, schedules
from .activations import ACTIVATIONS
from .callbacks import Callback, CSVLogger, EarlyStopping, LambdaCallback, ModelCheckpoint, ReduceLearningRate
from .history import History
from .layers import (
    Activation,
    AvgPool,
    BatchNorm,
    Connected,
    Context,
    Convolutional,
    Dropout,
    Flatten,
    Input,
    Layer,
    Logistic,
    MaxPool,
    Parameter,
    Route,
    Shortcut,
    Softmax,
    Spec,
)
from .network import Network
from .optimizers import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lion,
    Momentum,
    NAdam,
    Nesterov,
    Optimizer,
    RAdam,
    RMSProp,
)

__all__ = [
    "ACTIVATIONS", "Activation", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "AvgPool", "BatchNorm", "CSVLogger",
    "Callback", "Connected", "Context", "Convolutional", "Dropout", "EarlyStopping", "Flatten", "History", "Input",
    "LambdaCallback", "Layer", "Lion", "Logistic", "MaxPool", "ModelCheckpoint", "Momentum", "NAdam", "Nesterov",
    "Network", "Optimizer", "Parameter", "RAdam", "RMSProp", "ReduceLearningRate", "Route", "SGD", "Shortcut",
    "Softmax", "Spec", "initializers", "losses", "metrics", "schedules",
]  # fmt: skip
