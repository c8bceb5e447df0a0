"""Weights of recurrent networks from elsewhere: `read` files of arrays, `convert` between layouts of other libraries.

Every layout is read into the gates of one cell and written from them. W is what multiplies the input and U what
multiplies the state, both (in, out); in all of these libraries an update gate of 1 keeps the old state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, FileAccessError, FormatError, MissingPackageError, UnknownNameError, nearest
from ..ops.recurrent import fit

__all__ = ["FORMATS", "convert", "read", "within"]

Arrays = Mapping[str, np.ndarray]
Gates = dict[str, np.ndarray]
LSTM, GRU = "ifgo", "zrn"


@dataclass(frozen=True)
class Options:
    """What arrays don't say of themselves; each matters to some layouts only.

    Attributes:
        forget_bias: tf_block_lstm: what the op adds to the forget gate when it runs.
        cell_clip: tf_block_lstm, tf_block_lstm_v2: cells are held within it; 0 or less: not at all.
        layer, reverse: torch_*: which layer of a stack, and which direction; onnx_*: the direction.
        linear_before_reset: onnx_gru: its attribute of that name.
        candidate: darknet_gru: "logistic", or "tanh" where the cfg says tanh=1.
        fork: darknet_gru: "pjreddie" or "alexeyab", who name the parts differently.
        textbook: numpynet_lstm: take the weights for those of the LSTM that it means to be.
    """

    forget_bias: float = 1.0
    cell_clip: float = 0.0
    layer: int = 0
    reverse: bool = False
    linear_before_reset: bool = False
    candidate: str = "logistic"
    fork: str = "pjreddie"
    textbook: bool = False


@dataclass(frozen=True)
class Cell:
    """The weights of one cell, gate by gate.

    Attributes:
        W, U: (inputs, units) and (units, units).
        b, rb: biases (units,) beside x W and beside h U.
        peepholes: (units,) of the gates i, f, o.
        reset: of a GRU, whether the reset gate comes "after" the product with U or "before" it.
        candidate: the activation of a GRU's candidate.
        cell_clip: of an LSTM.
    """

    W: Gates
    U: Gates
    b: Gates
    rb: Gates
    peepholes: Gates = field(default_factory=dict)
    reset: str | None = None
    candidate: str = "tanh"
    cell_clip: float = 0.0

    @property
    def kind(self) -> str:
        return "LSTM" if self.reset is None else "GRU"

    @property
    def gates(self) -> str:
        return LSTM if self.reset is None else GRU

    def one_bias(self) -> Gates:
        """Both biases added up; the candidate of a reset-after GRU doesn't allow it."""
        if self.reset == "after" and self.rb["n"].any():
            raise ArgumentError(
                "a GRU with the reset gate after the product has a bias inside it, for which the target has no place"
            )
        return {gate: self.b[gate] + self.rb[gate] for gate in self.gates}


def convert(arrays: Arrays, source: str, target: str, **options: Any) -> dict[str, np.ndarray]:
    """The same cell in the layout of another library: it computes the same function.

    Args:
        arrays: by the names that the source library gives them; see FORMATS.
        source, target: "pullback_lstm", "tf_block_lstm", "tf_block_lstm_v2", "keras_lstm", "torch_lstm", "onnx_lstm",
            "darknet_lstm", "numpynet_lstm", and the same for GRUs: "pullback_gru", "tf_gru" ...
        options: what arrays don't say of themselves: see `Options`.

    Returns:
        Arrays by the names of the target library; for pullback those of the parameters of `nn.LSTM` and `nn.GRU`.

    Raises:
        FormatError: an array is missing, or of the wrong shape.
        ArgumentError: no conversion exists; the message says why.

    Example:
        >>> import numpy as np
        >>> from pullback import nn
        >>> keras = {"kernel": np.ones((3, 8)), "recurrent_kernel": np.ones((2, 8)), "bias": np.zeros(8)}
        >>> nn.recurrent.convert(keras, "keras_lstm", "torch_lstm")["weight_ih_l0"].shape
        (8, 3)
    """
    for name in (source, target):
        if name not in FORMATS:
            raise UnknownNameError(f"convert: unknown format {name!r}. {nearest(name, FORMATS)}")
    for name in options:
        if name not in Options.__dataclass_fields__:
            raise UnknownNameError(f"convert: unknown option {name!r}. {nearest(name, Options.__dataclass_fields__)}")
    settings = Options(**options)
    one, other = FORMATS[source], FORMATS[target]
    named = {name: np.asarray(a) for name, a in arrays.items()}
    cell = one.read(named, settings)
    check_convertible(cell, source, target, settings)
    return {name: np.ascontiguousarray(a) for name, a in other.write(cell, settings).items()}


