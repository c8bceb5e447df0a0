"""Softmax, log-softmax, softmax over a mask, and cross-entropy by labels: stable forms with gradients of their own."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DTypeError, IndexRangeError, ShapeError
from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import equal, multiply, not_equal, subtract, where
from .dtypes import as_tensor, float_dtype
from .elementwise import broadcast_static, cast, strong_mul, zeros_like
from .reduce import sum as total
from .shape import expand_dims, normalize_axis
from .transcendental import exp

__all__ = ["Softmax", "log_softmax", "masked_softmax", "nll", "select_label", "softmax", "softmax_cross_entropy"]


def as_float(x: Any) -> Variable:
    """`x` as a float tensor: integers and booleans become config.floatX."""
    x = as_tensor(x)
    return cast(x, float_dtype(x.dtype))


def widened(x: np.ndarray) -> np.ndarray:
    """float16 as float32, in which it is computed with; anything else as it is."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def strong(g: np.ndarray, d: np.ndarray) -> np.ndarray:
    """g * d, and zero wherever g is zero (law 3), on arrays."""
    return np.where(g == 0, np.zeros((), g.dtype), g * d)


class RowOp(Op):
    """Base of ops whose one output has the type and the shape of their first input, computed along `axis`."""

    def make_node(self, *inputs: Any) -> Apply:
        variables = [as_variable(x) for x in inputs]
        return Apply(self, variables, [variables[0].type])

    def perform(self, *inputs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return self.compute(*map(widened, inputs)).astype(inputs[0].dtype, copy=False)

    def compute(self, *inputs: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


# --- softmax ----------------------------------------------------------------------------------------------------------


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis, keepdims=True)


@dataclass(frozen=True)
class Softmax(RowOp):
    """exp(x) / sum(exp(x)) along `axis`."""

    axis: int

    formula = "y (g - sum(g y))"

    def compute(self, x):
        return _softmax(x, self.axis)

    def L_op(self, inputs, outputs, output_grads):
        return [SoftmaxGrad(self.axis)(output_grads[0], outputs[0])]


@dataclass(frozen=True)
class SoftmaxGrad(RowOp):
    """y (g - sum(g y)): the cotangent g pulled back through a softmax whose output is y."""

    axis: int

    def compute(self, g, y):
        return strong(g - strong(g, y).sum(self.axis, keepdims=True), y)

    def grad(self, inputs, output_grads):
        (g, y), G = inputs, output_grads[0]
        s, t = (total(strong_mul(u, y), axis=self.axis, keepdims=True) for u in (g, G))
        # z_i = y_i (g_i - s): symmetric in g and its own cotangent, and linear in y but for s
        return [SoftmaxGrad(self.axis)(G, y), subtract(strong_mul(G, subtract(g, s)), strong_mul(t, g))]


def softmax(x: Any, axis: int = -1) -> Variable:
    """exp(x) / sum(exp(x)) along `axis`, without overflow.

    Gradient: y (g - sum(g y)). A logit of -inf has probability 0 and gets no gradient; a row of nothing else is NaN
    (`masked_softmax` gives zeros there).
    """
    x = as_float(x)
    return Softmax(normalize_axis(axis, x.ndim, "softmax"))(x)


@dataclass(frozen=True)
class MaskedSoftmax(Op):
    """Softmax over the entries where a mask is true; zeros elsewhere, and in rows without any."""

    axis: int
    formula = "(y (g - sum(g y)), disconnected)"
    broadcasts = True

    def make_node(self, x: Any, mask: Any) -> Apply:
        x, mask = as_variable(x), as_variable(mask)
        return Apply(self, [x, mask], [TensorType(x.dtype, broadcast_static("masked_softmax", [x, mask]))])

    def perform(self, x, mask):
        kept = np.where(mask, widened(x), -np.inf)
        highest = kept.max(self.axis, keepdims=True, initial=-np.inf)
        with np.errstate(all="ignore"):
            e = np.exp(kept - np.where(highest == -np.inf, 0, highest))
            s = e.sum(self.axis, keepdims=True)
            return (e / np.where(s == 0, 1, s)).astype(x.dtype, copy=False)

    def L_op(self, inputs, outputs, output_grads):
        g = output_grads[0]
        reaching = where(inputs[1], g, zeros_like(g))
        return [SoftmaxGrad(self.axis)(reaching, outputs[0]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        try:
            return [np.broadcast_shapes(*shapes)]
        except ValueError:
            raise ShapeError(f"masked_softmax: mask {shapes[1]} doesn't broadcast against {shapes[0]}") from None


def masked_softmax(x: Any, mask: Any, axis: int = -1) -> Variable:
    """Softmax along `axis` over the entries where `mask` is true, 0 elsewhere. `x` and `mask` broadcast.

    A row in which nothing is true is all zeros, with zero gradient. What `x` holds where the mask is false (NaN and
    infinity included) has no effect.
    """
    x, mask = as_float(x), as_tensor(mask)
    if mask.dtype != "bool":
        mask = not_equal(mask, 0)
    ndim = max(x.ndim, mask.ndim)
    axis = normalize_axis(axis, ndim, "masked_softmax")
    if x.ndim < ndim:
        x = expand_dims(x, tuple(range(ndim - x.ndim)))
    return MaskedSoftmax(axis)(x, mask)


# --- log-softmax ------------------------------------------------------------------------------------------------------


def _log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


@dataclass(frozen=True)
class LogSoftmax(RowOp):
    """x - log(sum(exp(x))) along `axis`."""

    axis: int

    formula = "g - softmax(x) sum(g)"

    def compute(self, x):
        return _log_softmax(x, self.axis)

    def L_op(self, inputs, outputs, output_grads):
        return [LogSoftmaxGrad(self.axis)(output_grads[0], outputs[0])]


@dataclass(frozen=True)
class LogSoftmaxGrad(RowOp):
    """g - exp(y) sum(g): the cotangent g pulled back through a log-softmax whose output is y."""

    axis: int

    def compute(self, g, y):
        return g - strong(g.sum(self.axis, keepdims=True), np.exp(y))

    def grad(self, inputs, output_grads):
        (g, y), G = inputs, output_grads[0]
        p = exp(y)
        s = total(g, axis=self.axis, keepdims=True)
        back = total(strong_mul(G, p), axis=self.axis, keepdims=True)
        return [subtract(G, back), multiply(strong_mul(G, p), -s)]


def log_softmax(x: Any, axis: int = -1) -> Variable:
    """The logarithm of the softmax along `axis`, exact also where the softmax underflows.

    Gradient: g - softmax(x) sum(g).
    """
    x = as_float(x)
    return LogSoftmax(normalize_axis(axis, x.ndim, "log_softmax"))(x)


# --- labels -----------------------------------------------------------------------------------------------------------


def check_labels(labels: np.ndarray, classes: int, ignore_index: int | None, what: str) -> np.ndarray:
    """Where labels count, as booleans; a label that is no class and isn't ignored is named and refused."""
    counted = np.ones(labels.shape, bool) if ignore_index is None else labels != ignore_index
    wrong = counted & ((labels < 0) | (labels >= classes))
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        row = place[0] if len(place) == 1 else place
        ignored = "" if ignore_index is None else f"; {ignore_index} would be ignored"
        raise IndexRangeError(
            f"{what}: the label {labels[place]} of row {row} is no class: there are {classes}, numbered 0 to "
            f"{classes - 1}{ignored}"
        )
    return counted


class LabelOp(Op):
    """Base of ops that look one entry up along `axis` by an integer label; `ignore_index` marks rows that don't count.

    Inputs: x, and labels of the shape of x without `axis`.
    """

    axis: int
    ignore_index: int | None

    def check(self, name: str, x: Variable, labels: Variable) -> None:
        if not labels.dtype.startswith(("int", "uint")):
            raise DTypeError(f"{name}: labels must be integers, got {labels.type}")
        expected = rowless(x.type.shape, self.axis)
        if labels.ndim != len(expected) or any(
            None not in (n, m) and n != m for n, m in zip(labels.type.shape, expected)
        ):
            raise ShapeError(
                f"{name}: for {x.type} with classes on axis {self.axis}, labels must have shape {expected}, "
                f"got {labels.type}".replace("None", "?")
            )

    def index(self, x: np.ndarray, labels: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(labels safe to index with, where they count), both with `axis` put back."""
        if labels.shape != rowless(x.shape, self.axis):
            raise ShapeError(
                f"{name}: values have shape {x.shape} with classes on axis {self.axis}, but labels {labels.shape}"
            )
        counted = check_labels(labels, x.shape[self.axis], self.ignore_index, name)
        safe = np.where(counted, labels, 0).astype(np.int64, copy=False)
        return np.expand_dims(safe, self.axis), np.expand_dims(counted, self.axis)

    def only_counted(self, v: Variable, labels: Variable) -> Variable:
        """`v` (one entry a row) with zeros in the rows that don't count."""
        return v if self.ignore_index is None else where(equal(labels, self.ignore_index), zeros_like(v), v)


def rowless(shape: tuple, axis: int) -> tuple:
    return shape[:axis] + shape[axis + 1 :]


@dataclass(frozen=True)
class SelectLabel(LabelOp):
    """x at the label of each row; 0 in rows that don't count."""

    axis: int
    ignore_index: int | None = None

    formula = "(g at the label, disconnected)"

    def make_node(self, x: Any, labels: Any) -> Apply:
        x, labels = as_variable(x), as_variable(labels)
        self.check("select_label", x, labels)
        return Apply(self, [x, labels], [TensorType(x.dtype, rowless(x.type.shape, self.axis))])

    def perform(self, x, labels):
        if x.shape[self.axis] == 0:
            check_labels(labels, 0, self.ignore_index, "select_label")
            return np.zeros(labels.shape, x.dtype)
        at, counted = self.index(x, labels, "select_label")
        picked = np.take_along_axis(x, at, self.axis)
        return np.where(counted, picked, np.zeros((), x.dtype)).squeeze(self.axis)

    def grad(self, inputs, output_grads):
        return [PlaceLabel(self.axis, self.ignore_index)(output_grads[0], inputs[1], inputs[0]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        return [rowless(shapes[0], self.axis)]


@dataclass(frozen=True)
class PlaceLabel(LabelOp):
    """g put at the label of each row of zeros of the shape of `like`: the adjoint of SelectLabel."""

    axis: int
    ignore_index: int | None = None
    shape_only_inputs = (2,)

    def make_node(self, g: Any, labels: Any, like: Any) -> Apply:
        g, labels, like = as_variable(g), as_variable(labels), as_variable(like)
        return Apply(self, [g, labels, like], [TensorType(g.dtype, like.type.shape)])

    def perform(self, g, labels, like):
        out = np.zeros(like.shape, g.dtype)
        if out.size:
            at, counted = self.index(out, labels, "select_label")
            np.put_along_axis(out, at, np.where(counted, np.expand_dims(g, self.axis), 0), self.axis)
        return out

    def grad(self, inputs, output_grads):
        none = DisconnectedType()()
        return [SelectLabel(self.axis, self.ignore_index)(output_grads[0], inputs[1]), none, none]

    def connection_pattern(self, node):
        return [[True], [False], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[2]]


def select_label(x: Any, labels: Any, axis: int = -1, ignore_index: int | None = None) -> Variable:
    """x at the integer label of each row: `x[i, labels[i]]`, for rows along any `axis`.

    Args:
        x: any float tensor.
        labels: integers, of the shape of x without `axis`. Negative labels do not count from the end.
        ignore_index: a label that marks rows which give 0 and get no gradient.

    Raises:
        IndexRangeError: at run time, where a label is no class; the message names it.
    """
    x, labels = as_float(x), as_tensor(labels)
    return SelectLabel(normalize_axis(axis, x.ndim, "select_label"), ignore_index)(x, labels)


# --- softmax and cross-entropy in one ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SoftmaxCrossEntropy(LabelOp):
    """log(sum(exp(x))) - x[label], one number a row."""

    axis: int
    ignore_index: int | None = None

    formula = "g (softmax(x) - onehot(label))"

    def make_node(self, x: Any, labels: Any) -> Apply:
        x, labels = as_variable(x), as_variable(labels)
        self.check("cross_entropy", x, labels)
        return Apply(self, [x, labels], [TensorType(x.dtype, rowless(x.type.shape, self.axis))])

    def perform(self, x, labels):
        if x.shape[self.axis] == 0:
            check_labels(labels, 0, self.ignore_index, "cross_entropy")
            return np.zeros(labels.shape, x.dtype)
        at, counted = self.index(x, labels, "cross_entropy")
        with np.errstate(all="ignore"):
            shifted = widened(x) - widened(x.max(self.axis, keepdims=True))
            picked = np.take_along_axis(shifted, at, self.axis)
            loss = np.log(np.exp(shifted).sum(self.axis, keepdims=True)) - picked
        return np.where(counted, loss, 0).squeeze(self.axis).astype(x.dtype, copy=False)

    def grad(self, inputs, output_grads):
        x, labels = inputs
        return [SoftmaxCrossEntropyGrad(self.axis, self.ignore_index)(output_grads[0], x, labels), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        return [rowless(shapes[0], self.axis)]


@dataclass(frozen=True)
class SoftmaxCrossEntropyGrad(LabelOp):
    """g (softmax(x) - onehot(label)): the cotangent of each row's loss pulled back to the logits."""

    axis: int
    ignore_index: int | None = None

    def make_node(self, g: Any, x: Any, labels: Any) -> Apply:
        g, x, labels = as_variable(g), as_variable(x), as_variable(labels)
        return Apply(self, [g, x, labels], [x.type])

    def perform(self, g, x, labels):
        if x.size == 0:
            return np.zeros(x.shape, x.dtype)
        at, counted = self.index(x, labels, "cross_entropy")
        with np.errstate(all="ignore"):
            d = _softmax(widened(x), self.axis)
            np.put_along_axis(d, at, np.take_along_axis(d, at, self.axis) - 1, self.axis)
            upstream = np.where(counted, np.expand_dims(widened(g), self.axis), 0)
            return strong(upstream, d).astype(x.dtype, copy=False)

    def grad(self, inputs, output_grads):
        (g, x, labels), G = inputs, output_grads[0]
        p = softmax(x, self.axis)
        direction = self.only_counted(total(strong_mul(G, p), axis=self.axis), labels)
        picked = SelectLabel(self.axis, self.ignore_index)(G, labels)
        upstream = expand_dims(self.only_counted(g, labels), self.axis)
        return [
            subtract(direction, picked),
            strong_mul(upstream, SoftmaxGrad(self.axis)(G, p)),
            DisconnectedType()(),
        ]

    def connection_pattern(self, node):
        return [[True], [True], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[1]]


def softmax_cross_entropy(logits: Any, target: Any, axis: int = -1, ignore_index: int | None = None) -> Variable:
    """The cross-entropy of the softmax of `logits` with `target`, one number a row (shape of logits without `axis`).

    Args:
        logits: any real numbers; classes lie along `axis`.
        target: integer labels (the shape of logits without `axis`), or probabilities (the shape of logits).
        ignore_index: a label that marks rows which give 0 and get no gradient; not used with probabilities.

    Gradient to the logits: softmax(x) sum(t) - t. Probabilities get -log_softmax(x); integer labels are disconnected.

    Raises:
        IndexRangeError: at run time, where a label is no class; the message names the label and its row.
    """
    logits, target = as_float(logits), as_tensor(target)
    axis = normalize_axis(axis, logits.ndim, "softmax_cross_entropy")
    if target.ndim == logits.ndim:
        probabilities = cast(target, logits.dtype)
        return -total(strong_mul(probabilities, LogSoftmax(axis)(logits)), axis=axis)
    return SoftmaxCrossEntropy(axis, ignore_index)(logits, target)


def nll(log_probabilities: Any, target: Any, axis: int = -1, ignore_index: int | None = None) -> Variable:
    """-log_probabilities at the label of each row: the cross-entropy where log-probabilities are given."""
    return -select_label(log_probabilities, target, axis, ignore_index)
