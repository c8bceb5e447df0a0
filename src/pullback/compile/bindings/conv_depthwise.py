"""Depthwise convolution: filters (d, h, w, 1, channels), one for each channel; borders are met without a copy."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from ...kernels import depthwise as kernels
from ...kernels.conv import sum_parts
from ..binding import Binding
from ..buffers import Buffer
from .conv_direct import Walk, adjoint, grid, padded, table
from .conv_geometry import Geometry
from .linear import TYPES

Margins = Sequence[tuple[int, int]]  # zeros before and after each axis

PARTS = 16
LONGEST_SPAN = 7  # taps side by side that registers hold


def forward(b: Binding, g: Geometry, x: Buffer, w: Buffer, y: Buffer) -> None:
    """y = the convolution of x with w."""
    x, walks = bordered(b, g, x, [Walk(a.count, a.size, 0, a.stride, a.dilation) for a in g.axes], before_after(g))
    convolve(b, x, w, y, walks, (1, 1, 1))


def backward(b: Binding, g: Geometry, grad: Buffer, w: Buffer, dx: Buffer) -> None:
    """dx = the output's gradient pulled back to the images: its convolution with turned filters, phase by phase."""
    phases, margins = zip(*(adjoint(a) for a in g.axes))
    for walks in product(*phases):
        turned = [replace(k, tap=a.size - 1 - k.tap) for k, a in zip(walks, g.axes)]
        x, turned = bordered(b, g, grad, turned, margins)
        convolve(b, x, w, dx, turned, (-1, -1, -1))


def filter_gradient(b: Binding, g: Geometry, x: Buffer, grad: Buffer, dw: Buffer) -> None:
    """dw = the output's gradient pulled back to the filters."""
    x, walks = bordered(b, g, x, [Walk(a.count, a.size, 0, a.stride, a.dilation) for a in g.axes], before_after(g))
    lines, rows, columns, constants = tables(x, dw, grad, walks, (1, 1, 1))
    parts = min(PARTS, lines.shape[0])
    partial = b.scratch((parts, dw.size), dw.dtype)
    b.launch(
        kernels.filter_gradient.specialise(T=TYPES[x.dtype], **constants), x, grad, partial, lines, rows,
        lines.shape[0], parts, dw.size, *columns, dw.strides[2],
        n=parts, chunks=b.chunks(parts, g.pixels * dw.size),
    )  # fmt: skip
    b.launch(sum_parts.specialise(T=TYPES[x.dtype]), partial, dw, parts, dw.size, n=dw.size)


def before_after(g: Geometry) -> Margins:
    return [(a.before, a.after) for a in g.axes]


def bordered(b: Binding, g: Geometry, x: Buffer, walks: Sequence[Walk], margins: Margins) -> tuple[Buffer, list[Walk]]:
    """(images, walks over them): in two dimensions the kernels see to the borders, in three x gets its margins."""
    copied = 0 if g.axes[0].size == 1 else 2
    x = padded(b, x, [*margins[:copied], *[(0, 0)] * (3 - copied)])
    bare = [replace(k, start=k.start - before) for k, (before, _) in zip(walks[copied:], margins[copied:])]
    return x, [*walks[:copied], *bare]


def convolve(b: Binding, x: Buffer, w: Buffer, y: Buffer, walks: Sequence[Walk], signs: Sequence[int]) -> None:
    """One walk over the images; signs: whether it meets the filter's taps forwards or backwards on each axis."""
    lines, rows, columns, constants = tables(x, w, y, walks, signs)
    n = lines.shape[0]
    b.launch(
        kernels.convolve.specialise(T=TYPES[x.dtype], **constants), x, w, y, lines, rows, *columns,
        signs[2] * walks[2].skip * w.strides[2], walks[2].step * y.strides[3],
        n=n, chunks=b.chunks(n, n * walks[2].count * rows.shape[0] * x.shape[4] * constants["SPAN"]),
    )  # fmt: skip


def forward_walks(g: Geometry) -> list[Walk]:
    """Over images with borders on the first axis only."""
    deep, high, wide = (Walk(a.count, a.size, -a.before, a.stride, a.dilation) for a in g.axes)
    return [replace(deep, start=0), high, wide]


def tables(
    x: Buffer, w: Buffer, y: Buffer, walks: Sequence[Walk], signs: Sequence[int]
) -> tuple[Buffer, Buffer, tuple[int, ...], dict[str, Any]]:
    """(lines, rows, numbers about columns, constants) of the kernels."""
    deep, high, wide = walks
    span = wide.taps if wide.dilation == 1 and 0 < wide.taps <= LONGEST_SPAN else 1
    apart = Walk(1, 1) if span > 1 else wide
    sizes = deep.taps, high.taps, apart.taps
    skips = [sign * k.skip * s for sign, k, s in zip(signs, walks, w.strides)]
    origin = sum(k.tap * s for k, s in zip(walks, w.strides))
    rows = table(
        grid(*((n, k.dilation * s) for n, k, s in zip(sizes, walks, x.strides[1:]))),
        origin + grid(*zip(sizes, skips)),
        grid((deep.taps * high.taps, 0), (apart.taps, apart.dilation)),
    )
    position = high.start + np.arange(high.count) * high.stride
    first = np.clip(-(position // high.dilation), 0, high.taps)
    last = np.clip((x.shape[2] - 1 - position) // high.dilation + 1, first, high.taps)
    if deep.taps != 1:  # then x has its margins, and every row lies inside
        first, last = 0 * first, 0 * last + deep.taps * high.taps
    starts = sum(k.start * s for k, s in zip(walks, x.strides[1:]))
    places = sum(k.place * s for k, s in zip(walks, y.strides[1:]))
    lines = table(
        starts + grid((x.shape[0], x.strides[0]), *((k.count, k.stride * s) for k, s in zip(walks[:2], x.strides[1:]))),
        places + grid((y.shape[0], y.strides[0]), *((k.count, k.step * s) for k, s in zip(walks[:2], y.strides[1:]))),
        np.tile(first * apart.taps, x.shape[0] * deep.count), np.tile(last * apart.taps, x.shape[0] * deep.count),
    )  # fmt: skip
    reach = (wide.taps - 1) * wide.dilation
    inner = min(wide.count, max(0, -(wide.start // wide.stride)))
    outer = max(inner, min(wide.count, (x.shape[3] - 1 - reach - wide.start) // wide.stride + 1))
    columns = wide.count, inner, outer, wide.start, x.shape[3], x.shape[4]
    return lines, rows, columns, {"SPAN": span, "STRIDE": wide.stride}
