"""What a check found: mistakes, measured errors, counts of draws."""

from dataclasses import dataclass, field

import numpy as np

from ..errors import PullbackError

READABLE = 12  # elements of an example that is worth printing


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong.

    Attributes:
        kind: the likely one: "sign", "factor", "transposed", "missing broadcast sum", "overwritten accumulation",
            "tie", "dropped term", "dtype", "shape", "stale buffer", "undeclared view", "writes its input", ...
        message: what was expected and what was found.
        input: the number of the input whose gradient is wrong; None where it's about the whole op.
        order: 1 for the gradient, 2 for its derivative, ...; 0 for the value.
        element: index of the worst element.
        expected, found: its values.
        error: by the measure |v.g - FD| / max(|v.g|, |FD|, 1e-3 |v||g|).
        at: the input arrays.
    """

    kind: str
    message: str
    input: int | None = None
    order: int = 0
    element: tuple[int, ...] | None = None
    expected: float | None = None
    found: float | None = None
    error: float | None = None
    at: tuple[np.ndarray, ...] = field(default=(), repr=False)

    def explained(self) -> list[str]:
        """The mistake in a few lines, with the smallest input that shows it if that can be read."""
        order = {0: "", 1: "", 2: "second order, "}.get(self.order, f"order {self.order}, ")
        lines = [f"{order}{self.kind}: {self.message}"]
        if self.element is not None:
            index = ", ".join(map(str, self.element))
            lines.append(f"worst at [{index}]: expected {self.expected:.8g}, found {self.found:.8g}")
        if self.at and sum(a.size for a in self.at) <= READABLE:
            lines.append("seen at " + ", ".join(str(np.round(a, 4).tolist()) for a in self.at))
        return lines

    def __str__(self) -> str:
        place = f"input {self.input}, " if self.input is not None else ""
        order = {0: "", 1: "first order, ", 2: "second order, "}.get(self.order, f"order {self.order}, ")
        text = f"{place}{order}{self.kind}: {self.message}"
        if self.element is not None:
            index = ", ".join(map(str, self.element))
            text += f"; worst at [{index}]: expected {self.expected:.10g}, found {self.found:.10g}"
        return text if self.error is None else f"{text} (error {self.error:.1e})"


@dataclass
class Report:
    """The outcome of `check_op` or `check_gradient`.

    Attributes:
        name: of what was checked.
        inputs: names of its inputs.
        answers: per input what its rule says: "formula", "disconnected", "discrete", "undefined: why" or
            "not implemented: why".
        errors: {order: per input the largest relative error against differences, None where nothing is to measure}.
        complex_step: the largest relative error against the complex step; None where that doesn't apply.
        native: the largest relative difference between the two backends.
        draws, redraws: points tried, and those among them that were given up because a kink lay within the step.
        mistakes: what is wrong; empty if all is right.
        remarks: what could not be checked, and why.
    """

    name: str
    inputs: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    errors: dict[int, list[float | None]] = field(default_factory=dict)
    complex_step: float | None = None
    native: float | None = None
    draws: int = 0
    redraws: int = 0
    mistakes: list[Mistake] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return not self.mistakes

    def largest(self, order: int) -> float:
        """The largest error of this order over all inputs; 0 where nothing was measured."""
        return max((e for e in self.errors.get(order, []) if e is not None), default=0.0)

    def note_error(self, order: int, i: int, error: float) -> None:
        row = self.errors.setdefault(order, [])
        row.extend([None] * (i + 1 - len(row)))
        row[i] = error if row[i] is None else max(row[i], error)

    def raise_if_wrong(self) -> "Report":
        """Raise a CheckError if anything is wrong; this report otherwise."""
        if not self.right:
            raise CheckError(self)
        return self

    def __str__(self) -> str:
        lines = [f"{self.name}: {'right' if self.right else 'WRONG'}"]
        width = max(map(len, self.inputs), default=0)
        for i, (name, answer) in enumerate(zip(self.inputs, self.answers)):
            lines.append(f"  {name:{width}}  {self._verdict(i, answer)}")
            for mistake in (m for m in self.mistakes if m.input == i):
                lines += [f"  {'':{width}}  {line}" for line in mistake.explained()]
        for mistake in (m for m in self.mistakes if m.input is None or m.input >= len(self.inputs)):
            lines += [f"  {line}" for line in mistake.explained()]
        lines += [f"  {remark}" for remark in self.remarks]
        lines.append(f"  {self.draws} points, {self.redraws} redrawn because of a kink")
        return "\n".join(lines)

    def _verdict(self, i: int, answer: str) -> str:
        if any(m.input == i for m in self.mistakes):
            return "WRONG"
        words = {1: "first order", 2: "second order", 3: "third order"}
        measured = [
            f"{words.get(order, f'order {order}')} {row[i]:.1e}"
            for order, row in sorted(self.errors.items())
            if i < len(row) and row[i] is not None
        ]
        verdict = "right" if answer == "formula" else answer
        return f"{verdict}  {', '.join(measured)}" if measured else verdict


class CheckError(PullbackError, AssertionError):
    """A check failed. `report` holds everything that was found, `mistake` the first thing that is wrong."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.mistake = report.mistakes[0]
        others = len(report.mistakes) - 1
        more = f" (and {others} more mistakes: see .report)" if others else ""
        super().__init__(f"{report.name}: {self.mistake}{more}")


class Wrong(Exception):
    """Carries a mistake from the place that finds it to the report."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(str(mistake))
        self.mistake = mistake
