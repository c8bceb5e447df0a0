"""Direct convolution: the register tile walks over images and filters by tables of offsets."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np

from ... import codegen
from ...kernels import conv as kernels
from ...kernels import gemm
from ..binding import Binding
from ..buffers import Buffer, constant_buffer
from .conv_geometry import Axis, Geometry, adjoint_filters
from .linear import TYPES

BLOCK_BYTES = 1 << 19  # of images and gradients that all taps of the filters' gradient read while they are in cache
FEW_UNITS = 16  # with fewer of them work is also cut along the lines (the filters' gradient into PARTS)
PARTS = 8
SHORTEST_PIECE = 4 * gemm.TALLEST  # of a line that is cut so that there is something to share out
LONGEST_PIECE = 1024  # of a line whose products are added up in registers before they are added to the rest
WINDOW_BYTES = 1 << 25  # of one image's windows, at most
MOVED = 4  # multiply-adds in whose time one element of a window is added to an image


@dataclass(frozen=True)
class Walk:
    """How an axis is walked: output `place + i * step` reads the padded inputs `start + i * stride + t * dilation`
    and meets there the filter's taps `tap + t * skip`, for t < taps."""

    count: int
    taps: int
    start: int = 0
    stride: int = 1
    dilation: int = 1
    tap: int = 0
    skip: int = 1
    place: int = 0
    step: int = 1


def forward(b: Binding, g: Geometry, x: Buffer, w: Buffer, y: Buffer) -> None:
    """y = the convolution of x with w."""
    x = padded(b, x, [(a.before, a.after) for a in g.axes])
    convolve(b, x, w, y, [Walk(a.count, a.size, 0, a.stride, a.dilation) for a in g.axes])


def backward(b: Binding, g: Geometry, grad: Buffer, w: Buffer, dx: Buffer) -> None:
    """dx = the output's gradient pulled back to the images."""
    phases, margins = zip(*(adjoint(a) for a in g.axes))
    if windows_are_cheaper(g, phases, grad.dtype):
        product_windows(b, g, grad, w, dx)
        return
    grad = padded(b, grad, margins)
    w = b.contiguous(adjoint_filters(g, w))
    for walks in product(*phases):
        convolve(b, grad, w, dx, walks)


