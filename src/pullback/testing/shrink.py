"""The smallest input on which a gradient is still wrong."""

from collections.abc import Callable, Iterator

import numpy as np

Arrays = list[np.ndarray]
LARGEST = 64  # elements of an array that are simplified one by one


def shrink(arrays: Arrays, fails: Callable[[Arrays], bool], patience: int = 200) -> Arrays:
    """Shorten axes, then simplify values, as long as `fails` stays true. `patience` is the most trials made."""
    trials = 0

    def still_fails(candidate: Arrays) -> bool:
        nonlocal trials
        trials += 1
        try:
            return fails(candidate)
        except Exception:
            return False  # the function doesn't take this input

    progress = True
    while progress and trials < patience:
        progress = False
        for candidate in _simpler(arrays):
            if trials >= patience:
                break
            if still_fails(candidate):
                arrays, progress = candidate, True
                break
    return arrays


def _simpler(arrays: Arrays) -> Iterator[Arrays]:
    """Candidates, the most drastic first. Axes of equal length are shortened together: they may belong together."""
    lengths = sorted({n for a in arrays for n in a.shape if n > 1}, reverse=True)
    for n in lengths:
        for shorter in sorted({1, 2, n // 2, n - 1}):
            if 0 < shorter < n:
                for part in (slice(shorter), slice(n - shorter, None)):
                    yield [a[tuple(part if m == n else slice(None) for m in a.shape)] for a in arrays]
    for i, a in enumerate(arrays):
        if a.dtype.kind != "f":
            continue
        for simple in (np.ones_like(a), np.round(a), np.round(a, 1)):
            if _is_simpler(simple, a):
                yield [*arrays[:i], simple, *arrays[i + 1 :]]
        if 1 < a.size <= LARGEST:
            for j in range(a.size):
                for value in (0.0, 1.0, round(float(a.flat[j]), 1)):
                    changed = a.copy()
                    changed.flat[j] = value
                    if _is_simpler(changed, a):
                        yield [*arrays[:i], changed, *arrays[i + 1 :]]


def _is_simpler(a: np.ndarray, b: np.ndarray) -> bool:
    return _complexity(a) < _complexity(b)


def _complexity(a: np.ndarray) -> int:
    """How much there is to read in an array."""
    return sum(len(f"{abs(x):g}") + (x != 0.0) + (x < 0) for x in a.flat)
