"""Eager evaluation: every node is computed while it is built, so that values can be looked at and errors point home."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from . import op as op_module
from .interpreter import run_node
from .op import Apply
from .variable import Constant, SharedVariable, Variable


class EagerValues:
    """Values of the variables built inside `with eager(...)`: `values[v]` is the array of v."""

    def __init__(self, given: Mapping[Variable, Any]) -> None:
        self._arrays: WeakKeyDictionary[Variable, np.ndarray] = WeakKeyDictionary()
        for v, value in given.items():
            self._arrays[v] = v.type.filter(value)

    def get(self, v: Variable) -> np.ndarray | None:
        """The value of `v`, or None if something that it needs has none."""
        if isinstance(v, Constant):
            return v.data
        if isinstance(v, SharedVariable):
            return v.get_value()
        return self._arrays.get(v)

    def __getitem__(self, v: Variable) -> np.ndarray:
        array = self.get(v)
        if array is None:
            raise KeyError(f"{v!r} has no value: it was not built inside this block, or needs an input without a value")
        return array

    def compute(self, node: Apply) -> None:
        """Called for each new node."""
        inputs = [self.get(v) for v in node.inputs]
        if all(array is not None for array in inputs):
            self._arrays.update(zip(node.outputs, run_node(node, inputs)))


@contextlib.contextmanager
def eager(given: Mapping[Variable, Any] | None = None) -> Iterator[EagerValues]:
    """Inside the block every node is evaluated as soon as it is built.

    Printing a variable shows its value, and an op that fails on its values does so at the user's own line.

    Args:
        given: values of the symbolic inputs; what depends on an input without a value is not evaluated.

    Example:
        >>> import pullback as pb
        >>> x = pb.vector("x")
        >>> with pb.eager({x: [1.0, 2.0]}) as values:
        ...     y = x * 2
        ...     print(y)
        multiply = [2. 4.]
    """
    values = EagerValues(given or {})
    before = op_module.observer.current
    op_module.observer.current = values
    try:
        yield values
    finally:
        op_module.observer.current = before
