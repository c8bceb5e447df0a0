"""Elementwise operations: each is one row (name, NumPy function, native formula, gradient rule, kinks)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, ShapeError
from ..graph import (
    Apply,
    Constant,
    DisconnectedType,
    Op,
    TensorType,
    Variable,
    as_variable,
    grad_not_implemented,
    grad_undefined,
)
from .dtypes import as_tensors, float_dtype, meeting_dtype, result_dtype

ROWS: dict[str, "Row"] = {}


@dataclass(frozen=True)
class Kink:
    """A point where the derivative does not exist: the set of legal values and our choice."""

    where: str
    legal: str
    choice: str


@dataclass(frozen=True)
class Undefined:
    """A row's answer: mathematically undefined, and why."""

    why: str


@dataclass(frozen=True)
class NotImplementedYet:
    """A row's answer: the derivative exists, but is not written here."""

    why: str


class Disconnected:
    """A row's answer: not a function of this input."""


class LocallyConstant:
    """A row's answer: the derivative is zero wherever it exists."""


@dataclass(frozen=True, eq=False)
class Row:
    """One elementwise operation.

    Attributes:
        name: its public name.
        numpy: its meaning on arrays.
        native: its formula in the kernel language over x, y, z (its inputs in order), or None to run `numpy`.
        grad: `(g, out, *inputs) -> terms`: per input the pulled-back cotangent (before summing over broadcast axes), or
            one of the answers `Undefined(why)`, `NotImplementedYet(why)`, `Disconnected()`, `LocallyConstant()`.
        result: "float" (integers become config.floatX), "same" (the dtype the inputs meet in), "modulus" (the same, but
            real for complex numbers), "bool", or the name of a dtype.
        formula: the derivative in mathematical notation, for the docs.
        kinks: where the derivative does not exist.
        domain: per input the interval from which tests draw.
    """

    name: str
    arity: int
    numpy: Callable[..., Any]
    native: str | None
    grad: Callable[..., Sequence[Any]]
    result: str = "float"
    formula: str = ""
    kinks: tuple[Kink, ...] = ()
    domain: tuple[tuple[float, float], ...] = ()
    doc: str = ""

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple:
        return row_named, (self.name,)


def row_named(name: str) -> Row:
    """The row of that name: what pickle keeps of a row."""
    return ROWS[name]


@dataclass(frozen=True, repr=False)
class Elementwise(Op):
    """A row applied element by element, with broadcasting decided at run time."""

    row: Row
    broadcasts = True

    def __call__(self, *inputs: Any) -> Variable:
        return self.make_node(*inputs).outputs[0]

    def make_node(self, *inputs: Any) -> Apply:
        if len(inputs) != self.row.arity:
            raise ArgumentTypeError(f"{self.row.name} takes {self.row.arity} inputs, got {len(inputs)}")
        variables = self.convert(inputs)
        dtype = self.output_dtype([v.dtype for v in variables])
        return Apply(self, variables, [TensorType(dtype, broadcast_static(self.row.name, variables))])

    def convert(self, inputs: Sequence[Any]) -> list[Variable]:
        if self.row is ROWS.get("where"):  # the condition takes no part in promotion
            condition = as_variable(inputs[0])
            if condition.dtype != "bool":
                condition = not_equal(condition, 0)
            return [condition, *as_tensors(inputs[1:])]
        dtype = result_dtype([x if hasattr(x, "dtype") or isinstance(x, (bool, int, float, complex)) else as_variable(x)
                              for x in inputs])  # fmt: skip
        if self.row.result != "float":
            return as_tensors(inputs, dtype)
        dtype = float_dtype(dtype)
        return [cast(v, dtype) if v.type.is_discrete else v for v in as_tensors(inputs, dtype)]

    def compute_dtype(self, dtypes: Sequence[str]) -> str:
        """The dtype in which the inputs meet before the formula is applied."""
        operands = dtypes[1:] if self.row.name == "where" else dtypes
        return meeting_dtype(tuple(operands))

    def output_dtype(self, dtypes: Sequence[str]) -> str:
        if self.row.result == "modulus":
            return {"complex64": "float32", "complex128": "float64"}.get(dtypes[0], dtypes[0])
        return self.compute_dtype(dtypes) if self.row.result in ("float", "same") else self.row.result

    def perform(self, *inputs: np.ndarray) -> np.ndarray:
        dtypes = [x.dtype.name for x in inputs]
        meet = self.compute_dtype(dtypes)
        masks = 1 if self.row.name == "where" else 0
        operands = [*inputs[:masks], *(x.astype(meet, copy=False) for x in inputs[masks:])]
        with np.errstate(all="ignore"):
            out = np.asarray(self.row.numpy(*operands))
        return out.astype(self.output_dtype(dtypes), copy=any(out is x for x in inputs))

    def L_op(self, inputs, outputs, output_grads):
        answers = self.row.grad(output_grads[0], outputs[0], *inputs)
        return [self._answer(i, x, answer) for i, (x, answer) in enumerate(zip(inputs, answers, strict=True))]

    def _answer(self, i: int, x: Variable, answer: Any) -> Variable:
        match answer:
            case Undefined():
                return grad_undefined(self, i, x, answer.why)
            case NotImplementedYet():
                return grad_not_implemented(self, i, x, answer.why)
            case Disconnected():
                return DisconnectedType()()
            case LocallyConstant():
                return zeros_like(x)
        return answer

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[not (self.row.name == "where" and i == 0)] for i in range(len(node.inputs))]

    def infer_shape(self, node, shapes, values):
        try:
            return [np.broadcast_shapes(*shapes)]
        except ValueError:
            listed = ", ".join(map(str, shapes))
            raise ShapeError(f"{self.row.name}: shapes {listed} don't broadcast together") from None

    def __str__(self) -> str:
        return self.row.name

    def __repr__(self) -> str:
        return self.row.name


