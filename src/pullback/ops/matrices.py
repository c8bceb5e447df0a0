"""What all ops on stacks of matrices share, and the solution of systems of equations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph import Apply, Op, TensorType, Variable, as_variable
from .arithmetic import add, multiply, negative
from .creation import eye
from .diagonal import tril, triu
from .elementwise import broadcast_static, sum_to
from .linear import matmul
from .reduce import as_float
from .shape import as_same_dtype, expand_dims, length, squeeze, swapaxes

__all__ = ["inv", "solve", "solve_triangular"]


class MatrixOp(Op):
    """Base of ops on stacks of matrices."""

    def static(self, shape: tuple) -> list[tuple]:
        """The shapes of the outputs for an input of `shape`; lengths may be None."""
        raise NotImplementedError

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType(x.dtype, s) for s in self.static(x.type.shape)])

    def infer_shape(self, node, shapes, values):
        return self.static(shapes[0])


def as_matrices(x: Any, what: str, square: bool = False) -> Variable:
    """`x` as a stack of float matrices in its last two axes."""
    x = as_float(x)
    if x.ndim < 2:
        raise ShapeError(f"{what}: expected a matrix or a stack of them, got {x.type}")
    if x.dtype == "float16":
        raise DTypeError(f"{what}: float16 isn't supported; cast to float32 first")
    n, m = x.type.shape[-2:]
    if square and None not in (n, m) and n != m:
        raise ShapeError(f"{what}: expected square matrices, got {x.type}")
    return x


def check_square(shape: tuple[int, ...], what: str) -> None:
    if shape[-1] != shape[-2]:
        raise ShapeError(f"{what}: expected square matrices, got shape {shape}")


def lapack(what: str, function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """`function(*arrays)`, with its failure named."""
    try:
        return function(*arrays)
    except np.linalg.LinAlgError as error:
        finite = all(np.isfinite(a).all() for a in arrays)
        raise ArgumentError(f"{what}: {error}" + ("" if finite else "; the input holds NaN or infinity")) from None


def mT(x: Variable) -> Variable:
    return swapaxes(x, -1, -2)


def symmetric(x: Variable) -> Variable:
    return multiply(add(x, mT(x)), 0.5)


def eye_like(x: Variable) -> Variable:
    """Identity matrices of the last two axes of `x`, which are equal."""
    return eye(length(x, -2), length(x, -1), dtype=x.dtype)


# --- systems of equations ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solve(Op):
    """X with A X = B. With cotangent G: dB = A^-T G, dA = -dB X^T."""

    formula = "(-A^-T g X^T, A^-T g)"

    def make_node(self, a: Any, b: Any) -> Apply:
        a, b = as_variable(a), as_variable(b)
        batch = broadcast_static("solve", [Variable(TensorType(x.dtype, x.type.shape[:-2])) for x in (a, b)])
        n, m = a.type.shape[-1], b.type.shape[-2]
        if None not in (n, m) and n != m:
            raise ShapeError(f"solve: {n} unknowns in {a.type}, but {m} rows on the right, {b.type}")
        return Apply(self, [a, b], [TensorType(b.dtype, (*batch, *b.type.shape[-2:]))])

    def perform(self, a, b):
        self._shape(a.shape, b.shape)
        return lapack("solve", np.linalg.solve, a, b)

    def _shape(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        check_square(a, "solve")
        try:
            batch = np.broadcast_shapes(a[:-2], b[:-2])
        except ValueError:
            batch = None
        if batch is None or a[-1] != b[-2]:
            raise ShapeError(f"solve: shapes {a} and {b} don't fit: expected (..., n, n) and (..., n, k)")
        return (*batch, *b[-2:])

    def L_op(self, inputs, outputs, output_grads):
        a, b = inputs
        gb = Solve()(mT(a), output_grads[0])
        ga = negative(matmul(gb, mT(outputs[0])))
        return [sum_to(ga, a), sum_to(gb, b)] if gb.ndim > 2 else [ga, gb]

    def infer_shape(self, node, shapes, values):
        return [self._shape(*shapes)]


def solve(a: Any, b: Any) -> Variable:
    """x with a @ x = b. A vector `b` is one right-hand side; else its columns are several.

    Raises:
        ArgumentError: at run time, where a matrix is singular.
    """
    a, b = as_same_dtype([as_matrices(a, "solve", square=True), as_float(b)], "solve")
    if b.ndim == 0:
        raise ShapeError("solve: the right-hand side must be a vector or matrices, got a scalar")
    return squeeze(Solve()(a, expand_dims(b, -1)), -1) if b.ndim == 1 else Solve()(a, b)


def solve_triangular(a: Any, b: Any, lower: bool = False, unit_diagonal: bool = False) -> Variable:
    """x with a @ x = b, of which only the upper (or `lower`) triangle of `a` is read, with ones on its diagonal if
    `unit_diagonal`. What isn't read gets zero gradient. A vector `b` is one right-hand side.

    Raises:
        ArgumentError: at run time, where a number on the diagonal is zero.
    """
    a = as_matrices(a, "solve_triangular", square=True)
    if unit_diagonal:
        return solve(add(tril(a, -1) if lower else triu(a, 1), eye_like(a)), b)
    return solve(tril(a) if lower else triu(a), b)


class Inv(MatrixOp):
    """The inverse matrix P. With cotangent G: -P^T G P^T."""

    formula = "-P^T g P^T"

    def static(self, shape):
        return [shape]

    def perform(self, a):
        check_square(a.shape, "inv")
        return lapack("inv", np.linalg.inv, a)

    def L_op(self, inputs, outputs, output_grads):
        p = mT(outputs[0])
        return [negative(matmul(matmul(p, output_grads[0]), p))]


def inv(a: Any) -> Variable:
    """The inverse matrices.

    Raises:
        ArgumentError: at run time, where a matrix is singular.
    """
    return Inv()(as_matrices(a, "inv", square=True))
