"""Elementwise rows: exponentials, logarithms, trigonometric, hyperbolic and special functions.

SciPy supplies the values of the special functions; their gradients are written here. Formulas without a reference are
in Abramowitz & Stegun, Handbook of Mathematical Functions (1964), chapters 4, 6, 7, 9 and 10.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log as natural_log
from math import pi, sqrt
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..graph import Apply, Op, TensorType, Variable
from .arithmetic import (
    POSITIVE,
    REAL,
    abs,
    divide,
    equal,
    greater,
    isinf,
    logical_and,
    multiply,
    negative,
    reciprocal,
    square,
    subtract,
    where,
)
from .arithmetic import sqrt as root
from .dtypes import as_tensor, float_dtype
from .elementwise import Kink, cast, define, strong_mul, zeros_like

__all__ = [
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh", "deg2rad",
    "digamma", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp", "exp2", "expm1", "gamma", "hypot", "lgamma",
    "log", "log10", "log1mexp", "log1p", "log2", "logaddexp", "logit", "polygamma", "rad2deg", "sin", "sinc", "sinh",
    "spherical_jn", "tan", "tanh", "xlog1py", "xlogy",
]  # fmt: skip

UNIT = (-0.95, 0.95)
LN2, LN10 = natural_log(2), natural_log(10)


def scipy_function(name: str) -> Callable[..., Any]:
    """`scipy.special.<name>`, imported when first called."""

    def function(*arrays: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*arrays)

    return function


def _infinite_at(where: str, sign: str = "+") -> tuple[Kink, ...]:
    return (Kink(where, f"{sign}inf (the one-sided limit)", f"{sign}inf, never a silent 0"),)


# --- exponentials and logarithms --------------------------------------------------------------------------------------
exp = define("exp", np.exp, "exp(x)", lambda g, out, x: [strong_mul(g, out)], "e to the power x.",
             formula="g exp(x)", domain=(REAL,))  # fmt: skip
exp2 = define("exp2", np.exp2, "exp2(x)", lambda g, out, x: [strong_mul(g, LN2 * out)], "2 to the power x.",
              formula="g log(2) 2^x", domain=(REAL,))  # fmt: skip
expm1 = define("expm1", np.expm1, "expm1(x)", lambda g, out, x: [strong_mul(g, exp(x))],
               "exp(x) - 1, accurate near 0.", formula="g exp(x)", domain=(REAL,))  # fmt: skip
log = define("log", np.log, "log(x)", lambda g, out, x: [strong_mul(g, reciprocal(x))],
             "Natural logarithm; NaN below zero.",
             formula="g / x", domain=(POSITIVE,), kinks=_infinite_at("x = 0"))  # fmt: skip
log2 = define("log2", np.log2, "log2(x)", lambda g, out, x: [strong_mul(g, reciprocal(LN2 * x))],
              "Logarithm to base 2.",
              formula="g / (x log 2)", domain=(POSITIVE,), kinks=_infinite_at("x = 0"))  # fmt: skip
log10 = define("log10", np.log10, "log10(x)", lambda g, out, x: [strong_mul(g, reciprocal(LN10 * x))],
               "Logarithm to base 10.",
               formula="g / (x log 10)", domain=(POSITIVE,), kinks=_infinite_at("x = 0"))  # fmt: skip
log1p = define("log1p", np.log1p, "log1p(x)", lambda g, out, x: [strong_mul(g, reciprocal(1 + x))],
               "log(1 + x), accurate near 0.",
               formula="g / (1 + x)", domain=((-0.9, 3.0),), kinks=_infinite_at("x = -1"))  # fmt: skip
log1mexp = define(
    "log1mexp",
    lambda x: np.where(x > -LN2, np.log(-np.expm1(x)), np.log1p(-np.exp(x))),  # Maechler 2012
    "log(-expm1(x)) if x > -LN2 else log1p(-exp(x))",
    lambda g, out, x: [strong_mul(g, negative(divide(exp(x), abs(expm1(x)))))],
    "log(1 - exp(x)) for x < 0, accurate near 0 and far from it.",
    formula="-g exp(x) / (1 - exp(x))", domain=((-3.0, -0.1),), kinks=_infinite_at("x = 0", "-"),
)  # fmt: skip
LOGIT = "log1p(2.0 * (x - 0.5)) - log1p(-2.0 * (x - 0.5)) if abs(x - 0.5) < 0.2 else log(x / (1.0 - x))"
logit = define("logit", scipy_function("logit"), LOGIT,
               lambda g, out, x: [strong_mul(g, reciprocal(multiply(x, 1 - x)))],
               "log(x / (1 - x)), the inverse of sigmoid.",
               formula="g / (x (1 - x))", domain=((0.05, 0.95),), kinks=_infinite_at("x = 0 and x = 1"))  # fmt: skip


def _logaddexp_grad(g: Variable, out: Variable, x: Variable, y: Variable) -> list:
    from .activation import sigmoid

    both_infinite = logical_and(equal(x, y), isinf(x))

    def weight(a: Variable, b: Variable) -> Variable:
        share = sigmoid(subtract(a, b))
        return where(both_infinite, zeros_like(share), share)

    return [strong_mul(g, weight(x, y)), strong_mul(g, weight(y, x))]


logaddexp = define(
    "logaddexp", np.logaddexp, "x + LN2 if x == y else maximum(x, y) + log1p(exp(-abs(x - y)))", _logaddexp_grad,
    "log(exp(x) + exp(y)) without overflow.",
    arity=2, formula="(g sigmoid(x - y), g sigmoid(y - x))", domain=(REAL, REAL),
    kinks=(Kink("x = y = -inf", "any weights in [0, 1] whose sum is at most 1", "0 to both: no mass, no gradient"),),
)  # fmt: skip


def _x_log_grad(logarithm: Any, argument: Callable[[Variable], Variable]) -> Callable[..., list]:
    def grad(g: Variable, out: Variable, x: Variable, y: Variable) -> list:
        a = argument(y)
        both_zero = logical_and(equal(x, 0), equal(a, 0))  # the value is 0 for all y there, so its slope in y is 0
        return [strong_mul(g, logarithm(y)), strong_mul(g, divide(x, where(both_zero, 1, a)))]

    return grad


xlogy = define(
    "xlogy", scipy_function("xlogy"), "0.0 if x == 0.0 and y == y else x * log(y)", _x_log_grad(log, lambda y: y),
    "x log(y), and 0 where x is 0.",
    arity=2, formula="(g log y, g x / y)", domain=(REAL, POSITIVE),
    kinks=_infinite_at("y = 0 (with respect to x)", "-"),
)  # fmt: skip
xlog1py = define(
    "xlog1py", scipy_function("xlog1py"), "0.0 if x == 0.0 and y == y else x * log1p(y)",
    _x_log_grad(log1p, lambda y: 1 + y),
    "x log(1 + y), and 0 where x is 0.",
    arity=2, formula="(g log(1 + y), g x / (1 + y))", domain=(REAL, (-0.9, 3.0)),
    kinks=_infinite_at("y = -1 (with respect to x)", "-"),
)  # fmt: skip
cbrt = define("cbrt", np.cbrt, "cbrt(x)", lambda g, out, x: [strong_mul(g, reciprocal(3 * square(out)))],
              "Cube root, of negative numbers too.",
              formula="g / (3 x^(2/3))", domain=(POSITIVE,), kinks=_infinite_at("x = 0"))  # fmt: skip

# --- trigonometric ----------------------------------------------------------------------------------------------------
sin = define("sin", np.sin, "sin(x)", lambda g, out, x: [strong_mul(g, cos(x))], "Sine of x radians.",
             formula="g cos(x)", domain=(REAL,))  # fmt: skip
cos = define("cos", np.cos, "cos(x)", lambda g, out, x: [strong_mul(g, negative(sin(x)))], "Cosine of x radians.",
             formula="-g sin(x)", domain=(REAL,))  # fmt: skip
tan = define("tan", np.tan, "tan(x)", lambda g, out, x: [strong_mul(g, 1 + square(out))], "Tangent of x radians.",
             formula="g (1 + tan(x)^2)", domain=((-1.3, 1.3),))  # fmt: skip
arcsin = define("arcsin", np.arcsin, "asin(x)",
                lambda g, out, x: [strong_mul(g, reciprocal(root(multiply(1 - x, 1 + x))))],
                "The angle in [-pi/2, pi/2] whose sine is x.",
                formula="g / sqrt(1 - x^2)", domain=(UNIT,), kinks=_infinite_at("x = -1 and x = 1"))  # fmt: skip
arccos = define("arccos", np.arccos, "acos(x)",
                lambda g, out, x: [strong_mul(negative(g), reciprocal(root(multiply(1 - x, 1 + x))))],
                "The angle in [0, pi] whose cosine is x.",
                formula="-g / sqrt(1 - x^2)", domain=(UNIT,), kinks=_infinite_at("x = -1 and x = 1", "-"))  # fmt: skip
arctan = define("arctan", np.arctan, "atan(x)", lambda g, out, x: [strong_mul(g, reciprocal(1 + square(x)))],
                "The angle in (-pi/2, pi/2) whose tangent is x.", formula="g / (1 + x^2)", domain=(REAL,))  # fmt: skip


def _inverse_radius(radius: Variable) -> Variable:
    """1 / radius, and 0 at the origin, where the direction doesn't exist."""
    return where(equal(radius, 0), zeros_like(radius), reciprocal(radius))


