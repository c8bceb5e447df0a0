"""Mini-batches in a seeded order, with a cursor that can be saved; and splitting off what is held back."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, FormatError, ShapeError
from .augment import Change
from .folders import Images

AUGMENTING = 0xA06  # sets the generator of changes apart from that of the order


class Batches:
    """Mini-batches of one or more arrays that share their first axis; the last batch of an epoch may be shorter.

    The order of an epoch is a function of the seed and the epoch's number alone, and the cursor (`epoch`, `position`)
    says how many batches of it have been handed out. So a run that stops anywhere goes on exactly where it was:

        >>> batches = Batches(np.arange(5), batch_size=2, seed=3)
        >>> first = next(iter(batches))
        >>> saved = batches.state()
        >>> rest = [b for b, in batches]
        >>> again = Batches(np.arange(5), batch_size=2, seed=3)
        >>> again.restore(saved)
        >>> [np.array_equal(a, b) for a, (b,) in zip(rest, again)]
        [True, True]

    Args:
        arrays: of equal length; `Images` are read batch by batch.
        batch_size: rows per batch.
        shuffle: a new order for each epoch; else the arrays' own order.
        seed: a whole number from 0 up.
        augment: `augment(rng, *batch)` gives each batch as it shall be; see `data.augment`. The generator is a function
            of seed, epoch and position.

    Attributes:
        epoch: the number of the epoch whose batches come next, from 0.
        position: how many of its batches have been handed out.
    """

    def __init__(
        self,
        *arrays: np.ndarray | Images,
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int = 0,
        augment: Change | None = None,
    ) -> None:
        lengths = {len(a) for a in arrays}
        if len(lengths) != 1:
            raise ShapeError(f"batches need arrays of one length; got lengths {[len(a) for a in arrays]}")
        if batch_size < 1:
            raise ArgumentError(f"batch_size is {batch_size}; expected 1 or more")
        if seed < 0:
            raise ArgumentError(f"seed is {seed}; expected a whole number from 0 up")
        self.arrays = arrays
        self.samples = lengths.pop()
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.augment = augment
        self.epoch = 0
        self.position = 0

    def __len__(self) -> int:
        """Batches per epoch."""
        return -(-self.samples // self.batch_size)

    def order(self, epoch: int) -> np.ndarray:
        """The order of the rows in that epoch."""
        if not self.shuffle:
            return np.arange(self.samples)
        return np.random.default_rng((self.seed, epoch)).permutation(self.samples)

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        """What is left of the current epoch; once they are used up the cursor stands at the start of
        the next."""
        order = self.order(self.epoch)
        while self.position < len(self):
            start = self.position * self.batch_size
            rows = order[start : start + self.batch_size]
            batch = tuple(a.take(rows, axis=0) for a in self.arrays)
            if self.augment is not None:
                batch = self._changed(batch)
            self.position += 1
            yield batch
        self.epoch, self.position = self.epoch + 1, 0

    def _changed(self, batch: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng((self.seed, self.epoch, self.position, AUGMENTING))
        found = self.augment(rng, *batch)
        if not isinstance(found, (tuple, list)) or len(found) != len(batch):
            raise ArgumentError(f"augment got {len(batch)} arrays and gave {found!r:.60}; expected as many as it got")
        lengths = {len(a) for a in found}
        if len(lengths) != 1:
            raise ShapeError(f"augment gave arrays of lengths {[len(a) for a in found]}; expected one length")
        return tuple(found)

    def state(self) -> dict[str, Any]:
        """The cursor, and what its meaning rests on, as plain numbers for a file."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "samples": self.samples,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Put the cursor where `state()` found it; a state of other data or another batch size is refused."""
        mine = self.state()
        if set(state) != set(mine):
            raise FormatError(f"this is no state of Batches: it has {sorted(state)}; expected {sorted(mine)}")
        for key in ("samples", "batch_size", "shuffle", "seed"):
            if state[key] != mine[key]:
                raise ArgumentError(f"the saved batches had {key}={state[key]}, these have {key}={mine[key]}")
        self.epoch, self.position = int(state["epoch"]), int(state["position"])


def split(
    *arrays: Any, held_back: int | float, stratify: np.ndarray | None = None, seed: int = 0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split arrays of equal length at random into what is kept and what is held back: `[(kept, held), ...]`, per array.

    Args:
        arrays: their first axes are split in the same way.
        held_back: how many rows to hold back, or which share of them if below 1.
        stratify: labels; each class then gives its share, to within one row.
        seed: same seed, same split.

    Example:
        >>> X, y = np.arange(10), np.repeat([0, 1], 5)
        >>> (X_train, X_test), (y_train, y_test) = split(X, y, held_back=4, stratify=y)
        >>> y_test.sum()
        np.int64(2)
    """
    arrays = tuple(a if isinstance(a, Images) else np.asarray(a) for a in arrays)
    lengths = {len(a) for a in arrays}
    if len(lengths) != 1:
        raise ShapeError(f"split needs arrays of one length; got lengths {[len(a) for a in arrays]}")
    n = lengths.pop()
    count = round(held_back * n) if held_back < 1 else int(held_back)
    if not 0 < count < n:
        raise ArgumentError(f"held_back={held_back} takes {count} of {n} rows; expected to leave some on both sides")
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    held = order[:count] if stratify is None else _stratified(order, np.asarray(stratify), count)
    mask = np.zeros(n, bool)
    mask[held] = True
    return [(a[order[~mask[order]]], a[order[mask[order]]]) for a in arrays]


def _stratified(order: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """`count` rows of `order`, from each class its share (largest remainders first)."""
    if len(labels) != len(order):
        raise ShapeError(f"stratify has {len(labels)} labels for {len(order)} rows")
    classes, sizes = np.unique(labels, return_counts=True)
    exact = sizes * (count / len(order))
    take = np.floor(exact).astype(int)
    for i in np.argsort(take - exact, kind="stable")[: count - take.sum()]:
        take[i] += 1
    rows: Sequence[np.ndarray] = [order[labels[order] == c][:k] for c, k in zip(classes, take)]
    return np.concatenate(rows)
