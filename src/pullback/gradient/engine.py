"""Reverse-mode differentiation of graphs: `grad` and the walk behind it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..config import config
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DisconnectedInputError,
    GraphError,
    NotImplementedGradientError,
    RuleError,
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
    gradient_of,
    toposort,
)
from ..ops.arithmetic import add
from ..ops.elementwise import cast, ones_like, sum_to, zeros_like

ANSWERS = (
    "a Variable (the formula), grad_undefined(op, i, x, why), grad_not_implemented(op, i, x, why) or DisconnectedType()()"
)
Wrt = Variable | Sequence[Variable]


def grad(
    cost: Variable | None,
    wrt: Wrt,
    *,
    known_grads: Mapping[Variable, Variable] | None = None,
    consider_constant: Iterable[Variable] = (),
    disconnected_inputs: str = "raise",
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
    add_names: bool = True,
) -> Any:
    """The gradient of a scalar `cost` with respect to one variable, or to each of a list or tuple.

    Args:
        cost: a 0-d float variable; None if `known_grads` starts the walk instead.
        wrt: a variable, list or tuple; the result mirrors it. Each gradient has its variable's shape and dtype.
        known_grads: gradients of the cost with respect to inner variables; each replaces what would be computed.
        consider_constant: variables above which nothing is differentiated (they themselves may be in `wrt`).
        disconnected_inputs: what to do where the cost is no function of a variable: "raise" DisconnectedInputError,
            "warn" and give `return_disconnected`, or "ignore".
        return_disconnected: what to give then: "zero" (zeros of its shape), "none" or "disconnected".
        null_gradients: "raise" where an undefined or unimplemented derivative is needed, or "return" the typed answer.
        add_names: name results "(d<cost>/d<wrt>)" if both have names.

    Raises:
        DisconnectedInputError, UndefinedGradientError, NotImplementedGradientError: with the chain of ops from `wrt` to
            `cost` and the place where it is cut. `explain(cost, wrt)` gives the same report without raising.

    Example:
        >>> import pullback as pb
        >>> x = pb.vector("x")
        >>> pb.grad((x ** 2).sum(), x).eval({x: [1.0, 2.0]})
        array([2., 4.], dtype=float32)
    """
    options = {
        "disconnected_inputs": (disconnected_inputs, ("raise", "warn", "ignore")),
        "return_disconnected": (return_disconnected, ("zero", "none", "disconnected")),
        "null_gradients": (null_gradients, ("raise", "return")),
    }
    for name, (given, choices) in options.items():
        if given not in choices:
            raise ArgumentError(f"grad: {name}={given!r}; expected one of {choices}")
    targets = _check_wrt(wrt)
    walk = Walk(_seeds(cost, known_grads), targets, consider_constant)
    results = []
    for x in targets:
        g = walk.gradient(x)
        if isinstance(g.type, DisconnectedType):
            g = _disconnected(walk, cost, x, disconnected_inputs, return_disconnected)
        elif isinstance(g.type, NonAnswer):
            if null_gradients == "raise":
                raise refusal(walk, cost, x, g)
        elif add_names and cost is not None and cost.name and x.name and g.name is None and g.owner is not None:
            g.name = f"(d{cost.name}/d{x.name})"
        results.append(g)
    if isinstance(wrt, Variable):
        return results[0]
    return tuple(results) if isinstance(wrt, tuple) else results


class Walk:
    """One backward walk: cotangents of every variable on a path from the targets to the seeds.

    Attributes:
        cuts: for each (node, input index) on the way whose rule gave no formula, the answer.
    """

    def __init__(
        self,
        seeds: Mapping[Variable, Variable],
        targets: Sequence[Variable],
        consider_constant: Iterable[Variable] = (),
    ) -> None:
        self.seeds = dict(seeds)
        self.blocked = _check_constants(consider_constant)
        self.terms: dict[Variable, list[Variable]] = {v: [g] for v, g in self.seeds.items()}
        self.sums: dict[Variable, Variable] = {}
        self.origin: dict[Variable, tuple[Apply, int]] = {}  # non-answer -> the node and input that gave it
        order = toposort(self.seeds, stop=self.blocked)
        self.on_path = _variables_that_need(targets, order)
        for node in reversed(order):
            self._visit(node)

    def gradient(self, x: Variable) -> Variable:
        """The sum of all terms that reached `x` (fan-out adds); a known gradient replaces it."""
        if x not in self.sums:
            terms = [self.seeds[x]] if x in self.seeds else self.terms.get(x, [])
            refused = [t for t in terms if isinstance(t.type, NonAnswer)]
            if refused or not terms:
                self.sums[x] = refused[0] if refused else DisconnectedType()()
            else:
                total = terms[0]
                for term in terms[1:]:
                    total = add(total, term)
                self.sums[x] = total
        return self.sums[x]

    def _visit(self, node: Apply) -> None:
        wanted = [x in self.on_path and not x.type.is_discrete for x in node.inputs]
        if not any(wanted):
            return
        pattern = node.connection_pattern()
        grads = [self.gradient(v) for v in node.outputs]
        reached = [not isinstance(g.type, DisconnectedType) for g in grads]
        connected = [w and any(c and r for c, r in zip(row, reached)) for w, row in zip(wanted, pattern)]
        if not any(connected):
            return
        for i, row in enumerate(pattern):  # an output that has no gradient passes its non-answer on
            refused = [g for g, c in zip(grads, row) if c and isinstance(g.type, NonAnswer)]
            if connected[i] and refused:
                self.terms.setdefault(node.inputs[i], []).append(refused[0])
                connected[i] = False
        if not any(connected):
            return
        values = [
            g if isinstance(g.type, TensorType) else zeros_like(v, _gradient_dtype(v))
            for g, v in zip(grads, node.outputs)
        ]
        with gradient_of(node):
            answers = node.op.L_op(node.inputs, node.outputs, values)
            self._take(node, connected, answers)

    def _take(self, node: Apply, connected: Sequence[bool], answers: Any) -> None:
        """Add a rule's answers to the terms of the inputs that they are for."""
        for i, answer in enumerate(check_answers(node, answers)):
            if not connected[i] or isinstance(answer.type, DisconnectedType):
                continue
            x = node.inputs[i]
            if isinstance(answer.type, NonAnswer):
                self.origin[answer] = (node, i)
            else:
                answer = conform(node, i, answer)
            self.terms.setdefault(x, []).append(answer)


