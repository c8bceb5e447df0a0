"""Layers that know nothing of space or time: input, connected, activation, dropout, flatten, softmax, logistic."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral

import numpy as np

from ... import ops
from ...errors import ArgumentError, DTypeError, ShapeError
from ..activations import activation
from ..initializers import HeNormal, Initializer, Zeros
from .base import Layer, Parameter, Spec, positive
from .normalization import BatchStatistics, normalization_parameters, normalize, statistics_of


@dataclass(frozen=True)
class Input(Layer):
    """Where data comes in.

    Args:
        shape: of one sample: a number, or one length per axis, None where it may differ from call to call. Images are
            (height, width, channels).
        dtype: of the data; the network's float dtype unless given ("int64" for tokens).
    """

    shape: int | tuple[int | None, ...]
    dtype: str | None = None

    def __post_init__(self) -> None:
        shape = (self.shape,) if isinstance(self.shape, Integral) else tuple(self.shape)
        positive(self, shape=tuple(n for n in shape if n is not None))
        object.__setattr__(self, "shape", shape)
        if self.dtype is not None and np.dtype(self.dtype).kind not in "biuf":
            raise DTypeError(f"Input: dtype={self.dtype!r}; expected a real number type")

    def sources(self):
        return ()

    def describe(self):
        return Spec(self.shape, self.dtype)


def length(spec: Spec) -> int:
    """How many numbers one sample has, all axes taken together."""
    if None in spec.shape:
        raise ShapeError(f"needs inputs of known size, got {spec}")
    return prod(spec.shape)


@dataclass(frozen=True)
class Connected(Layer):
    """Fully connected: activation(x W + b), with whatever comes in flattened to one axis.

    Known elsewhere as Dense (Keras) and Linear (PyTorch). Parameters: `weight` (inputs, outputs) and `bias` (outputs,).

    Args:
        outputs: how many numbers come out.
        activation: a name of `nn.ACTIVATIONS`.
        bias: whether b is there.
        batch_normalize: activation(BatchNorm(x W)), as in `Convolutional`.
        initial: the rule for the first weights; biases start at 0.
    """

    outputs: int
    activation: str = "linear"
    bias: bool = True
    batch_normalize: bool | BatchStatistics = False
    initial: Initializer = HeNormal()

    def __post_init__(self) -> None:
        positive(self, outputs=self.outputs)
        activation(self.activation)

    def describe(self, x):
        length(x)
        return Spec((self.outputs,), x.dtype)

    def parameters(self, x):
        made = {"weight": Parameter((length(x), self.outputs), self.initial, decays=True)}
        if self.batch_normalize:
            made |= normalization_parameters(self.outputs)
        elif self.bias:
            made["bias"] = Parameter((self.outputs,), Zeros())
        return made

    def apply(self, parameters, inputs, context):
        weight = parameters["weight"]
        x = flat(inputs[0], weight.type.shape[0]) @ weight
        if self.batch_normalize:
            x = normalize(x, parameters, context, statistics_of(self.batch_normalize))
        elif self.bias:
            x = x + parameters["bias"]
        return activation(self.activation)(x)

    def operations(self, inputs: Sequence[Spec], output: Spec) -> int:
        return 2 * length(inputs[0]) * self.outputs


def flat(x, size: int):
    """`x` with all axes but the first taken together."""
    return x if x.ndim == 2 else ops.reshape(x, (-1, size))


@dataclass(frozen=True)
class Activation(Layer):
    """A function of each element, by its name in `nn.ACTIVATIONS`."""

    activation: str

    def __post_init__(self) -> None:
        activation(self.activation)

    def describe(self, x):
        return x

    def apply(self, parameters, inputs, context):
        return activation(self.activation)(inputs[0])


@dataclass(frozen=True)
class Flatten(Layer):
    """All axes but the batch's taken together, in C order: an image becomes (height * width * channels,)."""

    def describe(self, x):
        return Spec((length(x),), x.dtype)

    def apply(self, parameters, inputs, context):
        return ops.flatten(inputs[0], 2)


@dataclass(frozen=True)
class Dropout(Layer):
    """In training each number is set to 0 with this probability and the others are divided by 1 - probability; at
    predict nothing happens (Srivastava et al. 2014)."""

    probability: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.probability < 1:
            raise ArgumentError(f"Dropout: probability={self.probability}; expected at least 0 and less than 1")

    def describe(self, x):
        return x

    def apply(self, parameters, inputs, context):
        if not context.training or self.probability == 0:
            return inputs[0]
        return context.random.dropout(inputs[0], self.probability)


@dataclass(frozen=True)
class Softmax(Layer):
    """exp(x / temperature), normalised to sum 1 over the last axis. An image of one pixel is taken as a vector.

    As the last layer, with the loss "cross_entropy", it is differentiated together with the loss, which can't overflow.
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ArgumentError(f"Softmax: temperature={self.temperature}; expected a number above 0")

    def describe(self, x):
        if not x.shape:
            raise ShapeError("needs at least one axis to normalise over")
        return Spec(x.shape[-1:] if _is_vector(x.shape) else x.shape, x.dtype)

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        if x.ndim > 2 and _is_vector(x.type.shape[1:]):
            x = ops.flatten(x, 2)
        return ops.softmax(x if self.temperature == 1 else x / self.temperature, axis=-1)


def _is_vector(shape: tuple[int | None, ...]) -> bool:
    return all(n == 1 for n in shape[:-1])


@dataclass(frozen=True)
class Logistic(Layer):
    """1 / (1 + exp(-x)) of each element: probabilities of independent yes-or-no answers.

    As the last layer, with the loss "binary_cross_entropy", it is differentiated together with the loss.
    """

    def describe(self, x):
        return x

    def apply(self, parameters, inputs, context):
        return ops.sigmoid(inputs[0])
