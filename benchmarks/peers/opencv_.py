"""OpenCV's dnn module reading Darknet files (OpenCV 4; 5.0 dropped them): inference only."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from benchmarks import workloads as w

cv2.setNumThreads(w.THREADS)
VERSION = cv2.__version__


def darknet_cfg(spec: w.ConvNet) -> str:
    channels, height, width = spec.image
    lines = ["[net]", f"batch={spec.batch}", f"height={height}", f"width={width}", f"channels={channels}"]
    masks = iter(("3,4,5", "0,1,2"))
    for layer in spec.layers:
        match layer:
            case w.Conv():
                lines += ["[convolutional]", f"batch_normalize={int(layer.batch_norm)}", f"filters={layer.filters}"]
                lines += [f"size={layer.size}", "stride=1", "pad=1", f"activation={layer.activation}"]
            case w.MaxPool(size=k, stride=s):
                lines += ["[maxpool]", f"size={k}", f"stride={s}"]
            case w.Upsample():
                lines += ["[upsample]", "stride=2"]
            case w.Route(layers=joined):
                lines += ["[route]", f"layers={','.join(map(str, joined))}"]
            case w.Yolo():
                anchors = "10,14, 23,27, 37,58, 81,82, 135,169, 344,319"
                lines += ["[yolo]", f"mask={next(masks)}", f"anchors={anchors}", "classes=80", "num=6"]
    return "\n".join(lines) + "\n"


def darknet_weights(spec: w.ConvNet) -> bytes:
    """Version 0.2.0, images seen 0, then per convolution: bias (or beta, gamma, mean, variance), weights."""
    parts = [np.array([0, 2, 0], np.int32), np.array([0], np.uint64)]
    for p in spec.parameters():
        parts += [p[name] for name in ("bias", "beta", "gamma", "mean", "variance", "weights") if name in p]
    return b"".join(part.tobytes() for part in parts)


def run_convnet(spec: w.ConvNet, variant: str) -> Callable[[], float | None]:
    with tempfile.TemporaryDirectory() as folder:
        cfg, weights = Path(folder, "network.cfg"), Path(folder, "network.weights")
        cfg.write_text(darknet_cfg(spec))
        weights.write_bytes(darknet_weights(spec))
        network = cv2.dnn.readNetFromDarknet(str(cfg), str(weights))
    x, _ = spec.data()
    outputs = network.getUnconnectedOutLayersNames()
    last = next(i for i, layer in enumerate(spec.layers) if isinstance(layer, w.Yolo)) - 1
    checked = False

    def step() -> float | None:
        nonlocal checked
        network.setInput(x)
        if not checked:  # the detector's outputs are decoded boxes; what the others give is its raw head's sigmoid
            checked = True
            return float((1 / (1 + np.exp(-network.forward(f"conv_{last}")))).mean())
        network.forward(outputs)
        return None

    return step
