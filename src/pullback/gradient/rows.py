"""A graph applied to each of many inputs: what Jacobians are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import GraphError
from ..graph import (
    Apply,
    ClosedGraph,
    Constant,
    DisconnectedType,
    Op,
    TensorType,
    Variable,
    ancestors,
    as_variable,
    clone_replace,
    evaluate,
    toposort,
)
from ..ops.reduce import sum as total
from .engine import pull_back


@dataclass(frozen=True)
class EachRow(Op):
    """`graph` applied to each row of the first `rows` inputs (a row is what lies at one index of the first axis), with
    the other inputs the same for all; the results are stacked along a new first axis.
    """

    graph: ClosedGraph
    rows: int

    def make_node(self, *inputs: Any) -> Apply:
        variables = [as_variable(x) for x in inputs]
        expected = [v.ndim + (i < self.rows) for i, v in enumerate(self.graph.inputs)]
        if [v.ndim for v in variables] != expected:
            raise GraphError(f"{self}: expected inputs of {expected} dimensions, got {[v.ndim for v in variables]}")
        length = variables[0].type.shape[0]
        return Apply(self, variables, [TensorType(v.dtype, (length, *v.type.shape)) for v in self.graph.outputs])

    def perform(
        self, *inputs: np.ndarray, step: Callable[[list[np.ndarray]], list[np.ndarray]] | None = None
    ) -> tuple[np.ndarray, ...]:
        """Run the graph row by row; `step`, if given, computes its outputs from its inputs."""
        step = step or self._step
        rows, shared = inputs[: self.rows], inputs[self.rows :]
        if len(rows[0]) == 0:
            found = step([*(np.zeros(a.shape[1:], a.dtype) for a in rows), *shared])
            return tuple(np.empty((0, *a.shape), a.dtype) for a in found)
        results = [step([*(a[k] for a in rows), *shared]) for k in range(len(rows[0]))]
        return tuple(np.stack(column) for column in zip(*results))

    def _step(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        return evaluate(self.graph.outputs, dict(zip(self.graph.inputs, arrays)), self.graph.nodes)

    def L_op(self, inputs, outputs, output_grads):
        """Each row's cotangent pulled back through the graph; what all rows share gets the sum over them."""
        inner = list(self.graph.inputs)
        cotangents = [Variable(TensorType(g.dtype, g.type.shape[1:])) for g in output_grads]
        asked = [v for v in inner if not v.type.is_discrete]
        terms = pull_back(
            self.graph.outputs, cotangents, asked, disconnected_inputs="ignore", return_disconnected="disconnected",
            null_gradients="return",
        )  # fmt: skip
        formulas = [(v, t) for v, t in zip(asked, terms) if isinstance(t.type, TensorType)]
        answers = {v: t for v, t in zip(asked, terms) if not isinstance(t.type, TensorType)}
        if formulas:
            graph = ClosedGraph([*inner[: self.rows], *cotangents, *inner[self.rows :]], [t for _, t in formulas])
            each = EachRow(graph, self.rows + len(cotangents))
            node = each.make_node(*inputs[: self.rows], *output_grads, *inputs[self.rows :])
            shared = set(inner[self.rows :])
            answers |= {v: total(t, axis=0) if v in shared else t for (v, _), t in zip(formulas, node.outputs)}
        return [answers[v] if v in answers else DisconnectedType()() for v in inner]

    def connection_pattern(self, node):
        found = [set(ancestors([v])) for v in self.graph.outputs]
        return [[x in above for above in found] for x in self.graph.inputs]

    def __str__(self) -> str:
        return f"EachRow{{{len(self.graph.nodes)} nodes}}"


def apply_to_each_row(outputs: Sequence[Variable], row: Variable, rows: Variable) -> list[Variable]:
    """`outputs`, expressions of `row`, for each of `rows`, stacked. What doesn't depend on `row` is computed once."""
    inside = {row}
    order = toposort(outputs)
    for node in order:
        if any(v in inside for v in node.inputs):
            inside.update(node.outputs)
    read = [v for node in order if node.outputs[0] in inside for v in node.inputs] + list(outputs)
    shared = [v for v in dict.fromkeys(read) if v not in inside and not isinstance(v, Constant)]
    leaves = [Variable(v.type, name=v.name) for v in shared]
    inner = clone_replace(outputs, dict(zip(shared, leaves)))
    return list(EachRow(ClosedGraph([row, *leaves], inner), 1).make_node(rows, *shared).outputs)
