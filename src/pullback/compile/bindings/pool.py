"""Pooling: images turned to channels-last at the border, one pass over the windows, or over their cells on the way
back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...kernels import pool as kernels
from ...ops.geometry import AdaptiveWindows, Windows
from ...ops.pool import AvgPool, AvgPoolGrad, MaxPool, PoolGather, PoolScatter
from ..binding import Binding, Declined, binds
from ..buffers import Buffer, constant_buffer
from ..elementwise import launch_copy
from .conv_direct import table
from .conv_geometry import transposed
from .linear import TYPES


@binds(MaxPool)
def bind_max_pool(node, b: Binding) -> None:
    op, x = node.op, b.inputs[0]
    images = Images(op.axes, x.shape)
    spans = [Spans.of(op.windows, a, images.lengths) for a in range(len(op.axes))]
    op.cells(images.lengths, False)  # refuses a window without cells
    places = b.is_needed(1)
    finish, (y, *index) = images.results(b, 1 + places)
    rows = y.size // (y.shape[-1] * y.shape[-2])
    b.launch(
        kernels.max_pool.specialise(T=_type(x), PLACES=int(places)), images.turned(b, x), y,
        *(index or [b.scratch((1,), "int32")]), *images.cells(spans), n=rows, chunks=b.chunks(rows, x.size * 4),
    )  # fmt: skip
    finish()


@binds(PoolScatter)
def bind_scatter(node, b: Binding) -> None:
    g, index = b.inputs[:2]
    images = Images(node.op.axes, b.shapes[0])
    finish, (dx,) = images.results(b, 1)
    g, index = images.turned(b, g), images.turned(b, index)
    kind, windows = _type(g), node.op.windows
    spans = [] if windows is None else [Spans.of(windows, a, images.lengths) for a in range(len(node.op.axes))]
    if spans and all(s.inverse().count.max() <= 1 for s in spans):
        lines = dx.size // (dx.shape[-1] * dx.shape[-2])
        b.launch(kernels.pull_back_apart.specialise(T=kind), g, index, dx, *images.windows(spans),
                 n=lines, chunks=b.chunks(lines, dx.size * 3))  # fmt: skip
    else:
        places = g.size // (images.batch * images.channels)
        b.launch(kernels.scatter_add.specialise(T=kind), g, index, dx, places, images.channels, images.cell_count,
                 n=images.batch, chunks=b.chunks(images.batch, dx.size + 8 * g.size))  # fmt: skip
    finish()


@binds(PoolGather)
def bind_gather(node, b: Binding) -> None:
    x, index = b.inputs
    images = Images(node.op.axes, x.shape)
    finish, (y,) = images.results(b, 1)
    places = y.size // (images.batch * images.channels)
    b.launch(
        kernels.gather.specialise(T=_type(x)), images.turned(b, x), images.turned(b, index), y, places,
        images.channels, images.cell_count, n=images.batch, chunks=b.chunks(images.batch, 8 * y.size),
    )  # fmt: skip
    finish()


@binds(AvgPool)
def bind_avg_pool(node, b: Binding) -> None:
    op, x = node.op, b.inputs[0]
    images = Images(op.axes, x.shape)
    spans = [Spans.of(op.windows, a, images.lengths) for a in range(len(op.axes))]
    finish, (y,) = images.results(b, 1)
    rows = y.size // (y.shape[-1] * y.shape[-2])
    b.launch(
        kernels.window_sums.specialise(T=_type(x)), images.turned(b, x), y, _weights(op, images, x.dtype),
        *images.cells(spans), n=rows, chunks=b.chunks(rows, x.size * 3),
    )  # fmt: skip
    finish()


@binds(AvgPoolGrad)
def bind_avg_pool_grad(node, b: Binding) -> None:
    op, g = node.op.pool, b.inputs[0]
    images = Images(op.axes, b.shapes[0])
    spans = [Spans.of(op.windows, a, images.lengths) for a in range(len(op.axes))]
    finish, (dx,) = images.results(b, 1)
    lines = dx.size // (dx.shape[-1] * dx.shape[-2])
    b.launch(
        kernels.pull_back_sums.specialise(T=_type(g)), images.turned(b, g), dx, _weights(op, images, g.dtype),
        *images.windows(spans), n=lines, chunks=b.chunks(lines, dx.size * 3),
    )  # fmt: skip
    finish()


@dataclass(frozen=True, eq=False)
class Spans:
    """Along one axis, the cells of each window: the first, and how many there are, `step` apart."""

    length: int
    first: np.ndarray
    count: np.ndarray
    step: int

    @classmethod
    def of(cls, windows: Windows | AdaptiveWindows, axis: int, lengths: Sequence[int]) -> "Spans":
        """The cells inside an image of these lengths; padding has none."""
        n = lengths[axis]
        if isinstance(windows, AdaptiveWindows):
            i, m = np.arange(windows.count[axis]), windows.count[axis]
            first = i * n // m
            return cls(n, first, -(-(i + 1) * n // m) - first, 1)
        size, stride, step = (v[axis] for v in (windows.size, windows.stride, windows.dilation))
        count, (before, _) = windows.counts(lengths, "pooling")[axis], windows.pads(lengths)[axis]
        start = np.arange(count) * stride - before
        skipped = np.clip(-(start // step), 0, size)
        end = np.clip((n - 1 - start) // step + 1, skipped, size)
        return cls(n, start + skipped * step, end - skipped, step)

    def inverse(self) -> "Spans":
        """The windows of each cell."""
        window = np.repeat(np.arange(self.first.size), self.count)
        within = np.arange(window.size) - np.repeat(np.cumsum(self.count) - self.count, self.count)
        cell = self.first[window] + within * self.step
        window = window[np.lexsort((window, cell))]
        count = np.bincount(cell, minlength=self.length)
        at = np.cumsum(count) - count
        several = at[count > 1]
        step = window[several[0] + 1] - window[several[0]] if several.size else 1
        first = np.where(count > 0, window[np.minimum(at, window.size - 1)], 0)
        return Spans(self.first.size, first, count, int(step))


class Images:
    """A tensor with two axes beside the pooled ones, seen as (batch, depth, height, width, channels)."""

    def __init__(self, axes: tuple[int, ...], shape: Sequence[int]) -> None:
        rest = [a for a in range(len(shape)) if a not in axes]
        if len(rest) != 2 or len(axes) > 3:
            raise Declined
        self.order = (rest[0], *axes, rest[1])
        self.batch, self.channels = shape[rest[0]], shape[rest[1]]
        self.lengths = [shape[a] for a in axes]

    @property
    def cell_count(self) -> int:
        """Cells of one channel of one image."""
        return prod(self.lengths)

    def turned(self, b: Binding, x: Buffer) -> Buffer:
        """Contiguous channels-last images."""
        return b.contiguous(transposed(x, self.order))

    def results(self, b: Binding, count: int) -> tuple[Callable[[], None], list[Buffer]]:
        """Channels-last buffers for the outputs, and what to call to bring them into the op's own order."""
        outputs = [b.output(j) for j in range(count)]
        if self.order == tuple(range(len(self.order))):
            return lambda: None, outputs
        targets = [b.scratch([y.shape[a] for a in self.order], y.dtype) for y in outputs]
        back = tuple(int(a) for a in np.argsort(self.order))

        def finish() -> None:
            for y, target in zip(outputs, targets):
                launch_copy(b, transposed(target, back), y)

        return finish, targets

    def cells(self, spans: Sequence[Spans]) -> tuple[Any, ...]:
        """What a kernel that goes over windows is told: the table, the sizes, the steps."""
        spans = lifted(spans)
        lengths, counts = [s.length for s in spans], [s.first.size for s in spans]
        return spans_table(spans), *lengths, self.channels, *counts, *(s.step for s in spans)

    def windows(self, spans: Sequence[Spans]) -> tuple[Any, ...]:
        """The same of a kernel that goes over cells."""
        inverse = [s.inverse() for s in lifted(spans)]
        lengths, counts = [s.first.size for s in inverse], [s.length for s in inverse]
        return spans_table(inverse), *lengths, self.channels, *counts, *(s.step for s in inverse)


def lifted(spans: Sequence[Spans]) -> list[Spans]:
    """Three axes; those that are missing have one cell in one window."""
    return [Spans(1, np.array([0]), np.array([1]), 1)] * (3 - len(spans)) + list(spans)


def spans_table(spans: Sequence[Spans]) -> Buffer:
    return table(np.concatenate([s.first for s in spans]), np.concatenate([s.count for s in spans]))


def _weights(op: AvgPool, images: Images, dtype: str) -> Buffer:
    """One over the divisor of each window."""
    counts = op.windows.counts(images.lengths, op.name)
    shares = 1.0 / np.asarray(op.divisors(images.lengths), dtype)
    return constant_buffer(np.ascontiguousarray(np.broadcast_to(shares, counts), dtype))


def _type(x: Buffer) -> Any:
    if x.dtype not in TYPES:
        raise Declined
    return TYPES[x.dtype]
