"""NumPyNet's layers over images and vectors."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...errors import ArgumentError, ShapeError
from ...graph import Variable
from ...nn.layers.base import Context, Spec
from ...nn.layers.merge import Shortcut
from ...nn.layers.rearrange import Reorg3d, Upsample
from .activations import Activations
from .base import Activated, BaseLayer, Shape, as_floats, pair, whole
from .exception import LayerError, NotFittedError
from .passes import Pass

EPSILON = 1e-8  # theirs, of the norms


class Input_layer(BaseLayer):
    """Where data comes in."""

    def forward(self, inpt, copy=False):
        self.output = self._checked(inpt, "forward")
        self.delta = np.zeros_like(self.output)
        return self

    def backward(self, delta=None, copy=False):
        if self.delta is None:
            raise NotFittedError("Input_layer: call forward before backward")
        if delta is not None and delta is not self.delta:
            self._add(self.delta, delta)
        return self


class Activation_layer(Activated):
    """A function of each number.

    Args:
        activation: a name in any case, a class or an instance of `activations`.
    """

    def __init__(self, input_shape: Shape | None = None, activation: Any = Activations, **kwargs: Any) -> None:
        self._choose(activation)
        super().__init__(input_shape, **kwargs)

    def expression(self, x):
        return self.activate(x)


class Connected_layer(Activated):
    """activation(x W + b), x taken as rows of numbers. `weights` are (inputs, outputs), `bias` (outputs,).

    Args:
        outputs: how many numbers come out.
        activation: as in `Activation_layer`.
        weights, bias: first values; by default uniform within sqrt(2 / inputs), and zeros.
    """

    parameters = ("bias", "weights")
    takes_input = True

    def __init__(
        self, outputs: int, activation: Any = Activations, input_shape: Shape | None = None, weights: Any = None,
        bias: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        whole(self, outputs=outputs)
        self.outputs, self.weights, self.bias = outputs, weights, bias
        self._choose(activation)
        super().__init__(input_shape, **kwargs)

    @property
    def inputs(self) -> int:
        return prod(self.input_shape[1:])

    def _build(self):
        if self.weights is None:
            bound = np.sqrt(2 / self.inputs)
            self.weights = np.random.uniform(-bound, bound, (self.inputs, self.outputs))
        self.bias = np.zeros(self.outputs) if self.bias is None else self.bias
        expect(self, weights=(self.inputs, self.outputs), bias=(self.outputs,))

    def shape_out(self, shape):
        return 1, 1, self.outputs

    def expression(self, x, bias, weights):
        y = self.activate(ops.reshape(x, (-1, self.inputs)) @ weights + bias)
        return ops.reshape(y, (-1, 1, 1, self.outputs))

    def _reshapes(self, x):
        return prod(x.shape[1:]) == self.inputs

    def backward(self, inpt, delta=None, copy=False):
        """Add dLoss / dInput to the buffer `delta`; `inpt` is what went forward."""
        gradient = self._gradient(inpt)
        self._add(gradient if delta is None else gradient.reshape(delta.shape), delta)
        return self

    def operations(self):
        return 2 * self.inputs * self.outputs


def expect(layer: BaseLayer, **shapes: Shape) -> None:
    """Refuse parameters of another shape."""
    for name, shape in shapes.items():
        found = np.shape(getattr(layer, name))
        if found != shape:
            raise ShapeError(f"{type(layer).__name__}: {name} has shape {found}; expected {shape}")


class Windowed(BaseLayer):
    """Base of layers whose windows walk over images. With `pad` there are ceil(length / stride) of them along an axis,
    and cells of padding are shared out, the odd one after the image (Keras' SAME)."""

    def _windows(self, size: Any, stride: Any, pad: bool) -> None:
        self.size = pair(self, "size", size)
        self.stride = self.size if not stride else pair(self, "stride", stride)
        whole(self, size=self.size, stride=self.stride)
        self.pad = bool(pad)

    @property
    def padding(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Cells (before, after) along both axes."""
        totals = [
            max(k - (n % s or s), 0) if self.pad else 0
            for n, k, s in zip(self.input_shape[1:3], self.size, self.stride)
        ]
        return tuple((n // 2, n - n // 2) for n in totals)

    def shape_out(self, shape):
        counts = [(n + sum(p) - k) // s + 1 for n, p, k, s in zip(shape, self.padding, self.size, self.stride)]
        if min(counts) < 1:
            raise LayerError(f"{type(self).__name__}: a window of {self.size} doesn't fit into {shape}")
        return (*counts, shape[2])


class Convolutional_layer(Windowed, Activated):
    """activation(x * W + b). `weights` are (kx, ky, channels, filters), `bias` (filters,).

    Args:
        filters: how many channels come out.
        size, stride: of the windows, one number or two; the stride is the size unless given.
        pad: whether there is padding.
        weights, bias: first values; by default normal of variance 2 / (kx ky channels), and zeros.
        activation: as in `Activation_layer`.
    """

    parameters = ("bias", "weights")

    def __init__(
        self, filters: int, size: Any, stride: Any = None, input_shape: Shape | None = None, weights: Any = None,
        bias: Any = None, pad: bool = False, activation: Any = Activations, **kwargs: Any,
    ) -> None:  # fmt: skip
        whole(self, filters=filters)
        self.channels_out, self.weights, self.bias = filters, weights, bias
        self._windows(size, stride, pad)
        self._choose(activation)
        super().__init__(input_shape, **kwargs)

    def _build(self):
        shape = (*self.size, self.input_shape[3], self.channels_out)
        if self.weights is None:
            self.weights = np.random.normal(0.0, np.sqrt(2 / prod(shape[:3])), shape)
        self.bias = np.zeros(self.channels_out) if self.bias is None else self.bias
        expect(self, weights=shape, bias=(self.channels_out,))
        self.shape_out(self.input_shape[1:])

    def shape_out(self, shape):
        return (*super().shape_out(shape)[:2], self.channels_out)

    def expression(self, x, bias, weights):
        y = ops.conv2d(x, weights, self.stride, self.padding, layout="NHWC", filter_layout="HWIO")
        return self.activate(y + bias)

    def operations(self):
        return 2 * prod(self.out_shape[1:]) * prod(self.size) * self.input_shape[3]


class Maxpool_layer(Windowed):
    """The largest number of each window; padding never wins.

    Args:
        size, stride, pad: as in `Convolutional_layer`.
    """

    def __init__(
        self, size: Any, stride: Any = None, pad: bool = False, input_shape: Shape | None = None, **kwargs: Any
    ) -> None:
        self._windows(size, stride, pad)
        super().__init__(input_shape, **kwargs)

    def expression(self, x):
        return ops.max_pool2d(x, self.size, self.stride, padding=self.padding, layout="NHWC")


class Avgpool_layer(Maxpool_layer):
    """The mean of each window; padding doesn't count."""

    def expression(self, x):
        return ops.avg_pool2d(x, self.size, self.stride, padding=self.padding, count_include_pad=False, layout="NHWC")


class BatchNorm_layer(BaseLayer):
    """scales * (x - mean) / sqrt(variance + 1e-8) + bias for each number of a sample, by mean and variance over the
    batch; at predict by running averages of them, momentum 0.9 (theirs has none and takes the batch's).

    Args:
        scales, bias: first values, of shape (w, h, c); ones and zeros unless given.
    """

    parameters = ("bias", "scales")
    epsil = EPSILON
    momentum = 0.9

    def __init__(self, scales: Any = None, bias: Any = None, input_shape: Shape | None = None, **kwargs: Any) -> None:
        self.scales, self.bias = scales, bias
        self.running_mean = self.running_variance = None
        super().__init__(input_shape, **kwargs)

    def _build(self):
        shape = self.input_shape[1:]
        self.scales = np.ones(shape) if self.scales is None else self.scales
        self.bias = np.zeros(shape) if self.bias is None else self.bias
        self.running_mean, self.running_variance = np.zeros(prod(shape)), np.ones(prod(shape))
        expect(self, scales=shape, bias=shape)

    def expression(self, x, bias, scales):
        rows = ops.reshape(x, (-1, self.running_mean.size))
        y, *self._statistics = ops.batch_norm_train(rows, ops.ravel(scales), ops.ravel(bias), self.epsil)
        return ops.reshape(y, (-1, *self.input_shape[1:]))

    def extras(self):
        return self._statistics

    def _took(self, values):
        mean, variance = values
        self.running_mean = self.momentum * self.running_mean + (1 - self.momentum) * mean
        self.running_variance = self.momentum * self.running_variance + (1 - self.momentum) * variance

    def forward(self, inpt, copy=False):
        if self.training:
            return super().forward(inpt, copy)
        x = self._checked(inpt, "forward")
        scale = np.ravel(self.scales) / np.sqrt(self.running_variance + self.epsil)
        rows = (x.reshape(len(x), -1) - self.running_mean) * scale + np.ravel(self.bias)
        self.output = rows.reshape(x.shape).astype(x.dtype)
        self.delta, self._last = np.zeros_like(self.output), None
        return self

    def save_weights(self):
        """bias, scales, running mean and running variance."""
        return [*super().save_weights(), *map(float, self.running_mean), *map(float, self.running_variance)]

    def load_weights(self, chunck_weights, pos=0):
        pos = super().load_weights(chunck_weights, pos)
        size = self.running_mean.size
        if pos + 2 * size > len(chunck_weights):
            raise ShapeError(f"BatchNorm_layer: the running averages need {2 * size} numbers from {pos} on")
        chunk = np.asarray(chunck_weights, float)
        self.running_mean, self.running_variance = chunk[pos : pos + 2 * size].reshape(2, size).copy()
        return pos + 2 * size


class Dropout_layer(BaseLayer):
    """In training each number is 0 with this probability, and the others are divided by 1 - prob; nothing happens at
    predict."""

    def __init__(self, prob: float, input_shape: Shape | None = None, **kwargs: Any) -> None:
        if not 0 <= prob <= 1:
            raise ArgumentError(f"Dropout_layer: prob={prob}; expected a number from 0 to 1")
        self.probability = prob
        super().__init__(input_shape, **kwargs)

    def expression(self, x):
        return self.random.dropout(x, self.probability) if self.training else 1.0 * x


class L2Norm_layer(BaseLayer):
    """x / sqrt(sum x^2 + 1e-8), the sum over `axis` of (batch, w, h, c); over everything, the batch too, if None."""

    def __init__(self, input_shape: Shape | None = None, axis: Any = None, **kwargs: Any) -> None:
        self.axis = axis
        super().__init__(input_shape, **kwargs)

    def size(self, x: Variable) -> Variable:
        """What x is divided by."""
        return ops.sqrt(ops.sum(ops.square(x), axis=self.axis, keepdims=True) + EPSILON)

    def expression(self, x):
        return x / self.size(x)


class L1Norm_layer(L2Norm_layer):
    """x / (sum |x| + 1e-8), the sum as in `L2Norm_layer`."""

    def size(self, x):
        return ops.sum(ops.abs(x), axis=self.axis, keepdims=True) + EPSILON


class Shuffler_layer(BaseLayer):
    """scale^2 channels spread over blocks of scale x scale cells."""

    def __init__(self, scale: int, input_shape: Shape | None = None, **kwargs: Any) -> None:
        if not isinstance(scale, int) or scale < 2:
            raise ArgumentError(f"Shuffler_layer: scale={scale!r}; expected a whole number from 2 up")
        self.scale = scale
        super().__init__(input_shape, **kwargs)

    def shape_out(self, shape):
        return Reorg3d(self.scale, reverse=True).describe(Spec(shape, "float64")).shape

    def expression(self, x):
        return Reorg3d(self.scale, reverse=True).apply({}, [x], Context())


class Upsample_layer(BaseLayer):
    """Each cell repeated, or with negative strides blocks of cells averaged, times `scale`.

    Args:
        stride: one number or two of the same sign.
    """

    def __init__(
        self, input_shape: Shape | None = None, stride: Any = (2, 2), scale: float = 1.0, **kwargs: Any
    ) -> None:
        stride = pair(self, "stride", stride)
        self.reverse = all(s < 0 for s in stride)
        if not self.reverse and any(s <= 0 for s in stride):
            raise LayerError(f"Upsample_layer: stride={stride}; expected two numbers of one sign")
        self.stride, self.scale = tuple(map(abs, stride)), float(scale)
        self._layer = Upsample(self.stride, self.scale, "mean" if self.reverse else "")
        super().__init__(input_shape, **kwargs)

    def shape_out(self, shape):
        return self._layer.describe(Spec(shape, "float64")).shape

    def expression(self, x):
        return self._layer.apply({}, [x], Context())


class Route_layer(BaseLayer):
    """The outputs of several layers of a network, by channels or (`by_channels=False`) by batch.

    Args:
        input_layers: their numbers in the network.
    """

    def __init__(self, input_layers: int | Sequence[int], by_channels: bool = True, **kwargs: Any) -> None:
        self.input_layers = (input_layers,) if isinstance(input_layers, int) else tuple(input_layers)
        if not self.input_layers:
            raise LayerError("Route_layer: it names no layers")
        self.axis = 3 if by_channels else 0
        super().__init__(**kwargs)

    def __call__(self, previous_layer: Sequence[BaseLayer]) -> "Route_layer":
        shapes = [layer.out_shape for layer in previous_layer]
        rest = {shape[:3] if self.axis == 3 else shape[1:] for shape in shapes}
        if len(rest) > 1:
            raise LayerError(f"Route_layer: the layers differ in shape: {', '.join(map(str, shapes))}")
        total = sum(shape[self.axis] for shape in shapes)
        self.input_shape = (*shapes[0][:3], total) if self.axis == 3 else (total, *shapes[0][1:])
        return self

    def forward(self, network):
        self.output = np.concatenate([network[i].output for i in self.input_layers], axis=self.axis)
        self.delta = np.zeros_like(self.output)
        return self

    def backward(self, delta=None, network=None):
        """Add each part of its delta to the delta of the layer that it came from."""
        if self.delta is None:
            raise NotFittedError("Route_layer: call forward before backward")
        layers = [network[i] for i in self.input_layers]
        ends = np.cumsum([layer.output.shape[self.axis] for layer in layers])[:-1]
        for layer, part in zip(layers, np.split(self.delta, ends, axis=self.axis)):
            layer.delta += part
        return self


class Shortcut_layer(Activated):
    """activation(alpha x + beta y), with y of another layer. Where the shapes differ, cells and channels that both have
    are added, as Darknet does it, and all other cells of x stay as they are.

    Args:
        activation: as in `Activation_layer`.
        alpha, beta: the factors.
        layer: in a network, the number of the other layer, negative from the one before on.
    """

    def __init__(
        self, activation: Any = Activations, alpha: float = 1.0, beta: float = 1.0, layer: int | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        self._choose(activation)
        self.alpha, self.beta, self.layer = float(alpha), float(beta), layer
        self._shapes: dict[tuple, Pass] = {}
        super().__init__(**kwargs)

    def __call__(self, previous_layer: Sequence[BaseLayer]) -> "Shortcut_layer":
        first, second = (layer.out_shape for layer in previous_layer)
        self.input_shape = first
        self._added().describe(Spec(first[1:], "float64"), Spec(second[1:], "float64"))
        return self

    def _added(self) -> Shortcut:
        return Shortcut(-2, alpha=self.alpha, beta=self.beta, other_shapes="resample")

    def forward(self, inpt, prev_output, copy=False):
        """Set `output` for x and y."""
        x, y = as_floats(inpt), as_floats(prev_output)
        y = y.astype(x.dtype, copy=False)
        key = (x.dtype.name, x.shape[1:], y.shape[1:])
        if key not in self._shapes:
            inputs = [ops.tensor(x.dtype.name, (None, *a.shape[1:])) for a in (x, y)]
            self._shapes[key] = Pass(inputs, self.activate(self._added().apply({}, inputs, Context())))
        run = self._shapes[key]
        self.output, _, kept = run.forward([x, y])
        self._last = run, [x, y], kept
        self.input_shape, self.delta = x.shape, np.zeros_like(self.output)
        return self

    def backward(self, delta, prev_delta, copy=False):
        """Add the gradients to x and y to the buffers `delta` and `prev_delta`."""
        if self._last is None:
            raise NotFittedError("Shortcut_layer: call forward before backward")
        run, values, kept = self._last
        for gradient, buffer in zip(run.backward(values, kept, np.asarray(self.delta, self.output.dtype)),
                                    (delta, prev_delta)):  # fmt: skip
            self._add(gradient, buffer)
        return self
