"""Scan: a graph repeated over steps, with state carried from one to the next. Its gradient is another Scan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import GraphError, ShapeError
from ..graph import Apply, ClosedGraph, Op, TensorType, Variable, as_variable, evaluate
from .inner import connections, infer_shapes

Taps = tuple[int, ...]
FOREVER = np.iinfo(np.int64).max  # as the number of steps of a loop that only its condition ends


@dataclass(frozen=True)
class Scan(Op):
    """Step t computes `graph` from slice t of each sequence, earlier states, and values that stay the same.

    Inputs of the node: the number of steps; the sequences; per state the values before the first step, oldest first
    (one more axis in front, as long as the state reaches back); the constant values. Outputs: per state its values at
    all steps (one more axis in front), or only the last one; then the other results, likewise stacked.

    Attributes:
        graph: inputs (slices, states by state and tap, constant values) -> outputs (new states, other results, and with
            `until` a boolean that ends the loop after the step that makes it true).
        n_sequences: how many inputs are slices of sequences.
        taps: per state the distances at which it is read, e.g. (-1,) or (-2, -1).
        until: whether the last output of `graph` is the end condition.
        last_only: per state whether only its last value is given out.
        backwards: steps run from the end of sequences and results to their beginning.
        truncate: through how many of the last steps gradients go back; -1 for all.
        name: for messages.
    """

    graph: ClosedGraph
    n_sequences: int
    taps: tuple[Taps, ...]
    until: bool = False
    last_only: tuple[bool, ...] = ()
    backwards: bool = False
    truncate: int = -1
    name: str = "scan"

    formula = "a scan backwards over the steps"

    @property
    def n_states(self) -> int:
        return len(self.taps)

    @property
    def n_results(self) -> int:
        return len(self.graph.outputs) - self.n_states - self.until

    @property
    def reach(self) -> tuple[int, ...]:
        """Per state how many steps it is read back."""
        return tuple(-min(taps) for taps in self.taps)

    def groups(self, inputs: Sequence[Any]) -> tuple[Any, Sequence[Any], Sequence[Any], Sequence[Any]]:
        """(number of steps, sequences, first states, constant values) of the node's inputs."""
        a, b = 1 + self.n_sequences, 1 + self.n_sequences + self.n_states
        return inputs[0], inputs[1:a], inputs[a:b], inputs[b:]

    def inner_groups(self) -> tuple[Sequence[Variable], list[Sequence[Variable]], Sequence[Variable]]:
        """(slices, per state its taps, constant values) of the graph's inputs."""
        at = self.n_sequences
        states = []
        for taps in self.taps:
            states.append(self.graph.inputs[at : at + len(taps)])
            at += len(taps)
        return self.graph.inputs[: self.n_sequences], states, self.graph.inputs[at:]

    def make_node(self, *inputs: Any) -> Apply:
        variables = [as_variable(x) for x in inputs]
        kept = self.last_only or (False,) * self.n_states
        types = []
        for k, v in enumerate(self.graph.outputs[: self.n_states + self.n_results]):
            last = k < self.n_states and kept[k]
            types.append(TensorType(v.type.dtype, v.type.shape if last else (None, *v.type.shape)))
        return Apply(self, variables, types)

    # --- meaning ------------------------------------------------------------------------------------------------------
    def perform(
        self, *inputs: np.ndarray, step: Callable[[list[np.ndarray]], list[np.ndarray]] | None = None
    ) -> tuple[np.ndarray, ...]:
        """Run the steps one by one; `step`, if given, computes the graph's outputs from its inputs."""
        step = step or self._step
        count, sequences, initial, constants = self.groups(inputs)
        steps = self.checked_steps(int(count), [x.shape for x in sequences])
        history = [list(x[-reach:]) for x, reach in zip(initial, self.reach)]
        results: list[list[np.ndarray]] = [[] for _ in range(self.n_results)]
        done = 0
        while done < steps:
            at = len(sequences[0]) - 1 - done if self.backwards and sequences else done
            read = [past[tap] for taps, past in zip(self.taps, history) for tap in taps]
            outputs = step([*(x[at] for x in sequences), *read, *constants])
            for past, new in zip(history, outputs):
                if new.shape != past[-1].shape:
                    old = past[-1].shape
                    raise ShapeError(f"{self.name}: a state of shape {old} became {new.shape} at step {done}")
                past.append(new)
            for found, new in zip(results, outputs[self.n_states :]):
                found.append(new)
            done += 1
            if self.until and outputs[-1]:
                break
        return self._gathered(history, results, inputs)

    def _step(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        return evaluate(self.graph.outputs, dict(zip(self.graph.inputs, arrays)), self.graph.nodes)

    def _gathered(self, history, results, inputs) -> tuple[np.ndarray, ...]:
        kept = self.last_only or (False,) * self.n_states
        gathered = []
        for past, reach, last in zip(history, self.reach, kept):
            if last:
                gathered.append(np.array(past[-1]))
                continue
            steps = past[reach:]
            gathered.append(np.stack(self._ordered(steps)) if steps else np.empty((0, *past[-1].shape), past[-1].dtype))
        for found, v, shape in zip(results, self.graph.outputs[self.n_states :], self._result_shapes(inputs)):
            gathered.append(np.stack(self._ordered(found)) if found else np.empty((0, *shape), v.dtype))
        return tuple(gathered)

    def _ordered(self, steps: list[np.ndarray]) -> list[np.ndarray]:
        return steps[::-1] if self.backwards else steps

    def _result_shapes(self, inputs: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
        found = self.inner_shapes([x.shape for x in inputs], list(inputs))[self.n_states :]
        static = [v.type.shape for v in self.graph.outputs[self.n_states :]]
        return [s if s is not None else tuple(n or 0 for n in t) for s, t in zip(found, static)]

    def checked_steps(self, count: int, sequences: Sequence[tuple[int, ...]]) -> int:
        """The number of steps, after the sequences have been found long enough."""
        if count < 0:
            raise GraphError(f"{self.name}: n_steps is {count}; expected 0 or more")
        for i, shape in enumerate(sequences):
            if shape[0] < count and not (self.until and count == FOREVER):
                raise ShapeError(f"{self.name}: sequence {i} has {shape[0]} entries, but {count} steps are asked for")
        return min([count, *(shape[0] for shape in sequences)]) if count == FOREVER else count

    # --- shapes and connections ---------------------------------------------------------------------------------------
    def inner_shapes(self, shapes: Sequence[tuple], values: Sequence[Any]) -> list[tuple[int, ...] | None]:
        """Shapes of the graph's outputs at each step."""
        _, sequences, initial, constants = self.groups(shapes)
        per_tap = [s[1:] for s, taps in zip(initial, self.taps) for _ in taps]
        *_, known = self.groups(values)
        blank = [None] * (len(self.graph.inputs) - len(known))
        return infer_shapes(self.graph, [*(s[1:] for s in sequences), *per_tap, *constants], [*blank, *known])

    def infer_shape(self, node, shapes, values):
        if values[0] is None or self.until:
            return None
        steps = self.checked_steps(int(values[0]), self.groups(shapes)[1])
        inner = self.inner_shapes(shapes, values)
        if None in inner:
            return None
        kept = (*(self.last_only or (False,) * self.n_states), *(False,) * self.n_results)
        return [s if last else (steps, *s) for s, last in zip(inner, kept)]

    def connection_pattern(self, node):
        inner = connections(self.graph)
        slices, states, constants = self.inner_groups()
        row = dict(zip(self.graph.inputs, inner))
        reads = [[any(row[v][k] for v in taps) for k in range(self.n_states)] for taps in states]
        for middle in range(self.n_states):  # states that reach others through states
            for a in range(self.n_states):
                for k in range(self.n_states):
                    reads[a][k] = reads[a][k] or (reads[a][middle] and reads[middle][k])

        def through(direct: Sequence[bool]) -> list[bool]:
            reached = [direct[k] or any(direct[s] and reads[s][k] for s in range(self.n_states)) for k in
                       range(self.n_states)]  # fmt: skip
            rest = [
                direct[j] or any(reached[s] and any(row[v][j] for v in states[s]) for s in range(self.n_states))
                for j in range(self.n_states, self.n_states + self.n_results)
            ]
            return [*reached, *rest]

        rows = [[False] * len(node.outputs)]
        rows += [through(row[v]) for v in slices]
        for k, taps in enumerate(states):
            direct = through([any(row[v][j] for v in taps) for j in range(len(self.graph.outputs))])
            if self.last_only and self.last_only[k]:
                direct[k] = True  # after zero steps the last value is the first
            rows.append(direct)
        rows += [through(row[v]) for v in constants]
        return rows

    # --- gradient -----------------------------------------------------------------------------------------------------
    def L_op(self, inputs, outputs, output_grads):
        from .scan_gradient import ScanPullback

        return ScanPullback(self, inputs, outputs, output_grads).answers()

    def with_all_states(self) -> "Scan":
        """The same scan that gives out its states at all steps."""
        return replace(self, last_only=())

    def __str__(self) -> str:
        return self.name

