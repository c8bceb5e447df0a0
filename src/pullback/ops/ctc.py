"""Connectionist temporal classification (Graves et al. 2006): the loss, its gradient and its curvature, in log space.

A label sequence l is read with blanks between: states 0 to 2 |l|. alpha_t(s) sums over the paths that reach state s at
step t, beta_t(s) over those that go on from there to the end; log p = log sum over s of alpha_t(s) beta_t(s), at any t.
The occupancy q_t(c) = d log p / d log y_t(c) is the probability that a path passes class c at step t.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import IndexRangeError, ShapeError
from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable, grad_not_implemented
from .arithmetic import equal, where
from .dtypes import as_tensor
from .elementwise import cast, strong_mul, zeros_like
from .losses import reduced
from .shape import expand_dims
from .softmax import as_float

__all__ = ["ctc_loss"]


class Lattice:
    """States and transitions of a batch of label sequences, and the sums over its paths.

    Axes are (step, sample, state). Tangents are derivatives along a direction in log y; they are 0 where unreachable.
    """

    def __init__(
        self, log_y: np.ndarray, labels: np.ndarray, steps: np.ndarray, lengths: np.ndarray, blank: int
    ) -> None:
        check(log_y.shape, labels, steps, lengths, blank)
        self.T, self.N, self.C = log_y.shape
        self.steps, self.lengths = steps, lengths
        inside = np.arange(labels.shape[1]) < lengths[:, None]
        self.states = np.full((self.N, 2 * labels.shape[1] + 1), blank, np.int64)
        self.states[:, 1::2] = np.where(inside, labels, blank)
        self.valid = np.arange(self.states.shape[1]) <= 2 * lengths[:, None]
        before = np.pad(self.states, ((0, 0), (2, 0)), constant_values=blank)[:, :-2]
        self.skip = (self.states != blank) & (self.states != before)  # a blank between equal labels can't be left out
        self.skip[:, :2] = False
        self.emit = self.of_states(log_y.astype(np.float64))
        self.running = np.arange(self.T)[:, None] < steps

    def of_states(self, values: np.ndarray) -> np.ndarray:
        """(T, N, C) by class as (T, N, states)."""
        return np.take_along_axis(values, np.broadcast_to(self.states, (self.T, *self.states.shape)), 2)

    def by_class(self, values: np.ndarray) -> np.ndarray:
        """(T, N, states) summed over the states of each class."""
        out = np.zeros((self.T, self.N, self.C))
        np.add.at(out, (slice(None), np.arange(self.N)[:, None], self.states), values)
        return out

    def shifted(self, a: np.ndarray, by: int, fill: float) -> np.ndarray:
        """Entry s - by at place s."""
        out = np.full_like(a, fill)
        if by > 0:
            out[:, by:] = a[:, :-by] if by < a.shape[1] else a[:, :0]
        else:
            out[:, :by] = a[:, -by:]
        return out

    def sweep(self, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log alpha and its tangent, for a direction given by state."""
        alpha, tangent = np.full(self.emit.shape, -np.inf), np.zeros(self.emit.shape)
        start = (np.arange(self.emit.shape[2]) < 2) & self.valid
        for t in range(self.T):
            if t == 0:
                total, slope = np.where(start, 0.0, -np.inf), np.zeros(start.shape)
            else:
                total, slope = self.merged(alpha[t - 1], tangent[t - 1], 1)
            total = np.where(self.valid, total + self.emit[t], -np.inf)
            reached = total > -np.inf
            alpha[t] = np.where(self.running[t][:, None], total, -np.inf)
            tangent[t] = np.where(reached, slope + slopes[t], 0.0)
        return alpha, tangent

    def sweep_back(self, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log beta and its tangent."""
        beta, tangent = np.full(self.emit.shape, -np.inf), np.zeros(self.emit.shape)
        place = np.arange(self.emit.shape[2])
        ends = (place >= 2 * self.lengths[:, None] - 1) & self.valid
        for t in reversed(range(self.T)):
            last = (t == self.steps - 1)[:, None]
            if t + 1 < self.T:
                onward = beta[t + 1] + self.emit[t + 1]
                slope = np.where(onward > -np.inf, tangent[t + 1] + slopes[t + 1], 0.0)
                total, slope = self.merged(onward, slope, -1)
            else:
                total, slope = np.full(ends.shape, -np.inf), np.zeros(ends.shape)
            beta[t] = np.where(last, np.where(ends, 0.0, -np.inf), np.where(self.valid, total, -np.inf))
            tangent[t] = np.where(last | (beta[t] == -np.inf), 0.0, slope)
        return beta, tangent

    def merged(self, a: np.ndarray, slope: np.ndarray, way: int) -> tuple[np.ndarray, np.ndarray]:
        """The log-sum of the paths into each state from `way` states before, and of their tangents."""
        if way > 0:
            far = np.where(self.skip, self.shifted(a, 2, -np.inf), -np.inf)
        else:
            far = self.shifted(np.where(self.skip, a, -np.inf), -2, -np.inf)
        terms = np.stack([a, self.shifted(a, way, -np.inf), far])
        slopes = np.stack([slope, self.shifted(slope, way, 0.0), self.shifted(slope, 2 * way, 0.0)])
        highest = terms.max(0)
        weights = np.exp(terms - np.where(highest == -np.inf, 0.0, highest))
        total = weights.sum(0)
        with np.errstate(divide="ignore"):
            log_total = np.log(total) + np.where(highest == -np.inf, 0.0, highest)
        return log_total, (weights * slopes).sum(0) / np.where(total == 0, 1.0, total)

    def likelihood(self) -> np.ndarray:
        """log p of each sample; -inf where no path is short enough."""
        if self.T == 0:
            return np.where(self.lengths == 0, 0.0, -np.inf)
        alpha, _ = self.sweep(np.zeros_like(self.emit))
        last = alpha[np.maximum(self.steps - 1, 0), np.arange(self.N)]
        ends = np.arange(last.shape[1]) >= 2 * self.lengths[:, None] - 1
        log_p = np.logaddexp.reduce(np.where(ends, last, -np.inf), 1)
        return np.where(self.steps > 0, log_p, np.where(self.lengths == 0, 0.0, -np.inf))

    def occupancy(self, direction: np.ndarray | None = None) -> np.ndarray:
        """q, or with a direction v in log y its derivative along v; zero where no path exists."""
        slopes = np.zeros_like(self.emit) if direction is None else self.of_states(direction.astype(np.float64))
        alpha, alpha_slope = self.sweep(slopes)
        beta, beta_slope = self.sweep_back(slopes)
        both = alpha + beta
        highest = both.max(2, keepdims=True, initial=-np.inf)
        weights = np.exp(both - np.where(highest == -np.inf, 0.0, highest))
        total = weights.sum(2, keepdims=True)
        q = weights / np.where(total == 0, 1.0, total)
        if direction is None:
            return self.by_class(q)
        slope = alpha_slope + beta_slope
        return self.by_class(q * (slope - (q * slope).sum(2, keepdims=True)))


def check(shape: tuple[int, ...], labels: np.ndarray, steps: np.ndarray, lengths: np.ndarray, blank: int) -> None:
    """Refuse lengths that don't fit and labels that are no class, naming the sample."""
    T, N, C = shape
    if labels.shape[0] != N or steps.shape != (N,) or lengths.shape != (N,):
        raise ShapeError(
            f"ctc_loss: log-probabilities {shape} are {N} samples, but targets are {labels.shape}, input_lengths "
            f"{steps.shape}, target_lengths {lengths.shape}"
        )
    for name, given, most in (("input_lengths", steps, T), ("target_lengths", lengths, labels.shape[1])):
        wrong = np.flatnonzero((given < 0) | (given > most))
        if wrong.size:
            raise IndexRangeError(f"ctc_loss: {name}[{wrong[0]}] is {given[wrong[0]]}; expected 0 to {most}")
    inside = np.arange(labels.shape[1]) < lengths[:, None]
    wrong = np.argwhere(inside & ((labels < 0) | (labels >= C) | (labels == blank)))
    if wrong.size:
        n, i = (int(v) for v in wrong[0])
        raise IndexRangeError(
            f"ctc_loss: label {labels[n, i]} of sample {n}, place {i}, is no class: there are {C}, and {blank} is blank"
        )


class CTCOp(Op):
    """Base of the three; their last inputs are log y (T, N, C), labels (N, S), input lengths and label lengths (N,)."""

    blank: int

    def lattice(self, *inputs: np.ndarray) -> Lattice:
        return Lattice(*inputs, self.blank)


@dataclass(frozen=True)
class CTC(CTCOp):
    """-log p of each sample."""

    blank: int

    formula = "-g q, q the probability that a path passes the class at that step"

    def make_node(self, log_y: Any, *rest: Any) -> Apply:
        inputs = [as_variable(v) for v in (log_y, *rest)]
        return Apply(self, inputs, [TensorType(inputs[0].dtype, (inputs[0].type.shape[1],))])

    def perform(self, *inputs):
        return -self.lattice(*inputs).likelihood().astype(inputs[0].dtype)

    def grad(self, inputs, output_grads):
        g = expand_dims(output_grads[0], (0, 2))
        q = CTCOccupancy(self.blank)(*inputs)
        return [-strong_mul(g, q), *(DisconnectedType()() for _ in inputs[1:])]

    def connection_pattern(self, node):
        return [[True], [False], [False], [False]]

    def infer_shape(self, node, shapes, values):
        return [(shapes[0][1],)]


@dataclass(frozen=True)
class CTCOccupancy(CTCOp):
    """q: the probability that a path passes class c at step t, given the labels."""

    blank: int

    def make_node(self, log_y: Any, *rest: Any) -> Apply:
        inputs = [as_variable(v) for v in (log_y, *rest)]
        return Apply(self, inputs, [inputs[0].type])

    def perform(self, *inputs):
        return self.lattice(*inputs).occupancy().astype(inputs[0].dtype)

    def grad(self, inputs, output_grads):
        v = CTCCurvature(self.blank)(output_grads[0], *inputs)  # d q / d log y is a covariance: symmetric
        return [v, *(DisconnectedType()() for _ in inputs[1:])]

    def connection_pattern(self, node):
        return [[True], [False], [False], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


@dataclass(frozen=True)
class CTCCurvature(CTCOp):
    """The derivative of q along v, of the shape of log y: the Hessian of log p times v."""

    blank: int

    def make_node(self, v: Any, log_y: Any, *rest: Any) -> Apply:
        inputs = [as_variable(x) for x in (v, log_y, *rest)]
        return Apply(self, inputs, [inputs[1].type])

    def perform(self, v, *inputs):
        return self.lattice(*inputs).occupancy(v).astype(inputs[0].dtype)

    def grad(self, inputs, output_grads):
        v, log_y, *rest = inputs
        third = grad_not_implemented(self, 1, log_y, "third derivatives of CTC are not written")
        along = CTCCurvature(self.blank)(output_grads[0], log_y, *rest)
        return [along, third, *(DisconnectedType()() for _ in rest)]

    def connection_pattern(self, node):
        return [[True], [True], [False], [False], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[1]]


def ctc_loss(
    log_probabilities: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "batchmean", zero_infinity: bool = False,
) -> Variable:  # fmt: skip
    """-log of the probability of label sequences, summed over all their alignments with the steps.

    Args:
        log_probabilities: (time, batch, classes), as `log_softmax` gives them.
        targets: integer labels, (batch, length), none of them blank; what lies beyond a target's length is not read.
        input_lengths, target_lengths: integers, (batch,).
        blank: the class that separates labels.
        reduction: "none" gives one number a sample; "mean" and "batchmean" both divide their sum by the batch.
        zero_infinity: a sample with too few steps for its labels counts 0 instead of infinity.

    Gradient: -g q, with q the probability that an alignment passes a class at a step; it differentiates once more, and
    a third derivative is a typed not-implemented. A sample of infinite loss gets none: nothing that it could change to
    would be finite.

    Raises:
        IndexRangeError: at run time, for a length or a label out of range; the message names the sample.
    """
    log_y = as_float(log_probabilities)
    integers = [as_tensor(v) for v in (targets, input_lengths, target_lengths)]
    if (log_y.ndim, *(v.ndim for v in integers)) != (3, 2, 1, 1):
        raise ShapeError(
            "ctc_loss: expected (time, batch, classes), (batch, length), (batch,) and (batch,), got "
            + ", ".join(str(v.type) for v in (log_y, *integers))
        )
    classes = log_y.type.shape[2]
    if blank < 0 or (classes is not None and blank >= classes):
        raise IndexRangeError(f"ctc_loss: blank={blank} is no class of {log_y.type}")
    loss = CTC(int(blank))(log_y, *(cast(v, "int64") for v in integers))
    if zero_infinity:
        loss = where(equal(loss, np.inf), zeros_like(loss), loss)
    return reduced(loss, reduction, "ctc_loss")
