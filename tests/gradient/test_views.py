"""Views: the value is x, on both backends and through rewrites; the gradient is what the view says."""

import numpy as np
import pytest

import pullback as pb
from tests.gradient.numeric import value

VIEWS = {
    "zero_grad": (pb.zero_grad, lambda g: 0 * g),
    "consider_constant": (pb.consider_constant, lambda g: 0 * g),
    "grad_clip": (lambda x: pb.grad_clip(x, -1, 2), lambda g: np.clip(g, -1, 2)),
    "grad_scale": (lambda x: pb.grad_scale(x, -3), lambda g: -3 * g),
}


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("name", VIEWS)
def test_value_and_gradient(name, backend):
    view, expected = VIEWS[name]
    x = pb.dvector("x")
    u = np.array([0.5, -4, 10, 0])
    f = pb.function([x], [view(x), pb.grad((view(x) * u).sum(), x)], backend=backend)
    point = np.array([1.0, -2, np.inf, np.nan])
    for _ in range(2):
        found, slope = f(point)
        np.testing.assert_array_equal(found, point)
        np.testing.assert_array_equal(slope, expected(u))
        found[0] = 7  # the result is the caller's own
    assert point[0] == 1


def test_clipping_keeps_nan_and_differentiates_again():
    x = pb.dvector("x")
    g = pb.grad((pb.grad_clip(x, -1, 1) * pb.constant([np.nan, 5.0])).sum(), x)
    np.testing.assert_array_equal(value(g, {x: np.zeros(2)}), [np.nan, 1])
    first = pb.grad(pb.square(pb.grad_clip(x, -1, 1)).sum(), x)
    second = pb.grad(first.sum(), x)
    # the slope 2 of the slope 2x arrives at the view again, and is clipped again
    np.testing.assert_array_equal(value(second, {x: np.array([0.2, 3])}), [1, 0])


@pytest.mark.parametrize("bounds", [(1, -1), (np.nan, 1)])
def test_an_empty_interval_is_refused(bounds):
    with pytest.raises(ValueError, match="grad_clip"):
        pb.grad_clip(pb.dvector(), *bounds)


def test_disconnected_and_undefined():
    x = pb.dvector("x")
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(pb.disconnected_grad(x).sum(), x)
    with pytest.raises(pb.UndefinedGradientError, match="undefined_grad says so"):
        pb.grad(pb.undefined_grad(x).sum(), x)
    g = pb.grad((pb.disconnected_grad(x) * x).sum(), x)
    np.testing.assert_array_equal(value(g, {x: np.array([3.0])}), [3])


def test_views_differ_by_their_numbers():
    assert pb.grad_clip(pb.dvector(), -1, 1).owner.op != pb.grad_clip(pb.dvector(), -1, 2).owner.op
    assert pb.grad_scale(pb.dvector(), 2).owner.op == pb.grad_scale(pb.dvector(), 2.0).owner.op
    assert pb.zero_grad(pb.dvector()).owner.op != pb.disconnected_grad(pb.dvector()).owner.op


def test_integers_pass_through():
    k = pb.lvector()
    np.testing.assert_array_equal(pb.function([k], pb.zero_grad(k))(np.array([1, 2])), [1, 2])
