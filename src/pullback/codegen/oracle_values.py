"""The values of a kernel that runs as plain Python: typed NumPy scalars, vectors of VL lanes, bounds-checked pointers.

A Python number is a literal, without a type of its own; a NumPy scalar has one; an array of VL elements is a vector.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .types import BY_DTYPE, Problem, Scalar, bool_, common_type, f16, f32, f64, i32, i64, u32, u64, widens


class OutOfBounds(Exception):
    """An access outside an array."""


@dataclass(frozen=True)
class Lanes:
    """The index of a vector loop, and what addition and multiplication by scalars make of it."""

    base: int
    stride: int
    width: int

    def vector(self) -> np.ndarray:
        return self.base + self.stride * np.arange(self.width, dtype=np.int64)


class RegisterArray(list):
    """Vector registers; `clock` says when they were made."""

    clock = 0


@dataclass(frozen=True)
class Pointer:
    """An element of a flat array; all accesses are checked."""

    data: np.ndarray
    offset: int
    name: str

    @staticmethod
    def to(array: np.ndarray, name: str) -> "Pointer":
        """The first element of an array. One that isn't contiguous may be stepped through with strides."""
        if array.flags.c_contiguous:
            return Pointer(array.reshape(-1), 0, name)
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        flat = root.reshape(-1).view(np.uint8)
        start = array.__array_interface__["data"][0] - flat.__array_interface__["data"][0]
        first = start % array.itemsize
        usable = (flat.size - first) // array.itemsize * array.itemsize
        return Pointer(flat[first : first + usable].view(array.dtype), start // array.itemsize, name)

    @property
    def element(self) -> Scalar:
        return BY_DTYPE[self.data.dtype]

    def moved(self, count: int) -> "Pointer":
        return Pointer(self.data, self.offset + int(count), self.name)

    def seen_as(self, element: Scalar) -> "Pointer":
        start = self.offset * self.data.itemsize
        raw = self.data.view(np.uint8)
        first = start % element.size
        usable = (raw.size - first) // element.size * element.size
        return Pointer(raw[first : first + usable].view(element.dtype), start // element.size, self.name)

    def check(self, index: Any, what: str) -> None:
        places = np.asarray(index) + self.offset
        wrong = (places < 0) | (places >= self.data.size)
        if wrong.any():
            place = int(np.asarray(index)[wrong][0] if np.ndim(index) else index)
            pointer = f"({self.name} + {self.offset})" if self.offset else self.name
            raise OutOfBounds(f"{what} {pointer}[{place}], but {self.name} has {self.data.size} elements")

    def read(self, index: int) -> Any:
        self.check(index, "reads")
        return in_register(self.data[self.offset + index])

    def write(self, index: int, value: Any) -> None:
        self.check(index, "writes")
        self.data[self.offset + index] = value

    def read_lanes(self, index: np.ndarray, live: np.ndarray) -> np.ndarray:
        self.check(index[live], "reads")
        result = np.zeros(index.size, self.data.dtype)
        result[live] = self.data[self.offset + index[live]]
        return in_register(result)

    def write_lanes(self, index: np.ndarray, live: np.ndarray, value: np.ndarray) -> None:
        self.check(index[live], "writes")
        self.data[self.offset + index[live]] = value[live]


def in_register(value: Any) -> Any:
    """From the form in memory: float16 is computed in float32."""
    if value.dtype == np.float16:
        return value.astype(np.float32)
    return bool(value) if isinstance(value, np.bool_) else value


# Types


def is_literal(value: Any) -> bool:
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def is_vector(value: Any) -> bool:
    return isinstance(value, np.ndarray | Lanes)


def plain(value: Any) -> Any:
    """Lanes as the vector of their integers; anything else as it is."""
    return value.vector() if isinstance(value, Lanes) else value


def type_of(value: Any) -> Scalar:
    """The element type of a typed scalar or vector."""
    value = plain(value)
    if isinstance(value, bool):
        return bool_
    if isinstance(value, np.generic | np.ndarray) and value.dtype in BY_DTYPE:
        return BY_DTYPE[value.dtype]
    raise Problem(f"{value!r} isn't a number")


def convert(value: Any, target: Scalar) -> Any:
    """`f32(x)` and the like."""
    if target is f16:
        raise Problem("f16 is a storage type")
    value = plain(value)
    if is_literal(value) and target.is_integer:
        low, _ = target.range
        value = (int(value) - low) % (1 << target.bits) + low
    if target is bool_:
        return value.astype(bool) if isinstance(value, np.ndarray) else bool(value)
    return value.astype(target.dtype) if isinstance(value, np.ndarray) else target.dtype.type(value)


def adapt(literal: Any, kind: Scalar) -> Any:
    """A literal beside a typed value."""
    if isinstance(literal, bool) != (kind is bool_) or (isinstance(literal, float) and not kind.is_float):
        raise Problem(f"the literal {literal!r} meets a value of type {kind}")
    if kind.is_integer and not kind.range[0] <= literal <= kind.range[1]:
        raise Problem(f"{literal} is outside {kind}")
    return convert(literal, kind)


def coerce(value: Any, kind: Scalar) -> Any:
    """The implicit conversion to a declared type."""
    value = plain(value)
    if is_literal(value):
        return adapt(value, kind)
    if not widens(type_of(value), kind):
        raise Problem(f"a {type_of(value)} where {kind} is expected")
    return convert(value, kind)


def unify(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands in their common type."""
    a, b = plain(a), plain(b)
    if is_literal(a):
        return (a, b) if is_literal(b) else (adapt(a, type_of(b)), b)
    if is_literal(b):
        return a, adapt(b, type_of(a))
    kind = common_type(type_of(a), type_of(b))
    return convert(a, kind), convert(b, kind)


# Arithmetic

_PYTHON: dict[str, Callable] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mult": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "FloorDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "LShift": lambda a, b: a << b,
    "RShift": lambda a, b: a >> b,
    "BitAnd": lambda a, b: a & b,
    "BitOr": lambda a, b: a | b,
    "BitXor": lambda a, b: a ^ b,
    "Pow": lambda a, b: a**b,
}
_COMPARE: dict[str, Callable] = {
    "Lt": lambda a, b: a < b,
    "LtE": lambda a, b: a <= b,
    "Gt": lambda a, b: a > b,
    "GtE": lambda a, b: a >= b,
    "Eq": lambda a, b: a == b,
    "NotEq": lambda a, b: a != b,
}


def arithmetic(op: str, a: Any, b: Any, live: np.ndarray | None) -> Any:
    """`a op b`; a division by zero in a lane that is on is an error."""
    if isinstance(a, Pointer):
        return a.moved(b if op == "Add" else -b)
    affine = _affine(op, a, b)
    if affine is not None:
        return affine
    if op == "Pow" and not is_literal(a):
        return functools.reduce(lambda x, y: arithmetic("Mult", x, y, live), [a] * b) if b else 1
    a, b = unify(a, b)
    if op in ("FloorDiv", "Mod"):
        zero = np.equal(b, 0) & (True if live is None else live)
        if np.any(zero):
            raise ZeroDivisionError("integer division by zero")
        b = np.where(np.equal(b, 0), np.ones_like(b), b)[()] if np.ndim(b) else b
    result = _PYTHON[op](a, b)
    if is_literal(a) and is_literal(b):
        return result
    return bool(result) if isinstance(result, np.bool_) else result


def _affine(op: str, a: Any, b: Any) -> Lanes | None:
    if isinstance(a, Lanes) and _is_index(b):
        if op in ("Add", "Sub"):
            return Lanes(a.base + (int(b) if op == "Add" else -int(b)), a.stride, a.width)
        if op == "Mult":
            return Lanes(a.base * int(b), a.stride * int(b), a.width)
    if isinstance(b, Lanes) and _is_index(a):
        if op in ("Add", "Mult"):
            return _affine(op, b, a)
        if op == "Sub":
            return Lanes(int(a) - b.base, -b.stride, b.width)
    return None


def _is_index(value: Any) -> bool:
    if is_literal(value):
        return isinstance(value, int)
    return isinstance(value, np.generic) and widens(type_of(value), i64)


def compare(op: str, a: Any, b: Any) -> Any:
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        return (a is b) == (op in ("Is", "Eq"))
    result = _COMPARE[op](*unify(a, b))
    return result if isinstance(result, np.ndarray) else bool(result)


def negate(value: Any) -> Any:
    return Lanes(-value.base, -value.stride, value.width) if isinstance(value, Lanes) else -value


def choose_lanes(condition: Any, a: Any, b: Any) -> Any:
    """Elementwise `a if condition else b`."""
    a, b = unify(a, b)
    return np.where(condition, a, b)


def python_extremum(a: Any, b: Any, better: str) -> Any:
    """b if b is better than a, else a."""
    a, b = unify(a, b)
    chosen = np.where(_COMPARE[better](b, a), b, a)
    return chosen[()] if not is_literal(a) else type(a)(chosen)


def numpy_extremum(a: Any, b: Any, better: str) -> Any:
    """NaN if either is NaN, else as in Python."""
    a, b = unify(a, b)
    return np.where(b != b, b, python_extremum(a, b, better))[()]


def reduce_lanes(combine: Callable[[Any, Any], Any], values: np.ndarray) -> Any:
    """Fold by halves."""
    while values.size > 1:
        half = values.size // 2
        values = combine(values[:half], values[half:])
    return values[0]


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c rounded once."""
    typed = [type_of(x) for x in (a, b, c) if not is_literal(x)]
    kind = functools.reduce(common_type, typed)
    a, b, c = np.broadcast_arrays(*(coerce(x, kind) for x in (a, b, c)))
    result = _fma_single(a, b, c) if kind is f32 else np.vectorize(_fma_double, otypes=[float])(a, b, c)
    return result.astype(kind.dtype)[()]


def _fma_single(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The product is exact in float64; the sum is rounded there to odd, so that rounding it again does no harm."""
    product, addend = a.astype(np.float64) * b, c.astype(np.float64)
    total = product + addend
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    even = (np.asarray(total).view(np.int64) & 1) == 0
    inexact = (lost != 0) & np.isfinite(total) & even
    return np.where(inexact, np.nextafter(total, np.where(lost > 0, np.inf, -np.inf)), total)


def _fma_double(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))) or 0.0 in (a, b):
        return a * b + c
    from fractions import Fraction

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else a * b + c
    except OverflowError:
        return math.copysign(math.inf, exact)


def bits(n: Any) -> Any:
    return plain(n).view({i32: f32, u32: f32, i64: f64, u64: f64}[type_of(n)].dtype)


def ibits(x: Any) -> Any:
    return x.view({f32: i32, f64: i64}[type_of(x)].dtype)


def mulhi(a: Any, b: Any) -> Any:
    a, b = unify(a, b)
    kind = type_of(a)
    upper = (np.asarray(a).astype(object) * np.asarray(b).astype(object)) >> kind.bits
    return np.asarray(upper).astype(kind.dtype)[()]


_NUMPY_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "atan2": "arctan2", "pow": "power",
}  # fmt: skip
_MATH_NAMES = {"erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma, "tgamma": math.gamma}


def libm(name: str, *args: Any) -> Any:
    """A function of the C library, by NumPy's function of that meaning."""
    kind = functools.reduce(common_type, (type_of(a) for a in args))
    if name not in _MATH_NAMES:
        return getattr(np, _NUMPY_NAMES.get(name, name))(*args)
    result = np.vectorize(functools.partial(_gamma_like, _MATH_NAMES[name]), otypes=[float])(*args)
    return result.astype(kind.dtype)[()]


def _gamma_like(function: Callable[[float], float], x: float) -> float:
    try:
        return function(x)
    except ValueError:  # a pole
        return math.inf if function is math.lgamma or x == 0 else math.nan
    except OverflowError:
        return math.inf
