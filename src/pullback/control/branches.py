"""Choosing what is computed: `ifelse`, and loops whose length their own values decide: `while_loop`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, GraphError
from ..graph import (
    Apply,
    ClosedGraph,
    Constant,
    DisconnectedType,
    Op,
    TensorType,
    Variable,
    as_variable,
    clone_replace,
    evaluate,
    leaves,
)
from ..ops.arithmetic import logical_not
from ..ops.dtypes import as_tensor, as_tensors
from ..ops.elementwise import zeros_like
from ..ops.shape import expand_dims
from .graph_op import refused
from .inner import close, connections, infer_shapes, is_answer, is_float, pullback_graph, trace
from .scan_op import FOREVER, Scan

__all__ = ["ifelse", "while_loop"]


@dataclass(frozen=True)
class IfElse(Op):
    """`then` or `otherwise` of the same inputs, whichever the condition says; the other is not computed."""

    then: ClosedGraph
    otherwise: ClosedGraph

    formula = "g to the branch that is taken, zeros to the other"

    def make_node(self, condition: Any, *inputs: Any) -> Apply:
        types = []
        for a, b in zip(self.then.outputs, self.otherwise.outputs):
            shape = tuple(n if n == m else None for n, m in zip(a.type.shape, b.type.shape))
            types.append(TensorType(a.type.dtype, shape))
        return Apply(self, [as_variable(condition), *map(as_variable, inputs)], types)

    def perform(self, condition: np.ndarray, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        graph = self.then if condition else self.otherwise
        return tuple(np.array(a) for a in evaluate(graph.outputs, dict(zip(graph.inputs, inputs)), graph.nodes))

    def connection_pattern(self, node):
        pairs = zip(connections(self.then), connections(self.otherwise))
        return [[False] * len(node.outputs), *([a or b for a, b in zip(x, y)] for x, y in pairs)]

    def L_op(self, inputs, outputs, output_grads):
        condition, *rest = inputs
        places = [i for i, v in enumerate(self.then.inputs) if is_float(v)]
        upstream = [g for g, v in zip(output_grads, self.then.outputs) if is_float(v)]
        branches, answers = [], [DisconnectedType()() for _ in inputs]
        wanted = list(places)
        found = []
        for graph in (self.then, self.otherwise):
            cotangents, terms = pullback_graph(graph, [graph.inputs[i] for i in places])
            terms = terms or [DisconnectedType()() for _ in places]
            for i, term in zip(places, terms):
                if is_answer(term):
                    answers[1 + i] = refused(self, 1 + i, term)
                    wanted = [k for k in wanted if k != i]
            found.append((graph, cotangents, dict(zip(places, terms))))
        wanted = [i for i in wanted if any(not isinstance(t[i].type, DisconnectedType) for _, _, t in found)]
        for graph, cotangents, terms in found:
            formulas = [
                zeros_like(graph.inputs[i]) if isinstance(terms[i].type, DisconnectedType) else terms[i] for i in wanted
            ]
            stand_ins = cotangents or [Variable(v.type) for v in graph.outputs if is_float(v)]
            branches.append(ClosedGraph([*graph.inputs, *stand_ins], formulas))
        if wanted:
            grads = IfElse(*branches).make_node(condition, *rest, *upstream).outputs
            for i, g in zip(wanted, grads):
                answers[1 + i] = g
        return answers

    def infer_shape(self, node, shapes, values):
        a, b = (infer_shapes(graph, shapes[1:], values[1:]) for graph in (self.then, self.otherwise))
        if values[0] is not None:
            chosen = a if values[0] else b
            return None if None in chosen else chosen
        return a if a == b and None not in a else None

    def __str__(self) -> str:
        return "ifelse"


def ifelse(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then` if the scalar `condition` is true, else `otherwise`; only the chosen one is computed.

    Args:
        condition: a scalar; not zero counts as true.
        then, otherwise: functions without arguments (what they compute is lazy), or expressions; a variable, a list
            or a tuple, the same number with the same dtypes and ranks in both.

    Gradient: that of the chosen branch; the other one's inputs get exactly zero from it.

    Example:
        >>> import pullback as pb
        >>> x = pb.scalar("x")
        >>> y = pb.ifelse(x > 0, lambda: pb.log(x), lambda: x)
        >>> y.eval({x: -2.0})
        array(-2., dtype=float32)
    """
    condition = as_variable(condition)
    if condition.ndim != 0:
        raise ArgumentTypeError(f"ifelse: the condition must be a scalar, got {condition.type}; elementwise: pb.where")
    a, b = (trace(f, (), "ifelse") if callable(f) and not isinstance(f, Variable) else f for f in (then, otherwise))
    several = isinstance(a, (list, tuple))
    first, second = (list(v) if isinstance(v, (list, tuple)) else [v] for v in (a, b))
    if len(first) != len(second):
        raise ArgumentError(f"ifelse: one branch gives {len(first)} values, the other {len(second)}")
    pairs = [as_tensors(pair) for pair in zip(first, second)]
    for i, (x, y) in enumerate(pairs):
        if (x.dtype, x.ndim) != (y.dtype, y.ndim):
            raise GraphError(f"ifelse: value {i} is {x.type} in one branch and {y.type} in the other")
    graphs, outer = _closed_over_leaves([x for x, _ in pairs], [y for _, y in pairs])
    outputs = list(IfElse(*graphs).make_node(condition, *outer).outputs)
    return type(a)(outputs) if several else outputs[0]


