"""Where graphs begin: inputs, shared values, constants and filled arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config import config
from ..errors import ArgumentError, ArgumentTypeError
from ..graph import Apply, Constant, DisconnectedType, Op, SharedVariable, TensorType, Variable, as_array, as_variable
from .arithmetic import add, equal, multiply, subtract
from .dtypes import as_tensor, as_tensors
from .elementwise import cast, full_like, ones_like, zeros_like
from .shape import broadcast_to, expand_dims

PREFIXES = {
    "b": "int8", "w": "int16", "i": "int32", "l": "int64", "f": "float32", "d": "float64", "c": "complex64",
    "z": "complex128",
}  # fmt: skip
RANKS = ("scalar", "vector", "matrix", "row", "col", "tensor3", "tensor4", "tensor5")

__all__ = [
    "arange", "asarray", "constant", "empty_like", "eye", "full", "full_like", "identity", "linspace", "ones",
    "ones_like", "shared", "tensor", "zeros", "zeros_like",
    *RANKS, *(prefix + rank for prefix in PREFIXES for rank in RANKS),
]  # fmt: skip


# --- leaves -----------------------------------------------------------------------------------------------------------


def tensor(dtype: Any = None, shape: Sequence[int | None] = (), name: str | None = None) -> Variable:
    """A symbolic input. `shape` holds one length per axis, None where unknown; without `dtype` it is config.floatX."""
    return Variable(TensorType(dtype or config.floatX, tuple(shape)), name=name)


def scalar(name: str | None = None, dtype: Any = None) -> Variable:
    """A symbolic 0-d input, of dtype config.floatX unless given. (`dscalar` is float64, `iscalar` int32, and so on.)"""
    return tensor(dtype, (), name)


def vector(name: str | None = None, dtype: Any = None) -> Variable:
    """A symbolic 1-d input, of dtype config.floatX unless given. (`dvector` is float64, `ivector` int32, and so on.)"""
    return tensor(dtype, (None,), name)


def matrix(name: str | None = None, dtype: Any = None) -> Variable:
    """A symbolic 2-d input, of dtype config.floatX unless given. (`dmatrix` is float64, `imatrix` int32, and so on.)"""
    return tensor(dtype, (None, None), name)


def row(name: str | None = None, dtype: Any = None) -> Variable:
    """A symbolic input of shape (1, ?), of dtype config.floatX unless given."""
    return tensor(dtype, (1, None), name)


def col(name: str | None = None, dtype: Any = None) -> Variable:
    """A symbolic input of shape (?, 1), of dtype config.floatX unless given."""
    return tensor(dtype, (None, 1), name)


def tensor3(name: str | None = None, dtype: Any = None) -> Variable:
    """A symbolic 3-d input, of dtype config.floatX unless given."""
    return tensor(dtype, (None,) * 3, name)


def tensor4(name: str | None = None, dtype: Any = None) -> Variable:
    """A symbolic 4-d input, of dtype config.floatX unless given."""
    return tensor(dtype, (None,) * 4, name)


def tensor5(name: str | None = None, dtype: Any = None) -> Variable:
    """A symbolic 5-d input, of dtype config.floatX unless given."""
    return tensor(dtype, (None,) * 5, name)


def _of_dtype(rank: str, dtype: str, public_name: str) -> Callable[..., Variable]:
    def construct(name: str | None = None) -> Variable:
        return globals()[rank](name, dtype)

    construct.__name__ = construct.__qualname__ = public_name
    construct.__doc__ = f"`{rank}` of dtype {dtype}."
    return construct


for _rank in RANKS:
    for _prefix, _dtype in PREFIXES.items():
        globals()[_prefix + _rank] = _of_dtype(_rank, _dtype, _prefix + _rank)


def shared(value: Any, name: str | None = None, dtype: Any = None) -> SharedVariable:
    """A variable with a value of its own (a copy of `value`) that functions read and `updates` replace.

    Arrays keep their dtype; Python floats and lists of them become config.floatX, unless `dtype` says otherwise. The
    rank is fixed and lengths are free: `set_value` takes any lengths.
    """
    if isinstance(value, Variable):
        raise ArgumentTypeError(f"shared needs a value, got the symbolic {value!r}; evaluate it first")
    array = as_array(value)
    weak = array.dtype.kind == "f" and not hasattr(value, "dtype")
    kind = TensorType(dtype or (config.floatX if weak else array.dtype), (None,) * array.ndim)
    return SharedVariable(array.astype(kind.dtype), kind, name)


def asarray(value: Any, dtype: Any = None) -> Variable:
    """`value` as a variable: variables as they are, anything else as a constant of NumPy's dtype (floats: float64)."""
    if isinstance(value, Variable):
        return value if dtype is None else cast(value, dtype)
    return as_variable(value, dtype)


