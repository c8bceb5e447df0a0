"""Arrays turned, rolled, repeated, padded, stacked and cut: mostly in the words of `shape` and `indexing`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, ShapeError
from ..graph import Apply, Constant, DisconnectedType, Op, Variable, as_variable
from .arithmetic import add, clip, floor_divide, less, maximum, minimum, mod, multiply, negative, subtract
from .creation import arange, full
from .cumulative import cumsum
from .dtypes import as_tensor, as_tensors
from .elementwise import broadcast_like, cast
from .gather import as_indices, take
from .indexing import index, set_subtensor
from .reduce import sum as total
from .shape import (
    Split,
    broadcast_to,
    concatenate,
    expand_dims,
    flatten,
    length,
    normalize_axes,
    normalize_axis,
    reshape,
    shape,
    split,
    swapaxes,
)
from .sorting import searchsorted

__all__ = [
    "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "column_stack", "dsplit", "dstack",
    "flip", "fliplr", "flipud", "hsplit", "hstack", "insert_along_axis", "meshgrid", "pad", "repeat", "roll", "rot90",
    "tile", "vsplit", "vstack",
]  # fmt: skip


# --- turning and rolling ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flip(Op):
    """The order along `axes` reversed: its own inverse and its own adjoint."""

    axes: tuple[int, ...]
    formula = "g flipped back"
    view_map = {0: 0}

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [x.type])

    def perform(self, x):
        return np.flip(x, self.axes)

    def grad(self, inputs, output_grads):
        return [self(output_grads[0])]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


@dataclass(frozen=True)
class Roll(Op):
    """Elements moved along `axes`, those that fall off coming in at the other end; inputs: x, then a shift per axis."""

    axes: tuple[int, ...]

    formula = "g rolled back"

    def make_node(self, x: Any, *shifts: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x, *map(as_variable, shifts)], [x.type])

    def perform(self, x, *shifts):
        return np.roll(x, [int(s) for s in shifts], self.axes)

    def grad(self, inputs, output_grads):
        shifts = [negative(s) for s in inputs[1:]]
        return [self(output_grads[0], *shifts), *(DisconnectedType()() for _ in shifts)]

    def connection_pattern(self, node):
        return [[True], *([False] for _ in self.axes)]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


def flip(x: Any, axis: int | Sequence[int] | None = None) -> Variable:
    """`x` with the order along `axis` (None: along all axes) reversed."""
    x = as_tensor(x)
    axes = normalize_axes(axis, x.ndim, "flip")
    return Flip(tuple(sorted(axes)))(x) if axes else x


def flipud(x: Any) -> Variable:
    """`x` with the order along axis 0 reversed."""
    return flip(x, 0)


def fliplr(x: Any) -> Variable:
    """`x` with the order along axis 1 reversed."""
    return flip(x, 1)


def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Variable:
    """`x` turned k times by 90 degrees in the plane of two axes, from the first towards the second."""
    x = as_tensor(x)
    a, b = normalize_axes(axes, x.ndim, "rot90")
    match k % 4:
        case 0:
            return x
        case 1:
            return swapaxes(flip(x, b), a, b)
        case 2:
            return flip(x, (a, b))
    return flip(swapaxes(x, a, b), b)


def roll(x: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Variable:
    """Elements moved by `shift` places along `axis`; those that fall off come in at the other end.

    Args:
        x: any tensor.
        shift: an integer or integer scalar variable, or one per axis.
        axis: an axis or several; None rolls the flattened `x`.
    """
    x = as_tensor(x)
    if axis is None:
        return reshape(roll(flatten(x), shift, 0), shape(x))
    axes = [axis] if isinstance(axis, (int, np.integer)) else list(axis)
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    shifts = as_tensors(shifts)
    for s in shifts:
        if s.ndim or not s.type.is_discrete:
            raise ArgumentTypeError(f"roll: a shift is an integer scalar, got {s!r} of type {s.type}")
    return Roll(tuple(normalize_axis(a, x.ndim, "roll") for a in axes))(x, *shifts)


# --- repeating --------------------------------------------------------------------------------------------------------


def tile(x: Any, reps: Any) -> Variable:
    """`x` laid `reps[i]` times along axis i, as NumPy's `tile`; repetitions are integers or integer variables."""
    x = as_tensor(x)
    reps = list(reps) if isinstance(reps, (tuple, list)) else [reps]
    reps = [1] * (x.ndim - len(reps)) + reps
    lead = len(reps) - x.ndim
    lengths = [1] * lead + [length(x, a) for a in range(x.ndim)]
    x = expand_dims(x, [*range(lead), *(lead + 2 * a for a in range(x.ndim))])
    x = broadcast_to(x, [*reps[:lead], *(n for pair in zip(reps[lead:], lengths[lead:]) for n in pair)])
    return reshape(x, [multiply(n, r) for n, r in zip(lengths, reps)])


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Variable:
    """Each slice of `x` along `axis` repeated: `repeats` times, or as often as a vector `repeats` says for each.

    `axis=None` repeats the elements of the flattened `x`. Gradient: the sum over the copies.
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = flatten(x), 0
    axis = normalize_axis(axis, x.ndim, "repeat")
    repeats = as_indices(repeats, "repeat")
    n = length(x, axis)
    if repeats.ndim == 0:
        lengths = [length(x, a) for a in range(x.ndim)]
        copies = broadcast_to(expand_dims(x, axis + 1), [*lengths[: axis + 1], repeats, *lengths[axis + 1 :]])
        return reshape(copies, [*lengths[:axis], multiply(n, repeats), *lengths[axis + 1 :]])
    repeats = reshape(repeats, (n,))
    source = searchsorted(cumsum(repeats), arange(total(repeats)), side="right")
    return take(x, source, axis)


def broadcast_arrays(*arrays: Any) -> list[Variable]:
    """All arrays repeated to the shape that they broadcast to together."""
    variables = [as_tensor(x) for x in arrays]
    return [broadcast_like(x, reduce(add, variables)) for x in variables]


def meshgrid(*vectors: Any, indexing: str = "xy", sparse: bool = False) -> list[Variable]:
    """Coordinate arrays from coordinate vectors: result i varies along axis i only (with "xy", axes 0 and 1 swap)."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing={indexing!r}; expected 'xy' or 'ij'")
    count = len(vectors)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[:2] = 1, 0
    grids = [reshape(flatten(v), [-1 if a == p else 1 for a in range(count)]) for v, p in zip(vectors, places)]
    return grids if sparse or count < 2 else broadcast_arrays(*grids)


