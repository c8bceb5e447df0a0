"""Photos and their boxes changed at random for training, as Darknet does: moved, stretched, mirrored, recoloured,
mixed.

Everything is drawn from the generator that is handed in, so a sample is a function of its seed.
"""

from dataclasses import dataclass

import numpy as np

from .cfg import Cfg
from .dialects import Dialect
from .files import SMALLEST
from .images import GREY, pillow, resized

Sample = tuple[np.ndarray, np.ndarray]  # (height, width, 3) from 0 to 1; (boxes, 5) of class, x, y, w, h


@dataclass(frozen=True)
class Augmentation:
    """What may happen to a photo.

    Attributes:
        letterbox: keep the photo's proportions, on grey (pjreddie's Darknet); else it is stretched (AlexeyAB's).
        jitter: width and height change by up to this share before the photo is fitted in.
        flip: mirror half of the photos.
        hue: shift of the hue, as a share of the circle, up to this much either way.
        saturation, exposure: factors up to this much, or one over it.
        mosaic: put four photos together, half of the time.
        mixup: mix two photos, half of the time.
        smallest: boxes of which less than this share of either side is left are dropped.
    """

    letterbox: bool = True
    jitter: float = 0.0
    flip: bool = True
    hue: float = 0.0
    saturation: float = 1.0
    exposure: float = 1.0
    mosaic: bool = False
    mixup: bool = False
    smallest: float = SMALLEST


def augmentation_of(cfg: Cfg, dialect: Dialect) -> Augmentation:
    """What a cfg asks for: hue, saturation, exposure and mixing stand in [net], jitter in the heads."""
    net = cfg.net
    jitter = next((s.real("jitter", 0.2) for s in cfg.layers if "jitter" in s), 0.0)
    mixup = net.whole("mixup", 0, least=0)
    return Augmentation(
        letterbox=letterboxes(cfg, dialect),
        jitter=jitter,
        flip=net.flag("flip", True),
        hue=net.real("hue", 0.0),
        saturation=max(net.real("saturation", 1.0), 1e-3),
        exposure=max(net.real("exposure", 1.0), 1e-3),
        mosaic=net.flag("mosaic") or mixup == 3 or mixup == 4,
        mixup=mixup == 1 or mixup == 4,
    )


def letterboxes(cfg: Cfg, dialect: Dialect) -> bool:
    """Whether photos keep their proportions: always in pjreddie's Darknet, with letter_box=1 in AlexeyAB's."""
    return dialect.name == "pjreddie" or cfg.net.flag("letter_box")


def fitted(
    photo: np.ndarray, boxes: np.ndarray, size: tuple[int, int], how: Augmentation, rng: np.random.Generator
) -> Sample:
    """A photo of bytes, moved, stretched, mirrored and recoloured, as a network takes it."""
    height, width = size
    own_height, own_width = photo.shape[:2] if how.letterbox else size
    across, down = how.jitter * own_width, how.jitter * own_height
    ratio = (own_width + rng.uniform(-across, across)) / (own_height + rng.uniform(-down, down))
    if ratio < width / height:
        h, w = height, max(1, round(height * ratio))
    else:
        h, w = max(1, round(width / ratio)), width
    left, top = round(rng.uniform(0, width - w)), round(rng.uniform(0, height - h))
    canvas = np.full((height, width, 3), GREY, np.float32)
    coloured = recoloured(resized(photo, h, w), how, rng)
    canvas[top : top + h, left : left + w] = coloured * np.float32(1 / 255)
    moved = boxes.astype(np.float64)
    moved[:, 1:] *= (w / width, h / height, w / width, h / height)
    moved[:, 1:3] += (left / width, top / height)
    if how.flip and rng.random() < 0.5:
        canvas = canvas[:, ::-1]
        moved[:, 1] = 1 - moved[:, 1]
    return np.ascontiguousarray(canvas), clipped(moved, how.smallest)


def recoloured(photo: np.ndarray, how: Augmentation, rng: np.random.Generator) -> np.ndarray:
    """Bytes with hue, saturation and brightness changed."""
    shift = rng.uniform(-how.hue, how.hue)
    saturation, exposure = (_factor(v, rng) for v in (how.saturation, how.exposure))
    if shift == 0 and saturation == 1 and exposure == 1:
        return photo
    hsv = np.asarray(pillow().fromarray(photo).convert("HSV"), np.float32)
    h = (hsv[..., 0] + shift * 256) % 256
    s, v = np.minimum(hsv[..., 1] * saturation, 255), np.minimum(hsv[..., 2] * exposure, 255)
    changed = np.stack([h, s, v], axis=-1).astype(np.uint8)
    return np.asarray(pillow().fromarray(changed, mode="HSV").convert("RGB"))


def _factor(most: float, rng: np.random.Generator) -> float:
    """Between 1 and `most`, or one over that."""
    factor = rng.uniform(1.0, most) if most > 1 else rng.uniform(most, 1.0)
    return factor if rng.random() < 0.5 else 1.0 / factor


def clipped(boxes: np.ndarray, smallest: float = SMALLEST) -> np.ndarray:
    """Boxes cut off at the image's edge; those of which next to nothing is left are dropped."""
    low = np.clip(boxes[:, 1:3] - boxes[:, 3:] / 2, 0, 1)
    high = np.clip(boxes[:, 1:3] + boxes[:, 3:] / 2, 0, 1)
    left = high - low
    whole = np.maximum(boxes[:, 3:], 1e-12)
    stay = ((left / whole >= smallest) & (left >= SMALLEST)).all(axis=1)
    return np.concatenate([boxes[:, :1], (low + high) / 2, left], axis=1)[stay].astype(np.float32)


def mosaic(samples: list[Sample], rng: np.random.Generator, smallest: float = 0.2) -> Sample:
    """Four images round a random point: each gives the part that lies on its side."""
    height, width, _ = samples[0][0].shape
    row = int(rng.integers(height // 4, height - height // 4 + 1))
    column = int(rng.integers(width // 4, width - width // 4 + 1))
    canvas = np.empty_like(samples[0][0])
    every = []
    for number, (image, boxes) in enumerate(samples):
        rows = slice(0, row) if number < 2 else slice(row, height)
        columns = slice(0, column) if number % 2 == 0 else slice(column, width)
        canvas[rows, columns] = image[rows, columns]
        every.append(_cut_to(boxes, columns, rows, width, height, smallest))
    return canvas, np.concatenate(every)


def _cut_to(
    boxes: np.ndarray, columns: slice, rows: slice, width: int, height: int, smallest: float
) -> np.ndarray:
    """Boxes cut off at the edges of a part of the image."""
    low_edge = np.array([columns.start / width, rows.start / height])
    high_edge = np.array([columns.stop / width, rows.stop / height])
    low = np.clip(boxes[:, 1:3] - boxes[:, 3:] / 2, low_edge, high_edge)
    high = np.clip(boxes[:, 1:3] + boxes[:, 3:] / 2, low_edge, high_edge)
    left = high - low
    stay = ((left / np.maximum(boxes[:, 3:], 1e-12)) >= smallest).all(axis=1) & (left >= SMALLEST).all(axis=1)
    return np.concatenate([boxes[:, :1], (low + high) / 2, left], axis=1)[stay].astype(np.float32)


def mixup(a: Sample, b: Sample) -> Sample:
    """The mean of two images, with the boxes of both."""
    return 0.5 * (a[0] + b[0]), np.concatenate([a[1], b[1]])