def adjoint(a: Axis) -> tuple[list[Walk], tuple[int, int]]:
    """How the images' gradient walks over the output's gradient with turned filters, and which margins that needs.

    Image h takes part in output i by tap r where i stride + r dilation = h + before. So the images h of one phase
    (h mod stride) meet the same taps, each at a fixed distance: a convolution with stride 1.
    """
    shared = gcd(a.stride, a.dilation)
    skip, dilation = a.stride // shared, a.dilation // shared
    walks = []
    for phase in range(min(a.stride, a.length)):
        taps = [r for r in range(a.size) if (phase + a.before - r * a.dilation) % a.stride == 0]
        last = taps[-1] if taps else 0
        start = (phase + a.before - last * a.dilation) // a.stride
        count = -(-(a.length - phase) // a.stride)
        walks.append(Walk(count, len(taps), start, 1, dilation, a.size - 1 - last, skip, phase, a.stride))
    before = max(0, -min(k.start for k in walks))
    after = max(0, *(k.start + k.count + (k.taps - 1) * dilation - a.count for k in walks))
    walks = [Walk(k.count, k.taps, k.start + before, 1, dilation, k.tap, skip, k.place, k.step) for k in walks]
    return walks, (before, after)


def convolve(b: Binding, x: Buffer, w: Buffer, y: Buffer, walks: Sequence[Walk]) -> None:
    """One walk over padded images, of filters of shape (d, h, w, into, ..) whose last axes are groups and outputs."""
    *_, into = w.shape[:4]
    groups, line = x.shape[4] // into, prod(w.shape[4:])
    deep, high, wide = walks
    x_d, x_h, x_w = x.strides[1:4]
    w_d, w_h, w_w, w_k = w.strides[:4]
    merged = groups == 1 and wide.dilation == wide.skip == 1  # a filter's line lies in x without gaps
    columns = Walk(1, 1) if merged else wide
    outer = x.shape[0] * deep.count * high.count
    pieces = 1 if outer >= FEW_UNITS else min(-(-FEW_UNITS // outer), -(-wide.count // SHORTEST_PIECE))
    lines = lines_of(x, y, walks, pieces)
    first = deep.tap * w_d + high.tap * w_h + wide.tap * w_w
    steps = table(
        grid((deep.taps, deep.dilation * x_d), (columns.taps, columns.dilation * x_w)),
        first + grid((deep.taps, deep.skip * w_d), (columns.taps, columns.skip * w_w)),
    )
    taps, depth = high.taps, wide.taps * into if merged else into
    if not all(k.taps for k in walks):  # no filter's tap falls on these images: zeros
        steps, taps = table(0, 0), 0
    n = lines.shape[0]
    b.launch(
        kernels.convolve.specialise(
            T=TYPES[x.dtype], **tile_rows(wide.count // pieces, -(-wide.count // pieces)),
            **panel(line // groups, x.dtype),
        ),
        x, w, y, lines, steps, steps.shape[0], taps, depth, line // groups, groups,
        wide.stride * x_w, high.dilation * x_h, into, high.skip * w_h, w_k, wide.step * y.strides[3],
        n=n, chunks=b.chunks(n, outer * wide.count * steps.shape[0] * taps * depth * line),
    )  # fmt: skip


def filter_gradient(b: Binding, g: Geometry, x: Buffer, grad: Buffer, dw: Buffer) -> None:
    """dw = the output's gradient pulled back to the filters."""
    x = padded(b, x, [(a.before, a.after) for a in g.axes])
    deep, high, wide = g.axes
    merged = g.groups == 1 and wide.dilation == 1
    columns = 1 if merged else wide.size
    depth = wide.size * g.into if merged else g.into
    x_line, g_line = high.stride * x.strides[2], grad.strides[2]
    starts, widths = cuts(wide.count, -(-wide.count // LONGEST_PIECE))
    bytes_of_line = (x_line + g_line) * x.itemsize // widths.size
    firsts, heights = cuts(high.count, min(high.count, -(-high.count * bytes_of_line // BLOCK_BYTES)))
    planes = grid((g.images, x.strides[0]), (deep.count, deep.stride * x.strides[1]))
    g_planes = grid((g.images, grad.strides[0]), (deep.count, grad.strides[1]))
    blocks = table(
        planes[:, None, None] + firsts[:, None] * x_line + starts * wide.stride * x.strides[3],
        g_planes[:, None, None] + firsts[:, None] * g_line + starts * grad.strides[3],
        heights[:, None], widths,
    )  # fmt: skip
    sizes = deep.size, high.size, columns
    taps = table(
        grid(*((n, a.dilation * s) for n, a, s in zip(sizes, g.axes, x.strides[1:]))),
        grid(*zip(sizes, dw.strides)),
    )
    shape = panel(g.out, x.dtype)
    units = g.groups * taps.shape[0] * -(-g.out // (shape["NV"] * codegen.VL))
    parts = 1 if units >= FEW_UNITS else min(PARTS, blocks.shape[0])
    target = dw if parts == 1 else b.scratch((parts, dw.size), dw.dtype)
    tiles, low, high_m = gemm.tile_heights(depth)
    b.launch(
        kernels.filter_gradient.specialise(T=TYPES[x.dtype], LOW=low, HIGH=high_m, **shape),
        x, grad, target, blocks, taps, blocks.shape[0], parts, taps.shape[0], depth, g.out, g.groups,
        x_line, wide.stride * x.strides[3], g.into, g_line, grad.strides[3], dw.strides[3], dw.size, tiles,
        n=units * parts, chunks=b.chunks(units * parts, g.pixels * dw.size),
    )  # fmt: skip
    if parts > 1:
        instance = kernels.sum_parts.specialise(T=TYPES[x.dtype])
        b.launch(instance, target, dw, parts, dw.size, n=dw.size, chunks=b.chunks(dw.size, parts * dw.size))


# --- the images' gradient as a product --------------------------------------------------------------------------------


def windows_are_cheaper(g: Geometry, phases: Sequence[Sequence[Walk]], dtype: str) -> bool:
    """Whether to multiply by all taps at once and add windows, which wastes fewer lanes where channels are few."""
    deep, _, wide = g.axes
    if g.groups > 1 or deep.length * deep.size * deep.count != 1 or wide.dilation != 1:
        return False
    if prod(a.count for a in g.axes) * g.taps * g.into * np.dtype(dtype).itemsize > WINDOW_BYTES:
        return False
    lanes = gemm.panel_width(dtype)
    whole = lambda n: -(-n // lanes) * lanes  # noqa: E731
    direct = prod(sum(k.count * k.taps for k in walks) for walks in phases) * g.out * whole(g.into)
    windows = prod(a.count for a in g.axes) * (g.out * whole(g.taps * g.into) + MOVED * g.taps * g.into)
    return windows < direct


def product_windows(b: Binding, g: Geometry, grad: Buffer, w: Buffer, dx: Buffer) -> None:
    """dx = the rows grad w^T, each of which is a window of an image, added where the windows were read."""
    kind = TYPES[grad.dtype]
    _, high, wide = g.axes
    pixels, columns = high.count * wide.count, g.taps * g.into
    shape = panel(columns, grad.dtype)
    width = shape["NV"] * codegen.VL
    count = -(-columns // width)
    panels = b.scratch((count, g.out, width), w.dtype)
    pack = gemm.pack_transposed.specialise(T=kind, NV=shape["NV"])
    b.launch(pack, w, panels, columns, g.out, g.out, 0, panels.size, n=count, chunks=b.chunks(count, panels.size))
    windows = b.scratch((b.threads, pixels, columns), grad.dtype)
    tiles, low, high_m = gemm.tile_heights(pixels)
    b.launch(
        kernels.product_windows.specialise(T=kind, LOW=low, HIGH=high_m, **shape),
        grad, panels, dx, windows, pixels, g.out, columns, g.out * width, pixels * columns, tiles,
        high.count, wide.count, high.length, wide.length, g.into, high.size, wide.size,
        high.stride, wide.stride, high.dilation, high.before, wide.before,
        n=g.images, chunks=b.chunks(g.images, g.pixels * columns * g.out),
    )  # fmt: skip


# --- pieces -----------------------------------------------------------------------------------------------------------


def padded(b: Binding, x: Buffer, margins: Sequence[tuple[int, int]]) -> Buffer:
    """x with zeros before and after each spatial axis."""
    if not any(map(any, margins)):
        return x
    lengths = [n + sum(m) for n, m in zip(x.shape[1:4], margins)]
    wide = b.scratch((x.shape[0], *lengths, x.shape[4]), x.dtype)
    inside = grid((x.shape[0], x.strides[0]), (x.shape[1], x.strides[1]), (x.shape[2], x.strides[2]))
    lines = np.pad(inside.reshape(x.shape[:3]), [(0, 0), *margins[:2]], constant_values=-1)
    left, right = (m * x.shape[4] for m in margins[2])
    b.launch(
        kernels.pad.specialise(T=TYPES[x.dtype]), x, wide, constant_buffer(lines), x.strides[2], left, right,
        n=lines.size, chunks=b.chunks(lines.size, wide.size),
    )  # fmt: skip
    return wide


def panel(columns: int, dtype: str) -> dict[str, int]:
    """The compile-time constants that say how a kernel cuts `columns` into panels; see `kernels.conv.panel_tile`."""
    vectors = gemm.tile_vectors(dtype)
    rest = columns % (vectors * codegen.VL)
    return {"NV": vectors, "TAIL": -(-rest // codegen.VL), "RAGGED": int(rest % codegen.VL != 0)}


def lines_of(x: Buffer, y: Buffer, walks: Sequence[Walk], pieces: int) -> Buffer:
    """A table of where each output line, cut into pieces, begins to read x, where in y, and how many columns it has."""
    starts, widths = cuts(walks[2].count, pieces)
    reads = [(x.shape[0], x.strides[0]), *((k.count, k.stride * s) for k, s in zip(walks[:2], x.strides[1:]))]
    writes = [(y.shape[0], y.strides[0]), *((k.count, k.step * s) for k, s in zip(walks[:2], y.strides[1:]))]
    first_read = sum(k.start * s for k, s in zip(walks, x.strides[1:]))
    first_written = sum(k.place * s for k, s in zip(walks, y.strides[1:]))
    return table(
        first_read + grid(*reads)[:, None] + starts * walks[2].stride * x.strides[3],
        first_written + grid(*writes)[:, None] + starts * walks[2].step * y.strides[3],
        widths,
    )


def cuts(count: int, pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each of so many equal pieces begins, and how long it is."""
    starts = np.arange(pieces) * count // pieces
    return starts, np.diff(starts, append=count)


def tile_rows(least: int, most: int) -> dict[str, int]:
    """The constants that say how a kernel cuts `least` or `most` rows (at most one more) evenly into tiles."""
    tiles, _, high = gemm.tile_heights(most)
    return {"LOW": max(1, least // tiles), "HIGH": high}


def grid(*axes: tuple[int, int]) -> np.ndarray:
    """The offsets of all places of a grid, given the count and the stride of each axis, the last one running first."""
    offsets = np.zeros(1, np.int64)
    for count, stride in axes:
        offsets = (offsets[:, None] + np.arange(count) * stride).ravel()
    return offsets


def table(*columns: np.ndarray | int) -> Buffer:
    """Columns side by side, for a kernel to look things up."""
    return constant_buffer(np.stack(np.broadcast_arrays(*columns), -1).reshape(-1, len(columns)).astype(np.int64))
