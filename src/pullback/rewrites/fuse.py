"""Elementwise fusion: groups of rows over one shape become one `Fused` op, which is one loop on the native backend."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..gradient.engine import pull_back
from ..graph import Apply, ClosedGraph, Constant, DisconnectedType, Op, TensorType, Variable, as_variable, clone_replace
from ..graph.function_graph import FunctionGraph
from ..ops.elementwise import Cast, Elementwise, broadcast_static
from .shapes import Dims, ShapeFacts

MOST_NODES = 64  # of one loop: beyond it registers spill, and compiling takes longer than it saves
MOST_INPUTS = 16
MOST_OUTPUTS = 8
DTYPES = {"float32", "float64", "int64", "int32", "int8", "uint8", "uint32", "uint64", "bool"}
BITWISE_ROWS = {"bitwise_and", "bitwise_or", "bitwise_xor", "invert"}
INTEGER_ROWS = BITWISE_ROWS | {
    "abs", "add", "subtract", "multiply", "negative", "square", "where", "maximum", "minimum", "clip", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
    "logical_not", "mod", "floor_divide",
}  # fmt: skip


@dataclass(frozen=True)
class Fused(Op):
    """Several elementwise nodes computed in one loop over the shape that the inputs broadcast to.

    `graph` is the computation of one element: its variables are scalars whatever the shapes are, so that loops which do
    the same are equal. Every node of the group has the shape of the loop.
    """

    graph: ClosedGraph

    def make_node(self, *inputs: Any) -> Apply:
        variables = [as_variable(x) for x in inputs]
        shape = broadcast_static("a fused loop", variables)
        return Apply(self, variables, [TensorType(v.dtype, shape) for v in self.graph.outputs])

    def perform(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        values: dict[Variable, np.ndarray] = dict(zip(self.graph.inputs, inputs))
        for node in self.graph.nodes:
            arrays = [values[v] if v in values else v.data for v in node.inputs]
            values[node.outputs[0]] = node.op.perform(*arrays)
        return tuple(values[v] for v in self.graph.outputs)

    def L_op(self, inputs, outputs, output_grads):
        """Through the definition: the members' own rules."""
        stand_ins = [Variable(x.type) for x in inputs]  # one input may be given twice
        continuous = [x for x in stand_ins if not x.type.is_discrete]
        results = self.unfused(stand_ins)
        arriving = [(v, g) for v, g in zip(results, output_grads) if not v.type.is_discrete]
        terms = pull_back(
            [v for v, _ in arriving], [g for _, g in arriving], continuous, disconnected_inputs="ignore",
            return_disconnected="disconnected", null_gradients="return",
        )  # fmt: skip
        answers = dict(zip(continuous, clone_replace(terms, dict(zip(stand_ins, inputs)))))
        return [answers[x] if x in answers else DisconnectedType()() for x in stand_ins]

    def unfused(self, inputs: Sequence[Variable]) -> list[Variable]:
        """The outputs as separate nodes."""
        made: dict[Variable, Variable] = dict(zip(self.graph.inputs, inputs))
        for node in self.graph.nodes:
            made[node.outputs[0]] = node.op(*[made.get(v, v) for v in node.inputs])
        return [made[v] for v in self.graph.outputs]

    def infer_shape(self, node, shapes, values):
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            raise ShapeError(f"shapes {', '.join(map(str, shapes))} don't broadcast together") from None
        return [shape] * len(self.graph.outputs)

    def __str__(self) -> str:
        return "fused{" + ", ".join(str(node.op) for node in self.graph.nodes) + "}"


def fuse(graph: FunctionGraph, facts: ShapeFacts) -> None:
    """Replace groups of elementwise nodes that certainly share one shape by `Fused` nodes, in place."""
    order = graph.toposort()
    for group in groups(order, graph, facts):
        for segment in segments(group, graph):
            if len(segment) > 1:
                replace_by_loop(graph, segment)


def fusable(node: Apply) -> bool:
    """Whether the native backend has a formula for this node on its dtypes."""
    op = node.op
    dtypes = [v.dtype for v in node.inputs]
    if not isinstance(op, (Elementwise, Cast)) or not DTYPES.issuperset([*dtypes, node.outputs[0].dtype]):
        return False
    return isinstance(op, Cast) or has_formula(op, dtypes)


