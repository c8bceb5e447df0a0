"""Softmax and its kin on the native backend: any axis, short and long rows, labels that don't count or are no class."""

import numpy as np
import pytest

import pullback as pb
from pullback import codegen
from pullback.compile.binding import Guard
from pullback.errors import IndexRangeError
from pullback.kernels import softmax as kernels
from pullback.ops.reduce import LogSumExp
from pullback.ops.softmax import (
    LogSoftmax,
    LogSoftmaxGrad,
    MaskedSoftmax,
    PlaceLabel,
    SelectLabel,
    Softmax,
    SoftmaxCrossEntropy,
    SoftmaxCrossEntropyGrad,
    SoftmaxGrad,
)
from tests.codegen.agree import both
from tests.compile.agreement import assert_same_on_any_threads, native, reference, under_isa

VL = codegen.VL
FLOATS = pytest.mark.parametrize("dtype", ["float32", "float64"])
SHAPES = [(5, 10), (40, 10), (3, 70), (17, 33), (2, 3, 4), (2, 1), (1, 32), (2, 37, 3, 5)]


def check(op, *arrays: np.ndarray) -> None:
    (found,), (expected,) = native(op, *arrays), reference(op, *arrays)
    tolerance = 2e-5 if found.dtype == np.float32 else 1e-13
    assert found.dtype == arrays[0].dtype and found.shape == expected.shape
    assert np.allclose(found, expected, tolerance, tolerance * 0.1, equal_nan=True)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (rng.standard_normal(shape) * 3).astype(dtype)


@FLOATS
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_family(shape, dtype, rng):
    x, g = drawn(rng, shape, dtype), drawn(rng, shape, dtype)
    for axis in range(len(shape)):
        check(Softmax(axis), x)
        check(LogSoftmax(axis), x)
        check(SoftmaxGrad(axis), g, Softmax(axis).perform(x))
        check(LogSoftmaxGrad(axis), g, LogSoftmax(axis).perform(x))
        check(LogSumExp((axis,)), x)
        check(MaskedSoftmax(axis), x, rng.random(shape) < 0.6)
    check(LogSumExp(tuple(range(len(shape)))), x)
    check(LogSumExp((0,), True), x)
    check(MaskedSoftmax(0), x, rng.random(shape[-1:]) < 0.5)


@FLOATS
@pytest.mark.parametrize("n", [4, 40])
def test_special_values(n, dtype):
    inf, nan = np.inf, np.nan
    x = np.full((6, n), 1.0, dtype)
    x[0, 1], x[1, 2], x[2], x[3, 0], x[4, :2] = -inf, nan, -inf, inf, 1e30
    for op in (Softmax(1), LogSoftmax(1), LogSumExp((1,))):
        check(op, x)
    check(MaskedSoftmax(1), x, np.arange(n) != 1)
    check(MaskedSoftmax(1), x, np.zeros(n, bool))
    g = np.zeros((6, n), dtype)
    g[0, 0] = 2
    y = Softmax(1).perform(x)
    y[5] = nan
    check(SoftmaxGrad(1), g, y)  # a zero cotangent stays zero beside NaN


@FLOATS
@pytest.mark.parametrize("labels_dtype", ["int64", "int32", "uint8", "int8"])
@pytest.mark.parametrize("shape, axis", [((40, 10), 1), ((9, 70), 1), ((5, 7, 3), 1), ((4, 3), 0), ((1, 2), 1)])
def test_cross_entropy(shape, axis, labels_dtype, dtype, rng):
    x = drawn(rng, shape, dtype)
    rows = shape[:axis] + shape[axis + 1 :]
    labels = rng.integers(0, shape[axis], rows).astype(labels_dtype)
    g = drawn(rng, rows, dtype)
    g.flat[0] = 0
    for ignored in (None, 1, 77):
        check(SoftmaxCrossEntropy(axis, ignored), x, labels)
        check(SoftmaxCrossEntropyGrad(axis, ignored), g, x, labels)
        check(SelectLabel(axis, ignored), x, labels)
        check(PlaceLabel(axis, ignored), g, labels, x)


def test_one_cotangent_for_all_rows(rng):
    x, labels = pb.matrix("x"), pb.lvector("labels")
    cost = pb.softmax_cross_entropy(x, labels).mean()
    f = pb.function([x, labels], pb.grad(cost, x))
    data, classes = drawn(rng, (33, 10), "float32"), rng.integers(0, 10, 33)
    p = np.exp(data) / np.exp(data).sum(1, keepdims=True)
    assert np.allclose(f(data, classes), (p - np.eye(10)[classes]) / 33, atol=1e-6)


@pytest.mark.parametrize("n", [5, 50])
def test_rows_without_a_gradient_are_exactly_zero(n, rng):
    x = drawn(rng, (20, n), "float32")
    x[3] = np.nan
    labels = np.zeros(20, "int64")
    g = np.ones(20, "float32")
    g[3], labels[4] = 0, -1
    (dx,) = native(SoftmaxCrossEntropyGrad(1, -1), g, x, labels)
    assert not dx[3].any() and not dx[4].any() and dx[5].any()


@pytest.mark.parametrize("bad", [-1, 10, 1000])
@pytest.mark.parametrize("n", [10, 40])
def test_a_label_that_is_no_class_is_named(n, bad, rng):
    x, labels = pb.matrix("x"), pb.lvector("labels")
    f = pb.function([x, labels], pb.grad(pb.softmax_cross_entropy(x, labels).sum(), x))
    data = drawn(rng, (6, n), "float32")
    bad = bad if bad != 10 else n
    with pytest.raises(IndexRangeError, match=str(bad)):
        f(data, np.array([0, 1, bad, 3, 4, 5]))
    assert np.isfinite(f(data, np.arange(6))).all()