def constant(value: Any, name: str | None = None, dtype: Any = None) -> Constant:
    """A constant with the dtype that NumPy gives `value`, unless `dtype` says otherwise."""
    if isinstance(value, Variable) and not isinstance(value, Constant):
        raise ArgumentTypeError(f"constant needs a value, got the symbolic {value!r}")
    return Constant(value.data if isinstance(value, Constant) else value, dtype, name)


# --- filled arrays ----------------------------------------------------------------------------------------------------


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Variable:
    """An array of `shape` (integers or integer variables) filled with `fill_value`; NumPy's dtype unless given."""
    return broadcast_to(asarray(fill_value, dtype), shape)


def zeros(shape: Any, dtype: Any = "float64") -> Variable:
    """An array of `shape` (integers or integer variables) filled with zeros; float64 unless given, as in NumPy."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = "float64") -> Variable:
    """An array of `shape` (integers or integer variables) filled with ones; float64 unless given, as in NumPy."""
    return full(shape, 1, dtype)


def empty_like(x: Any, dtype: Any = None) -> Variable:
    """Zeros of the shape and dtype of `x`: symbolic arrays are never uninitialised."""
    return zeros_like(x, dtype)


@dataclass(frozen=True)
class Arange(Op):
    """start, start + step, ... below stop: x_k = start + k step. `stop` only decides the length."""

    dtype: str

    formula = "(sum(g), disconnected, sum(k g_k))"

    def make_node(self, start: Any, stop: Any, step: Any) -> Apply:
        inputs = [as_variable(v) for v in (start, stop, step)]
        if any(v.ndim for v in inputs):
            raise ArgumentTypeError(f"arange: start, stop and step are scalars, got {[str(v.type) for v in inputs]}")
        return Apply(self, inputs, [TensorType(self.dtype, (None,))])

    def perform(self, start, stop, step):
        if step == 0:
            raise ArgumentError("arange: the step is zero")
        return np.arange(start, stop, step, dtype=self.dtype)

    def grad(self, inputs, output_grads):
        from .reduce import sum as total

        g = output_grads[0]
        k = Arange(g.dtype)(0, g.shape[0], 1)
        return [total(g), DisconnectedType()(), total(multiply(g, k))]

    def connection_pattern(self, node):
        return [[True], [False], [True]]

    def infer_shape(self, node, shapes, values):
        if any(v is None for v in values) or values[2] == 0:
            return None
        start, stop, step = values
        if TensorType(self.dtype).is_discrete:
            return [(len(range(int(start), int(stop), int(step))),)]
        return [(max(0, int(np.ceil((stop - start) / step))),)]


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Variable:
    """Evenly spaced values in [start, stop), as NumPy's. The gradient to `start` and `step` is theirs; `stop` only
    decides the length."""
    if stop is None:
        start, stop = 0, start
    if not any(isinstance(v, Variable) for v in (start, stop, step)):
        if step == 0:
            raise ArgumentError("arange: the step is zero")
        return Constant(np.arange(start, stop, step, dtype=dtype))
    inputs = as_tensors([start, stop, step])
    meet = dtype or add(add(*inputs[:2]), inputs[2]).dtype
    return Arange(TensorType(meet).dtype)(*inputs)


def linspace(start: Any, stop: Any, num: int = 50, dtype: Any = None) -> Variable:
    """`num` evenly spaced values from `start` to `stop`, both included; differentiable in both."""
    if num < 0:
        raise ArgumentError(f"linspace: num={num}; expected at least 0")
    if not any(isinstance(v, Variable) for v in (start, stop)):
        return Constant(np.linspace(start, stop, num, dtype=dtype))
    start, stop = as_tensors([start, stop])
    t = np.linspace(0.0, 1.0, num, dtype=start.dtype if start.type.is_float else config.floatX)
    t = t.reshape(num, *[1] * max(start.ndim, stop.ndim))
    values = add(multiply(start, 1 - t), multiply(stop, t))  # exact at both ends
    return values if dtype is None else cast(values, dtype)


def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = "float64") -> Variable:
    """Ones on diagonal number `k` of an (N, M) matrix of zeros; N, M and k are integers or integer variables."""
    M = N if M is None else M
    if not any(isinstance(v, Variable) for v in (N, M, k)):
        return Constant(np.eye(N, M, k, dtype=dtype))
    rows, columns = expand_dims(arange(as_tensor(N)), 1), expand_dims(arange(as_tensor(M)), 0)
    return cast(equal(subtract(columns, rows), k), dtype)


def identity(n: Any, dtype: Any = "float64") -> Variable:
    """The n x n identity matrix."""
    return eye(n, dtype=dtype)
