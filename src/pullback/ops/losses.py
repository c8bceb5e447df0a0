"""Losses: what networks are trained to lower, each stable and differentiable in all its float inputs.

`reduction` says what becomes of one loss per entry: "none" keeps them, "sum" adds them, "mean" takes the mean over all,
and "batchmean" adds and divides by the length of the first axis: the mean over the batch of each sample's sum.
"""

from dataclasses import dataclass
from math import log as ln
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable
from .activation import relu, sigmoid, softplus
from .arithmetic import (
    abs,
    add,
    divide,
    equal,
    greater_equal,
    less,
    less_equal,
    logical_and,
    maximum,
    multiply,
    not_equal,
    power,
    sqrt,
    square,
    subtract,
    where,
)
from .creation import arange
from .dtypes import as_tensor, as_tensors, float_dtype, result_dtype
from .elementwise import broadcast_like, cast, define, full_like, ones_like, strong_mul, zeros_like
from .norm import l2_normalize
from .reduce import mean as average
from .reduce import sum as total
from .shape import expand_dims, length, normalize_axis
from .softmax import (
    SelectLabel,
    Softmax,
    SoftmaxCrossEntropy,
    as_float,
    log_softmax,
    softmax_cross_entropy,
)
from .transcendental import exp, log, log1p, tanh, xlogy

__all__ = [
    "auc", "bce_with_logits", "binary_cross_entropy", "cosine_distance", "cosine_similarity", "cross_entropy",
    "crossentropy_categorical_1hot", "focal", "gaussian_nll", "hellinger", "hinge", "huber", "kl_divergence",
    "log_cosh", "log_cosh_loss", "mae", "masked_loss", "mse", "poisson_nll", "smooth_l1", "squared_hinge",
]  # fmt: skip

REDUCTIONS = ("none", "sum", "mean", "batchmean")
OUTSIDE = int(np.iinfo(np.int64).min)  # a label that marks steps outside the window


def reduced(loss: Variable, reduction: str, what: str) -> Variable:
    """Losses per entry, reduced as the user asked."""
    if reduction not in REDUCTIONS:
        raise ArgumentError(f"{what}: reduction={reduction!r}; expected one of {REDUCTIONS}")
    if reduction == "none" or loss.ndim == 0:
        return loss
    if reduction == "mean":
        return average(loss)
    return total(loss) if reduction == "sum" else divide(total(loss), length(loss, 0))


def paired(input: Any, target: Any, what: str) -> tuple[Variable, Variable]:
    """Prediction and target as float tensors of one dtype and one rank: a stray axis would broadcast silently."""
    tensors = as_tensors([input, target])
    dtype = float_dtype(result_dtype(tensors))
    input, target = (cast(v, dtype) for v in tensors)
    same = all(n == m or None in (n, m) for n, m in zip(input.type.shape, target.type.shape))
    if input.ndim != target.ndim or not same:
        raise ShapeError(f"{what}: the prediction is {input.type}, but the target {target.type}; reshape one of them")
    return input, target


def logits_of(p: Variable, axis: int) -> Variable | None:
    """What `p` is the softmax of along `axis`; None if it is no softmax."""
    return p.owner.inputs[0] if p.owner is not None and p.owner.op == Softmax(axis) else None


# --- classes ----------------------------------------------------------------------------------------------------------


def cross_entropy(
    logits: Any, target: Any, ignore_index: int | None = -100, reduction: str = "mean", weight: Any = None,
    label_smoothing: float = 0.0, axis: int | None = None,
) -> Variable:  # fmt: skip
    """Cross-entropy of the softmax of `logits` with `target`, stable for any logits.

    Args:
        logits: (N, C), or (N, C, ...); classes lie along `axis`.
        target: integer labels of the shape of logits without `axis`, or probabilities of the shape of logits.
        ignore_index: a label that marks rows which don't count; a mean over none is 0. Not used with probabilities.
        reduction: "mean" divides by the number of rows that count, or by the sum of their labels' weights.
        weight: a vector with the weight of each class.
        label_smoothing: the part of each target that is spread evenly over all classes.
        axis: 1, or 0 for a vector of logits.

    Raises:
        IndexRangeError: at run time, where a label is no class and isn't ignored; the message names label and row.
    """
    logits, target = as_float(logits), as_tensor(target)
    axis = normalize_axis(min(1, logits.ndim - 1) if axis is None else axis, logits.ndim, "cross_entropy")
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"cross_entropy: label_smoothing={label_smoothing}; expected 0 to 1")
    weights = None if weight is None else _class_weights(weight, logits, axis)
    if target.ndim == logits.ndim:
        return _cross_entropy_soft(logits, target, reduction, weights, label_smoothing, axis)
    loss = SoftmaxCrossEntropy(axis, ignore_index)(logits, target)
    counted = None if ignore_index is None else not_equal(target, ignore_index)
    row_weight = None if weights is None else SelectLabel(axis, ignore_index)(weights, target)
    if row_weight is not None:
        loss = multiply(loss, row_weight)
    if label_smoothing:
        even = _spread(logits, weights, axis)
        even = even if counted is None else where(counted, even, zeros_like(even))
        loss = add(multiply(loss, 1 - label_smoothing), multiply(even, label_smoothing))
    if reduction != "mean" or (row_weight is None and counted is None):
        return reduced(loss, reduction, "cross_entropy")
    amount = total(row_weight) if row_weight is not None else cast(total(cast(counted, "int64")), loss.dtype)
    return divide(total(loss), where(equal(amount, 0), ones_like(amount), amount))


