"""NumPyNet's activations. `gradient` takes what `activate` gave, as theirs do; layers differentiate the expression."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ... import ops
from ...compile import Function, function
from ...errors import UnknownNameError, nearest
from ...graph import TensorType, Variable
from ...nn.activations import ACTIVATIONS

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _hardtan(x: Variable) -> Variable:
    return ops.clip(0.2 * x + 0.5, 0.0, 1.0)


EXPRESSIONS: dict[str, Callable[[Variable], Variable]] = ACTIVATIONS | {"hardtan": _hardtan}


@cache
def _compiled(name: str, dtype: str) -> Function:
    x = Variable(TensorType(dtype, (None,)))
    return function([x], EXPRESSIONS[name](x), name=name)


class Activations:
    """Base of all; a layer without an activation is linear.

    Attributes:
        key: its name in lower case.
    """

    key = "linear"

    @property
    def name(self) -> str:
        return type(self).__name__

    @classmethod
    def activate(cls, x: Any, copy: bool = False) -> np.ndarray:
        """The activation of every number; `x` is left alone, whatever `copy` says."""
        x = np.asarray(x)
        x = x if x.dtype == np.float32 else x.astype(np.float64)
        return _compiled(cls.key, x.dtype.name)(x.ravel()).reshape(x.shape)

    @classmethod
    def gradient(cls, y: Any, copy: bool = False) -> np.ndarray:
        """The derivative, given what `activate` gave."""
        return np.asarray(cls._slope(np.asarray(y)), float)

    @staticmethod
    def _slope(y: np.ndarray) -> np.ndarray:
        return np.ones_like(y)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _made(name: str, slope: Callable[[np.ndarray], Any]) -> type[Activations]:
    return type(name, (Activations,), {"key": name.lower(), "_slope": staticmethod(slope), "__module__": __name__})


Elliot = _made("Elliot", lambda y: 0.5 * (1 - abs(2 * y - 1)) ** 2)
Elu = _made("Elu", lambda y: np.where(y >= 0, 1, y + 1))
Hardtan = _made("Hardtan", lambda y: 0.2 * ((y > 0) & (y < 1)))
Leaky = _made("Leaky", lambda y: np.where(y > 0, 1, 0.1))
Lhtan = _made("Lhtan", lambda y: np.where((y > 0) & (y < 1), 1, 1e-3))
Linear = _made("Linear", np.ones_like)
Loggy = _made("Loggy", lambda y: 0.5 * (1 - y * y))
Logistic = _made("Logistic", lambda y: y * (1 - y))
Plse = _made("Plse", lambda y: np.where((y >= 0) & (y <= 1), 0.125, 0.01))
Ramp = _made("Ramp", lambda y: (y > 0) + 0.1)
Relie = _made("Relie", lambda y: np.where(y > 0, 1, 0.01))
Relu = _made("Relu", lambda y: y > 0)
Selu = _made("Selu", lambda y: np.where(y >= 0, SELU_SCALE, y + SELU_SCALE * SELU_ALPHA))
SoftPlus = _made("SoftPlus", lambda y: -np.expm1(-y))
SoftSign = _made("SoftSign", lambda y: (1 - abs(y)) ** 2)
Stair = _made("Stair", lambda y: y != np.floor(y))
SymmElliot = _made("SymmElliot", lambda y: (1 - abs(y)) ** 2)
Tanh = _made("Tanh", lambda y: 1 - y * y)

__all__ = ["Activations", *(cls.__name__ for cls in Activations.__subclasses__())]
NAMES = {cls.key: cls for cls in Activations.__subclasses__()}


def find(given: Any, layer: str) -> type[Activations]:
    """The class that a name in any case, a class or an instance means."""
    if isinstance(given, str):
        if given.lower() not in NAMES:
            raise UnknownNameError(f"{layer}: unknown activation {given!r}. {nearest(given.lower(), NAMES)}")
        return NAMES[given.lower()]
    cls = given if isinstance(given, type) else type(given)
    if not issubclass(cls, Activations) or cls.key not in EXPRESSIONS:
        raise UnknownNameError(f"{layer}: {given!r} is no activation. {nearest('', NAMES)}")
    return cls