# --- padding ----------------------------------------------------------------------------------------------------------

# Per mode, the index that position i of an axis of length n reads, also for i < 0 and i >= n.
BORDERS = {
    "edge": lambda i, n: clip(i, 0, subtract(n, 1)),
    "reflect": lambda i, n: _fold(mod(i, maximum(multiply(2, subtract(n, 1)), 1)), multiply(2, subtract(n, 1))),
    "symmetric": lambda i, n: _fold(mod(i, multiply(2, n)), subtract(multiply(2, n), 1)),
    "wrap": mod,
}


def _fold(i: Variable, end: Variable) -> Variable:
    return minimum(i, subtract(end, i))


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Variable:
    """`x` with elements put before and after it along its axes, as NumPy's `pad`.

    Args:
        x: any tensor.
        pad_width: one integer for all, (before, after) for all axes, or one such pair per axis.
        mode: "constant"; "edge" repeats the outermost element; "reflect" mirrors at its centre, "symmetric" at its
            outer edge; "wrap" goes on from the other end.
        constant_values: what "constant" puts, a number or a scalar variable (its gradient: the sum over the border).
    """
    x = as_tensor(x)
    widths = _pad_widths(pad_width, x.ndim)
    if mode == "constant":
        sizes = [add(length(x, a), before + after) for a, (before, after) in enumerate(widths)]
        value = as_tensor(constant_values, None if isinstance(constant_values, Variable) else x.dtype)
        inside = tuple(slice(before, add(before, length(x, a))) for a, (before, _) in enumerate(widths))
        return set_subtensor(index(full(sizes, cast(value, x.dtype)), inside), x) if x.ndim else x
    if mode not in BORDERS:
        raise ArgumentError(f"pad: mode={mode!r}; expected 'constant', {', '.join(map(repr, BORDERS))}")
    for axis, (before, after) in enumerate(widths):
        if before or after:
            n = length(x, axis)
            x = take(x, BORDERS[mode](arange(-before, add(n, after)), n), axis)
    return x


