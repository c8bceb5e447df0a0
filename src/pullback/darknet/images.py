"""Photos as networks take them, and with boxes drawn on them; drawing is Pillow's."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.photos import GREY, SUFFIXES, letterboxed, pillow, read_image, resized
from ..errors import ArgumentError, FileAccessError, ShapeError

if TYPE_CHECKING:
    from PIL.Image import Image

    from .suppression import Found

__all__ = [
    "GREY", "SUFFIXES", "annotated", "as_photo", "letterboxed", "pillow", "prepared", "read_image", "resized",
    "write_image",
]  # fmt: skip


def as_photo(image: Any) -> np.ndarray:
    """(height, width, 3) bytes of an image: a path, or an array of bytes or of numbers from 0 to 1, grey, RGB or
    RGBA."""
    if isinstance(image, (str, Path)):
        return read_image(image)
    array = np.asarray(image)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise ShapeError(f"an image has shape {array.shape}; expected (height, width) and 1, 3 or 4 channels")
    if array.dtype == np.uint16:
        array = (array // 257).astype(np.uint8)
    elif array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise ArgumentError("an image of floats must lie between 0 and 1")
        array = (array * 255 + 0.5).astype(np.uint8)
    elif array.dtype != np.uint8:
        raise ArgumentError(f"an image holds {array.dtype}; expected bytes, or floats from 0 to 1")
    if array.shape[2] == 4:
        share = array[:, :, 3:].astype(np.float64) / 255
        return (array[:, :, :3] * share + 255 * (1 - share) + 0.5).astype(np.uint8)
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array


def prepared(
    photo: np.ndarray, height: int, width: int, channels: int = 3, letterbox: bool = False
) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    """A photo as a network takes it, (height, width, channels) between 0 and 1, and where in it the photo lies."""
    if letterbox:
        image, place = letterboxed(photo, height, width)
    else:
        image, place = resized(photo, height, width) / np.float32(255), (0.0, 0.0, 1.0, 1.0)
    if channels == 1:
        image = image @ np.array([[0.299], [0.587], [0.114]], np.float32)
    elif channels != 3:
        raise ShapeError(f"the network takes {channels} channels; photos have 1 or 3")
    return image, place


COLOURS = [
    (230, 57, 70), (42, 157, 143), (69, 123, 157), (244, 162, 97), (131, 56, 236), (58, 134, 255), (255, 190, 11),
    (6, 214, 160), (239, 71, 111), (17, 138, 178),
]  # fmt: skip


def annotated(photo: np.ndarray, found: Sequence["Found"], names: Sequence[str]) -> "Image":
    """The photo with a labelled box round every object."""
    from PIL import ImageDraw, ImageFont

    image = pillow().fromarray(photo)
    draw = ImageDraw.Draw(image)
    height, width = photo.shape[:2]
    line = max(1, round(min(height, width) / 200))
    font = ImageFont.load_default(size=max(10, round(min(height, width) / 32)))
    for one in reversed(found):
        x, y, w, h = one.box
        left, top = max(0.0, (x - w / 2) * width), max(0.0, (y - h / 2) * height)
        right, bottom = min(width - 1.0, (x + w / 2) * width), min(height - 1.0, (y + h / 2) * height)
        if right < left or bottom < top:
            continue
        colour = COLOURS[one.label % len(COLOURS)]
        draw.rectangle((left, top, right, bottom), outline=colour, width=line)
        text = f"{names[one.label] if one.label < len(names) else one.label} {one.score:.0%}"
        box = draw.textbbox((left, top), text, font=font)
        above = min(top, box[3] - box[1] + 4)
        area = (box[0], box[1] - above, box[2] + 4, box[3] - above + 4)
        draw.rectangle(area, fill=colour)
        draw.text((left + 2, top - above + 1), text, fill=(255, 255, 255), font=font)
    return image


def write_image(image: "Image", path: str | Path) -> None:
    """Write a picture; the suffix says in which format."""
    try:
        image.save(path)
    except (OSError, ValueError) as error:
        raise FileAccessError(f"can't write {path}: {error}") from None
