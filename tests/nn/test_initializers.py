"""First values: the variance that each paper asks for, and the same bits from the same seed."""

import numpy as np
import pytest

import pullback as pb
from pullback.nn import initializers as init

SHAPE = (3, 5, 20, 60)  # a window of 15 cells, 20 channels in, 60 out
IN, OUT = 15 * 20, 15 * 60


def draw(initializer, shape=SHAPE, seed=1):
    return initializer(shape, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("initializer", "variance"),
    [
        (init.HeNormal(), 2 / IN),
        (init.HeUniform(), 2 / IN),
        (init.GlorotNormal(), 2 / (IN + OUT)),
        (init.GlorotUniform(), 2 / (IN + OUT)),
        (init.LecunNormal(), 1 / IN),
        (init.LecunUniform(), 1 / IN),
        (init.Scaled(3.0, fan="out"), 3 / OUT),
        (init.Normal(0.3), 0.09),
        (init.Uniform(0.6), 0.12),
        (init.TruncatedNormal(1.0), 0.7737),  # 1 - 2 * 2 phi(2) / (2 Phi(2) - 1)
    ],
    ids=str,
)
def test_variance_and_mean(initializer, variance):
    values = draw(initializer)
    assert values.shape == SHAPE
    assert values.var() == pytest.approx(variance, rel=0.05)
    assert abs(values.mean()) < 5 * np.sqrt(variance / values.size)


def test_distributions_have_their_bounds():
    assert np.abs(draw(init.TruncatedNormal(0.5))).max() <= 1.0
    bound = np.sqrt(6 / IN)
    largest = np.abs(draw(init.HeUniform())).max()
    assert 0.99 * bound < largest <= bound
    assert np.abs(draw(init.HeNormal())).max() > bound


def test_constants():
    for initializer, value in ((init.Zeros(), 0), (init.Ones(), 1), (init.Constant(2.5), 2.5)):
        np.testing.assert_array_equal(draw(initializer, (2, 3)), np.full((2, 3), value))


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (2, 2, 3, 5)])
def test_orthogonal(shape):
    w = draw(init.Orthogonal(2.0), shape).reshape(-1, shape[-1])
    gram = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-12)


def test_same_seed_same_bits():
    np.testing.assert_array_equal(draw(init.HeNormal()), draw(init.HeNormal()))
    assert not np.array_equal(draw(init.HeNormal()), draw(init.HeNormal(), seed=2))


def test_refuses():
    with pytest.raises(pb.ShapeError, match="no inputs and outputs"):
        draw(init.HeNormal(), (3,))
    with pytest.raises(pb.ArgumentError, match="fan='both'"):
        init.Scaled(fan="both")
