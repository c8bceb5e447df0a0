"""Views: the value of x itself, with another gradient. They cost nothing when run."""

from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError
from ..graph import Apply, DisconnectedType, Op, Variable, grad_undefined
from .arithmetic import clip
from .dtypes import as_tensor
from .elementwise import strong_mul, zeros_like

__all__ = ["consider_constant", "disconnected_grad", "grad_clip", "grad_scale", "undefined_grad", "zero_grad"]


@dataclass(frozen=True)
class View(Op):
    """x itself. What the subclasses below change is the gradient."""

    view_map = {0: 0}

    def make_node(self, x: Any) -> Apply:
        x = as_tensor(x)
        return Apply(self, [x], [x.type])

    def perform(self, x):
        return x

    def grad(self, inputs, output_grads):
        return [output_grads[0]]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


class DisconnectedGrad(View):
    """x, of which nothing above it is a function as far as gradients go."""

    formula = "disconnected, by intent"

    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False]]


class ZeroGrad(View):
    """x, with a gradient of zeros."""

    formula = "0, by intent"

    def grad(self, inputs, output_grads):
        return [zeros_like(inputs[0])]


@dataclass(frozen=True)
class UndefinedGrad(View):
    """x, with a gradient that is refused."""

    why: str

    formula = "refused, by intent"

    def grad(self, inputs, output_grads):
        return [grad_undefined(self, 0, inputs[0], self.why)]


@dataclass(frozen=True)
class GradClip(View):
    """x, with the gradient held within an interval."""

    low: float
    high: float

    formula = "g held within the interval, by intent"

    def grad(self, inputs, output_grads):
        return [clip(output_grads[0], self.low, self.high)]


@dataclass(frozen=True)
class GradScale(View):
    """x, with the gradient multiplied by a number."""

    factor: float

    formula = "the number times g, by intent"

    def grad(self, inputs, output_grads):
        return [strong_mul(output_grads[0], self.factor)]


def disconnected_grad(x: Any) -> Variable:
    """The value of `x`, through which no gradient goes: asking for one raises DisconnectedInputError."""
    return DisconnectedGrad()(x)


def zero_grad(x: Any) -> Variable:
    """The value of `x`, with a gradient of zeros."""
    return ZeroGrad()(x)


def consider_constant(x: Any) -> Variable:
    """`zero_grad` by Theano's older name: the value of `x`, treated as a constant by gradients."""
    return zero_grad(x)


def undefined_grad(x: Any, why: str = "undefined_grad says so") -> Variable:
    """The value of `x`, with a gradient that isn't defined: asking for it raises UndefinedGradientError with `why`."""
    return UndefinedGrad(why)(x)


def grad_clip(x: Any, low: float, high: float) -> Variable:
    """The value of `x`, with the gradient that arrives held within [low, high], element by element. NaN stays NaN.

    Raises:
        ArgumentError: unless low <= high.
    """
    if not low <= high:
        raise ArgumentError(f"grad_clip: [{low}, {high}] is no interval")
    return GradClip(float(low), float(high))(x)


def grad_scale(x: Any, factor: float) -> Variable:
    """The value of `x`, with the gradient that arrives multiplied by `factor` (-1 reverses it)."""
    return GradScale(float(factor))(x)
