"""Photos in, objects out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentTypeError, FileAccessError, FormatError, MissingPackageError
from ..nn.layers.detection import Detection, Head, Yolo
from ..nn.network import Network
from .augmentation import letterboxes
from .images import SUFFIXES, as_photo, prepared
from .network import placed_layers
from .suppression import Found, suppress

VIDEOS = {".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg"}


@dataclass(frozen=True)
class Detector:
    """A network whose outputs are heads, with what is done before and after it.

    Args:
        network: from `from_darknet`.
        threshold: scores up to it don't count.
        iou_threshold: boxes of one class that overlap more are one object.
        letterbox: keep the photo's proportions, on grey; else it is stretched. By default as the fork does: pjreddie's
            keeps them, AlexeyAB's with letter_box=1.
        kind, beta: of the suppression; by default what the heads ask for.

    Example:
        detector = Detector(Network.from_darknet("yolov3-tiny.cfg", "yolov3-tiny.weights"))
        for found in detector("street.jpg"):
            print(found.label, found.score, found.box)
    """

    network: Network
    threshold: float = 0.5
    iou_threshold: float = 0.45
    letterbox: bool | None = None
    kind: str | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        heads = [node.layer for node in self.network.outputs]
        if not all(isinstance(head, (Head, Detection)) for head in heads):
            raise ArgumentTypeError(f"{self.network!r} is no detector: its outputs are {', '.join(map(_name, heads))}")
        if self.letterbox is None:
            cfg, dialect, _ = placed_layers(self.network)
            object.__setattr__(self, "letterbox", letterboxes(cfg, dialect))
        yolo = next((head for head in heads if isinstance(head, Yolo)), None)
        object.__setattr__(self, "kind", self.kind or (yolo.nms if yolo else "default"))
        object.__setattr__(self, "beta", self.beta or (yolo.nms_beta if yolo else 0.6))

    @property
    def size(self) -> tuple[int, int, int]:
        """(height, width, channels) of what goes in."""
        return self.network.inputs[0].output.shape

    @property
    def classes(self) -> int:
        return self.network.outputs[0].layer.classes

    def __call__(self, image: Any) -> list[Found]:
        """The objects in one image (a path or an array), the surest first, with boxes as fractions of it."""
        return self.all([image])[0]

    def all(self, images: Sequence[Any]) -> list[list[Found]]:
        """The objects in each of several images."""
        ready = [prepared(as_photo(image), *self.size, self.letterbox) for image in images]
        if not ready:
            return []
        rows = self.network.predict(np.stack([image for image, _ in ready]))
        found = suppress(
            rows if isinstance(rows, list) else [rows], self.threshold, self.iou_threshold, self.kind, self.beta
        )
        return [[_placed(one, place) for one in objects] for objects, (_, place) in zip(found, ready)]


def _name(layer: Any) -> str:
    return type(layer).__name__


def _placed(one: Found, place: tuple[float, float, float, float]) -> Found:
    """An object found in a letterboxed image, in the photo's own fractions."""
    left, top, width, height = place
    x, y, w, h = one.box
    return replace(one, box=((x - left) / width, (y - top) / height, w / width, h / height))


def as_json(found: Sequence[Found], names: Sequence[str], height: int, width: int) -> list[dict[str, Any]]:
    """Objects as JSON values: class, score, and the box in fractions and in pixels."""
    return [
        {
            "class": one.label,
            "name": names[one.label] if one.label < len(names) else str(one.label),
            "score": round(one.score, 6),
            "objectness": round(one.objectness, 6),
            "box": dict(zip(("x", "y", "width", "height"), (round(v, 6) for v in one.box))),
            "pixels": {
                "left": round((one.box[0] - one.box[2] / 2) * width, 1),
                "top": round((one.box[1] - one.box[3] / 2) * height, 1),
                "width": round(one.box[2] * width, 1),
                "height": round(one.box[3] * height, 1),
            },
        }
        for one in found
    ]


def frames_of(source: str | Path) -> tuple[int | None, Iterable[tuple[str, Any]]]:
    """How many images a photo, a folder, a list (.txt) or a video holds, if that is known, and each with a name."""
    path = Path(source)
    if path.is_dir():
        images = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
        if not images:
            raise FileAccessError(f"the folder {path} holds no images ({', '.join(sorted(SUFFIXES))})")
        return len(images), [(p.stem, p) for p in images]
    if not path.exists():
        raise FileAccessError(f"there is no file {path}")
    if path.suffix.lower() == ".txt":
        from .files import read_list

        images = read_list(path)
        return len(images), [(p.stem, p) for p in images]
    if path.suffix.lower() in VIDEOS:
        return video_frames(path)
    if path.suffix.lower() == ".gif":
        return animation_frames(path)
    return 1, [(path.stem, path)]


def animation_frames(path: Path) -> tuple[int, Iterator[tuple[str, np.ndarray]]]:
    """The frames of an animated GIF."""
    from PIL import ImageSequence

    from .images import pillow

    try:
        image = pillow().open(path)
        count = getattr(image, "n_frames", 1)
    except OSError as error:
        raise FormatError(f"{path} is no whole image: {error}") from None
    frames = (np.array(frame.convert("RGB")) for frame in ImageSequence.Iterator(image))
    return count, ((f"{path.stem}-{i:05d}", frame) for i, frame in enumerate(frames))


def video_frames(path: Path) -> tuple[int | None, Iterator[tuple[str, np.ndarray]]]:
    """The frames of a video file. Needs OpenCV."""
    try:
        import cv2
    except ImportError:
        raise MissingPackageError("videos need OpenCV: pip install opencv-python-headless") from None
    video = cv2.VideoCapture(str(path))
    if not video.isOpened():
        raise FormatError(f"{path} is no video that OpenCV can read")
    count = int(video.get(cv2.CAP_PROP_FRAME_COUNT))

    def frames() -> Iterator[tuple[str, np.ndarray]]:
        i = 0
        while True:
            there, frame = video.read()
            if not there:
                return
            yield f"{path.stem}-{i:05d}", np.ascontiguousarray(frame[:, :, ::-1])
            i += 1

    return (count if count > 0 else None), frames()
