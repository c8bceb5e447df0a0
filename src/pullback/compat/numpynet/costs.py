"""NumPyNet's layers that compute a cost: softmax, logistic, cost, yolo.

Given the truth, `forward` sets `cost` and in `delta` its gradient to the input, which `backward` adds to the caller's
buffer. Without it Softmax and Logistic are layers like others.
"""

from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...compile import function
from ...darknet import CostLoss
from ...errors import ArgumentError, ShapeError, UnknownNameError, nearest
from ...gradient.engine import grad
from ...graph import Variable
from ...nn.layers.cost import SECRET, Cost
from .base import BaseLayer, Shape, as_floats
from .exception import NotFittedError
from .metrics import cost_type


class Costing(BaseLayer):
    """Base of layers with a cost. A subclass writes `loss`.

    Attributes:
        cost: of the last batch.
        per_number: whether the cost is a mean over all numbers of the batch, and not a sum.
    """

    per_number = False

    def __init__(self, input_shape: Shape | None = None, **kwargs: Any) -> None:
        self.cost = 0.0
        self._costs: dict[str, Any] = {}
        self._of_cost = False
        super().__init__(input_shape, **kwargs)

    def loss(self, x: Variable, truth: Variable) -> Variable:
        """The cost of a batch."""
        raise NotImplementedError(f"{type(self).__name__} must define loss(self, x, truth)")

    def forward(self, inpt, truth=None, copy=False):
        """Set `output`, and given the truth `cost` and `delta`."""
        super().forward(inpt, copy)
        self._of_cost = truth is not None
        if self._of_cost:
            x = self._last[1][0]
            truth = np.asarray(truth)
            if truth.size != x.size or len(truth) != len(x):
                raise ShapeError(
                    f"{type(self).__name__}.forward: the truth has shape {truth.shape}; expected {x.shape}"
                )
            self.cost, self.delta = self._measured(x, truth.reshape(x.shape).astype(x.dtype))
        return self

    def _measured(self, x: np.ndarray, truth: np.ndarray) -> tuple[float, np.ndarray]:
        if x.dtype.name not in self._costs:
            inputs = [ops.tensor(x.dtype.name, (None, *x.shape[1:])) for _ in range(2)]
            cost = self.loss(*inputs)
            self._costs[x.dtype.name] = function(inputs, [cost, grad(cost, inputs[0])], name="cost")
        cost, gradient = self._costs[x.dtype.name](x, truth)
        return float(cost), gradient

    def backward(self, delta=None, copy=False):
        """Add the cost's gradient to the buffer; without a truth, `delta` pulled back."""
        if self.delta is None:
            raise NotFittedError(f"{type(self).__name__}: call forward before backward")
        self._add(self.delta if self._of_cost else self._gradient(), delta)
        return self


class Softmax_layer(Costing):
    """exp(x / temperature), normalised to sum 1 over all numbers of a sample, or over the channels of each pixel if
    `spatial`. The cost is the sum over the batch of -truth log(output)."""

    def __init__(
        self, input_shape: Shape | None = None, spatial: bool = False, temperature: float = 1.0, **kwargs: Any
    ) -> None:
        if not temperature > 0:
            raise ArgumentError(f"Softmax_layer: temperature={temperature}; expected a number above 0")
        self.spatial, self.temperature = spatial, temperature
        super().__init__(input_shape, **kwargs)

    def _rows(self, x: Variable) -> Variable:
        return ops.reshape(x, (-1, self.input_shape[3] if self.spatial else prod(self.input_shape[1:])))

    def expression(self, x):
        return ops.reshape(ops.softmax(self._rows(x) / self.temperature), (-1, *self.input_shape[1:]))

    def loss(self, x, truth):
        return ops.sum(ops.softmax_cross_entropy(self._rows(x) / self.temperature, self._rows(truth)))


