"""NumPyNet's layers."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...errors import ArgumentError, ShapeError, nearest
from ...graph import Variable
from ...nn.activations import ACTIVATIONS
from ...nn.layers import RNN, GatedGRU, GatedLSTM, SimpleRNN, Spec, Upsample
from ...nn.layers.base import Context, Layer
from ...nn.layers.cost import COSTS, Cost
from ...ops.norm import Normalize
from .base import BaseLayer

Parameters = Mapping[str, Variable]
Result = tuple[Variable, dict[str, Variable]]
EPSILON = 1e-8


def activation_of(name: Any) -> Any:
    """A function of a variable, by NumPyNet's name ("Relu", "softPlus", ... in any case) or class."""
    text = getattr(name, "name", None) or (name if isinstance(name, str) else getattr(name, "__name__", str(name)))
    key = text.lower()
    known = {**ACTIVATIONS, "hardtan": lambda x: ops.hard_sigmoid(x, 0.2, 0.5)}  # NumPyNet's, not Darknet's
    if key not in known:
        raise ArgumentError(f"unknown activation {text!r}. {nearest(key, known)}")
    return known[key]


class Input_layer(BaseLayer):
    """What comes in, as it is."""

    def expression(self, x, parameters, training):
        return x, {}


class Activation_layer(BaseLayer):
    """A function of each number."""

    def __init__(self, input_shape=None, activation="Linear", **options: Any) -> None:
        self.activation = activation_of(activation)
        super().__init__(input_shape)

    def expression(self, x, parameters, training):
        return self.activation(x), {}


class Connected_layer(BaseLayer):
    """activation(x W + b); parameters `weights` (inputs, outputs) and `bias` (outputs,)."""

    def __init__(self, outputs, activation="Linear", input_shape=None, weights=None, bias=None, **options: Any) -> None:
        if outputs < 1:
            raise ArgumentError(f"Connected_layer: outputs={outputs}; expected 1 or more")
        self.outputs, self.activation = int(outputs), activation_of(activation)
        self._given = weights, bias
        super().__init__(input_shape)

    def initial(self, shape, rng):
        weights, bias = self._given
        n = prod(shape)
        bound = np.sqrt(2 / n)
        return {
            "weights": _given(weights, (n, self.outputs), lambda s: rng.uniform(-bound, bound, s)),
            "bias": _given(bias, (self.outputs,), np.zeros),
        }

    def expression(self, x, parameters, training):
        flat = ops.reshape(x, (-1, parameters["weights"].type.shape[0]))
        y = self.activation(flat @ parameters["weights"] + parameters["bias"])
        return ops.expand_dims(y, (1, 2)), {}


def _given(value: Any, shape: tuple[int, ...], make: Any) -> np.ndarray:
    """What the user gave, in its shape, or else a first value."""
    if value is None:
        return make(shape)
    array = np.asarray(value)
    if array.size != prod(shape):
        raise ShapeError(f"weights or bias of shape {array.shape}; expected {shape}")
    return array.reshape(shape)


def _pair(value: Any) -> tuple[int, int]:
    return (int(value),) * 2 if np.ndim(value) == 0 else tuple(map(int, value))


class Convolutional_layer(BaseLayer):
    """activation(x * W + b); parameters `weights` (kx, ky, channels, filters) and `bias`. pad=True keeps the size at stride
    1, as Keras' SAME."""

    def __init__(
        self, filters, size, stride=None, input_shape=None, weights=None, bias=None, pad=False, activation="Linear",
        **options: Any,
    ) -> None:  # fmt: skip
        self.filters, self.size = int(filters), _pair(size)
        self.stride = self.size if stride is None else _pair(stride)
        self.pad, self.activation = bool(pad), activation_of(activation)
        self._given = weights, bias
        super().__init__(input_shape)

    def initial(self, shape, rng):
        full = (*self.size, shape[2], self.filters)
        deviation = np.sqrt(2 / prod(full[:3]))
        weights, bias = self._given
        return {
            "weights": _given(weights, full, lambda s: rng.normal(0, deviation, s)),
            "bias": _given(bias, (self.filters,), np.zeros),
        }

    def expression(self, x, parameters, training):
        y = ops.conv2d(
            x,
            parameters["weights"],
            stride=self.stride,
            padding="same" if self.pad else 0,
            layout="NHWC",
            filter_layout="HWIO",
        )
        return self.activation(y + parameters["bias"]), {}


