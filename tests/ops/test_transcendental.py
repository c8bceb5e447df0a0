"""Values and first and second derivatives against mpmath at 40 digits; limits, poles and removable singularities."""

from collections.abc import Callable
from functools import partial

import mpmath as mp
import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate
from pullback.ops.elementwise import ROWS
from tests.ops.helpers import slopes, value

mp.mp.dps = 40
EXACT: dict[str, Callable] = {
    "arccos": mp.acos, "arccosh": mp.acosh, "arcsin": mp.asin, "arcsinh": mp.asinh, "arctan": mp.atan,
    "arctan2": mp.atan2, "arctanh": mp.atanh, "cbrt": mp.cbrt, "cos": mp.cos, "cosh": mp.cosh, "deg2rad": mp.radians,
    "digamma": mp.digamma, "erf": mp.erf, "erfc": mp.erfc, "erfcinv": lambda x: mp.erfinv(1 - x),
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x), "erfinv": mp.erfinv, "exp": mp.exp, "exp2": lambda x: 2**x,
    "expm1": mp.expm1, "gamma": mp.gamma, "hypot": mp.hypot, "i0": partial(mp.besseli, 0), "i1": partial(mp.besseli, 1),
    "j0": partial(mp.besselj, 0), "j1": partial(mp.besselj, 1), "lgamma": mp.loggamma, "log": mp.log,
    "log10": mp.log10, "log1mexp": lambda x: mp.log(1 - mp.exp(x)), "log1p": mp.log1p, "log2": lambda x: mp.log(x, 2),
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)), "logit": lambda x: mp.log(x / (1 - x)),
    "rad2deg": mp.degrees, "sin": mp.sin, "sinc": mp.sincpi, "sinh": mp.sinh, "tan": mp.tan, "tanh": mp.tanh,
    "xlog1py": lambda x, y: x * mp.log(1 + y), "xlogy": lambda x, y: x * mp.log(y),
}  # fmt: skip


def orders(arity: int, total: int) -> list[tuple[int, ...]]:
    """Multi-indices of partial derivatives."""
    return [(n,) if arity == 1 else (n, total - n) for n in ([total] if arity == 1 else range(total + 1))]


def partial_derivative(y: pb.Variable, inputs: list[pb.Variable], order: tuple[int, ...]) -> pb.Variable:
    for x, times in zip(inputs, order):
        for _ in range(times):
            y = pb.grad((y + 0 * x).sum(), x)
    return y


@pytest.mark.parametrize("name", sorted(EXACT))
def test_value_and_derivatives_against_mpmath(name, rng) -> None:
    domain = ROWS[name].domain if name in ROWS else ((-3.0, 3.0),)
    points = [rng.uniform(low, high, 7) for low, high in domain]
    inputs = [pb.dvector() for _ in domain]
    y = getattr(pb, name)(*inputs)
    for total, tol in ((0, 1e-14), (1, 2e-14), (2, 1e-13)):
        for order in orders(len(domain), total):
            found = evaluate([partial_derivative(y, inputs, order)], dict(zip(inputs, points)))[0]
            for k, at in enumerate(zip(*points)):
                at = tuple(map(mp.mpf, at))
                exact = float(mp.re(mp.diff(EXACT[name], at, order) if total else EXACT[name](*at)))
                assert found[k] == pytest.approx(exact, rel=tol, abs=1e-30 if exact else 1e-40), (order, at)


@pytest.mark.parametrize("name", sorted(EXACT))
def test_float32_stays_float32_and_float16_is_computed_in_float32(name, rng) -> None:
    domain = ROWS[name].domain if name in ROWS else ((-3.0, 3.0),)
    points = [rng.uniform(low, high, 9) for low, high in domain]
    f = getattr(pb, name)
    for dtype, tol in (("float32", 3e-6), ("float16", 3e-3)):
        narrow = [p.astype(dtype) for p in points]
        wide = [p.astype("float64") for p in narrow]
        assert value(f, *narrow).dtype == dtype
        np.testing.assert_allclose(value(f, *narrow), value(f, *wide), rtol=tol, atol=tol)
        for a, b in zip(slopes(f, *narrow), slopes(f, *wide)):
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=20 * tol, atol=20 * tol)


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [
        (pb.log, 0.0, np.inf), (pb.log1p, -1.0, np.inf), (pb.cbrt, 0.0, np.inf), (pb.arcsin, 1.0, np.inf),
        (pb.arccos, -1.0, -np.inf), (pb.arccosh, 1.0, np.inf), (pb.arctanh, -1.0, np.inf), (pb.erfinv, 1.0, np.inf),
        (pb.log1mexp, 0.0, -np.inf), (pb.logit, 0.0, np.inf),
    ],
)  # fmt: skip
def test_one_sided_infinite_slopes_are_infinite_and_a_zero_cotangent_stays_zero(f, x, slope) -> None:
    x = np.array([x, x])
    np.testing.assert_array_equal(slopes(f, x, upstream=[1.0, 0.0])[0], [slope, 0.0])


