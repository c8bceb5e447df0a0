"""`check_op`: the one harness. What an op computes, what its gradient claims and how it behaves, all proved at once."""

import inspect
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..config import config
from ..errors import DisconnectedInputError, NotImplementedGradientError, UndefinedGradientError
from ..gradient.engine import grad
from ..graph import Op, TensorType, Variable, toposort
from ..ops.arithmetic import add
from ..ops.elementwise import cast, sum_to
from .audit import audit, check_rule, difference
from .backends import SPECIAL, Backends, is_rounding
from .differences import Arrays, complex_step, flat, norm, random_direction, relative_error, signed
from .entry import Entry, entry_of
from .proof import TRIES, prove, prove_at_ties
from .report import Mistake, Report, Wrong
from .subject import GraphSubject, Masked

REFUSALS = {
    "disconnected": DisconnectedInputError,
    "undefined": UndefinedGradientError,
    "not implemented": NotImplementedGradientError,
}


def thorough() -> bool:
    """Whether everything is asked for (`make prove`): all dtypes, many draws."""
    return os.environ.get("PULLBACK_PROVE") == "1"


def check_op(op: Entry | Callable[..., Any], *inputs: Any, seed: int = 0, **options: Any) -> Report:
    """Prove an op: its types and shapes, its manners, its gradient and its gradient's gradient.

    Args:
        op: an `Entry`; or an Op or function from variables to variables, followed by
        inputs: example arrays. Draws have their shapes and dtypes, and values from their range; integers stay as given.
        seed: of the draws.
        options: attributes of `Entry` (`orders=1`, `ties=True`, `strong_zero=True`, `points=...`).

    What is checked: dtype, rank and shape of each output, and `infer_shape`, against what `perform` returns; views and
    writes that aren't declared; buffers that aren't filled; other memory layouts; a typed answer per input, in its
    dtype; every gradient against extrapolated differences with a signed cotangent, to the second order (`orders`), for
    each subset of omitted cotangents; that what is said to be disconnected is; that refusals are raised; float32 beside
    float64; both backends, called again and with other sizes; and where the entry says so broadcasting, empty and
    single-element axes, ties, special points and the complex step.

    Returns:
        A Report with the measured errors.

    Raises:
        CheckError: something is wrong; its `mistake` names the likely kind and the worst element.

    Example:
        >>> import numpy as np, pullback as pb
        >>> from pullback.testing import check_op
        >>> check_op(pb.multiply, np.ones((2, 3)), np.ones((2, 3))).right
        True
    """
    entry = op if isinstance(op, Entry) else entry_of(op, inputs, **options)
    return examine(entry, seed).raise_if_wrong()


def examine(entry: Entry, seed: int = 0) -> Report:
    """`check_op` that reports instead of raising. The checks stop at the first that fails."""
    examination = Examination(entry, seed)
    for check in examination.checks():
        try:
            check()
        except Wrong as wrong:
            examination.report.mistakes.append(wrong.mistake)
        except Exception as error:
            message = f"{check.__name__.replace('_', ' ')}: {type(error).__name__}: {error}"
            examination.report.mistakes.append(Mistake("error", message))
        if examination.report.mistakes:
            break
    return examination.report


def check_at(entry: Entry, arrays: Arrays) -> Report:
    """The manners and the first order of an entry at given inputs, whatever their lengths; a kink there is let pass.

    Raises:
        CheckError: something is wrong.
    """
    examination = Examination(entry)
    report = examination.report
    try:
        inputs, outputs = examination.build(shapes=[(None,) * a.ndim for a in arrays])
        with np.errstate(all="ignore"):
            audit(inputs, outputs, arrays)
        examination.prove(GraphSubject(inputs, outputs), lambda: list(arrays), tries=1)
    except Wrong as wrong:
        if wrong.mistake.kind != "not smooth":
            report.mistakes.append(wrong.mistake)
    return report.raise_if_wrong()


