"""Views, copies and loops over operands of any layout on the native backend."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import pullback as pb
from pullback.compile.binding import HostCall
from pullback.compile.loops import loop_kernel, merge_axes
from tests.codegen.agree import both
from tests.compile.agreement import under_isa

SLICES = st.sampled_from([slice(None), slice(None, None, -1), slice(1, None, 2), slice(-2, None, -3), slice(None, 2)])
DTYPES = ("float32", "float64", "float16", "int32", "int8", "bool")


def steps_of(f):
    return f.program.latest_plan().steps


def run(function, *arrays: np.ndarray, native: bool = True) -> np.ndarray:
    """The second call of a compiled function of variables."""
    variables = [pb.tensor(a.dtype.name, (None,) * a.ndim) for a in arrays]
    f = pb.function(variables, function(*variables), backend="native")
    f(*arrays)
    result = f(*arrays)
    assert not native or not [s for s in steps_of(f) if isinstance(s, HostCall)]
    return result


@st.composite
def views(draw):
    """(a shape, a function that looks at an array of that shape in another way)"""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 5, 17, 34]), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(shape))))
    key = tuple(draw(SLICES) for _ in shape)
    return tuple(shape), lambda v: v.transpose(order)[key]


@hypothesis.given(views(), st.sampled_from(DTYPES))
@hypothesis.settings(max_examples=80)
def test_any_view_is_read_right(view, dtype):
    shape, look = view
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    expected = look(x)
    with_copy = run(lambda v: pb.reshape(look(v), (-1,)), x)
    assert np.array_equal(with_copy, expected.reshape(-1))
    as_operand = run(lambda v: pb.where(pb.not_equal(look(v), 0), look(v), look(v)), x)
    assert np.array_equal(as_operand, expected)
    assert np.array_equal(run(look, x), expected)


def test_views_take_no_step():
    x = pb.tensor4("x")
    first, second = pb.split(pb.transpose(x[::-1, 1:], (3, 0, 1, 2)), 2, 0)
    f = pb.function([x], [first, second[..., ::-2]])
    data = np.arange(3 * 4 * 5 * 6, dtype="float32").reshape(3, 4, 5, 6)
    turned = data[::-1, 1:].transpose(3, 0, 1, 2)
    assert np.array_equal(f(data)[0], turned[:3]) and np.array_equal(f(data)[1], turned[3:][..., ::-2])
    assert not steps_of(f)


@pytest.mark.parametrize("order", [(1, 0), (0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), (3, 2, 0, 1), (2, 0, 3, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_large_turning_copies(order, dtype, rng):
    shape = (300, 270) if len(order) == 2 else (9, 19, 33, 3) if dtype == "int8" else (3, 37, 21, 40)
    x = rng.integers(-9, 9, shape).astype(dtype)
    assert np.array_equal(run(lambda v: pb.reshape(pb.transpose(v, order), (-1,)), x), x.transpose(order).reshape(-1))


@pytest.mark.parametrize(
    "shape", [(4000, 3), (129, 3), (7, 11, 5), (2, 64, 1, 10), (1000, 1), (2000, 50), (3, 500, 20), (4099, 7)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_short_rows_with_broadcast_operands(shape, dtype, rng):
    x, row = rng.standard_normal(shape).astype(dtype), rng.standard_normal(shape[-1]).astype(dtype)
    column = rng.standard_normal((*shape[:-1], 1)).astype(dtype)
    assert np.allclose(run(lambda v, r: v * r + r, x, row), x * row + row, rtol=1e-6, atol=1e-6)
    assert np.allclose(run(lambda v, r, c: (v - c) * r, x, row, column), (x - column) * row, rtol=1e-5, atol=1e-6)
    assert np.allclose(run(lambda v, s: v * s, x, column.reshape(-1)[0].reshape(())), x * column.reshape(-1)[0])


@hypothesis.given(st.lists(st.tuples(*[st.integers(1, 5)] * 4), min_size=2, max_size=3), st.integers(0, 99))
def test_any_broadcasting(masks, seed):
    rng = np.random.default_rng(seed)
    whole = (2, 3, 18, 5)
    shapes = [tuple(1 if m == 1 else n for m, n in zip(mask, whole)) for mask in masks]
    arrays = [rng.standard_normal(s).astype("float32") for s in shapes]
    found = run(lambda *v: sum(v[1:], v[0] * 2), *arrays)
    assert np.allclose(found, sum(arrays[1:], arrays[0] * 2), atol=1e-5)


def test_a_result_never_lies_on_an_input_that_is_read_in_another_order(rng):
    x = rng.standard_normal((40, 40)).astype("float32")
    found = run(lambda v: (lambda y: y + y.T * 2 + y[::-1])(pb.exp(v)), x)
    y = np.exp(x)
    assert np.allclose(found, y + y.T * 2 + y[::-1], rtol=1e-5)


LOOPS = {
    "one axis": ((40,), [(1,), (0,), (1,)]),
    "a row for all": ((3, 20), [(0, 1), (20, 1), (20, 1)]),
    "a number a row": ((3, 20), [(1, 0), (40, 2), (20, 1)]),
    "four axes": ((2, 3, 4, 5), [(60, 5, 15, 1), (0, 0, 5, 1), (60, 20, 5, 1)]),
    "one element": ((1,), [(1,), (1,), (1,)]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_generated_loops_as_plain_python(name, rng):
    shape, strides = LOOPS[name]
    loop = merge_axes(shape, strides)
    kernel = loop_kernel(loop, ["f32", "f64", "f64"], 2, ["t = f64(v0) * v1"], ["t + 1.0"])
    x, y = rng.standard_normal(120).astype("float32"), rng.standard_normal(120)
    n = math.prod(loop.lengths[:-1]) if len(loop.lengths) > 1 else loop.lengths[0]
    *_, found = both(kernel, x, y, np.zeros(math.prod(shape)), *loop.arguments, n=n, ulps=4)[:3]
    a, b = (as_strided(v, shape, [s * v.itemsize for s in t]) for v, t in zip((x, y), strides))
    assert np.allclose(found.reshape(shape), a * b + 1)


def check_some() -> None:
    rng = np.random.default_rng(0)
    for order in [(0, 2, 3, 1), (0, 3, 1, 2), (2, 1, 0, 3)]:
        x = rng.standard_normal((2, 37, 9, 20)).astype("float32")
        look = lambda v, o=order: pb.reshape(pb.transpose(v, o)[:, ::-1, ::2], (-1,))  # noqa: E731
        assert np.array_equal(run(look, x), x.transpose(order)[:, ::-1, ::2].reshape(-1))
    x, row = rng.standard_normal((1000, 3)).astype("float32"), rng.standard_normal(3).astype("float32")
    assert np.allclose(run(lambda v, r: v * r, x, row), x * row)


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_some")
