"""`pullback map`: a detector held against labelled images."""

from argparse import Namespace

import numpy as np

from ..darknet.detector import Detector
from ..darknet.evaluation import Evaluation, evaluate, plot_curves
from ..darknet.files import DataFile, label_path, read_data, read_labels, read_list, read_names
from ..errors import ArgumentError
from .detect import BATCH, make_detector


def run(options: Namespace) -> None:
    """Print average precision per class, mAP, precision and recall."""
    data = read_data(options.data)
    if data.valid is None:
        raise ArgumentError(f"{options.data} names no list of images: add a line `valid = images.txt`")
    names = read_names(options.names) if options.names else data.names
    detector = make_detector(options, options.weights)
    if detector.classes != data.classes:
        raise ArgumentError(f"{options.data} has {data.classes} classes, the network {detector.classes}")
    result = measure(detector, data, options.iou, options.points)
    print_evaluation(result, names)
    if options.plot:
        plot_curves(result, names, options.plot)
        print(f"Wrote {options.plot}")


def measure(detector: Detector, data: DataFile, iou_threshold: float, points: int) -> Evaluation:
    """The detector held against the images that a .data file lists as `valid`."""
    from rich.progress import track

    images = read_list(data.valid)
    truths = [read_labels(label_path(image), data.classes) for image in images]
    found = []
    for start in track(range(0, len(images), BATCH), "detecting"):
        found += detector.all(images[start : start + BATCH])
    difficult = None
    if data.difficult is not None:
        hard = [read_labels(label_path(image), data.classes) for image in read_list(data.difficult)]
        difficult = [_listed(boxes, others) for boxes, others in zip(truths, hard)]
    return evaluate(
        found, truths, data.classes, iou_threshold=iou_threshold, points=points, difficult=difficult
    )


def _listed(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of the boxes are among the others."""
    return np.array([any(np.allclose(box, other, atol=1e-4) for other in others) for box in boxes], bool)


def print_evaluation(result: Evaluation, names: tuple[str, ...]) -> None:
    """Average precision per class, and what concerns all."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("class", "truths", "detections", "average precision"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for name, curve in zip(names, result.curves):
        table.add_row(name, str(curve.truths), str(len(curve.scores)), f"{curve.average_precision:.4f}")
    Console(highlight=False).print(table)
    print(
        f"mAP {result.mean_average_precision:.4f}; at scores from {result.threshold}: "
        f"precision {result.precision:.3f}, recall {result.recall:.3f}, F1 {result.f1:.3f}, "
        f"mean IoU {result.mean_overlap:.3f}"
    )
