"""Bessel functions of real order, differentiable to any order in the argument and in the order itself.

Every derivative is one op, `Bessel(kind, n, m)` = d^n/dv^n d^m/dx^m of the function: its rule raises n or m by one.
"""

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from ..graph import Apply, Op, TensorType, Variable, as_variable
from . import bessel_integrals as integrals
from .dtypes import WEAK, as_tensors, float_dtype, result_dtype
from .elementwise import Kink, broadcast_static, cast, strong_mul
from .transcendental import scipy_function

__all__ = ["i0", "i1", "iv", "ive", "j0", "j1", "jv", "kv"]

BLOCK = 512  # elements whose integrals are taken at once
FAR = 64.0  # from here on, and from v^2 on, Hankel's expansion has all digits
# f' = (below f_(v-1) + above f_(v+1)) / 2 (Abramowitz & Stegun 9.1.27 and 9.6.26), which derivatives in v obey too
NEIGHBOURS = {"iv": (1.0, 1.0), "jv": (1.0, -1.0), "kv": (-1.0, -1.0)}


@dataclass(frozen=True)
class Bessel(Op):
    """d^n/dv^n d^m/dx^m of a Bessel function of order v at x: `iv`, `ive`, `jv` or `kv`.

    Gradient: (g times the same with n + 1, g times the same with m + 1). Of a negative x a fractional order has no real
    value; nor has then a derivative in the order: both are NaN.
    """

    kind: str
    n: int = 0
    m: int = 0

    formula = "(g df/dv, g df/dx)"
    broadcasts = True
    kinks = (Kink("ive of order 0: x = 0", "[-1, 1]", "0, the mean of both sides"),)

    def make_node(self, v: Any, x: Any) -> Apply:
        dtype = float_dtype(result_dtype([a if type(a) in WEAK else as_variable(a) for a in (v, x)]))
        v, x = (cast(a, dtype) if a.type.is_discrete else a for a in as_tensors([v, x], dtype))
        return Apply(self, [v, x], [TensorType(dtype, broadcast_static(self.kind, [v, x]))])

    def perform(self, v, x):
        dtype = np.result_type(v, x)
        v, x = np.broadcast_arrays(v.astype(np.float64), x.astype(np.float64))
        with np.errstate(all="ignore"):
            return derivative(self.kind, self.n, self.m, v.ravel(), x.ravel()).reshape(x.shape).astype(dtype)

    def grad(self, inputs, output_grads):
        (g,) = output_grads
        return [
            strong_mul(g, Bessel(self.kind, self.n + 1, self.m)(*inputs)),
            strong_mul(g, Bessel(self.kind, self.n, self.m + 1)(*inputs)),
        ]

    def infer_shape(self, node, shapes, values):
        return [np.broadcast_shapes(*shapes)]

    def __str__(self) -> str:
        by = "".join(f"/d{name}^{times}" for name, times in (("v", self.n), ("x", self.m)) if times)
        return self.kind + by


def iv(v: Any, x: Any) -> Variable:
    """Modified Bessel function of the first kind, I_v(x), for real orders v (negative ones too).

    Overflows from x = 713 on; `ive` doesn't. Gradient in x: (I_(v-1)(x) + I_(v+1)(x)) / 2; in v: the derivative of the
    integral, to 1e-12 relative (Watson, Theory of Bessel Functions, 6.22). -inf at v = x = 0, where that is its limit.
    """
    return Bessel("iv")(v, x)


def ive(v: Any, x: Any) -> Variable:
    """exp(-|x|) I_v(x), which doesn't overflow.

    Gradient in x: the integral of exp(-x) (cosh w - 1) exp(x cosh w - v w), which has all digits where
    I_v' and I_v nearly cancel, for large x; in v: as for `iv`.
    """
    return Bessel("ive")(v, x)


def jv(v: Any, x: Any) -> Variable:
    """Bessel function of the first kind, J_v(x), for real orders v (negative ones too).

    Gradient in x: (J_(v-1)(x) - J_(v+1)(x)) / 2; in v: the derivative of the integral, or of Hankel's expansion where x
    is large (Watson, Theory of Bessel Functions, 6.2 and 7.21).
    """
    return Bessel("jv")(v, x)


def kv(v: Any, x: Any) -> Variable:
    """Modified Bessel function of the second kind, K_v(x), for real orders v; even in v; NaN for negative x.

    Gradient in x: -(K_(v-1)(x) + K_(v+1)(x)) / 2; in v: the integral of exp(-x cosh t) t sinh(v t), exactly zero at
    v = 0.
    """
    return Bessel("kv")(v, x)


def i0(x: Any) -> Variable:
    """Modified Bessel function of the first kind, order 0. Gradient: i1(x)."""
    return iv(0.0, x)


def i1(x: Any) -> Variable:
    """Modified Bessel function of the first kind, order 1. Gradient: (I_0(x) + I_2(x)) / 2."""
    return iv(1.0, x)


def j0(x: Any) -> Variable:
    """Bessel function of the first kind, order 0. Gradient: -j1(x)."""
    return jv(0.0, x)


