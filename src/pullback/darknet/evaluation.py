"""How good detections are: precision and recall curves, average precision, mAP (Everingham et al. 2010)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import ArgumentError, ShapeError
from .suppression import Found, overlap


@dataclass(frozen=True)
class Curve:
    """Of one class, as the score that detections must have falls.

    Attributes:
        scores, precision, recall: one entry per detection, the surest first.
        truths: how many there are.
        average_precision: the area under the curve.
    """

    scores: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    truths: int
    average_precision: float


@dataclass(frozen=True)
class Evaluation:
    """What became of all detections.

    Attributes:
        curves: per class.
        mean_average_precision: the mean over classes.
        precision, recall, f1, mean_overlap: of the detections with at least the score `threshold`, all classes
            together; mean_overlap is that of those which are right.
        threshold: see above.
    """

    curves: list[Curve] = field(repr=False)
    mean_average_precision: float
    precision: float
    recall: float
    f1: float
    mean_overlap: float
    threshold: float


def average_precision(precision: np.ndarray, recall: np.ndarray, points: int = 0) -> float:
    """The area under precision over recall, each precision raised to the best at higher recall.

    Args:
        precision, recall: as detections are added, the surest first.
        points: 0 for the area itself (VOC 2010 on); 11 (VOC 2007) or 101 (COCO) for the mean at so many recalls from 0
            to 1.
    """
    if points not in (0, 11, 101):
        raise ArgumentError(f"points={points}; expected 0 (the area), 11 or 101")
    if not len(precision):
        return 0.0
    best = np.maximum.accumulate(precision[::-1])[::-1]
    if points:
        at = np.searchsorted(recall, np.linspace(0, 1, points), side="left")
        return float(np.append(best, 0.0)[at].mean())
    steps = np.diff(np.concatenate([[0.0], recall]))
    return float((steps * best).sum())


def evaluate(
    found: Sequence[Sequence[Found]],
    truths: Sequence[np.ndarray],
    classes: int,
    *,
    iou_threshold: float = 0.5,
    points: int = 0,
    threshold: float = 0.25,
    difficult: Sequence[np.ndarray] | None = None,
    absent_counts: bool = True,
) -> Evaluation:
    """Hold detections against truths.

    A detection is right if the truth of its class (and image) that it overlaps most does so by at least `iou_threshold`
    and no surer one has claimed it; a second claim is wrong.

    Args:
        found: per image.
        truths: per image, (boxes, 5): class, centre x and y, width and height.
        points: see `average_precision`.
        threshold: of the scores that count for precision and recall of all classes together.
        difficult: per image a mask of truths that need not be found: they don't count, and finding them is no mistake.
        absent_counts: a class without truths counts as 0 in the mean (Darknet); else it is left out.
    """
    if len(found) != len(truths) or (difficult is not None and len(difficult) != len(truths)):
        raise ShapeError(f"{len(found)} images with detections, but {len(truths)} with truths")
    masks = [np.zeros(len(t), bool) for t in truths] if difficult is None else [np.asarray(d, bool) for d in difficult]
    total = [0] * classes
    for boxes, mask in zip(truths, masks):
        for label in boxes[~mask, 0].astype(int) if len(boxes) else ():
            total[label] += 1
    verdicts: list[list[tuple[float, bool, float]]] = [[] for _ in range(classes)]
    for objects, boxes, mask in zip(found, truths, masks):
        claimed = np.zeros(len(boxes), bool)
        for one in sorted(objects, key=lambda one: -one.score):
            right, shared, counts = _judge(one, boxes, mask, claimed, iou_threshold)
            if counts:
                verdicts[one.label].append((one.score, right, shared))
    curves = [_curve(v, n, points) for v, n in zip(verdicts, total)]
    counted = [c for c in curves if c.truths or absent_counts]
    mean = float(np.mean([c.average_precision for c in counted])) if counted else 0.0
    sure = [v for vs in verdicts for v in vs if v[0] >= threshold]
    right = sum(v[1] for v in sure)
    precision = right / len(sure) if sure else 0.0
    recall = right / sum(total) if sum(total) else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    shared = float(np.mean([v[2] for v in sure if v[1]])) if right else 0.0
    return Evaluation(curves, mean, precision, recall, f1, shared, threshold)


def _judge(
    one: Found, boxes: np.ndarray, difficult: np.ndarray, claimed: np.ndarray, iou_threshold: float
) -> tuple[bool, float, bool]:
    """Whether a detection is right, by how much it overlaps its truth, and whether it counts at all."""
    same = np.flatnonzero(boxes[:, 0] == one.label) if len(boxes) else []
    if not len(same):
        return False, 0.0, True
    shared = overlap(np.asarray(one.box), boxes[same, 1:].astype(np.float64))
    best = int(np.argmax(shared))
    if shared[best] < iou_threshold:
        return False, float(shared[best]), True
    if difficult[same[best]]:
        return False, float(shared[best]), False
    right = not claimed[same[best]]
    claimed[same[best]] = True
    return right, float(shared[best]), True


def _curve(verdicts: list[tuple[float, bool, float]], truths: int, points: int) -> Curve:
    verdicts = sorted(verdicts, key=lambda v: -v[0])
    right = np.cumsum([v[1] for v in verdicts], dtype=float)
    precision = right / np.arange(1, len(verdicts) + 1)
    recall = right / truths if truths else np.zeros_like(right)
    area = average_precision(precision, recall, points) if truths else 0.0
    return Curve(np.array([v[0] for v in verdicts]), precision, recall, truths, area)


def plot_curves(evaluation: Evaluation, names: Sequence[str], path: str) -> None:
    """Draw precision over recall of every class as a PNG. Needs matplotlib."""
    from ..errors import MissingPackageError

    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError("a plot needs matplotlib: pip install 'pullback[plot]'") from None
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, curve in zip(names, evaluation.curves):
        axes.plot(np.concatenate([[0.0], curve.recall]), np.concatenate([[1.0], curve.precision]),
                  label=f"{name}: {curve.average_precision:.3f}", linewidth=1)  # fmt: skip
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.02),
             title=f"mAP {evaluation.mean_average_precision:.4f}")  # fmt: skip
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower left")
    figure.savefig(path, dpi=120)
