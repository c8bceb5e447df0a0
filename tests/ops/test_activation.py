"""Activations: values and slopes against their formulas in mpmath, kinks, limits, NaN, and parameters."""

from functools import partial

import mpmath as mp
import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate
from pullback.testing import check_op
from tests.ops.helpers import slopes, value

mp.mp.dps = 40


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def softplus(x):
    return mp.log(1 + mp.exp(x))


def clip(x, low, high):
    return min(max(x, low), high)


SELU = mp.mpf("1.0507009873554804934193349852946"), mp.mpf("1.6732632423543772848170429916717")
CASES = {
    "sigmoid": (pb.sigmoid, sigmoid),
    "log_sigmoid": (pb.log_sigmoid, lambda x: mp.log(sigmoid(x))),
    "softplus": (pb.softplus, softplus),
    "softplus beta": (partial(pb.softplus, beta=2.5), lambda x: softplus(mp.mpf(2.5) * x) / 2.5),
    "ndtr": (pb.ndtr, mp.ncdf),
    "relu": (pb.relu, lambda x: max(x, 0)),
    "relu6": (pb.relu6, lambda x: clip(x, 0, 6)),
    "leaky_relu": (partial(pb.leaky_relu, alpha=0.125), lambda x: x if x > 0 else x / 8),
    "elu": (partial(pb.elu, alpha=1.5), lambda x: x if x > 0 else 1.5 * mp.expm1(x)),
    "selu": (pb.selu, lambda x: SELU[0] * (x if x > 0 else SELU[1] * mp.expm1(x))),
    "celu": (partial(pb.celu, alpha=0.5), lambda x: x if x > 0 else 0.5 * mp.expm1(2 * x)),
    "silu": (pb.silu, lambda x: x * sigmoid(x)),
    "mish": (pb.mish, lambda x: x * mp.tanh(softplus(x))),
    "gelu": (pb.gelu, lambda x: x * mp.ncdf(x)),
    "gelu tanh": (
        partial(pb.gelu, approximate="tanh"),
        lambda x: x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3))),
    ),
    "hardtanh": (partial(pb.hardtanh, min_val=-1.5, max_val=2.0), lambda x: clip(x, -1.5, 2)),
    "hard_sigmoid": (pb.hard_sigmoid, lambda x: clip(x / 6 + 0.5, 0, 1)),
    "hard_swish": (pb.hard_swish, lambda x: x * clip(x / 6 + 0.5, 0, 1)),
    "hard_mish": (pb.hard_mish, lambda x: x if x > 0 else x * x / 2 + x if x > -2 else 0),
    "softshrink": (partial(pb.softshrink, lambd=0.5), lambda x: mp.sign(x) * max(abs(x) - 0.5, 0)),
    "hardshrink": (partial(pb.hardshrink, lambd=0.5), lambda x: x if abs(x) > 0.5 else 0),
    "tanhshrink": (pb.tanhshrink, lambda x: x - mp.tanh(x)),
    "threshold": (partial(pb.threshold, threshold=0.25, value=-3.0), lambda x: x if x > 0.25 else -3),
    "softsign": (pb.softsign, lambda x: x / (1 + abs(x))),
    "stair": (pb.stair, lambda x: mp.floor(x / 2) + (x - mp.floor(x) if mp.floor(x) % 2 else 0)),
    "hardtan": (pb.hardtan, lambda x: clip(x, -1, 1)),
    "lhtan": (pb.lhtan, lambda x: clip(x, 0, 1) + mp.mpf(0.001) * (x - clip(x, 0, 1))),
    "plse": (pb.plse, lambda x: clip(x, -4, 4) / 8 + 0.5 + mp.mpf(0.01) * (x - clip(x, -4, 4))),
    "loggy": (pb.loggy, lambda x: 2 * sigmoid(x) - 1),
    "ramp": (pb.ramp, lambda x: max(x, 0) + mp.mpf(0.1) * x),
    "relie": (pb.relie, lambda x: x if x > 0 else mp.mpf(0.01) * x),
    "elliot": (pb.elliot, lambda x: x / (1 + abs(x)) / 2 + 0.5),
    "symmelliot": (partial(pb.symmelliot, steepness=3.0), lambda x: 3 * x / (1 + abs(3 * x))),
}  # fmt: skip
INPUTS = [-45.3, -8.71, -4.2, -3.1, -2.3, -1.7, -0.7, -0.3, -1e-4, 1e-4, 0.3, 0.7, 1.3, 2.7, 3.2, 4.4, 6.3, 9.6, 41.9]


@pytest.mark.parametrize("name", CASES)
def test_values_and_slopes(name) -> None:
    f, exact = CASES[name]
    x = np.array(INPUTS)
    for at, y, d in zip(map(mp.mpf, INPUTS), value(f, x), slopes(f, x)[0]):
        assert y == pytest.approx(float(exact(at)), rel=1e-12, abs=1e-17), at
        assert d == pytest.approx(float(mp.diff(exact, at, h=mp.mpf("1e-12"))), rel=1e-9, abs=1e-15), at


@pytest.mark.parametrize("name", CASES)
def test_proof_to_second_order(name) -> None:
    check_op(CASES[name][0], np.linspace(-4.5, 4.5, 12).reshape(3, 4), strong_zero=True)


@pytest.mark.parametrize("name", CASES)
def test_nan_shows_in_the_value_and_infinities_have_their_limits(name) -> None:
    f, exact = CASES[name]
    ends = value(f, np.array([np.nan, -np.inf, np.inf]))
    assert np.isnan(ends[0])
    for found, at in zip(ends[1:], (-1e9, 1e9)):
        limit = float(exact(mp.mpf(at)))
        assert found == (np.copysign(np.inf, at) if abs(limit) > 1e5 else pytest.approx(limit, rel=1e-8, abs=1e-8))
    assert not np.isnan(slopes(f, np.array([-np.inf, np.inf]))[0]).any()


