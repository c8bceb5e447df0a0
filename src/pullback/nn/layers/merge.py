"""Layers that take several others: their outputs side by side, or added up."""

from dataclasses import dataclass
from math import prod

from ... import ops
from ...errors import ArgumentError, ShapeError
from ..activations import activation
from .base import Layer, Reference, Spec


@dataclass(frozen=True)
class Route(Layer):
    """The outputs of several layers side by side, on their last axis (channels). With one layer: that layer's output.

    Known elsewhere as Concatenate (Keras).

    Args:
        layers: numbers from the front, negative distances back, or names.
    """

    layers: tuple[Reference, ...] | Reference

    def __post_init__(self) -> None:
        layers = (self.layers,) if isinstance(self.layers, (int, str)) else tuple(self.layers)
        if not layers:
            raise ArgumentError("Route: it names no layers")
        object.__setattr__(self, "layers", layers)

    def sources(self):
        return self.layers

    def describe(self, *inputs):
        if len({x.shape[:-1] for x in inputs}) != 1 or not all(x.shape for x in inputs):
            raise ShapeError(f"the layers differ in more than their last axis: {', '.join(map(str, inputs))}")
        channels = [x.shape[-1] for x in inputs]
        return Spec((*inputs[0].shape[:-1], None if None in channels else sum(channels)), inputs[0].dtype)

    def apply(self, parameters, inputs, context):
        return inputs[0] if len(inputs) == 1 else ops.concatenate(inputs, axis=-1)


@dataclass(frozen=True)
class Shortcut(Layer):
    """activation(x + output of another layer of the same shape): what makes a network residual (He et al. 2016).

    Known elsewhere as Add (Keras).

    Args:
        layer: the other layer: its number from the front, negative distance back, or name.
        activation: a name of `nn.ACTIVATIONS`.
    """

    layer: Reference
    activation: str = "linear"

    def __post_init__(self) -> None:
        activation(self.activation)

    def sources(self):
        return (*super().sources(), self.layer)

    def describe(self, x, other):
        if x.shape != other.shape:
            raise ShapeError(f"takes two layers of one shape, got {x} and {other}")
        return x

    def apply(self, parameters, inputs, context):
        return activation(self.activation)(inputs[0] + inputs[1])

    def operations(self, inputs, output):
        return 0 if None in output.shape else prod(output.shape)
