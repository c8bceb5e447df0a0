"""Networks: layers, losses, metrics, optimizers, schedules, training, model files."""

from . import initializers, layers, losses, metrics, recurrent, schedules
from .activations import ACTIVATIONS
from .callbacks import Callback, CSVLogger, EarlyStopping, LambdaCallback, ModelCheckpoint, ReduceLearningRate
from .configuration import FUNCTIONS
from .history import History
from .layers import *
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
    "ACTIVATIONS", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "CSVLogger", "Callback", "EarlyStopping",
    "FUNCTIONS", "History", "LambdaCallback", "Lion", "ModelCheckpoint", "Momentum", "NAdam", "Nesterov", "Network",
    "Optimizer", "RAdam", "RMSProp", "ReduceLearningRate", "SGD", "initializers", "losses", "metrics", "recurrent",
    "schedules",
    *layers.__all__,
]  # fmt: skip
