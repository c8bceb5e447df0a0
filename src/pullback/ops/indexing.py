"""`x[...]` by NumPy's rules, and arrays with parts of them set or added to. Nothing is changed in place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, DTypeError, ShapeError
from ..graph import Apply, Constant, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import where as choose
from .dtypes import as_tensor, as_tensors
from .elementwise import cast, sum_to, zeros_like
from .pattern import Pattern, parse

__all__ = ["inc_subtensor", "index", "set_subtensor"]


@dataclass(frozen=True)
class Indexing(Op):
    """Base of the ops below; inputs: their operands, then what fills the pattern's slots."""

    pattern: Pattern
    operands = 1

    def part_type(self, x: Variable, slots: Sequence[Variable]) -> TensorType:
        """The type of x[...]."""
        constants = [v.data if isinstance(v, Constant) and v.ndim == 0 else None for v in slots]
        return TensorType(x.dtype, self.pattern.shape(x.type.shape, [v.type.shape for v in slots], constants))

    def part(self, x: np.ndarray, slots: Sequence[np.ndarray]) -> np.ndarray:
        """x[...], with an error that names what doesn't fit."""
        try:
            return x[self.pattern.bind(slots)]
        except (IndexError, ValueError) as error:
            raise self.pattern.explain("index", x.shape, slots, error) from None

    def connection_pattern(self, node):
        return [[i < self.operands] for i in range(len(node.inputs))]

    def __str__(self) -> str:
        return f"{type(self).__name__}{self.pattern}"


class Part(Indexing):
    """Base of the two kinds of x[...]."""

    def make_node(self, x: Any, *slots: Any) -> Apply:
        x, slots = as_variable(x), [as_variable(s) for s in slots]
        return Apply(self, [x, *slots], [self.part_type(x, slots)])

    def perform(self, x, *slots):
        return self.part(x, slots)

    def grad(self, inputs, output_grads):
        x, *slots = inputs
        return [IncSubtensor(self.pattern)(zeros_like(x), output_grads[0], *slots), *disconnected(slots)]

    def infer_shape(self, node, shapes, values):
        shape = self.pattern.shape(shapes[0], shapes[1:], values[1:])
        return None if None in shape else [shape]


class Subtensor(Part):
    """x[...] of integers, slices and new axes: a view."""

    formula = "g at the places of zeros that were read"
    view_map = {0: 0}


class AdvancedSubtensor(Part):
    """x[...] with arrays of integers or booleans among the indices: a copy."""

    formula = "g added at the places of zeros that were read"


class Update(Indexing):
    """Base of the two ways to change x[...]; inputs: x, y, slots."""

    operands = 2

    def make_node(self, x: Any, y: Any, *slots: Any) -> Apply:
        x, y, slots = as_variable(x), as_variable(y), [as_variable(s) for s in slots]
        self._check(self.part_type(x, slots).shape, y.type.shape)
        return Apply(self, [x, y, *slots], [x.type])

    def _check(self, part: tuple, y: tuple) -> None:
        lead = len(part) - len(y)
        if lead < 0 or any(n != m for n, m in zip(y, part[lead:]) if n not in (1, None) and m is not None):
            value, place = (str(s).replace("None", "?") for s in (y, part))
            raise ShapeError(f"{type(self).__name__}: a value of shape {value} can't go into a part of shape {place}")

    def perform(self, x, y, *slots):
        slots = in_c_order(self.pattern, slots)
        out = np.array(x, order="C")
        part = self.part(out, slots)
        self._check(part.shape, y.shape)
        self.write(out, part, np.asarray(np.broadcast_to(y, part.shape), order="C"), slots)
        return out

    def write(self, out: np.ndarray, part: np.ndarray, y: np.ndarray, slots: Sequence[np.ndarray]) -> None:
        raise NotImplementedError

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


class SetSubtensor(Update):
    """A copy of x with x[...] = y; of several writes to one element the last wins, in C order."""

    formula = "(g with zeros at those places, g read there where y wrote last)"

    def write(self, out, part, y, slots):
        out[self.pattern.bind(slots)] = y

    def grad(self, inputs, output_grads):
        x, y, *slots = inputs
        g = output_grads[0]
        reached = take_part(g, self.pattern, slots)
        if self.pattern.may_repeat:
            reached = choose(LastWrites(self.pattern)(x, *slots), reached, zeros_like(reached))
        return [self(g, Constant(np.zeros((), g.dtype)), *slots), sum_to(reached, y), *disconnected(slots)]


