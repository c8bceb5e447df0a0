"""Entries of CTC and of box overlaps."""

from math import inf, log

import numpy as np

from ...graph import Variable
from ...ops.boxes import box_ciou, box_diou, box_giou, box_iou, box_loss
from ...ops.ctc import CTCCurvature, ctc_loss
from ...ops.shape import concatenate
from ..entry import Entry, Input, Point, integer, real


def boxes(axes: str) -> Input:
    """Boxes that mostly overlap: centre within half a unit, sides of one to two."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], sizes: dict[str, int]) -> np.ndarray:
        return np.concatenate([rng.uniform(-0.5, 0.5, (*shape[:-1], 2)), rng.uniform(1, 2, (*shape[:-1], 2))], -1)

    return Input(f"{axes} 4", draw=draw)


def corners(x: Variable) -> Variable:
    """The same boxes by two corners."""
    return concatenate([x[..., :2], x[..., :2] + x[..., 2:]], axis=-1)


FUNCTIONS = {"box_iou": box_iou, "box_giou": box_giou, "box_diou": box_diou, "box_ciou": box_ciou}
PAIR = (boxes("n"), boxes("n"))
EMPTY = ([[0.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0, 0.0]])
ZEROS = ([[0.0] * 4], [[0.0] * 4])
LABELS = (real("5 n 4"), integer("n 2", 1, 3), integer("n", 5, 5), integer("n", 0, 2))
IMPOSSIBLE = ([[[0.0, 0.0]], [[0.0, 0.0]]], [[1, 1]], [2], [2])
NOTHING = ([[[0.0, 0.0]], [[0.0, 0.0]]], None, None, None)

ENTRIES = [
    *(
        Entry(name, f, PAIR, points=(Point(EMPTY, ZEROS, [0.0], why="two empty boxes"),))
        for name, f in FUNCTIONS.items()
    ),
    Entry("box_giou[xyxy]", lambda a, b: box_giou(corners(a), corners(b), "xyxy"), PAIR),
    Entry("box_iou[pairwise]", lambda a, b: box_iou(a[:, None], b, "xywh"), (boxes("n"), boxes("m"))),
    Entry(
        "box_iou[special]",
        box_iou,
        PAIR,
        points=(
            Point(([[0.0, 0.0, 1.0, 1.0]], [[5.0, 0.0, 1.0, 1.0]]), ZEROS, [0.0], why="boxes that don't meet"),
            Point(([[1.0, 0.0, 2.0, 2.0]], [[0.0, 0.0, 2.0, 2.0]]), ([[-4 / 9, 0.0, 1 / 9, 0.0]], None), [1 / 3],
                  why="top and bottom edges are equal: half the gradient each"),
        ),
    ),
    Entry("box_loss", lambda a, b: box_loss(a, b, "iou"), PAIR, empty=()),
    Entry(
        "ctc_loss", ctc_loss, LABELS, empty=(), formula="-g times the probability that an alignment passes the class",
        references=("Graves et al. 2006",),
    ),
    Entry("ctc_loss[none]", lambda *a: ctc_loss(*a, blank=0, reduction="none"), LABELS, empty=()),
    Entry("ctc_loss's second derivative", CTCCurvature(0), (real("5 n 4"), *LABELS), empty=("n",), orders=1,
          formula="the covariance of the classes passed, times g; third derivatives are not written"),
    Entry(
        "ctc_loss[special]",
        lambda x, t, steps, lengths: ctc_loss(x, t, steps, lengths, zero_infinity=True),
        LABELS,
        empty=(),
        points=(
            Point(([[[log(0.25), log(0.75)]], [[0.0, 0.0]]], [[1, 1]], [1], [1]),
                  ([[[0.0, -1.0]], [[0.0, 0.0]]], None, None, None), -log(0.75), why="one step, one label"),
            Point(IMPOSSIBLE, NOTHING, 0.0, why="no alignment"),
        ),
    ),
    Entry(
        "ctc_loss[impossible]",
        ctc_loss,
        LABELS,
        empty=(),
        points=(Point(IMPOSSIBLE, NOTHING, inf, why="equal labels need a blank between: no alignment"),),
    ),
]  # fmt: skip
