"""The atlas: a page per operation, made from the code, the record of `check_op`, and what is published elsewhere."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pullback as pb
from pullback.gradient.explain import part_of_formula
from pullback.gradient.kinks import kinks_of
from pullback.graph import Op, toposort
from pullback.ops.elementwise import ROWS, Elementwise
from pullback.testing import Entry, Report, entries, examine
from pullback.testing.check_op import Examination

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "docs" / "atlas" / "checks.json"
PUBLISHED = ROOT / "docs" / "atlas" / "published.json"
CASES = ROOT / "tests" / "data" / "cases" / "cases.json"
INTERNAL = {"passed"}
TITLES = {"index": "x[...]"}
HELPERS = {"sum", "square", "reshape", "asarray", "zeros", "ones", "constant", "shared", "arange", "concatenate"}
FILES = {"index": "getitem"}  # index.md is the table of contents
FAMILIES = {
    "elementwise": "Elementwise", "activations": "Activations", "bessel": "Bessel functions",
    "reductions": "Reductions, running sums, sorting", "linear": "Products", "linalg": "Linear algebra",
    "shapes": "Shapes, indexing, gathering", "rearrange": "Rearranging", "conv": "Convolution", "pool": "Pooling",
    "upsample": "Resizing and patches", "norm": "Normalisation", "softmax": "Softmax and its cross-entropy",
    "losses": "Losses", "alignment": "CTC and boxes", "attention": "Attention", "recurrent": "Recurrent networks",
    "control": "Loops and branches", "draws": "Random draws", "collective": "Between processes",
    "views": "Changes of the gradient",
}  # fmt: skip


@dataclass
class Page:
    """One operation.

    Attributes:
        name: of the public function.
        family: the module of its entries.
        entries: its uses that are proved, the plain one first.
        op: the op that it is, if it is just one.
        parts: (link or name, gradient formula) of the ops that it is made of, if they are several.
        faults: what is published elsewhere.
        reports: public bug reports whose cases call it.
    """

    name: str
    family: str
    entries: list[Entry] = field(default_factory=list)
    op: Op | None = None
    parts: list[tuple[str, str]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return TITLES.get(self.name, self.name)

    @property
    def file(self) -> str:
        return f"{FILES.get(self.name, self.name)}.md"

    @property
    def function(self) -> Any:
        """The public object, or None where there is only the row."""
        found: Any = pb
        for part in self.name.split("."):
            found = getattr(found, part, None)
        return found

    @property
    def formula(self) -> str:
        """The gradient in mathematical notation."""
        given = next((e.formula for e in self.entries if e.formula), "")
        return given or ("" if self.op is None else formula_of(self.op))

    @property
    def row(self) -> Any:
        return self.op.row if isinstance(self.op, Elementwise) else None

    def worst(self, order: int) -> float | None:
        """The largest error of this order over all its uses; None if it has no formula."""
        reports = [report for entry in self.entries if "formula" in (report := measured(entry))["answers"]]
        errors = [e for report in reports for e in report["errors"].get(str(order), [])]
        return max((e for e in errors if e is not None), default=None)


# --- what there is ----------------------------------------------------------------------------------------------------


@cache
def record() -> dict[str, Any]:
    return json.loads(RECORD.read_text())["entries"]


def measured(entry: Entry) -> dict[str, Any]:
    """What the record holds of an entry; of one that is newer than the record, what is measured now."""
    if entry.name not in record():
        record()[entry.name] = row(examine(entry).raise_if_wrong())
    return record()[entry.name]


def row(report: Report) -> dict[str, Any]:
    """What is kept of a report."""
    kept = {
        "inputs": report.inputs,
        "answers": report.answers,
        "errors": {str(order): [rounded(e) for e in errors] for order, errors in sorted(report.errors.items())},
        "points": report.draws - report.redraws,
    }
    return kept if report.complex_step is None else kept | {"complex step": rounded(report.complex_step)}


def rounded(error: float | None) -> float | None:
    """Two digits say enough of an error."""
    return None if error is None else float(f"{error:.1e}")


@cache
def pages() -> dict[str, Page]:
    """Every page, by name, in the order of families."""
    found: dict[str, Page] = {}
    modules = {m.name for m in pkgutil.iter_modules(entries.__path__)}
    assert modules == set(FAMILIES), modules ^ set(FAMILIES)
    for family in FAMILIES:
        for entry in importlib.import_module(f"{entries.__name__}.{family}").ENTRIES:
            name = base_name(entry.name)
            if name not in INTERNAL:
                found.setdefault(name, Page(name, family)).entries.append(entry)
    pages_of_ops: dict[str, str] = {}
    nodes = {}
    for page in found.values():
        inputs, outputs = Examination(page.entries[0]).build()
        nodes[page.name] = toposort(outputs, stop=inputs)
        last = nodes[page.name][-1:] if len(nodes[page.name]) == 1 else []
        if last and not any(v.owner for v in last[0].inputs if v not in inputs):
            page.op = last[0].op
            pages_of_ops.setdefault(entries.name_of(page.op), page.name)
    for page in found.values():
        if page.op is None:
            ops = [node.op for node in nodes[page.name] if formula_of(node.op)]
            page.parts = list(dict.fromkeys(part(op, pages_of_ops) for op in ops))
    for fault in json.loads(PUBLISHED.read_text()):
        for name in fault["ops"]:
            found[name].faults.append(fault)
    for case in json.loads(CASES.read_text())["cases"]:
        for name in operations_in(case) & set(found):
            found[name].reports.append(case)
    return found


def part(op: Op, pages_of_ops: dict[str, str]) -> tuple[str, str]:
    """An op as a link to its page, if it has one, and its formula."""
    name = op.row.name if isinstance(op, Elementwise) else type(op).__name__
    page = pages_of_ops.get(entries.name_of(op))
    return f"[`{TITLES.get(page, page)}`]({FILES.get(page, page)}.md)" if page else f"`{name}`", formula_of(op)


def formula_of(op: Op) -> str:
    return op.row.formula if isinstance(op, Elementwise) else op.formula


def base_name(entry: str) -> str:
    """ "row:sqrt" -> "sqrt", "max[axis=0]" -> "max" """
    return re.split(r"[\['(]", entry.removeprefix("row:"))[0]


def operations_in(case: dict[str, Any]) -> set[str]:
    """The functions that a bug report is about: those that it calls, but for what only holds them together."""
    source = "\n".join([*case.get("setup", []), case.get("expr", "")])
    called = set(re.findall(r"pb\.([a-z_0-9.]+)\(", source))
    operators = {"index": r"\bx\[idx\]", "power": r"\ba ?\*\* ?b\b"}
    return (called - HELPERS or called) | {name for name, spelt in operators.items() if re.search(spelt, source)}


# --- one page ---------------------------------------------------------------------------------------------------------


def render(page: Page) -> str:
    """A page in Markdown."""
    family = FAMILIES[page.family]
    anchor = re.sub("[^a-z]+", "-", family.lower()).strip("-")
    parts = [f"---\ntitle: {page.title}\n---", f"[The atlas](index.md) · [{family}](index.md#{anchor})"]
    parts += [*description(page), *gradient(page)]
    parts += [*kinks(page), *special_points(page), *proofs(page), *others(page), *references(page), *code(page)]
    return "\n\n".join(parts) + "\n"


def description(page: Page) -> Iterator[str]:
    """Signature and docstring."""
    function = page.function
    documented = isinstance(function, FunctionType) and function.__code__.co_name == function.__name__
    if documented and page.name not in TITLES:
        yield (
            f"::: {function.__module__}.{function.__qualname__}\n"
            "    options: {show_source: false, show_root_heading: true, heading_level: 1, show_root_full_path: false}"
        )
        return
    yield f"# {page.title}"
    if isinstance(function, FunctionType) and not documented:  # made by another function
        signature = str(inspect.signature(function)).replace("pullback.graph.variable.", "").replace("typing.", "")
        yield f"`{page.name}{signature}`"
        yield f"```text\n{inspect.getdoc(function)}\n```"
    elif page.row is not None:
        arguments = ", ".join("xyz"[: page.row.arity])
        yield f"`{page.name}({arguments})`: {page.row.doc}"
        if page.row.native:
            yield f"Native formula, element by element: `{page.row.native}`"
    elif function is not None:
        yield inspect.getdoc(function) or ""


def gradient(page: Page) -> Iterator[str]:
    """What each input is answered, and how exact that is."""
    yield "## Gradient"
    plain = page.entries[0]
    names = input_names(page)
    together = len(names) > 1 and part_of_formula(page.formula, 0, len(names)) == page.formula
    rows = []
    for i, name in enumerate(names):
        reports = [measured(e) for e in page.entries if len(e.inputs) == len(plain.inputs)]
        answers = dict.fromkeys(r["answers"][i] for r in reports)
        formula = part_of_formula(page.formula, i, len(names)) if "formula" in answers and not together else ""
        errors = [worst_of(reports, order, i) for order in (1, 2)]
        rows.append([f"`{name}`", said(list(answers)), f"`{formula}`" if formula else "", *map(shown, errors)])
    if together and page.formula:
        yield f"`{page.formula}`"
    heading = ["input", "answer", "formula", "largest error, first order", "second order"]
    keep = [k for k in range(5) if k < 2 or any(row[k] for row in rows)]
    yield table([heading[k] for k in keep], [[row[k] for k in keep] for row in rows])
    if page.formula:
        yield "`g` is the cotangent: the derivative of the cost with respect to the output."
    elif page.parts:
        yield "Its gradient is what the rules of its parts give, one after the other:"
        yield table(["made of", "rule"], [[link, f"`{formula}`"] for link, formula in page.parts])
    if page.entries[0].pullback is not None:
        yield "The gradient is no derivative, by intent: it is compared with what the op promises."


def input_names(page: Page) -> list[str]:
    """As the function's signature calls them."""
    recorded = measured(page.entries[0])["inputs"]
    function = page.function
    if isinstance(function, Elementwise):
        return list("xyz"[: len(recorded)])
    if isinstance(function, FunctionType):
        kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        named = [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]
        return [named[i] if r.startswith("input ") and i < len(named) else r for i, r in enumerate(recorded)]
    return recorded


