"""Writes docs/numpynet.md: the gradient of every NumPyNet layer against differences, NumPyNet's beside ours, and times.

    python scripts/numpynet_table.py

The error of a gradient is max |gradient - true| / max |true|; true are central differences (fourth order, float64)
of the layer's own forward, for a random upstream gradient. NumPyNet's column was measured the same way with its version
1.0.0 (commit 777db4f, February 2024).
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import pullback.compat.numpynet as npn

PAGE = Path(__file__).parent.parent / "docs" / "numpynet.md"
STEP = 1e-3
IMAGE = (2, 5, 4, 3)


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        setting: which layer, set how.
        theirs: what NumPyNet 1.0.0 gives: an error, or how it fails.
        measure: gives {quantity: error} for ours.
    """

    setting: str
    theirs: str
    measure: Callable[[], dict[str, float]]


# --- measuring --------------------------------------------------------------------------------------------------------


def differences(f: Callable[[], float], array: np.ndarray) -> np.ndarray:
    """The gradient of f to an array that is changed in place, by (8 (f(h) - f(-h)) - f(2h) + f(-2h)) / 12 h."""
    slopes = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        kept, values = array[place], {}
        for k in (1, -1, 2, -2):
            array[place] = kept + k * STEP
            values[k] = f()
        array[place] = kept
        slopes[place] = (8 * (values[1] - values[-1]) - values[2] + values[-2]) / (12 * STEP)
    return slopes


def error(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.abs(found - true).max() / max(np.abs(true).max(), 1e-300))


def rewind(layers: Any) -> None:
    """Let random layers draw the same numbers again."""
    for layer in layers:
        if layer._random is not None:
            layer._random.counter.set_value(np.int64(0))


def of_layer(layer: npn.BaseLayer, x: np.ndarray, truth: Any = None, seed: int = 1) -> dict[str, float]:
    """Errors of the gradients to the input and to every parameter, in the second of two rounds, added to a buffer."""
    rng = np.random.default_rng(seed)
    given = () if truth is None else (truth,) if not isinstance(truth, tuple) else truth
    upstream: list[np.ndarray] = []

    def value() -> float:
        rewind([layer])
        layer.forward(x, *given)
        return float(np.sum(layer.cost)) if given else float(np.sum(layer.output * upstream[0]))

    rewind([layer])
    layer.forward(x, *given)
    upstream.append(rng.normal(size=layer.output.shape))
    before = rng.normal(size=x.shape)
    for _ in range(2):
        value()
        buffer = before.copy()
        if not given:
            layer.delta += upstream[0]
        layer.backward(*([x] if layer.takes_input else []), buffer)
    updates = {(part, name): getattr(part, f"{name}_update") for part in layer.parts() for name in part.parameters}
    errors = {"x": error(buffer - before, differences(value, x))}
    for (part, name), found in updates.items():
        setattr(part, name, np.array(getattr(part, name)))
        errors.setdefault("parameters", 0.0)
        errors["parameters"] = max(errors["parameters"], error(found, differences(value, getattr(part, name))))
    return errors


