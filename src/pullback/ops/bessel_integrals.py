"""Bessel functions differentiated with respect to their order, from integrals that never cancel.

With C a contour from inf - i pi to inf + i pi (Watson, Theory of Bessel Functions, 6.2 and 6.22), x > 0 and real v,

    I_v(x) = 1/(2 pi i) int_C exp(x cosh w - v w) dw        J_v(x) = 1/(2 pi i) int_C exp(x sinh w - v w) dw
    K_v(x) = int_0^inf exp(-x cosh t) cosh(v t) dt

so that a derivative in the order is a factor -w (or t), and one of exp(-x) I_v(x) in x is a factor cosh w - 1.
C crosses at the saddle, Re w = u with sinh u = v / x for I and cosh u = max(|v| / x, 1) for J, and leaves along
Im w = -pi and pi. There the integrand peaks: a small value comes from a small integrand, so each order has its digits.
Integrals are taken where the integrand exceeds exp(-DROP) of its peak, by Gauss-Legendre rules of NODES points.

All arrays are columns, (elements, 1), beside the points of the rules.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import factorial

import numpy as np

DROP = 45.0  # exp(-45) is 3e-20
NODES = 64
LONGEST = 4.0  # panel on the real line, where integrands end like exp(-exp(t))
TURN = 60.0  # radians of oscillation in a panel
SMALL = 1e-300
Integrand = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Contour:
    """The exponent along C.

    On the way across, at w = saddle + i theta, its real part is peak - 2 depth sin(a/2)^2 and its phase is
    reach sin(a) - |v| a, where the angle a is theta, or pi - theta where `mirrored`. On the way out, s beyond
    t = |saddle|, its real part is lower by 2 depth + v (|saddle| - saddle) + depth (cosh s - 1) + reach sinh s + v s.
    The `gap` is depth - reach up to a factor: gap (x sinh(s/2))^2 = (depth - reach) (cosh s - 1).
    """

    saddle: np.ndarray
    peak: np.ndarray
    depth: np.ndarray
    reach: np.ndarray
    gap: np.ndarray
    mirrored: np.ndarray | bool = False


def modified_first(v: np.ndarray, x: np.ndarray, n: int) -> np.ndarray:
    """d^n/dv^n I_v(x)"""
    size, depth, saddle = np.abs(v), np.hypot(v, x), np.arcsinh(v / x)
    return along(Contour(saddle, depth - v * saddle, depth, size, 2 / (depth + size)), v, x, n)


def modified_first_scaled(v: np.ndarray, x: np.ndarray, n: int, m: int) -> np.ndarray:
    """d^n/dv^n d^m/dx^m of exp(-x) I_v(x)"""
    size, depth, saddle = np.abs(v), np.hypot(v, x), np.arcsinh(v / x)
    peak = v * v / (depth + x) - v * saddle  # depth - x would cancel
    contour = Contour(saddle, peak, depth, size, 2 / (depth + size))
    return along(contour, v, x, n, m)


def first(v: np.ndarray, x: np.ndarray, n: int) -> np.ndarray:
    """d^n/dv^n J_v(x)"""
    size = np.abs(v)
    far, reach = np.arccosh(np.maximum(size / x, 1.0)), np.maximum(size, x)
    depth = np.sqrt(np.maximum(size - x, 0.0) * (size + x))
    contour = Contour(np.copysign(far, v), depth - size * far, depth, reach, -2 / (depth + reach), v < 0)
    return along(contour, v, x, n)


def first_far_out(v: np.ndarray, x: np.ndarray, n: int) -> np.ndarray:
    """d^n/dv^n J_v(x) for x much larger than v^2 (Hankel's expansion, Watson 7.21).

    J is the real part of sqrt(2 / (pi x)) exp(i (x - v pi/2 - pi/4)) sum_k i^k a_k(v) / x^k, where
    a_k = a_(k-1) (4 v^2 - (2k - 1)^2) / (8 k). Rows of `term` and `total` are Taylor coefficients in the order.
    """
    term = np.zeros((n + 1, *v.shape), complex)
    term[0] = 1.0
    total = term.copy()
    for k in range(1, 40):
        factors = (4 * v * v - (2 * k - 1) ** 2, 8 * v, 4.0)
        term = 1j / (8 * k * x) * sum(shifted(term, j) * factor for j, factor in enumerate(factors))
        total += term
    result, turned = 0.0, 1.0
    for j in range(n + 1):  # exp(-i pi v / 2) has the Taylor coefficients (-i pi / 2)^j / j!
        result = result + turned * total[n - j]
        turned *= -0.5j * np.pi / (j + 1)
    at_order = cospi(0.5 * v + 0.25) - 1j * sinpi(0.5 * v + 0.25)
    wave = np.sqrt(2 / (np.pi * x)) * np.exp(1j * x) * at_order * result
    return (factorial(n) * wave.real)[:, 0]


def modified_second(v: np.ndarray, x: np.ndarray, n: int, m: int) -> np.ndarray:
    """d^n/dv^n d^m/dx^m K_v(x)"""
    size = np.abs(v)
    depth, saddle = np.hypot(v, x), np.arcsinh(size / x)

    def drop(s: np.ndarray) -> np.ndarray:
        return 2 / (depth + size) * (x * np.sinh(s / 2)) ** 2 + size * (np.expm1(s) - s)

    def integrand(s: np.ndarray) -> np.ndarray:
        t = saddle + s
        both = -np.expm1(-2 * size * t) if n % 2 else 1 + np.exp(-2 * size * t)  # exp(v t) and exp(-v t)
        return 0.5 * t**n * (-np.cosh(t)) ** m * both * np.exp(-drop(s))

    start = -where_reached(lambda s: drop(-s), saddle)
    end = where_reached(drop, beyond(depth + size))
    value = scaled(integrate(integrand, start, end, (end - start) / LONGEST), size * saddle - depth)
    return value * np.sign(v[:, 0]) ** (n % 2)


def along(contour: Contour, v: np.ndarray, x: np.ndarray, n: int, m: int = 0) -> np.ndarray:
    """d^n/dv^n of the integral over C with a factor (cosh w - 1)^m in the integrand."""
    saddle, depth, reach, mirrored = contour.saddle, contour.depth, contour.reach, contour.mirrored
    size, far = np.abs(v), np.abs(saddle)
    sense = np.where(mirrored, 1.0, np.copysign(1.0, v))
    turn = np.where(mirrored, cospi(size) + 1j * sinpi(size), 1.0)
    out = cospi(v) - 1j * sinpi(v)

    def across(angle: np.ndarray) -> np.ndarray:
        w = saddle + 1j * np.where(mirrored, np.pi - angle, angle)
        exponent = -2 * depth * np.sin(angle / 2) ** 2 + 1j * sense * (reach * np.sin(angle) - size * angle)
        return (turn * (-w) ** n * (2 * np.sinh(w / 2) ** 2) ** m * np.exp(exponent)).real

    def drop(s: np.ndarray) -> np.ndarray:  # nothing here cancels where s is far below zero
        return contour.gap * (x * np.sinh(s / 2)) ** 2 + reach * np.expm1(s) + v * s

    def outwards(s: np.ndarray) -> np.ndarray:
        t = far + s
        return ((-t - 1j * np.pi) ** n * out).imag * (-2 * np.cosh(t / 2) ** 2) ** m * np.exp(-drop(s))

    width = 2 * np.arcsin(np.sqrt(np.minimum(1.0, DROP / (2 * np.maximum(depth, SMALL)))))
    turned = size * (width - np.sin(width)) + 2 * (reach - size) * np.minimum(width, 1.0)
    crossing = integrate(across, np.zeros_like(v), width, turned / TURN)

    start = -where_reached(lambda s: drop(-s), np.where(saddle < 0, 2 * far, 0.0))
    end = where_reached(drop, beyond(depth + reach))
    leaving = integrate(outwards, start, end, (end - start) / LONGEST)
    lower = 2 * depth + v * (far - saddle)
    return (scaled(crossing, contour.peak) + scaled(leaving, contour.peak - lower)) / np.pi


# --- quadrature -------------------------------------------------------------------------------------------------------


@cache
def gauss_legendre() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


def integrate(f: Integrand, low: np.ndarray, high: np.ndarray, panels: np.ndarray) -> np.ndarray:
    """int f(t) dt from `low` to `high`, in as many equal panels as the neediest element asks for."""
    nodes, weights = gauss_legendre()
    count = int(panels.max()) + 1
    places = ((np.arange(count)[:, None] + nodes) / count).ravel()
    return (f(low + (high - low) * places) @ np.tile(weights / count, count)) * (high - low)[:, 0]


def where_reached(drop: Integrand, limit: np.ndarray) -> np.ndarray:
    """The place in [0, `limit`] where the rising function `drop` reaches DROP, or `limit`."""
    low, high = np.zeros_like(limit), limit
    for _ in range(40):
        middle = (low + high) / 2
        reached = drop(middle) > DROP
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high


def beyond(steepness: np.ndarray) -> np.ndarray:
    """An s where both steepness (cosh s - 1) / 2 and steepness (sinh s - s) / 2 exceed DROP."""
    return 3 + np.arcsinh(8 * DROP / np.maximum(steepness, SMALL))


def scaled(mantissa: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """mantissa exp(exponent), and zero where the mantissa is, whatever the exponent."""
    return np.where(mantissa == 0, 0.0, mantissa * np.exp(exponent[:, 0]))


def shifted(coefficients: np.ndarray, places: int) -> np.ndarray:
    """Taylor coefficients of f(e) e^places."""
    rows = np.zeros_like(coefficients)
    rows[places:] = coefficients[: len(rows) - places]
    return rows


def sinpi(v: np.ndarray) -> np.ndarray:
    """sin(pi v), exactly zero where it is."""
    whole = np.rint(v)
    return np.where(whole % 2 == 1, -1.0, 1.0) * np.sin(np.pi * (v - whole))


def cospi(v: np.ndarray) -> np.ndarray:
    """cos(pi v), exactly zero where it is."""
    return sinpi(v % 2 + 0.5)
