"""Linear algebra on matrices in the last two axes (any axes before them are a batch): the namespace `pb.linalg`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..graph import Apply, Op, Variable, as_variable, grad_not_implemented
from .arithmetic import abs as magnitude
from .arithmetic import add, divide, equal, not_equal, power, sign, subtract
from .arithmetic import where as choose
from .decompositions import Refuse, cholesky, eigh, eigvalsh, qr, svd, svdvals
from .diagonal import diagonal as diagonal_of
from .elementwise import Kink, broadcast_like, cast, ones_like, strong_mul, zeros_like
from .extremes import max as largest
from .extremes import min as smallest
from .indexing import index
from .linear import matmul
from .matrices import (
    Inv,
    MatrixOp,
    as_matrices,
    check_square,
    eye_like,
    inv,
    lapack,
    mT,
    solve,
    solve_triangular,
)
from .reduce import Axis, Norm2, Reduction, as_float, widened
from .reduce import sum as total
from .shape import concatenate, expand_dims, length, moveaxis, normalize_axes

__all__ = [
    "cholesky", "det", "diagonal", "eigh", "eigvalsh", "expm", "inv", "matrix_power", "norm", "pinv", "qr", "slogdet",
    "solve", "solve_triangular", "svd", "svdvals", "trace",
]  # fmt: skip


# --- the pseudo-inverse -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pinv(MatrixOp):
    """The Moore-Penrose inverse; singular values up to `rcond` times the largest count as zero."""

    rcond: float

    formula = "-P^T g P^T + (I - A P) g^T P P^T + P^T P g^T (I - P A)"

    def static(self, shape):
        return [(*shape[:-2], shape[-1], shape[-2])]

    def perform(self, a):
        return lapack("pinv", lambda x: np.linalg.pinv(x, self.rcond), a).astype(a.dtype, copy=False)

    def L_op(self, inputs, outputs, output_grads):
        # Golub and Pereyra, "The differentiation of pseudo-inverses" (1973), for constant rank
        (a,), p, g = inputs, outputs[0], output_grads[0]
        pT, gT = mT(p), mT(g)
        rows_left = subtract(gT, matmul(a, matmul(p, gT)))  # (I - A P) G^T
        columns_left = subtract(gT, matmul(matmul(gT, p), a))  # G^T (I - P A)
        beside = add(matmul(rows_left, matmul(p, pT)), matmul(matmul(pT, p), columns_left))
        ga = subtract(beside, matmul(matmul(pT, g), pT))
        why = "pinv: it jumps, and has no derivative, where a matrix hasn't full rank"
        return [Refuse(why, self.rcond)(ga, svdvals(a))]


def pinv(a: Any, rcond: float | None = None) -> Variable:
    """The Moore-Penrose pseudo-inverse of matrices of full rank (others have one too, but no gradient there).

    Args:
        rcond: singular values up to this times the largest count as zero; by default 100 times the dtype's eps.

    Raises:
        UndefinedGradientError: when a gradient is computed where a matrix hasn't full rank.
    """
    a = as_matrices(a, "pinv")
    return Pinv(100 * float(np.finfo(a.dtype).eps) if rcond is None else float(rcond))(a)


# --- determinants -----------------------------------------------------------------------------------------------------


class Det(MatrixOp):
    """The determinant. Its gradient is the matrix of cofactors, which singular matrices have too."""

    formula = "g times the cofactors"

    def static(self, shape):
        return [shape[:-2]]

    def perform(self, a):
        check_square(a.shape, "det")
        return np.asarray(np.linalg.det(a))

    def grad(self, inputs, output_grads):
        return [strong_mul(expand_dims(output_grads[0], (-2, -1)), Cofactors()(inputs[0]))]


def rotated(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(U, s, V^T, det(U V)) of the singular value decomposition."""
    u, s, vt = lapack("det", np.linalg.svd, a)
    return u, s, vt, np.sign(np.linalg.det(u) * np.linalg.det(vt))[..., None, None]


class Cofactors(MatrixOp):
    """det(A) A^-T, as a polynomial: with A = U S V^T it is det(U V) U cof(S) V^T, and cof(S) needs no division."""

    def static(self, shape):
        return [shape]

    def perform(self, a):
        u, s, vt, orientation = rotated(a)
        others = np.where(np.eye(s.shape[-1], dtype=bool), 1, s[..., None, :]).prod(-1)
        return orientation * (u * others[..., None, :]) @ vt

    def grad(self, inputs, output_grads):
        return [CofactorsGrad()(inputs[0], output_grads[0])]


