"""What the backward walk gives beside `grad`: products with Jacobians from either side, Jacobians, Hessians, cuts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DisconnectedInputError,
    NotImplementedGradientError,
    UndefinedGradientError,
)
from ..graph import (
    Apply,
    Constant,
    DisconnectedType,
    NonAnswer,
    TensorType,
    UndefinedType,
    Variable,
    as_variable,
    clone_replace,
    gradient_of,
    toposort,
)
from ..ops.arithmetic import add
from ..ops.creation import eye
from ..ops.elementwise import cast, zeros_like
from ..ops.gradient_views import View
from ..ops.shape import length, reshape, size_of
from .engine import Walk, Wrt, check_answers, check_wrt, conform, grad, gradient_dtype, pull_back
from .explain import place
from .rows import apply_to_each_row
from .stable import with_stable_forms

Vectors = Any  # a variable or array, or as many of them as there are variables


def vjp(
    f: Wrt,
    wrt: Wrt,
    cotangents: Vectors,
    *,
    consider_constant: Iterable[Variable] = (),
    disconnected_inputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """`cotangents` times the Jacobian of `f`: what `grad` would be if they were the gradients with respect to `f`.

    Args:
        f: a variable, or several.
        wrt: a variable, list or tuple; the result mirrors it.
        cotangents: for each `f` a float variable or array of its shape.
        consider_constant, disconnected_inputs, return_disconnected: as in `grad`.

    Theano calls it Lop.
    """
    results = _variables("vjp", f)
    vectors = _vectors("vjp", "cotangent", results, cotangents)
    return pull_back(
        results, vectors, wrt, consider_constant=consider_constant, disconnected_inputs=disconnected_inputs,
        return_disconnected=return_disconnected,
    )  # fmt: skip


def jvp(f: Wrt, wrt: Wrt, tangents: Vectors, *, disconnected_outputs: str = "raise") -> Any:
    """The Jacobian of `f` times `tangents`: how `f` moves when `wrt` moves along them.

    Goes forward, node by node: an op may define `R_op(inputs, tangents)` (with None for an input that doesn't move; it
    returns a tangent or None per output), else its gradient rule, which is linear in the cotangent, is transposed.

    Args:
        f: a variable, list or tuple; the result mirrors it.
        wrt: a variable, or several.
        tangents: for each `wrt` a float variable or array of its shape.
        disconnected_outputs: "raise" DisconnectedInputError where an `f` depends on no `wrt`, or "ignore": zeros.

    Theano calls it Rop.
    """
    if disconnected_outputs not in ("raise", "ignore"):
        raise ArgumentError(f"jvp: disconnected_outputs={disconnected_outputs!r}; expected 'raise' or 'ignore'")
    results = _variables("jvp", f)
    targets = check_wrt(wrt)
    moves: dict[Variable, Variable] = {}
    for x, t in zip(targets, _vectors("jvp", "tangent", targets, tangents)):
        moves[x] = add(moves[x], t) if x in moves else t
    order, stands_for = with_stable_forms(toposort(results), targets)
    dummies: dict[Variable, Variable] = {}
    for node in order:
        if any(x in moves and not x.type.is_discrete for x in node.inputs):
            for v, t in zip(node.outputs, _push(node, moves, dummies)):
                v = stands_for.get(v, v)
                if t is not None:
                    moves[v] = add(moves[v], t) if v in moves else t
    found = []
    for v in results:
        if v not in moves and disconnected_outputs == "raise":
            names = ", ".join(map(repr, targets))
            raise DisconnectedInputError(f"jvp: {v!r} doesn't depend differentiably on {names}; see pb.explain")
        found.append(moves[v] if v in moves else zeros_like(v, gradient_dtype(v)))
    return _mirror(f, clone_replace(found, dummies))


def _push(
    node: Apply, moves: Mapping[Variable, Variable], dummies: dict[Variable, Variable]
) -> Sequence[Variable | None]:
    """Tangents of a node's outputs; None for those that don't move."""
    pattern = node.connection_pattern()
    moving = [i for i, x in enumerate(node.inputs) if x in moves and any(pattern[i])]
    reached = [any(pattern[i][j] for i in moving) for j in range(len(node.outputs))]
    if not any(reached):
        return [None] * len(node.outputs)
    if hasattr(node.op, "R_op"):
        found = node.op.R_op(node.inputs, [moves[x] if i in moving else None for i, x in enumerate(node.inputs)])
        return [t if r and t is not None and isinstance(t.type, TensorType) else None for t, r in zip(found, reached)]
    with gradient_of(node):
        asked = [Variable(TensorType(gradient_dtype(v), v.type.shape)) for v in node.outputs]
        given = [u if r else zeros_like(v, u.dtype) for u, v, r in zip(asked, node.outputs, reached)]
        answers = check_answers(node, node.op.L_op(node.inputs, node.outputs, given))
        seeds: dict[Variable, Variable] = {}
        for i in moving:
            x, answer = node.inputs[i], answers[i]
            if isinstance(answer.type, NonAnswer):
                kind = UndefinedGradientError if isinstance(answer.type, UndefinedType) else NotImplementedGradientError
                what = f"{node.op} at {place(node.origin)} has no formula for its input {i}"
                raise kind(f"jvp: {what} ({answer.type}): {answer.type.why}")
            if not isinstance(answer.type, DisconnectedType):
                seeds[View()(conform(node, i, answer))] = moves[x]
        if not seeds:
            return [None] * len(node.outputs)
        walk = Walk(seeds, asked, [*node.inputs, *node.outputs])
        found = [walk.gradient(u) for u in asked]
        dummies.update((u, zeros_like(v, u.dtype)) for u, v in zip(asked, node.outputs))
        zeros = [zeros_like(v, u.dtype) if r else None for u, v, r in zip(asked, node.outputs, reached)]
        return [t if isinstance(t.type, TensorType) else z for t, z in zip(found, zeros)]


def jacobian(
    expression: Variable,
    wrt: Wrt,
    *,
    consider_constant: Iterable[Variable] = (),
    disconnected_inputs: str = "raise",
) -> Any:
    """All derivatives of all elements of `expression`: for each `wrt` an array of shape `expression.shape + wrt.shape`.

    One backward pass per element of `expression`; the forward pass runs once. Differentiable again.

    Args:
        expression: a float variable of any rank.
        wrt: a variable, list or tuple; the result mirrors it.
        consider_constant, disconnected_inputs: as in `grad`; where disconnected inputs are ignored, zeros.
    """
    (expression,) = _variables("jacobian", expression)
    targets = check_wrt(wrt)
    row = Variable(TensorType(gradient_dtype(expression), expression.type.shape))
    terms = vjp(
        expression, targets, row, consider_constant=consider_constant, disconnected_inputs=disconnected_inputs
    )
    sizes = [length(expression, a) for a in range(expression.ndim)]
    count = size_of(expression, range(expression.ndim))
    basis = reshape(eye(count, dtype=row.dtype), [count, *sizes])
    blocks = apply_to_each_row(terms, row, basis)
    return _mirror(
        wrt, [reshape(b, [*sizes, *(length(x, a) for a in range(x.ndim))]) for b, x in zip(blocks, targets)]
    )


def hessian(cost: Variable, wrt: Wrt, *, consider_constant: Iterable[Variable] = ()) -> Any:
    """Second derivatives of a scalar `cost`: for each `wrt` its own block, of shape `wrt.shape + wrt.shape`.

    Where the cost is linear or doesn't depend on a variable, the block is zero. For the mixed blocks of several
    variables take `jacobian(grad(cost, x), y)`.
    """
    constant = list(consider_constant)
    blocks = [
        jacobian(
            grad(cost, x, consider_constant=constant, disconnected_inputs="ignore"), x, consider_constant=constant,
            disconnected_inputs="ignore",
        )
        for x in check_wrt(wrt)
    ]  # fmt: skip
    return _mirror(wrt, blocks)


def hvp(cost: Variable, wrt: Wrt, vectors: Vectors, *, consider_constant: Iterable[Variable] = ()) -> Any:
    """The Hessian of a scalar `cost` (mixed blocks included) times `vectors`, without forming it; mirrors `wrt`.

    Args:
        cost: a 0-d float variable.
        wrt: a variable, list or tuple.
        vectors: for each `wrt` a float variable or array of its shape.
    """
    targets, constant = check_wrt(wrt), list(consider_constant)
    slopes = grad(cost, targets, consider_constant=constant, disconnected_inputs="ignore")
    found = vjp(slopes, targets, vectors, consider_constant=constant, disconnected_inputs="ignore")
    return _mirror(wrt, found)


def subgraph_grad(
    wrt: Sequence[Variable],
    end: Sequence[Variable],
    start: Mapping[Variable, Variable] | None = None,
    cost: Variable | None = None,
    details: bool = False,
) -> tuple[list[Variable], ...]:
    """Gradients in a part of a graph: from `start` and `cost` backwards, no further than the variables in `end`.

    Args:
        wrt: parameters inside the part.
        end: variables at which the walk ends.
        start: {variable: gradient that arrives there from elsewhere}.
        cost: a scalar inside the part.
        details: return also the two shares apart.

    Returns:
        (gradients of wrt, gradients of end), each the sum of what comes from `start` and from `cost`; zeros where
        nothing comes. With `details` also (shares from start, shares from cost), each for the wrt and then those of
        `end` that are not in `wrt`.
    """
    if start is None and cost is None:
        raise ArgumentError("subgraph_grad: give start, cost or both")
    for name, given in (("wrt", wrt), ("end", end)):
        if not isinstance(given, (list, tuple)):
            raise ArgumentTypeError(f"subgraph_grad: {name} must be a list of variables, got {type(given).__name__}")
    asked = list(dict.fromkeys([*wrt, *end]))

    def share(cost: Variable | None, known: Mapping[Variable, Variable] | None) -> list[Variable]:
        return grad(cost, asked, known_grads=known, consider_constant=end, disconnected_inputs="ignore")

    shares = [share(*pair) for pair in ((None, start), (cost, None)) if pair[0] is not None or pair[1]]
    totals = dict(zip(asked, (_sum(terms) for terms in zip(*shares))))
    result = [totals[v] for v in wrt], [totals[v] for v in end]
    if not details:
        return result
    none = [zeros_like(v, gradient_dtype(v)) for v in asked]
    return (*result, shares[0] if start else none, shares[-1] if cost is not None else none)


def _sum(terms: Sequence[Variable]) -> Variable:
    return terms[0] if len(terms) == 1 else add(*terms)


def _variables(name: str, given: Any) -> list[Variable]:
    found = [given] if isinstance(given, Variable) else list(given) if isinstance(given, (list, tuple)) else None
    if found is None:
        raise ArgumentTypeError(f"{name}: expected a variable, list or tuple, got {type(given).__name__}")
    for v in found:
        if not isinstance(v, Variable) or not isinstance(v.type, TensorType) or not v.type.is_float:
            kind = v.type if isinstance(v, Variable) else type(v).__name__
            raise ArgumentTypeError(f"{name}: can't differentiate {v!r} ({kind}); expected float variables")
    return found


def _vectors(name: str, what: str, of: Sequence[Variable], given: Any) -> list[Variable]:
    """One float vector of the rank and dtype of each variable in `of`."""
    vectors = list(given) if isinstance(given, (list, tuple)) and not _is_array_like(given, of) else [given]
    if len(vectors) != len(of):
        raise ArgumentTypeError(f"{name}: {len(of)} variables, but {len(vectors)} {what}s")
    found = []
    for v, u in zip(of, vectors):
        u = as_variable(u) if isinstance(u, Variable) else Constant(np.asarray(u, gradient_dtype(v)))
        if u.ndim != v.ndim or not (u.type.is_float or u.type.is_discrete):
            raise ArgumentTypeError(f"{name}: the {what} for {v!r} ({v.type}) is {u.type}; expected its rank, floats")
        found.append(cast(u, gradient_dtype(v)))
    return found


def _is_array_like(given: Sequence[Any], of: Sequence[Variable]) -> bool:
    """Whether a list is one vector as nested lists of numbers, not a list of vectors."""
    first = given[0] if given else 0
    return len(of) == 1 and not isinstance(first, Variable) and np.ndim(first) < of[0].ndim


def _mirror(like: Any, found: Sequence[Variable]) -> Any:
    if isinstance(like, Variable):
        return found[0]
    return tuple(found) if isinstance(like, tuple) else list(found)


Lop = vjp
Rop = jvp
