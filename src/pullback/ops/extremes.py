"""The largest and the smallest, and where they are.

Ties follow the kink table: `max` and `min` share the gradient among the tied entries; forms that report an index send
it to that index. NaN wins over every number, and takes the gradient.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..graph import DisconnectedType, Variable
from .arithmetic import divide, equal, isnan, logical_or, subtract
from .arithmetic import where as choose
from .dtypes import as_tensor
from .elementwise import Kink, zeros_like
from .gather import take_along_axis
from .reduce import Axis, Reduction, rows, sorted_axes, widened
from .reduce import sum as total
from .shape import expand_dims, squeeze

__all__ = [
    "amax", "amin", "argmax", "argmin", "max", "max_and_argmax", "min", "min_and_argmin", "ptp",
]  # fmt: skip

TIE = (Kink("tied entries", "any shares that sum to g", "equal shares"),)


@dataclass(frozen=True)
class Extreme(Reduction):
    """Base of Max and Min."""

    kinks = TIE

    def pick(self, x: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def perform(self, x):
        refuse_empty(self, x.shape)
        return self.pick(x)

    def L_op(self, inputs, outputs, output_grads):
        x, g = inputs[0], self.restored(output_grads[0])
        taken = equal(x, self.restored(outputs[0]))
        if x.type.is_float:
            taken = logical_or(taken, isnan(x))
        share = divide(widened(g), total(taken, self.axis, keepdims=True))
        return [choose(taken, share, zeros_like(share))]

    def infer_shape(self, node, shapes, values):
        refuse_empty(self, shapes[0])
        return [self.reduced(shapes[0])]


class Max(Extreme):
    """The largest over `axis`."""

    formula = "g at the largest entries, in equal shares"

    def pick(self, x):
        return np.maximum.reduce(x, self.axis, keepdims=self.keepdims)


class Min(Extreme):
    """The smallest over `axis`."""

    formula = "g at the smallest entries, in equal shares"

    def pick(self, x):
        return np.minimum.reduce(x, self.axis, keepdims=self.keepdims)


def refuse_empty(op: Reduction, shape: tuple[int, ...]) -> None:
    for a in op.axis:
        if shape[a] == 0 and 0 not in op.reduced(shape):
            raise ShapeError(f"{type(op).__name__.lower()}: axis {a} of shape {shape} is empty: nothing is the extreme")


def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """The largest over `axis`; NaN if any is NaN.

    Gradient: g to the largest entry; k tied ones get g / k each.

    Raises:
        ShapeError: where there is nothing to choose from.
    """
    x = as_tensor(x)
    return Max(sorted_axes(axis, x, "max"), keepdims)(x)


def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """The smallest over `axis`; NaN if any is NaN.

    Gradient: g to the smallest entry; k tied ones get g / k each.

    Raises:
        ShapeError: where there is nothing to choose from.
    """
    x = as_tensor(x)
    return Min(sorted_axes(axis, x, "min"), keepdims)(x)


amax, amin = max, min


def ptp(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """The largest minus the smallest over `axis` ("peak to peak")."""
    return subtract(max(x, axis, keepdims), min(x, axis, keepdims))


# --- where they are ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArgExtreme(Reduction):
    """Base of ArgMax and ArgMin: the place in C order of the first extreme entry among those of `axis`."""

    kinks = (Kink("tied entries (max_and_argmax, min_and_argmin)", "any shares that sum to g", "all to that index"),)

    def locate(self, rows: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def output_dtype(self, dtype):
        return "int64"

    def perform(self, x):
        refuse_empty(self, x.shape)
        kept = tuple(a for a in range(x.ndim) if a not in self.axis)
        rows = x.transpose(kept + self.axis).reshape(*(x.shape[a] for a in kept), -1) if x.size else x
        found = self.locate(rows) if x.size else np.zeros(0, np.int64)
        return found.reshape(self.reduced(x.shape))

    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False]]

    def infer_shape(self, node, shapes, values):
        refuse_empty(self, shapes[0])
        return [self.reduced(shapes[0])]


class ArgMax(ArgExtreme):
    """Where the first largest entry is."""

    def locate(self, rows):
        return rows.argmax(-1)


class ArgMin(ArgExtreme):
    """Where the first smallest entry is."""

    def locate(self, rows):
        return rows.argmin(-1)


def argmax(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """Where the first largest entry over `axis` is (the first NaN, if there is one), as int64.

    Over several axes, the place among their entries in C order. Nothing is differentiated through it.
    """
    x = as_tensor(x)
    return ArgMax(sorted_axes(axis, x, "argmax"), keepdims)(x)


def argmin(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """Where the first smallest entry over `axis` is (the first NaN, if there is one), as int64.

    Over several axes, the place among their entries in C order. Nothing is differentiated through it.
    """
    x = as_tensor(x)
    return ArgMin(sorted_axes(axis, x, "argmin"), keepdims)(x)


def max_and_argmax(x: Any, axis: Axis = None, keepdims: bool = False) -> tuple[Variable, Variable]:
    """(the largest over `axis`, where the first such entry is); see `argmax`.

    Unlike that of `max`, the gradient of the value goes to the reported entry only, in ties as elsewhere.
    """
    return _with_place(ArgMax, x, axis, keepdims, "max_and_argmax")


def min_and_argmin(x: Any, axis: Axis = None, keepdims: bool = False) -> tuple[Variable, Variable]:
    """(the smallest over `axis`, where the first such entry is); see `argmin`.

    Unlike that of `min`, the gradient of the value goes to the reported entry only, in ties as elsewhere.
    """
    return _with_place(ArgMin, x, axis, keepdims, "min_and_argmin")


def _with_place(op: type[ArgExtreme], x: Any, axis: Axis, keepdims: bool, what: str) -> tuple[Variable, Variable]:
    x = as_tensor(x)
    axes = sorted_axes(axis, x, what)
    lines = rows(x, axes)
    place = op((lines.ndim - 1,), True)(lines)
    value, place = (squeeze(v, -1) for v in (take_along_axis(lines, place, -1), place))
    return (expand_dims(value, axes), expand_dims(place, axes)) if keepdims else (value, place)
