"""Canonical forms: rewrites that keep value, NaN set, shape and dtype, and leave fewer steps.

Whether something is NaN is part of the value: x - x stays, and x * 0 is 0 only where x can be neither infinite nor NaN.
The sign of a zero is not (0 and -0 are equal): x + 0 is x.
"""

import numpy as np

from ..graph import Apply, Constant, Variable, rebuild
from ..ops.arithmetic import add, multiply, negative, reciprocal, sqrt, square, subtract, where
from ..ops.elementwise import BroadcastLike, Cast, Elementwise, SumTo, broadcast_like, cast
from ..ops.extremes import Max, Min
from ..ops.gradient_views import View
from ..ops.reduce import Sum
from ..ops.shape import BroadcastTo, Concatenate, ExpandDims, Length, Reshape, Shape, Squeeze, Transpose
from .driver import Facts, RuleSet

ordinary = RuleSet("ordinary")
NEVER_NEGATIVE = {
    "abs", "cosh", "erfc", "exp", "exp2", "hypot", "logical_and", "logical_not", "logical_or", "relu", "sigmoid",
    "softplus", "sqrt", "square",
}  # fmt: skip
KEEP_SIGN = {"add", "divide", "maximum", "minimum", "multiply"}  # never negative if no operand is
LOOK_UP = 6  # how far up a sign is sought
KEEP_NUMBERS = (BroadcastLike, BroadcastTo, ExpandDims, Reshape, Squeeze, Sum, Transpose)


def op_of(v: Variable, *ops: type) -> Apply | None:
    """The node that computes `v`, if it is one of `ops`."""
    return v.owner if v.owner is not None and isinstance(v.owner.op, ops) else None


def row_of(v: Variable, name: str) -> tuple[Variable, ...] | None:
    """The inputs of the elementwise row `name`, if that computes `v`."""
    node = op_of(v, Elementwise)
    return node.inputs if node is not None and node.op.row.name == name else None


def in_place_of(node: Apply, x: Variable, facts: Facts) -> Variable | None:
    """`x` in the dtype of the node's output, if it certainly has its shape."""
    out = node.outputs[0]
    return cast(x, out.dtype) if facts.same(x, out) else None


def filled(node: Apply, number: float, facts: Facts) -> Variable | None:
    """`number` in the shape and dtype of the node's output, if one of its inputs has that shape."""
    out = node.outputs[0]
    filler = Constant(np.asarray(number, out.dtype))
    if out.ndim == 0:
        return filler
    like = next((x for x in node.inputs if facts.same(x, out)), None)
    return None if like is None else broadcast_like(filler, like)


# --- arithmetic -------------------------------------------------------------------------------------------------------


@ordinary.on("add")
def simpler_sum(node: Apply, facts: Facts) -> Variable | None:
    """x + 0 = x; x + (-y) = x - y."""
    for x, y in (node.inputs, node.inputs[::-1]):
        if facts.is_fill(y, 0):
            return in_place_of(node, x, facts)
        opposite = row_of(y, "negative")
        if opposite is not None and opposite[0].type.is_float:
            return subtract(x, opposite[0])
    return None


@ordinary.on("subtract")
def simpler_difference(node: Apply, facts: Facts) -> Variable | None:
    """x - 0 = x; x - (-y) = x + y."""
    x, y = node.inputs
    if facts.is_fill(y, 0):
        return in_place_of(node, x, facts)
    opposite = row_of(y, "negative")
    return add(x, opposite[0]) if opposite is not None and opposite[0].type.is_float else None


@ordinary.on("multiply", "strong_mul", "divide")
def simpler_product(node: Apply, facts: Facts) -> Variable | None:
    """x * 1 = x / 1 = x; x * -1 = -x."""
    name = node.op.row.name
    for x, y in (node.inputs,) if name == "divide" else (node.inputs, node.inputs[::-1]):
        if facts.is_fill(y, 1):
            return in_place_of(node, x, facts)
        if facts.is_fill(y, -1) and facts.same(x, node.outputs[0]) and node.outputs[0].type.is_float:
            return negative(cast(x, node.outputs[0].dtype))
    return None


@ordinary.on("multiply")
def zero_product(node: Apply, facts: Facts) -> Variable | None:
    """x * 0 = 0 for x that is neither infinite nor NaN."""
    for x, y in (node.inputs, node.inputs[::-1]):
        if facts.is_fill(y, 0) and is_finite(x):
            return filled(node, 0, facts)
    return None


