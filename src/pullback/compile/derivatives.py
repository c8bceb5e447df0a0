"""Derivatives of plain functions and of expressions, under the same names."""

from collections.abc import Callable, Sequence
from typing import Any

from .. import gradient
from ..errors import ArgumentError, ArgumentTypeError
from ..gradient import grad
from ..graph import Variable, as_variable
from .transforms import Traced, Tree, flatten_tree

Numbers = int | Sequence[int]


def jacobian(f: Any, wrt: Any = 0, **options: Any) -> Any:
    """All derivatives of all elements of a result.

    Of an expression: `jacobian(expression, wrt)`, for each variable in `wrt` an expression of shape
    `expression.shape + wrt.shape`; `consider_constant` and `disconnected_inputs` as in `grad`.

    Of a plain function: `jacobian(f, wrt=0)` is a function of the same arguments; `wrt` says which positional argument
    to differentiate with respect to, or which several. What it returns has the structure of the result of `f`, and in
    place of each array the structure of the argument, with arrays of shape `result.shape + argument.shape`.

    Example:
        >>> import numpy as np, pullback as pb
        >>> pb.jacobian(lambda x: x ** 2)(np.array([1.0, 3.0]))
        array([[2., 0.],
               [0., 6.]])
    """
    if _is_expression(f):
        return gradient.jacobian(f, wrt, **options)
    _check("jacobian", f, options)

    def build(f: Callable[..., Any], leaves: list[Variable], tree: Tree) -> Any:
        args, kwargs = tree.build(list(leaves))
        asked = Asked("jacobian", wrt, args)
        results, structure = flatten_tree(f(*args, **kwargs))
        rows = [gradient.jacobian(as_variable(v), asked.leaves, disconnected_inputs="ignore") for v in results]
        return structure.build([asked.structured(blocks) for blocks in rows])

    return Traced(f, build)


