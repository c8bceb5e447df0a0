"""`check_gradient`: the proof of anybody's gradient."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError
from .differences import Arrays, signed
from .foreign import framework_of, parameter_names, subject_of
from .proof import prove, prove_at_ties
from .report import CheckError, Mistake, Report, Wrong
from .shrink import shrink
from .subject import Masked, Subject

LIMITS = {1: 1e-6, 2: 1e-5}


def check_gradient(
    f: Any,
    *args: Any,
    vjp: Callable[..., Any] | None = None,
    grad: Callable[..., Any] | None = None,
    jacobian: Callable[..., Any] | None = None,
    framework: str | None = None,
    orders: int = 2,
    points: int = 3,
    ties: bool = True,
    seed: int = 0,
    verbose: bool = True,
) -> Report:
    """Prove the gradient of a function that anybody wrote, and say what is wrong with it.

    Args:
        f: one of
            - a NumPy function, with its derivative as `vjp(cotangent, *inputs)` (one gradient per input, None for an
              input that it doesn't depend on), as `grad(*inputs)` (of a scalar function; of a function of one array
              also the elementwise derivative), or as `jacobian(*inputs)`; each may be an attribute of `f` as well. Or
              an object with methods `forward(*inputs)` and `backward(cotangent)`;
            - a PyTorch function, `torch.autograd.Function` or module (whose parameters are checked too);
            - a JAX function, with a `custom_vjp` or without;
            - a pullback Op, function of variables, compiled Function, or Network.
        args: one per input: a shape (a tuple of integers), whose values are drawn between -2 and 2; or an example
            array, whose shape and range are kept. Integer arrays are passed as they are.
        framework: "numpy", "torch", "jax" or "pullback", where it can't be told from `f`.
        orders: 2 checks the gradient's own gradient as well, where the library can differentiate it.
        points: draws per input.
        ties: also check that equal values share the gradient legally.
        seed: of the draws.
        verbose: print the report.

    Returns:
        A Report; `report.right` says whether all is right. Each mistake carries its likely kind (sign, factor,
        transposed, missing broadcast sum, overwritten accumulation, tie, dropped term, dtype, ...), the worst element,
        and in `at` the smallest input found on which it shows.

    Raises:
        ArgumentTypeError: `f` is none of these, or has no derivative.
        MissingPackageError: PyTorch or JAX is needed and isn't installed.

    Example:
        >>> import numpy as np
        >>> from pullback.testing import check_gradient
        >>> report = check_gradient(np.tanh, (3, 4), vjp=lambda g, x: g * (1 - np.tanh(x)), verbose=False)
        >>> report.right, report.mistakes[0].input
        (False, 0)
    """
    derivatives = {
        name: rule for name, rule in (("vjp", vjp), ("grad", grad), ("jacobian", jacobian)) if rule is not None
    }
    rng = np.random.default_rng(seed)
    if hasattr(f, "check_gradients"):
        report = of_network(f, [as_input(a, rng).example for a in args], seed)
        if verbose:
            print(report)
        return report
    inputs = [as_input(a, rng) for a in args]
    examples = [i.example for i in inputs]
    name = name_of(f)
    if framework is None and framework_of(f, derivatives) is None:
        raise ArgumentTypeError(
            f"check_gradient: can't tell what {name} is; give its derivative (vjp=, grad= or jacobian=), or say "
            "framework='torch', 'jax' or 'pullback'"
        )
    report = Report(name, parameter_names(f, len(examples)), ["formula"] * len(examples))
    try:
        subject, own = subject_of(f, examples, framework, derivatives)
        inputs += [ExampleInput(a) for a in own]
        report.inputs, report.answers = list(subject.names), list(subject.answers)
        GradientProof(subject, inputs, report, rng, points).run(orders, ties)
    except Wrong as wrong:
        report.mistakes.append(wrong.mistake)
    if verbose:
        print(report)
    return report


def of_network(network: Any, arrays: Arrays, seed: int) -> Report:
    """A network proves itself, parameter by parameter: on inputs and targets, on inputs, or on random numbers."""
    try:
        return network.check_gradients(*arrays, seed=seed)
    except CheckError as error:
        return error.report


class ExampleInput:
    """An input of which an example is known: other draws have its shape and its range."""

    def __init__(self, example: np.ndarray) -> None:
        self.example = example
        self.floating = example.dtype.kind == "f"

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        if not self.floating:
            return self.example
        low, high = (float(self.example.min()), float(self.example.max())) if self.example.size else (0.0, 1.0)
        if not low < high:
            low, high = low - 1.0, high + 1.0
        return rng.uniform(low, high, self.example.shape)


def as_input(argument: Any, rng: np.random.Generator) -> ExampleInput:
    """A shape or an example array."""
    if isinstance(argument, tuple) and all(isinstance(n, int) for n in argument):
        return ExampleInput(rng.uniform(-2.0, 2.0, argument))
    array = np.asarray(argument.detach() if hasattr(argument, "detach") else argument)
    if array.dtype.kind not in "fiub":
        raise ArgumentTypeError(
            f"check_gradient: an input is a shape (a tuple of integers) or an example array, got {argument!r}"
        )
    return ExampleInput(array.astype(np.float64) if array.dtype.kind == "f" else array)


class GradientProof:
    """One function under proof."""

    def __init__(
        self, subject: Subject, inputs: Sequence[ExampleInput], report: Report, rng: np.random.Generator, points: int
    ) -> None:
        self.subject, self.inputs, self.report, self.rng, self.points = subject, inputs, report, rng, points

    def draw(self) -> list[np.ndarray]:
        return [i.draw(self.rng) for i in self.inputs]

    def run(self, orders: int, ties: bool) -> None:
        self.manners()
        for i, answer in enumerate(self.subject.answers):
            if answer in ("formula", "disconnected"):
                self.first_order(i)
        if self.report.right and ties:
            self.ties()
        if self.report.right and orders > 1:
            self.second_order()

    def manners(self) -> None:
        """Same inputs, same gradient; float64 in, float64 out."""
        arrays = self.draw()
        cotangents = [signed(self.rng, y.shape) for y in self.subject.value(arrays)]
        if not cotangents:
            raise ArgumentTypeError(f"check_gradient: {self.report.name} has no float output")
        first = self.subject.pull(arrays, cotangents)
        kept = [None if g is None else g.copy() for g in first]
        self.subject.pull(self.draw(), cotangents)
        again = self.subject.pull(arrays, cotangents)
        for i, (g, h) in enumerate(zip(kept, again)):
            if g is not None and not np.array_equal(g, h, equal_nan=True):
                self.note(Mistake("stale buffer", "two calls on the same inputs give different gradients", i, 1))
            elif g is not None and g.dtype != np.float64:
                self.note(Mistake("dtype", f"the gradient of a float64 input is {g.dtype}", i, 1))

    def note(self, mistake: Mistake) -> None:
        self.report.mistakes.append(mistake)

    def only(self, subject: Subject, i: int) -> Masked:
        return Masked(subject, set(range(len(subject.names))) - {i})

    def first_order(self, i: int) -> None:
        try:
            prove(self.only(self.subject, i), self.draw, self.rng, self.report, 1, LIMITS[1], self.points)
        except Wrong as wrong:
            self.note(self.shrunk(wrong.mistake, i))

    def ties(self) -> None:
        for _ in range(2 * self.points):
            arrays = [np.round(i.draw(self.rng)) if i.floating else i.example for i in self.inputs]
            mistake = self.tie_at(arrays)
            if mistake is not None:
                smallest = arrays

                def fails(candidate: Arrays) -> bool:
                    nonlocal smallest
                    if self.tie_at(candidate) is None:
                        return False
                    smallest = candidate
                    return True

                shrink(arrays, fails)
                self.note(self.tie_at(smallest) or mistake)
                return

    def tie_at(self, arrays: Arrays) -> Mistake | None:
        try:
            prove_at_ties(self.subject, arrays, np.random.default_rng(0), self.report, LIMITS[1])
        except Wrong as wrong:
            return wrong.mistake
        return None

    def second_order(self) -> None:
        try:
            derivative = self.subject.derivative()
        except Exception as error:  # whatever the other library says when it can't differentiate twice
            self.report.remarks.append(f"the second order can't be had: {error}")
            return
        if derivative is None:
            self.report.remarks.append("the second order isn't checked: a hand-written derivative has none of its own")
            return

        def draw() -> list[np.ndarray]:
            arrays = self.draw()
            return [*arrays, *(signed(self.rng, y.shape) for y in self.subject.value(arrays))]

        try:
            prove(derivative, draw, self.rng, self.report, 2, LIMITS[2], 1, own=len(self.inputs))
        except Wrong as wrong:
            self.note(wrong.mistake)

    def shrunk(self, mistake: Mistake, i: int) -> Mistake:
        """The same mistake on the smallest input that shows it."""
        if mistake.kind == "not smooth" or not mistake.at:
            return mistake
        smallest = mistake

        def fails(arrays: Arrays) -> bool:
            nonlocal smallest
            found = self.mistake_at(arrays, i)
            if found is not None and found.kind == mistake.kind:
                smallest = found
                return True
            return False

        shrink([np.array(a) for a in mistake.at], fails)
        return replace(smallest, message=mistake.message)

    def mistake_at(self, arrays: Arrays, i: int) -> Mistake | None:
        fixed = np.random.default_rng(0)
        try:
            prove(self.only(self.subject, i), lambda: list(arrays), fixed, Report(""), 1, LIMITS[1], tries=1)
        except Wrong as wrong:
            return None if wrong.mistake.kind == "not smooth" else wrong.mistake
        return None


def name_of(f: Any) -> str:
    if isinstance(f, (tuple, list)) and f:
        return name_of(f[0])
    return getattr(f, "__name__", None) or type(f).__name__