def _arctan2_grad(g: Variable, out: Variable, y: Variable, x: Variable) -> list:
    inverse = _inverse_radius(hypot(y, x))
    return [
        strong_mul(g, multiply(multiply(x, inverse), inverse)),
        strong_mul(negative(g), multiply(multiply(y, inverse), inverse)),
    ]


def _hypot_grad(g: Variable, out: Variable, x: Variable, y: Variable) -> list:
    inverse = _inverse_radius(out)
    return [strong_mul(g, multiply(x, inverse)), strong_mul(g, multiply(y, inverse))]


arctan2 = define(
    "arctan2", np.arctan2, "atan2(x, y)", _arctan2_grad, "The angle of the point (x, y) = (second, first argument).",
    arity=2, formula="(g x / (x^2 + y^2), -g y / (x^2 + y^2))", domain=(REAL, POSITIVE),
    kinks=(Kink("the origin", "nothing: the angle jumps", "0 to both"),),
)  # fmt: skip
hypot = define(
    "hypot", np.hypot, "hypot(x, y)", _hypot_grad, "sqrt(x^2 + y^2) without overflow.",
    arity=2, formula="(g x / hypot, g y / hypot)", domain=(REAL, POSITIVE),
    kinks=(Kink("the origin", "any vector of length at most 1", "0 to both"),),
)  # fmt: skip
deg2rad = define("deg2rad", np.deg2rad, f"x * {pi / 180!r}", lambda g, out, x: [(pi / 180) * g],
                 "Degrees to radians.",
                 formula="g pi / 180", domain=(REAL,))  # fmt: skip
