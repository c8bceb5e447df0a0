"""Layers over sequences (time, features) that carry a state from step to step, and layers around such ones.

How many steps of an example count travels with it: an `Embedding` or `Masking` layer, or an input named by `lengths`,
says so, layers that keep the time axis pass it on, and the steps beyond have no effect on states, outputs or the cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ... import control, ops
from ...errors import ArgumentError, DTypeError, ShapeError, UnknownNameError, nearest
from ...graph import SharedVariable, Variable
from ..activations import activation
from ..initializers import GlorotUniform, Initializer, Orthogonal, Uniform, Zeros
from .base import Context, Layer, Parameter, Reference, Spec, positive

Parameters = Mapping[str, SharedVariable]


@dataclass(frozen=True)
class BlockConstants(Initializer):
    """Equal blocks along the last axis, each filled with a number of its own."""

    values: tuple[float, ...]

    def __call__(self, shape, rng):
        return np.repeat(np.asarray(self.values), shape[-1] // len(self.values))


def sequence(x: Spec) -> tuple[int | None, int]:
    """(steps, features) of what comes in, or a ShapeError."""
    if len(x.shape) != 2 or x.shape[1] is None:
        raise ShapeError(f"takes sequences (time, features) with a known number of features, got {x}")
    return x.shape


@dataclass(frozen=True)
class RecurrentLayer(Layer):
    """Base of SimpleRNN, GRU and LSTM.

    Args:
        units: how many numbers the state has, and the output at each step.
        return_sequences: whether all steps come out, (time, units), or the last one only, (units,).
        reverse: walk from the last step to the first; what comes out stays in the order of time.
        lengths: a layer with one whole number per example, of shape (): how many of its steps count. Past them the
            state stays as it is, and outputs are 0. Unless given, they travel with the input.
        dropout, recurrent_dropout: in training, these shares of the inputs and of the state that is fed back are set to
            0, at all steps the same ones (Gal and Ghahramani 2016).
        stateful: the number of examples in every batch: each begins with the state in which the example at its place in
            the batch before ended, in training (where no gradient goes back into it), at evaluate and at predict. Call
            `net.reset_states()` to begin anew. None: every example begins with zeros.
        initial, recurrent_initial: rules for the first weights on the input and on the state.

    Parameters: `weight` (features, blocks * units), `recurrent_weight` (units, blocks * units), `bias`
    (blocks * units,).
    """

    units: int
    _: KW_ONLY
    return_sequences: bool = False
    reverse: bool = False
    lengths: Reference | None = None
    dropout: float = 0.0
    recurrent_dropout: float = 0.0
    stateful: int | None = None
    initial: Initializer = GlorotUniform()
    recurrent_initial: Initializer = Orthogonal()

    blocks: ClassVar[int] = 1
    states: ClassVar[tuple[str, ...]] = ("h",)

    def __post_init__(self) -> None:
        positive(self, units=self.units, stateful=1 if self.stateful is None else self.stateful)
        for name in ("dropout", "recurrent_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ArgumentError(
                    f"{type(self).__name__}: {name}={getattr(self, name)}; expected at least 0 and less than 1"
                )

    def sources(self):
        own = super().sources()
        return own if self.lengths is None else (*own, self.lengths)

    def describe(self, x, lengths=None):
        steps, _ = sequence(x)
        if lengths is not None and (lengths.shape or not lengths.dtype.startswith(("int", "uint"))):
            raise ShapeError(f"lengths must be one whole number per example: Input((), dtype='int64'), got {lengths}")
        return Spec((steps, self.units) if self.return_sequences else (self.units,), x.dtype)

    def parameters(self, x, lengths=None):
        _, features = sequence(x)
        wide = self.blocks * self.units
        made = {
            "weight": Parameter((features, wide), self.initial, decays=True),
            "recurrent_weight": Parameter((self.units, wide), self.recurrent_initial, decays=True),
            **self.further(),
        }
        if self.stateful is not None:
            for name in self.states:
                made[f"state_{name}"] = Parameter((self.stateful, self.units), Zeros(), trainable=False, state=True)
        return made

    def further(self) -> dict[str, Parameter]:
        """Parameters beside the two matrices."""
        return {"bias": Parameter((self.blocks * self.units,), Zeros())}

    def apply(self, parameters, inputs, context):
        counts = context.lengths.get(inputs[0]) if self.lengths is None else inputs[1]
        x, mask = ops.swapaxes(inputs[0], 0, 1), None
        if context.training and self.dropout:
            x = context.random.dropout(x, self.dropout, shared_axes=0)
        if context.training and self.recurrent_dropout:
            mask = context.random.dropout(ops.ones((ops.length(x, 1), self.units), x.dtype), self.recurrent_dropout)
        first = [parameters.get(f"state_{name}") for name in self.states]
        y, *last = self.run(parameters, x, first, lengths=counts, reverse=self.reverse, mask=mask)
        if self.stateful is not None:
            context.updates.update(zip(first, last))
        if not self.return_sequences:
            return last[0]
        y = ops.swapaxes(y, 0, 1)
        if counts is not None:
            context.lengths[y] = counts
        return y

    def run(self, parameters: Parameters, x: Variable, first: Sequence[Variable | None], **options: Any) -> Sequence:
        """(outputs (time, batch, units), last states) for `x` (time, batch, features)."""
        raise NotImplementedError(f"{type(self).__name__} must define run")

    def operations(self, inputs, output):
        steps, features = sequence(inputs[0])
        return 2 * (steps or 1) * (features + self.units) * self.blocks * self.units


@dataclass(frozen=True)
class SimpleRNN(RecurrentLayer):
    """h' = activation(x W + h U + b) (Elman 1990), where RNN is Darknet's with its three connected layers.

    Args:
        activation: a name of `nn.ACTIVATIONS`.
    """

    activation: str = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        activation(self.activation)

    def run(self, parameters, x, first, **options):
        weights = (parameters[name] for name in ("weight", "recurrent_weight", "bias"))
        return control.rnn(x, *weights, *first, activation=activation(self.activation), **options)


@dataclass(frozen=True)
class GRU(RecurrentLayer):
    """A gated recurrent unit (Cho et al. 2014): see `pb.gru`. Column blocks are z, r, n.

    Parameters: also `recurrent_bias` (3 * units,) with reset="after".

    Args:
        reset: "after" the product with the state (cuDNN, PyTorch, Keras) or "before" it (the paper, Darknet).
    """

    reset: str = "after"

    blocks = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reset not in ("after", "before"):
            raise ArgumentError(f"GRU: reset={self.reset!r}; expected 'after' or 'before'")

    def further(self):
        names = ("bias", "recurrent_bias") if self.reset == "after" else ("bias",)
        return {name: Parameter((3 * self.units,), Zeros()) for name in names}

    def run(self, parameters, x, first, **options):
        names = ("weight", "recurrent_weight", "bias", "recurrent_bias")
        return control.gru(x, *(parameters.get(name) for name in names), *first, reset=self.reset, **options)


@dataclass(frozen=True)
class LSTM(RecurrentLayer):
    """Long short-term memory (Hochreiter and Schmidhuber 1997): see `pb.lstm`. Column blocks are i, f, g, o.

    Parameters: also `peepholes` (3, units) if asked for.

    Args:
        peepholes: gates also see the cell (Gers et al. 2002).
        cell_clip: cells are held within [-cell_clip, cell_clip]; 0: not at all.
        forget_bias: what the biases of the forget gates begin with (Jozefowicz et al. 2015).
    """

    peepholes: bool = False
    cell_clip: float = 0.0
    forget_bias: float = 1.0

    blocks = 4
    states = ("h", "c")

    def further(self):
        first = BlockConstants((0.0, self.forget_bias, 0.0, 0.0))
        made = {"bias": Parameter((4 * self.units,), first)}
        if self.peepholes:
            made["peepholes"] = Parameter((3, self.units), Uniform(0.05), decays=True)
        return made

    def run(self, parameters, x, first, **options):
        weights = (parameters[name] for name in ("weight", "recurrent_weight", "bias"))
        holes = parameters.get("peepholes")
        return control.lstm(x, *weights, *first, peepholes=holes, cell_clip=self.cell_clip, **options)


# --- around other layers ----------------------------------------------------------------------------------------------

MERGES = {
    "concat": lambda a, b: ops.concatenate([a, b], axis=-1),
    "sum": lambda a, b: a + b,
    "mean": lambda a, b: (a + b) / 2,
    "multiply": lambda a, b: a * b,
}


def under(parameters: Parameters, prefix: str) -> dict[str, SharedVariable]:
    """The parameters whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): v for name, v in parameters.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class Bidirectional(Layer):
    """A recurrent layer in both directions, each with parameters of its own, called "forward.<parameter>" and
    "backward.<parameter>".

    Args:
        layer: a SimpleRNN, GRU or LSTM.
        merge: how the two outputs become one: "concat", "sum", "mean" or "multiply".
    """

    layer: RecurrentLayer
    merge: str = "concat"

    def __post_init__(self) -> None:
        if not isinstance(self.layer, RecurrentLayer):
            raise ArgumentError(f"Bidirectional: expected a recurrent layer, got {self.layer!r}")
        if self.merge not in MERGES:
            raise UnknownNameError(f"Bidirectional: unknown merge={self.merge!r}. {nearest(self.merge, MERGES)}")

    def _both(self) -> dict[str, RecurrentLayer]:
        return {"forward.": self.layer, "backward.": replace(self.layer, reverse=not self.layer.reverse)}

    def sources(self):
        own = super().sources()
        return own if self.layer.lengths is None else (*own, self.layer.lengths)

    def describe(self, *inputs):
        one = self.layer.describe(*inputs)
        return Spec((*one.shape[:-1], one.shape[-1] * (2 if self.merge == "concat" else 1)), one.dtype)

    def parameters(self, *inputs):
        return {
            prefix + name: parameter
            for prefix, layer in self._both().items()
            for name, parameter in layer.parameters(*inputs).items()
        }

    def apply(self, parameters, inputs, context):
        one, other = (
            layer.apply(under(parameters, prefix), inputs, context)
            for prefix, layer in self._both().items()
        )
        y = MERGES[self.merge](one, other)
        if one in context.lengths:
            context.lengths[y] = context.lengths[one]
        return y

    def operations(self, inputs, output):
        return 2 * self.layer.operations(inputs, output)

    def remarks(self):
        return [type(self.layer).__name__, self.merge]


