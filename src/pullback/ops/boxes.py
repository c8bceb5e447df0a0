"""How much boxes overlap: IoU and its kin, safe for boxes that are empty, equal or far apart."""

from dataclasses import dataclass
from math import pi
from typing import Any

from ..errors import ArgumentError, ShapeError
from ..graph import Variable
from .activation import relu
from .arithmetic import add, divide, greater, maximum, minimum, multiply, square, subtract, where
from .dtypes import as_tensors, float_dtype, result_dtype
from .elementwise import cast, ones_like, zeros_like
from .losses import reduced
from .transcendental import arctan2

__all__ = ["box_ciou", "box_diou", "box_giou", "box_iou", "box_loss"]

FORMATS = ("cxcywh", "xyxy", "xywh")


@dataclass(frozen=True)
class Boxes:
    """Edges, size and centre of boxes; a width or height below zero counts as zero."""

    left: Variable
    top: Variable
    right: Variable
    bottom: Variable
    width: Variable
    height: Variable

    @property
    def area(self) -> Variable:
        return multiply(self.width, self.height)


def _parse(boxes: Variable, fmt: str, what: str) -> Boxes:
    if fmt not in FORMATS:
        raise ArgumentError(f"{what}: fmt={fmt!r}; expected one of {FORMATS}")
    if boxes.ndim == 0 or boxes.type.shape[-1] not in (4, None):
        raise ShapeError(f"{what}: a box has 4 numbers ({fmt}) on the last axis; got {boxes.type}")
    a, b, c, d = (boxes[..., i] for i in range(4))
    if fmt == "xyxy":
        return Boxes(a, b, c, d, relu(subtract(c, a)), relu(subtract(d, b)))
    width, height = relu(c), relu(d)
    if fmt == "cxcywh":
        a, b = subtract(a, 0.5 * width), subtract(b, 0.5 * height)
    return Boxes(a, b, add(a, width), add(b, height), width, height)


def _ratio(part: Variable, whole: Variable) -> Variable:
    """part / whole, and 0 with zero gradient where `whole` is not positive."""
    real = greater(whole, 0)
    return divide(where(real, part, zeros_like(part)), where(real, whole, ones_like(whole)))


class Overlap:
    """Two sets of boxes and what is measured between them."""

    def __init__(self, a: Any, b: Any, fmt: str, what: str) -> None:
        tensors = as_tensors([a, b])
        dtype = float_dtype(result_dtype(tensors))
        self.a, self.b = (_parse(cast(v, dtype), fmt, what) for v in tensors)
        width = relu(subtract(minimum(self.a.right, self.b.right), maximum(self.a.left, self.b.left)))
        height = relu(subtract(minimum(self.a.bottom, self.b.bottom), maximum(self.a.top, self.b.top)))
        self.common = multiply(width, height)
        self.union = subtract(add(self.a.area, self.b.area), self.common)
        self.iou = _ratio(self.common, self.union)

    def hull(self) -> tuple[Variable, Variable]:
        """Width and height of the smallest box round both."""
        width = subtract(maximum(self.a.right, self.b.right), minimum(self.a.left, self.b.left))
        height = subtract(maximum(self.a.bottom, self.b.bottom), minimum(self.a.top, self.b.top))
        return width, height

    def distance(self) -> Variable:
        """The squared distance of the centres over the squared diagonal of the hull."""
        across = subtract(add(self.a.left, self.a.right), add(self.b.left, self.b.right))
        down = subtract(add(self.a.top, self.a.bottom), add(self.b.top, self.b.bottom))
        width, height = self.hull()
        return _ratio(0.25 * add(square(across), square(down)), add(square(width), square(height)))

    def shape(self) -> Variable:
        """How much the proportions differ: 4 / pi^2 (atan(w_a / h_a) - atan(w_b / h_b))^2."""
        a, b = (arctan2(x.width, x.height) for x in (self.a, self.b))
        return 4 / pi**2 * square(subtract(a, b))


def box_iou(a: Any, b: Any, fmt: str = "cxcywh") -> Variable:
    """Intersection over union of boxes, pairwise by broadcasting.

    Args:
        a, b: boxes along the last axis, (.., 4); the other axes broadcast.
        fmt: "cxcywh" (centre, width, height), "xyxy" (two corners) or "xywh" (corner, width, height).

    Returns:
        0 to 1, without the last axis. Two empty boxes have 0, with zero gradient; so do boxes that don't meet, for
        which `box_giou`, `box_diou` and `box_ciou` still say which way to go. Equal edges take half the gradient each.
    """
    return Overlap(a, b, fmt, "box_iou").iou


def box_giou(a: Any, b: Any, fmt: str = "cxcywh") -> Variable:
    """IoU - (hull - union) / hull, where hull is the area of the smallest box round both (Rezatofighi et al. 2019).

    -1 to 1; arguments as in `box_iou`.
    """
    o = Overlap(a, b, fmt, "box_giou")
    hull = multiply(*o.hull())
    return subtract(o.iou, _ratio(subtract(hull, o.union), hull))


def box_diou(a: Any, b: Any, fmt: str = "cxcywh") -> Variable:
    """IoU - d^2 / c^2 with d the distance of the centres and c the diagonal of the hull (Zheng et al. 2020).

    -1 to 1; arguments as in `box_iou`.
    """
    o = Overlap(a, b, fmt, "box_diou")
    return subtract(o.iou, o.distance())


def box_ciou(a: Any, b: Any, fmt: str = "cxcywh") -> Variable:
    """DIoU - v^2 / (1 - IoU + v), where v says how much the proportions differ (Zheng et al. 2020).

    v = 4 / pi^2 (atan(w_a / h_a) - atan(w_b / h_b))^2. The gradient is that of this formula; the paper's authors hold
    the weight v / (1 - IoU + v) constant instead. Arguments as in `box_iou`.
    """
    o = Overlap(a, b, fmt, "box_ciou")
    v = o.shape()
    return subtract(subtract(o.iou, o.distance()), _ratio(square(v), add(subtract(1, o.iou), v)))


KINDS = {"iou": box_iou, "giou": box_giou, "diou": box_diou, "ciou": box_ciou}


def box_loss(a: Any, b: Any, kind: str = "giou", fmt: str = "cxcywh", reduction: str = "batchmean") -> Variable:
    """1 - IoU, or 1 - GIoU, DIoU or CIoU ("iou", "giou", "diou", "ciou"), reduced as losses are."""
    if kind not in KINDS:
        raise ArgumentError(f"box_loss: kind={kind!r}; expected one of {tuple(KINDS)}")
    return reduced(subtract(1, KINDS[kind](a, b, fmt)), reduction, "box_loss")
