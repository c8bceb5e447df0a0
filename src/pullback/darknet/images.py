"""Photos in and out: decoding, resizing and drawing are Pillow's."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, FileAccessError, FormatError, MissingPackageError, ShapeError

if TYPE_CHECKING:
    from PIL.Image import Image

    from .suppression import Found

GREY = 0.5  # of the bars beside a letterboxed image
SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
MOST_PIXELS = 200_000_000


def pillow() -> Any:
    """The module PIL.Image."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingPackageError("images need Pillow: pip install 'pullback[data]'") from None
    return Image


def read_image(path: str | Path) -> np.ndarray:
    """An image file as (height, width, 3) bytes, RGB: turned as its EXIF says, transparent parts on white, 16-bit
    brightness scaled to 8.

    Raises:
        FileAccessError, FormatError: there is no such file; it is no image, or a damaged one.
    """
    module = pillow()
    try:
        with open(path, "rb") as file:
            return _decoded(module.open(file), str(path))
    except FileNotFoundError:
        raise FileAccessError(f"there is no file {path}") from None
    except (FileAccessError, FormatError):
        raise
    except OSError as error:
        if error.errno:
            raise FileAccessError(f"can't read {path}: {error.strerror}") from None
        raise FormatError(f"{path} is no whole image: {error}") from None
    except Exception as error:  # Pillow's decoders raise all kinds on damaged files
        raise FormatError(f"{path} is no whole image: {type(error).__name__}: {error}") from None


def _decoded(image: "Image", name: str) -> np.ndarray:
    from PIL import ImageOps

    if image.width * image.height > MOST_PIXELS:
        raise FormatError(f"{name} has {image.width} x {image.height} pixels: more than {MOST_PIXELS:,}")
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):
        wide = np.asarray(image, np.float64)
        top = 65535.0 if image.mode.startswith("I;16") or wide.max(initial=0) > 255 else 255.0
        grey = np.clip(wide * (255.0 / top) + 0.5, 0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        below = pillow().new("RGBA", image.size, (255, 255, 255, 255))
        image = pillow().alpha_composite(below, image)
    return np.array(image.convert("RGB"))


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


def resized(photo: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bytes (height, width, 3), bilinear."""
    if photo.shape[:2] == (height, width):
        return photo
    module = pillow()
    bilinear = module.Resampling.BILINEAR
    return np.asarray(module.fromarray(photo).resize((width, height), bilinear, reducing_gap=None))


def letterboxed(photo: np.ndarray, height: int, width: int) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    """The photo scaled to fit and set in the middle of grey, as numbers from 0 to 1; and where it lies: left, top,
    width and height as fractions."""
    scale = min(height / photo.shape[0], width / photo.shape[1])
    h = min(height, max(1, round(photo.shape[0] * scale)))
    w = min(width, max(1, round(photo.shape[1] * scale)))
    top, left = (height - h) // 2, (width - w) // 2
    canvas = np.full((height, width, 3), GREY, np.float32)
    canvas[top : top + h, left : left + w] = resized(photo, h, w) / np.float32(255)
    return canvas, (left / width, top / height, w / width, h / height)


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
