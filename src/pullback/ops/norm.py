"""Normalisation: batch, layer, group, instance (one op with its fused gradient), RMS, p-norms, local response."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..graph import Apply, Constant, Op, TensorType, Variable, as_variable
from .arithmetic import abs, add, divide, equal, maximum, multiply, power, reciprocal, sqrt, square, subtract, where
from .dtypes import result_dtype
from .elementwise import BroadcastLike, Kink, broadcast_static, cast, ones_like, sum_to, zeros_like
from .geometry import Windows
from .pool import AvgPool
from .reduce import mean as average
from .reduce import sum as total
from .shape import expand_dims, length, normalize_axes, normalize_axis, reshape, size_of, squeeze
from .softmax import as_float, widened

__all__ = [
    "batch_norm", "batch_norm_train", "group_norm", "instance_norm", "l1_normalize", "l2_normalize", "layer_norm",
    "local_response_norm", "rms_norm",
]  # fmt: skip


class Normalization(Op):
    """Base of Normalize and its gradient."""

    axes: tuple[int, ...]
    eps: float
    eps_outside: bool

    def averages(self, x: np.ndarray) -> np.ndarray:
        """The mean over `axes`, accumulated in float64; 0 over nothing."""
        count = max(1, int(np.prod([x.shape[a] for a in self.axes])))
        return (x.sum(self.axes, keepdims=True, dtype=np.float64) / count).astype(x.dtype)

    def statistics_shape(self, shape: Sequence) -> tuple:
        return tuple(1 if a in self.axes else n for a, n in enumerate(shape))

    def scales(self, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(1 / s, r), where s normalises and r = -2 (d(1/s) / d var) s^2 is what pulls back through the variance."""
        if not self.eps_outside:
            inverse = 1 / np.sqrt(var + var.dtype.type(self.eps))
            return inverse, inverse
        deviation = np.sqrt(var)
        with np.errstate(divide="ignore"):
            return 1 / (deviation + var.dtype.type(self.eps)), np.where(var == 0, 0, 1 / deviation).astype(var.dtype)

    def symbolic_scales(self, var: Variable) -> tuple[Variable, ...]:
        """`scales` and their derivatives by the variance."""
        if not self.eps_outside:
            inverse = reciprocal(sqrt(var + self.eps))
            slope = -0.5 * inverse * square(inverse)
            return inverse, inverse, slope, slope
        flat = equal(var, 0)
        deviation = sqrt(where(flat, ones_like(var), var))
        r = where(flat, zeros_like(var), reciprocal(deviation))
        inverse = reciprocal(where(flat, zeros_like(var), deviation) + self.eps)
        return inverse, r, -0.5 * r * square(inverse), -0.5 * r * square(r)


@dataclass(frozen=True)
class Normalize(Normalization):
    """y = gamma (x - mean) / s + beta, with mean and biased variance over `axes`.

    s = sqrt(var + eps), or sqrt(var) + eps with `eps_outside`. Outputs: y, mean, var (with `axes` of length 1).
    `gamma` and `beta` have one shape, which broadcasts to that of x.
    """

    axes: tuple[int, ...]
    eps: float
    eps_outside: bool = False
    formula = "((h - mean(h)) / s - r x^ mean(h x^) with h = g gamma, sum(g x^), sum(g))"
    kinks = (Kink("variance 0 with eps_outside", "nothing: the derivative by the variance is infinite", "0"),)

    def make_node(self, x: Any, gamma: Any, beta: Any) -> Apply:
        x, gamma, beta = as_variable(x), as_variable(gamma), as_variable(beta)
        broadcast_static("normalisation", [x, gamma, beta])
        kept = "float32" if x.dtype == "float16" else x.dtype  # a variance easily leaves the range of float16
        statistics = TensorType(kept, self.statistics_shape(x.type.shape))
        return Apply(self, [x, gamma, beta], [x.type, statistics, statistics])

    def perform(self, x, gamma, beta):
        wide = widened(x)
        mean = self.averages(wide)
        centred = wide - mean
        var = self.averages(centred * centred)
        y = centred * (self.scales(var)[0] * gamma) + beta
        if y.shape != x.shape:
            raise ShapeError(f"normalisation: scale and shift of shape {gamma.shape} don't fit {x.shape}")
        return y.astype(x.dtype, copy=False), mean, var

    def L_op(self, inputs, outputs, output_grads):
        (x, gamma, _), (_, mean, var), (g, g_mean, g_var) = inputs, outputs, output_grads
        dx, dgamma, dbeta = NormalizeGrad(self.axes, self.eps, self.eps_outside)(x, gamma, mean, var, g)
        count = size_of(x, self.axes)
        if not is_zeros(g_mean):
            dx = dx + g_mean / count
        if not is_zeros(g_var):
            dx = dx + 2.0 * g_var / count * (x - mean)
        return [dx, dgamma, dbeta]

    def infer_shape(self, node, shapes, values):
        statistics = self.statistics_shape(shapes[0])
        return [shapes[0], statistics, statistics]


