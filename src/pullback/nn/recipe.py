"""How a network is trained: what `compile` was told, and the expressions that follow from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops
from ..compile import Function, function
from ..errors import ArgumentError, UnknownNameError, nearest
from ..gradient.engine import grad
from ..graph import SharedVariable, TensorType, Variable
from .assembly import Node
from .configuration import Configuration, by_name
from .layers.base import Context
from .losses import LOSSES, Loss, per_sample
from .metrics import METRICS, Metric
from .optimizers import OPTIMIZERS, Optimizer

if TYPE_CHECKING:
    from .network import Network


@dataclass(frozen=True)
class Recipe(Configuration):
    """Optimizer, one loss and any number of metrics per output, and what else goes into the cost.

    cost = sum over outputs of weight * mean over the batch of (sample weight * loss) + l1 sum |w| + l2 sum w^2,
    the last two over the parameters that decay (weights, not biases).
    """

    optimizer: Optimizer
    losses: tuple[Loss, ...]
    metrics: tuple[tuple[Metric, ...], ...]
    weights: tuple[float, ...]
    l1: float = 0.0
    l2: float = 0.0
    clip_norm: float | None = None


def make_recipe(
    network: "Network",
    optimizer: str | Optimizer,
    loss: Any,
    metrics: Any,
    loss_weights: Any,
    l1: float,
    l2: float,
    clip_norm: float | None,
) -> Recipe:
    """Names looked up, and one of everything per output."""
    if isinstance(optimizer, str):
        optimizer = by_name(optimizer, type, OPTIMIZERS, "optimizer")()
    optimizer = by_name(optimizer, Optimizer, {}, "optimizer")
    for name, value in (("l1", l1), ("l2", l2), ("clip_norm", 1.0 if clip_norm is None else clip_norm)):
        if not value >= 0:
            raise ArgumentError(f"compile: {name}={value}; expected a number from 0 up")
    outputs = [node.name for node in network.outputs]
    losses = [by_name(one, Loss, LOSSES, "loss") for one in _per_output(loss, outputs, "loss")]
    listed = metrics if isinstance(metrics, Mapping) else {outputs[0]: metrics}
    for name in listed:
        if name not in outputs:
            raise UnknownNameError(f"compile: metrics for {name!r}, which is no output. {nearest(name, outputs)}")
    chosen = [
        tuple(by_name(one, Metric, METRICS, "metric") for one in _as_tuple(listed.get(name, ()))) for name in outputs
    ]
    weights = _per_output(1.0 if loss_weights is None else loss_weights, outputs, "loss_weights", repeat=True)
    return Recipe(optimizer, tuple(losses), tuple(chosen), tuple(map(float, weights)), l1, l2, clip_norm)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _per_output(value: Any, outputs: Sequence[str], what: str, repeat: bool = False) -> list[Any]:
    """One value per output, from a single one, a list in their order, or a dict by their names."""
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in outputs]
        if unknown or len(value) != len(outputs):
            raise ArgumentError(f"compile: {what} is given for {sorted(value)}; the outputs are {list(outputs)}")
        return [value[name] for name in outputs]
    values = list(_as_tuple(value))
    if len(values) == 1 and repeat:
        values *= len(outputs)
    if len(values) != len(outputs):
        raise ArgumentError(f"compile: {len(values)} values of {what} for {len(outputs)} outputs {list(outputs)}")
    return values


# --- expressions ------------------------------------------------------------------------------------------------------


def cost_and_sums(
    network: "Network", recipe: Recipe, inputs: Sequence[Variable], targets: Sequence[Variable], context: Context
) -> tuple[Variable, list[Variable]]:
    """The cost that is differentiated and shown, and the sums of all metrics. Behind the targets, one per output, there
    may stand a vector of sample weights per output."""
    context.scoring = True
    results = network(*inputs, context=context)
    outputs = results if isinstance(results, list) else [results]
    sample_weights = targets[len(outputs) :] or [None] * len(outputs)
    cost: Variable | None = None
    for loss, weight, output, target, own in zip(recipe.losses, recipe.weights, outputs, targets, sample_weights):
        losses = loss_of_steps(loss, output, target, context.lengths.get(output))
        term = ops.mean(losses if own is None else own * losses)
        term = term if weight == 1 else weight * term
        cost = term if cost is None else cost + term
    for strength, norm in ((recipe.l1, ops.abs), (recipe.l2, ops.square)):
        if strength:
            for w in decaying(network):
                cost = cost + strength * ops.sum(norm(w))
    sums = [
        value
        for chosen, output, target in zip(recipe.metrics, outputs, targets)
        for metric in chosen
        for value in sums_of_steps(metric, output, target, context.lengths.get(output))
    ]
    cost.name = "cost"
    return cost, sums


def loss_of_steps(loss: Loss, output: Variable, target: Variable, lengths: Variable | None) -> Variable:
    """The loss of each sample; of a sequence, over the steps that count."""
    if lengths is None:
        return loss(output, target)
    return loss.per_sample(before_the_end(loss.values(output, target), lengths))


def sums_of_steps(
    metric: Metric, output: Variable, target: Variable, lengths: Variable | None
) -> tuple[Variable, ...]:
    """The sums of a metric; of sequences, over the steps that count."""
    if lengths is None:
        return metric.sums(output, target)
    sums = []
    for values in metric.values(output, target):
        share = ops.cast(ops.length(values, 1), "float64") / ops.cast(ops.maximum(lengths, 1), "float64")
        sums.append(ops.sum(share * per_sample(before_the_end(values, lengths), mean=True)))
    return tuple(sums)


def before_the_end(values: Variable, lengths: Variable) -> Variable:
    """`values` (batch, time, ...) with zeros at the steps from `lengths` on."""
    counts = ops.less(ops.arange(ops.length(values, 1)), ops.expand_dims(lengths, 1))
    counts = ops.expand_dims(counts, tuple(range(2, values.ndim)))
    return ops.where(counts, values, ops.zeros_like(values))


def decaying(network: "Network") -> list[SharedVariable]:
    """The parameters that penalties and weight decay apply to."""
    return [v for node in network.nodes for key, v in node.parameters.items() if node.described[key].decays]


def symbols(network: "Network", target_types: Sequence[TensorType]) -> tuple[list[Variable], list[Variable]]:
    """Symbolic inputs, and targets with sample weights, if any, behind them."""
    several = len(network.outputs) > 1
    names = [f"target of {node.name}" if several else "y" for node in network.outputs]
    names += [f"sample weight of {node.name}" if several else "sample weight" for node in network.outputs]
    inputs = [input_variable(node) for node in network.inputs]
    return inputs, [Variable(kind, name=name) for kind, name in zip(target_types, names)]


def input_variable(node: Node) -> Variable:
    """The symbolic input of an Input layer."""
    return Variable(TensorType(node.output.dtype, (None, *node.output.shape)), name=node.name)


def training_function(network: "Network", recipe: Recipe, target_types: Sequence[TensorType]) -> Function:
    """One compiled step: forward, backward and update. It returns the cost before the update, and the metrics' sums."""
    inputs, targets = symbols(network, target_types)
    context = network.context(training=True)
    cost, sums = cost_and_sums(network, recipe, inputs, targets, context)
    updates = step_updates(network, recipe, grad(cost, network.trainable))
    return function(
        [*inputs, *targets], [cost, *sums], updates=updates | context.updates, name="train", on_unused_input="ignore"
    )


