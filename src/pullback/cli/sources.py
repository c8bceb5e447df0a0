"""Where the command line's networks and arrays come from."""

import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np

from ..data import mnist5k
from ..errors import ArgumentError, ArgumentTypeError, FileAccessError, FormatError, UnknownNameError, nearest
from ..nn import Network


def find_network(text: str) -> Network:
    """The network in a model file, or the one that "module:name" (or "file.py:name") holds or returns."""
    if text.endswith(".safetensors"):
        return Network.load(text)
    module_name, colon, name = text.rpartition(":")
    if not colon:
        raise ArgumentError(f"{text!r} is no network: expected a .safetensors file or module:name")
    module = _import(module_name)
    if not hasattr(module, name):
        raise UnknownNameError(f"{module_name} has no {name!r}. {nearest(name, vars(module))}")
    found = getattr(module, name)
    if callable(found) and not isinstance(found, (Network, type)):
        found = found()
    if not isinstance(found, Network):
        raise ArgumentTypeError(
            f"{text} is {type(found).__name__}; expected an nn.Network or a function that makes one"
        )
    return found


def _import(name: str):
    """A module by its dotted name, seen from the current folder, or by its file."""
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise FileAccessError(f"there is no file {name}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise UnknownNameError(f"there is no module {name!r} in this folder or among the installed packages") from None


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


def read_arrays(path: str):
    """What an .npy or .npz file holds."""
    try:
        found = np.load(path, allow_pickle=False)
        return {name: found[name] for name in found} if hasattr(found, "files") else found
    except OSError as error:
        raise FileAccessError(f"can't read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError, KeyError) as error:
        raise FormatError(f"{path} is no whole .npy or .npz file: {error}") from None
