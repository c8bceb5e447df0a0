"""Run a graph with each op's `perform`, in order: the meaning of a graph, in one screen."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import GraphError, MissingInputError
from .op import Apply
from .type import TensorType
from .variable import Constant, SharedVariable, Variable
from .walk import toposort


def evaluate(
    outputs: Sequence[Variable],
    given: Mapping[Variable, np.ndarray] | None = None,
    order: Iterable[Apply] | None = None,
    check: Callable[[Apply, Sequence[np.ndarray], Sequence[np.ndarray]], None] | None = None,
) -> list[np.ndarray]:
    """Values of `outputs`, with `given` values for leaves (or for inner variables, which are then not computed).

    `check(node, inputs, outputs)`, if given, sees each node's arrays as soon as they are made.
    """
    values: dict[Variable, np.ndarray] = dict(given or {})
    for node in toposort(outputs, stop=values) if order is None else order:
        inputs = [lookup(values, x) for x in node.inputs]
        arrays = run_node(node, inputs)
        if check is not None:
            check(node, inputs, arrays)
        for v, array in zip(node.outputs, arrays):
            values.setdefault(v, array)
    return [lookup(values, v) for v in outputs]


def run_node(
    node: Apply, inputs: Sequence[np.ndarray], perform: Callable[..., Any] | None = None
) -> list[np.ndarray]:
    """Call the op's `perform` (or another that means the same) and check what it returned against the node's types."""
    with np.errstate(all="ignore"):  # infinities and NaN are values
        result = (perform or node.op.perform)(*inputs)
    arrays = [np.asarray(a) for a in (result if isinstance(result, (tuple, list)) else (result,))]
    if len(arrays) != len(node.outputs):
        raise GraphError(f"{node.op}.perform returned {len(arrays)} arrays, its node has {len(node.outputs)} outputs")
    for array, v in zip(arrays, node.outputs):
        if isinstance(v.type, TensorType) and (array.dtype.name, array.ndim) != (v.type.dtype, v.type.ndim):
            raise GraphError(
                f"{node.op}.perform returned {array.dtype}, {array.ndim}-d, where make_node promised {v.type}"
            )
    return arrays


def lookup(values: Mapping[Variable, np.ndarray], v: Variable) -> np.ndarray:
    if v in values:
        return values[v]
    if isinstance(v, Constant):
        return v.data
    if isinstance(v, SharedVariable):
        return v.storage
    raise MissingInputError(f"no value for {v!r} ({v.type}): give it as an input")
