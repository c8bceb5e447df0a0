"""Kernels of LSTMs and GRUs: forward and backward against the ops' own `perform`, however the work is cut."""

import numpy as np
import pytest

import pullback as pb
from pullback.compile.bindings.recurrent import Recurrence
from pullback.control.gru_op import GRU, GRUGrad
from pullback.control.lstm_op import LSTM, LSTMGrad
from tests.compile.agreement import assert_close, assert_same_on_any_threads, native, reference, under_isa

SIZES = [(3, 2, 5), (1, 1, 1), (4, 33, 40), (3, 20, 256), (2, 30, 128)]  # steps, batch, hidden


def draw(rng, dtype, *shape):
    return (0.5 * rng.standard_normal(shape)).astype(dtype)


def lstm_arrays(rng, dtype, steps, batch, hidden, peepholes=False, bounded=False):
    shapes = [(steps, batch, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,), (batch, hidden), (batch, hidden)]
    arrays = [draw(rng, dtype, *s) for s in shapes + [(3, hidden)] * peepholes]
    arrays[1] /= np.sqrt(hidden).astype(dtype)
    return arrays + [rng.integers(0, steps, batch, endpoint=True)] * bounded


def gru_arrays(rng, dtype, steps, batch, hidden, bounded=False):
    shapes = [(steps, batch, 3 * hidden), (hidden, 3 * hidden), (3 * hidden,), (3 * hidden,), (batch, hidden)]
    arrays = [draw(rng, dtype, *s) for s in shapes]
    arrays[1] /= np.sqrt(hidden).astype(dtype)
    return arrays + [rng.integers(0, steps, batch, endpoint=True)] * bounded


def check(op, arrays):
    """The native results of an op against its `perform` in float64; returns the latter."""
    expected = reference(op, *arrays)
    for found, right in zip(native(op, *arrays), expected):
        assert_close(found, right, max(1e-3, np.abs(right).max()), 32)
    return expected


def check_lstm(rng, dtype, sizes, reverse=False, clip=0.0, straight_through=False, peepholes=False, bounded=False):
    options = reverse, clip, straight_through, peepholes, bounded
    arrays = lstm_arrays(rng, dtype, *sizes, peepholes, bounded)
    h, c, gates, *_ = (a.astype(dtype) for a in check(LSTM(*options), arrays))
    upstream = [draw(rng, dtype, *s) for s in (h.shape, c.shape, gates.shape, h.shape[1:], h.shape[1:])]
    check(LSTMGrad(*options), [arrays[1], arrays[4], c, gates, *upstream, *arrays[5:]])


def check_gru(rng, dtype, sizes, reverse=False, bounded=False):
    arrays = gru_arrays(rng, dtype, *sizes, bounded)
    h, gates, q, _ = (a.astype(dtype) for a in check(GRU(reverse, bounded), arrays))
    upstream = [draw(rng, dtype, *s) for s in (h.shape, gates.shape, q.shape, h.shape[1:])]
    check(GRUGrad(reverse, bounded), [arrays[1], arrays[4], h, gates, q, *upstream, *arrays[5:]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_lstm(rng, sizes, dtype) -> None:
    check_lstm(rng, dtype, sizes)
    check_lstm(rng, dtype, sizes, reverse=True, peepholes=True, bounded=True)


@pytest.mark.parametrize("straight_through", [False, True])
def test_clipped_lstm(rng, straight_through) -> None:
    check_lstm(rng, "float64", (4, 3, 20), clip=0.2, straight_through=straight_through, peepholes=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_gru(rng, sizes, dtype) -> None:
    check_gru(rng, dtype, sizes)
    check_gru(rng, dtype, sizes, reverse=True, bounded=True)


def test_both_ways_to_cut_the_work_were_tested() -> None:
    recurrences = [Recurrence(*sizes, gates, "float32") for sizes in SIZES for gates in (3, 4)]
    assert any(r.by_units for r in recurrences) and any(r.groups > 1 and not r.by_units for r in recurrences)


def test_float16_runs_its_perform(rng) -> None:
    inputs = [pb.tensor("float16", (None,) * a.ndim) for a in lstm_arrays(rng, "float16", 2, 3, 4)]
    f, g = (pb.function(inputs, LSTM().make_node(*inputs).outputs, backend=b) for b in ("native", "reference"))
    arrays = lstm_arrays(rng, "float16", 2, 3, 4)
    for a, b in zip(f(*arrays), g(*arrays)):
        assert a.dtype == np.float16
        np.testing.assert_array_equal(a, b)


def test_what_the_gates_overwrite_is_kept_if_it_is_needed(rng) -> None:
    arrays = lstm_arrays(rng, "float32", 3, 2, 4)
    z, *rest = (pb.tensor("float32", (None,) * a.ndim) for a in arrays)
    doubled = z * 2
    f = pb.function([z, *rest], [LSTM()(doubled, *rest)[0], doubled])
    np.testing.assert_array_equal(f(*arrays)[1], 2 * arrays[0])


def train_step():
    """A training step of a two-layer network with everything: value and gradients."""
    rng = np.random.default_rng(3)
    x = pb.ftensor3()
    parameters = [pb.shared(draw(rng, "float32", *s)) for s in ((8, 512), (128, 512), (512,), (128, 384), (128, 384))]
    W, U, b, V, R = parameters
    y, *_ = pb.lstm(x, W, U, b)
    z, last = pb.gru(y, V, R, reverse=True)
    cost = pb.square(z).mean() + last.sum()
    return pb.function([x], [cost, *pb.grad(cost, parameters)]), draw(rng, "float32", 4, 30, 8)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    def trained():
        step, x = train_step()
        return step(x)

    assert_same_on_any_threads(trained)


def narrow() -> None:
    """Called in a process that is held to a narrower instruction set."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        check_lstm(rng, dtype, (3, 7, 21), reverse=True, peepholes=True, bounded=True)
        check_gru(rng, dtype, (3, 7, 21))


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_narrower_instruction_sets(isa) -> None:
    under_isa(isa, "tests.compile.test_recurrent", "narrow")


@pytest.mark.parametrize("network, gates", [(pb.lstm, 4), (pb.gru, 3)])
def test_packed_weights_follow_the_weights(rng, network, gates) -> None:
    x = draw(rng, "float32", 3, 2, 5)
    W, U = (pb.shared(draw(rng, "float32", n, gates * 40)) for n in (5, 40))
    f = pb.function([], network(x, W, U)[0])
    f(), f()
    for v in (W, U):
        v.set_value(2 * v.get_value())
    expected = pb.function([], network(x, W.get_value(), U.get_value())[0], backend="reference")()
    np.testing.assert_allclose(f(), expected, rtol=1e-4, atol=1e-6)
