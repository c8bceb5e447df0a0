"""Recurrent networks over sequences: fused against written out, lengths, directions, layers, windows, refusals."""

from itertools import product

import numpy as np
import pytest

import pullback as pb
from pullback.control.gru_op import GRU
from pullback.control.lstm_op import LSTM
from pullback.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pullback.graph import TensorType, Variable

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 2, 5
LENGTHS = np.array([4, 0, 2])


@pytest.fixture(params=["native", "reference"])
def backend(request):
    return request.param


def run(inputs, outputs, arrays, backend="native"):
    return pb.function(inputs, outputs, backend=backend, on_unused_input="ignore")(*arrays)


def symbolic(arrays):
    return [Variable(TensorType(a.dtype.name, (None,) * a.ndim)) for a in arrays]


def lstm_inputs(rng, peepholes=False, bounded=False):
    shapes = [(STEPS, BATCH, 4 * HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN,), (BATCH, HIDDEN), (BATCH, HIDDEN)]
    arrays = [rng.standard_normal(s) for s in shapes + [(3, HIDDEN)] * peepholes]
    return arrays + [LENGTHS] * bounded


def gru_inputs(rng, bounded=False):
    shapes = [(STEPS, BATCH, 3 * HIDDEN), (HIDDEN, 3 * HIDDEN), (3 * HIDDEN,), (3 * HIDDEN,), (BATCH, HIDDEN)]
    return [rng.standard_normal(s) for s in shapes] + [LENGTHS] * bounded


def network_inputs(rng, gates, states):
    """x, W, U, b and the first states."""
    shapes = [(STEPS, BATCH, INPUTS), (INPUTS, gates * HIDDEN), (HIDDEN, gates * HIDDEN), (gates * HIDDEN,)]
    return [rng.standard_normal(s) for s in shapes + [(BATCH, HIDDEN)] * states]


def close(found, expected, rtol=1e-12):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, np.abs(b).max(initial=0)))


