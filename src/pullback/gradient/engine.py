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
    grad_not_implemented,
    gradient_of,
    toposort,
)
from ..ops.arithmetic import add
from ..ops.elementwise import cast, ones_like, sum_to, zeros_like
from ..ops.gradient_views import View
from .stable import with_stable_forms

ANSWERS = (
    "a Variable (the formula), grad_undefined(op, i, x, why), grad_not_implemented(op, i, x, why) "
    "or DisconnectedType()()"
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
    targets = check_wrt(wrt)
    walk = Walk(make_seeds(cost, known_grads), targets, consider_constant)
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


def pull_back(results: Sequence[Variable], cotangents: Sequence[Variable], wrt: Wrt, **options: Any) -> Any:
    """`grad` with `cotangents` as what arrives at `results`, beside what one result gets from another.

    Each result is looked at through a view of its own, because known gradients replace what would be computed: a result
    may be given twice, or be computed from another.
    """
    return grad(None, wrt, known_grads={View()(v): u for v, u in zip(results, cotangents, strict=True)}, **options)


class Walk:
    """One backward walk: cotangents of every variable on a path from the targets to the seeds.

    Attributes:
        seeds: where it starts: {variable: its known gradient}.
        blocked: variables above which nothing is differentiated.
        order: the nodes that the seeds need, each after the nodes that it needs; unstable forms are replaced by stable
            ones (see `stable`).
        answers: what the rules answered, by (node, number of the input): formulas and non-answers, before summing.
    """

    def __init__(
        self,
        seeds: Mapping[Variable, Variable],
        targets: Sequence[Variable],
        consider_constant: Iterable[Variable] = (),
    ) -> None:
        self.seeds = dict(seeds)
        self.blocked = _check_constants(consider_constant)
        self.answers: dict[tuple[Apply, int], Variable] = {}
        self._terms: dict[Variable, list[Variable]] = {}
        self._sums: dict[Variable, Variable] = dict(self.seeds)
        order = toposort(self.seeds, stop=self.blocked)
        self.order, self.stands_for = with_stable_forms(order, {*self.seeds, *targets, *self.blocked})
        self._patterns: dict[Apply, list[list[bool]]] = {}
        self._on_path = self._depending_on(targets)
        for node in reversed(self.order):
            self._visit(node)

    def gradient(self, v: Variable) -> Variable:
        """The sum of all terms that reached `v` (fan-out adds); a known gradient replaces it."""
        v = self.stands_for.get(v, v)
        if v not in self._sums:
            terms = self._terms.get(v, [])
            refused = next((t for t in terms if isinstance(t.type, NonAnswer)), None)
            if refused is not None:
                self._sums[v] = refused
            elif terms:
                total = terms[0]
                for term in terms[1:]:
                    total = add(total, term)
                self._sums[v] = total
            else:
                self._sums[v] = DisconnectedType()()
        return self._sums[v]

    def pattern(self, node: Apply) -> list[list[bool]]:
        """Which output depends differentiably on which input: what the op says, less what is held constant."""
        if node not in self._patterns:
            pattern = check_pattern(node)
            if self.blocked and not self.blocked.isdisjoint(node.outputs):
                free = [v not in self.blocked for v in node.outputs]
                pattern = [[c and f for c, f in zip(row, free)] for row in pattern]
            self._patterns[node] = pattern
        return self._patterns[node]

    def _depending_on(self, targets: Sequence[Variable]) -> set[Variable]:
        """Variables whose value depends differentiably on a target, targets included."""
        found = set(targets)
        for node in self.order:
            rows = [i for i, x in enumerate(node.inputs) if x in found]
            if rows:
                pattern = self.pattern(node)
                reached = [v for j, v in enumerate(node.outputs) if any(pattern[i][j] for i in rows)]
                found.update(reached)
                found.update(self.stands_for[v] for v in reached if v in self.stands_for)
        return found

    def _visit(self, node: Apply) -> None:
        """Pull the cotangents of a node's outputs back to its inputs."""
        wanted = [x in self._on_path and not x.type.is_discrete for x in node.inputs]
        if not any(wanted):
            return
        pattern = self.pattern(node)
        cotangents = [self.gradient(v) for v in node.outputs]
        arriving = [[j for j, c in enumerate(row) if c and _is_connected(cotangents[j])] for row in pattern]
        asked = [i for i, w in enumerate(wanted) if w and arriving[i]]
        passed = {i: g for i in asked for j in arriving[i] if isinstance((g := cotangents[j]).type, NonAnswer)}
        for i, refused in passed.items():  # a result without a gradient passes its non-answer on
            self._terms.setdefault(node.inputs[i], []).append(refused)
        asked = [i for i in asked if i not in passed]
        if not asked:
            return
        with gradient_of(node):
            if any(v.type.dtype.startswith("complex") for v in (*node.inputs, *node.outputs)):
                why = "gradients through complex numbers are not implemented"
                answers = [grad_not_implemented(node.op, i, x, why) for i, x in enumerate(node.inputs)]
            else:
                values = [
                    g if isinstance(g.type, TensorType) else zeros_like(v, gradient_dtype(v))
                    for g, v in zip(cotangents, node.outputs)
                ]
                answers = check_answers(node, node.op.L_op(node.inputs, node.outputs, values))
                check_agreement(node, answers)
            for i in asked:
                self._take(node, i, answers[i])

    def _take(self, node: Apply, i: int, answer: Variable) -> None:
        """Add a rule's answer to the terms of the input that it is for."""
        self.answers[node, i] = answer
        if _is_connected(answer):
            term = answer if isinstance(answer.type, NonAnswer) else conform(node, i, answer)
            self._terms.setdefault(node.inputs[i], []).append(term)


def _is_connected(g: Variable) -> bool:
    return not isinstance(g.type, DisconnectedType)


def check_pattern(node: Apply) -> list[list[bool]]:
    """The node's connection pattern, held to its form: a row of booleans per input, one per output."""
    pattern = node.op.connection_pattern(node)
    shape = f"{len(node.inputs)} rows (one per input) of {len(node.outputs)} (one per output)"
    if not isinstance(pattern, list) or len(pattern) != len(node.inputs):
        raise RuleError(f"{node.op}.connection_pattern returned {pattern!r}; expected a list of {shape}")
    if any(not isinstance(row, list) or len(row) != len(node.outputs) for row in pattern):
        raise RuleError(f"{node.op}.connection_pattern returned {pattern!r}; expected {shape}")
    return node.connection_pattern()


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


def check_agreement(node: Apply, answers: Sequence[Variable]) -> None:
    """A formula for an input that the connection pattern calls disconnected would be ignored in silence: refuse it."""
    for i, row in enumerate(node.op.connection_pattern(node)):
        if not any(row) and isinstance(answers[i].type, TensorType) and not node.inputs[i].type.is_discrete:
            raise RuleError(f"{node.op} gave a formula for input {i}, which its connection_pattern calls disconnected")


def conform(node: Apply, i: int, term: Variable) -> Variable:
    """A formula with the shape and float dtype of its input: un-broadcast it, cast it, or name what is wrong."""
    x = node.inputs[i]
    if not isinstance(term.type, TensorType):
        raise RuleError(f"the gradient rule of {node.op} answered {term.type} for input {i}; expected {ANSWERS}")
    if not term.type.is_float:
        raise RuleError(f"the gradient rule of {node.op} gave a {term.dtype} term for input {i}, expected floats")
    if node.op.broadcasts and term.ndim >= x.ndim:
        term = sum_to(term, x)
    if term.ndim != x.ndim:
        raise RuleError(f"the gradient rule of {node.op} gave a {term.ndim}-d term for input {i}, which is {x.ndim}-d")
    for axis, (n, m) in enumerate(zip(term.type.shape, x.type.shape)):
        if n is not None and m is not None and n != m:
            raise RuleError(
                f"the gradient rule of {node.op} gave shape {term.type.shape} for input {i} of shape {x.type.shape} "
                f"(axis {axis})"
            )
    return cast(term, gradient_dtype(x))


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
    return zeros_like(x, gradient_dtype(x)) if form == "zero" else DisconnectedType()()


def make_seeds(cost: Variable | None, known: Mapping[Variable, Variable] | None) -> dict[Variable, Variable]:
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
        seeds[cost] = ones_like(cost, gradient_dtype(cost))
    for v, g in (known or {}).items():
        if not isinstance(v, Variable):
            raise ArgumentTypeError(f"grad: a key of known_grads is {v!r}, not a Variable")
        if not isinstance(v.type, TensorType) or v.type.is_discrete:
            raise ArgumentTypeError(f"grad: known_grads has the key {v!r} of type {v.type}: only floats have gradients")
        if not isinstance(g, Variable):
            g = Constant(np.asarray(g, gradient_dtype(v)))
        if isinstance(g.type, TensorType):
            if not g.type.is_float or g.ndim != v.ndim:
                raise ArgumentTypeError(f"grad: known_grads of {v!r} ({v.type}) is {g.type}; expected floats, its rank")
            g = cast(g, gradient_dtype(v))
        seeds[v] = g
    return seeds


def check_wrt(wrt: Any) -> list[Variable]:
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
            raise NotImplementedGradientError(f"grad: {x!r} is complex; its gradient is not implemented")
    return targets


def _check_constants(variables: Iterable[Variable]) -> set[Variable]:
    if isinstance(variables, Variable) or not isinstance(variables, Iterable):
        raise ArgumentTypeError(f"grad: consider_constant must be a list of Variables, got {type(variables).__name__}")
    constants = list(variables)
    for v in constants:
        if not isinstance(v, Variable):
            raise ArgumentTypeError(f"grad: consider_constant holds {type(v).__name__}; expected Variables")
    return set(constants)


def gradient_dtype(v: Variable) -> str:
    return v.dtype if v.type.is_float else config.floatX
