"""Parts of arrays taken, set and added to on the native backend; arrays joined and rolled."""

import numpy as np
import pytest

import pullback as pb
from pullback import codegen
from pullback.compile.binding import HostCall
from pullback.errors import IndexRangeError
from pullback.kernels import indexing as kernels
from tests.codegen.agree import both
from tests.compile.agreement import assert_same_on_any_threads, under_isa

VL = codegen.VL
DTYPES = ("float32", "float64", "int64", "int32", "uint8")


def run(function, *arrays: np.ndarray) -> np.ndarray:
    """The second call of a compiled function of variables, all of whose steps are kernels."""
    variables = [pb.tensor(a.dtype.name, (None,) * a.ndim) for a in arrays]
    f = pb.function(variables, function(*variables), backend="native")
    f(*arrays)
    result = f(*arrays)
    assert not [s for s in f.program.latest_plan().steps if isinstance(s, HostCall)]
    return result


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return rng.integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take(axis, index_dtype, dtype, rng):
    for shape in [(7, 5, 6), (3, 9, 1), (5, 4, 37)]:
        x = drawn(rng, shape, dtype)
        low = 0 if index_dtype == "uint8" else -shape[axis]
        for picked in [(4,), (2, 3), (40,)]:
            i = rng.integers(low, shape[axis], picked).astype(index_dtype)
            assert np.array_equal(run(lambda v, k: pb.take(v, k, axis), x, i), np.take(x, i, axis))


def test_take_elements(rng):
    x, i, j = drawn(rng, (40, 50), "float32"), rng.integers(-40, 40, (6, 1)), rng.integers(0, 50, (3,))
    assert np.array_equal(run(lambda v, a, b: v[a, b], x, i, j), x[i, j])
    k = rng.integers(-50, 50, (40, 7))
    assert np.array_equal(run(lambda v, a: pb.take_along_axis(v, a, 1), x, k), np.take_along_axis(x, k, 1))
    y = drawn(rng, (4, 5, 6, 7), "float64")
    a, b = rng.integers(0, 5, 8), rng.integers(-6, 6, 8)
    assert np.array_equal(run(lambda v, p, q: v[:, p, q], y, a, b), y[:, a, b])
    turned = y.transpose(3, 0, 1, 2)
    assert np.array_equal(run(lambda v, p: v.transpose(3, 0, 1, 2)[p[::2]], y, a), turned[a[::2]])


def test_single_elements(rng):
    x = drawn(rng, (3, 4, 5), "float32")
    assert run(lambda v: v[1, -1, 2] + 1, x) == x[1, -1, 2] + 1
    assert run(lambda v: v.T[::-1][0, 1, 2], x) == x.T[::-1][0, 1, 2]
    assert run(lambda v: v[2, 3, 4], x) == x[2, 3, 4]


@pytest.mark.parametrize("bad", [-8, 7])
def test_indices_out_of_range_are_named(bad, rng):
    x, i = pb.matrix("x"), pb.lvector("i")
    data = drawn(rng, (7, 3), "float32")
    for function in (lambda: x[i], lambda: pb.inc_subtensor(x[i], 1.0), lambda: pb.embedding(x, i)):
        f = pb.function([x, i], function())
        with pytest.raises(IndexRangeError, match=str(bad)):
            f(data, np.array([0, bad, 2]))
        assert np.isfinite(f(data, np.array([0, 6, 2]))).all()
    with pytest.raises(IndexRangeError, match="-1"):
        f(data, np.array([-1]))  # an embedding's rows don't count from the end


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows_set_and_added_to(axis, dtype, rng):
    x = drawn(rng, (5, 6, 7), dtype)
    lead = (slice(None),) * axis
    i = rng.integers(-5, 5, 12)
    y = drawn(rng, x[(*lead, i)].shape, dtype)
    expected = x.copy()
    expected[(*lead, i)] = y
    assert np.array_equal(run(lambda v, w, k: pb.set_subtensor(v[(*lead, k)], w), x, y, i), expected)
    expected = x.copy()
    np.add.at(expected, (*lead, i), y)
    assert np.array_equal(run(lambda v, w, k: pb.inc_subtensor(v[(*lead, k)], w), x, y, i), expected)