@ordinary.on("strong_mul")
def strong_zero(node: Apply, facts: Facts) -> Variable | None:
    """A zero cotangent gives zero whatever the derivative is."""
    return filled(node, 0, facts) if facts.is_fill(node.inputs[0], 0) else None


def is_finite(v: Variable) -> bool:
    source = op_of(v, Cast)
    return (v if source is None else source.inputs[0]).type.is_discrete


@ordinary.on("negative")
def simpler_negative(node: Apply, facts: Facts) -> Variable | None:
    """-(-x) = x."""
    inner = row_of(node.inputs[0], "negative")
    return None if inner is None else inner[0]


@ordinary.on("square", "abs")
def sign_lost(node: Apply, facts: Facts) -> Variable | None:
    """|-x| = ||x|| = |x|; (-x)^2 = |x|^2 = x^2."""
    for name in ("negative", "abs"):
        inner = row_of(node.inputs[0], name)
        if inner is not None and inner[0].dtype.startswith(("float", "int")):
            return node.op(inner[0])
    return None


@ordinary.on("power")
def power_by_products(node: Apply, facts: Facts) -> Variable | None:
    """Small whole powers as products; the square root where the base can't be negative (for -inf they differ)."""
    x, out = node.inputs[0], node.outputs[0]
    exponent = facts.fill(node.inputs[1])
    if exponent is None or not facts.same(x, out):
        return None
    x = cast(x, out.dtype)
    if exponent == 0:
        return filled(node, 1, facts)
    if exponent == 1:
        return x
    if exponent == 2:
        return square(x)
    if exponent == 3:
        return multiply(x, square(x))
    if exponent == 4:
        return square(square(x))
    if out.type.is_float and exponent == -1:
        return reciprocal(x)
    if out.type.is_float and exponent == -2:
        return square(reciprocal(x))
    if exponent == 0.5 and never_negative(x):
        return sqrt(x)
    return None


def never_negative(v: Variable, depth: int = LOOK_UP) -> bool:
    """Whether no element of `v` is below zero (it may be NaN)."""
    if isinstance(v, Constant):
        return not (v.data < 0).any()
    if not v.type.is_float:  # integers overflow
        return v.dtype.startswith(("bool", "uint"))
    if v.owner is None or depth == 0:
        return False
    op, inputs = v.owner.op, v.owner.inputs
    if isinstance(op, Elementwise):
        name = op.row.name
        if name == "multiply" and inputs[0] is inputs[1]:
            return True
        return name in NEVER_NEGATIVE or (name in KEEP_SIGN and all(never_negative(x, depth - 1) for x in inputs))
    return isinstance(op, (Cast, *KEEP_NUMBERS)) and never_negative(inputs[0], depth - 1)


# --- choice and logic -------------------------------------------------------------------------------------------------


@ordinary.on("where")
def simpler_choice(node: Apply, facts: Facts) -> Variable | None:
    """A known condition takes its branch; equal branches need no condition; not, and the same condition again, go."""
    condition, x, y = node.inputs
    known = facts.fill(condition)
    if known is not None:
        return in_place_of(node, x if known else y, facts)
    if x is y:
        return in_place_of(node, x, facts)
    if (inner := row_of(condition, "logical_not")) is not None and inner[0].dtype == "bool":
        return where(inner[0], y, x)
    again = row_of(x, "where"), row_of(y, "where")
    if again[0] is not None and again[0][0] is condition and again[0][1].dtype == x.dtype:
        return _same_shape(node, where(condition, again[0][1], y), facts)
    if again[1] is not None and again[1][0] is condition and again[1][2].dtype == y.dtype:
        return _same_shape(node, where(condition, x, again[1][2]), facts)
    return None


def _same_shape(node: Apply, new: Variable, facts: Facts) -> Variable | None:
    return new if new.dtype == node.outputs[0].dtype and facts.same(new, node.outputs[0]) else None


@ordinary.on("logical_not")
def double_not(node: Apply, facts: Facts) -> Variable | None:
    inner = row_of(node.inputs[0], "logical_not")
    return inner[0] if inner is not None and inner[0].dtype == "bool" else None


# --- casts ------------------------------------------------------------------------------------------------------------


