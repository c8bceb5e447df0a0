"""Darknet's small text files: .data, .names, lists of images, and labels of boxes."""

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import FileAccessError, FormatError, nearest
from .cfg import CfgWarning

DATA_KEYS = (
    "classes train valid names labels backup top eval results map tree difficult num paths leaderboard".split()
)
SMALLEST = 0.001  # boxes below this width or height are dropped, as Darknet does
FOLDERS = ("images", "JPEGImages", "raw")


def read_lines(path: str | Path) -> list[str]:
    """The lines of a text file, without line ends and blanks around them; LF or CRLF."""
    try:
        return [line.strip() for line in Path(path).read_text("utf-8-sig", "replace").splitlines()]
    except (OSError, ValueError) as error:
        raise FileAccessError(f"can't read {path}: {getattr(error, 'strerror', None) or error}") from None


@dataclass(frozen=True)
class DataFile:
    """What a .data file says, with its paths seen from the current folder or else from that of the file.

    Attributes:
        classes: how many.
        train, valid: lists of images; None where they aren't named.
        names: of the classes; numbers where no file is named.
        backup: where weights are written.
        difficult: a list of images whose labels hold the difficult boxes.
    """

    classes: int
    train: Path | None
    valid: Path | None
    names: tuple[str, ...]
    backup: Path
    difficult: Path | None = None


def read_data(path: str | Path) -> DataFile:
    """A .data file: `key = value` lines; blanks, comments and blank lines don't matter.

    Raises:
        FileAccessError, FormatError: it can't be read; a line isn't `key = value`, or the number of names isn't that of
            classes.
    """
    path = Path(path)
    found: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        line = re.split("[#;]", line)[0].strip()
        if not line:
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            raise FormatError(f"{path}: line {number}: {line!r} is not key = value")
        if key not in DATA_KEYS:
            warnings.warn(f"{path}: line {number}: unknown key {key!r}. {nearest(key, DATA_KEYS)}", CfgWarning,
                          stacklevel=2)  # fmt: skip
        found.setdefault(key, value)

    def place(key: str) -> Path | None:
        if not found.get(key):
            return None
        given = Path(found[key])
        return given if given.is_absolute() or given.exists() else path.parent / given

    listed = place("names") or place("labels")
    names = read_names(listed) if listed else None
    text = found.get("classes", str(len(names)) if names else "")
    if not re.fullmatch("[0-9]{1,6}", text) or int(text) < 1:
        raise FormatError(f"{path}: classes={text!r}; expected a whole number from 1 up")
    classes = int(text)
    if names is None:
        names = tuple(map(str, range(classes)))
    if len(names) < classes:
        raise FormatError(f"{path}: classes={classes}, but {listed} holds {len(names)} names")
    backup = found.get("backup") or "backup"
    return DataFile(classes, place("train"), place("valid"), names[:classes], Path(backup), place("difficult"))


def read_names(path: str | Path) -> tuple[str, ...]:
    """One name per line; blank lines at the end don't count."""
    lines = read_lines(path)
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise FormatError(f"{path} holds no names")
    return tuple(lines)


def read_list(path: str | Path) -> list[Path]:
    """The images that a list names, one per line, seen from the current folder or else from the list's."""
    base = Path(path).parent
    images = []
    for line in read_lines(path):
        if line:
            image = Path(line)
            images.append(image if image.is_absolute() or image.exists() else base / image)
    if not images:
        raise FormatError(f"{path} names no images")
    return images


def label_path(image: str | Path) -> Path:
    """Where an image's labels are: in the folder `labels` in place of the last `images` (or JPEGImages, or raw) of its
    path, or beside it if there is none."""
    image = Path(image)
    parts = list(image.parts[:-1])
    for i in range(len(parts) - 1, -1, -1):
        if parts[i] in FOLDERS:
            parts[i] = "labels"
            break
    return Path(*parts, image.stem + ".txt")


def read_labels(path: str | Path, classes: int | None = None) -> np.ndarray:
    """The boxes in a label file, (boxes, 5): class, centre x and y, width and height as fractions of the image.

    Boxes narrower or lower than 0.001 are left out. A file without a line has no boxes.

    Args:
        classes: how many there are; a class beyond is refused.

    Raises:
        FileAccessError, FormatError: the file isn't there; a line isn't five numbers, or its box lies outside of the
            image.
    """
    boxes = []
    for number, line in enumerate(read_lines(path), 1):
        if not line:
            continue
        where = f"{path}: line {number}"
        try:
            label, *box = (float(word) for word in line.split())
        except ValueError:
            raise FormatError(f"{where}: {line!r}; expected class, x, y, width and height") from None
        if len(box) != 4 or not all(map(math.isfinite, (label, *box))):
            raise FormatError(f"{where}: {line!r}; expected class, x, y, width and height")
        if label != int(label) or label < 0 or (classes is not None and label >= classes):
            known = "" if classes is None else f" to {classes - 1}"
            raise FormatError(f"{where}: class {label:g}; expected a whole number from 0{known}")
        x, y, w, h = box
        if not (0 <= x <= 1 and 0 <= y <= 1 and 0 <= w <= 1.0001 and 0 <= h <= 1.0001):
            raise FormatError(f"{where}: the box {x:g}, {y:g}, {w:g}, {h:g} isn't within the image (fractions, 0 to 1)")
        if w >= SMALLEST and h >= SMALLEST:
            boxes.append((label, x, y, min(w, 1.0), min(h, 1.0)))
    return np.array(boxes, np.float32).reshape(-1, 5)


def padded(boxes: Sequence[np.ndarray], most: int | None = None) -> np.ndarray:
    """Boxes of several images as (images, truths, 5), rows of zeros behind them; `most` of them per image at most."""
    longest = max([1, *(len(b) for b in boxes)])
    count = longest if most is None else min(longest, most)
    array = np.zeros((len(boxes), count, 5), np.float32)
    for row, found in zip(array, boxes):
        row[: min(len(found), count)] = found[:count]
    return array
