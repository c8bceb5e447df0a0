"""How the recurrent ops of golden vectors are said in pullback: TensorFlow's cells, layers of Keras and PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb

Attributes = dict[str, Any]
Inputs = dict[str, pb.Variable]
Outputs = dict[str, pb.Variable]


def blocks(v: pb.Variable, order: str, wanted: str, axis: int = -1) -> pb.Variable:
    """Blocks along an axis, named by the letters of `order`, in another order."""
    parts = dict(zip(order, pb.split(v, len(order), axis)))
    return pb.concatenate([parts[letter] for letter in wanted], axis)


# --- TensorFlow -------------------------------------------------------------------------------------------------------
GRU_INPUTS = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c")
LSTM_INPUTS = ("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
LSTM_OPTIONS = ("forget_bias", "cell_clip", "use_peephole")


def gru_block_cell(a: Attributes, i: Inputs, clip_gradient: str = "true") -> Outputs:
    return pb.gru_block_cell(*(i[name] for name in GRU_INPUTS))._asdict()


def gru_block_sequence(a: Attributes, i: Inputs) -> Outputs:
    weights = [i[name] for name in GRU_INPUTS[2:]]
    return {"h": pb.scan(lambda x, h: pb.gru_block_cell(x, h, *weights).h, sequences=i["x"], outputs_info=i["h0"])}


def lstm_block_cell(a: Attributes, i: Inputs, **options: Any) -> Outputs:
    given = {name: a[name] for name in LSTM_OPTIONS}
    return pb.lstm_block_cell(*(i[name] for name in LSTM_INPUTS), **given, **options)._asdict()


def block_lstm(a: Attributes, i: Inputs, **options: Any) -> Outputs:
    given = {name: a[name] for name in LSTM_OPTIONS}
    inputs = [i[name] for name in LSTM_INPUTS]
    return pb.block_lstm(a["seq_len_max"], *inputs, **given, **options)._asdict()


def block_lstm_v2(a: Attributes, i: Inputs, **options: Any) -> Outputs:
    given = {name: a[name] for name in LSTM_OPTIONS[1:]}
    inputs = [i[name] for name in LSTM_INPUTS]
    return pb.block_lstm_v2(a["seq_len_max"], *inputs, **given, **options)._asdict()


def fused_cell(a: Attributes, i: Inputs) -> Outputs:
    w, b = blocks(i["w"], "icfo", "ifco"), blocks(i["b"], "icfo", "ifco")
    first, forget, *rest = pb.split(b, 4)
    b = pb.concatenate([first, forget + a["forget_bias"], *rest])
    y, h, c = pb.lstm(
        i["x"], w[: a["I"]], w[a["I"] :], b, i["h0"], i["cs0"], lengths=np.array(a["lengths"]),
        cell_clip=a["cell_clip"],
        peepholes=pb.stack([i["wci"], i["wcf"], i["wco"]]) if a["use_peephole"] else None,
    )  # fmt: skip
    return {"output": y, "final_h": h, "final_c": c}


# --- Keras ------------------------------------------------------------------------------------------------------------
def keras_lstm(a: Attributes, i: Inputs) -> Outputs:
    y, h, c = pb.lstm(pb.swapaxes(i["x"], 0, 1), i["kernel"], i["recurrent_kernel"], i["bias"], i["h0"], i["c0"])
    return {"sequence": pb.swapaxes(y, 0, 1), "h_last": h, "c_last": c}


def keras_gru(a: Attributes, i: Inputs) -> Outputs:
    biases = (i["bias"][0], i["bias"][1]) if a["reset_after"] else (i["bias"], None)
    y, h = pb.gru(
        pb.swapaxes(i["x"], 0, 1), i["kernel"], i["recurrent_kernel"], *biases, i["h0"],
        reset="after" if a["reset_after"] else "before",
    )  # fmt: skip
    return {"sequence": pb.swapaxes(y, 0, 1), "h_last": h}


# --- PyTorch ----------------------------------------------------------------------------------------------------------
def torch_network(network: Callable[..., Any], states: tuple[str, ...], order: tuple[str, str] | None) -> Any:
    """`order`: of its row blocks, and of ours."""

    def weight(v: pb.Variable) -> pb.Variable:
        return v.T if order is None else blocks(v.T, *order)

    def bias(v: pb.Variable) -> pb.Variable:
        return v if order is None else blocks(v, *order)

    def build(a: Attributes, i: Inputs) -> Outputs:
        options = {"activation": a["nonlinearity"]} if network is pb.rnn else {}
        directions = ("", "_reverse") if a["bidirectional"] else ("",)

        def parameters(layer: int, direction: int) -> dict[str, Any]:
            suffix = f"_l{layer}{directions[direction]}"
            found = {"W": weight(i["weight_ih" + suffix]), "U": weight(i["weight_hh" + suffix]), **options}
            if a["bias"]:
                biases = [bias(i[name + suffix]) for name in ("bias_ih", "bias_hh")]
                found |= {"b": biases[0], "recurrent_bias": biases[1]} if network is pb.gru else {"b": sum(biases)}
            if a["proj_size"]:
                found["projection"] = i["weight_hr" + suffix].T
            return found | {name: i[name][layer * len(directions) + direction] for name in states}

        layers = [tuple(parameters(k, d) for d in range(len(directions))) for k in range(a["num_layers"])]
        x = pb.swapaxes(i["x"], 0, 1) if a["batch_first"] else i["x"]
        lengths = None if a["lengths"] is None else np.array(a["lengths"])
        y, *last = pb.stacked(network, x, [p if a["bidirectional"] else p[0] for p in layers], lengths)
        names = [f"{name[0]}_n" for name in states]
        return {"y": pb.swapaxes(y, 0, 1) if a["batch_first"] else y, **dict(zip(names, last))}

    return build


RECURRENT: dict[str, Callable[[Attributes, Inputs], Outputs]] = {
    "tf.GRUBlockCell": gru_block_cell,
    "tf.GRUBlockCell.sequence": gru_block_sequence,
    "tf.LSTMBlockCell": lstm_block_cell,
    "tf.BlockLSTM": block_lstm,
    "tf.BlockLSTMV2": block_lstm_v2,
    "tf.LSTMBlockFusedCell": fused_cell,
    "keras.LSTM": keras_lstm,
    "keras.GRU": keras_gru,
    "nn.RNN": torch_network(pb.rnn, ("h0",), None),
    "nn.LSTM": torch_network(pb.lstm, ("h0", "c0"), None),
    "nn.GRU": torch_network(pb.gru, ("h0",), ("rzn", "zrn")),
}

# What a variant records: the outputs that an upstream gradient reaches (None: values are recorded), and options.
# Their float32 kernels are TensorFlow's, which pass the gradient straight through the clip.
STRAIGHT = {"clip_gradient": "straight_through"}
VARIANTS: dict[str, tuple[tuple[str, ...] | None, dict[str, Any]]] = {
    "grads_h_only": (("h",), {}),
    "grads_cs_h_only": (("cs", "h"), {}),
    "straight_through_grads_cs_h": (("cs", "h"), STRAIGHT),
    "tf_f32_outputs": (None, {}),
    "tf_f32_registered_grads": (("cs", "h"), STRAIGHT),
    "tf_f32_gradv2_kernel": (("cs", "h"), STRAIGHT),
}


def is_wrong(variant: str) -> bool:
    """Whether a variant records a published fault."""
    return "WRONG" in variant or "wrong" in variant
