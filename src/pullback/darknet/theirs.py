"""Layers with Darknet's own gradients, where those aren't the derivative of what comes out."""

from dataclasses import dataclass

from .. import ops
from ..errors import ArgumentError
from ..nn.layers.base import Layer
from ..nn.layers.basic import Softmax
from ..nn.layers.grouped_softmax import GroupedSoftmax
from ..nn.layers.scaling import L2Norm, Normalization
from ..nn.layers.sublayers import GatedGRU

HOW = ("through", "none", "scaled")


@dataclass(frozen=True)
class WithDarknetGradient(Layer):
    """Another layer, with the gradient that Darknet has for it.

    Args:
        layer: any layer that takes one other of the shape that comes out.
        how: "through" hands the gradient on as it is (l2norm, softmax); "scaled" takes what the input is multiplied by
            as a constant (normalization); "none" gives zeros (gru on a CPU, whose backward function is empty).
    """

    layer: Layer
    how: str = "through"

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise ArgumentError(f"WithDarknetGradient: how={self.how!r}; expected one of {HOW}")

    def describe(self, x):
        return self.layer.describe(x)

    def parameters(self, x):
        return self.layer.parameters(x)

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        y = self.layer.apply(parameters, inputs, context)
        if self.how == "none":
            return ops.zero_grad(y)
        if self.how == "scaled":
            factor = ops.zero_grad(self.layer.apply(parameters, [ops.zero_grad(x)], context))
            return x * ops.where(ops.equal(x, 0), 0.0, factor / ops.where(ops.equal(x, 0), 1.0, ops.zero_grad(x)))
        return x + ops.zero_grad(y - x) if y.ndim == x.ndim else y

    def operations(self, inputs, output):
        return self.layer.operations(inputs, output)


def with_darknet_gradient(layer: Layer) -> Layer:
    """The layer with Darknet's gradient, if that is another one."""
    match layer:
        case L2Norm() | Softmax() | GroupedSoftmax():
            how = "through"
        case Normalization():
            how = "scaled"
        case GatedGRU():
            how = "none"
        case _:
            return layer
    common = {"name": layer.name, "learning_rate": layer.learning_rate, "frozen": layer.frozen}
    return WithDarknetGradient(layer, how, **common)
