"""Matrix products on the native backend: any shapes, layouts and batches."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import pullback as pb
from pullback.ops.linear import MatMul
from tests.compile.agreement import assert_close, assert_same_on_any_threads, native, under_isa

LENGTHS = st.sampled_from([1, 1, 2, 3, 5, 13, 14, 15, 16, 17, 31, 32, 33, 47, 64, 70])
LAYOUTS = st.sampled_from(
    ["rows", "rows", "columns", "columns", "every second", "turned every second", "upside down", "mirrored"]
)


def laid_out(rng: np.random.Generator, shape: tuple[int, ...], layout: str, dtype: str):
    """(a contiguous array, the function that views it as an operand of this shape)."""
    *batch, m, n = shape
    turn = layout in ("columns", "turned every second")
    step = 2 if "second" in layout else 1
    stored = (*batch, n, m * step) if turn else (*batch, m, n * step)

    def view(v):
        if layout in ("upside down", "mirrored"):
            return v[..., ::-1, :] if layout == "upside down" else v[..., ::-1]
        return v[..., ::step].swapaxes(-1, -2) if turn else v[..., ::step]

    return rng.standard_normal(stored).astype(dtype), view


@st.composite
def products(draw):
    """(shapes of two operands, their layouts)"""
    m, k, n = draw(LENGTHS), draw(LENGTHS), draw(LENGTHS)
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    own = []
    for _ in range(2):
        lengths = [1 if draw(st.integers(0, 3)) == 0 else length for length in batch]
        own.append(tuple(lengths[draw(st.integers(0, len(batch))) if draw(st.booleans()) else 0 :]))
    return ((*own[0], m, k), (*own[1], k, n)), (draw(LAYOUTS), draw(LAYOUTS))


def check(shapes, layouts, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (a, view_a), (b, view_b) = (laid_out(rng, s, w, dtype) for s, w in zip(shapes, layouts))
    x, y = (pb.tensor(dtype, (None,) * v.ndim) for v in (a, b))
    f = pb.function([x, y], MatMul()(view_a(x), view_b(y)), backend="native")
    f(a, b)
    found = f(a, b)
    assert all(step.kernel != "perform" for step in f.profile(a, b).steps)
    expected = np.matmul(view_a(a).astype("float64"), view_b(b).astype("float64"))
    k = shapes[0][-1]  # partial sums grow as sqrt(k), and so does the number of their rounding errors that add up
    assert_close(found, expected, 2 * k + 9 * np.sqrt(k), 1)


@hypothesis.given(products(), st.sampled_from(["float32", "float64"]), st.integers(0, 2**32 - 1))
@hypothesis.settings(max_examples=60)
def test_any_product(product, dtype, seed):
    check(*product, dtype, seed)


SHAPES = [(130, 1024, 150), (129, 513, 2048), (300, 1030, 340), (130, 4096, 1), (1, 800, 4100)]


@pytest.mark.parametrize("second", ["rows", "columns"])
@pytest.mark.parametrize("first", ["rows", "columns"])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_whose_operands_are_copied_first(shape, first, second):
    m, k, n = shape
    check(((m, k), (k, n)), (first, second), "float32", 0)


def test_many_small_products_and_shared_operands():
    for shapes in [((40, 7, 5), (40, 5, 9)), ((40, 7, 5), (5, 9)), ((7, 5), (40, 5, 9)), ((4, 1, 7, 5), (1, 9, 5, 3))]:
        check(shapes, ("rows", "columns"), "float32", 1)
        check(shapes, ("columns", "rows"), "float64", 2)


@pytest.mark.parametrize("shape", [(200, 300, 170), (512, 1024, 130), (1, 4000, 3000), (3000, 4000, 1), (16, 8, 9000)])
def test_results_do_not_depend_on_the_number_of_threads(shape, rng):
    m, k, n = shape
    a, b = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal((k, n)).astype("float32")
    assert_same_on_any_threads(lambda: native(MatMul(), a, b))


def test_half_precision_is_computed_in_single(rng):
    a, b = rng.standard_normal((3, 20, 40)).astype("float16"), rng.standard_normal((40, 37)).astype("float16")
    (found,) = native(MatMul(), a, b)
    assert found.dtype == np.float16
    assert np.allclose(found, a.astype("float64") @ b.astype("float64"), 1e-3, 1e-2)


def test_nan_and_infinity_reach_what_they_should(rng):
    a, b = rng.standard_normal((20, 40)).astype("float32"), rng.standard_normal((40, 37)).astype("float32")
    a[3, 7], b[9, 36] = np.nan, np.inf
    (found,) = native(MatMul(), a, b)
    finite = np.ones((20, 37), bool)
    finite[3] = finite[:, 36] = False
    assert np.array_equal(np.isfinite(found), finite)


def check_some() -> None:
    for m, k, n in [(1, 7, 5), (7, 5, 1), (6, 9, 16), (13, 40, 33), (64, 70, 20), (130, 1024, 150)]:
        for layouts in [("rows", "rows"), ("columns", "columns"), ("every second", "turned every second")]:
            check(((2, m, k), (k, n)), layouts, "float32", 0)
    check(((13, 40), (40, 33)), ("columns", "rows"), "float64", 0)


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_some")
