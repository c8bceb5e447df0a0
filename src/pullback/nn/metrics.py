"""What is shown beside the cost. A metric is a few sums over samples and a formula over the totals, so that its value
for many batches, the last one shorter, is that for all samples at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt

from .. import ops
from ..errors import ShapeError
from ..graph import Variable
from .configuration import Configuration
from .losses import aligned, log_odds, logits, per_sample


class Metric(Configuration):
    """Base of all metrics. A subclass writes `values` or `sums`, perhaps `result`, and names itself.

    Attributes:
        name: in histories and progress lines.
        higher_is_better: which way is up, for callbacks that keep the best.
        terms: how many sums it needs.
    """

    name: str
    higher_is_better = True
    terms = 1

    def sums(self, output: Variable, target: Variable) -> tuple[Variable, ...]:
        """Scalars that add up over batches: of each of the values the sum over samples of their mean."""
        return tuple(ops.sum(per_sample(v, mean=True)) for v in self.values(output, target))

    def values(self, output: Variable, target: Variable) -> tuple[Variable, ...]:
        """Float64 arrays with an entry per sample and step, or per sample and output."""
        raise NotImplementedError(
            f"{type(self).__name__} defines no values(self, output, target): it can't leave steps of a sequence out"
        )

    def result(self, totals: Sequence[float], samples: int) -> float:
        """The value, from the sums over all batches and the number of samples."""
        return totals[0] / samples


@dataclass(frozen=True)
class Accuracy(Metric):
    """The share of right answers: the likeliest class, or with one output (or independent yes-or-no outputs) the side
    of one half. Of a sample with several answers the share of right ones counts."""

    name = "accuracy"

    def values(self, output, target):
        if not _is_classes(output, target):
            odds = log_odds(output)
            yes = output > 0.5 if odds is None else odds > 0
            right = ops.equal(yes, aligned(output, target) > 0.5)
        else:
            scores = logits(output)
            found = ops.argmax(output if scores is None else scores, axis=-1)
            wanted = ops.argmax(target, axis=-1) if target.ndim == output.ndim else target
            right = ops.equal(found, wanted)
        return (_wide(right),)


def _is_classes(output: Variable, target: Variable) -> bool:
    """Whether the last axis of the output holds classes that exclude each other."""
    if output.type.shape[-1] == 1 or log_odds(output) is not None:
        return False
    return target.ndim == output.ndim - 1 or logits(output) is not None


@dataclass(frozen=True)
class TopAccuracy(Metric):
    """The share of samples whose class is among the `k` likeliest."""

    k: int = 5

    @property
    def name(self) -> str:
        return f"top_{self.k}_accuracy"

    def values(self, output, target):
        if target.ndim != output.ndim - 1:
            raise ShapeError(f"{self.name} needs class numbers as targets, of one axis less than the output")
        wanted = ops.expand_dims(ops.select_label(output, target), output.ndim - 1)
        better = ops.sum(ops.cast(output > wanted, "int64"), axis=-1)
        return (_wide(better < self.k),)


@dataclass(frozen=True)
class MSE(Metric):
    """The mean of (y - t)^2 over samples and outputs."""

    name = "mse"
    higher_is_better = False

    def values(self, output, target):
        return (_wide(ops.square(output - aligned(output, target))),)


@dataclass(frozen=True)
class RMSE(MSE):
    """The square root of the mean of (y - t)^2 over samples and outputs."""

    name = "rmse"

    def result(self, totals, samples):
        return sqrt(totals[0] / samples)


@dataclass(frozen=True)
class MAE(Metric):
    """The mean of |y - t| over samples and outputs."""

    name = "mae"
    higher_is_better = False

    def values(self, output, target):
        return (_wide(ops.abs(output - aligned(output, target))),)


@dataclass(frozen=True)
class R2(Metric):
    """1 - sum (y - t)^2 / sum (t - mean t)^2: the share of the target's variance that is explained,
    outputs taken together."""

    name = "r2"
    terms = 3

    def values(self, output, target):
        target = _wide(aligned(output, target))
        return ops.square(_wide(output) - target), target, ops.square(target)

    def result(self, totals, samples):
        off, first, second = totals
        spread = second - first * first / samples
        return 1.0 - off / spread if spread > 0 else nan


def _wide(x: Variable) -> Variable:
    return ops.cast(x, "float64")


METRICS = {
    "accuracy": Accuracy(),
    "top_5_accuracy": TopAccuracy(),
    "mse": MSE(),
    "rmse": RMSE(),
    "mae": MAE(),
    "r2": R2(),
}
