"""The gradient of a whole network held against differences, parameter by parameter, in float64."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compile import function
from ..errors import ArgumentError
from ..graph import Variable, clone_replace
from ..testing import CheckError, Mistake, Report
from ..testing.diagnose import diagnose
from ..testing.differences import random_direction, signed
from ..testing.proof import TRIES, error_along, smooth_slope
from ..testing.subject import GraphSubject
from .arrays import about, check_values, input_arrays
from .recipe import cost_and_sums, symbols

if TYPE_CHECKING:
    from .network import Network

LIMIT = 1e-6
JITTER = 1e-3  # biases of exactly 0, as they are made, would put every blank pixel on the kink of relu


class CompiledSubject(GraphSubject):
    """A graph and its gradient as they really run: compiled, on the backend in use."""

    def __init__(self, inputs: list[Variable], outputs: list[Variable]) -> None:
        super().__init__(inputs, outputs)
        options = {"no_default_updates": True, "on_unused_input": "ignore"}  # the same random draws at each call
        self.run = function(self.inputs, self.outputs, name="value", **options)
        both = [*self.inputs, *self.cotangents]
        self.run_back = function(both, self.formulas, name="gradient", **options)
        self.run_decisions = function(both, self._discrete, name="decisions", **options)

    def value(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self.run(*arrays)

    def pull(self, arrays: Sequence[np.ndarray], cotangents: Sequence[np.ndarray]) -> list[np.ndarray | None]:
        found = iter(self.run_back(*arrays, *cotangents))
        return [next(found) if answer == "formula" else None for answer in self.answers]

    def decisions(self, arrays: Sequence[np.ndarray], cotangents: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self.run_decisions(*arrays, *cotangents)


@dataclass(frozen=True, eq=False)
class Point:
    """Where a gradient is checked: inputs, what is pulled back, and what comes of it."""

    arrays: list[np.ndarray]
    cotangents: list[np.ndarray]
    grads: list[np.ndarray | None]


def check_gradients(
    network: "Network",
    X: Any,
    y: Any,
    samples: int,
    points: int,
    seed: int,
    progress: Callable[[str, int, int], None] | None,
) -> Report:
    """See `Network.check_gradients`."""
    wide = network.astype("float64")
    rng = np.random.default_rng(seed)
    with about("check_gradients"):
        inputs, targets, outputs, data = _expressions(wide, X, y, rng)
    parameters = wide.trainable
    moved = [Variable(v.type, name=v.name) for v in parameters]
    outputs = clone_replace(outputs, dict(zip(parameters, moved)))
    subject = CompiledSubject([*moved, *inputs, *targets], outputs)
    values = [v.get_value() for v in parameters]

    def draw() -> Point:
        rows = rng.choice(len(data[0]), min(samples, len(data[0])), replace=False)
        arrays = [*(v + JITTER * rng.normal(size=v.shape) for v in values), *(a[rows] for a in data)]
        cotangents = [signed(rng, a.shape) for a in subject.value(arrays)]
        return Point(arrays, cotangents, subject.pull(arrays, cotangents))

    # pixels of real images are often equal, so that max-pooling ties: data is moved only where it is random
    checked = len(moved) + (sum(v.type.is_float for v in inputs) if X is None else 0)
    report = Report(network.name or "network", list(subject.names[:checked]), list(subject.answers[:checked]))
    for n in range(points):
        shared = draw()
        for i, name in enumerate(report.inputs):
            if progress is not None:
                progress(name, n * checked + i, points * checked)
            _check_input(subject, i, shared, draw, rng, report)
    if not report.right:
        raise CheckError(report)
    return report


def _check_input(
    subject: CompiledSubject,
    i: int,
    point: Point,
    draw: Callable[[], Point],
    rng: np.random.Generator,
    report: Report,
) -> None:
    """Note the error of one input's gradient at that point, or at others until the function is smooth along a random
    direction."""
    for _ in range(TRIES):
        report.draws += 1
        direction = [random_direction(rng, a) if j == i else None for j, a in enumerate(point.arrays)]
        there = smooth_slope(subject, point.arrays, point.cotangents, direction)
        if there is not None:
            break
        report.redraws += 1
        point = draw()
    else:
        report.mistakes.append(Mistake("not smooth", f"differences converge at none of {TRIES} points", i, 1))
        return
    error = error_along(there, point.cotangents, [point.grads[i]], [direction[i]])
    report.note_error(1, i, error)
    if not error <= LIMIT and not any(m.input == i for m in report.mistakes):
        report.mistakes.append(diagnose(subject, point.arrays, point.cotangents, point.grads, [i], 1, error))


def _expressions(
    network: "Network", X: Any, y: Any, rng: np.random.Generator
) -> tuple[list[Variable], list[Variable], list[Variable], Sequence[np.ndarray]]:
    """Symbolic inputs and targets, what is differentiated (the cost, or without a recipe the outputs), and rows to draw
    from."""
    X = _random_inputs(network, rng) if X is None else X
    context = network.context(training=True)
    if network.recipe is None:
        inputs, _ = symbols(network, [])
        results = network(*inputs, context=context)
        data = [a.astype(v.dtype) for a, v in zip(input_arrays(network, X), inputs)]
        return inputs, [], results if isinstance(results, list) else [results], data
    if y is None:
        count = len(X[0] if len(network.inputs) > 1 else X)
        y = [loss.example(node.output, count, rng) for loss, node in zip(network.recipe.losses, network.outputs)]
        y = y[0] if len(y) == 1 else y
    given = network.samples(X, y)
    check_values(network, network.recipe, given)
    inputs, targets = symbols(network, given.target_types)
    cost, _ = cost_and_sums(network, network.recipe, inputs, targets, context)
    return inputs, targets, [cost], given.converted(given.arrays)


def _random_inputs(network: "Network", rng: np.random.Generator, count: int = 64) -> Any:
    """Normal numbers for every input."""
    arrays = []
    for node in network.inputs:
        spec = node.output
        if None in spec.shape or not spec.dtype.startswith("float"):
            raise ArgumentError(f"{node} takes {spec.dtype} of shape {spec}: random numbers don't suit it, so give X")
        arrays.append(rng.normal(size=(count, *spec.shape)))
    return arrays if len(arrays) > 1 else arrays[0]
