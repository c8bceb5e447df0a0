"""What the heads of detectors are trained to lower.

Targets and assignments are constants; everything else is differentiated exactly as it is printed. Where Darknet's own
gradient is that of no cost, `darknet_gradients=True` gives it instead:

    yolo, region   dx and dy of a centre leave out the derivative of the sigmoid
    cost smooth    the sign is reversed where the error is larger than 1
    yolo           objectness and classes: Darknet prints the square of what is the gradient of a cross-entropy; here
                   the cross-entropy is printed, and the gradient is the same
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from ..graph import TensorType, Variable
from ..nn.layers.base import Layer, Spec
from ..nn.layers.basic import Logistic, Softmax
from ..nn.layers.cost import COSTS, SECRET, Cost
from ..nn.layers.detection import Detection, GaussianYolo, Iseg, Region, Yolo, cells, group_sizes, per_image
from ..nn.layers.grouped_softmax import cut
from ..nn.losses import BinaryCrossEntropy, CrossEntropy, Loss, per_sample, refuse_non_finite
from .assignment import DetectionAssignment, RegionAssignment, YoloAssignment

OVERLAPS = {"iou": ops.box_iou, "giou": ops.box_giou, "diou": ops.box_diou, "ciou": ops.box_ciou}
LEAST_DEVIATION = 0.3  # added to the standard deviations of a Gaussian_yolo (Choi et al. 2019)


def through(value: Variable, x: Variable) -> Variable:
    """`value`, with the gradient of x itself."""
    return x + ops.zero_grad(value - x)


@dataclass(frozen=True)
class BoxLoss(Loss):
    """Base of losses whose targets are boxes: (images, truths, 5) of class, centre x and y, width and height as
    fractions of the image; rows of width 0 are padding.

    Args:
        head: the layer whose numbers it judges.
        darknet_gradients: see this module.
    """

    head: Layer
    darknet_gradients: bool = False

    def target_type(self, output: Spec, target: np.ndarray) -> TensorType:
        if target.dtype.kind not in "iuf":
            raise DTypeError(f"y holds {target.dtype}; expected numbers")
        if target.ndim != 3 or target.shape[2] != 5:
            raise ShapeError(
                f"y has shape {target.shape}; expected (n, truths, 5): class, centre x and y, width, height"
            )
        return TensorType(output.dtype, (None, None, 5))

    def check(self, output: Spec, target: np.ndarray) -> None:
        refuse_non_finite("y", target)
        real = target[target[..., 3] > 0]
        if len(real) and (real[:, 0].min() < 0 or real[:, 0].max() >= self.head.classes):
            raise IndexRangeError(
                f"y holds classes from {real[:, 0].min():g} to {real[:, 0].max():g}; the network has "
                f"{self.head.classes} classes, from 0"
            )

    def example(self, output: Spec, count: int, rng: np.random.Generator) -> np.ndarray:
        boxes = rng.uniform(0.15, 0.85, (count, 2, 5))
        boxes[..., 0] = rng.integers(0, self.head.classes, (count, 2))
        boxes[..., 3:] *= 0.5
        return boxes

    def __call__(self, output: Variable, target: Variable) -> Variable:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, output, target)")

    def centre_gradient(self, value: Variable, x: Variable) -> Variable:
        """What stands for the sigmoid of a centre."""
        return through(value, x) if self.darknet_gradients else value


def _only(mask: Variable, x: Variable) -> Variable:
    """`x` where the mask is above 0; elsewhere 0, whatever x is."""
    return ops.where(mask > 0, x, ops.zeros_like(x))


@dataclass(frozen=True)
class YoloLoss(BoxLoss):
    """The loss of YOLOv3 and v4, per image, summed over all anchors of all cells:

    - objectness: cross-entropy with 1 where a truth is assigned, 0 elsewhere, nothing where ignored;
    - box, where a truth is assigned: iou_normalizer (2 - w h) / 2 times the squared error of x and y within their cell
      and of the logarithms of w and h over the anchor's ("mse"), or iou_normalizer (1 - IoU) or its kin;
    - classes, where a truth is assigned: cross-entropy of each class.
    """

    def __call__(self, output, target):
        head: Yolo = self.head
        raw = output
        box, objectness, probabilities = self._read(raw)
        constant = [ops.zero_grad(v) for v in (box, head.probability(probabilities))]
        wanted, truth, classes = self._assignment()(*constant, target)
        cost = head.object_normalizer * self._cross_entropy(objectness[..., 0], wanted[..., 0]) * wanted[..., 1]
        cost = cost + _only(truth[..., 4], self._box_cost(raw, box, truth))
        smoothed = classes * (1.0 - head.label_smoothing) + 0.5 * head.label_smoothing
        per_class = self._class_cost(probabilities, smoothed)
        known = ops.where(classes >= 0, per_class, ops.zeros_like(per_class))
        return per_sample(cost) + head.class_normalizer * per_sample(known)

    def _read(self, raw: Variable) -> tuple[Variable, Variable, Variable]:
        """Boxes, and the numbers for objectness and classes as they come in."""
        first = self.head.entries - self.head.classes
        return self.head.box(raw), raw[..., first - 1 : first], raw[..., first:]

    def _assignment(self) -> YoloAssignment:
        head: Yolo = self.head
        sizes = tuple((w / head.stride[1], h / head.stride[0]) for w, h in head.anchors)
        return YoloAssignment(
            sizes, head.mask, head.ignore_threshold, head.truth_threshold, head.iou_threshold, head.ignores_any_class,
            head.smooth_objectness,
        )  # fmt: skip

    def _cross_entropy(self, x: Variable, t: Variable) -> Variable:
        if self.head.new_coordinates:  # between 0 and 1 already, by the convolution's logistic activation
            return ops.binary_cross_entropy(ops.clip(x, 1e-7, 1 - 1e-7), t, reduction="none")
        return ops.bce_with_logits(x, t)

    def _class_cost(self, x: Variable, t: Variable) -> Variable:
        cost = self._cross_entropy(x, t)
        if not self.head.focal:
            return cost
        p = self.head.probability(x)
        missed = t * (1.0 - p) + (1.0 - t) * p
        return 0.5 * ops.square(missed) * cost

    def _box_cost(self, raw: Variable, box: Variable, truth: Variable) -> Variable:
        head: Yolo = self.head
        if head.iou_loss != "mse":
            return head.iou_normalizer * (1.0 - OVERLAPS[head.iou_loss](self._with_gradients(raw, box), truth[..., :4]))
        errors = self._errors(raw, truth)
        scale = 2.0 - truth[..., 2] * truth[..., 3]
        return 0.5 * head.iou_normalizer * scale * sum(ops.square(e) for e in errors)

    def _with_gradients(self, raw: Variable, box: Variable) -> Variable:
        if not self.darknet_gradients:
            return box
        x, y = (through(box[..., i], raw[..., i]) for i in (0, 1))
        return ops.stack([x, y, box[..., 2], box[..., 3]], axis=4)

    def _errors(self, raw: Variable, truth: Variable) -> list[Variable]:
        """Of x and y in cells, and of w and h as logarithms (or, with new coordinates, as square roots)."""
        head: Yolo = self.head
        (column, row), (columns, rows) = cells(raw), per_image(raw)
        x, y, w, h = (raw[..., i] for i in self._places())
        across = self.centre_gradient(head.centre(x), x) - (truth[..., 0] * columns - column)
        down = self.centre_gradient(head.centre(y), y) - (truth[..., 1] * rows - row)
        there = ops.expand_dims(truth[..., 4], 4) > 0
        ratio = ops.where(there, truth[..., 2:4], 1.0) / head.sizes(raw)
        wanted = 0.5 * ops.sqrt(ratio) if head.new_coordinates else ops.log(ratio)
        return [across, down, w - wanted[..., 0], h - wanted[..., 1]]

    def _places(self) -> tuple[int, int, int, int]:
        return (0, 1, 2, 3)


@dataclass(frozen=True)
class GaussianYoloLoss(YoloLoss):
    """`YoloLoss` whose box costs are negative log-likelihoods: e^2 / (2 s^2) + log s for each error e, with s the
    uncertainty + 0.3 (Choi et al. 2019, equation 5)."""

    def _places(self):
        return (0, 2, 4, 6)

    def _with_gradients(self, raw, box):
        return box

    def _box_cost(self, raw, box, truth):
        head: GaussianYolo = self.head
        scale = 2.0 - truth[..., 2] * truth[..., 3]
        deviations = head.uncertainty(raw) + LEAST_DEVIATION
        total = sum(
            0.5 * ops.square(e / deviations[..., i]) + ops.log(deviations[..., i])
            for i, e in enumerate(self._errors(raw, truth))
        )
        cost = head.uncertainty_normalizer * scale * total
        if head.iou_loss != "mse":
            cost = cost + head.iou_normalizer * (1.0 - OVERLAPS[head.iou_loss](box, truth[..., :4]))
        return cost


@dataclass(frozen=True)
class RegionLoss(BoxLoss):
    """The loss of YOLOv2, per image: half the squared errors of objectness (times object_scale or noobject_scale), and,
    where a truth is assigned, of x and y within their cell and the logarithms of w and h over the anchor's (times
    coord_scale (2 - w h)), and class_scale times the cross-entropy of the classes.

    Args:
        warm: boxes without a truth are drawn to their anchors with weight 0.01, as Darknet does for the first 12,800
            images.
    """

    warm: bool = False

    def __call__(self, output, target):
        head: Region = self.head
        raw = output
        scores = raw[..., head.coords + 1 :]
        box = head.box(raw)
        sizes = tuple(head.anchors)
        assign = RegionAssignment(
            sizes, head.threshold, head.bias_match, head.rescore, head.object_scale, head.noobject_scale
        )
        wanted, truth, classes = assign(ops.zero_grad(box), ops.zero_grad(ops.sigmoid(scores)), target)
        there = truth[..., 4]
        objectness = head.decode(raw)[1][..., 0]
        cost = 0.5 * wanted[..., 1] * ops.square(objectness - wanted[..., 0])
        (column, row), (columns, rows) = cells(raw), per_image(raw)
        ratio = ops.where(ops.expand_dims(there, 4) > 0, truth[..., 2:4], 1.0) / head.sizes(raw)
        x, y = (self.centre_gradient(ops.sigmoid(raw[..., i]), raw[..., i]) for i in (0, 1))
        errors = [
            x - (truth[..., 0] * columns - column),
            y - (truth[..., 1] * rows - row),
            raw[..., 2] - ops.log(ratio[..., 0]),
            raw[..., 3] - ops.log(ratio[..., 1]),
        ]
        scale = head.coord_scale * (2.0 - truth[..., 2] * truth[..., 3])
        cost = cost + _only(there, 0.5 * scale * sum(ops.square(e) for e in errors))
        if self.warm:
            pull = ops.square(x - 0.5) + ops.square(y - 0.5) + ops.square(raw[..., 2]) + ops.square(raw[..., 3])
            cost = cost + ops.where(there > 0, ops.zeros_like(pull), 0.005 * pull)
        return per_sample(cost) + head.class_scale * per_sample(self._class_cost(scores, classes))

    def _class_cost(self, scores: Variable, classes: Variable) -> Variable:
        head: Region = self.head
        known = classes >= 0
        target = ops.where(known, classes, ops.zeros_like(classes))
        if head.parents:
            return self._tree_cost(scores, target)
        if head.softmax:
            return -target * ops.log_softmax(scores, axis=-1)
        each = ops.bce_with_logits(scores, target)
        return ops.where(known, each, ops.zeros_like(each))

    def _tree_cost(self, scores: Variable, target: Variable) -> Variable:
        """The cross-entropy of the class and all its ancestors, each among its siblings."""
        head: Region = self.head
        reach = np.eye(head.classes)
        for i, parent in enumerate(head.parents):
            if parent >= 0:
                reach[i] += reach[parent]
        wanted = ops.matmul(target, reach.astype(target.dtype))
        logs = [ops.log_softmax(part, axis=-1) for part in cut(scores, group_sizes(head.parents))]
        return -wanted * ops.concatenate(logs, axis=-1)


@dataclass(frozen=True)
class DetectionLoss(BoxLoss):
    """The loss of YOLOv1 (Redmon et al. 2016, equation 3), per image: half the squared errors of confidences (times
    object_scale or noobject_scale), of the box that answers for a truth (coord_scale), of the class scores of cells
    with a truth (class_scale)."""

    def __call__(self, output, target):
        head: Detection = self.head
        scores, confidences, boxes = head.split(output)
        side, number = head.side, head.number
        grid = (-1, side, side, number)
        place = ops.arange(side)
        column = ops.cast(ops.reshape(place, (1, 1, -1, 1)), output.dtype)
        row = ops.cast(ops.reshape(place, (1, -1, 1, 1)), output.dtype)
        box = ops.reshape(boxes, (*grid, head.coords))
        sizes = ops.square(box[..., 2:4]) if head.sqrt else box[..., 2:4]
        across, down = (box[..., 0] + column) / side, (box[..., 1] + row) / side
        predicted = ops.concatenate([ops.expand_dims(across, 4), ops.expand_dims(down, 4), sizes], axis=-1)
        cell_scores = ops.reshape(scores, (-1, side, side, 1, head.classes))
        repeated = ops.repeat(cell_scores, number, axis=3)
        assign = DetectionAssignment(head.rescore, head.object_scale, head.noobject_scale)
        wanted, truth, classes = assign(ops.zero_grad(predicted), ops.zero_grad(repeated), target)
        cost = 0.5 * wanted[..., 1] * ops.square(ops.reshape(confidences, grid) - wanted[..., 0])
        sides = ops.sqrt(truth[..., 2:4]) if head.sqrt else truth[..., 2:4]
        errors = [
            box[..., 0] - (truth[..., 0] * side - column), box[..., 1] - (truth[..., 1] * side - row),
            box[..., 2] - sides[..., 0], box[..., 3] - sides[..., 1],
        ]  # fmt: skip
        cost = cost + _only(truth[..., 4], 0.5 * head.coord_scale * sum(ops.square(e) for e in errors))
        target_classes = classes[..., :1, :]
        if head.softmax:
            each = -target_classes * ops.log_softmax(cell_scores, axis=-1)
        else:
            each = 0.5 * ops.square(cell_scores - target_classes)
        known = ops.where(target_classes >= 0, each, ops.zeros_like(each))
        return per_sample(cost) + head.class_scale * per_sample(known)


@dataclass(frozen=True)
class IsegLoss(Loss):
    """The loss of iseg, per image: cross-entropy of the classes of each pixel, and 0.1 times half the squared distance
    of each pixel's ids from the mean ids of its instance.

    Targets are (images, height, width, 2): the class of each pixel (-1 for none) and the number of its instance.
    """

    head: Iseg

    def target_type(self, output, target):
        if target.ndim != 4 or target.shape[3] != 2:
            raise ShapeError(f"y has shape {target.shape}; expected (n, height, width, 2): class and instance")
        return TensorType(output.dtype, (None, *output.shape[:2], 2))

    def example(self, output, count, rng):
        height, width = output.shape[:2]
        return rng.integers(0, self.head.classes, (count, height, width, 2)).astype(float)

    def __call__(self, output, target):
        head = self.head
        label = ops.expand_dims(target[..., 0], 3)
        wanted = ops.cast(ops.equal(label, ops.arange(head.classes).astype(output.dtype)), output.dtype)
        cost = per_sample(ops.bce_with_logits(output[..., : head.classes], wanted))
        ids = output[..., head.classes :]
        same = ops.equal(_flat(target[..., 1]), ops.swapaxes(_flat(target[..., 1]), 1, 2))
        both = ops.logical_and(_flat(target[..., 0]) >= 0, ops.swapaxes(_flat(target[..., 0]), 1, 2) >= 0)
        share = ops.cast(ops.logical_and(same, both), output.dtype)
        share = share / ops.maximum(ops.sum(share, axis=2, keepdims=True), 1.0)
        flat = ops.reshape(ids, (ops.length(ids, 0), -1, head.ids))
        apart = flat - ops.matmul(share, flat)
        there = ops.cast(_flat(target[..., 0]) >= 0, output.dtype)
        return cost + 0.1 * 0.5 * per_sample(there * ops.square(apart))


def _flat(x: Variable) -> Variable:
    """(images, pixels, 1) of (images, height, width)."""
    return ops.reshape(x, (ops.length(x, 0), -1, 1))


@dataclass(frozen=True)
class CostLoss(Loss):
    """What `Cost` says: its deviation of each number from its target, times its scale, summed.

    With `ratio` only the largest deviations of the batch count, with `thresh` only those of at least so much; of
    "masked" targets of 1234 don't count, of "seg" targets of 0 count `noobj` times.

    Args:
        layer: the Cost.
        factor: multiplies the cost; Darknet's own gradients are those of half its squared errors.
        darknet_gradients: of "smooth", the gradient beyond 1 points the wrong way, as in pjreddie's Darknet.
    """

    layer: Cost
    factor: float = 1.0
    darknet_gradients: bool = False

    def __call__(self, output, target):
        layer = self.layer
        t = ops.cast(target, output.dtype)
        if layer.smoothing:
            spread = t.shape[t.ndim - 1].astype(output.dtype)
            t = (1.0 - layer.smoothing) * t + layer.smoothing / spread
        counts = ops.ones_like(t)
        if layer.type == "masked":
            counts = ops.cast(ops.not_equal(t, SECRET), output.dtype)
            t = ops.where(counts > 0, t, ops.zeros_like(t))
        if layer.type == "seg":
            counts = ops.where(ops.equal(t, 0), layer.noobj, counts)
        if layer.thresh:
            counts = ops.where(ops.abs(ops.zero_grad(output) - t) < layer.thresh, 0.0, counts)
        if layer.ratio:
            size = ops.flatten(ops.abs(ops.zero_grad(output) - t) * counts)
            place = ops.cast((1.0 - layer.ratio) * ops.cast(ops.size(size), "float64"), "int64")
            least = ops.sort(size)[ops.minimum(place, ops.size(size) - 1)]
            counts = ops.where(ops.abs(ops.zero_grad(output) - t) < least, 0.0, counts)
        each = COSTS[layer.type](output, t)
        if self.darknet_gradients and layer.type == "smooth":
            far = ops.abs(output - t) >= 1.0
            each = ops.where(far, 2.0 * ops.zero_grad(each) - each, each)
        kept = ops.where(counts > 0, each, ops.zeros_like(each)) * counts
        return self.factor * layer.scale * per_sample(kept)


def loss_of(layer: Layer, darknet_gradients: bool = False) -> Loss | None:
    """The loss that Darknet trains a layer with; None for a layer that has none."""
    match layer:
        case GaussianYolo():
            return GaussianYoloLoss(layer, darknet_gradients)
        case Yolo():
            return YoloLoss(layer, darknet_gradients)
        case Region():
            return RegionLoss(layer, darknet_gradients)
        case Detection():
            return DetectionLoss(layer, darknet_gradients)
        case Iseg():
            return IsegLoss(layer)
        case Softmax():
            return CrossEntropy()
        case Logistic():
            return BinaryCrossEntropy()
        case Cost():
            return CostLoss(layer, 1.0 if layer.type in ("L1", "mae") else 0.5, darknet_gradients)
    return None


def losses_of(network: Any, darknet_gradients: bool = False) -> list[Loss]:
    """One loss per output, for `network.compile(loss=...)`."""
    found = [loss_of(node.layer, darknet_gradients) for node in network.outputs]
    for node, loss in zip(network.outputs, found):
        if loss is None:
            raise ArgumentError(f"{node} is an output that no loss belongs to: say which with compile(loss=...)")
    return found