def _closed_over_leaves(*branches: Sequence[Variable]) -> tuple[list[ClosedGraph], list[Variable]]:
    """The branches as graphs of the same inputs: all leaves that any of them reads, so that nothing runs outside."""
    outer = list(dict.fromkeys(v for outputs in branches for v in leaves(outputs) if not isinstance(v, Constant)))
    graphs = []
    for outputs in branches:
        inside = {v: Variable(v.type, name=v.name) for v in outer}
        graphs.append(ClosedGraph(list(inside.values()), clone_replace(outputs, inside)))
    return graphs, outer


def while_loop(
    condition: Callable[..., Any], body: Callable[..., Any], initial: Any, max_steps: int | None = None
) -> Any:
    """Repeat `state = body(*state)` while `condition(*state)` is true; the final state.

    Args:
        condition: takes the state, gives a scalar.
        body: takes the state, gives the next one: the same dtypes, ranks and shapes.
        initial: a variable, or a list or tuple of them.
        max_steps: stop after so many steps in any case.

    Gradient: through the steps that were taken (their states are kept for it). The number of steps is locally constant.

    Example:
        >>> import pullback as pb
        >>> x = pb.scalar("x")
        >>> y = pb.while_loop(lambda v: v < 100, lambda v: v * v, x)
        >>> pb.grad(y, x).eval({x: 3.0})  # y = x^8
        array(17496., dtype=float32)
    """
    several = isinstance(initial, (list, tuple))
    start = [as_tensor(v) for v in (initial if several else [initial])]
    inside = [Variable(v.type, name=v.name) for v in start]
    result = trace(body, inside, "while_loop")
    new = [as_tensor(v) for v in (result if isinstance(result, (list, tuple)) else [result])]
    if len(new) != len(start):
        raise ArgumentError(f"while_loop: the state has {len(start)} parts, body returns {len(new)}")
    for i, (old, v) in enumerate(zip(start, new)):
        if (old.dtype, old.ndim) != (v.dtype, v.ndim):
            raise GraphError(f"while_loop: part {i} of the state is {old.type}, but body returns {v.type} for it")
    go_on = as_variable(trace(condition, new, "while_loop"))
    if go_on.ndim != 0:
        raise ArgumentTypeError(f"while_loop: the condition must be a scalar, got {go_on.type}")
    graph, captured = close(inside, [*new, logical_not(go_on)])
    op = Scan(graph, 0, ((-1,),) * len(start), until=True, name="while_loop")
    count = Constant(np.int64(FOREVER if max_steps is None else max_steps))
    begun = as_variable(trace(condition, start, "while_loop"))

    def looped() -> list[Variable]:
        node = op.make_node(count, *(expand_dims(v, 0) for v in start), *captured)
        return [v[-1] for v in node.outputs]

    final = start if max_steps == 0 else ifelse(begun, looped, lambda: list(start))
    return type(initial)(final) if several else final[0]
