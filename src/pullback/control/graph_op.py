"""Functions as ops: a whole graph as one node, and checkpointing, which is the same thing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import GraphError
from ..graph import Apply, ClosedGraph, DisconnectedType, Op, Variable, as_variable, evaluate
from .inner import close, connections, infer_shapes, is_answer, is_float, pullback_graph, trace

__all__ = ["GraphOp", "as_op", "checkpoint"]


@dataclass(frozen=True)
class GraphOp(Op):
    """A closed graph as one op. Its gradient is another one, which computes what it needs of the graph anew."""

    graph: ClosedGraph
    name: str = "graph"

    formula = "the gradient of the graph"

    def make_node(self, *inputs: Any) -> Apply:
        variables = [as_variable(x) for x in inputs]
        if len(variables) != len(self.graph.inputs):
            raise GraphError(f"{self.name} takes {len(self.graph.inputs)} inputs, got {len(variables)}")
        for v, expected in zip(variables, self.graph.inputs):
            if (v.type.dtype, v.type.ndim) != (expected.type.dtype, expected.type.ndim):
                raise GraphError(f"{self.name}: expected {expected.type} for {expected!r}, got {v.type}")
        return Apply(self, variables, [v.type for v in self.graph.outputs])

    def perform(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        results = evaluate(self.graph.outputs, dict(zip(self.graph.inputs, inputs)), self.graph.nodes)
        return tuple(np.array(a) for a in results)  # an output may be an input, or the same variable as another

    def connection_pattern(self, node):
        return connections(self.graph)

    def L_op(self, inputs, outputs, output_grads):
        wrt = [v for v in self.graph.inputs if is_float(v)]
        cotangents, answers = pullback_graph(self.graph, wrt)
        formulas = [a for a in answers if not isinstance(a.type, DisconnectedType) and not is_answer(a)]
        upstream = [g for g, v in zip(output_grads, self.graph.outputs) if is_float(v)]
        found: dict[Variable, Variable] = {}
        if formulas:
            backward = GraphOp(ClosedGraph([*self.graph.inputs, *cotangents], formulas), f"gradient of {self.name}")
            found = dict(zip(formulas, backward.make_node(*inputs, *upstream).outputs))
        by_input = dict(zip(wrt, answers))
        result = []
        for i, v in enumerate(self.graph.inputs):
            answer = by_input.get(v)
            if answer is not None and is_answer(answer):
                result.append(refused(self, i, answer))
            else:
                result.append(found.get(answer) if answer in found else DisconnectedType()())
        return result

    def infer_shape(self, node, shapes, values):
        found = infer_shapes(self.graph, shapes, values)
        return None if None in found else found

    def __str__(self) -> str:
        return self.name


def refused(op: Op, index: int, answer: Variable) -> Variable:
    """An inner refusal as the answer of the op that holds the graph, with the same kind and reason."""
    inner = answer.type
    return Variable(type(inner)(op, index, f"inside, {inner.op}: {inner.why}"))


def as_op(f: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """A function of variables whose body becomes one node of the graph.

    The body is traced at each call, with the types of the arguments; variables that it captures are inputs of the node.

    Example:
        >>> import pullback as pb
        >>> half_square = pb.as_op(lambda x: x * x / 2)
        >>> x = pb.scalar("x")
        >>> pb.grad(half_square(x), x).eval({x: 3.0})
        array(3., dtype=float32)
    """
    label = name or getattr(f, "__name__", "graph")

    def call(*args: Any) -> Any:
        arguments = [as_variable(x) for x in args]
        stand_ins = [Variable(v.type, name=v.name) for v in arguments]
        result = trace(f, stand_ins, "as_op")
        several = isinstance(result, (tuple, list))
        graph, captured = close(stand_ins, [as_variable(v) for v in (result if several else [result])])
        outputs = GraphOp(graph, label).make_node(*arguments, *captured).outputs
        return type(result)(outputs) if several and type(result) in (tuple, list) else outputs[0]

    call.__name__ = label
    return call


def checkpoint(f: Callable[..., Any], *args: Any) -> Any:
    """`f(*args)`, of which backward keeps only the arguments: what is inside is computed again for the gradient.

    Values and gradients are the same as without; memory for activations inside is used twice for a short time instead
    of once for long. Random draws inside repeat themselves, for their key and counter are inputs. With a chain of n
    equal steps cut into sqrt(n) checkpoints memory grows with sqrt(n) (Chen et al. 2016).
    """
    return as_op(f, name="checkpoint")(*args)