def of_pair(layer: npn.Shortcut_layer, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Errors of a shortcut's gradients to both inputs."""
    rng = np.random.default_rng(1)
    layer.forward(x, y)
    upstream = rng.normal(size=layer.output.shape)
    layer.delta += upstream
    buffers = rng.normal(size=x.shape), rng.normal(size=y.shape)
    before = [b.copy() for b in buffers]
    layer.backward(*buffers)

    def value() -> float:
        return float(np.sum(layer.forward(x, y).output * upstream))

    return {f"x{i + 1}": error(buffers[i] - before[i], differences(value, a)) for i, a in enumerate((x, y))}


def of_network(layers: list[npn.BaseLayer], truth: Callable[[tuple[int, ...]], np.ndarray]) -> dict[str, float]:
    """The error of the first layer's weights inside a whole network, in the second of two rounds."""
    rng = np.random.default_rng(2)
    net = npn.Network(batch=4, input_shape=(6, 6, 2), train=False)
    for layer in layers:
        net.add(layer)
    X = rng.normal(size=(4, 6, 6, 2))
    first = net[1]
    net._forward(X)
    target = truth(net[-1].output.shape)

    def value() -> float:
        rewind(net)
        net._forward(X, target)
        return float(net._get_loss())

    for _ in range(2):
        value()
        net._backward()
    first.weights = np.array(first.weights)
    return {"weights": error(first.weights_update, differences(value, first.weights))}


# --- the rows ---------------------------------------------------------------------------------------------------------


def images(shape: tuple[int, ...] = IMAGE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def shares(shape: tuple[int, ...], axis: int = -1) -> np.ndarray:
    """Random numbers from 0 up that sum to 1.3 along an axis: truths needn't sum to 1."""
    t = np.random.default_rng(5).uniform(0.1, 1.0, shape)
    return 1.3 * t / t.sum(axis=axis, keepdims=True)


def each(settings: list[Callable[[], dict[str, float]]]) -> Callable[[], dict[str, float]]:
    """The largest errors over several settings."""

    def measure() -> dict[str, float]:
        largest: dict[str, float] = {}
        for setting in settings:
            for quantity, value in setting().items():
                largest[quantity] = max(largest.get(quantity, 0.0), value)
        return largest

    return measure


def layer(make: Callable[[], npn.BaseLayer], x: Callable[[], np.ndarray] = images, truth: Any = None) -> Any:
    return lambda: of_layer(make(), x(), truth)


def conv(size: Any, stride: Any, pad: bool) -> Any:
    return layer(lambda: npn.Convolutional_layer(3, size, stride, IMAGE, pad=pad, activation="tanh"))


def pool(kind: Any, batch: int = 2) -> Any:
    shape = (batch, 5, 4, 2)
    settings = [(2, 2, False), (3, 2, True), (3, 1, False), ((2, 3), (1, 2), True)]
    return each([layer(lambda s=s: kind(*s, shape), lambda: images(shape)) for s in settings])


def apart() -> np.ndarray:
    """Truths whose deviations from `images()` all differ, and from 0, by more than the differences' step."""
    rng, x = np.random.default_rng(3), images()
    deviations = rng.permutation(np.linspace(0.05, 3.0, x.size)) * rng.choice([-1, 1], x.size)
    return x + deviations.reshape(x.shape)


def cost(kind: str, truth: Callable[[], np.ndarray] = apart, **options: Any) -> Any:
    def positive() -> np.ndarray:
        return np.abs(images()) + 0.3

    x = positive if kind == "hellinger" else images
    return lambda: of_layer(npn.Cost_layer(kind, IMAGE, **options), x(), truth())


def yolo() -> dict[str, float]:
    rng, shape = np.random.default_rng(4), (2, 3, 3, 3 * 7)
    truth = np.zeros((2, 3, 3, 3, 7))
    truth[..., :4] = rng.normal(size=(2, 3, 3, 3, 4))
    truth[..., 4] = rng.random((2, 3, 3, 3)) < 0.3
    truth[..., 5:] = np.eye(2)[rng.integers(0, 2, (2, 3, 3, 3))]
    boxes = np.concatenate([rng.uniform(0, 3, (2, 1, 1, 1, 4, 2)), rng.uniform(20, 60, (2, 1, 1, 1, 4, 2))], axis=-1)
    anchors = [10, 14, 23, 27, 37, 58]
    errors = {}
    for warm, name in ((9, "x while warming up"), (0, "x")):
        made = npn.Yolo_layer(shape, anchors, (3, 3), warm * 10**6, 0.5, 1.0, 5.0, 1.0, 1.0, 1.0)
        errors[name] = of_layer(made, images(shape), (truth, (96, 96), boxes))["x"]
    return errors


def activation(name: str) -> Any:
    def measure() -> dict[str, float]:
        made = npn.Activation_layer((40, 1, 1, 1), name)
        x = np.random.default_rng(7).uniform(-3.9, 3.9, (40, 1, 1, 1))
        y = made.forward(x).output
        near, far = (made.activation(x + k * STEP) - made.activation(x - k * STEP) for k in (1, 2))
        return {"x": of_layer(made, x)["x"], "y": error(made.gradient(y), (8 * near - far) / (12 * STEP))}

    return measure


def network(*layers: Callable[[], npn.BaseLayer], truth: Any = lambda shape: images(shape, 6)) -> Any:
    return lambda: of_network([make() for make in (first_layer, *layers)], truth)


def first_layer() -> npn.BaseLayer:
    return npn.Convolutional_layer(4, 3, 1, pad=True, activation="tanh")


def mse() -> npn.BaseLayer:
    return npn.Cost_layer("mse")


def rows() -> Iterator[Row]:
    """All lines, in the order of the table."""
    for kind in ("tanh", "leaky"):
        yield Row(f"Connected, {kind}", "≤ 8e-10", layer(lambda k=kind: npn.Connected_layer(5, k, IMAGE)))
    sizes = [(1, 1), (2, 2), (3, 1), (4, 3), ((3, 2), (2, 1)), (3, (1, 2))]
    settings = [conv(size, stride, pad) for size, stride in sizes for pad in (False, True)]
    yield Row("Convolutional, 12 settings", "≤ 8e-10; overwrites the buffer", each(settings))
    yield Row("Maxpool, 4 settings", "≤ 4e-10", pool(npn.Maxpool_layer))
    yield Row("Avgpool, batch 1", "≤ 9e-10", pool(npn.Avgpool_layer, 1))
    yield Row("Avgpool, batch 2", "**1.03 – 1.34**", pool(npn.Avgpool_layer))
    for batch, shape, theirs in ((8, (1, 1, 1), "0.91"), (8, (2, 2, 2), "0.14"), (16, (1, 2, 2), "0.60")):
        size = (batch, *shape)
        yield Row(
            f"BatchNorm, batch {batch}, {np.prod(shape)} numbers", f"**{theirs}** (x)",
            layer(lambda s=size: npn.BatchNorm_layer(np.full(s[1:], 1.7), np.full(s[1:], 0.2), s),
                  lambda s=size: images(s)),
        )  # fmt: skip
    for kind, values in ((npn.L1Norm_layer, ("51", "4.6", "16")), (npn.L2Norm_layer, ("5.2", "1.2", "2.3"))):
        for axis, which, theirs in zip((None, 3, (1, 2, 3)), ("of all", "of channels", "of a sample"), values):
            yield Row(f"{kind.__name__[:6]}, {which}", f"**{theirs}**", layer(lambda k=kind, a=axis: k(IMAGE, a)))
    for stride, scale, theirs in ((2, 1, "0.75"), (2, 2, "0.94"), ((3, 2), 1, "0.83")):
        name = f"Upsample {stride}, scale {scale}"
        yield Row(name, f"**{theirs}**", layer(lambda s=stride, f=scale: npn.Upsample_layer(IMAGE, s, f)))
    even = (2, 6, 4, 2)
    for scale, theirs in ((1, "3.0"), (3, "0.56")):
        name, make = f"Downsample 2, scale {scale}", lambda f=scale: npn.Upsample_layer(even, -2, f)
        yield Row(name, f"**{theirs}**", layer(make, lambda: images(even)))
    yield Row("Dropout", "**1.00** (always 0)", layer(lambda: npn.Dropout_layer(0.4, IMAGE)))
    for spatial, temperature, theirs in ((False, 1.0, "6e-10"), (False, 2.0, "**1.00**"), (True, 1.0, "**5.9**")):
        name = f"Softmax and truth, {'per pixel' if spatial else f'temperature {temperature:g}'}"
        truth = shares(IMAGE, -1 if spatial else (1, 2, 3))
        make = lambda s=spatial, t=temperature: npn.Softmax_layer(IMAGE, s, t)  # noqa: E731
        yield Row(name, theirs, layer(make, truth=truth))
    yield Row("Softmax inside a network", "**1.64**", layer(lambda: npn.Softmax_layer(IMAGE, temperature=2.0)))
    yield Row("Logistic and truth", "**1.06**, uphill", layer(lambda: npn.Logistic_layer(IMAGE), truth=shares(IMAGE)))
    yield Row("Logistic inside a network", "**3.8**", layer(lambda: npn.Logistic_layer(IMAGE)))
    for kind in ("mse", "mae", "logcosh"):
        yield Row(f"Cost {kind}", "≤ 3e-9", cost(kind))
    segments = images(seed=3) * (images(seed=8) > 0)
    yield Row("Cost seg, scale", "≤ 3e-9", cost("seg", lambda: segments, noobject_scale=0.4, scale=2.0))
    yield Row("Cost mse, smoothing, ratio", "ratio does nothing", cost("mse", smoothing=0.1, ratio=0.5))
    yield Row("Cost smooth", "**1.50**, uphill", cost("smooth"))
    yield Row("Cost wgan", "**2.0**, uphill", cost("wgan", lambda: np.sign(images(seed=3))))
    yield Row("Cost hellinger", "**0.29**", cost("hellinger", lambda: np.abs(images(seed=3)) + 0.1))
    yield Row("Cost hinge", "**1.45**", cost("hinge", lambda: np.sign(images(seed=3))))
    hidden = np.where(images(seed=8) > 0, npn.Cost_layer.SECRET_NUM, images(seed=3))
    yield Row("Cost masked", "**−4e3 where 0 is right**", cost("masked", lambda: hidden))

    def shortcut(other: tuple[int, ...]) -> Any:
        return lambda: of_pair(npn.Shortcut_layer("tanh", 0.7, 1.3), images(), images(other, 9))

    yield Row("Shortcut, equal shapes", "≤ 5e-10", shortcut(IMAGE))
    for other in ((2, 5, 4, 2), (2, 5, 4, 6), (2, 10, 8, 3), (2, 2, 2, 3)):
        yield Row(f"Shortcut of {other[1:]} to {IMAGE[1:]}", "**NameError**", shortcut(other))
    cells = (2, 2, 3, 9)
    yield Row("Shuffler 3", "≤ 6e-10; overwrites", layer(lambda: npn.Shuffler_layer(3, cells), lambda: images(cells)))

    steps = (7, 1, 2, 3)
    for sequence, theirs in ((False, "≤ 2e-10 once; **1.00** the second time"), (True, "**ValueError**")):
        make = lambda s=sequence: npn.SimpleRNN_layer(4, 3, "tanh", steps, return_sequence=s)  # noqa: E731
        yield Row(f"SimpleRNN{', whole sequence' if sequence else ''}", theirs, layer(make, lambda: images(steps)))
    more = (9, 1, 2, 3)
    make = lambda: npn.RNN_layer(4, 3, "tanh", more)  # noqa: E731
    yield Row("RNN", "x 2e-10; **0.31 – 1.00** (parameters)", layer(make, lambda: images(more)))
    yield Row("LSTM", "**0.37 – 2.33**", layer(lambda: npn.LSTM_layer(4, 3, steps), lambda: images(steps)))
    yield Row("GRU", "**not there**", layer(lambda: npn.GRU_layer(4, 3, steps), lambda: images(steps)))
    yield Row("Yolo", "**1.00** (always 0)", yolo)
    wrong = {"Stair": "1.0", "Hardtan": "1.0", "Elliot": "0.56", "SoftPlus": "0.50", "SymmElliot": "0.28",
             "SoftSign": "0.28"}  # fmt: skip
    for name in [n for n in npn.activations.__all__ if n != "Activations"]:
        yield Row(f"{name}", f"**{wrong[name]}**" if name in wrong else "≤ 5e-10", activation(name))

    connected = lambda: npn.Connected_layer(3, "tanh")  # noqa: E731
    second = lambda: npn.Convolutional_layer(4, 3, 1, pad=True, activation="tanh")  # noqa: E731
    for name, theirs, parts in (
        ("convolutional, connected, mse", "6e-10", (connected, mse)),
        ("with dropout", "**1.00** (always 0)", (lambda: npn.Dropout_layer(0.3), connected, mse)),
        ("with batchnorm", "**0.74**", (npn.BatchNorm_layer, connected, mse)),
        ("with avgpool", "**1.58**", (lambda: npn.Avgpool_layer(2), connected, mse)),
        ("with a route around a convolution", "**0.63**", (second, lambda: npn.Route_layer((1, 2)), connected, mse)),
        ("with a route around an activation", "**1.02**",
         (lambda: npn.Activation_layer(activation="tanh"), lambda: npn.Route_layer((1, 2)), connected, mse)),
        ("with a route by batch", "**AttributeError**",
         (second, lambda: npn.Route_layer((1, 2), by_channels=False), connected, mse)),
        ("softmax before the cost", "**29**", (connected, npn.Softmax_layer, mse)),
        ("with upsampling", "**ValueError**", (npn.Upsample_layer, connected, mse)),
        ("with a shortcut", "**TypeError**", (second, lambda: npn.Shortcut_layer("tanh", layer=1), connected, mse)),
        ("with a SimpleRNN", "**error of shapes**", (lambda: npn.SimpleRNN_layer(3, 2, "tanh"), mse)),
    ):  # fmt: skip
        yield Row(f"network: {name}", theirs, network(*parts))
    logistic = network(connected, npn.Logistic_layer, truth=lambda shape: shares(shape))
    yield Row("network: logistic loss", "**1.23**", logistic)


# --- times ------------------------------------------------------------------------------------------------------------

BIG, DENSE = (8, 32, 32, 32), (64, 1, 1, 1024)
TIMED: list[tuple[str, Callable[[], npn.BaseLayer], float, float]] = [  # NumPyNet's forward and backward in ms
    ("Convolutional 3×3 → 32, padded", lambda: npn.Convolutional_layer(32, 3, 1, BIG, pad=True), 20.0, 33.8),
    ("Convolutional 1×1 → 32", lambda: npn.Convolutional_layer(32, 1, 1, BIG), 2.0, 15.1),
    ("Maxpool 2×2", lambda: npn.Maxpool_layer(2, 2, input_shape=BIG), 3.0, 60.5),
    ("Maxpool 3×3, stride 2, padded", lambda: npn.Maxpool_layer(3, 2, True, BIG), 8.7, 61.7),
    ("Avgpool 2×2", lambda: npn.Avgpool_layer(2, 2, input_shape=BIG), 0.8, 13.4),
    ("BatchNorm", lambda: npn.BatchNorm_layer(input_shape=BIG), 0.7, 3.5),
    ("Upsample 2×", lambda: npn.Upsample_layer(BIG, 2), 0.7, 11.4),
    ("Activation hardtan", lambda: npn.Activation_layer(BIG, "hardtan"), 0.6, 41.4),
    ("Connected 1024 → 1024", lambda: npn.Connected_layer(1024, input_shape=DENSE), 7.1, 10.7),
]


def best_time(run: Callable[[], Any], seconds: float = 3.0) -> float:
    """The shortest of the runs that fit into some seconds, in ms."""
    best, end = np.inf, time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        run()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def timed(make: Callable[[], npn.BaseLayer], dtype: str) -> float:
    """Forward and backward of a layer, in ms."""
    made = make()
    x = np.random.default_rng(0).normal(size=made.input_shape).astype(dtype)
    made.forward(x)
    upstream, buffer = np.random.default_rng(1).normal(size=made.output.shape).astype(dtype), np.zeros_like(x)

    def run() -> None:
        made.forward(x)
        made.delta = upstream
        made.backward(*([x] if made.takes_input else []), buffer)

    return best_time(run)


# --- the page ---------------------------------------------------------------------------------------------------------


def gradient_lines() -> Iterator[str]:
    for row in rows():
        errors = row.measure()
        worst = ", ".join(f"{value:.0e} ({quantity})" for quantity, value in errors.items())
        yield f"| {row.setting} | {row.theirs} | {worst} |"


def time_lines() -> Iterator[str]:
    for name, make, forward, backward in TIMED:
        wide, narrow = timed(make, "float64"), timed(make, "float32")
        total = forward + backward
        yield f"| {name} | {total:.1f} | {wide:.2f} ({total / wide:.0f}×) | {narrow:.2f} ({total / narrow:.0f}×) |"


def main() -> None:
    page = PAGE.read_text()
    for name, lines in (("gradients", gradient_lines()), ("times", time_lines())):
        head, _, rest = page.partition(f"<!-- {name} -->\n")
        _, _, tail = rest.partition(f"<!-- end of {name} -->\n")
        page = head + f"<!-- {name} -->\n" + "\n".join(lines) + f"\n<!-- end of {name} -->\n" + tail
    PAGE.write_text(page)


if __name__ == "__main__":
    sys.exit(main())
