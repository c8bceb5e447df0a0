"""Images in folders, read when a batch needs them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, FileAccessError
from .photos import SUFFIXES, letterboxed, read_image, resized

FITS = ("stretch", "crop", "letterbox")
GREY_OF_RGB = np.array([[0.299], [0.587], [0.114]], np.float32)  # Rec. 601


class Images:
    """Image files as one array (images, height, width, channels) of float32 between 0 and 1. They are decoded when
    they are taken, and then kept as bytes.

    `fit`, `evaluate`, `predict` and `data.split` take it like any array. `images[i]` is an array, `images[2:9]` and
    `images[rows]` are Images, `np.asarray(images)` reads them all.

    Args:
        files: paths.
        size: (height, width) that they are brought to.
        channels: 3 for RGB, 1 for grey.
        fit: how: "stretch", "crop" the middle of what is scaled to cover it, or "letterbox" with grey bars.
        keep: whether decoded images stay in memory, as height * width * channels bytes each.

    Needs Pillow. Photos are turned as their EXIF says; transparent parts are white.
    """

    dtype = np.dtype("float32")
    ndim = 4

    def __init__(
        self, files: Sequence[str | Path], size: tuple[int, int], channels: int = 3, fit: str = "stretch",
        keep: bool = True,
    ) -> None:  # fmt: skip
        if fit not in FITS:
            raise ArgumentError(f"Images: fit={fit!r}; expected one of {FITS}")
        if channels not in (1, 3):
            raise ArgumentError(f"Images: channels={channels}; expected 1 (grey) or 3 (RGB)")
        if len(size) != 2 or min(size) < 1:
            raise ArgumentError(f"Images: size={size}; expected (height, width)")
        self.files = [Path(file) for file in files]
        self.fit, self.keep = fit, keep
        self._frame = (*map(int, size), channels)
        self._kept: dict[Path, np.ndarray] = {}

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (len(self.files), *self._frame)

    @property
    def size(self) -> int:
        return len(self.files) * self._frame[0] * self._frame[1] * self._frame[2]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            return self._read(self.files[key])
        rows = np.arange(len(self))[key]
        part = Images([self.files[i] for i in rows], self._frame[:2], self._frame[2], self.fit, self.keep)
        part._kept = self._kept
        return part

    def take(self, rows: Any, axis: int = 0) -> np.ndarray:
        """These images as an array."""
        rows = np.asarray(rows)
        taken = np.empty((len(rows), *self._frame), np.float32)
        for image, i in zip(taken, rows):
            image[...] = self._read(self.files[i])
        return taken

    def astype(self, dtype: Any, copy: bool = True) -> np.ndarray:
        """All of them as an array of that dtype."""
        return self.take(np.arange(len(self))).astype(dtype, copy=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.astype(dtype or self.dtype)

    def _read(self, file: Path) -> np.ndarray:
        found = self._kept.get(file)
        if found is None:
            found = self._decoded(file)
            if self.keep:
                self._kept[file] = found
        return found * np.float32(1 / 255)

    def _decoded(self, file: Path) -> np.ndarray:
        height, width, channels = self._frame
        photo = read_image(file)
        if self.fit == "letterbox":
            image = (letterboxed(photo, height, width)[0] * 255 + 0.5).astype(np.uint8)
        else:
            image = resized(photo if self.fit == "stretch" else middle(photo, height / width), height, width)
        return image if channels == 3 else (image @ GREY_OF_RGB + 0.5).astype(np.uint8)

    def __repr__(self) -> str:
        return f"<Images {self.shape}>"


def middle(photo: np.ndarray, ratio: float) -> np.ndarray:
    """The largest part round the centre whose height is so many times its width."""
    height, width = photo.shape[:2]
    h, w = min(height, max(1, round(width * ratio))), min(width, max(1, round(height / ratio)))
    top, left = (height - h) // 2, (width - w) // 2
    return photo[top : top + h, left : left + w]


def image_folder(
    folder: str | Path, size: tuple[int, int], channels: int = 3, fit: str = "stretch", keep: bool = True
) -> tuple[Images, np.ndarray, list[str]]:
    """Images that lie in one folder per class.

    Args:
        folder: holds a folder for each class, with image files in it or in folders below.
        size, channels, fit, keep: as in `Images`.

    Returns:
        The images, in order of class and path; their class numbers (int64); the classes' names, in alphabetical order.

    Raises:
        FileAccessError: there is no such folder, or it has no images in folders.
        FormatError: a file is no whole image; raised when the image is taken.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileAccessError(f"there is no folder {folder}")
    found = {
        sub.name: sorted(f for f in sub.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file())
        for sub in sorted(folder.iterdir())
        if sub.is_dir()
    }
    found = {name: files for name, files in found.items() if files}
    if not found:
        raise FileAccessError(f"{folder} has no folders with images in them ({', '.join(sorted(SUFFIXES))})")
    labels = np.repeat(np.arange(len(found)), [len(files) for files in found.values()])
    images = Images([file for files in found.values() for file in files], size, channels, fit, keep)
    return images, labels, list(found)
