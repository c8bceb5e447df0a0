"""Transforms of plain functions: `jit` and `value_and_grad`, over nested containers of arrays."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config import config
from ..errors import ArgumentError, ArgumentTypeError
from ..gradient import grad
from ..graph import Constant, SharedVariable, TensorType, Variable, as_array, as_variable
from .function import Function, function

TRACES_KEPT = 64


@dataclass(frozen=True)
class Tree:
    """The structure of nested containers: what is left when the leaves are taken out."""

    kind: Any
    keys: tuple[Any, ...]
    children: tuple["Tree", ...]

    def build(self, leaves: list[Any]) -> Any:
        """The containers again, around `leaves` (consumed from the front)."""
        if self.kind is None:
            return leaves.pop(0)
        values = [child.build(leaves) for child in self.children]
        if self.kind is dict:
            return dict(zip(self.keys, values))
        if hasattr(self.kind, "_fields"):
            return self.kind(*values)
        return self.kind(values)


LEAF = Tree(None, (), ())


def flatten_tree(value: Any) -> tuple[list[Any], Tree]:
    """(leaves, structure) of nested dicts, lists, tuples and named tuples; anything else is a leaf."""
    if isinstance(value, dict):
        keys = tuple(value)
        parts = [flatten_tree(value[k]) for k in keys]
        kind: Any = dict
    elif isinstance(value, (list, tuple)):
        keys = ()
        parts = [flatten_tree(v) for v in value]
        kind = type(value)
    else:
        return [value], LEAF
    return [leaf for leaves, _ in parts for leaf in leaves], Tree(kind, keys, tuple(tree for _, tree in parts))


class Traced:
    """A plain function, turned into a graph once per structure, dtypes and shapes of its arguments, and compiled.

    Called with symbolic arguments it just builds the expression, so transforms nest.
    """

    def __init__(self, f: Callable[..., Any], build: Callable[[Any, list[Variable], Tree], Any]) -> None:
        functools.update_wrapper(self, f, updated=())
        self._f = f
        self._build = build
        self._traces: OrderedDict[Any, tuple[Function, Tree]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten_tree((args, kwargs))
        if any(isinstance(x, Variable) for x in leaves):
            return self._build(self._f, [as_variable(x) for x in leaves], tree)
        arrays = [_as_argument(x) for x in leaves]
        key = (tree, config.floatX, config.backend, *((a.dtype.name, a.shape) for a in arrays))
        with self._lock:
            found = self._traces.get(key)
            if found is not None:
                self._traces.move_to_end(key)
        if found is None:
            found = self._trace(arrays, tree)
            with self._lock:
                self._traces[key] = found
                if len(self._traces) > TRACES_KEPT:
                    self._traces.popitem(last=False)
        compiled, result_tree = found
        return result_tree.build(list(compiled(*arrays)))

    def _trace(self, arrays: Sequence[np.ndarray], tree: Tree) -> tuple[Function, Tree]:
        variables = [Variable(TensorType(a.dtype.name, a.shape)) for a in arrays]
        outputs, result_tree = flatten_tree(self._build(self._f, variables, tree))
        expressions = [as_variable(v) for v in outputs]
        name = getattr(self._f, "__name__", "function")
        return function(variables, expressions, on_unused_input="ignore", name=name), result_tree


def jit(f: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a plain function of arrays.

    `f` is called once with symbolic arrays for each new combination of container structure, dtypes and shapes, and
    what it computes is compiled. It may use pullback's functions, operators and NumPy's functions; Python control flow
    on *values* is not possible (pb.where, pb.ifelse, pb.scan). Arguments and results may be nested dicts, lists, tuples
    and named tuples of arrays and numbers.

    Example:
        >>> import numpy as np, pullback as pb
        >>> norm = pb.jit(lambda p: pb.sqrt(p["x"] ** 2 + p["y"] ** 2))
        >>> norm({"x": np.float32(3), "y": np.float32(4)})
        array(5., dtype=float32)
    """
    _check_callable("jit", f)

    def build(f: Callable[..., Any], leaves: list[Variable], tree: Tree) -> Any:
        args, kwargs = tree.build(list(leaves))
        return f(*args, **kwargs)

    return Traced(f, build)


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns `(value, gradient)` of a scalar function of arrays.

    Args:
        f: returns a scalar, or with `has_aux` a pair (scalar, anything else).
        argnums: which positional argument to differentiate with respect to, or several (the gradient is then a tuple).
            Each gradient has the structure, shapes and dtypes of its argument.

    Example:
        >>> import numpy as np, pullback as pb
        >>> f = pb.value_and_grad(lambda w, x: pb.tanh(x @ w).sum())
        >>> value, g = f(np.zeros((3, 2), "float32"), np.ones((4, 3), "float32"))
        >>> g.shape
        (3, 2)
    """
    _check_callable("value_and_grad", f)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def build(f: Callable[..., Any], leaves: list[Variable], tree: Tree) -> Any:
        args, kwargs = tree.build(list(leaves))
        if not all(-len(args) <= n < len(args) for n in numbers):
            raise ArgumentError(f"value_and_grad: argnums={argnums}, but the call has {len(args)} positional arguments")
        result = f(*args, **kwargs)
        cost, aux = result if has_aux else (result, None)
        wrt = [flatten_tree(args[n]) for n in numbers]
        grads = iter(grad(as_variable(cost), [v for leaves, _ in wrt for v in leaves], disconnected_inputs="ignore"))
        answers = tuple(structure.build([next(grads) for _ in leaves]) for leaves, structure in wrt)
        found = answers[0] if isinstance(argnums, int) else answers
        return ((cost, aux), found) if has_aux else (cost, found)

    return Traced(f, build)


def _as_argument(value: Any) -> np.ndarray:
    if isinstance(value, (SharedVariable, Constant)):
        raise ArgumentTypeError("a traced function takes arrays, not shared variables; use pb.function for those")
    array = as_array(value)
    if isinstance(value, float):
        return array.astype(config.floatX)
    if array.dtype.kind not in "biufc":
        raise ArgumentTypeError(f"expected arrays or numbers, got {type(value).__name__}: {value!r}")
    return array


def _check_callable(name: str, f: Any) -> None:
    if not callable(f):
        raise ArgumentTypeError(f"{name} takes a function, got {type(f).__name__}; for expressions use pb.function")