def _class_weights(weight: Any, logits: Variable, axis: int) -> Variable:
    weight = cast(as_tensor(weight), logits.dtype)
    if weight.ndim != 1:
        raise ShapeError(f"cross_entropy: weight must be a vector with one entry a class, got {weight.type}")
    return broadcast_like(expand_dims(weight, tuple(a for a in range(logits.ndim) if a != axis)), logits)


def _spread(logits: Variable, weights: Variable | None, axis: int) -> Variable:
    """The (weighted) mean over all classes of -log p."""
    terms = log_softmax(logits, axis)
    return -average(terms if weights is None else multiply(weights, terms), axis=axis)


def _cross_entropy_soft(
    logits: Variable, target: Variable, reduction: str, weights: Variable | None, label_smoothing: float, axis: int
) -> Variable:
    target = cast(target, logits.dtype)
    if weights is not None:
        target = multiply(target, weights)
    loss = softmax_cross_entropy(logits, target, axis)
    if label_smoothing:
        even = _spread(logits, weights, axis)
        loss = add(multiply(loss, 1 - label_smoothing), multiply(even, label_smoothing))
    return reduced(loss, reduction, "cross_entropy")


def crossentropy_categorical_1hot(coding_dist: Any, true_one_of_n: Any, axis: int = -1) -> Variable:
    """-log p at the label of each row of probabilities, one number a row.

    Args:
        coding_dist: probabilities along `axis`. Where they are the output of `softmax`, loss and softmax are computed
            in one, which is exact also for logits at which the softmax saturates.
        true_one_of_n: integer labels, or probabilities of the shape of `coding_dist`.

    Gradient: -g / p at the label and 0 elsewhere; labels are disconnected, probabilities t get -g log p.
    """
    p, target = as_float(coding_dist), as_tensor(true_one_of_n)
    axis = normalize_axis(axis, p.ndim, "crossentropy_categorical_1hot")
    logits = logits_of(p, axis)
    if logits is not None:
        return softmax_cross_entropy(logits, target, axis)
    if target.ndim == p.ndim:
        return -total(strong_mul(cast(target, p.dtype), log(p)), axis=axis)
    return -log(SelectLabel(axis)(p, target))


def masked_loss(softmaxes: Any, targets: Any, lengths: Any, starts: Any) -> Variable:
    """The log loss of each sequence over its window of steps: -sum of log p[i, t, targets[i, t]], t from starts[i] on.

    Args:
        softmaxes: probabilities, (batch, time, classes); where they are the output of `softmax`, its logits are used.
        targets: integer labels, (batch, time); outside the window anything.
        lengths, starts: integers, (batch,): window i is starts[i] <= t < starts[i] + lengths[i].

    Returns:
        (batch,). Gradient: -g / p at the targets inside the window; all integers are disconnected.
    """
    p = as_float(softmaxes)
    targets, lengths, starts = (cast(as_tensor(v), "int64") for v in (targets, lengths, starts))
    if (p.ndim, targets.ndim, lengths.ndim, starts.ndim) != (3, 2, 1, 1):
        raise ShapeError(
            "masked_loss: expected (batch, time, classes), (batch, time), (batch,) and (batch,), got "
            + ", ".join(str(v.type) for v in (p, targets, lengths, starts))
        )
    step = arange(length(p, 1))
    first = expand_dims(starts, 1)
    inside = logical_and(greater_equal(step, first), less(step, add(first, expand_dims(lengths, 1))))
    labels = where(inside, targets, full_like(targets, OUTSIDE))
    logits = logits_of(p, 2)
    if logits is not None:
        return total(SoftmaxCrossEntropy(2, OUTSIDE)(logits, labels), axis=1)
    picked = SelectLabel(2, OUTSIDE)(p, labels)
    return -total(log(where(inside, picked, ones_like(picked))), axis=1)


