"""Matrix decompositions. Where a gradient doesn't exist (repeated eigenvalues and singular values, dependent columns)
it is refused when it is computed.

Formulas: I. Murray, "Differentiation of the Cholesky decomposition" (2016); J. Townsend, "Differentiating the singular
value decomposition" (2016); H.-J. Liao et al., "Differentiable programming tensor networks" (2019), for QR.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ArgumentError, UndefinedGradientError
from ..graph import Apply, Constant, DisconnectedType, Op, Variable, as_variable
from .arithmetic import abs as magnitude
from .arithmetic import add, divide, equal, greater, less_equal, logical_and, logical_or, multiply, not_equal, subtract
from .arithmetic import where as choose
from .diagonal import diagonal, tril, triu
from .elementwise import BroadcastLike, Kink, ones_like, strong_mul, zeros_like
from .extremes import max as largest
from .indexing import index
from .linear import matmul
from .matrices import MatrixOp, Solve, as_matrices, check_square, eye_like, lapack, mT, symmetric
from .reduce import any as any_of
from .reduce import sum as total
from .shape import concatenate, expand_dims, length

__all__ = ["cholesky", "eigh", "eigvalsh", "qr", "svd", "svdvals"]


def is_zero(v: Variable) -> bool:
    """Whether `v` is zero by construction, as the cotangent of an output that the cost doesn't use."""
    if v.owner is not None and isinstance(v.owner.op, BroadcastLike):
        v = v.owner.inputs[0]
    return isinstance(v, Constant) and not v.data.any()


