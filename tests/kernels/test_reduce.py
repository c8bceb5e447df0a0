"""The kernels of reductions, compiled and as plain Python, against NumPy."""

import numpy as np
import pytest

from pullback import codegen
from pullback.kernels import reduce as kernels
from tests.codegen.agree import both

VL = codegen.VL
KINDS = pytest.mark.parametrize("kind", [codegen.f32, codegen.f64, codegen.i64], ids=str)
JOINS = [(kernels.SUM, np.add), (kernels.MAX, np.maximum), (kernels.MIN, np.minimum), (kernels.PROD, np.multiply)]


def drawn(rng: np.random.Generator, kind, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(kind.dtype) if kind.is_float else rng.integers(-3, 4, shape)


@KINDS
@pytest.mark.parametrize("op, ufunc", JOINS)
def test_rows(op, ufunc, kind, rng):
    x = drawn(rng, kind, 3, 4 * VL + 5)
    instance = kernels.reduce_rows.specialise(X=kind, T=kind, OP=op)
    _, found = both(instance, x, np.zeros((3, 2), kind.dtype), x.shape[1], 2, n=6, ulps=8)
    assert np.allclose(ufunc.reduce(found, 1), ufunc.reduce(x, 1), rtol=1e-4)


@KINDS
@pytest.mark.parametrize("op, ufunc", JOINS)
def test_short_rows(op, ufunc, kind, rng):
    x = drawn(rng, kind, VL + 3, 3)
    instance = kernels.reduce_short_rows.specialise(X=kind, T=kind, OP=op)
    _, found = both(instance, x, np.zeros(VL + 4, kind.dtype), VL + 3, 3, n=2, ulps=8)
    assert np.allclose(found[:-1], ufunc.reduce(x, 1), rtol=1e-5) and found[-1] == 0


@KINDS
@pytest.mark.parametrize("op, ufunc", JOINS)
def test_columns(op, ufunc, kind, rng):
    length, inner = kernels.TOGETHER + 3, VL + 2
    x = drawn(rng, kind, 2, length, inner)
    instance = kernels.reduce_columns.specialise(X=kind, T=kind, OP=op)
    _, found = both(instance, x, np.zeros((2, inner), kind.dtype), length, inner, 1, 2, n=4, ulps=8)
    assert np.allclose(found, ufunc.reduce(x, 1), rtol=1e-4)


@pytest.mark.parametrize("op, function", [(kernels.ANY, np.any), (kernels.ALL, np.all)])
def test_truth(op, function, rng):
    x = rng.integers(0, 2, (5, VL + 3)).astype("float32")
    x[1], x[2] = 0, 1
    rows = kernels.reduce_rows.specialise(X=codegen.f32, T=codegen.u8, OP=op)
    _, found = both(rows, x, np.zeros(5, "uint8"), VL + 3, 1, n=5)
    assert np.array_equal(found, function(x, 1))


@KINDS
@pytest.mark.parametrize("op, function", [(kernels.MAX, np.argmax), (kernels.MIN, np.argmin)])
def test_places(op, function, kind, rng):
    x = drawn(rng, kind, 2, 7, VL + 3).round()
    if kind.is_float:
        x[0, 3, [5, 2]] = np.nan
    rows = kernels.arg_rows.specialise(T=kind, OP=op)
    assert np.array_equal(both(rows, x, np.zeros((2, 7), "int64"), VL + 3, n=14)[1], function(x, 2))
    columns = kernels.arg_columns.specialise(T=kind, OP=op)
    best, out = np.zeros((2, VL + 3), kind.dtype), np.zeros((2, VL + 3), "int64")
    assert np.array_equal(both(columns, x, best, out, 7, VL + 3, n=2)[2], function(x, 1))
    short = kernels.arg_short_rows.specialise(T=kind, OP=op)
    lines = x.swapaxes(1, 2)[..., :3].reshape(-1, 3).copy()
    found = both(short, lines, np.zeros(len(lines), "int64"), len(lines), 3, n=-(-len(lines) // VL))[1]
    assert np.array_equal(found, function(lines, 1))


@KINDS
@pytest.mark.parametrize("reverse", [0, 1])
def test_running(reverse, kind, rng):
    x = drawn(rng, kind, 2, 5, VL + 1)
    for op, function in ((kernels.SUM, np.cumsum), (kernels.PROD, np.cumprod)):
        rows = kernels.running_rows.specialise(X=kind, T=kind, OP=op, REVERSE=reverse)
        found = both(rows, x, np.zeros_like(x), VL + 1, n=10, ulps=4)[1]
        turned = np.flip(x, 2) if reverse else x
        assert np.allclose(np.flip(found, 2) if reverse else found, function(turned, 2), rtol=1e-4)
        columns = kernels.running_columns.specialise(X=kind, T=kind, OP=op, REVERSE=reverse)
        found = both(columns, x, np.zeros_like(x), 5, VL + 1, n=2, ulps=4)[1]
        turned = np.flip(x, 1) if reverse else x
        assert np.allclose(np.flip(found, 1) if reverse else found, function(turned, 1), rtol=1e-4)


@pytest.mark.parametrize("reverse", [0, 1])
def test_recurrence(reverse, rng):
    a, b = (rng.standard_normal((2, 5, VL + 1)) for _ in range(2))
    a[0, 0, 0], b[0, 0, 0] = np.inf, 0
    rows = kernels.recurrence_rows.specialise(T=codegen.f64, REVERSE=reverse)
    columns = kernels.recurrence_columns.specialise(T=codegen.f64, REVERSE=reverse)
    lines = [np.moveaxis(v, 1, 2).copy() for v in (a, b)]
    along = both(rows, *lines, np.zeros((2, VL + 1, 5)), 5, n=2 * VL + 2, ulps=10_000)  # where terms cancel
    down = both(columns, a, b, np.zeros_like(a), 5, VL + 1, n=2, ulps=10_000)
    assert np.allclose(np.moveaxis(along[2], 2, 1), down[2])
    h = np.zeros((2, VL + 1))
    for t in range(4, -1, -1) if reverse else range(5):
        h = np.where(h == 0, 0, np.where(h == 0, 0, a[:, t]) * h) + b[:, t]
        assert np.allclose(down[2][:, t], h)
