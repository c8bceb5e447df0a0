"""Parts of arrays taken and put back: slices as windows, rows and elements by number."""

from collections.abc import Sequence
from math import prod

import numpy as np

from ... import codegen
from ...kernels import indexing as kernels
from ...ops.gather import Embedding, OneHot
from ...ops.indexing import AdvancedSubtensor, IncSubtensor, SetSubtensor, Subtensor
from ...ops.pattern import ARRAY, Cut, Pattern
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from ..elementwise import MOVED_AS, launch_copy, launch_formula, spread

INDICES = {
    "int64": codegen.i64, "int32": codegen.i32, "int8": codegen.i8, "uint8": codegen.u8, "uint32": codegen.u32,
}  # fmt: skip
ADDED = {
    "float32": codegen.f32, "float64": codegen.f64, "int64": codegen.i64, "int32": codegen.i32, "int8": codegen.i8,
    "uint8": codegen.u8,
}  # fmt: skip


@binds(AdvancedSubtensor)
def bind_take(node, b: Binding) -> None:
    axis, count = _picked_axes(node.op.pattern)
    _take(b, b.inputs[0], axis, b.inputs[1 : 1 + count], wrap=True)


@binds(Embedding)
def bind_embedding(node, b: Binding) -> None:
    _take(b, b.inputs[0], 0, b.inputs[1:2], wrap=False)


def _take(b: Binding, x: Buffer, axis: int, indices: Sequence[Buffer], wrap: bool) -> None:
    out = b.output(0)
    if x.dtype not in MOVED_AS:
        raise Declined
    outer, lengths, inner = _around(x.shape, axis, len(indices))
    flat, count = _flat(b, indices, 1, lengths, wrap)
    x, kind = b.contiguous(x), MOVED_AS[x.dtype]
    if inner == 1:
        pieces = 4 if outer == 1 else 1
        kernel, units, last = kernels.take_elements, outer * pieces, pieces
    else:
        kernel, units, last = kernels.take_rows, outer * count, inner
    chunks = b.chunks(units, 4 * out.size)
    b.launch(kernel.specialise(T=kind), x, flat, out, prod(lengths), count, last, n=units, chunks=chunks)


@binds(SetSubtensor, IncSubtensor)
def bind_update(node, b: Binding) -> None:
    x, y, *slots = b.inputs
    adds, pattern = isinstance(node.op, IncSubtensor), node.op.pattern
    if y.dtype != x.dtype or (adds and x.dtype == "bool"):
        raise Declined
    if pattern.is_basic:
        _update_window(b, x, y, adds)
    else:
        if x.dtype not in (ADDED if adds else MOVED_AS):
            raise Declined
        axis, count = _picked_axes(pattern)
        _update_rows(b, x, y, axis, slots[:count], adds)


@binds(Subtensor)
def bind_element(node, b: Binding) -> None:
    """A single element, of which NumPy makes no view."""
    x, place = b.inputs[0], node.op.pattern.fill(b.values[1:])
    if len(place) != x.ndim or any(k is None or isinstance(k, slice) or k is Ellipsis for k in place):
        raise Declined
    if any(not -n <= k < n for n, k in zip(x.shape, place)):
        raise Declined  # the op's perform says which
    launch_copy(b, x.window((), (), sum(int(k) % n * s for n, s, k in zip(x.shape, x.strides, place))), b.output(0))