class Logistic_layer(Costing):
    """1 / (1 + exp(-x)). The cost is the sum over all numbers of -t log y - (1 - t) log(1 - y)."""

    def expression(self, x):
        return ops.sigmoid(x)

    def loss(self, x, truth):
        return ops.sum(ops.bce_with_logits(x, truth))


class Cost_layer(Costing):
    """What comes in, and what it costs: the mean over all numbers of the batch of a deviation from the truth.

    Args:
        cost_type: a `cost_type`, its name or number.
        scale: multiplies the cost.
        ratio: the share of deviations that count, the largest ones; 0 for all.
        noobject_scale: of "seg", multiplies the cost where the truth is 0.
        threshold: deviations below it don't count.
        smoothing: the share of each truth that is spread evenly over the numbers of its sample.
    """

    SECRET_NUM = 12345
    per_number = True

    def __init__(
        self, cost_type: Any, input_shape: Shape | None = None, scale: float = 1.0, ratio: float = 0.0,
        noobject_scale: float = 1.0, threshold: float = 0.0, smoothing: float = 0.0, **kwargs: Any,
    ) -> None:  # fmt: skip
        self.cost_type = _cost_named(cost_type)
        self.scale, self.ratio, self.noobject_scale = scale, ratio, noobject_scale
        self.threshold, self.smoothing = threshold, smoothing
        self._loss = CostLoss(Cost(self.cost_type.name, scale, ratio, noobject_scale, threshold))
        super().__init__(input_shape, **kwargs)

    def expression(self, x):
        return 1.0 * x

    def loss(self, x, truth):
        if self.smoothing:
            truth = (1.0 - self.smoothing) * truth + self.smoothing / prod(self.input_shape[1:])
        truth = ops.where(ops.equal(truth, self.SECRET_NUM), ops.full_like(truth, SECRET), truth)
        return ops.sum(self._loss(x, truth)) / ops.cast(ops.size(x), x.dtype)


def _cost_named(given: Any) -> cost_type:
    names = [kind.name for kind in cost_type]
    if isinstance(given, str) and given in names:
        return cost_type[given]
    if isinstance(given, int) and 0 <= given < len(names):
        return cost_type(given)
    raise UnknownNameError(f"Cost_layer: unknown cost_type {given!r}. {nearest(str(given), names)}")


