"""The leaves and edges of a graph: Variable, Constant, SharedVariable."""

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentTypeError, GraphError, PullbackError
from .type import TensorType, Type, as_array

if TYPE_CHECKING:
    from .op import Apply


class Variable:
    """A symbolic value. Identity is its equality: `x == y` asks whether both are the same variable.

    Attributes:
        type: what it can hold, e.g. `TensorType("float32", (None, 3))`.
        owner: the `Apply` node that computes it, or None for a leaf.
        index: which output of the owner it is.
        name: for messages and pictures.
    """

    __slots__ = ("type", "owner", "index", "name", "tag", "__weakref__")
    __array_priority__ = 1000
    __array_ufunc__ = None  # so that `array * variable` comes to Variable.__rmul__

    def __init__(self, type: Type, owner: "Apply | None" = None, index: int = 0, name: str | None = None) -> None:
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name

    @property
    def dtype(self) -> str:
        return self._tensor_type("dtype").dtype

    @property
    def ndim(self) -> int:
        return self._tensor_type("number of dimensions").ndim

    def _tensor_type(self, what: str) -> TensorType:
        if not isinstance(self.type, TensorType):
            raise GraphError(f"{self} is {self.type}: it has no {what}")
        return self.type

    def __bool__(self) -> bool:
        raise PullbackTruthError(
            f"{self} is symbolic: it has no truth value while the graph is built. "
            "Use pb.where or pb.ifelse to choose, pb.equal to compare values, `is` or `is None` to compare variables."
        )

    def __str__(self) -> str:
        """The name; inside `with eager()` also the value."""
        value = _eager_value(self)
        return repr(self) if value is None else f"{self!r} = {value}"

    def __repr__(self) -> str:
        if self.name:
            return self.name
        if self.owner is not None:
            suffix = f".{self.index}" if len(self.owner.outputs) > 1 else ""
            return f"{self.owner.op}{suffix}"
        return f"<{self.type}>"


def _eager_value(v: "Variable") -> np.ndarray | None:
    from .op import observer

    return None if observer.current is None else observer.current.get(v)


class PullbackTruthError(PullbackError, TypeError):
    """A symbolic value was used as a Python truth value."""


class Constant(Variable):
    """A variable whose value never changes. The array is read-only."""

    __slots__ = ("data",)

    def __init__(self, data: Any, dtype: str | None = None, name: str | None = None) -> None:
        array = as_array(data)
        array = np.array(array, dtype=dtype or array.dtype, order="C")
        array.flags.writeable = False
        super().__init__(TensorType(array.dtype.name, array.shape), name=name)
        self.data = array

    def __repr__(self) -> str:
        if self.name:
            return self.name
        if self.data.size <= 4:
            return np.array2string(self.data, threshold=4, precision=6).replace("\n", " ")
        return f"<constant {self.type}>"


class SharedVariable(Variable):
    """A variable with a value of its own that `function` can update. Make one with `pb.shared`.

    Attributes:
        default_update: an expression that replaces the value at every call of a function that depends on this variable
            and doesn't update it itself; None for none.
        version: counts the changes of the value.
    """

    __slots__ = ("_value", "lock", "default_update", "version")

    def __init__(self, value: np.ndarray, type: TensorType, name: str | None = None) -> None:
        super().__init__(type, name=name)
        self.lock = threading.RLock()
        self._value = aligned_copy(type.filter(value))
        self.default_update: Variable | None = None
        self.version = 0

    def get_value(self, borrow: bool = False) -> np.ndarray:
        """The value now: a copy, or with `borrow=True` a read-only view that later updates may write through."""
        with self.lock:
            if not borrow:
                return self._value.copy()
            view = self._value.view()
            view.flags.writeable = False
            return view

    def set_value(self, value: Any) -> None:
        """Replace the value; dtype, rank and known lengths must fit the variable's type."""
        array = aligned_copy(self.type.filter(value))
        self.replace_storage(array)

    @property
    def storage(self) -> np.ndarray:
        """The live array, for the machinery that runs graphs."""
        return self._value

    def replace_storage(self, array: np.ndarray) -> None:
        """Take over `array` as the value, for the machinery that commits updates."""
        with self.lock:
            self._value = array
            self.version += 1


ALIGNMENT = 64  # bytes: a whole cache line and the widest vector register


def aligned_empty(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An uninitialised C-contiguous array whose first element lies on a cache line."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, raw, offset=-raw.__array_interface__["data"][0] % ALIGNMENT)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    copy = aligned_empty(array.shape, array.dtype.name)
    copy[...] = array
    return copy


def as_variable(value: Any, dtype: str | None = None) -> Variable:
    """`value` itself if it is a Variable, else a Constant of it (Python floats take `dtype`, or NumPy's float64)."""
    if isinstance(value, Variable):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(v, Variable) for v in value):
        raise ArgumentTypeError("a list that holds variables is no tensor; use pb.stack or pb.concatenate")
    return Constant(value, dtype)
