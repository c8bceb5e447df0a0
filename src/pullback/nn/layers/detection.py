"""Heads of detectors: what the last convolution's numbers say about boxes. Darknet's yolo, Gaussian_yolo, region,
detection, and iseg for segmentation.

At predict they give one row per box, in the order (row, column, anchor): centre x and y, width and height as fractions
of the image, objectness, and for each class objectness times its probability. Losses take the numbers before decoding.
"""

from dataclasses import dataclass
from math import prod

from ... import ops
from ...errors import ArgumentError, ShapeError
from ...graph import Variable
from .base import Layer, Spec, image, positive
from .grouped_softmax import cut

Anchors = tuple[tuple[float, float], ...]


def cells(x: Variable) -> tuple[Variable, Variable]:
    """Column and row of each cell of (batch, rows, columns, anchors, entries)."""
    columns = ops.cast(ops.arange(ops.length(x, 2)), x.dtype)
    rows = ops.cast(ops.arange(ops.length(x, 1)), x.dtype)
    return ops.reshape(columns, (1, 1, -1, 1)), ops.reshape(rows, (1, -1, 1, 1))


def per_image(x: Variable) -> tuple[Variable, Variable]:
    """How many columns and rows there are, in the dtype of `x`."""
    return ops.cast(ops.length(x, 2), x.dtype), ops.cast(ops.length(x, 1), x.dtype)


@dataclass(frozen=True)
class Head(Layer):
    """Base of heads on a grid of cells.

    Attributes:
        entries: numbers per anchor.
        boxes: anchors per cell.
    """

    def split(self, x: Variable) -> Variable:
        """(batch, rows, columns, anchors, entries) of what comes in."""
        boxes, entries = self.boxes, self.entries
        return ops.reshape(x, (-1, ops.length(x, 1), ops.length(x, 2), boxes, entries))

    def describe(self, x):
        height, width, channels = image(x)
        expected = self.boxes * self.entries
        if channels != expected:
            raise ShapeError(f"takes {self.boxes} anchors x {self.entries} numbers = {expected} channels, got {x}")
        rows = None if None in (height, width) else height * width * self.boxes
        return Spec((rows, 5 + self.classes), x.dtype)

    def apply(self, parameters, inputs, context):
        raw = self.split(inputs[0])
        if context.scoring:
            return raw
        box, objectness, classes = self.decode(raw)
        rows = ops.concatenate([box, objectness, classes], axis=-1)
        return ops.reshape(rows, (ops.length(rows, 0), -1, 5 + self.classes))

    def decode(self, raw: Variable) -> tuple[Variable, Variable, Variable]:
        """Boxes (..., 4), objectness (..., 1), and class scores (..., classes)."""
        raise NotImplementedError(f"{type(self).__name__} must define decode(self, raw)")


