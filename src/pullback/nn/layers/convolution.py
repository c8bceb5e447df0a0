"""Layers over images (height, width, channels): convolution and pooling."""

from dataclasses import dataclass
from numbers import Integral

from ... import ops
from ...errors import ArgumentError, ShapeError
from ..activations import activation
from ..initializers import HeNormal, Initializer, Zeros
from .base import Layer, Parameter, Spec, image, pair, positive, windowed
from .normalization import BatchStatistics, normalization_parameters, normalize, statistics_of

Sides = tuple[tuple[int, int], tuple[int, int]]  # (above, below), (left, right)
Padding = int | tuple[int, int] | str | Sides


@dataclass(frozen=True)
class Convolutional(Layer):
    """2-D convolution (cross-correlation): activation(x * W + b), or activation(BatchNorm(x * W)).

    Known elsewhere as Conv2D (Keras) and Conv2d (PyTorch). Parameters: `weight` (height, width, channels / groups,
    filters), `bias` (filters,), and with batch_normalize also `scale`, `running_mean` and `running_variance`
    (filters,).

    Args:
        filters: how many channels come out.
        size: of the window, one number or (vertical, horizontal).
        stride: steps of the window.
        padding: cells of zeros on each side, one number or (vertical, horizontal); "same" keeps the size at stride 1.
        dilation: distance between the window's cells.
        groups: channels are cut into so many parts, each with filters of its own; groups = channels is depthwise.
        activation: a name of `nn.ACTIVATIONS`.
        batch_normalize: normalise each channel of the convolution, as `BatchNorm` does, which has a bias of its own;
            `BatchStatistics` says how.
        bias: whether b is there.
        initial: the rule for the first weights.
    """

    filters: int
    size: int | tuple[int, int] = 1
    stride: int | tuple[int, int] = 1
    padding: int | tuple[int, int] | str = 0
    dilation: int | tuple[int, int] = 1
    groups: int = 1
    activation: str = "linear"
    batch_normalize: bool | BatchStatistics = False
    bias: bool = True
    initial: Initializer = HeNormal()

    def __post_init__(self) -> None:
        positive(self, filters=self.filters, groups=self.groups)
        windowed(self, size=self.size, stride=self.stride, dilation=self.dilation)
        activation(self.activation)
        if self.filters % self.groups:
            raise ArgumentError(
                f"Convolutional: {self.filters} filters can't be cut into groups={self.groups} equal parts"
            )
        check_padding(self)

    @property
    def margin(self) -> tuple[int, int]:
        """Cells of zeros (above and below, left and right)."""
        return margin(self.padding, self.size, self.dilation)

    def describe(self, x):
        height, width, channels = image(x)
        if channels % self.groups:
            raise ShapeError(f"{channels} channels can't be cut into groups={self.groups} equal parts")
        window = pair(self.size, "size")
        return Spec((*windows((height, width), window, self.stride, self.margin, self.dilation), self.filters), x.dtype)

    def parameters(self, x):
        shape = (*pair(self.size, "size"), x.shape[2] // self.groups, self.filters)
        made = {"weight": Parameter(shape, self.initial, decays=True)}
        if self.batch_normalize:
            made |= normalization_parameters(self.filters)
        elif self.bias:
            made["bias"] = Parameter((self.filters,), Zeros())
        return made

    def apply(self, parameters, inputs, context):
        y = ops.conv2d(
            inputs[0],
            parameters["weight"],
            stride=self.stride,
            padding=self.margin,
            dilation=self.dilation,
            groups=self.groups,
            layout="NHWC",
            filter_layout="HWIO",
        )
        if self.batch_normalize:
            y = normalize(y, parameters, context, statistics_of(self.batch_normalize))
        elif self.bias:
            y = y + parameters["bias"]
        return activation(self.activation)(y)

    def operations(self, inputs, output):
        height, width, filters = output.shape
        down, across = pair(self.size, "size")
        return 2 * height * width * filters * down * across * (inputs[0].shape[2] // self.groups)


@dataclass(frozen=True)
class MaxPool(Layer):
    """The largest value of each window; padding counts as minus infinity.

    Args:
        size: of the window.
        stride: steps of the window; as large as the window unless given.
        padding: cells on each side, as in `Convolutional`, or ((above, below), (left, right)).
    """

    size: int | tuple[int, int] = 2
    stride: int | tuple[int, int] | None = None
    padding: Padding = 0

    def __post_init__(self) -> None:
        windowed(self, size=self.size, stride=1 if self.stride is None else self.stride)
        check_padding(self)

    def describe(self, x):
        height, width, channels = image(x)
        window = pair(self.size, "size")
        around = sides(self.padding, self.size)
        return Spec((*windows((height, width), window, self.stride or window, around), channels), x.dtype)

    def apply(self, parameters, inputs, context):
        return ops.max_pool2d(
            inputs[0], self.size, self.stride or self.size, padding=sides(self.padding, self.size), layout="NHWC"
        )


@dataclass(frozen=True)
class AvgPool(Layer):
    """The mean of each window, or of the whole image per channel if no size is given: (1, 1, channels) comes out.

    Args:
        size, stride, padding: as in `MaxPool`; None takes the whole image.
        counts_padding: whether the padding's zeros count in the mean.
    """

    size: int | tuple[int, int] | None = None
    stride: int | tuple[int, int] | None = None
    padding: Padding = 0
    counts_padding: bool = True

    def __post_init__(self) -> None:
        for name in ("size", "stride"):
            if getattr(self, name) is not None:
                windowed(self, **{name: getattr(self, name)})
        check_padding(self)
        if self.size is None and (self.stride is not None or self.padding):
            raise ArgumentError(
                "AvgPool: without a size it takes the whole image, so stride and padding have no meaning"
            )

    def describe(self, x):
        height, width, channels = image(x)
        if self.size is None:
            return Spec((1, 1, channels), x.dtype)
        window = pair(self.size, "size")
        around = sides(self.padding, self.size)
        return Spec((*windows((height, width), window, self.stride or window, around), channels), x.dtype)

    def apply(self, parameters, inputs, context):
        if self.size is None:
            return ops.mean(inputs[0], axis=(1, 2), keepdims=True)
        return ops.avg_pool2d(
            inputs[0],
            self.size,
            self.stride or self.size,
            padding=sides(self.padding, self.size),
            count_include_pad=self.counts_padding,
            layout="NHWC",
        )


def check_padding(layer: Layer) -> None:
    """Refuse a padding that is neither "same" nor whole numbers from 0 up."""
    padding = layer.padding
    if padding == "same":
        return
    if isinstance(padding, str) or any(n < 0 for side in _as_sides(pair(padding, "padding")) for n in side):
        raise ArgumentError(f'{type(layer).__name__}: padding={padding!r}; expected whole numbers from 0 up, or "same"')


def margin(padding, size, dilation=1) -> tuple[int, int]:
    """Padding per side, (vertical, horizontal); "same" needs an odd window to be symmetric."""
    if padding != "same":
        return pair(padding, "padding")
    reach = [(n - 1) * d for n, d in zip(pair(size, "size"), pair(dilation, "dilation"))]
    if any(r % 2 for r in reach):
        raise ArgumentError(f'padding="same" needs an odd window, got size={size}, dilation={dilation}')
    return reach[0] // 2, reach[1] // 2


def sides(padding: Padding, size) -> Sides:
    """Padding as (above, below), (left, right)."""
    return _as_sides(margin(padding, size))


def _as_sides(pairs) -> Sides:
    return tuple((p, p) if isinstance(p, Integral) else pair(p, "padding") for p in pairs)


def windows(lengths, size, stride, padding, dilation=1) -> tuple[int | None, int | None]:
    """How many windows fit along each axis; unknown lengths stay unknown."""
    counts = []
    for n, k, s, p, d in zip(lengths, size, pair(stride, "stride"), _as_sides(padding), pair(dilation, "dilation")):
        span = d * (k - 1) + 1
        if n is not None and n + sum(p) < span:
            around = f"{p[0]} on each side" if p[0] == p[1] else f"{p[0]} before and {p[1]} after"
            raise ShapeError(f"a window of {span} cells doesn't fit into {n} with padding {around}")
        counts.append(None if n is None else (n + sum(p) - span) // s + 1)
    return tuple(counts)
