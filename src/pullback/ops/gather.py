"""Elements and slices taken by integer indices along an axis, put back, and looked up in tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config import config
from ..errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import clip, divide, mod, not_equal, subtract
from .arithmetic import where as choose
from .creation import arange
from .dtypes import as_tensor
from .elementwise import cast, zeros_like
from .indexing import inc_subtensor, index, set_subtensor
from .pattern import out_of_range
from .shape import expand_dims, flatten, length, normalize_axis

__all__ = [
    "embedding", "gather", "nonzero", "one_hot", "put_along_axis", "scatter", "take", "take_along_axis",
]  # fmt: skip


def as_indices(indices: Any, what: str) -> Variable:
    indices = as_tensor(indices)
    if not indices.dtype.startswith(("int", "uint")):
        raise DTypeError(f"{what}: indices must be integers, got {indices.type}")
    return indices


# --- whole slices -----------------------------------------------------------------------------------------------------


def take(x: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Variable:
    """The slices of `x` at `indices` along `axis` (None: elements of the flattened x), as NumPy's `take`.

    Args:
        mode: what an index outside [-n, n) does: "raise" IndexRangeError, "wrap" round, or "clip" to the nearest end
            (there, negative ones count as 0).
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = flatten(x), 0
    return _take(x, indices, normalize_axis(axis, x.ndim, "take"), mode)


def _take(x: Variable, indices: Any, axis: int, mode: str) -> Variable:
    indices = as_indices(indices, "take")
    n = length(x, axis)
    if mode == "wrap":
        indices = mod(indices, n)
    elif mode == "clip":
        indices = clip(indices, 0, subtract(n, 1))
    elif mode != "raise":
        raise ArgumentError(f"take: mode={mode!r}; expected 'raise', 'wrap' or 'clip'")
    return index(x, (*(slice(None),) * axis, indices))


def gather(x: Any, indices: Any, axis: int = 0) -> Variable:
    """The slices of `x` at `indices` along `axis`: `x[indices]` for axis 0. The same slice may be taken many times."""
    return take(x, indices, axis)


