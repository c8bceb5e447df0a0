"""The kernels that copy between layouts, compiled and as plain Python."""

import numpy as np
import pytest

from pullback import codegen
from pullback.kernels import copies as kernels
from tests.codegen.agree import both

VL = codegen.VL


@pytest.mark.parametrize("kind", [codegen.i8, codegen.i32, codegen.i64], ids=str)
@pytest.mark.parametrize("rows, columns", [(VL, VL), (3, 2 * VL + 3), (VL + 5, 2), (2 * VL + 1, VL + 1)])
def test_turn(kind, rows, columns, rng):
    x = rng.integers(0, 100, (2, 3, columns, rows)).astype(kind.dtype)
    out = np.zeros((2, 3, rows, columns + 2), kind.dtype)
    band, strip = 2 * VL, VL
    units = 2 * 3 * -(-rows // band) * -(-columns // strip)
    steps = (3 * x[0, 0].size, out[0].size, x[0, 0].size, out[0, 0].size)
    _, found = both(
        kernels.turn.specialise(T=kind), x, out, rows, columns, rows, columns + 2, 3, *steps, band, strip, n=units
    )  # fmt: skip
    assert np.array_equal(found[..., :columns], x.swapaxes(2, 3))
    assert not found[..., columns:].any()


@pytest.mark.parametrize("kind", [codegen.i8, codegen.i64], ids=str)
def test_pick(kind, rng):
    x = rng.integers(0, 100, (3, 40)).astype(kind.dtype)
    instance = kernels.pick.specialise(T=kind)
    _, found = both(instance, x, np.zeros((3, 10), kind.dtype), 9, 4, 40, 10, n=3)
    assert np.array_equal(found[:, :9], x[:, :33:4]) and not found[:, 9].any()
    _, found = both(instance, x[:, ::-1].copy(), np.zeros((3, 5), kind.dtype), 5, 2, 40, 5, n=3)
    assert np.array_equal(found, x[:, ::-1][:, :10:2])
