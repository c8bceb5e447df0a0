"""Linear algebra: systems of equations, determinants, decompositions, norms and functions of matrices."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops import linalg
from ..entry import Entry, Input, Point, real, variants

SQUARE = {"n": (2, 3)}
NORMS = [
    dict(), dict(axis=1), dict(ord=1, axis=-1), dict(ord=3, axis=0), dict(ord=1.5, axis=1, keepdims=True),
    dict(ord=np.inf, axis=1), dict(ord="fro", axis=(2, 0)),
]  # fmt: skip
SIDES = dict(empty=("b",), single=("b", "n"))
MURRAY = ("I. Murray, Differentiation of the Cholesky decomposition (2016)",)
LIAO = ("H.-J. Liao et al., Differentiable programming tensor networks (2019)",)
TOWNSEND = ("J. Townsend, Differentiating the singular value decomposition (2016)",)


def matrices(axes: str, make: Callable[[np.ndarray], np.ndarray]) -> Input:
    return Input(axes, draw=lambda rng, shape, sizes: make(rng.uniform(-1.0, 1.0, shape)))


def regular(axes: str = "b n n") -> Input:
    """Well away from singular ones: the identity times 2.5 and something small."""
    return matrices(axes, lambda a: a + 2.5 * np.eye(a.shape[-1]))


def definite(axes: str = "b n n") -> Input:
    """Symmetric and positive definite, with eigenvalues apart from each other."""
    return matrices(axes, lambda a: 0.1 * (a + np.swapaxes(a, -1, -2)) + np.diag(1.0 + np.arange(a.shape[-1])))


def apart(axes: str) -> Input:
    """Singular values apart from each other and from zero."""
    return matrices(axes, lambda a: 0.3 * a + np.eye(*a.shape[-2:]) * (1.0 + np.arange(a.shape[-1])))


def of(name: str, f: Callable[..., Any], *inputs: Input, **rest: Any) -> Entry:
    return Entry(f"linalg.{name}", f, inputs, **{"sizes": SQUARE, **SIDES, **rest})


ENTRIES = [
    of("solve", linalg.solve, regular(), real("b n k"), empty=("b", "k"), single=("b", "n", "k")),
    of("solve[vector]", linalg.solve, regular(), real("n")),
    of("solve[broadcast]", linalg.solve, regular("n n"), real("b n k"), empty=("b", "k"), single=("b", "n", "k")),
    of("solve_triangular", linalg.solve_triangular, regular(), real("b n 2")),
    of("solve_triangular[lower, unit_diagonal]", lambda a, b: linalg.solve_triangular(a, b, True, True), regular(),
       real("b n 2")),
    of("inv", linalg.inv, regular(), formula="-P^T g P^T"),
    of("det", linalg.det, regular(), formula="g times the cofactors"),
    of("det[singular]", linalg.det, matrices("b 3 3", lambda a: a[..., :2] @ a[..., :2, :]), single=("b",)),
    of("det[cofactors]", linalg.Cofactors(), regular(), orders=1),
    of("det[change of cofactors]", linalg.CofactorsGrad(), regular(), real("b n n"), orders=1),
    of("slogdet", lambda a: linalg.slogdet(a)[1], regular(), formula="g A^-T"),
    of("slogdet[sign]", linalg.slogdet, regular()),
    of("pinv", linalg.pinv, apart("b 4 n"), references=("Golub and Pereyra (1973)",)),
    of("pinv[wide]", linalg.pinv, apart("b n 4")),
    of("cholesky", linalg.cholesky, definite(), references=MURRAY),
    of("cholesky[upper]", lambda a: linalg.cholesky(a, upper=True), definite()),
    of("qr", linalg.qr, apart("b 4 n"), references=LIAO),
    of("qr[square]", linalg.qr, apart("b n n")),
    of("qr[wide]", linalg.qr, apart("b n 4")),
    of("eigh", linalg.eigh, definite()),
    of("eigvalsh", linalg.eigvalsh, definite()),
    of("svd", linalg.svd, apart("b 4 n"), references=TOWNSEND),
    of("svd[square]", linalg.svd, apart("b n n")),
    of("svd[wide]", linalg.svd, apart("b n 4")),
    of("svdvals", linalg.svdvals, apart("b 4 n")),
    of("expm", linalg.expm, real("b n n", -1.0, 1.0)),
    *(of(f"matrix_power[{n}]", lambda a, n=n: linalg.matrix_power(a, n), regular()) for n in (-2, 0, 1, 3, 5)),
    *variants("linalg.norm", linalg.norm, [real("a b c")], NORMS, sizes=dict.fromkeys("abc", (3, 4)), empty=(),
              single=()),
    *(of(f"norm[{p}]", lambda a, p=p: linalg.norm(a, p, axis=(1, 2)), apart("b 4 n")) for p in ("nuc", 2, -2, 1, -1)),
    Entry("linalg.norm[zero]", linalg.norm, (real("n"),), empty=(),
          points=(Point(([0.0, 0.0],), ([0.0, 0.0],), 0.0, why="the smallest of the subgradients"),
                  Point(([3.0, -4.0],), ([0.6, -0.8],), 5.0, why="a unit vector"))),
    of("trace", linalg.trace, real("b n n")),
    of("diagonal", lambda a: linalg.diagonal(a, 1), real("b n n")),
]  # fmt: skip