@dataclass(frozen=True)
class TimeDistributed(Layer):
    """A layer at each step of a sequence, with the same parameters. The steps of all examples are its batch.

    Args:
        layer: any layer that takes one other.
    """

    layer: Layer

    def __post_init__(self) -> None:
        if not isinstance(self.layer, Layer) or len(self.layer.sources()) != 1:
            raise ArgumentError(f"TimeDistributed: expected a layer that takes one other, got {self.layer!r}")

    def _step(self, x: Spec) -> Spec:
        if len(x.shape) < 2:
            raise ShapeError(f"takes sequences (time, ...), got {x}")
        return Spec(x.shape[1:], x.dtype)

    def describe(self, x):
        step = self.layer.describe(self._step(x))
        return Spec((x.shape[0], *step.shape), step.dtype)

    def parameters(self, x):
        return self.layer.parameters(self._step(x))

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        steps = ops.reshape(x, (ops.length(x, 0) * ops.length(x, 1), *(ops.length(x, a) for a in range(2, x.ndim))))
        y = self.layer.apply(parameters, [steps], context)
        lead = (ops.length(x, 0), ops.length(x, 1))
        return ops.reshape(y, (*lead, *(ops.length(y, a) for a in range(1, y.ndim))))

    def operations(self, inputs, output):
        steps = inputs[0].shape[0] or 1
        return steps * self.layer.operations([self._step(inputs[0])], Spec(output.shape[1:], output.dtype))

    def remarks(self):
        return [type(self.layer).__name__, *self.layer.remarks()]


