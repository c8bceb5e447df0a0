"""Model files: bit for bit the same after load; what is damaged or foreign is refused; nothing half-written."""

import copy
import json
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pullback as pb
from pullback import nn
from pullback.nn import checkpoint, configuration


@pytest.fixture
def net(rng):
    net = nn.Network(
        [
            nn.Input((6, 6, 2)),
            nn.Convolutional(4, 3, padding="same", batch_normalize=True, activation="leaky", name="first"),
            nn.MaxPool(2),
            nn.Dropout(0.2),
            nn.Connected(5, initial=nn.initializers.GlorotUniform()),
            nn.Connected(3),
            nn.Softmax(),
        ],
        seed=7,
        name="small",
    )
    net.compile(nn.AdamW(nn.schedules.WarmUp(nn.schedules.Cosine(0.01, 50), 5)), "cross_entropy", ["accuracy"], l2=1e-4)
    net.metadata["classes"] = ["a", "b", "c"]
    net.fit(*data(rng), epochs=2, batch_size=8, verbose=False)
    return net


def data(rng, n=20):
    return rng.normal(size=(n, 6, 6, 2)).astype("float32"), rng.integers(0, 3, n)


def test_a_loaded_network_predicts_bit_for_bit_the_same(net, rng, tmp_path):
    path = tmp_path / "net.safetensors"
    net.save(path)
    loaded = nn.Network.load(path)
    X, y = data(rng)
    np.testing.assert_array_equal(loaded.predict(X), net.predict(X))
    assert loaded.evaluate(X, y) == net.evaluate(X, y)
    assert [node.layer for node in loaded.nodes] == [node.layer for node in net.nodes]
    assert loaded.recipe == net.recipe and loaded.metadata == net.metadata
    assert loaded.history.epochs == net.history.epochs and loaded.name == "small"
    assert [file.name for file in tmp_path.iterdir()] == ["net.safetensors"]


def test_training_goes_on_bit_for_bit(net, rng, tmp_path):
    net.save(tmp_path / "net.safetensors")
    loaded = nn.Network.load(tmp_path / "net.safetensors")
    X, y = data(rng)
    for _ in range(3):
        assert net.train_on_batch(X, y) == loaded.train_on_batch(X, y)
    for name, value in net.get_values().items():
        np.testing.assert_array_equal(value, loaded.get_values()[name])


def test_a_learning_rate_that_was_set_is_kept(tmp_path):
    net = nn.Network([nn.Input(2), nn.Connected(1)])
    net.compile(nn.SGD(0.5), "mse")
    net.learning_rate = 0.125
    net.save(tmp_path / "net.safetensors")
    assert nn.Network.load(tmp_path / "net.safetensors").learning_rate == 0.125


