"""Layers that take several others: their outputs side by side, added up, or multiplied."""

from dataclasses import dataclass

from ... import ops
from ...errors import ArgumentError, ShapeError
from ...graph import Variable
from ..activations import activation
from ..initializers import Ones
from .base import Layer, Parameter, Reference, Spec, image, positive

WEIGHTS = ("none", "per_layer", "per_channel")
NORMALIZATIONS = ("none", "relu", "softmax")
LEAST_WEIGHT, LEAST_SUM = 1e-3, 1e-4  # AlexeyAB's, of normalised shortcut weights
OTHER_SHAPES = ("refuse", "resample", "leading")


def references(given: tuple[Reference, ...] | Reference, what: str) -> tuple[Reference, ...]:
    """One or several layers as a tuple."""
    layers = (given,) if isinstance(given, (int, str)) else tuple(given)
    if not layers:
        raise ArgumentError(f"{what}: it names no layers")
    return layers


@dataclass(frozen=True)
class Route(Layer):
    """The outputs of several layers side by side, on their last axis (channels). With one layer: that layer's output.

    Known elsewhere as Concatenate (Keras).

    Args:
        layers: numbers from the front, negative distances back, or names.
        groups: cut the channels of each into so many equal parts and take only one of them (AlexeyAB's Darknet).
        group: which part, from 0.
        along_batch: put them one after the other on the batch axis instead (NumPyNet).
    """

    layers: tuple[Reference, ...] | Reference
    groups: int = 1
    group: int = 0
    along_batch: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", references(self.layers, "Route"))
        positive(self, groups=self.groups)
        if not 0 <= self.group < self.groups:
            raise ArgumentError(f"Route: group={self.group}; expected 0 to groups - 1 = {self.groups - 1}")

    def sources(self):
        return self.layers

    def describe(self, *inputs):
        if self.along_batch:
            if len({x.shape for x in inputs}) != 1:
                raise ShapeError(f"the layers differ in shape: {', '.join(map(str, inputs))}")
            return inputs[0]
        if len({x.shape[:-1] for x in inputs}) != 1 or not all(x.shape for x in inputs):
            raise ShapeError(f"the layers differ in more than their last axis: {', '.join(map(str, inputs))}")
        channels = [x.shape[-1] for x in inputs]
        if None in channels and self.groups > 1:
            raise ShapeError(f"needs to know the number of channels, got {', '.join(map(str, inputs))}")
        for n in channels:
            if n is not None and n % self.groups:
                raise ShapeError(f"{n} channels can't be cut into groups={self.groups} equal parts")
        total = None if None in channels else sum(n // self.groups for n in channels)
        return Spec((*inputs[0].shape[:-1], total), inputs[0].dtype)

    def apply(self, parameters, inputs, context):
        if self.along_batch:
            return ops.concatenate(inputs, axis=0)
        parts = [self._part(x) for x in inputs]
        return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=-1)

    def _part(self, x: Variable) -> Variable:
        if self.groups == 1:
            return x
        size = x.type.shape[-1] // self.groups
        return x[..., self.group * size : (self.group + 1) * size]


@dataclass(frozen=True)
class Shortcut(Layer):
    """activation(x + outputs of other layers): what makes a network residual (He et al. 2016).

    Known elsewhere as Add (Keras).

    Args:
        layer: the other layer, or layers: numbers from the front, negative distances back, or names.
        activation: a name of `nn.ACTIVATIONS`.
        alpha, beta: alpha x + beta * other.
        weights: learn what multiplies each summand, x first: one number ("per_layer") or one for each channel
            ("per_channel"); parameter `weight` (layers + 1, 1 or channels), at first 1.
        normalization: of these weights, so that they sum to 1: "relu" (w / sum of max(w, 0.001)) or "softmax".
        other_shapes: what to do with a layer of another shape than x: "refuse" it; "resample" it (pjreddie's Darknet:
            of a larger one every so-manyth cell, a smaller one spread out, the common channels; other cells of x stay);
            or take the "leading" channels that both have (AlexeyAB's, which needs equal height and width).
    """

    layer: Reference | tuple[Reference, ...]
    activation: str = "linear"
    alpha: float = 1.0
    beta: float = 1.0
    weights: str = "none"
    normalization: str = "none"
    other_shapes: str = "refuse"

    def __post_init__(self) -> None:
        activation(self.activation)
        references(self.layer, "Shortcut")
        for name, known in (
            ("weights", WEIGHTS), ("normalization", NORMALIZATIONS), ("other_shapes", OTHER_SHAPES)
        ):  # fmt: skip
            if getattr(self, name) not in known:
                raise ArgumentError(f"Shortcut: {name}={getattr(self, name)!r}; expected one of {known}")

    def sources(self):
        return (*super().sources(), *references(self.layer, "Shortcut"))

    def describe(self, x, *others):
        for other in others:
            if x.shape == other.shape:
                continue
            if self.other_shapes == "refuse":
                raise ShapeError(f"takes layers of one shape, got {x} and {other}")
            _overlap(x.shape, other.shape, self.other_shapes)
        return x

    def parameters(self, x, *others):
        if self.weights == "none":
            return {}
        return {"weight": Parameter((len(others) + 1, x.shape[-1] if self.weights == "per_channel" else 1), Ones())}

    def apply(self, parameters, inputs, context):
        x, *others = inputs
        factors = [self.alpha, *[self.beta] * len(others)]
        if self.weights != "none":
            weight = self._normalized(parameters["weight"])
            factors = [weight[i] for i in range(len(inputs))]
            x, factors[0] = x * factors[0], 1.0
        for other, factor in zip(others, factors[1:]):
            x = _added(x, factors[0], other, factor, self.other_shapes)
        return activation(self.activation)(x)

    def _normalized(self, w: Variable) -> Variable:
        if self.normalization == "none":
            return w
        if self.normalization == "relu":
            w = ops.maximum(w, LEAST_WEIGHT)
        else:
            w = ops.exp(w - ops.max(w, axis=0, keepdims=True))
        return w / (ops.sum(w, axis=0, keepdims=True) + LEAST_SUM)


