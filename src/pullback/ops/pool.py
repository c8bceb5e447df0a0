"""Pooling over windows of the spatial axes: maximum, mean, sum and p-norm, sliding, adaptive and global."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import abs, equal, power, where
from .dtypes import as_tensor
from .elementwise import Kink, ones_like, zeros_like
from .geometry import (
    SPATIAL,
    AdaptiveWindows,
    Windows,
    add_at,
    axes_of,
    parse_layout,
    parse_padding,
    per_axis,
)
from .reduce import mean
from .shape import squeeze
from .softmax import as_float, widened

__all__ = [
    "adaptive_avg_pool", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "global_avg_pool", "global_max_pool", "lp_pool", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool",
    "max_pool1d", "max_pool2d", "max_pool3d", "sum_pool", "sum_pool1d", "sum_pool2d", "sum_pool3d",
]  # fmt: skip


class PoolOp(Op):
    """Base of pooling ops: `windows` over the axes `axes` of the first input."""

    windows: Windows | AdaptiveWindows
    axes: tuple[int, ...]
    name = "pool"

    def pooled(self, shape: Sequence) -> tuple:
        """The output's shape (None: unknown)."""
        result = list(shape)
        for axis, n in zip(self.axes, self.windows.counts([shape[a] for a in self.axes], self.name)):
            result[axis] = n
        return tuple(result)

    def to_back(self, x: np.ndarray) -> np.ndarray:
        """`x` with the pooled axes last (a view)."""
        return np.moveaxis(x, self.axes, range(-len(self.axes), 0))

    def from_back(self, x: np.ndarray) -> np.ndarray:
        return np.moveaxis(x, range(-len(self.axes), 0), self.axes)

    def cells(self, lengths: Sequence[int], count_padding: bool) -> np.ndarray:
        """The number of cells of each window; a window without any is refused."""
        cells = self.windows.cells(lengths, count_padding, self.name)
        if not cells.all():
            raise ShapeError(f"{self.name}: a window of {self.windows} holds no cell of an input of {tuple(lengths)}")
        return cells

    def infer_shape(self, node, shapes, values):
        return [self.pooled(shapes[0]) for _ in node.outputs]


# --- maximum ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaxPool(PoolOp):
    """The maximum of each window and its flat place in the spatial plane: the first among equals, or the first NaN."""

    windows: Windows | AdaptiveWindows
    axes: tuple[int, ...]
    formula = "g at the place of each window's maximum"
    name = "max_pool"
    kinks = (
        Kink("a tie inside a window", "any share of g to each, summing to g", "all to the first in row-major order"),
    )

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        shape = self.pooled(x.type.shape)
        return Apply(self, [x], [TensorType(x.dtype, shape), TensorType("int32", shape)])

    def perform(self, x):
        x = self.to_back(x)
        spatial = len(self.axes)
        rest, lengths = x.shape[:-spatial], x.shape[-spatial:]
        self.cells(lengths, False)
        place = np.arange(prod(lengths), dtype=np.int32).reshape(lengths)
        best = np.zeros((*rest, *self.windows.counts(lengths, self.name)), x.dtype)
        index = np.full(best.shape, -1, np.int32)
        for _, outputs, inputs in self.windows.taps(lengths, self.name):
            outputs, inputs = (..., *outputs), (..., *inputs)
            new, old, at = x[inputs], best[outputs], index[outputs]
            better = (at < 0) | (new > old) | ((new != new) & (old == old))
            best[outputs] = np.where(better, new, old)
            index[outputs] = np.where(better, place[inputs[1:]], at)
        return self.from_back(best), self.from_back(index)

    def L_op(self, inputs, outputs, output_grads):
        return [PoolScatter(self.axes, self.windows)(output_grads[0], outputs[1], inputs[0])]


