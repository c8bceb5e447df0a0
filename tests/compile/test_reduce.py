"""Reductions on the native backend: any axes, layouts and dtypes, running sums, places of extremes."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import pullback as pb
from pullback.ops.cumulative import CumProd, CumSum, Prod, Recurrence
from pullback.ops.elementwise import SumTo
from pullback.ops.extremes import ArgMax, ArgMin, Max, Min
from pullback.ops.reduce import AllTrue, AnyTrue, Center, Norm2, Sum
from tests.compile.agreement import assert_same_on_any_threads, native, under_isa

LENGTHS = st.sampled_from([1, 2, 3, 5, 8, 9, 16, 17, 24, 33])
REDUCTIONS = (Sum, Max, Min, Prod, AnyTrue, AllTrue, Norm2)
DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "int8", "bool")


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 1.5, shape).astype(dtype)
    return rng.integers(0 if dtype == "uint8" else -2, 3, shape).astype(dtype)


def check(op, x: np.ndarray) -> None:
    """The kernel against the definition in the widest dtype."""
    (found,) = native(op, x)
    expected = op.perform(x.astype("float64") if x.dtype.kind == "f" else x)
    assert found.shape == expected.shape and found.dtype.name == op.make_node(pb.asarray(x)).outputs[0].dtype
    if found.dtype.kind != "f":
        assert np.array_equal(found, expected)
        return
    magnitude = np.abs(expected)
    if type(op) in (Sum, SumTo):
        magnitude = type(op)(*[op.axis] if type(op) is Sum else []).perform(np.abs(x.astype("float64")))
    assert np.all(np.abs(found - expected) <= 16 * np.finfo(found.dtype).eps * magnitude.reshape(expected.shape))


@hypothesis.given(
    st.sampled_from(REDUCTIONS), st.lists(LENGTHS, min_size=1, max_size=4), st.sampled_from(DTYPES), st.data()
)
@hypothesis.settings(max_examples=120)
def test_any_axes(kind, shape, dtype, data):
    if kind is Norm2 and dtype != "float32":
        dtype = "float32"
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    axes = (min(axes),) if kind is Prod else tuple(sorted(axes))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    check(kind(axes, data.draw(st.booleans())), drawn(rng, tuple(shape), dtype))


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_turned_and_cut_inputs(order, axes, rng):
    x = rng.standard_normal((6, 9, 11)).astype("float32")
    v = pb.tensor3("x")
    f = pb.function([v], [Sum(axes)(pb.transpose(v, order)), Max(axes)(pb.transpose(v[:, 1::2], order))])
    expected = x.transpose(order).sum(axes), x[:, 1::2].transpose(order).max(axes)
    for found, right in zip(f(x), expected):
        assert np.allclose(found, right, atol=1e-5)


@pytest.mark.parametrize("kind", [Sum, Max, Min])
@pytest.mark.parametrize(
    "shape, axes",
    [((100_003,), (0,)), ((3, 70_000), (1,)), ((70_000, 3), (0,)), ((5000, 70), (0,)), ((2, 9000), (0,)),
     ((4, 1200, 5), (1,)), ((60, 40, 50), (0, 2)), ((100_000, 5), (1,)), ((9, 2, 8), ())],
)  # fmt: skip
def test_large(kind, shape, axes, rng):
    check(kind(axes), drawn(rng, shape, "float32"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_are_as_accurate_as_pairwise_ones(axis, dtype, rng):
    x = (rng.random((40_000, 5) if axis == 0 else (5, 40_000)) + 1000).astype(dtype)
    (found,) = native(Sum((axis,)), x)
    exact = np.sum(x.astype("longdouble"), axis)
    assert np.all(np.abs(found - exact) <= 8 * np.finfo(dtype).eps * exact)


@pytest.mark.parametrize("kind", [Max, Min])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_nan_wins(kind, axis, rng):
    x = rng.standard_normal((40, 50)).astype("float32")
    x[7, 9] = np.nan
    x[8, 8], x[9, 9] = np.inf, -np.inf
    (found,) = native(kind((axis,)), x)
    assert np.array_equal(found, kind((axis,)).perform(x), equal_nan=True)


@pytest.mark.parametrize("kind", [AnyTrue, AllTrue])
def test_truth_of_nan_and_zeros(kind):
    x = np.float32([[0, -0.0, 0], [np.nan, 0, 0], [np.nan, 1, 2], [1e-45, 1, 1]])
    for axes in [(0,), (1,), (0, 1)]:
        assert np.array_equal(native(kind(axes), x)[0], kind(axes).perform(x))


def test_integers_wrap_as_in_numpy():
    x = np.full((5, 3), 2**62, "int64")
    assert np.array_equal(native(Sum((0,)), x)[0], x.sum(0))


@pytest.mark.parametrize(
    "shape, like", [((4, 5, 6), (5, 1)), ((4, 5, 6), (4, 1, 6)), ((40, 3), (3,)), ((7, 9), (1, 1))]
)
def test_sum_to(shape, like, rng):
    g, target = drawn(rng, shape, "float32"), np.zeros(like, "float32")
    (found,) = native(SumTo(), g, target)
    assert np.allclose(found, SumTo().perform(g, target), atol=1e-5)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_center(axes, rng):
    x = (rng.standard_normal((6, 5, 33)) + 1000).astype("float32")
    (found,) = native(Center(axes), x)
    assert np.allclose(found, Center(axes).perform(x.astype("float64")), atol=1e-4)
    assert not native(Center(axes), np.full((3, 4, 5), 0.1, "float32"))[0].any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("kind", [ArgMax, ArgMin])
@pytest.mark.parametrize("shape", [(7, 40), (40, 7), (3, 5, 6), (1,), (17,), (2, 100)])
def test_first_extreme(kind, shape, dtype, rng):
    for axis in range(len(shape)):
        x = drawn(rng, shape, dtype).round() if dtype[0] == "f" else drawn(rng, shape, dtype)
        assert np.array_equal(native(kind((axis,)), x)[0], kind((axis,)).perform(x))
    if dtype[0] == "f":
        x.flat[[-1, len(x.flat) // 2]] = np.nan
        assert np.array_equal(native(kind((axis,)), x)[0], kind((axis,)).perform(x))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running(axis, reverse, rng):
    x = drawn(rng, (4, 5, 19), "float32")
    for op in (CumSum(axis, reverse), CumProd(axis, reverse)):
        assert np.allclose(native(op, x)[0], op.perform(x), atol=1e-5)
        whole = drawn(rng, (3, 2, 5), "int32")
        assert np.array_equal(native(op, whole)[0], op.perform(whole))
    a = drawn(rng, x.shape, "float32")
    a.flat[5], x.flat[:40] = np.inf, 0  # a zero state stays zero beside infinity
    op = Recurrence(axis, reverse)
    with np.errstate(invalid="ignore"):
        assert np.allclose(native(op, a, x)[0], op.perform(a, x), atol=1e-4, equal_nan=True)


@pytest.mark.parametrize(
    "shape, axis", [((100, 30_000), 1), ((30_000, 100), 0), ((3_000_000,), 0), ((64, 300, 200), 1)]
)
def test_results_do_not_depend_on_the_number_of_threads(shape, axis, rng):
    x = rng.standard_normal(shape).astype("float32")
    assert_same_on_any_threads(lambda: native(Sum((axis,)), x))


def check_some() -> None:
    rng = np.random.default_rng(0)
    for kind in (Sum, Max, Prod, AllTrue):
        for axis in range(3):
            check(kind((axis,)), drawn(rng, (9, 17, 21), "float32"))
            check(kind((axis,)), drawn(rng, (5, 9, 6), "uint8"))
    for kind in (ArgMax, ArgMin):
        x = drawn(rng, (5, 23, 9), "float32").round()
        assert all(np.array_equal(native(kind((a,)), x)[0], kind((a,)).perform(x)) for a in range(3))


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_some")