@dataclass(frozen=True)
class Cast(Op):
    """The same numbers in another dtype; discrete targets disconnect (an integer has no neighbourhood)."""

    dtype: str

    formula = "g, cast back"

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType(self.dtype, x.type.shape)])

    def perform(self, x):
        with np.errstate(all="ignore"):
            return x.astype(self.dtype)

    def grad(self, inputs, output_grads):
        return [cast(output_grads[0], float_dtype(inputs[0].dtype))]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]

    def __str__(self) -> str:
        return f"cast[{self.dtype}]"


def cast(x: Any, dtype: Any) -> Variable:
    """`x` in another dtype, as `astype` does. Its gradient is cast back; there is none through an integer."""
    x = as_variable(x)
    name = TensorType(dtype, ()).dtype
    return x if x.dtype == name else Cast(name)(x)


def define(
    name: str,
    numpy: Callable[..., Any],
    native: str | None,
    grad: Callable[..., Sequence[Any]],
    doc: str,
    *,
    arity: int = 1,
    **fields: Any,
) -> Elementwise:
    """Add a row to the table; the op made from it is the public function."""
    row = ROWS[name] = Row(name, arity, numpy, native, grad, doc=doc, **fields)
    op = Elementwise(row)
    kinks = "".join(f"\n\nAt {k.where} the derivative may be {k.legal}; here it is {k.choice}." for k in row.kinks)
    formula = f"\n\nGradient: {row.formula}." if row.formula else ""
    object.__setattr__(op, "__doc__", doc + formula + kinks)
    object.__setattr__(op, "__name__", name)
    return op


def broadcast_static(name: str, variables: Sequence[Variable]) -> tuple[int | None, ...]:
    """The static shape that `variables` broadcast to; lengths that can't match are refused now."""
    ndim = max((v.ndim for v in variables), default=0)
    shape: list[int | None] = []
    for axis in range(-ndim, 0):
        lengths = [v.type.shape[axis] for v in variables if v.ndim >= -axis]
        known = {n for n in lengths if n is not None and n != 1}
        if len(known) > 1:
            shapes = ", ".join(str(v.type.shape).replace("None", "?") for v in variables)
            raise ShapeError(f"{name}: shapes {shapes} don't broadcast together")
        # an unknown length beside 1s may be anything; beside a known n it must be n or 1, so the result is n
        shape.append(known.pop() if known else None if None in lengths else 1)
    return tuple(shape)


