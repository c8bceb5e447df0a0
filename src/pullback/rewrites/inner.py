"""Ops that hold graphs (loops, branches, functions): what is inside is rewritten too."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace

from ..graph import Apply, ClosedGraph, Op
from ..graph.function_graph import FunctionGraph


def rewrite_inside(graph: FunctionGraph, rewritten: Callable[[ClosedGraph], ClosedGraph]) -> None:
    """Give each op that holds closed graphs the `rewritten` ones, in place."""
    for node in graph.toposort():
        held = held_graphs(node.op)
        changed = {name: new for name, old in held.items() if (new := rewritten(old)) != old}
        if changed:
            twin = Apply(replace(node.op, **changed), node.inputs, [v.type for v in node.outputs], node.origin)
            graph.replace(dict(zip(node.outputs, twin.outputs)))


def held_graphs(op: Op) -> dict[str, ClosedGraph]:
    """The closed graphs among an op's fields, by name."""
    if not is_dataclass(op):
        return {}
    values = {f.name: getattr(op, f.name) for f in fields(op)}
    return {name: v for name, v in values.items() if isinstance(v, ClosedGraph)}
