"""Numerical derivatives in float64: central differences, Richardson-extrapolated, and the complex step.

A difference is only believed where the function is smooth. Each one therefore says how far its extrapolations still
disagree and how large the jump in slope at the point is; both must vanish, and both come from values of the function
alone, never from the derivative under test.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Arrays = Sequence[np.ndarray]
Value = Callable[[Arrays], Arrays]  # input arrays -> float output arrays

STEPS = (2.0**-7, 2.0**-10, 2.0**-13, 2.0**-16)  # tried in turn until the function is smooth over the step
LEVELS = 4  # each level halves the step; four cancel the error terms h^2, h^4 and h^6
SMOOTH = 1e-7  # largest disagreement, relative to the slope, of a difference that is believed
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Slope:
    """A numerical derivative along one direction, element by element over all outputs laid end to end.

    Attributes:
        change: J d, the outputs' rate of change.
        error: distance of the two best extrapolations.
        bend: slope ahead minus slope behind at the point itself: zero where the function is smooth.
        noise: what rounding alone may do to `change`.
        step: the largest step taken.
    """

    change: np.ndarray
    error: np.ndarray
    bend: np.ndarray
    noise: np.ndarray
    step: float

    def along(self, cotangent: np.ndarray) -> float:
        """cotangent . J d"""
        return float(cotangent @ self.change)

    def noise_along(self, cotangent: np.ndarray) -> float:
        return float(np.abs(cotangent) @ self.noise)

    def is_smooth(self, cotangent: np.ndarray) -> bool:
        """Whether the difference may be believed, seen through this cotangent."""
        if not np.isfinite(self.change).all():
            return False
        weight = np.abs(cotangent)
        scale = max(abs(self.along(cotangent)), 1e-3 * norm(cotangent) * norm(self.change))
        doubt = max(float(weight @ self.error), float(weight @ np.abs(self.bend)))
        return doubt <= SMOOTH * scale + 4 * self.noise_along(cotangent)


def slope(value: Value, arrays: Arrays, direction: Sequence[np.ndarray | None], step: float) -> Slope:
    """The derivative of `value` at `arrays` along `direction` (one array per input, None where it stands still)."""

    def moved(h: float) -> np.ndarray:
        there = flat(value([a if d is None else a + h * d for a, d in zip(arrays, direction)]))
        return there if there.size == centre.size else np.full(centre.size, np.nan)  # the shape itself jumps

    central, bends = [], []
    with np.errstate(all="ignore"):
        centre = flat(value(arrays))
        for level in range(LEVELS):
            h = step / 2**level
            ahead, behind = moved(h), moved(-h)
            central.append((ahead - behind) / (2 * h))
            bends.append(((ahead - centre) - (centre - behind)) / h)
        change, error = extrapolate(central, 2)
        bend, _ = extrapolate(bends, 1)
        noise = 16 * EPS * (1.0 + np.maximum(np.abs(ahead), np.abs(centre)) / h)
    return Slope(change, error, bend, noise, step)


def extrapolate(rows: Sequence[np.ndarray], power: int) -> tuple[np.ndarray, np.ndarray]:
    """The limit of estimates whose step halves each time and whose error runs over h^power, h^(power+2), ...; and the
    distance of the two best extrapolations (Ridders 1982: of the whole tableau the least doubtful entry is taken)."""
    column = list(rows)
    best, error, least = column[-1], np.abs(column[-1] - column[-2]), np.inf
    while len(column) > 1:
        factor = 2.0**power
        following = [(factor * fine - coarse) / (factor - 1) for coarse, fine in zip(column, column[1:])]
        for estimate, coarse, fine in zip(following, column, column[1:]):
            distance = np.maximum(np.abs(estimate - coarse), np.abs(estimate - fine))
            if norm(distance) < least:
                best, error, least = estimate, distance, norm(distance)
        column, power = following, power + 2
    return best, error


def complex_step(value: Value, arrays: Arrays, direction: Sequence[np.ndarray | None]) -> np.ndarray:
    """J d = Im f(x + i h d) / h for an analytic f, with no cancellation at all (Squire & Trapp 1998)."""
    h = 2.0**-100
    moved = [a if d is None else a.astype(np.complex128) + 1j * h * d for a, d in zip(arrays, direction)]
    return np.concatenate([np.ravel(a).imag / h for a in value(moved)])


def numerical_jacobian(value: Value, arrays: Arrays, i: int, step: float = STEPS[1]) -> np.ndarray:
    """d outputs / d input `i`, one column per element of the input."""
    columns = []
    for j in range(arrays[i].size):
        direction: list[np.ndarray | None] = [None] * len(arrays)
        direction[i] = np.zeros(arrays[i].shape)
        direction[i].flat[j] = 1.0
        columns.append(slope(value, arrays, direction, step).change)
    return np.stack(columns, axis=1) if columns else np.zeros((flat(value(arrays)).size, 0))


def relative_error(predicted: float, measured: float, floor: float, noise: float = 0.0) -> float:
    """|v.g - FD| / max(|v.g|, |FD|, floor), where floor is 1e-3 |v||g|. Of a large error, what rounding explains is
    taken off: it decides where all three are nearly zero."""
    if not np.isfinite(predicted):
        return np.inf
    gap = abs(predicted - measured)
    scale = max(abs(predicted), abs(measured), floor)
    if gap > SMOOTH * scale:
        gap = max(gap - noise, 0.0)
    return gap / scale if gap else 0.0


def flat(arrays: Arrays) -> np.ndarray:
    """All elements in one float64 vector."""
    parts = [np.ravel(a).astype(np.float64, copy=False) for a in arrays]
    return np.concatenate(parts) if parts else np.zeros(0)


def norm(x: np.ndarray) -> float:
    return float(np.sqrt(np.dot(np.ravel(x), np.ravel(x))))


def signed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A random cotangent: signs mixed, no entry near zero or equal to one in size."""
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.3, 1.7, shape)


def random_direction(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """A dense direction that moves each element by at most its own size (or 1, if that is larger)."""
    return signed(rng, x.shape) / 1.7 * np.maximum(1.0, np.abs(x))