def j1(x: Any) -> Variable:
    """Bessel function of the first kind, order 1. Gradient: (J_0(x) - J_2(x)) / 2."""
    return jv(1.0, x)


# --- values -----------------------------------------------------------------------------------------------------------


def derivative(kind: str, n: int, m: int, v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d^n/dv^n d^m/dx^m, in float64, of vectors."""
    if kind == "ive":
        return scaled_derivative(n, m, v, x)
    if kind == "kv" and n:  # its neighbours cancel where v is small
        result = in_blocks(integrals.modified_second, v, x, x > 0, n, m)
        return with_limits(result, v, x, (-1.0) ** m * at_zero(kind, n, v), 0.0)
    if m == 0:
        return order_derivative(kind, n, v, x)
    below, above = NEIGHBOURS[kind]
    terms = [
        comb(m, k) * below ** (m - k) * above**k / 2**m * order_derivative(kind, n, v - m + 2 * k, x)
        for k in range(m + 1)
    ]
    return np.where(np.isinf(terms[0]), terms[0], sum(terms))  # at 0 the lowest order grows fastest


def order_derivative(kind: str, n: int, v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d^n/dv^n of iv and jv, and kv itself."""
    if n == 0:
        result = np.asarray(scipy_function(kind)(v, x))
    elif kind == "iv":
        result = in_blocks(integrals.modified_first, v, x, x > 0, n)
    else:
        far = x > np.maximum(FAR, v * v)
        near = in_blocks(integrals.first, v, x, (x > 0) & ~far, n)
        result = np.where(far, in_blocks(integrals.first_far_out, v, x, far, n), near)
    return with_limits(result, v, x, at_zero(kind, n, v), at_infinity(n, v) if kind == "iv" else 0.0)


def scaled_derivative(n: int, m: int, v: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d^n/dv^n d^m/dx^m of ive."""
    size = np.abs(x)
    if n == m == 0:
        result = np.asarray(scipy_function("ive")(v, x))
    else:
        result = in_blocks(integrals.modified_first_scaled, v, size, (size > 0) & ((x > 0) | (n == 0)), n, m)
    terms = [comb(m, j) * (-1.0) ** (m - j) * derivative("iv", n, j, v, np.zeros_like(x)) for j in range(m + 1)]
    result = with_limits(result, v, x, np.where(np.isinf(terms[-1]), terms[-1], sum(terms)), 0.0)
    if n == 0 and m > 0:  # of whole orders the function is even or odd in x; at 0 the mean of both sides is taken
        left = np.where(v == np.rint(v), np.where((v + m) % 2 == 0, 1.0, -1.0), np.nan)
        result = np.where(x < 0, left * result, np.where((x == 0) & (left == -1), 0.0, result))
    return result


def in_blocks(f: Any, v: np.ndarray, x: np.ndarray, chosen: np.ndarray, *orders: int) -> np.ndarray:
    """`f` of the chosen elements, those with finite v and x; NaN elsewhere."""
    result = np.full(x.shape, np.nan)
    (places,) = np.nonzero(chosen & np.isfinite(v) & np.isfinite(x))
    for start in range(0, len(places), BLOCK):
        some = places[start : start + BLOCK]
        result[some] = f(v[some, None], x[some, None], *orders)
    return result


def with_limits(result: np.ndarray, v: np.ndarray, x: np.ndarray, zero: np.ndarray, far: Any) -> np.ndarray:
    """`result`, with `zero` where x is 0 and `far` where it is infinite."""
    known = ~np.isnan(v)
    return np.where((x == 0) & known, zero, np.where((x == np.inf) & known, far, result))


def at_zero(kind: str, n: int, v: np.ndarray) -> np.ndarray:
    """The limit of d^n/dv^n for x -> 0, x > 0: that of (x/2)^v / gamma(v + 1), or of gamma(|v|) (x/2)^-|v| / 2."""
    if kind == "kv":
        return np.where((v == 0) & (n % 2 == 1), 0.0, np.where((v < 0) & (n % 2 == 1), -np.inf, np.inf))
    log = np.where(n % 2 == 0, np.inf, -np.inf)  # of log(x/2)^n
    pole = (v < 0) & (v == np.rint(v))  # 1 / gamma(v + 1) is zero there and its slope (-1)^(v+1) |v + 1|!
    below = np.where(pole, np.where(v % 2 == 0, 1.0, -1.0) if n else 0.0, scipy_function("gammasgn")(v + 1))
    below = np.where(below == 0, 0.0, below * log)
    return np.where(v > 0, 0.0, np.where(v < 0, below, log if n else 1.0))


def at_infinity(n: int, v: np.ndarray) -> np.ndarray:
    """The limit of d^n/dv^n I_v(x) for x -> inf, where it grows like exp(x) d^n/dv^n exp(-v^2 / (2 x))."""
    sign = (-1.0) ** ((n + 1) // 2) * np.sign(v) ** (n % 2)
    return np.where(sign == 0, 0.0, sign * np.inf)