def test_graphs_with_several_inputs_and_outputs(tmp_path, rng):
    net = nn.Network(
        [nn.Input(2, name="a"), nn.Input(3, dtype="int64"), nn.Connected(3, after="a"), nn.Connected(3, after=-2),
         nn.Shortcut(2), nn.Route((1, "a"))],
        outputs=[4, -1],
    )  # fmt: skip
    net.save(tmp_path / "net.safetensors")
    loaded = nn.Network.load(tmp_path / "net.safetensors")
    X = [rng.normal(size=(4, 2)).astype("float32"), rng.integers(0, 5, (4, 3))]
    for a, b in zip(net.predict(X), loaded.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_are_apart(net, rng, duplicate):
    twin = duplicate(net)
    X, y = data(rng)
    before = net.predict(X)
    np.testing.assert_array_equal(twin.predict(X), before)
    twin.train_on_batch(X, y)
    np.testing.assert_array_equal(net.predict(X), before)
    assert not np.array_equal(twin.predict(X), before)


def test_another_dtype(net, rng):
    X, y = data(rng)
    wide = net.astype("float64")
    assert wide.predict(X).dtype == "float64"
    np.testing.assert_allclose(wide.predict(X), net.predict(X), rtol=1e-4, atol=1e-6)
    wide.train_on_batch(X, y)


def test_arrays_can_be_read_by_anybody(net, tmp_path):
    net.save(tmp_path / "net.safetensors")
    arrays = load_file(tmp_path / "net.safetensors")
    assert arrays["first.weight"].shape == (3, 3, 2, 4)
    assert {"first.scale", "first.running_mean", "optimizer/steps", "optimizer/first.weight.mean"} <= set(arrays)


def test_values_of_a_network_with_the_same_layers(net, tmp_path, rng):
    net.save(tmp_path / "net.safetensors")
    other = nn.Network([node.layer for node in net.nodes], seed=8)
    other.load_values(tmp_path / "net.safetensors")
    X, _ = data(rng)
    np.testing.assert_array_equal(other.predict(X), net.predict(X))
    with pytest.raises(pb.UnknownNameError, match="net.safetensors: the network has no parameter '"):
        nn.Network([nn.Input(3), nn.Connected(2)]).load_values(tmp_path / "net.safetensors")


# --- configurations ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Twice(nn.Layer):
    """A user's own layer."""

    by: float = 2.0

    def describe(self, x):
        return x

    def apply(self, parameters, inputs, context):
        return inputs[0] * self.by


def test_a_layer_of_ones_own_is_found_again(tmp_path):
    net = nn.Network([nn.Input(2), Twice(3.0)])
    net.save(tmp_path / "net.safetensors")
    assert nn.Network.load(tmp_path / "net.safetensors").nodes[1].layer == Twice(3.0)
    known = configuration.KINDS.pop(f"{__name__}:Twice")
    try:
        with pytest.raises(pb.FormatError, match=f"describes a '{__name__}:Twice'.*import {__name__} before loading"):
            nn.Network.load(tmp_path / "net.safetensors")
    finally:
        configuration.KINDS[f"{__name__}:Twice"] = known


def test_no_two_configurations_share_a_name():
    def below(cls):
        return {cls}.union(*map(below, cls.__subclasses__()))

    ours = [cls for cls in below(configuration.Configuration) if cls.__module__.startswith("pullback.")]
    assert all(configuration.KINDS[cls.__name__] is cls for cls in ours if cls is not configuration.Configuration)


@pytest.mark.parametrize(
    "value",
    [nn.Convolutional(np.int64(4), (3, 5), stride=2), nn.Route((0, "a")), nn.Adam(0.1), nn.metrics.TopAccuracy(3)],
)
def test_configurations_round_trip_through_json(value):
    assert configuration.decode(json.loads(json.dumps(configuration.encode(value)))) == value


def test_what_json_can_not_hold_is_refused(tmp_path):
    net = nn.Network([nn.Input(2), nn.Connected(1)])
    net.metadata["when"] = object()
    with pytest.raises(pb.ArgumentTypeError, match="net.metadata can't be written as JSON"):
        net.save(tmp_path / "net.safetensors")
    net = nn.Network([nn.Input(2), nn.Connected(1)])
    net.compile(nn.SGD(pb.scalar("rate")), "mse")
    with pytest.raises(pb.ArgumentTypeError, match="can't be written to a model file"):
        net.save(tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())


# --- damage -----------------------------------------------------------------------------------------------------------


def edited(path, change):
    """The description in a model file, changed."""
    saved = checkpoint.read(path)
    change(saved.description)
    arrays = saved.values | {checkpoint.OPTIMIZER + k: v for k, v in saved.state.items()}
    save_file(arrays, path, metadata={checkpoint.KEY: json.dumps(saved.description)})


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_a_truncated_file(net, tmp_path, share):
    path = tmp_path / "net.safetensors"
    net.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(pb.FormatError, match=r"net\.safetensors: no whole safetensors file of \d+ bytes"):
        nn.Network.load(path)


def test_foreign_files(tmp_path):
    path = tmp_path / "foreign.safetensors"
    path.write_text("epoch,loss\n1,2\n")
    with pytest.raises(pb.FormatError, match="no whole safetensors file"):
        nn.Network.load(path)
    save_file({"w": np.zeros(3)}, path)
    with pytest.raises(pb.FormatError, match="holds arrays, but no pullback network"):
        nn.Network.load(path)
    save_file({"w": np.zeros(3)}, path, metadata={"pullback": "{"})
    with pytest.raises(pb.FormatError, match="description is damaged"):
        nn.Network.load(path)
    save_file({"w": np.zeros(3)}, path, metadata={"pullback": "{}"})
    with pytest.raises(pb.FormatError, match="description is damaged: KeyError"):
        nn.Network.load(path)
    with pytest.raises(pb.FileAccessError, match="nowhere.safetensors: can't read it: No such file"):
        nn.Network.load(tmp_path / "nowhere.safetensors")
    with pytest.raises(pb.FileAccessError, match="can't read it"):
        nn.Network.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=99), "written by a newer pullback"),
        (lambda d: d["layers"][1].update(kind="Convolutionel"), "Did you mean 'Convolutional'"),
        (lambda d: d["layers"][1].update(filterz=3), "a setting 'filterz'. Did you mean 'filters'"),
        (lambda d: d["layers"][1].update(filters=5), r"the value for 'first.weight' has shape \(3, 3, 2, 4\)"),
        (lambda d: d["layers"].append(dict(d["layers"][5])), "there is no value for 'connected_7.weight'"),
        (lambda d: (d["layers"].pop(5), d.update(outputs=[-1])), "it holds 'connected_5.bias', which no layer owns"),
        (lambda d: d["layers"][1].update(name="other"), "there is no value for 'other.weight'"),
        (lambda d: d["optimizer"].append("first.weight.speed"), "optimizer's 'first.weight.speed' is missing"),
        (lambda d: d["optimizer"].remove("steps"), "optimizer's 'steps' is nowhere described"),
        (lambda d: d.pop("layers"), "description is damaged"),
        (lambda d: d.update(layers=3), "description is damaged"),
    ],
)
def test_a_changed_description(net, tmp_path, change, message):
    path = tmp_path / "net.safetensors"
    net.save(path)
    edited(path, change)
    with pytest.raises(pb.PullbackError, match=message):
        nn.Network.load(path)


