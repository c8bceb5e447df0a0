"""What the registry knows about each op, gathered for the reference: answers, kinks, references, measured errors."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..gradient.kinks import kinks_of
from ..graph import toposort
from ..ops.elementwise import Elementwise, Kink
from .check_op import Examination, examine
from .entries import all_entries
from .entry import Entry
from .report import Report


@dataclass
class Page:
    """One op, with all entries that prove it.

    Attributes:
        name: of the public function.
        doc: its docstring.
        formula: the gradient in mathematical notation; empty where no entry gives one.
        answers: {input: what the rule says about it}.
        kinks: of the ops that make it up: where the derivative doesn't exist, what is legal, what is chosen.
        references: papers, equations, bug reports.
        reports: {entry: what `check_op` measured}.
    """

    name: str
    doc: str = ""
    formula: str = ""
    answers: dict[str, str] = field(default_factory=dict)
    kinks: list[Kink] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    reports: dict[str, Report] = field(default_factory=dict)

    def largest(self, order: int) -> float:
        """The largest error of this order over all entries."""
        return max((r.largest(order) for r in self.reports.values()), default=0.0)

    @property
    def complex_step(self) -> float | None:
        """The largest error against the complex step; None where that doesn't apply."""
        return max((r.complex_step for r in self.reports.values() if r.complex_step is not None), default=None)


def pages(entries: Iterable[Entry] | None = None) -> list[Page]:
    """One page per op, in alphabetical order. Every entry is examined anew, which takes a while."""
    found: dict[str, Page] = {}
    for entry in all_entries() if entries is None else entries:
        name = entry.name.removeprefix("row:").partition("[")[0]
        _add(found.setdefault(name, Page(name)), entry)
    return [found[name] for name in sorted(found)]


def _add(page: Page, entry: Entry) -> None:
    report = examine(entry)
    page.reports[entry.name] = report
    page.formula = page.formula or entry.formula
    page.references += [r for r in entry.references if r not in page.references]
    page.answers |= {n: a for n, a in zip(report.inputs, report.answers) if n not in page.answers}
    inputs, outputs = Examination(entry).build()
    for node in toposort(outputs, stop=inputs):
        page.kinks += [k for k in kinks_of(node.op) if k not in page.kinks]
        if isinstance(node.op, Elementwise) and node.op.row.name == page.name:
            page.doc = node.op.row.doc
            page.formula = page.formula or node.op.row.formula
    page.doc = page.doc or (getattr(entry.call, "__doc__", None) or "").strip()