rad2deg = define("rad2deg", np.rad2deg, f"x * {180 / pi!r}", lambda g, out, x: [(180 / pi) * g],
                 "Radians to degrees.",
                 formula="g 180 / pi", domain=(REAL,))  # fmt: skip
sinc = define(
    "sinc", np.sinc, None,
    lambda g, out, x: [strong_mul(g, -pi * spherical_jn(1, pi * x))],  # sinc(x) = j0(pi x) and j0' = -j1
    "sin(pi x) / (pi x), and 1 at x = 0; smooth everywhere.", formula="-g pi j1(pi x), j1 spherical Bessel function",
    domain=(REAL,),
)  # fmt: skip

# --- hyperbolic -------------------------------------------------------------------------------------------------------
sinh = define("sinh", np.sinh, "sinh(x)", lambda g, out, x: [strong_mul(g, cosh(x))], "Hyperbolic sine.",
              formula="g cosh(x)", domain=(REAL,))  # fmt: skip
cosh = define("cosh", np.cosh, "cosh(x)", lambda g, out, x: [strong_mul(g, sinh(x))], "Hyperbolic cosine.",
              formula="g sinh(x)", domain=(REAL,))  # fmt: skip
tanh = define("tanh", np.tanh, "tanh(x)", lambda g, out, x: [strong_mul(g, 1 - square(out))], "Hyperbolic tangent.",
              formula="g (1 - tanh(x)^2)", domain=(REAL,))  # fmt: skip
