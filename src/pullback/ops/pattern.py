"""What stands between the brackets of `x[...]`, parsed once: hashable, with run-time values in slots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, DTypeError, IndexRangeError, ShapeError
from ..graph import Constant, Variable, as_variable

Lengths = tuple[int | None, ...]


class Slot(NamedTuple):
    """A place that an op's next input fills; `axes` counts the axes that it indexes."""

    kind: str
    axes: int = 1


INTEGER, ARRAY = Slot("integer"), Slot("array")


class Cut(NamedTuple):
    """A slice; each part is an integer, None (left out) or the INTEGER slot."""

    start: int | Slot | None = None
    stop: int | Slot | None = None
    step: int | Slot | None = None

    def __str__(self) -> str:
        parts = ["" if p is None else "?" if p == INTEGER else str(p) for p in self]
        return ":".join(parts[:2] if self.step is None else parts)


Entry = int | Cut | Slot | None | type(Ellipsis)
UNKNOWN = Ellipsis  # among slot values: known only at run time


@dataclass(frozen=True)
class Pattern:
    """An index with an entry for every axis of what it indexes (an integer, a Cut or a Slot) and None for new axes.

    An Ellipsis is replaced by the slices that it stands for. One that stands for none remains between array indices,
    because NumPy puts their axes first if anything parts them.
    """

    entries: tuple[Entry, ...]

    @property
    def is_basic(self) -> bool:
        """Whether the result is a view: no arrays among the entries."""
        return not any(isinstance(e, Slot) and e != INTEGER for e in self.entries)

    @property
    def may_repeat(self) -> bool:
        """Whether it may name one element twice."""
        return ARRAY in self.entries

    @property
    def first_axes(self) -> list[int]:
        """The axis at which each entry starts."""
        used = list(map(axes_of, self.entries))
        return [sum(used[:i]) for i in range(len(used))]

    def fill(self, slots: Sequence[Any]) -> list[Any]:
        """The entries with slots replaced, in order, by `slots`; Cuts as slices."""
        values = iter(slots)

        def part(p: Any) -> Any:
            return next(values) if isinstance(p, Slot) else p

        return [slice(*map(part, e)) if isinstance(e, Cut) else part(e) for e in self.entries]

    def bind(self, slots: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """NumPy's index."""
        return tuple(int(v) if e == INTEGER else v for e, v in zip(self.entries, self.fill(slots)))

    def shape(self, shape: Lengths, slot_shapes: Sequence[Lengths], slot_values: Sequence[Any]) -> Lengths:
        """The shape of x[...] for an x of `shape`; lengths that only running tells are None."""
        values = [UNKNOWN if v is None else v for v in slot_values]
        result: list[int | None] = []
        arrays: list[Lengths] = []
        places: list[int] = []
        for e, axis, slot_shape, value in zip(self.entries, self.first_axes, self.fill(slot_shapes), self.fill(values)):
            if e is None:
                result.append(1)
            elif isinstance(e, Cut):
                result.append(cut_length(value, shape[axis]))
            elif e is not Ellipsis:
                places.append(len(result))
                if isinstance(e, int) and shape[axis] is not None and not -shape[axis] <= e < shape[axis]:
                    raise out_of_range("index", e, axis, shape)
                if isinstance(e, Slot) and e != INTEGER:
                    arrays.append(slot_shape if e == ARRAY else (None,))
        if not arrays:
            return tuple(result)
        at = places[0] if self._arrays_adjoin() else 0
        return (*result[:at], *broadcast_lengths(arrays), *result[at:])

    def _arrays_adjoin(self) -> bool:
        picks = [isinstance(e, (int, Slot)) for e in self.entries]
        first, last = picks.index(True), len(picks) - picks[::-1].index(True)
        return all(picks[first:last])

    def explain(self, what: str, shape: tuple[int, ...], slots: Sequence[np.ndarray], error: Exception) -> Exception:
        """The error that names the entry that doesn't fit `shape`, where NumPy raised `error`."""
        arrays = []
        for e, axis, value in zip(self.entries, self.first_axes, self.fill(slots)):
            if isinstance(e, Cut):
                if value.step is not None and value.step == 0:
                    return ArgumentError(f"{what}: the slice {e} on axis {axis} has step 0")
            elif isinstance(e, Slot) and e.kind == "mask":
                if value.shape != shape[axis : axis + value.ndim]:
                    return IndexRangeError(
                        f"{what}: a mask of shape {value.shape}, from axis {axis} on, doesn't fit shape {shape}"
                    )
                arrays.append((int(value.sum()),))
            elif e is not None and e is not Ellipsis:
                index = np.asarray(value)
                wrong = index[(index < -shape[axis]) | (index >= shape[axis])]
                if wrong.size:
                    return out_of_range(what, int(wrong.flat[0]), axis, shape)
                arrays.append(index.shape)
        shapes = " and ".join(map(str, arrays))
        return ShapeError(f"{what}: arrays of shapes {shapes} don't broadcast together ({error})")

    def __str__(self) -> str:
        names = {None: "None", Ellipsis: "...", INTEGER: "?", ARRAY: "array"}
        shown = [str(e) if isinstance(e, (Cut, int)) else names.get(e, "mask") for e in self.entries]
        return f"[{', '.join(shown)}]"


def axes_of(entry: Entry) -> int:
    """How many axes an entry indexes."""
    return 0 if entry is None or entry is Ellipsis else entry.axes if isinstance(entry, Slot) else 1


def out_of_range(what: str, index: int, axis: int, shape: Lengths) -> IndexRangeError:
    return IndexRangeError(f"{what}: index {index} is out of range for axis {axis} of length {shape[axis]}")


def cut_length(cut: slice, n: int | None) -> int | None:
    """How many elements a slice keeps of `n`; None where that isn't known."""
    parts = (cut.start, cut.stop, cut.step)
    if cut.step is not None and cut.step is not UNKNOWN and cut.step == 0:
        raise ArgumentError("index: a slice has step 0")
    if cut.start is None and cut.stop is None and cut.step in (None, 1, -1):
        return n
    if n is None or any(p is UNKNOWN for p in parts):
        return None
    return len(range(*cut.indices(n)))


def broadcast_lengths(shapes: Sequence[Lengths]) -> Lengths:
    """The shape that index arrays broadcast to, where it is known."""
    ndim = max(map(len, shapes))
    result: list[int | None] = []
    for axis in range(-ndim, 0):
        lengths = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        known = lengths - {None}
        if len(known) > 1:
            raise ShapeError(f"index: arrays of shapes {' and '.join(map(str, shapes))} don't broadcast together")
        result.append(known.pop() if known else None if lengths else 1)
    return tuple(result)


# --- parsing ----------------------------------------------------------------------------------------------------------


def parse(key: Any, x: Variable) -> tuple[Pattern, list[Variable]]:
    """(pattern, what fills its slots) for `x[key]`."""
    parts = list(key) if isinstance(key, tuple) else [key]
    entries: list[Entry] = []
    slots: list[Variable] = []
    for part in parts:
        if isinstance(part, slice):
            entries.append(Cut(*(_integer(p, slots, "a slice bound") for p in (part.start, part.stop, part.step))))
        elif part is None or part is Ellipsis:
            entries.append(part)
        elif isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            entries.append(int(part))
        else:
            entries.append(_array(part, slots))
    return Pattern(_complete(tuple(entries), x)), slots


def _integer(part: Any, slots: list[Variable], what: str) -> int | Slot | None:
    if part is None or (isinstance(part, (int, np.integer)) and not isinstance(part, bool)):
        return None if part is None else int(part)
    v = as_variable(part)
    if v.ndim or not v.dtype.startswith(("int", "uint")):
        raise ArgumentTypeError(f"index: {what} must be an integer scalar, got {v!r} of type {v.type}")
    if isinstance(v, Constant):
        return int(v.data)
    slots.append(v)
    return INTEGER


def _array(part: Any, slots: list[Variable]) -> int | Slot:
    v = as_variable(part)
    if isinstance(part, (list, tuple)) and isinstance(v, Constant) and v.data.size == 0:
        v = Constant(v.data.astype(np.int64))  # NumPy types an empty list as float64
    if v.dtype == "bool":
        slots.append(v)
        return Slot("mask", v.ndim)
    if not v.dtype.startswith(("int", "uint")):
        raise DTypeError(f"index: {v!r} of type {v.type} can't index; expected integers, booleans, slices, None or ...")
    if v.ndim == 0:
        return _integer(v, slots, "an index")
    slots.append(v)
    return ARRAY


def _complete(entries: tuple[Entry, ...], x: Variable) -> tuple[Entry, ...]:
    """`entries` with the Ellipsis spelt out and the axes that are left taken whole."""
    used = sum(map(axes_of, entries))
    missing = x.ndim - used
    places = [i for i, e in enumerate(entries) if e is Ellipsis]
    if missing < 0:
        raise IndexRangeError(f"index: {used} indices for {x!r}, which has {x.ndim} dimensions ({x.type})")
    if len(places) > 1:
        raise ArgumentError("index: only one Ellipsis (...) can stand in an index")
    at = places[0] if places else len(entries)
    keep = (Ellipsis,) if places and not missing else ()
    return (*entries[:at], *keep, *[Cut()] * missing, *entries[at + 1 :])