class Yolo_layer(Costing):
    """A head of three anchors per cell, with the cost that theirs prints and its gradient (theirs is always 0).

    Args:
        input_shape: (batch, w, h, 3 (5 + classes)).
        anchors: three pairs (w, h) in pixels of the network's input.
        max_grid: cells at most, (h, w).
        warmup_batches: so many batches first draw all boxes to the anchors.
        ignore_thresh: a box that overlaps some true box so much isn't called background.
        grid_scale, obj_scale, noobj_scale, xywh_scale, class_scale: factors of the cost and its parts.
    """

    def __init__(
        self, input_shape: Shape, anchors: Any, max_grid: tuple[int, int], warmup_batches: int, ignore_thresh: float,
        grid_scale: float, obj_scale: float, noobj_scale: float, xywh_scale: float, class_scale: float, **kwargs: Any,
    ) -> None:  # fmt: skip
        self.anchors = np.asarray(anchors, float).reshape(1, 1, 1, 3, 2)
        self.max_grid, self.warmup_batches, self.ignore_thresh = max_grid, warmup_batches, ignore_thresh
        self.grid_scale, self.obj_scale, self.noobj_scale = grid_scale, obj_scale, noobj_scale
        self.xywh_scale, self.class_scale = xywh_scale, class_scale
        self.batch_seen = 0
        super().__init__(input_shape, **kwargs)

    def expression(self, x):
        return 1.0 * x

    def forward(self, inpt, truth, net_shape, true_boxes):
        """Set `cost` (one number per image) and `delta`.

        Args:
            truth: (batch, w, h, 3, 5 + classes): centre in cells, log of the size over the anchor's, 1 where there is
                an object, classes.
            net_shape: (w, h) of the network's input.
            true_boxes: (batch, 1, 1, 1, boxes, 4): centre in cells, size in pixels.
        """
        BaseLayer.forward(self, inpt)
        x = self._last[1][0]
        self.batch_seen += 1
        warm = self.batch_seen <= self.warmup_batches
        arrays = [x, as_floats(truth), as_floats(net_shape), as_floats(true_boxes)]
        arrays = [a.astype(x.dtype) for a in arrays]
        key = f"{x.dtype.name} {warm}"
        if key not in self._costs:
            inputs = [ops.tensor(x.dtype.name, (None,) * a.ndim) for a in arrays]
            cost = self.per_image(*inputs, warm)
            self._costs[key] = function(inputs, [cost, grad(ops.sum(cost), inputs[0])], name="yolo")
        self.cost, self.delta = self._costs[key](*arrays)
        self._of_cost = True
        return self

    def per_image(self, x: Variable, truth: Variable, net: Variable, true_boxes: Variable, warm: bool) -> Variable:
        """The cost of each image; which anchors answer for what is decided, and not differentiated."""
        batch, w, h = (ops.length(x, i) for i in range(3))
        x = ops.reshape(x, (batch, w, h, 3, -1))
        grid = ops.cast(ops.stack([w, h]), x.dtype)
        anchors = ops.asarray(self.anchors, x.dtype)
        places = (ops.reshape(ops.arange(w), (1, -1, 1, 1)), ops.reshape(ops.arange(h), (1, 1, -1, 1)))
        cells = ops.cast(ops.stack(ops.broadcast_arrays(*places), axis=4), x.dtype)
        xy, wh, confidence = cells + ops.sigmoid(x[..., :2]), x[..., 2:4], ops.sigmoid(x[..., 4:5])
        true_xy, true_wh, there = truth[..., :2], truth[..., 2:4], truth[..., 4:5]

        found = tuple(ops.expand_dims(v, 4) for v in (xy / grid, ops.exp(wh) * anchors / net))
        overlap = _iou(found, (true_boxes[..., :2] / grid, true_boxes[..., 2:4] / net))
        background = ops.cast(ops.max(overlap, axis=4) < self.ignore_thresh, x.dtype)
        background = confidence * ops.expand_dims(background, 4)

        size = ops.exp(true_wh) * anchors / net
        small = 2.0 - ops.expand_dims(size[..., 0] * size[..., 1], 4)
        drawn = ops.ones_like(there) if warm else there
        target = true_xy + (cells + 0.5) * (1.0 - there) if warm else true_xy
        off_xy = drawn * (xy - target) * small * self.xywh_scale
        off_wh = drawn * (wh - true_wh) * small * self.xywh_scale
        off_confidence = there * (confidence - there) * self.obj_scale + (1.0 - there) * background * self.noobj_scale
        of_class = ops.softmax_cross_entropy(x[..., 5:], ops.argmax(truth[..., 5:], axis=-1))
        squares = sum(ops.sum(ops.square(v), axis=(1, 2, 3, 4)) for v in (off_xy, off_wh, off_confidence))
        return self.grid_scale * (squares + self.class_scale * ops.sum(there[..., 0] * of_class, axis=(1, 2, 3)))


def _iou(a: tuple[Variable, Variable], b: tuple[Variable, Variable]) -> Variable:
    """Intersection over union of boxes (centre, size)."""
    (ca, sa), (cb, sb) = a, b
    sides = ops.maximum(ops.minimum(ca + sa / 2.0, cb + sb / 2.0) - ops.maximum(ca - sa / 2.0, cb - sb / 2.0), 0.0)
    common = sides[..., 0] * sides[..., 1]
    return common / (sa[..., 0] * sa[..., 1] + sb[..., 0] * sb[..., 1] - common)
