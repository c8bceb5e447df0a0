"""Recurrent networks over sequences: fused against written out, lengths, directions, layers, windows, refusals."""

from itertools import product

import numpy as np
import pytest

import pullback as pb
from pullback.control.gru_op import GRU
from pullback.control.lstm_op import LSTM
from pullback.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pullback.graph import TensorType, Variable

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 2, 4
LENGTHS = np.array([5, 0, 2])


@pytest.fixture(params=["native", "reference"])
def backend(request):
    return request.param


def run(inputs, outputs, arrays, backend):
    f = pb.function(inputs, outputs, backend=backend, on_unused_input="ignore")
    f(*arrays)
    return f(*arrays)


def variables(arrays):
    return [Variable(TensorType(a.dtype.name, (None,) * a.ndim)) for a in arrays]


def lstm_inputs(rng, peepholes=False, bounded=False):
    n = rng.standard_normal
    arrays = [n((STEPS, BATCH, 4 * HIDDEN)), n((HIDDEN, 4 * HIDDEN)), n(4 * HIDDEN), n((BATCH, HIDDEN)), n((BATCH, HIDDEN))]
    return arrays + [n((3, HIDDEN))] * peepholes + [LENGTHS] * bounded


def gru_inputs(rng, bounded=False):
    n = rng.standard_normal
    arrays = [n((STEPS, BATCH, 3 * HIDDEN)), n((HIDDEN, 3 * HIDDEN)), n(3 * HIDDEN), n(3 * HIDDEN), n((BATCH, HIDDEN))]
    return arrays + [LENGTHS] * bounded


def derivatives(outputs, upstream, wrt, rng):
    """Gradients of sum(upstream . output), and gradients of a random combination of those."""
    cost = sum((y * u).sum() for y, u in zip(outputs, upstream) if u is not None)
    first = pb.grad(cost, wrt, disconnected_inputs="ignore")
    weights = [rng.standard_normal() for _ in first]
    second = pb.grad(sum((pb.sin(g) * w).sum() for g, w in zip(first, weights)), wrt, disconnected_inputs="ignore")
    return [*first, *second]


def assert_fused_is_written_out(op, arrays, reaching, backend, rng):
    """Values, gradients and second derivatives, with upstream gradients on the outputs that `reaching` names."""
    inputs = variables(arrays)
    fused, written = op.make_node(*inputs).outputs, op.definition(*inputs)
    wrt = [v for v in inputs if v.type.is_float]
    shapes = [y.shape for y in op.perform(*arrays)]
    upstream = [pb.constant(rng.standard_normal(s)) if r else None for s, r in zip(shapes, reaching)]
    seed = rng.integers(1000)
    found = run(
        inputs,
        [*fused, *derivatives(fused, upstream, wrt, np.random.default_rng(seed)),
         *written, *derivatives(written, upstream, wrt, np.random.default_rng(seed))],
        arrays, backend,
    )  # fmt: skip
    n = len(found) // 2
    for a, b in zip(found[:n], found[n:]):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * max(1, np.abs(b).max(initial=0)))


class TestFusedIsWrittenOut:
    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("bounded", [False, True])
    @pytest.mark.parametrize("clip", [0.0, 0.5, "straight_through"])
    @pytest.mark.parametrize("peepholes", [False, True])
    def test_lstm(self, backend, rng, reverse, bounded, clip, peepholes) -> None:
        op = LSTM(reverse, 0.5 if clip else 0.0, clip == "straight_through", peepholes, bounded)
        assert_fused_is_written_out(op, lstm_inputs(rng, peepholes, bounded), [True] * 5, backend, rng)

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("bounded", [False, True])
    def test_gru(self, backend, rng, reverse, bounded) -> None:
        assert_fused_is_written_out(GRU(reverse, bounded), gru_inputs(rng, bounded), [True] * 4, backend, rng)

    @pytest.mark.parametrize("reaching", [r for r in product([False, True], repeat=5) if any(r)], ids=str)
    def test_every_subset_of_upstream_gradients_of_lstm(self, rng, reaching) -> None:
        op = LSTM(bounded=True, reverse=sum(reaching) % 2 == 0)
        assert_fused_is_written_out(op, lstm_inputs(rng, bounded=True), reaching, "native", rng)

    @pytest.mark.parametrize("reaching", [r for r in product([False, True], repeat=4) if any(r)], ids=str)
    def test_every_subset_of_upstream_gradients_of_gru(self, rng, reaching) -> None:
        op = GRU(bounded=True, reverse=sum(reaching) % 2 == 0)
        assert_fused_is_written_out(op, gru_inputs(rng, bounded=True), reaching, "native", rng)
