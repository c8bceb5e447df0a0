"""Gradients held within a norm before an optimizer takes them."""

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError
from ..graph import Variable
from .arithmetic import greater, isfinite, logical_and, multiply, sqrt, square, where
from .dtypes import as_tensor
from .elementwise import cast
from .linalg import norm
from .reduce import sum as total
from .shape import stack

__all__ = ["clip_by_global_norm"]


def clip_by_global_norm(arrays: Sequence[Any], max_norm: float) -> list[Variable]:
    """All arrays times min(1, max_norm / n), where n is the 2-norm of all their entries (Pascanu et al. 2013).

    n is computed in float64, where float32 arrays can't overflow it. If it isn't finite nothing is scaled, so that what
    is wrong is seen and not turned into zeros.
    """
    if not max_norm >= 0:
        raise ArgumentError(f"clip_by_global_norm: max_norm={max_norm}; expected a number from 0 up")
    variables = [as_tensor(x) for x in arrays]
    if not variables:
        return []
    n = norm(stack([norm(x) if x.dtype == "float64" else _norm_in_float64(x) for x in variables]))
    scale = where(logical_and(greater(n, max_norm), isfinite(n)), max_norm / n, 1.0)
    return [multiply(x, cast(scale, x.dtype)) for x in variables]


def _norm_in_float64(x: Variable) -> Variable:
    return sqrt(total(square(cast(x, "float64"))))
