"""Copies of graphs with some variables replaced, and equality of graphs by structure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import GraphError
from .op import Apply
from .type import TensorType
from .variable import Constant, Variable
from .walk import leaves, toposort


def rebuild(node: Apply, inputs: Sequence[Variable]) -> Apply:
    """The same op on other inputs: types are inferred anew only where an input's type changed."""
    if all(new.type == old.type for new, old in zip(inputs, node.inputs)):
        return Apply(node.op, inputs, [v.type for v in node.outputs], node.origin)
    copy = node.op.make_node(*inputs)
    copy.origin = node.origin
    return copy


def clone_replace(outputs: Sequence[Variable], replace: Mapping[Variable, Variable]) -> list[Variable]:
    """`outputs` computed with each key of `replace` swapped for its value. Untouched parts are shared, not copied."""
    for old, new in replace.items():
        if isinstance(old.type, TensorType) and (old.type.dtype, old.type.ndim) != (new.type.dtype, new.type.ndim):
            raise GraphError(f"can't replace {old!r} of type {old.type} by {new!r} of type {new.type}")
    memo: dict[Variable, Variable] = dict(replace)
    for node in toposort(outputs, stop=replace):
        inputs = [memo.get(v, v) for v in node.inputs]
        if any(new is not old for new, old in zip(inputs, node.inputs)):
            for old, new in zip(node.outputs, rebuild(node, inputs).outputs):
                new.name = old.name
                memo.setdefault(old, new)
    return [memo.get(v, v) for v in outputs]


class ClosedGraph:
    """An immutable function of a graph: ordered inputs and outputs, no other free leaf but constants.

    Two are equal when they do the same computation node by node, whatever the variables' identities or names.
    Free leaves that aren't inputs (shared variables, outer variables) raise: pass them as inputs.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.nodes = tuple(toposort(outputs, stop=inputs))
        known = set(inputs)
        for leaf in leaves(outputs, stop=inputs):
            if leaf not in known and not isinstance(leaf, Constant):
                raise GraphError(f"the inner graph reads {leaf!r}, which is neither an input of it nor a constant")
        self._key = self._structure()
        self._hash = hash(self._key)

    def _structure(self) -> tuple[Any, ...]:
        number: dict[Variable, Any] = {v: ("input", i) for i, v in enumerate(self.inputs)}

        def key(v: Variable) -> Any:
            if v not in number and isinstance(v, Constant):
                number[v] = ("constant", v.type, v.data.tobytes())
            return number[v]

        rows = []
        for i, node in enumerate(self.nodes):
            rows.append((node.op, tuple(key(v) for v in node.inputs)))
            for j, v in enumerate(node.outputs):
                number.setdefault(v, ("node", i, j))
        return (tuple(v.type for v in self.inputs), tuple(rows), tuple(key(v) for v in self.outputs))

    def __call__(self, *inputs: Variable) -> list[Variable]:
        """The outputs as expressions of `inputs`."""
        return clone_replace(self.outputs, dict(zip(self.inputs, inputs)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClosedGraph) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"graph({len(self.inputs)} -> {len(self.outputs)}, {len(self.nodes)} nodes)"
