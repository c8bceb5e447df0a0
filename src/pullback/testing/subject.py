"""What is put to the proof: a function of arrays together with the pullback that claims to be its derivative."""

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from ..gradient.engine import grad
from ..graph import DisconnectedType, NonAnswer, TensorType, Variable, ancestors, evaluate, toposort
from ..ops.arithmetic import add, multiply
from ..ops.elementwise import sum_to
from .differences import Arrays

Answer = str  # "formula", "disconnected", "discrete", "undefined: why", "not implemented: why"; "skipped"


class Subject(Protocol):
    """A differentiable function, whoever wrote it.

    Attributes:
        names: of the inputs.
        answers: per input what the pullback claims about it.
    """

    names: Sequence[str]
    answers: Sequence[Answer]

    def value(self, arrays: Arrays) -> list[np.ndarray]:
        """The float outputs."""

    def pull(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray | None]:
        """Per input its gradient (cotangents pulled back); None where the answer is no formula."""

    def decisions(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray]:
        """Everything discrete that was computed on the way (masks, indices): a kink lies where one of them flips."""

    def derivative(self) -> "Subject | None":
        """The function (inputs, cotangents) -> gradients, to be proved in turn; None where it can't be had."""


class GraphSubject:
    """A graph and the gradient that the engine derives for it.

    Args:
        inputs: the graph's inputs, in order; those of float dtype are differentiated.
        outputs: its outputs; those of discrete dtype take no part.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        self.inputs = list(inputs)
        self.every_output = list(outputs)
        self.outputs = [v for v in outputs if v.type.is_float]
        self.names = [v.name or f"input {i}" for i, v in enumerate(self.inputs)]
        self._order = toposort(self.outputs, stop=self.inputs)

    @cached_property
    def cotangents(self) -> list[Variable]:
        return [Variable(v.type, name=f"cotangent {o}") for o, v in enumerate(self.outputs)]

    @cached_property
    def grads(self) -> list[Variable | None]:
        """Per input what the engine answers: a formula, a typed non-answer, or None for a discrete input."""
        wrt = [x for x in self.inputs if x.type.is_float]
        if not wrt or not self.outputs:
            return [DisconnectedType()() if x.type.is_float else None for x in self.inputs]
        options = dict(
            disconnected_inputs="ignore", return_disconnected="disconnected", null_gradients="return", add_names=False
        )
        if self._outputs_feed_each_other():
            terms = [sum_to(multiply(g, v), np.zeros((), v.dtype)) for g, v in zip(self.cotangents, self.outputs)]
            cost = terms[0]
            for term in terms[1:]:
                cost = add(cost, term)
            found = grad(cost, wrt, **options)
        else:
            found = grad(None, wrt, known_grads=dict(zip(self.outputs, self.cotangents)), **options)
        given = iter(found)
        return [next(given) if x.type.is_float else None for x in self.inputs]

    def _outputs_feed_each_other(self) -> bool:
        """A known gradient replaces what flows into its variable, so no output may lie on another's path."""
        if len(set(self.outputs)) < len(self.outputs):
            return True
        above = [x for v in self.outputs if v.owner is not None for x in v.owner.inputs]
        return not set(self.outputs).isdisjoint(ancestors(above, stop=self.inputs))

    @cached_property
    def answers(self) -> list[Answer]:
        return ["discrete" if g is None else describe(g) for g in self.grads]

    @cached_property
    def formulas(self) -> list[Variable]:
        return [g for g in self.grads if g is not None and isinstance(g.type, TensorType)]

    @cached_property
    def _backward(self) -> list:
        return toposort(self.formulas, stop=[*self.inputs, *self.cotangents])

    @cached_property
    def _discrete(self) -> list[Variable]:
        return [v for node in self._backward for v in node.outputs if v.type.is_discrete and v.owner.inputs]

    def value(self, arrays: Arrays) -> list[np.ndarray]:
        return evaluate(self.outputs, dict(zip(self.inputs, arrays)), self._order)

    def pull(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray | None]:
        given = dict(zip([*self.inputs, *self.cotangents], [*arrays, *cotangents]))
        found = iter(evaluate(self.formulas, given, self._backward))
        return [next(found) if answer == "formula" else None for answer in self.answers]

    def decisions(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray]:
        if not self._discrete:
            return []
        given = dict(zip([*self.inputs, *self.cotangents], [*arrays, *cotangents]))
        return evaluate(self._discrete, given, self._backward)

    def derivative(self) -> "GraphSubject | None":
        return GraphSubject([*self.inputs, *self.cotangents], self.formulas) if self.formulas else None


class Masked:
    """A subject some of whose inputs are left out of the proof."""

    def __init__(self, subject: Subject, skipped: set[int]) -> None:
        self.names = subject.names
        self.answers = ["skipped" if i in skipped else a for i, a in enumerate(subject.answers)]
        self.value, self.pull = subject.value, subject.pull
        self.decisions, self.derivative = subject.decisions, subject.derivative


def describe(answer: Variable) -> Answer:
    """A rule's answer in words."""
    if isinstance(answer.type, TensorType):
        return "formula"
    if isinstance(answer.type, NonAnswer):
        return f"{answer.type}: {answer.type.why}"
    return "disconnected"
