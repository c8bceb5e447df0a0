"""A program: an optimized graph bound to a backend. It keeps one plan for each set of input shapes."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..config import config
from ..errors import NonFiniteError
from ..graph import Apply, Constant, SharedVariable, Variable, evaluate, run_node, toposort

PLANS_KEPT = 32
Check = Callable[[Apply, Sequence[np.ndarray], Sequence[np.ndarray]], None]


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
        self.order = schedule(self.inputs, self.outputs, self.updates)
        self._lock = threading.Lock()
        self._update_lock = threading.RLock()
        self._plans: OrderedDict[tuple, list] = OrderedDict()
        self._workspaces: list = []

    @functools.cached_property
    def _threads(self) -> Callable[[], int]:
        from ..codegen import get_threads

        return get_threads

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Compute the outputs and commit the updates."""
        if not self.updates:
            return self._run(arrays)
        with self._update_lock:
            return self._run(arrays)

    def _run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if config.nan_guard:
            return run_reference(self, arrays, check=raise_if_not_finite)
        if self.backend == "reference":
            return run_reference(self, arrays)
        return self._run_plan(arrays)

    def _run_plan(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        key = self._threads(), *[a.shape for a in arrays]  # a plan has scratch for each thread
        with self._lock:  # a second thread finds the list empty and makes itself a plan
            waiting = self._plans.get(key)
            plan = waiting.pop() if waiting else None
            workspace = self._workspaces.pop() if self._workspaces else None
        if workspace is None:
            from .plan import Workspace

            workspace = Workspace()
        if plan is None:
            plan = self._plan([a.shape for a in arrays])
        try:
            return plan.run(arrays, workspace)
        finally:
            with self._lock:
                self._plans.setdefault(key, []).append(plan)
                self._plans.move_to_end(key)
                if len(self._plans) > PLANS_KEPT:
                    self._plans.popitem(last=False)
                self._workspaces.append(workspace)

    def latest_plan(self):
        """The plan that ran last."""
        with self._lock:
            return next(reversed(self._plans.values()))[-1]

    def _plan(self, shapes: Sequence[tuple[int, ...]]):
        from .plan import Plan
        from .planner import Planner

        by_input = dict(zip(self.inputs, shapes))
        planner = Planner(self.order, self.outputs, self.updates, by_input)
        if not planner.deferred:
            return Plan(planner, self.outputs, self.updates)
        return Staged(self, planner, by_input)


class Staged:
    """A graph with results whose size only running tells: what can be planned, then those ops, then the rest.

    The rest is a program of its own, with plans of its own for the sizes that it meets.
    """

    def __init__(self, program: Program, planner, shapes: Mapping[Variable, tuple[int, ...]]) -> None:
        from .plan import Plan
        from .planner import Planner

        roots = [*program.outputs, *program.updates.values()]
        wanted = dict.fromkeys([v for node in planner.deferred for v in node.inputs] + roots)
        crossing = [v for v in wanted if v not in planner.unknown and v.owner is not None and v not in shapes]
        self.ready: list[Apply] = [
            node for node in planner.deferred if not any(v in planner.unknown for v in node.inputs)
        ]
        self.program = program
        self.crossing = crossing
        first = Planner(toposort(crossing, stop=program.inputs), crossing, {}, shapes)
        self.plan = Plan(first, crossing, {})
        found = [v for node in self.ready for v in node.outputs]
        self.known = [*program.inputs, *crossing, *found]
        self.rest = Program(self.known, roots, {}, program.backend)

    def run(self, arrays: Sequence[np.ndarray], workspace) -> list[np.ndarray]:
        values = dict(zip(self.program.inputs, arrays))
        values.update(zip(self.crossing, self.plan.run(arrays, workspace)))
        from .host import host_perform

        for node in self.ready:
            inputs = [values[v] if v in values else _leaf_value(v) for v in node.inputs]
            values.update(zip(node.outputs, run_node(node, inputs, host_perform(node.op))))
        results = self.rest.run([values[v] for v in self.known])
        n = len(self.program.outputs)
        for s, array in zip(self.program.updates, results[n:]):
            s.set_value(array)
        return results[:n]


def schedule(
    inputs: Sequence[Variable], outputs: Sequence[Variable], updates: Mapping[SharedVariable, Variable]
) -> list[Apply]:
    """Nodes in order; those that make the next values of shared variables last, so that they may overwrite the old."""
    known = set(inputs)
    final = dict.fromkeys(v.owner for v in updates.values() if v.owner is not None and v not in known)
    before = toposort([*outputs, *(x for node in final for x in node.inputs)], stop=inputs)
    placed = set(before)
    return before + [node for node in toposort(updates.values(), stop=inputs) if node not in placed]


def run_reference(program: Program, arrays: Sequence[np.ndarray], check: Check | None = None) -> list[np.ndarray]:
    """Each op's `perform` in order, then all updates together. `check(node, inputs, outputs)` sees every node."""
    roots = [*program.outputs, *program.updates.values()]
    values = evaluate(roots, dict(zip(program.inputs, arrays)), program.order, check)
    n = len(program.outputs)
    results = [np.array(a, copy=True, order="C") for a in values[:n]]
    new_values = [s.type.filter(np.array(a)) for s, a in zip(program.updates, values[n:])]
    for shared, array in zip(program.updates, new_values):
        shared.set_value(array)
    return results


def _leaf_value(v: Variable) -> np.ndarray:
    return v.data if isinstance(v, Constant) else v.storage


def _named(node: Apply, i: int) -> str:
    name = node.inputs[i].name
    return f"{i}, {name}," if name else f"{i}"


def raise_if_not_finite(node: Apply, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """The NaN guard: name the first op that makes a non-finite number out of finite ones."""
    for j, array in enumerate(outputs):
        if array.dtype.kind != "f" or np.isfinite(array).all():
            continue
        position = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        fed = [i for i, x in enumerate(inputs) if x.dtype.kind == "f" and not np.isfinite(x).all()]
        source = f"its input {_named(node, fed[0])} was not finite already" if fed else "all its inputs are finite"
        raise NonFiniteError(
            f"{node.op} made {array[position]} at index {position} of output {j} (shape {array.shape}); {source}.\n"
            f"  {'in ' if node.origin.gradient_of else 'built at '}{node.origin}"
        )
