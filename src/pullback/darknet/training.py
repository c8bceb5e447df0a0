"""Training as Darknet does it: samples drawn at random, subdivisions, learning-rate policies, images of changing size,
backups with the count of images seen, from which training goes on."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError, NonFiniteError
from ..graph import SharedVariable, TensorType
from ..nn.layers.detection import Detection, Head
from ..nn.losses import CrossEntropy
from ..nn.network import Network
from .augmentation import Augmentation, Sample, augmentation_of, fitted, mixup, mosaic
from .cfg import Cfg
from .files import label_path, padded, read_labels, read_list
from .images import as_photo, prepared
from .losses import losses_of
from .network import KEY, placed_layers, to_darknet
from .policies import Regime, regime_of

SIZE_STEP = 32
SAME_SIZE = 10  # batches between changes of size
CACHED_BYTES = 1 << 30


def compile_as_darknet(network: Network, seed: int = 0, darknet_gradients: bool = False) -> Regime:
    """Let a network from a cfg be trained with `fit` as [net] says: its optimizer and policy, its outputs' losses.

    Returns:
        What [net] says; `fit` is to be given its batch size.
    """
    cfg, dialect, _ = placed_layers(network)
    regime = regime_of(cfg, dialect, seed)
    losses = losses_of(network, darknet_gradients)
    classes = any(isinstance(loss, CrossEntropy) for loss in losses)
    network.compile(regime.optimizer, losses, ["accuracy"] if classes else [])
    return regime


class Photos(Protocol):
    """Labelled photos by number."""

    def __len__(self) -> int: ...

    def photo(self, i: int) -> np.ndarray:
        """(height, width, 3) bytes."""

    def boxes(self, i: int) -> np.ndarray:
        """(boxes, 5): class, centre x and y, width and height as fractions."""


class PhotoFiles:
    """The photos that a list names, with their label files; decoded ones are kept while there is room.

    Args:
        source: a list file, or the paths.
        classes: how many there are.
    """

    def __init__(self, source: str | Path | list[Path], classes: int) -> None:
        self.paths = read_list(source) if isinstance(source, (str, Path)) else list(source)
        self.labels = [read_labels(label_path(path), classes) for path in self.paths]
        self._kept: dict[int, np.ndarray] = {}
        self._room = CACHED_BYTES

    def __len__(self) -> int:
        return len(self.paths)

    def photo(self, i: int) -> np.ndarray:
        if i in self._kept:
            return self._kept[i]
        photo = as_photo(self.paths[i])
        if photo.nbytes <= self._room:
            self._room -= photo.nbytes
            self._kept[i] = photo
        return photo

    def boxes(self, i: int) -> np.ndarray:
        return self.labels[i]


@dataclass(frozen=True)
class Drawer:
    """Sample number n, whatever was drawn before: its photos and all that happens to them follow from (seed, n)."""

    photos: Photos
    how: Augmentation
    seed: int = 0

    def sample(self, n: int, size: tuple[int, int]) -> Sample:
        rng = np.random.default_rng((self.seed, n))
        if self.how.mosaic and rng.random() < 0.5:
            return mosaic([self._one(size, rng) for _ in range(4)], rng)
        if self.how.mixup and rng.random() < 0.5:
            return mixup(self._one(size, rng), self._one(size, rng))
        return self._one(size, rng)

    def _one(self, size: tuple[int, int], rng: np.random.Generator) -> Sample:
        i = int(rng.integers(len(self.photos)))
        return fitted(self.photos.photo(i), self.photos.boxes(i), size, self.how, rng)

    def batch(self, first: int, count: int, size: tuple[int, int], most: int) -> tuple[np.ndarray, np.ndarray]:
        """Images and truths of the samples `first` to `first + count - 1`."""
        samples = [self.sample(n, size) for n in range(first, first + count)]
        return np.stack([image for image, _ in samples]), padded([boxes for _, boxes in samples], most)


class Trainer:
    """Trains a network from a Darknet cfg on labelled photos.

    Args:
        network: from `from_darknet`; with `any_size=True` if the cfg says random=1. Training goes on from its count of
            images seen.
        photos: what to train on.
        seed: of everything random.
        regime, how: in place of what the cfg says.
        darknet_gradients: see `darknet.losses`.

    Attributes:
        seen: images so far, those before this training included.
        average: of the costs, as Darknet prints it: 0.9 of the old and 0.1 of the new.

    Example:
        trainer = Trainer(network, PhotoFiles("train.txt", classes=3))
        for batch, cost in trainer:
            print(batch, cost, trainer.average)
        trainer.save("backup/model.weights")
    """

    def __init__(
        self,
        network: Network,
        photos: Photos,
        *,
        seed: int = 0,
        regime: Regime | None = None,
        how: Augmentation | None = None,
        darknet_gradients: bool = False,
    ) -> None:
        cfg, dialect, _ = placed_layers(network)
        heads = [node.layer for node in network.outputs]
        if not heads or not all(isinstance(head, (Head, Detection)) for head in heads):
            raise ArgumentError(f"{network!r} is no detector")
        if not len(photos):
            raise ArgumentError("there are no photos to train on")
        self.network = network
        self.cfg: Cfg = cfg
        self.seed = seed
        self.regime = regime or regime_of(cfg, dialect, seed)
        self.drawer = Drawer(photos, how or augmentation_of(cfg, dialect), seed)
        self.most = max(head.most for head in heads)
        self.seen = int(network.metadata[KEY]["seen"])
        self.average: float | None = None
        self.averaged: dict[str, np.ndarray] | None = None
        network.compile(self.regime.optimizer, losses_of(network, darknet_gradients))
        done = np.asarray(self.batches, np.int64)
        network.optimizer_state["steps"] = SharedVariable(done, TensorType("int64", ()), "steps")

    @property
    def batches(self) -> int:
        """Steps so far, those before this training included."""
        return self.seen // self.regime.batch

    @property
    def learning_rate(self) -> float:
        """Of the next step."""
        return self.regime.optimizer.learning_rate.rate(self.batches)

    def size(self) -> tuple[int, int]:
        """Height and width of the next batch's images: the cfg's, or with random=1 every ten batches others, multiples
        of 32 between 1 / 1.4 and 1.4 times as large."""
        height, width = self.cfg.net.whole("height"), self.cfg.net.whole("width")
        spread = max((s.real("random", 0.0) for s in self.cfg.layers), default=0.0)
        if not spread or None not in self.network.inputs[0].output.shape:
            return height, width
        factor = 1.4 if spread == 1 else max(spread, 1.0)
        rng = np.random.default_rng((self.seed, self.batches // SAME_SIZE, SIZE_STEP))
        scale = rng.uniform(1 / factor, factor)
        return tuple(max(SIZE_STEP, round(n * scale / SIZE_STEP) * SIZE_STEP) for n in (height, width))

    def step(self) -> float:
        """One batch: its cost before the update."""
        count, parts = self.regime.batch, self.regime.subdivisions
        size = self.size()
        if parts == 1:
            images, truths = self._batch(self.seen, count, size)
            cost = self.network.train_on_batch(images, self._targets(truths))
            cost = cost[0] if isinstance(cost, tuple) else cost
        else:
            cost = self._divided(count, parts, size)
        if not math.isfinite(cost):
            raise NonFiniteError(
                f"the cost became {cost} in batch {self.batches}: lower learning_rate in the cfg, or raise burn_in"
            )
        self.seen += count
        self.average = cost if self.average is None else 0.9 * self.average + 0.1 * cost
        if self.regime.average:
            self._follow()
        return cost

    def _batch(self, first: int, count: int, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        images, truths = self.drawer.batch(first, count, size, self.most)
        channels = self.network.inputs[0].output.shape[2]
        if channels == 1:
            images = images @ np.array([[0.299], [0.587], [0.114]], np.float32)
        return images, truths

    def _targets(self, truths: np.ndarray) -> Any:
        outputs = len(self.network.outputs)
        return truths if outputs == 1 else [truths] * outputs

    def _divided(self, count: int, parts: int, size: tuple[int, int]) -> float:
        """A batch in parts: the mean of their gradients, weighted by their sizes, is the batch's."""
        total: dict[str, np.ndarray] = {}
        cost, edges = 0.0, np.linspace(0, count, parts + 1).astype(int)
        for start, stop in zip(edges, edges[1:]):
            images, truths = self._batch(self.seen + start, stop - start, size)
            part, gradients = self.network.gradient(images, self._targets(truths))
            share = (stop - start) / count
            cost += share * part
            for name, g in gradients.items():
                total[name] = total[name] + share * g if name in total else share * g
        if math.isfinite(cost):
            self.network.apply_gradients(total)
        return cost

    def _follow(self) -> None:
        """The running average of the weights takes in the new ones."""
        alpha, values = self.regime.average, self.network.get_values()
        if self.averaged is None:
            self.averaged = values
        for name, value in values.items():
            self.averaged[name] = (alpha * self.averaged[name] + (1 - alpha) * value).astype(value.dtype)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        """Step until max_batches: (number of the step from 1, cost)."""
        while not self.regime.max_batches or self.batches < self.regime.max_batches:
            cost = self.step()
            yield self.batches, cost

    def save(self, path: str | Path, averaged: bool = False) -> None:
        """Write a weights file with the count of images seen, from which training goes on.

        Args:
            averaged: write the running average of the weights (ema_alpha) instead.
        """
        if averaged and self.averaged is None:
            raise ArgumentError("there is no running average: the cfg has no ema_alpha, or no step was made")
        self.network.metadata[KEY]["seen"] = self.seen
        if not averaged:
            return to_darknet(self.network, weights=path, seen=self.seen)
        now = self.network.get_values()
        self.network.set_values(self.averaged)
        try:
            to_darknet(self.network, weights=path, seen=self.seen)
        finally:
            self.network.set_values(now)


