"""Where a network's gradient gets lost: sizes of signal and gradient, saturation and dead units, layer by layer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops
from ..compile import function
from ..gradient.engine import grad
from ..graph import Constant, Variable, leaves
from ..ops.elementwise import Elementwise
from .arrays import about, check_values
from .assembly import Node
from .recipe import cost_and_sums, symbols

if TYPE_CHECKING:
    from .network import Network

FLAT = 0.01  # an activation whose slope is at most this is saturated
FAINT, STRONG = 1e-4, 1e4  # of a gradient beside that of the last layer
MANY_DEAD, MANY_SATURATED = 0.25, 0.75  # shares that deserve a remark


@dataclass(frozen=True)
class LayerFlow:
    """One layer's part of the report. What does not apply is None.

    Attributes:
        layer: its name.
        output: root mean square of what it puts out.
        gradient: root mean square of the derivative of a sample's cost with respect to that.
        weights, weights_gradient: root mean squares of all its trainable parameters, and of the cost's derivative with
            respect to them.
        saturated: the share of its activations whose slope is at most 0.01.
        units, dead: its units (channels), and how many of them are saturated for every sample and place.
        remark: what is wrong with it; empty if nothing is.
    """

    layer: str
    output: float
    gradient: float | None
    weights: float | None
    weights_gradient: float | None
    saturated: float | None
    units: int | None
    dead: int | None
    remark: str = ""


@dataclass(frozen=True)
class GradientFlow:
    """What `Network.gradient_flow` measured: layers from first to last. `flow["name"]` is one of them."""

    layers: tuple[LayerFlow, ...]
    cost: float
    samples: int

    def __getitem__(self, name: str) -> LayerFlow:
        return {one.layer: one for one in self.layers}[name]

    def __iter__(self) -> Iterator[LayerFlow]:
        return iter(self.layers)

    @property
    def healthy(self) -> bool:
        """Whether there is no remark."""
        return not any(one.remark for one in self.layers)

    def __str__(self) -> str:
        rows = [("layer", "output", "gradient", "weights", "their gradient", "saturated", "dead", "")]
        for one in self.layers:
            sizes = (one.output, one.gradient, one.weights, one.weights_gradient)
            share = "" if one.saturated is None else f"{one.saturated:.0%}"
            dead = "" if one.dead is None else f"{one.dead} of {one.units}"
            rows.append((one.layer, *("" if x is None else f"{x:.2g}" for x in sizes), share, dead, one.remark))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [
            "  ".join(f"{cell:<{w}}" if k in (0, 7) else f"{cell:>{w}}" for k, (cell, w) in enumerate(zip(row, widths)))
            for row in rows
        ]
        verdict = "nothing is wrong" if self.healthy else "see the remarks"
        lines.append(f"{self.samples} samples, cost {self.cost:.4g}: {verdict}")
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def gradient_flow(network: "Network", X: Any, y: Any, samples: int, seed: int) -> GradientFlow:
    """See `Network.gradient_flow`."""
    with about("gradient_flow"):
        given = network.samples(X, y)
        check_values(network, network.recipe, given)
    count = min(samples, len(given))
    rows = np.random.default_rng(seed).permutation(len(given))[:count]
    batch = given.converted([a[rows] for a in given.arrays])
    inputs, targets = symbols(network, given.target_types)
    context = network.context(training=True)
    cost, _ = cost_and_sums(network, network.recipe, inputs, targets, context)
    nodes = [node for node in network.nodes if node.sources]
    values = [context.values[node.index] for node in nodes]
    # the last layer and the loss are differentiated together, which a question about what lies between would prevent
    inner = [v for node, v in zip(nodes, values) if node not in network.outputs]
    wanted = {v: count * g for v, g in zip(inner, grad(cost, inner))}
    slopes = grad(cost, network.trainable)
    measures = [
        Measures(node, v, wanted.get(v), [(w, g) for w, g in zip(network.trainable, slopes) if w in owned(node)])
        for node, v in zip(nodes, values)
    ]
    run = function(
        [*inputs, *targets], [cost, *(m for one in measures for m in one.expressions)],
        name="gradient flow", no_default_updates=True, on_unused_input="ignore",
    )  # fmt: skip
    total, *numbers = map(float, run(*batch))
    found = iter(numbers)
    return GradientFlow(tuple(with_remarks([one.layer_flow(found) for one in measures])), total, count)


def owned(node: Node) -> set[Variable]:
    return set(node.parameters.values())


class Measures:
    """Expressions of what is measured at one layer, and the place of each number in the report."""

    def __init__(
        self, node: Node, value: Variable, gradient: Variable | None, pairs: Sequence[tuple[Variable, Variable]]
    ) -> None:
        self.node = node
        self.named: dict[str, Variable] = {"output": size([value])}
        if gradient is not None:
            self.named["gradient"] = size([gradient])
        if pairs:
            self.named["weights"] = size([w for w, _ in pairs])
            self.named["weights_gradient"] = size([g for _, g in pairs])
        slope = activation_slope(value)
        if slope is not None:
            flat = ops.less_equal(ops.abs(slope), FLAT)
            self.named["saturated"] = ops.mean(ops.cast(flat, "float64"))
            self.named["dead"] = ops.sum(ops.all(flat, axis=tuple(range(slope.ndim - 1))))
            self.named["units"] = ops.cast(ops.length(slope, -1), "int64")

    @property
    def expressions(self) -> list[Variable]:
        return list(self.named.values())

    def layer_flow(self, numbers: Iterator[float]) -> LayerFlow:
        """The report's part, from the numbers that the expressions came to."""
        optional = ("gradient", "weights", "weights_gradient", "saturated", "units", "dead")
        values: dict[str, Any] = dict.fromkeys(optional)
        values |= {name: next(numbers) for name in self.named}
        for name in ("units", "dead"):
            values[name] = None if values[name] is None else int(values[name])
        return LayerFlow(self.node.name, **values)