def _overlap(x: tuple, other: tuple, how: str) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Which cells of x are added to, and by which cells of the other layer, after the batch axis."""
    if len(x) != len(other) or None in (*x, *other):
        raise ShapeError(f"shapes {x} and {other} can't be brought together")
    channels = slice(0, min(x[-1], other[-1]))
    if how == "leading":
        if x[:-1] != other[:-1]:
            raise ShapeError(f"takes layers of equal height and width, got {x} and {other}")
        whole = (slice(None),) * (len(x) - 1)
        return (*whole, channels), (*whole, channels)
    into, out_of = [], []
    ratios = {(max(m // n, 1), max(n // m, 1)) for n, m in zip(x[:-1], other[:-1])}
    if len(ratios) > 1:
        raise ShapeError(f"height and width of {x} and {other} differ by different factors")
    for n, m in zip(x[:-1], other[:-1]):
        stride, sample = max(m // n, 1), max(n // m, 1)
        count = min(n, m, -(-n // sample), -(-m // stride))
        into.append(slice(0, (count - 1) * sample + 1, sample))
        out_of.append(slice(0, (count - 1) * stride + 1, stride))
    return (*into, channels), (*out_of, channels)


def _added(x: Variable, alpha: float, other: Variable, beta: float | Variable, how: str) -> Variable:
    """alpha x + beta other, over the cells that they share."""
    shape = x.type.shape[1:], other.type.shape[1:]
    term = other if isinstance(beta, float) and beta == 1 else beta * other
    if shape[0] == shape[1]:
        return (x if alpha == 1 else alpha * x) + term
    into, out_of = _overlap(*shape, how)
    term = term[(slice(None), *out_of)]
    part = x[(slice(None), *into)]
    return ops.set_subtensor(part, (part if alpha == 1 else alpha * part) + term)


@dataclass(frozen=True)
class ScaleChannels(Layer):
    """activation(other * x): x says how much of each channel of the other layer gets through: squeeze and excitation
    (Hu et al. 2018).

    Args:
        layer: the other layer, (height, width, channels); x is (1, 1, channels), or (channels,).
        over_positions: x is (height, width, 1) instead and scales positions.
        activation: a name of `nn.ACTIVATIONS`.
    """

    layer: Reference
    over_positions: bool = False
    activation: str = "linear"

    def __post_init__(self) -> None:
        activation(self.activation)

    def sources(self):
        return (*super().sources(), self.layer)

    def describe(self, x, other):
        height, width, channels = image(other)
        fitting = [(height, width, 1)] if self.over_positions else [(1, 1, channels), (channels,)]
        if x.shape not in fitting:
            raise ShapeError(f"scales {other}, so what comes in must be {Spec(fitting[0], x.dtype)}, got {x}")
        return other

    def apply(self, parameters, inputs, context):
        x, other = inputs
        if x.ndim == 2:
            x = ops.expand_dims(x, (1, 2))
        return activation(self.activation)(other * x)


@dataclass(frozen=True)
class Sam(Layer):
    """activation(other * x), element by element, with another layer of the same shape: spatial attention (Bochkovskiy
    et al. 2020).

    Known elsewhere as Multiply (Keras).
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
        return activation(self.activation)(inputs[1] * inputs[0])
