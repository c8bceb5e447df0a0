"""Activation functions, Darknet's and NumPyNet's lists included. At a kink each sends what its row says.

Functions that end flat at -infinity (silu, gelu, mish) have their limit -0 there; their derivatives are computed on x
held within a range outside of which they are constant to the last bit.
"""

from math import pi, sqrt
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..graph import Variable
from .arithmetic import (
    REAL,
    abs,
    clip,
    divide,
    equal,
    floor,
    greater,
    greater_equal,
    less_equal,
    logical_and,
    logical_or,
    mod,
    multiply,
    negative,
    not_equal,
    reciprocal,
    square,
    where,
)
from .dtypes import as_tensor, float_dtype
from .elementwise import Kink, cast, define, strong_mul, zeros_like
from .shape import normalize_axis, reshape, split
from .transcendental import exp, expm1, scipy_function, tanh

__all__ = [
    "celu", "elliot", "elu", "gelu", "glu", "hard_mish", "hard_sigmoid", "hard_swish", "hardshrink", "hardtan",
    "hardtanh", "leaky_relu", "lhtan", "log_sigmoid", "loggy", "mish", "ndtr", "plse", "prelu", "ramp", "relie", "relu",
    "relu6", "selu", "sigmoid", "silu", "softplus", "softshrink", "softsign", "stair", "swish", "symmelliot",
    "tanhshrink", "threshold",
]  # fmt: skip

AT_ZERO = "x = 0"
FLAT = -1e30  # below it, a function that ends flat at -infinity is 0
WIDE = 1e4  # beyond it, derivatives of sigmoid-gated functions are 0 or 1 in every dtype
SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717  # Klambauer et al. 2017


def _flat_at_minus_infinity(function: Any) -> Any:
    return lambda x: np.where(x < FLAT, -np.zeros((), x.dtype), function(x))


def _held(x: Variable) -> Variable:
    return clip(x, -WIDE, WIDE)


# --- the sigmoid and its kin ------------------------------------------------------------------------------------------


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


sigmoid = define("sigmoid", _sigmoid, "sigmoid(x)", lambda g, out, x: [strong_mul(g, multiply(out, 1 - out))],
                 "1 / (1 + exp(-x)), without overflow.", formula="g y (1 - y)", domain=(REAL,))  # fmt: skip
log_sigmoid = define(
    "log_sigmoid", lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    "minimum(x, 0.0) - log1p(exp(-abs(x)))",
    lambda g, out, x: [strong_mul(g, sigmoid(negative(x)))], "log(sigmoid(x)), without overflow or cancellation.",
    formula="g sigmoid(-x)", domain=(REAL,),
)  # fmt: skip
_softplus = define(
    "softplus", lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), "maximum(x, 0.0) + log1p(exp(-abs(x)))",
    lambda g, out, x: [strong_mul(g, sigmoid(x))], "log(1 + exp(x)), without overflow.",
    formula="g sigmoid(x)", domain=(REAL,),
)  # fmt: skip
ndtr = define(
    "ndtr", scipy_function("ndtr"), "ndtr(x)",
    lambda g, out, x: [strong_mul(g, _density(x))], "Distribution function of the standard normal.",
    formula="g exp(-x^2 / 2) / sqrt(2 pi)", domain=(REAL,),
)  # fmt: skip


def _density(x: Variable) -> Variable:
    return exp(-0.5 * square(x)) / sqrt(2 * pi)


def softplus(x: Any, beta: Any = 1.0) -> Variable:
    """log(1 + exp(beta x)) / beta, without overflow: a smooth relu. Gradient: g sigmoid(beta x)."""
    return _softplus(x) if _is(beta, 1) else divide(_softplus(multiply(x, beta)), beta)


def _is(value: Any, number: float) -> bool:
    return isinstance(value, (int, float)) and value == number


