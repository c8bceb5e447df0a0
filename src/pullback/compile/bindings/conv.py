"""Convolutions in one, two and three dimensions: turned to channels-last at the border, then direct."""

from dataclasses import dataclass

from ... import codegen
from ...kernels import conv as kernels
from ...kernels import gemm
from ...ops.conv import Convolution, ConvolutionGradFilters, ConvolutionGradInputs, Filtering
from ...ops.geometry import axes_of
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from ..elementwise import launch_copy
from .linear import TYPES, launch_gemm


@dataclass(frozen=True)
class Geometry:
    """A 2-D convolution with its sizes known: images (n, h, w, groups * into), filters (r, s, into, groups * out)."""

    images: int
    height: int
    width: int
    into: int
    out: int
    groups: int
    rows: int
    columns: int
    y_height: int
    y_width: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]

    @property
    def is_product(self) -> bool:
        """1x1 filters that read every pixel: a matrix product."""
        return self.rows == self.columns == 1 == self.groups and self.stride == (1, 1) and not self.is_padded

    @property
    def is_padded(self) -> bool:
        return any(self.before) or any(self.after)

    @property
    def padded(self) -> tuple[int, int]:
        return self.height + self.before[0] + self.after[0], self.width + self.before[1] + self.after[1]

    @property
    def work(self) -> int:
        pixels = self.images * self.y_height * self.y_width
        return pixels * self.rows * self.columns * self.into * self.out * self.groups

    def adjoint(self) -> "Geometry":
        """The convolution of the output's gradient (stride 1) with turned filters that gives the images' gradient."""
        reach = [(n - 1) * d for n, d in zip((self.rows, self.columns), self.dilation)]
        before = tuple(e - b for e, b in zip(reach, self.before))
        lengths = (self.height, self.width)
        counts = (self.y_height, self.y_width)
        after = tuple(n + e - c - b for n, e, c, b in zip(lengths, reach, counts, before))
        return Geometry(
            self.images, *counts, self.out, self.into, self.groups, self.rows, self.columns, *lengths,
            (1, 1), self.dilation, before, after,
        )  # fmt: skip


@binds(Convolution)
def bind_convolution(node, b: Binding) -> None:
    f = node.op.filtering
    x, w = b.inputs
    g = geometry(f, x.shape, w.shape)
    y = b.output(0)
    target = y if is_channels_last(f) else b.scratch((g.images, g.y_height, g.y_width, g.groups * g.out), y.dtype)
    forward(b, g, images(b, f, x), filters(b, f, w), target)
    if target is not y:
        launch_copy(b, from_channels_last(f, target, y.shape), y)


@binds(ConvolutionGradInputs)
def bind_grad_inputs(node, b: Binding) -> None:
    f = node.op.filtering
    w, grad = b.inputs[:2]
    shape = b.shapes[0]
    g = geometry(f, shape, w.shape)
    dx = b.output(0)
    target = dx if is_channels_last(f) else b.scratch((g.images, g.height, g.width, g.groups * g.into), dx.dtype)
    backward(b, g, images(b, f, grad), filters(b, f, w), target)
    if target is not dx:
        launch_copy(b, from_channels_last(f, target, shape), dx)


@binds(ConvolutionGradFilters)
def bind_grad_filters(node, b: Binding) -> None:
    f = node.op.filtering
    x, grad = b.inputs[:2]
    shape = b.shapes[0]
    g = geometry(f, x.shape, shape)
    dw = b.output(0)
    plain = f.filter_layout == f.spatial + "IO" and not f.flip
    target = dw if plain else b.scratch((g.rows, g.columns, g.into, g.groups * g.out), dw.dtype)
    filter_gradient(b, g, images(b, f, x), images(b, f, grad), target)
    if target is not dw:
        launch_copy(b, _from_spatial_first(f, target, shape), dw)


# --- the three passes -------------------------------------------------------------------------------------------------