def check_answers(node: Apply, answers: Any) -> list[Variable]:
    """Hold a rule to the protocol: one typed answer per input."""
    op = node.op
    if not isinstance(answers, (list, tuple)):
        raise RuleError(f"the gradient rule of {op} returned {answers!r}; expected a list with, per input, {ANSWERS}")
    if len(answers) != len(node.inputs):
        raise RuleError(f"the gradient rule of {op} gave {len(answers)} answers for {len(node.inputs)} inputs")
    for i, answer in enumerate(answers):
        if not isinstance(answer, Variable):
            found = "None" if answer is None else f"{type(answer).__name__} {answer!r}"
            raise RuleError(f"the gradient rule of {op} answered {found} for input {i}; the four answers are {ANSWERS}")
    return list(answers)


def conform(node: Apply, i: int, term: Variable) -> Variable:
    """A formula with the shape and float dtype of its input: un-broadcast it, cast it, or name what is wrong."""
    x = node.inputs[i]
    if not isinstance(term.type, TensorType):
        raise RuleError(f"the gradient rule of {node.op} answered {term.type} for input {i}; expected {ANSWERS}")
    if term.type.is_discrete:
        raise RuleError(f"the gradient rule of {node.op} gave an {term.dtype} term for input {i}: a gradient is a float")
    if node.op.broadcasts:
        term = sum_to(term, x)
    if term.ndim != x.ndim:
        raise RuleError(f"the gradient rule of {node.op} gave a {term.ndim}-d term for input {i}, which is {x.ndim}-d")
    for axis, (n, m) in enumerate(zip(term.type.shape, x.type.shape)):
        if n is not None and m is not None and n != m:
            raise RuleError(
                f"the gradient rule of {node.op} gave shape {term.type.shape} for input {i} of shape {x.type.shape} "
                f"(axis {axis})"
            )
    return cast(term, _gradient_dtype(x))


