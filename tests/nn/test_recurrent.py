"""Recurrent layers: what they compute, lengths that travel, states that are carried, refusals."""

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError, DTypeError, ShapeError, UnknownNameError

STEPS, FEATURES, UNITS = 5, 3, 4
LAYERS = {
    "SimpleRNN": nn.SimpleRNN(UNITS),
    "GRU": nn.GRU(UNITS),
    "GRU before": nn.GRU(UNITS, reset="before"),
    "LSTM": nn.LSTM(UNITS),
    "LSTM with peepholes": nn.LSTM(UNITS, peepholes=True, cell_clip=1.0),
}


def network(*layers, inputs=(None, FEATURES), dtype="float64", **input_options):
    return nn.Network([nn.Input(inputs, **input_options), *layers], dtype=dtype)


def changed(layer, **settings):
    from dataclasses import replace

    return replace(layer, **settings)


def by_ops(name, net, x):
    """The outputs (batch, time, units) of the layer, by `pb.rnn`, `pb.gru` and `pb.lstm`."""
    p = {key.partition(".")[2]: v.get_value() for key, v in net.parameters.items()}
    x = x.swapaxes(0, 1)
    W, U, b = (p[key] for key in ("weight", "recurrent_weight", "bias"))
    if name == "SimpleRNN":
        y = pb.rnn(x, W, U, b)[0]
    elif name.startswith("GRU"):
        y = pb.gru(x, W, U, b, p.get("recurrent_bias"), reset="before" if "before" in name else "after")[0]
    else:
        clip = 1.0 if "peepholes" in name else 0.0
        y = pb.lstm(x, W, U, b, peepholes=p.get("peepholes"), cell_clip=clip)[0]
    return y.eval().swapaxes(0, 1)


