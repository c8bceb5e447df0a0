"""Optimizers written in NumPy, for libraries that bring none."""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.workloads import ADAM, SGD, Adam, Sgd


def optimizer(parameters: Sequence[np.ndarray], kind: Adam | Sgd) -> Callable[[Sequence[np.ndarray]], None]:
    """A function that takes the gradients and updates `parameters` in place."""
    first = [np.zeros_like(p) for p in parameters]
    second = [np.zeros_like(p) for p in parameters]
    steps = 0

    def adam(gradients: Sequence[np.ndarray]) -> None:
        nonlocal steps
        steps += 1
        unbias1, unbias2 = 1 - ADAM.beta1**steps, 1 - ADAM.beta2**steps
        for p, g, m, v in zip(parameters, gradients, first, second):
            m *= ADAM.beta1
            m += (1 - ADAM.beta1) * g
            v *= ADAM.beta2
            v += (1 - ADAM.beta2) * g * g
            p -= ADAM.learning_rate * (m / unbias1) / (np.sqrt(v / unbias2) + ADAM.epsilon)

    def sgd(gradients: Sequence[np.ndarray]) -> None:
        for p, g, m in zip(parameters, gradients, first):
            m *= SGD.momentum
            m += g
            p -= SGD.learning_rate * m

    return adam if isinstance(kind, Adam) else sgd