def _pad_widths(given: Any, ndim: int) -> list[tuple[int, int]]:
    widths = np.asarray(given)
    if widths.dtype.kind not in "iu" or widths.size and widths.min() < 0:
        raise ArgumentError(f"pad: widths are integers of at least 0, got {given!r}")
    try:
        return [(int(a), int(b)) for a, b in np.broadcast_to(widths, (ndim, 2))]
    except ValueError:
        raise ShapeError(f"pad: pad_width={given!r} fits neither all axes nor each of {ndim}") from None


def insert_along_axis(x: Any, positions: Any, length: Any, axis: int = 0, fill: Any = 0) -> Variable:
    """An array of `length` along `axis` with the slices of `x` at `positions` and `fill` everywhere else.

    Args:
        x: any tensor; as many slices along `axis` as there are positions.
        positions: a vector of integers; negative ones count from the end. Of equal ones the last wins.
        length: the new length, an integer or integer scalar variable.
        axis: any axis, negative ones too.
        fill: a number or a scalar variable.

    Gradient: to `x` the slices of g at `positions`; to `fill` the sum of g over all other places.
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "insert_along_axis")
    sizes = list(shape(x))
    places = reshape(as_indices(positions, "insert_along_axis"), (sizes[axis],))
    sizes[axis] = length
    fill = as_tensor(fill, None if isinstance(fill, Variable) else x.dtype)
    blank = full(sizes, cast(fill, x.dtype))
    return set_subtensor(index(blank, (*(slice(None),) * axis, places)), x)


# --- stacking and cutting ---------------------------------------------------------------------------------------------


def atleast_1d(x: Any) -> Variable:
    """`x`, or a scalar as a vector of length 1."""
    x = as_tensor(x)
    return x if x.ndim >= 1 else expand_dims(x, 0)


def atleast_2d(x: Any) -> Variable:
    """`x` with leading axes of length 1 until it has 2."""
    x = atleast_1d(x)
    return x if x.ndim >= 2 else expand_dims(x, 0)


def atleast_3d(x: Any) -> Variable:
    """`x` with at least 3 axes: a vector of n becomes (1, n, 1), a matrix of m x n becomes (m, n, 1), as in NumPy."""
    x = atleast_2d(x)
    return x if x.ndim >= 3 else expand_dims(x, 2)


def vstack(arrays: Sequence[Any]) -> Variable:
    """Arrays joined along axis 0, vectors as rows."""
    return concatenate([atleast_2d(x) for x in arrays], 0)


def hstack(arrays: Sequence[Any]) -> Variable:
    """Arrays joined along axis 1, vectors along axis 0."""
    arrays = [atleast_1d(x) for x in arrays]
    return concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1)


def dstack(arrays: Sequence[Any]) -> Variable:
    """Arrays joined along axis 2; vectors and matrices get new axes as in `atleast_3d`."""
    return concatenate([atleast_3d(x) for x in arrays], 2)


def column_stack(arrays: Sequence[Any]) -> Variable:
    """Vectors as the columns of a matrix; matrices joined along axis 1."""
    variables = [atleast_1d(x) for x in arrays]
    return concatenate([expand_dims(x, 1) if x.ndim == 1 else x for x in variables], 1)


def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Variable]:
    """As `split`, but the pieces may differ in length by one: the first `length % sections` are the longer ones."""
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "array_split")
    if not isinstance(indices_or_sections, (int, np.integer)):
        return split(x, indices_or_sections, axis)
    count = int(indices_or_sections)
    if count < 1:
        raise ArgumentError(f"array_split: {count} pieces; expected at least 1")
    known = x.type.shape[axis]
    if known is not None:
        sizes = [Constant(np.int64(known // count + (i < known % count))) for i in range(count)]
    else:
        n = length(x, axis)
        sizes = [add(floor_divide(n, count), cast(less(i, mod(n, count)), "int64")) for i in range(count)]
    return list(Split(axis, count).make_node(x, *sizes).outputs)


def vsplit(x: Any, indices_or_sections: Any) -> list[Variable]:
    """`split` along axis 0."""
    return split(x, indices_or_sections, 0)


def hsplit(x: Any, indices_or_sections: Any) -> list[Variable]:
    """`split` along axis 1 (of a vector: axis 0)."""
    x = as_tensor(x)
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


def dsplit(x: Any, indices_or_sections: Any) -> list[Variable]:
    """`split` along axis 2."""
    return split(x, indices_or_sections, 2)
