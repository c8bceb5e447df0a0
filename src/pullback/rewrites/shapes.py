"""What can be proved about shapes before any is known: lengths as integers or symbols, and which are equal."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..graph import Apply, Constant, TensorType, Variable
from ..ops.elementwise import BroadcastLike, Elementwise
from ..ops.indexing import Part
from ..ops.linear import MatMul
from ..ops.pattern import ARRAY, Cut, Slot, cut_length
from ..ops.reduce import Reduction
from ..ops.shape import BroadcastTo, Concatenate, Length, Reshape, Shape, Squeeze


class Symbol:
    """A length that only running tells. Equal symbols are equal lengths; of different ones nothing is known."""

    __slots__ = ("parent", "parts")

    def __init__(self, parts: "frozenset[Symbol]" = frozenset()) -> None:
        self.parent: Dim | None = None  # what it was found to be equal to
        self.parts = parts  # the lengths that broadcast to it


Dim = int | Symbol
Dims = tuple[Dim, ...]  # in the answers of rules, None stands for a length of which nothing is known


class Undecided(Exception):
    """A shape rule asked something of an unknown length that can't be answered now."""


class Unknown:
    """A symbol as an op's `infer_shape` sees it: it can be passed on, and refuses every question but identity."""

    __slots__ = ("symbol",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, symbol: Symbol) -> None:
        self.symbol = symbol

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Unknown) and other.symbol is self.symbol:
            return True
        raise Undecided

    def _refuse(self, *_: Any) -> Any:
        raise Undecided

    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse


