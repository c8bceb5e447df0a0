"""`pullback detect`: objects in photos, a folder of them, or a video."""

import json
import time
from argparse import Namespace
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from ..darknet.detector import Detector, as_json, frames_of
from ..darknet.files import read_names
from ..darknet.images import annotated, as_photo, write_image
from ..errors import ArgumentError, FileAccessError
from ..nn.checkpoint import write_file
from .sources import find_network

BATCH = 8


def run(options: Namespace) -> None:
    """Draw boxes on every image and write what was found as JSON."""
    weights, source = weights_and_source(options.rest)
    detector = make_detector(options, weights)
    names = read_names(options.names) if options.names else class_names(detector)
    count, frames = frames_of(source)
    folder = Path(options.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileAccessError(f"can't write into {folder}: {error.strerror}") from None
    results = detect_all(detector, frames, count, names, folder)
    path = folder / f"{Path(source).stem}-detections.json"
    write_file(path, (json.dumps(results, indent=1) + "\n").encode())
    print(f"Wrote {path}")


def weights_and_source(rest: list[str]) -> tuple[str | None, str]:
    """The optional weights file, and what to look at."""
    if len(rest) > 2:
        raise ArgumentError(f"expected weights and one photo, folder or video, got {rest}")
    return (rest[0] if len(rest) == 2 else None), rest[-1]


def make_detector(options: Namespace, weights: str | None) -> Detector:
    """The detector that the command line describes."""
    if options.model.endswith(".cfg") and weights is None:
        raise ArgumentError(f"{options.model} needs its weights: give the .weights file after it")
    network = find_network(options.model, weights, options.dialect)
    return Detector(network, options.threshold, options.nms, options.letterbox)


def class_names(detector: Detector) -> tuple[str, ...]:
    """Numbers, where no names are given."""
    return tuple(map(str, range(detector.classes)))


def detect_all(
    detector: Detector, frames: Iterable[tuple[str, Any]], count: int | None, names: tuple[str, ...], folder: Path
) -> list[dict[str, Any]]:
    """Detect, draw and write image by image, with a progress bar where there are several."""
    from rich.progress import Progress

    results, frames = [], iter(frames)
    begin = time.perf_counter()
    with Progress(disable=count == 1) as progress:
        task = progress.add_task("detecting", total=count)
        while batch := list(islice(frames, BATCH)):
            photos = [as_photo(image) for _, image in batch]
            for (name, _), photo, found in zip(batch, photos, detector.all(photos)):
                drawn = folder / f"{name}-detections.png"
                write_image(annotated(photo, found, names), drawn)
                results.append({"image": name, "objects": as_json(found, names, *photo.shape[:2])})
                text = ", ".join(f"{names[o.label] if o.label < len(names) else o.label} {o.score:.0%}" for o in found)
                progress.console.print(f"{name}: {text or 'nothing'} -> {drawn}", highlight=False, markup=False)
            progress.advance(task, len(batch))
    seconds = time.perf_counter() - begin
    print(f"{len(results)} images in {seconds:.2f} s, {sum(len(r['objects']) for r in results)} objects")
    return results
