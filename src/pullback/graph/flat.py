"""A graph as flat lists of leaves and nodes, so that pickle and deepcopy don't recurse through it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .op import Apply, Op, Origin
from .type import Type
from .variable import Constant, SharedVariable, Variable
from .walk import leaves, toposort


@dataclass(frozen=True)
class FlatGraph:
    """Everything that `roots` depend on; variables are numbered, leaves first.

    Attributes:
        leaf_records: (kind, type, name, value, number of its default update or -1).
        node_records: (op, numbers of the inputs, output types, output names, origin).
        roots: numbers of the roots.
    """

    leaf_records: tuple[tuple[str, Type, str | None, Any, int], ...]
    node_records: tuple[tuple[Op, tuple[int, ...], tuple[Type, ...], tuple[str | None, ...], Origin], ...]
    roots: tuple[int, ...]


def flatten(roots: Sequence[Variable]) -> FlatGraph:
    """The flat form of everything that `roots` need, default updates of shared variables included."""
    everything = list(roots)
    while True:
        shared = [v for v in leaves(everything) if isinstance(v, SharedVariable) and v.default_update is not None]
        missing = [v.default_update for v in shared if v.default_update not in everything]
        if not missing:
            break
        everything += dict.fromkeys(missing)
    nodes = toposort(everything)
    number: dict[Variable, int] = {}
    found = leaves(everything)
    for v in found:
        number[v] = len(number)
    for node in nodes:
        for v in node.outputs:
            number[v] = len(number)
    return FlatGraph(
        tuple(_leaf_record(v, number) for v in found),
        tuple(
            (
                node.op,
                tuple(number[v] for v in node.inputs),
                tuple(v.type for v in node.outputs),
                tuple(v.name for v in node.outputs),
                node.origin,
            )
            for node in nodes
        ),
        tuple(number[v] for v in roots),
    )


def unflatten(flat: FlatGraph) -> list[Variable]:
    """The roots, on a new copy of the graph."""
    variables: list[Variable] = []
    for kind, type_, name, value, _ in flat.leaf_records:
        if kind == "constant":
            variables.append(Constant(value, name=name))
        elif kind == "shared":
            variables.append(SharedVariable(value, type_, name))
        else:
            variables.append(Variable(type_, name=name))
    for op, inputs, types, names, origin in flat.node_records:
        outputs = Apply(op, [variables[i] for i in inputs], types, origin).outputs
        for v, name in zip(outputs, names):
            v.name = name
        variables += outputs
    for v, (*_, update) in zip(variables, flat.leaf_records):
        if update >= 0:
            v.default_update = variables[update]
    return [variables[i] for i in flat.roots]


def _leaf_record(v: Variable, number: dict[Variable, int]) -> tuple[str, Type, str | None, np.ndarray | None, int]:
    if isinstance(v, Constant):
        return "constant", v.type, v.name, v.data, -1
    if isinstance(v, SharedVariable):
        update = -1 if v.default_update is None else number[v.default_update]
        return "shared", v.type, v.name, v.get_value(), update
    return "input", v.type, v.name, None, -1
