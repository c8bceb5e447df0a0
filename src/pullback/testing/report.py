"""What a check found: mistakes, measured errors, counts of draws."""

from dataclasses import dataclass, field

import numpy as np

from ..errors import PullbackError


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

    def __str__(self) -> str:
        lines = [f"{self.name}: {'right' if self.right else 'WRONG'}"]
        for i, (name, answer) in enumerate(zip(self.inputs, self.answers)):
            measured = [
                f"order {order}: {row[i]:.1e}"
                for order, row in sorted(self.errors.items())
                if i < len(row) and row[i] is not None
            ]
            lines.append(f"  {name}: {answer}" + (f" ({', '.join(measured)})" if measured else ""))
        lines += [f"  mistake: {m}" for m in self.mistakes]
        lines.append(f"  {self.draws} draws, {self.redraws} redrawn because of a kink")
        return "\n".join(lines)


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
