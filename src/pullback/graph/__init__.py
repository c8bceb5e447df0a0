"""Graphs of operations: what is computed, with no numerics of its own."""

from .clone import ClosedGraph, clone_replace, rebuild
from .eager import EagerValues, eager
from .flat import FlatGraph, flatten, unflatten
from .interpreter import evaluate, run_node
from .op import Apply, Op, Origin, gradient_of, layer_named, user_line
from .printing import debugprint, to_dot, to_svg
from .type import (
    DisconnectedType,
    NonAnswer,
    NotImplementedType,
    TensorType,
    Type,
    UndefinedType,
    as_array,
    grad_not_implemented,
    grad_undefined,
)
from .variable import Constant, SharedVariable, Variable, aligned_empty, as_variable
from .walk import ancestors, graph_inputs, leaves, shared_variables, toposort

__all__ = [
    "Apply", "ClosedGraph", "Constant", "DisconnectedType", "EagerValues", "FlatGraph", "NonAnswer",
    "NotImplementedType", "Op", "Origin", "SharedVariable", "TensorType", "Type", "UndefinedType", "Variable",
    "aligned_empty", "ancestors", "as_array", "as_variable", "clone_replace", "debugprint", "eager", "evaluate",
    "flatten", "grad_not_implemented", "grad_undefined", "gradient_of", "graph_inputs", "layer_named", "leaves",
    "rebuild", "run_node", "shared_variables", "to_dot", "to_svg", "toposort", "unflatten", "user_line",
]  # fmt: skip
