"""Softmax and cross-entropy along the last axis."""

from math import prod

from ... import codegen
from ...kernels import softmax as kernels
from ...ops.softmax import LogSoftmax, Softmax, SoftmaxCrossEntropy, SoftmaxCrossEntropyGrad
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from .linear import TYPES

LABELS = {"int64": codegen.i64, "int32": codegen.i32, "uint8": codegen.u8, "int8": codegen.i8}


@binds(Softmax, LogSoftmax)
def bind_softmax(node, b: Binding) -> None:
    rows, n = _rows(b.inputs[0], node.op.axis)
    kernel = kernels.softmax_rows if isinstance(node.op, Softmax) else kernels.log_softmax_rows
    x = b.contiguous(b.inputs[0])
    b.launch(kernel.specialise(T=TYPES[x.dtype]), x, b.output(0), n, n=rows, chunks=b.chunks(rows, 20 * rows * n))


@binds(SoftmaxCrossEntropy)
def bind_cross_entropy(node, b: Binding) -> None:
    x, labels = b.inputs
    rows, n = _rows(x, node.op.axis)
    x, labels, ignored = _checked(b, x, labels, n)
    kernel = kernels.cross_entropy_rows.specialise(T=TYPES[x.dtype], L=LABELS[labels.dtype])
    b.launch(kernel, x, labels, b.output(0), n, ignored, n=rows, chunks=b.chunks(rows, 20 * rows * n))


@binds(SoftmaxCrossEntropyGrad)
def bind_cross_entropy_grad(node, b: Binding) -> None:
    g, x, labels = b.inputs
    rows, n = _rows(x, node.op.axis)
    x, labels, ignored = _checked(b, x, labels, n)
    if any(g.strides):
        g = b.contiguous(g)
    step = 1 if any(g.strides) else 0
    kernel = kernels.cross_entropy_rows_grad.specialise(T=TYPES[x.dtype], L=LABELS[labels.dtype])
    b.launch(kernel, g, step, x, labels, b.output(0), n, ignored, n=rows, chunks=b.chunks(rows, 20 * rows * n))


def _rows(x: Buffer, axis: int) -> tuple[int, int]:
    if axis != x.ndim - 1 or x.dtype not in TYPES:
        raise Declined
    return prod(x.shape[:-1]), x.shape[-1]


def _checked(b: Binding, x: Buffer, labels: Buffer, classes: int) -> tuple[Buffer, Buffer, int]:
    """Contiguous operands, with labels outside the classes refused before they are used."""
    if labels.dtype not in LABELS:
        raise Declined
    x, labels = b.contiguous(x), b.contiguous(labels)
    ignore_index = b.node.op.ignore_index
    ignored = kernels.IGNORED if ignore_index is None else ignore_index
    flag = b.scratch((1,), "int64")
    check = kernels.count_bad_labels.specialise(L=LABELS[labels.dtype])
    b.launch(check, labels, flag, classes, ignored, labels.size)
    b.guard(flag)
    return x, labels, ignored
