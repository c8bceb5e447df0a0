"""Normalisation of single samples, attention, and layers made of others: values against NumPy, files, refusals."""

import copy
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback import nn


def network(*layers, shape=(5, 6), **options):
    return nn.Network([nn.Input(shape), *layers], dtype="float64", **options)


def randomize(net, rng):
    net.set_values({name: rng.normal(size=v.shape) for name, v in net.get_values().items()})
    return {name.partition(".")[2]: v for name, v in net.get_values().items()}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# --- normalisation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [1, 2])
def test_layer_norm(axes, rng):
    net = network(nn.LayerNorm(axes, epsilon=1e-3))
    p, X = randomize(net, rng), rng.normal(2.0, 3.0, size=(4, 5, 6))
    along = tuple(range(-axes, 0))
    hat = (X - X.mean(along, keepdims=True)) / np.sqrt(X.var(along, keepdims=True) + 1e-3)
    np.testing.assert_allclose(net.predict(X), p["scale"] * hat + p["bias"], rtol=1e-12)
    assert p["scale"].shape == (5, 6)[-axes:]
    assert net.parameters.keys() == {"layernorm_1.scale", "layernorm_1.bias"}
    assert not network(nn.LayerNorm(scale=False, bias=False)).parameters


def test_rms_norm(rng):
    net = network(nn.RMSNorm(epsilon=1e-3))
    p, X = randomize(net, rng), rng.normal(size=(4, 5, 6))
    want = p["scale"] * X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(net.predict(X), want, rtol=1e-12)


