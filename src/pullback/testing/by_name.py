"""`check_gradient` of a function that is named on the command line."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    FileAccessError,
    MissingPackageError,
    UnknownNameError,
    nearest,
)
from .check_gradient import check_gradient, name_of
from .foreign import DERIVATIVES, framework_of, parameter_names
from .report import Report

COMPANIONS = {
    "vjp": ("{}_vjp", "vjp_{}", "{}_backward", "backward_{}"),
    "grad": ("{}_grad", "grad_{}", "d{}", "d_{}", "{}_prime", "{}_derivative"),
    "jacobian": ("{}_jacobian", "jacobian_{}"),
}


def check_target(target: str, shapes: Sequence[str] = (), **options: Any) -> Report:
    """`check_gradient` of a function that is named "module:name" or "path/to/file.py:name".

    Args:
        target: where the function is. Its hand-written derivative may stand beside it in the module, named after it:
            `tanh_vjp`, `tanh_backward`, `tanh_grad`, `dtanh`, `tanh_jacobian`, ...
        shapes: one per input: "3x4" (or "3,4"), "5" for a vector, "()" for a scalar; with ":int" after it, integers
            from 0 to 3; "x.npy" for an example array. Without any: what `<name>_inputs` in the module says, or else
            shapes are tried.
        options: as in `check_gradient`.

    Raises:
        UnknownNameError: no such module or name.
        ArgumentError: a shape that can't be read, or inputs that the function doesn't take.
    """
    module, name = load(target)
    f = getattr(module, name)
    rules = {
        kind: getattr(module, pattern.format(name))
        for kind, patterns in COMPANIONS.items()
        for pattern in patterns
        if callable(getattr(module, pattern.format(name), None))
    }
    own = framework_of(f, {})
    if own in ("torch", "jax", "pullback") or any(hasattr(f, d) for d in DERIVATIVES):
        rules = {}
    options = {**dict(list(rules.items())[:1]), **options}
    inputs = [parse_shape(s) for s in shapes] or given_inputs(module, name)
    if inputs is None:
        inputs = guessed_inputs(f, options)
    report = check_gradient(f, *inputs, **{**options, "verbose": False})
    report.name = name
    if options.get("verbose", True):
        print(report)
    return report


def load(target: str) -> tuple[Any, str]:
    """The module and the name that "module:name" or "file.py:name" means."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise ArgumentError(f"expected module:name or file.py:name, got {target!r}")
    try:
        module = load_file(Path(place)) if place.endswith(".py") else load_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{place}.".startswith(f"{error.name}."):
            where = "in this folder or among the installed packages"
            raise UnknownNameError(f"there is no module {place!r} {where}") from None
        raise MissingPackageError(
            f"{place} needs {error.name}, which isn't installed: pip install {error.name}"
        ) from None
    if not hasattr(module, name):
        raise UnknownNameError(f"{place} has no {name!r}. {nearest(name, [n for n in vars(module) if n[0] != '_'])}")
    return module, name


def load_file(path: Path) -> Any:
    """The module in a file."""
    if not path.is_file():
        raise FileAccessError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def load_module(name: str) -> Any:
    """A module by its dotted name, seen from the current folder."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def parse_shape(text: str) -> Any:
    """ "3x4" or "3,4" as the shape (3, 4); "3x4:int" as an array of small integers; "x.npy" as the array in it."""
    if text.endswith(".npy"):
        try:
            return np.load(text, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise FileAccessError(f"can't read {text}: {error}") from None
    lengths, _, kind = text.partition(":")
    words = lengths.strip("() ").replace("x", ",").split(",")
    try:
        shape = tuple(int(w) for w in words if w.strip())
    except ValueError:
        raise ArgumentError(f"a shape looks like 3x4, 5 or (), an array like x.npy; got {text!r}") from None
    if kind not in ("", "float", "int"):
        raise ArgumentError(f"{text!r}: after a shape comes nothing, ':float' or ':int'")
    return np.random.default_rng(0).integers(0, 4, shape) if kind == "int" else shape


def given_inputs(module: Any, name: str) -> list[Any] | None:
    found = getattr(module, f"{name}_inputs", None)
    return None if found is None else list(found() if callable(found) else found)


def guessed_inputs(f: Any, options: dict[str, Any]) -> list[Any]:
    """Shapes that the function takes: one that all inputs share."""
    count = sum(not n.startswith("input ") for n in parameter_names(f, 9)) or 1
    for shape in ((3, 4), (4,), (3, 3), (2, 3, 4), ()):
        try:
            check_gradient(f, *[shape] * count, **{**options, "points": 1, "orders": 1, "verbose": False})
        except (MissingPackageError, ArgumentTypeError):
            raise
        except Exception:
            continue
        return [shape] * count
    raise ArgumentError(
        f"{name_of(f)} takes none of the shapes that were tried for its {count} inputs: say their shapes"
    )
