"""Attention: batched products, with the softmax of the scores between them."""

from math import prod

from ...kernels import attention as kernels
from ...ops.attention import Attention, AttentionGrad
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from .linear import TYPES, launch_gemm


@binds(Attention)
def bind_attention(node, b: Binding) -> None:
    q, k, v = _operands(b, 3)
    launch_gemm(b, _weights(b, q, k), v, b.output(0))


@binds(AttentionGrad)
def bind_attention_grad(node, b: Binding) -> None:
    q, k, v, g = _operands(b, 4)
    w = _weights(b, q, k)
    d = b.scratch(w.shape, q.dtype)
    launch_gemm(b, g, turned(v), d)
    rows = prod(w.shape[:-1])
    kernel = kernels.score_gradient.specialise(T=TYPES[q.dtype])
    b.launch(kernel, w, d, w.shape[-1], _scale(node.op, q), n=rows, chunks=b.chunks(rows, 4 * w.size))
    launch_gemm(b, d, k, b.output(0))
    launch_gemm(b, turned(d), q, b.output(1))
    launch_gemm(b, turned(w), g, b.output(2))


def _operands(b: Binding, count: int) -> list[Buffer]:
    """The inputs, where there is a kernel for them: no mask but the causal one."""
    if len(b.inputs) > count or any(x.dtype not in TYPES or x.dtype != b.inputs[0].dtype for x in b.inputs):
        raise Declined
    if b.node.op.causal and b.inputs[0].shape[-2] < b.inputs[1].shape[-2]:
        raise Declined  # keys that no query sees take no part, whatever they hold
    return b.inputs


def _weights(b: Binding, q: Buffer, k: Buffer) -> Buffer:
    op = b.node.op
    w = b.scratch((*q.shape[:-1], k.shape[-2]), q.dtype)
    launch_gemm(b, q, turned(k), w)
    rows = prod(w.shape[:-1])
    b.launch(
        kernels.weights.specialise(T=TYPES[q.dtype]), w, q.shape[-2], k.shape[-2], _scale(op, q), int(op.causal),
        n=rows, chunks=b.chunks(rows, 20 * w.size),
    )  # fmt: skip
    return w


def _scale(op, q: Buffer) -> float:
    return q.shape[-1] ** -0.5 if op.scale is None else float(op.scale)


def turned(x: Buffer) -> Buffer:
    """The matrices transposed, as a view."""
    *batch, m, n = x.shape
    *steps, down, along = x.strides
    return x.window((*batch, n, m), (*steps, along, down), 0)
