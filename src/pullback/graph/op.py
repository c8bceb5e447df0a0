"""What an operation is (`Op`) and one use of it in a graph (`Apply`)."""

import contextlib
import contextvars
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from .type import TensorType, Type, grad_not_implemented
from .variable import Variable

Shape = tuple[int, ...]
LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Origin(NamedTuple):
    """Where a node comes from: the user's line, the layer of a network, and the op whose gradient rule built it."""

    file: str
    line: int
    gradient_of: str = ""
    layer: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" + (f", layer {self.layer}" if self.layer else "")
        return f"the gradient of {self.gradient_of}, built at {where}" if self.gradient_of else where


_rule_origin: contextvars.ContextVar[Origin | None] = contextvars.ContextVar("rule_origin", default=None)
_layer: contextvars.ContextVar[str] = contextvars.ContextVar("layer", default="")


@contextlib.contextmanager
def gradient_of(node: "Apply") -> Iterator[None]:
    """Nodes built inside belong to the gradient of `node`: they carry its user's line."""
    token = _rule_origin.set(node.origin._replace(gradient_of=node.origin.gradient_of or str(node.op)))
    try:
        yield
    finally:
        _rule_origin.reset(token)


@contextlib.contextmanager
def layer_named(name: str) -> Iterator[None]:
    """Nodes built inside belong to the layer of that name."""
    token = _layer.set(name)
    try:
        yield
    finally:
        _layer.reset(token)


class Observer(threading.local):
    """Who is told of each new node in this thread: `eager` puts itself here."""

    current: Any = None


observer = Observer()


class Op:
    """An operation: its type rule, its meaning and its gradient, together.

    A subclass writes

    - `make_node(*inputs)`: check the inputs, return `Apply(self, inputs, output_types)`;
    - `perform(*arrays)`: the meaning in NumPy; returns an array, or a tuple of arrays for several outputs. It never
      writes to its inputs (unless `destroy_map` says so) and returns no view of them (unless `view_map` says so);
    - `grad(inputs, output_grads)`, or where the outputs are needed `L_op(inputs, outputs, output_grads)`: one answer
      per input, each a Variable (the formula), `grad_undefined(...)`, `grad_not_implemented(...)` or
      `DisconnectedType()()`. Output gradients are always values: an output that the cost doesn't depend on arrives as
      zeros;
    - `connection_pattern(node)` where not every output depends on every input;
    - `infer_shape(node, shapes, values)` where output shapes follow from input shapes.

    Two ops are equal if they are frozen dataclasses of one class with equal fields; else only if they are one object.
    """

    formula: str = ""  # the gradient in mathematical notation: g is the cotangent; "(for x, for y)" with several inputs
    view_map: dict[int, int] = {}  # output -> the input that it may be a view of
    destroy_map: dict[int, int] = {}  # output -> the input that it overwrites
    shape_only_inputs: tuple[int, ...] = ()  # inputs of which nothing but the shape is read
    broadcasts: bool = False  # the gradient terms still need summing over broadcast axes (the engine does it)

    def __call__(self, *inputs: Any) -> Any:
        """Build a node; its output, or the list of outputs if there are several."""
        outputs = self.make_node(*inputs).outputs
        return outputs[0] if len(outputs) == 1 else list(outputs)

    def make_node(self, *inputs: Any) -> "Apply":
        raise NotImplementedError(f"{type(self).__name__} must define make_node(self, *inputs)")

    def perform(self, *inputs: np.ndarray) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define perform(self, *arrays)")

    def grad(self, inputs: Sequence[Variable], output_grads: Sequence[Variable]) -> list[Variable]:
        why = f"{type(self).__name__} defines no gradient rule (grad or L_op)"
        return [grad_not_implemented(self, i, x, why) for i, x in enumerate(inputs)]

    def L_op(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], output_grads: Sequence[Variable]
    ) -> list[Variable]:
        return self.grad(inputs, output_grads)

    def connection_pattern(self, node: "Apply") -> list[list[bool]]:
        """One row per input, one entry per output: does the output depend differentiably on the input?"""
        return [[True] * len(node.outputs) for _ in node.inputs]

    def infer_shape(
        self, node: "Apply", shapes: Sequence[Shape], values: Sequence[np.ndarray | None]
    ) -> Sequence[Shape] | None:
        """Shapes of the outputs from concrete input shapes and those input values that are known before running
        (`values[i]` is None where not). None: only running tells."""
        return None

    def __str__(self) -> str:
        name = type(self).__name__
        if is_dataclass(self):
            shown = ", ".join(f"{f.name}={getattr(self, f.name)}" for f in fields(self) if f.repr)
            return f"{name}{{{shown}}}" if shown else name
        return name


class Apply:
    """One use of an op: its inputs, its outputs, and the user's line that built it. Immutable.

    Attributes:
        origin: the first frame outside the library.
    """

    __slots__ = ("op", "inputs", "outputs", "origin")

    def __init__(
        self,
        op: Op,
        inputs: Sequence[Variable],
        output_types: Sequence[Type],
        origin: Origin | None = None,
    ) -> None:
        self.op = op
        self.inputs = tuple(inputs)
        self.outputs = tuple(Variable(t, self, i) for i, t in enumerate(output_types))
        self.origin = origin or user_line()
        if observer.current is not None:
            observer.current.compute(self)

    def connection_pattern(self) -> list[list[bool]]:
        """The op's pattern, with what can't be differentiated struck out: integers have no neighbourhood."""
        pattern = self.op.connection_pattern(self)
        continuous = [not (isinstance(v.type, TensorType) and v.type.is_discrete) for v in self.outputs]
        return [[bool(c) and d for c, d in zip(row, continuous)] for row in pattern]

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.inputs))})"


def user_line() -> Origin:
    """The nearest caller outside the library, or what `gradient_of` says."""
    given = _rule_origin.get()
    if given is not None:
        return given
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(LIBRARY):
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno, "", _layer.get())
