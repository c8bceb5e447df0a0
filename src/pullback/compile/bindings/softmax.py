"""Softmax and cross-entropy along any axis: the axis is brought to the end, where the kernels want it."""

from math import prod

from ... import codegen
from ...kernels import softmax as kernels
from ...ops.reduce import LogSumExp
from ...ops.softmax import (
    LogSoftmax,
    LogSoftmaxGrad,
    MaskedSoftmax,
    PlaceLabel,
    SelectLabel,
    Softmax,
    SoftmaxCrossEntropy,
    SoftmaxCrossEntropyGrad,
    SoftmaxGrad,
)
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from ..elementwise import launch_copy
from .linear import TYPES
from .reduce import split_at

LABELS = {
    "int64": codegen.i64, "int32": codegen.i32, "uint32": codegen.u32, "uint8": codegen.u8, "int8": codegen.i8,
}  # fmt: skip
SHORT = {
    Softmax: kernels.softmax_short_rows, LogSoftmax: kernels.log_softmax_short_rows,
    SoftmaxCrossEntropy: kernels.cross_entropy_short_rows,
    SoftmaxCrossEntropyGrad: kernels.cross_entropy_short_rows_grad,
}  # fmt: skip
LONG = {
    Softmax: kernels.softmax_rows, LogSoftmax: kernels.log_softmax_rows, SoftmaxGrad: kernels.softmax_rows_grad,
    LogSoftmaxGrad: kernels.log_softmax_rows_grad, MaskedSoftmax: kernels.masked_softmax_rows,
    LogSumExp: kernels.log_sum_exp_rows, SoftmaxCrossEntropy: kernels.cross_entropy_rows,
    SoftmaxCrossEntropyGrad: kernels.cross_entropy_rows_grad, SelectLabel: kernels.select_labels,
    PlaceLabel: kernels.place_labels,
}  # fmt: skip


@binds(Softmax, LogSoftmax, SoftmaxGrad, LogSoftmaxGrad)
def bind_softmax(node, b: Binding) -> None:
    inputs = [_rows(b, x, node.op.axis) for x in b.inputs]
    if any(x.dtype != inputs[0].dtype for x in inputs):
        raise Declined
    target = _target(b, node.op.axis)
    _launch(b, inputs[0], [*inputs, target])
    _deliver(b, target, node.op.axis)


@binds(MaskedSoftmax)
def bind_masked_softmax(node, b: Binding) -> None:
    axis = node.op.axis
    x, mask = (_last(_broadcast(v, b.shapes[0]), axis) for v in b.inputs)
    if x.dtype not in TYPES:
        raise Declined
    x, mask = b.contiguous(x), b.contiguous(mask)
    target = _target(b, axis)
    _launch(b, x, [x, mask, target])
    _deliver(b, target, axis)