def size(arrays: Sequence[Variable]) -> Variable:
    """The root mean square of all elements together."""
    squares = [ops.sum(ops.square(ops.cast(a, "float64"))) for a in arrays]
    counts = [ops.prod(ops.cast(ops.shape(a), "float64")) for a in arrays]
    return ops.sqrt(sum(squares[1:], squares[0]) / ops.maximum(sum(counts[1:], counts[0]), 1.0))


def activation_slope(value: Variable) -> Variable | None:
    """The derivative of an activation, element by element, if `value` is an elementwise function of one variable."""
    node = value.owner
    if node is None or not isinstance(node.op, Elementwise) or value.ndim < 2:
        return None
    moving = [v for v in node.inputs if any(not isinstance(leaf, Constant) for leaf in leaves([v]))]
    return grad(ops.sum(value), moving[0]) if len(moving) == 1 and moving[0].ndim == value.ndim else None


def with_remarks(layers: Sequence[LayerFlow]) -> Iterator[LayerFlow]:
    """Each layer with what is wrong with it."""
    sizes = [one.gradient for one in layers if one.gradient]
    last = sizes[-1] if sizes else 1.0
    for one in layers:
        yield replace(one, remark="; ".join(remarks(one, last)))


def remarks(one: LayerFlow, last: float) -> Iterator[str]:
    """What is wrong with a layer, given the gradient that the last one gets."""
    if not all(np.isfinite(x) for x in (one.output, one.gradient, one.weights_gradient) if x is not None):
        yield "not finite"
        return
    if one.weights_gradient == 0:
        yield "its weights get no gradient"
    elif one.gradient == 0:
        yield "no gradient arrives"
    elif one.gradient is not None and one.gradient < FAINT * last:
        yield "the gradient vanishes"
    elif one.gradient is not None and one.gradient > STRONG * last:
        yield "the gradient explodes"
    if one.dead is not None and one.dead > MANY_DEAD * one.units:
        yield "many dead units"
    elif one.saturated is not None and one.saturated > MANY_SATURATED:
        yield "saturated"
