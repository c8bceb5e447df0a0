"""Configurations as plain JSON and back. Layers, initializers, optimizers, schedules, losses and metrics are all frozen
dataclasses, and a model file describes a network by their names and fields."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ..errors import ArgumentTypeError, FormatError, UnknownNameError, nearest

KINDS: dict[str, type["Configuration"]] = {}
KEY = "kind"
FUNCTION = "function"  # the kind of an entry of FUNCTIONS

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Functions that a model file may name, for `nn.Lambda`: `nn.FUNCTIONS["last"] = last`."""


class Configuration:
    """Base of every frozen dataclass that a model file can hold. Subclasses register themselves by name."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        KINDS[_registered_name(cls)] = cls


def _registered_name(cls: type) -> str:
    """The plain class name for the library's own; with its module for a user's, so that a file says what to import."""
    inside = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    return cls.__name__ if inside else f"{cls.__module__}:{cls.__qualname__}"


def encode(value: Any) -> Any:
    """A configuration, or what one may hold, as JSON values."""
    if isinstance(value, Configuration):
        return {KEY: _registered_name(type(value))} | {f.name: encode(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # NumPy's scalars
        return value.item()
    if callable(value):
        return {KEY: FUNCTION, "name": _function_name(value)}
    raise ArgumentTypeError(
        f"{value!r} can't be written to a model file; a configuration holds numbers, text, tuples and configurations"
    )


def _function_name(function: Callable[..., Any]) -> str:
    for name, known in FUNCTIONS.items():
        if known is function:
            return name
    own = getattr(function, "__name__", "f")
    raise ArgumentTypeError(
        f"{function!r} can't be written to a model file: give it a name first, here and where the file is loaded: "
        f'nn.FUNCTIONS["{own}"] = {own}'
    )


def decode(data: Any) -> Any:
    """The configuration that `encode` described."""
    if isinstance(data, list):
        return tuple(decode(v) for v in data)
    if not isinstance(data, dict):
        return data
    name = data.get(KEY)
    if name == FUNCTION:
        if data.get("name") not in FUNCTIONS:
            raise FormatError(f"the file names a function: put it into nn.FUNCTIONS as {data.get('name')!r} first")
        return FUNCTIONS[data["name"]]
    cls = KINDS.get(name)
    if cls is None:
        module, _, known_outside = str(name).partition(":")
        hint = f"import {module} before loading" if known_outside else nearest(str(name), KINDS)
        raise FormatError(f"the file describes a {name!r}, which is not known here: {hint}")
    known = {f.name for f in fields(cls)}
    unknown = [key for key in data if key != KEY and key not in known]
    if unknown:
        raise FormatError(f"the file gives {name} a setting {unknown[0]!r}. {nearest(unknown[0], known)}")
    return cls(**{key: decode(v) for key, v in data.items() if key != KEY})


def by_name(given: Any, base: type, table: dict[str, Any], what: str) -> Any:
    """`given` itself if it is a `base`, or what `table` holds under that name."""
    if isinstance(given, base):
        return given
    if isinstance(given, str):
        if given not in table:
            raise UnknownNameError(f"unknown {what} {given!r}. {nearest(given, table)}")
        return table[given]
    raise ArgumentTypeError(f"{what}: expected a name or a {base.__name__}, got {given!r}")