def worst_of(reports: Sequence[dict[str, Any]], order: int, i: int) -> float | None:
    found = [r["errors"].get(str(order), [])[i : i + 1] for r in reports]
    return max((e for errors in found for e in errors if e is not None), default=None)


def said(answers: Sequence[str]) -> str:
    """Answers as words: "disconnected: why" keeps its reason."""
    words = {"formula": "formula", "discrete": "disconnected: integers have no neighbourhood"}
    return "; ".join(words.get(a, a) for a in answers)


def kinks(page: Page) -> Iterator[str]:
    found = kinks_of(page.op) if page.op is not None else ()
    found = [k for k in found if (first := k.where.split()[0]) == page.name or first not in pages()]
    if found:
        yield "## Where the derivative doesn't exist"
        yield table(["at", "legal values", "answered"], [[k.where, k.legal, k.choice] for k in found])


def special_points(page: Page) -> Iterator[str]:
    """What must come out where no random draw goes."""
    rows = []
    for entry in page.entries:
        for point in entry.points:
            grads = ", ".join("-" if g is None else number(g) for g in point.grads)
            rows.append([point.why, ", ".join(map(number, point.inputs)), grads])
    if rows:
        yield "## Points that no draw hits"
        yield table(["which", "inputs", "gradient for a cotangent of ones"], rows)


