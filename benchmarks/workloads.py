"""What is measured: shapes, hyper-parameters, data and initial weights, the same for every library.

Layouts here (a peer converts to its own, before timing): images are NCHW (`images(layout="NHWC")` gives NHWC),
convolution weights (out, in, height, width), dense weights (in, out); LSTM gates in the order i, f, g, o; GRU gates
r, z, n with the reset gate applied after the product (cuDNN's variant, Keras' `reset_after`).
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

THREADS = int(os.environ.get("BENCH_THREADS", 2))
BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.9  # running = 0.9 running + 0.1 batch
LEAKY_SLOPE = 0.1


@dataclass(frozen=True)
class Adam:
    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True)
class Sgd:
    learning_rate: float = 0.01
    momentum: float = 0.9


ADAM, SGD = Adam(), Sgd()


class UnsupportedWorkload(Exception):
    """What a peer raises for work that it can't do; the reason lands in the table."""


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def _float32(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float32)


# --------------------------------------------------------------------------------------------------- dense networks
@dataclass(frozen=True)
class Mlp:
    """Dense layers with relu between them, cross-entropy, Adam."""

    batch: int
    sizes: tuple[int, ...]

    def parameters(self) -> list[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(0)
        return [
            (_float32(_normal(rng, i, o) * np.sqrt(2.0 / i)), _float32(_normal(rng, o) * 0.01))
            for i, o in zip(self.sizes[:-1], self.sizes[1:])
        ]

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """The second half repeats the first half's inputs with other labels, so that the loss can't reach 0: on a
        batch that is learnt by heart Adam's moments decay to denormals, and eager PyTorch slows by a third."""
        rng = np.random.default_rng(1)
        half, classes = self.batch // 2, self.sizes[-1]
        x = _float32(_normal(rng, half, self.sizes[0]))
        y = rng.integers(0, classes, half)
        other = (y + 1 + rng.integers(0, classes - 1, half)) % classes
        return np.concatenate([x, x]), np.concatenate([y, other]).astype(np.int64)

    def direction(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The vector of the Hessian-vector product, shaped as the parameters."""
        rng = np.random.default_rng(2)
        return [(_float32(_normal(rng, *w.shape)), _float32(_normal(rng, *b.shape))) for w, b in self.parameters()]


def deep_mlp(hidden_layers: int) -> Mlp:
    return Mlp(batch=32, sizes=(64,) * (hidden_layers + 1) + (10,))


# ----------------------------------------------------------------------------------------------- recurrent networks
@dataclass(frozen=True)
class Recurrent:
    """One LSTM or GRU over a sequence, a dense layer on its last output, cross-entropy, Adam."""

    cell: str
    time: int
    batch: int
    features: int
    hidden: int
    classes: int = 10

    def parameters(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        gates = 4 if self.cell == "lstm" else 3

        def uniform(*shape: int) -> np.ndarray:
            return _float32(rng.uniform(-1, 1, shape) / np.sqrt(self.hidden))

        values = {
            "input_weights": uniform(self.features, gates * self.hidden),
            "recurrent_weights": uniform(self.hidden, gates * self.hidden),
            "bias": uniform(gates * self.hidden),
            "output_weights": uniform(self.hidden, self.classes),
            "output_bias": uniform(self.classes),
        }
        if self.cell == "gru":
            values["recurrent_bias"] = uniform(gates * self.hidden)
        return values

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (time, batch, features) and one label per sequence."""
        rng = np.random.default_rng(1)
        x = _float32(_normal(rng, self.time, self.batch, self.features))
        return x, rng.integers(0, self.classes, self.batch).astype(np.int64)


@dataclass(frozen=True)
class Characters:
    """An embedding, LSTMs one on top of the other and a dense layer at each step, trained to tell the next character;
    the cost is the cross-entropy summed over the steps, its mean over the batch; Adam."""

    batch: int = 32
    time: int = 64
    vocabulary: int = 96
    features: int = 64
    hidden: int = 256
    layers: int = 2

    def parameters(self) -> dict[str, np.ndarray]:
        """For layer i: weights{i}, recurrent{i}, bias{i}."""
        rng = np.random.default_rng(0)

        def uniform(*shape: int) -> np.ndarray:
            return _float32(rng.uniform(-1, 1, shape) / np.sqrt(self.hidden))

        values = {"embedding": _float32(_normal(rng, self.vocabulary, self.features))}
        for i in range(self.layers):
            values[f"weights{i}"] = uniform(self.hidden if i else self.features, 4 * self.hidden)
            values[f"recurrent{i}"] = uniform(self.hidden, 4 * self.hidden)
            values[f"bias{i}"] = uniform(4 * self.hidden)
        return values | {
            "output_weights": uniform(self.hidden, self.vocabulary),
            "output_bias": uniform(self.vocabulary),
        }

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Characters and those that follow them, (batch, time)."""
        text = np.random.default_rng(1).integers(0, self.vocabulary, (self.batch, self.time + 1))
        return np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])


# ------------------------------------------------------------------------------------------- convolutional networks
@dataclass(frozen=True)
class Conv:
    filters: int
    size: int = 3
    padding: int | None = None  # None: size // 2
    batch_norm: bool = True
    activation: str = "leaky"

    @property
    def pad(self) -> int:
        return self.size // 2 if self.padding is None else self.padding


@dataclass(frozen=True)
class MaxPool:
    size: int = 2
    stride: int = 2  # stride 1: padded right and below, so that the size stays (Darknet's rule)


@dataclass(frozen=True)
class Dense:
    outputs: int
    activation: str = "relu"


@dataclass(frozen=True)
class AveragePool:
    pass


@dataclass(frozen=True)
class Upsample:
    pass


@dataclass(frozen=True)
class Yolo:
    """The head of a detector; here its sigmoid alone."""


@dataclass(frozen=True)
class Route:
    """The concatenated channels of earlier layers (negative: counted back from here)."""

    layers: tuple[int, ...]


Layer = Conv | MaxPool | Dense | AveragePool | Upsample | Yolo | Route


@dataclass(frozen=True)
class ConvNet:
    """Trained with softmax cross-entropy and momentum SGD, or run forward only where it ends in Yolo heads."""

    batch: int
    image: tuple[int, int, int]  # channels, height, width
    layers: tuple[Layer, ...]

    def sources(self, index: int) -> list[int]:
        """Absolute numbers of the layers that the Route at `index` joins."""
        return [j if j >= 0 else index + j for j in self.layers[index].layers]

    def shapes(self) -> list[tuple[int, int, int]]:
        """Channels, height and width of every layer's output."""
        c, h, w = self.image
        shapes: list[tuple[int, int, int]] = []
        for i, layer in enumerate(self.layers):
            match layer:
                case Conv():
                    grow = 2 * layer.pad - layer.size + 1
                    c, h, w = layer.filters, h + grow, w + grow
                case MaxPool(stride=2):
                    h, w = h // 2, w // 2
                case AveragePool():
                    h = w = 1
                case Dense():
                    c, h, w = layer.outputs, 1, 1
                case Upsample():
                    h, w = 2 * h, 2 * w
                case Route():
                    joined = [shapes[j] for j in self.sources(i)]
                    c, h, w = sum(s[0] for s in joined), *joined[0][1:]
            shapes.append((c, h, w))
        return shapes

    def input_shapes(self) -> list[tuple[int, int, int]]:
        return [self.image, *self.shapes()[:-1]]

    def parameters(self) -> list[dict[str, np.ndarray]]:
        """One dict per layer: weights with bias, or with gamma, beta, mean and variance; the rows of the first dense
        layer's weights come in the order channels, height, width."""
        rng = np.random.default_rng(0)
        parameters: list[dict[str, np.ndarray]] = []
        for layer, shape in zip(self.layers, self.input_shapes()):
            values = {}
            match layer:
                case Conv(filters=n):
                    fan_in = shape[0] * layer.size**2
                    weights = _normal(rng, n, shape[0], layer.size, layer.size) * np.sqrt(2.0 / fan_in)
                    values["weights"] = _float32(weights)
                    if layer.batch_norm:
                        for name, fill in dict(gamma=1, beta=0, mean=0, variance=1).items():
                            values[name] = np.full(n, fill, np.float32)
                    else:
                        values["bias"] = np.zeros(n, np.float32)
                case Dense(outputs=n):
                    fan_in = int(np.prod(shape))
                    values["weights"] = _float32(_normal(rng, fan_in, n) * np.sqrt(2.0 / fan_in))
                    values["bias"] = np.zeros(n, np.float32)
            parameters.append(values)
        return parameters

    def parameters_nhwc(self) -> list[dict[str, np.ndarray]]:
        """The same for channels-last libraries: convolution weights (height, width, in, out), dense rows h, w, c."""
        parameters = self.parameters()
        for layer, values, (c, h, w) in zip(self.layers, parameters, self.input_shapes()):
            match layer:
                case Conv():
                    values["weights"] = np.ascontiguousarray(values["weights"].transpose(2, 3, 1, 0))
                case Dense(outputs=n):
                    rows = values["weights"].reshape(c, h, w, n).transpose(1, 2, 0, 3)
                    values["weights"] = np.ascontiguousarray(rows.reshape(c * h * w, n))
        return parameters

    def data(self, layout: str = "NCHW") -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(1)
        x = _float32(rng.random((self.batch, *self.image)))
        y = rng.integers(0, self.shapes()[-1][0], self.batch).astype(np.int64)
        return (np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x), y


def _lenet() -> ConvNet:
    def conv(filters: int) -> Conv:
        return Conv(filters, 5, padding=0, batch_norm=False, activation="relu")

    return ConvNet(64, (1, 28, 28), (conv(20), MaxPool(), conv(50), MaxPool(), Dense(500), Dense(10, "linear")))


def _linear(filters: int) -> Conv:
    return Conv(filters, 1, batch_norm=False, activation="linear")


def _bottlenecks(filters: int, count: int) -> tuple[Layer, ...]:
    """A 3x3 convolution, then `count` times a 1x1 one of half the width and a 3x3 one back."""
    return Conv(filters), *(Conv(filters // 2, 1), Conv(filters)) * count


def _small_cnn() -> ConvNet:
    blocks = (Conv(32), MaxPool(), Conv(64), MaxPool(), *_bottlenecks(128, 1), MaxPool(), Conv(256))
    return ConvNet(32, (3, 32, 32), (*blocks, _linear(10), AveragePool()))


def _darknet19() -> ConvNet:
    layers = (
        *(Conv(32), MaxPool(), Conv(64), MaxPool()),
        *(*_bottlenecks(128, 1), MaxPool(), *_bottlenecks(256, 1), MaxPool()),
        *(*_bottlenecks(512, 2), MaxPool(), *_bottlenecks(1024, 2)),
        *(_linear(1000), AveragePool()),
    )
    return ConvNet(4, (3, 224, 224), layers)


def _tiny_yolo() -> ConvNet:
    layers = (
        *(Conv(16), MaxPool(), Conv(32), MaxPool(), Conv(64), MaxPool(), Conv(128), MaxPool(), Conv(256), MaxPool()),
        *(Conv(512), MaxPool(2, 1), Conv(1024), Conv(256, 1), Conv(512), _linear(255), Yolo()),
        *(Route((-4,)), Conv(128, 1), Upsample(), Route((-1, 8)), Conv(256), _linear(255), Yolo()),
    )
    return ConvNet(1, (3, 416, 416), layers)


# ------------------------------------------------------------------------------------------------ transformer block
@dataclass(frozen=True)
class Transformer:
    """x + attention(norm(x)), then x + feed_forward(norm(x)) with exact GELU; mean squared error, Adam."""

    batch: int = 8
    time: int = 128
    features: int = 256
    heads: int = 8
    hidden: int = 1024
    epsilon: float = 1e-5

    def parameters(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(0)
        d, hidden = self.features, self.hidden

        def dense(i: int, o: int) -> np.ndarray:
            return _float32(_normal(rng, i, o) / np.sqrt(i))

        weights = dict(qkv=dense(d, 3 * d), projection=dense(d, d), expand=dense(d, hidden), contract=dense(hidden, d))
        biases = {f"{name}_bias": np.zeros(w.shape[1], np.float32) for name, w in weights.items()}
        norms = {f"{name}_gain": np.ones(d, np.float32) for name in ("norm1", "norm2")}
        norms |= {f"{name}_bias": np.zeros(d, np.float32) for name in ("norm1", "norm2")}
        return weights | biases | norms

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(1)
        shape = (self.batch, self.time, self.features)
        return _float32(_normal(rng, *shape)), _float32(_normal(rng, *shape))


# ------------------------------------------------------------------------------------------------------- the tables
@dataclass(frozen=True)
class Workload:
    """`kind` is the name of the function that a peer must have; it gets `spec` and gives a step to be timed.

    `target`: pullback is to need at most this share of the time of the fastest other library, or of `against`.
    `compared`: so many first losses are to agree; few where rounding grows from step to step."""

    name: str
    title: str
    kind: str
    spec: Any
    target: float
    against: str = ""
    compared: int = 20


W1 = Mlp(32, (64, 128, 64, 10))
W1B = Mlp(1024, (64, 512, 512, 10))
W2, W2B = Recurrent("lstm", 50, 32, 64, 128), Recurrent("lstm", 100, 16, 32, 256)
W2C, W2D = Recurrent("gru", 50, 32, 64, 128), Recurrent("gru", 100, 16, 32, 256)
WORKLOADS = {
    "W1": Workload("mlp", "MLP 64-128-64-10, batch 32, Adam", "mlp", W1, 0.55),
    "W1b": Workload("mlp-large", "MLP 64-512-512-10, batch 1024, Adam", "mlp", W1B, 0.9),
    "W2": Workload("recurrent", "LSTM T50 B32 I64 H128, Adam", "recurrent", W2, 0.75),
    "W2b": Workload("recurrent", "LSTM T100 B16 I32 H256, Adam", "recurrent", W2B, 0.87),
    "W2c": Workload("recurrent", "GRU T50 B32 I64 H128, Adam", "recurrent", W2C, 0.5),
    "W2d": Workload("recurrent", "GRU T100 B16 I32 H256, Adam", "recurrent", W2D, 0.25, "torch"),
    "W2-run": Workload("recurrent", "LSTM T50 B32 I64 H128, inference", "run_recurrent", W2, 0.85, "torch"),
    "W2b-run": Workload("recurrent", "LSTM T100 B16 I32 H256, inference", "run_recurrent", W2B, 0.95, "torch"),
    "W2c-run": Workload("recurrent", "GRU T50 B32 I64 H128, inference", "run_recurrent", W2C, 0.3, "torch"),
    "W2d-run": Workload("recurrent", "GRU T100 B16 I32 H256, inference", "run_recurrent", W2D, 0.3, "torch"),
    "W2-scan": Workload("recurrent", "LSTM T50 B32 I64 H128 written as a scan, Adam", "scan_recurrent", W2, 1.0),
    "W2-text": Workload(
        "recurrent", "characters: embedding, 2 LSTMs of 256, Adam", "characters", Characters(), 0.7, "torch"
    ),
    "W3": Workload("lenet", "LeNet 28x28, batch 64, momentum SGD", "train_convnet", _lenet(), 0.6),
    "W4": Workload("cnn", "conv-BN-leaky CNN 32x32, batch 32, momentum SGD", "train_convnet", _small_cnn(), 0.6),
    "W5": Workload("tiny-yolo", "tiny-YOLOv3 inference, 416x416, batch 1", "run_convnet", _tiny_yolo(), 0.85),
    "W6": Workload(
        "darknet19", "Darknet-19 step, 224x224, batch 4, momentum SGD", "train_convnet", _darknet19(), 0.65, compared=2
    ),
    "W7": Workload("transformer", "transformer block B8 T128 D256, Adam", "transformer", Transformer(), 0.75),
    "W8": Workload("hvp", "Hessian-vector product of the W1 loss", "hessian_vector_product", W1, 0.8),
}
AVX2_TARGETS = {"W1": 0.25, "W3": 0.80}  # with all held to AVX2
COLD_START = ["W1", "W3"]  # W9
DEPTHS = {f"W10:{n}": Workload("depth", f"MLP of {n} hidden layers", "mlp", deep_mlp(n), 1.0) for n in (4, 16, 64)}


def find_workload(key: str) -> Workload:
    return (WORKLOADS | DEPTHS)[key]
