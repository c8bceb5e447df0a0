"""Model files: safetensors, with the network's description as JSON in the header's metadata. Never pickle."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentTypeError, FileAccessError, FormatError
from ..graph import SharedVariable, TensorType
from .arrays import about
from .configuration import decode, encode
from .history import History
from .layers.base import Layer
from .layers.basic import Input

if TYPE_CHECKING:
    from .network import Network

KEY = "pullback"  # of our entry in the header's metadata
VERSION = 1
OPTIMIZER = "optimizer/"  # before the names of the optimizer's arrays


@dataclass(frozen=True)
class Snapshot:
    """All of a network: a description, and arrays by name.

    Attributes:
        description: layers, recipe, history, where training stood: configurations, in a file as JSON, and JSON values.
        values: parameters.
        state: the optimizer's arrays.
    """

    description: dict[str, Any]
    values: dict[str, np.ndarray]
    state: dict[str, np.ndarray]


def snapshot(network: "Network") -> Snapshot:
    """Everything that makes up a network, copied."""
    recipe = network.recipe
    if recipe is not None and network.rate is not None:
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, learning_rate=network.learning_rate))
    description = {
        "version": VERSION,
        "name": network.name,
        "dtype": network.dtype,
        "seed": network.seed,
        "layers": [node.layer for node in network.nodes],
        "outputs": [node.index for node in network.outputs],
        "recipe": recipe,
        "optimizer": sorted(network.optimizer_state),
        "draws": int(network.draws.get_value()),
        "history": network.history.epochs,
        "cursor": network.cursor,
        "metadata": network.metadata,
    }
    state = {name: v.get_value() for name, v in network.optimizer_state.items()}
    return Snapshot(description, network.get_values(), state)


def restore(saved: Snapshot, dtype: str | None = None) -> "Network":
    """The network that was saved, or the same one with parameters of another dtype."""
    from .network import Network

    described = saved.description
    try:
        if described["version"] > VERSION:
            raise FormatError(
                f"it was written by a newer pullback (format {described['version']}, this one reads {VERSION})"
            )
        network = Network.__new__(Network)
        network._set_up(
            [_as_dtype(decode(layer), dtype) for layer in described["layers"]],
            described["outputs"],
            dtype or described["dtype"],
            described["seed"],
            described["name"],
            saved.values,
        )
        network.draws.set_value(np.int64(described["draws"]))
        network.history = History(described["history"])
        network._cursor = described["cursor"]
        network.metadata = described["metadata"]
        recipe = decode(described["recipe"])
        slots = set(described["optimizer"])
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"its description is damaged: {error!r}") from None
    if recipe is not None:
        network.recipe = recipe
        network._adopt_rate()
    if slots != set(saved.state):
        name = min(slots ^ set(saved.state))
        raise FormatError(f"the optimizer's {name!r} is {'missing' if name in slots else 'nowhere described'}")
    for name, value in saved.state.items():
        value = value.astype(network.dtype) if value.dtype.kind == "f" and value.ndim else value
        network.optimizer_state[name] = SharedVariable(value, TensorType(value.dtype.name, value.shape), name)
    unused = set(saved.values) - set(network.parameters)
    if unused:
        raise FormatError(f"it holds {min(unused)!r}, which no layer owns")
    return network


def _as_dtype(layer: Layer, dtype: str | None) -> Layer:
    """The same layer; an Input of floats takes those of `dtype`."""
    floating = isinstance(layer, Input) and (layer.dtype or "").startswith("float")
    return replace(layer, dtype=dtype) if dtype is not None and floating else layer


def save(network: "Network", path: str | Path) -> None:
    """Write a model file: beside, flushed, and renamed, so that a failure leaves what was there."""
    from safetensors.numpy import save as to_bytes

    saved = snapshot(network)
    configurations = {key: encode(saved.description[key]) for key in ("layers", "recipe")}
    try:
        description = json.dumps(saved.description | configurations)
    except TypeError as error:
        raise ArgumentTypeError(f"net.metadata can't be written as JSON: {error}") from None
    arrays = saved.values | {OPTIMIZER + name: value for name, value in saved.state.items()}
    write_file(Path(path), to_bytes(arrays, metadata={KEY: description}))


def write_file(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise FileAccessError(f"can't write {path}: {error.strerror}") from None


def load(path: str | Path) -> "Network":
    """The network in a model file."""
    with about(str(path)):
        return restore(read(path))


def read(path: str | Path) -> Snapshot:
    """What a model file holds."""
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileAccessError(f"can't read it: {error.strerror}") from None
    try:
        arrays = from_bytes(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise FormatError(f"no whole safetensors file of {len(content)} bytes: {error}") from None
    description = _description(content)
    state = {name.removeprefix(OPTIMIZER): a for name, a in arrays.items() if name.startswith(OPTIMIZER)}
    return Snapshot(description, {k: a for k, a in arrays.items() if not k.startswith(OPTIMIZER)}, state)


def _description(content: bytes) -> dict[str, Any]:
    """Our entry in the header, which is JSON after its own length as 8 bytes."""
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    if KEY not in metadata:
        raise FormatError("it holds arrays, but no pullback network: load arrays with safetensors.numpy.load_file")
    try:
        description = json.loads(metadata[KEY])
    except ValueError as error:
        raise FormatError(f"its description is damaged: {error}") from None
    if not isinstance(description, Mapping):
        raise FormatError("its description is damaged: no JSON object")
    return dict(description)
