"""Entries of the softmax family."""

from collections.abc import Callable
from math import inf, log, nan
from typing import Any

import numpy as np

from ...ops.losses import crossentropy_categorical_1hot
from ...ops.softmax import log_softmax, masked_softmax, nll, select_label, softmax, softmax_cross_entropy
from ..entry import Entry, Input, Point, index, mask, positive, real, variants

ALONG = [{"axis": 0}, {"axis": 1}, {"axis": -1}]
LOGITS = real("a b c", -3.0, 3.0)


def labels(axes: str, length: str, ignored: int | None = None) -> Input:
    """Class numbers below `length`; about a third are `ignored`."""
    every = index(axes, length, negative=False)
    if ignored is None:
        return every

    def draw(rng: np.random.Generator, shape: tuple[int, ...], sizes: dict[str, int]) -> np.ndarray:
        return np.where(rng.random(shape) < 0.3, ignored, every.array(rng, shape, sizes))

    return Input(axes, dtype="int64", draw=draw)


def by_label(name: str, f: Callable[..., Any], x: Callable[..., Input], **rest: Any) -> list[Entry]:
    """A function of values and labels, with classes on each axis, with and without rows that don't count."""
    cases = [("c a b", "a b", 0), ("a c b", "a b", 1), ("a b c", "a b", -1)]
    return [
        Entry(
            f"{name}[axis={axis}{'' if ignored is None else f', ignore_index={ignored}'}]",
            lambda x, t, axis=axis, ignored=ignored: f(x, t, axis, ignored),
            (x(values), labels(rows, "c", ignored)),
            empty=("a", "b"),
            **rest,
        )
        for values, rows, axis in cases
        for ignored in (None, -1)
    ]


def special(name: str, f: Callable[..., Any], *points: Point) -> Entry:
    return Entry(f"{name}[special]", f, (real("a b", -3.0, 3.0),), points=points)


ENTRIES = [
    *variants("softmax", softmax, [LOGITS], ALONG, formula="y (g - sum(g y))"),
    special(
        "softmax",
        softmax,
        Point(([[1.0, -inf], [0.0, 0.0]],), ([[0.0, 0.0], [0.25, -0.25]],), [[1.0, 0.0], [0.5, 0.5]],
              ([[1.0, 7.0], [1.0, 0.0]],), "a logit of -inf"),
        Point(([[1000.0, 0.0, -1000.0]],), ([[0.0, 0.0, 0.0]],), [[1.0, 0.0, 0.0]], ([[1.0, 2.0, 3.0]],), "saturated"),
        Point(([[-inf, -inf]],), ([[0.0, 0.0]],), [[nan, nan]], ([[0.0, 0.0]],), "a zero cotangent stays zero"),
    ),
    *variants("log_softmax", log_softmax, [LOGITS], ALONG, formula="g - softmax(x) sum(g)"),
    special(
        "log_softmax",
        log_softmax,
        Point(([[1000.0, 0.0, -1000.0]],), ([[-5.0, 2.0, 3.0]],), [[0.0, -1000.0, -2000.0]], ([[1.0, 2.0, 3.0]],),
              "where the softmax underflows"),
        Point(([[0.0, -inf]],), ([[-2.0, 2.0]],), [[0.0, -inf]], ([[1.0, 2.0]],), "a logit of -inf"),
    ),
    *variants(
        "masked_softmax", masked_softmax, [real("a b c", -3.0, 3.0), mask("a b c")], ALONG,
        formula="y (g - sum(g y))", broadcast=True,
    ),
    Entry(
        "masked_softmax[special]",
        masked_softmax,
        (real("a b", -3.0, 3.0), mask("a b")),
        points=(
            Point(([[1.0, 2.0], [3.0, 4.0]], [[True, False], [False, False]]), ([[0.0, 0.0], [0.0, 0.0]], None),
                  [[1.0, 0.0], [0.0, 0.0]], ([[1.0, 5.0], [7.0, 9.0]],), "a row without entries"),
            Point(([[nan, 0.0, 0.0]], [[False, True, True]]), ([[0.0, 0.25, -0.25]], None), [[0.0, 0.5, 0.5]],
                  ([[inf, 1.0, 0.0]],), "what is masked has no effect"),
        ),
    ),
    *by_label("select_label", select_label, real, formula="g at the label, 0 elsewhere"),
    *by_label("nll", nll, real, formula="-g at the label, 0 elsewhere"),
    *by_label("softmax_cross_entropy", softmax_cross_entropy, real, formula="g (softmax(x) - onehot)"),
    *variants(
        "softmax_cross_entropy[probabilities]", softmax_cross_entropy, [LOGITS, positive("a b c")], ALONG,
        formula="(g (softmax(x) sum(t) - t), -g log_softmax(x))",
    ),
    Entry(
        "softmax_cross_entropy[special]",
        softmax_cross_entropy,
        (real("a b"), labels("a", "b")),
        empty=("a",),
        points=(
            Point(([[1000.0, 0.0, -1000.0]], [1]), ([[1.0, -1.0, 0.0]], None), [1000.0], why="saturated"),
            Point(([[0.0, 0.0]], [0]), ([[-0.5, 0.5]], None), [log(2)], why="even"),
        ),
    ),
    Entry(
        "crossentropy_categorical_1hot", crossentropy_categorical_1hot, (positive("a b"), labels("a", "b")),
        empty=("a",), formula="-g / p at the label, 0 elsewhere",
        references=("Theano's CrossentropyCategorical1Hot",),
    ),
    Entry(
        "crossentropy_categorical_1hot[probabilities]", crossentropy_categorical_1hot,
        (positive("a b"), positive("a b")), formula="(-g t / p, -g log p)",
    ),
    Entry(
        "crossentropy_categorical_1hot[of a softmax]",
        lambda x, t: crossentropy_categorical_1hot(softmax(x), t),
        (real("a b"), labels("a", "b")),
        empty=("a",),
        points=(Point(([[1000.0, 0.0, -1000.0]], [1]), ([[1.0, -1.0, 0.0]], None), [1000.0], why="saturated"),),
    ),
]  # fmt: skip