@dataclass(frozen=True)
class PoolScatter(Op):
    """g added at the places `index` (flat over the plane of `axes`) of zeros of the shape of `like`.

    `windows`, where known, says that each place lies in the window of its entry: a kernel then looks only there.
    """

    axes: tuple[int, ...]
    windows: Windows | AdaptiveWindows | None = None
    shape_only_inputs = (2,)

    def make_node(self, g: Any, index: Any, like: Any) -> Apply:
        g, index, like = as_variable(g), as_variable(index), as_variable(like)
        return Apply(self, [g, index, like], [TensorType(g.dtype, like.type.shape)])

    def perform(self, g, index, like):
        back = tuple(range(-len(self.axes), 0))
        plane = [like.shape[a] for a in self.axes]
        g, index = np.moveaxis(g, self.axes, back), np.moveaxis(index, self.axes, back)
        rest, count = g.shape[: -len(back)], g.shape[-len(back) :]
        rows = prod(rest), prod(count)
        x = np.zeros((rows[0], prod(plane)), widened(g).dtype)
        np.add.at(x, (np.arange(rows[0])[:, None], index.reshape(rows)), g.reshape(rows))
        return np.moveaxis(x.reshape(*rest, *plane), back, self.axes).astype(g.dtype, copy=False)

    def grad(self, inputs, output_grads):
        none = DisconnectedType()()
        return [PoolGather(self.axes)(output_grads[0], inputs[1]), none, none]

    def connection_pattern(self, node):
        return [[True], [False], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[2]]


@dataclass(frozen=True)
class PoolGather(Op):
    """x at the places `index` (flat over the plane of `axes`): the adjoint of PoolScatter."""

    axes: tuple[int, ...]

    def make_node(self, x: Any, index: Any) -> Apply:
        x, index = as_variable(x), as_variable(index)
        return Apply(self, [x, index], [TensorType(x.dtype, index.type.shape)])

    def perform(self, x, index):
        back = tuple(range(-len(self.axes), 0))
        x, index = np.moveaxis(x, self.axes, back), np.moveaxis(index, self.axes, back)
        rest, plane, count = x.shape[: -len(back)], x.shape[-len(back) :], index.shape[-len(back) :]
        places = index.reshape(prod(rest), prod(count)).astype(np.int64)
        y = np.take_along_axis(x.reshape(prod(rest), prod(plane)), places, 1)
        return np.moveaxis(y.reshape(index.shape), back, self.axes)

    def grad(self, inputs, output_grads):
        return [PoolScatter(self.axes)(output_grads[0], inputs[1], inputs[0]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[1]]


# --- mean and sum -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AvgPool(PoolOp):
    """The sum of each window over its number of cells, or over `divisor`.

    Attributes:
        count_include_pad: explicit padding counts as cells; what overhangs in ceil mode never does.
    """

    windows: Windows | AdaptiveWindows
    axes: tuple[int, ...]
    count_include_pad: bool = True
    divisor: int | None = None
    formula = "g spread evenly over the cells of its window"
    name = "avg_pool"

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType(x.dtype, self.pooled(x.type.shape))])

    def divisors(self, lengths: Sequence[int]) -> Any:
        return self.cells(lengths, self.count_include_pad) if self.divisor is None else self.divisor

    def perform(self, x):
        dtype = x.dtype
        x = self.to_back(widened(x))
        spatial = len(self.axes)
        rest, lengths = x.shape[:-spatial], x.shape[-spatial:]
        total = np.zeros((*rest, *self.windows.counts(lengths, self.name)), x.dtype)
        for _, outputs, inputs in self.windows.taps(lengths, self.name):
            total[(..., *outputs)] += x[(..., *inputs)]
        return self.from_back(total / np.asarray(self.divisors(lengths), x.dtype)).astype(dtype, copy=False)

    def grad(self, inputs, output_grads):
        return [AvgPoolGrad(self)(output_grads[0], inputs[0])]


