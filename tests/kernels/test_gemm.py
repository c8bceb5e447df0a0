"""The kernels of matrix products, compiled and as plain Python, against NumPy."""

import numpy as np
import pytest

from pullback import codegen
from pullback.kernels import gemm as kernels
from tests.codegen.agree import both

VL = codegen.VL
KINDS = pytest.mark.parametrize("kind", [codegen.f32, codegen.f64], ids=str)


def whole(rng: np.random.Generator, kind, *shape: int) -> np.ndarray:
    """Small whole numbers, whose products and sums are exact however they are ordered."""
    return rng.integers(-5, 6, shape).astype(kind.dtype)


@KINDS
@pytest.mark.parametrize("rows, ragged", [(1, 0), (3, 0), (5, 1)])
def test_tile(kind, rows, ragged, rng):
    n = VL + 3 if ragged else 2 * VL
    a, b, c = whole(rng, kind, 3, rows, 7), whole(rng, kind, 3, 7, 40), whole(rng, kind, rows, 40)
    before = c.copy()
    instance = kernels.tile.specialise(T=kind, M=rows, NV=2, RAGGED=ragged)
    instance.python(a, b, c, 3, rows * 7, 7 * 40, 7, 7, 1, 40, 40, 1, n)
    expected = np.einsum("rmk,rkn->mn", a, b)[:, :n]
    assert np.array_equal(c[:, :n], before[:, :n] + expected)
    assert np.array_equal(c[:, n:], before[:, n:])


@KINDS
@pytest.mark.parametrize("pack, by_columns", [(0, False), (1, False), (1, True)])
def test_gemm(kind, pack, by_columns, rng):
    m, k, n = kernels.TALLEST + 3, 9, 2 * VL + 3
    vectors = kernels.tile_vectors(kind.dtype.name)
    a, b, c = whole(rng, kind, 2, m, k), whole(rng, kind, 2, k, n), np.zeros((2, m, n), kind.dtype)
    stored = np.ascontiguousarray(a.transpose(0, 2, 1)) if by_columns else a
    steps = (1, m) if by_columns else (k, 1)
    tiles, low, high = kernels.tile_heights(m)
    unit = (m + kernels.TALLEST) * k
    copy = np.zeros(4 * unit, kind.dtype)
    instance = kernels.gemm.specialise(
        T=kind, LOW=low, HIGH=high, NV=vectors, TAIL=-(-(n % (vectors * VL)) // VL), PACK=pack
    )
    arguments = (
        stored, b, c, copy, m, n, k, m * k, *steps, k * n, vectors * VL, n, m * n, tiles, 2, 1, unit
    )  # fmt: skip
    _, _, found, _ = both(instance, *arguments, n=4)
    assert np.array_equal(found, a @ b)


@KINDS
def test_packing_of_panels(kind, rng):
    k, n, width = 5, VL + 3, VL
    b = whole(rng, kind, 2, k, n)
    expected = np.zeros((2, 2, k, width), kind.dtype)
    expected[:, 0], expected[:, 1, :, :3] = b[:, :, :width], b[:, :, width:]
    by_rows = kernels.pack_panels.specialise(T=kind, NV=1)
    _, found = both(by_rows, b, np.ones_like(expected), n, k, n, k * n, 2 * k * width, n=4)
    assert np.array_equal(found, expected)
    columns = np.ascontiguousarray(b.transpose(0, 2, 1))
    by_columns = kernels.pack_transposed.specialise(T=kind, NV=1)
    _, found = both(by_columns, columns, np.ones_like(expected), n, k, k, k * n, 2 * k * width, n=4)
    assert np.array_equal(found, expected)


@KINDS
def test_products_with_a_vector(kind, rng):
    m, k = 5, 4 * VL + 3
    a, x = whole(rng, kind, 2, m, k), whole(rng, kind, 2, k)
    rows = kernels.dot_rows.specialise(T=kind)
    *_, found = both(rows, a, x, np.zeros((2, m), kind.dtype), m, k, m * k, k, k, n=2 * m)
    assert np.array_equal(found, np.einsum("bmk,bk->bm", a, x))
    m = 4 * VL + 2
    a, x = whole(rng, kind, 2, 7, m), whole(rng, kind, 2, 7)
    columns = kernels.combine_rows.specialise(T=kind)
    *_, found = both(columns, a, x, np.zeros((2, m), kind.dtype), m, 7, 2, 7 * m, m, 7, n=4)
    assert np.array_equal(found, np.einsum("bkm,bk->bm", a, x))