@dataclass(frozen=True)
class Yolo(Head):
    """The head of YOLOv3 and v4 (Redmon and Farhadi 2018; Bochkovskiy et al. 2020).

    Args:
        classes: how many.
        anchors: width and height in pixels of the network's input, all heads' together.
        mask: which anchors are this head's.
        stride: pixels of the network's input per cell, (vertical, horizontal).
        scale_xy: centres are s sigmoid(t) - (s - 1) / 2 within their cell.
        new_coordinates: what comes in is between 0 and 1 already, and sizes are (2 t)^2 times the anchor.
        ignore_threshold, truth_threshold, iou_loss, iou_normalizer, object_normalizer, class_normalizer,
        iou_threshold, label_smoothing, focal, smooth_objectness, ignores_any_class: of the loss; see
            `darknet.YoloLoss`.
        nms, nms_beta: which suppression Darknet uses for this head.
        most: truths per image.
    """

    classes: int
    anchors: Anchors
    mask: tuple[int, ...]
    stride: tuple[float, float]
    scale_xy: float = 1.0
    new_coordinates: bool = False
    ignore_threshold: float = 0.5
    truth_threshold: float = 1.0
    iou_loss: str = "mse"
    iou_normalizer: float = 0.75
    object_normalizer: float = 1.0
    class_normalizer: float = 1.0
    iou_threshold: float = 1.0
    label_smoothing: float = 0.0
    focal: bool = False
    smooth_objectness: bool = False
    ignores_any_class: bool = True
    nms: str = "default"
    nms_beta: float = 0.6
    most: int = 90

    def __post_init__(self) -> None:
        positive(self, classes=self.classes, most=self.most)
        object.__setattr__(self, "anchors", tuple(map(tuple, self.anchors)))
        object.__setattr__(self, "mask", tuple(self.mask))
        object.__setattr__(self, "stride", tuple(self.stride))
        if not self.mask or any(not 0 <= m < len(self.anchors) for m in self.mask):
            raise ArgumentError(f"{type(self).__name__}: mask={self.mask}; expected numbers of the anchors, from 0")

    @property
    def boxes(self) -> int:
        return len(self.mask)

    @property
    def entries(self) -> int:
        return 5 + self.classes

    def sizes(self, raw: Variable) -> Variable:
        """Width and height of this head's anchors as fractions of the image: (1, 1, 1, anchors, 2)."""
        columns, rows = per_image(raw)
        anchors = [self.anchors[m] for m in self.mask]
        widths = ops.asarray([w / self.stride[1] for w, _ in anchors], raw.dtype) / columns
        heights = ops.asarray([h / self.stride[0] for _, h in anchors], raw.dtype) / rows
        return ops.reshape(ops.stack([widths, heights], axis=1), (1, 1, 1, len(anchors), 2))

    def centre(self, t: Variable) -> Variable:
        """Where in its cell a centre lies."""
        t = t if self.new_coordinates else ops.sigmoid(t)
        return t if self.scale_xy == 1 else self.scale_xy * t - 0.5 * (self.scale_xy - 1.0)

    def probability(self, t: Variable) -> Variable:
        return t if self.new_coordinates else ops.sigmoid(t)

    def place(self, raw: Variable, x: Variable, y: Variable, size: Variable) -> Variable:
        """Boxes (..., 4) of the numbers for x, y and (..., 2) sizes."""
        (column, row), (columns, rows) = cells(raw), per_image(raw)
        across = ops.expand_dims((self.centre(x) + column) / columns, 4)
        down = ops.expand_dims((self.centre(y) + row) / rows, 4)
        factor = ops.square(2.0 * size) if self.new_coordinates else ops.exp(size)
        return ops.concatenate([across, down, factor * self.sizes(raw)], axis=-1)

    def box(self, raw: Variable) -> Variable:
        """Boxes (..., 4)."""
        return self.place(raw, raw[..., 0], raw[..., 1], raw[..., 2:4])

    def decode(self, raw):
        objectness = self.probability(raw[..., 4:5])
        return self.box(raw), objectness, objectness * self.probability(raw[..., 5:])


@dataclass(frozen=True)
class GaussianYolo(Yolo):
    """`Yolo` whose x, y, w and h each have an uncertainty (Choi et al. 2019): (x, its uncertainty, y, ..., objectness,
    classes). Class scores are multiplied by 1 - the mean uncertainty."""

    uncertainty_normalizer: float = 1.0

    @property
    def entries(self) -> int:
        return 9 + self.classes

    def box(self, raw):
        size = ops.stack([raw[..., 4], raw[..., 6]], axis=4)
        return self.place(raw, raw[..., 0], raw[..., 2], size)

    def uncertainty(self, raw: Variable) -> Variable:
        """Of x, y, w and h: (..., 4), between 0 and 1."""
        return ops.sigmoid(raw[..., 1:8:2])

    def decode(self, raw):
        objectness = self.probability(raw[..., 8:9])
        sure = 1.0 - ops.mean(self.uncertainty(raw), axis=-1, keepdims=True)
        return self.box(raw), objectness, objectness * sure * self.probability(raw[..., 9:])


