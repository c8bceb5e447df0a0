"""Pooling against windows cut out one by one, with ties, NaN, padding and overhang."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as pb
from pullback.errors import ArgumentError, ShapeError
from pullback.graph import Constant, evaluate
from pullback.ops.geometry import Windows, parse_padding

SIZES = st.integers(1, 3)


def run(*outputs):
    values = evaluate(outputs)
    return values[0] if len(outputs) == 1 else values


def cells(x, size, stride, padding, ceil_mode=False):
    """For each window its cells inside the input: an array (.., count of windows) of (values, places, padded count)."""
    ndim = x.ndim - 2
    lengths = x.shape[2:]
    windows = Windows(size, stride, parse_padding(padding, ndim, ""), (1,) * ndim, ceil_mode)
    counts, pads = windows.counts(lengths, ""), windows.pads(lengths)
    for o in itertools.product(*map(range, counts)):
        places = [range(a * s - b, a * s - b + k) for a, s, k, (b, _) in zip(o, stride, size, pads)]
        inside = [p for p in itertools.product(*places) if all(0 <= i < n for i, n in zip(p, lengths))]
        padded = np.prod([sum(-b <= i < n + a for i in r) for r, n, (b, a) in zip(places, lengths, pads)])
        values = np.stack([x[(slice(None), slice(None), *p)] for p in inside], -1)
        yield o, values, [int(np.ravel_multi_index(p, lengths)) for p in inside], padded


@st.composite
def problems(draw):
    ndim = draw(st.integers(1, 3))
    size = tuple(draw(SIZES) for _ in range(ndim))
    lengths = [k + draw(st.integers(0, 3)) for k in size]
    pads = tuple((draw(st.integers(0, k - 1)), draw(st.integers(0, k - 1))) for k in size)
    x = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(-4, 4, (2, 3, *lengths)).astype(float)
    stride = tuple(draw(SIZES) for _ in range(ndim))
    return x, {"size": size, "stride": stride, "padding": draw(st.sampled_from([pads, "same", "full"]))}


@given(problems(), st.booleans())
def test_the_maximum_and_the_place_of_the_first_of_equals(problem, ceil_mode) -> None:
    x, settings = problem
    y, index = run(*pb.max_pool(x, ceil_mode=ceil_mode, return_indices=True, **settings))
    for o, values, places, _ in cells(x, ceil_mode=ceil_mode, **settings):
        at = (slice(None), slice(None), *o)
        np.testing.assert_array_equal(y[at], values.max(-1))
        np.testing.assert_array_equal(index[at], np.take(places, values.argmax(-1)))


@given(problems(), st.booleans(), st.booleans())
def test_the_mean_counts_padding_or_not_but_never_overhang(problem, ceil_mode, count_include_pad) -> None:
    x, settings = problem
    y = run(pb.avg_pool(x, ceil_mode=ceil_mode, count_include_pad=count_include_pad, **settings))
    total = run(pb.sum_pool(x, ceil_mode=ceil_mode, **settings))
    norm = run(pb.lp_pool(x, 3, ceil_mode=ceil_mode, **settings))
    for o, values, places, padded in cells(x, ceil_mode=ceil_mode, **settings):
        at = (slice(None), slice(None), *o)
        count = padded if count_include_pad else len(places)
        np.testing.assert_allclose(y[at], values.sum(-1) / count, atol=1e-12)
        np.testing.assert_allclose(total[at], values.sum(-1), atol=1e-12)
        np.testing.assert_allclose(norm[at], (np.abs(values) ** 3).sum(-1) ** (1 / 3), atol=1e-12)


@pytest.mark.parametrize("pool", [pb.max_pool, pb.avg_pool, pb.sum_pool])
def test_layouts_name_the_axes(rng, pool) -> None:
    x = rng.normal(size=(2, 3, 6, 5))
    for layout in ("NHWC", "NWHC", "CHWN"):
        order = ["NCHW".index(c) for c in layout]
        y = pool(x.transpose(order), (3, 2), (2, 1), layout=layout)
        np.testing.assert_allclose(run(y), run(pool(x, (3, 2), (2, 1))).transpose(order))


def test_dilated_windows(rng) -> None:
    x = rng.normal(size=(2, 3, 9))
    y = run(pb.max_pool1d(x, 3, stride=2, dilation=2))
    np.testing.assert_array_equal(y, np.stack([x[..., i : i + 5 : 2].max(-1) for i in (0, 2, 4)], -1))


def test_adaptive_pooling_shares_the_input_out(rng) -> None:
    x = rng.normal(size=(2, 3, 7, 5))
    mean, best = run(pb.adaptive_avg_pool2d(x, (3, 2)), pb.adaptive_max_pool2d(x, (3, 2)))
    rows, columns = [(0, 3), (2, 5), (4, 7)], [(0, 3), (2, 5)]
    for i, j in itertools.product(range(3), range(2)):
        part = x[:, :, slice(*rows[i]), slice(*columns[j])]
        np.testing.assert_allclose(mean[:, :, i, j], part.mean((2, 3)))
        np.testing.assert_array_equal(best[:, :, i, j], part.max((2, 3)))


def test_global_pooling(rng) -> None:
    x = rng.normal(size=(2, 3, 4, 5))
    np.testing.assert_allclose(run(pb.global_avg_pool(x)), x.mean((2, 3)))
    np.testing.assert_array_equal(run(pb.global_max_pool(x, keepdims=True)), x.max((2, 3), keepdims=True))
    np.testing.assert_array_equal(run(pb.global_max_pool(x, layout="NHWC")), x.max((1, 2)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
def test_maxima_of_any_dtype(rng, dtype) -> None:
    x = rng.integers(0, 9, (1, 2, 6)).astype(dtype)
    y = run(pb.max_pool1d(x, 3, padding=1))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, np.stack([x[..., :2].max(-1), x[..., 2:5].max(-1)], -1))


def test_half_precision_sums_in_single() -> None:
    x = np.ones((1, 1, 4096), "float16")
    assert run(pb.sum_pool1d(x, 4096)).item() == 4096


def test_law_7_ties_go_to_the_first_and_conserve_the_gradient() -> None:
    x = pb.dtensor4()
    g = pb.grad(pb.sum(pb.max_pool2d(x, 3, 1, padding=1)), x)
    plane = evaluate([g], {x: np.zeros((2, 1, 3, 3))})[0]
    assert plane.sum() == 2 * 9
    np.testing.assert_array_equal(plane[1, 0], [[4, 2, 0], [2, 1, 0], [0, 0, 0]])


def test_overlapping_windows_add_up(rng) -> None:
    x = np.zeros((1, 1, 5))
    x[0, 0, 2] = 1
    v = pb.dtensor3()
    upstream = rng.normal(size=(1, 1, 3))
    g = evaluate([pb.grad(pb.sum(pb.max_pool1d(v, 3, 1) * Constant(upstream)), v)], {v: x})[0]
    np.testing.assert_allclose(g, [[[0, 0, upstream.sum(), 0, 0]]])


def test_negative_values_beat_padding() -> None:
    np.testing.assert_array_equal(run(pb.max_pool1d(-np.ones((1, 1, 2)), 2, padding=1)), [[[-1.0, -1.0]]])


class TestRefusals:
    @pytest.mark.parametrize("pool", [pb.max_pool2d, pb.avg_pool2d, pb.sum_pool2d])
    def test_padding_as_wide_as_the_window(self, pool) -> None:
        with pytest.raises(ArgumentError, match="must be smaller than the window"):
            pool(pb.dtensor4(), 3, 3, padding=3)

    def test_a_dilated_window_that_steps_over_the_input(self) -> None:
        with pytest.raises(ShapeError, match="holds no cell"):
            run(pb.max_pool1d(np.ones((1, 1, 2)), 2, padding=1, dilation=3))

    def test_windows_larger_than_the_input(self) -> None:
        with pytest.raises(ShapeError, match=r"max_pool: a window of 4 .* doesn't fit into length 3"):
            pb.max_pool1d(np.ones((1, 1, 3)), 4)

    def test_ranks(self) -> None:
        with pytest.raises(ShapeError, match=r"max_pool2d takes 4-d tensors, got float64\[\?, \?, \?\]"):
            pb.max_pool2d(pb.dtensor3(), 2)
        with pytest.raises(ShapeError, match="max_pool takes images with 1 to 3 spatial axes"):
            pb.max_pool(pb.dmatrix(), 2)

    def test_p_below_one(self) -> None:
        with pytest.raises(ArgumentError, match=r"lp_pool: p=0.5"):
            pb.lp_pool(pb.dtensor3(), 0.5, 2)

    def test_nothing_to_share_out(self) -> None:
        with pytest.raises(ShapeError, match="nothing to pool"):
            pb.adaptive_avg_pool1d(np.ones((1, 1, 0)), 2)
