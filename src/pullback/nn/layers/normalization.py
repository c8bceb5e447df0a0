"""Batch normalisation, alone or inside a convolution."""

from collections.abc import Mapping
from dataclasses import dataclass

from ... import ops
from ...errors import ArgumentError, ShapeError
from ...graph import SharedVariable, Variable
from ..initializers import Ones, Zeros
from .base import Context, Layer, Parameter

EPSILON = 1e-5
MOMENTUM = 0.9


def normalization_parameters(channels: int) -> dict[str, Parameter]:
    """Scale and bias, and averages of the batches' means and variances, which stand in for the batch's own at
    predict."""
    return {
        "scale": Parameter((channels,), Ones()),
        "bias": Parameter((channels,), Zeros()),
        "running_mean": Parameter((channels,), Zeros(), trainable=False),
        "running_variance": Parameter((channels,), Ones(), trainable=False),
    }


def normalize(
    x: Variable,
    parameters: Mapping[str, SharedVariable],
    context: Context,
    epsilon: float = EPSILON,
    momentum: float = MOMENTUM,
) -> Variable:
    """Each channel (last axis) of `x` normalised, scaled and shifted; in training the running averages follow.

    The running variance averages the unbiased one, m / (m - 1) times the batch's (Ioffe and Szegedy 2015, algorithm 2).
    """
    scale, bias = parameters["scale"], parameters["bias"]
    running = parameters["running_mean"], parameters["running_variance"]
    last = x.ndim - 1
    if not context.training:
        return ops.batch_norm(x, scale, bias, training=False, eps=epsilon, axis=last, mean=running[0], var=running[1])
    y, mean, variance = ops.batch_norm_train(x, scale, bias, eps=epsilon, axis=last)
    count = ops.cast(ops.size(x) // x.shape[last], x.dtype)
    unbiased = variance * (count / ops.maximum(count - 1.0, 1.0))
    for old, new in zip(running, (mean, unbiased)):
        context.updates[old] = momentum * old + (1.0 - momentum) * new
    return y


@dataclass(frozen=True)
class BatchNorm(Layer):
    """scale * (x - mean) / sqrt(variance + epsilon) + bias for each channel (last axis) (Ioffe and Szegedy 2015).

    Training uses the batch's mean and variance, predict their running averages. Parameters: `scale`, `bias`,
    `running_mean` and `running_variance` (channels,).

    Args:
        epsilon: is added to the variance.
        momentum: the running averages become momentum * old + (1 - momentum) * new.
    """

    epsilon: float = EPSILON
    momentum: float = MOMENTUM

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ArgumentError(f"BatchNorm: epsilon={self.epsilon}; expected a number above 0")
        if not 0 <= self.momentum < 1:
            raise ArgumentError(f"BatchNorm: momentum={self.momentum}; expected at least 0 and less than 1")

    def describe(self, x):
        if not x.shape or x.shape[-1] is None:
            raise ShapeError(f"needs to know the number of channels, got {x}")
        return x

    def parameters(self, x):
        return normalization_parameters(x.shape[-1])

    def apply(self, parameters, inputs, context):
        return normalize(inputs[0], parameters, context, self.epsilon, self.momentum)
