"""NumPyNet's optimizers: each keeps its state for the parameters of one layer."""

from typing import Any

import numpy as np

from ... import nn
from ...compile import Function, function
from ...errors import ArgumentError
from ...graph import SharedVariable, TensorType, Variable
from .exception import NetworkError


class Optimizer:
    """Base of all. The learning rate at step t, from 0, is lr / (1 + decay t), held within lr_min and lr_max.

    Args:
        lr, decay, lr_min, lr_max: of the learning rate.
    """

    def __init__(self, lr: float = 1e-3, decay: float = 0.0, lr_min: float = 0.0, lr_max: float = np.inf) -> None:
        if not lr_min <= lr_max or not decay >= 0:
            raise ArgumentError(f"{self}: decay={decay}, lr_min={lr_min}, lr_max={lr_max}; expected 0 <= decay, "
                                "lr_min <= lr_max")  # fmt: skip
        self.first_lr, self.decay, self.lr_min, self.lr_max = lr, decay, lr_min, lr_max
        self.iterations = 1
        self._step: Function | None = None

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""
        return float(np.clip(self.first_lr / (1.0 + self.decay * (self.iterations - 1)), self.lr_min, self.lr_max))

    def rule(self) -> nn.Optimizer:
        """The optimizer of `nn` that does it."""
        raise NetworkError(f"{type(self).__name__} is only the base of optimizers: take SGD, Adam, ...")

    def update(self, params: list[np.ndarray], gradients: list[np.ndarray]) -> list[np.ndarray]:
        """The parameters after one step; the arrays that are given stay as they are."""
        if len(params) != len(gradients):
            raise ArgumentError(f"{self}: {len(params)} parameters and {len(gradients)} gradients")
        if self._step is None:
            self._step = self._compiled(params)
        new = self._step(np.float64(self.lr), *params, *(np.asarray(g, p.dtype) for p, g in zip(params, gradients)))
        self.iterations += 1
        return new

    def _compiled(self, params: list[np.ndarray]) -> Function:
        rule, rate = self.rule(), Variable(TensorType("float64", ()), name="lr")
        done = SharedVariable(np.int64(0), TensorType("int64", ()), "steps")
        t = done.astype("float64") + 1.0
        weights = [Variable(TensorType(p.dtype.name, p.shape)) for p in params]
        gradients = [Variable(v.type) for v in weights]
        outputs, updates = [], {done: done + 1}
        for w, g in zip(weights, gradients):
            first = {k: np.full(w.type.shape, v, w.dtype) for k, v in rule.slots().items()}
            slots = {k: SharedVariable(v, TensorType(w.dtype, v.shape), k) for k, v in first.items()}
            new, values = rule.rule(w, g, slots, rate, t)
            outputs.append(new)
            updates |= {slots[k]: v for k, v in values.items()}
        return function([rate, *weights, *gradients], outputs, updates=updates, name=str(self))

    def __copy__(self) -> "Optimizer":
        """The same settings, and a state of its own."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__, _step=None, iterations=1)
        return other

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        kept = {k: v for k, v in vars(self).items() if k[0] != "_" and k not in ("first_lr", "iterations")}
        return f"{self}({', '.join(f'{k}={v}' for k, v in {'lr': self.lr, **kept}.items())})"


class SGD(Optimizer):
    """w - lr g."""

    def rule(self):
        return nn.SGD()


class Momentum(Optimizer):
    """v = momentum v + g; w - lr v."""

    def __init__(self, momentum: float = 0.9, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.momentum = momentum

    def rule(self):
        return nn.SGD(momentum=self.momentum)


class NesterovMomentum(Momentum):
    """v = momentum v + g; w - lr (g + momentum v)."""

    def rule(self):
        return nn.SGD(momentum=self.momentum, nesterov=True)


class Adagrad(Optimizer):
    """s = s + g^2; w - lr g / (sqrt(s) + epsilon)."""

    def __init__(self, epsilon: float = 1e-6, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.epsilon = epsilon

    def rule(self):
        return nn.Adagrad(epsilon=self.epsilon)


class RMSprop(Optimizer):
    """s = rho s + (1 - rho) g^2; w - lr g / (sqrt(s) + epsilon)."""

    def __init__(self, rho: float = 0.9, epsilon: float = 1e-6, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rho, self.epsilon = rho, epsilon

    def rule(self):
        return nn.RMSProp(beta=self.rho, epsilon=self.epsilon)


class Adadelta(RMSprop):
    """Steps in units of the parameter: see `nn.Adadelta`."""

    def rule(self):
        return nn.Adadelta(beta=self.rho, epsilon=self.epsilon)


class Adam(Optimizer):
    """See `nn.Adam`."""

    def __init__(
        self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def rule(self):
        return nn.Adam(beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon)


class Adamax(Adam):
    """See `nn.Adamax`."""

    def rule(self):
        return nn.Adamax(beta1=self.beta1, beta2=self.beta2, epsilon=self.epsilon)
