"""Weights from other libraries: converted networks predict what the library recorded; round trips; refusals; files."""

import json
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError, FileAccessError, FormatError, UnknownNameError
from pullback.nn.layers.sublayers import GatedGRU, GatedLSTM
from pullback.nn.recurrent import FORMATS, convert, read, within

DATA = Path(__file__).parent.parent / "data"
GOLDEN = {case["id"]: case for case in json.loads((DATA / "golden" / "manifest.json").read_text())["cases"]}
INPUTS, UNITS = 3, 4


def recorded(case: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs and outputs of a golden case."""
    entry = GOLDEN[case]
    with np.load(DATA / "golden" / entry["npz"], allow_pickle=False) as file:
        parts = (entry["arrays"][part].items() for part in ("inputs", "outputs"))
        return tuple({k: file[key].astype("float64") for k, key in part} for part in parts)


def lstm(arrays, x, *states, **options):
    weights = (arrays[name] for name in ("weight", "recurrent_weight", "bias"))
    return pb.lstm(x, *weights, *states, peepholes=arrays.get("peepholes"), **options)[0].eval()


def gru(arrays, x, *states, **options):
    after = "recurrent_bias" in arrays
    names = ("weight", "recurrent_weight", "bias")
    weights = [arrays[name] for name in names] + [arrays.get("recurrent_bias")]
    return pb.gru(x, *weights, *states, reset="after" if after else "before", **options)[0].eval()


class TestConvertedNetworksPredictWhatWasRecorded:
    def test_keras_lstm(self) -> None:
        i, o = recorded("keras_lstm_1")
        y = lstm(convert(i, "keras_lstm", "pullback_lstm"), i["x"].swapaxes(0, 1), i["h0"], i["c0"])
        np.testing.assert_allclose(y.swapaxes(0, 1), o["sequence"], rtol=1e-10)

    @pytest.mark.parametrize("case", ["keras_gru_reset_after", "keras_gru_reset_before"])
    def test_keras_gru(self, case) -> None:
        i, o = recorded(case)
        y = gru(convert(i, "keras_gru", "pullback_gru"), i["x"].swapaxes(0, 1), i["h0"])
        np.testing.assert_allclose(y.swapaxes(0, 1), o["sequence"], rtol=1e-10)

    def test_torch(self) -> None:
        i, o = recorded("lstm_1")
        y = lstm(convert(i, "torch_lstm", "pullback_lstm"), i["x"], i["h0"][0], i["c0"][0])
        np.testing.assert_allclose(y, o["y"], rtol=1e-10)
        i, o = recorded("gru_1")
        np.testing.assert_allclose(gru(convert(i, "torch_gru", "pullback_gru"), i["x"], i["h0"][0]), o["y"], rtol=1e-10)
        i, o = recorded("gru_nobias")
        np.testing.assert_allclose(gru(convert(i, "torch_gru", "pullback_gru"), i["x"], i["h0"][0]), o["y"], rtol=1e-10)

    def test_torch_in_layers_and_directions(self) -> None:
        i, o = recorded("lstm_2layer_bi")
        y = i["x"]
        for layer in (0, 1):
            sides = []
            for k, reverse in enumerate((False, True)):
                arrays = convert(i, "torch_lstm", "pullback_lstm", layer=layer, reverse=reverse)
                sides.append(lstm(arrays, y, i["h0"][2 * layer + k], i["c0"][2 * layer + k], reverse=reverse))
            y = np.concatenate(sides, -1)
        np.testing.assert_allclose(y, o["y"], rtol=1e-9)

    @pytest.mark.parametrize("case", ["block_v1_full", "block_v2_full"])
    def test_tensorflows_block_lstm(self, case) -> None:
        i, o = recorded(case)
        source = "tf_block_lstm" + ("_v2" if "v2" in case else "")
        without = {k: v for k, v in i.items() if k in ("w", "b")}
        arrays = convert(without, source, "pullback_lstm", forget_bias=GOLDEN[case]["attrs"]["forget_bias"])
        np.testing.assert_allclose(lstm(arrays, i["x"], i["h_prev"], i["cs_prev"]), o["h"], rtol=1e-9)

    def test_peepholes_of_tensorflow(self) -> None:
        i, o = recorded("block_v2_short_peep")
        arrays = convert({k: i[k] for k in ("w", "b", "wci", "wcf", "wco")}, "tf_block_lstm_v2", "pullback_lstm")
        y = lstm(arrays, i["x"][:3], i["h_prev"], i["cs_prev"])
        np.testing.assert_allclose(y, o["h"][:3], rtol=1e-9)

    def test_tensorflows_gru_under_all_its_names(self) -> None:
        i, o = recorded("gru_seq_1")
        V2 = {"gates/kernel": "w_ru", "candidate/kernel": "w_c", "gates/bias": "b_ru", "candidate/bias": "b_c"}
        exchanged = {**i, "w_ru": i["w_c"], "w_c": i["w_ru"]}
        for arrays in (i, exchanged, {name: i[ours] for name, ours in V2.items()}):
            y = gru(convert(arrays, "tf_gru", "pullback_gru"), i["x"], i["h0"])
            np.testing.assert_allclose(y, o["h"], rtol=1e-9)

    @pytest.mark.parametrize("name", ["lstm", "lstm_peepholes", "gru_before", "gru_after"])
    def test_onnx(self, name) -> None:
        a = within(read(DATA / "recurrent" / "onnx.npz"), name)
        kind, run = ("lstm", lstm) if "lstm" in name else ("gru", gru)
        for k in range(len(a["W"])):
            settings = dict(reverse=k == 1, linear_before_reset=name == "gru_after")
            ours = convert(a, f"onnx_{kind}", f"pullback_{kind}", **settings)
            np.testing.assert_allclose(run(ours, a["x"], reverse=k == 1), a["y"][:, k], rtol=2e-5, atol=1e-6)

    def test_a_keras_file_as_a_network(self) -> None:
        file, data = (DATA / "recurrent" / name for name in ("keras.weights.h5", "keras.npz"))
        arrays = read(file)
        net = nn.Network([nn.Input((None, 3)), nn.LSTM(4, return_sequences=True), nn.GRU(5), nn.Connected(2)])
        values = {}
        for name, kind in (("lstm_1", "lstm"), ("gru_2", "gru")):
            found = convert(within(arrays, f"layers/{kind}/cell"), f"keras_{kind}", f"pullback_{kind}")
            values |= {f"{name}.{key}": a for key, a in found.items()}
        values |= {f"connected_3.{key}": arrays[f"layers/dense/vars/{k}"] for k, key in enumerate(("weight", "bias"))}
        net.set_values(values)
        recorded = read(data)
        np.testing.assert_allclose(net.predict(recorded["x"]), recorded["y"], rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("fork", ["pjreddie", "alexeyab"])
    @pytest.mark.parametrize("kind", ["lstm", "gru"])
    def test_darknet(self, rng, kind, fork) -> None:
        layer = GatedLSTM(UNITS) if kind == "lstm" else GatedGRU(UNITS, candidate="tanh")
        net = nn.Network([nn.Input((5, INPUTS)), layer], dtype="float64", seed=3)
        p = {k.partition(".")[2]: v + 0.1 for k, v in net.get_values().items()}
        net.set_values({f"{net.nodes[1].name}.{k}": v for k, v in p.items()})
        prefix = {"input": "u", "state": "w"} if kind == "lstm" or fork == "pjreddie" else {}
        arrays = {}
        for name, a in p.items():  # such as input_f_weight
            side, gate, what = name.split("_")
            key = f"{prefix[side]}{gate}" if prefix else f"{side}_{gate}"
            arrays[f"{key}.{what}s" if what == "weight" else f"{key}.biases"] = a.T
        ours = convert(arrays, f"darknet_{kind}", f"pullback_{kind}", candidate="tanh")
        x = rng.standard_normal((2, 5, INPUTS))
        y = (lstm if kind == "lstm" else gru)(ours, x.swapaxes(0, 1))
        np.testing.assert_allclose(y.swapaxes(0, 1), net.predict(x), rtol=1e-10)


def random_cell(kind, rng, reset="after"):
    n = 4 if kind == "lstm" else 3
    shapes = {"weight": (INPUTS, n * UNITS), "recurrent_weight": (UNITS, n * UNITS), "bias": (n * UNITS,)}
    if kind == "gru" and reset == "after":
        shapes["recurrent_bias"] = shapes["bias"]
    return {name: rng.standard_normal(s) for name, s in shapes.items()}


@pytest.mark.parametrize("other", [name for name in FORMATS if name.endswith(("lstm", "v2"))])
def test_lstm_round_trips(rng, other) -> None:
    cell = random_cell("lstm", rng)
    options = dict(textbook=True)
    there = convert(cell, "pullback_lstm", other, **options)
    back = convert(there, other, "pullback_lstm", **options)
    for name, a in cell.items():
        np.testing.assert_allclose(back[name], a, rtol=1e-14, atol=1e-15)
    again = convert(back, "pullback_lstm", other, **options)
    assert {k: v.shape for k, v in again.items()} == {k: v.shape for k, v in there.items()}


@pytest.mark.parametrize("other", [name for name in FORMATS if name.endswith("gru")])
@pytest.mark.parametrize("reset", ["after", "before"])
def test_gru_round_trips(rng, other, reset) -> None:
    cell = random_cell("gru", rng, reset)
    options = dict(linear_before_reset=reset == "after", candidate="tanh")
    if reset not in FORMATS[other].resets:
        with pytest.raises(ArgumentError, match="these are different functions"):
            convert(cell, "pullback_gru", other, **options)
        return
    back = convert(convert(cell, "pullback_gru", other, **options), other, "pullback_gru", **options)
    for name, a in cell.items():
        np.testing.assert_allclose(back[name], a, rtol=1e-14)


def test_a_darknet_cell_with_batch_normalisation_is_folded(rng) -> None:
    arrays = convert(random_cell("lstm", rng), "pullback_lstm", "darknet_lstm")
    scale, mean, variance = rng.standard_normal(UNITS), rng.standard_normal(UNITS), rng.random(UNITS) + 0.5
    normalised = {**arrays, "uf.scales": scale, "uf.rolling_mean": mean, "uf.rolling_variance": variance}
    found = convert(normalised, "darknet_lstm", "keras_lstm")
    x = rng.standard_normal(INPUTS)
    expected = scale * (arrays["uf.weights"] @ x - mean) / (np.sqrt(variance) + 1e-6) + arrays["uf.biases"]
    forget = slice(UNITS, 2 * UNITS)
    got = x @ found["kernel"][:, forget] + found["bias"][forget] - arrays["wf.biases"]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


class TestRefusals:
    @pytest.mark.parametrize("source, target, changes, why", [
        ("pullback_lstm", "keras_gru", {}, "an LSTM is not a GRU"),
        ("pullback_lstm", "keras_lstm", {"peepholes": np.ones((3, UNITS))}, "it has peepholes"),
        ("pullback_lstm", "numpynet_lstm", {}, "never feeds its output back"),
    ])  # fmt: skip
    def test_lstm(self, rng, source, target, changes, why) -> None:
        with pytest.raises(ArgumentError, match=f"no conversion from {source} to {target} exists: .*{why}"):
            convert({**random_cell("lstm", rng), **changes}, source, target)

    def test_clipped_cells(self, rng) -> None:
        arrays = convert(random_cell("lstm", rng), "pullback_lstm", "tf_block_lstm")
        with pytest.raises(ArgumentError, match="clipped at 3.0, which the target can't do"):
            convert(arrays, "tf_block_lstm", "torch_lstm", cell_clip=3.0)
        convert(arrays, "tf_block_lstm", "tf_block_lstm_v2", cell_clip=3.0)

    def test_a_logistic_candidate(self, rng) -> None:
        arrays = convert(random_cell("gru", rng, "before"), "pullback_gru", "darknet_gru", candidate="tanh")
        with pytest.raises(ArgumentError, match="its candidate is logistic, the target's is tanh"):
            convert(arrays, "darknet_gru", "keras_gru")

    def test_names_and_shapes(self, rng) -> None:
        cell = random_cell("lstm", rng)
        with pytest.raises(UnknownNameError, match="unknown format 'kears_lstm'. Did you mean 'keras_lstm'"):
            convert(cell, "pullback_lstm", "kears_lstm")
        with pytest.raises(UnknownNameError, match="unknown option 'forgetbias'"):
            convert(cell, "pullback_lstm", "keras_lstm", forgetbias=1.0)
        with pytest.raises(FormatError, match="there is no array 'kernel'; it needs kernel, recurrent_kernel, bias"):
            convert(cell, "keras_lstm", "pullback_lstm")
        with pytest.raises(FormatError, match="weight has shape"):
            convert({**cell, "weight": cell["weight"][:, 1:]}, "pullback_lstm", "keras_lstm")


class TestFiles:
    def test_safetensors_and_npz(self, rng, tmp_path) -> None:
        from safetensors.numpy import save_file

        arrays = {"a.weight": rng.random((2, 3)), "a.bias": rng.random(3)}
        save_file(arrays, tmp_path / "m.safetensors")
        np.savez(tmp_path / "m.npz", **arrays)
        for name in ("m.safetensors", "m.npz"):
            found = within(read(tmp_path / name), "a")
            np.testing.assert_array_equal(found["weight"], arrays["a.weight"])

    @pytest.mark.parametrize("name", ["m.safetensors", "m.npz", "m.weights.h5"])
    def test_damaged_and_missing_files(self, tmp_path, name) -> None:
        with pytest.raises(FileAccessError, match="there is no such file"):
            read(tmp_path / name)
        (tmp_path / name).write_bytes(b"\x07 not what it says")
        with pytest.raises(FormatError, match="damaged"):
            read(tmp_path / name)

    def test_other_kinds_and_groups(self, tmp_path) -> None:
        with pytest.raises(FormatError, match="expected a file that ends in .safetensors, .npz, .h5"):
            read(tmp_path / "m.pt")
        with pytest.raises(UnknownNameError, match="no array's name begins with 'layers/x'"):
            within({"layers/lstm": np.zeros(1)}, "layers/x")