class ShapeFacts:
    """Shapes of variables as tuples of integers and symbols, each computed once, when first asked for."""

    def __init__(self) -> None:
        self._dims: dict[Variable, Dims] = {}
        self._values: dict[Variable, Dim] = {}
        self._broadcasts: dict[frozenset[Symbol], Symbol] = {}
        self._cuts: dict[tuple[Symbol, Cut], Symbol] = {}
        self._representatives: dict[Variable, Variable] = {}
        self._leaves: dict[tuple[Dims, str], Variable] = {}
        self._leaf_axes: dict[Symbol, tuple[Variable, int]] = {}

    # --- questions ----------------------------------------------------------------------------------------------------
    def dims(self, v: Variable) -> Dims:
        """The shape of `v`; symbols known to be equal are one and the same."""
        if v not in self._dims:
            self._compute(v)
        return tuple([self._root(n) for n in self._dims[v]])

    def same(self, *variables: Variable) -> bool:
        """Whether all certainly have one shape."""
        first = self.dims(variables[0])
        return all(self.dims(v) == first for v in variables[1:])

    def broadcast(self, variables: Sequence[Variable]) -> Dims:
        """The shape that `variables` broadcast to."""
        shapes = [self.dims(v) for v in variables]
        ndim = max(map(len, shapes))
        return tuple(self._meet([s[a] for s in shapes if len(s) >= -a]) for a in range(-ndim, 0))

    def value(self, v: Variable) -> Dim:
        """The value of an integer scalar, as a length."""
        if v not in self._values:
            if isinstance(v, Constant):
                self._values[v] = int(v.data)
            elif v.owner is not None and isinstance(v.owner.op, Length):
                self._values[v] = self.dims(v.owner.inputs[0])[v.owner.op.axis]
            else:
                self._values[v] = Symbol()
        return self._root(self._values[v])

    def representative(self, v: Variable) -> Variable:
        """A leaf or an ancestor of `v` that certainly has its shape and dtype, if there is one, else `v`."""
        climbed = []
        while v not in self._representatives:
            climbed.append(v)
            inputs = v.owner.inputs if v.owner is not None else ()
            above = next((x for x in inputs if x.type.dtype == v.type.dtype and self.same(x, v)), None)
            if above is None:
                self._representatives[v] = self._leaves.get((self.dims(v), v.type.dtype), v)
            else:
                v = above
        found = self._representatives[v]
        self._representatives.update(dict.fromkeys(climbed, found))
        return found

    def leaf_of_length(self, n: Symbol) -> tuple[Variable, int] | None:
        """A leaf and an axis of it that has the length `n`."""
        return self._leaf_axes.get(n)

    # --- what is told -------------------------------------------------------------------------------------------------
    def assume(self, v: Variable, shape: Sequence[int]) -> None:
        """Take `shape` as the shape of the leaf `v`."""
        self._dims[v] = tuple(shape)

    def note_leaves(self, variables: Iterable[Variable]) -> None:
        """Leaves of the graph, any of which may stand for another variable's shape."""
        for v in variables:
            self._leaves.setdefault((self.dims(v), v.type.dtype), v)
            for axis, n in enumerate(self.dims(v)):
                if isinstance(n, Symbol):
                    self._leaf_axes.setdefault(n, (v, axis))

    def equal_by_replacement(self, old: Variable, new: Variable) -> None:
        """Both have the same value, therefore one shape."""
        for n, m in zip(self.dims(old), self.dims(new)):
            self._equate(n, m)

    def _compute(self, v: Variable) -> None:
        stack = [v]
        while stack:
            w = stack[-1]
            if w in self._dims:
                stack.pop()
            elif w.owner is None:
                self._dims[w] = tuple([Symbol() if n is None else n for n in _static(w)])
                stack.pop()
            else:
                missing = [x for x in w.owner.inputs if x not in self._dims and isinstance(x.type, TensorType)]
                if missing:
                    stack += missing
                else:
                    self._visit(w.owner)
                    stack.pop()

    def _visit(self, node: Apply) -> None:
        found = self._inferred(node)
        for v, shape in zip(node.outputs, found):
            lengths = []
            for a, static in enumerate(_static(v)):
                n = None if shape is None else shape[a]
                if n is not None and static is not None:
                    self._equate(n, static)
                lengths.append(static if static is not None else n if n is not None else Symbol())
            self._dims[v] = tuple(lengths)

    def _inferred(self, node: Apply) -> Sequence[Dims | None]:
        rule = next((RULES[kind] for kind in type(node.op).__mro__ if kind in RULES), None)
        if rule is not None:
            return [rule(self, node)]
        seen = [tuple([n if isinstance(n, int) else Unknown(n) for n in self.dims(x)]) for x in node.inputs]
        values = [x.data if isinstance(x, Constant) else None for x in node.inputs]
        try:
            shapes = node.op.infer_shape(node, seen, values)
        except Exception:  # a rule that counts with its lengths can't be followed with symbols
            shapes = None
        if shapes is None:
            return [None] * len(node.outputs)
        return [tuple([n.symbol if isinstance(n, Unknown) else int(n) for n in s]) for s in shapes]

    # --- symbols ------------------------------------------------------------------------------------------------------
    def _root(self, n: Dim) -> Dim:
        while isinstance(n, Symbol) and n.parent is not None:
            n = n.parent
        return n

    def _equate(self, n: Dim, m: Dim) -> None:
        """Note that two lengths are equal (where they aren't, running the node that says so raises)."""
        n, m = self._root(n), self._root(m)
        if isinstance(n, Symbol) and n is not m:
            n.parent = m
        elif isinstance(m, Symbol) and n is not m:
            m.parent = n

    def cut(self, n: Dim, cut: Cut) -> Dim | None:
        """The length of a slice: the same for equal slices of equal lengths."""
        if cut == Cut() or any(isinstance(p, Slot) for p in cut):
            return n if cut == Cut() else None
        n = self._root(n)
        return cut_length(slice(*cut), n) if isinstance(n, int) else self._cuts.setdefault((n, cut), Symbol())

    def _meet(self, lengths: Iterable[Dim]) -> Dim:
        """What lengths broadcast to along one axis."""
        distinct = [n for n in dict.fromkeys(map(self._root, lengths)) if n != 1]
        known = [n for n in distinct if isinstance(n, int)]
        if known:
            return known[0]
        if len(distinct) < 2:
            return distinct[0] if distinct else 1
        parts = frozenset(self._root(p) for n in distinct for p in (n.parts or (n,))) - {1}
        return self._broadcasts.setdefault(parts, Symbol(parts)) if len(parts) > 1 else self._meet(parts)