def step_updates(network: "Network", recipe: Recipe, gradients: Sequence[Variable]) -> dict[SharedVariable, Variable]:
    """What the optimizer makes of the gradients with respect to the trainable parameters."""
    parameters = network.trainable
    if recipe.clip_norm is not None:
        gradients = ops.clip_by_global_norm(gradients, recipe.clip_norm)
    optimizer = recipe.optimizer
    if network.rate is not None:
        optimizer = replace(optimizer, learning_rate=network.rate)
    return optimizer.updates(
        gradients,
        parameters,
        undecayed=set(parameters) - set(decaying(network)),
        multipliers={
            v: node.layer.learning_rate * node.described[key].learning_rate
            for node in network.nodes
            for key, v in node.parameters.items()
        },
        state=network.optimizer_state,
    )


def gradient_function(
    network: "Network", recipe: Recipe, target_types: Sequence[TensorType], wrt: str, training: bool
) -> Function:
    """The cost, and its gradient with respect to the trainable parameters or the inputs."""
    inputs, targets = symbols(network, target_types)
    context = network.context(training)
    cost, _ = cost_and_sums(network, recipe, inputs, targets, context)
    gradients = grad(cost, network.trainable if wrt == "parameters" else inputs)
    return function(
        [*inputs, *targets], [cost, *gradients], updates=context.updates, name="gradient", on_unused_input="ignore"
    )


def update_function(network: "Network", recipe: Recipe) -> Function:
    """One step of the optimizer along gradients that are given."""
    gradients = [Variable(v.type, name=f"gradient of {v.name}") for v in network.trainable]
    return function(
        gradients, [], updates=step_updates(network, recipe, gradients), name="update", on_unused_input="ignore"
    )


def evaluation_function(network: "Network", recipe: Recipe, target_types: Sequence[TensorType]) -> Function:
    """The cost and the metrics' sums, with layers as at predict."""
    inputs, targets = symbols(network, target_types)
    context = network.context(training=False)
    cost, sums = cost_and_sums(network, recipe, inputs, targets, context)
    return function(
        [*inputs, *targets], [cost, *sums], updates=context.updates, name="evaluate", on_unused_input="ignore"
    )


def prediction_function(network: "Network") -> Function:
    """The outputs, with layers as at predict."""
    inputs = [input_variable(node) for node in network.inputs]
    context = Context()
    results = network(*inputs, context=context)
    outputs = results if isinstance(results, list) else [results]
    return function(inputs, outputs, updates=context.updates, name="predict")


class Totals:
    """Costs and metrics' sums of several batches, and what they come to."""

    def __init__(self, network: "Network", recipe: Recipe) -> None:
        several = len(network.outputs) > 1
        self.metrics = [
            (f"{node.name}_{metric.name}" if several else metric.name, metric)
            for node, chosen in zip(network.outputs, recipe.metrics)
            for metric in chosen
        ]
        self.samples = 0
        self.sums: list[float] = []

    def add(self, values: Sequence[np.ndarray], samples: int) -> None:
        """Take in what the compiled function returned for a batch of so many samples."""
        cost, *sums = values
        terms = [float(cost) * samples, *map(float, sums)]
        self.sums = [a + b for a, b in zip(self.sums, terms)] if self.samples else terms
        self.samples += samples

    def results(self) -> dict[str, float]:
        """The cost per sample as "loss", and the metrics by name."""
        sums = iter(self.sums)
        found = {"loss": next(sums) / self.samples}
        for name, metric in self.metrics:
            found[name] = metric.result([next(sums) for _ in range(metric.terms)], self.samples)
        return found