@dataclass(frozen=True)
class Format:
    """One library's layout.

    Attributes:
        kind: "LSTM" or "GRU".
        names: what its arrays are called.
        read, write: between its arrays and a Cell.
        resets: of a GRU, the kinds that it can be.
        peepholes, clips, candidates: what it can hold beside the weights.
    """

    kind: str
    names: str
    read: Callable[[Arrays, Options], Cell]
    write: Callable[[Cell, Options], dict[str, np.ndarray]]
    resets: tuple[str, ...] = ()
    peepholes: bool = False
    clips: bool = False
    candidates: tuple[str, ...] = ("tanh",)


def check_convertible(cell: Cell, source: str, target: str, options: Options) -> None:
    """Refuse what the target can't be."""
    other = FORMATS[target]
    why = None
    resets = other.resets
    if target == "onnx_gru":
        resets = ("after",) if options.linear_before_reset else ("before",)
    candidates = (options.candidate,) if target == "darknet_gru" else other.candidates
    if cell.kind != other.kind:
        why = f"an {cell.kind} is not a {other.kind}: the two compute different functions"
    elif cell.reset is not None and cell.reset not in resets:
        why = (
            f"the reset gate comes {cell.reset} the product with the state here and {resets[0]} it there: "
            "these are different functions"
        )
    elif any(p.any() for p in cell.peepholes.values()) and not other.peepholes:
        why = "it has peepholes, for which the target has no place"
    elif cell.cell_clip > 0 and not other.clips:
        why = f"its cells are clipped at {cell.cell_clip}, which the target can't do"
    elif cell.candidate not in candidates:
        why = f"its candidate is {cell.candidate}, the target's is {' or '.join(candidates)}"
    elif "numpynet_lstm" in (source, target) and not options.textbook:
        why = (
            "NumPyNet's LSTM never feeds its output back, so no LSTM predicts the same; textbook=True takes the "
            "weights for those of the LSTM that it means to be"
        )
    if why is not None:
        raise ArgumentError(f"convert: no conversion from {source} to {target} exists: {why}")


# --- blocks and names -------------------------------------------------------------------------------------------------


def taken(arrays: Arrays, what: str, **axes: str) -> list[np.ndarray]:
    """The named arrays ("__" stands for "."), with their shapes checked against axes in words."""
    names = {name.replace("__", "."): words for name, words in axes.items()}
    missing = [name for name in names if name not in arrays]
    if missing:
        raise FormatError(f"{what}: there is no array {missing[0]!r}; it needs {', '.join(names)}")
    try:
        fit(what, **{name: (arrays[name].shape, words) for name, words in names.items()})
    except ValueError as error:
        raise FormatError(str(error)) from None
    return [arrays[name] for name in names]


def cut(a: np.ndarray, order: str, axis: int = -1) -> Gates:
    """Blocks along an axis, by gate."""
    return dict(zip(order, np.split(a, len(order), axis)))


def joined(gates: Gates, order: str, axis: int = -1) -> np.ndarray:
    return np.concatenate([gates[gate] for gate in order], axis)


def turned(gates: Gates) -> Gates:
    """Every matrix transposed."""
    return {gate: a.T for gate, a in gates.items()}


def zeros(gates: Gates) -> Gates:
    return {gate: np.zeros_like(a) for gate, a in gates.items()}