def _static(v: Variable) -> tuple[int | None, ...]:
    if isinstance(v, Constant):
        return v.data.shape
    return v.type.shape if isinstance(v.type, TensorType) else ()


# --- ops whose own rule asks more of a length than a symbol can answer ------------------------------------------------


def _elementwise(facts: ShapeFacts, node: Apply) -> Dims:
    return facts.broadcast(node.inputs)


def _broadcast_like(facts: ShapeFacts, node: Apply) -> Dims:
    return facts.dims(node.inputs[1])


def _filled_in(facts: ShapeFacts, node: Apply) -> Dims:
    symbolic = iter(node.inputs[1:])
    return tuple(facts.value(next(symbolic)) if n is None else n for n in node.op.shape)


def _reshape(facts: ShapeFacts, node: Apply) -> Dims:
    new = _filled_in(facts, node)
    if -1 not in new:
        return new
    old, rest = list(facts.dims(node.inputs[0])), [n for n in new if n != -1]
    for n in rest:
        if n in old:
            old.remove(n)
        elif n != 1:
            return tuple(Symbol() if n == -1 else n for n in new)
    left = [n for n in old if n != 1]
    remaining = left[0] if len(left) == 1 else 1 if not left else Symbol()
    return tuple(remaining if n == -1 else n for n in new)


def _squeeze(facts: ShapeFacts, node: Apply) -> Dims:
    return tuple(n for a, n in enumerate(facts.dims(node.inputs[0])) if a not in node.op.axes)


def _reduction(facts: ShapeFacts, node: Apply) -> Dims:
    return node.op.reduced(facts.dims(node.inputs[0]))


def _matmul(facts: ShapeFacts, node: Apply) -> Dims:
    a, b = (facts.dims(x) for x in node.inputs)
    facts._equate(a[-1], b[-2])
    ndim = max(len(a), len(b)) - 2
    batch = [facts._meet([s[-2 + i] for s in (a, b) if len(s) - 2 >= -i]) for i in range(-ndim, 0)]
    return (*batch, a[-2], b[-1])


def _concatenate(facts: ShapeFacts, node: Apply) -> Dims:
    shapes = [facts.dims(x) for x in node.inputs]
    lengths = [s[node.op.axis] for s in shapes]
    joined = sum(lengths) if all(isinstance(n, int) for n in lengths) else None
    return tuple(joined if a == node.op.axis else n for a, n in enumerate(shapes[0]))


def _part(facts: ShapeFacts, node: Apply) -> Dims | None:
    """Slices by what they are cut from, new axes have length 1; a single array of indices brings its shape."""
    pattern = node.op.pattern
    picks = [e for e in pattern.entries if isinstance(e, (int, Slot))]
    if picks != [ARRAY] and not pattern.is_basic:
        return None
    lengths = facts.dims(node.inputs[0])
    found: list[Dim | None] = []
    for e, axis, filler in zip(pattern.entries, pattern.first_axes, pattern.fill(node.inputs[1:])):
        if e is None:
            found.append(1)
        elif e == ARRAY:
            found += facts.dims(filler)
        elif isinstance(e, Cut):
            found.append(facts.cut(lengths[axis], e))
    return tuple(found) if len(found) == node.outputs[0].ndim else None


def _shape(facts: ShapeFacts, node: Apply) -> Dims:
    return (len(facts.dims(node.inputs[0])),)


RULES: dict[type, Callable[[ShapeFacts, Apply], Dims | None]] = {
    Elementwise: _elementwise, BroadcastLike: _broadcast_like, BroadcastTo: _filled_in, Reshape: _reshape,
    Reduction: _reduction, Squeeze: _squeeze, MatMul: _matmul, Concatenate: _concatenate, Part: _part,
    Shape: _shape,
}  # fmt: skip