@dataclass(frozen=True)
class NormalizeGrad(Normalization):
    """The cotangent g of Normalize's y pulled back to x, gamma and beta. With x^ = (x - mean) / s and h = g gamma:

    dx = (h - mean(h)) / s - r x^ mean(h x^),    dgamma = sum(g x^),    dbeta = sum(g).
    """

    axes: tuple[int, ...]
    eps: float
    eps_outside: bool = False

    def make_node(self, x: Any, gamma: Any, mean: Any, var: Any, g: Any) -> Apply:
        inputs = [as_variable(v) for v in (x, gamma, mean, var, g)]
        return Apply(self, inputs, [inputs[0].type, inputs[1].type, inputs[1].type])

    def perform(self, x, gamma, mean, var, g):
        dtype = x.dtype
        x, gamma, mean, var, g = map(widened, (x, gamma, mean, var, g))
        inverse, r = self.scales(var)
        hat = (x - mean) * inverse
        h = g * gamma
        dx = (h - self.averages(h)) * inverse - hat * (r * self.averages(h * hat))
        outputs = dx, summed_to(g * hat, gamma.shape), summed_to(g, gamma.shape)
        return tuple(v.astype(dtype, copy=False) for v in outputs)

    def grad(self, inputs, output_grads):
        x, gamma, mean, var, g = inputs
        X, G, B = output_grads  # cotangents of dx, dgamma, dbeta

        def avg(v: Variable) -> Variable:
            return average(v, axis=self.axes, keepdims=True)

        def add_up(v: Variable) -> Variable:
            return total(v, axis=self.axes, keepdims=True)

        inverse, r, inverse_slope, r_slope = self.symbolic_scales(var)
        centred = x - mean
        hat = centred * inverse
        h = g * gamma
        c, k = avg(h * hat), avg(X * hat)
        h_bar = inverse * (X - avg(X)) - r * k * hat
        hat_bar = G * g - r * (c * X + k * h)
        x_bar = hat_bar * inverse
        inverse_bar = add_up(X * (h - avg(h))) + add_up(hat_bar * centred)
        r_bar = -c * add_up(X * hat)
        return [
            x_bar,
            sum_to(h_bar * g, gamma),
            -add_up(x_bar),
            inverse_bar * inverse_slope + r_bar * r_slope,
            h_bar * gamma + G * hat + B,
        ]

    def infer_shape(self, node, shapes, values):
        return [shapes[0], shapes[1], shapes[1]]