KINKS = {
    "relu": {0.0: 0}, "relu6": {0.0: 0, 6.0: 0}, "leaky_relu": {0.0: 0.125}, "elu": {0.0: 1.5}, "celu": {0.0: 1},
    "hardtanh": {-1.5: 0, 2.0: 0}, "hard_sigmoid": {-3.0: 0, 3.0: 0}, "hard_swish": {-3.0: 0, 3.0: 1},
    "hard_mish": {-2.0: 0, 0.0: 1}, "softshrink": {-0.5: 0, 0.5: 0}, "hardshrink": {-0.5: 0, 0.5: 0},
    "threshold": {0.25: 0}, "stair": {0.0: 0, 1.0: 0, 2.0: 0, -1.0: 0}, "hardtan": {-1.0: 0, 1.0: 0},
    "lhtan": {0.0: 0.001, 1.0: 0.001}, "plse": {-4.0: 0.125, 4.0: 0.125}, "ramp": {0.0: 0.1}, "relie": {0.0: 0.01},
    "softsign": {0.0: 1.0},
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KINKS)
def test_kinks_send_what_the_docs_say(name, dtype) -> None:
    at = np.array(list(KINKS[name]), dtype)
    found = slopes(CASES[name][0], at)[0]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, list(KINKS[name].values()), rtol=1e-6)


def test_a_subnormal_is_above_zero() -> None:
    tiny = np.array([1e-40, -1e-40], "float32")
    np.testing.assert_array_equal(slopes(pb.relu, tiny)[0], [1, 0])


@pytest.mark.parametrize("name", CASES)
def test_float32_and_float16(name) -> None:
    f = CASES[name][0]
    for dtype, tol in (("float32", 2e-5), ("float16", 1e-2)):
        x = np.array(INPUTS, dtype)
        y = value(f, x)
        assert y.dtype == dtype
        np.testing.assert_allclose(y, value(f, x.astype("float64")), rtol=tol, atol=tol / 10)
        np.testing.assert_allclose(slopes(f, x)[0], slopes(f, x.astype("float64"))[0], rtol=tol, atol=tol)


@pytest.mark.parametrize(
    ("f", "low", "high"),
    [
        (pb.leaky_relu, 0.1, 0.4), (pb.elu, 0.5, 2.0), (pb.celu, 0.5, 2.0), (pb.softplus, 0.5, 2.0),
        (pb.softshrink, 0.3, 0.6), (pb.symmelliot, 0.5, 2.0),
    ],
)  # fmt: skip
def test_parameters_are_differentiable_too(f, low, high, rng) -> None:
    check_op(f, rng.normal(size=(3, 4)), rng.uniform(low, high, size=(4,)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_prelu_has_a_slope_per_channel(axis, rng) -> None:
    x, w = rng.normal(size=(2, 3, 4)), rng.uniform(0.1, 0.5, size=(2, 3, 4)[axis])
    shape = [1, 1, 1]
    shape[axis] = -1
    expected = np.where(x > 0, x, x * w.reshape(shape))
    np.testing.assert_array_equal(value(lambda x, w: pb.prelu(x, w, axis), x, w), expected)
    check_op(lambda x, w: pb.prelu(x, w, axis), x, w)
    np.testing.assert_array_equal(value(pb.prelu, x, np.array(0.25)), np.where(x > 0, x, x * 0.25))


def test_hardtanh_sends_the_rest_to_its_bounds() -> None:
    x, low, high = np.array([-3.0, -1.0, 0.0, 2.0, 5.0]), np.array(-1.0), np.array(2.0)
    dx, dlow, dhigh = slopes(pb.hardtanh, x, low, high, upstream=[1.0, 2.0, 4.0, 8.0, 16.0])
    np.testing.assert_array_equal(dx, [0, 0, 4, 0, 0])
    assert (dlow, dhigh) == (3.0, 24.0)


def test_glu(rng) -> None:
    x = rng.normal(size=(2, 6))
    np.testing.assert_allclose(value(pb.glu, x), x[:, :3] / (1 + np.exp(-x[:, 3:])), rtol=1e-14)
    check_op(lambda x: pb.glu(x, 1), x)
    with pytest.raises(pb.ShapeError, match="2 equal pieces"):
        pb.glu(np.ones((2, 5)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pb.gelu(1.0, approximate="fast"), "'none' or 'tanh'"), (lambda: pb.celu(1.0, 0), "alpha is 0"),
        (lambda: pb.hardtanh(1.0, 2.0, 1.0), "not below"),
        (lambda: pb.prelu(np.ones((2, 2)), np.ones((2, 2))), "vector"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(call, words) -> None:
    with pytest.raises(pb.PullbackError, match=words):
        call()


def test_python_parameters_never_widen_or_narrow() -> None:
    x = pb.dvector("x")
    for f, _ in CASES.values():
        assert f(x).dtype == "float64"
        assert f(pb.fvector()).dtype == "float32"


def test_a_saturated_sigmoid_neither_overflows_nor_warns() -> None:
    with np.errstate(all="raise"):
        x = pb.dvector()
        found = evaluate([pb.sigmoid(x), pb.softplus(x), pb.log_sigmoid(x)], {x: np.array([-1e3, 1e3])})
    np.testing.assert_array_equal(found, [[0, 1], [0, 1e3], [-1e3, 0]])
