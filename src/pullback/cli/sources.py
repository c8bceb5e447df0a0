"""Where the command line's networks and arrays come from."""

import inspect
from typing import Any

import numpy as np

from ..data import mnist5k
from ..errors import ArgumentError, ArgumentTypeError, FileAccessError, FormatError
from ..nn import Network
from ..testing.by_name import load


def find_network(text: str, weights: str | None = None, dialect: str | None = None) -> Network:
    """The network in a model file or a Darknet cfg, or the one that "module:name" (or "file.py:name") holds or
    returns."""
    if text.endswith(".safetensors"):
        return Network.load(text)
    if text.endswith(".cfg"):
        return Network.from_darknet(text, weights, dialect=dialect)
    if ":" not in text:
        raise ArgumentError(f"{text!r} is no network: expected a .safetensors file, a .cfg file or module:name")
    found = network_in(find_object(text))
    if not isinstance(found, Network):
        raise ArgumentTypeError(
            f"{text} is {type(found).__name__}; expected an nn.Network or a function that makes one"
        )
    return found


def find_object(text: str) -> Any:
    """What "module:name" or "file.py:name" holds."""
    module, name = load(text)
    return getattr(module, name)


def network_in(found: Any) -> Any:
    """What a function that needs no arguments returns; anything else as it is."""
    if inspect.isfunction(found):
        free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = inspect.signature(found).parameters.values()
        if all(p.default is not p.empty or p.kind in free for p in parameters):
            return found()
    return found


def find_arrays(text: str) -> tuple[np.ndarray, np.ndarray]:
    """X and y of a data set by name, or of an .npz file."""
    if text == "mnist5k":
        return mnist5k()
    if not text.endswith(".npz"):
        raise ArgumentError(f"--data {text!r}: expected mnist5k or an .npz file with arrays X and y")
    arrays = read_arrays(text)
    absent = [name for name in ("X", "y") if name not in arrays]
    if absent:
        raise FormatError(f"{text} holds the arrays {sorted(arrays)}, but no {absent[0]}")
    return arrays["X"], arrays["y"]


def read_arrays(path: str) -> Any:
    """What an .npy or .npz file holds."""
    try:
        found = np.load(path, allow_pickle=False)
        return {name: found[name] for name in found} if hasattr(found, "files") else found
    except OSError as error:
        raise FileAccessError(f"can't read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, KeyError) as error:
        raise FormatError(f"{path} is no whole .npy or .npz file: {error}") from None