def binary_cross_entropy(p: Any, target: Any, reduction: str = "batchmean") -> Variable:
    """-t log p - (1 - t) log(1 - p) for probabilities p; infinite where p rules out what happened.

    Where `p` is the output of `sigmoid`, both are computed in one, as `bce_with_logits` does.
    """
    p, t = paired(p, target, "binary_cross_entropy")
    if p.owner is not None and p.owner.op == sigmoid:
        return bce_with_logits(p.owner.inputs[0], t, reduction)
    loss = -add(strong_mul(t, log(p)), strong_mul(subtract(1, t), log1p(-p)))
    return reduced(loss, reduction, "binary_cross_entropy")


def bce_with_logits(x: Any, t: Any, reduction: str = "none", pos_weight: Any = 1.0) -> Variable:
    """-w t log s(x) - (1 - t) log(1 - s(x)) with s the logistic function and w = `pos_weight`, stable for any x."""
    x, t = paired(x, t, "bce_with_logits")
    positive = strong_mul(t, softplus(-x))
    if not (isinstance(pos_weight, (int, float)) and pos_weight == 1):
        positive = multiply(positive, pos_weight)
    return reduced(add(positive, strong_mul(subtract(1, t), softplus(x))), reduction, "bce_with_logits")


def focal(x: Any, t: Any, gamma: float = 2.0, alpha: float | None = 0.25, reduction: str = "batchmean") -> Variable:
    """Binary cross-entropy of logits, scaled by (1 - p_t)^gamma where p_t is the probability of what happened.

    `alpha` weighs what is positive and 1 - alpha what is negative; None for neither. (Lin et al. 2017)
    """
    x, t = paired(x, t, "focal")
    missed = add(multiply(t, sigmoid(-x)), multiply(subtract(1, t), sigmoid(x)))
    loss = multiply(power(missed, float(gamma)), bce_with_logits(x, t))
    if alpha is not None:
        loss = multiply(loss, add(multiply(t, alpha), multiply(subtract(1, t), 1 - alpha)))
    return reduced(loss, reduction, "focal")


def hinge(score: Any, target: Any, reduction: str = "batchmean") -> Variable:
    """max(0, 1 - t s) for targets t of -1 or 1; the derivative at the corner is 0."""
    s, t = paired(score, target, "hinge")
    return reduced(relu(subtract(1, multiply(t, s))), reduction, "hinge")


def squared_hinge(score: Any, target: Any, reduction: str = "batchmean") -> Variable:
    """max(0, 1 - t s)^2 for targets t of -1 or 1."""
    s, t = paired(score, target, "squared_hinge")
    return reduced(square(relu(subtract(1, multiply(t, s)))), reduction, "squared_hinge")


# --- numbers ----------------------------------------------------------------------------------------------------------


def mse(input: Any, target: Any, reduction: str = "batchmean") -> Variable:
    """(x - t)^2."""
    x, t = paired(input, target, "mse")
    return reduced(square(subtract(x, t)), reduction, "mse")


def mae(input: Any, target: Any, reduction: str = "batchmean") -> Variable:
    """|x - t|; the derivative at 0 is 0."""
    x, t = paired(input, target, "mae")
    return reduced(abs(subtract(x, t)), reduction, "mae")


def huber(input: Any, target: Any, delta: float = 1.0, reduction: str = "batchmean") -> Variable:
    """e^2 / 2 for an error e within `delta`, else delta (|e| - delta / 2). (Huber 1964)"""
    x, t = paired(input, target, "huber")
    if not delta > 0:
        raise ArgumentError(f"huber: delta={delta}; expected more than 0")
    e = subtract(x, t)
    size = abs(e)
    loss = where(less_equal(size, delta), 0.5 * square(e), delta * (size - 0.5 * delta))
    return reduced(loss, reduction, "huber")


def smooth_l1(input: Any, target: Any, beta: float = 1.0, reduction: str = "batchmean") -> Variable:
    """e^2 / (2 beta) for an error e within `beta`, else |e| - beta / 2: huber / delta. beta = 0 is `mae`."""
    if not beta >= 0:
        raise ArgumentError(f"smooth_l1: beta={beta}; expected at least 0")
    if beta == 0:
        return mae(input, target, reduction)
    return huber(input, target, beta, reduction) / beta


log_cosh = define(
    "log_cosh",
    lambda x: np.where(
        np.abs(x) > 1,
        np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - x.dtype.type(ln(2)),
        np.log1p(2 * np.square(np.sinh(0.5 * np.clip(x, -1, 1)))),
    ),
    f"abs(x) + log1p(exp(-2.0 * abs(x))) - {ln(2)!r} if abs(x) > 1.0 "
    "else log1p(0.5 * expm1(abs(x)) * expm1(abs(x)) * exp(-abs(x)))",
    lambda g, out, x: [strong_mul(g, tanh(x))],
    "log(cosh(x)), exact near 0 and without overflow.",
    formula="g tanh(x)",
    domain=((-3.0, 3.0),),
)