arcsinh = define("arcsinh", np.arcsinh, "asinh(x)", lambda g, out, x: [strong_mul(g, reciprocal(hypot(x, 1)))],
                 "Inverse of sinh.", formula="g / sqrt(x^2 + 1)", domain=(REAL,))  # fmt: skip
arccosh = define("arccosh", np.arccosh, "acosh(x)",
                 lambda g, out, x: [strong_mul(g, reciprocal(multiply(root(x - 1), root(x + 1))))],
                 "Inverse of cosh; NaN below 1.",
                 formula="g / sqrt(x^2 - 1)", domain=((1.1, 4.0),), kinks=_infinite_at("x = 1"))  # fmt: skip
arctanh = define("arctanh", np.arctanh, "atanh(x)",
                 lambda g, out, x: [strong_mul(g, reciprocal(multiply(1 - x, 1 + x)))], "Inverse of tanh.",
                 formula="g / (1 - x^2)", domain=(UNIT,), kinks=_infinite_at("x = -1 and x = 1"))  # fmt: skip

# --- the error function -----------------------------------------------------------------------------------------------
TWO_OVER_ROOT_PI = 2 / sqrt(pi)


def _gaussian(x: Variable) -> Variable:
    return TWO_OVER_ROOT_PI * exp(negative(square(x)))


def _erfcx_slope(x: Variable, out: Variable) -> Variable:
    """2 x erfcx(x) - 2 / sqrt(pi); from 25 on, where that cancels, its asymptotic series in u = 1 / (2 x^2)."""
    u = divide(0.5, square(x))
    series = multiply(u, 1 - 3 * u * (1 - 5 * u * (1 - 7 * u * (1 - 9 * u * (1 - 11 * u)))))
    return where(greater(x, 25), -TWO_OVER_ROOT_PI * series, 2 * x * out - TWO_OVER_ROOT_PI)


erf = define("erf", scipy_function("erf"), "erf(x)", lambda g, out, x: [strong_mul(g, _gaussian(x))],
             "Error function.", formula="g 2/sqrt(pi) exp(-x^2)", domain=(REAL,))  # fmt: skip
erfc = define("erfc", scipy_function("erfc"), "erfc(x)", lambda g, out, x: [strong_mul(negative(g), _gaussian(x))],
              "1 - erf(x), accurate for large x.", formula="-g 2/sqrt(pi) exp(-x^2)", domain=(REAL,))  # fmt: skip
erfcx = define("erfcx", scipy_function("erfcx"), None, lambda g, out, x: [strong_mul(g, _erfcx_slope(x, out))],
               "exp(x^2) erfc(x), which doesn't underflow for large x.",
               formula="g (2 x erfcx(x) - 2/sqrt(pi))", domain=(REAL,))  # fmt: skip
erfinv = define("erfinv", scipy_function("erfinv"), None,
                lambda g, out, x: [strong_mul(g, exp(square(out)) / TWO_OVER_ROOT_PI)], "Inverse of erf on (-1, 1).",
                formula="g sqrt(pi)/2 exp(erfinv(x)^2)", domain=(UNIT,),
                kinks=_infinite_at("x = -1 and x = 1"))  # fmt: skip
