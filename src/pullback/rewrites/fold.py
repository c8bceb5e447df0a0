"""Constant folding: what depends on constants only is computed once, unless the result is large."""

import numpy as np

from ..graph import Apply, Constant, Variable, run_node
from ..ops.elementwise import BroadcastLike
from ..ops.shape import BroadcastTo
from .driver import Facts, RuleSet
from .inner import held_graphs

FOLDED_BYTES = 4096  # results up to this size, or up to that of the inputs, are stored
REPEATS = (BroadcastLike, BroadcastTo)  # a repeated number is better left as one number

folding = RuleSet("folding")


@folding.on("any")
def fold(node: Apply, facts: Facts) -> list[Variable] | None:
    """The values of a node whose inputs are all constant."""
    if not all(isinstance(v, Constant) for v in node.inputs):
        return None
    if isinstance(node.op, REPEATS) or held_graphs(node.op):  # a loop may run long
        return None
    arrays = [v.data for v in node.inputs]
    try:
        shapes = node.op.infer_shape(node, [a.shape for a in arrays], arrays)
        if shapes is None:
            return None
        size = sum(int(np.prod(s)) * np.dtype(v.type.dtype).itemsize for s, v in zip(shapes, node.outputs))
        if size > max(FOLDED_BYTES, sum(a.nbytes for a in arrays)):
            return None
        return [Constant(a) for a in run_node(node, arrays)]
    except Exception:  # the error is the user's, and is raised where it belongs: when the function runs
        return None
