"""From rows of boxes to detections: thresholds and non-maximum suppression."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ArgumentError, ShapeError

KINDS = ("default", "greedynms", "diounms", "cornersnms", "objectness")
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Found:
    """One object in an image.

    Attributes:
        box: centre x and y, width and height, as fractions of the image.
        label: the number of its class.
        score: objectness times the class's probability.
        objectness: that there is anything at all.
    """

    box: Box
    label: int
    score: float
    objectness: float


def corners(boxes: np.ndarray) -> np.ndarray:
    """(..., 4) boxes as left, top, right, bottom."""
    half = boxes[..., 2:] / 2
    return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], axis=-1)


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes (..., 4), centre form, by broadcasting; 0 where both are empty."""
    left, right = corners(a), corners(b)
    size = np.minimum(left[..., 2:], right[..., 2:]) - np.maximum(left[..., :2], right[..., :2])
    common = np.prod(np.maximum(size, 0), axis=-1)
    union = np.prod(a[..., 2:], axis=-1) + np.prod(b[..., 2:], axis=-1) - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def distance_overlap(a: np.ndarray, b: np.ndarray, beta: float = 1.0) -> np.ndarray:
    """IoU - (squared distance of the centres / squared diagonal of the hull)^beta (Zheng et al. 2020)."""
    left, right = corners(a), corners(b)
    hull = np.maximum(left[..., 2:], right[..., 2:]) - np.minimum(left[..., :2], right[..., :2])
    diagonal = np.square(hull).sum(-1)
    apart = np.square(a[..., :2] - b[..., :2]).sum(-1)
    share = np.divide(apart, diagonal, out=np.zeros_like(apart), where=diagonal > 0)
    return overlap(a, b) - share**beta


def keep(boxes: np.ndarray, scores: np.ndarray, iou_threshold: float, kind: str = "default", beta: float = 0.6) -> list:
    """Which of the boxes stay, best first: each takes away those with lower scores that overlap it.

    Args:
        boxes: (n, 4), centre form.
        kind: "default" compares the IoU, "greedynms" the DIoU, "diounms" the DIoU with the distance to the power beta.
    """
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while len(order):
        best, order = int(order[0]), order[1:]
        kept.append(best)
        if kind in ("default", "objectness"):
            shared = overlap(boxes[best], boxes[order])
        else:
            shared = distance_overlap(boxes[best], boxes[order], beta if kind == "diounms" else 1.0)
        order = order[shared <= iou_threshold]
    return kept


def suppress(
    rows: np.ndarray | Sequence[np.ndarray],
    threshold: float = 0.5,
    iou_threshold: float = 0.45,
    kind: str = "default",
    beta: float = 0.6,
) -> list[list[Found]]:
    """The objects in each image, best first.

    Args:
        rows: (images, boxes, 5 + classes) as heads give them, or a list of such arrays, one per head.
        threshold: class scores up to it don't count (Darknet's thresh).
        iou_threshold: boxes of one class that overlap more than that are one object (Darknet's nms).
        kind: "default", "greedynms", "diounms", "cornersnms": per class; "objectness": by that, whatever the class.
        beta: of "diounms".
    """
    if kind not in KINDS:
        raise ArgumentError(f"suppress: kind={kind!r}; expected one of {KINDS}")
    for name, value in (("threshold", threshold), ("iou_threshold", iou_threshold)):
        if not 0 <= value <= 1:
            raise ArgumentError(f"suppress: {name}={value}; expected a number from 0 to 1")
    parts = [np.asarray(a) for a in (rows if isinstance(rows, (list, tuple)) else [rows])]
    if any(a.ndim != 3 or a.shape[2] < 6 for a in parts):
        raise ShapeError(f"suppress: shapes {[a.shape for a in parts]}; expected (images, boxes, 5 + classes)")
    every = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    return [_suppress_one(image.astype(np.float64), threshold, iou_threshold, kind, beta) for image in every]


def _suppress_one(
    rows: np.ndarray, threshold: float, iou_threshold: float, kind: str, beta: float
) -> list[Found]:
    rows = rows[np.isfinite(rows).all(axis=1)]
    found: list[Found] = []
    scores = rows[:, 5:]
    if kind == "objectness":
        likely = np.flatnonzero((scores > threshold).any(axis=1))
        stay = likely[keep(rows[likely, :4], rows[likely, 4], iou_threshold)] if len(likely) else likely
        pairs = [(i, c) for i in stay for c in np.flatnonzero(scores[i] > threshold)]
        found = [_found(rows[i], c) for i, c in pairs]
    else:
        for label in np.flatnonzero((scores > threshold).any(axis=0)):
            likely = np.flatnonzero(scores[:, label] > threshold)
            kept = keep(rows[likely, :4], scores[likely, label], iou_threshold, kind, beta)
            found += [_found(rows[likely[i]], int(label)) for i in kept]
    return sorted(found, key=lambda one: -one.score)


def _found(row: np.ndarray, label: int) -> Found:
    return Found(tuple(map(float, row[:4])), int(label), float(row[5 + label]), float(row[4]))
