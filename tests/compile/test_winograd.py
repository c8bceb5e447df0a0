"""Winograd's filtering: exact where the direct sum isn't finite, as accurate as it by default, both tile sizes."""

import numpy as np
import pytest

import pullback as pb
from pullback.ops.conv import Convolution, ConvolutionGradFilters, ConvolutionGradInputs
from tests.compile.agreement import assert_close, assert_same_on_any_threads, native, reference, under_isa
from tests.compile.test_conv import Case, case

# pixels that make whole tiles, and that don't; channels that fill vectors, and that don't
CASES = {
    "whole tiles": case((8, 12), 32, 48, 3, padding=1),
    "pieces of tiles": case((9, 14), 21, 19, 3, padding=1),
    "without padding": case((7, 10), 16, 33, 3),
    "more padding than the filters reach": case((6, 5), 16, 16, 3, padding=((3, 4), (2, 3))),
    "filters beyond the cache, few tiles": case((6, 5), 130, 120, 3, padding=1),
    "filters made panel by panel": case((2, 3), 520, 513, 3, batch=1, padding=1),
    "small images": case((2, 3), 16, 32, 3, batch=9, padding=1),
    "one axis of three dimensions": case((3, 8, 7), 16, 17, (1, 3, 3), padding=(0, 1, 1)),
}


@pytest.fixture(params=["accurate", "fast"])
def conv(request):
    with pb.config.override(conv=request.param):
        yield request.param


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_against_the_definition(name, dtype, conv):
    check(CASES[name], dtype, 8 if conv == "accurate" else 64)


def check(one: Case, dtype: str, ulps: float) -> None:
    for _, op, inputs in one.passes(*one.arrays(0, dtype)):
        (found,), (expected,) = native(op, *inputs), reference(op, *inputs)
        (scale,) = reference(op, *map(np.abs, inputs))
        assert_close(found, expected, scale.max(), ulps)


def test_default_precision_is_that_of_the_direct_sum():
    """Errors of F(2x2, 3x3) beside those of summing the same products one after the other in float32."""
    one = case((14, 14), 128, 32, 3, padding=1)
    for name, op, inputs in one.passes(*one.arrays(1, "float32")):
        (found,), (expected,) = native(op, *inputs), reference(op, *inputs)
        error = np.sqrt(np.mean((found - expected) ** 2))
        assert error <= np.sqrt(np.mean((one_by_one(one, name, *inputs) - expected) ** 2)), name


def one_by_one(one: Case, name: str, a: np.ndarray, b: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
    """A pass of a 3x3 convolution with padding 1, every product added to its sum in single precision."""
    rows, columns = one.lengths
    wide = lambda x: np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))  # noqa: E731
    out = np.zeros(one.filtering.output_shape(a.shape, b.shape) if like is None else like.shape, "float32")
    for r in range(3):
        for s in range(3):
            if name == "forward":
                window = wide(a)[:, r : r + rows, s : s + columns]
                for c in range(one.into):
                    out += window[..., c : c + 1] * b[r, s, c]
            elif name == "inputs":
                window = wide(b)[:, 2 - r : 2 - r + rows, 2 - s : 2 - s + columns]
                for k in range(one.out):
                    out += window[..., k : k + 1] * a[r, s, :, k]
            else:
                window = wide(a)[:, r : r + rows, s : s + columns].reshape(-1, one.into)
                for pixel, g in zip(window, b.reshape(-1, one.out)):
                    out[r, s] += np.outer(pixel, g)
    return out


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_is_what_the_direct_sum_says(odd, conv):
    """Overflow, infinities and NaN appear in those outputs that a direct sum would give them to, with their signs."""
    one = case((9, 8), 18, 20, 3, padding=1)
    x, w, g = one.arrays(0, "float32")
    x[0, 4, 4, 3] = x[1, 0, 7, 17] = g[1, 3, 2, 5] = odd
    for _, op, inputs in one.passes(x, w, g):
        (found,) = native(op, *inputs)
        with np.errstate(all="ignore"):
            expected = op.perform(*inputs)
        for kind in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(kind(found), kind(expected))
        sound = np.isfinite(expected)
        np.testing.assert_allclose(found[sound], expected[sound], rtol=1e-3, atol=2e-3)


def test_filters_are_transformed_again_when_they_change():
    one = CASES["filters beyond the cache, few tiles"]
    x, w, _ = one.arrays(0, "float32")
    weights = pb.shared(w)
    images = pb.ftensor4("x")
    f = pb.function([images], Convolution(one.filtering)(images, weights), backend="native")
    for scale in (1, 1, -2):
        weights.set_value(w * np.float32(scale))
        (expected,) = reference(Convolution(one.filtering), x, w * np.float32(scale))
        np.testing.assert_allclose(f(x), expected, atol=1e-3)


def test_a_function_goes_on_with_more_threads_than_it_was_planned_for():
    one = case((20, 20), 32, 32, 3, batch=8, padding=1)
    x, w, _ = one.arrays(0, "float32")
    images, filters = pb.ftensor4("x"), pb.ftensor4("w")
    f = pb.function([images, filters], Convolution(one.filtering)(images, filters), backend="native")
    assert_same_on_any_threads(lambda: [f(x, w)])


def test_second_gradients_take_the_same_kernels():
    """The three passes are each other's gradients, so that second order runs native too."""
    one = CASES["pieces of tiles"]
    x, w, g = one.arrays(0, "float64")
    f = one.filtering
    for op, inputs in ((ConvolutionGradInputs(f), (w, g, x)), (ConvolutionGradFilters(f), (x, g, w))):
        variables = [pb.dtensor4() for _ in inputs]
        cost = pb.sum(pb.square(op(*variables)))
        terms = pb.grad(cost, variables[:2])
        results = [pb.function(variables, terms, backend=kind)(*inputs) for kind in ("native", "reference")]
        for a, b in zip(*results):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)


def check_all() -> None:
    for setting, ulps in (("accurate", 8), ("fast", 64)):
        with pb.config.override(conv=setting):
            for name in ("pieces of tiles", "filters beyond the cache, few tiles"):
                check(CASES[name], "float32", ulps)


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_all")
