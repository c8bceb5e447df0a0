"""Image files in: decoding and resizing are Pillow's."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FileAccessError, FormatError, MissingPackageError

if TYPE_CHECKING:
    from PIL.Image import Image

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
