"""What ops that hold a graph share: captured variables, shapes, connections and pullbacks of a graph."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import GraphError
from ..gradient.engine import grad
from ..graph import (
    Apply,
    ClosedGraph,
    Constant,
    NonAnswer,
    TensorType,
    Variable,
    rebuild,
    toposort,
)
from ..ops.gradient_views import View

Shape = tuple[int, ...]


class Passed(View):
    """An output of an inner graph, by a name of its own: the same variable may be given out twice."""


def close(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> tuple[ClosedGraph, list[Variable]]:
    """(graph, captured): `outputs` as a closed graph of `inputs` and of the outer variables that they read.

    What doesn't depend on `inputs` is not computed inside: the outer variables nearest to the inner ones are captured
    and become further inputs of the graph, in order of discovery.
    """
    known = set(inputs)
    inner = set(known)
    order = toposort(outputs, stop=inputs)
    for node in order:
        if any(v in inner for v in node.inputs):
            inner.update(node.outputs)
    captured: dict[Variable, Variable] = {}

    def stand_in(v: Variable) -> Variable:
        if v in inner or isinstance(v, Constant):
            return v
        if v not in captured:
            captured[v] = Variable(v.type, name=v.name)
        return captured[v]

    replaced: dict[Variable, Variable] = {}
    for node in order:
        if node.outputs[0] in inner:
            arguments = [replaced.get(v, stand_in(v)) for v in node.inputs]
            if any(new is not old for new, old in zip(arguments, node.inputs)):
                replaced.update(zip(node.outputs, rebuild(node, arguments).outputs))
    results = [replaced.get(v, stand_in(v)) for v in outputs]
    return ClosedGraph([*inputs, *captured.values()], results), list(captured)


def pullback_graph(graph: ClosedGraph, wrt: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
    """(cotangents, answers): one new variable per output of `graph`, and per variable of `wrt` (inputs of the graph)
    its gradient as an expression of the graph's inputs and the cotangents, or a typed answer where there is no formula.
    """
    passed = [Passed()(v) for v in graph.outputs]
    cotangents = [Variable(v.type) if is_float(v) else None for v in graph.outputs]
    known = {p: c for p, c in zip(passed, cotangents) if c is not None}
    targets = [v for v in wrt if is_float(v)]
    if not known or not targets:
        return [c for c in cotangents if c is not None], []
    answers = grad(
        None, targets, known_grads=known, disconnected_inputs="ignore", return_disconnected="disconnected",
        null_gradients="return",
    )  # fmt: skip
    return list(known.values()), answers


def is_float(v: Variable) -> bool:
    return isinstance(v.type, TensorType) and not v.type.is_discrete


def is_answer(v: Variable) -> bool:
    """Whether a gradient is a refusal rather than a formula."""
    return isinstance(v.type, NonAnswer)


def connections(graph: ClosedGraph) -> list[list[bool]]:
    """One row per input, one entry per output: does the output depend differentiably on the input?"""
    rows = []
    patterns = [(node, node.connection_pattern()) for node in graph.nodes]
    for x in graph.inputs:
        reached = {x}
        for node, pattern in patterns:
            live = [row for v, row in zip(node.inputs, pattern) if v in reached]
            reached.update(v for v, *column in zip(node.outputs, *live) if any(column))
        rows.append([v in reached for v in graph.outputs])
    return rows


def infer_shapes(
    graph: ClosedGraph, shapes: Sequence[Shape], values: Sequence[np.ndarray | None] | None = None
) -> list[Shape | None]:
    """Shapes of the outputs from shapes (and some values) of the inputs; None where only running tells."""
    known: dict[Variable, Shape] = dict(zip(graph.inputs, shapes))
    constants: dict[Variable, np.ndarray] = {
        v: a for v, a in zip(graph.inputs, values or ()) if a is not None
    }

    def shape(v: Variable) -> Shape | None:
        return v.data.shape if isinstance(v, Constant) else known.get(v)

    def value(v: Variable) -> np.ndarray | None:
        return v.data if isinstance(v, Constant) else constants.get(v)

    for node in graph.nodes:
        given = [shape(v) for v in node.inputs]
        if None in given:
            continue
        found = [value(v) for v in node.inputs]
        results = node.op.infer_shape(node, given, found)
        if results is not None:
            known.update(zip(node.outputs, (tuple(int(n) for n in s) for s in results)))
        _fold(node, given, found, constants)
    return [shape(v) for v in graph.outputs]


def _fold(node: Apply, shapes: Sequence[Shape], values: Sequence[Any], constants: dict[Variable, np.ndarray]) -> None:
    """Compute small integer results (sizes) that follow from shapes and known values."""
    only_shape = node.op.shape_only_inputs
    if any(a is None and i not in only_shape for i, a in enumerate(values)):
        return
    if not all(isinstance(v.type, TensorType) and v.type.is_discrete and v.ndim <= 1 for v in node.outputs):
        return
    stand_ins = [
        np.broadcast_to(np.zeros((), v.type.dtype), s) if a is None else a
        for v, s, a in zip(node.inputs, shapes, values)
    ]
    results = node.op.perform(*stand_ins)
    constants.update(zip(node.outputs, results if isinstance(results, (tuple, list)) else (np.asarray(results),)))


def trace(f: Callable[..., Any], arguments: Sequence[Variable], what: str) -> Any:
    """Call a user's function on symbolic arguments."""
    if not callable(f):
        raise GraphError(f"{what}: expected a function, got {type(f).__name__}")
    return f(*arguments)
