"""Pooling: images turned to channels-last at the border, one pass over the windows."""

from collections.abc import Callable, Sequence

import numpy as np

from ...kernels import pool as kernels
from ...ops.geometry import Windows
from ...ops.pool import AvgPool, AvgPoolGrad, MaxPool, PoolGather, PoolScatter
from ..binding import Binding, Declined, binds
from ..buffers import Buffer, constant_buffer
from ..elementwise import launch_copy
from .conv_geometry import transposed
from .linear import TYPES


@binds(MaxPool)
def bind_max_pool(node, b: Binding) -> None:
    op, x = node.op, b.inputs[0]
    images = Images(op.axes, x.shape)
    sizes = images.sizes(op.windows, x.shape, b.shapes[0])
    op.cells([x.shape[a] for a in op.axes], False)  # refuses a window without cells
    rows = images.batch * sizes[3]
    places = b.is_needed(1)
    finish, (y, *index) = images.results(b, 1 + places)
    b.launch(
        kernels.max_pool.specialise(T=_type(x), PLACES=int(places)), images.turned(b, x), y,
        *(index or [b.scratch((1,), "int32")]), *sizes, n=rows, chunks=b.chunks(rows, x.size * 4),
    )  # fmt: skip
    finish()


@binds(PoolScatter)
def bind_scatter(node, b: Binding) -> None:
    g, index = b.inputs[:2]
    windows, shape = node.op.windows, b.shapes[0]
    images = Images(node.op.axes, shape)
    finish, (dx,) = images.results(b, 1)
    g, index = images.turned(b, g), images.turned(b, index)
    kind = _type(g)
    if isinstance(windows, Windows) and set(windows.dilation) == {1} and all(
        s >= k for s, k in zip(windows.stride, windows.size)
    ):
        sizes = images.sizes(windows, shape, b.inputs[0].shape)
        b.launch(kernels.scatter_apart.specialise(T=kind), g, index, dx, *sizes,
                 n=images.batch, chunks=b.chunks(images.batch, dx.size * 3))  # fmt: skip
    else:
        plane = int(np.prod([shape[a] for a in node.op.axes]))
        places = g.size // (images.batch * images.channels)
        b.launch(kernels.scatter_add.specialise(T=kind), g, index, dx, places, images.channels, plane,
                 n=images.batch, chunks=b.chunks(images.batch, dx.size + 8 * g.size))  # fmt: skip
    finish()


@binds(PoolGather)
def bind_gather(node, b: Binding) -> None:
    x, index = b.inputs
    images = Images(node.op.axes, x.shape)
    finish, (y,) = images.results(b, 1)
    plane = int(np.prod([x.shape[a] for a in node.op.axes]))
    places = y.size // (images.batch * images.channels)
    b.launch(
        kernels.gather.specialise(T=_type(x)), images.turned(b, x), images.turned(b, index), y, places,
        images.channels, plane, n=images.batch, chunks=b.chunks(images.batch, 8 * y.size),
    )  # fmt: skip
    finish()


@binds(AvgPool)
def bind_avg_pool(node, b: Binding) -> None:
    op, x = node.op, b.inputs[0]
    images = Images(op.axes, x.shape)
    sizes = images.sizes(op.windows, x.shape, b.shapes[0])
    finish, (y,) = images.results(b, 1)
    rows = images.batch * sizes[3]
    b.launch(
        kernels.window_sums.specialise(T=_type(x)), images.turned(b, x), y, _weights(op, x.shape, b.shapes[0], x.dtype),
        *sizes, n=rows, chunks=b.chunks(rows, x.size * 3),
    )  # fmt: skip
    finish()


@binds(AvgPoolGrad)
def bind_avg_pool_grad(node, b: Binding) -> None:
    op, g, shape = node.op.pool, b.inputs[0], b.shapes[0]
    images = Images(op.axes, shape)
    sizes = images.sizes(op.windows, shape, g.shape)
    finish, (dx,) = images.results(b, 1)
    b.launch(
        kernels.spread_windows.specialise(T=_type(g)), images.turned(b, g), dx, _weights(op, shape, g.shape, g.dtype),
        *sizes, n=images.batch, chunks=b.chunks(images.batch, dx.size * 3),
    )  # fmt: skip
    finish()


class Images:
    """A tensor with two axes beside the pooled ones, seen as (batch, height, width, channels)."""

    def __init__(self, axes: tuple[int, ...], shape: Sequence[int]) -> None:
        rest = [a for a in range(len(shape)) if a not in axes]
        if len(rest) != 2 or len(axes) > 2:
            raise Declined
        self.order = (rest[0], *axes, rest[1])
        self.batch, self.channels = shape[rest[0]], shape[rest[1]]
        self.axes = axes

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

    def sizes(self, windows, shape: Sequence[int], y_shape: Sequence[int]) -> tuple[int, ...]:
        """The integer arguments of a kernel of windows."""
        if not isinstance(windows, Windows):
            raise Declined
        lengths = [shape[a] for a in self.axes]
        counts = [y_shape[a] for a in self.axes]
        before = [pad[0] for pad in windows.pads(lengths)]
        one = 2 - len(self.axes)  # a single axis is the width of images of height 1
        two = lambda values, filler: (*(filler,) * one, *values)  # noqa: E731
        return (
            *two(lengths, 1), self.channels, *two(counts, 1), *two(windows.size, 1), *two(windows.stride, 1),
            *two(windows.dilation, 1), *two(before, 0),
        )  # fmt: skip


def _weights(op: AvgPool, shape: Sequence[int], y_shape: Sequence[int], dtype: str) -> Buffer:
    """One over the divisor of each window."""
    divisors = op.divisors([shape[a] for a in op.axes])
    counts = [y_shape[a] for a in op.axes]
    return constant_buffer(np.ascontiguousarray(np.broadcast_to(1.0 / np.asarray(divisors, dtype), counts), dtype))


def _type(x: Buffer):
    if x.dtype not in TYPES:
        raise Declined
    return TYPES[x.dtype]