def _window(x: Buffer, pattern: Pattern, slots: Sequence[np.ndarray | None]) -> tuple[tuple[int, ...], list[int], int]:
    """(shape, strides, offset) of x[...] in a contiguous array of the shape of x, for integers and slices."""
    if any(v is None for v in slots):
        raise Declined
    index = pattern.bind(slots)
    index = index if Ellipsis in index else (*index, ...)  # so that a single element is a view too
    stand_in = np.empty(x.shape, x.dtype)
    try:
        part = stand_in[index]
    except (IndexError, ValueError):
        raise Declined from None  # the op's perform says what doesn't fit
    offset = codegen.address_of(part) - codegen.address_of(stand_in) if part.size else 0
    return part.shape, [s // x.itemsize for s in part.strides], offset // x.itemsize


def _update_window(b: Binding, x: Buffer, y: Buffer, adds: bool) -> None:
    shape, strides, offset = _window(x, b.node.op.pattern, b.values[2:])
    y = y.window(shape, _fitting(y, shape), 0)
    window = _copy_of(b, x).window(shape, strides, offset)
    if window.size == 0:
        return
    if adds and not _is_zero(b, 0):
        launch_formula(b, "x + y", [window, y], window)
    else:
        launch_copy(b, y, window)


def _update_rows(b: Binding, x: Buffer, y: Buffer, axis: int, indices: Sequence[Buffer], adds: bool) -> None:
    outer, lengths, inner = _around(x.shape, axis, len(indices))
    part = (*x.shape[:axis], *_together(indices), *x.shape[axis + len(indices) :])
    y = b.contiguous(y.window(part, _fitting(y, part), 0))
    flat, count = _flat(b, indices, 2, lengths, wrap=True)
    out, rows = _copy_of(b, x), prod(lengths)
    if not adds:
        kernel = kernels.set_rows.specialise(T=MOVED_AS[x.dtype])
        b.launch(kernel, out, flat, y, rows, count, inner, n=outer, chunks=b.chunks(outer, 4 * y.size))
    elif inner == 1:
        kernel = kernels.add_elements.specialise(T=ADDED[x.dtype])
        b.launch(kernel, out, flat, y, rows, count, n=outer, chunks=b.chunks(outer, 4 * y.size))
    else:
        strips = 4 if inner >= 64 else 1
        kernel = kernels.add_rows.specialise(T=ADDED[x.dtype])
        units = outer * strips
        b.launch(kernel, out, flat, y, rows, count, inner, strips, n=units, chunks=b.chunks(units, 4 * y.size))


@binds(OneHot)
def bind_one_hot(node, b: Binding) -> None:
    labels, out = b.inputs[0], b.output(0)
    kind = {**ADDED, "bool": codegen.u8}.get(out.dtype)
    if kind is None:
        raise Declined
    classes = out.shape[-1]
    flat, count = _flat(b, [labels], 0, (classes,), wrap=False)
    b.launch(kernels.one_hot.specialise(T=kind), flat, out, classes, n=count, chunks=b.chunks(count, out.size))


# --- pieces -----------------------------------------------------------------------------------------------------------


def _picked_axes(pattern: Pattern) -> tuple[int, int]:
    """(the first axis that is indexed by an array, how many adjoining ones are); all others are taken whole."""
    entries = pattern.entries
    places = [i for i, e in enumerate(entries) if e == ARRAY]
    whole = all(e == Cut() for i, e in enumerate(entries) if i not in places)
    if not places or not whole or places[-1] - places[0] + 1 != len(places):
        raise Declined
    return places[0], len(places)


def _around(shape: tuple[int, ...], axis: int, count: int) -> tuple[int, tuple[int, ...], int]:
    """(elements before, lengths of the indexed axes, elements after)."""
    return prod(shape[:axis]), shape[axis : axis + count], prod(shape[axis + count :])


def _flat(b: Binding, indices: Sequence[Buffer], place: int, lengths: Sequence[int], wrap: bool) -> tuple[Buffer, int]:
    """(the row that each index means, how many there are); indices out of range are refused before they are used.

    `place`: of the first of them among the node's inputs.
    """
    if any(i.dtype not in INDICES for i in indices):
        raise Declined
    shape = _together(indices)
    count = prod(shape)
    flat, flag = b.scratch((count,), "int64"), b.scratch((1,), "int64")
    for k, (index, length) in enumerate(zip(indices, lengths)):
        index = b.contiguous(index.window(shape, _fitting(index, shape), 0))
        kernel = kernels.flat_index.specialise(L=INDICES[index.dtype], FIRST=int(k == 0), WRAP=int(wrap))
        b.launch(kernel, index, flat, flag, length, count)
    variables = b.node.inputs[place : place + len(indices)]
    if b.is_unchecked(variables[0], "indices", tuple(variables[1:]), tuple(lengths), wrap):
        b.guard(flag)
    return flat, count


def _together(indices: Sequence[Buffer]) -> tuple[int, ...]:
    """The shape to which the indices broadcast."""
    try:
        return np.broadcast_shapes(*(i.shape for i in indices))
    except ValueError:
        raise Declined from None


def _copy_of(b: Binding, x: Buffer) -> Buffer:
    """The node's result with the values of x in it: x itself where nobody needs it afterwards, nor the other inputs."""
    alone = all(other.storage is not x.storage for other in b.inputs[1:])
    out = b.output(0, reuse=x if alone else None)
    if out.storage is not x.storage:
        launch_copy(b, x, out)
    return out


def _fitting(x: Buffer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of x broadcast to `shape`, where it fits."""
    lead = len(shape) - x.ndim
    if lead < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[lead:])):
        raise Declined
    return spread(x, shape)


def _is_zero(b: Binding, i: int) -> bool:
    """Whether an input is known to be all zeros."""
    value = b.values[i]
    return value is not None and not any(value.strides) and value.size > 0 and not value.flat[0]