# --- rectifiers -------------------------------------------------------------------------------------------------------
relu = define(
    "relu", lambda x: np.maximum(x, 0), "maximum(x, 0.0)",
    lambda g, out, x: [where(less_equal(out, 0), zeros_like(g), g)], "max(x, 0); NaN stays NaN.",
    result="same", formula="g where x > 0", domain=(REAL,), kinks=(Kink(AT_ZERO, "[0, 1]", "0"),),
)  # fmt: skip


def _leaky_grad(g: Variable, out: Variable, x: Variable, alpha: Variable) -> list:
    positive = greater(x, 0)
    return [where(positive, g, strong_mul(g, alpha)), where(positive, zeros_like(g), strong_mul(g, x))]


_leaky_relu = define(
    "leaky_relu", lambda x, alpha: np.where(x > 0, x, alpha * x), "x if x > 0.0 else y * x", _leaky_grad,
    "x where x > 0, else alpha x.",
    arity=2, formula="(g where x > 0 else g alpha, 0 where x > 0 else g x)", domain=(REAL, (0.05, 0.5)),
    kinks=(Kink(AT_ZERO, "[alpha, 1]", "alpha"),),
)  # fmt: skip


def leaky_relu(x: Any, alpha: Any = 0.01) -> Variable:
    """x where x > 0, else alpha x; differentiable in `alpha` too. At 0 the slope is alpha (Darknet's alpha: 0.1)."""
    return _leaky_relu(x, alpha)


def prelu(x: Any, weight: Any, axis: int = -1) -> Variable:
    """Leaky relu with a learnt slope per channel.

    Args:
        x: any tensor.
        weight: slopes, a vector of one per channel along `axis` of `x`, or a scalar for all.
        axis: the channel axis.
    """
    x, weight = as_tensor(x), as_tensor(weight)
    if weight.ndim == 0:
        return _leaky_relu(x, weight)
    if weight.ndim != 1:
        raise ArgumentTypeError(f"prelu: the weight must be a scalar or a vector, got {weight.type}")
    after = x.ndim - 1 - normalize_axis(axis, x.ndim, "prelu")
    return _leaky_relu(x, reshape(weight, (-1, *[1] * after)))


_elu = define(
    "elu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "x if x > 0.0 else y * expm1(minimum(x, 0.0))",
    lambda g, out, x, alpha: [
        where(greater(x, 0), g, strong_mul(g, multiply(alpha, exp(x)))),
        where(greater(x, 0), zeros_like(g), strong_mul(g, expm1(x))),
    ],
    "x where x > 0, else alpha (exp(x) - 1).",
    arity=2, formula="(g where x > 0 else g alpha exp(x), 0 where x > 0 else g (exp(x) - 1))",
    domain=(REAL, (0.5, 2.0)), kinks=(Kink(AT_ZERO, "between alpha and 1", "alpha"),),
)  # fmt: skip


def elu(x: Any, alpha: Any = 1.0) -> Variable:
    """x where x > 0, else alpha (exp(x) - 1) (Clevert et al. 2015); differentiable in `alpha` too."""
    return _elu(x, alpha)


def selu(x: Any, scale: float = SELU_SCALE, alpha: float = SELU_ALPHA) -> Variable:
    """scale elu(x, alpha) with the constants that keep mean 0 and variance 1 (Klambauer et al. 2017)."""
    return multiply(scale, _elu(x, alpha))


def celu(x: Any, alpha: Any = 1.0) -> Variable:
    """x where x > 0, else alpha (exp(x / alpha) - 1): elu with a continuous derivative (Barron 2017)."""
    if _is(alpha, 0):
        raise ArgumentError("celu: alpha is 0; expected another number")
    return _elu(x, 1.0) if _is(alpha, 1) else multiply(alpha, _elu(divide(x, alpha), 1.0))


# --- gated by a smooth step -------------------------------------------------------------------------------------------


def _silu_grad(g: Variable, out: Variable, x: Variable) -> list:
    t = _held(x)
    s = sigmoid(t)
    return [strong_mul(g, multiply(s, 1 + multiply(t, 1 - s)))]


