"""Diagonals and triangles of matrices, in the last two axes or any others."""

from typing import Any

from ..errors import ArgumentError, ArgumentTypeError, ShapeError
from ..graph import Variable
from .arithmetic import greater_equal, less_equal, maximum, minimum, subtract
from .arithmetic import where as choose
from .creation import arange, zeros
from .dtypes import as_tensor
from .elementwise import zeros_like
from .gather import positions
from .indexing import index, set_subtensor
from .reduce import sum as total
from .shape import length, moveaxis, normalize_axis

__all__ = ["diag", "diagonal", "trace", "tril", "triu"]


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Variable:
    """The diagonal `offset` places above the main one (below, if negative) in the plane of two axes, as a last axis.

    Gradient: g put back on that diagonal.
    """
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: expected at least 2 dimensions, got {x.type}")
    a, b = normalize_axis(axis1, x.ndim, "diagonal"), normalize_axis(axis2, x.ndim, "diagonal")
    if a == b:
        raise ArgumentError(f"diagonal: axis1 and axis2 both name axis {a}")
    x = moveaxis(x, (a, b), (-2, -1))
    return index(x, (..., *_places(length(x, -2), length(x, -1), _whole(offset, "diagonal"))))


def diag(x: Any, k: int = 0) -> Variable:
    """A square matrix with the vector `x` on diagonal `k`; or of a matrix its diagonal `k`."""
    x = as_tensor(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: expected a vector or a matrix, got {x.type}")
    n = length(x, 0) + abs(_whole(k, "diag"))
    return set_subtensor(index(zeros((n, n), x.dtype), _places(n, n, k)), x)


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Variable:
    """The sum of a diagonal; see `diagonal`."""
    return total(diagonal(x, offset, axis1, axis2), axis=-1)


def tril(x: Any, k: int = 0) -> Variable:
    """`x` with zeros above diagonal `k` of the last two axes."""
    return _triangle(x, k, greater_equal, "tril")


def triu(x: Any, k: int = 0) -> Variable:
    """`x` with zeros below diagonal `k` of the last two axes."""
    return _triangle(x, k, less_equal, "triu")


def _triangle(x: Any, k: int, keeps: Any, what: str) -> Variable:
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"{what}: expected at least 2 dimensions, got {x.type}")
    row, column = positions(x, x.ndim - 2), positions(x, x.ndim - 1)
    return choose(keeps(row, subtract(column, _whole(k, what))), x, zeros_like(x))


def _places(n: Variable, m: Variable, offset: int) -> tuple[Variable, Variable]:
    """(rows, columns) of the diagonal `offset` of an (n, m) matrix."""
    down, right = max(-offset, 0), max(offset, 0)
    k = arange(maximum(minimum(subtract(n, down), subtract(m, right)), 0))
    return k + down, k + right


def _whole(offset: Any, what: str) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise ArgumentTypeError(f"{what}: the offset of a diagonal must be an integer, got {offset!r}")
    return offset