@ordinary.on(Cast)
def shorter_cast(node: Apply, facts: Facts) -> Variable | None:
    """A cast to the same dtype goes; of two, the first goes if it loses nothing; numbers are cast before repeating."""
    x = node.inputs[0]
    if x.dtype == node.op.dtype:
        return x
    if (first := op_of(x, Cast)) is not None and loses_nothing(first.inputs[0].dtype, x.dtype):
        return cast(first.inputs[0], node.op.dtype)
    if (repeat := op_of(x, BroadcastLike)) is not None:
        return broadcast_like(cast(repeat.inputs[0], node.op.dtype), repeat.inputs[1])
    return None


def loses_nothing(source: str, target: str) -> bool:
    """Whether every number of dtype `source` is one of dtype `target`."""
    a, b = np.dtype(source), np.dtype(target)
    if a.kind in "iu" and b.kind in "fc":
        return 8 * a.itemsize <= np.finfo(b).nmant + 1
    return np.can_cast(a, b, "safe")


# --- broadcasting -----------------------------------------------------------------------------------------------------


@ordinary.on(BroadcastLike)
def needless_repeat(node: Apply, facts: Facts) -> Variable | None:
    x, like = node.inputs
    if facts.same(x, like):
        return x
    inner = op_of(x, BroadcastLike)
    return broadcast_like(inner.inputs[0], like) if inner is not None else None


@ordinary.on(SumTo)
def needless_sum(node: Apply, facts: Facts) -> Variable | None:
    """Nothing was broadcast; or it was twice; or what is summed is one number repeated."""
    g, like = node.inputs
    if facts.same(g, like):
        return g
    if facts.is_fill(g, 0):
        return broadcast_like(Constant(np.zeros((), g.dtype)), like)
    if (inner := op_of(g, SumTo)) is not None:
        return SumTo()(inner.inputs[0], like)
    repeat = op_of(g, BroadcastLike)
    if repeat is not None and facts.same(repeat.inputs[0], like):
        product = times(repeat.inputs[0], facts.dims(g), facts.dims(like))
        if product is not None:
            return product
    return decided_sum(g, facts.dims(g), facts.dims(like))


def decided_sum(g: Variable, lengths: tuple, kept: tuple) -> Variable | None:
    """The sum of `g` (of `lengths`) down to lengths `kept` as a plain Sum, if it is known which axes were broadcast."""
    lead = len(lengths) - len(kept)
    ones = [lead + a for a, n in enumerate(kept) if n == 1 and lengths[lead + a] != 1]
    if any(n != 1 and n != lengths[lead + a] for a, n in enumerate(kept)):
        return None
    total = Sum((*range(lead), *ones))(g)
    return ExpandDims(tuple(a - lead for a in ones))(total) if ones else total


@ordinary.on(Sum)
def simpler_total(node: Apply, facts: Facts) -> Variable | None:
    """The sum of one number repeated is a product; over axes of length 1 nothing is summed."""
    x, op = node.inputs[0], node.op
    lengths = facts.dims(x)
    if all(lengths[a] == 1 for a in op.axis):
        x = cast(x, node.outputs[0].dtype)
        return x if op.keepdims or not op.axis else Squeeze(op.axis)(x)
    repeat = op_of(x, BroadcastLike)
    if repeat is not None and repeat.inputs[0].ndim == 0 and set(op.axis) == set(range(x.ndim)) and not op.keepdims:
        return times(cast(repeat.inputs[0], node.outputs[0].dtype), lengths, ())
    return None


def times(x: Variable, repeated: tuple, kept: tuple) -> Variable | None:
    """The sum of the copies of `x` (of lengths `kept`) in an array of lengths `repeated`, if their number is known."""
    lead = len(repeated) - len(kept)
    counts = [n for a, n in enumerate(repeated) if a < lead or kept[a - lead] != n]
    if any(not isinstance(n, int) for n in counts):
        return None
    count = int(np.prod(counts, dtype=np.int64))
    return multiply(x, count) if count and (x.dtype != "float16" or count < 1024) else None


@ordinary.on(Max, Min)
def extreme_over_one(node: Apply, facts: Facts) -> Variable | None:
    """The extreme over axes of length 1 is what is there."""
    x, op = node.inputs[0], node.op
    if any(facts.dims(x)[a] != 1 for a in op.axis):
        return None
    return x if op.keepdims or not op.axis else Squeeze(op.axis)(x)