def refusal(walk: Walk, cost: Variable | None, x: Variable, answer: Variable) -> Exception:
    """The error for a needed non-answer, with the path drawn."""
    from .explain import draw_refusal

    kind = UndefinedGradientError if isinstance(answer.type, UndefinedType) else NotImplementedGradientError
    return kind(draw_refusal(walk, cost, x, answer))


def _disconnected(walk: Walk, cost: Variable | None, x: Variable, policy: str, form: str) -> Variable | None:
    from .explain import draw_disconnected

    if policy == "raise":
        raise DisconnectedInputError(draw_disconnected(walk, cost, x))
    if policy == "warn":
        import warnings

        warnings.warn(draw_disconnected(walk, cost, x), stacklevel=3)
    if form == "none":
        return None
    return zeros_like(x, _gradient_dtype(x)) if form == "zero" else DisconnectedType()()


def _seeds(cost: Variable | None, known: Mapping[Variable, Variable] | None) -> dict[Variable, Variable]:
    seeds: dict[Variable, Variable] = {}
    if cost is None:
        if not known:
            raise ArgumentError("grad: give a cost, or known_grads to start from")
    elif callable(cost) and not isinstance(cost, Variable):
        raise ArgumentTypeError("grad takes an expression, not a function; for plain functions use pb.value_and_grad")
    elif not isinstance(cost, Variable):
        raise ArgumentTypeError(f"grad: the cost must be a Variable, got {type(cost).__name__}")
    elif not isinstance(cost.type, TensorType):
        raise GraphError(f"grad: the cost {cost!r} is {cost.type}: there is nothing to differentiate")
    elif cost.ndim != 0:
        raise ArgumentTypeError(f"grad: the cost must be a scalar (0-d), got {cost.type}; reduce it, e.g. with .sum()")
    elif cost.dtype.startswith("complex"):
        raise NotImplementedGradientError("grad: the cost is complex; take its real part, imaginary part or modulus")
    else:
        seeds[cost] = ones_like(cost, _gradient_dtype(cost))
    for v, g in (known or {}).items():
        if not isinstance(v, Variable):
            raise ArgumentTypeError(f"grad: a key of known_grads is {v!r}, not a Variable")
        if not isinstance(g, Variable):
            g = Constant(np.asarray(g, _gradient_dtype(v)))
        if isinstance(g.type, TensorType) and (g.type.is_discrete or g.ndim != v.ndim):
            raise ArgumentTypeError(f"grad: known_grads of {v!r} ({v.type}) is {g.type}; expected a float of its rank")
        seeds[v] = g
    return seeds


def _check_wrt(wrt: Any) -> list[Variable]:
    if not isinstance(wrt, (Variable, list, tuple)):
        raise ArgumentTypeError(f"grad: wrt must be a Variable, list or tuple, got {type(wrt).__name__}")
    targets = [wrt] if isinstance(wrt, Variable) else list(wrt)
    for x in targets:
        if not isinstance(x, Variable) or not isinstance(x.type, TensorType):
            raise ArgumentTypeError(f"grad: wrt holds {x!r}; expected tensor variables")
        if x.type.is_discrete:
            raise ArgumentTypeError(
                f"grad: {x!r} is {x.type}: an {x.dtype} variable has no neighbourhood to differentiate in. "
                "Cast it first and differentiate with respect to the result: xf = x.astype('float32')"
            )
        if x.dtype.startswith("complex"):
            raise NotImplementedGradientError(f"grad: {x!r} is complex; gradients of complex inputs are not implemented")
    return targets


def _check_constants(variables: Iterable[Variable]) -> set[Variable]:
    try:
        constants = list(variables)
    except TypeError:
        raise ArgumentTypeError("grad: consider_constant must be an iterable of Variables") from None
    for v in constants:
        if not isinstance(v, Variable):
            raise ArgumentTypeError(f"grad: consider_constant holds {type(v).__name__}; expected Variables")
    return set(constants)


def _variables_that_need(targets: Sequence[Variable], order: Sequence[Apply]) -> set[Variable]:
    """Variables whose value depends differentiably on a target, targets included."""
    needed = set(targets)
    for node in order:
        rows = [row for x, row in zip(node.inputs, node.connection_pattern()) if x in needed]
        needed.update(v for v, *column in zip(node.outputs, *rows) if any(column))
    return needed


def _gradient_dtype(v: Variable) -> str:
    return v.dtype if v.type.is_float else config.floatX
