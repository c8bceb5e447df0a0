"""Normalisation: values against NumPy, statistics, accuracy in float32, refusals."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, ShapeError
from pullback.graph import Constant, evaluate

EPS = 1e-3


def run(*outputs):
    values = evaluate(outputs)
    return values[0] if len(outputs) == 1 else values


def standardised(x: np.ndarray, axes: tuple[int, ...], eps: float = EPS) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def parameters(rng, *shape):
    return rng.normal(size=shape), rng.normal(size=shape)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_batch_norm_in_training(rng, axis) -> None:
    x = rng.normal(3, 2, size=(4, 3, 5))
    gamma, beta = parameters(rng, x.shape[axis])
    others = tuple(a for a in range(3) if a != axis % 3)
    y, mean, var = run(*pb.batch_norm_train(x, gamma, beta, EPS, axis))
    expected = standardised(x, others) * np.expand_dims(gamma, others) + np.expand_dims(beta, others)
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(mean, x.mean(others))
    np.testing.assert_allclose(var, x.var(others))
    np.testing.assert_array_equal(run(pb.batch_norm(x, gamma, beta, True, EPS, axis)), y)


def test_batch_norm_at_inference(rng) -> None:
    x, (gamma, beta) = rng.normal(size=(4, 3, 5)), parameters(rng, 3)
    mean, var = rng.normal(size=3), rng.uniform(0.5, 2, 3)
    g, b, m, v = (p[:, None] for p in (gamma, beta, mean, var))
    inside, outside = run(
        pb.batch_norm(x, gamma, beta, False, EPS, mean=mean, var=var),
        pb.batch_norm(x, gamma, beta, False, EPS, mean=mean, var=var, eps_outside=True),
    )
    np.testing.assert_allclose(inside, g * (x - m) / np.sqrt(v + EPS) + b, rtol=1e-12)
    np.testing.assert_allclose(outside, g * (x - m) / (np.sqrt(v) + EPS) + b, rtol=1e-12)


def test_training_statistics_at_inference_give_the_same(rng) -> None:
    x, (gamma, beta) = rng.normal(size=(6, 3)), parameters(rng, 3)
    for outside in (False, True):
        y, mean, var = run(*pb.batch_norm_train(x, gamma, beta, EPS, eps_outside=outside))
        again = run(pb.batch_norm(x, gamma, beta, False, EPS, 1, mean, var, outside))
        np.testing.assert_allclose(again, y, rtol=1e-12)


def test_scale_and_shift_may_be_left_out(rng) -> None:
    x, (gamma, beta) = rng.normal(size=(4, 3)), parameters(rng, 3)
    plain, scaled, shifted = run(
        pb.batch_norm(x, None, None, True, EPS),
        pb.batch_norm(x, gamma, None, True, EPS),
        pb.batch_norm(x, None, beta, True, EPS),
    )
    np.testing.assert_allclose(plain, standardised(x, (0,)), rtol=1e-10)
    np.testing.assert_allclose(scaled, gamma * plain, rtol=1e-10)
    np.testing.assert_allclose(shifted, plain + beta, rtol=1e-10)


def test_the_gradient_has_no_mean_and_no_part_along_the_output(rng) -> None:
    x = pb.dmatrix()
    y = pb.batch_norm(x, None, None, True, 0.0)
    upstream = Constant(rng.normal(size=(7, 3)))
    value, g = evaluate([y, pb.grad(pb.sum(y * upstream), x)], {x: rng.normal(size=(7, 3))})
    np.testing.assert_allclose([g.sum(0), (g * value).sum(0)], 0, atol=1e-12)


def test_a_batch_of_one_gives_the_shift() -> None:
    x = pb.dmatrix()
    y = pb.batch_norm(x, [2.0, 3.0], [0.5, -1.0], True)
    value, g = evaluate([y, pb.grad(pb.sum(y), x)], {x: np.array([[7.0, -9.0]])})
    np.testing.assert_array_equal(value, [[0.5, -1.0]])
    np.testing.assert_array_equal(g, [[0.0, 0.0]])


def test_no_batch_at_all() -> None:
    y, mean, var = run(*pb.batch_norm_train(np.ones((0, 3)), np.ones(3), np.ones(3)))
    assert y.shape == (0, 3) and (mean == 0).all() and (var == 0).all()


def test_statistics_are_accurate_far_from_zero(rng) -> None:
    """Single precision, a large mean, many rows: E[x^2] - E[x]^2 would leave nothing of the variance."""
    x = (rng.normal(size=(50_000, 2)) + 1000).astype("float32")
    y, mean, var = run(*pb.batch_norm_train(x, None, None))
    assert y.dtype == mean.dtype == "float32"
    np.testing.assert_allclose(mean, x.mean(0, dtype="float64"), rtol=1e-6)
    np.testing.assert_allclose(var, x.var(0, dtype="float64"), rtol=1e-4)


def test_half_precision_computes_in_single(rng) -> None:
    x = pb.tensor("float16", (None, None))
    y, _, var = pb.batch_norm_train(x, None, None)
    upstream = rng.normal(size=(4096, 2))
    given = (rng.normal(size=(4096, 2)) * 500).astype("float16")  # the variance is beyond the range of float16
    value, variance, g = evaluate([y, var, pb.grad(pb.sum(pb.cast(y, "float64") * upstream), x)], {x: given})
    assert (value.dtype, variance.dtype, g.dtype) == ("float16", "float32", "float16")
    np.testing.assert_allclose(value.astype(float), standardised(given.astype(float), (0,)), atol=2e-3)
    assert np.isfinite(variance).all() and (np.abs(g) > 0).any()


def test_layer_norm(rng) -> None:
    x = rng.normal(size=(2, 3, 5))
    gamma, beta = parameters(rng, 3, 5)
    y = run(pb.layer_norm(x, gamma, beta, (1, 2), EPS))
    np.testing.assert_allclose(y, standardised(x, (1, 2)) * gamma + beta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(run(pb.layer_norm(x, eps=EPS)), standardised(x, (2,)), rtol=1e-9)
    np.testing.assert_allclose(
        run(pb.layer_norm(x, gamma[:, 0], None, 1, EPS)), standardised(x, (1,)) * gamma[:, :1], rtol=1e-9
    )


def test_group_norm_is_layer_norm_of_each_group(rng) -> None:
    x, (gamma, beta) = rng.normal(size=(2, 6, 4, 3)), parameters(rng, 6)
    parts = standardised(x.reshape(2, 3, 2, 4, 3), (2, 3, 4)).reshape(x.shape)
    expected = parts * gamma[:, None, None] + beta[:, None, None]
    np.testing.assert_allclose(run(pb.group_norm(x, 3, gamma, beta, eps=EPS)), expected, rtol=1e-9, atol=1e-12)
    last = run(pb.group_norm(x.transpose(0, 2, 3, 1), 3, gamma, beta, axis=-1, eps=EPS))
    np.testing.assert_allclose(last, expected.transpose(0, 2, 3, 1), rtol=1e-9, atol=1e-12)


def test_instance_norm_is_group_norm_of_single_channels(rng) -> None:
    x, (gamma, beta) = rng.normal(size=(2, 3, 4, 5)), parameters(rng, 3)
    np.testing.assert_allclose(
        run(pb.instance_norm(x, gamma, beta, eps=EPS)), run(pb.group_norm(x, 3, gamma, beta, eps=EPS)), rtol=1e-10
    )


def test_rms_and_p_norms(rng) -> None:
    x, (gamma, _) = rng.normal(size=(2, 3, 5)), parameters(rng, 5)
    rms, l2, l1 = run(pb.rms_norm(x, gamma, eps=EPS), pb.l2_normalize(x, 1), pb.l1_normalize(x, None))
    np.testing.assert_allclose(rms, x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * gamma)
    np.testing.assert_allclose(l2, x / np.linalg.norm(x, axis=1, keepdims=True))
    np.testing.assert_allclose(l1, x / np.abs(x).sum())


@pytest.mark.parametrize("normalize", [pb.l1_normalize, pb.l2_normalize])
def test_zeros_stay_zeros_to_the_second_order(normalize) -> None:
    x = pb.dmatrix()
    g = pb.grad(pb.sum(normalize(x, eps=0.5) * Constant(np.array([[1.0, -2.0]]))), x)
    value, first, second = evaluate(
        [normalize(x, eps=0.5), g, pb.grad(pb.sum(pb.square(g)), x)], {x: np.zeros((1, 2))}
    )
    np.testing.assert_array_equal(value, [[0.0, 0.0]])
    np.testing.assert_array_equal(first, [[2.0, -4.0]])
    np.testing.assert_array_equal(second, [[0.0, 0.0]])


@pytest.mark.parametrize("size", [1, 4, 5])
def test_local_response_norm_looks_at_neighbouring_channels(rng, size) -> None:
    x = rng.normal(size=(2, 6, 3))
    around = [
        (x[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1] ** 2).sum(1, keepdims=True) for c in range(6)
    ]
    expected = x / (2 + 0.5 / size * np.concatenate(around, 1)) ** 0.75
    np.testing.assert_allclose(run(pb.local_response_norm(x, size, 0.5, k=2.0)), expected, rtol=1e-12)


class TestRefusals:
    def test_missing_statistics(self) -> None:
        with pytest.raises(ArgumentError, match="without training, mean and var must be given"):
            pb.batch_norm(pb.dmatrix(), None, None, False)

    def test_parameters_of_another_rank(self) -> None:
        with pytest.raises(ShapeError, match=r"batch_norm: scale and shift must have 1 axes"):
            pb.batch_norm(pb.dmatrix(), pb.dmatrix(), None, True)

    def test_parameters_of_another_length(self) -> None:
        with pytest.raises(ShapeError, match="don't broadcast"):
            pb.layer_norm(np.ones((2, 3)), np.ones(4))
        x, gamma = pb.dmatrix(), pb.dvector()
        with pytest.raises((ShapeError, ValueError)):
            evaluate([pb.layer_norm(x, gamma)], {x: np.ones((2, 3)), gamma: np.ones(4)})

    def test_groups_that_do_not_divide_the_channels(self) -> None:
        with pytest.raises(ShapeError, match="can't be cut into groups=4 equal parts"):
            pb.group_norm(np.ones((2, 6, 3)), 4)

    def test_nothing_to_normalise_over(self) -> None:
        with pytest.raises(ShapeError, match="no spatial axis"):
            pb.instance_norm(pb.dmatrix())

    def test_epsilon(self) -> None:
        with pytest.raises(ArgumentError, match=r"layer_norm: eps=-1"):
            pb.layer_norm(pb.dmatrix(), eps=-1)
        with pytest.raises(ArgumentError, match=r"l2_normalize: eps=0"):
            pb.l2_normalize(pb.dmatrix(), eps=0)