def test_elements_added_to(rng):
    x, i, j = drawn(rng, (40, 50), "float32"), rng.integers(-40, 40, 300), rng.integers(0, 50, 300)
    expected = x.copy()
    np.add.at(expected, (i, j), 2)
    assert np.array_equal(run(lambda v, a, b: pb.inc_subtensor(v[a, b], 2.0), x, i, j), expected)
    k, y = rng.integers(0, 50, (40, 7)), drawn(rng, (40, 7), "float32")
    expected = x.copy()
    np.add.at(expected, (np.arange(40)[:, None], k), y)
    found = run(lambda v, a, w: pb.put_along_axis(v, a, w, 1, accumulate=True), x, k, y)
    assert np.array_equal(found, expected)


def test_gradient_of_an_embedding(rng):
    table, i = drawn(rng, (11, 70), "float32"), rng.integers(0, 11, (4, 9))
    g = drawn(rng, (4, 9, 70), "float32")
    expected = np.zeros_like(table)
    np.add.at(expected, i, g)
    found = run(lambda t, k, c: pb.grad((pb.embedding(t, k) * c).sum(), t), table, i, g)
    assert np.array_equal(found, expected)


KEYS = [
    np.s_[1:3], np.s_[..., 2], np.s_[::-1], np.s_[:, ::2, -1], np.s_[None, 3, 1:, ::-3], np.s_[0, 0, 0], np.s_[2:2],
    np.s_[-1, :, 1:4],
]  # fmt: skip


@pytest.mark.parametrize("dtype", [*DTYPES, "float16", "bool"])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_windows_set_and_added_to(key, dtype, rng):
    x = drawn(rng, (4, 5, 6), dtype)
    y = drawn(rng, x[key].shape, dtype)
    expected = x.copy()
    expected[key] = y
    if y.size:
        assert np.array_equal(run(lambda v, w: pb.set_subtensor(v[key], w), x, y), expected)
        if dtype != "bool":
            expected[key] = x[key] + y
            assert np.array_equal(run(lambda v, w: pb.inc_subtensor(v[key], w), x, y), expected)
    scalar = np.ones((), dtype)
    expected[...] = x
    expected[key] = 1
    assert np.array_equal(run(lambda v, w: pb.set_subtensor(v[key], w), x, scalar), expected)


def test_an_updated_array_that_is_still_needed_stays_as_it_was(rng):
    x, i = drawn(rng, (6, 5), "float32"), np.array([1, 1, 4])
    found = run(lambda v, k: (lambda y: pb.inc_subtensor(y[k], 1.0) + y)(pb.sqrt(v)), x, i)
    expected = np.sqrt(x)
    np.add.at(expected, i, 1)
    assert np.allclose(found, expected + np.sqrt(x))


def test_a_part_set_to_another_part_of_the_same_array(rng):
    x = drawn(rng, (40, 5), "float32")
    found = run(lambda v: (lambda y: pb.set_subtensor(y[1:], y[:-1]))(pb.sqrt(v)), x)
    assert np.allclose(found[1:], np.sqrt(x)[:-1])
    found = run(lambda v, k: (lambda y: pb.inc_subtensor(y[k], y[::-1]))(pb.sqrt(v)), x, np.arange(40))
    assert np.allclose(found, np.sqrt(x) + np.sqrt(x)[::-1])


