"""What a network is trained to lower. A loss gives one number per sample; the network's cost is their mean over the
batch."""

from dataclasses import dataclass

import numpy as np

from .. import ops
from ..errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from ..graph import TensorType, Variable
from ..ops.losses import logits_of
from .configuration import Configuration
from .layers.base import Spec


def logits(output: Variable) -> Variable | None:
    """What `output` is the softmax of, along the last axis; None if it is no softmax."""
    return logits_of(output, output.ndim - 1)


def log_odds(output: Variable) -> Variable | None:
    """What `output` is the logistic function of; None if it isn't."""
    node = output.owner
    return node.inputs[0] if node is not None and node.op == ops.sigmoid else None


def per_sample(values: Variable, mean: bool = False) -> Variable:
    """Sums (or means) over all axes but the first."""
    if values.ndim == 1:
        return values
    axes = tuple(range(1, values.ndim))
    return ops.mean(values, axis=axes) if mean else ops.sum(values, axis=axes)


def aligned(output: Variable, target: Variable) -> Variable:
    """A target in the dtype of the output; a network with one output takes targets of shape (batch,) too."""
    if target.ndim == output.ndim - 1:
        target = ops.expand_dims(target, target.ndim)
    return ops.cast(target, output.dtype)


class Loss(Configuration):
    """Base of all losses. A subclass writes `values` or `__call__`, and `target_type` if targets aren't of the output's
    shape."""

    def __call__(self, output: Variable, target: Variable) -> Variable:
        """One number per sample, of shape (batch,)."""
        return self.per_sample(self.values(output, target))

    def values(self, output: Variable, target: Variable) -> Variable:
        """What `per_sample` takes together: one number per sample and step, or per sample and output."""
        raise NotImplementedError(
            f"{type(self).__name__} defines no values(self, output, target): it can't leave steps of a sequence out"
        )

    def per_sample(self, values: Variable) -> Variable:
        """One number per sample: the sum of its values."""
        return per_sample(values)

    def target_type(self, output: Spec, target: np.ndarray) -> TensorType:
        """The type of the symbolic target for targets such as `target`; targets of the wrong shape or dtype are
        refused."""
        return like_output(output, target)

    def check(self, output: Spec, target: np.ndarray) -> None:
        """Refuse values that no target may have."""
        refuse_non_finite("y", target)

    def example(self, output: Spec, count: int, rng: np.random.Generator) -> np.ndarray:
        """Random targets, for checks of gradients without data."""
        return rng.uniform(0.1, 0.9, (count, *output.shape))


def like_output(output: Spec, target: np.ndarray) -> TensorType:
    """Targets of the output's shape; the last axis may be left out if it has length 1."""
    if target.dtype.kind not in "biuf":
        raise DTypeError(f"y holds {target.dtype}; expected numbers")
    dtype = output.dtype if target.dtype.kind == "f" else target.dtype.name
    shapes = [output.shape] + ([output.shape[:-1]] if output.shape[-1:] == (1,) else [])
    for shape in shapes:
        if fits(shape, target.shape[1:]):
            return TensorType(dtype, (None, *shape))
    expected = " or ".join(shown(shape) for shape in shapes)
    raise ShapeError(f"y has shape {target.shape}; the network's output is {output}, so it must be {expected}")


def fits(expected: tuple[int | None, ...], found: tuple[int, ...]) -> bool:
    return len(expected) == len(found) and all(n is None or n == m for n, m in zip(expected, found))


def shown(shape: tuple[int | None, ...]) -> str:
    """A shape with the batch axis in front, for messages."""
    return "(" + ", ".join(["n", *("?" if m is None else str(m) for m in shape)]) + ("," if not shape else "") + ")"