def scatter(x: Any, indices: Any, values: Any, axis: int = 0, accumulate: bool = False) -> Variable:
    """A copy of `x` with its slices at `indices` along `axis` set to `values`, or added to with `accumulate=True`.

    Where an index is named several times, the last value set wins, and all values added count.
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "scatter")
    part = index(x, (*(slice(None),) * axis, as_indices(indices, "scatter")))
    return (inc_subtensor if accumulate else set_subtensor)(part, values)


# --- elements along an axis -------------------------------------------------------------------------------------------


def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Variable:
    """Per line along `axis`, the elements at `indices`; the other axes of both broadcast, as in NumPy."""
    return _along_axis(x, indices, axis, "take_along_axis")


def put_along_axis(x: Any, indices: Any, values: Any, axis: int | None = -1, accumulate: bool = False) -> Variable:
    """A copy of `x` with, per line along `axis`, the elements at `indices` set to `values`, or added to with
    `accumulate=True`.

    Where an index is named several times, the last value set wins, and all values added count.
    """
    part = _along_axis(x, indices, axis, "put_along_axis")
    return (inc_subtensor if accumulate else set_subtensor)(part, values)


def _along_axis(x: Any, indices: Any, axis: int | None, what: str) -> Variable:
    x, indices = as_tensor(x), as_indices(indices, what)
    if axis is None:
        x, axis = flatten(x), 0
    axis = normalize_axis(axis, x.ndim, what)
    if indices.ndim != x.ndim:
        raise ShapeError(f"{what}: indices must have the rank of x ({x.type}), got {indices.type}")
    return index(x, tuple(indices if a == axis else positions(x, a) for a in range(x.ndim)))


def positions(x: Variable, axis: int) -> Variable:
    """0, 1, ... along `axis` of `x`, with length 1 on the other axes."""
    return expand_dims(arange(length(x, axis)), tuple(a for a in range(x.ndim) if a != axis))


# --- where something is true ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nonzero(Op):
    """Per axis, the indices of the elements that are not zero, in C order."""

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        if x.ndim == 0:
            raise ShapeError("nonzero: a scalar has no axis to index")
        return Apply(self, [x], [TensorType("int64", (None,))] * x.ndim)

    def perform(self, x):
        return np.nonzero(x)

    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False] * len(node.outputs)]


def nonzero(x: Any) -> tuple[Variable, ...]:
    """Per axis, the indices of the elements that are not zero, in C order. Nothing is differentiated through them."""
    return tuple(Nonzero().make_node(as_tensor(x)).outputs)


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Embedding(Op):
    """Rows of a table by number; inputs: table, indices. Row `padding` gets no gradient."""

    padding: int | None = None
    by_frequency: bool = False

    formula = "g added to the rows that were read"

    def make_node(self, table: Any, indices: Any) -> Apply:
        table, indices = as_variable(table), as_variable(indices)
        shape = (*indices.type.shape, *table.type.shape[1:])
        return Apply(self, [table, indices], [TensorType(table.dtype, shape)])

    def perform(self, table, indices):
        n = len(table)
        wrong = indices[(indices < 0) | (indices >= n)]
        if wrong.size:
            raise IndexRangeError(f"embedding: index {wrong.flat[0]} is no row of a table of {n} rows (axis 0)")
        return table[indices]

    def grad(self, inputs, output_grads):
        (table, indices), g = inputs, output_grads[0]
        inner = tuple(range(indices.ndim, g.ndim))
        if self.by_frequency:
            number = index(zeros_like(table, "float64"), (slice(None), *[0] * (table.ndim - 1)))
            count = inc_subtensor(index(number, indices), 1.0)
            g = divide(g, cast(expand_dims(index(count, indices), inner), g.dtype))
        if self.padding is not None:
            row = self.padding if self.padding >= 0 else length(table, 0) + self.padding
            g = choose(expand_dims(not_equal(indices, row), inner), g, zeros_like(g))
        return [inc_subtensor(index(zeros_like(table), indices), g), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        return [(*shapes[1], *shapes[0][1:])]


def embedding(table: Any, idx: Any, padding_idx: int | None = None, scale_grad_by_freq: bool = False) -> Variable:
    """`table[idx]`: rows looked up by number.

    Args:
        table: (rows, ...) floats.
        idx: integers in [0, rows), of any shape.
        padding_idx: a row that gets no gradient; none by default. Negative counts from the end.
        scale_grad_by_freq: divide each row's gradient by how often `idx` names it.

    Gradient: each row of g is added to the row that it came from.

    Raises:
        IndexRangeError: at run time, where an index is no row; negative ones aren't.
    """
    table, idx = as_tensor(table), as_indices(idx, "embedding")
    if table.ndim == 0:
        raise ShapeError("embedding: the table must have rows, got a scalar")
    rows = table.type.shape[0]
    if padding_idx is not None and rows is not None and not -rows <= padding_idx < rows:
        raise out_of_range("embedding: padding_idx", padding_idx, 0, (rows,))
    return Embedding(padding_idx, scale_grad_by_freq)(table, idx)


@dataclass(frozen=True)
class OneHot(Op):
    """1 at the place that each label names on a new last axis of length `classes`, else 0."""

    classes: int
    dtype: str

    def make_node(self, labels: Any) -> Apply:
        labels = as_variable(labels)
        return Apply(self, [labels], [TensorType(self.dtype, (*labels.type.shape, self.classes))])

    def perform(self, labels):
        wrong = labels[(labels < 0) | (labels >= self.classes)]
        if wrong.size:
            raise IndexRangeError(f"one_hot: label {wrong.flat[0]} is no class; there are {self.classes}, from 0 on")
        return (labels[..., None] == np.arange(self.classes)).astype(self.dtype)

    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False]]

    def infer_shape(self, node, shapes, values):
        return [(*shapes[0], self.classes)]


def one_hot(labels: Any, num_classes: int, dtype: Any = None) -> Variable:
    """1 at the place that each label names on a new last axis of length `num_classes`, 0 elsewhere.

    Of dtype config.floatX unless given.

    Raises:
        IndexRangeError: at run time, where a label is outside [0, num_classes).
    """
    if num_classes < 1:
        raise ArgumentError(f"one_hot: num_classes={num_classes}; expected at least 1")
    return OneHot(int(num_classes), TensorType(dtype or config.floatX).dtype)(as_indices(labels, "one_hot"))
