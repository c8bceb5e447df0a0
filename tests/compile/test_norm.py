"""Normalisation kernels: values, statistics and gradients against the ops' own definition."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from pullback.ops.norm import Normalize, NormalizeGrad
from tests.compile.agreement import assert_same_on_any_threads, native, reference, under_isa

# name: (shape of x, averaged axes, axes of gamma)
NAMED = {
    "batch norm": ((6, 5, 7, 19), (0, 1, 2), (3,)),
    "batch norm of many pixels": ((4, 61, 60, 16), (0, 1, 2), (3,)),
    "batch norm, channels first": ((5, 9, 4, 6), (0, 2, 3), (1,)),
    "batch norm of rows": ((70, 33), (0,), (1,)),
    "batch norm without scale": ((8, 3, 3, 5), (0, 1, 2), ()),
    "layer norm": ((7, 5, 45), (2,), (2,)),
    "layer norm of long rows": ((3, 9001), (1,), (1,)),
    "layer norm of two axes": ((5, 6, 7), (1, 2), (1, 2)),
    "layer norm of a middle axis": ((5, 6, 7), (1,), (1,)),
    "layer norm without scale": ((9, 17), (1,), ()),
    "one vector": ((37,), (0,), (0,)),
    "instance norm": ((3, 8, 7, 18), (1, 2), (3,)),
    "instance norm without scale": ((3, 8, 7, 5), (1, 2), ()),
    "instance norm, channels first": ((3, 6, 8, 7), (2, 3), (1,)),
    "group norm": ((3, 5, 6, 4, 5), (1, 2, 4), (3, 4)),
    "group norm, channels first": ((3, 4, 5, 3, 6), (2, 3, 4), (1, 2)),
    "a single number each": ((4, 5), (), (1,)),
}  # fmt: skip


def check(shape, axes, along, dtype="float32", eps=1e-3, outside=False, seed=0, mean=0.0) -> None:
    rng = np.random.default_rng(seed)
    gamma_shape = tuple(n if a in along else 1 for a, n in enumerate(shape))
    x, g = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    x += np.asarray(mean, dtype)
    gamma, beta = (rng.standard_normal(gamma_shape).astype(dtype) for _ in range(2))
    op = Normalize(axes, eps, outside)
    found, expected = native(op, x, gamma, beta), reference(op, x, gamma, beta)
    tiny = 64 * np.finfo(dtype).eps
    spread = 1 + abs(mean)
    for a, e, scale in zip(found, expected, (4 * spread, spread, 1)):
        assert a.shape == e.shape and a.dtype == dtype
        np.testing.assert_allclose(a, e, rtol=tiny, atol=tiny * scale)
    grad = NormalizeGrad(axes, eps, outside)
    inputs = x, gamma, *(s.astype(dtype) for s in expected[1:]), g
    found, expected = native(grad, *inputs), reference(grad, *inputs)
    inverse, _ = op.scales(np.asarray(inputs[3], "float64"))
    count = np.sqrt(x.size)
    for a, e, scale in zip(found, expected, (np.abs(g * gamma * inverse).max(), count * inverse.max(), count)):
        assert a.shape == e.shape and a.dtype == dtype
        np.testing.assert_allclose(a, e, rtol=tiny, atol=tiny * scale * spread)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMED)
def test_named_cases(name, dtype):
    check(*NAMED[name], dtype)


@pytest.mark.parametrize("name", ["batch norm", "layer norm", "group norm"])
def test_eps_outside_the_root(name):
    check(*NAMED[name], outside=True)


@st.composite
def cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=5)))
    subset = st.lists(st.sampled_from(range(len(shape))), unique=True)
    return shape, tuple(sorted(draw(subset))), tuple(sorted(draw(subset)))


@hypothesis.given(cases(), st.booleans(), st.integers(0, 2**32 - 1))
def test_any_axes(case, outside, seed):
    check(*case, dtype="float64", outside=outside, eps=0.1, seed=seed)


@pytest.mark.parametrize("name", ["batch norm of many pixels", "layer norm of long rows", "group norm"])
def test_a_large_mean_costs_no_accuracy(name):
    """The variance about a mean of a thousand is right to what the rounding of the input allows."""
    check(*NAMED[name], mean=1000.0)


@pytest.mark.parametrize("name", ["batch norm of many pixels", "layer norm of long rows"])
def test_equal_numbers_have_no_variance(name):
    shape, axes, along = NAMED[name]
    x = np.full(shape, 0.1, "float32")
    one = np.ones([n if a in along else 1 for a, n in enumerate(shape)], "float32")
    y, mean, var = native(Normalize(axes, 1e-6, True), x, one, 0 * one)
    assert not y.any() and not var.any()
    assert (mean == np.float32(0.1)).all()


def test_nan_and_infinity_stay_in_their_column():
    x = np.random.default_rng(0).standard_normal((40, 20)).astype("float32")
    x[0, 3], x[7, 5] = np.inf, np.nan
    one = np.ones((1, 20), "float32")
    op = Normalize((0,), 1e-5)
    with np.errstate(invalid="ignore"):
        expected = reference(op, x, one, one)
    for a, e in zip(native(op, x, one, one), expected):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(e))


@pytest.mark.parametrize("name", ["batch norm of many pixels", "layer norm", "instance norm"])
def test_results_do_not_depend_on_the_number_of_threads(name):
    (shape, axes, along), rng = NAMED[name], np.random.default_rng(0)
    shape = (shape[0] * 40, *shape[1:])
    gamma_shape = tuple(n if a in along else 1 for a, n in enumerate(shape))
    x, gamma, beta = (rng.standard_normal(s).astype("float32") for s in (shape, gamma_shape, gamma_shape))

    def both_ways():
        y, mean, var = native(Normalize(axes, 1e-5), x, gamma, beta)
        return [y, mean, var, *native(NormalizeGrad(axes, 1e-5), x, gamma, mean, var, beta + x)]

    assert_same_on_any_threads(both_ways)


def check_all() -> None:
    for case in NAMED.values():
        check(*case)
    check(*NAMED["batch norm"], dtype="float64")


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_all")
