"""NumPy with the backward pass of dense layers written out: what no library at all costs, and an independent check."""

from collections.abc import Callable

import numpy as np

from benchmarks import workloads as w
from benchmarks.peers.numpy_training import optimizer

VERSION = np.__version__


def mlp(spec: w.Mlp, variant: str) -> Callable[[], float]:
    pairs = spec.parameters()
    x, y = spec.data()
    rows = np.arange(spec.batch)
    update = optimizer([array for pair in pairs for array in pair], w.ADAM)

    def step() -> float:
        inputs = [x]
        for weights, bias in pairs:
            outputs = inputs[-1] @ weights + bias
            inputs.append(np.maximum(outputs, 0))
        shifted = outputs - outputs.max(1, keepdims=True)
        log_probabilities = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        g = np.exp(log_probabilities)
        g[rows, y] -= 1
        g /= np.float32(spec.batch)
        gradients: list[np.ndarray] = []
        for a, (weights, _) in zip(inputs[-2::-1], pairs[::-1]):
            gradients = [a.T @ g, g.sum(0), *gradients]
            g = g @ weights.T * (a > 0)
        update(gradients)
        return float(-log_probabilities[rows, y].mean())

    return step