@pytest.mark.parametrize("slot", ["steps", "first.weight.mean"])
def test_an_optimizer_array_is_missing(net, tmp_path, slot):
    path = tmp_path / "net.safetensors"
    net.save(path)
    saved = checkpoint.read(path)
    del saved.state[slot]
    with pytest.raises(pb.FormatError, match=f"the optimizer's '{slot}' is missing"):
        checkpoint.restore(saved)


def test_optimizer_arrays_of_another_shape(net, rng, tmp_path):
    path = tmp_path / "net.safetensors"
    net.save(path)
    saved = checkpoint.read(path)
    saved.state["first.weight.mean"] = np.zeros((2, 2), "float32")
    loaded = checkpoint.restore(saved)
    with pytest.raises(pb.FormatError, match=r"'first.weight.mean' has shape \(2, 2\); expected \(3, 3, 2, 4\)"):
        loaded.train_on_batch(*data(rng))


def test_a_failed_save_leaves_what_was_there(net, tmp_path, monkeypatch):
    path = tmp_path / "net.safetensors"
    path.write_text("older")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(pb.FileAccessError, match="can't write .*net.safetensors: No space left"):
        net.save(path)
    assert path.read_text() == "older" and len(list(tmp_path.iterdir())) == 1


def test_an_unwritable_folder(net, tmp_path):
    with pytest.raises(pb.FileAccessError, match="can't write .*: No such file or directory"):
        net.save(tmp_path / "nowhere" / "net.safetensors")