class Maxpool_layer(BaseLayer):
    """The largest number of each window; pad=True as Keras' SAME."""

    def __init__(self, size=2, stride=None, input_shape=None, pad=False, **options: Any) -> None:
        self.size = _pair(size)
        self.stride = self.size if stride is None else _pair(stride)
        self.padding = "same" if pad else 0
        super().__init__(input_shape)

    def expression(self, x, parameters, training):
        return ops.max_pool2d(x, self.size, self.stride, self.padding, layout="NHWC"), {}


class Avgpool_layer(Maxpool_layer):
    """The mean of the real numbers in each window."""

    def expression(self, x, parameters, training):
        y = ops.avg_pool2d(x, self.size, self.stride, self.padding, count_include_pad=False, layout="NHWC")
        return y, {}


class BatchNorm_layer(BaseLayer):
    """scales (x - mean) / sqrt(variance + 1e-8) + bias, with statistics over the batch for each number of a sample; when
    not trainable, by their running averages."""

    def __init__(self, scales=None, bias=None, input_shape=None, **options: Any) -> None:
        self._given = scales, bias
        super().__init__(input_shape)

    def initial(self, shape, rng):
        scales, bias = self._given
        return {
            "scales": _given(scales, shape, np.ones),
            "bias": _given(bias, shape, np.zeros),
            "rolling_mean": np.zeros(shape),
            "rolling_variance": np.ones(shape),
        }

    def expression(self, x, parameters, training):
        scales, bias = (ops.expand_dims(parameters[k], 0) for k in ("scales", "bias"))
        if not training:
            deviation = ops.sqrt(parameters["rolling_variance"] + EPSILON)
            return (x - parameters["rolling_mean"]) / deviation * scales + bias, {}
        y, mean, variance = Normalize((0,), EPSILON)(x, scales, bias)
        new = {"rolling_mean": ops.squeeze(mean, 0), "rolling_variance": ops.squeeze(variance, 0)}
        return y, {k: 0.99 * parameters[k] + 0.01 * v for k, v in new.items()}


class Dropout_layer(BaseLayer):
    """Numbers become 0 with probability `prob`, the others are scaled; nothing happens when not trainable."""

    def __init__(self, prob=0.5, input_shape=None, **options: Any) -> None:
        if not 0 <= prob < 1:
            raise ArgumentError(f"Dropout_layer: prob={prob}; expected at least 0 and less than 1")
        self.probability = float(prob)
        super().__init__(input_shape)

    def expression(self, x, parameters, training):
        return (self._random.dropout(x, self.probability) if training and self.probability else x), {}


class L2Norm_layer(BaseLayer):
    """x / sqrt(sum x^2) along `axis` of (batch, w, h, c); None: over everything."""

    normalize = staticmethod(ops.l2_normalize)

    def __init__(self, input_shape=None, axis=None, **options: Any) -> None:
        self.axis = axis
        super().__init__(input_shape)

    def expression(self, x, parameters, training):
        return self.normalize(x, axis=self.axis), {}


class L1Norm_layer(L2Norm_layer):
    """x / sum |x| along `axis`."""

    normalize = staticmethod(ops.l1_normalize)


class Upsample_layer(BaseLayer):
    """Each number repeated `stride` times along both axes; a negative stride takes the mean of blocks. Times `scale`."""

    def __init__(self, input_shape=None, stride=(2, 2), scale=1.0, **options: Any) -> None:
        strides = _pair(stride)
        self.layer = Upsample(tuple(map(abs, strides)), float(scale), "mean" if strides[0] < 0 else "")
        super().__init__(input_shape)

    def expression(self, x, parameters, training):
        return self.layer.apply({}, [x], Context()), {}


class Shuffler_layer(BaseLayer):
    """scale^2 channels spread over scale x scale places."""

    def __init__(self, input_shape=None, scale=2, **options: Any) -> None:
        self.scale = int(scale)
        super().__init__(input_shape)

    def expression(self, x, parameters, training):
        return ops.pixel_shuffle(x, self.scale, layout="NHWC"), {}


