"""NumPyNet's interface (github.com/Nico-Curti/NumPyNet) over this library: change the import, keep the program.

>>> import numpy as np
>>> from pullback.compat.numpynet import Adam, Connected_layer, Network, Softmax_layer
>>> net = Network(batch=20, input_shape=(1, 1, 4))
>>> _ = net.add(Connected_layer(8, activation="relu")).add(Connected_layer(3)).add(Softmax_layer())
>>> net.compile(optimizer=Adam(lr=0.01))
>>> X = np.random.default_rng(0).normal(size=(60, 1, 1, 4))
>>> truth = np.eye(3)[X[:, 0, 0, :3].argmax(axis=1)].reshape(60, 1, 1, 3)
>>> _ = net.fit(X, truth, max_iter=30, verbose=False)
>>> net.predict(X, verbose=False).shape
(60, 1, 1, 3)
"""

from types import ModuleType as _ModuleType

from . import activations, metrics, optimizer
from .activations import *
from .base import BaseLayer
from .costs import Cost_layer, Logistic_layer, Softmax_layer, Yolo_layer
from .exception import LayerError, MetricsError, NetworkError, NotFittedError
from .layers import (
    Activation_layer,
    Avgpool_layer,
    BatchNorm_layer,
    Connected_layer,
    Convolutional_layer,
    Dropout_layer,
    Input_layer,
    L1Norm_layer,
    L2Norm_layer,
    Maxpool_layer,
    Route_layer,
    Shortcut_layer,
    Shuffler_layer,
    Upsample_layer,
)
from .metrics import *
from .network import Network
from .optimizer import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    Momentum,
    NesterovMomentum,
    Optimizer,
    RMSprop,
)
from .recurrent import GRU_layer, LSTM_layer, RNN_layer, SimpleRNN_layer

AvgPool2D, Batchnorm, Conv2D, Dense, Dropout = (
    Avgpool_layer, BatchNorm_layer, Convolutional_layer, Connected_layer, Dropout_layer
)  # fmt: skip
L1Normalization, L2Normalization, MaxPool2D, SoftMax, UpSampling2D = (
    L1Norm_layer, L2Norm_layer, Maxpool_layer, Softmax_layer, Upsample_layer
)  # fmt: skip
Add, LSTM, RNN, SimpleRNN, concatenate = Shortcut_layer, LSTM_layer, RNN_layer, SimpleRNN_layer, Route_layer
Model = Network

__all__ = [name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _ModuleType)]
