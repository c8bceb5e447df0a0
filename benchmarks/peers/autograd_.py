"""HIPS autograd. Convolution as in autograd's own example; optimizers in NumPy."""

import importlib.metadata
from collections.abc import Callable, Sequence

import autograd.numpy as np
import numpy
from autograd import grad, value_and_grad

from benchmarks import workloads as w
from benchmarks.peers.numpy_training import optimizer

VERSION = importlib.metadata.version("autograd")
ZERO, HALF, ONE = numpy.float32(0), numpy.float32(0.5), numpy.float32(1)
Step = Callable[[], float]
Arrays = Sequence[numpy.ndarray]


def cross_entropy(logits: numpy.ndarray, labels: numpy.ndarray) -> numpy.ndarray:
    top = logits.max(axis=1, keepdims=True)
    log_sum = top[:, 0] + np.log(np.sum(np.exp(logits - top), axis=1))
    return np.mean(log_sum - logits[np.arange(len(labels)), labels])


def trainer(loss: Callable, parameters: Arrays, kind: w.Adam | w.Sgd, data: tuple) -> Step:
    update = optimizer(parameters, kind)
    cost_and_gradients = value_and_grad(loss)

    def step() -> float:
        cost, gradients = cost_and_gradients(parameters, *data)
        update(gradients)
        return float(cost)

    return step


def dense_forward(p: Arrays, x: numpy.ndarray) -> numpy.ndarray:
    for weights, bias in zip(p[:-2:2], p[1:-2:2]):
        x = np.maximum(np.dot(x, weights) + bias, ZERO)
    return np.dot(x, p[-2]) + p[-1]


def flat(pairs: Sequence[tuple]) -> list[numpy.ndarray]:
    return [array for pair in pairs for array in pair]


def mlp(spec: w.Mlp, variant: str) -> Step:
    return trainer(
        lambda p, x, y: cross_entropy(dense_forward(p, x), y), flat(spec.parameters()), w.ADAM, spec.data()
    )


def sigmoid(x: numpy.ndarray) -> numpy.ndarray:
    return HALF * (np.tanh(x * HALF) + ONE)


def recurrent(spec: w.Recurrent, variant: str) -> Step:
    named = spec.parameters()
    start = numpy.zeros((spec.batch, spec.hidden), numpy.float32)

    def gates(x: numpy.ndarray) -> list[numpy.ndarray]:
        return [x[:, i : i + spec.hidden] for i in range(0, x.shape[1], spec.hidden)]

    def loss(parameters: Arrays, x: numpy.ndarray, y: numpy.ndarray) -> numpy.ndarray:
        p = dict(zip(named, parameters))
        projected = np.dot(x, p["input_weights"]) + p["bias"]
        h = c = start
        for t in range(spec.time):
            if spec.cell == "lstm":
                i, f, g, o = gates(projected[t] + np.dot(h, p["recurrent_weights"]))
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
            else:
                xr, xz, xn = gates(projected[t])
                hr, hz, hn = gates(np.dot(h, p["recurrent_weights"]) + p["recurrent_bias"])
                z = sigmoid(xz + hz)
                h = (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h
        return cross_entropy(np.dot(h, p["output_weights"]) + p["output_bias"], y)

    return trainer(loss, list(named.values()), w.ADAM, spec.data())


def train_convnet(spec: w.ConvNet, variant: str) -> Step:
    if len(spec.layers) > 8:
        raise w.UnsupportedWorkload("autograd's convolve is far too slow at this size")
    from autograd.scipy.signal import convolve

    def loss(parameters: Arrays, x: numpy.ndarray, y: numpy.ndarray) -> numpy.ndarray:
        values = iter(parameters)
        for layer in spec.layers:
            match layer:
                case w.Conv():
                    flipped = next(values)[:, :, ::-1, ::-1]
                    x = convolve(x, flipped, axes=([2, 3], [2, 3]), dot_axes=([1], [1]), mode="valid")
                    x = x + next(values).reshape((1, -1, 1, 1))
                case w.MaxPool():
                    n, c, height, width = x.shape
                    x = np.max(np.max(x.reshape((n, c, height // 2, 2, width // 2, 2)), axis=3), axis=4)
                case w.Dense():
                    x = np.dot(x.reshape((x.shape[0], -1)), next(values)) + next(values)
            if getattr(layer, "activation", None) == "relu":
                x = np.maximum(x, ZERO)
        return cross_entropy(x, y)

    parameters = [array for values in spec.parameters() for array in values.values()]
    return trainer(loss, parameters, w.SGD, spec.data())


def hessian_vector_product(spec: w.Mlp, variant: str) -> Step:
    x, y = spec.data()
    parameters, vector = flat(spec.parameters()), flat(spec.direction())
    gradient = grad(lambda p: cross_entropy(dense_forward(p, x), y))
    product = grad(lambda p: sum(np.sum(g * v) for g, v in zip(gradient(p), vector)))

    def step() -> float:
        return float(sum((h * v).sum() for h, v in zip(product(parameters), vector)))

    return step