# --- refusals at run time ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refuse(Op):
    """Matrices x of a gradient, which is undefined, for the reason `why`, where x isn't zero and one of the numbers v
    that go with it is at most `share` of the largest. Inputs: x (..., m, n), v (..., k), not negative."""

    why: str
    share: float
    view_map = {0: 0}

    def make_node(self, x: Any, v: Any) -> Apply:
        x, v = as_variable(x), as_variable(v)
        return Apply(self, [x, v], [x.type])

    def perform(self, x, v):
        lost = (v <= self.share * v.max(-1, keepdims=True, initial=0)).any(-1)
        if (lost & (x != 0).any((-2, -1))).any():
            raise UndefinedGradientError(self.why)
        return x

    def grad(self, inputs, output_grads):
        return [self(output_grads[0], inputs[1]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


@dataclass(frozen=True)
class OverGaps(Op):
    """x_ij / (c_j - r_i), where the c are a spectrum and the r the same one (`same`) or zeros.

    Where the two values can't be told apart the quotient is 0 if nothing depends on it (x_ij is 0, and `touched_ij`
    says that the cost doesn't reach either value), else the gradient is refused. The diagonal of `same` is left out.
    Inputs: x (..., p, k), r (..., p), c (..., k), touched (..., p, k).
    """

    what: str
    same: bool

    def make_node(self, *inputs: Any) -> Apply:
        variables = [as_variable(v) for v in inputs]
        return Apply(self, variables, [variables[0].type])

    def perform(self, x, r, c, touched):
        gap = c[..., None, :] - r[..., :, None]
        scale = np.abs(c).max(-1, initial=0)[..., None, None]
        repeated = np.abs(gap) <= c.shape[-1] * np.finfo(c.dtype).eps * scale
        if self.same:
            diagonal_of = np.eye(c.shape[-1], dtype=bool)
            x = np.where(diagonal_of, 0, x)
            refused = repeated & ~diagonal_of & (touched | (x != 0))
        else:
            refused = repeated & (touched | (x != 0))
        if refused.any():
            *batch, i, j = np.argwhere(refused)[0]
            what = f"s {i} and {j} are repeated ({c[(*batch, j)]:.6g})" if self.same else f" {j} is zero"
            raise UndefinedGradientError(self.what + what)
        return np.divide(x, gap, out=np.zeros(x.shape, x.dtype), where=~repeated)

    def L_op(self, inputs, outputs, output_grads):
        x, r, c, touched = inputs
        g = output_grads[0]
        slope = self(strong_mul(g, outputs[0]), r, c, touched)
        return [self(g, r, c, touched), total(slope, axis=-1), -total(slope, axis=-2), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [True], [True], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


# --- Cholesky ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cholesky(MatrixOp):
    """The lower triangular L with L L^T = (A + A^T) / 2."""

    formula = "L^-T P(L^T g) L^-1, symmetric; P: the lower triangle with half its diagonal"

    def static(self, shape):
        return [shape]

    def perform(self, a):
        check_square(a.shape, "cholesky")
        return lapack("cholesky", np.linalg.cholesky, (a + np.swapaxes(a, -1, -2)) / 2)

    def L_op(self, inputs, outputs, output_grads):
        upper = mT(outputs[0])
        p = matmul(upper, tril(output_grads[0]))
        p = multiply(add(tril(p), tril(p, -1)), 0.5)  # the lower triangle with half the diagonal
        return [symmetric(mT(Solve()(upper, mT(Solve()(upper, p)))))]


def cholesky(a: Any, upper: bool = False) -> Variable:
    """The lower triangular L with A = L L^T (or with `upper` its transpose), for symmetric positive definite matrices
    in the last two axes.

    It is a function of (A + A^T) / 2, and so is its gradient: symmetric.

    Raises:
        ArgumentError: at run time, where a matrix isn't positive definite.
    """
    factor = Cholesky()(as_matrices(a, "cholesky", square=True))
    return mT(factor) if upper else factor


# --- QR ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QR(MatrixOp):
    """Q (..., m, k) with orthonormal columns and upper triangular R (..., k, n), k = min(m, n), with A = Q R."""

    formula = "(gQ + Q M) R^-T, M symmetric with the lower triangle of R gR^T - gQ^T Q"

    def static(self, shape):
        *batch, m, n = shape
        k = smaller(m, n)
        return [(*batch, m, k), (*batch, k, n)]

    def perform(self, a):
        return tuple(lapack("qr", np.linalg.qr, a))

    def L_op(self, inputs, outputs, output_grads):
        (a,), (q, r), (gq, gr) = inputs, outputs, output_grads
        k = length(q, -1)
        left, right = (..., slice(None, k)), (..., slice(k, None))
        u, gu, gv = index(r, left), triu(index(gr, left)), index(gr, right)  # R = [U V], A = Q [U V]
        gq = add(gq, matmul(index(a, right), mT(gv)))
        m = subtract(matmul(u, mT(gu)), matmul(mT(gq), q))
        inner = add(gq, matmul(q, add(tril(m), mT(tril(m, -1)))))
        pivots, eps = magnitude(diagonal(u, 0, -2, -1)), float(np.finfo(a.dtype).eps)
        dependent = any_of(less_equal(pivots, multiply(largest(pivots, -1, keepdims=True), eps)), -1)
        u = choose(expand_dims(dependent, (-2, -1)), eye_like(u), u)  # refused below, unless nothing depends on it
        ga = concatenate([mT(Solve()(u, mT(inner))), matmul(q, gv)], axis=-1)
        why = "qr: Q and R aren't differentiable where the first columns of the matrix are dependent"
        return [Refuse(why, eps)(ga, pivots)]


def qr(a: Any, mode: str = "reduced") -> tuple[Variable, Variable] | Variable:
    """A = Q R for matrices in the last two axes: (Q, R), or with mode "r" only R.

    Q (..., m, k) has orthonormal columns and R (..., k, n) is upper triangular, with k = min(m, n).

    Raises:
        UndefinedGradientError: when a gradient is computed where the first k columns are dependent.
    """
    if mode not in ("reduced", "r"):
        raise ArgumentError(f"qr: mode={mode!r}; expected 'reduced' or 'r'")
    q, r = QR()(as_matrices(a, "qr"))
    return (q, r) if mode == "reduced" else r


def smaller(m: int | None, n: int | None) -> int | None:
    return None if m is None or n is None else min(m, n)


# --- symmetric eigenvalues --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Eigh(MatrixOp):
    """Ascending eigenvalues w (..., n) and orthonormal eigenvectors V (..., n, n), in columns, of (A + A^T) / 2."""

    formula = "V (diag(gw) + F (V^T gV)) V^T, symmetric; F_ij = 1 / (w_j - w_i)"

    def static(self, shape):
        return [shape[:-1], shape]

    def perform(self, a):
        check_square(a.shape, "eigh")
        return tuple(lapack("eigh", np.linalg.eigh, (a + np.swapaxes(a, -1, -2)) / 2))

    def L_op(self, inputs, outputs, output_grads):
        (w, v), (gw, gv) = outputs, output_grads
        inner = multiply(eye_like(v), expand_dims(gw, -2))
        if not is_zero(gv):
            touched = pairs(logical_or(not_equal(gw, 0), any_of(not_equal(gv, 0), -2)))
            over_gaps = OverGaps("eigh: eigenvectors have no derivative where eigenvalue", True)
            inner = add(inner, over_gaps(matmul(mT(v), gv), w, w, touched))
        return [symmetric(matmul(matmul(v, inner), mT(v)))]


def pairs(touched: Variable) -> Variable:
    """For each pair of values whether either is touched."""
    return logical_or(expand_dims(touched, -1), expand_dims(touched, -2))


def eigh(a: Any) -> tuple[Variable, Variable]:
    """(w, V) of the symmetric matrices in the last two axes: w the ascending eigenvalues, the columns of V orthonormal
    eigenvectors.

    It is a function of (A + A^T) / 2, and so is its gradient: symmetric. Where eigenvalues are repeated, eigenvectors
    have no derivative; eigenvalues get one for the basis that was found (a subgradient of sorted ones).

    Raises:
        UndefinedGradientError: when a gradient is computed that reaches eigenvectors of repeated eigenvalues.
    """
    w, v = Eigh()(as_matrices(a, "eigh", square=True))
    return w, v


def eigvalsh(a: Any) -> Variable:
    """The ascending eigenvalues of the symmetric matrices in the last two axes; see `eigh`."""
    return eigh(a)[0]


# --- singular values --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SVD(MatrixOp):
    """U (..., m, k), descending s (..., k) and Vt (..., k, n), k = min(m, n), with A = U diag(s) Vt."""

    formula = "U (diag(gs) + J S + S K) V^T and what lies off U and V; J, K: U^T gU, V^T gV over s_j^2 - s_i^2"
    kinks = (Kink("s = 0, if only singular values are used", "[-1, 1]", "0"),)

    def static(self, shape):
        *batch, m, n = shape
        k = smaller(m, n)
        return [(*batch, m, k), (*batch, k), (*batch, k, n)]

    def perform(self, a):
        return tuple(lapack("svd", lambda x: np.linalg.svd(x, full_matrices=False), a))

    def L_op(self, inputs, outputs, output_grads):
        (u, s, vt), (gu, gs, gvt) = outputs, output_grads
        if is_zero(gu) and is_zero(gvt):
            gs = choose(equal(s, 0), zeros_like(s), gs)
            return [matmul(multiply(u, expand_dims(gs, -2)), vt)]
        v, gv = mT(vt), mT(gvt)
        reached = [not_equal(gs, 0), any_of(not_equal(gu, 0), -2), any_of(not_equal(gv, 0), -2)]
        touched = logical_or(logical_or(*reached[:2]), reached[2])
        rows, columns = expand_dims(s, -1), expand_dims(s, -2)
        over_gaps = OverGaps("svd: U and V have no derivative where singular value", True)
        both = add(rows, columns)
        both = choose(equal(both, 0), ones_like(both), both)

        def turned(x: Variable, gx: Variable) -> Variable:  # F (x^T gx - gx^T x) with F_ij = 1 / (s_j^2 - s_i^2)
            half = divide(over_gaps(matmul(mT(x), gx), s, s, pairs(touched)), both)
            return add(half, mT(half))

        inner = add(multiply(turned(u, gu), columns), multiply(rows, turned(v, gv)))
        inner = add(inner, multiply(eye_like(inner), expand_dims(gs, -2)))
        ga = matmul(matmul(u, inner), vt)
        ga = add(ga, matmul(self._beyond(u, gu, s, touched), vt))
        return [add(ga, matmul(u, mT(self._beyond(v, gv, s, touched))))]

    def _beyond(self, x: Variable, gx: Variable, s: Variable, touched: Variable) -> Variable:
        """(I - x x^T) gx / s: what leaves the space of the k singular vectors x, if they don't span the whole."""
        tall = greater(length(x, -2), length(x, -1))
        outside = subtract(gx, matmul(x, matmul(mT(x), gx)))
        outside = choose(tall, outside, zeros_like(outside))
        reached = expand_dims(logical_and(touched, tall), -2)
        over_values = OverGaps("svd: unless A is square, U and V have no derivative where singular value", False)
        return over_values(outside, zeros_like(index(outside, (..., 0))), s, reached)


def svd(a: Any, full_matrices: bool = False) -> tuple[Variable, Variable, Variable]:
    """(U, s, Vt) with A = U diag(s) Vt for matrices in the last two axes; s descends.

    Shapes: A (..., m, n), U (..., m, k), s (..., k), Vt (..., k, n), with k = min(m, n). Where singular values are
    repeated (or zero, in a matrix that isn't square), U and V have no derivative; see also `svdvals`.

    Raises:
        UndefinedGradientError: when a gradient is computed that reaches U or V there.
    """
    if full_matrices:
        raise ArgumentError("svd: full_matrices=True isn't offered: the vectors beyond the first k are arbitrary")
    u, s, vt = SVD()(as_matrices(a, "svd"))
    return u, s, vt


def svdvals(a: Any) -> Variable:
    """The descending singular values of the matrices in the last two axes.

    Gradient: U diag(g) Vt, for the vectors that were found where values are repeated (a subgradient); 0 for values that
    are 0.
    """
    return svd(a)[1]
