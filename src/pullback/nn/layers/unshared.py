"""Convolutions with a difference: transposed, with filters of their own at each place, and followed by a blur."""

from dataclasses import dataclass

import numpy as np

from ... import ops
from ...errors import ArgumentError, ShapeError
from ...graph import Variable
from ..activations import activation
from ..initializers import HeNormal, Initializer, Zeros
from .base import Layer, Parameter, Spec, image, pair, positive, windowed
from .convolution import Convolutional, MaxPool, check_padding, margin, windows
from .normalization import BatchStatistics, normalization_parameters, normalize, statistics_of


@dataclass(frozen=True)
class Deconvolutional(Layer):
    """The transpose of a convolution, which enlarges: length (n - 1) stride + size - 2 padding.

    Known elsewhere as Conv2DTranspose (Keras) and ConvTranspose2d (PyTorch). Parameters as in `Convolutional`, with
    `weight` (height, width, filters, channels).
    """

    filters: int
    size: int | tuple[int, int] = 1
    stride: int | tuple[int, int] = 1
    padding: int | tuple[int, int] = 0
    activation: str = "linear"
    batch_normalize: bool | BatchStatistics = False
    initial: Initializer = HeNormal()

    def __post_init__(self) -> None:
        positive(self, filters=self.filters)
        windowed(self, size=self.size, stride=self.stride)
        activation(self.activation)
        check_padding(self)

    def describe(self, x):
        height, width, _ = image(x)
        lengths = []
        for n, k, s, p in zip(
            (height, width), pair(self.size, "size"), pair(self.stride, "stride"), margin(self.padding, self.size)
        ):
            lengths.append(None if n is None else (n - 1) * s + k - 2 * p)
            if n is not None and lengths[-1] < 1:
                raise ShapeError(f"padding={self.padding} leaves nothing of {x}")
        return Spec((*lengths, self.filters), x.dtype)

    def parameters(self, x):
        shape = (*pair(self.size, "size"), self.filters, x.shape[2])
        made = {"weight": Parameter(shape, self.initial, decays=True)}
        if self.batch_normalize:
            return made | normalization_parameters(self.filters)
        return made | {"bias": Parameter((self.filters,), Zeros())}

    def apply(self, parameters, inputs, context):
        y = ops.conv_transpose2d(
            inputs[0],
            parameters["weight"],
            stride=self.stride,
            padding=margin(self.padding, self.size),
            layout="NHWC",
            filter_layout="HWOI",
        )
        if self.batch_normalize:
            y = normalize(y, parameters, context, statistics_of(self.batch_normalize))
        else:
            y = y + parameters["bias"]
        return activation(self.activation)(y)

    def operations(self, inputs, output):
        height, width, channels = inputs[0].shape
        down, across = pair(self.size, "size")
        return 2 * height * width * channels * down * across * self.filters


@dataclass(frozen=True)
class Local(Layer):
    """A convolution whose filters differ from place to place, with a bias for each number that comes out.

    Known elsewhere as LocallyConnected2D (Keras). Parameters: `weight` (rows, columns, height * width * channels,
    filters) of the places and `bias` (rows, columns, filters). Needs images of known size.
    """

    filters: int
    size: int | tuple[int, int] = 1
    stride: int | tuple[int, int] = 1
    padding: int | tuple[int, int] | str = 0
    activation: str = "linear"
    initial: Initializer = HeNormal()

    def __post_init__(self) -> None:
        positive(self, filters=self.filters)
        windowed(self, size=self.size, stride=self.stride)
        activation(self.activation)
        check_padding(self)

    def describe(self, x):
        height, width, _ = image(x)
        if None in (height, width):
            raise ShapeError(f"needs images of known size, got {x}")
        around = margin(self.padding, self.size)
        return Spec((*windows((height, width), pair(self.size, "size"), self.stride, around), self.filters), x.dtype)

    def parameters(self, x):
        rows, columns, filters = self.describe(x).shape
        down, across = pair(self.size, "size")
        return {
            "weight": Parameter((rows, columns, down * across * x.shape[2], filters), self.initial, decays=True),
            "bias": Parameter((rows, columns, filters), Zeros()),
        }

    def apply(self, parameters, inputs, context):
        weight = parameters["weight"]
        rows, columns, _, _ = weight.type.shape
        x, (down, across), (s, t) = inputs[0], pair(self.size, "size"), pair(self.stride, "stride")
        p, q = margin(self.padding, self.size)
        x = ops.pad(x, ((0, 0), (p, p), (q, q), (0, 0))) if p or q else x
        taps = [
            x[:, i : i + (rows - 1) * s + 1 : s, j : j + (columns - 1) * t + 1 : t]
            for i in range(down)
            for j in range(across)
        ]
        patches = ops.concatenate(taps, axis=-1) if len(taps) > 1 else taps[0]
        y = ops.transpose(ops.matmul(ops.transpose(patches, (1, 2, 0, 3)), weight), (2, 0, 1, 3))
        return activation(self.activation)(y + parameters["bias"])

    def operations(self, inputs, output):
        down, across = pair(self.size, "size")
        rows, columns, filters = output.shape
        return 2 * rows * columns * filters * down * across * inputs[0].shape[2]


