"""Order: sorted values and the indices that sort. Values carry gradients, indices are integers and don't."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, ShapeError
from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import add, floor_divide, isnan, multiply, subtract, where
from .dtypes import as_tensor
from .elementwise import Kink
from .gather import take_along_axis
from .indexing import index
from .reduce import Axis, as_float, rows, sorted_axes
from .shape import expand_dims, flatten, length, normalize_axis

__all__ = ["argsort", "median", "searchsorted", "sort", "topk"]


@dataclass(frozen=True)
class ArgSort(Op):
    """The indices that sort along `axis`; equal entries keep their order, NaN counts as the largest."""

    axis: int
    descending: bool = False
    kinks = (Kink("tied entries (sort, topk, median)", "any shares that sum to g", "as a stable sort orders them"),)

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType("int64", x.type.shape)])

    def perform(self, x):
        if not self.descending:
            return np.argsort(x, self.axis, kind="stable")
        backwards = np.argsort(np.flip(x, self.axis), self.axis, kind="stable")
        return np.flip(x.shape[self.axis] - 1 - backwards, self.axis)

    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


def argsort(x: Any, axis: int | None = -1, descending: bool = False) -> Variable:
    """The indices that sort `x` along `axis` (None: flattened), as int64. Equal entries keep their order; NaN counts
    as the largest. Nothing is differentiated through it."""
    x, axis = _along(x, axis, "argsort")
    return ArgSort(axis, descending)(x)


def sort(x: Any, axis: int | None = -1, descending: bool = False) -> Variable:
    """`x` sorted along `axis` (None: flattened); NaN counts as the largest.

    Gradient: each sorted entry's cotangent goes to where the entry came from; tied ones in their order.
    """
    x, axis = _along(x, axis, "sort")
    return take_along_axis(x, ArgSort(axis, descending)(x), axis)


def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Variable, Variable]:
    """(values, indices) of the `k` largest (or smallest) entries along `axis`, the best first.

    Of tied entries the first is taken first; NaN counts as the largest. The gradient goes to the entries taken.
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise ArgumentTypeError(f"topk: k must be an integer, got {k!r}")
    x, axis = _along(x, axis, "topk")
    n = x.type.shape[axis]
    if k < 0 or (n is not None and k > n):
        raise ArgumentError(f"topk: k={k}; axis {axis} of {x.type} has {n} entries")
    order = ArgSort(axis, largest)(x)
    places = index(order, (*(slice(None),) * axis, slice(0, int(k))))
    return take_along_axis(x, places, axis), places


def _along(x: Any, axis: int | None, what: str) -> tuple[Variable, int]:
    x = as_tensor(x)
    return (flatten(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim, what))


@dataclass(frozen=True)
class SearchSorted(Op):
    """Where values would be inserted into a sorted vector."""

    side: str

    def make_node(self, a: Any, v: Any) -> Apply:
        a, v = as_variable(a), as_variable(v)
        return Apply(self, [a, v], [TensorType("int64", v.type.shape)])

    def perform(self, a, v):
        return np.searchsorted(a, v, self.side)

    def grad(self, inputs, output_grads):
        return [DisconnectedType()(), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[1]]


def searchsorted(a: Any, v: Any, side: str = "left") -> Variable:
    """Where each of `v` would be inserted into the sorted vector `a` to keep it sorted, as int64.

    Before equal entries ("left") or after them ("right"). Nothing is differentiated through it.
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side={side!r}; expected 'left' or 'right'")
    a, v = as_tensor(a), as_tensor(v)
    if a.ndim != 1:
        raise ShapeError(f"searchsorted: the sorted values must be a vector, got {a.type}")
    return SearchSorted(side)(a, v)


def median(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """The middle entry over `axis`, or the mean of the middle two; NaN if any is NaN. Integers give config.floatX.

    Gradient: g to the middle entry, or half to each of two; of tied entries to those that a stable sort puts there.
    """
    x = as_float(x)
    axes = sorted_axes(axis, x, "median")
    line = sort(rows(x, axes))
    n = length(line, -1)
    low, high = (index(line, (..., floor_divide(m, 2))) for m in (subtract(n, 1), n))
    last = index(line, (..., -1))
    middle = where(isnan(last), last, multiply(add(low, high), 0.5))
    return expand_dims(middle, axes) if keepdims else middle
