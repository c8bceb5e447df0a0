"""The native backend computes what `perform` means: again and again, for other sizes, from any memory layout."""

from collections.abc import Callable

import numpy as np

from ..compile import function
from ..graph import Variable, evaluate
from .audit import difference, relaid, same
from .differences import Arrays
from .report import Mistake, Report, Wrong
from .subject import GraphSubject

LIMIT = {"float32": 2e-5, "float64": 1e-12}  # relative to the largest element
ROUNDINGS = 256
WORSE = 8  # an element that cancels may be off by so many times what `perform` itself is off by
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


class Backends:
    """A graph, its gradient and the gradient's gradient, compiled for both backends.

    Args:
        build: makes the subject in a dtype.
        dtype: the one to compare in.
        order: 1 for values and gradients, 2 for those of the gradients too.
    """

    def __init__(self, build: Callable[[str], GraphSubject], dtype: str, order: int, report: Report) -> None:
        self.dtype, self.report = dtype, report
        self.inputs, self.roots = outputs_up_to(build(dtype), order)
        self.exact_inputs, self.exact_roots = outputs_up_to(build("float64"), order)
        self.reference, self.native = (
            function(self.inputs, self.roots, backend=backend, on_unused_input="ignore", no_default_updates=True)
            for backend in ("reference", "native")
        )

    def compare(self, first: Arrays, other: Arrays) -> None:
        """Call with `first`, with `other` (which may have other sizes), with `first` again, and with strided copies."""
        expected = self.reference(*first)
        found = self.native(*first)
        kept = [a.copy() for a in found]
        self.check(first, found, expected, "")
        self.check(other, self.native(*other), self.reference(*other), "with other sizes, ")
        _check_same(found, kept, "changed during the next call")
        _check_same(self.native(*first), kept, "differs when it is called again")
        self.check(first, self.native(*[relaid(a, "strided") for a in first]), expected, "from strided inputs, ")

    def compare_special(self, arguments: Arrays) -> None:
        """NaN, infinities and signed zeros at every float input of an elementwise graph."""
        special = [
            np.resize(np.roll(SPECIAL, k), a.shape).astype(a.dtype) if a.dtype.kind == "f" else a
            for k, a in enumerate(arguments)
        ]
        with np.errstate(all="ignore"):
            pairs = self.native(*special), self.reference(*special)
            self.check(special, *pairs, "at NaN, infinities and zeros, ")

    def check(self, arguments: Arrays, found: Arrays, expected: Arrays, where: str) -> None:
        for o, (a, b) in enumerate(zip(found, expected, strict=True)):
            gap = difference(a, b)
            if gap > LIMIT[self.dtype]:
                gap = self._beyond_rounding(arguments, o, a, b, gap)
            if gap > LIMIT[self.dtype]:
                which = f"{where}output {o} of the native backend ({self.dtype})"
                raise Wrong(Mistake("native", f"{which} is off by {gap:.1e}: {a} instead of {b}"))
            self.report.native = max(self.report.native or 0.0, gap)

    def _beyond_rounding(self, arguments: Arrays, o: int, found: np.ndarray, expected: np.ndarray, gap: float) -> float:
        """0 if what differs is rounding: the output cancels, so that few of its digits mean anything."""
        if not np.isfinite(gap) or is_rounding(found, expected, arguments):
            return gap if not np.isfinite(gap) else 0.0
        if self.dtype == "float64":
            return gap
        given = {v: a.astype(v.dtype) for v, a in zip(self.exact_inputs, arguments)}
        (exact,) = evaluate([self.exact_roots[o]], given)
        ours, theirs = (difference(a.astype(exact.dtype), exact) for a in (found, expected))
        return 0.0 if ours <= WORSE * theirs else gap


def _check_same(found: Arrays, expected: Arrays, what: str) -> None:
    for o, (a, b) in enumerate(zip(found, expected)):
        if not same(a, b):
            raise Wrong(Mistake("stale buffer", f"output {o} of a native call {what}"))


def is_rounding(found: np.ndarray, expected: np.ndarray, arguments: Arrays) -> bool:
    """Whether two float arrays differ by no more than a few hundred roundings of numbers as large as the arguments."""
    sizes = [float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in arguments if a.dtype.kind == "f"]
    eps = np.finfo(found.dtype).eps
    return bool(np.abs(found - expected).max(initial=0.0) <= ROUNDINGS * eps * max([1.0, *sizes]))


def outputs_up_to(subject: GraphSubject, order: int) -> tuple[list[Variable], list[Variable]]:
    """Inputs (cotangents included) and outputs of the graph and of its gradients to an order."""
    inputs, roots = list(subject.inputs), list(subject.every_output)
    for _ in range(order):
        if not subject.formulas:
            break
        inputs += subject.cotangents
        roots += subject.formulas
        subject = subject.derivative()
    return inputs, roots