def proofs(page: Page) -> Iterator[str]:
    """The uses that `check_op` proved, with what was measured."""
    yield "## Proved"
    rows = []
    for entry in page.entries:
        kept = measured(entry)
        errors = {k: max((e for e in row if e is not None), default=None) for k, row in kept["errors"].items()}
        rows.append([f"`{entry.name.removeprefix('row:')}`", *(shown(errors.get(n)) for n in "123"),
                     shown(kept.get("complex step")), ", ".join(extras(entry))])  # fmt: skip
    heading = ["use", "first order", "second", "third", "complex step", "also"]
    blank = [k for k in (3, 4, 5) if not any(row[k] for row in rows)]
    keep = [k for k in range(6) if k not in blank]
    yield table([heading[k] for k in keep], [[row[k] for k in keep] for row in rows])
    yield (
        "Largest relative errors against extrapolated differences in float64, "
        "|v.g - FD| / max(|v.g|, |FD|, 1e-3 |v| |g|), with a random signed cotangent; float32, both backends, memory "
        "layouts and second calls are checked beside them. See [the laws](../gradients.md)."
    )


def extras(entry: Entry) -> Iterator[str]:
    yield from ["broadcasting"] * entry.broadcast
    yield from ["ties"] * entry.ties
    yield from ["strong zero"] * entry.strong_zero
    if entry.empty is None and entry.axis_names:
        yield "empty axes"