@dataclass(frozen=True)
class AvgPoolGrad(Op):
    """The adjoint of the average pooling `pool`: each g spread over its window. `like` has the shape of the images."""

    pool: AvgPool
    shape_only_inputs = (1,)

    def make_node(self, g: Any, like: Any) -> Apply:
        g, like = as_variable(g), as_variable(like)
        return Apply(self, [g, like], [TensorType(g.dtype, like.type.shape)])

    def perform(self, g, like):
        pool, dtype = self.pool, g.dtype
        lengths = [like.shape[a] for a in pool.axes]
        g = pool.to_back(widened(g))
        share = g / np.asarray(pool.divisors(lengths), g.dtype)
        x = np.zeros((*g.shape[: -len(lengths)], *lengths), g.dtype)
        for _, outputs, inputs in pool.windows.taps(lengths, pool.name):
            add_at(x, inputs, share[(..., *outputs)])
        return pool.from_back(x).astype(dtype, copy=False)

    def grad(self, inputs, output_grads):
        return [self.pool(output_grads[0]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[1]]


# --- for users --------------------------------------------------------------------------------------------------------


def spatial_axes(x: Variable, layout: str | None, what: str) -> tuple[int, ...]:
    """The places of the spatial axes of images laid out as `layout` says (channels first by default)."""
    spatial = SPATIAL.get(x.ndim - 2)
    if spatial is None:
        raise ShapeError(f"{what} takes images with 1 to 3 spatial axes (3-d to 5-d tensors), got {x.type}")
    return axes_of(parse_layout(layout or "NC" + spatial, "NC" + spatial, "layout", what), spatial)


def _windows(n: int, size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, what: str) -> Windows:
    size = per_axis(size, n, "size", what)
    stride = size if stride is None else per_axis(stride, n, "stride", what)
    windows = Windows(
        size, stride, parse_padding(padding, n, what), per_axis(dilation, n, "dilation", what), bool(ceil_mode)
    )
    windows.check_reaches_input(what)
    return windows


def of_rank(pool: Callable[..., Any], n: int) -> Callable[..., Any]:
    """`pool` for images with `n` spatial axes only."""
    name = f"{pool.__name__}{n}d"

    @functools.wraps(pool)
    def ranked(x: Any, *args: Any, **options: Any) -> Any:
        x = as_tensor(x)
        if x.ndim != n + 2:
            raise ShapeError(f"{name} takes {n + 2}-d tensors, got {x.type}")
        return pool(x, *args, **options)

    ranked.__name__ = ranked.__qualname__ = name
    ranked.__doc__ = f"`{pool.__name__}` of images with {n} spatial ax{'i' if n == 1 else 'e'}s; see there."
    return ranked


def max_pool(
    x: Any, size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: Any = 0,
    dilation: int | Sequence[int] = 1, ceil_mode: bool = False, layout: str | None = None,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The maximum of each window.

    Args:
        x: images, laid out as `layout` says (channels first by default: "NCW", "NCHW", "NCDHW").
        size, stride, dilation: an integer, or one for each spatial axis; stride is size by default.
        padding: as in `conv2d`, smaller than the window; it counts as -inf.
        ceil_mode: also take a last window that overhangs the end.
        return_indices: give (maxima, flat place of each in its unpadded spatial plane).

    NaN wins. Among equals the first in row-major order wins, and gets the whole gradient.

    Raises:
        ArgumentError: where a window could lie wholly inside the padding.
    """
    x = as_tensor(x)
    axes = spatial_axes(x, layout, "max_pool")
    windows = _windows(len(axes), size, stride, padding, dilation, ceil_mode, "max_pool")
    y, index = MaxPool(windows, axes)(x)
    return (y, index) if return_indices else y


def avg_pool(
    x: Any, size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: Any = 0,
    count_include_pad: bool = True, ceil_mode: bool = False, divisor: int | None = None, layout: str | None = None,
) -> Variable:  # fmt: skip
    """The mean of each window.

    Args:
        x: images, laid out as `layout` says (channels first by default).
        size, stride: an integer, or one for each spatial axis; stride is size by default.
        padding: as in `conv2d`, smaller than the window; zeros.
        count_include_pad: divide by the cells inside input plus padding; else by those inside the input only.
        ceil_mode: also take a last window that overhangs the end; the overhang is never counted.
        divisor: divide by this instead.
    """
    x = as_float(x)
    axes = spatial_axes(x, layout, "avg_pool")
    windows = _windows(len(axes), size, stride, padding, 1, ceil_mode, "avg_pool")
    if divisor is not None:
        (divisor,) = per_axis(divisor, 1, "divisor", "avg_pool")
    return AvgPool(windows, axes, bool(count_include_pad), divisor)(x)


def sum_pool(
    x: Any, size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: Any = 0,
    ceil_mode: bool = False, layout: str | None = None,
) -> Variable:  # fmt: skip
    """The sum of each window; arguments as in `avg_pool`."""
    return avg_pool(x, size, stride, padding, ceil_mode=ceil_mode, divisor=1, layout=layout)


def lp_pool(
    x: Any, p: float, size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: Any = 0,
    ceil_mode: bool = False, layout: str | None = None,
) -> Variable:  # fmt: skip
    """The p-norm of each window, (sum |x|^p)^(1/p), for p >= 1; other arguments as in `avg_pool`.

    A window of zeros has norm 0 and gradient 0.
    """
    x = as_float(x)
    if not p >= 1:
        raise ArgumentError(f"lp_pool: p={p}; expected at least 1")
    if p == float("inf"):
        return max_pool(abs(x), size, stride, padding, ceil_mode=ceil_mode, layout=layout)
    powers = sum_pool(power(abs(x), p), size, stride, padding, ceil_mode, layout)
    empty = equal(powers, 0)
    return where(empty, zeros_like(powers), power(where(empty, ones_like(powers), powers), 1 / p))


def adaptive_avg_pool(x: Any, output_size: int | Sequence[int], layout: str | None = None) -> Variable:
    """Means over `output_size` windows for each spatial axis; window i of m covers floor(i n / m) to ceil((i+1) n / m).

    Args:
        x: images, laid out as `layout` says (channels first by default).
        output_size: an integer, or one for each spatial axis.
    """
    x = as_float(x)
    axes = spatial_axes(x, layout, "adaptive_avg_pool")
    count = per_axis(output_size, len(axes), "output_size", "adaptive_avg_pool")
    return AvgPool(AdaptiveWindows(count), axes)(x)


def adaptive_max_pool(
    x: Any, output_size: int | Sequence[int], layout: str | None = None, return_indices: bool = False
) -> Any:
    """Maxima over the windows of `adaptive_avg_pool`; ties, NaN and `return_indices` as in `max_pool`."""
    x = as_tensor(x)
    axes = spatial_axes(x, layout, "adaptive_max_pool")
    count = per_axis(output_size, len(axes), "output_size", "adaptive_max_pool")
    y, index = MaxPool(AdaptiveWindows(count), axes)(x)
    return (y, index) if return_indices else y


def global_avg_pool(x: Any, layout: str | None = None, keepdims: bool = False) -> Variable:
    """The mean of each channel of each image: (batch, channels), or with length-1 spatial axes if `keepdims`."""
    x = as_float(x)
    return mean(x, axis=spatial_axes(x, layout, "global_avg_pool"), keepdims=keepdims)


def global_max_pool(x: Any, layout: str | None = None, keepdims: bool = False) -> Variable:
    """The maximum of each channel of each image; ties and NaN as in `max_pool`."""
    x = as_tensor(x)
    axes = spatial_axes(x, layout, "global_max_pool")
    y = MaxPool(AdaptiveWindows((1,) * len(axes)), axes)(x)[0]
    return y if keepdims else squeeze(y, axes)


max_pool1d, max_pool2d, max_pool3d = (of_rank(max_pool, n) for n in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (of_rank(avg_pool, n) for n in (1, 2, 3))
sum_pool1d, sum_pool2d, sum_pool3d = (of_rank(sum_pool, n) for n in (1, 2, 3))
lp_pool1d, lp_pool2d, lp_pool3d = (of_rank(lp_pool, n) for n in (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (of_rank(adaptive_avg_pool, n) for n in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (of_rank(adaptive_max_pool, n) for n in (1, 2, 3))
