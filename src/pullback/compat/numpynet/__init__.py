"""NumPyNet's API with right gradients: `from pullback.compat.numpynet import Network, Connected_layer, ...`

Layers take arrays (batch, w, h, c); `backward` adds to the buffer that it is handed; each layer has an optimizer of its
own; what is asked before `forward` raises NotFittedError.
"""

from .base import BaseLayer, NotFittedError
from .layers import (
    Activation_layer,
    Avgpool_layer,
    BatchNorm_layer,
    Connected_layer,
    Convolutional_layer,
    Cost_layer,
    Dropout_layer,
    GRU_layer,
    Input_layer,
    L1Norm_layer,
    L2Norm_layer,
    Logistic_layer,
    LSTM_layer,
    Maxpool_layer,
    RNN_layer,
    Route_layer,
    Shortcut_layer,
    Shuffler_layer,
    SimpleRNN_layer,
    Softmax_layer,
    Upsample_layer,
    activation_of,
)
from .network import (
    Model,
    Network,
    mean_absolute_error,
    mean_accuracy_score,
    mean_hellinger,
    mean_iou_score,
    mean_logcosh,
    mean_square_error,
)
from .optimizers import (
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

Dense = Connected_layer
Conv2D = Convolutional_layer
MaxPool2D = Maxpool_layer
AvgPool2D = Avgpool_layer
UpSampling2D = Upsample_layer
concatenate = Route_layer
Add = Shortcut_layer

__all__ = [
    "Activation_layer", "Adadelta", "Adagrad", "Adam", "Adamax", "Add", "AvgPool2D", "Avgpool_layer", "BaseLayer",
    "BatchNorm_layer", "Connected_layer", "Conv2D", "Convolutional_layer", "Cost_layer", "Dense", "Dropout_layer",
    "GRU_layer", "Input_layer", "L1Norm_layer", "L2Norm_layer", "LSTM_layer", "Logistic_layer", "MaxPool2D",
    "Maxpool_layer", "Model", "Momentum", "NesterovMomentum", "Network", "NotFittedError", "Optimizer", "RMSprop",
    "RNN_layer", "Route_layer", "SGD", "Shortcut_layer", "Shuffler_layer", "SimpleRNN_layer", "Softmax_layer",
    "UpSampling2D", "Upsample_layer", "activation_of", "concatenate", "mean_absolute_error", "mean_accuracy_score",
    "mean_hellinger", "mean_iou_score", "mean_logcosh", "mean_square_error",
]  # fmt: skip