def others(page: Page) -> Iterator[str]:
    """Which published implementations get it wrong."""
    if page.faults:
        yield "## Published elsewhere, and wrong or missing"
        lines = []
        for fault in page.faults:
            who = f"[{fault['who']}]({fault['url']})" if "url" in fault else fault["who"]
            lines.append(f"- **{who}**: {fault['fault']}")
        yield "\n".join(lines)
    if page.reports:
        yield "## Bug reports that became its tests"
        lines = []
        for case in page.reports:
            links = ", ".join(f"[{s['repo']}#{s['number']}]({s['url']})" for s in case["source"])
            lines.append(f"- {case['symptom']} ({links})")
        yield "\n".join(lines)


def references(page: Page) -> Iterator[str]:
    found = dict.fromkeys(reference for entry in page.entries for reference in entry.references)
    if found:
        yield "## References"
        yield "\n".join(f"- {reference}" for reference in found)


def code(page: Page) -> Iterator[str]:
    """The op on one screen, or the function."""
    if page.row is not None:
        source = source_of_row(page.row.name)
    elif page.op is not None and not isinstance(page.function, Elementwise):
        source = inspect.getsource(type(page.op))
    elif isinstance(page.function, FunctionType):
        source = without_docstring(textwrap.dedent(inspect.getsource(page.function)))
    else:
        return
    indented = textwrap.indent(f"```python\n{source.rstrip()}\n```", "    ")
    yield f'??? note "The code"\n\n{indented}'


def without_docstring(source: str) -> str:
    """A function's source, whose docstring the page shows already."""
    lines = source.splitlines()
    first = ast.parse(source).body[0].body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return "\n".join(lines[: first.lineno - 1] + lines[first.end_lineno :]) if is_docstring else source


@cache
def statements_of_rows() -> dict[str, str]:
    """{name of the row: the statement that defines it}"""
    found = {}
    for module in pkgutil.iter_modules(pb.ops.__path__):
        source = (Path(pb.ops.__path__[0]) / f"{module.name}.py").read_text()
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and getattr(node.value.func, "id", "") == "define"
            ):
                name = ast.literal_eval(node.value.args[0])
                found[name] = ast.get_source_segment(source, node)
    return found


def source_of_row(name: str) -> str:
    return statements_of_rows().get(name, "")


# --- the index --------------------------------------------------------------------------------------------------------


def index() -> str:
    """The table of contents with the largest errors, to be put into docs/atlas/index.md."""
    parts = []
    everything = pages()
    for family, title in FAMILIES.items():
        rows = [
            [
                f"[`{page.title}`]({page.file})",
                f"`{page.formula}`" if page.formula else few([link for link, _ in page.parts]) or "none",
                shown(page.worst(1)),
                shown(page.worst(2)),
                str(len(page.faults) + len(page.reports) or ""),
            ]
            for page in sorted(everything.values(), key=lambda page: page.title.lower())
            if page.family == family
        ]
        parts += [f"## {title}", table(["operation", "gradient", "first order", "second order", "known faults"], rows)]
    return "\n\n".join(parts)


def summary() -> str:
    """How much is proved, how well, and when."""
    made = json.loads(RECORD.read_text())["made"]
    worst = [max(page.worst(order) or 0.0 for page in pages().values()) for order in (1, 2)]
    uses = sum(len(page.entries) for page in pages().values())
    return (
        f"{len(pages())} operations in {uses} uses, {len(ROWS)} of them elementwise rows. Largest error of a gradient: "
        f"**{worst[0]:.1e}** at first order, **{worst[1]:.1e}** at second. Measured on {made['date']} with pullback "
        f"{made['pullback']}, Python {made['python']}, NumPy {made['numpy']}."
    )


def few(links: Sequence[str], most: int = 4) -> str:
    """The first of some links."""
    return ("that of " if links else "") + ", ".join(links[:most]) + (", ..." if len(links) > most else "")


# --- words ------------------------------------------------------------------------------------------------------------


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; a bar in a cell would end it."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def shown(error: float | None) -> str:
    """An error as people write it; what is exact is 0."""
    return "" if error is None else "0" if error == 0 else f"{error:.1e}"


def number(value: Any) -> str:
    """An array of a special point."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(number, value))}]"
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def rendered() -> dict[str, Callable[[], str]]:
    """{path below docs: how its text is made}"""
    return {f"atlas/{page.file}": (lambda page=page: render(page)) for page in pages().values()}
