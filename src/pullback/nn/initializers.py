"""First values of parameters. An initializer is called with a shape and a generator and gives a float64 array."""

from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from ..errors import ArgumentError, ShapeError
from .configuration import Configuration

Shape = tuple[int, ...]


def fans(shape: Shape) -> tuple[int, int]:
    """How many inputs each output sums over, and how many outputs each input feeds, for weights (..., inputs,
    outputs)."""
    if len(shape) < 2:
        raise ShapeError(f"weights of shape {shape} have no inputs and outputs to scale by; use Normal or Uniform")
    window = prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


class Initializer(Configuration):
    """Base of the rules for first values; a subclass writes `__call__(shape, rng)`."""

    def __call__(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, shape, rng)")


@dataclass(frozen=True)
class Constant(Initializer):
    """The same number everywhere."""

    value: float = 0.0

    def __call__(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        return np.full(shape, self.value, np.float64)


@dataclass(frozen=True)
class Zeros(Constant):
    """0 everywhere."""


@dataclass(frozen=True)
class Ones(Constant):
    """1 everywhere."""

    value: float = 1.0


@dataclass(frozen=True)
class Normal(Initializer):
    """Normal numbers of mean 0."""

    deviation: float = 0.01

    def __call__(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(0.0, self.deviation, shape)


@dataclass(frozen=True)
class TruncatedNormal(Initializer):
    """Normal numbers of mean 0; what falls outside two standard deviations is drawn again."""

    deviation: float = 0.01

    def __call__(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        draws = rng.normal(0.0, 1.0, shape)
        while (outside := np.abs(draws) > 2).any():
            draws[outside] = rng.normal(0.0, 1.0, int(outside.sum()))
        return draws * self.deviation


@dataclass(frozen=True)
class Uniform(Initializer):
    """Evenly distributed numbers between -bound and bound."""

    bound: float = 0.05

    def __call__(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-self.bound, self.bound, shape)


@dataclass(frozen=True)
class Scaled(Initializer):
    """Random numbers of mean 0 and variance gain / fan.

    Attributes:
        fan: "in", "out" or "mean" (of both).
        distribution: "normal" or "uniform".
    """

    gain: float = 1.0
    fan: str = "in"
    distribution: str = "normal"

    def __post_init__(self) -> None:
        for name, choices in (("fan", ("in", "out", "mean")), ("distribution", ("normal", "uniform"))):
            if getattr(self, name) not in choices:
                raise ArgumentError(f"{type(self).__name__}: {name}={getattr(self, name)!r}; expected one of {choices}")

    def __call__(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        fan_in, fan_out = fans(shape)
        variance = self.gain / {"in": fan_in, "out": fan_out, "mean": (fan_in + fan_out) / 2}[self.fan]
        if self.distribution == "normal":
            return rng.normal(0.0, sqrt(variance), shape)
        return rng.uniform(-sqrt(3 * variance), sqrt(3 * variance), shape)


@dataclass(frozen=True)
class HeNormal(Scaled):
    """Normal of variance 2 / fan_in, which keeps the scale through relu layers (He et al. 2015, eq. 10)."""

    gain: float = 2.0


@dataclass(frozen=True)
class HeUniform(Scaled):
    """Uniform of variance 2 / fan_in (He et al. 2015)."""

    gain: float = 2.0
    distribution: str = "uniform"


@dataclass(frozen=True)
class GlorotNormal(Scaled):
    """Normal of variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010, eq. 12)."""

    fan: str = "mean"


@dataclass(frozen=True)
class GlorotUniform(Scaled):
    """Uniform of variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010, eq. 16)."""

    fan: str = "mean"
    distribution: str = "uniform"


@dataclass(frozen=True)
class LecunNormal(Scaled):
    """Normal of variance 1 / fan_in (LeCun et al. 1998): what selu needs (Klambauer et al. 2017)."""


@dataclass(frozen=True)
class LecunUniform(Scaled):
    """Uniform of variance 1 / fan_in (LeCun et al. 1998)."""

    distribution: str = "uniform"


@dataclass(frozen=True)
class Orthogonal(Initializer):
    """A random matrix with orthonormal rows or columns, whichever are fewer, times `gain` (Saxe et al. 2014)."""

    gain: float = 1.0

    def __call__(self, shape: Shape, rng: np.random.Generator) -> np.ndarray:
        fans(shape)
        rows, columns = prod(shape[:-1]), shape[-1]
        q, r = np.linalg.qr(rng.normal(size=(max(rows, columns), min(rows, columns))))
        q *= np.sign(np.diag(r))  # makes the distribution uniform over the orthogonal matrices
        return self.gain * (q if rows >= columns else q.T).reshape(shape)
