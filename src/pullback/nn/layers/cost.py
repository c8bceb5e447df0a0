"""`Cost`: what a network's last numbers cost, as Darknet and NumPyNet have it."""

from dataclasses import dataclass

from ... import ops
from ...errors import ArgumentError
from ...graph import Variable
from .base import Layer


def _smooth(p: Variable, t: Variable) -> Variable:
    """e^2 where |e| < 1, else 2 |e| - 1: twice the smooth L1 of the field."""
    return ops.huber(p, t, 1.0, reduction="none") * 2.0


def _wgan(p: Variable, t: Variable) -> Variable:
    return ops.where(ops.equal(t, 0), p, -p)


COSTS = {
    "sse": lambda p, t: ops.square(p - t),
    "mse": lambda p, t: ops.square(p - t),
    "masked": lambda p, t: ops.square(p - t),
    "mae": lambda p, t: ops.abs(p - t),
    "L1": lambda p, t: ops.abs(p - t),
    "seg": lambda p, t: ops.square(p - t),
    "smooth": _smooth,
    "wgan": _wgan,
    "hellinger": lambda p, t: ops.square(ops.sqrt(p) - ops.sqrt(t)),
    "hinge": lambda p, t: ops.relu(1.0 - t * p),
    "logcosh": lambda p, t: ops.log_cosh(p - t),
}
SECRET = 1234.0  # Darknet's mark of targets that don't count


@dataclass(frozen=True)
class Cost(Layer):
    """Passes on what comes in; `nn.losses.CostLoss` is what its numbers cost.

    Args:
        type: a name of `COSTS`: "sse", "mse", "masked", "mae", "L1", "seg", "smooth", "wgan", "hellinger", "hinge",
            "logcosh".
        scale: multiplies the cost.
        ratio: the share of deviations that count, the largest ones; 0 for all.
        noobj: of "seg", multiplies the cost where the target is 0.
        thresh: deviations below it don't count.
        smoothing: the share of each target that is spread evenly over all of them.
    """

    type: str = "sse"
    scale: float = 1.0
    ratio: float = 0.0
    noobj: float = 1.0
    thresh: float = 0.0
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        if self.type not in COSTS:
            raise ArgumentError(f"Cost: type={self.type!r}; expected one of {tuple(COSTS)}")
        if not 0 <= self.ratio <= 1 or not 0 <= self.smoothing < 1:
            raise ArgumentError(f"Cost: ratio={self.ratio}, smoothing={self.smoothing}; expected numbers from 0 to 1")

    def describe(self, x):
        return x

    def apply(self, parameters, inputs, context):
        return inputs[0]
