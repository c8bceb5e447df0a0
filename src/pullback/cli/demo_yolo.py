"""`pullback demo yolo`: a detector of digits, trained from nothing on real digits set into real photos."""

import time
from argparse import Namespace
from importlib.resources import as_file, files
from typing import Any

import numpy as np

from ..darknet import evaluate
from ..darknet.augmentation import Augmentation
from ..darknet.detector import Detector
from ..darknet.evaluation import plot_curves
from ..darknet.images import annotated, pillow, write_image
from ..darknet.training import Trainer, anchors_of
from ..data import mnist5k, split
from ..nn import Network
from .demo import make_folder
from .demo_detect import photo_of
from .map import print_evaluation

SIDE = 96
HELD_BACK = 400  # images
SHOWN = 6
TRAINING_PHOTOS = ("astronaut", "chelsea", "coffee", "rocket", "retina", "motorcycle_left")
HELD_BACK_PHOTOS = ("camera", "immunohistochemistry", "motorcycle_right", "coins")


class DigitsOnPhotos:
    """Image number i: a random part of a photo with one to four digits of random size and colour.

    Args:
        digits, labels: (n, 28, 28, 1) with ink from 0 to 1, and what they are.
        photos: names of scikit-image's.
        seed: of the images.
        count: how many images there are.
    """

    def __init__(self, digits: np.ndarray, labels: np.ndarray, photos: list[np.ndarray], seed: int, count: int) -> None:
        self.digits, self.labels, self.photos = digits[..., 0], labels, photos
        self.seed, self.count = seed, count

    def __len__(self) -> int:
        return self.count

    def photo(self, i: int) -> np.ndarray:
        return self._drawn(i)[0]

    def boxes(self, i: int) -> np.ndarray:
        return self._drawn(i)[1]

    def _drawn(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        if getattr(self, "_last", (None,))[0] != i:
            self._last = (i, self._draw(i))
        return self._last[1]

    def _draw(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng((self.seed, i))
        photo = self.photos[int(rng.integers(len(self.photos)))]
        scale = rng.uniform(1.0, 3.0)
        side = min(int(SIDE * scale), *photo.shape[:2])
        top, left = (int(rng.integers(0, n - side + 1)) for n in photo.shape[:2])
        part = pillow().fromarray(photo[top : top + side, left : left + side])
        canvas = np.asarray(part.resize((SIDE, SIDE)), np.float32).copy()
        taken: list[tuple[int, int, int, int]] = []
        boxes = []
        for _ in range(int(rng.integers(1, 5))):
            number = int(rng.integers(len(self.digits)))
            placed = self._place(canvas, self.digits[number], taken, rng)
            if placed is not None:
                boxes.append((self.labels[number], *placed))
        return (canvas + 0.5).astype(np.uint8), np.array(boxes, np.float32).reshape(-1, 5)

    def _place(
        self, canvas: np.ndarray, digit: np.ndarray, taken: list[tuple[int, int, int, int]], rng: np.random.Generator
    ) -> tuple[float, float, float, float] | None:
        """Draw a digit where there is room; its box as fractions."""
        size = int(rng.integers(34, 57))
        ink = np.asarray(pillow().fromarray((digit * 255).astype(np.uint8)).resize((size, size)), np.float32) / 255
        rows, columns = np.flatnonzero(ink.max(1) > 0.3), np.flatnonzero(ink.max(0) > 0.3)
        ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        height, width = ink.shape
        for _ in range(10):
            top, left = int(rng.integers(0, SIDE - height + 1)), int(rng.integers(0, SIDE - width + 1))
            if all(
                left >= r or left + width <= x or top >= b or top + height <= y for x, y, r, b in taken
            ):
                break
        else:
            return None
        taken.append((left, top, left + width, top + height))
        part = canvas[top : top + height, left : left + width]
        colour = _standing_out(part.mean((0, 1)), rng)
        part += ink[:, :, None] * (colour - part)
        return (left + width / 2) / SIDE, (top + height / 2) / SIDE, width / SIDE, height / SIDE


def _standing_out(ground: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A colour that can be told from the ground's."""
    while True:
        colour = rng.uniform(0, 255, 3)
        if abs(colour.mean() - ground.mean()) > 90:
            return colour.astype(np.float32)


def photos_of(names: tuple[str, ...]) -> list[np.ndarray]:
    """Photos of scikit-image's as RGB."""
    found = []
    for name in names:
        photo: Any = photo_of("stereo_motorcycle") if name.startswith("motorcycle") else photo_of(name)
        if isinstance(photo, tuple):
            photo = photo[0 if name.endswith("left") else 1]
        found.append(np.repeat(photo[:, :, None], 3, 2) if photo.ndim == 2 else photo[:, :, :3])
    return found


def run(options: Namespace) -> None:
    """Train, measure on digits and photos that training never saw, and write weights, curves and pictures."""
    from rich.progress import Progress

    folder = make_folder(options.output)
    X, y = mnist5k()
    (X, X_test), (y, y_test) = split(X, y, held_back=1000, stratify=y, seed=options.seed)
    training = DigitsOnPhotos(X, y, photos_of(TRAINING_PHOTOS), options.seed, 100_000)
    held_back = DigitsOnPhotos(X_test, y_test, photos_of(HELD_BACK_PHOTOS), options.seed + 1, HELD_BACK)
    with as_file(files("pullback.darknet") / "models" / "digits.cfg") as path:
        network = Network.from_darknet(path, seed=options.seed, name="digits on photos")
    network.summary()
    sizes = np.concatenate([training.boxes(i)[:, 3:] for i in range(300)]) * SIDE
    print("Anchors by k-means of 300 images:", ", ".join(f"{w:.0f} x {h:.0f}" for w, h in anchors_of(sizes, 3)))

    trainer = Trainer(network, training, seed=options.seed, how=Augmentation(flip=False))
    begin = time.perf_counter()
    with Progress() as progress:
        task = progress.add_task("training", total=trainer.regime.max_batches)
        for batch, cost in trainer:
            progress.update(task, completed=batch, description=f"cost {trainer.average:.2f}")
            if batch % 100 == 0:
                print(f"batch {batch}: cost {cost:.3f}, average {trainer.average:.3f}, "
                      f"{time.perf_counter() - begin:.0f} s")  # fmt: skip
    seconds = time.perf_counter() - begin
    trainer.save(folder / "digits.weights")

    detector = Detector(network, threshold=0.005)
    photos = [held_back.photo(i) for i in range(HELD_BACK)]
    truths = [held_back.boxes(i) for i in range(HELD_BACK)]
    result = evaluate(detector.all(photos), truths, 10)
    names = tuple(map(str, range(10)))
    print_evaluation(result, names)
    plot_curves(result, names, folder / "precision-recall.png")
    sure = Detector(network, threshold=0.4)
    for i, found in enumerate(sure.all(photos[:SHOWN])):
        large = np.asarray(pillow().fromarray(photos[i]).resize((4 * SIDE, 4 * SIDE)))
        write_image(annotated(large, found, names), folder / f"digits-{i}.png")
    print(
        f"Wrote {folder / 'digits.weights'}, precision-recall.png and digits-0.png to digits-{SHOWN - 1}.png.\n"
        f"mAP@0.5 {result.mean_average_precision:.4f} on {HELD_BACK} images of digits and photos not seen in training, "
        f"after {seconds:.0f} s of training ({trainer.seen:,} images)."
    )