def hessian(f: Any, wrt: Any = 0, **options: Any) -> Any:
    """Second derivatives of a scalar.

    Of an expression: `hessian(cost, wrt)`, for each variable its own block, of shape `wrt.shape + wrt.shape`.

    Of a plain function: `hessian(f, wrt=0)` is a function of the same arguments. What it returns has the structure of
    the argument, and in place of each array that structure again: all blocks, the mixed ones too.

    Example:
        >>> import numpy as np, pullback as pb
        >>> pb.hessian(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    if _is_expression(f):
        return gradient.hessian(f, wrt, **options)
    _check("hessian", f, options)

    def build(f: Callable[..., Any], leaves: list[Variable], tree: Tree) -> Any:
        args, kwargs = tree.build(list(leaves))
        asked = Asked("hessian", wrt, args)
        slopes = grad(as_variable(f(*args, **kwargs)), asked.leaves, disconnected_inputs="ignore")
        rows = [gradient.jacobian(g, asked.leaves, disconnected_inputs="ignore") for g in slopes]
        return asked.structured([asked.structured(blocks) for blocks in rows])

    return Traced(f, build)


def hvp(f: Any, wrt: Any = 0, vectors: Any = None, **options: Any) -> Any:
    """The Hessian of a scalar times a vector, without forming the Hessian.

    Of an expression: `hvp(cost, wrt, vectors)`.

    Of a plain function: `hvp(f, wrt=0)` is a function of the same arguments and, as the last, the vector: it has the
    structure of the argument that `wrt` names (a tuple of such for several), and so has what is returned.

    Example:
        >>> import numpy as np, pullback as pb
        >>> pb.hvp(lambda x: (x ** 3).sum())(np.array([1.0, 2.0]), np.array([1.0, -1.0]))
        array([  6., -12.])
    """
    if _is_expression(f):
        return gradient.hvp(f, wrt, vectors, **options)
    _check("hvp", f, options, vectors)

    def build(f: Callable[..., Any], leaves: list[Variable], tree: Tree) -> Any:
        (*args, vector), kwargs = tree.build(list(leaves))
        asked = Asked("hvp", wrt, args)
        cost = as_variable(f(*args, **kwargs))
        return asked.structured(gradient.hvp(cost, asked.leaves, asked.matching(vector, "vector")))

    return Traced(f, build)


def vjp(f: Any, wrt: Any = 0, cotangents: Any = None, **options: Any) -> Any:
    """A vector times the Jacobian: backward mode.

    Of an expression or several: `vjp(expressions, wrt, cotangents)`, Theano's Lop.

    Of a plain function: `vjp(f, wrt=0)` is a function of the same arguments and, as the last, the cotangents, which
    have the structure of the result of `f`. It returns (the result of f, gradients in the structure of the argument).
    """
    if _is_expression(f):
        return gradient.vjp(f, wrt, cotangents, **options)
    _check("vjp", f, options, cotangents)

    def build(f: Callable[..., Any], leaves: list[Variable], tree: Tree) -> Any:
        (*args, cotangent), kwargs = tree.build(list(leaves))
        asked = Asked("vjp", wrt, args)
        value = f(*args, **kwargs)
        results, structure = flatten_tree(value)
        vectors = _of_structure("vjp", "cotangents", cotangent, structure)
        found = gradient.vjp([as_variable(v) for v in results], asked.leaves, vectors, disconnected_inputs="ignore")
        return value, asked.structured(found)

    return Traced(f, build)


def jvp(f: Any, wrt: Any = 0, tangents: Any = None, **options: Any) -> Any:
    """The Jacobian times a vector: forward mode.

    Of an expression or several: `jvp(expressions, wrt, tangents)`, Theano's Rop.

    Of a plain function: `jvp(f, wrt=0)` is a function of the same arguments and, as the last, the tangents, which have
    the structure of the argument that `wrt` names. It returns (the result of f, how that moves, in its structure).
    """
    if _is_expression(f):
        return gradient.jvp(f, wrt, tangents, **options)
    _check("jvp", f, options, tangents)

    def build(f: Callable[..., Any], leaves: list[Variable], tree: Tree) -> Any:
        (*args, tangent), kwargs = tree.build(list(leaves))
        asked = Asked("jvp", wrt, args)
        value = f(*args, **kwargs)
        results, structure = flatten_tree(value)
        vectors = asked.matching(tangent, "tangents")
        found = gradient.jvp([as_variable(v) for v in results], asked.leaves, vectors, disconnected_outputs="ignore")
        return value, structure.build(found)

    return Traced(f, build)


class Asked:
    """The arguments of a plain function that are differentiated with respect to.

    Attributes:
        leaves: the arrays in them, in order.
    """

    def __init__(self, name: str, numbers: Numbers, args: Sequence[Any]) -> None:
        self._name = name
        self._single = isinstance(numbers, int)
        chosen = (numbers,) if isinstance(numbers, int) else tuple(numbers)
        if not all(isinstance(n, int) and -len(args) <= n < len(args) for n in chosen):
            raise ArgumentError(f"{name}: wrt={numbers}, but the call has {len(args)} positional arguments")
        whole = args[chosen[0]] if self._single else tuple(args[n] for n in chosen)
        self.leaves, self._structure = flatten_tree(whole)

    def structured(self, found: Sequence[Any]) -> Any:
        """One result for each leaf, put together as the arguments are."""
        return self._structure.build(list(found))

    def matching(self, vectors: Any, what: str) -> list[Any]:
        """The arrays of `vectors`, which must have the structure of the arguments."""
        return _of_structure(self._name, what, vectors, self._structure)


def _of_structure(name: str, what: str, given: Any, structure: Tree) -> list[Any]:
    leaves, found = flatten_tree(given)
    if found != structure:
        raise ArgumentTypeError(f"{name}: the {what} have another structure of containers than what they belong to")
    return leaves


def _is_expression(f: Any) -> bool:
    return isinstance(f, Variable) or (isinstance(f, (list, tuple)) and not callable(f))


def _check(name: str, f: Any, options: dict[str, Any], vectors: Any = None) -> None:
    if not callable(f):
        raise ArgumentTypeError(f"{name} takes an expression or a function, got {type(f).__name__}")
    if vectors is not None:
        raise ArgumentTypeError(f"{name}: a plain function takes vectors when called: {name}(f)(*args, vectors)")
    if options:
        raise ArgumentTypeError(f"{name}: {', '.join(options)} belongs to expressions, not to plain functions")