def has_formula(op: Elementwise, dtypes: Sequence[str]) -> bool:
    """Whether the row's native formula is right for inputs of these dtypes."""
    meet, row = op.compute_dtype(dtypes), op.row
    if row.native is None:
        return False
    if meet.startswith("float"):
        return row.name not in BITWISE_ROWS
    if meet == "bool" and row.result == "same":
        return row.name in BITWISE_ROWS or row.name == "where"
    return row.name in INTEGER_ROWS


def groups(order: Sequence[Apply], graph: FunctionGraph, facts: ShapeFacts) -> list[list[Apply]]:
    """Sets of fusable nodes of one shape and one level that are linked by a result or by an operand of that shape.

    A node's level counts how often the longest path to it enters a loop from outside. Within a level no path leaves a
    set and comes back, so that replacing each set by one node makes no cycle.
    """
    loop: dict[Apply, Dims] = {node: facts.dims(node.outputs[0]) for node in order if fusable(node)}

    def entries(source: Apply, node: Apply) -> int:
        return int(node in loop and loop.get(source) != loop[node])

    level: dict[Apply, int] = {}
    for node in order:
        above = [v.owner for v in node.inputs if v.owner is not None]
        level[node] = max((level[source] + entries(source, node) for source in above), default=0)
    for node in reversed(order):  # compute late what is only needed late, beside its use
        if node in loop and not graph.is_output(node.outputs[0]):
            clients = list(graph.client_nodes(node.outputs[0]))
            latest = min(level[c] - entries(node, c) for c in clients)
            if any(level[c] == latest and loop.get(c) == loop[node] for c in clients):
                level[node] = latest

    linked: dict[Apply, Apply] = {node: node for node in loop}

    def root(node: Apply) -> Apply:
        while linked[node] is not node:
            linked[node] = node = linked[linked[node]]
        return node

    readers: dict[tuple[Variable, int], Apply] = {}
    for node in loop:
        for v in node.inputs:
            if v.owner in loop and loop[v.owner] == loop[node] and level[v.owner] == level[node]:
                linked[root(node)] = root(v.owner)
            elif not isinstance(v, Constant) and facts.dims(v) == loop[node]:
                linked[root(node)] = root(readers.setdefault((v, level[node]), node))
    found: dict[Apply, list[Apply]] = {}
    for node in loop:
        found.setdefault(root(node), []).append(node)
    return list(found.values())


def segments(group: Sequence[Apply], graph: FunctionGraph) -> Iterable[list[Apply]]:
    """A group cut, in order, into pieces that one loop can hold."""
    members = set(group)
    segment: list[Apply] = []
    made: set[Variable] = set()
    inputs: set[Variable] = set()
    results = 0
    for node in group:
        read = {v for v in node.inputs if not embedded(v)}
        leaves = needed_outside(graph, node, members)
        full = len(segment) == MOST_NODES or len(inputs | (read - made)) > MOST_INPUTS
        if segment and (full or results + leaves > MOST_OUTPUTS):
            yield segment
            segment, made, inputs, results = [], set(), set(), 0
        segment.append(node)
        inputs |= read - made
        made.add(node.outputs[0])
        results += leaves
    yield segment


def needed_outside(graph: FunctionGraph, node: Apply, members: set[Apply]) -> bool:
    """Whether the node's result is an output of the graph, or read by a node that isn't in `members`."""
    v = node.outputs[0]
    return graph.is_output(v) or not members.issuperset(graph.client_nodes(v))


def embedded(v: Variable) -> bool:
    """Whether `v` becomes a number in the kernel's text."""
    return isinstance(v, Constant) and v.ndim == 0 and bool(np.isfinite(v.data))


def replace_by_loop(graph: FunctionGraph, segment: Sequence[Apply]) -> None:
    members = set(segment)
    operands: dict[Variable, Variable] = {}
    scalars: dict[Variable, Variable] = {}
    for node in segment:
        for v in node.inputs:
            if v not in scalars and not embedded(v):
                operands[v] = scalars[v] = Variable(TensorType(v.dtype))
        inputs = [scalars.get(v, v) for v in node.inputs]
        scalars[node.outputs[0]] = Apply(node.op, inputs, [TensorType(node.outputs[0].dtype)], node.origin).outputs[0]
    results = [node.outputs[0] for node in segment if needed_outside(graph, node, members)]
    if not operands:
        return
    loop = Fused(ClosedGraph(list(operands.values()), [scalars[v] for v in results])).make_node(*operands)
    loop.origin = segment[-1].origin
    graph.replace(dict(zip(results, loop.outputs)))
