"""Which anchor of which cell answers for which truth. Assignments are constants: no gradient goes through them.

Truths are (images, truths, 5): class, then centre x and y, width and height as fractions of the image; rows of width 0
count as none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Apply, DisconnectedType, Op, TensorType, as_variable
from ..ops import zeros_like
from .suppression import overlap

Anchors = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Truth:
    """One labelled box, and the cell that its centre lies in."""

    image: int
    label: int
    box: np.ndarray
    row: int
    column: int


def truths_of(truths: np.ndarray, rows: int, columns: int) -> Iterator[Truth]:
    """All truths, those with a centre outside of the image or without size left out."""
    for image, boxes in enumerate(truths):
        for label, *box in boxes:
            x, y, w, h = box
            if w > 0 and h > 0 and 0 <= x <= 1 and 0 <= y <= 1:
                row, column = min(int(y * rows), rows - 1), min(int(x * columns), columns - 1)
                yield Truth(image, int(label), np.asarray(box), row, column)


def shape_overlap(sizes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """IoU of (n, 2) widths and heights with one, all centred at the same place."""
    common = np.minimum(sizes, size).prod(-1)
    return common / np.maximum(sizes.prod(-1) + size.prod() - common, 1e-12)


def best_overlaps(boxes: np.ndarray, truths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each of (n, 4) boxes the largest IoU with one of (m, 5) truths, and which that is."""
    real = truths[(truths[:, 3] > 0) & (truths[:, 4] > 0)]
    best, which = np.zeros(len(boxes)), np.zeros(len(boxes), np.int64)
    for i, truth in enumerate(real):
        shared = overlap(boxes, truth[1:])
        better = shared > best
        best[better], which[better] = shared[better], i
    return best, which


@dataclass(frozen=True)
class Assignment(Op):
    """Base: from predicted boxes (images, rows, columns, anchors, 4), class probabilities (..., classes) and truths to

    - objectness: (..., 2) target and weight;
    - box: (..., 5) the truth's box, and 1 where one is assigned, else 0;
    - classes: (..., classes) target 0 or 1, or -1 where the anchor has no class to learn.
    """

    def make_node(self, boxes: Any, probabilities: Any, truths: Any) -> Apply:
        inputs = [as_variable(v) for v in (boxes, probabilities, truths)]
        lead = inputs[0].type.shape[:4]
        kinds = [(*lead, 2), (*lead, 5), (*lead, inputs[1].type.shape[4])]
        return Apply(self, inputs, [TensorType(inputs[0].dtype, shape) for shape in kinds])

    def perform(self, boxes, probabilities, truths):
        lead = boxes.shape[:4]
        objectness = np.zeros((*lead, 2))
        objectness[..., 1] = 1.0
        box = np.zeros((*lead, 5))
        classes = np.full(probabilities.shape, -1.0)
        self.assign(boxes.astype(np.float64), probabilities, truths.astype(np.float64), objectness, box, classes)
        return tuple(a.astype(boxes.dtype) for a in (objectness, box, classes))

    def assign(
        self,
        boxes: np.ndarray,
        probabilities: np.ndarray,
        truths: np.ndarray,
        objectness: np.ndarray,
        box: np.ndarray,
        classes: np.ndarray,
    ) -> None:
        """Fill in the three outputs, which begin as: nothing anywhere."""
        raise NotImplementedError(f"{type(self).__name__} must define assign")

    def grad(self, inputs, output_grads):
        return [zeros_like(inputs[0]), zeros_like(inputs[1]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True] * 3, [True] * 3, [False] * 3]

    def infer_shape(self, node, shapes, values):
        lead = tuple(shapes[0][:4])
        return [(*lead, 2), (*lead, 5), (*lead, shapes[1][4])]


