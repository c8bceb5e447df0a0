"""Batch normalisation, alone or inside another layer."""

from collections.abc import Mapping
from dataclasses import dataclass

from ... import ops
from ...errors import ArgumentError, ShapeError
from ...graph import SharedVariable, Variable
from ..configuration import Configuration
from ..initializers import Ones, Zeros
from .base import Context, Layer, Parameter

EPSILON = 1e-5
MOMENTUM = 0.9


@dataclass(frozen=True)
class BatchStatistics(Configuration):
    """How a batch is normalised: (x - mean) / sqrt(variance + epsilon).

    Args:
        epsilon: keeps the divisor from 0.
        momentum: the running averages become momentum * old + (1 - momentum) * new.
        epsilon_outside: divide by sqrt(variance) + epsilon instead (pjreddie's Darknet).
        unbiased: normalise by m / (m - 1) times the variance of the m numbers (Darknet). Up to a factor of (m - 1) / m
            on epsilon.
    """

    epsilon: float = EPSILON
    momentum: float = MOMENTUM
    epsilon_outside: bool = False
    unbiased: bool = False

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ArgumentError(f"{type(self).__name__}: epsilon={self.epsilon}; expected a number above 0")
        if not 0 <= self.momentum < 1:
            raise ArgumentError(f"{type(self).__name__}: momentum={self.momentum}; expected at least 0 and less than 1")


def statistics_of(batch_normalize: bool | BatchStatistics) -> BatchStatistics:
    """What a layer's `batch_normalize` says: True stands for the usual."""
    return batch_normalize if isinstance(batch_normalize, BatchStatistics) else BatchStatistics()


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
    statistics: BatchStatistics = BatchStatistics(),
) -> Variable:
    """Each channel (last axis) of `x` normalised, scaled and shifted; in training the running averages follow.

    The running variance averages the unbiased one, m / (m - 1) times the batch's (Ioffe and Szegedy 2015, algorithm 2).
    """
    scale, bias = parameters["scale"], parameters["bias"]
    running = parameters["running_mean"], parameters["running_variance"]
    settings = {"eps": statistics.epsilon, "axis": x.ndim - 1, "eps_outside": statistics.epsilon_outside}
    if not context.training:
        return ops.batch_norm(x, scale, bias, training=False, mean=running[0], var=running[1], **settings)
    count = ops.cast(ops.size(x) // x.shape[x.ndim - 1], x.dtype)
    correction = count / ops.maximum(count - 1.0, 1.0)
    y, mean, variance = ops.batch_norm_train(
        x, scale / ops.sqrt(correction) if statistics.unbiased else scale, bias, **settings
    )
    for old, new in zip(running, (mean, variance * correction)):
        context.updates[old] = statistics.momentum * old + (1.0 - statistics.momentum) * new
    return y


@dataclass(frozen=True)
class BatchNorm(Layer):
    """scale * (x - mean) / sqrt(variance + epsilon) + bias for each channel (last axis) (Ioffe and Szegedy 2015).

    Training uses the batch's mean and variance, predict their running averages. Parameters: `scale`, `bias`,
    `running_mean` and `running_variance` (channels,).

    Args:
        epsilon, momentum, epsilon_outside, unbiased: as in `BatchStatistics`.
    """

    epsilon: float = EPSILON
    momentum: float = MOMENTUM
    epsilon_outside: bool = False
    unbiased: bool = False

    __post_init__ = BatchStatistics.__post_init__

    def describe(self, x):
        if not x.shape or x.shape[-1] is None:
            raise ShapeError(f"needs to know the number of channels, got {x}")
        return x

    def parameters(self, x):
        return normalization_parameters(x.shape[-1])

    def apply(self, parameters, inputs, context):
        statistics = BatchStatistics(self.epsilon, self.momentum, self.epsilon_outside, self.unbiased)
        return normalize(inputs[0], parameters, context, statistics)