# --- what every rule below and elsewhere leans on ---------------------------------------------------------------------


@dataclass(frozen=True)
class BroadcastLike(Op):
    """`x` repeated to the shape of `like`. Its gradient sums back; of `like` only the shape is read."""

    formula = "(g summed over the repeated axes, disconnected)"
    view_map = {0: 0}
    shape_only_inputs = (1,)

    def make_node(self, x: Any, like: Any) -> Apply:
        x, like = as_variable(x), as_variable(like)
        return Apply(self, [x, like], [TensorType(x.dtype, like.type.shape)])

    def perform(self, x, like):
        return np.broadcast_to(x, like.shape)

    def grad(self, inputs, output_grads):
        return [sum_to(output_grads[0], inputs[0]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        try:
            if np.broadcast_shapes(*shapes) == tuple(shapes[1]):
                return [shapes[1]]
        except ValueError:
            pass
        raise ShapeError(f"shape {shapes[0]} can't be broadcast to {shapes[1]}")


@dataclass(frozen=True)
class SumTo(Op):
    """`g` summed over the axes along which something of the shape of `like` was broadcast: broadcasting's adjoint."""

    formula = "(g repeated, disconnected)"
    shape_only_inputs = (1,)
    view_map = {0: 0}

    def make_node(self, g: Any, like: Any) -> Apply:
        g, like = as_variable(g), as_variable(like)
        return Apply(self, [g, like], [TensorType(g.dtype, like.type.shape)])

    def perform(self, g, like):
        if g.shape == like.shape:
            return g
        lead = g.ndim - like.ndim
        axes = tuple(range(lead)) + tuple(
            lead + a for a, n in enumerate(like.shape) if n == 1 and g.shape[lead + a] != 1
        )
        wide = "float32" if g.dtype == np.float16 else g.dtype
        return np.add.reduce(g, axis=axes, dtype=wide).reshape(like.shape).astype(g.dtype, copy=False)

    def grad(self, inputs, output_grads):
        return [BroadcastLike()(output_grads[0], inputs[0]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[1]]


def sum_to(g: Variable, like: Variable) -> Variable:
    """`g` summed to the shape of `like`; `g` itself where static shapes prove that nothing was broadcast."""
    if g.ndim == like.ndim and (g.ndim == 0 or (g.type.shape == like.type.shape and None not in g.type.shape)):
        return g
    return SumTo()(g, like)


def broadcast_like(x: Any, like: Variable) -> Variable:
    """`x` repeated to the shape of `like`."""
    return BroadcastLike()(x, like)


def full_like(x: Any, value: Any, dtype: str | None = None) -> Variable:
    """An array of the shape of `x` (and its dtype, unless given) filled with `value`."""
    x = as_variable(x)
    filler = Constant(np.asarray(value, dtype or x.dtype))
    return filler if x.ndim == 0 else BroadcastLike()(filler, x)


def zeros_like(x: Any, dtype: str | None = None) -> Variable:
    """Zeros of the shape and dtype of `x`."""
    return full_like(x, 0, dtype)


def ones_like(x: Any, dtype: str | None = None) -> Variable:
    """Ones of the shape and dtype of `x`."""
    return full_like(x, 1, dtype)


def _never_equal(g: Variable, out: Variable, *inputs: Variable) -> list[Any]:
    return [Disconnected() for _ in inputs]


not_equal = define(
    "not_equal", np.not_equal, "x != y", _never_equal, "Whether x and y differ, element by element.",
    arity=2, result="bool",
)  # fmt: skip

strong_mul = define(
    "strong_mul",
    lambda g, d: np.where(g == 0, np.zeros((), g.dtype), g * d),
    "0.0 if x == 0.0 else x * y",
    lambda G, out, g, d: [strong_mul(G, d), strong_mul(G, g)],
    "g * d, and zero wherever g is zero, even if d is infinite or NaN. Gradient rules multiply a cotangent g by a "
    "local derivative d with it, so that what the cost doesn't depend on can't poison it.",
    arity=2,
    result="same",
    formula="again strong_mul in both arguments",
)