@dataclass(frozen=True)
class CofactorsGrad(Op):
    """The second derivative of the determinant along G, itself a polynomial in A. Symmetric in G and its cotangent.

    At a diagonal matrix the cofactors (i, i) change by h_jj p_ij and (i, j) by -h_ji p_ij, where p_ij is the product of
    all s but s_i and s_j.
    """

    def make_node(self, a: Any, g: Any) -> Apply:
        a, g = as_variable(a), as_variable(g)
        return Apply(self, [a, g], [a.type])

    def perform(self, a, g):
        u, s, vt, orientation = rotated(a)
        n = s.shape[-1]
        i, j, k = np.ogrid[:n, :n, :n]
        p = np.where((k == i) | (k == j), 1, s[..., None, None, :]).prod(-1) * (1 - np.eye(n))
        turned = orientation * (np.swapaxes(u, -1, -2) @ g @ np.swapaxes(vt, -1, -2))
        on_diagonal = (np.diagonal(turned, 0, -2, -1)[..., None, :] @ p)[..., 0, :]
        inner = np.eye(n) * on_diagonal[..., None, :] - np.swapaxes(turned * p, -1, -2)
        return (u @ inner @ vt).astype(a.dtype, copy=False)

    def grad(self, inputs, output_grads):
        a, g = inputs
        why = "the third derivative of a determinant is written nowhere here"
        return [grad_not_implemented(self, 0, a, why), CofactorsGrad()(a, output_grads[0])]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


def det(a: Any) -> Variable:
    """The determinants. Gradient: g times the matrix of cofactors, right for singular matrices too."""
    return Det()(as_matrices(a, "det", square=True))


class SLogDet(MatrixOp):
    """The sign and the logarithm of the absolute value of the determinant."""

    formula = "g A^-T for the logarithm; the sign is locally constant"

    def static(self, shape):
        return [shape[:-2], shape[:-2]]

    def perform(self, a):
        check_square(a.shape, "slogdet")
        return tuple(np.asarray(v) for v in np.linalg.slogdet(a))

    def grad(self, inputs, output_grads):
        a, g = inputs[0], expand_dims(output_grads[1], (-2, -1))
        # a matrix that the cost doesn't depend on may be singular
        safe = choose(equal(g, 0), eye_like(a), a)
        return [strong_mul(g, mT(Inv()(safe)))]


def slogdet(a: Any) -> tuple[Variable, Variable]:
    """(sign, log|det|) of the determinants; (0, -inf) for singular matrices. The sign is locally constant.

    Gradient of the logarithm: g A^-T.

    Raises:
        ArgumentError: when that gradient is computed where a matrix is singular.
    """
    sign_of, logarithm = SLogDet()(as_matrices(a, "slogdet", square=True))
    return sign_of, logarithm


# --- norms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NormP(Reduction):
    """(sum |x|^p)^(1/p) over `axis`. Its gradient at zero is zero."""

    p: float = 2.0
    formula = "g sign(x) (|x| / norm)^(p-1), 0 at 0"
    kinks = (Kink("x = 0", "the unit ball of the dual norm", "0"),)

    def perform(self, x):
        size = np.abs(x)
        scale = size.max(self.axis, keepdims=True, initial=0)
        scale = np.where((scale == 0) | ~np.isfinite(scale), 1, scale)
        with np.errstate(all="ignore"):
            norm = scale * ((size / scale) ** self.p).sum(self.axis, keepdims=True) ** (1 / self.p)
        return norm.reshape(self.reduced(x.shape)).astype(x.dtype, copy=False)

    def L_op(self, inputs, outputs, output_grads):
        x, norm = inputs[0], self.restored(outputs[0])
        at_zero = equal(norm, 0)
        ratio = divide(magnitude(x), choose(at_zero, ones_like(norm), norm))
        slope = strong_mul(sign(x), power(ratio, self.p - 1))
        return [strong_mul(self.restored(output_grads[0]), choose(at_zero, zeros_like(x), slope))]


