"""Learning rates that change with the step. A schedule is called with the number of steps done so far, a float64 scalar
variable, and gives the rate as an expression: it becomes part of the compiled training step."""

import math
from dataclasses import dataclass

from .. import ops
from ..errors import ArgumentError
from ..graph import Constant, Variable, evaluate
from .configuration import Configuration


class Schedule(Configuration):
    """Base of all schedules; a subclass writes `__call__(step)`."""

    def __call__(self, step: Variable) -> Variable:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, step)")

    def rate(self, step: int) -> float:
        """The learning rate after that many steps, as a number.

        Example:
            >>> Exponential(0.1, 0.5).rate(2)
            0.025
        """
        return float(evaluate([ops.asarray(self(Constant(float(step))), "float64")])[0])


def _check(schedule: Schedule, **positive: float) -> None:
    for name, value in positive.items():
        if not value > 0:
            raise ArgumentError(f"{type(schedule).__name__}: {name}={value}; expected a number above 0")


@dataclass(frozen=True)
class Step(Schedule):
    """first * factor^floor(step / every)."""

    first: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _check(self, every=self.every)

    def __call__(self, step):
        return self.first * ops.power(self.factor, ops.floor(step / self.every))


@dataclass(frozen=True)
class Steps(Schedule):
    """Multiplied by each of `factors` once `at` so many steps are done."""

    first: float
    at: tuple[int, ...]
    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.at) != len(self.factors):
            raise ArgumentError(f"Steps: {len(self.at)} steps, but {len(self.factors)} factors")

    def __call__(self, step):
        rate = ops.full_like(step, self.first)
        for at, factor in zip(self.at, self.factors):
            rate = ops.where(step >= at, rate * factor, rate)
        return rate


@dataclass(frozen=True)
class Exponential(Schedule):
    """first * gamma^step."""

    first: float
    gamma: float

    def __call__(self, step):
        return self.first * ops.power(self.gamma, step)


@dataclass(frozen=True)
class Polynomial(Schedule):
    """first * (1 - step / total)^power, and 0 from step `total` on."""

    first: float
    total: int
    power: float = 1.0

    def __post_init__(self) -> None:
        _check(self, total=self.total)

    def __call__(self, step):
        return self.first * ops.power(ops.maximum(1.0 - step / self.total, 0.0), self.power)


@dataclass(frozen=True)
class Sigmoid(Schedule):
    """first / (1 + exp(gamma (step - middle))): falls around `middle` (Darknet's policy "sig")."""

    first: float
    middle: float
    gamma: float

    def __call__(self, step):
        return self.first * ops.sigmoid(-self.gamma * (step - self.middle))


@dataclass(frozen=True)
class Cosine(Schedule):
    """From `first` down to `last` along half a cosine over `total` steps (Loshchilov and Hutter 2017, eq. 5).

    Args:
        restarts: begin anew after each cycle; else it stays at `last`.
        stretch: each cycle is so many times as long as the one before.
    """

    first: float
    total: int
    last: float = 0.0
    restarts: bool = False
    stretch: float = 1.0

    def __post_init__(self) -> None:
        _check(self, total=self.total)
        if self.stretch < 1:
            raise ArgumentError(f"Cosine: stretch={self.stretch}; expected 1 or more")

    def __call__(self, step):
        if not self.restarts:
            done = ops.minimum(step / self.total, 1.0)
        elif self.stretch == 1:
            done = ops.mod(step / self.total, 1.0)
        else:  # cycle k starts at total (s^k - 1) / (s - 1)
            grown = 1.0 + step * ((self.stretch - 1) / self.total)
            length = ops.power(self.stretch, ops.floor(ops.log(grown) / math.log(self.stretch) + 1e-9))
            done = (grown - length) / (length * (self.stretch - 1))
        return self.last + (self.first - self.last) * 0.5 * (1.0 + ops.cos(math.pi * done))


@dataclass(frozen=True)
class WarmUp(Schedule):
    """Another schedule's rate, or a number, times ((step + 1) / steps)^power until `steps` steps are done."""

    then: Schedule | float
    steps: int
    power: float = 1.0

    def __post_init__(self) -> None:
        _check(self, steps=self.steps)

    def __call__(self, step):
        rate = self.then(step) if isinstance(self.then, Schedule) else self.then
        return rate * ops.power(ops.minimum((step + 1.0) / self.steps, 1.0), self.power)


@dataclass(frozen=True)
class OneCycle(Schedule):
    """From highest / 25 up to `highest` over the first `rising` share of `total` steps and down to nearly 0, both
    along half a cosine (Smith and Topin 2018)."""

    highest: float
    total: int
    rising: float = 0.3

    def __post_init__(self) -> None:
        _check(self, total=self.total, rising=self.rising, falling=1 - self.rising)

    def __call__(self, step):
        share = ops.minimum(step / self.total, 1.0)
        low, end = self.highest / 25, self.highest / 1e5
        up = low + (self.highest - low) * 0.5 * (1.0 - ops.cos(math.pi * share / self.rising))
        down = end + (self.highest - end) * 0.5 * (1.0 + ops.cos(math.pi * (share - self.rising) / (1 - self.rising)))
        return ops.where(share < self.rising, up, down)
