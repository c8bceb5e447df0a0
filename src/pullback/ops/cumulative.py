"""Running sums, products and extremes along one axis, and the product over axes.

No gradient here divides: products of "all the others" are made of running products from both ends, and the gradient of
a running product is a linear recurrence, a form that is closed under differentiation. So zeros are ordinary numbers to
every order.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import multiply
from .arithmetic import where as choose
from .dtypes import as_tensor
from .elementwise import Kink, cast, full_like, ones_like, strong_mul
from .gather import take_along_axis
from .indexing import index, set_subtensor
from .reduce import Axis, Reduction, counting_dtype, sorted_axes, widened
from .shape import flatten, normalize_axis, squeeze

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "prod"]


@dataclass(frozen=True)
class Running(Op):
    """Base of ops along `axis`, from its start or (`reverse`) from its end; the output has the shape of the input."""

    axis: int
    reverse: bool = False

    def make_node(self, *inputs: Any) -> Apply:
        variables = [as_variable(x) for x in inputs]
        first = variables[0].type
        return Apply(self, variables, [TensorType(self.output_dtype(first.dtype), first.shape)])

    def output_dtype(self, dtype: str) -> str:
        return counting_dtype(dtype)

    def oriented(self, x: np.ndarray) -> np.ndarray:
        """`x` such that the op runs from the start of the axis; the same turns the result back."""
        return np.flip(x, self.axis) if self.reverse else x

    @property
    def turned(self) -> "Running":
        return type(self)(self.axis, not self.reverse)

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


class CumSum(Running):
    """Running sums: y_t = x_0 + ... + x_t."""

    formula = "g summed from each place to the end"

    def perform(self, x):
        return self.oriented(np.cumsum(self.oriented(x), self.axis, self.output_dtype(x.dtype.name)))

    def grad(self, inputs, output_grads):
        return [self.turned(output_grads[0])]


class CumProd(Running):
    """Running products: y_t = x_0 ... x_t.

    With p_t the product before t and r_t = g_t + x_(t+1) r_(t+1), the gradient is p_t r_t.
    """

    formula = "sum over t >= i of g_t times the product of all x up to t but x_i"

    def perform(self, x):
        return self.oriented(np.cumprod(self.oriented(x), self.axis, self.output_dtype(x.dtype.name)))

    def L_op(self, inputs, outputs, output_grads):
        x = inputs[0]
        before = shifted(outputs[0], self.axis, 1, self.reverse)
        following = shifted(x, self.axis, 0, not self.reverse)
        return [strong_mul(Recurrence(self.axis, not self.reverse)(following, output_grads[0]), before)]


class Recurrence(Running):
    """h_t = a_t h_(t-1) + b_t from h = 0, where a zero h keeps zero whatever a is. Inputs: a, b.

    Its cotangents follow the same recurrence backwards: s_t = g_t + a_(t+1) s_(t+1), db_t = s_t, da_t = s_t h_(t-1).
    """

    def perform(self, a, b):
        a, b = (np.moveaxis(self.oriented(v), self.axis, 0) for v in (a, b))
        out = np.empty(b.shape, b.dtype)
        if out.size == len(out):  # one row: plain numbers are the fastest way
            steps = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist())
            rows = list(accumulate(steps, lambda h, ab: ab[0] * h + ab[1] if h else ab[1], initial=0.0))[1:]
            out[...] = np.reshape(rows, out.shape)
        else:
            h = np.zeros(b.shape[1:], b.dtype)
            for t in range(len(b)):
                h = out[t] = np.where(h == 0, 0, a[t] * h) + b[t]
        return self.oriented(np.moveaxis(out, 0, self.axis))

    def L_op(self, inputs, outputs, output_grads):
        following = shifted(inputs[0], self.axis, 0, not self.reverse)
        s = self.turned(following, output_grads[0])
        return [strong_mul(s, shifted(outputs[0], self.axis, 0, self.reverse)), s]


def shifted(x: Variable, axis: int, fill: float, reverse: bool) -> Variable:
    """`x` moved one place along `axis` towards its end (`reverse`: its start), with `fill` in the place left free."""
    lead = (slice(None),) * axis
    first, last = index(x, (*lead, slice(None, -1))), index(x, (*lead, slice(1, None)))
    filler = full_like(x, fill)
    if reverse:
        return set_subtensor(index(filler, (*lead, slice(None, -1))), last)
    return set_subtensor(index(filler, (*lead, slice(1, None))), first)


class Prod(Reduction):
    """The product over one axis. Gradient: g times the product of all the others."""

    formula = "g times the product of all the others"

    def output_dtype(self, dtype):
        return counting_dtype(dtype)

    def perform(self, x):
        return np.multiply.reduce(x, self.axis, self.output_dtype(x.dtype.name), keepdims=self.keepdims)

    def grad(self, inputs, output_grads):
        (x,), (axis,) = inputs, self.axis
        before, after = (CumProd(axis, r)(shifted(x, axis, 1, r)) for r in (False, True))
        return [strong_mul(self.restored(output_grads[0]), multiply(before, after))]


# --- what users call --------------------------------------------------------------------------------------------------


def cumsum(x: Any, axis: int | None = None) -> Variable:
    """Running sums along `axis` (None: of all elements in C order). Integers are summed in int64."""
    return _running(CumSum, x, axis, "cumsum")


def cumprod(x: Any, axis: int | None = None) -> Variable:
    """Running products along `axis` (None: of all elements in C order). Its gradient never divides: zeros are safe."""
    return _running(CumProd, x, axis, "cumprod")


def _running(op: type[Running], x: Any, axis: int | None, what: str) -> Variable:
    x, axis = _along(x, axis, what)
    out = op(axis)(widened(x))
    return cast(out, x.dtype) if x.type.is_float else out


def _along(x: Any, axis: int | None, what: str) -> tuple[Variable, int]:
    x = as_tensor(x)
    return (flatten(x), 0) if axis is None else (x, normalize_axis(axis, x.ndim, what))


def prod(x: Any, axis: Axis = None, keepdims: bool = False, where: Any = None) -> Variable:
    """The product over `axis`; of the entries where `where` is true, if given. Integers are multiplied in int64.

    Gradient: g times the product of all the others, made without dividing, so that zeros are safe to every order.
    """
    x = as_tensor(x)
    if where is not None:
        x = choose(where, x, ones_like(x))
    axes = sorted_axes(axis, x, "prod")
    out = widened(x)
    for a in axes:
        out = Prod((a,), True)(out)
    out = cast(out, x.dtype if x.type.is_float else counting_dtype(x.dtype))
    return out if keepdims or not axes else squeeze(out, axes)


@dataclass(frozen=True)
class RunningBest(Op):
    """Along `axis`, where the first largest (`largest`) or smallest entry so far is; NaN beats every number."""

    axis: int
    largest: bool
    kinks = (Kink("tied entries (cummax, cummin)", "any shares that sum to g", "all to the first"),)

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType("int64", x.type.shape)])

    def perform(self, x):
        rows = np.moveaxis(x, self.axis, 0)
        best = (np.maximum if self.largest else np.minimum).accumulate(rows, 0)
        new = np.ones(rows.shape, bool)
        better = rows[1:] > best[:-1] if self.largest else rows[1:] < best[:-1]
        new[1:] = better | (np.isnan(rows[1:]) & ~np.isnan(best[:-1]))
        place = np.arange(len(rows)).reshape(-1, *[1] * (x.ndim - 1))
        return np.moveaxis(np.maximum.accumulate(np.where(new, place, 0), 0), 0, self.axis)

    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


def cummax(x: Any, axis: int | None = None) -> Variable:
    """The largest entry so far along `axis` (None: of all elements in C order); NaN from the first NaN on.

    The gradient goes to the entry that was taken: the first of tied ones.
    """
    x, axis = _along(x, axis, "cummax")
    return take_along_axis(x, RunningBest(axis, True)(x), axis)


def cummin(x: Any, axis: int | None = None) -> Variable:
    """The smallest entry so far along `axis` (None: of all elements in C order); NaN from the first NaN on.

    The gradient goes to the entry that was taken: the first of tied ones.
    """
    x, axis = _along(x, axis, "cummin")
    return take_along_axis(x, RunningBest(axis, False)(x), axis)