@pytest.mark.parametrize("name", LAYERS)
def test_values(rng, name) -> None:
    layer = LAYERS[name]
    net = network(changed(layer, return_sequences=True))
    x = rng.standard_normal((6, STEPS, FEATURES))
    expected = by_ops(name, net, x)
    np.testing.assert_allclose(net.predict(x), expected, rtol=1e-12)
    last = network(layer)
    last.set_values({f"{last.nodes[1].name}.{k.partition('.')[2]}": v for k, v in net.get_values().items()})
    np.testing.assert_allclose(last.predict(x), expected[:, -1], rtol=1e-12)
    backwards = network(changed(layer, reverse=True))
    backwards.set_values(last.get_values())
    np.testing.assert_allclose(backwards.predict(x[:, ::-1]), expected[:, -1], rtol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_a_network(name) -> None:
    net = network(nn.Bidirectional(LAYERS[name]), nn.Connected(2), nn.Softmax(), inputs=(STEPS, FEATURES))
    net.compile(loss="cross_entropy")
    net.check_gradients(points=1)


@pytest.mark.parametrize("merge, join", [
    ("concat", lambda a, b: np.concatenate([a, b], -1)), ("sum", np.add), ("mean", lambda a, b: (a + b) / 2),
    ("multiply", np.multiply),
])  # fmt: skip
def test_bidirectional(rng, merge, join) -> None:
    layer = nn.GRU(UNITS, return_sequences=True)
    net = network(nn.Bidirectional(layer, merge))
    x = rng.standard_normal((2, STEPS, FEATURES))
    parts = []
    for direction, reverse in (("forward", False), ("backward", True)):
        one = network(changed(layer, reverse=reverse))
        own = {k.split(".")[-1]: v for k, v in net.get_values().items() if f".{direction}." in k}
        one.set_values({f"gru_1.{k}": v for k, v in own.items()})
        parts.append(one.predict(x))
    np.testing.assert_allclose(net.predict(x), join(*parts), rtol=1e-12)


def test_time_distributed_is_the_layer_at_each_step(rng) -> None:
    net = network(nn.TimeDistributed(nn.Connected(2, activation="tanh")))
    p = net.get_values()
    x = rng.standard_normal((3, STEPS, FEATURES))
    expected = np.tanh(x @ p["timedistributed_1.weight"] + p["timedistributed_1.bias"])
    np.testing.assert_allclose(net.predict(x), expected, rtol=1e-12)


def test_first_biases() -> None:
    bias = network(nn.LSTM(UNITS, forget_bias=2.0)).get_values()["lstm_1.bias"]
    np.testing.assert_array_equal(bias, np.repeat([0.0, 2.0, 0.0, 0.0], UNITS))


class TestLengths:
    def tokens(self):
        tokens = np.random.default_rng(1).integers(1, 9, (4, STEPS))
        tokens[0, 2:] = tokens[1] = 0
        tokens[2, 1] = 0  # within a sequence it is a step like any other
        return tokens


    def net(self, *layers):
        return nn.Network([nn.Input((None,), dtype="int64"), nn.Embedding(9, 3, padding=0), *layers], dtype="float64")

    def test_they_travel_to_the_cost(self) -> None:
        net = self.net(
            nn.LSTM(UNITS, return_sequences=True), nn.Dropout(0.1), nn.Bidirectional(nn.GRU(3, return_sequences=True)),
            nn.TimeDistributed(nn.Connected(9)), nn.Softmax(),
        )  # fmt: skip
        net.compile(loss="cross_entropy", metrics=["accuracy"])
        tokens = self.tokens()
        other = np.where(np.arange(STEPS) >= [[2], [0], [STEPS], [STEPS]], 5, tokens)
        assert net.evaluate(tokens, tokens) == net.evaluate(tokens, other)
        probabilities = net.predict(tokens)
        wanted = np.take_along_axis(probabilities, tokens[..., None], 2)[..., 0]
        counts = np.arange(STEPS) < np.array([2, 0, STEPS, STEPS])[:, None]
        found = net.evaluate(tokens, tokens)
        assert np.isclose(found["loss"], -(np.log(wanted) * counts).sum() / 4)
        right = (probabilities.argmax(-1) == tokens) & counts
        assert np.isclose(found["accuracy"], np.mean(right.sum(1) / np.maximum(counts.sum(1), 1)))

    def test_the_last_state_is_that_at_the_last_token(self) -> None:
        net = self.net(nn.LSTM(UNITS))
        tokens = self.tokens()
        y = net.predict(tokens)
        np.testing.assert_allclose(y[0], net.predict(tokens[:1, :2])[0], rtol=1e-12)
        np.testing.assert_array_equal(y[1], np.zeros(UNITS))

    def test_the_row_of_padding_stays_zero(self) -> None:
        net = self.net(nn.GRU(UNITS), nn.Connected(2), nn.Softmax())
        net.compile("sgd", "cross_entropy")
        net.fit(self.tokens(), np.array([0, 1, 0, 1]), epochs=2, verbose=False)
        assert not net.get_values()["embedding_1.weight"][0].any()

    def test_masking(self, rng) -> None:
        net = network(nn.Masking(-1.0), nn.GRU(UNITS))
        x = rng.standard_normal((2, STEPS, FEATURES))
        x[0, 3:] = -1.0
        np.testing.assert_allclose(net.predict(x)[0], net.predict(x[:1, :3])[0], rtol=1e-12)

    def test_an_input_of_lengths(self, rng) -> None:
        net = nn.Network(
            [nn.Input((None, FEATURES), name="x"), nn.Input((), dtype="int64", name="lengths"),
             nn.SimpleRNN(UNITS, after="x", lengths="lengths")],
            dtype="float64",
        )  # fmt: skip
        x = rng.standard_normal((2, STEPS, FEATURES))
        x[0, 2:] = np.nan
        y = net.predict([x, np.array([2, STEPS])])
        np.testing.assert_allclose(y[0], net.predict([x[:1, :2], np.array([2])])[0], rtol=1e-12)
        with pytest.raises(ShapeError, match="one whole number per example"):
            nn.Network([nn.Input((None, 2), name="x"), nn.SimpleRNN(3, after="x", lengths="x")])

    def test_a_loss_that_can_not_leave_steps_out_says_so(self) -> None:
        class Own(nn.losses.MeanSquaredError):
            def values(self, output, target):
                return nn.losses.Loss.values(self, output, target)

        net = self.net(nn.LSTM(UNITS, return_sequences=True))
        net.compile(loss=Own())
        with pytest.raises(NotImplementedError, match="it can't leave steps of a sequence out"):
            net.train_on_batch(self.tokens(), np.zeros((4, STEPS, UNITS)))


class TestStates:
    def net(self, **options):
        return network(nn.LSTM(UNITS, stateful=2, return_sequences=True, **options), nn.GRU(UNITS, stateful=2))

    def test_they_are_carried_until_reset(self, rng) -> None:
        net = self.net()
        x = rng.standard_normal((2, 6, FEATURES))
        whole = net.predict(x)
        net.reset_states()
        net.predict(x[:, :2])
        np.testing.assert_allclose(net.predict(x[:, 2:]), whole, rtol=1e-12)
        assert not np.allclose(net.predict(x[:, 2:]), whole)
        net.reset_states()
        np.testing.assert_allclose(net.predict(x), whole, rtol=1e-12)

    def test_training_carries_them_and_learns_them_not(self, rng) -> None:
        net = self.net()
        net.compile("sgd", "mse")
        assert not [v.name for v in net.trainable if "state_" in v.name]
        x, y = rng.standard_normal((2, 3, FEATURES)), rng.standard_normal((2, UNITS))
        before = net.get_values()
        net.train_on_batch(x, y)
        after = net.get_values()
        expected = network(nn.LSTM(UNITS, return_sequences=True), nn.GRU(UNITS))
        expected.set_values({k: v for k, v in before.items() if "state_" not in k})
        np.testing.assert_allclose(after["gru_2.state_h"], expected.predict(x), rtol=1e-12)
        net.check_gradients(x, y, samples=2, points=1)

    def test_saved_and_loaded(self, rng, tmp_path) -> None:
        net = self.net()
        x = rng.standard_normal((2, 3, FEATURES))
        net.predict(x)
        net.save(tmp_path / "net.safetensors")
        np.testing.assert_array_equal(nn.Network.load(tmp_path / "net.safetensors").predict(x), net.predict(x))


def test_dropout_of_inputs_and_state_is_the_same_at_all_steps(rng) -> None:
    net = network(nn.SimpleRNN(UNITS, activation="linear", dropout=0.5, return_sequences=True), dtype="float64")
    context = net.context(training=True)
    x = pb.dtensor3()
    f = pb.function([x], net(x, context=context))
    values = net.get_values()
    values["simplernn_1.recurrent_weight"][:] = 0
    net.set_values(values)
    y = f(np.ones((50, STEPS, FEATURES)))
    assert (y == y[:, :1]).all() and len(np.unique(y[:, 0, 0])) > 1
    again = f(np.ones((50, STEPS, FEATURES)))
    assert not np.array_equal(y, again)


def test_learning_a_sequence_task(rng) -> None:
    """The sign of the first number, after some others."""
    x = rng.standard_normal((256, 8, 1)).astype("float32")
    y = (x[:, 0, 0] > 0).astype(int)
    net = network(nn.LSTM(12), nn.Connected(2), nn.Softmax(), inputs=(8, 1), dtype="float32")
    net.compile(nn.Adam(0.02), "cross_entropy", ["accuracy"])
    history = net.fit(x, y, epochs=30, batch_size=32, verbose=False)
    assert history["accuracy"][-1] > 0.95


class TestRefusals:
    @pytest.mark.parametrize("shape", [(3,), (4, 4, 3), (5, None)])
    def test_what_is_no_sequence(self, shape) -> None:
        with pytest.raises(ShapeError, match=r"layer 1 \(LSTM\): takes sequences \(time, features\)"):
            nn.Network([nn.Input(shape), nn.LSTM(4)])

    def test_settings(self) -> None:
        with pytest.raises(ArgumentError, match="LSTM: units=0"):
            nn.LSTM(0)
        with pytest.raises(ArgumentError, match="GRU: stateful=0"):
            nn.GRU(3, stateful=0)
        with pytest.raises(ArgumentError, match="recurrent_dropout=1.0"):
            nn.GRU(3, recurrent_dropout=1.0)
        with pytest.raises(ArgumentError, match="reset='x'"):
            nn.GRU(3, reset="x")
        with pytest.raises(UnknownNameError, match="unknown activation 'tan'"):
            nn.SimpleRNN(3, "tan")
        with pytest.raises(ArgumentError, match="expected a recurrent layer"):
            nn.Bidirectional(nn.Connected(3))
        with pytest.raises(UnknownNameError, match="unknown merge='add'"):
            nn.Bidirectional(nn.GRU(3), "add")
        with pytest.raises(ArgumentError, match="padding=9"):
            nn.Embedding(9, 2, padding=9)
        with pytest.raises(ArgumentError, match="takes one other"):
            nn.TimeDistributed(nn.Shortcut(0))

    def test_tokens_are_whole_numbers(self) -> None:
        with pytest.raises(DTypeError, match="give the Input dtype='int64'"):
            nn.Network([nn.Input((None,)), nn.Embedding(9, 2)])
        net = nn.Network([nn.Input((None,), dtype="int64"), nn.Embedding(9, 2), nn.GRU(2)])
        with pytest.raises(pb.IndexRangeError):
            net.predict(np.array([[1, 9]]))
