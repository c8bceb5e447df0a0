"""What a variable can hold: a tensor, or one of the answers "no gradient" gives instead of a value."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentTypeError, DTypeError, ShapeError

if TYPE_CHECKING:
    from .op import Op
    from .variable import Variable

StaticShape = tuple[int | None, ...]


class Type:
    """Base of all types; a type knows which values its variables take."""

    def filter(self, value: Any) -> Any:
        """Check `value`, convert it if that loses nothing, or raise."""
        raise ArgumentTypeError(f"a variable of type {self} holds no value")


@lru_cache(maxsize=256)
def dtype_name(dtype: Any) -> str | None:
    """NumPy's name of a dtype of numbers or booleans; None for others."""
    found = np.dtype(dtype)
    return found.name if found.kind in "biufc" else None


@dataclass(frozen=True)
class TensorType(Type):
    """An n-dimensional array: its dtype, and one length per axis (`None` where unknown until run time)."""

    dtype: str
    shape: StaticShape = ()

    def __post_init__(self) -> None:
        try:
            name = dtype_name(self.dtype)
        except TypeError:
            raise DTypeError(f"{self.dtype!r} is no dtype; expected e.g. 'float32', 'int64', 'bool'") from None
        if name is None:
            raise DTypeError(f"dtype {self.dtype}: a tensor holds numbers or booleans")
        object.__setattr__(self, "dtype", name)
        object.__setattr__(self, "shape", tuple(None if n is None else int(n) for n in self.shape))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")

    @property
    def is_discrete(self) -> bool:
        """Integers and booleans have no neighbourhood, so nothing differentiates through them."""
        return not self.dtype.startswith(("float", "complex"))

    def filter(self, value: Any) -> np.ndarray:
        """`value` as an array of this dtype, rank and shape.

        Anything with `__array__` or `__dlpack__` is accepted. Conversions that lose nothing are made (an integer that
        the dtype holds exactly, a Python number, float32 to float64); others raise.
        """
        array = value if isinstance(value, np.ndarray) else as_array(value)
        if array.dtype != self.dtype:
            array = self._convert(array, weak=not hasattr(value, "dtype"))
        if array.ndim != len(self.shape):
            raise ShapeError(f"expected {self.ndim} dimensions ({self}), got {array.ndim}: shape {array.shape}")
        for axis, (expected, found) in enumerate(zip(self.shape, array.shape)):
            if expected is not None and expected != found:
                raise ShapeError(f"expected length {expected} on axis {axis} ({self}), got shape {array.shape}")
        return array

    def _convert(self, array: np.ndarray, weak: bool) -> np.ndarray:
        target = np.dtype(self.dtype)
        if array.dtype.kind not in "biufc":
            raise DTypeError(f"expected numbers of dtype {self.dtype}, got an array of dtype {array.dtype}")
        if np.can_cast(array.dtype, target, "safe") or (weak and target.kind == "f" and array.dtype.kind in "biuf"):
            return array.astype(target)
        if array.dtype.kind in "iu" and target.kind in "iuf":
            converted = array.astype(target)
            if np.array_equal(converted.astype(array.dtype), array):
                return converted
        raise DTypeError(
            f"expected dtype {self.dtype}, got {array.dtype}; convert it yourself if that is meant: "
            f"x.astype({self.dtype!r})"
        )

    def accepts(self, other: "TensorType") -> bool:
        """Whether every value of type `other` is also a value of this type."""
        return (
            isinstance(other, TensorType)
            and self.dtype == other.dtype
            and self.ndim == other.ndim
            and all(n is None or n == m for n, m in zip(self.shape, other.shape))
        )

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join('?' if n is None else str(n) for n in self.shape)}]"


@dataclass(frozen=True)
class DisconnectedType(Type):
    """The answer "not a function of this input": `DisconnectedType()()` makes one."""

    def __call__(self) -> "Variable":
        from .variable import Variable

        return Variable(self)

    def __str__(self) -> str:
        return "disconnected"


@dataclass(frozen=True, eq=False)
class NonAnswer(Type):
    """Base of "there is a gradient in principle, but no formula": which op, which input, and why."""

    op: "Op"
    index: int
    why: str


@dataclass(frozen=True, eq=False)
class UndefinedType(NonAnswer):
    """The derivative does not exist mathematically."""

    def __str__(self) -> str:
        return "undefined"


@dataclass(frozen=True, eq=False)
class NotImplementedType(NonAnswer):
    """The derivative exists, but is not written here."""

    def __str__(self) -> str:
        return "not implemented"


def grad_undefined(op: "Op", index: int, x: "Variable", why: str) -> "Variable":
    """The answer "mathematically undefined" for input number `index` (the variable `x`) of `op`, and `why`."""
    from .variable import Variable

    return Variable(UndefinedType(op, index, why))


def grad_not_implemented(op: "Op", index: int, x: "Variable", why: str) -> "Variable":
    """The answer "exists, but is not implemented" for input number `index` (the variable `x`) of `op`."""
    from .variable import Variable

    return Variable(NotImplementedType(op, index, why))


def as_array(value: Any) -> np.ndarray:
    """`value` as a NumPy array; anything with `__array__` or `__dlpack__`, nested lists and numbers are accepted."""
    if hasattr(value, "__array__") or not hasattr(value, "__dlpack__"):
        try:
            return np.asarray(value)
        except ValueError as error:
            raise ArgumentTypeError(f"can't make an array of {type(value).__name__}: {error}") from None
    return np.from_dlpack(value)
