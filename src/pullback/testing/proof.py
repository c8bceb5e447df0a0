"""A pullback held against differences at points where the function is smooth."""

from collections.abc import Callable, Sequence

import numpy as np

from .diagnose import diagnose
from .differences import (
    STEPS,
    Arrays,
    Slope,
    flat,
    norm,
    random_direction,
    relative_error,
    signed,
    slope,
)
from .report import Mistake, Report, Wrong
from .subject import Subject

Draw = Callable[[], list[np.ndarray]]
TRIES = 60  # points that may be given up because of a kink before the search for a smooth one is


def prove(
    subject: Subject,
    draw: Draw,
    rng: np.random.Generator,
    report: Report,
    order: int = 1,
    limit: float = 1e-6,
    points: int = 1,
    own: int | None = None,
    tries: int = TRIES,
) -> None:
    """Measure the error of every input's gradient at `points` smooth points and note it in the report.

    Each input is moved alone, so that its own error is seen; those after the first `own` (the cotangents of lower
    orders) are moved together.

    Raises:
        Wrong: an error above `limit`, a non-finite gradient, a wrong shape, or no smooth point.
    """
    for _ in range(points):
        for _ in range(tries):
            report.draws += 1
            arrays = draw()
            cotangents = [signed(rng, y.shape) for y in subject.value(arrays)]
            if _prove_at(subject, arrays, cotangents, rng, report, order, limit, own):
                break
            report.redraws += 1
        else:
            raise Wrong(
                Mistake(
                    "not smooth",
                    f"differences converge at none of {tries} points: the value jumps, or it is computed in less than "
                    "float64 precision, or it is random",
                    order=order,
                    at=tuple(arrays),
                )
            )


def _prove_at(
    subject: Subject,
    arrays: Arrays,
    cotangents: Arrays,
    rng: np.random.Generator,
    report: Report,
    order: int,
    limit: float,
    own: int | None,
) -> bool:
    """False where a kink is too near to judge."""
    grads = checked_grads(subject, arrays, cotangents, order)
    movable = [i for i, g in enumerate(grads) if g is not None and g.size]
    own = len(arrays) if own is None else own
    groups = [[i] for i in movable if i < own]
    if rest := [i for i in movable if i >= own]:
        groups.append(rest)
    found = []
    for group in groups:
        direction = [random_direction(rng, a) if i in group else None for i, a in enumerate(arrays)]
        there = smooth_slope(subject, arrays, cotangents, direction)
        if there is None:
            return False
        error = error_along(there, cotangents, [grads[i] for i in group], [direction[i] for i in group])
        if not error <= limit:
            raise Wrong(diagnose(subject, arrays, cotangents, grads, group, order, error))
        found.append((group[0], error))
    for i, error in found:
        report.note_error(order, i, error)
    return True


def prove_at_ties(
    subject: Subject, arrays: Arrays, rng: np.random.Generator, report: Report, limit: float = 1e-6
) -> None:
    """At a point where values are equal, move equal ones together: along such a direction the function is smooth, and
    any legal subgradient agrees with its slope.

    Raises:
        Wrong: the gradient is none.
    """
    report.draws += 1
    cotangents = [signed(rng, y.shape) for y in subject.value(arrays)]
    pulled = subject.pull(arrays, cotangents)
    moved = [i for i, g in enumerate(pulled) if g is not None and g.size]
    a, b = signed(rng, (2,))
    direction = [a + b * np.sin(x) if i in moved else None for i, x in enumerate(arrays)]
    there = smooth_slope(subject, arrays, cotangents, direction)
    if there is None:
        report.redraws += 1
        return
    error = error_along(there, cotangents, [pulled[i] for i in moved], [direction[i] for i in moved])
    if error > limit:
        predicted = sum(float(np.vdot(pulled[i], direction[i])) for i in moved)
        message = (
            "where values are equal the gradient is no subgradient: along a direction that keeps them equal it "
            f"predicts {predicted:.6g}, differences give {there.along(flat(cotangents)):.6g}"
        )
        raise Wrong(Mistake("tie", message, order=1, error=error, at=tuple(arrays)))


def checked_grads(subject: Subject, arrays: Arrays, cotangents: Arrays, order: int) -> list[np.ndarray | None]:
    """The gradients, with zeros for what is claimed to be disconnected; None where no formula is claimed."""
    grads: list[np.ndarray | None] = []
    for i, (g, x, answer) in enumerate(zip(subject.pull(arrays, cotangents), arrays, subject.answers, strict=True)):
        if answer in ("disconnected", "skipped"):
            g = np.zeros(x.shape) if answer == "disconnected" else None
        if g is not None and g.shape != x.shape:
            raise Wrong(shape_mistake(g, x, i, order, [c.shape for c in cotangents], arrays))
        grads.append(g)
    return grads


def shape_mistake(
    g: np.ndarray, x: np.ndarray, i: int, order: int, output_shapes: Sequence[tuple[int, ...]], at: Arrays
) -> Mistake:
    """A gradient whose shape isn't its input's."""
    kind = "shape"
    if sorted(g.shape) == sorted(x.shape):
        kind = "transposed"
    elif g.shape in output_shapes and g.size > x.size:
        kind = "missing broadcast sum"
    return Mistake(kind, f"the gradient has shape {g.shape}, its input {x.shape}", i, order, at=tuple(at))


def smooth_slope(
    subject: Subject, arrays: Arrays, cotangents: Arrays, direction: list[np.ndarray | None]
) -> Slope | None:
    """The numerical derivative along a direction over the longest step on which the function is smooth, if any."""
    weights = flat(cotangents)
    here = subject.decisions(arrays, cotangents)
    for step in STEPS:
        if not _same_decisions(subject, arrays, cotangents, direction, step, here):
            continue
        there = slope(subject.value, arrays, direction, step)
        if there.is_smooth(weights):
            return there
    return None


def _same_decisions(subject, arrays, cotangents, direction, step, here) -> bool:
    """Whether every mask and index is the same at both ends of the step."""
    if not here:
        return True
    for h in (step, -step):
        moved = [a if d is None else a + h * d for a, d in zip(arrays, direction)]
        if not all(map(np.array_equal, here, subject.decisions(moved, cotangents))):
            return False
    return True


def error_along(there: Slope, cotangents: Arrays, grads: Arrays, direction: Arrays) -> float:
    weights = flat(cotangents)
    g, d = flat(grads), flat(direction)
    floor = 1e-3 * norm(g) * norm(d)
    return relative_error(float(g @ d), there.along(weights), floor, there.noise_along(weights))
