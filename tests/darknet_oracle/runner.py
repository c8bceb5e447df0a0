"""One recorded network after the other: files are written, read by `Network.from_darknet`, run, and compared."""

import importlib.util
import json
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import pullback as pb
from pullback.nn import Context, Network

DATA = Path(__file__).parent.parent / "data" / "darknet"
PLAIN = 1e-4  # of the largest value
DECODED = (1e-5, 1e-3)  # absolute, relative
FORKS = {"pj": "pjreddie", "ab": "alexeyab"}
TINY = "tiny_face_expected.npz"

Wrong = list[str]


def run_folder(
    folder: Path, backends: Sequence[str], only: Sequence[str] | None = None
) -> Iterator[tuple[str, Wrong]]:
    """(case, what is wrong with it) for every network in the folder, on every backend and in every fork it fits."""
    manifest = json.loads((folder / "manifest.json").read_text())
    expected = np.load(folder / "expected.npz")
    maker = load_maker(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pb.darknet.CfgWarning)
        for case in manifest["cases"]:
            if only is None or case["id"] in only:
                yield case["id"], guarded(run_case, case, expected, maker, backends)
        if (folder / TINY).exists():
            photos = np.load(folder / TINY)
            for photo in sorted({key.partition(".")[0] for key in photos.files}):
                if only is None or f"tiny-face/{photo}" in only:
                    yield f"tiny-face/{photo}", guarded(run_photo, folder, photos, photo, backends)


def guarded(run: Any, *arguments: Any) -> Wrong:
    """What `run` finds wrong; an error is wrong too."""
    try:
        return list(run(*arguments))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"]


def load_maker(folder: Path) -> ModuleType:
    """The folder's make_weights.py, or our copy."""
    path = next(p for p in (folder / "make_weights.py", DATA / "oracle" / "make_weights.py") if p.exists())
    spec = importlib.util.spec_from_file_location("make_weights", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def forks_of(case: dict[str, Any]) -> list[str]:
    """The forks whose reading of a case shall agree."""
    needs = case.get("forks", {})
    if needs.get("PJ_only"):
        return ["pj"]
    return ["ab"] if needs.get("AB_only") else ["pj", "ab"]


def run_case(case: dict[str, Any], expected: Any, maker: ModuleType, backends: Sequence[str]) -> Iterator[str]:
    blob = maker.make_weights(case["cfg"], case["weights_seed"], tuple(case["variance_range"]))
    x = maker.make_input(tuple(case["input_shape"]), case["input_seed"])
    with tempfile.TemporaryDirectory() as folder:
        cfg, weights = Path(folder) / "case.cfg", Path(folder) / "case.weights"
        cfg.write_bytes(case["cfg"].encode())
        weights.write_bytes(blob)
        for fork in forks_of(case):
            net = Network.from_darknet(cfg, weights, dialect=FORKS[fork])
            net.to_darknet(weights=weights)
            if weights.read_bytes() != blob:
                yield f"{FORKS[fork]}: the weights written back aren't those read"
            for backend in backends:
                found = evaluate(net, x.transpose(0, 2, 3, 1), backend)
                for output in case["outputs"]:
                    for what, wrong in compare(output, found, expected, fork):
                        yield f"{FORKS[fork]}, {backend}, layer {output['layer']}, {what}: {wrong}"


def evaluate(net: Network, x: np.ndarray, backend: str) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """By Darknet's number of each output layer: what comes out, and what it is before decoding."""
    symbol = pb.tensor(x.dtype.name, (None, *x.shape[1:]), "images")
    decoded, raw = net(symbol), net(symbol, context=Context(scoring=True))
    decoded, raw = (v if isinstance(v, list) else [v] for v in (decoded, raw))
    values = pb.function([symbol], [*decoded, *raw], backend=backend)(np.ascontiguousarray(x))
    numbers = [int(node.name.rpartition("_")[2]) for node in net.outputs]
    return {n: (values[i], values[i + len(numbers)]) for i, n in enumerate(numbers)}


def channels_first(a: np.ndarray) -> np.ndarray:
    """(batch, height, width, channels), heads, or vectors as Darknet has them."""
    if a.ndim == 5:
        a = a.reshape(*a.shape[:3], -1)
    return a.transpose(0, 3, 1, 2) if a.ndim == 4 else a[:, :, None, None]


def compare(
    output: dict[str, Any], found: dict[int, tuple[np.ndarray, np.ndarray]], expected: Any, fork: str
) -> Iterator[tuple[str, str]]:
    decoded, raw = found[output["layer"]]
    if output["kind"] == "plain":
        yield from misses(output["kind"], output, channels_first(raw), expected, fork, None)
        return
    yield from misses("decoded", output, decoded.reshape(output["shape"]), expected, fork, DECODED)
    yield from misses("head", output["head"], channels_first(raw), expected, fork, None)


def misses(
    what: str, record: dict[str, Any], got: np.ndarray, expected: Any, fork: str, tolerance: tuple[float, float] | None
) -> Iterator[tuple[str, str]]:
    """What is outside of the tolerance of the array that the fork shall match."""
    record = record.get(f"eps_{fork}", record)
    if list(got.shape) != record["shape"]:
        yield what, f"shape {got.shape}, expected {record['shape']}"
        return
    want = expected[record["key"]]
    got = got.ravel()[expected[record["index_key"]]] if "index_key" in record else got.reshape(want.shape)
    absolute, relative = tolerance or (PLAIN * np.abs(want).max(), 0.0)
    excess = np.abs(got - want) - absolute - relative * np.abs(want)
    if not (excess <= 0).all():
        wrong = ~(excess <= 0)
        worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        yield what, (
            f"{wrong.sum()} of {want.size} numbers are wrong, worst {got.flat[worst]:.7g}, expected "
            f"{want.flat[worst]:.7g}"
        )


def run_photo(folder: Path, photos: Any, photo: str, backends: Sequence[str]) -> Iterator[str]:
    """The real detector on a real photo, with the boxes that it keeps."""
    home = next(p for p in (folder, folder.parent, DATA) if (p / "tiny-face.weights").exists())
    net = Network.from_darknet(home / "tiny-face.cfg", home / "tiny-face.weights")
    x = photos[f"{photo}.image"][None].astype(np.float32) / np.float32(255)
    number = len(net.nodes) - 2
    for backend in backends:
        decoded, raw = evaluate(net, x, backend)[number]
        want = photos[f"{photo}.output"]
        rows = decoded.reshape(-1, decoded.shape[-1])
        checks = [
            ("head", channels_first(raw).reshape(photos[f"{photo}.head"].shape), photos[f"{photo}.head"], 0.0, 1e-4),
            ("output", rows[:, :5], want[:, :5], 1e-5, 1e-3),
        ]
        for what, got, expected, absolute, relative in checks:
            scale = np.abs(expected) if absolute else np.abs(expected).max()
            if not (np.abs(got - expected) <= absolute + relative * scale).all():
                yield f"{backend}: {what} is off by {np.abs(got - expected).max():.3g}"
        kept = pb.darknet.suppress(rows[None], threshold=0.5, iou_threshold=0.45)[0]
        boxes = np.array([[*d.box, d.objectness] for d in kept]).reshape(-1, 5)
        wanted = photos[f"{photo}.boxes"].reshape(-1, 5)
        if boxes.shape != wanted.shape or not np.allclose(boxes, wanted, atol=1e-4):
            yield f"{backend}: kept the boxes {boxes.tolist()}, expected {wanted.tolist()}"
