"""Activations by name, as layers take them. Add your own: `nn.ACTIVATIONS["cube"] = lambda x: x**3`."""

from collections.abc import Callable

from .. import ops
from ..errors import UnknownNameError, nearest
from ..graph import Variable

LEAKY_SLOPE = 0.1  # Darknet's
LEAST_SUM = 1e-4  # AlexeyAB's, of channels

ACTIVATIONS: dict[str, Callable[[Variable], Variable]] = {
    "linear": lambda x: x,
    "relu": ops.relu,
    "relu6": ops.relu6,
    "leaky": lambda x: ops.leaky_relu(x, LEAKY_SLOPE),
    "elu": ops.elu,
    "selu": ops.selu,
    "gelu": ops.gelu,
    "silu": ops.silu,
    "swish": ops.silu,
    "mish": ops.mish,
    "hard_mish": ops.hard_mish,
    "hard_swish": ops.hard_swish,
    "logistic": ops.sigmoid,
    "sigmoid": ops.sigmoid,
    "tanh": ops.tanh,
    "softplus": ops.softplus,
    "softsign": ops.softsign,
    "elliot": ops.elliot,
    "symmelliot": ops.symmelliot,
    "hardtan": ops.hardtan,
    "lhtan": ops.lhtan,
    "loggy": ops.loggy,
    "plse": ops.plse,
    "ramp": ops.ramp,
    "relie": ops.relie,
    "stair": ops.stair,
    "gelu_tanh": lambda x: ops.gelu(x, approximate="tanh"),
    "selu_darknet": lambda x: ops.selu(x, 1.0507, 1.6732),
    "normalize_channels": lambda x: _share(ops.relu(x)),
    "normalize_channels_softmax": lambda x: _share(ops.exp(x)),
    "normalize_channels_softmax_maxval": lambda x: _share(ops.exp(x - ops.max(x, axis=-1, keepdims=True))),
}


def _share(x: Variable) -> Variable:
    """Each channel's share of the sum over channels (AlexeyAB's Darknet)."""
    return x / (ops.sum(x, axis=-1, keepdims=True) + LEAST_SUM)


def activation(name: str) -> Callable[[Variable], Variable]:
    """The function of that name; an unknown name is refused with the nearest known one."""
    if name not in ACTIVATIONS:
        raise UnknownNameError(f"unknown activation {name!r}. {nearest(name, ACTIVATIONS)}")
    return ACTIVATIONS[name]
