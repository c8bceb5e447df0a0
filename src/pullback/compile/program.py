"""A program: an optimized graph bound to a backend, with its updates."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..graph import SharedVariable, Variable, evaluate, toposort


class Program:
    """Runs a graph whose expressions no longer change.

    Args:
        inputs: leaves that get a value at each call.
        outputs: what a call returns.
        updates: {shared variable: its next value}.
        backend: "native" or "reference".
    """

    def __init__(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        updates: Mapping[SharedVariable, Variable],
        backend: str,
    ) -> None:
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.updates = dict(updates)
        self.backend = backend
        self.order = toposort([*self.outputs, *self.updates.values()], stop=self.inputs)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return run_reference(self, arrays)


def run_reference(program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Each op's `perform` in order, then all updates together."""
    roots = [*program.outputs, *program.updates.values()]
    with np.errstate(all="ignore"):
        values = evaluate(roots, dict(zip(program.inputs, arrays)), program.order)
    n = len(program.outputs)
    results = [np.array(a, copy=True) for a in values[:n]]
    new_values = [s.type.filter(a) for s, a in zip(program.updates, values[n:])]
    for shared, array in zip(program.updates, new_values):
        shared.set_value(array)
    return results
