"""Why a gradient is what it is: the way from a variable to the cost, with what each op answers and where it is cut."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph import Apply, Constant, DisconnectedType, NonAnswer, Origin, Variable, ancestors, toposort
from ..ops.elementwise import BroadcastLike, Cast, Elementwise, Kink
from .engine import Walk, check_wrt, make_seeds
from .kinks import kinks_of

LONGEST_PATH = 24  # lines of a drawn path; longer ones are shortened in the middle
LONGEST_LIST = 8
LONGEST_LABEL = 44


@dataclass(frozen=True)
class Step:
    """One op on the way from a variable to the cost.

    Attributes:
        node: the use of the op.
        input: the number of the input through which the way leads.
        answer: what the op says about that input: a formula in words, or why there is none.
        cut: whether the way ends here.
    """

    node: Apply
    input: int
    answer: str
    cut: bool = False


@dataclass(frozen=True)
class Explanation:
    """What `explain` found out about one gradient; `print` shows it as a report.

    Attributes:
        cost, wrt: the gradient of what, with respect to what.
        verdict: "formula", "zero" (every way passes an op that is locally constant), "disconnected", "undefined" or
            "not implemented".
        path: the way with the fewest cuts, and of those the shortest; empty if `wrt` is no part of the cost.
        operations: how many ops lie between `wrt` and the cost.
        cuts: where other ways end, and why.
        non_answers: ops that have no formula for an input on the way.
        locally_constant: ops on the way whose derivative is zero wherever it exists.
        kinks: ops on the way with points where the derivative does not exist, and our choice there.
        stable_forms: expressions that are differentiated in a form that can't overflow.
        hints: what the user may have meant.
    """

    cost: Variable | None
    wrt: Variable
    verdict: str
    path: tuple[Step, ...]
    operations: int
    cuts: tuple[Step, ...]
    non_answers: tuple[Step, ...]
    locally_constant: tuple[Step, ...]
    kinks: tuple[tuple[Apply, Kink], ...]
    stable_forms: tuple[tuple[Apply, Variable], ...]
    hints: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self._title()}: {self._sentence()}"]
        if self.path:
            parts.append(draw_path(self.wrt, self.cost, self.path))
        parts += [f"  {hint}" for hint in self.hints]
        sections = [
            ("no formula:", [_line(s) for s in self.non_answers if s not in self.path]),
            ("other ways that are cut:", [_line(s) for s in self.cuts if s not in self.path]),
            ("locally constant, so their derivative is zero:", [_line(s) for s in self.locally_constant]),
            ("kinks, where the derivative does not exist, and what is answered there:",
             [f"{_label(node)}  at {k.where}: legal {k.legal}; answered {k.choice}" for node, k in self.kinks]),
            ("differentiated in a form that can't overflow:",
             [f"{_label(node)}, as {form.owner.op}" for node, form in self.stable_forms]),
        ]  # fmt: skip
        for title, lines in sections:
            distinct = list(dict.fromkeys(lines))
            if distinct:
                more = [f"and {len(distinct) - LONGEST_LIST} more"] if len(distinct) > LONGEST_LIST else []
                parts.append("\n".join([f"  {title}", *(f"    {t}" for t in distinct[:LONGEST_LIST] + more)]))
        return "\n\n".join(parts)

    __repr__ = __str__

    def _title(self) -> str:
        return f"d {name_of(self.cost, 'cost')} / d {name_of(self.wrt)}"

    def _sentence(self) -> str:
        ways = f"through {self.operations} operation{'s' * (self.operations != 1)}"
        return {
            "formula": f"a formula, {ways}" if self.operations else "one: they are the same variable",
            "zero": f"zero, {ways}: every way passes an op that is locally constant",
            "undefined": "mathematically undefined",
            "not implemented": "not implemented",
            "disconnected": "disconnected: "
            + ("every way to the cost is cut" if self.path else "the cost is not computed from it"),
        }[self.verdict]


def explain(
    cost: Variable | None,
    wrt: Variable | Sequence[Variable],
    *,
    known_grads: Mapping[Variable, Variable] | None = None,
    consider_constant: Iterable[Variable] = (),
) -> Explanation | list[Explanation]:
    """Why `grad(cost, wrt)` is what it is: the way from `wrt` to the cost, what each op on it answers, which
    conventions it uses, and where and why it is cut. Nothing is raised for a gradient that doesn't exist.

    Args: as those of `grad`. For a list or tuple of variables, a list of explanations.

    Example:
        >>> import pullback as pb
        >>> x = pb.vector("x")
        >>> print(pb.explain(pb.floor(x).sum(), x).verdict)
        zero
    """
    targets = check_wrt(wrt)
    seeds = make_seeds(cost, known_grads)
    found = [Inspection(Walk(seeds, [x], consider_constant), cost, x).explanation() for x in targets]
    return found[0] if isinstance(wrt, Variable) else found


def draw_refusal(walk: Walk, cost: Variable | None, x: Variable, answer: Variable) -> str:
    """The message for a gradient that needs a non-answer."""
    kind = answer.type
    inspection = Inspection(walk, cost, x)
    where = next((key for key, given in walk.answers.items() if given is answer), None)
    title = (
        f"d {name_of(cost, 'cost')} / d {name_of(x)}: {kind}. {_shorten(str(kind.op))} has no formula for its input "
        f"{kind.index}: {kind.why}"
    )
    if where is None:  # it was given with known_grads
        return title
    return f"{title}\n\n{draw_path(x, cost, inspection.path_through(*where))}\n\n  {REMEDY}"


def draw_disconnected(walk: Walk, cost: Variable | None, x: Variable) -> str:
    """The message for a cost that isn't a function of `x`."""
    found = Inspection(walk, cost, x).explanation()
    ignore = "  To take it as zero, pass disconnected_inputs='ignore'."
    return f"{found}\n\n{ignore}"