@dataclass(frozen=True)
class YoloAssignment(Assignment):
    """Darknet's for yolo: a truth goes to the anchor of its cell whose shape is most like it, if that is this head's
    (and, with iou_threshold < 1, to every anchor that is more like it than that); elsewhere a box that overlaps some
    truth by more than ignore_threshold learns no objectness.

    Attributes:
        sizes: of all anchors, in cells of this head.
        mask: which of them are this head's.
        any_class: a box is ignored for truths of any class; else only of classes that it gives more than 1/4.
        smooth: an ignored box learns its overlap as objectness instead of nothing.
    """

    sizes: Anchors
    mask: tuple[int, ...]
    ignore_threshold: float
    truth_threshold: float
    iou_threshold: float
    any_class: bool
    smooth: bool

    def assign(self, boxes, probabilities, truths, objectness, box, classes):
        rows, columns = boxes.shape[1:3]
        for image in range(len(boxes)):
            self._ignore(boxes[image], probabilities[image], truths[image], objectness[image], box[image],
                         classes[image])  # fmt: skip
        sizes = np.asarray(self.sizes) / (columns, rows)
        for truth in truths_of(truths, rows, columns):
            likeness = shape_overlap(sizes, truth.box[2:])
            chosen = {int(np.argmax(likeness))}
            if self.iou_threshold < 1:
                chosen |= set(np.flatnonzero(likeness > self.iou_threshold).tolist())
            for n in chosen & set(self.mask):
                at = truth.image, truth.row, truth.column, self.mask.index(n)
                objectness[at] = 1.0, 1.0
                box[at] = *truth.box, 1.0
                _mark(classes[at], truth.label)

    def _ignore(
        self,
        boxes: np.ndarray,
        probabilities: np.ndarray,
        truths: np.ndarray,
        objectness: np.ndarray,
        box: np.ndarray,
        classes: np.ndarray,
    ) -> None:
        flat = boxes.reshape(-1, 4)
        real = truths[(truths[:, 3] > 0) & (truths[:, 4] > 0)]
        best, which = best_overlaps(flat, truths)
        if self.truth_threshold < 1:
            sure = (best > self.truth_threshold).reshape(boxes.shape[:3])
            for at in zip(*np.nonzero(sure)):
                truth = real[which.reshape(boxes.shape[:3])[at]]
                objectness[at], box[at] = (1.0, 1.0), (*truth[1:], 1.0)
                _mark(classes[at], int(truth[0]))
        if not self.any_class and len(real):
            likely = probabilities.reshape(len(flat), -1)
            best = np.zeros(len(flat))
            for truth in real:
                label = int(truth[0])
                if 0 <= label < likely.shape[1]:
                    shared = np.where(likely[:, label] > 0.25, overlap(flat, truth[1:]), 0.0)
                    best = np.maximum(best, shared)
        ignored = (best > self.ignore_threshold).reshape(boxes.shape[:3]) & (box[..., 4] == 0)
        if self.smooth:
            objectness[ignored, 0] = best.reshape(boxes.shape[:3])[ignored]
        else:
            objectness[ignored, 1] = 0.0


@dataclass(frozen=True)
class RegionAssignment(Assignment):
    """Darknet's for region: a truth goes to the anchor of its cell whose predicted box (with bias_match: whose anchor)
    has the shape most like it; elsewhere a box that overlaps some truth by more than the threshold learns nothing.

    Attributes:
        sizes: of the anchors, in cells.
        rescore: the objectness to learn is the overlap of prediction and truth.
    """

    sizes: Anchors
    threshold: float
    bias_match: bool
    rescore: bool
    object_scale: float
    noobject_scale: float

    def assign(self, boxes, probabilities, truths, objectness, box, classes):
        rows, columns = boxes.shape[1:3]
        objectness[..., 1] = self.noobject_scale
        for image in range(len(boxes)):
            best, _ = best_overlaps(boxes[image].reshape(-1, 4), truths[image])
            objectness[image, (best > self.threshold).reshape(boxes.shape[1:4]), 1] = 0.0
        sizes = np.asarray(self.sizes) / (columns, rows)
        for truth in truths_of(truths, rows, columns):
            cell = truth.image, truth.row, truth.column
            shapes = sizes if self.bias_match else boxes[cell][:, 2:]
            at = (*cell, int(np.argmax(shape_overlap(shapes, truth.box[2:]))))
            target = float(overlap(boxes[at], truth.box)) if self.rescore else 1.0
            objectness[at] = target, self.object_scale
            box[at] = *truth.box, 1.0
            classes[at] = -1.0
            _mark(classes[at], truth.label)


@dataclass(frozen=True)
class DetectionAssignment(Assignment):
    """Darknet's for detection, whose "anchors" are the boxes of a cell: a truth goes to the box that overlaps it most,
    or, if none does, to the one nearest to it in x, y, w and h. One truth per cell."""

    rescore: bool
    object_scale: float
    noobject_scale: float

    def assign(self, boxes, probabilities, truths, objectness, box, classes):
        rows, columns = boxes.shape[1:3]
        objectness[..., 1] = self.noobject_scale
        taken = set()
        for truth in truths_of(truths, rows, columns):
            cell = truth.image, truth.row, truth.column
            if cell in taken:
                continue
            taken.add(cell)
            shared = overlap(boxes[cell], truth.box)
            if shared.max() > 0:
                n = int(np.argmax(shared))
            else:
                n = int(np.argmin(np.square(boxes[cell] - truth.box).sum(-1)))
            at = (*cell, n)
            objectness[at] = (float(shared[n]) if self.rescore else 1.0), self.object_scale
            box[at] = *truth.box, 1.0
            _mark(classes[(*cell, 0)], truth.label)


def _mark(classes: np.ndarray, label: int) -> None:
    """One more class that is there; the others become those that aren't."""
    if classes[0] < 0:
        classes[:] = 0.0
    if 0 <= label < len(classes):
        classes[label] = 1.0
