"""Clipping by the norm of all gradients together."""

import numpy as np
import pytest

import pullback as pb


def clip(arrays, max_norm):
    variables = [pb.tensor(a.dtype.name, (None,) * a.ndim) for a in arrays]
    return pb.function(variables, pb.clip_by_global_norm(variables, max_norm))(*arrays)


def test_scales_all_together_or_nothing(rng):
    arrays = [rng.normal(size=(3, 2)), rng.normal(size=5).astype("float32")]
    n = np.sqrt(sum(np.sum(np.square(a, dtype="float64")) for a in arrays))
    for limit in (0.5 * n, 2 * n, 0.0):
        for found, a in zip(clip(arrays, limit), arrays):
            assert found.dtype == a.dtype
            np.testing.assert_allclose(found, a * min(1.0, limit / n), rtol=1e-6)


def test_norms_that_float32_can_not_hold():
    (found,) = clip([np.full(100, 1e30, "float32")], 1.0)
    np.testing.assert_allclose(found, 0.1, rtol=1e-6)


def test_what_is_not_finite_is_left_to_be_seen():
    found = clip([np.array([1.0, np.inf]), np.array([2.0])], 1.0)
    assert found[0].tolist() == [1.0, np.inf] and found[1].tolist() == [2.0]


def test_zeros_stay_zeros_with_zero_gradient():
    x = pb.dvector("x")
    (y,) = pb.clip_by_global_norm([x], 1.0)
    assert pb.grad(y.sum(), x).eval({x: np.zeros(3)}).tolist() == [1.0, 1.0, 1.0]


def test_refuses_and_takes_none():
    assert pb.clip_by_global_norm([], 1.0) == []
    for limit in (-1.0, float("nan")):
        with pytest.raises(pb.ArgumentError, match="max_norm"):
            pb.clip_by_global_norm([pb.dvector()], limit)