def test_labels_are_checked_once():
    x, labels = pb.matrix("x"), pb.lvector("labels")
    cost = pb.softmax_cross_entropy(x, labels).sum()
    f = pb.function([x, labels], [cost, pb.grad(cost, x)])
    f(np.zeros((3, 4), "float32"), np.arange(3))
    assert sum(isinstance(step, Guard) for step in f.program.latest_plan().steps) == 1


def test_labels_of_another_shape_are_refused():
    x, labels = pb.matrix("x"), pb.lvector("labels")
    f = pb.function([x, labels], pb.softmax_cross_entropy(x, labels))
    with pytest.raises(ValueError, match="labels"):
        f(np.zeros((5, 4), "float32"), np.arange(3))


@pytest.mark.parametrize("n", [10, 300])
def test_results_do_not_depend_on_the_number_of_threads(n, rng):
    x, labels = drawn(rng, (400_000 // n, n), "float32"), rng.integers(0, n, 400_000 // n)
    g = np.ones(len(x), "float32")
    cases = [(op, [x]) for op in (Softmax(1), LogSoftmax(1), LogSumExp((1,)))]
    cases += [(SoftmaxCrossEntropy(1), [x, labels]), (SoftmaxCrossEntropyGrad(1), [g, x, labels])]
    assert_same_on_any_threads(lambda: [native(op, *arrays)[0] for op, arrays in cases])


# --- the kernels as plain Python --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [codegen.f32, codegen.f64], ids=str)
@pytest.mark.parametrize("n", [3, VL + 2])
def test_kernels_of_rows(kind, n, rng):
    rows = VL + 3
    x, g = (drawn(rng, (rows, n), kind.dtype.name) for _ in range(2))
    short = n <= kernels.SHORT
    y = Softmax(1).perform(x)
    for op, long, turned in (
        (Softmax(1), kernels.softmax_rows, kernels.softmax_short_rows),
        (LogSoftmax(1), kernels.log_softmax_rows, kernels.log_softmax_short_rows),
    ):
        *_, found = both(long.specialise(T=kind), x, np.zeros_like(x), n, n=rows, ulps=400)
        assert np.allclose(found, op.perform(x), 1e-5, 1e-6)
        if short:
            *_, found = both(turned.specialise(T=kind), x, np.zeros_like(x), rows, n, n=2, ulps=400)
            assert np.allclose(found, op.perform(x), 1e-5, 1e-6)
    *_, found = both(kernels.softmax_rows_grad.specialise(T=kind), g, y, np.zeros_like(x), n, n=rows, ulps=10_000)
    assert np.allclose(found, SoftmaxGrad(1).perform(g, y), 1e-3, 1e-6)
    mask = (rng.random((rows, n)) < 0.7).astype("uint8")
    *_, found = both(kernels.masked_softmax_rows.specialise(T=kind), x, mask, np.zeros_like(x), n, n=rows, ulps=400)
    assert np.allclose(found, MaskedSoftmax(1).perform(x, mask != 0), 1e-5)


@pytest.mark.parametrize("kind", [codegen.f32, codegen.f64], ids=str)
def test_kernels_of_labels(kind, rng):
    rows, n = VL + 3, 5
    x, g = drawn(rng, (rows, n), kind.dtype.name), drawn(rng, (rows,), kind.dtype.name)
    labels = rng.integers(-1, n, rows)
    types = dict(T=kind, L=codegen.i64)
    loss, dx = SoftmaxCrossEntropy(1, -1).perform(x, labels), SoftmaxCrossEntropyGrad(1, -1).perform(g, x, labels)
    flat = np.zeros(rows, kind.dtype)
    *_, found = both(kernels.cross_entropy_rows.specialise(**types), x, labels, flat, n, -1, n=rows, ulps=1000)
    assert np.allclose(found, loss, 1e-4, 1e-6)
    short = kernels.cross_entropy_short_rows.specialise(**types)
    assert np.allclose(both(short, x, labels, flat, rows, n, -1, n=2, ulps=1000)[2], loss, 1e-4, 1e-6)
    long = kernels.cross_entropy_rows_grad.specialise(**types)
    assert np.allclose(both(long, g, 1, x, labels, np.zeros_like(x), n, -1, n=rows, ulps=10_000)[3], dx, 1e-4, 1e-6)
    short = kernels.cross_entropy_short_rows_grad.specialise(**types)
    found = both(short, g, 1, x, labels, np.zeros_like(x), rows, n, -1, n=2, ulps=10_000)[3]
    assert np.allclose(found, dx, 1e-4, 1e-6)
    counted = both(kernels.count_bad_labels.specialise(L=codegen.i64), labels, np.zeros(1, "int64"), 3, -1, rows, n=1)
    assert counted[1][0] == (labels >= 3).sum()


def check_some() -> None:
    rng = np.random.default_rng(0)
    for shape in [(40, 10), (3, 70), (2, 7, 3)]:
        x = drawn(rng, shape, "float32")
        labels = rng.integers(0, shape[1], shape[:1] + shape[2:])
        for op in (Softmax(1), LogSoftmax(1), LogSumExp((1,))):
            check(op, x)
        check(SoftmaxCrossEntropy(1), x, labels)
        check(SoftmaxCrossEntropyGrad(1), drawn(rng, labels.shape, "float32"), x, labels)


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_some")
