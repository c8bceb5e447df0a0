"""Arrays joined and rolled: each piece is copied to its place."""

from itertools import product

from ...ops.rearrange import Roll
from ...ops.shape import Concatenate
from ..binding import Binding, Declined, binds
from ..elementwise import launch_copy
from ..loops import STORED


@binds(Concatenate)
def bind_concatenate(node, b: Binding) -> None:
    out, axis = b.output(0), node.op.axis
    if out.dtype not in STORED:
        raise Declined
    at = 0
    for x in b.inputs:
        launch_copy(b, x, out.window(x.shape, out.strides, at * out.strides[axis]))
        at += x.shape[axis]


@binds(Roll)
def bind_roll(node, b: Binding) -> None:
    (x, *_), shifts = b.inputs, b.values[1:]
    if any(s is None for s in shifts) or x.dtype not in STORED:
        raise Declined
    out = b.output(0)
    total = [0] * x.ndim
    for axis, shift in zip(node.op.axes, shifts):
        total[axis] = (total[axis] + int(shift)) % x.shape[axis]
    # along each axis (from, to, length) of the piece that moves up, and of the one that comes in at the start
    pieces = [[(0, s, n - s), (n - s, 0, s)] for n, s in zip(x.shape, total)]
    for parts in product(*pieces):
        shape = tuple(n for _, _, n in parts)
        if all(shape):
            source = x.window(shape, x.strides, sum(a * s for (a, _, _), s in zip(parts, x.strides)))
            target = out.window(shape, out.strides, sum(a * s for (_, a, _), s in zip(parts, out.strides)))
            launch_copy(b, source, target)
