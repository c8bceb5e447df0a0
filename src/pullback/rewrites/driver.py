"""Run local rewrites over a graph until nothing changes; merge equal nodes on the way."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..graph import Apply, Constant, Variable
from ..graph.function_graph import FunctionGraph
from ..ops.elementwise import BroadcastLike, Elementwise
from ..ops.shape import BroadcastTo
from .shapes import ShapeFacts

Rule = Callable[[Apply, "Facts"], Variable | Sequence[Variable] | None]
log = logging.getLogger("pullback")

SWEEPS = 16  # more than any graph needs: reached only if two rules undo each other
REACH = 3  # how many nodes below a change may have a rule that looks up to it
MERGED_BYTES = 4096  # constants up to this size are compared by value
REPLACEMENTS_PER_NODE = 32


@dataclass(frozen=True)
class RuleSet:
    """Local rewrites, by what they apply to: an op class, the name of an elementwise row, or `Op` for every node."""

    name: str
    rules: dict[Any, list[Rule]] = field(default_factory=dict)

    def on(self, *keys: Any) -> Callable[[Rule], Rule]:
        """Decorator: the rule is tried on nodes of these op classes, or rows by name, or on all: "elementwise", "any".

        It returns the new output (or one per output), or None where it has nothing to say.
        """

        def register(rule: Rule) -> Rule:
            for key in keys:
                self.rules.setdefault(key, []).append(rule)
            return rule

        return register

    def rules_for(self, op: Any) -> list[Rule]:
        keys = [op.row.name, "elementwise", "any"] if isinstance(op, Elementwise) else [type(op), "any"]
        return [rule for key in keys for rule in self.rules.get(key, ())]


class Facts(ShapeFacts):
    """What rules may ask about variables: their shapes, and the number that fills them."""

    def __init__(self) -> None:
        super().__init__()
        self._fills: dict[Constant, Any] = {}

    def fill(self, v: Variable) -> Any:
        """The NumPy scalar that every element of `v` equals, if that is known; else None."""
        while v.owner is not None and isinstance(v.owner.op, (BroadcastLike, BroadcastTo)):
            v = v.owner.inputs[0]
        if not isinstance(v, Constant):
            return None
        if v not in self._fills:
            flat = v.data.reshape(-1)
            same = flat.size == 1 or (0 < flat.size <= MERGED_BYTES and (flat == flat[0]).all())
            self._fills[v] = flat[0] if same else None
        return self._fills[v]

    def is_fill(self, v: Variable, number: float) -> bool:
        """Whether every element of `v` equals `number` (both zeros are equal, NaN is not)."""
        found = self.fill(v)
        return found is not None and bool(found == number)


def rewrite(graph: FunctionGraph, rule_sets: Sequence[RuleSet], facts: Facts | None = None) -> Facts:
    """Edit `graph` until no rule applies and no two nodes do the same computation."""
    facts = facts or Facts()
    facts.note_leaves(v for v in graph.clients if v.owner is None)
    dirty = set(graph.nodes)
    for _ in range(SWEEPS):
        sweep = Sweep(graph, rule_sets, facts, dirty)
        sweep.run()
        dirty = {node for node in sweep.dirty if node in graph.nodes}
        if not dirty:
            return facts
    log.warning("rewriting stopped after %d sweeps: two rules undo each other near %s", SWEEPS, next(iter(dirty)).op)
    return facts


class Sweep:
    """One pass over the graph from inputs to outputs."""

    def __init__(self, graph: FunctionGraph, rule_sets: Sequence[RuleSet], facts: Facts, dirty: set[Apply]) -> None:
        self.graph = graph
        self.rule_sets = rule_sets
        self.facts = facts
        self.dirty = dirty
        self.met: dict[Any, Apply] = {}
        self.constants: dict[Any, Constant] = {}
        self.rules: dict[Any, list[Rule]] = {}

    def run(self) -> None:
        for node in self.graph.toposort():
            waiting = deque([node])
            budget = REPLACEMENTS_PER_NODE
            while waiting and budget:
                current = waiting.popleft()
                if current in self.graph.nodes:
                    fresh = self.visit(current)
                    budget -= bool(fresh)
                    waiting.extend(fresh)

    def visit(self, node: Apply) -> list[Apply]:
        """Merge the node with an equal one, or apply the first rule that has something to say; the new nodes."""
        self.merge_constants(node)
        key = (node.op, node.inputs) if type(node.op).__hash__ else (id(node.op), node.inputs)
        twin = self.met.get(key)
        if twin is not None and twin is not node and twin in self.graph.nodes:
            return self.replace(node, twin.outputs)
        if node in self.dirty:
            self.dirty.discard(node)
            for rule in self.rules_for(node.op):
                result = rule(node, self.facts)
                if result is not None:
                    return self.replace(node, [result] if isinstance(result, Variable) else result)
        self.met[key] = node
        return []

    def rules_for(self, op: Any) -> list[Rule]:
        key = op.row if isinstance(op, Elementwise) else type(op)
        if key not in self.rules:
            self.rules[key] = [rule for rules in self.rule_sets for rule in rules.rules_for(op)]
        return self.rules[key]

    def replace(self, node: Apply, results: Sequence[Variable]) -> list[Apply]:
        pairs = {old: new for old, new in zip(node.outputs, results, strict=True) if self.graph.clients[old]}
        for old, new in pairs.items():
            self.facts.equal_by_replacement(old, new)
        edit = self.graph.replace(pairs)
        for fresh in edit.new:
            fresh.origin = node.origin
        self.mark([*edit.new, *edit.changed])
        return edit.new

    def mark(self, nodes: Iterable[Apply]) -> None:
        """Nodes to try again: those that changed, and those whose rules may look up to them."""
        reached = dict.fromkeys(nodes)
        layer = list(reached)
        for _ in range(REACH):
            layer = [c for n in layer for v in n.outputs for c in self.graph.client_nodes(v) if c not in reached]
            reached.update(dict.fromkeys(layer))
        self.dirty.update(reached)

    def merge_constants(self, node: Apply) -> None:
        for v in node.inputs:
            if isinstance(v, Constant) and v.data.nbytes <= MERGED_BYTES:
                first = self.constants.setdefault((v.type, v.data.tobytes()), v)
                if first is not v:
                    self.graph.replace({v: first})