# --- where sequences come from ----------------------------------------------------------------------------------------


def last_true(real: Variable) -> Variable:
    """Per row of (batch, time) booleans, how many steps there are up to the last true one."""
    steps = ops.arange(ops.length(real, 1)) + 1
    none = ops.zeros((ops.length(real, 0), 1), dtype="int64")
    return ops.max(ops.concatenate([none, ops.where(real, steps, 0)], axis=1), axis=1)


@dataclass(frozen=True)
class Embedding(Layer):
    """Whole numbers (tokens, categories) looked up in a table of vectors that is learnt.

    Parameters: `weight` (rows, features).

    Args:
        rows: how many different numbers there are, from 0 up.
        features: length of each vector.
        padding: this number only fills up: its vector is zeros and stays so, and the steps behind the last other one
            don't count for recurrent layers and the cost.
        initial: the rule for the first vectors.
    """

    rows: int
    features: int
    padding: int | None = None
    initial: Initializer = Uniform(0.05)

    def __post_init__(self) -> None:
        positive(self, rows=self.rows, features=self.features)
        if self.padding is not None and not 0 <= self.padding < self.rows:
            raise ArgumentError(f"Embedding: padding={self.padding}; expected a number from 0 to {self.rows - 1}")

    def describe(self, x):
        if not x.dtype or not x.dtype.startswith(("int", "uint")):
            raise DTypeError(f"takes whole numbers: give the Input dtype='int64', got {x.dtype or 'floats'}")
        return Spec((*x.shape, self.features), None)

    def parameters(self, x):
        return {"weight": Parameter((self.rows, self.features), PaddedRows(self.initial, self.padding))}

    def apply(self, parameters, inputs, context):
        tokens = inputs[0]
        y = ops.embedding(parameters["weight"], tokens, padding_idx=self.padding)
        if self.padding is not None and tokens.ndim == 2:
            context.lengths[y] = last_true(ops.not_equal(tokens, self.padding))
        return y


@dataclass(frozen=True)
class PaddedRows(Initializer):
    """A rule for the rows of a table, of which one is zeros."""

    rule: Initializer
    padding: int | None

    def __call__(self, shape, rng):
        table = self.rule(shape, rng)
        if self.padding is not None:
            table[self.padding] = 0
        return table


@dataclass(frozen=True)
class Masking(Layer):
    """Steps at the end of a sequence whose numbers all equal `value` don't count for recurrent layers and the cost."""

    value: float = 0.0

    def describe(self, x):
        sequence(x)
        return x

    def apply(self, parameters: Parameters, inputs: Sequence[Variable], context: Context) -> Variable:
        y = ops.where(ops.equal(inputs[0], self.value), ops.zeros_like(inputs[0]), inputs[0])
        context.lengths[y] = last_true(ops.any(ops.not_equal(inputs[0], self.value), axis=-1))
        return y
