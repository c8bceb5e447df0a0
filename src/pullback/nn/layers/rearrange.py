"""Layers that put numbers elsewhere: reshape, upsample, reorg, shuffler, crop."""

from dataclasses import dataclass
from math import prod
from numbers import Integral

from ... import ops
from ...errors import ArgumentError, ShapeError
from ...graph import Variable
from .base import Layer, Spec, image, pair, positive
from .basic import length


@dataclass(frozen=True)
class Reshape(Layer):
    """The same numbers in C order as an array of another shape (without the batch axis)."""

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        positive(self, shape=self.shape)

    def describe(self, x):
        if length(x) != prod(self.shape):
            raise ShapeError(f"{x} holds {length(x)} numbers, {self.shape} {prod(self.shape)}")
        return Spec(self.shape, x.dtype)

    def apply(self, parameters, inputs, context):
        return ops.reshape(inputs[0], (-1, *self.shape))


@dataclass(frozen=True)
class Upsample(Layer):
    """Each cell repeated `stride` times along both axes, or, with `shrink`, blocks of `stride` cells gathered into one.

    Known elsewhere as UpSampling2D (Keras) and Upsample (PyTorch).

    Args:
        stride: one number or (vertical, horizontal).
        scale: multiplies what comes out.
        shrink: "sum" (Darknet) or "mean" (NumPyNet) of each block; "" enlarges.
    """

    stride: int | tuple[int, int] = 2
    scale: float = 1.0
    shrink: str = ""

    def __post_init__(self) -> None:
        pair(self.stride, "Upsample: stride")
        positive(self, stride=self.stride)
        if self.shrink not in ("", "sum", "mean"):
            raise ArgumentError(f"Upsample: shrink={self.shrink!r}; expected '', 'sum' or 'mean'")

    def describe(self, x):
        height, width, channels = image(x)
        s, t = pair(self.stride, "stride")
        if not self.shrink:
            return Spec((height and height * s, width and width * t, channels), x.dtype)
        if (height and height < s) or (width and width < t):
            raise ShapeError(f"blocks of {s} x {t} cells don't fit into {x}")
        return Spec((height and height // s, width and width // t, channels), x.dtype)

    def apply(self, parameters, inputs, context):
        x, (s, t) = inputs[0], pair(self.stride, "stride")
        if self.shrink:
            pool = ops.sum_pool2d if self.shrink == "sum" else ops.avg_pool2d
            y = pool(x, (s, t), layout="NHWC")
        else:
            lengths = [ops.length(x, a) if n is None else n for a, n in enumerate(x.type.shape)]
            batch, height, width, channels = lengths
            copies = ops.broadcast_to(ops.expand_dims(x, (2, 4)), (batch, height, s, width, t, channels))
            y = ops.reshape(copies, (batch, height * s, width * t, channels))
        return y if self.scale == 1 else self.scale * y


@dataclass(frozen=True)
class Reorg(Layer):
    """Blocks of cells become channels, in the order that YOLOv2's weights depend on (`ops.reorg`).

    Args:
        stride: of the blocks.
        reverse: channels become blocks of cells.
    """

    stride: int = 1
    reverse: bool = False

    def __post_init__(self) -> None:
        _whole(self)

    def describe(self, x):
        if not self.reverse and image(x)[2] % self.stride**2:
            raise ShapeError(f"needs channels that are a multiple of {self.stride}^2, got {x}")
        return _exchanged(x, self.stride, self.reverse)

    def apply(self, parameters, inputs, context):
        return ops.reorg(inputs[0], self.stride, self.reverse, layout="NHWC")


@dataclass(frozen=True)
class Reorg3d(Layer):
    """Blocks of cells become channels, as the textbooks have it: channel (i stride + j) C + c holds cell (i, j) of each
    block of channel c. With `reverse` channels become blocks of cells.

    Known elsewhere as space_to_depth and depth_to_space (TensorFlow).
    """

    stride: int = 1
    reverse: bool = False

    def __post_init__(self) -> None:
        _whole(self)

    def describe(self, x):
        return _exchanged(x, self.stride, self.reverse)

    def apply(self, parameters, inputs, context):
        x, s = inputs[0], self.stride
        height, width, channels = (ops.length(x, a) for a in (1, 2, 3))
        if self.reverse:
            c = x.type.shape[3] // s**2
            parts = ops.transpose(ops.reshape(x, (-1, height, width, s, s, c)), (0, 1, 3, 2, 4, 5))
            return ops.reshape(parts, (-1, height * s, width * s, c))
        c = x.type.shape[3]
        parts = ops.transpose(ops.reshape(x, (-1, height // s, s, width // s, s, c)), (0, 1, 3, 2, 4, 5))
        return ops.reshape(parts, (-1, height // s, width // s, s * s * c))


def _whole(layer: Reorg | Reorg3d) -> None:
    if not isinstance(layer.stride, Integral):
        raise ArgumentError(f"{type(layer).__name__}: stride={layer.stride!r}; expected a whole number")
    positive(layer, stride=layer.stride)


def _exchanged(x: Spec, s: int, reverse: bool) -> Spec:
    height, width, channels = image(x)
    if reverse:
        if channels % s**2:
            raise ShapeError(f"needs channels that are a multiple of {s}^2, got {x}")
        return Spec((height and height * s, width and width * s, channels // s**2), x.dtype)
    if (height and height % s) or (width and width % s):
        raise ShapeError(f"needs height and width that are multiples of {s}, got {x}")
    return Spec((height and height // s, width and width // s, channels * s**2), x.dtype)


@dataclass(frozen=True)
class FlatReorg(Layer):
    """Darknet's reorg with `flatten`: the numbers, in the order (channels, height, width), are read as if they were
    (height, width, channels); with `reverse` the other way round. The shape that comes out is that of `Reorg`."""

    stride: int = 1
    reverse: bool = False

    def __post_init__(self) -> None:
        _whole(self)

    def describe(self, x):
        length(x)
        return _exchanged(x, self.stride, self.reverse)

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        height, width, channels = x.type.shape[1:]
        out = self.describe(Spec(x.type.shape[1:], x.dtype)).shape
        if self.reverse:  # the buffer holds (height, width, channels) and becomes (channels, height, width)
            buffer = ops.reshape(ops.transpose(x, (0, 3, 1, 2)), (-1, height, width, channels))
            buffer = ops.transpose(buffer, (0, 3, 1, 2))
        else:
            buffer = x
        rows, columns, c = out
        return ops.transpose(ops.reshape(buffer, (-1, c, rows, columns)), (0, 2, 3, 1))


@dataclass(frozen=True)
class Shuffler(Layer):
    """scale^2 channels spread over scale x scale cells (Shi et al. 2016).

    Known elsewhere as PixelShuffle (PyTorch).
    """

    scale: int = 2

    def __post_init__(self) -> None:
        positive(self, scale=self.scale)

    def describe(self, x):
        return _exchanged(x, self.scale, True)

    def apply(self, parameters, inputs, context):
        return ops.pixel_shuffle(inputs[0], self.scale, layout="NHWC")


@dataclass(frozen=True)
class Crop(Layer):
    """A part of the image: at a random place in training, from the middle at predict.

    Args:
        height, width: of the part.
        flip: in training, mirror it with probability 1/2.
        to_unit: values v in 0 to 1 become 2 v - 1 (Darknet, unless noadjust).
    """

    height: int = 1
    width: int = 1
    flip: bool = False
    to_unit: bool = True

    def __post_init__(self) -> None:
        positive(self, height=self.height, width=self.width)

    def describe(self, x):
        height, width, channels = image(x)
        if None in (height, width) or height < self.height or width < self.width:
            raise ShapeError(f"a part of {self.height} x {self.width} cells can't be cut from {x}")
        return Spec((self.height, self.width, channels), x.dtype)

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        height, width = x.type.shape[1:3]
        down, across = height - self.height, width - self.width
        if not context.training:
            y = x[:, down // 2 : down // 2 + self.height, across // 2 : across // 2 + self.width]
        else:
            y = self._drawn(x, down, across, context.random)
        return 2.0 * y - 1.0 if self.to_unit else y

    def _drawn(self, x: Variable, down: int, across: int, random: ops.RandomStream) -> Variable:
        batch = ops.length(x, 0)
        top = ops.expand_dims(random.randint(0, down + 1, size=(batch,)), 1) + ops.arange(self.height)
        left = ops.expand_dims(random.randint(0, across + 1, size=(batch,)), 1) + ops.arange(self.width)
        if self.flip:
            mirrored = ops.expand_dims(random.bernoulli(0.5, size=(batch,)), 1)
            left = ops.where(mirrored, left[:, ::-1], left)
        images = ops.expand_dims(ops.arange(batch), (1, 2))
        return x[images, ops.expand_dims(top, 2), ops.expand_dims(left, 1)]