class IncSubtensor(Update):
    """A copy of x with x[...] += y; an element that is named several times is added to as often."""

    formula = "(g, g read at those places)"

    def perform(self, x, y, *slots):
        if x.dtype != np.float16:
            return super().perform(x, y, *slots)
        return super().perform(x.astype(np.float32), y.astype(np.float32), *slots).astype(np.float16)

    def write(self, out, part, y, slots):
        if self.pattern.may_repeat:
            places = np.arange(out.size).reshape(out.shape)[self.pattern.bind(slots)]
            np.add.at(out.reshape(-1), places.reshape(-1), y.reshape(-1))  # eight times faster on flat arrays
        else:
            out[self.pattern.bind(slots)] = part + y

    def grad(self, inputs, output_grads):
        x, y, *slots = inputs
        g = output_grads[0]
        return [g, sum_to(take_part(g, self.pattern, slots), y), *disconnected(slots)]


class LastWrites(Indexing):
    """Of the elements of x[...], which ones no later element overwrites in `x[...] = y`."""

    shape_only_inputs = (0,)
    operands = 0

    def make_node(self, x: Any, *slots: Any) -> Apply:
        x, slots = as_variable(x), [as_variable(s) for s in slots]
        return Apply(self, [x, *slots], [TensorType("bool", self.part_type(x, slots).shape)])

    def perform(self, x, *slots):
        slots = in_c_order(self.pattern, slots)
        writer = np.zeros(x.shape, np.int64)
        shape = self.part(writer, slots).shape
        order = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
        index = self.pattern.bind(slots)
        writer[index] = order
        return writer[index] == order

    def grad(self, inputs, output_grads):
        return disconnected(inputs)

    def infer_shape(self, node, shapes, values):
        shape = self.pattern.shape(shapes[0], shapes[1:], values[1:])
        return None if None in shape else [shape]


def in_c_order(pattern: Pattern, slots: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Slots such that NumPy visits the elements that they name in C order: index arrays broadcast and contiguous."""
    arrays = [v for v in slots if v.ndim and v.dtype != bool]
    if not arrays or any(v.dtype == bool for v in slots):
        return list(slots)
    try:
        shape = np.broadcast_shapes(*(v.shape for v in arrays))
    except ValueError:
        return list(slots)  # the indexing itself raises, and says why
    return [np.ascontiguousarray(np.broadcast_to(v, shape)) if v.ndim else v for v in slots]


def disconnected(variables: Sequence[Variable]) -> list[Variable]:
    return [DisconnectedType()() for _ in variables]


def take_part(x: Variable, pattern: Pattern, slots: Sequence[Variable]) -> Variable:
    return (Subtensor if pattern.is_basic else AdvancedSubtensor)(pattern)(x, *slots)


# --- what users write -------------------------------------------------------------------------------------------------


def index(x: Any, key: Any) -> Variable:
    """`x[key]`, by NumPy's rules: integers, slices, None, ..., integer arrays and boolean masks, constant or symbolic.

    Gradient: each element's cotangent is added where the element came from, as often as it was taken.

    Raises:
        IndexRangeError: where an index is out of range (at build if known, else at run time).
    """
    x = as_tensor(x)
    pattern, slots = parse(key, x)
    return take_part(x, pattern, slots)


def set_subtensor(x: Variable, y: Any) -> Variable:
    """`set_subtensor(x[key], y)`: a copy of x with x[key] = y. `y` broadcasts to the part.

    Of several writes to one element the last wins. Gradient: to x zero where it was overwritten; to y that of the
    element that it became, and zero for writes that were overwritten.
    """
    return _updated(SetSubtensor, x, y, "set_subtensor")


def inc_subtensor(x: Variable, y: Any) -> Variable:
    """`inc_subtensor(x[key], y)`: a copy of x with y added to x[key]. `y` broadcasts to the part.

    An element that is named several times is added to as often.
    """
    return _updated(IncSubtensor, x, y, "inc_subtensor")


def _updated(op: type[Update], part: Any, y: Any, what: str) -> Variable:
    node = getattr(part, "owner", None)
    if node is None or not isinstance(node.op, Part):
        raise ArgumentTypeError(f"{what}: the first argument must be an indexed variable such as x[2:5], got {part!r}")
    x, *slots = node.inputs
    y = as_tensors([part, y])[1]
    if not np.can_cast(y.dtype, x.dtype, "same_kind"):
        raise DTypeError(f"{what}: {y.dtype} values can't go into {x!r} of type {x.type}; cast one of them")
    return op(node.op.pattern)(x, cast(y, x.dtype), *slots)