def forward(b: Binding, g: Geometry, x: Buffer, w: Buffer, y: Buffer) -> None:
    """y = convolution of x with w; all contiguous, channels last."""
    if g.is_product:
        pixels = g.images * g.height * g.width
        launch_gemm(b, x.reshaped((pixels, g.into)), w.reshaped((g.into, g.out)), y.reshaped((pixels, g.out)))
        return
    x = padded(b, g, x)
    walk = Walk.over(g)
    tiles, low, high = gemm.tile_heights(g.y_width)
    vectors, tail = panel(g.out, x.dtype)
    instance = kernels.convolve.specialise(T=TYPES[x.dtype], LOW=low, HIGH=high, NV=vectors, TAIL=tail)
    units = g.images * g.y_height
    b.launch(
        instance, x, w, y, g.y_height, g.y_width, g.out, g.groups, *walk.arguments, tiles,
        n=units, chunks=b.chunks(units, g.work),
    )  # fmt: skip


def filter_gradient(b: Binding, g: Geometry, x: Buffer, grad: Buffer, dw: Buffer) -> None:
    """dw = the output's gradient pulled back to the filters; all contiguous, channels last."""
    if g.is_product:
        pixels = g.images * g.height * g.width
        turned = x.window((g.into, pixels), (1, g.into), 0)
        launch_gemm(b, turned, grad.reshaped((pixels, g.out)), dw.reshaped((g.into, g.out)))
        return
    x = padded(b, g, x)
    walk = Walk.over(g)
    tiles, low, high = gemm.tile_heights(walk.depth)
    vectors, tail = panel(g.out, x.dtype)
    instance = kernels.filter_gradient.specialise(T=TYPES[x.dtype], LOW=low, HIGH=high, NV=vectors, TAIL=tail)
    units = g.groups * walk.taps * walk.steps * (g.out // (vectors * codegen.VL) + (tail > 0))
    b.launch(
        instance, x, grad, dw, g.images, g.y_height, g.y_width, g.out, g.groups, *walk.arguments, tiles,
        n=units, chunks=b.chunks(units, g.work),
    )  # fmt: skip


def backward(b: Binding, g: Geometry, grad: Buffer, w: Buffer, dx: Buffer) -> None:
    """dx = the output's gradient pulled back to the images; all contiguous, channels last."""
    kind = TYPES[grad.dtype]
    if g.is_product:
        pixels = g.images * g.height * g.width
        turned = w.window((g.out, g.into), (1, g.out), 0)
        launch_gemm(b, grad.reshaped((pixels, g.out)), turned, dx.reshaped((pixels, g.into)))
        return
    adjoint = g.adjoint()
    turnable = g.stride == (1, 1) and min(*adjoint.before, *adjoint.after) >= 0
    if turnable and (g.groups > 1 or lane_work(adjoint) <= window_work(g)):
        turned = b.scratch((g.rows, g.columns, g.out, g.groups * g.into), w.dtype)
        places = g.rows * g.columns
        b.launch(
            kernels.turn_filters.specialise(T=kind), w, turned, g.rows, g.columns, g.into, g.out, g.groups,
            n=places, chunks=b.chunks(places, turned.size),
        )  # fmt: skip
        forward(b, adjoint, grad, turned, dx)
        return
    if g.groups != 1:
        raise Declined
    pixels, taps = g.images * g.y_height * g.y_width, g.rows * g.columns * g.into
    windows = b.scratch((pixels, taps), grad.dtype)
    launch_gemm(b, grad.reshaped((pixels, g.out)), w.window((g.out, taps), (1, g.out), 0), windows)
    b.launch(
        kernels.add_windows.specialise(T=kind), windows, dx, g.y_height, g.y_width, g.height, g.width, g.into,
        g.rows, g.columns, *g.stride, *g.dilation, *g.before,
        n=g.images, chunks=b.chunks(g.images, windows.size),
    )  # fmt: skip


def lane_work(g: Geometry) -> int:
    """Multiply-adds of a direct convolution, idle lanes of the last panel included."""
    lanes = gemm.panel_width("float32")
    return g.images * g.y_height * g.y_width * g.rows * g.columns * g.into * -(-g.out // lanes) * lanes


def window_work(g: Geometry) -> int:
    """The same of the product whose rows are windows, and of adding them up (which moves some 4 times as much)."""
    lanes, taps = gemm.panel_width("float32"), g.rows * g.columns * g.into
    return g.images * g.y_height * g.y_width * (g.out * -(-taps // lanes) * lanes + 4 * taps)


@dataclass(frozen=True)
class Walk:
    """How the tile walks over images and filters; see `kernels.conv.convolve`."""

    steps: int
    taps: int
    depth: int
    arguments: tuple[int, ...]

    @classmethod
    def over(cls, g: Geometry) -> "Walk":
        height, width = g.padded
        channels = g.groups * g.into
        row = width * channels
        merged = g.groups == 1 and g.dilation[1] == 1  # a filter row lies in x without gaps
        steps = 1 if merged else g.columns
        depth = g.columns * g.into if merged else g.into
        line = g.groups * g.out  # from one input channel to the next in the filters
        strides = (
            height * row, g.stride[0] * row, g.stride[1] * channels, g.dilation[1] * channels, g.dilation[0] * row,
            g.into, g.into * line, g.columns * g.into * line, line,
        )  # fmt: skip
        return cls(steps, g.rows, depth, (steps, g.rows, depth, *strides))


def panel(columns: int, dtype: str) -> tuple[int, int]:
    """(vectors in a panel, vectors in the last, ragged one or 0)"""
    vectors = gemm.tile_vectors(dtype)
    return vectors, -(-(columns % (vectors * codegen.VL)) // codegen.VL)


def padded(b: Binding, g: Geometry, x: Buffer) -> Buffer:
    """x with its zero borders."""
    if not g.is_padded:
        return x
    height, width = g.padded
    channels = g.groups * g.into
    wide = b.scratch((g.images, height, width, channels), x.dtype)
    (top, left), (bottom, right) = g.before, g.after
    b.launch(
        kernels.pad.specialise(T=TYPES[x.dtype]), x, wide, g.height, g.width * channels, top, bottom,
        left * channels, right * channels, n=g.images, chunks=b.chunks(g.images, wide.size),
    )  # fmt: skip
    return wide


# --- layouts ----------------------------------------------------------------------------------------------------------


def geometry(f: Filtering, x: tuple[int, ...], w: tuple[int, ...]) -> Geometry:
    """The sizes of a 1-D or 2-D convolution (1-D as images of height 1)."""
    batch, channels, lengths = f.image_shape(x)
    out, into, sizes = f.filter_shape(w)
    if len(lengths) > 2:
        raise Declined
    windows = f.windows(sizes)
    counts, pads = windows.counts(lengths, f.name), windows.pads(lengths)
    two = lambda values, filler: ((filler,) * (2 - len(values))) + tuple(values)  # noqa: E731
    before, after = zip(*two(pads, (0, 0)))
    return Geometry(
        batch, *two(lengths, 1), into, out // f.groups, f.groups, *two(sizes, 1), *two(counts, 1),
        two(f.stride, 1), two(f.dilation, 1), before, after,
    )  # fmt: skip


def is_channels_last(f: Filtering) -> bool:
    return f.layout == "N" + f.spatial + "C"


def images(b: Binding, f: Filtering, x: Buffer) -> Buffer:
    """Images as contiguous (n, h, w, c)."""
    if x.dtype not in TYPES:
        raise Declined
    order = axes_of(f.layout, "N" + f.spatial + "C")
    return b.contiguous(transposed(x, order))


def filters(b: Binding, f: Filtering, w: Buffer) -> Buffer:
    """Filters as contiguous (r, s, into, groups * out)."""
    order = axes_of(f.filter_layout, f.spatial + "IO")
    w = transposed(w, order)
    if f.flip:
        raise Declined
    return b.contiguous(w)


def from_channels_last(f: Filtering, x: Buffer, shape: tuple[int, ...]) -> Buffer:
    """A view of contiguous channels-last images in the op's own layout."""
    order = axes_of("N" + f.spatial + "C", f.layout)
    last = x.reshaped([shape[a] for a in axes_of(f.layout, "N" + f.spatial + "C")])
    return transposed(last, order)


def _from_spatial_first(f: Filtering, w: Buffer, shape: tuple[int, ...]) -> Buffer:
    if f.flip:
        raise Declined
    plain = w.reshaped([shape[a] for a in axes_of(f.filter_layout, f.spatial + "IO")])
    return transposed(plain, axes_of(f.spatial + "IO", f.filter_layout))


def transposed(x: Buffer, order) -> Buffer:
    """The same elements with the axes in another order."""
    return x.window([x.shape[a] for a in order], [x.strides[a] for a in order], 0)
