"""What a layer is. A layer only describes: which shape comes out, which parameters it needs, which expression it stands
for. The network makes the parameters and puts the expressions together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from ...errors import ArgumentError, ShapeError
from ...graph import SharedVariable, Variable
from ...ops import RandomStream
from ..configuration import Configuration
from ..initializers import Initializer

Reference = int | str  # a layer by its distance back (-1 is the one before), its number from the front, or its name


@dataclass(frozen=True)
class Spec:
    """What flows from one layer to the next.

    Attributes:
        shape: one length per axis, without the batch axis; None where unknown until run time.
        dtype: of the numbers.
    """

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        return (
            "("
            + ", ".join("?" if n is None else str(n) for n in self.shape)
            + ("," if len(self.shape) == 1 else "")
            + ")"
        )


@dataclass(frozen=True)
class Parameter:
    """An array that a layer owns, as it shall be made.

    Attributes:
        shape: known lengths only.
        initial: the rule for its first value.
        trainable: False for what is not learnt by gradient, e.g. running statistics.
        decays: whether weight decay and the l1 and l2 penalties apply: weights yes, biases and scales no.
        learning_rate: multiplies the layer's.
        state: whether it is carried from batch to batch and `Network.reset_states` fills it with zeros.
    """

    shape: tuple[int, ...]
    initial: Initializer
    trainable: bool = True
    decays: bool = False
    learning_rate: float = 1.0
    state: bool = False


@dataclass
class Context:
    """One pass through a network: what layers need to know beyond their inputs, and what they leave behind.

    Attributes:
        training: whether layers such as Dropout and BatchNorm behave as in training.
        random: where layers draw random numbers.
        updates: {parameter: its next value}, left by layers with running statistics.
        scoring: whether the outputs go into losses: layers that decode, such as Yolo, leave that to the loss.
        lengths: {sequence: how many steps of each example count, (batch,)}, left by layers that know, and passed on
            from what goes into a layer to what comes out of it if that has the same time axis.
        values: what each layer put out, in their order, left by the network.
    """

    training: bool = False
    random: RandomStream = field(default_factory=RandomStream)
    updates: dict[SharedVariable, Variable] = field(default_factory=dict)
    scoring: bool = False
    lengths: dict[Variable, Variable] = field(default_factory=dict)
    values: list[Variable] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Layer(Configuration):
    """Base of all layers. A subclass is a frozen dataclass that writes `describe`, `apply`, and `parameters` if it
    has any.

    Args:
        name: unique within a network; "convolutional_1" and the like unless given.
        after: the layer, or tuple of layers, whose output it takes: numbers from the front, negative distances back, or
            names. By default the layer before it.
        learning_rate: multiplies the optimizer's.
        frozen: its parameters are not trained, and it behaves as at predict.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Scale(Layer):
        ...     first: float = 1.0
        ...     def describe(self, x):
        ...         return x
        ...     def parameters(self, x):
        ...         return {"scale": Parameter(x.shape[-1:], Constant(self.first))}
        ...     def apply(self, parameters, inputs, context):
        ...         return inputs[0] * parameters["scale"]
    """

    name: str | None = None
    after: Reference | tuple[Reference, ...] | None = None
    learning_rate: float = 1.0
    frozen: bool = False

    def sources(self) -> tuple[Reference, ...]:
        """The layers whose outputs it takes."""
        if self.after is None:
            return (-1,)
        return tuple(self.after) if isinstance(self.after, (tuple, list)) else (self.after,)

    def describe(self, *inputs: Spec) -> Spec:
        """What comes out, given what comes in; raises ShapeError where it doesn't fit."""
        raise NotImplementedError(f"{type(self).__name__} must define describe(self, *inputs)")

    def parameters(self, *inputs: Spec) -> dict[str, Parameter]:
        """The arrays that it needs, by name."""
        return {}

    def apply(self, parameters: Mapping[str, SharedVariable], inputs: Sequence[Variable], context: Context) -> Variable:
        """Its output as an expression; inputs have the batch on their first axis."""
        raise NotImplementedError(f"{type(self).__name__} must define apply(self, parameters, inputs, context)")

    def operations(self, inputs: Sequence[Spec], output: Spec) -> int:
        """Floating-point operations per sample, forward; a multiplication and an addition count as two. Elementwise
        work is not counted, as is usual."""
        return 0

    def remarks(self) -> list[str]:
        """What the summary says beside its kind."""
        activation = getattr(self, "activation", "linear")
        said = [] if activation == "linear" else [activation]
        return said + (["batch-normalised"] if getattr(self, "batch_normalize", False) else [])


def image(spec: Spec) -> tuple[int, int, int]:
    """(height, width, channels) of what comes in, or a ShapeError."""
    if len(spec.shape) != 3:
        raise ShapeError(f"takes images (height, width, channels), got {spec}")
    if spec.shape[2] is None:
        raise ShapeError(f"needs to know the number of channels, got {spec}")
    return spec.shape


def positive(layer: Layer, **settings: Any) -> None:
    """Refuse settings that aren't whole numbers from 1 up."""
    for name, value in settings.items():
        for n in value if isinstance(value, (tuple, list)) else (value,):
            if not isinstance(n, Integral) or n < 1:
                raise ArgumentError(f"{type(layer).__name__}: {name}={value!r}; expected whole numbers from 1 up")


def windowed(layer: Layer, **settings: Any) -> None:
    """Refuse settings that aren't one whole number from 1 up, or one for each spatial axis."""
    for name, value in settings.items():
        pair(value, f"{type(layer).__name__}: {name}")
        positive(layer, **{name: value})


def pair(value: int | Sequence[int], what: str) -> tuple[int, int]:
    """One number for both spatial axes, or one for each."""
    if isinstance(value, Integral):
        return value, value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ArgumentError(f"{what}={value!r}; expected a whole number or a pair (vertical, horizontal)")
    return tuple(value)
