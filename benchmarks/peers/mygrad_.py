"""MyGrad. Convolution, pooling, batch-norm and loss are its own layers; optimizers in NumPy."""

from collections.abc import Callable, Sequence

import mygrad as mg
import numpy as np
from mygrad.nnet.activations import leaky_relu, relu, sigmoid
from mygrad.nnet.layers import batchnorm, conv_nd, max_pool
from mygrad.nnet.losses import softmax_crossentropy

from benchmarks import workloads as w
from benchmarks.peers.numpy_training import optimizer

VERSION = mg.__version__
Step = Callable[[], float]


def trainer(loss: Callable, parameters: Sequence[mg.Tensor], kind: w.Adam | w.Sgd, data: tuple) -> Step:
    update = optimizer([p.data for p in parameters], kind)

    def step() -> float:
        cost = loss(*data)
        cost.backward()
        gradients = [p.grad for p in parameters]
        for p in parameters:
            p.null_grad()
        update(gradients)
        return float(cost)

    return step


def mlp(spec: w.Mlp, variant: str) -> Step:
    pairs = [(mg.tensor(weights), mg.tensor(bias)) for weights, bias in spec.parameters()]

    def loss(x: np.ndarray, y: np.ndarray) -> mg.Tensor:
        for weights, bias in pairs[:-1]:
            x = relu(mg.matmul(x, weights) + bias)
        weights, bias = pairs[-1]
        return softmax_crossentropy(mg.matmul(x, weights) + bias, y)

    return trainer(loss, [p for pair in pairs for p in pair], w.ADAM, spec.data())


def recurrent(spec: w.Recurrent, variant: str) -> Step:
    p = {name: mg.tensor(value) for name, value in spec.parameters().items()}
    start = np.zeros((spec.batch, spec.hidden), np.float32)

    def gates(x: mg.Tensor) -> list[mg.Tensor]:
        return [x[:, i : i + spec.hidden] for i in range(0, x.shape[1], spec.hidden)]

    def loss(x: np.ndarray, y: np.ndarray) -> mg.Tensor:
        projected = mg.matmul(x, p["input_weights"]) + p["bias"]
        h = c = mg.tensor(start, constant=True)
        for t in range(spec.time):
            if spec.cell == "lstm":
                i, f, g, o = gates(projected[t] + mg.matmul(h, p["recurrent_weights"]))
                c = sigmoid(f) * c + sigmoid(i) * mg.tanh(g)
                h = sigmoid(o) * mg.tanh(c)
            else:
                xr, xz, xn = gates(projected[t])
                hr, hz, hn = gates(mg.matmul(h, p["recurrent_weights"]) + p["recurrent_bias"])
                z = sigmoid(xz + hz)
                h = (1 - z) * mg.tanh(xn + sigmoid(xr + hr) * hn) + z * h
        return softmax_crossentropy(mg.matmul(h, p["output_weights"]) + p["output_bias"], y)

    return trainer(loss, list(p.values()), w.ADAM, spec.data())


def train_convnet(spec: w.ConvNet, variant: str) -> Step:
    if len(spec.layers) > 14:
        raise w.UnsupportedWorkload("NumPy's convolution is far too slow at this size")
    running = ("mean", "variance")  # mygrad's batch-norm keeps no statistics
    layers = [{n: mg.tensor(a) for n, a in values.items() if n not in running} for values in spec.parameters()]

    def loss(x: np.ndarray, y: np.ndarray) -> mg.Tensor:
        for layer, p in zip(spec.layers, layers):
            match layer:
                case w.Conv(batch_norm=True):
                    x = conv_nd(x, p["weights"], stride=1, padding=layer.pad)
                    x = batchnorm(x, gamma=p["gamma"], beta=p["beta"], eps=w.BATCH_NORM_EPSILON)
                case w.Conv():
                    x = conv_nd(x, p["weights"], stride=1, padding=layer.pad) + p["bias"].reshape(1, -1, 1, 1)
                case w.MaxPool(size=k, stride=s):
                    x = max_pool(x, (k, k), s)
                case w.Dense():
                    x = mg.matmul(x.reshape(x.shape[0], -1), p["weights"]) + p["bias"]
                case w.AveragePool():
                    x = x.mean((2, 3))
            match getattr(layer, "activation", "linear"):
                case "leaky":
                    x = leaky_relu(x, w.LEAKY_SLOPE)
                case "relu":
                    x = relu(x)
        return softmax_crossentropy(x, y)

    return trainer(loss, [p for layer in layers for p in layer.values()], w.SGD, spec.data())