def group_sizes(parents: tuple[int, ...]) -> tuple[int, ...]:
    """Lengths of the runs of classes with the same parent: each is a softmax of its own."""
    sizes: list[int] = []
    for i, parent in enumerate(parents):
        if i and parent == parents[i - 1]:
            sizes[-1] += 1
        else:
            sizes.append(1)
    return tuple(sizes)


@dataclass(frozen=True)
class Region(Head):
    """The head of YOLOv2 (Redmon and Farhadi 2017).

    Args:
        classes: how many.
        anchors: width and height in cells.
        coords: numbers of a box; those after the fourth are a mask.
        softmax: classes exclude each other.
        background: class scores share a softmax with "nothing" in place of the objectness.
        parents: of each class in a word tree, -1 for the roots; class scores become products down to the root.
        threshold, rescore, bias_match, *_scale: of the loss; see `darknet.RegionLoss`.
        most: truths per image.
    """

    classes: int
    anchors: Anchors
    coords: int = 4
    softmax: bool = False
    background: bool = False
    parents: tuple[int, ...] = ()
    threshold: float = 0.5
    rescore: bool = False
    bias_match: bool = False
    coord_scale: float = 1.0
    object_scale: float = 1.0
    noobject_scale: float = 1.0
    class_scale: float = 1.0
    mask_scale: float = 1.0
    most: int = 30

    def __post_init__(self) -> None:
        positive(self, classes=self.classes, coords=self.coords, most=self.most)
        object.__setattr__(self, "anchors", tuple(map(tuple, self.anchors)))
        object.__setattr__(self, "parents", tuple(self.parents))
        if self.parents and len(self.parents) != self.classes:
            raise ArgumentError(f"Region: a tree of {len(self.parents)} classes for classes={self.classes}")

    @property
    def boxes(self) -> int:
        return len(self.anchors)

    @property
    def entries(self) -> int:
        return self.coords + 1 + self.classes

    def sizes(self, raw: Variable) -> Variable:
        """Width and height of the anchors as fractions of the image: (1, 1, 1, anchors, 2)."""
        columns, rows = per_image(raw)
        anchors = ops.asarray(self.anchors, raw.dtype) / ops.stack([columns, rows])
        return ops.reshape(anchors, (1, 1, 1, self.boxes, 2))

    def box(self, raw: Variable) -> Variable:
        """Boxes (..., 4)."""
        (column, row), (columns, rows) = cells(raw), per_image(raw)
        x = ops.expand_dims((ops.sigmoid(raw[..., 0]) + column) / columns, 4)
        y = ops.expand_dims((ops.sigmoid(raw[..., 1]) + row) / rows, 4)
        return ops.concatenate([x, y, ops.exp(raw[..., 2:4]) * self.sizes(raw)], axis=-1)

    def decode(self, raw):
        scores = raw[..., self.coords + 1 :]
        objectness = raw[..., self.coords : self.coords + 1]
        if self.background:
            shares = ops.softmax(raw[..., self.coords :], axis=-1)
            objectness, probabilities = 1.0 - shares[..., :1], shares[..., 1:]
            return self.box(raw), objectness, probabilities
        objectness = ops.sigmoid(objectness)
        if self.parents:
            probabilities = self._down_the_tree(scores)
        else:
            probabilities = ops.softmax(scores, axis=-1) if self.softmax else ops.sigmoid(scores)
        return self.box(raw), objectness, objectness * probabilities

    def _down_the_tree(self, scores: Variable) -> Variable:
        groups = [ops.softmax(part, axis=-1) for part in cut(scores, group_sizes(self.parents))]
        shares = ops.concatenate(groups, axis=-1)
        columns: list[Variable] = []
        for i, parent in enumerate(self.parents):
            share = shares[..., i : i + 1]
            columns.append(share if parent < 0 else share * columns[parent])
        return ops.concatenate(columns, axis=-1)


