"""Products of matrices and sums of products: `matmul` is the one op, the others are made of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..graph import Apply, Op, TensorType, Variable, as_variable
from .arithmetic import multiply
from .elementwise import broadcast_static, sum_to
from .shape import as_same_dtype, expand_dims, length, moveaxis, ravel, reshape, size_of, squeeze, swapaxes

__all__ = ["batched_dot", "dot", "inner", "kron", "matmul", "outer", "vdot"]


@dataclass(frozen=True)
class MatMul(Op):
    """Products of the matrices in the last two axes; the axes before them broadcast.

    With C = A B: dA = G B^T, dB = A^T G, each summed over the axes along which it was broadcast.
    """

    formula = "(g y^T, x^T g)"

    def make_node(self, a: Any, b: Any) -> Apply:
        a, b = as_variable(a), as_variable(b)
        n, m = a.type.shape[-1], b.type.shape[-2]
        if None not in (n, m) and n != m:
            raise ShapeError(f"matmul: {a.type} and {b.type} don't fit: expected (..., m, k) and (..., k, n)")
        batch = broadcast_static("matmul", [Variable(TensorType(x.dtype, x.type.shape[:-2])) for x in (a, b)])
        return Apply(self, [a, b], [TensorType(a.dtype, (*batch, a.type.shape[-2], b.type.shape[-1]))])

    def perform(self, a, b):
        self._shape(a.shape, b.shape)
        if a.dtype == np.float16:
            return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
        return np.matmul(a, b)

    def grad(self, inputs, output_grads):
        (a, b), g = inputs, output_grads[0]
        da, db = matmul(g, swapaxes(b, -1, -2)), matmul(swapaxes(a, -1, -2), g)
        return [sum_to(da, a), sum_to(db, b)] if g.ndim > 2 else [da, db]

    def _shape(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        try:
            batch = np.broadcast_shapes(a[:-2], b[:-2])
        except ValueError:
            batch = None
        if batch is None or a[-1] != b[-2]:
            raise ShapeError(f"matmul: shapes {a} and {b} don't fit: expected (..., m, k) and (..., k, n)")
        return (*batch, a[-2], b[-1])

    def infer_shape(self, node, shapes, values):
        return [self._shape(*shapes)]


def matmul(a: Any, b: Any) -> Variable:
    """The matrix product `a @ b`, by NumPy's rules: vectors count as a row (left) or a column (right), and axes before
    the last two broadcast.

    Raises:
        ShapeError: for scalars, and where the inner lengths differ (at build if known, else at run time).
    """
    a, b = as_same_dtype([a, b], "matmul")
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: {a.type} @ {b.type}: a scalar is no matrix; use *")
    if a.ndim == 1:
        product = matmul(expand_dims(a, 0), b if b.ndim > 1 else expand_dims(b, 1))
        return squeeze(product, (-2, -1) if b.ndim == 1 else -2)
    if b.ndim == 1:
        return squeeze(matmul(a, expand_dims(b, 1)), -1)
    if a.ndim > 2 and b.ndim == 2:  # one large product, and its gradient to b needs no sum over the batch
        rows = reshape(a, [size_of(a, range(a.ndim - 1)), length(a, -1)])
        return reshape(MatMul()(rows, b), [*(length(a, i) for i in range(a.ndim - 1)), length(b, 1)])
    return MatMul()(a, b)


def dot(a: Any, b: Any) -> Variable:
    """NumPy's `dot`: the inner product of vectors, the matrix product of matrices, and for more axes the sum over the
    last axis of `a` and the last but one of `b`; with a scalar, the product."""
    a, b = as_same_dtype([a, b], "dot")
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    if b.ndim <= 2:
        return matmul(a, b)
    columns = moveaxis(b, -2, 0)  # (k, ...)
    flat = matmul(a, reshape(columns, [length(columns, 0), size_of(columns, range(1, b.ndim))]))
    return reshape(flat, [*(length(a, i) for i in range(a.ndim - 1)), *(length(columns, i) for i in range(1, b.ndim))])


def inner(a: Any, b: Any) -> Variable:
    """The sum of products over the last axes of both; with a scalar, the product."""
    a, b = as_same_dtype([a, b], "inner")
    return dot(a, swapaxes(b, -1, -2) if b.ndim > 1 and a.ndim else b)


def outer(a: Any, b: Any) -> Variable:
    """The products of every element of `a` (a row each) with every element of `b` (a column each)."""
    a, b = as_same_dtype([a, b], "outer")
    return multiply(expand_dims(ravel(a), 1), expand_dims(ravel(b), 0))


def vdot(a: Any, b: Any) -> Variable:
    """The sum of the products of all elements of `a` and `b`, in C order."""
    a, b = as_same_dtype([a, b], "vdot")
    return dot(ravel(a), ravel(b))


def batched_dot(a: Any, b: Any) -> Variable:
    """Matrix products (or with vectors) for each of the entries of the common first axis."""
    a, b = as_same_dtype([a, b], "batched_dot")
    if not 2 <= a.ndim <= 3 or not 2 <= b.ndim <= 3:
        raise ShapeError(f"batched_dot: expected 2 or 3 dimensions with the batch first, got {a.type} and {b.type}")
    product = matmul(a if a.ndim == 3 else expand_dims(a, 1), b if b.ndim == 3 else expand_dims(b, 2))
    axes = [axis for axis, x in ((1, a), (2, b)) if x.ndim == 2]
    return squeeze(product, axes) if axes else product


def kron(a: Any, b: Any) -> Variable:
    """The Kronecker product: each element of `a` times the whole of `b`, as one block."""
    a, b = as_same_dtype([a, b], "kron")
    n = max(a.ndim, b.ndim)
    a, b = (expand_dims(x, range(n - x.ndim)) for x in (a, b))
    blocks = multiply(expand_dims(a, range(1, 2 * n, 2)), expand_dims(b, range(0, 2 * n, 2)))
    return reshape(blocks, [multiply(length(a, i), length(b, i)) for i in range(n)])
