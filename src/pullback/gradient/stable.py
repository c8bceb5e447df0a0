"""Stable forms: expressions that overflow or cancel on the way, and the function that gives the exact value.

`log(sum(exp(x)))` is `logsumexp(x)` in mathematics, but infinite in floating point from x = 89 (float32) on, and its
gradient, taken op by op, is 0 or NaN there. So gradients go through the stable form from the start, and the same list
serves the rewrites that compute values. It is short, proved against exact arithmetic, and never off.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import log as natural_log
from typing import Any

from ..graph import Apply, Constant, Variable
from ..ops.activation import log_sigmoid, sigmoid, softplus
from ..ops.arithmetic import divide, negative, where
from ..ops.elementwise import BroadcastLike, Elementwise, cast
from ..ops.gradient_views import View
from ..ops.indexing import AdvancedSubtensor, Subtensor
from ..ops.pattern import Cut
from ..ops.reduce import Sum, logsumexp
from ..ops.shape import BroadcastTo, ExpandDims, Reshape, Squeeze, Transpose
from ..ops.softmax import LogSoftmax, SelectLabel, Softmax
from ..ops.transcendental import expm1, log, log1mexp, log1p, logaddexp, tanh

MOVES = (AdvancedSubtensor, BroadcastLike, BroadcastTo, ExpandDims, Reshape, Squeeze, Subtensor, Transpose)
SAME_DEPTH = 8  # how far up two expressions are compared


def stable_form(node: Apply, hidden: Collection[Variable] = ()) -> Variable | None:
    """An expression with the value of the node's only output that is exact where the node's may be lost, or None.

    Nothing above a variable in `hidden` is looked at.
    """
    form = FORMS.get(node.op.row.name) if isinstance(node.op, Elementwise) else None
    if form is None:
        return None
    return form(Match(node.outputs[0], hidden), *node.inputs)


def with_stable_forms(
    order: Sequence[Apply], hidden: Collection[Variable]
) -> tuple[list[Apply], dict[Variable, Variable]]:
    """Nodes in order with each unstable one replaced by the nodes of its stable form; {form: what it stands for}."""
    present = set(order)
    result: list[Apply] = []
    stands_for: dict[Variable, Variable] = {}
    for node in order:
        form = stable_form(node, hidden)
        if form is None:
            result.append(node)
            continue
        if form.owner is None or form.owner in present:  # log(exp(x)) is x: a node of its own receives the cotangent
            form = View()(form)
        fresh: list[Apply] = []
        stack = [form.owner]
        while stack:
            above = stack.pop()
            if above is not None and above not in present:
                fresh.append(above)
                stack += [v.owner for v in above.inputs]
        for above in dict.fromkeys(reversed(fresh)):
            above.origin = node.origin
            result.append(above)
        present.update(fresh)
        stands_for[form] = node.outputs[0]
    return result, stands_for


@dataclass(frozen=True)
class Match:
    """Recognises expressions above the result `out`, without looking above `hidden` variables."""

    out: Variable
    hidden: Collection[Variable]

    def node(self, v: Variable, *ops: type) -> Apply | None:
        return v.owner if v.owner is not None and v not in self.hidden and isinstance(v.owner.op, ops) else None

    def row(self, v: Variable, name: str) -> tuple[Variable, ...] | None:
        """The inputs of `v` if it is the elementwise row `name`."""
        node = self.node(v, Elementwise)
        return node.inputs if node is not None and node.op.row.name == name else None

    def unary(self, v: Variable, name: str) -> Variable | None:
        inputs = self.row(v, name)
        return None if inputs is None else inputs[0]

    def arg(self, v: Variable) -> Variable:
        """`v` in the dtype of the result."""
        return cast(v, self.out.dtype)

    def is_number(self, v: Variable, number: float, beside: Variable) -> bool:
        """Whether `v` is `number`, repeated at most to the shape of `beside` or of what that is made of."""
        like = self.node(v, BroadcastLike)
        if like is not None:
            source = beside.owner.inputs if self.node(beside, Elementwise) else ()
            return like.inputs[1] in (beside, *source) and self.is_number(like.inputs[0], number, beside)
        return isinstance(v, Constant) and v.ndim == 0 and bool(v.data == number)

    def same(self, a: Variable, b: Variable, depth: int = SAME_DEPTH) -> bool:
        """Whether two variables are certainly equal: the same ops on the same leaves."""
        if a is b:
            return True
        if isinstance(a, Constant) and isinstance(b, Constant):
            return a.type == b.type and a.data.tobytes() == b.data.tobytes()
        if depth == 0 or a in self.hidden or b in self.hidden or a.owner is None or b.owner is None:
            return False
        return (
            a.owner.op == b.owner.op
            and a.index == b.index
            and len(a.owner.inputs) == len(b.owner.inputs)
            and all(self.same(x, y, depth - 1) for x, y in zip(a.owner.inputs, b.owner.inputs))
        )

    def plus_one(self, v: Variable) -> Variable | None:
        """x if `v` is 1 + x."""
        for a, b in _both_ways(self.row(v, "add")):
            if self.is_number(a, 1, b):
                return b
        return None

    def one_minus(self, v: Variable) -> Variable | None:
        """x if `v` is 1 - x."""
        a, b = self.row(v, "subtract") or (None, None)
        return b if a is not None and self.is_number(a, 1, b) else None

    def softmax(self, top: Variable, bottom: Variable) -> tuple[Variable, int] | None:
        """(x, axis) if top / bottom is exp(x) / sum(exp(x)) along one axis."""
        x = self.unary(top, "exp")
        if x is None:
            return None
        node = self.node(bottom, Sum)
        if node is not None and (node.op.keepdims or node.op.axis == (0,)):
            total = node
        elif (opened := self.node(bottom, ExpandDims, Subtensor)) is not None:
            total = self.node(opened.inputs[0], Sum)
            if total is None or total.op.keepdims or _new_axes(opened) != total.op.axis:
                return None
        else:
            return None
        if len(total.op.axis) == 1 and self.same(total.inputs[0], top):
            return x, total.op.axis[0]
        return None


def _both_ways(pair: Sequence[Variable] | None) -> Sequence[tuple[Variable, Variable]]:
    return () if pair is None else ((pair[0], pair[1]), (pair[1], pair[0]))


def _new_axes(node: Apply) -> tuple[int, ...] | None:
    """The places at which a node opens axes of length 1, if it does nothing else."""
    if isinstance(node.op, ExpandDims):
        return node.op.axes
    entries = node.op.pattern.entries
    whole = all(e is None or e == Cut() for e in entries)
    return tuple(a for a, e in enumerate(entries) if e is None) if whole else None


# --- the logarithm of an expression -----------------------------------------------------------------------------------


def log_of(m: Match, v: Variable) -> Variable | None:
    """log(v) without passing through a value of `v` that may have under- or overflowed."""
    node = v.owner
    if node is None or v in m.hidden:
        return None
    if isinstance(node.op, MOVES) or (isinstance(node.op, SelectLabel) and node.op.ignore_index is None):
        inner = log_of(m, node.inputs[0])
        return None if inner is None else node.op(inner, *node.inputs[1:])
    if (choice := m.row(v, "where")) is not None:
        forms = [log_of(m, branch) for branch in choice[1:]]
        if forms == [None, None]:
            return None
        return where(choice[0], *(log(m.arg(b)) if f is None else f for f, b in zip(forms, choice[1:])))
    if isinstance(node.op, Sum):
        x = m.unary(node.inputs[0], "exp")
        return None if x is None else logsumexp(m.arg(x), node.op.axis, keepdims=node.op.keepdims)
    if isinstance(node.op, Softmax):
        return LogSoftmax(node.op.axis)(m.arg(node.inputs[0]))
    if (x := m.unary(v, "exp")) is not None:
        return m.arg(x)
    if (x := m.unary(v, "sigmoid")) is not None:
        return log_sigmoid(m.arg(x))
    if (x := m.one_minus(v)) is not None:
        return log_of_one_minus(m, x)
    if (x := m.plus_one(v)) is not None:
        return log_of_one_plus(m, x)
    if (pair := m.row(v, "add")) is not None:
        a, b = (m.unary(term, "exp") for term in pair)
        return None if a is None or b is None else logaddexp(m.arg(a), m.arg(b))
    if (x := m.unary(v, "negative")) is not None and (x := m.unary(x, "expm1")) is not None:
        return log1mexp(m.arg(x))
    form = stable_form(node, m.hidden)
    return None if form is None else log_of(m, form)


def log_of_one_plus(m: Match, x: Variable) -> Variable:
    """log(1 + x)."""
    if (a := m.unary(x, "exp")) is not None:
        return softplus(m.arg(a))
    if (a := m.unary(x, "negative")) is not None:
        return log_of_one_minus(m, a)
    return log1p(m.arg(x))


def log_of_one_minus(m: Match, x: Variable) -> Variable:
    """log(1 - x)."""
    if (a := m.unary(x, "sigmoid")) is not None:
        return log_sigmoid(negative(m.arg(a)))
    if (a := m.unary(x, "exp")) is not None:
        return log1mexp(m.arg(a))
    return log1p(negative(m.arg(x)))


def _log(m: Match, v: Variable) -> Variable | None:
    return log_of(m, v)


def _log_to_base(base: float) -> Callable[[Match, Variable], Variable | None]:
    def form(m: Match, v: Variable) -> Variable | None:
        found = log_of(m, v)
        return None if found is None else divide(found, natural_log(base))

    return form


def _log1p(m: Match, v: Variable) -> Variable | None:
    if m.unary(v, "exp") is None and m.unary(v, "negative") is None:
        return None
    form = log_of_one_plus(m, v)
    return None if form.owner.op is log1p else form


# --- sigmoid, tanh, softmax, expm1 ------------------------------------------------------------------------------------


def _reciprocal(m: Match, v: Variable) -> Variable | None:
    """1 / (1 + exp(x)) = sigmoid(-x)."""
    power = m.plus_one(v)
    x = None if power is None else m.unary(power, "exp")
    return None if x is None else sigmoid(_minus(m, x))


def _minus(m: Match, x: Variable) -> Variable:
    inner = m.unary(x, "negative")
    return negative(m.arg(x)) if inner is None else m.arg(inner)


def _divide(m: Match, top: Variable, bottom: Variable) -> Variable | None:
    if m.is_number(top, 1, bottom):
        return _reciprocal(m, bottom)
    if (found := m.softmax(top, bottom)) is not None:
        x, axis = found
        return Softmax(axis)(m.arg(x))
    x = m.unary(top, "exp")
    if x is not None and (power := m.plus_one(bottom)) is not None and m.same(power, top):
        return sigmoid(m.arg(x))
    up, down = m.row(top, "subtract"), m.row(bottom, "add")
    if up is not None and down is not None and all(map(m.same, up, down)):
        a, b = (m.unary(term, "exp") for term in up)
        if a is not None and b is not None and m.row(b, "negative") and m.same(m.unary(b, "negative"), a):
            return tanh(m.arg(a))
    return None


def _subtract(m: Match, a: Variable, b: Variable) -> Variable | None:
    if (x := m.unary(a, "exp")) is not None and m.is_number(b, 1, a):
        return expm1(m.arg(x))
    if (x := m.unary(b, "exp")) is not None and m.is_number(a, 1, b):
        return negative(expm1(m.arg(x)))
    return None


def _add(m: Match, a: Variable, b: Variable) -> Variable | None:
    for x, one in ((a, b), (b, a)):
        if m.is_number(one, -1, x) and (inner := m.unary(x, "exp")) is not None:
            return expm1(m.arg(inner))
        if m.is_number(one, 1, x) and (inner := m.unary(x, "negative")) is not None:
            return _subtract(m, one, inner)
    return None


FORMS: dict[str, Callable[..., Any]] = {
    "add": _add, "divide": _divide, "log": _log, "log10": _log_to_base(10), "log1p": _log1p, "log2": _log_to_base(2),
    "reciprocal": _reciprocal, "subtract": _subtract,
}  # fmt: skip