REMEDY = "To leave this way out, hold that input constant: pb.disconnected_grad, or consider_constant=[...]."


class Inspection:
    """Questions about one walk and one target."""

    def __init__(self, walk: Walk, cost: Variable | None, x: Variable) -> None:
        self.walk = walk
        self.cost = cost
        self.x = x
        above_blocked = toposort(walk.blocked)  # the walk has not been there
        self.order = list(dict.fromkeys([*above_blocked, *walk.order]))

    # --- what happens at one edge -------------------------------------------------------------------------------------
    def cut(self, node: Apply, i: int, j: int) -> str | None:
        """Why nothing is differentiated from output j of a node to its input i; None if something is."""
        x, out = node.inputs[i], node.outputs[j]
        if out in self.walk.blocked:
            return "held constant by consider_constant"
        if out.type.is_discrete:
            kind = "a boolean" if out.dtype == "bool" else "an integer"
            return f"its result is {out.dtype}, and {kind} has no neighbourhood"
        if not self.walk.pattern(node)[i][j]:
            if i in node.op.shape_only_inputs:
                return "only the shape of this input is read"
            if x.type.is_discrete:
                return f"an {x.dtype} input (an index, a size or a condition) has no neighbourhood"
            return "it does not depend on this input differentiably"
        answer = self.walk.answers.get((node, i))
        if answer is not None and isinstance(answer.type, DisconnectedType):
            return "its rule answers: disconnected"
        return None

    def words(self, node: Apply, i: int) -> str:
        """What the op answers for input i."""
        answer = self.walk.answers.get((node, i))
        if answer is not None and isinstance(answer.type, NonAnswer):
            return f"{answer.type}: {answer.type.why}"
        if self.is_locally_constant(node, i):
            return "zero: locally constant"
        formula = node.op.row.formula if isinstance(node.op, Elementwise) else node.op.formula
        return part_of_formula(formula, i, len(node.inputs)) or "formula"

    def is_locally_constant(self, node: Apply, i: int) -> bool:
        """Whether the op answers zeros whatever arrives."""
        answer = self.walk.answers.get((node, i))
        arriving = [self.walk.gradient(v) for v in node.outputs]
        return answer is not None and _is_zero(answer) and answer not in arriving

    # --- paths --------------------------------------------------------------------------------------------------------
    def ways(self, starts: Iterable[Variable], toll: Callable[[Apply, int, int], bool]) -> dict[Variable, tuple]:
        """For each variable that depends on a start: (tolls paid, ops passed, the last edge) of the cheapest way."""
        best: dict[Variable, tuple[int, int, Any]] = dict.fromkeys(starts, (0, 0, None))
        for node in self.order:
            reached = [i for i, x in enumerate(node.inputs) if x in best]
            for j, v in enumerate(node.outputs):
                v = self.walk.stands_for.get(v, v)
                for i in reached:
                    tolls, passed, _ = best[node.inputs[i]]
                    way = (tolls + toll(node, i, j), passed + 1, (node, i, j))
                    if v not in best or way[:2] < best[v][:2]:
                        best[v] = way
        return best

    def steps(self, best: Mapping[Variable, tuple], end: Variable) -> list[Step]:
        """The way to `end`, from its start."""
        found: list[Step] = []
        while best[end][2] is not None:
            node, i, j = best[end][2]
            why = self.cut(node, i, j)
            found.append(Step(node, i, why or self.words(node, i), why is not None))
            end = node.inputs[i]
        return found[::-1]

    def is_cut(self, node: Apply, i: int, j: int) -> bool:
        return self.cut(node, i, j) is not None

    def path_through(self, node: Apply, i: int) -> list[Step]:
        """The way from the target to input i of a node, and on from there to the cost."""
        before = self.steps(self.ways([self.x], self.is_cut), node.inputs[i])
        refused = Step(node, i, self.words(node, i), True)
        after = self.ways([self.walk.stands_for.get(v, v) for v in node.outputs], self.is_cut)
        ends = [v for v in self.walk.seeds if v in after]
        rest = self.steps(after, min(ends, key=lambda v: after[v][:2])) if ends else []
        return [*before, refused, *rest]

    # --- the whole ----------------------------------------------------------------------------------------------------
    def explanation(self) -> Explanation:
        walk, x = self.walk, self.x
        best = self.ways([x], self.is_cut)
        ends = [v for v in walk.seeds if v in best]
        end = min(ends, key=lambda v: best[v][:2], default=None)
        live = self._live(best)
        verdict, path = self._verdict(best, end)
        non_answers = [
            Step(node, i, self.words(node, i), True)
            for (node, i), answer in walk.answers.items()
            if isinstance(answer.type, NonAnswer)
        ]
        cuts = [
            Step(node, i, why, True)
            for node in live
            for i, v in enumerate(node.inputs)
            if v in best and best[v][0] == 0
            for j in range(len(node.outputs))
            if (why := self.cut(node, i, j)) is not None
        ]
        passed = [node for node in live if any((node, i) in walk.answers for i in range(len(node.inputs)))]
        flat = [
            Step(node, i, "zero", False) for (node, i) in walk.answers if self.is_locally_constant(node, i)
        ]
        stable = [(v.owner, form) for form, v in walk.stands_for.items() if v in best]
        return Explanation(
            self.cost, x, verdict, tuple(path), len(passed), tuple(cuts), tuple(non_answers), tuple(flat),
            tuple((node, k) for node in passed for k in kinks_of(node.op)), tuple(stable), tuple(self._hints(end)),
        )  # fmt: skip

    def _verdict(self, best: Mapping[Variable, tuple], end: Variable | None) -> tuple[str, list[Step]]:
        g = self.walk.gradient(self.x)
        if isinstance(g.type, NonAnswer):
            where = next((key for key, given in self.walk.answers.items() if given is g), None)
            return str(g.type), self.path_through(*where) if where else []
        if end is None:
            return "disconnected", []
        if isinstance(g.type, DisconnectedType):
            return "disconnected", self.steps(best, end)
        moving = self.ways([self.x], lambda node, i, j: self.is_cut(node, i, j) or self.is_locally_constant(node, i))
        last = min((v for v in self.walk.seeds if v in moving), key=lambda v: moving[v][:2])
        return "zero" if moving[last][0] else "formula", self.steps(moving, last)

    def _live(self, best: Mapping[Variable, Any]) -> list[Apply]:
        """Nodes between the target and the cost."""
        needed = set(self.walk.seeds)
        found = []
        for node in reversed(self.order):
            if any(v in needed or self.walk.stands_for.get(v) in needed for v in node.outputs):
                needed.update(node.inputs)
                if any(v in best for v in node.inputs):
                    found.append(node)
        return found[::-1]

    def _hints(self, end: Variable | None) -> Iterable[str]:
        if end is not None:
            return
        x = self.x
        inside = list(ancestors(self.walk.seeds))
        twins = [v for v in inside if v.name and v.name == x.name and v is not x]
        if twins:
            yield f"The cost uses another variable that is also called {x.name!r}: was it made twice?"
        if x.owner is not None and any(v in inside for v in x.owner.inputs):
            yield (
                f"{name_of(x)} is computed from what the cost is computed from, but the cost does not use this result: "
                "build the cost from it."
            )
        names = [v.name for v in inside if v.owner is None and v.name and not isinstance(v, Constant)]
        if names:
            shown = ", ".join(names[:LONGEST_LIST]) + (", ..." if len(names) > LONGEST_LIST else "")
            yield f"The cost is computed from: {shown}."


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw_path(x: Variable, cost: Variable | None, path: Sequence[Step]) -> str:
    """The ops from `x` (above) to the cost (below), one a line; after a cut the line is dotted."""
    rows: list[tuple[str, str, str, str]] = []
    connected = True
    for step in path:
        connected = connected and not step.cut
        mark = "X" if step.cut else "|" if connected else ":"
        label = str(step.node.op) if len(step.node.inputs) == 1 else f"{step.node.op} (input {step.input})"
        answer = f"CUT: {step.answer}" if step.cut else step.answer if connected else ""
        rows.append((mark, _shorten(label), answer, place(step.node.origin)))
    rows = _shorten_path(rows)
    width = max((len(row[1]) for row in rows), default=0)
    middle = max((len(row[2]) for row in rows if row[0] != "X"), default=0)
    lines = [f"    {name_of(x)}  {x.type}"]
    lines += [f"    {m}  {label:<{width}}  {answer:<{middle}}  {where}".rstrip() for m, label, answer, where in rows]
    lines.append("    the variables in known_grads" if cost is None else f"    {name_of(cost, 'cost')}  {cost.type}")
    return "\n".join(lines)


