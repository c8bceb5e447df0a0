"""Sums, means, products and what is made of them, over any axes.

Every reduction takes `axis` (None for all, an integer, or several; negative ones count from the end) and `keepdims`.
float16 is accumulated in float32, integers and booleans in int64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DTypeError
from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import (
    divide,
    equal,
    isinf,
    isnan,
    logical_and,
    logical_not,
    maximum,
    not_equal,
    sqrt,
    square,
    subtract,
)
from .arithmetic import where as choose
from .dtypes import as_tensor, float_dtype
from .elementwise import Kink, broadcast_like, cast, full_like, ones_like, strong_mul, zeros_like
from .shape import expand_dims, flatten, normalize_axes, size_of, transpose
from .transcendental import exp

__all__ = [
    "all", "any", "count_nonzero", "logsumexp", "mean", "nanmax", "nanmean", "nanmin", "nansum", "std", "sum", "var",
]  # fmt: skip

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


def rows(x: Variable, axes: tuple[int, ...]) -> Variable:
    """`x` with `axes` made one in C order, as the last."""
    if not axes:
        return expand_dims(x, -1)
    kept = [a for a in range(x.ndim) if a not in axes]
    return flatten(transpose(x, [*kept, *axes]), len(kept) + 1)


# --- sum and mean -----------------------------------------------------------------------------------------------------


class Sum(Reduction):
    """The sum over `axis`."""

    formula = "g repeated over the axes"

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


# --- spread -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Center(Op):
    """x minus its mean over `axis`: a projection, and its own adjoint. Exactly zero where the entries are equal."""

    axis: tuple[int, ...]

    formula = "g minus its mean"

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [x.type])

    def perform(self, x):
        if x.size == 0:
            return x.copy()
        first = x[tuple(slice(1) if a in self.axis else slice(None) for a in range(x.ndim))]
        shifted = x - first  # equal entries leave zeros, whose mean has no rounding error
        return shifted - shifted.mean(self.axis, keepdims=True)

    def grad(self, inputs, output_grads):
        return [self(output_grads[0])]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


def centered(x: Variable, axes: tuple[int, ...]) -> Variable:
    """x minus its mean over `axes`."""
    return Center(axes)(x)


def var(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Variable:
    """The variance over `axis`: the sum of squared distances from the mean, divided by n - ddof.

    Integers give config.floatX. Gradient: 2 g (x - mean) / (n - ddof).
    """
    x = as_float(x)
    axes = sorted_axes(axis, x, "var")
    squares = sum(square(centered(widened(x), axes)), axes, keepdims=keepdims)
    return cast(divide(squares, _degrees_of_freedom(x, axes, ddof)), x.dtype)


def std(x: Any, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Variable:
    """The standard deviation over `axis`, with divisor n - ddof.

    Integers give config.floatX. Gradient: g (x - mean) / ((n - ddof) std), and 0 where the entries are all equal.
    """
    x = as_float(x)
    axes = sorted_axes(axis, x, "std")
    distance = Norm2(axes, keepdims)(centered(widened(x), axes))
    return cast(divide(distance, sqrt(cast(_degrees_of_freedom(x, axes, ddof), distance.dtype))), x.dtype)


def as_float(x: Any) -> Variable:
    """`x` as a tensor of real numbers: integers and booleans become config.floatX."""
    x = as_tensor(x)
    if x.dtype.startswith("complex"):
        raise DTypeError(f"expected real numbers, got {x.type}; complex ones aren't implemented here")
    return cast(x, float_dtype(x.dtype))


def _degrees_of_freedom(x: Variable, axes: tuple[int, ...], ddof: int) -> Variable:
    return maximum(subtract(size_of(x, axes), ddof), 0)


class Norm2(Reduction):
    """sqrt(sum(x^2)) over `axis`, without overflow or underflow on the way. Its gradient at zero is zero."""

    formula = "g x / norm, 0 at 0"
    kinks = (Kink("x = 0", "the unit ball", "0"),)

    def perform(self, x):
        if x.dtype == np.float32:
            return np.sqrt(np.square(x, dtype=np.float64).sum(self.axis, keepdims=self.keepdims)).astype(np.float32)
        largest = np.abs(x).max(self.axis, keepdims=True, initial=0)
        exponent = np.frexp(np.where(np.isfinite(largest), largest, 1))[1]
        norm = np.sqrt(np.square(np.ldexp(x, -exponent)).sum(self.axis, keepdims=True))
        return np.ldexp(norm, exponent).reshape(self.reduced(x.shape))

    def L_op(self, inputs, outputs, output_grads):
        x, norm = inputs[0], self.restored(outputs[0])
        at_zero = equal(norm, 0)
        direction = divide(x, choose(at_zero, ones_like(norm), norm))
        return [strong_mul(self.restored(output_grads[0]), choose(at_zero, zeros_like(x), direction))]


# --- log-sum-exp ------------------------------------------------------------------------------------------------------


class LogSumExp(Reduction):
    """log(sum(exp(x))) over `axis`, without overflow; -inf for nothing."""

    formula = "g softmax(x)"

    def perform(self, x):
        largest = x.max(self.axis, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(largest), largest, 0)
        with np.errstate(all="ignore"):
            out = np.log(np.exp(x - shift).sum(self.axis, keepdims=True)) + shift
        return out.reshape(self.reduced(x.shape)).astype(x.dtype, copy=False)

    def L_op(self, inputs, outputs, output_grads):
        x, out = inputs[0], self.restored(outputs[0])
        # the weights exp(x - out): 0 where everything is -inf, and 1 at +inf
        out = choose(equal(out, -np.inf), zeros_like(out), out)
        infinite = logical_and(isinf(x), equal(x, out))
        weights = exp(choose(infinite, zeros_like(x), subtract(x, out)))
        return [strong_mul(self.restored(output_grads[0]), weights)]


def logsumexp(x: Any, axis: Axis = None, where: Any = None, keepdims: bool = False) -> Variable:
    """log(sum(exp(x))) over `axis`, without overflow; of the entries where `where` is true, if given.

    -inf, with zero gradient, where all entries are -inf or none takes part. Gradient: g exp(x - logsumexp(x)); entries
    that take no part get exactly zero, whatever they hold.
    """
    x = as_float(x)
    wide = widened(x)
    if where is not None:
        wide = choose(where, wide, full_like(wide, -np.inf))
    return cast(LogSumExp(sorted_axes(axis, wide, "logsumexp"), keepdims)(wide), x.dtype)


# --- truth and counts -------------------------------------------------------------------------------------------------


class Truth(Reduction):
    """Base of AnyTrue and AllTrue."""

    def output_dtype(self, dtype):
        return "bool"

    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False]]


class AnyTrue(Truth):
    """Whether any entry over `axis` is true (not zero)."""

    def perform(self, x):
        return np.logical_or.reduce(x, self.axis, keepdims=self.keepdims)


class AllTrue(Truth):
    """Whether all entries over `axis` are true (not zero)."""

    def perform(self, x):
        return np.logical_and.reduce(x, self.axis, keepdims=self.keepdims)


def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """Whether any entry over `axis` is true (not zero)."""
    x = as_tensor(x)
    return AnyTrue(sorted_axes(axis, x, "any"), keepdims)(x)


def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """Whether all entries over `axis` are true (not zero)."""
    x = as_tensor(x)
    return AllTrue(sorted_axes(axis, x, "all"), keepdims)(x)


def count_nonzero(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """How many entries over `axis` are not zero, as int64."""
    return sum(not_equal(x, 0), axis, keepdims=keepdims)


# --- leaving NaN out --------------------------------------------------------------------------------------------------


def nansum(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """The sum of the entries over `axis` that aren't NaN. NaN entries get zero gradient."""
    return sum(x, axis, keepdims=keepdims, where=logical_not(isnan(x)))


def nanmean(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """The mean of the entries over `axis` that aren't NaN; NaN if there is none. NaN entries get zero gradient."""
    return mean(x, axis, keepdims=keepdims, where=logical_not(isnan(x)))


def nanmax(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """The largest of the entries over `axis` that aren't NaN; NaN if there is none. Ties share the gradient."""
    from .extremes import max

    return _nan_extreme(max, -np.inf, x, axis, keepdims)


def nanmin(x: Any, axis: Axis = None, keepdims: bool = False) -> Variable:
    """The smallest of the entries over `axis` that aren't NaN; NaN if there is none. Ties share the gradient."""
    from .extremes import min

    return _nan_extreme(min, np.inf, x, axis, keepdims)


def _nan_extreme(extreme: Any, loser: float, x: Any, axis: Axis, keepdims: bool) -> Variable:
    x = as_float(x)
    absent = isnan(x)
    found = extreme(choose(absent, full_like(x, loser), x), axis, keepdims)
    return choose(all(absent, axis, keepdims), full_like(found, np.nan), found)