def test_group_norm(rng):
    net = network(nn.GroupNorm(3), shape=(4, 5, 6))
    p, X = randomize(net, rng), rng.normal(1.0, 2.0, size=(2, 4, 5, 6))
    parts = X.reshape(2, 20, 3, 2)
    hat = (parts - parts.mean((1, 3), keepdims=True)) / np.sqrt(parts.var((1, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(net.predict(X), p["scale"] * hat.reshape(X.shape) + p["bias"], rtol=1e-12)


# --- attention --------------------------------------------------------------------------------------------------------


def attention(p, x, memory, heads, allowed=None):
    """The formula, head by head and sample by sample."""
    out = np.zeros((*x.shape[:2], p["output"].shape[1]))
    size = p["query"].shape[1] // heads
    for b in range(len(x)):
        parts = []
        for h in range(heads):
            columns = slice(h * size, (h + 1) * size)
            q, k, v = (
                source @ p[name][:, columns] + p[f"{name}_bias"][columns]
                for source, name in ((x[b], "query"), (memory[b], "key"), (memory[b], "value"))
            )
            scores = q @ k.T / np.sqrt(size)
            parts.append(softmax(scores if allowed is None else np.where(allowed[b], scores, -1e30)) @ v)
        out[b] = np.concatenate(parts, axis=1) @ p["output"] + p["output_bias"]
    return out


def test_self_attention(rng):
    net = network(nn.MultiHeadAttention(3))
    p, X = randomize(net, rng), rng.normal(size=(4, 5, 6))
    np.testing.assert_allclose(net.predict(X), attention(p, X, X, 3), rtol=1e-11)
    causal = network(nn.MultiHeadAttention(2, size=4, outputs=7, causal=True))
    p = randomize(causal, rng)
    allowed = np.tile(np.tri(5, dtype=bool), (4, 1, 1))
    np.testing.assert_allclose(causal.predict(X), attention(p, X, X, 2, allowed), rtol=1e-11)
    assert causal.outputs[0].output.shape == (5, 7)
    assert network(nn.MultiHeadAttention(2, bias=False)).parameters.keys() == {
        f"multiheadattention_1.{name}" for name in ("query", "key", "value", "output")
    }


def cross(mask_shape, **options):
    inputs = [nn.Input((5, 6), name="x"), nn.Input((4, 3), name="memory"), nn.Input(mask_shape, "bool", name="mask")]
    layer = nn.MultiHeadAttention(2, after="x", memory="memory", mask="mask", name="attention", **options)
    return nn.Network([*inputs, layer], dtype="float64")


@pytest.mark.parametrize("pairs", [False, True])
def test_attention_to_another_sequence_through_a_mask(pairs, rng):
    net = cross((5, 4) if pairs else (4,))
    p = randomize(net, rng)
    X, memory, mask = rng.normal(size=(3, 5, 6)), rng.normal(size=(3, 4, 3)), rng.random((3, 5, 4)) < 0.6
    mask = mask if pairs else mask[:, 0]
    mask[..., 1] = True
    allowed = mask if pairs else np.repeat(mask[:, None], 5, axis=1)
    np.testing.assert_allclose(net.predict([X, memory, mask]), attention(p, X, memory, 2, allowed), rtol=1e-11)


def test_what_is_masked_has_no_effect_on_any_gradient(rng):
    X, mask = rng.normal(size=(3, 5, 6)), rng.random((3, 5)) < 0.6
    mask[:, 0] = True
    layers = [nn.Input((5, 6), name="x"), nn.Input(5, "bool", name="mask")]
    net = nn.Network([*layers, nn.MultiHeadAttention(2, after="x", mask="mask", dropout=0.3)], dtype="float64")
    x, m = pb.tensor("float64", (None, 5, 6)), pb.tensor("bool", (None, 5))
    y = net(x, m, context=net.context(training=True))
    cost = (pb.where(pb.expand_dims(m, 2), y, 0.0) ** 3).sum()
    f = pb.function([x, m], [cost, *pb.grad(cost, [x, *net.trainable])], no_default_updates=True)
    wanted = f(X, mask)
    assert all(np.isfinite(v).all() and v.any() for v in wanted)
    for filling in (1e30, np.nan):
        found = f(np.where(mask[:, :, None], X, filling), mask)
        for a, b in zip(found, wanted):
            np.testing.assert_array_equal(a, b)


def test_lengths_that_travel_are_its_mask(rng):
    """Tokens of 0 behind a sentence change nothing, inside residual layers and with layers between."""
    net = nn.Network(
        [
            nn.Input((None,), "int64"),
            nn.Embedding(9, 6, padding=0),
            nn.Residual((nn.LayerNorm(), nn.MultiHeadAttention(2))),
            nn.TimeDistributed(nn.Connected(6, activation="tanh")),
            nn.Residual((nn.RMSNorm(), nn.Activation("silu"), nn.MultiHeadAttention(3))),
            nn.TimeDistributed(nn.Connected(4)),
            nn.Softmax(),
        ],
        dtype="float64",
    )
    net.compile(nn.SGD(0.1), "cross_entropy")
    tokens, labels = rng.integers(1, 9, (2, 3)), rng.integers(0, 4, (2, 3))
    longer, more = np.pad(tokens, ((0, 0), (0, 4))), np.pad(labels, ((0, 0), (0, 4)))
    np.testing.assert_allclose(net.predict(longer)[:, :3], net.predict(tokens), rtol=1e-12)
    (cost, short), (same, long) = net.gradient(tokens, labels), net.gradient(longer, more)
    assert same == pytest.approx(cost, rel=1e-12)
    for name, g in short.items():
        np.testing.assert_allclose(long[name], g, rtol=1e-9, atol=1e-14)


def test_dropout_of_attention_acts_in_training_only(rng):
    net = network(nn.MultiHeadAttention(2, dropout=0.5))
    X = rng.normal(size=(2, 5, 6))
    x = pb.tensor("float64", (None, 5, 6))
    f = pb.function([x], net(x, context=net.context(training=True)))
    assert not np.allclose(f(X), f(X))
    np.testing.assert_array_equal(net.predict(X), net.predict(X))


def test_a_transformer_learns_which_token_came_first(rng):
    """Two blocks over sequences of any length; the label is the sign of the marked step's first feature."""
    net = nn.Network(
        [
            nn.Input((None, 8)),
            nn.Residual((nn.LayerNorm(), nn.MultiHeadAttention(2, size=8, causal=True))),
            nn.Residual((nn.RMSNorm(), nn.MultiHeadAttention(2))),
            nn.Lambda(lambda x: x[:, -1]),
            nn.Connected(2),
            nn.Softmax(),
        ],
        seed=1,
    )
    net.compile(nn.Adam(1e-2), "cross_entropy", ["accuracy"])
    X = rng.normal(size=(512, 6, 8)).astype("float32")
    X[:, :, 3] = 3 * (np.arange(6) == 0)
    y = (X[:, 0, 0] > 0).astype("int64")
    net.fit(X, y, epochs=25, verbose=False)
    assert net.evaluate(X, y)["accuracy"] > 0.95
    assert net.predict(X[:2, :3]).shape == (2, 2)


# --- layers made of others --------------------------------------------------------------------------------------------


def branches():
    """Two inputs of different kinds, merged twice, and two outputs."""
    net = nn.Network(
        [
            nn.Input(3, name="a"),
            nn.Input((4, 2), name="b"),
            nn.Connected(6, after="a", activation="tanh", name="left"),
            nn.Connected(6, after="b", name="right"),
            nn.Add(("left", "right"), activation="tanh", name="sum"),
            nn.Concatenate(("sum", "a", "left"), name="all"),
            nn.Connected(3, name="classes"),
            nn.Lambda(lambda x, y: pb.sum(x * y, axis=1, keepdims=True), after=("sum", "left"), name="number"),
        ],
        outputs=["classes", "number"],
        dtype="float64",
    )
    net.compile("adam", {"classes": "cross_entropy", "number": "mse"})
    return net


def test_several_inputs_and_outputs(rng):
    net = branches()
    p = net.get_values()
    A, B = rng.normal(size=(5, 3)), rng.normal(size=(5, 4, 2))
    classes, number = net.predict([A, B])
    left = np.tanh(A @ p["left.weight"] + p["left.bias"])
    together = np.tanh(left + B.reshape(5, 8) @ p["right.weight"] + p["right.bias"])
    want = np.concatenate([together, A, left], axis=1) @ p["classes.weight"] + p["classes.bias"]
    np.testing.assert_allclose(classes, want, rtol=1e-12)
    np.testing.assert_allclose(number, (together * left).sum(1, keepdims=True), rtol=1e-12)
    report = net.check_gradients([A, B], [rng.integers(0, 3, 5), rng.normal(size=(5, 1))])
    assert report.right and len(report.inputs) == 6
    history = net.fit([A, B], [rng.integers(0, 3, 5), rng.normal(size=5)], epochs=40, verbose=False)
    assert history["loss"][-1] < history["loss"][0]


def test_a_residual_layer_owns_the_parameters_of_those_inside(rng):
    inside = nn.Connected(6, activation="relu", learning_rate=0.5), nn.Connected(6, name="last", frozen=True)
    net = network(nn.Residual(inside, shortcut=nn.Connected(6)), shape=6)
    assert list(net.parameters) == [
        f"residual_1.{name}.{key}"
        for name in ("connected_0", "last", "shortcut.connected_0")
        for key in ("weight", "bias")
    ]
    assert [v.name for v in net.trainable] == [n for n in net.parameters if "last" not in n]
    p, X = randomize(net, rng), rng.normal(size=(3, 6))

    def linear(x, name):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

    want = linear(np.maximum(linear(X, "connected_0"), 0), "last") + linear(X, "shortcut.connected_0")
    np.testing.assert_allclose(net.predict(X), want, rtol=1e-12)
    net.compile(nn.SGD(0.1), "mse")
    _, gradients = net.gradient(X, rng.normal(size=(3, 6)), training=True)
    net.apply_gradients(gradients)
    for name, rate in (("connected_0.weight", 0.05), ("shortcut.connected_0.weight", 0.1)):
        step = p[name] - net.get_values()[f"residual_1.{name}"]
        np.testing.assert_allclose(step, rate * gradients[f"residual_1.{name}"], rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(p["last.weight"], net.get_values()["residual_1.last.weight"])


def test_a_batch_norm_inside_a_residual_layer_follows_the_data_unless_frozen(rng):
    for frozen in (False, True):
        net = network(nn.Residual(nn.BatchNorm(frozen=frozen)), shape=6)
        net.compile(nn.SGD(0.0), "mse")
        X = rng.normal(3.0, 1.0, size=(8, 6))
        net.train_on_batch(X, X)
        assert (net.get_values()["residual_1.batchnorm_0.running_mean"] == 0).all() == frozen


def test_summary_names_what_is_inside(capsys):
    net = network(nn.Residual((nn.LayerNorm(), nn.Connected(6)), activation="relu"), nn.Lambda(pb.tanh), shape=6)
    net.summary()
    text = capsys.readouterr().out
    assert "Residual (LayerNorm, Connected, relu)" in text and "Lambda (tanh)" in text and "72" in text


def halves(x):
    return x[:, ::2]


def test_files_name_functions_and_nothing_else(rng, tmp_path, monkeypatch):
    net = network(nn.MultiHeadAttention(2), nn.Residual(nn.LayerNorm(), name="around"), nn.Lambda(halves))
    X, path = rng.normal(size=(2, 5, 6)), tmp_path / "net.safetensors"
    for copied in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), net.astype("float64")):
        np.testing.assert_array_equal(copied.predict(X), net.predict(X))
    with pytest.raises(pb.ArgumentTypeError, match=r'nn.FUNCTIONS\["halves"\] = halves'):
        net.save(path)
    assert not path.exists()
    monkeypatch.setitem(nn.FUNCTIONS, "every other", halves)
    net.save(path)
    loaded = nn.Network.load(path)
    np.testing.assert_array_equal(loaded.predict(X), net.predict(X))
    assert [node.layer for node in loaded.nodes] == [node.layer for node in net.nodes]
    monkeypatch.delitem(nn.FUNCTIONS, "every other")
    with pytest.raises(pb.FormatError, match="put it into nn.FUNCTIONS as 'every other'"):
        nn.Network.load(path)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (lambda: [nn.LayerNorm(4)], r"layer 1 \(LayerNorm\): normalises over the last 4 axes, got \(5, 6\)"),
        (lambda: [nn.LayerNorm(epsilon=0.0)], "LayerNorm: epsilon=0.0"),
        (lambda: [nn.RMSNorm(axes=0)], "RMSNorm: axes=0"),
        (lambda: [nn.GroupNorm(4)], "6 channels can't be cut into groups=4"),
        (lambda: [nn.MultiHeadAttention(4)], "6 features can't be cut into heads=4 equal parts: give a size"),
        (lambda: [nn.Flatten(), nn.MultiHeadAttention(2)], r"takes sequences \(time, features\)"),
        (lambda: [nn.MultiHeadAttention(2, mask=0)], r"the mask holds float64; expected truth values"),
        (lambda: [nn.MultiHeadAttention(2, dropout=1.0)], "dropout=1.0"),
        (lambda: [nn.Concatenate((0, -1), axis=0)], "axis=0 is none of"),
        (lambda: [nn.Connected(6), nn.Concatenate((0, -1))], "differ in more than axis"),
        (lambda: [nn.Connected(6), nn.Add((0, -1))], "differ in shape"),
        (lambda: [nn.Concatenate(())], "it names no layers"),
        (lambda: [nn.Residual(nn.Connected(6))], r"\(5, 6\) can't be added to \(6,\): give layers as shortcut"),
        (lambda: [nn.Residual((nn.Connected,))], "expected layers"),
        (lambda: [nn.Residual(())], "no layers to go around"),
        (lambda: [nn.Residual(nn.Add((0, -1)))], "Add inside it must take the layer before it"),
        (lambda: [nn.Residual((nn.Flatten(name="f"), nn.Flatten(name="f")))], "two layers inside it have one name"),
        (lambda: [nn.Lambda("tanh")], "'tanh' is no function"),
        (lambda: [nn.Lambda(lambda x: 3)], "its function gave 3"),
    ],
)
def test_refusals(layers, message):
    with pytest.raises(pb.PullbackError, match=message):
        network(*layers())


def test_a_mask_of_the_wrong_shape_is_refused():
    with pytest.raises(pb.ShapeError, match=r"the mask has shape \(5,\); expected \(4,\) or \(5, 4\)"):
        cross((5,))