def test_gradients_of_slices(rng):
    x = rng.standard_normal((6, 7)).astype("float32")
    found = run(lambda v: pb.grad((v[1:4, ::2] ** 2).sum() + (v[::-1][:2] * 3).sum(), v), x)
    expected = np.zeros_like(x)
    expected[1:4, ::2] = 2 * x[1:4, ::2]
    expected[-2:] += 3
    assert np.allclose(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_one_hot(dtype, rng):
    labels = rng.integers(0, 5, (3, 4))
    assert np.array_equal(run(lambda v: pb.one_hot(v, 5, dtype), labels), np.eye(5, dtype=dtype)[labels])


def test_a_label_outside_is_refused():
    labels = pb.lvector("labels")
    f = pb.function([labels], pb.one_hot(labels, 3))
    with pytest.raises(IndexRangeError, match="-1"):
        f(np.array([0, -1]))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_joined(axis, dtype, rng):
    shapes = [[2, 3, 4] for _ in range(3)]
    for n, shape in zip((1, 5, 2), shapes):
        shape[axis] = n
    parts = [drawn(rng, tuple(s), dtype) for s in shapes]
    turned = run(lambda *v: pb.concatenate([v[0], v[1][::-1], v[2]], axis), *parts)
    assert np.array_equal(turned, np.concatenate([parts[0], parts[1][::-1], parts[2]], axis))
    same = [parts[1]] * 2
    assert np.array_equal(run(lambda v: pb.stack([v, v], axis), parts[1]), np.stack(same, axis))


@pytest.mark.parametrize(
    "shift, axis", [(2, 0), (-1, 1), (7, 1), ((1, -2), (0, 1)), ((1, 1), (0, 0)), (3, None), (0, 0)]
)
def test_rolled(shift, axis, rng):
    x = drawn(rng, (4, 5), "float32")
    assert np.array_equal(run(lambda v: pb.roll(v, shift, axis), x), np.roll(x, shift, axis))


def test_padded_tiled_repeated(rng):
    x = drawn(rng, (3, 4, 5), "float32")
    widths = ((1, 2), (0, 0), (3, 1))
    for mode in ("constant", "edge", "reflect", "wrap"):
        assert np.array_equal(run(lambda v, m=mode: pb.pad(v, widths, m), x), np.pad(x, widths, mode))
    assert np.array_equal(run(lambda v: pb.tile(v, (2, 1, 3)), x), np.tile(x, (2, 1, 3)))
    assert np.array_equal(run(lambda v: pb.repeat(v, 3, 1), x), np.repeat(x, 3, 1))


def test_results_do_not_depend_on_the_number_of_threads(rng):
    table, i, g = drawn(rng, (500, 200), "float32"), rng.integers(0, 500, 3000), rng.random((3000, 200), np.float32)
    assert_same_on_any_threads(lambda: [run(lambda t, k, c: pb.inc_subtensor(t[k], c), table, i, g)])
    assert_same_on_any_threads(lambda: [run(lambda t, k: t[k], table, i)])


# --- the kernels as plain Python --------------------------------------------------------------------------------------


def test_kernel_flat_index():
    first, second = np.array([0, -1, 2, 5] * 5), np.array([3, 1, -4, 0] * 5)
    instance = kernels.flat_index.specialise(L=codegen.i64, FIRST=1, WRAP=1)
    _, flat, flag = both(instance, first, np.zeros(20, "int64"), np.full(1, 9), 4, 20, n=1)
    assert flat.tolist() == [0, 3, 2, 0] * 5 and flag[0] == 5
    again = kernels.flat_index.specialise(L=codegen.i64, FIRST=0, WRAP=0)
    _, flat, flag = both(again, second, flat, flag, 5, 20, n=1)
    assert flat.tolist() == [3, 16, 10, 0] * 5 and flag[0] == 10


@pytest.mark.parametrize("kind", [codegen.i8, codegen.i32, codegen.i64], ids=str)
def test_kernels_of_rows(kind, rng):
    x = rng.integers(0, 100, (2, 5, VL + 3)).astype(kind.dtype)
    flat = np.array([4, 0, 4, 1])
    y = rng.integers(0, 50, (2, 4, VL + 3)).astype(kind.dtype)
    out = np.zeros_like(y)
    assert np.array_equal(both(kernels.take_rows.specialise(T=kind), x, flat, out, 5, 4, VL + 3, n=8)[2], x[:, flat])
    expected = x.copy()
    expected[:, flat] = y
    assert np.array_equal(both(kernels.set_rows.specialise(T=kind), x, flat, y, 5, 4, VL + 3, n=2)[0], expected)
    expected = x.copy()
    np.add.at(expected, (slice(None), flat), y)
    assert np.array_equal(both(kernels.add_rows.specialise(T=kind), x, flat, y, 5, 4, VL + 3, 2, n=4)[0], expected)
    columns, values = x[..., 0].copy(), y[..., 0].copy()
    taken = both(kernels.take_elements.specialise(T=kind), columns, flat, np.zeros_like(values), 5, 4, 2, n=4)[2]
    assert np.array_equal(taken, columns[:, flat])
    added = both(kernels.add_elements.specialise(T=kind), columns, flat, values, 5, 4, n=2)[0]
    assert np.array_equal(added, expected[..., 0])
    hot = both(kernels.one_hot.specialise(T=kind), flat, np.ones((4, 5), kind.dtype), 5, n=4)[1]
    assert np.array_equal(hot, np.eye(5, dtype=kind.dtype)[flat])


def check_some() -> None:
    rng = np.random.default_rng(0)
    x, i, y = drawn(rng, (9, 40), "float32"), rng.integers(-9, 9, 20), drawn(rng, (20, 40), "float32")
    expected = x.copy()
    np.add.at(expected, i, y)
    assert np.array_equal(run(lambda v, k: v[k], x, i), x[i])
    assert np.array_equal(run(lambda v, w, k: pb.inc_subtensor(v[k], w), x, y, i), expected)
    assert np.array_equal(run(lambda v: pb.one_hot(v, 5), i % 5), np.eye(5, dtype="float32")[i % 5])


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_some")
