"""Promotion of dtypes: an integer with a float gives the float's dtype; Python numbers are weak."""

import functools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..config import config
from ..errors import ArgumentTypeError, DTypeError
from ..graph import Constant, TensorType, Variable, as_variable

WEAK = (bool, int, float, complex)


def result_dtype(inputs: Sequence[Any]) -> str:
    """The dtype in which `inputs` (variables, arrays or Python numbers) meet.

    Among floats NumPy's rule holds; integers and booleans never widen a float (float32 with int64 is float32, where
    NumPy has float64); Python numbers only decide the kind.
    """
    strong = [v for v in inputs if type(v) not in WEAK]
    weak = [v for v in inputs if type(v) in WEAK]
    meet = _meet(tuple([v.dtype for v in strong])) if strong else None
    if any(isinstance(v, complex) for v in weak) and (meet is None or meet.kind != "c"):
        return "complex64" if (meet or np.dtype(config.floatX)).itemsize <= 4 else "complex128"
    if any(isinstance(v, float) for v in weak) and (meet is None or meet.kind not in "fc"):
        return config.floatX
    if meet is None:
        return "bool" if all(isinstance(v, bool) for v in weak) else "int64"
    if meet.kind == "b" and any(type(v) is int for v in weak):
        return "int64"
    return _name(meet)


@lru_cache(maxsize=256)
def _name(dtype: np.dtype) -> str:
    return dtype.name


@lru_cache(maxsize=1024)
def _meet(dtypes: tuple[Any, ...]) -> np.dtype:
    known = [np.dtype(d) for d in dtypes]
    inexact = [d for d in known if d.kind in "fc"]
    return np.result_type(*(inexact or known))


@functools.lru_cache(maxsize=4096)
def meeting_dtype(dtypes: tuple[str, ...]) -> str:
    """`result_dtype` of arrays of these dtypes."""
    return result_dtype([np.empty(0, d) for d in dtypes])


def float_dtype(dtype: str) -> str:
    """`dtype` if it is a float or complex, else config.floatX."""
    return dtype if dtype.startswith(("float", "complex")) else config.floatX


def as_tensors(inputs: Sequence[Any], weak_dtype: str | None = None) -> list[Variable]:
    """Inputs as variables; Python numbers become constants of `weak_dtype` (by default of the dtype all meet in)."""
    known = [x if type(x) in WEAK or hasattr(x, "dtype") else as_variable(x) for x in inputs]
    dtype = weak_dtype or result_dtype(known)
    variables = [weak_constant(x, dtype) if type(x) in WEAK else as_variable(x) for x in known]
    for v in variables:
        if not isinstance(v.type, TensorType):
            raise ArgumentTypeError(f"expected a tensor, got {v!r}, which is {v.type}")
    return variables


def weak_constant(value: Any, dtype: str) -> Constant:
    """A Python number as a constant of `dtype`; an integer that the dtype can't hold is refused."""
    if np.dtype(dtype).kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise DTypeError(f"{value} does not fit into {dtype}")
    return Constant(np.asarray(value, dtype))


def as_tensor(x: Any, dtype: str | None = None) -> Variable:
    """`x` as a tensor variable; a Python float becomes config.floatX, a Python integer int64."""
    return as_tensors([x], dtype)[0]