def refuse_non_finite(name: str, array: np.ndarray) -> None:
    """Name the first NaN or infinity in an array."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        wrong = ~np.isfinite(array)
        place = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), array.shape))
        raise ArgumentError(
            f"{name} is {array[place]} at {list(place)} ({int(wrong.sum())} of {array.size} values aren't finite): "
            "remove these rows or fill the gaps first"
        )


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """-log p(class), the multi-class log loss.

    The network's output is probabilities if its last layer is a Softmax, which is then differentiated together with the
    loss; else the output is taken as logits. Targets are class numbers from 0 (integers of the output's shape without
    the last axis) or probabilities (floats, or one-hot numbers, of the output's shape).

    Args:
        label_smoothing: share of each target that is spread evenly over all classes (Szegedy et al. 2016, section 7).
    """

    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ArgumentError(
                f"CrossEntropy: label_smoothing={self.label_smoothing}; expected at least 0, less than 1"
            )

    def values(self, output, target):
        scores = logits(output)
        scores = output if scores is None else scores
        if target.ndim == output.ndim:
            target = ops.cast(target, output.dtype)
        loss = ops.softmax_cross_entropy(scores, target)
        if self.label_smoothing:
            even = -ops.mean(ops.log_softmax(scores), axis=-1)
            loss = (1.0 - self.label_smoothing) * loss + self.label_smoothing * even
        return loss

    def target_type(self, output, target):
        if not output.shape or output.shape[-1] is None:
            raise ShapeError(f"cross_entropy needs an output with classes on its last axis, got {output}")
        if output.shape[-1] == 1:
            raise ShapeError("cross_entropy with one output is always 0: use binary_cross_entropy and Logistic")
        if fits(output.shape, target.shape[1:]) and target.dtype.kind in "biuf":
            return TensorType(output.dtype if target.dtype.kind == "f" else target.dtype.name, (None, *output.shape))
        if not fits(output.shape[:-1], target.shape[1:]):
            hint = "; take y[:, 0]" if fits((*output.shape[:-1], 1), target.shape[1:]) else ""
            raise ShapeError(
                f"y has shape {target.shape}; cross_entropy takes class numbers {shown(output.shape[:-1])} or "
                f"probabilities {shown(output.shape)}{hint}"
            )
        if target.dtype.kind not in "iu":
            raise DTypeError(
                f"y holds {target.dtype}; cross_entropy takes class numbers as integers"
                + (": y.astype('int64')" if target.dtype.kind == "f" else "")
            )
        return TensorType("int64", (None, *output.shape[:-1]))

    def example(self, output, count, rng):
        return rng.integers(0, output.shape[-1], (count, *output.shape[:-1]))

    def check(self, output, target):
        if target.ndim == len(output.shape) + 1:
            refuse_non_finite("y", target)
            return
        wrong = (target < 0) | (target >= output.shape[-1])
        if wrong.any():
            place = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), target.shape))
            raise IndexRangeError(
                f"y is {target[place]} at {list(place)} ({int(wrong.sum())} of {target.size} labels are out of range): "
                f"the network has {output.shape[-1]} outputs, so classes are 0 to {output.shape[-1] - 1}"
            )


@dataclass(frozen=True)
class BinaryCrossEntropy(Loss):
    """-t log p - (1 - t) log(1 - p), summed over the outputs: log loss of independent yes-or-no answers.

    The output is probabilities if its last layer is Logistic (or has that activation), which is then differentiated
    together with the loss; else it is taken as log-odds. Targets lie between 0 and 1.
    """

    def values(self, output, target):
        scores = log_odds(output)
        return ops.bce_with_logits(output if scores is None else scores, aligned(output, target))

    def check(self, output, target):
        refuse_non_finite("y", target)
        if target.size and (target.min() < 0 or target.max() > 1):
            raise ArgumentError(
                f"y lies between {target.min()} and {target.max()}; binary_cross_entropy takes values from 0 to 1"
            )


@dataclass(frozen=True)
class MeanSquaredError(Loss):
    """(y - t)^2, summed over the outputs of a sample, or their mean if `over_outputs="mean"`."""

    over_outputs: str = "sum"

    def __post_init__(self) -> None:
        if self.over_outputs not in ("sum", "mean"):
            raise ArgumentError(f"{type(self).__name__}: over_outputs={self.over_outputs!r}; expected 'sum' or 'mean'")

    def deviation(self, difference: Variable) -> Variable:
        """What each difference costs."""
        return ops.square(difference)

    def values(self, output, target):
        return self.deviation(output - aligned(output, target))

    def per_sample(self, values):
        return per_sample(values, mean=self.over_outputs == "mean")


@dataclass(frozen=True)
class MeanAbsoluteError(MeanSquaredError):
    """|y - t|, summed over the outputs of a sample, or their mean if `over_outputs="mean"`."""

    def deviation(self, difference):
        return ops.abs(difference)


LOSSES = {
    "cross_entropy": CrossEntropy(),
    "binary_cross_entropy": BinaryCrossEntropy(),
    "mse": MeanSquaredError(),
    "mae": MeanAbsoluteError(),
}