def test_sinc_is_smooth_at_zero() -> None:
    x = pb.dvector()
    y = pb.sinc(x)
    first = pb.grad(y.sum(), x)
    second = pb.grad(first.sum(), x)
    third = pb.grad(second.sum(), x)
    fourth = pb.grad(third.sum(), x)
    found = evaluate([y, first, second, third, fourth], {x: np.zeros(1)})
    expected = [1, 0, -np.pi**2 / 3, 0, np.pi**4 / 5]
    np.testing.assert_allclose([v[0] for v in found], expected, rtol=1e-14, atol=1e-16)


def test_xlogy_at_zero() -> None:
    x, y = np.array([0.0, 0.0]), np.array([0.0, 2.0])
    assert not value(pb.xlogy, x, y).any()
    dx, dy = slopes(pb.xlogy, x, y)
    np.testing.assert_array_equal(dx, [-np.inf, np.log(2.0)])
    np.testing.assert_array_equal(dy, [0.0, 0.0])
    a, b = pb.dvector(), pb.dvector()
    mixed = pb.grad(pb.grad(pb.xlogy(a, b).sum(), b).sum(), a)
    assert evaluate([mixed], {a: x, b: y})[0][1] == 0.5, "d2/dxdy = 1/y, also at x = 0"


@pytest.mark.parametrize(("x", "y"), [(1000.0, 999.0), (-1000.0, 1000.0), (-np.inf, 3.0), (5.0, -np.inf)])
def test_logaddexp_weights_sum_to_one_without_overflow(x, y) -> None:
    dx, dy = slopes(pb.logaddexp, np.array([x]), np.array([y]))
    assert dx[0] + dy[0] == 1.0 and dx[0] == pytest.approx(float(1 / (1 + mp.exp(mp.mpf(y) - x))), rel=1e-14)


def test_logaddexp_of_nothing_sends_nothing() -> None:
    assert [g[0] for g in slopes(pb.logaddexp, np.array([-np.inf]), np.array([-np.inf]))] == [0.0, 0.0]


@pytest.mark.parametrize("x", [10.0, 24.9, 25.1, 100.0, 1e4, 1e8])
def test_erfcx_slope_where_the_plain_formula_cancels(x) -> None:
    exact = mp.diff(EXACT["erfcx"], mp.mpf(x)) if x < 1e3 else -1 / (mp.sqrt(mp.pi) * mp.mpf(x) ** 2)
    assert slopes(pb.erfcx, np.array([x]))[0][0] == pytest.approx(float(exact), rel=1e-7 if x >= 1e3 else 1e-12)


@pytest.mark.parametrize("f", [pb.arctan2, pb.hypot])
def test_the_origin_sends_zero_and_the_axes_are_exact(f) -> None:
    y, x = np.array([0.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.0])
    dy, dx = slopes(f, y, x)
    expected = {pb.arctan2: ([0, 1, 0], [0, 0, -0.5]), pb.hypot: ([0, 0, 1], [0, 1, 0])}[f]
    np.testing.assert_array_equal(dy, expected[0])
    np.testing.assert_array_equal(dx, expected[1])


def test_hypot_and_arctan2_neither_overflow_nor_underflow() -> None:
    big = np.array([3e200]), np.array([4e200])
    np.testing.assert_allclose([g[0] for g in slopes(pb.hypot, *big)], [0.6, 0.8], rtol=1e-15)
    np.testing.assert_allclose([g[0] for g in slopes(pb.arctan2, *big)], [1.6e-201, -1.2e-201], rtol=1e-15)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_families_with_an_integer_order(n, rng) -> None:
    x = rng.uniform(0.2, 6.0, 5)
    exact = {
        "polygamma": lambda t: mp.psi(n, t),
        "spherical_jn": lambda t: mp.sqrt(mp.pi / (2 * t)) * mp.besselj(n + 0.5, t),
    }
    for name, f in exact.items():
        op = partial(getattr(pb, name), n)
        for t, y, d in zip(x, value(op, x), slopes(op, x)[0]):
            assert y == pytest.approx(float(f(mp.mpf(t))), rel=1e-12)
            assert d == pytest.approx(float(mp.diff(f, mp.mpf(t))), rel=1e-12)


@pytest.mark.parametrize("n", [-1, 1.5, True])
def test_orders_that_are_no_natural_numbers_are_refused(n) -> None:
    with pytest.raises(pb.PullbackError, match="order"):
        pb.polygamma(n, 1.0)


def test_reflection_of_digamma_and_lgamma_below_zero() -> None:
    x = np.array([-0.5, -3.3])
    np.testing.assert_allclose(slopes(pb.lgamma, x)[0], [float(mp.digamma(v)) for v in x], rtol=1e-13)
    np.testing.assert_allclose(slopes(pb.digamma, x)[0], [float(mp.psi(1, v)) for v in x], rtol=1e-13)


def test_integers_become_floatX() -> None:
    assert pb.exp(np.arange(3)).dtype == pb.config.floatX
    assert pb.log(2).dtype == pb.config.floatX