@dataclass(frozen=True)
class Detection(Layer):
    """The head of YOLOv1 (Redmon et al. 2016): takes side^2 x ((1 + coords) number + classes) numbers: for all cells
    the class scores, then the confidences, then the boxes.

    Args:
        classes, coords, side, number: of classes, of numbers per box, of cells per side, of boxes per cell.
        softmax: over each cell's class scores.
        sqrt: what comes in for width and height are square roots.
        rescore, *_scale: of the loss; see `darknet.DetectionLoss`.
        most: truths per image.
    """

    classes: int
    coords: int = 4
    side: int = 7
    number: int = 1
    softmax: bool = False
    sqrt: bool = False
    rescore: bool = False
    coord_scale: float = 1.0
    object_scale: float = 1.0
    noobject_scale: float = 1.0
    class_scale: float = 1.0
    most: int = 90

    def __post_init__(self) -> None:
        positive(self, classes=self.classes, coords=self.coords, side=self.side, number=self.number)

    def describe(self, x):
        expected = self.side**2 * ((1 + self.coords) * self.number + self.classes)
        if None in x.shape or prod(x.shape) != expected:
            raise ShapeError(f"takes {expected} numbers, got {x}")
        return Spec((self.side**2 * self.number, 5 + self.classes), x.dtype)

    def split(self, x: Variable) -> tuple[Variable, Variable, Variable]:
        """Class scores (batch, cells, classes), confidences (batch, cells, boxes), boxes (batch, cells, boxes, 4)."""
        if x.ndim == 4:
            x = ops.reshape(ops.transpose(x, (0, 3, 1, 2)), (-1, prod(x.type.shape[1:])))
        places, boxes = self.side**2, self.number
        parts = cut(x, (places * self.classes, places * boxes, places * boxes * self.coords))
        scores = ops.reshape(parts[0], (-1, places, self.classes))
        confidences = ops.reshape(parts[1], (-1, places, boxes))
        return scores, confidences, ops.reshape(parts[2], (-1, places, boxes, self.coords))

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        if context.scoring:
            return x
        if self.coords != 4:
            raise ShapeError(f"boxes of coords={self.coords} numbers can't be decoded; expected 4")
        scores, confidences, boxes = self.split(x)
        if self.softmax:
            scores = ops.softmax(scores, axis=-1)
        place = ops.arange(self.side**2)
        column = ops.cast(ops.reshape(place % self.side, (1, -1, 1)), x.dtype)
        row = ops.cast(ops.reshape(place // self.side, (1, -1, 1)), x.dtype)
        across, down = (boxes[..., 0] + column) / self.side, (boxes[..., 1] + row) / self.side
        sizes = ops.square(boxes[..., 2:4]) if self.sqrt else boxes[..., 2:4]
        confidence = ops.expand_dims(confidences, 3)
        rows = [ops.expand_dims(across, 3), ops.expand_dims(down, 3), sizes, confidence,
                confidence * ops.expand_dims(scores, 2)]  # fmt: skip
        return ops.reshape(ops.concatenate(rows, axis=-1), (-1, self.side**2 * self.number, 5 + self.classes))


@dataclass(frozen=True)
class Iseg(Layer):
    """Instance segmentation: for each pixel the probabilities of `classes`, and `ids` numbers in which the pixels of
    one instance are alike (Darknet's iseg)."""

    classes: int
    ids: int = 32

    def __post_init__(self) -> None:
        positive(self, classes=self.classes)

    def describe(self, x):
        _, _, channels = image(x)
        if channels != self.classes + self.ids:
            expected = f"{self.classes} classes + {self.ids} ids = {self.classes + self.ids} channels"
            raise ShapeError(f"takes {expected}, got {x}")
        return x

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        if context.scoring:
            return x
        return ops.concatenate([ops.sigmoid(x[..., : self.classes]), x[..., self.classes :]], axis=-1)
