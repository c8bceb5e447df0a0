"""Images of another size: resizing (nearest, linear, cubic), pixel shuffle and unshuffle, Darknet's reorg."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable
from .dtypes import as_tensor
from .geometry import axes_of, parse_layout, per_axis
from .pool import spatial_axes
from .shape import length, reshape, transpose
from .softmax import as_float, widened

__all__ = ["pixel_shuffle", "pixel_unshuffle", "reorg", "resize", "upsample"]

MODES = {
    "nearest": "nearest", "nearest-exact": "nearest-exact", "linear": "linear", "bilinear": "linear",
    "trilinear": "linear", "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip
AXES = ("batch", "channels", "height", "width")
CUBIC = -0.75  # slope of Keys' kernel, as PyTorch and OpenCV choose it


@dataclass(frozen=True)
class Sampling:
    """How one axis is resized: output i reads a few input entries with given weights.

    Attributes:
        size: the output's length; None: floor(length * scale).
        scale: by what the length is multiplied; None: size / length.
        mode: "nearest", "nearest-exact", "linear" or "cubic".
        align_corners: the first and last entries of input and output coincide; else their outer edges do.
    """

    size: int | None
    scale: float | None
    mode: str
    align_corners: bool

    def count(self, n: int | None) -> int | None:
        if self.size is not None or n is None:
            return self.size
        return floor(n * self.scale)

    def taps(self, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """(indices, weights) of each entry read, one per output."""
        m = self.count(n)
        i = np.arange(m)
        if self.mode.startswith("nearest"):
            return [(np.minimum(self._nearest(i, n, m), n - 1), np.ones(m))]
        source = self._source(i, n, m)
        if self.mode == "linear":
            source = np.clip(source, 0, n - 1)
        low = np.floor(source).astype(np.int64)
        t = source - low
        if self.mode == "linear":
            return [(low, 1 - t), (np.minimum(low + 1, n - 1), t)]
        weights = _outer(t + 1), _inner(t), _inner(1 - t), _outer(2 - t)
        return [(np.clip(low + k - 1, 0, n - 1), w) for k, w in enumerate(weights)]

    def _nearest(self, i: np.ndarray, n: int, m: int) -> np.ndarray:
        """floor((i + 1/2) n / m), or floor(i n / m): in integers where a length is asked for."""
        if self.scale is None:
            return (2 * i + 1) * n // (2 * m) if self.mode == "nearest-exact" else i * n // m
        shift = 0.5 if self.mode == "nearest-exact" else 0.0
        return np.floor((i + shift) / self.scale).astype(np.int64)

    def _source(self, i: np.ndarray, n: int, m: int) -> np.ndarray:
        if self.align_corners:
            return i * ((n - 1) / (m - 1)) if m > 1 else np.zeros(m)
        return (i + 0.5) * (n / m if self.scale is None else 1 / self.scale) - 0.5


def _inner(t: np.ndarray) -> np.ndarray:
    """Keys' cubic kernel for distances up to 1."""
    return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1


def _outer(t: np.ndarray) -> np.ndarray:
    """Keys' cubic kernel for distances from 1 to 2."""
    return ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC


@dataclass(frozen=True)
class Resize(Op):
    """Axes of x sampled anew, one after the other: a linear map, axis by axis."""

    samplings: tuple[Sampling, ...]
    axes: tuple[int, ...]

    formula = "g added, weighted, to the entries that were read"

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType(x.dtype, self._resized(x.type.shape))])

    def _resized(self, shape: Sequence) -> tuple:
        result = list(shape)
        for sampling, axis in zip(self.samplings, self.axes):
            if shape[axis] == 0:
                raise ShapeError(f"resize: axis {axis} of shape {tuple(shape)} has nothing to sample")
            result[axis] = sampling.count(shape[axis])
            if result[axis] == 0:
                raise ShapeError(f"resize: axis {axis} of shape {tuple(shape)} becomes empty at scale {sampling.scale}")
        return tuple(result)

    def perform(self, x):
        self._resized(x.shape)
        y = widened(x)
        for sampling, axis in zip(self.samplings, self.axes):
            y = np.moveaxis(y, axis, -1)
            y = sum(y[..., index] * weight.astype(y.dtype) for index, weight in sampling.taps(y.shape[-1]))
            y = np.moveaxis(y, -1, axis)
        return y.astype(x.dtype, copy=False)

    def grad(self, inputs, output_grads):
        return [ResizeGrad(self.samplings, self.axes)(output_grads[0], inputs[0])]

    def infer_shape(self, node, shapes, values):
        return [self._resized(shapes[0])]


