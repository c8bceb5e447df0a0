"""Random changes of batches of images in training, as functions `change(rng, images, *others)` for `fit(augment=...)`.

A change of one's own is a function of that kind; the generator depends on seed, epoch and batch only.

    >>> import numpy as np
    >>> change = compose(mirror(0.5), shift(2))
    >>> images, labels = change(np.random.default_rng(0), np.ones((4, 8, 8, 1)), np.arange(4))
    >>> images.shape, labels
    ((4, 8, 8, 1), array([0, 1, 2, 3]))
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError

Change = Callable[..., tuple[Any, ...]]


def mirror(probability: float = 0.5) -> Change:
    """Turn left and right round, of each image with this probability."""
    if not 0 <= probability <= 1:
        raise ArgumentError(f"mirror: probability={probability}; expected a number from 0 to 1")

    def change(rng: np.random.Generator, images: np.ndarray, *others: Any) -> tuple[Any, ...]:
        chosen = rng.random(len(images)) < probability
        return (np.where(chosen[:, None, None, None], images[:, :, ::-1], images), *others)

    return change


def shift(cells: int) -> Change:
    """Move each image by up to so many cells along both axes; what comes in is 0."""
    if not isinstance(cells, (int, np.integer)) or cells < 0:
        raise ArgumentError(f"shift: cells={cells!r}; expected a whole number from 0 up")

    def change(rng: np.random.Generator, images: np.ndarray, *others: Any) -> tuple[Any, ...]:
        count, height, width = images.shape[:3]
        around = np.pad(images, ((0, 0), (cells, cells), (cells, cells), (0, 0)))
        down, across = rng.integers(0, 2 * cells + 1, (2, count))
        rows, columns = down[:, None] + np.arange(height), across[:, None] + np.arange(width)
        return (around[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]], *others)

    return change


def noise(deviation: float) -> Change:
    """Add normal numbers of this standard deviation."""
    if not deviation >= 0:
        raise ArgumentError(f"noise: deviation={deviation}; expected a number from 0 up")

    def change(rng: np.random.Generator, images: np.ndarray, *others: Any) -> tuple[Any, ...]:
        drawn = rng.standard_normal(images.shape, np.float32)
        return ((images + deviation * drawn).astype(images.dtype, copy=False), *others)

    return change


def compose(*changes: Change) -> Change:
    """One change after the other."""

    def change(rng: np.random.Generator, *batch: Any) -> tuple[Any, ...]:
        for one in changes:
            batch = one(rng, *batch)
        return batch

    return change
