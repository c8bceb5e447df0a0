"""The sizes of a convolution, whatever its number of axes and the user's layouts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...ops.conv import Filtering
from ...ops.geometry import axes_of
from ..binding import Binding
from ..buffers import Buffer


@dataclass(frozen=True)
class Axis:
    """One spatial axis: output i reads the inputs i * stride + tap * dilation - before."""

    length: int
    size: int
    count: int
    stride: int
    dilation: int
    before: int

    @property
    def after(self) -> int:
        """How far the last window reaches beyond the images."""
        reach = (self.count - 1) * self.stride + (self.size - 1) * self.dilation + 1
        return max(0, reach - self.before - self.length)

    def adjoint(self) -> "Axis":
        """With stride 1: how the output's gradient is read, by turned filters, to give the images'."""
        return Axis(self.count, self.size, self.length, 1, self.dilation, (self.size - 1) * self.dilation - self.before)


@dataclass(frozen=True)
class Geometry:
    """A convolution with its sizes known: images (n, d, h, w, groups * into), filters (d, h, w, into, groups * out).

    `into` and `out` are the channels of one group. Missing axes have length 1.
    """

    images: int
    into: int
    out: int
    groups: int
    axes: tuple[Axis, Axis, Axis]

    @classmethod
    def of(cls, f: Filtering, x: Sequence[int], w: Sequence[int]) -> "Geometry":
        """From the shapes of images and filters in the layouts of `f`."""
        batch, _, lengths = f.image_shape(x)
        out, into, sizes = f.filter_shape(w)
        windows = f.windows(sizes)
        before = [pad[0] for pad in windows.pads(lengths)]
        rows = zip(lengths, sizes, windows.counts(lengths, f.name), f.stride, f.dilation, before)
        axes = [Axis(1, 1, 1, 1, 1, 0)] * (3 - len(lengths)) + [Axis(*row) for row in rows]
        return cls(batch, into, out // f.groups, f.groups, tuple(axes))

    def adjoint(self) -> "Geometry":
        """With stride 1: the convolution of the output's gradient that gives the images'."""
        return Geometry(self.images, self.out, self.into, self.groups, tuple(a.adjoint() for a in self.axes))

    @property
    def is_product(self) -> bool:
        """Filters of one place that read every pixel: a matrix product."""
        return self.groups == 1 and all(a.size == a.stride == 1 and a.count == a.length for a in self.axes)

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.into == self.out == 1

    @property
    def pixels(self) -> int:
        """Places in all outputs."""
        return self.images * prod(a.count for a in self.axes)

    @property
    def taps(self) -> int:
        """Places in a filter."""
        return prod(a.size for a in self.axes)

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (self.images, *(a.length for a in self.axes), self.groups * self.into)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.images, *(a.count for a in self.axes), self.groups * self.out)

    @property
    def filter_shape(self) -> tuple[int, ...]:
        return (*(a.size for a in self.axes), self.into, self.groups * self.out)


# --- between the user's layouts and these -----------------------------------------------------------------------------


def has_channels_last(f: Filtering) -> bool:
    return f.layout == "N" + f.spatial + "C"


def has_plain_filters(f: Filtering) -> bool:
    return f.filter_layout == f.spatial + "IO" and not f.flip


def channels_last(b: Binding, f: Filtering, x: Buffer) -> Buffer:
    """Images as contiguous (n, d, h, w, c)."""
    x = b.contiguous(transposed(x, axes_of(f.layout, "N" + f.spatial + "C")))
    batch, *lengths, channels = x.shape
    return x.reshaped((batch, *(1,) * (3 - len(lengths)), *lengths, channels))


def plain_filters(b: Binding, f: Filtering, w: Buffer) -> Buffer:
    """Filters as contiguous (d, h, w, into, out), to be slid without turning."""
    w = transposed(w, axes_of(f.filter_layout, f.spatial + "IO"))
    w = b.contiguous(turned(w, len(f.stride)) if f.flip else w)
    return w.reshaped((*(1,) * (5 - w.ndim), *w.shape))


def images_in_own_layout(f: Filtering, x: Buffer, shape: Sequence[int]) -> Buffer:
    """A view of (n, d, h, w, c) as the op lays images out."""
    last = x.reshaped([shape[a] for a in axes_of(f.layout, "N" + f.spatial + "C")])
    return transposed(last, axes_of("N" + f.spatial + "C", f.layout))


def filters_in_own_layout(f: Filtering, w: Buffer, shape: Sequence[int]) -> Buffer:
    """A view of (d, h, w, into, out) as the op lays filters out."""
    plain = w.reshaped([shape[a] for a in axes_of(f.filter_layout, f.spatial + "IO")])
    return transposed(turned(plain, len(f.stride)) if f.flip else plain, axes_of(f.spatial + "IO", f.filter_layout))


def transposed(x: Buffer, order: Sequence[int]) -> Buffer:
    """The same elements with the axes in another order."""
    return x.window([x.shape[a] for a in order], [x.strides[a] for a in order], 0)


def turned(x: Buffer, axes: int) -> Buffer:
    """The same elements with the first `axes` axes running backwards."""
    last = sum((n - 1) * s for n, s in zip(x.shape[:axes], x.strides))
    return x.window(x.shape, [*(-s for s in x.strides[:axes]), *x.strides[axes:]], last)


def adjoint_filters(g: Geometry, w: Buffer) -> Buffer:
    """A view of the filters turned round in space, with the output channels of each group as the inputs."""
    per_group = w.window(
        (*w.shape[:3], g.into, g.groups, g.out), (*w.strides[:4], g.out * w.strides[4], w.strides[4]), 0
    )
    return turned(transposed(per_group, (0, 1, 2, 5, 4, 3)), 3)