class Loss_layer(BaseLayer):
    """Base of layers that compare with a truth: `forward(inpt, truth)` finds `cost` and its gradient, which `backward`
    adds to the buffer; without a truth they are like any other layer."""

    cost: float = 0.0
    _truth: np.ndarray | None = None

    def forward(self, inpt, truth=None, copy=True, **options: Any):
        super().forward(inpt, copy)
        self._truth = None if truth is None else np.asarray(truth, self._input.dtype).reshape(self._output.shape)
        if self._truth is not None:
            run = self._function("cost", self._input.dtype.name, self._make_cost)
            value, self._slope = run(self._input, self._truth)
            self.cost = float(value)
            self.delta = self._slope
        return self

    def cost_of(self, x: Variable, t: Variable) -> Variable:
        """The cost, from what comes in."""
        raise NotImplementedError(f"{type(self).__name__} must define cost_of")

    def _make_cost(self, dtype: str) -> Any:
        from ...compile import function
        from ...gradient.engine import grad

        x, _ = self._symbols(dtype)
        t = Variable(x.type, name="truth")
        cost = self.cost_of(x, ops.reshape(t, ops.shape(x)))
        return function([x, t], [cost, grad(cost, x)])

    def _backward(self, delta):
        return self._slope if self._truth is not None else super()._backward(delta)


class Softmax_layer(Loss_layer):
    """exp(x / temperature), normalised over a sample, or with `spatial` over the channels at each place; its cost is the
    summed cross-entropy."""

    def __init__(self, input_shape=None, spatial=False, temperature=1.0, **options: Any) -> None:
        if not temperature > 0:
            raise ArgumentError(f"Softmax_layer: temperature={temperature}; expected a number above 0")
        self.spatial, self.temperature = bool(spatial), float(temperature)
        super().__init__(input_shape)

    def _scores(self, x: Variable) -> Variable:
        x = x if self.temperature == 1 else x / self.temperature
        return x if self.spatial else ops.reshape(x, (-1, prod(x.type.shape[1:])))

    def expression(self, x, parameters, training):
        y = ops.softmax(self._scores(x), axis=-1)
        return ops.reshape(y, (-1, *x.type.shape[1:])), {}

    def cost_of(self, x, t):
        logs = ops.log_softmax(self._scores(x), axis=-1)
        return -ops.sum(ops.reshape(t, ops.shape(logs)) * logs)


class Logistic_layer(Loss_layer):
    """1 / (1 + exp(-x)); its cost is the summed binary cross-entropy."""

    def expression(self, x, parameters, training):
        return ops.sigmoid(x), {}

    def cost_of(self, x, t):
        return ops.sum(ops.bce_with_logits(x, t))


class Cost_layer(Loss_layer):
    """Passes on what comes in; its cost is `scale` times the mean deviation from the truth, of the kind `cost_type`: mse,
    mae, sse, smooth, wgan, hellinger, hinge, logcosh, masked, seg, L1."""

    def __init__(
        self, cost_type="mse", input_shape=None, scale=1.0, ratio=0.0, noobject_scale=1.0, threshold=0.0,
        smoothing=0.0, **options: Any,
    ) -> None:  # fmt: skip
        name = getattr(cost_type, "name", cost_type)
        if name not in COSTS:
            raise ArgumentError(f"Cost_layer: cost_type={name!r}. {nearest(str(name), COSTS)}")
        self.layer = Cost(name, float(scale), float(ratio), float(noobject_scale), float(threshold), float(smoothing))
        super().__init__(input_shape)

    def expression(self, x, parameters, training):
        return x, {}

    def cost_of(self, x, t):
        from ...darknet.losses import CostLoss

        return ops.sum(CostLoss(self.layer)(x, t)) / ops.cast(ops.size(x), x.dtype)


class Route_layer(BaseLayer):
    """The outputs of earlier layers side by side on the channels, or one after the other on the batch."""

    def __init__(self, input_layers, by_channels=True, **options: Any) -> None:
        self.input_layers = (int(input_layers),) if np.ndim(input_layers) == 0 else tuple(map(int, input_layers))
        self.axis = 3 if by_channels else 0
        super().__init__()

    def __call__(self, previous: Sequence[BaseLayer] | BaseLayer) -> "Route_layer":
        layers = list(previous) if isinstance(previous, (list, tuple)) else [previous]
        shapes = [layer.out_shape for layer in layers]
        total = list(shapes[0])
        total[self.axis] = sum(s[self.axis] for s in shapes)
        self._shape = tuple(total)
        return self

    def forward(self, network, **options: Any):
        parts = [network[i].output for i in self.input_layers]
        self._parts = [p.shape for p in parts]
        self._input = self._output = np.concatenate(parts, axis=self.axis)
        self.delta = np.zeros_like(self._output)
        return self

    def backward(self, delta=None, network=None, **options: Any):
        start = 0
        for i, shape in zip(self.input_layers, self._parts):
            stop = start + shape[self.axis]
            network[i].delta += self.delta[..., start:stop] if self.axis == 3 else self.delta[start:stop]
            start = stop
        return self


