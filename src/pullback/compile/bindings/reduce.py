"""Reductions over any axes, by merging axes into (outer, length, inner)."""

from math import prod

from ... import codegen
from ...kernels import reduce as kernels
from ...ops.elementwise import SumTo
from ...ops.extremes import Max, Min
from ...ops.reduce import Sum
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from .linear import TYPES

SUMMED = {**TYPES, "int64": codegen.i64}
KINDS = {Sum: kernels.SUM, SumTo: kernels.SUM, Max: kernels.MAX, Min: kernels.MIN}
ROWS_PER_BLOCK = 2048  # of a long column reduction
ELEMENTS_PER_BLOCK = 32768  # of a long row reduction


@binds(Sum, Max, Min)
def bind_reduction(node, b: Binding) -> None:
    reduce(b, b.inputs[0], set(node.op.axis), b.output(0), KINDS[type(node.op)])


@binds(SumTo)
def bind_sum_to(node, b: Binding) -> None:
    x, shape = b.inputs[0], b.shapes[0]
    lead = x.ndim - len(shape)
    axes = {a for a in range(x.ndim) if a < lead or (shape[a - lead] == 1 and x.shape[a] != 1)}
    reduce(b, x, axes, b.output(0), kernels.SUM)


def reduce(b: Binding, x: Buffer, axes: set[int], out: Buffer, kind: int) -> None:
    """out = x reduced over `axes`."""
    if x.dtype not in (SUMMED if kind == kernels.SUM else TYPES) or out.dtype != x.dtype:
        raise Declined
    x = b.contiguous(x)
    groups = merged(x.shape, axes)
    while sum(reduced for _, reduced in groups) > 1:  # the last reduced group first, into scratch
        last = max(i for i, (_, reduced) in enumerate(groups) if reduced)
        outer, length = prod(n for n, _ in groups[:last]), groups[last][0]
        inner = prod(n for n, _ in groups[last + 1 :])
        partial = b.scratch((outer, inner), x.dtype)
        _reduce_one(b, x, outer, length, inner, partial, kind)
        x = partial
        groups = _joined(groups[:last] + groups[last + 1 :])
    place = next((i for i, (_, reduced) in enumerate(groups) if reduced), None)
    if place is None:  # nothing to reduce but axes of length 1
        from ..elementwise import launch_copy

        launch_copy(b, x.reshaped(out.shape), out)
        return
    outer, inner = prod(n for n, _ in groups[:place]), prod(n for n, _ in groups[place + 1 :])
    _reduce_one(b, x, outer, groups[place][0], inner, out, kind)


def _reduce_one(b: Binding, x: Buffer, outer: int, length: int, inner: int, out: Buffer, kind: int) -> None:
    t = SUMMED[x.dtype]
    if inner == 1:
        rows = kernels.reduce_rows.specialise(T=t, OP=kind)
        blocks = _blocks(outer, length, ELEMENTS_PER_BLOCK)
        target = out if blocks == 1 else b.scratch((outer, blocks), x.dtype)
        b.launch(rows, x, target, length, blocks, n=outer * blocks, chunks=b.chunks(outer * blocks, outer * length))
        if blocks > 1:
            b.launch(rows, target, out, blocks, 1, n=outer)
        return
    columns = kernels.reduce_columns.specialise(T=t, OP=kind)
    blocks = _blocks(outer, length, ROWS_PER_BLOCK)
    strips = max(1, min(4, inner // 64)) if outer * blocks < 4 else 1
    target = out if blocks == 1 else b.scratch((outer, blocks, inner), x.dtype)
    units = outer * blocks * strips
    b.launch(columns, x, target, length, inner, blocks, strips, n=units, chunks=b.chunks(units, outer * length * inner))
    if blocks > 1:
        b.launch(columns, target, out, blocks, inner, 1, 1, n=outer)


def _blocks(outer: int, length: int, size: int) -> int:
    """Into how many pieces a long reduction is cut where there are too few of them to share out."""
    return 1 if outer >= 8 else min(kernels.MOST_BLOCKS, -(-length // size))


def merged(shape: tuple[int, ...], axes: set[int]) -> list[tuple[int, bool]]:
    """(length, reduced?) of runs of axes that are all reduced or all kept; axes of length 1 left out."""
    return _joined([(n, a in axes) for a, n in enumerate(shape) if n != 1])


def _joined(groups: list[tuple[int, bool]]) -> list[tuple[int, bool]]:
    joined: list[tuple[int, bool]] = []
    for n, reduced in groups:
        if joined and joined[-1][1] == reduced:
            joined[-1] = (joined[-1][0] * n, reduced)
        else:
            joined.append((n, reduced))
    return joined
