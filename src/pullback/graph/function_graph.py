"""A private copy of a graph that may be edited: each variable knows its clients."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..errors import GraphError
from .op import Apply
from .type import TensorType
from .variable import Variable
from .walk import toposort

Use = tuple[Apply | None, int]  # (node, number of its input), or (None, number of the graph's output)


class Edit(NamedTuple):
    """What a replacement did: the nodes brought in, each after its inputs, and those that now read something else."""

    new: list[Apply]
    changed: list[Apply]


class FunctionGraph:
    """A graph from `inputs` to `outputs` that can be edited in place. The user's nodes are copied, leaves are shared.

    An input that something computes (an inner variable of the user's graph) is a leaf here: nobody looks beyond it.

    Attributes:
        inputs: the leaves that stand for the given inputs, in order.
        outputs: what the graph computes; `replace` keeps it up to date.
        nodes: the live nodes, as keys in the order in which they came.
        clients: for each live variable its uses, as keys in order.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        self._given = tuple(inputs)
        self.inputs = [v if v.owner is None else Variable(v.type, name=v.name) for v in inputs]
        self._leaves = frozenset(self.inputs)
        self.nodes: dict[Apply, None] = {}
        self.clients: dict[Variable, dict[Use, None]] = {v: {} for v in self.inputs}
        copies: dict[Variable, Variable] = dict(zip(inputs, self.inputs))
        for node in toposort(outputs, stop=inputs):
            copy = Apply(node.op, [copies.get(v, v) for v in node.inputs], [v.type for v in node.outputs], node.origin)
            for old, new in zip(node.outputs, copy.outputs):
                new.name = old.name
                copies.setdefault(old, new)
            self._add(copy)
        self.outputs = [copies.get(v, v) for v in outputs]
        for k, v in enumerate(self.outputs):
            self.clients.setdefault(v, {})[None, k] = None

    # --- looking ------------------------------------------------------------------------------------------------------
    def toposort(self) -> list[Apply]:
        """The live nodes, each after those whose results it needs."""
        return toposort(self.outputs)

    def client_nodes(self, v: Variable) -> Iterator[Apply]:
        """The nodes that read `v`, once for each time that they do."""
        return (node for node, _ in self.clients.get(v, ()) if node is not None)

    def is_output(self, v: Variable) -> bool:
        return any(node is None for node, _ in self.clients.get(v, ()))

    def extract(self) -> list[Variable]:
        """The outputs as expressions of the inputs that the constructor was given. The graph is used up by this."""
        for leaf, given in zip(self.inputs, self._given):
            if leaf is not given:
                self._redirect(list(self.clients[leaf]), given)
        return list(self.outputs)

    def validate(self) -> None:
        """Raise GraphError unless the clients index agrees with the graph and the graph has no cycle."""
        order = self.toposort()
        if set(order) != set(self.nodes):
            raise GraphError(f"{len(self.nodes)} nodes are registered, {len(order)} are needed")
        uses: dict[Variable, set[Use]] = {v: set() for v in self.inputs}
        for node in order:
            for i, v in enumerate(node.inputs):
                uses.setdefault(v, set()).add((node, i))
            for v in node.outputs:
                uses.setdefault(v, set())
        for k, v in enumerate(self.outputs):
            uses.setdefault(v, set()).add((None, k))
        found = {v: set(u) for v, u in self.clients.items()}
        if found != uses:
            wrong = [v for v in {**found, **uses} if found.get(v) != uses.get(v)]
            raise GraphError(f"the clients of {wrong[:5]} are registered wrongly")

    # --- editing ------------------------------------------------------------------------------------------------------
    def replace(self, replacements: Mapping[Variable, Variable]) -> Edit:
        """Let every client of each key read its value instead; what nobody needs any more is dropped."""
        uses = {old: list(self.clients.get(old, ())) for old in replacements}  # before the new nodes read `old` too
        new = self._import(replacements.values())
        changed: dict[Apply, None] = {}
        for old, v in replacements.items():
            if old is v:
                continue
            _check_exchange(old, v)
            if v.name is None and v.owner is not None:
                v.name = old.name
            self._redirect(uses[old], v)
            changed.update((node, None) for node, _ in uses[old] if node is not None)
        self._prune([*replacements, *(v for node in new for v in node.outputs)])
        return Edit([n for n in new if n in self.nodes], [n for n in changed if n in self.nodes])

    def _add(self, node: Apply) -> None:
        self.nodes[node] = None
        for i, v in enumerate(node.inputs):
            self.clients.setdefault(v, {})[node, i] = None
        for v in node.outputs:
            self.clients.setdefault(v, {})

    def _import(self, variables: Iterable[Variable]) -> list[Apply]:
        """Add the nodes above `variables` that aren't here yet, each after its inputs; returns them."""
        added: list[Apply] = []
        stack = [(v.owner, False) for v in variables if v.owner is not None]
        while stack:
            node, inputs_done = stack.pop()
            if node in self.nodes:
                continue
            if inputs_done:
                self._add(node)
                added.append(node)
            else:
                stack.append((node, True))
                stack.extend((v.owner, False) for v in reversed(node.inputs) if v.owner is not None)
        return added

    def _redirect(self, uses: Iterable[Use], new: Variable) -> None:
        for node, i in uses:
            old = self.outputs[i] if node is None else node.inputs[i]
            self.clients[old].pop((node, i), None)
            self.clients.setdefault(new, {})[node, i] = None
            if node is None:
                self.outputs[i] = new
            else:
                node.inputs = (*node.inputs[:i], new, *node.inputs[i + 1 :])

    def _prune(self, variables: Iterable[Variable]) -> None:
        """Drop the owners of `variables` that nothing needs, and in turn what only they needed."""
        stack = list(variables)
        while stack:
            v = stack.pop()
            if self.clients.get(v):
                continue
            node = v.owner
            if node is None:
                if v not in self._leaves:
                    self.clients.pop(v, None)
            elif node in self.nodes and not any(self.clients[out] for out in node.outputs):
                del self.nodes[node]
                for out in node.outputs:
                    del self.clients[out]
                for i, x in enumerate(node.inputs):
                    del self.clients[x][node, i]
                stack.extend(node.inputs)


def _check_exchange(old: Variable, new: Variable) -> None:
    a, b = old.type, new.type
    if a == b:
        return
    fits = isinstance(a, TensorType) and isinstance(b, TensorType) and (a.dtype, a.ndim) == (b.dtype, b.ndim)
    if not fits or any(None not in (n, m) and n != m for n, m in zip(a.shape, b.shape)):
        raise GraphError(f"can't replace {old!r} of type {a} by {new!r} of type {b}")