erfcinv = define("erfcinv", scipy_function("erfcinv"), None,
                 lambda g, out, x: [strong_mul(negative(g), exp(square(out)) / TWO_OVER_ROOT_PI)],
                 "Inverse of erfc on (0, 2).",
                 formula="-g sqrt(pi)/2 exp(erfcinv(x)^2)", domain=((0.05, 1.95),),
                 kinks=_infinite_at("x = 0 and x = 2", "-"))  # fmt: skip

# --- the gamma function -----------------------------------------------------------------------------------------------
gamma = define("gamma", scipy_function("gamma"), None,
               lambda g, out, x: [strong_mul(g, multiply(out, digamma(x)))], "The gamma function.",
               formula="g gamma(x) digamma(x)", domain=((0.3, 4.0),))  # fmt: skip
lgamma = define("lgamma", scipy_function("gammaln"), None, lambda g, out, x: [strong_mul(g, digamma(x))],
                "log |gamma(x)|.", formula="g digamma(x)", domain=((0.3, 4.0),))  # fmt: skip
digamma = define("digamma", scipy_function("digamma"), None, lambda g, out, x: [strong_mul(g, polygamma(1, x))],
                 "Derivative of lgamma.", formula="g polygamma(1, x)", domain=((0.3, 4.0),))  # fmt: skip


# --- functions with an integer order ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """Functions f_n(x), n = 0, 1, ...: how SciPy computes them, and f_n' in terms of the family (no division by x)."""

    compute: Callable[[int, np.ndarray], np.ndarray]
    slope: Callable[[int, Variable], Variable]


@dataclass(frozen=True)
class IntegerOrder(Op):
    """f_n(x), element by element, of one of the families below."""

    family: str
    n: int

    formula = "g f_n'(x), by the neighbouring orders"

    def make_node(self, x: Any) -> Apply:
        x = as_tensor(x)
        x = cast(x, float_dtype(x.dtype))
        return Apply(self, [x], [TensorType(x.dtype, x.type.shape)])

    def perform(self, x):
        with np.errstate(all="ignore"):
            return np.asarray(FAMILIES[self.family].compute(self.n, x)).astype(x.dtype)

    def grad(self, inputs, output_grads):
        return [strong_mul(output_grads[0], FAMILIES[self.family].slope(self.n, inputs[0]))]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]

    def __str__(self) -> str:
        return f"{self.family}[{self.n}]"


def _of_order(family: str, n: int, x: Any) -> Variable:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise ArgumentTypeError(f"{family}: the order must be an integer, got {n!r}")
    if n < 0:
        raise ArgumentError(f"{family}: the order is {n}; expected at least 0")
    return IntegerOrder(family, int(n))(x)


def _with_order(name: str) -> Callable[[int, np.ndarray], np.ndarray]:
    function = scipy_function(name)
    return lambda n, x: function(n, x)


def _spherical_slope(n: int, x: Variable) -> Variable:
    """(n j_(n-1) - (n+1) j_(n+1)) / (2n + 1)"""
    if n == 0:
        return negative(spherical_jn(1, x))
    return subtract(n / (2 * n + 1) * spherical_jn(n - 1, x), (n + 1) / (2 * n + 1) * spherical_jn(n + 1, x))


FAMILIES = {
    "polygamma": Family(_with_order("polygamma"), lambda n, x: polygamma(n + 1, x)),
    "spherical_jn": Family(_with_order("spherical_jn"), _spherical_slope),
}  # fmt: skip


def polygamma(n: int, x: Any) -> Variable:
    """Derivative number n of digamma at `x`; n is a Python integer. Gradient: polygamma(n + 1, x)."""
    return _of_order("polygamma", n, x)


def spherical_jn(n: int, x: Any) -> Variable:
    """Spherical Bessel function of the first kind j_n(x); n is a Python integer. Smooth everywhere."""
    return _of_order("spherical_jn", n, x)