class TestFusedIsWrittenOut:
    """The fused ops are the scans that define them, in value, gradient and second derivative."""

    def check(self, op, arrays, reaching, order, backend, rng) -> None:
        """`reaching`: which outputs an upstream gradient reaches."""
        inputs = symbolic(arrays)
        wrt = [v for v in inputs if v.type.is_float]
        upstream = [rng.standard_normal(y.shape) if r else None for y, r in zip(op.perform(*arrays), reaching)]
        weights = rng.standard_normal(len(wrt))
        graphs = []
        for outputs in (op.make_node(*inputs).outputs, op.definition(*inputs)):
            cost = sum((y * pb.constant(u)).sum() for y, u in zip(outputs, upstream) if u is not None)
            first = pb.grad(cost, wrt, disconnected_inputs="ignore")
            bent = sum(pb.sin(g).sum() * w for g, w in zip(first, weights))
            second = pb.grad(bent, wrt, disconnected_inputs="ignore") if order == 2 else []
            graphs += [*outputs, *first, *second]
        found = run(inputs, graphs, arrays, backend)
        close(found[: len(found) // 2], found[len(found) // 2 :])

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("bounded", [False, True])
    def test_lstm(self, backend, rng, reverse, bounded) -> None:
        op = LSTM(reverse, peepholes=True, bounded=bounded)
        self.check(op, lstm_inputs(rng, True, bounded), [True] * 5, 2, backend, rng)

    @pytest.mark.parametrize("straight_through", [False, True])
    def test_clipped_lstm(self, backend, rng, straight_through) -> None:
        op = LSTM(cell_clip=0.5, straight_through=straight_through)
        self.check(op, lstm_inputs(rng), [True] * 5, 2, backend, rng)

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("bounded", [False, True])
    def test_gru(self, backend, rng, reverse, bounded) -> None:
        self.check(GRU(reverse, bounded), gru_inputs(rng, bounded), [True] * 4, 2, backend, rng)

    @pytest.mark.parametrize("reaching", [r for r in product([0, 1], repeat=5) if any(r)], ids=str)
    def test_every_subset_of_upstream_gradients_of_lstm(self, rng, reaching) -> None:
        op = LSTM(bounded=True, reverse=sum(reaching) % 2 == 0)
        self.check(op, lstm_inputs(rng, bounded=True), reaching, 1, "native", rng)

    @pytest.mark.parametrize("reaching", [r for r in product([0, 1], repeat=4) if any(r)], ids=str)
    def test_every_subset_of_upstream_gradients_of_gru(self, rng, reaching) -> None:
        op = GRU(bounded=True, reverse=sum(reaching) % 2 == 0)
        self.check(op, gru_inputs(rng, True), reaching, 1, "native", rng)

    @pytest.mark.parametrize("reaching", [(1, 0, 0, 0, 0), (0, 0, 0, 0, 1), (0, 1, 1, 0, 0)], ids=str)
    def test_second_derivatives_with_upstream_gradients_left_out(self, rng, reaching) -> None:
        self.check(LSTM(bounded=True), lstm_inputs(rng, bounded=True), reaching, 2, "native", rng)
        self.check(GRU(reverse=True), gru_inputs(rng), reaching[:3] + (reaching[4],), 2, "native", rng)


# --- against loops of cells -------------------------------------------------------------------------------------------


def unrolled_lstm(x, W, U, b, h, c, order=None):
    hs = {}
    for t in order or range(STEPS):
        h, c = pb.lstm_cell(x[t], h, c, W, U, b)
        hs[t] = h
    return pb.stack([hs[t] for t in range(STEPS)]), h, c


def unrolled_gru(x, W, U, b, h, reset="after", order=None):
    hs = {}
    for t in order or range(STEPS):
        h = pb.gru_cell(x[t], h, W, U, b, reset=reset)
        hs[t] = h
    return pb.stack([hs[t] for t in range(STEPS)]), h


def with_gradients(outputs, wrt, seed=0):
    rng = np.random.default_rng(seed)
    cost = sum((pb.sin(y) * rng.standard_normal()).sum() for y in outputs)
    return [*outputs, *pb.grad(cost, wrt)]


@pytest.mark.parametrize("reverse", [False, True])
def test_lstm_is_a_loop_of_its_cell(backend, rng, reverse) -> None:
    arrays = network_inputs(rng, 4, 2)
    inputs = symbolic(arrays)
    order = range(STEPS - 1, -1, -1) if reverse else range(STEPS)
    one = with_gradients(pb.lstm(*inputs, reverse=reverse), inputs)
    other = with_gradients(unrolled_lstm(*inputs, order=order), inputs)
    found = run(inputs, [*one, *other], arrays, backend)
    close(found[: len(one)], found[len(one) :])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("reset", ["after", "before"])
def test_gru_is_a_loop_of_its_cell(backend, rng, reset, reverse) -> None:
    arrays = network_inputs(rng, 3, 1)
    inputs = x, W, U, b, h0 = symbolic(arrays)
    order = range(STEPS - 1, -1, -1) if reverse else range(STEPS)
    one = with_gradients(pb.gru(x, W, U, b, None, h0, reset=reset, reverse=reverse), inputs)
    other = with_gradients(unrolled_gru(x, W, U, b, h0, reset, order), inputs)
    found = run(inputs, [*one, *other], arrays, backend)
    close(found[: len(one)], found[len(one) :])


def test_options_of_lstm_against_their_formulas(rng) -> None:
    """Layer normalisation, projection and a mask, written in NumPy."""
    x, W, b = rng.standard_normal((STEPS, BATCH, INPUTS)), rng.standard_normal((INPUTS, 20)), rng.standard_normal(20)
    U, R, mask = rng.standard_normal((3, 20)), rng.standard_normal((5, 3)), rng.random((BATCH, 3)) * 2
    gains = [rng.standard_normal(n) for n in (20, 20, 5)]

    def normal(v, gain):
        return gain * (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + 1e-5)

    h, c, hs = np.zeros((BATCH, 3)), np.zeros((BATCH, 5)), []
    for t in range(STEPS):
        i, f, g, o = np.split(normal(x[t] @ W, gains[0]) + b + normal((h * mask) @ U, gains[1]), 4, 1)
        s = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
        c = s(f) * c + s(i) * np.tanh(g)
        h = (s(o) * np.tanh(normal(c, gains[2]))) @ R
        hs.append(h)
    y, last, cell = pb.lstm(x, W, U, b, projection=R, mask=mask, gains=gains)
    close(run([], [y, last, cell], []), [np.stack(hs), h, c], 1e-10)


@pytest.mark.parametrize("activation", ["tanh", "relu", np.sin])
def test_rnn_against_its_formula(backend, rng, activation) -> None:
    x, W, U, b, h0 = arrays = network_inputs(rng, 1, 1)
    f = {"tanh": np.tanh, "relu": lambda v: np.maximum(v, 0)}.get(activation, activation)
    h, hs = h0, []
    for t in range(STEPS):
        h = f(x[t] @ W + h @ U + b)
        hs.append(h)
    inputs = symbolic(arrays)
    close(run(inputs, pb.rnn(*inputs, activation=activation), arrays, backend), [np.stack(hs), h], 1e-10)


# --- lengths ----------------------------------------------------------------------------------------------------------
NETWORKS = {
    "rnn": (pb.rnn, 1, 1),
    "gru": (lambda x, W, U, b, h0, **options: pb.gru(x, W, U, b, None, h0, **options), 3, 1),
    "gru before": (lambda x, W, U, b, h0, **options: pb.gru(x, W, U, b, None, h0, reset="before", **options), 3, 1),
    "lstm": (pb.lstm, 4, 2),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("reverse", [False, True])
def test_padding_has_no_effect_whatever_it_holds(backend, rng, name, reverse) -> None:
    network, gates, states = NETWORKS[name]
    arrays = network_inputs(rng, gates, states)
    inputs = symbolic(arrays)
    y, *last = network(*inputs, lengths=LENGTHS, reverse=reverse)
    outputs = with_gradients([y, *last], inputs)
    clean = run(inputs, outputs, arrays, backend)
    padded = np.arange(STEPS)[:, None] >= LENGTHS
    for filler in (np.nan, 1e300, -np.inf):
        dirty = [np.where(padded[..., None], filler, arrays[0]), *arrays[1:]]
        close(run(inputs, outputs, dirty, backend), clean, 0)
    assert not clean[0][padded].any()
    assert not clean[1 + states][padded].any()  # the gradient of x
    for found, first in zip(clean[1 : 1 + states], arrays[4:]):
        np.testing.assert_array_equal(found[1], first[1])  # length 0: the first state


@pytest.mark.parametrize("name", NETWORKS)
def test_each_example_runs_as_if_it_were_alone(rng, name) -> None:
    network, gates, states = NETWORKS[name]
    arrays = network_inputs(rng, gates, states)
    inputs = symbolic(arrays)
    both = run(inputs, [*network(*inputs, lengths=LENGTHS), *network(*inputs, lengths=LENGTHS, reverse=True)], arrays)
    for b, n in ((0, 4), (2, 2)):
        alone = [arrays[0][:n, b : b + 1], *arrays[1:4], *(s[b : b + 1] for s in arrays[4:])]
        expected = run(inputs, [*network(*inputs), *network(*inputs, reverse=True)], alone)
        for found, right in zip(both, expected):
            found = found[:n, b : b + 1] if found.ndim == 3 else found[b : b + 1]
            np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", NETWORKS)
def test_no_steps_give_the_first_state_and_its_gradient(backend, rng, name) -> None:
    network, gates, states = NETWORKS[name]
    arrays = network_inputs(rng, gates, states)
    arrays[0] = arrays[0][:0]
    inputs = symbolic(arrays)
    y, *last = network(*inputs)
    grads = pb.grad(sum((pb.square(s)).sum() for s in last) + y.sum(), inputs)
    found = run(inputs, [y, *last, *grads], arrays, backend)
    assert found[0].shape == (0, BATCH, HIDDEN)
    close(found[1 : 1 + states], arrays[4:])
    for g, a in zip(found[1 + states : 5 + states], arrays):
        assert g.shape == a.shape and not g.any()
    close(found[5 + states :], [2 * a for a in arrays[4:]])


def test_lengths_may_be_inputs_of_a_function(rng) -> None:
    arrays = network_inputs(rng, 4, 2)
    inputs, lengths = symbolic(arrays), pb.lvector()
    f = pb.function([*inputs, lengths], pb.lstm(*inputs, lengths=lengths))
    expected = run(inputs, pb.lstm(*inputs, lengths=LENGTHS), arrays)
    close(f(*arrays, LENGTHS), expected)
    with pytest.raises(IndexRangeError, match=r"lstm: a length of 5 is outside \[0, 4\]"):
        f(*arrays, [5, 1, 1])
    with pytest.raises(IndexRangeError, match="a length of -1"):
        f(*arrays, [0, -1, 1])
    with pytest.raises(ShapeError, match="2 lengths for a batch of 3"):
        f(*arrays, [1, 1])


# --- directions, layers, windows --------------------------------------------------------------------------------------


def test_bidirectional_is_both_side_by_side(rng) -> None:
    x, W, U, b, *_ = network_inputs(rng, 4, 2)
    forward, backward = dict(W=W, U=U, b=b), dict(W=-W, U=U, b=2 * b)
    y, h, c = run([], pb.bidirectional(pb.lstm, x, forward, backward, LENGTHS), [])
    one = run([], pb.lstm(x, lengths=LENGTHS, **forward), [])
    other = run([], pb.lstm(x, lengths=LENGTHS, reverse=True, **backward), [])
    close([y, h, c], [np.concatenate([one[0], other[0]], -1), *(np.stack(pair) for pair in zip(one[1:], other[1:]))])


def test_stacked_layers_with_dropout_between(rng) -> None:
    x, W, U, b, *_ = network_inputs(rng, 1, 1)
    V = rng.standard_normal((2 * HIDDEN, HIDDEN))
    layers = [(dict(W=W, U=U, b=b), dict(W=W, U=-U)), dict(W=V, U=U)]
    between = lambda y: 0.5 * y  # noqa: E731
    y, h = run([], pb.stacked(pb.rnn, x, layers, between=between), [])
    first, h1 = pb.bidirectional(pb.rnn, x, *layers[0])
    second, h2 = pb.rnn(0.5 * first, V, U)
    first, h1, second, h2 = run([], [first, h1, second, h2], [])
    close([y, h], [second, np.concatenate([h1, h2[None]])])
    with pytest.raises(ArgumentError, match="at least one layer"):
        pb.stacked(pb.rnn, x, [])


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("reverse", [False, True])
def test_truncation_cuts_gradients_and_nothing_else(rng, name, reverse) -> None:
    network, gates, states = NETWORKS[name]
    arrays = network_inputs(rng, gates, states)
    arrays[0] = rng.standard_normal((5, BATCH, INPUTS))
    inputs = [pb.tensor("float64", a.shape) for a in arrays]
    lengths = np.array([5, 1, 3])
    whole = network(*inputs, lengths=lengths, reverse=reverse)
    cut = network(*inputs, lengths=lengths, reverse=reverse, truncate=2)
    found = run(inputs, [*whole, *cut], arrays)
    close(found[: 1 + states], found[1 + states :])
    step, window = (1, [1, 2]) if reverse else (3, [2, 3])
    g = run(inputs, [pb.grad(cut[0][step].sum(), inputs[0])], arrays)[0]
    np.testing.assert_array_equal(np.flatnonzero(g.any(axis=(1, 2))), window)


def test_state_is_carried_from_call_to_call(rng) -> None:
    arrays = network_inputs(rng, 4, 2)
    inputs = symbolic(arrays)
    f = pb.function(inputs, pb.lstm(*inputs))
    x, *weights, h0, c0 = arrays
    whole = f(*arrays)
    _, h, c = f(x[:1], *weights, h0, c0)
    rest = f(x[1:], *weights, h, c)
    close([rest[0], *rest[1:]], [whole[0][1:], *whole[1:]])


# --- refusals ---------------------------------------------------------------------------------------------------------


class TestRefusals:
    def test_shapes_before_anything_is_read(self, rng) -> None:
        x, W, U, b, h0, c0 = network_inputs(rng, 4, 2)
        with pytest.raises(ShapeError, match=r"lstm: x has shape \(4, 3\); expected \(T, B, I\)"):
            pb.lstm(x[..., 0], W, U)
        with pytest.raises(ShapeError, match=r"lstm: W has shape \(2, 19\); expected \(I, 4H\) with I=2, H=5"):
            pb.lstm(x, W[:, 1:], U, b)
        with pytest.raises(ShapeError, match=r"h0 has shape \(2, 5\); expected \(B, H\) with B=3, H=5"):
            pb.lstm(x, W, U, b, h0[:2], c0)
        with pytest.raises(ShapeError, match="gru: U has shape"):
            pb.gru(x, W[:, :15], U)
        x, W, U = symbolic([x, W, U])
        with pytest.raises(ShapeError, match="lstm: U has shape"):
            pb.lstm(x, W, U)[0].eval({x: np.zeros((4, 3, 2)), W: np.zeros((2, 20)), U: np.zeros((5, 16))})

    def test_lengths(self, rng) -> None:
        x, W, U, *_ = network_inputs(rng, 4, 2)
        with pytest.raises(DTypeError, match="lengths must be integers"):
            pb.lstm(x, W, U, lengths=[1.0, 2.0, 3.0])
        with pytest.raises(ShapeError, match="lengths must have 1 dimensions"):
            pb.lstm(x, W, U, lengths=3)

    def test_options(self, rng) -> None:
        x, W, U, *_ = network_inputs(rng, 3, 1)
        with pytest.raises(ArgumentError, match="gru: reset='middle'; expected one of 'after', 'before'"):
            pb.gru(x, W, U, reset="middle")
        with pytest.raises(ArgumentError, match="goes with reset='after'"):
            pb.gru(x, W, U, reset="before", gains=[np.ones(15)] * 2)
        with pytest.raises(ArgumentError, match="gains has 1 entries; expected 2"):
            pb.gru(x, W, U, gains=[np.ones(15)])
        with pytest.raises(ArgumentError, match="activation='cube'"):
            pb.rnn(x, W[:, :5], U[:, :5], activation="cube")
        with pytest.raises(ArgumentError, match="truncate=0; expected a whole number"):
            pb.gru(x, W, U, truncate=0)
        with pytest.raises(ArgumentError, match="truncate needs a number of steps that is known"):
            pb.gru(pb.dtensor3(), W, U, truncate=2)
        x, W, U, *_ = network_inputs(rng, 4, 2)
        with pytest.raises(ArgumentError, match="clip_gradient='none'"):
            pb.lstm(x, W, U, clip_gradient="none")
