"""Operators and methods of Variable: the NumPy face of a symbolic array. Installed when `pullback.ops` is imported."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import ArgumentTypeError
from ..graph import Variable
from . import arithmetic as a
from .elementwise import cast
from .shape import Shape, length, reshape, shape, size, swapaxes, transpose

BINARY = {
    "add": a.add, "sub": a.subtract, "mul": a.multiply, "truediv": a.divide, "pow": a.power, "mod": a.mod,
    "floordiv": a.floor_divide, "and": a.bitwise_and, "or": a.bitwise_or, "xor": a.bitwise_xor,
}  # fmt: skip
COMPARISONS = {"lt": a.less, "le": a.less_equal, "gt": a.greater, "ge": a.greater_equal}
UNARY = {"neg": a.negative, "abs": a.abs, "invert": a.invert}
METHODS = (
    "all any argmax argmin argsort clip cumprod cumsum diagonal dot flatten max mean min prod ravel repeat round sort "
    "squeeze std sum swapaxes take trace var"
).split()


def _install(name: str, function: Callable[..., Any]) -> None:
    function.__name__, function.__qualname__ = name, f"Variable.{name}"
    setattr(Variable, name, function)


def _operator(name: str, op: Callable[..., Variable]) -> None:
    _install(f"__{name}__", lambda self, other: op(self, other))


def _reflected(name: str, op: Callable[..., Variable]) -> None:
    _install(f"__r{name}__", lambda self, other: op(other, self))


def _method(name: str) -> None:
    def method(self: Variable, *args: Any, **options: Any) -> Variable:
        return getattr(sys.modules[__package__], name)(self, *args, **options)

    method.__doc__ = f"`pb.{name}` of this variable."
    _install(name, method)


def _matmul(x: Any, y: Any) -> Variable:
    from .linear import matmul

    return matmul(x, y)


for _name, _op in BINARY.items():
    _operator(_name, _op)
    _reflected(_name, _op)
for _name, _op in COMPARISONS.items():
    _operator(_name, _op)
for _name, _op in UNARY.items():
    _install(f"__{_name}__", lambda self, op=_op: op(self))
for _name in METHODS:
    _method(_name)
_operator("matmul", _matmul)
_reflected("matmul", _matmul)
_install("__pos__", lambda self: self)


# --- indexing and iteration -------------------------------------------------------------------------------------------


def _getitem(self: Variable, key: Any) -> Variable:
    """`x[key]`, by NumPy's rules for integers, slices, ellipsis, None, integer and boolean arrays; see `pb.index`."""
    owner = self.owner
    if type(key) is int and owner is not None and isinstance(owner.op, Shape) and -_len(self) <= key < _len(self):
        return length(owner.inputs[0], key)
    from .indexing import index

    return index(self, key)


def _iter(self: Variable) -> Iterator[Variable]:
    """The slices along the first axis, whose length must be known."""
    return (self[i] for i in range(_len(self)))


def _len(self: Variable) -> int:
    if self.ndim == 0:
        raise ArgumentTypeError(f"{self!r} is a scalar: it has no length and can't be iterated over")
    known = self.type.shape[0]
    if known is None:
        raise ArgumentTypeError(
            f"the length of {self!r} ({self.type}) is unknown while the graph is built: "
            "x.shape[0] is the symbolic length, and pb.scan loops over the first axis"
        )
    return known


def _array(self: Variable, *args: Any, **options: Any) -> Any:
    raise ArgumentTypeError(f"{self!r} is symbolic: it has no array until it is evaluated; x.eval() does that")


def _contains(self: Variable, value: Any) -> bool:
    raise ArgumentTypeError(f"`in` needs values, and {self!r} is symbolic: use pb.equal(x, value).any()")


_install("__getitem__", _getitem)
_install("__iter__", _iter)
_install("__len__", _len)
_install("__array__", _array)
_install("__contains__", _contains)


# --- NumPy's functions called on variables ----------------------------------------------------------------------------

RENAMED = {
    "absolute": "abs", "amax": "max", "amin": "min", "bitwise_not": "invert", "degrees": "rad2deg", "fabs": "abs",
    "radians": "deg2rad", "remainder": "mod", "round_": "round", "true_divide": "divide",
}  # fmt: skip


def _op_named(function: Any) -> Callable[..., Any]:
    """The op that means what a NumPy function means."""
    name = RENAMED.get(function.__name__, function.__name__)
    module = getattr(function, "__module__", None) or "numpy"
    ops = sys.modules[__package__]
    namespace = ops.linalg if module == "numpy.linalg" else ops
    op = getattr(namespace, name) if name in namespace.__all__ else None
    if op is None:
        raise ArgumentTypeError(f"{module}.{function.__name__} of a symbolic variable: pullback has no such op")
    return op


def _array_ufunc(self: Variable, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """`np.tanh(x)`, `array * x`: the op of that name."""
    if method != "__call__" or options:
        raise ArgumentTypeError(f"np.{ufunc.__name__} of a symbolic variable takes no {', '.join(options) or method}")
    return _op_named(ufunc)(*inputs)


def _array_function(self: Variable, function: Any, types: Any, args: Any, options: Any) -> Any:
    """`np.sum(x, axis=0)`, `np.concatenate([x, y])`: the op of that name."""
    return _op_named(function)(*args, **options)


_install("__array_ufunc__", _array_ufunc)
_install("__array_function__", _array_function)


# --- shape and type ---------------------------------------------------------------------------------------------------


def _reshape(self: Variable, *sizes: Any) -> Variable:
    """The elements in C order under a new shape: `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
    return reshape(self, sizes[0] if len(sizes) == 1 else sizes)


def _transpose(self: Variable, *axes: Any) -> Variable:
    """Axes permuted, by default reversed: `x.transpose(1, 0)` or `x.transpose((1, 0))`."""
    if not axes or axes == (None,):
        return transpose(self)
    return transpose(self, axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes)


def _astype(self: Variable, dtype: Any) -> Variable:
    """The same numbers in another dtype."""
    return cast(self, dtype)


_install("reshape", _reshape)
_install("transpose", _transpose)
_install("astype", _astype)
Variable.T = property(transpose, doc="The axes reversed.")
Variable.mT = property(lambda self: swapaxes(self, -1, -2), doc="The last two axes exchanged.")
Variable.shape = property(shape, doc="The shape as an int64 vector; `x.shape[i]` is an integer scalar.")
Variable.size = property(size, doc="The number of elements as an integer scalar.")
