"""Sums, means, products and what is made of them, over any axes.

Every reduction takes `axis` (None for all, an integer, or several; negative ones count from the end) and `keepdims`.
float16 is accumulated in float32, integers and booleans in int64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Apply, Op, TensorType, Variable, as_variable
from .arithmetic import divide
from .arithmetic import where as choose
from .dtypes import as_tensor
from .elementwise import broadcast_like, cast, zeros_like
from .shape import expand_dims, normalize_axes, size_of

__all__ = ["mean", "sum"]

Axis = int | Sequence[int] | None


@dataclass(frozen=True)
class Reduction(Op):
    """Base of ops that take the (sorted) axes `axis` away, or keep them with length 1."""

    axis: tuple[int, ...]
    keepdims: bool = False

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType(self.output_dtype(x.dtype), self.reduced(x.type.shape))])

    def output_dtype(self, dtype: str) -> str:
        return dtype

    def reduced(self, shape: tuple) -> tuple:
        if self.keepdims:
            return tuple(1 if a in self.axis else n for a, n in enumerate(shape))
        return tuple(n for a, n in enumerate(shape) if a not in self.axis)

    def restored(self, v: Variable) -> Variable:
        """`v`, of the shape of the output, with the reduced axes put back with length 1."""
        return v if self.keepdims else expand_dims(v, self.axis)

    def infer_shape(self, node, shapes, values):
        return [self.reduced(shapes[0])]


def counting_dtype(dtype: str) -> str:
    """The dtype of sums and products: int64 for booleans and integers (uint64 stays), else the same."""
    return "int64" if np.dtype(dtype).kind in "bi" or dtype in ("uint8", "uint16", "uint32") else dtype


def accumulator(dtype: Any) -> Any:
    """The dtype in which values of `dtype` are accumulated."""
    return np.float32 if dtype == np.float16 else counting_dtype(np.dtype(dtype).name)


def sorted_axes(axis: Axis, x: Variable, what: str) -> tuple[int, ...]:
    return tuple(sorted(normalize_axes(axis, x.ndim, what)))


# --- sum and mean -----------------------------------------------------------------------------------------------------


class Sum(Reduction):
    """The sum over `axis`."""

    def output_dtype(self, dtype):
        return counting_dtype(dtype)

    def perform(self, x):
        total = np.add.reduce(x, self.axis, accumulator(x.dtype), keepdims=self.keepdims)
        return total.astype(self.output_dtype(x.dtype.name), copy=False)

    def grad(self, inputs, output_grads):
        return [broadcast_like(self.restored(output_grads[0]), inputs[0])]


def sum(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False, where: Any = None) -> Variable:
    """The sum over `axis`; of the entries where `where` is true, if given. Integers and booleans are summed in int64.

    Gradient: g to every entry that takes part.
    """
    x = as_tensor(x)
    if dtype is not None:
        x = cast(x, dtype)
    if where is not None:
        x = choose(where, x, zeros_like(x))
    return Sum(sorted_axes(axis, x, "sum"), keepdims)(x)


def mean(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False, where: Any = None) -> Variable:
    """The mean over `axis`; of the entries where `where` is true, if given. Integers give config.floatX.

    The mean of nothing is NaN. Gradient: g / n to each of the n entries that take part.
    """
    x = as_tensor(x)
    result = dtype or x.dtype
    wide = widened(x)
    axes = sorted_axes(axis, x, "mean")
    if where is None:
        count = size_of(x, axes)
    else:
        count = sum(broadcast_like(where, x), axes, keepdims=keepdims)
    average = divide(sum(wide, axes, None, keepdims, where), count)
    return cast(average, result) if np.dtype(result).kind == "f" else average


def widened(x: Variable) -> Variable:
    """float16 as float32, in which it is computed with; anything else as it is."""
    return cast(x, "float32") if x.dtype == "float16" else x