class Shortcut_layer(BaseLayer):
    """activation(alpha x + beta other); of other shapes the common part, as Darknet's resampling has it."""

    def __init__(self, activation="Linear", alpha=1.0, beta=1.0, index=-2, **options: Any) -> None:
        self.activation, self.alpha, self.beta, self.index = activation_of(activation), float(alpha), float(beta), index
        super().__init__()

    def __call__(self, previous: Sequence[BaseLayer] | BaseLayer) -> "Shortcut_layer":
        layers = list(previous) if isinstance(previous, (list, tuple)) else [previous]
        self._shape = layers[0].out_shape
        return self

    def _make(self, dtype: str, shapes: tuple) -> Any:
        from ...compile import function
        from ...gradient.engine import grad
        from ...graph import TensorType
        from ...nn.layers.merge import _added

        x, other = (Variable(TensorType(dtype, (None, *s[1:]))) for s in shapes)
        y = self.activation(_added(x, self.alpha, other, self.beta, "resample"))
        g = Variable(y.type)
        return function([x, other], y), function([x, other, g], grad(ops.sum(y * g), [x, other]))

    def forward(self, inpt, prev_output, copy=True, **options: Any):
        self._input, self._other = np.asarray(inpt), np.asarray(prev_output)
        key = self._input.dtype.name, self._input.shape[1:], self._other.shape[1:]
        if key not in self._functions:
            self._functions[key] = self._make(key[0], (self._input.shape, self._other.shape))
        run, self._back = self._functions[key]
        self._output = run(self._input, self._other)
        self.delta = np.zeros_like(self._output)
        return self

    def backward(self, delta, prev_delta, copy=True, **options: Any):
        dx, dother = self._back(self._input, self._other, self.delta)
        delta += dx
        prev_delta += dother
        return self


# --- over time --------------------------------------------------------------------------------------------------------


class Sequence_layer(BaseLayer):
    """Base of recurrent layers: (samples, w, h, c) are samples x `steps` vectors, one sequence's steps after the other's;
    the state begins at 0 in each."""

    def __init__(self, outputs, steps, input_shape=None, return_sequence=True, **options: Any) -> None:
        if steps < 1:
            raise ArgumentError(f"{type(self).__name__}: steps={steps}; expected 1 or more")
        self.outputs, self.steps, self.return_sequence = int(outputs), int(steps), bool(return_sequence)
        self.layer = self._layer(options)
        super().__init__(input_shape)

    def _layer(self, options: dict[str, Any]) -> Layer:
        raise NotImplementedError(f"{type(self).__name__} must define _layer")

    def initial(self, shape, rng):
        described = self.layer.parameters(Spec((self.steps, prod(shape)), "float32"))
        return {k: p.initial(p.shape, rng) for k, p in described.items()}

    def expression(self, x, parameters, training):
        sequences = ops.reshape(x, (-1, self.steps, prod(x.type.shape[1:])))
        y = self.layer.apply(parameters, [sequences], Context(training))
        if not self.return_sequence:
            y = y[:, -1:]
        return ops.reshape(y, (-1, 1, 1, self.outputs)), {}


class SimpleRNN_layer(Sequence_layer):
    """h_t = activation(x_t W + h_{t-1} U + b)."""

    def _layer(self, options):
        name = str(options.get("activation", "tanh")).lower()
        return SimpleRNN(self.outputs, activation=name, return_sequences=True)


class RNN_layer(Sequence_layer):
    """Three connected layers: input, state, output (Darknet's rnn)."""

    def _layer(self, options):
        return RNN(self.outputs, activation=str(options.get("activation", "tanh")).lower())


class LSTM_layer(Sequence_layer):
    """The textbook's LSTM, with eight products as Darknet has them."""

    def _layer(self, options):
        return GatedLSTM(self.outputs)


class GRU_layer(Sequence_layer):
    """The textbook's GRU."""

    def _layer(self, options):
        return GatedGRU(self.outputs, "tanh")
