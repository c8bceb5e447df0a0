"""Recurrent layers made of whole connected or convolutional layers, each with bias or batch normalisation of its own,
as Darknet has them: rnn, crnn, lstm, gru, conv_lstm.

They take sequences (time, ...) with the batch in front and start from zeros. Each step's batch is normalised by itself;
the running averages take in one step after the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import ops
from ...control import scan
from ...errors import ArgumentError, ShapeError
from ...graph import SharedVariable, Variable
from ...ops.norm import Normalize
from ..activations import activation
from ..initializers import HeUniform, Initializer
from .base import Context, Layer, Parameter, Spec, pair, positive
from .basic import Connected, length
from .convolution import Convolutional
from .normalization import BatchStatistics, statistics_of

STATISTICS = ("running_mean", "running_variance")
Parameters = Mapping[str, SharedVariable]


@dataclass(frozen=True)
class Sublayer:
    """One or several layers of the same kind side by side, which share their input: a linear map, then bias or batch
    normalisation.

    Attributes:
        names: of the layers, before their parameters' names: "input_f".
        layer: what each of them is.
    """

    names: tuple[str, ...]
    layer: Connected | Convolutional

    def describe(self, x: Spec) -> dict[str, Parameter]:
        return {f"{name}_{key}": p for name in self.names for key, p in self.layer.parameters(x).items()}

    def joined(self, parameters: Parameters, key: str) -> Variable:
        parts = [parameters[f"{name}_{key}"] for name in self.names]
        return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=-1)

    def linear(self, x: Variable, parameters: Parameters) -> Variable:
        """Along the last axes of `x`, which may have a time axis in front of the batch's."""
        weight = self.joined(parameters, "weight")
        if isinstance(self.layer, Connected):
            return ops.matmul(x, weight)
        conv = self.layer
        lead = x.ndim - 3
        images = x if lead == 1 else ops.reshape(x, (-1, *(ops.length(x, a) for a in range(lead, x.ndim))))
        y = ops.conv2d(
            images,
            weight,
            stride=conv.stride,
            padding=conv.margin,
            dilation=conv.dilation,
            groups=conv.groups,
            layout="NHWC",
            filter_layout="HWIO",
        )
        if lead == 1:
            return y
        return ops.reshape(y, (ops.length(x, 0), ops.length(x, 1), *(ops.length(y, a) for a in (1, 2, 3))))

    def apply(self, x: Variable, parameters: Parameters, training: bool, time: bool) -> tuple[Variable, list[Variable]]:
        """What comes out before the activation; in training with batch normalisation also mean and unbiased variance,
        of each step where `x` has a time axis."""
        y = self.linear(x, parameters)
        bias = self.joined(parameters, "bias")
        if not self.layer.batch_normalize:
            return y + bias, []
        scale, settings = self.joined(parameters, "scale"), statistics_of(self.layer.batch_normalize)
        if not training:
            mean, variance = (self.joined(parameters, key) for key in STATISTICS)
            y = ops.batch_norm(
                y, scale, bias, False, settings.epsilon, y.ndim - 1, mean, variance, settings.epsilon_outside
            )
            return y, []
        axes = tuple(range(int(time), y.ndim - 1))
        count = ops.cast(ops.size(y) // y.shape[y.ndim - 1], y.dtype)
        if time:
            count = count / ops.cast(ops.length(y, 0), y.dtype)
        correction = count / ops.maximum(count - 1.0, 1.0)
        if settings.unbiased:
            scale = scale / ops.sqrt(correction)
        lead = tuple(range(y.ndim - 1))
        normalise = Normalize(axes, settings.epsilon, settings.epsilon_outside)
        y, mean, variance = normalise(y, ops.expand_dims(scale, lead), ops.expand_dims(bias, lead))
        return y, [ops.squeeze(mean, axes), ops.squeeze(variance * correction, axes)]

    def follow(self, parameters: Parameters, measured: Sequence[Variable], context: Context) -> None:
        """Let the running averages take in (time, channels) of measured means and variances."""
        if not measured:
            return
        momentum = statistics_of(self.layer.batch_normalize).momentum
        steps = ops.length(measured[0], 0)
        ages = ops.cast(steps - 1 - ops.arange(steps), measured[0].dtype)
        weights = (1.0 - momentum) * ops.power(momentum, ages)
        kept = ops.power(momentum, ops.cast(steps, measured[0].dtype))
        for key, values in zip(STATISTICS, measured):
            total = ops.sum(ops.expand_dims(weights, 1) * values, axis=0)
            for i, name in enumerate(self.names):
                old = parameters[f"{name}_{key}"]
                n = old.type.shape[0]
                context.updates[old] = kept * old + total[i * n : (i + 1) * n]

    def operations(self, inputs: Spec, output: Spec) -> int:
        return len(self.names) * self.layer.operations((inputs,), output)


@dataclass(frozen=True)
class Recurrent(Layer):
    """Base of the layers here. A subclass says which sublayers it has and how a step goes."""

    def _frame(self, x: Spec) -> Spec:
        """One step of what comes in."""
        if len(x.shape) < 2:
            raise ShapeError(f"takes sequences (time, ...), got {x}")
        return Spec(self._step_shape(x), x.dtype)

    def _step_shape(self, x: Spec) -> tuple[int, ...]:
        return (length(Spec(x.shape[1:], x.dtype)),)

    def sublayers(self, frame: Spec) -> list[tuple[Sublayer, Spec]]:
        """All sublayers, in the order of their parameters, with what each takes."""
        raise NotImplementedError(f"{type(self).__name__} must define sublayers(self, frame)")

    def parameters(self, x):
        return {k: p for sub, spec in self.sublayers(self._frame(x)) for k, p in sub.describe(spec).items()}

    def describe(self, x):
        frame = self._frame(x)
        return Spec((x.shape[0], *self._out(frame).shape), x.dtype)

    def _out(self, frame: Spec) -> Spec:
        sub, spec = self.sublayers(frame)[-1]
        return sub.layer.describe(spec)

    def operations(self, inputs: Sequence[Spec], output: Spec) -> int:
        """Of one step."""
        return sum(sub.operations(spec, sub.layer.describe(spec)) for sub, spec in self.sublayers(self._frame(*inputs)))

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        frame = self._frame(Spec(x.type.shape[1:], x.dtype))
        lead = (ops.length(x, 0), ops.length(x, 1))
        x = ops.swapaxes(ops.reshape(x, (*lead, *frame.shape)), 0, 1)
        y = self.run(x, [sub for sub, _ in self.sublayers(frame)], parameters, context, frame)
        return ops.swapaxes(y, 0, 1)

    def run(
        self, x: Variable, subs: list[Sublayer], parameters: Parameters, context: Context, frame: Spec
    ) -> Variable:
        """The outputs (time, batch, ...) for `x` (time, batch, ...)."""
        raise NotImplementedError(f"{type(self).__name__} must define run")


def _zeros(x: Variable, shape: Sequence[int]) -> Variable:
    """A first state for the batch of `x` (time, batch, ...)."""
    return ops.zeros((ops.length(x, 1), *shape), dtype=x.dtype)


@dataclass(frozen=True)
class RNN(Recurrent):
    """s_t = f(x_t W_in) + f(s_{t-1} W_self), y_t = f(s_t W_out), each product with bias or batch normalisation
    (Darknet).

    Parameters: those of `Connected` behind "input_", "self_" and "output_".

    Args:
        outputs: how many numbers come out at each step.
        hidden: how many the state has; as many as come out unless given.
        activation: f.
        batch_normalize: as in `Connected`.
        shortcut: s_{t-1} is added to s_t.
    """

    outputs: int
    hidden: int | None = None
    activation: str = "linear"
    batch_normalize: bool | BatchStatistics = False
    shortcut: bool = False
    initial: Initializer = HeUniform()

    def __post_init__(self) -> None:
        positive(self, outputs=self.outputs, hidden=self.hidden or 1)
        activation(self.activation)

    def sublayers(self, frame):
        hidden = self.hidden or self.outputs
        first, last = (
            Connected(n, batch_normalize=self.batch_normalize, initial=self.initial) for n in (hidden, self.outputs)
        )
        state = Spec((hidden,), frame.dtype)
        return [
            (Sublayer(("input",), first), frame), (Sublayer(("self",), first), state),
            (Sublayer(("output",), last), state),
        ]  # fmt: skip

    def run(self, x, subs, parameters, context, frame):
        into, again, out = subs
        f, training = activation(self.activation), context.training
        drive, measured = into.apply(x, parameters, training, True)
        into.follow(parameters, measured, context)
        state_shape = into.layer.describe(frame).shape

        def step(drive_t: Variable, state: Variable) -> list[Variable]:
            y, measured = again.apply(state, parameters, training, False)
            new = drive_t + f(y)
            return [state + new if self.shortcut else new, *measured]

        statistics = 2 if training and self.batch_normalize else 0
        states, *measured = scan(
            step, f(drive), [_zeros(x, state_shape), *[None] * statistics], return_list=True, name="rnn"
        )
        again.follow(parameters, measured, context)
        y, measured = out.apply(states, parameters, training, True)
        out.follow(parameters, measured, context)
        return f(y)


@dataclass(frozen=True)
class CRNN(RNN):
    """`RNN` whose products are convolutions over images (time, height, width, channels). A sequence of vectors counts
    as one of images of one pixel.

    Args:
        outputs, hidden: how many channels.
        size, stride, dilation, padding, groups: as in `Convolutional`; only the first product has a stride.
    """

    size: int = 3
    stride: int | tuple[int, int] = 1
    dilation: int = 1
    padding: int = 1
    groups: int = 1

    def _step_shape(self, x):
        return (1, 1, *x.shape[1:]) if len(x.shape) == 2 else x.shape[1:]

    def sublayers(self, frame):
        hidden = self.hidden or self.outputs
        shared: dict[str, Any] = {
            "size": self.size,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
            "batch_normalize": self.batch_normalize,
            "initial": self.initial,
        }
        first = Convolutional(hidden, stride=self.stride, **shared)
        state = first.describe(frame)
        again, last = Convolutional(hidden, **shared), Convolutional(self.outputs, **shared)
        if again.describe(state) != state:
            raise ShapeError(f"size={self.size} and padding={self.padding} don't keep the state's size {state}")
        return [
            (Sublayer(("input",), first), frame), (Sublayer(("self",), again), state),
            (Sublayer(("output",), last), state),
        ]  # fmt: skip


def _names(source: str, gates: str) -> tuple[str, ...]:
    return tuple(f"{source}_{gate}" for gate in gates)


def _cut(x: Variable, count: int) -> list[Variable]:
    return ops.split(x, count, axis=x.ndim - 1)


@dataclass(frozen=True)
class GatedLSTM(Recurrent):
    """c_t = f c_{t-1} + i g, h_t = o tanh(c_t); f, i, o = s(x_t U + h_{t-1} W), g = tanh(x_t U + h_{t-1} W), where each
    of the eight products is a layer with bias or batch normalisation of its own (Darknet's lstm).

    Parameters: those of `Connected` behind "input_f" ... and "state_f" ...

    Args:
        outputs: how many numbers the state has.
        batch_normalize: as in `Connected`.
    """

    outputs: int
    batch_normalize: bool | BatchStatistics = False
    initial: Initializer = HeUniform()

    def __post_init__(self) -> None:
        positive(self, outputs=self.outputs)

    def sublayers(self, frame):
        layer = Connected(self.outputs, batch_normalize=self.batch_normalize, initial=self.initial)
        state = Spec((self.outputs,), frame.dtype)
        return [(Sublayer(_names("input", "figo"), layer), frame), (Sublayer(_names("state", "figo"), layer), state)]

    def run(self, x, subs, parameters, context, frame):
        into, again = subs
        training = context.training
        drive, measured = into.apply(x, parameters, training, True)
        into.follow(parameters, measured, context)

        def step(drive_t: Variable, h: Variable, c: Variable) -> list[Variable]:
            y, measured = again.apply(h, parameters, training, False)
            f, i, g, o = _cut(drive_t + y, 4)
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            return [ops.sigmoid(o) * ops.tanh(c), c, *measured]

        statistics = 2 if training and self.batch_normalize else 0
        zeros = _zeros(x, (self.outputs,))
        h, _, *measured = scan(step, drive, [zeros, zeros, *[None] * statistics], return_list=True, name="lstm")
        again.follow(parameters, measured, context)
        return h


@dataclass(frozen=True)
class GatedGRU(Recurrent):
    """h_t = z h_{t-1} + (1 - z) a(x_t U + (r h_{t-1}) W); z, r = s(x_t U + h_{t-1} W), where each of the six products
    is a layer with bias or batch normalisation of its own (Darknet's gru).

    Args:
        outputs: how many numbers the state has.
        candidate: the activation a: "logistic" (Darknet's default) or "tanh" (the textbook's).
        batch_normalize: as in `Connected`.
    """

    outputs: int
    candidate: str = "tanh"
    batch_normalize: bool | BatchStatistics = False
    initial: Initializer = HeUniform()

    def __post_init__(self) -> None:
        positive(self, outputs=self.outputs)
        activation(self.candidate)

    def sublayers(self, frame):
        layer = Connected(self.outputs, batch_normalize=self.batch_normalize, initial=self.initial)
        state = Spec((self.outputs,), frame.dtype)
        return [
            (Sublayer(_names("input", "zrh"), layer), frame), (Sublayer(_names("state", "zr"), layer), state),
            (Sublayer(("state_h",), layer), state),
        ]  # fmt: skip

    def run(self, x, subs, parameters, context, frame):
        into, gates, last = subs
        training, n = context.training, self.outputs
        drive, measured = into.apply(x, parameters, training, True)
        into.follow(parameters, measured, context)

        def step(drive_t: Variable, h: Variable) -> list[Variable]:
            y, measured = gates.apply(h, parameters, training, False)
            z, r = (ops.sigmoid(v) for v in _cut(drive_t[:, : 2 * n] + y, 2))
            y, more = last.apply(r * h, parameters, training, False)
            new = activation(self.candidate)(drive_t[:, 2 * n :] + y)
            return [z * h + (1.0 - z) * new, *measured, *more]

        statistics = 4 if training and self.batch_normalize else 0
        h, *measured = scan(step, drive, [_zeros(x, (n,)), *[None] * statistics], return_list=True, name="gru")
        gates.follow(parameters, measured[:2], context)
        last.follow(parameters, measured[2:], context)
        return h


@dataclass(frozen=True)
class ConvLSTM(Recurrent):
    """An LSTM over images (time, height, width, channels) whose products are convolutions (Shi et al. 2015; AlexeyAB's
    conv_lstm).

    Args:
        outputs: how many channels the state has.
        size, stride, dilation, padding, groups: as in `Convolutional`; only products with the input have a stride.
        activation: of each product.
        cell_activation: where the textbook has tanh.
        peephole: the gates see the cell too, through convolutions of their own.
        limit: the cell is held within [-limit, limit]; 0 for no limit.
        batch_normalize: as in `Convolutional`.
    """

    outputs: int
    size: int = 3
    stride: int | tuple[int, int] = 1
    dilation: int = 1
    padding: int = 0
    groups: int = 1
    activation: str = "linear"
    cell_activation: str = "tanh"
    peephole: bool = False
    limit: float = 0.0
    batch_normalize: bool | BatchStatistics = False
    initial: Initializer = HeUniform()

    def __post_init__(self) -> None:
        positive(self, outputs=self.outputs, size=self.size)
        activation(self.activation)
        activation(self.cell_activation)
        if not self.limit >= 0:
            raise ArgumentError(f"ConvLSTM: limit={self.limit}; expected a number from 0 up")

    def _step_shape(self, x):
        if len(x.shape) != 4:
            raise ShapeError(f"takes sequences of images (time, height, width, channels), got {x}")
        return x.shape[1:]

    def _layer(self, stride: Any) -> Convolutional:
        return Convolutional(
            self.outputs, self.size, stride, self.padding, self.dilation, self.groups,
            batch_normalize=self.batch_normalize, initial=self.initial,
        )  # fmt: skip

    def sublayers(self, frame):
        if self.outputs % self.groups:
            raise ShapeError(f"{self.outputs} channels can't be cut into groups={self.groups} equal parts")
        pair(self.stride, "stride")
        first, again = self._layer(self.stride), self._layer(1)
        state = first.describe(frame)
        if again.describe(state) != state:
            raise ShapeError(f"size={self.size} and padding={self.padding} don't keep the state's size {state}")
        peepholes = [(Sublayer((f"cell_{gate}",), again), state) for gate in "fio"] if self.peephole else []
        gates = [(Sublayer((f"state_{gate}",), again), state) for gate in "figo"]
        return [*peepholes, *[(Sublayer((f"input_{gate}",), first), frame) for gate in "figo"], *gates]

    def run(self, x, subs, parameters, context, frame):
        by_name = {sub.names[0]: sub for sub in subs}
        f, tanh, training = activation(self.activation), activation(self.cell_activation), context.training
        drives = []
        for gate in "figo":
            sub = by_name[f"input_{gate}"]
            y, measured = sub.apply(x, parameters, training, True)
            sub.follow(parameters, measured, context)
            drives.append(f(y))
        inside = [name for name in by_name if not name.startswith("input")]

        def step(*arguments: Variable) -> list[Variable]:
            *drive, h, c = arguments
            seen: dict[str, list[Variable]] = {}

            def product(name: str, value: Variable) -> Variable:
                y, seen[name] = by_name[name].apply(value, parameters, training, False)
                return f(y)

            def gate(letter: str, number: int, cell: Variable | None) -> Variable:
                total = drive[number] + product(f"state_{letter}", h)
                if self.peephole and cell is not None:
                    total = total + product(f"cell_{letter}", cell)
                return total

            forget, into = ops.sigmoid(gate("f", 0, c)), ops.sigmoid(gate("i", 1, c))
            c = forget * c + into * tanh(gate("g", 2, None))
            if self.limit:
                c = ops.clip(c, -self.limit, self.limit)
            h_new = ops.sigmoid(gate("o", 3, c)) * tanh(c)
            return [h_new, c, *(v for name in inside for v in seen[name])]

        statistics = 2 * len(inside) if training and self.batch_normalize else 0
        state = self._layer(self.stride).describe(frame).shape
        h, _, *measured = scan(
            step, drives, [_zeros(x, state)] * 2 + [None] * statistics, return_list=True, name="conv_lstm"
        )
        for i, name in enumerate(inside if measured else ()):
            by_name[name].follow(parameters, measured[2 * i : 2 * i + 2], context)
        return h
