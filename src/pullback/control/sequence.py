"""What recurrent ops share: lengths, walking over time in small ops, and ops that are defined by such a walk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DTypeError, IndexRangeError, ShapeError
from ..graph import Apply, ClosedGraph, DisconnectedType, Op, TensorType, Variable, as_variable
from ..ops.arithmetic import less, where
from ..ops.creation import arange
from ..ops.dtypes import as_tensor
from ..ops.elementwise import zeros_like
from ..ops.linear import matmul
from ..ops.shape import concatenate, expand_dims, length, reshape, size_of, swapaxes
from .graph_op import GraphOp
from .inner import close
from .scan_op import Scan

Step = Callable[[Sequence[Variable], Sequence[Variable]], tuple[Sequence[Variable], Sequence[Variable]]]


@dataclass(frozen=True)
class CheckedLengths(Op):
    """Numbers of steps, found to lie within [0, T]; inputs: the numbers, and x, whose first axis has length T."""

    what: str
    shape_only_inputs = (1,)

    def make_node(self, lengths: Any, x: Any) -> Apply:
        lengths, x = as_variable(lengths), as_variable(x)
        return Apply(self, [lengths, x], [TensorType("int64", lengths.type.shape)])

    def perform(self, lengths, x):
        self._fit(lengths.shape, x.shape)
        wrong = lengths[(lengths < 0) | (lengths > len(x))]
        if wrong.size:
            raise IndexRangeError(f"{self.what}: a length of {wrong.flat[0]} is outside [0, {len(x)}]")
        return lengths.astype(np.int64)

    def grad(self, inputs, output_grads):
        return [DisconnectedType()(), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False], [False]]

    def _fit(self, lengths: tuple[int, ...], x: tuple[int, ...]) -> None:
        if lengths and lengths[0] != x[1]:
            raise ShapeError(f"{self.what}: {lengths[0]} lengths for a batch of {x[1]}")

    def infer_shape(self, node, shapes, values):
        self._fit(*shapes)
        return [shapes[0]]


def checked_lengths(lengths: Any, x: Variable, what: str, ndim: int = 1) -> Variable:
    """`lengths` (one per example, or one number) as int64, checked when run against x (T, B, ..)."""
    lengths = as_tensor(lengths)
    if not lengths.dtype.startswith(("int", "uint")):
        raise DTypeError(f"{what}: lengths must be integers, got {lengths.type}")
    if lengths.ndim != ndim:
        raise ShapeError(f"{what}: lengths must have {ndim} dimensions, got {lengths.type}")
    return CheckedLengths(what)(lengths, x)


def running(lengths: Variable, x: Variable) -> Variable:
    """(T, B) booleans: which steps of which example come before its length."""
    return less(expand_dims(arange(length(x)), 1), lengths)


def kept(x: Variable, mask: Variable | None) -> Variable:
    """`x` (T, B, F) with zeros where `mask` (T, B) is false, whatever it holds there."""
    return x if mask is None else where(expand_dims(mask, 2), x, zeros_like(x))


# --- walking ----------------------------------------------------------------------------------------------------------


def walk(
    step: Step, sequences: Sequence[Variable], states: Sequence[Variable], backwards: bool, name: str
) -> list[Variable]:
    """A scan over sequences, from their end if `backwards`: states and results at all steps, in the order of time.

    Args:
        step: `step(slices, states) -> (new states, other results)`; may read outer variables.
    """
    slices = [Variable(TensorType(x.dtype, x.type.shape[1:]), name=x.name) for x in sequences]
    inside = [Variable(s.type, name=s.name) for s in states]
    new, results = step(slices, inside)
    graph, captured = close([*slices, *inside], [*new, *results])
    op = Scan(graph, len(slices), ((-1,),) * len(states), backwards=backwards, name=name)
    begun = [expand_dims(s, 0) for s in states]
    return list(op.make_node(length(sequences[0]), *sequences, *begun, *captured).outputs)


def before(first: Variable, states: Variable, backwards: bool) -> Variable:
    """Per step the state that it started from: `states` (T, ..) moved by one step, with `first` (..) at its start."""
    first = expand_dims(first, 0)
    return concatenate([states, first])[1:] if backwards else concatenate([first, states])[:-1]


def final(first: Variable, states: Variable, backwards: bool) -> Variable:
    """The state after the last step; `first` if there was none."""
    first = expand_dims(first, 0)
    return concatenate([states, first])[0] if backwards else concatenate([first, states])[-1]


def product_over_time(first: Variable, states: Variable, dz: Variable, backwards: bool) -> Variable:
    """Sum over steps and examples of (state before the step)^T dz: two products instead of moving `states`."""
    first = expand_dims(first, 0)[: length(dz)]  # none if there are no steps
    here, rest, earlier = (dz[-1:], dz[:-1], states[1:]) if backwards else (dz[:1], dz[1:], states[:-1])
    return matmul(columns(first), rows(here)) + matmul(columns(earlier), rows(rest))


def rows(x: Variable) -> Variable:
    """(T, B, F) as (T B, F)."""
    return reshape(x, [size_of(x, (0, 1)), length(x, 2)])


def columns(x: Variable) -> Variable:
    """(T, B, F) as (F, T B)."""
    return swapaxes(rows(x), 0, 1)


# --- ops defined by a walk --------------------------------------------------------------------------------------------


class SequenceOp(Op):
    """Base of ops that do a whole sequence at once. `perform` is their meaning; `definition` says the same in smaller
    ops (a scan), by which a gradient op is differentiated again.

    Attributes:
        reverse: steps run from the end of time to its beginning.
        bounded: the last input holds the number of steps of each example; from there on its state stays as it is.
    """

    reverse: bool
    bounded: bool

    def definition(self, *inputs: Variable) -> list[Variable]:
        raise NotImplementedError

    def steps(self, count: int) -> range:
        """The steps in the order in which they are taken."""
        return range(count - 1, -1, -1) if self.reverse else range(count)

    def by_definition(self, inputs: Sequence[Variable], output_grads: Sequence[Variable]) -> list[Variable]:
        """The gradient rule, by the definition."""
        stand_ins = [Variable(v.type) for v in inputs]
        graph = ClosedGraph(stand_ins, self.definition(*stand_ins))
        return GraphOp(graph, str(self)).L_op(inputs, (), output_grads)

    def connection_pattern(self, node):
        last = len(node.inputs) - self.bounded
        return [[i < last] * len(node.outputs) for i in range(len(node.inputs))]


def active(lengths: np.ndarray | None, t: int) -> Any:
    """(B, 1) booleans: whose sequence still runs at step t; True without lengths."""
    return True if lengths is None else (t < lengths)[:, None]
