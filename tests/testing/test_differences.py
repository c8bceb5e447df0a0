"""Numerical derivatives: how accurate they are, and that they know where not to be believed."""

import numpy as np
import pytest

from pullback.testing.differences import (
    STEPS,
    complex_step,
    extrapolate,
    flat,
    numerical_jacobian,
    random_direction,
    relative_error,
    signed,
    slope,
)


def value(f):
    return lambda arrays: [f(*arrays)]


@pytest.mark.parametrize(
    ("f", "derivative"),
    [(np.exp, np.exp), (np.sin, np.cos), (lambda x: x**7, lambda x: 7 * x**6), (np.arctan, lambda x: 1 / (1 + x * x))],
)
def test_differences_are_good_to_eleven_digits(f, derivative, rng: np.random.Generator) -> None:
    x = rng.uniform(-2, 2, (3, 4))
    d = signed(rng, x.shape)
    there = slope(value(f), [x], [d], STEPS[0])
    np.testing.assert_allclose(there.change, flat([derivative(x) * d]), rtol=1e-11, atol=1e-11)
    assert there.is_smooth(signed(rng, (12,)))


def test_several_inputs_and_outputs_move_together(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 3))
    there = slope(lambda a: [a[0] * a[1], a[0] + a[1]], [x, y], [np.ones(3), None], STEPS[0])
    np.testing.assert_allclose(there.change, [*y, 1, 1, 1], rtol=1e-11)


@pytest.mark.parametrize("shift", [0.0, 1e-9, 1e-5, 1e-3])
@pytest.mark.parametrize("f", [np.abs, lambda x: np.maximum(x, 0), np.floor, lambda x: np.where(x > 0, x * x, x)])
def test_a_kink_within_the_step_is_noticed(f, shift: float) -> None:
    x = np.array([1.3, shift, -1.2])
    there = slope(value(f), [x], [np.array([1.0, 0.7, 0.4])], STEPS[0])
    assert not there.is_smooth(np.array([0.8, -1.1, 0.6]))


def test_a_kink_out_of_reach_does_no_harm() -> None:
    there = slope(value(np.abs), [np.array([0.5, -0.5])], [np.ones(2)], STEPS[0])
    assert there.is_smooth(np.ones(2))


def test_a_kink_that_the_cotangent_hides_does_no_harm() -> None:
    there = slope(value(np.abs), [np.array([0.5, 0.0])], [np.ones(2)], STEPS[0])
    assert there.is_smooth(np.array([1.0, 0.0])) and not there.is_smooth(np.array([1.0, 0.1]))


def test_values_of_single_precision_are_not_believed(rng: np.random.Generator) -> None:
    x = rng.normal(size=5)
    there = slope(value(lambda x: np.sin(x.astype(np.float32)).astype(np.float64)), [x], [np.ones(5)], STEPS[0])
    assert not there.is_smooth(np.ones(5))


def test_nan_is_not_believed() -> None:
    assert not slope(value(np.log), [np.array([-1.0])], [np.ones(1)], STEPS[0]).is_smooth(np.ones(1))


def test_a_shape_that_jumps_is_not_believed() -> None:
    there = slope(value(lambda x: np.arange(0.0, x[0] * 4, 1.0)), [np.array([1.0])], [np.ones(1)], STEPS[0])
    assert not there.is_smooth(np.ones(4))


def test_the_complex_step_has_no_cancellation(rng: np.random.Generator) -> None:
    x, d = rng.normal(size=(2, 6))
    np.testing.assert_allclose(complex_step(value(np.sin), [x], [d]), np.cos(x) * d, rtol=1e-15)


def test_extrapolation_removes_even_powers() -> None:
    h = 0.01 * 0.5 ** np.arange(4)
    best, error = extrapolate([np.array([3.0 + 2 * k**2 - k**4 + 5 * k**6]) for k in h], 2)
    assert best == pytest.approx(3.0, abs=1e-14) and error < 1e-10


def test_the_jacobian_column_by_column() -> None:
    a = np.arange(6.0).reshape(2, 3)
    jacobian = numerical_jacobian(lambda arrays: [a @ arrays[0]], [np.ones(3)], 0)
    np.testing.assert_allclose(jacobian, a, atol=1e-11)


def test_the_measure() -> None:
    assert relative_error(1.0, 1.0, 0.0) == 0.0
    assert relative_error(1.0, -1.0, 0.0) == 2.0
    assert relative_error(0.0, 0.0, 0.0) == 0.0
    assert relative_error(1e-3, 0.0, 1.0) == pytest.approx(1e-3)  # small beside |v||g|
    assert relative_error(0.0, 1e-13, 0.0, noise=1e-12) == 0.0  # explained by rounding
    assert relative_error(0.0, 1.0, 0.0, noise=1e-12) == pytest.approx(1.0)
    assert relative_error(float("nan"), 1.0, 1.0) == float("inf")


def test_cotangents_are_signed_and_not_units(rng: np.random.Generator) -> None:
    g = signed(rng, (1000,))
    assert (g > 0).any() and (g < 0).any() and np.abs(g).min() >= 0.3 and not np.isin(np.abs(g), 1.0).any()
    d = random_direction(rng, np.array([1e6, 0.0]))
    assert abs(d[0]) <= 1e6 and abs(d[1]) <= 1.0
