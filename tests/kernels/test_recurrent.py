"""The kernels of recurrent networks, run as plain Python with checked bounds, against themselves compiled."""

import numpy as np
import pytest

from pullback.codegen import VL, call, f32
from pullback.kernels import gru, lstm
from pullback.kernels.recurrent import rows_by_panel

STEPS, BATCH, HIDDEN = 2, 3, 5
TILES = dict(LOW=BATCH, HIGH=BATCH, NV=2, TAIL=1)
LENGTHS = np.array([2, 0, 1])


def draw(rng, *shape):
    return (0.5 * rng.standard_normal(shape)).astype(np.float32)


def compare(kernel, arrays, numbers, n):
    """Both ways to run `kernel` leave the same in all its arrays."""
    plain, compiled = ([a.copy() for a in arrays] for _ in range(2))
    kernel.python(*[a.reshape(-1) for a in plain], *numbers, lo=0, hi=n)
    call(kernel, *compiled, *numbers, n=n)
    changed = False
    for a, b, before in zip(plain, compiled, arrays):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        changed |= not np.array_equal(b, before)
    assert changed


@pytest.mark.parametrize("bounded", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_lstm_examples(rng, reverse, bounded) -> None:
    kernel = lstm.lstm_examples.specialise(T=f32, **TILES, PEEPHOLES=1, CLIP=1, BOUNDED=bounded)
    state, sequence = (BATCH, HIDDEN), (STEPS, BATCH, HIDDEN)
    arrays = [
        draw(rng, STEPS, BATCH, 4 * HIDDEN), draw(rng, 4, HIDDEN, 2 * VL), draw(rng, 4 * HIDDEN), draw(rng, 3, HIDDEN),
        LENGTHS, draw(rng, *state), draw(rng, *state), draw(rng, *sequence), draw(rng, *sequence),
    ]  # fmt: skip
    compare(kernel, arrays, [HIDDEN, 0.3, STEPS, BATCH, reverse], BATCH)


@pytest.mark.parametrize("bounded", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_lstm_examples_back(rng, reverse, bounded) -> None:
    flags = dict(PEEPHOLES=1, CLIP=1, BOUNDED=bounded, DH=1, DC=1, DGATES=1)
    kernel = lstm.lstm_examples_back.specialise(T=f32, **TILES, **flags)
    state, sequence, gates = (BATCH, HIDDEN), (STEPS, BATCH, HIDDEN), (STEPS, BATCH, 4 * HIDDEN)
    shapes = [state, sequence, sequence, sequence, gates, state, state, gates]
    panels = draw(rng, 1, 4 * HIDDEN, 2 * VL)
    arrays = [draw(rng, *gates), panels, draw(rng, 3, HIDDEN), LENGTHS, *(draw(rng, *s) for s in shapes)]
    compare(kernel, arrays, [HIDDEN, 0.3, STEPS, BATCH, reverse], BATCH)


@pytest.mark.parametrize("bounded", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_gru_examples(rng, reverse, bounded) -> None:
    kernel = gru.gru_examples.specialise(T=f32, **TILES, BOUNDED=bounded)
    state, sequence = (BATCH, HIDDEN), (STEPS, BATCH, HIDDEN)
    arrays = [
        draw(rng, STEPS, BATCH, 3 * HIDDEN), draw(rng, 3, HIDDEN, 2 * VL), draw(rng, 3 * HIDDEN), draw(rng, 3 * HIDDEN),
        LENGTHS, draw(rng, *state), draw(rng, *sequence), draw(rng, *sequence),
    ]  # fmt: skip
    compare(kernel, arrays, [HIDDEN, STEPS, BATCH, reverse], BATCH)


@pytest.mark.parametrize("bounded", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_gru_examples_back(rng, reverse, bounded) -> None:
    kernel = gru.gru_examples_back.specialise(T=f32, **TILES, BOUNDED=bounded, DH=1, DGATES=1, DQ=1)
    state, sequence, gates = (BATCH, HIDDEN), (STEPS, BATCH, HIDDEN), (STEPS, BATCH, 3 * HIDDEN)
    shapes = [state, sequence, sequence, gates, sequence, state, gates, gates]
    panels = draw(rng, 1, 3 * HIDDEN, 2 * VL)
    arrays = [draw(rng, *gates), panels, draw(rng, *sequence), LENGTHS, *(draw(rng, *s) for s in shapes)]
    compare(kernel, arrays, [HIDDEN, STEPS, BATCH, reverse], BATCH)


@pytest.mark.parametrize("columns", [5, 2 * VL])
@pytest.mark.parametrize("accumulate", [0, 1])
def test_rows_by_panel_is_a_product(rng, columns, accumulate) -> None:
    a, panel, c = draw(rng, 7, 6), draw(rng, 6, 2 * VL), draw(rng, 7, columns)
    expected = a @ panel[:, :columns] + accumulate * c
    kernel = rows_by_panel.specialise(T=f32, LOW=2, HIGH=3, NV=2, TAIL=1)
    kernel.python(a.reshape(-1), panel.reshape(-1), c.reshape(-1), 7, columns, 6, 6, columns, accumulate)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-6)
