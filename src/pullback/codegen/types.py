"""The types of the kernel language: scalars, pointers, type parameters, and the vectors that expressions make.

Conversions that can lose value are always written out (`f32(n)`); those that can't (`f32` to `f64`, `i32` to `i64`,
`i8` to `f32` ...) happen by themselves. Literals adapt to what stands beside them.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


class Problem(Exception):
    """Something wrong inside a kernel; whoever knows file and line turns it into a `KernelError`."""


@dataclass(frozen=True)
class Scalar:
    """A machine number. `f32(x)` inside a kernel converts x."""

    name: str
    kind: str  # "float", "signed", "unsigned", "bool"
    bits: int
    llvm: str  # as a value in a register
    stored: str  # as an element in memory

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of an array of these."""
        return np.dtype(_NUMPY_NAMES[self.name])

    @property
    def size(self) -> int:
        """Bytes of one element in memory."""
        return max(self.bits, 8) // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def range(self) -> tuple[int, int]:
        """Least and greatest value of an integer type."""
        if self.kind == "signed":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def __call__(self, value: Any) -> Any:
        return self.dtype.type(value)

    def __repr__(self) -> str:
        return self.name


_NUMPY_NAMES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bool_": "bool",
    "i8": "int8", "i32": "int32", "i64": "int64", "u8": "uint8", "u32": "uint32", "u64": "uint64",
}  # fmt: skip

f16 = Scalar("f16", "float", 16, "half", "half")  # storage only: loads give f32
f32 = Scalar("f32", "float", 32, "float", "float")
f64 = Scalar("f64", "float", 64, "double", "double")
i8 = Scalar("i8", "signed", 8, "i8", "i8")
i32 = Scalar("i32", "signed", 32, "i32", "i32")
i64 = Scalar("i64", "signed", 64, "i64", "i64")
u8 = Scalar("u8", "unsigned", 8, "i8", "i8")
u32 = Scalar("u32", "unsigned", 32, "i32", "i32")
u64 = Scalar("u64", "unsigned", 64, "i64", "i64")
bool_ = Scalar("bool_", "bool", 1, "i1", "i8")

SCALARS = {t.name: t for t in (f16, f32, f64, i8, i32, i64, u8, u32, u64, bool_)}
BY_DTYPE = {t.dtype: t for t in SCALARS.values()}


@dataclass(frozen=True, eq=False)
class TypeParameter:
    """A type that `specialise` or a call fills in, so that one source serves several element types."""

    name: str

    def __call__(self, value: Any) -> Any:
        raise TypeError(f"{self.name}(...) has a meaning only inside a kernel, where {self.name} is a known type")

    def __repr__(self) -> str:
        return self.name


T = TypeParameter("T")


@dataclass(frozen=True)
class Pointer:
    """The address of the first of many elements. `ptr(i32)(p)` inside a kernel reads the bytes at p as another type."""

    element: Any  # Scalar or TypeParameter

    llvm = "ptr"

    def __repr__(self) -> str:
        return f"ptr({self.element})"


@dataclass(frozen=True)
class Vector:
    """VL values of one type, held in registers. Never written by the user: loads inside `vrange` make them."""

    element: Scalar

    def __repr__(self) -> str:
        return f"vector of {self.element}"


def ptr(element: Any) -> Pointer:
    """The type of a pointer to `element` (a scalar type or a type parameter)."""
    if not isinstance(element, Scalar | TypeParameter):
        raise TypeError(f"ptr(...) takes a scalar type such as f32, or a type parameter, not {element!r}")
    return Pointer(element)


def element_of(kind: Any) -> Any:
    """The element type of a vector; any other type itself."""
    return kind.element if isinstance(kind, Vector) else kind


def widens(source: Scalar, target: Scalar) -> bool:
    """Whether every value of `source` is exactly a value of `target`, so that no conversion need be written."""
    if source == target:
        return True
    if "bool" in (source.kind, target.kind):
        return False
    if target.is_float:
        mantissa = {16: 11, 32: 24, 64: 53}[target.bits]
        return source.bits < target.bits if source.is_float else source.bits <= mantissa
    if source.is_float or (source.kind == "signed" and target.kind == "unsigned"):
        return False
    return source.bits < target.bits


def common_type(a: Scalar, b: Scalar) -> Scalar:
    """The type in which two typed values meet."""
    if widens(a, b):
        return b
    if widens(b, a):
        return a
    raise Problem(f"{a} and {b} don't mix: convert one of them, as in {_suggested(a, b)}(...)")


def _suggested(a: Scalar, b: Scalar) -> Scalar:
    if a.is_float != b.is_float:
        return a if a.is_float else b
    return max(a, b, key=lambda t: t.bits)


def neutral(op: str, element: Scalar) -> Any:
    """The value that a reduction doesn't notice."""
    if op == "Add":
        return 0.0 if element.is_float else 0
    if element.is_float:
        return -math.inf if op == "maximum" else math.inf
    return element.range[0 if op == "maximum" else 1]
