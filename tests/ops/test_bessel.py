"""Bessel functions and their derivatives in argument and order against mpmath; limits; dtypes."""

import json
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.ops.bessel import Bessel
from pullback.testing.check_op import thorough
from tests.ops.bessel_reference import EXACT, exact
from tests.ops.helpers import slopes, value

REFERENCE = json.loads((Path(__file__).parent.parent / "data" / "bessel.json").read_text())
ORDERS = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1)]


def derivative(kind: str, n: int, m: int, v, x) -> np.ndarray:
    return value(Bessel(kind, n, m), np.asarray(v, float), np.asarray(x, float))


@pytest.mark.parametrize(("n", "m"), ORDERS)
@pytest.mark.parametrize("kind", sorted(EXACT))
def test_derivatives_in_order_and_argument_against_mpmath(kind: str, n: int, m: int) -> None:
    rows = [row for row in REFERENCE if row["kind"] == kind and (row["n"], row["m"]) == (n, m)]
    assert len(rows) >= 10
    found = derivative(kind, n, m, [row["v"] for row in rows], [row["x"] for row in rows])
    for row, y in zip(rows, found):
        near_a_zero = 2e-14 if kind == "jv" else 0
        assert y == pytest.approx(row["value"], rel=3e-12, abs=near_a_zero), row


def test_the_reference_is_what_mpmath_says() -> None:
    for row in REFERENCE[:: 9 if thorough() else 97]:
        assert exact(row["kind"], row["v"], row["x"], row["n"], row["m"]) == row["value"]


def test_the_graph_of_a_derivative_has_one_node_per_order() -> None:
    v, x = pb.dscalar("v"), pb.dscalar("x")
    slope = pb.grad(pb.grad(pb.grad(pb.jv(v, x), x), v), x)
    assert slope.eval({v: 0.7, x: 1.9}) == pytest.approx(exact("jv", 0.7, 1.9, 1, 2), rel=1e-12)


def test_order_and_argument_broadcast_and_take_any_layout(rng) -> None:
    v = rng.uniform(-2, 3, (4, 3)).T
    x = rng.uniform(0.2, 7, (5, 1, 8))[:, :, ::2]
    found = derivative("iv", 1, 0, v, x)
    assert found.shape == (5, 3, 4)
    for place in [(0, 0, 0), (4, 2, 3), (2, 1, 0)]:
        alone = derivative("iv", 1, 0, v[place[1:]], x[place[0], 0, place[2]])
        assert found[place] == pytest.approx(alone.item(), rel=1e-14)


@pytest.mark.parametrize("kind", sorted(EXACT))
def test_float32_is_the_float64_result_rounded(kind, rng) -> None:
    v, x = rng.uniform(-1, 2, 7).astype("float32"), rng.uniform(0.2, 6, 7).astype("float32")
    a, b = pb.vector("v"), pb.vector("x")
    y = getattr(pb, kind)(a, b)
    assert y.dtype == "float32"
    for found, order in zip(pb.grad(y.sum(), [a, b]), [(1, 0), (0, 1)]):
        got = found.eval({a: v, b: x})
        assert got.dtype == np.float32
        assert np.array_equal(got, derivative(kind, *order, v, x).astype("float32"))


def test_an_integer_order_is_a_number_but_has_no_gradient() -> None:
    v, x = pb.ivector("v"), pb.vector("x")
    y = pb.iv(v, x)
    assert y.dtype == "float32"
    assert pb.grad(y.sum(), x).eval({v: [0], x: [1.5]})[0] == pytest.approx(np.float32(exact("iv", 0, 1.5, 0, 1)))
    with pytest.raises(pb.ArgumentTypeError, match="no neighbourhood"):
        pb.grad(y.sum(), v)
    assert pb.kv(2, 3).dtype == "float32"


def test_a_scaled_function_keeps_its_digits_far_out() -> None:
    for x in (1e3, 1e6, 1e12):  # exp(-x) I_0(x) = 1 / sqrt(2 pi x), so its slope is -1 / (2 x) of that; I' - I cancels
        assert derivative("ive", 0, 1, 0.0, x) == pytest.approx(-0.5 / x / np.sqrt(2 * np.pi * x), rel=1 / x)


def test_j_far_out_agrees_with_its_integral_where_they_meet() -> None:
    v = np.array([-7.9, -0.4, 0.0, 3.0, 7.9])
    before, after = derivative("jv", 2, 0, v, np.full(5, 64.0)), derivative("jv", 2, 0, v, np.full(5, 64.0 + 1e-13))
    assert np.allclose(before, after, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("kind", "n", "v", "limit"),
    [
        ("iv", 0, 0.0, 1.0), ("iv", 0, -1.5, -np.inf), ("iv", 0, -2.0, 0.0), ("iv", 1, 0.0, -np.inf),
        ("iv", 2, 0.0, np.inf), ("iv", 1, -1.0, np.inf), ("iv", 1, -2.0, -np.inf), ("jv", 1, -1.0, np.inf),
        ("jv", 1, -0.5, -np.inf), ("jv", 3, 0.5, 0.0), ("kv", 0, -3.0, np.inf), ("kv", 1, 0.0, 0.0),
        ("kv", 1, -0.5, -np.inf), ("kv", 2, 0.0, np.inf),
    ],
)  # fmt: skip
def test_limits_at_zero(kind: str, n: int, v: float, limit: float) -> None:
    at, near = derivative(kind, n, 0, [v, v], [0.0, 1e-200])
    assert at == limit
    assert np.sign(near) == np.sign(limit) or limit == 0 and abs(near) < 1e-15


def test_limits_at_infinity_and_nan() -> None:
    v = [0.0, 0.5, -0.5, 2.0]
    inf = np.full(4, np.inf)
    assert np.array_equal(derivative("iv", 1, 0, v, inf), [0, -np.inf, np.inf, -np.inf])
    assert np.array_equal(derivative("iv", 2, 0, v, inf), -inf)
    for kind in ("ive", "jv", "kv"):
        for order in [(0, 0), (1, 0), (0, 1), (2, 1)]:
            assert np.array_equal(derivative(kind, *order, v, inf), np.zeros(4)), (kind, order)
    for kind in EXACT:
        for order in [(0, 0), (1, 0), (0, 1)]:
            assert np.isnan(derivative(kind, *order, [np.nan, 1.0], [1.0, np.nan])).all()


def test_negative_arguments() -> None:
    x = np.array([-3.0, -0.4])
    for kind in ("iv", "jv", "ive"):
        for v in (0.0, 1.0, -2.0):
            for m in (0, 1, 2):
                mirrored = (-1.0) ** (v + m) * derivative(kind, 0, m, [v, v], -x)
                assert np.allclose(derivative(kind, 0, m, [v, v], x), mirrored, rtol=1e-14), (kind, v, m)
        assert np.isnan(derivative(kind, 1, 0, [1.0, 1.0], x)).all()  # between whole orders the function is complex
    assert np.isnan(slopes(lambda a: pb.iv(0.5, a), np.array([-1.0]))).all()


def test_an_order_is_learnt_by_newton_steps() -> None:
    """The smoothness of a Matern covariance, from its values."""
    x = np.linspace(0.2, 3, 12)
    v = pb.shared(np.asarray(1.2), name="v")
    cost = pb.square(pb.log(pb.kv(v, x) / pb.kv(1.7, x))).mean()
    slope = pb.grad(cost, v)
    step = pb.function([], cost, updates={v: v - slope / pb.grad(slope, v)})
    for _ in range(12):
        last = step()
    assert float(v.get_value()) == pytest.approx(1.7, abs=1e-9) and last < 1e-15