def halves(w: np.ndarray, units: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows for the input, and for the state."""
    return w[: len(w) - units], w[len(w) - units :]


# --- pullback and Keras: (in, out) matrices, gates side by side -------------------------------------------------------


def read_pullback_lstm(arrays: Arrays, options: Options) -> Cell:
    W, U, b = taken(arrays, "pullback_lstm", weight="I 4H", recurrent_weight="H 4H", bias="4H")
    b = cut(b, LSTM)
    holes = dict(zip("ifo", arrays["peepholes"])) if "peepholes" in arrays else {}
    return Cell(cut(W, LSTM), cut(U, LSTM), b, zeros(b), holes, cell_clip=options.cell_clip)


def write_pullback_lstm(cell: Cell, options: Options) -> dict[str, np.ndarray]:
    made = {
        "weight": joined(cell.W, LSTM), "recurrent_weight": joined(cell.U, LSTM), "bias": joined(cell.one_bias(), LSTM),
    }  # fmt: skip
    return made | ({"peepholes": np.stack([cell.peepholes[g] for g in "ifo"])} if cell.peepholes else {})


def read_pullback_gru(arrays: Arrays, options: Options) -> Cell:
    after = "recurrent_bias" in arrays
    shapes = dict(weight="I 3H", recurrent_weight="H 3H", bias="3H") | (dict(recurrent_bias="3H") if after else {})
    W, U, b, *rest = taken(arrays, "pullback_gru", **shapes)
    rb = rest[0] if after else np.zeros_like(b)
    return Cell(*(cut(a, GRU) for a in (W, U, b, rb)), reset="after" if after else "before")


def write_pullback_gru(cell: Cell, options: Options) -> dict[str, np.ndarray]:
    matrices = {"weight": joined(cell.W, GRU), "recurrent_weight": joined(cell.U, GRU)}
    if cell.reset == "before":
        return {**matrices, "bias": joined(cell.one_bias(), GRU)}
    return {**matrices, "bias": joined(cell.b, GRU), "recurrent_bias": joined(cell.rb, GRU)}


KERAS = ("kernel", "recurrent_kernel", "bias")


def keras_names(arrays: Arrays) -> Arrays:
    """A .weights.h5 file numbers what Keras names."""
    numbered = {f"vars/{k}": name for k, name in enumerate(KERAS)}
    return {numbered.get(name, name): a for name, a in arrays.items()}


def read_keras_lstm(arrays: Arrays, options: Options) -> Cell:
    W, U, b = taken(keras_names(arrays), "keras_lstm", kernel="I 4H", recurrent_kernel="H 4H", bias="4H")
    b = cut(b, LSTM)
    return Cell(cut(W, LSTM), cut(U, LSTM), b, zeros(b))


def write_keras_lstm(cell: Cell, options: Options) -> dict[str, np.ndarray]:
    return dict(zip(KERAS, (joined(cell.W, LSTM), joined(cell.U, LSTM), joined(cell.one_bias(), LSTM))))


def read_keras_gru(arrays: Arrays, options: Options) -> Cell:
    arrays = keras_names(arrays)
    after = "bias" in arrays and arrays["bias"].ndim == 2
    shapes = dict(kernel="I 3H", recurrent_kernel="H 3H", bias="2 3H" if after else "3H")
    W, U, b = taken(arrays, "keras_gru", **shapes)
    b, rb = b if after else (b, np.zeros_like(b))
    return Cell(*(cut(a, GRU) for a in (W, U, b, rb)), reset="after" if after else "before")


def write_keras_gru(cell: Cell, options: Options) -> dict[str, np.ndarray]:
    after = cell.reset == "after"
    bias = np.stack([joined(cell.b, GRU), joined(cell.rb, GRU)]) if after else joined(cell.one_bias(), GRU)
    return dict(zip(KERAS, (joined(cell.W, GRU), joined(cell.U, GRU), bias)))


# --- TensorFlow's block cells: rows for the input and for the state in one matrix -------------------------------------
TF_V1, TF_V2 = "igfo", "ifgo"


def tf_lstm(what: str, order: str, biased: bool) -> Format:
    """`biased`: the op adds a forget bias when it runs."""

    def read(arrays: Arrays, options: Options) -> Cell:
        w, b = taken(arrays, what, w="I+H 4H", b="4H")
        W, U = halves(w, len(b) // 4)
        gates = cut(b, order)
        if biased:
            gates["f"] = gates["f"] + np.asarray(options.forget_bias, b.dtype)
        holes = {g: arrays[name] for g, name in zip("ifo", ("wci", "wcf", "wco")) if name in arrays}
        return Cell(cut(W, order), cut(U, order), gates, zeros(gates), holes, cell_clip=options.cell_clip)

    def write(cell: Cell, options: Options) -> dict[str, np.ndarray]:
        b = cell.one_bias()
        if biased:
            b["f"] = b["f"] - np.asarray(options.forget_bias, b["f"].dtype)
        w = np.concatenate([joined(cell.W, order), joined(cell.U, order)])
        holes = {name: cell.peepholes[g] for g, name in zip("ifo", ("wci", "wcf", "wco")) if g in cell.peepholes}
        return {"w": w, "b": joined(b, order), **holes}

    return Format("LSTM", "w, b, and with peepholes wci, wcf, wco", read, write, peepholes=True, clips=True)


TF_GRU_NAMES = {"gates/kernel": "w_ru", "candidate/kernel": "w_c", "gates/bias": "b_ru", "candidate/bias": "b_c"}


def read_tf_gru(arrays: Arrays, options: Options) -> Cell:
    arrays = {TF_GRU_NAMES.get(name, name): a for name, a in arrays.items()}
    if {"w_ru", "w_c"} <= arrays.keys() and 2 * arrays["w_ru"].shape[-1] == arrays["w_c"].shape[-1]:
        arrays |= {"w_ru": arrays["w_c"], "w_c": arrays["w_ru"]}  # contrib's first cell exchanged the names
    w_ru, w_c, b_ru, b_c = taken(arrays, "tf_gru", w_ru="I+H 2H", w_c="I+H H", b_ru="2H", b_c="H")
    (W_ru, U_ru), (W_c, U_c) = halves(w_ru, len(b_c)), halves(w_c, len(b_c))
    W, U, b = (cut(gates, "rz") | {"n": last} for gates, last in ((W_ru, W_c), (U_ru, U_c), (b_ru, b_c)))
    return Cell(W, U, b, zeros(b), reset="before")


def write_tf_gru(cell: Cell, options: Options) -> dict[str, np.ndarray]:
    b = cell.one_bias()
    return {
        "w_ru": np.concatenate([joined(cell.W, "rz"), joined(cell.U, "rz")]),
        "w_c": np.concatenate([cell.W["n"], cell.U["n"]]),
        "b_ru": joined(b, "rz"),
        "b_c": b["n"],
    }


# --- PyTorch and ONNX: (out, in) matrices -----------------------------------------------------------------------------


def torch_format(what: str, order: str) -> Format:
    n = len(order)

    def names(options: Options) -> list[str]:
        suffix = f"_l{options.layer}{'_reverse' if options.reverse else ''}"
        return [name + suffix for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]

    def read(arrays: Arrays, options: Options) -> Cell:
        W, U, b, rb = names(options)
        if b not in arrays and W in arrays:
            none = np.zeros(len(arrays[W]), arrays[W].dtype)
            arrays = {**arrays, b: none, rb: none}
        shapes = {W: f"{n}H I", U: f"{n}H H", b: f"{n}H", rb: f"{n}H"}
        found = taken(arrays, what, **shapes)
        gates = [cut(a, order, 0) for a in found]
        return Cell(turned(gates[0]), turned(gates[1]), *gates[2:], reset="after" if n == 3 else None)

    def write(cell: Cell, options: Options) -> dict[str, np.ndarray]:
        gates = turned(cell.W), turned(cell.U), cell.b, cell.rb
        return dict(zip(names(options), (joined(g, order, 0) for g in gates)))

    written = "weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0"
    return Format("LSTM" if n == 4 else "GRU", written, read, write, resets=("after",) if n == 3 else ())


def onnx_format(what: str, order: str) -> Format:
    n = len(order)

    def read(arrays: Arrays, options: Options) -> Cell:
        if "B" not in arrays and "W" in arrays:
            d, rows, _ = arrays["W"].shape
            arrays = {**arrays, "B": np.zeros((d, 2 * rows), arrays["W"].dtype)}
        W, U, b = (a[int(options.reverse)] for a in taken(arrays, what, W=f"D {n}H I", R=f"D {n}H H", B=f"D {2 * n}H"))
        b, rb = np.split(b, 2)
        W, U = (turned(cut(a, order, 0)) for a in (W, U))
        holes = cut(arrays["P"][int(options.reverse)], "iof", 0) if "P" in arrays and n == 4 else {}
        reset = None if n == 4 else "after" if options.linear_before_reset else "before"
        return Cell(W, U, cut(b, order, 0), cut(rb, order, 0), holes, reset)

    def write(cell: Cell, options: Options) -> dict[str, np.ndarray]:
        b = np.concatenate([joined(cell.b, order, 0), joined(cell.rb, order, 0)])
        made = {"W": joined(turned(cell.W), order, 0), "R": joined(turned(cell.U), order, 0), "B": b}
        if cell.peepholes:
            made["P"] = joined(cell.peepholes, "iof", 0)
        return {name: a[None] for name, a in made.items()}

    kind, resets = ("LSTM", ()) if n == 4 else ("GRU", ("after", "before"))
    return Format(kind, "W, R, B, and with peepholes P: (directions, ...)", read, write, resets, peepholes=n == 4)


# --- Darknet and NumPyNet: a layer per gate and operand ---------------------------------------------------------------
DARKNET_EPSILON = 1e-6  # added to the deviation


def darknet_names(what: str, gates: str, fork: str) -> tuple[str, str]:
    """What stands before a gate's letter: for the products with the input, and with the state."""
    return ("input_", "state_") if fork == "alexeyab" and gates == GRU else ("u", "w")


def darknet_part(arrays: Arrays, what: str, part: str, words: str) -> tuple[np.ndarray, np.ndarray]:
    """(weights (in, out), biases) of one connected layer, with batch normalisation folded in as at inference."""
    shapes = {f"{part}__weights": words, f"{part}__biases": words.split()[0]}
    w, b = taken(arrays, what, **shapes)
    if f"{part}.scales" in arrays:
        statistics = {f"{part}__{name}": words.split()[0] for name in ("scales", "rolling_mean", "rolling_variance")}
        scale, mean, variance = taken(arrays, what, **statistics)
        factor = scale / (np.sqrt(variance) + np.asarray(DARKNET_EPSILON, variance.dtype))
        w, b = w * factor[:, None], b - mean * factor
    return w.T, b


def darknet_format(what: str, gates: str) -> Format:
    letters = dict(zip(gates, "ifgo" if gates == LSTM else "zrh"))

    def read(arrays: Arrays, options: Options) -> Cell:
        fork = "alexeyab" if "input_z.weights" in arrays else "pjreddie"
        into, state = darknet_names(what, gates, fork)
        parts = {g: darknet_part(arrays, what, into + c, "H I") for g, c in letters.items()}
        back = {g: darknet_part(arrays, what, state + c, "H H") for g, c in letters.items()}
        weights = ({g: part[k] for g, part in parts.items()} for k in (0, 1))
        recurrent = ({g: part[k] for g, part in back.items()} for k in (0, 1))
        (W, b), (U, rb) = weights, recurrent
        if gates == LSTM:
            return Cell(W, U, b, rb)
        return Cell(W, U, b, rb, reset="before", candidate=options.candidate)

    def write(cell: Cell, options: Options) -> dict[str, np.ndarray]:
        made = {}
        sides = zip(darknet_names(what, gates, options.fork), (cell.W, cell.U), (cell.b, cell.rb))
        for prefix, matrices, biases in sides:
            for g, c in letters.items():
                made[f"{prefix}{c}.weights"] = matrices[g].T
                made[f"{prefix}{c}.biases"] = biases[g]
        return made

    kind, resets = ("LSTM", ()) if gates == LSTM else ("GRU", ("before",))
    if kind == "LSTM":
        return Format(kind, "uf.weights, uf.biases, ..., wf.weights, ...", read, write, resets)
    names = "uz.weights, uz.biases, ..., wz.weights, ...; or input_z.weights, ..., state_z.weights, ..."
    return Format(kind, names, read, write, resets, candidates=("logistic", "tanh"))


def read_numpynet_lstm(arrays: Arrays, options: Options) -> Cell:
    def side(letter: str, words: str) -> tuple[Gates, Gates]:
        shapes = {f"{letter}{g}__weights": words for g in LSTM} | {f"{letter}{g}__bias": "H" for g in LSTM}
        found = taken(arrays, "numpynet_lstm", **shapes)
        return dict(zip(LSTM, found[:4])), dict(zip(LSTM, found[4:]))

    (W, b), (U, rb) = side("u", "I H"), side("w", "H H")
    return Cell(W, U, b, rb)


def write_numpynet_lstm(cell: Cell, options: Options) -> dict[str, np.ndarray]:
    made = {}
    for letter, matrices, biases in (("u", cell.W, cell.b), ("w", cell.U, cell.rb)):
        made |= {f"{letter}{g}.weights": matrices[g] for g in LSTM} | {f"{letter}{g}.bias": biases[g] for g in LSTM}
    return made


NUMPYNET_GRU = dict(zip(GRU, "zrh"))


def read_numpynet_gru(arrays: Arrays, options: Options) -> Cell:
    sides = []
    for letter, words in (("W", "I H"), ("U", "H H"), ("b", "H")):
        found = taken(arrays, "numpynet_gru", **{f"{letter}{c}": words for c in NUMPYNET_GRU.values()})
        sides.append(dict(zip(GRU, found)))
    return Cell(*sides, zeros(sides[-1]), reset="before")


def write_numpynet_gru(cell: Cell, options: Options) -> dict[str, np.ndarray]:
    sides = {"W": cell.W, "U": cell.U, "b": cell.one_bias()}
    return {letter + c: gates[g] for letter, gates in sides.items() for g, c in NUMPYNET_GRU.items()}


ALL = ("after", "before")
FORMATS: dict[str, Format] = {
    "pullback_lstm": Format(
        "LSTM", "weight, recurrent_weight, bias, peepholes", read_pullback_lstm, write_pullback_lstm, peepholes=True,
        clips=True,
    ),
    "pullback_gru": Format(
        "GRU", "weight, recurrent_weight, bias, recurrent_bias", read_pullback_gru, write_pullback_gru, ALL
    ),
    "tf_block_lstm": tf_lstm("tf_block_lstm", TF_V1, True),
    "tf_block_lstm_v2": tf_lstm("tf_block_lstm_v2", TF_V2, False),
    "tf_gru": Format("GRU", "w_ru, w_c, b_ru, b_c", read_tf_gru, write_tf_gru, ("before",)),
    "keras_lstm": Format("LSTM", "kernel, recurrent_kernel, bias", read_keras_lstm, write_keras_lstm),
    "keras_gru": Format("GRU", "kernel, recurrent_kernel, bias", read_keras_gru, write_keras_gru, ALL),
    "torch_lstm": torch_format("torch_lstm", "ifgo"),
    "torch_gru": torch_format("torch_gru", "rzn"),
    "onnx_lstm": onnx_format("onnx_lstm", "iofg"),
    "onnx_gru": onnx_format("onnx_gru", "zrn"),
    "darknet_lstm": darknet_format("darknet_lstm", LSTM),
    "darknet_gru": darknet_format("darknet_gru", GRU),
    "numpynet_lstm": Format(
        "LSTM", "uf.weights, uf.bias, ..., wf.weights, ...", read_numpynet_lstm, write_numpynet_lstm
    ),
    "numpynet_gru": Format(
        "GRU", "Wz, Wr, Wh, Uz, Ur, Uh, bz, br, bh", read_numpynet_gru, write_numpynet_gru, ("before",)
    ),
}  # fmt: skip
"""The layouts by name. `FORMATS[name].names` says what the arrays are called."""


# --- files ------------------------------------------------------------------------------------------------------------


def read(path: str | Path) -> dict[str, np.ndarray]:
    """All arrays of a .safetensors, .npz or Keras .weights.h5 file, by name; groups of the latter are joined with "/".

    Raises:
        FileAccessError: the file can't be opened.
        FormatError: it isn't what its name says.
        MissingPackageError: for .h5 without h5py.
    """
    path = Path(path)
    readers = {".safetensors": _read_safetensors, ".npz": _read_npz, ".h5": _read_h5}
    if path.suffix not in readers:
        raise FormatError(f"{path}: expected a file that ends in {', '.join(readers)}")
    if not path.is_file():
        raise FileAccessError(f"{path}: there is no such file")
    return readers[path.suffix](path)


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise FormatError(f"{path} is no safetensors file, or damaged: {error}") from None


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    from zipfile import BadZipFile

    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except (ValueError, BadZipFile, EOFError) as error:
        raise FormatError(f"{path} is no .npz file of plain arrays, or damaged: {error}") from None


def _read_h5(path: Path) -> dict[str, np.ndarray]:
    try:
        import h5py
    except ImportError:
        raise MissingPackageError(f"reading {path.name} needs h5py: pip install h5py") from None
    found: dict[str, np.ndarray] = {}

    def take(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    try:
        with h5py.File(path, "r") as file:
            file.visititems(take)
    except OSError as error:
        raise FormatError(f"{path} is no HDF5 file, or damaged: {error}") from None
    return found


def within(arrays: Arrays, prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `prefix` (a group such as "layers/lstm/cell"), by the rest of their names."""
    found = {}
    for name, a in arrays.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            found[name[len(prefix) :].lstrip("/.")] = a
    if not found:
        raise UnknownNameError(f"no array's name begins with {prefix!r}. {nearest(prefix, arrays)}")
    return found
