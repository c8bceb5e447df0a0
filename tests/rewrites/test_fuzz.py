"""Random graphs with special values: rewritten, fused and compiled, they are still the same function."""

import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate, toposort
from pullback.rewrites import optimize
from tests.rewrites.compare import run, unfused

UNARY = [
    pb.negative, pb.abs, pb.square, pb.tanh, pb.exp, pb.relu, pb.sigmoid, pb.sqrt, pb.sin, pb.floor, pb.zeros_like,
    pb.ones_like, lambda v: v * 0, lambda v: v * 1, lambda v: v + 0, lambda v: v**2, lambda v: v**3, lambda v: v - v,
    lambda v: pb.cast(pb.cast(v, "float64"), v.dtype), lambda v: pb.log(1 + v * v), lambda v: pb.cast(v > 0, v.dtype),
]  # fmt: skip
BINARY = [
    pb.add, pb.subtract, pb.multiply, pb.maximum, pb.minimum, pb.strong_mul, lambda a, b: pb.where(a > b, a, b),
    lambda a, b: a / (1 + b * b), lambda a, b: pb.where(pb.logical_not(a > 0), b, a),
]  # fmt: skip
SHAPE = [
    lambda v: v.sum(), lambda v: v[None] if v.ndim < 2 else v[0], lambda v: pb.transpose(v), lambda v: v.mean(),
    lambda v: pb.reshape(v, v.shape), lambda v: pb.sum(v, axis=0, keepdims=True) if v.ndim else v,
]  # fmt: skip
POINTS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 3.0, 1e-20])


def random_graph(rng, leaves, size):
    pool = list(leaves)
    for _ in range(size):
        kind = rng.random()
        if kind < 0.4:
            pool.append(UNARY[rng.integers(len(UNARY))](pool[rng.integers(len(pool))]))
        elif kind < 0.9:
            a, b = (pool[k] for k in rng.integers(0, len(pool), 2))
            pool.append(BINARY[rng.integers(len(BINARY))](a, b))
        else:
            pool.append(SHAPE[rng.integers(len(SHAPE))](pool[rng.integers(len(pool))]))
    return pool[len(leaves) :][-6:]


def close(old, new, rtol):
    for a, b in zip(old, new, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def draw(rng, special):
    s, v, m = pb.dscalar("s"), pb.dvector("v"), pb.dmatrix("m")
    n = int(rng.integers(1, 4))
    pick = (lambda shape: rng.choice(POINTS, shape)) if special else (lambda shape: rng.normal(size=shape))
    given = {s: np.array(pick(())), v: pick(n), m: pick((int(rng.choice([1, n])), n))}
    return given, random_graph(rng, list(given), int(rng.integers(3, 25)))


@pytest.mark.parametrize("special", [True, False], ids=["special", "ordinary"])
@pytest.mark.parametrize("seed", range(60))
def test_law_11_random_graphs_keep_values_and_nan_sets(seed, special):
    rng = np.random.default_rng(seed)
    given, outputs = draw(rng, special)
    expected = run(outputs, given)
    for shapes in (None, {v: a.shape for v, a in given.items()}):
        close(expected, run(unfused(outputs, list(given), shapes), given), 1e-9)
        close(expected, run(optimize(outputs, list(given), shapes), given), 1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_law_11_gradients_are_rewritten_right(seed):
    rng = np.random.default_rng(1000 + seed)
    given, outputs = draw(rng, special=seed % 2 == 0)
    wrt = list(given)
    cost = sum((pb.sum(v * float(rng.normal())) for v in outputs), pb.constant(0.0))
    gradients = pb.grad(cost, wrt, disconnected_inputs="ignore")
    close(run(gradients, given), run(optimize(gradients, wrt), given), 1e-8)
    second = pb.grad(sum(pb.sum(g) for g in gradients), wrt, disconnected_inputs="ignore")
    close(run(second, given), run(optimize(second, wrt), given), 1e-7)


@pytest.mark.parametrize("seed", range(20))
def test_rewriting_twice_changes_nothing_more(seed):
    rng = np.random.default_rng(seed)
    given, outputs = draw(rng, special=False)
    once = unfused(outputs, list(given))
    assert len(toposort(unfused(once, list(given)))) == len(toposort(once))


@pytest.mark.parametrize("seed", range(12))
def test_both_backends_agree_on_random_graphs(seed):
    rng = np.random.default_rng(seed)
    given, outputs = draw(rng, special=False)
    reference = evaluate(outputs, given)
    found = pb.function(list(given), outputs, on_unused_input="ignore")(*given.values())
    for a, b in zip(reference, found):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