def log_cosh_loss(input: Any, target: Any, reduction: str = "batchmean") -> Variable:
    """log(cosh(x - t)): like e^2 / 2 near 0, like |e| far away."""
    x, t = paired(input, target, "log_cosh_loss")
    return reduced(log_cosh(subtract(x, t)), reduction, "log_cosh_loss")


def poisson_nll(input: Any, target: Any, log_input: bool = True, reduction: str = "batchmean") -> Variable:
    """The negative log likelihood of counts t, without log(t!): exp(x) - t x, or x - t log x if not `log_input`."""
    x, t = paired(input, target, "poisson_nll")
    loss = subtract(exp(x), multiply(t, x)) if log_input else subtract(x, xlogy(t, x))
    return reduced(loss, reduction, "poisson_nll")


def gaussian_nll(input: Any, target: Any, var: Any, eps: float = 1e-6, reduction: str = "batchmean") -> Variable:
    """(log v + (x - t)^2 / v) / 2 with v = max(var, eps): the negative log likelihood of t without log(2 pi) / 2."""
    x, t = paired(input, target, "gaussian_nll")
    v = maximum(cast(as_tensor(var), x.dtype), eps)
    return reduced(0.5 * add(log(v), divide(square(subtract(x, t)), v)), reduction, "gaussian_nll")


# --- distributions and directions -------------------------------------------------------------------------------------


def kl_divergence(log_input: Any, target: Any, log_target: bool = False, reduction: str = "batchmean") -> Variable:
    """t (log t - x) for log-probabilities x: the Kullback-Leibler divergence of the input's from the target's.

    With `log_target` the target is given as log t too.
    """
    x, t = paired(log_input, target, "kl_divergence")
    loss = strong_mul(exp(t), subtract(t, x)) if log_target else subtract(xlogy(t, t), strong_mul(t, x))
    return reduced(loss, reduction, "kl_divergence")


def hellinger(input: Any, target: Any, reduction: str = "batchmean") -> Variable:
    """(sqrt p - sqrt t)^2 / 2: summed over a distribution, the squared Hellinger distance."""
    p, t = paired(input, target, "hellinger")
    return reduced(0.5 * square(subtract(sqrt(p), sqrt(t))), reduction, "hellinger")


def cosine_similarity(a: Any, b: Any, axis: int = -1, eps: float = 1e-8) -> Variable:
    """a . b / (max(|a|, eps) max(|b|, eps)) along `axis`; vectors of zeros give 0."""
    a, b = as_tensors([a, b])
    return total(multiply(l2_normalize(a, axis, eps), l2_normalize(b, axis, eps)), axis=axis)


def cosine_distance(input: Any, target: Any, axis: int = -1, eps: float = 1e-8, reduction: str = "mean") -> Variable:
    """1 - the cosine of the angle between prediction and target along `axis`."""
    x, t = paired(input, target, "cosine_distance")
    return reduced(subtract(1, cosine_similarity(x, t, axis, eps)), reduction, "cosine_distance")


# --- area under the curve ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AUC(Op):
    """The share of (positive, negative) pairs whose scores are in order; ties count half. Locally constant."""

    formula = "0: locally constant"

    def make_node(self, targets: Any, scores: Any) -> Apply:
        targets, scores = as_variable(targets), as_variable(scores)
        return Apply(self, [targets, scores], [TensorType(scores.dtype)])

    def perform(self, targets, scores):
        if targets.shape != scores.shape:
            raise ShapeError(f"auc: {targets.shape} targets, but {scores.shape} scores")
        positive = np.sort(scores[targets != 0])
        negative = np.sort(scores[targets == 0])
        pairs = positive.size * negative.size
        if not pairs:
            raise ArgumentError("auc needs targets of both kinds: there are no pairs to compare")
        below = np.searchsorted(negative, positive, "left").sum()
        up_to = np.searchsorted(negative, positive, "right").sum()
        return np.asarray((int(below) + int(up_to)) / (2 * pairs), scores.dtype)

    def grad(self, inputs, output_grads):
        return [DisconnectedType()(), zeros_like(inputs[1])]

    def connection_pattern(self, node):
        return [[False], [True]]

    def infer_shape(self, node, shapes, values):
        return [()]


def auc(targets: Any, scores: Any) -> Variable:
    """The area under the receiver operating characteristic: how likely a positive scores above a negative (ties half).

    Args:
        targets: a vector of classes, 0 or other.
        scores: a vector, higher for what is thought positive.

    It depends on the order of the scores only, so it is locally constant: its gradient is zero wherever it exists.
    Train with a cross-entropy or a pairwise loss instead.
    """
    targets, scores = as_tensor(targets), as_float(scores)
    if targets.ndim != 1 or scores.ndim != 1:
        raise ShapeError(f"auc takes vectors, got {targets.type} and {scores.type}")
    return AUC()(targets, scores)