def norm(x: Any, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Variable:
    """A norm of vectors or matrices, as NumPy's `linalg.norm`.

    Args:
        x: integers are taken as config.floatX.
        ord: for vectors a number p, (sum |x|^p)^(1/p), inf, -inf, or 0 (how many aren't zero); for matrices "fro",
            "nuc" (the sum of the singular values), 1, -1, 2, -2, inf or -inf. By default the 2-norm of all elements.
        axis: the axis of the vectors, or the two axes of the matrices; all axes by default.

    The gradient at zero is zero.
    """
    x = as_float(x)
    wide = widened(x)
    axes = normalize_axes(axis, x.ndim, "norm")
    if ord is None:
        result = Norm2(tuple(sorted(axes)), keepdims)(wide)
    elif len(axes) == 1:
        result = _vector_norm(wide, ord, axes, keepdims)
    elif len(axes) == 2:
        result = _matrix_norm(moveaxis(wide, axes, (-2, -1)), ord)
        result = expand_dims(result, axes) if keepdims else result
    else:
        raise ArgumentError(f"norm: ord={ord!r} needs one or two axes, got {len(axes)} of {x.type}")
    return cast(result, x.dtype)


def _vector_norm(x: Variable, p: Any, axes: tuple[int, ...], keepdims: bool) -> Variable:
    if isinstance(p, bool) or not isinstance(p, (int, float, np.number)):
        raise ArgumentTypeError(f"norm: ord={p!r} of vectors; expected a number, inf or -inf")
    if p == 2:
        return Norm2(axes, keepdims)(x)
    if p == 0:
        return cast(total(not_equal(x, 0), axes, keepdims=keepdims), x.dtype)
    if p == 1:
        return total(magnitude(x), axes, keepdims=keepdims)
    if abs(p) == np.inf:
        return (largest if p > 0 else smallest)(magnitude(x), axes, keepdims)
    return NormP(axes, keepdims, float(p))(x)


def _matrix_norm(x: Variable, p: Any) -> Variable:
    if p == "fro":
        return Norm2((x.ndim - 2, x.ndim - 1))(x)
    if p == "nuc":
        return total(svdvals(x), axis=-1)
    if p in (2, -2):
        return index(svdvals(x), (..., 0 if p > 0 else -1))
    if p in (1, -1, np.inf, -np.inf):
        sums = total(magnitude(x), axis=-2 if abs(p) == 1 else -1)
        return (largest if p > 0 else smallest)(sums, -1)
    raise ArgumentError(f"norm: ord={p!r} of matrices; expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")


# --- functions of matrices --------------------------------------------------------------------------------------------


def matrix_power(a: Any, n: int) -> Variable:
    """The matrices multiplied with themselves, `n` factors in all; the inverses' for negative n, identities for 0."""
    a = as_matrices(a, "matrix_power", square=True)
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise ArgumentTypeError(f"matrix_power: the exponent must be an integer, got {n!r}")
    if n < 0:
        return matrix_power(inv(a), -n)
    if n == 0:
        return broadcast_like(eye_like(a), a)
    half = matrix_power(a, n // 2) if n > 1 else None
    if half is None:
        return a
    return matmul(matmul(half, half), a) if n % 2 else matmul(half, half)


class Expm(MatrixOp):
    """The matrix exponential. The cotangent is the upper right block of exp([[A^T, G], [0, A^T]]) (C. Van Loan,
    "Computing integrals involving the matrix exponential", 1978)."""

    formula = "the upper right block of expm([[A^T, g], [0, A^T]])"

    def static(self, shape):
        return [shape]

    def perform(self, a):
        from scipy.linalg import expm

        check_square(a.shape, "expm")
        return expm(a).astype(a.dtype, copy=False)

    def grad(self, inputs, output_grads):
        a, g = mT(inputs[0]), output_grads[0]
        n = length(a, -1)
        block = concatenate([concatenate([a, g], -1), concatenate([zeros_like(a), a], -1)], -2)
        return [index(Expm()(block), (..., slice(None, n), slice(n, None)))]


def expm(a: Any) -> Variable:
    """The matrix exponential, I + A + A^2 / 2! + ..., of the matrices in the last two axes."""
    return Expm()(as_matrices(a, "expm", square=True))


def diagonal(x: Any, offset: int = 0) -> Variable:
    """The diagonal `offset` of the matrices in the last two axes."""
    return diagonal_of(x, offset, -2, -1)


def trace(x: Any, offset: int = 0) -> Variable:
    """The sum of the diagonal `offset` of the matrices in the last two axes."""
    return total(diagonal(x, offset), axis=-1)