def _mish_grad(g: Variable, out: Variable, x: Variable) -> list:
    t = _held(x)
    y = tanh(_softplus(t))
    return [strong_mul(g, y + multiply(multiply(t, sigmoid(t)), 1 - square(y)))]


def _gelu_tanh_grad(g: Variable, out: Variable, x: Variable) -> list:
    t = _held(x)
    s = sigmoid(multiply(t, GELU_A + GELU_B * square(t)))
    slope = GELU_A + 3 * GELU_B * square(t)
    return [strong_mul(g, s + multiply(multiply(t, slope), multiply(s, 1 - s)))]


GELU_A = 2 * sqrt(2 / pi)  # 0.5 (1 + tanh(u)) = sigmoid(2 u), which doesn't cancel
GELU_B = 0.044715 * GELU_A
silu = define(
    "silu", _flat_at_minus_infinity(lambda x: x * _sigmoid(x)), f"-0.0 if x < {FLAT!r} else x * sigmoid(x)", _silu_grad,
    "x sigmoid(x), also called swish (Elfwing et al. 2017).",
    formula="g s (1 + x (1 - s)), s = sigmoid(x)", domain=(REAL,),
)  # fmt: skip
swish = silu
mish = define(
    "mish", _flat_at_minus_infinity(lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    f"-0.0 if x < {FLAT!r} else x * tanh(log1p(exp(x)))", _mish_grad, "x tanh(softplus(x)) (Misra 2019).",
    formula="g (y + x sigmoid(x) (1 - y^2)), y = tanh(softplus(x))", domain=(REAL,),
)  # fmt: skip
_gelu_slope = define(
    "gelu_slope",
    lambda x: scipy_function("ndtr")(x) + np.clip(x, -WIDE, WIDE) * (np.exp(-0.5 * np.square(x)) / sqrt(2 * pi)),
    "gelu_slope(x)", lambda g, out, x: [strong_mul(g, multiply(_density(x), 2 - square(_held(x))))],
    "Derivative of gelu.", formula="g exp(-x^2/2) (2 - x^2) / sqrt(2 pi)", domain=(REAL,),
)  # fmt: skip
_gelu = define(
    "gelu", _flat_at_minus_infinity(lambda x: x * scipy_function("ndtr")(x)),
    f"-0.0 if x < {FLAT!r} else x * ndtr(x)", lambda g, out, x: [strong_mul(g, _gelu_slope(x))],
    "x times the distribution function of the standard normal (Hendrycks & Gimpel 2016).",
    formula="g (ndtr(x) + x exp(-x^2/2) / sqrt(2 pi))", domain=(REAL,),
)  # fmt: skip
_gelu_tanh = define(
    "gelu_tanh", _flat_at_minus_infinity(lambda x: x * _sigmoid(x * (GELU_A + GELU_B * (x * x)))),
    f"-0.0 if x < {FLAT!r} else x * sigmoid(x * ({GELU_A!r} + {GELU_B!r} * (x * x)))", _gelu_tanh_grad,
    "The approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) of gelu.",
    formula="g (s + x u' s (1 - s)), s = sigmoid(u), u = 2 sqrt(2/pi) (x + 0.044715 x^3)", domain=(REAL,),
)  # fmt: skip


def gelu(x: Any, approximate: str = "none") -> Variable:
    """x ndtr(x), exact, or with `approximate="tanh"` by the formula of the paper (Hendrycks & Gimpel 2016)."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate={approximate!r}; expected 'none' or 'tanh'")
    return _gelu(x) if approximate == "none" else _gelu_tanh(x)


def glu(x: Any, axis: int = -1) -> Variable:
    """a sigmoid(b), where a and b are the two halves of `x` along `axis` (Dauphin et al. 2016)."""
    a, b = split(x, 2, axis)
    return multiply(a, sigmoid(b))


# --- piecewise polynomials --------------------------------------------------------------------------------------------


def _hardtanh_grad(g: Variable, out: Variable, x: Variable, low: Variable, high: Variable) -> list:
    zero = zeros_like(g)
    below, above = less_equal(x, low), greater_equal(x, high)
    return [where(logical_or(below, above), zero, g), where(below, g, zero), where(above, g, zero)]


def _open_clip(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(high, np.maximum(x, low))


_hardtanh = define(
    "hardtanh", _open_clip, "minimum(z, maximum(x, y))", _hardtanh_grad, "x held within [low, high].",
    arity=3, formula="g to x inside the open interval, else to the bound that holds",
    domain=(REAL, (-1.5, -0.5), (0.5, 1.5)), kinks=(Kink("x = low or x = high", "[0, 1]", "0 to x, 1 to the bound"),),
)  # fmt: skip


def hardtanh(x: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Variable:
    """x held within [min_val, max_val]: as `clip`, but with derivative 0 at the two kinks."""
    if all(isinstance(v, (int, float)) for v in (min_val, max_val)) and not min_val < max_val:
        raise ArgumentError(f"hardtanh: min_val={min_val} is not below max_val={max_val}")
    return _hardtanh(x, min_val, max_val)


def relu6(x: Any) -> Variable:
    """x held within [0, 6]; derivative 0 at both kinks."""
    return _hardtanh(x, 0.0, 6.0)


def hard_sigmoid(x: Any, slope: float = 1 / 6, offset: float = 0.5) -> Variable:
    """slope x + offset held within [0, 1]; derivative 0 at the kinks. (Theano's and NumPyNet's slope: 0.2.)"""
    x = _as_float(x)
    scaled = divide(x, 6.0) if slope == 1 / 6 else multiply(x, slope)  # so that +-3 land on the kinks exactly
    return _hardtanh(scaled + offset, 0.0, 1.0)


def _as_float(x: Any) -> Variable:
    x = as_tensor(x)
    return cast(x, float_dtype(x.dtype))


def _hard_swish_grad(g: Variable, out: Variable, x: Variable) -> list:
    inside = strong_mul(g, x / 3 + 0.5)
    return [where(less_equal(x, -3), zeros_like(g), where(greater_equal(x, 3), g, inside))]


hard_swish = define(
    "hard_swish", lambda x: np.where(x <= -3, 0, np.where(x >= 3, x, x * ((x + 3) / 6))),
    "0.0 if x <= -3.0 else x if x >= 3.0 else x * ((x + 3.0) / 6.0)", _hard_swish_grad,
    "x hard_sigmoid(x) (Howard et al. 2019).", formula="0 below -3, g above 3, else g (x / 3 + 1 / 2)", domain=(REAL,),
    kinks=(Kink("x = -3", "[-1/2, 0]", "0"), Kink("x = 3", "[1, 3/2]", "1")),
)  # fmt: skip
hard_mish = define(
    "hard_mish", lambda x: np.where(x > 0, x, np.where(x <= -2, 0, x * (x / 2 + 1))),
    "x if x > 0.0 else 0.0 if x <= -2.0 else x * (x / 2.0 + 1.0)",
    lambda g, out, x: [where(greater(x, 0), g, where(less_equal(x, -2), zeros_like(g), strong_mul(g, x + 1)))],
    "x above 0, x^2 / 2 + x on (-2, 0], 0 below (AlexeyAB's Darknet).",
    formula="g above 0, 0 below -2, else g (x + 1)", domain=(REAL,), kinks=(Kink("x = -2", "[-1, 0]", "0"),),
)  # fmt: skip


def softshrink(x: Any, lambd: Any = 0.5) -> Variable:
    """x moved towards 0 by `lambd`, and 0 within it; derivative 0 at the kinks."""
    x = _as_float(x)
    return x - clip(x, -lambd, lambd)


def hardshrink(x: Any, lambd: Any = 0.5) -> Variable:
    """x where |x| > lambd, else 0. At the jumps the derivative is 0."""
    x = _as_float(x)
    return where(less_equal(abs(x), lambd), 0, x)


def tanhshrink(x: Any) -> Variable:
    """x - tanh(x)."""
    x = _as_float(x)
    return x - tanh(x)


def threshold(x: Any, threshold: Any, value: Any) -> Variable:
    """x where it is above `threshold`, else `value`. At the jump the derivative is 0."""
    return where(less_equal(x, threshold), value, x)


WIDE_SIGN = 1e30  # beyond it softsign is 1 or -1 to the last bit
softsign = define(
    "softsign", lambda x: np.where(np.abs(x) > WIDE_SIGN, np.sign(x), x / (1 + np.abs(x))),
    f"1.0 if x > {WIDE_SIGN!r} else -1.0 if x < -{WIDE_SIGN!r} else x / (1.0 + abs(x))",
    lambda g, out, x: [strong_mul(g, square(reciprocal(1 + abs(x))))], "x / (1 + |x|).",
    formula="g / (1 + |x|)^2", domain=(REAL,),
    kinks=(Kink("x = 0, second derivative", "[-2, 2]", "0"),),
)  # fmt: skip

# --- Darknet's and NumPyNet's -----------------------------------------------------------------------------------------


def _stair_grad(g: Variable, out: Variable, x: Variable) -> list:
    rises = logical_and(equal(mod(floor(x), 2), 1), not_equal(x, floor(x)))
    return [where(rises, g, zeros_like(g))]


def _stair(x: np.ndarray) -> np.ndarray:
    level = np.floor(x / 2)
    return level + np.where(2 * level == np.floor(x), 0, x - np.floor(x))


stair = define(
    "stair", _stair, "floor(x / 2.0) + (0.0 if floor(x / 2.0) * 2.0 == floor(x) else x - floor(x))", _stair_grad,
    "Flat on [2k, 2k + 1], then rising by 1 with slope 1 until 2k + 2 (Darknet).",
    formula="g where floor(x) is odd, else 0", domain=(REAL,), kinks=(Kink("whole x", "[0, 1]", "0"),),
)  # fmt: skip


def hardtan(x: Any) -> Variable:
    """x held within [-1, 1]; derivative 0 at both kinks (Darknet)."""
    return _hardtanh(x, -1.0, 1.0)


def lhtan(x: Any) -> Variable:
    """x within [0, 1], continued on both sides with slope 0.001; derivative 0.001 at both kinks (Darknet)."""
    x = _as_float(x)
    inside = _hardtanh(x, 0.0, 1.0)
    return inside + 0.001 * (x - inside)


def plse(x: Any) -> Variable:
    """x / 8 + 1/2 for |x| <= 4, continued with slope 0.01; derivative 1/8 at both kinks (Darknet)."""
    x = _as_float(x)
    inside = clip(x, -4.0, 4.0)
    return 0.125 * inside + 0.5 + 0.01 * (x - inside)


def loggy(x: Any) -> Variable:
    """2 sigmoid(x) - 1 = tanh(x / 2) (Darknet)."""
    return tanh(0.5 * _as_float(x))


def ramp(x: Any) -> Variable:
    """relu(x) + 0.1 x; derivative 0.1 at 0 (Darknet)."""
    x = _as_float(x)
    return relu(x) + 0.1 * x


def relie(x: Any) -> Variable:
    """x where x > 0, else 0.01 x; derivative 0.01 at 0 (Darknet)."""
    return _leaky_relu(x, 0.01)


def elliot(x: Any, steepness: Any = 1.0) -> Variable:
    """s x / (2 (1 + |s x|)) + 1/2: a sigmoid without exponentials (Elliott 1993)."""
    return 0.5 * symmelliot(x, steepness) + 0.5


def symmelliot(x: Any, steepness: Any = 1.0) -> Variable:
    """s x / (1 + |s x|) (Elliott 1993)."""
    return softsign(x if _is(steepness, 1) else multiply(x, steepness))