@ordinary.on("elementwise")
def unrepeated_operands(node: Apply, facts: Facts) -> Variable | None:
    """Broadcasting repeats operands anyway: f(repeat(x), y) = f(x, y), and f(repeat(x)) = repeat(f(x))."""
    repeats = [op_of(v, BroadcastLike, BroadcastTo) for v in node.inputs]
    if not any(repeats):
        return None
    out = facts.dims(node.outputs[0])
    inputs = list(node.inputs)
    for i, repeat in enumerate(repeats):
        if repeat is not None:
            shorter = [*inputs[:i], repeat.inputs[0], *inputs[i + 1 :]]
            if facts.broadcast(shorter) == out:
                inputs = shorter
    if inputs != list(node.inputs):
        return rebuild(node, inputs).outputs[0]
    likes = [r.inputs[1] for r in repeats if r is not None and isinstance(r.op, BroadcastLike)]
    like = next((v for v in likes if facts.dims(v) == out), None)
    if like is None or any(r is None and v.ndim and facts.dims(v) == out for r, v in zip(repeats, node.inputs)):
        return None
    sources = [v if r is None or not isinstance(r.op, BroadcastLike) else r.inputs[0] for r, v in zip(repeats, inputs)]
    return None if facts.broadcast(sources) == out else broadcast_like(rebuild(node, sources).outputs[0], like)


# --- shapes -----------------------------------------------------------------------------------------------------------


@ordinary.on("any")
def shape_of_an_earlier(node: Apply, facts: Facts) -> list[Variable] | None:
    """Inputs of which only the shape is read are replaced by leaves, or by ancestors, that have it."""
    if not node.op.shape_only_inputs:
        return None
    inputs = list(node.inputs)
    for i in node.op.shape_only_inputs:
        inputs[i] = facts.representative(inputs[i])
    return None if inputs == list(node.inputs) else list(rebuild(node, inputs).outputs)


@ordinary.on(Length)
def known_length(node: Apply, facts: Facts) -> Variable | None:
    n = facts.dims(node.inputs[0])[node.op.axis]
    if isinstance(n, int):
        return Constant(np.int64(n))
    found = facts.leaf_of_length(n)
    if found is None or found == (node.inputs[0], node.op.axis):
        return None
    return Length(found[1])(found[0])


@ordinary.on(Shape)
def known_shape(node: Apply, facts: Facts) -> Variable | None:
    lengths = facts.dims(node.inputs[0])
    return Constant(np.array(lengths, np.int64)) if all(isinstance(n, int) for n in lengths) else None


@ordinary.on(Reshape)
def shorter_reshape(node: Apply, facts: Facts) -> Variable | None:
    """A reshape to the same shape goes; of two the first goes."""
    x = node.inputs[0]
    if facts.same(x, node.outputs[0]):
        return x
    inner = op_of(x, Reshape, ExpandDims, Squeeze)
    return node.op(inner.inputs[0], *node.inputs[1:]) if inner is not None and cannot_fail(inner, facts) else None


def cannot_fail(node: Apply, facts: Facts) -> bool:
    """Whether the node would raise no error that must be kept: axes that it squeezes certainly have length 1."""
    lengths = facts.dims(node.inputs[0])
    return not isinstance(node.op, Squeeze) or all(lengths[a] == 1 for a in node.op.axes)


@ordinary.on(Transpose)
def shorter_transpose(node: Apply, facts: Facts) -> Variable | None:
    x, axes = node.inputs[0], node.op.axes
    if axes == tuple(range(len(axes))):
        return x
    inner = op_of(x, Transpose)
    return Transpose(tuple(inner.op.axes[a] for a in axes))(inner.inputs[0]) if inner is not None else None


@ordinary.on(Squeeze, ExpandDims)
def opened_and_closed(node: Apply, facts: Facts) -> Variable | None:
    """An axis opened and closed again (or the reverse) was never there."""
    other = ExpandDims if isinstance(node.op, Squeeze) else Squeeze
    inner = op_of(node.inputs[0], other)
    found = inner is not None and inner.op.axes == node.op.axes and cannot_fail(inner, facts)
    return inner.inputs[0] if found else None


@ordinary.on(BroadcastTo)
def needless_broadcast(node: Apply, facts: Facts) -> Variable | None:
    return node.inputs[0] if facts.same(node.inputs[0], node.outputs[0]) else None


@ordinary.on(Concatenate)
def single_part(node: Apply, facts: Facts) -> Variable | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


@ordinary.on("any")
def only_a_gradient(node: Apply, facts: Facts) -> Variable | None:
    """What a view does to gradients has been done when the graph is rewritten."""
    return node.inputs[0] if isinstance(node.op, View) else None
