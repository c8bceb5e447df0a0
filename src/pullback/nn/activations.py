"""Activations by name, as layers take them. Add your own: `nn.ACTIVATIONS["cube"] = lambda x: x**3`."""

from collections.abc import Callable

from .. import ops
from ..errors import UnknownNameError, nearest
from ..graph import Variable

LEAKY_SLOPE = 0.1  # Darknet's

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
}


def activation(name: str) -> Callable[[Variable], Variable]:
    """The function of that name; an unknown name is refused with the nearest known one."""
    if name not in ACTIVATIONS:
        raise UnknownNameError(f"unknown activation {name!r}. {nearest(name, ACTIVATIONS)}")
    return ACTIVATIONS[name]