def anchors_of(sizes: np.ndarray, count: int, seed: int = 0, rounds: int = 100) -> np.ndarray:
    """Anchors for boxes of these sizes: k-means with 1 - IoU as distance (Redmon and Farhadi 2017, section 2).

    Args:
        sizes: (boxes, 2) widths and heights.
        count: how many anchors.

    Returns:
        (count, 2), smallest area first.
    """
    sizes = np.asarray(sizes, np.float64).reshape(-1, 2)
    if len(sizes) < count or not (sizes > 0).all():
        raise ArgumentError(f"{count} anchors need as many boxes of positive size, got {len(sizes)}")
    rng = np.random.default_rng(seed)
    centres = sizes[rng.choice(len(sizes), 1)]
    while len(centres) < count:  # k-means++: far ones are likelier
        distance = 1 - _likeness(sizes, centres).max(axis=1)
        weights = distance + 1e-12
        centres = np.concatenate([centres, sizes[rng.choice(len(sizes), 1, p=weights / weights.sum())]])
    for _ in range(rounds):
        nearest = _likeness(sizes, centres).argmax(axis=1)
        moved = np.array([np.median(sizes[nearest == k], axis=0) if (nearest == k).any() else centres[k]
                          for k in range(count)])  # fmt: skip
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres[np.argsort(centres.prod(axis=1), kind="stable")]


def _likeness(sizes: np.ndarray, centres: np.ndarray) -> np.ndarray:
    common = np.minimum(sizes[:, None], centres).prod(-1)
    return common / (sizes.prod(-1)[:, None] + centres.prod(-1) - common)


def images_and_truths(photos: Photos, size: tuple[int, int, int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """All photos as a network takes them, unchanged but for their size, and their boxes."""
    ready = [prepared(photos.photo(i), *size)[0] for i in range(len(photos))]
    return np.stack(ready), [photos.boxes(i) for i in range(len(photos))]
