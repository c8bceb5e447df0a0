"""Normalisation of each sample by itself, the same in training and at predict."""

from dataclasses import dataclass

from ... import ops
from ...errors import ArgumentError, ShapeError
from ..initializers import Ones, Zeros
from .base import Layer, Parameter, Spec, positive


def positive_epsilon(layer: Layer) -> None:
    """Refuse an epsilon that doesn't keep the divisor from 0."""
    if not layer.epsilon > 0:
        raise ArgumentError(f"{type(layer).__name__}: epsilon={layer.epsilon}; expected a number above 0")


def trailing(x: Spec, axes: int) -> tuple[int, ...]:
    """The lengths of the last `axes` axes."""
    if axes > len(x.shape):
        raise ShapeError(f"normalises over the last {axes} axes, got {x}")
    shape = x.shape[len(x.shape) - axes :]
    if None in shape:
        raise ShapeError(f"needs to know the lengths of the last {axes} axes, got {x}")
    return shape


@dataclass(frozen=True)
class LayerNorm(Layer):
    """scale * (x - mean) / sqrt(variance + epsilon) + bias, with mean and variance over the last axes of each sample,
    which for sequences is: at each step by itself (Ba et al. 2016).

    Parameters: `scale` and `bias`, of the lengths of these axes.

    Args:
        axes: how many of the last axes are normalised together.
        epsilon: keeps the divisor from 0.
        scale, bias: whether they are there.
    """

    axes: int = 1
    epsilon: float = 1e-5
    scale: bool = True
    bias: bool = True

    def __post_init__(self) -> None:
        positive(self, axes=self.axes)
        positive_epsilon(self)

    def describe(self, x):
        trailing(x, self.axes)
        return x

    def parameters(self, x):
        shape = trailing(x, self.axes)
        made = {"scale": Parameter(shape, Ones())} if self.scale else {}
        return made | ({"bias": Parameter(shape, Zeros())} if self.bias else {})

    def apply(self, parameters, inputs, context):
        axes = tuple(range(-self.axes, 0))
        return ops.layer_norm(inputs[0], parameters.get("scale"), parameters.get("bias"), axes, self.epsilon)


@dataclass(frozen=True)
class RMSNorm(Layer):
    """scale * x / sqrt(mean(x^2) + epsilon), the mean over the last axes of each sample (Zhang and Sennrich 2019).

    Parameter: `scale`, of the lengths of these axes.

    Args:
        axes, epsilon, scale: as in `LayerNorm`.
    """

    axes: int = 1
    epsilon: float = 1e-6
    scale: bool = True

    def __post_init__(self) -> None:
        positive(self, axes=self.axes)
        positive_epsilon(self)

    def describe(self, x):
        trailing(x, self.axes)
        return x

    def parameters(self, x):
        return {"scale": Parameter(trailing(x, self.axes), Ones())} if self.scale else {}

    def apply(self, parameters, inputs, context):
        return ops.rms_norm(inputs[0], parameters.get("scale"), tuple(range(-self.axes, 0)), self.epsilon)


@dataclass(frozen=True)
class GroupNorm(Layer):
    """Channels (last axis) cut into groups, each normalised over all positions of its sample, then scaled and shifted
    by channel (Wu and He 2018). With as many groups as channels it is known as instance normalisation.

    Parameters: `scale` and `bias` (channels,).

    Args:
        groups: how many equal parts.
        epsilon: keeps the divisor from 0.
    """

    groups: int
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        positive(self, groups=self.groups)
        positive_epsilon(self)

    def describe(self, x):
        (channels,) = trailing(x, 1)
        if channels % self.groups:
            raise ShapeError(f"{channels} channels can't be cut into groups={self.groups} equal parts")
        return x

    def parameters(self, x):
        return {"scale": Parameter(x.shape[-1:], Ones()), "bias": Parameter(x.shape[-1:], Zeros())}

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        return ops.group_norm(x, self.groups, parameters["scale"], parameters["bias"], x.ndim - 1, self.epsilon)