class Examination:
    """All checks of one entry, on draws that depend on its name and the seed only."""

    def __init__(self, entry: Entry, seed: int = 0) -> None:
        self.entry = entry
        self.rng = np.random.default_rng([zlib.crc32(entry.name.encode()), seed])
        self.sizes = entry.draw_sizes(self.rng)
        self.report = Report(entry.name)
        self.thorough = thorough()

    def checks(self) -> Iterator[Callable[[], None]]:
        entry = self.entry
        yield self.manners
        yield self.answers
        yield self.first_order
        yield self.omitted_cotangents
        if entry.pullback is not None:
            yield self.deliberate_pullback
        if entry.orders > 1:
            yield self.higher_orders
        if entry.analytic:
            yield self.complex_step
        yield self.special_points
        if entry.ties:
            yield self.ties
        if entry.strong_zero:
            yield self.strong_zero
        if entry.broadcast:
            yield self.broadcasting
        yield self.single_element_axes
        yield self.empty_axes
        yield self.known_shapes
        yield self.single_precision
        yield self.backends

    # --- building -----------------------------------------------------------------------------------------------------
    def build(
        self, dtype: str = "float64", shapes: Sequence[tuple[int | None, ...]] | None = None
    ) -> tuple[list[Variable], list[Variable]]:
        """Fresh input variables and the outputs; lengths are unknown unless `shapes` gives them."""
        shapes = shapes or [(None,) * len(s) for s in self.entry.shapes(self.sizes)]
        dtypes = [dtype if i.dtype == "float" else i.dtype for i in self.entry.inputs]
        inputs = [Variable(TensorType(d, s), name=n) for d, s, n in zip(dtypes, shapes, self.names)]
        outputs = self.entry.call(*inputs)
        return inputs, list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

    @property
    def names(self) -> list[str]:
        given = [i.name for i in self.entry.inputs]
        call = self.entry.call
        try:
            found = [
                p.name
                for p in inspect.signature(call.make_node if isinstance(call, Op) else call).parameters.values()
                if p.kind <= p.POSITIONAL_OR_KEYWORD
            ]
        except (TypeError, ValueError):
            found = []
        return [n or (found[i] if i < len(found) else f"input {i}") for i, n in enumerate(given)]

    def subject(self, dtype: str = "float64", outputs: Sequence[int] | None = None) -> GraphSubject:
        ins, outs = self.build(dtype)
        return GraphSubject(ins, outs if outputs is None else [outs[o] for o in outputs])

    def draw(self) -> list[np.ndarray]:
        return self.entry.draw(self.rng, self.sizes)

    def lower(self, arrays: Arrays, dtype: str) -> list[np.ndarray]:
        """Arrays in the dtypes that `build(dtype)` expects."""
        return [a.astype(dtype) if i.dtype == "float" else a for a, i in zip(arrays, self.entry.inputs)]

    def prove(
        self,
        subject: GraphSubject,
        draw: Callable[[], list[np.ndarray]] | None = None,
        order: int = 1,
        points: int = 1,
        tries: int = TRIES,
    ) -> None:
        """Hold an order of derivatives to differences, except where the gradient is no derivative by intent."""
        entry = self.entry
        if order == 1 and entry.pullback is not None:
            return
        skipped = set(entry.differs)
        claims = Masked(subject, skipped) if skipped else subject
        limit = entry.limits[order - 1]
        prove(claims, draw or self.draw, self.rng, self.report, order, limit, points, len(entry.inputs), tries)

    # --- the op itself ------------------------------------------------------------------------------------------------
    def manners(self) -> None:
        """Each node of the op's graph and of its gradient's graph keeps the protocol."""
        for dtype in ("float64", "float32"):
            inputs, outputs = self.build(dtype)
            arrays = self.lower(self.draw(), dtype)
            audit(inputs, outputs, arrays)
            for node in toposort(outputs, stop=inputs):
                check_rule(node)
            subject = GraphSubject(inputs, outputs)
            cotangents = [signed(self.rng, y.shape).astype(y.dtype) for y in subject.value(arrays)]
            audit([*inputs, *subject.cotangents], subject.formulas, [*arrays, *cotangents])

    def answers(self) -> None:
        """What isn't a formula is refused by its name when asked for."""
        inputs, outputs = self.build()
        subject = GraphSubject(inputs, outputs)
        self.report.inputs = list(subject.names)
        self.report.answers = list(subject.answers)
        floats = [v for v in outputs if v.type.is_float]
        cost = sum_to(cast((floats or outputs)[0], "float64"), np.zeros(()))
        for v in floats[1:]:
            cost = add(cost, sum_to(v, np.zeros(())))
        for i, (x, answer) in enumerate(zip(inputs, subject.answers)):
            if answer in ("formula", "discrete"):
                continue
            kind, _, why = answer.partition(": ")
            try:
                grad(cost, x)
            except REFUSALS[kind] as error:
                if why not in str(error):
                    raise Wrong(
                        Mistake("refusal", f"the refusal doesn't give the reason {why!r}: {error}", i)
                    ) from None
            else:
                raise Wrong(Mistake("refusal", f"the answer is {answer!r}, yet grad gives something", i))

    # --- the gradient -------------------------------------------------------------------------------------------------
    def first_order(self) -> None:
        self.prove(self.subject(), points=8 if self.thorough else 2)

    def omitted_cotangents(self) -> None:
        """Each subset of outputs alone: the cotangents of the others are absent."""
        count = len(self.subject().outputs)
        floats = [o for o, v in enumerate(self.build()[1]) if v.type.is_float]
        for size in range(1, count if count < 4 else 2):
            for subset in combinations(floats, size):
                self.prove(self.subject(outputs=subset))

    def deliberate_pullback(self) -> None:
        """The gradient is what the entry says, where it's no derivative by intent."""
        subject = self.subject()
        arrays = self.draw()
        cotangents = [signed(self.rng, y.shape) for y in subject.value(arrays)]
        expected = self.entry.pullback(arrays, cotangents)
        for i, (g, want) in enumerate(zip(subject.pull(arrays, cotangents), expected)):
            if (g is None) != (want is None):
                raise Wrong(Mistake("wrong formula", f"expected {want}, found {subject.answers[i]}", i, 1))
            if g is not None and difference(g, np.asarray(want, g.dtype)) > 1e-12:
                raise Wrong(Mistake("wrong formula", f"expected {want}, found {g}", i, 1))

    def higher_orders(self) -> None:
        """The gradient is a function too: of the inputs and the cotangents. So is its gradient."""
        subject: GraphSubject | None = self.subject()
        draw: Callable[[], list[np.ndarray]] = self.draw
        for order in range(2, self.entry.orders + 1):
            draw = self._with_cotangents(subject, draw)
            subject = subject.derivative()
            if subject is None:
                return
            self.prove(subject, draw, order, points=4 if self.thorough else 1)

    def _with_cotangents(self, subject: GraphSubject, draw: Callable[[], list[np.ndarray]]):
        def drawn() -> list[np.ndarray]:
            arrays = draw()
            return [*arrays, *(signed(self.rng, y.shape) for y in subject.value(arrays))]

        return drawn

    def complex_step(self) -> None:
        """f(x + ih) has no cancellation: the gradient must agree to 1e-9."""
        subject = self.subject()
        inputs, outputs = self.build("complex128")
        complex_graph = ComplexValue(inputs, outputs)
        arrays = self.draw()
        weights = flat(cotangents := [signed(self.rng, y.shape) for y in subject.value(arrays)])
        worst = 0.0
        for i, g in enumerate(subject.pull(arrays, cotangents)):
            if g is None or not g.size:
                continue
            direction = [random_direction(self.rng, a) if j == i else None for j, a in enumerate(arrays)]
            measured = float(weights @ complex_step(complex_graph, arrays, direction))
            floor = 1e-3 * norm(g) * norm(direction[i])
            worst = max(worst, relative_error(float(np.vdot(g, direction[i])), measured, floor))
        self.report.complex_step = worst
        if worst > 1e-9:
            raise Wrong(Mistake("wrong formula", "the gradient disagrees with the complex step", order=1, error=worst))

    # --- special inputs -----------------------------------------------------------------------------------------------
    def special_points(self) -> None:
        for point in self.entry.points:
            arrays = [
                np.asarray(a, "float64" if i.dtype == "float" else i.dtype)
                for a, i in zip(point.inputs, self.entry.inputs)
            ]
            inputs, outputs = self.build(shapes=[(None,) * a.ndim for a in arrays])
            subject = GraphSubject(inputs, outputs)
            with np.errstate(all="ignore"):
                values = subject.value(arrays)
                cotangents = [np.ones(y.shape) for y in values]
                if point.cotangents is not None:
                    cotangents = [
                        np.broadcast_to(np.asarray(c, float), y.shape) for c, y in zip(point.cotangents, values)
                    ]
                grads = subject.pull(arrays, cotangents)
            if point.value is not None:
                self._compare_point(point.why, None, values[0], point.value, arrays)
            for i, (g, want) in enumerate(zip(grads, point.grads, strict=True)):
                if want is not None:
                    self._compare_point(point.why, i, g, want, arrays)

    def _compare_point(self, why: str, i: int | None, found: np.ndarray, want: Any, arrays: Arrays) -> None:
        want = np.broadcast_to(np.asarray(want, np.float64), found.shape)
        if not np.allclose(found, want, rtol=1e-12, atol=1e-14, equal_nan=True):
            what = "value" if i is None else "gradient"
            raise Wrong(
                Mistake(
                    "kink", f"{why}: expected {what} {want.tolist()}, found {found.tolist()}", i, 1, at=tuple(arrays)
                )
            )

    def ties(self) -> None:
        """Move equal values together: along such a direction the function is smooth and any subgradient must agree."""
        subject = self.subject()
        for _ in range(20 if self.thorough else 6):
            arrays = [np.round(a) if i.dtype == "float" else a for a, i in zip(self.draw(), self.entry.inputs)]
            prove_at_ties(subject, arrays, self.rng, self.report, self.entry.limits[0])

    def strong_zero(self) -> None:
        """Law 3: a zero cotangent gives zero, whatever the local derivative is."""
        subject = self.subject()
        for special in SPECIAL:
            arrays = [
                np.full(a.shape, special) if i.dtype == "float" else a for a, i in zip(self.draw(), self.entry.inputs)
            ]
            with np.errstate(all="ignore"):
                zeros = [np.zeros(y.shape) for y in subject.value(arrays)]
                grads = subject.pull(arrays, zeros)
            for i, g in enumerate(grads):
                if g is not None and g.any():
                    message = f"a zero cotangent gives {g.flat[0]} at {special}: use strong_mul, or where with a mask"
                    raise Wrong(Mistake("strong zero", message, i, 1, at=tuple(arrays)))

    def broadcasting(self) -> None:
        for _ in range(8 if self.thorough else 2):
            shapes = broadcastable(self.rng, self.entry.shapes(self.sizes))
            inputs, outputs = self.build(shapes=[(None,) * len(s) for s in shapes])
            arrays = self.entry.draw(self.rng, self.sizes, shapes)
            audit(inputs, outputs, arrays)
            subject = GraphSubject(inputs, outputs)
            self.prove(subject, lambda shapes=shapes: self.entry.draw(self.rng, self.sizes, shapes))

    def single_element_axes(self) -> None:
        names = self.entry.axis_names if self.entry.single is None else list(self.entry.single)
        for axes in [names, *([[n] for n in names] if self.thorough else [])]:
            if not axes:
                continue
            sizes = {**self.sizes, **dict.fromkeys(axes, 1)}
            subject = self.subject()
            audit(subject.inputs, subject.outputs, self.entry.draw(self.rng, sizes))
            self.prove(subject, lambda sizes=sizes: self.entry.draw(self.rng, sizes))

    def empty_axes(self) -> None:
        names = self.entry.axis_names if self.entry.empty is None else list(self.entry.empty)
        for axes in [*([n] for n in names), *([names] if len(names) > 1 else [])]:
            sizes = {**self.sizes, **dict.fromkeys(axes, 0)}
            inputs, outputs = self.build()
            arrays = self.entry.draw(self.rng, sizes)
            subject = GraphSubject(inputs, outputs)
            with np.errstate(all="ignore"):
                audit(inputs, outputs, arrays)
                cotangents = [signed(self.rng, y.shape) for y in subject.value(arrays)]
                grads = subject.pull(arrays, cotangents)
            for i, (g, x) in enumerate(zip(grads, arrays)):
                if g is not None and g.shape != x.shape:
                    message = f"with empty axes {axes} the gradient has shape {g.shape}, its input {x.shape}"
                    raise Wrong(Mistake("shape", message, i, 1))

    def known_shapes(self) -> None:
        """Static shapes are a help: with every length known the same numbers come out."""
        arrays = self.draw()
        dynamic = self.subject()
        static = GraphSubject(*self.build(shapes=[a.shape for a in arrays]))
        cotangents = [signed(self.rng, y.shape) for y in dynamic.value(arrays)]
        pairs = [
            *zip(static.value(arrays), dynamic.value(arrays)),
            *zip(static.pull(arrays, cotangents), dynamic.pull(arrays, cotangents)),
        ]
        for a, b in pairs:
            if (a is None) != (b is None) or (a is not None and difference(a, b) > 1e-12):
                raise Wrong(Mistake("shape", "the result differs when the inputs' lengths are known statically"))

    # --- dtypes and backends ------------------------------------------------------------------------------------------
    def single_precision(self) -> None:
        arrays = self.draw()
        wide, narrow = self.subject(), self.subject("float32")
        low = self.lower(arrays, "float32")
        cotangents = [signed(self.rng, y.shape).astype(np.float32) for y in wide.value(arrays)]
        exact = wide.pull(arrays, [c.astype(np.float64) for c in cotangents])
        rough = narrow.pull(low, [c.astype(y.dtype) for c, y in zip(cotangents, narrow.value(low))])
        for i, (g, h, x) in enumerate(zip(exact, rough, low)):
            if g is None or h is None:
                continue
            if h.dtype != x.dtype:
                raise Wrong(Mistake("dtype", f"the gradient is {h.dtype}, its input {x.dtype}", i, 1))
            gap = difference(h.astype(np.float64), g)
            if gap > self.entry.float32 and not is_rounding(h, g.astype(h.dtype), [*low, *cotangents]):
                raise Wrong(
                    Mistake("float32", f"the float32 gradient is off by {gap:.1e} of its largest element", i, 1)
                )

    def backends(self) -> None:
        """Both backends agree; when thorough, in both dtypes, to the second order, and without ordinary rewrites."""
        for dtype in ("float32", "float64") if self.thorough else ("float32",):
            for rewrites in ("all", "stabilising") if self.thorough else ("all",):
                with config.override(rewrites=rewrites):
                    both = Backends(self.subject, dtype, 2 if self.thorough else 1, self.report)
                    sizes = self.entry.draw_sizes(self.rng)
                    both.compare(
                        self._call_arguments(both, dtype, self.sizes), self._call_arguments(both, dtype, sizes)
                    )
                    if self.entry.strong_zero:
                        both.compare_special(self._call_arguments(both, dtype, self.sizes))

    def _call_arguments(self, both: Backends, dtype: str, sizes: dict[str, int]) -> list[np.ndarray]:
        """Drawn inputs, and cotangents shaped like what they belong to."""
        arrays = self.lower(self.entry.draw(self.rng, sizes), dtype)
        subject = self.subject(dtype)
        while len(arrays) < len(both.inputs):
            arrays += [signed(self.rng, y.shape).astype(y.dtype) for y in subject.value(arrays)]
            subject = subject.derivative()
        return arrays


class ComplexValue:
    """The float outputs of a graph that was built on complex inputs."""

    def __init__(self, inputs: list[Variable], outputs: list[Variable]) -> None:
        from ..graph import evaluate

        self.inputs, self.outputs, self._evaluate = inputs, outputs, evaluate

    def __call__(self, arrays: Arrays) -> list[np.ndarray]:
        given = {v: np.asarray(a, v.dtype) for v, a in zip(self.inputs, arrays)}
        return self._evaluate(self.outputs, given)


def broadcastable(rng: np.random.Generator, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The shapes with some axes shortened to 1 and some leading axes left out; at least one keeps the whole shape."""
    whole = int(rng.integers(len(shapes)))
    result = []
    for i, shape in enumerate(shapes):
        if i != whole:
            shape = tuple(1 if rng.random() < 0.4 else n for n in shape)[int(rng.integers(len(shape) + 1)) :]
        result.append(shape)
    return result