@dataclass(frozen=True)
class ResizeGrad(Op):
    """The adjoint of Resize: each g added, weighted, to the entries that were read. `like` has the input's shape."""

    samplings: tuple[Sampling, ...]
    axes: tuple[int, ...]
    shape_only_inputs = (1,)

    def make_node(self, g: Any, like: Any) -> Apply:
        g, like = as_variable(g), as_variable(like)
        return Apply(self, [g, like], [TensorType(g.dtype, like.type.shape)])

    def perform(self, g, like):
        x = widened(g)
        for sampling, axis in zip(self.samplings, self.axes):
            spread = np.moveaxis(x, axis, -1)
            n = like.shape[axis]
            x = np.zeros((*spread.shape[:-1], n), spread.dtype)
            for index, weight in sampling.taps(n):
                np.add.at(x, (..., index), spread * weight.astype(x.dtype))
            x = np.moveaxis(x, -1, axis)
        return x.astype(g.dtype, copy=False)

    def grad(self, inputs, output_grads):
        return [Resize(self.samplings, self.axes)(output_grads[0]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[1]]


def resize(
    x: Any, size: int | Sequence[int] | None = None, scale: float | Sequence[float] | None = None,
    mode: str = "nearest", align_corners: bool = False, layout: str | None = None,
) -> Variable:  # fmt: skip
    """Images resized to a size or by a factor.

    Output i of m samples the input of length n at i (n - 1) / (m - 1) with `align_corners`, else at
    (i + 1/2) n / m - 1/2, held between the ends.

    Args:
        x: images with one to three spatial axes, laid out as `layout` says (channels first by default); of a vector or
            a matrix the last axis.
        size: the new length, one for all spatial axes or one for each.
        scale: instead of size: a factor; lengths become floor(n scale).
        mode: "nearest" (entry floor(i n / m)), "nearest-exact" (floor((i + 1/2) n / m)), "linear" (also "bilinear",
            "trilinear") or "cubic" (also "bicubic"; Keys 1981, slope -3/4).

    Its gradient is the adjoint: each g added to the entries that its output read, with the same weights.
    """
    x = as_float(x)
    axes = (x.ndim - 1,) if x.ndim in (1, 2) else spatial_axes(x, layout, "resize")
    if (size is None) == (scale is None):
        raise ArgumentError("resize: give either size or scale")
    if mode not in MODES:
        raise ArgumentError(f"resize: mode={mode!r}; expected one of {tuple(MODES)}")
    if align_corners and mode.startswith("nearest"):
        raise ArgumentError(f"resize: align_corners has no meaning for mode={mode!r}")
    n = len(axes)
    sizes = (None,) * n if size is None else per_axis(size, n, "size", "resize")
    scales = (None,) * n if scale is None else _factors(scale, n)
    samplings = tuple(Sampling(m, s, MODES[mode], bool(align_corners)) for m, s in zip(sizes, scales))
    return Resize(samplings, axes)(x)


def _factors(scale: Any, n: int) -> tuple[float, ...]:
    factors = tuple(scale) if isinstance(scale, (tuple, list)) else (scale,) * n
    if len(factors) != n or any(isinstance(s, bool) or not s > 0 for s in factors):
        raise ArgumentError(f"resize: scale={scale!r}; expected a positive number or {n} of them")
    return factors


def upsample(
    x: Any, scale: float | Sequence[float] = 2, mode: str = "nearest", align_corners: bool = False,
    layout: str | None = None,
) -> Variable:  # fmt: skip
    """Images enlarged by a factor, as `resize` does."""
    return resize(x, None, scale, mode, align_corners, layout)


# --- channels to positions and back -----------------------------------------------------------------------------------


def _channels_first(x: Any, layout: str, what: str) -> tuple[Variable, tuple[int, ...]]:
    """(x as batch, channels, height, width; the axes that lead back)."""
    x = as_tensor(x)
    if x.ndim != 4:
        raise ShapeError(f"{what} takes 4-d images, got {x.type}")
    layout = parse_layout(layout, "NCHW", "layout", what)
    return transpose(x, axes_of(layout, "NCHW")), axes_of("NCHW", layout)


def _divided(x: Variable, axis: int, by: int, what: str) -> Any:
    """The length of an axis divided by a number that must divide it."""
    known = x.type.shape[axis]
    if known is not None and known % by:
        raise ShapeError(f"{what}: {AXES[axis]} {known} must be a multiple of {by}")
    return length(x, axis) // by if known is None else known // by


def pixel_shuffle(x: Any, r: int, layout: str = "NCHW") -> Variable:
    """r^2 channels spread over r x r positions: (N, C r^2, H, W) to (N, C, H r, W r). (Shi et al. 2016)"""
    x, back = _channels_first(x, layout, "pixel_shuffle")
    (r,) = per_axis(r, 1, "r", "pixel_shuffle")
    n, h, w = (length(x, a) for a in (0, 2, 3))
    c = _divided(x, 1, r * r, "pixel_shuffle")
    parts = transpose(reshape(x, (n, c, r, r, h, w)), (0, 1, 4, 2, 5, 3))
    return transpose(reshape(parts, (n, c, h * r, w * r)), back)


def pixel_unshuffle(x: Any, r: int, layout: str = "NCHW") -> Variable:
    """The inverse of `pixel_shuffle`: (N, C, H r, W r) to (N, C r^2, H, W)."""
    x, back = _channels_first(x, layout, "pixel_unshuffle")
    (r,) = per_axis(r, 1, "r", "pixel_unshuffle")
    n, c = length(x, 0), length(x, 1)
    h, w = (_divided(x, a, r, "pixel_unshuffle") for a in (2, 3))
    parts = transpose(reshape(x, (n, c, h, r, w, r)), (0, 1, 3, 5, 2, 4))
    return transpose(reshape(parts, (n, c * (r * r), h, w)), back)


def reorg(x: Any, stride: int, reverse: bool = False, layout: str = "NCHW") -> Variable:
    """Darknet's `reorg`: (N, C, H, W) to (N, C s^2, H / s, W / s), in the order that YOLOv2's weights depend on.

    It isn't the textbook's space to depth: Darknet reads its input as if it were (C / s^2, H s, W s), takes that apart
    textbook fashion into (C, H, W), and reads the result as (C s^2, H / s, W / s). With `reverse` it is the textbook's
    depth to space, (N, C, H, W) to (N, C / s^2, H s, W s).
    """
    x, back = _channels_first(x, layout, "reorg")
    (s,) = per_axis(stride, 1, "stride", "reorg")
    n, c, h, w = (length(x, a) for a in range(4))
    few = _divided(x, 1, s * s, "reorg")
    if reverse:
        parts = transpose(reshape(x, (n, s, s, few, h, w)), (0, 3, 4, 1, 5, 2))
        return transpose(reshape(parts, (n, few, h * s, w * s)), back)
    small = (_divided(x, a, s, "reorg") for a in (2, 3))
    parts = transpose(reshape(x, (n, few, h, s, w, s)), (0, 3, 5, 1, 2, 4))
    return transpose(reshape(parts, (n, c * (s * s), *small)), back)
