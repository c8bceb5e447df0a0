"""Pooling kernels: values, places and gradients against the ops' own definition."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import pullback as pb
from pullback.errors import ShapeError
from pullback.ops.geometry import AdaptiveWindows, Windows
from pullback.ops.pool import AvgPool, AvgPoolGrad, MaxPool, PoolGather, PoolScatter
from tests.compile.agreement import assert_close, assert_same_on_any_threads, native, reference, under_isa


def windows(size, stride=None, padding=0, dilation=1, ceil=False) -> Windows:
    """Windows over two axes; numbers stand for the same on each."""
    each = lambda value: (value, value) if isinstance(value, int) else tuple(value)  # noqa: E731
    if not isinstance(padding, str):
        padding = tuple(p if isinstance(p, tuple) else (p, p) for p in each(padding))
    return Windows(each(size), each(stride or size), padding, each(dilation), ceil)


# name: (windows, shape of the images, pooled axes)
NAMED = {
    "halving": (windows(2), (3, 8, 10, 20), (1, 2)),
    "halving odd lengths": (windows(2), (2, 9, 7, 33), (1, 2)),
    "halving with an overhang": (windows(2, ceil=True), (2, 9, 7, 33), (1, 2)),
    "one step at a time": (windows(2, 1, ((0, 1), (0, 1))), (2, 6, 5, 17), (1, 2)),
    "overlapping": (windows(3, 2, 1), (2, 11, 9, 16), (1, 2)),
    "dilated": (windows(2, (2, 1), 0, (2, 3)), (2, 9, 8, 5), (1, 2)),
    "apart": (windows((2, 1), 3), (2, 8, 9, 6), (1, 2)),
    "channels first": (windows(2), (3, 5, 8, 6), (2, 3)),
    "whole image": (windows((5, 6)), (4, 5, 6, 18), (1, 2)),
    "stride and dilation share no factor": (windows(3, (2, 3), 1, (3, 2)), (2, 13, 14, 5), (1, 2)),
    "three axes": (Windows((2, 3, 2), (1, 2, 2), ((0, 1), (1, 0), (0, 0)), (1, 1, 2)), (2, 5, 7, 6, 17), (1, 2, 3)),
    "three axes, channels first": (Windows((2,) * 3, (2,) * 3, ((0, 0),) * 3, (1,) * 3), (2, 3, 4, 5, 6), (2, 3, 4)),
    "windows that share an image": (AdaptiveWindows((3, 4)), (2, 7, 9, 18), (1, 2)),
    "as many windows as cells": (AdaptiveWindows((5, 2)), (2, 3, 5, 4), (3, 1)),
    "one axis": (Windows((3,), (2,), ((1, 1),), (1,)), (2, 13, 17), (1,)),
    "one axis, channels first": (Windows((2,), (2,), ((0, 0),), (1,)), (2, 5, 12), (2,)),
}  # fmt: skip


def check(windows: Windows, shape, axes, dtype="float32", seed=0, ties=True) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(dtype)
    if ties:
        x = np.round(x)
    pool = MaxPool(windows, axes)
    expected = pool.perform(x)
    for a, e in zip(native(pool, x), expected):
        assert a.dtype == e.dtype
        np.testing.assert_array_equal(a, e)
    index = np.ascontiguousarray(expected[1])
    g = rng.standard_normal(index.shape).astype(dtype)
    for op in (PoolScatter(axes, windows), PoolScatter(axes)):
        compare(op, g, index, x)
    compare(PoolGather(axes), x, index)
    for counted in (True, False):
        average = AvgPool(windows, axes, counted)
        compare(average, x)
        compare(AvgPoolGrad(average), g, x)
    compare(AvgPool(windows, axes, divisor=3), x)


def compare(op, *arrays) -> None:
    (found,), (expected,) = native(op, *arrays), reference(op, *arrays)
    assert_close(found, expected, 1 + np.abs(expected).max(), 8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMED)
def test_named_cases(name, dtype):
    check(*NAMED[name], dtype)


@st.composite
def cases(draw):
    pair = lambda low, high: (draw(st.integers(low, high)), draw(st.integers(low, high)))  # noqa: E731
    size, stride, dilation = pair(1, 4), pair(1, 4), pair(1, 2)
    extents = [(k - 1) * d + 1 for k, d in zip(size, dilation)]
    padding = tuple((draw(st.integers(0, (e - 1) // 2)), draw(st.integers(0, (e - 1) // 2))) for e in extents)
    lengths = [e + draw(st.integers(0, 8)) for e in extents]
    batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 35))
    shape, axes = draw(
        st.sampled_from([((batch, *lengths, channels), (1, 2)), ((batch, channels, *lengths), (2, 3))])
    )
    return windows(size, stride, draw(st.sampled_from([padding, "same"])), dilation, draw(st.booleans())), shape, axes


@hypothesis.given(cases(), st.integers(0, 2**32 - 1), st.booleans())
def test_any_case(case, seed, ties):
    try:
        MaxPool(case[0], case[2]).perform(np.zeros(case[1]))
    except ShapeError:  # a dilated window that reaches over its padding from end to end holds no cell
        hypothesis.reject()
    check(*case, dtype="float64", seed=seed, ties=ties)


def test_places_are_left_out_where_nobody_asks_for_them():
    x = np.random.default_rng(0).standard_normal((2, 9, 7, 33)).astype("float32")
    images = pb.ftensor4("x")
    f = pb.function([images], pb.max_pool2d(images, 3, 2, layout="NHWC"), backend="native")
    expected, _ = MaxPool(windows(3, 2), (1, 2)).perform(x)
    np.testing.assert_array_equal(f(x), expected)


def test_nan_wins_and_the_first_of_them():
    x = np.zeros((1, 4, 4, 18), "float32")
    x[0, 0, 1] = x[0, 1, 0] = np.nan
    x[0, 2, 2] = np.inf
    x[0, 3, 3] = np.nan
    x[0, 2:, :2] = -np.inf
    pool = MaxPool(windows(2), (1, 2))
    for a, e in zip(native(pool, x), pool.perform(x)):
        np.testing.assert_array_equal(a, e)


@pytest.mark.parametrize("name", ["halving", "overlapping"])
def test_results_do_not_depend_on_the_number_of_threads(name):
    over, shape, axes = NAMED[name]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 32, 32, 24)).astype("float32")

    def both_ways():
        y, index = native(MaxPool(over, axes), x)
        average = AvgPool(over, axes)
        gradients = native(PoolScatter(axes, over), y, index, x) + native(AvgPoolGrad(average), y, x)
        return [y, index, *gradients, *native(average, x)]

    assert_same_on_any_threads(both_ways)


def check_all() -> None:
    for case in NAMED.values():
        check(*case)
    check(*NAMED["overlapping"], dtype="float64")


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_all")