def _shorten_path(rows: list[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str]]:
    """At most LONGEST_PATH rows: the ends, and what surrounds the cuts."""
    if len(rows) <= LONGEST_PATH:
        return rows
    kept = {*range(6), *range(len(rows) - 6, len(rows))}
    for k in [k for k, row in enumerate(rows) if row[0] == "X"][:2]:
        kept.update(range(k - 2, k + 3))
    shown: list[tuple[str, str, str, str]] = []
    last = -1
    for k in sorted(k for k in kept if 0 <= k < len(rows)):
        if k > last + 1:
            shown.append((rows[k][0] if rows[k][0] != "X" else "|", f"... {k - last - 1} more ...", "", ""))
        shown.append(rows[k])
        last = k
    return shown


def place(origin: Origin) -> str:
    """The user's file and line, relative to the current folder if it lies there."""
    here = os.getcwd() + os.sep
    file = origin.file.removeprefix(here)
    layer = f", layer {origin.layer}" if origin.layer else ""
    within = f"  (in the gradient of {origin.gradient_of})" if origin.gradient_of else ""
    return f"{file}:{origin.line}{layer}{within}"


def _line(step: Step) -> str:
    number = f" (input {step.input})" if len(step.node.inputs) > 1 else ""
    answer = "" if step.answer == "zero" else f": {step.answer}"
    return f"{_shorten(str(step.node.op))}{number}{answer}  {place(step.node.origin)}"


def _label(node: Apply) -> str:
    return f"{_shorten(str(node.op))}  {place(node.origin)}"


def name_of(v: Variable | None, otherwise: str = "") -> str:
    """The name that the user gave `v`, or a description."""
    if v is None or not v.name:
        made_by = "" if v is None or v.owner is None else f"this result of {_shorten(str(v.owner.op))}"
        return otherwise or made_by or "this variable"
    return v.name


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 3] + "..."


def part_of_formula(formula: str, i: int, arity: int) -> str:
    """The piece of "(g y, g x)" that belongs to input i."""
    if arity == 1 or not formula.startswith("("):
        return formula
    pieces, depth = [""], 0
    for c in formula[1:-1]:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += c
    return pieces[i].strip() if len(pieces) == arity else formula


def _is_zero(v: Variable) -> bool:
    while v.owner is not None and isinstance(v.owner.op, (BroadcastLike, Cast)):
        v = v.owner.inputs[0]
    return isinstance(v, Constant) and v.data.size > 0 and not v.data.any()