# --- with a blur, against aliasing (Zhang 2019) -----------------------------------------------------------------------

BLURS = ("binomial", "mean")


def _blur_windows(spec: Spec, blur: str, stride) -> Spec:
    height, width, channels = image(spec)
    size, padding = ((3, 3), (1, 1)) if blur == "binomial" else ((2, 2), (0, 0))
    return Spec((*windows((height, width), size, stride, padding), channels), spec.dtype)


def _blurred(x: Variable, channels: int, blur: str, stride) -> Variable:
    """Each channel smoothed by 1 2 1 times itself, or by the mean of 2 x 2 cells, and every so-manyth cell taken."""
    line = np.array([1.0, 2.0, 1.0]) if blur == "binomial" else np.ones(2)
    kernel = np.outer(line, line) / line.sum() ** 2
    filters = np.repeat(kernel[:, :, None, None], channels, axis=3).astype(x.dtype)
    padding = 1 if blur == "binomial" else 0
    return ops.conv2d(
        x, filters, stride=stride, padding=padding, groups=channels, layout="NHWC", filter_layout="HWIO"
    )


def _check_blur(layer: Layer) -> None:
    if layer.blur not in BLURS:
        raise ArgumentError(f"{type(layer).__name__}: blur={layer.blur!r}; expected one of {BLURS}")


@dataclass(frozen=True)
class BlurredConvolutional(Convolutional):
    """`Convolutional` at stride 1, then a fixed blur at the given stride (Zhang 2019; Darknet's antialiasing).

    Args:
        blur: "binomial" (3 x 3) or "mean" (2 x 2).
    """

    blur: str = "binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_blur(self)

    def _sharp(self) -> Convolutional:
        names = ("filters", "size", "padding", "dilation", "groups", "activation", "batch_normalize", "bias")
        return Convolutional(**{name: getattr(self, name) for name in names})

    def describe(self, x):
        return _blur_windows(self._sharp().describe(x), self.blur, self.stride)

    def apply(self, parameters, inputs, context):
        return _blurred(self._sharp().apply(parameters, inputs, context), self.filters, self.blur, self.stride)

    def operations(self, inputs, output):
        return self._sharp().operations(inputs, self._sharp().describe(inputs[0]))


@dataclass(frozen=True)
class BlurredMaxPool(MaxPool):
    """`MaxPool` at stride 1, then a fixed blur at the given stride, as in `BlurredConvolutional`."""

    blur: str = "binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_blur(self)

    def _sharp(self) -> MaxPool:
        return MaxPool(self.size, 1, self.padding)

    def describe(self, x):
        return _blur_windows(self._sharp().describe(x), self.blur, self.stride or self.size)

    def apply(self, parameters, inputs, context):
        x = self._sharp().apply(parameters, inputs, context)
        return _blurred(x, inputs[0].type.shape[-1], self.blur, self.stride or self.size)


@dataclass(frozen=True)
class ChannelMaxPool(Layer):
    """The largest of every so-manyth channel: output c takes the channels c, c + outputs, c + 2 outputs, ...
    (AlexeyAB's maxpool_depth)."""

    outputs: int

    def __post_init__(self) -> None:
        positive(self, outputs=self.outputs)

    def describe(self, x):
        height, width, channels = image(x)
        if channels % self.outputs:
            raise ShapeError(f"{channels} channels can't be cut into parts of {self.outputs}")
        return Spec((height, width, self.outputs), x.dtype)

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        n = x.type.shape[-1]
        parts = [x[..., i : i + self.outputs] for i in range(0, n, self.outputs)]
        return ops.max(ops.stack(parts, axis=0), axis=0) if len(parts) > 1 else parts[0]
