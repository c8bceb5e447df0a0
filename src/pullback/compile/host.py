"""Ops that hold graphs, run from Python: their inner graphs are programs, not interpreted node by node."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..control import GraphOp, IfElse, Scan
from ..gradient import EachRow
from ..graph import ClosedGraph, Op
from ..rewrites import optimize
from .program import Program


@functools.lru_cache(maxsize=1024)
def optimized(graph: ClosedGraph, shapes: tuple[tuple[int, ...], ...] = ()) -> ClosedGraph:
    """The same graph after all rewrites, for inputs of these shapes (of any, if none are given)."""
    return ClosedGraph(graph.inputs, optimize(graph.outputs, graph.inputs, dict(zip(graph.inputs, shapes))))


@functools.lru_cache(maxsize=256)
def program_of(graph: ClosedGraph) -> Program:
    """A native program of an inner graph, kept for as long as it is in use."""
    graph = optimized(graph)
    return Program(graph.inputs, graph.outputs, {}, "native")


def host_perform(op: Op) -> Callable[..., Any] | None:
    """What runs an op from Python better than its own `perform`, if anything does."""
    match op:
        case GraphOp():
            return lambda *inputs: tuple(program_of(op.graph).run(inputs))
        case IfElse():
            return lambda condition, *inputs: tuple(
                program_of(op.then if condition else op.otherwise).run(inputs)
            )
        case Scan() | EachRow():
            return functools.partial(_in_steps, op)
    return None


def _in_steps(op: Scan | EachRow, *inputs: np.ndarray) -> Any:
    return op.perform(*inputs, step=functools.partial(_step, program_of(op.graph)))


def _step(program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return program.run([np.asarray(a) for a in arrays])