def summed_to(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`a` summed, in float64, over the axes where `shape` has length 1."""
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and a.shape[i] != 1)
    return a.sum(axes, keepdims=True, dtype=np.float64).astype(a.dtype) if axes else a.copy()


def is_zeros(v: Variable) -> bool:
    """Whether `v` is known to be zeros: the cotangent of an output that the cost doesn't use."""
    while v.owner is not None and isinstance(v.owner.op, BroadcastLike):
        v = v.owner.inputs[0]
    return isinstance(v, Constant) and not v.data.any()


# --- for users --------------------------------------------------------------------------------------------------------


def _placed(v: Any, axes: Sequence[int], ndim: int, what: str) -> Variable:
    """A parameter with one axis for each of `axes`, put there among `ndim`."""
    v = as_float(v)
    if v.ndim != len(axes):
        raise ShapeError(
            f"{what}: scale and shift must have {len(axes)} axes, one for each of {tuple(axes)}; got {v.type}"
        )
    return expand_dims(v, tuple(a for a in range(ndim) if a not in axes))


def _affine(x: Variable, gamma: Any, beta: Any, axes: Sequence[int], what: str) -> list[Variable]:
    """(x, gamma, beta) of one dtype, gamma and beta of one shape that broadcasts to that of x; None: 1 and 0."""
    ndim, axes = x.ndim, sorted(axes)
    if gamma is None and beta is None:
        one = Constant(np.ones((1,) * ndim, x.dtype))
        return [x, one, Constant(np.zeros((1,) * ndim, x.dtype))]
    if gamma is not None:
        gamma = _placed(gamma, axes, ndim, what)
    beta = zeros_like(gamma) if beta is None else _placed(beta, axes, ndim, what)
    gamma = ones_like(beta) if gamma is None else gamma
    dtype = result_dtype([x, gamma, beta])
    return [cast(v, dtype) for v in (x, gamma, beta)]


def _check_eps(eps: float, what: str) -> float:
    if not eps >= 0:
        raise ArgumentError(f"{what}: eps={eps}; expected at least 0")
    return float(eps)


def batch_norm(
    x: Any, gamma: Any, beta: Any, training: bool, eps: float = 1e-5, axis: int = 1, mean: Any = None, var: Any = None,
    eps_outside: bool = False,
) -> Variable:  # fmt: skip
    """gamma (x - mean) / sqrt(var + eps) + beta for each channel (Ioffe and Szegedy 2015).

    Args:
        x: any rank; channels lie along `axis`.
        gamma, beta: scale and shift, one entry a channel; None for 1 and 0.
        training: use mean and biased variance of x over all other axes; else the given `mean` and `var`.
        eps_outside: divide by sqrt(var) + eps instead, as Darknet does.

    Differentiable in all of them; `batch_norm_train` also gives the statistics.
    """
    if training:
        return batch_norm_train(x, gamma, beta, eps, axis, eps_outside)[0]
    if mean is None or var is None:
        raise ArgumentError("batch_norm: without training, mean and var must be given")
    x = as_float(x)
    axis = normalize_axis(axis, x.ndim, "batch_norm")
    eps = _check_eps(eps, "batch_norm")
    x, gamma, beta = _affine(x, gamma, beta, (axis,), "batch_norm")
    mean, var = (cast(_placed(v, (axis,), x.ndim, "batch_norm"), x.dtype) for v in (mean, var))
    scale = add(sqrt(var), eps) if eps_outside else sqrt(add(var, eps))
    return add(multiply(subtract(x, mean), divide(gamma, scale)), beta)


def batch_norm_train(
    x: Any, gamma: Any, beta: Any, eps: float = 1e-5, axis: int = 1, eps_outside: bool = False
) -> tuple[Variable, Variable, Variable]:
    """`batch_norm` by the statistics of x itself: (y, mean, biased variance), the last two with one entry a channel."""
    x = as_float(x)
    axis = normalize_axis(axis, x.ndim, "batch_norm")
    others = tuple(a for a in range(x.ndim) if a != axis)
    op = Normalize(others, _check_eps(eps, "batch_norm"), bool(eps_outside))
    y, mean, var = op(*_affine(x, gamma, beta, (axis,), "batch_norm"))
    return y, squeeze(mean, others), squeeze(var, others)


def layer_norm(
    x: Any, gamma: Any = None, beta: Any = None, axis: int | Sequence[int] = -1, eps: float = 1e-5
) -> Variable:
    """gamma (x - mean) / sqrt(var + eps) + beta with mean and biased variance over `axis` (Ba et al. 2016).

    `gamma` and `beta` have the lengths of `axis`, in the order of the axes of x; None for 1 and 0.
    """
    x = as_float(x)
    axes = tuple(sorted(normalize_axes(axis, x.ndim, "layer_norm")))
    return Normalize(axes, _check_eps(eps, "layer_norm"))(*_affine(x, gamma, beta, axes, "layer_norm"))[0]


def instance_norm(x: Any, gamma: Any = None, beta: Any = None, axis: int = 1, eps: float = 1e-5) -> Variable:
    """Each channel of each image normalised by its own statistics; channels lie along `axis`, images along axis 0.

    `gamma` and `beta` have one entry a channel; None for 1 and 0. (Ulyanov et al. 2016)
    """
    x = as_float(x)
    axis = normalize_axis(axis, x.ndim, "instance_norm")
    spatial = tuple(a for a in range(1, x.ndim) if a != axis)
    if axis == 0 or not spatial:
        raise ShapeError(f"instance_norm: {x.type} with channels on axis {axis} has no spatial axis to normalise over")
    return Normalize(spatial, _check_eps(eps, "instance_norm"))(*_affine(x, gamma, beta, (axis,), "instance_norm"))[0]


def group_norm(x: Any, groups: int, gamma: Any = None, beta: Any = None, axis: int = 1, eps: float = 1e-5) -> Variable:
    """Channels cut into `groups` parts, each normalised with all positions of its image (Wu and He 2018).

    Channels lie along `axis`, images along axis 0; `gamma` and `beta` have one entry a channel; None for 1 and 0.
    """
    x = as_float(x)
    axis = normalize_axis(axis, x.ndim, "group_norm")
    channels = x.type.shape[axis]
    if axis == 0 or groups < 1 or (channels is not None and channels % groups):
        raise ShapeError(f"group_norm: axis {axis} of {x.type} can't be cut into groups={groups} equal parts")

    def cut(v: Variable, a: int) -> Variable:
        lengths = [length(v, i) for i in range(v.ndim)]
        return reshape(v, [*lengths[:a], groups, -1 if v.ndim == 1 else lengths[a] // groups, *lengths[a + 1 :]])

    parts = cut(x, axis)
    gamma, beta = (None if v is None else cut(as_float(v), 0) for v in (gamma, beta))
    axes = tuple(a for a in range(1, parts.ndim) if a != axis)
    affine = _affine(parts, gamma, beta, (axis, axis + 1), "group_norm")
    y = Normalize(axes, _check_eps(eps, "group_norm"))(*affine)[0]
    return reshape(y, [length(x, i) for i in range(x.ndim)])


def rms_norm(x: Any, gamma: Any = None, axis: int | Sequence[int] = -1, eps: float = 1e-6) -> Variable:
    """gamma x / sqrt(mean(x^2) + eps), the mean over `axis` (Zhang and Sennrich 2019); gamma as in `layer_norm`."""
    x = as_float(x)
    axes = tuple(sorted(normalize_axes(axis, x.ndim, "rms_norm")))
    size = sqrt(average(square(x), axis=axes, keepdims=True) + _check_eps(eps, "rms_norm"))
    y = divide(x, size)
    return y if gamma is None else multiply(y, _placed(gamma, axes, x.ndim, "rms_norm"))


def l2_normalize(x: Any, axis: int | Sequence[int] | None = -1, eps: float = 1e-12) -> Variable:
    """x / max(sqrt(sum(x^2)), eps), the sum over `axis`. Zeros stay zeros, with gradient g / eps."""
    x = as_float(x)
    axes = normalize_axes(axis, x.ndim, "l2_normalize")
    return divide(x, maximum(sqrt(total(square(x), axis=axes, keepdims=True)), _positive(eps, "l2_normalize")))


def l1_normalize(x: Any, axis: int | Sequence[int] | None = -1, eps: float = 1e-12) -> Variable:
    """x / max(sum(|x|), eps), the sum over `axis`. Zeros stay zeros, with gradient g / eps."""
    x = as_float(x)
    axes = normalize_axes(axis, x.ndim, "l1_normalize")
    return divide(x, maximum(total(abs(x), axis=axes, keepdims=True), _positive(eps, "l1_normalize")))


def _positive(eps: float, what: str) -> float:
    if not eps > 0:
        raise ArgumentError(f"{what}: eps={eps}; expected more than 0, which is what zeros are divided by")
    return float(eps)


def local_response_norm(
    x: Any, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, axis: int = 1
) -> Variable:
    """x / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta (Krizhevsky et al. 2012).

    The window has size // 2 channels before and (size - 1) // 2 after; channels beyond the ends count as zeros.
    """
    x = as_float(x)
    axis = normalize_axis(axis, x.ndim, "local_response_norm")
    if size < 1:
        raise ArgumentError(f"local_response_norm: size={size}; expected at least 1")
    windows = Windows((size,), (1,), ((size // 2, (size - 1) // 2),), (1,))
    neighbours = AvgPool(windows, (axis,), divisor=size)(square(x))
    return multiply(x, power(k + alpha * neighbours, -beta))