@binds(LogSumExp)
def bind_log_sum_exp(node, b: Binding) -> None:
    x, axes = b.inputs[0], node.op.axis
    if x.dtype not in TYPES:
        raise Declined
    kept = [a for a in range(x.ndim) if a not in axes]
    x = b.contiguous(_permuted(x, [*kept, *axes]))
    n = prod(x.shape[len(kept) :])
    _launch(b, x.reshaped((x.size // n, n)), [x, b.output(0)])


@binds(SoftmaxCrossEntropy)
def bind_cross_entropy(node, b: Binding) -> None:
    x = _rows(b, b.inputs[0], node.op.axis)
    labels = _checked_labels(b, x.shape[-1], x.shape[:-1])
    _launch(b, x, [x, labels, b.output(0)], [_ignored(node)], L=LABELS[labels.dtype])


@binds(SoftmaxCrossEntropyGrad)
def bind_cross_entropy_grad(node, b: Binding) -> None:
    g, x, _ = b.inputs
    if g.dtype != x.dtype:
        raise Declined
    x = _rows(b, x, node.op.axis)
    labels = _checked_labels(b, x.shape[-1], x.shape[:-1])
    one_for_all = not any(s for n, s in zip(g.shape, g.strides) if n != 1)
    g = g if one_for_all else b.contiguous(g)
    target = _target(b, node.op.axis)
    _launch(b, x, [g, int(not one_for_all), x, labels, target], [_ignored(node)], L=LABELS[labels.dtype])
    _deliver(b, target, node.op.axis)


@binds(SelectLabel, PlaceLabel)
def bind_labels(node, b: Binding) -> None:
    x, out, axis = b.inputs[0], b.output(0), node.op.axis
    if x.dtype not in TYPES:
        raise Declined
    selecting = isinstance(node.op, SelectLabel)
    whole = x.shape if selecting else out.shape
    outer, classes, inner = split_at(whole, axis)
    x = b.contiguous(x)
    labels = _checked_labels(b, classes, whole[:axis] + whole[axis + 1 :])
    kernel = LONG[type(node.op)].specialise(T=TYPES[x.dtype], L=LABELS[labels.dtype])
    units = outer * inner if selecting else outer
    b.launch(kernel, x, labels, out, classes, inner, _ignored(node), n=units, chunks=b.chunks(units, prod(whole)))


def _launch(b: Binding, x: Buffer, operands: list, numbers: list[int] | None = None, **types) -> None:
    """The op's kernel on the rows of `x`, its matrix."""
    n, op = x.shape[-1], type(b.node.op)
    rows, numbers = x.size // n, numbers or []
    types["T"] = TYPES[x.dtype]
    if op in SHORT and n <= kernels.SHORT:
        units = -(-rows // codegen.VL)
        kernel, sizes = SHORT[op].specialise(**types), (rows, n)
    else:
        units = rows
        kernel, sizes = LONG[op].specialise(**types), (n,)
    b.launch(kernel, *operands, *sizes, *numbers, n=units, chunks=b.chunks(units, 20 * x.size))


def _ignored(node) -> int:
    return kernels.IGNORED if node.op.ignore_index is None else node.op.ignore_index


def _checked_labels(b: Binding, classes: int, shape: tuple[int, ...]) -> Buffer:
    """The labels of a node, contiguous; labels that are no class are refused before they are used."""
    place = next(i for i, v in enumerate(b.node.inputs) if v.dtype not in TYPES)
    labels = b.inputs[place]
    if labels.dtype not in LABELS or labels.shape != shape:
        raise Declined
    labels = b.contiguous(labels)
    if b.is_unchecked(b.node.inputs[place], "labels", classes, b.node.op.ignore_index):
        flag = b.scratch((1,), "int64")
        check = kernels.count_bad_labels.specialise(L=LABELS[labels.dtype])
        b.launch(check, labels, flag, classes, _ignored(b.node), labels.size)
        b.guard(flag)
    return labels


def _rows(b: Binding, x: Buffer, axis: int) -> Buffer:
    """x as contiguous rows along what was `axis`."""
    if x.dtype not in TYPES:
        raise Declined
    return b.contiguous(_last(x, axis))


def _target(b: Binding, axis: int) -> Buffer:
    """Where the rows of the result go."""
    out = b.output(0)
    return out if axis == out.ndim - 1 else b.scratch(_last(out, axis).shape, out.dtype)


def _deliver(b: Binding, target: Buffer, axis: int) -> None:
    """Bring the rows of the result back to `axis`."""
    out = b.output(0)
    if target is not out:
        last = out.ndim - 1
        launch_copy(b, _permuted(target, [*range(axis), last, *range(axis, last)]), out)


def _last(x: Buffer, axis: int) -> Buffer:
    """x with `axis` as the last."""
    return _permuted(x, [*(a for a in range(x.ndim) if a != axis), axis])


def _permuted(x: Buffer, order: list[int]) -> Buffer:
    return x.window([x.shape[a] for a in order], [x.strides[a] for a in order], 0)


def _broadcast(x: Buffer, shape: tuple[int, ...]) -> Buffer:
    lead = len(shape) - x.ndim
    return x.window(shape, [0] * lead + [0 if n == 1 else s for n, s in zip(x.shape, x.strides)], 0)
