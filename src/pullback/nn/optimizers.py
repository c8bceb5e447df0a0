"""Optimizers: rules that turn gradients into updates of parameters, as expressions.

With `function` they make a training step of any cost:

    >>> import numpy as np, pullback as pb
    >>> w = pb.shared(np.array([4.0, -2.0]), name="w")
    >>> cost = (w**2).sum()
    >>> step = pb.function([], cost, updates=SGD(0.25).updates(cost, [w]))
    >>> float(step()), w.get_value()
    (20.0, array([ 2., -1.]))
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, ArgumentTypeError, FormatError
from ..gradient.engine import grad
from ..graph import SharedVariable, TensorType, Variable
from .configuration import Configuration
from .schedules import Schedule

State = dict[str, Variable]


@dataclass(frozen=True)
class Optimizer(Configuration):
    """Base of all optimizers. A subclass writes `slots` and `rule`.

    Args:
        learning_rate: a number, a Schedule, or a scalar variable.
        weight_decay: strength of the decay of weights. It is part of the update and not of the cost that is shown:
            use the network's `l2` for a penalty that is. Added to the gradient as weight_decay * w, except where the
            class says that it is decoupled.
    """

    learning_rate: float | Schedule | Variable = 1e-3
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        rate = self.learning_rate
        if isinstance(rate, (int, float)) and not rate >= 0:
            raise ArgumentError(f"{type(self).__name__}: learning_rate={rate}; expected a number from 0 up")
        if not isinstance(rate, (int, float, Schedule, Variable)):
            raise ArgumentTypeError(f"{type(self).__name__}: learning_rate={rate!r}; expected a number or a Schedule")
        if not self.weight_decay >= 0:
            raise ArgumentError(f"{type(self).__name__}: weight_decay={self.weight_decay}; expected a number from 0 up")

    def slots(self) -> dict[str, float | np.ndarray]:
        """The arrays that the rule keeps for each parameter, and their first value: a number fills an array like the
        parameter, an array is taken as it is."""
        return {}

    def rule(self, w: Variable, g: Variable, state: State, rate: Variable, t: Variable) -> tuple[Variable, State]:
        """The parameter's next value, and that of its slots.

        Args:
            w, g: the parameter and its gradient.
            state: the slots.
            rate: the learning rate, a float64 scalar.
            t: the number of this step, from 1, a float64 scalar.
        """
        raise NotImplementedError(f"{type(self).__name__} must define rule(self, w, g, state, rate, t)")

    def updates(
        self,
        cost: Variable | Sequence[Variable],
        parameters: Sequence[SharedVariable],
        *,
        undecayed: Collection[SharedVariable] = (),
        multipliers: Mapping[SharedVariable, float] | None = None,
        state: dict[str, SharedVariable] | None = None,
    ) -> dict[SharedVariable, Variable]:
        """The updates of one step that lowers `cost`: the parameters', and those of the optimizer's own state.

        Args:
            cost: a scalar, or the gradients with respect to `parameters`.
            undecayed: parameters without weight decay.
            multipliers: {parameter: what multiplies its learning rate}.
            state: the optimizer's own arrays by name ("<parameter>.<slot>"), so that they can be saved: what is there
                is used, what is missing is made and put in.
        """
        grads = grad(cost, list(parameters)) if isinstance(cost, Variable) else list(cost)
        if len(grads) != len(parameters):
            raise ArgumentError(f"{type(self).__name__}: {len(grads)} gradients for {len(parameters)} parameters")
        state = {} if state is None else state
        steps = _kept(state, "steps", np.zeros((), np.int64))
        done = steps.astype("float64")
        rate = self.learning_rate(done) if isinstance(self.learning_rate, Schedule) else self.learning_rate
        rate = ops.cast(ops.asarray(rate), "float64")
        updates: dict[SharedVariable, Variable] = {steps: steps + 1}
        for w, g, name in zip(parameters, grads, _distinct([w.name or "parameter" for w in parameters])):
            rule = replace(self, weight_decay=0.0) if w in undecayed else self
            slots = {k: _slot(state, w, f"{name}.{k}", first) for k, first in self.slots().items()}
            multiplier = (multipliers or {}).get(w, 1.0)
            own_rate = rate if multiplier == 1 else rate * multiplier
            updates[w], new = rule.rule(w, g, slots, own_rate, done + 1.0)
            updates |= {slots[k]: value for k, value in new.items()}
        return updates

    def decayed(self, w: Variable, g: Variable) -> Variable:
        """The gradient with the weight decay added: that of cost + weight_decay / 2 |w|^2."""
        return g + self.weight_decay * w if self.weight_decay else g


def _kept(state: dict[str, SharedVariable], name: str, first: np.ndarray) -> SharedVariable:
    kept = state.setdefault(name, SharedVariable(first, TensorType(first.dtype.name, first.shape), name))
    if kept.storage.shape != first.shape:
        raise FormatError(f"the optimizer's {name!r} has shape {kept.storage.shape}; expected {first.shape}")
    return kept


def _slot(state: dict[str, SharedVariable], w: SharedVariable, name: str, first: float | np.ndarray) -> SharedVariable:
    value = first if isinstance(first, np.ndarray) else np.full_like(w.storage, first)
    return _kept(state, name, value)


def _distinct(names: list[str]) -> list[str]:
    """The names, with a number behind those that occur more than once."""
    times = Counter(names)
    return [name if times[name] == 1 else f"{name} {i}" for i, name in enumerate(names)]


def _as(w: Variable, scalar: Any) -> Variable:
    """A float64 scalar in the dtype of `w`, so that the product is of that dtype too."""
    return ops.cast(ops.asarray(scalar), w.dtype)


def _average(old: Variable, new: Variable, beta: float) -> Variable:
    """The running average beta old + (1 - beta) new."""
    return beta * old + (1.0 - beta) * new


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent: v = momentum v + (1 - dampening) g, w = w - rate v; with nesterov: w - rate (g +
    momentum v). As in PyTorch the first v is g (Sutskever et al. 2013, with the rate outside the velocity)."""

    learning_rate: float | Schedule | Variable = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_betas(self, momentum=self.momentum)
        if self.nesterov and (not self.momentum or self.dampening):
            raise ArgumentError(f"{type(self).__name__}: nesterov needs momentum above 0 and no dampening")

    def slots(self):
        return {"velocity": 0.0} if self.momentum else {}

    def rule(self, w, g, state, rate, t):
        g = self.decayed(w, g)
        if not self.momentum:
            return w - _as(w, rate) * g, {}
        damped = (1.0 - self.dampening) * g if self.dampening else g
        velocity = self.momentum * state["velocity"] + damped
        if self.dampening:
            velocity = ops.where(t <= 1.0, g, velocity)
        step = g + self.momentum * velocity if self.nesterov else velocity
        return w - _as(w, rate) * step, {"velocity": velocity}


@dataclass(frozen=True)
class Momentum(SGD):
    """SGD with momentum 0.9."""

    momentum: float = 0.9


@dataclass(frozen=True)
class Nesterov(SGD):
    """SGD with Nesterov's momentum 0.9."""

    momentum: float = 0.9
    nesterov: bool = True


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """s = s + g^2, w = w - rate / (1 + (t - 1) rate_decay) g / (sqrt(s) + epsilon) (Duchi et al. 2011)."""

    learning_rate: float | Schedule | Variable = 0.01
    rate_decay: float = 0.0
    first: float = 0.0
    epsilon: float = 1e-10

    def slots(self):
        return {"sum": self.first}

    def rule(self, w, g, state, rate, t):
        g = self.decayed(w, g)
        total = state["sum"] + ops.square(g)
        rate = rate / (1.0 + (t - 1.0) * self.rate_decay) if self.rate_decay else rate
        return w - _as(w, rate) * (g / (ops.sqrt(total) + self.epsilon)), {"sum": total}


@dataclass(frozen=True)
class RMSProp(Optimizer):
    """s = beta s + (1 - beta) g^2, w = w - rate g / (sqrt(s) + epsilon) (Hinton 2012); `centered` subtracts the squared
    average of g from s, and `momentum` accumulates the steps (Graves 2013)."""

    learning_rate: float | Schedule | Variable = 0.01
    beta: float = 0.99
    momentum: float = 0.0
    centered: bool = False
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_betas(self, beta=self.beta, momentum=self.momentum)

    def slots(self):
        kept = {"square": 0.0, "mean": 0.0, "velocity": 0.0}
        return {k: v for k, v in kept.items() if k == "square" or (self.centered if k == "mean" else self.momentum)}

    def rule(self, w, g, state, rate, t):
        g = self.decayed(w, g)
        new = {"square": _average(state["square"], ops.square(g), self.beta)}
        spread = new["square"]
        if self.centered:
            new["mean"] = _average(state["mean"], g, self.beta)
            spread = spread - ops.square(new["mean"])
        step = g / (ops.sqrt(spread) + self.epsilon)
        if self.momentum:
            step = new["velocity"] = self.momentum * state["velocity"] + step
        return w - _as(w, rate) * step, new


@dataclass(frozen=True)
class Adadelta(Optimizer):
    """Steps in units of the parameter: d = g sqrt(a + epsilon) / sqrt(s + epsilon), with running averages s of g^2
    and a of d^2 (Zeiler 2012)."""

    learning_rate: float | Schedule | Variable = 1.0
    beta: float = 0.9
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_betas(self, beta=self.beta)

    def slots(self):
        return {"square": 0.0, "square_step": 0.0}

    def rule(self, w, g, state, rate, t):
        g = self.decayed(w, g)
        square = _average(state["square"], ops.square(g), self.beta)
        step = ops.sqrt(state["square_step"] + self.epsilon) / ops.sqrt(square + self.epsilon) * g
        new = {"square": square, "square_step": _average(state["square_step"], ops.square(step), self.beta)}
        return w - _as(w, rate) * step, new


@dataclass(frozen=True)
class Moments(Optimizer):
    """Base of the Adam family: m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g^2."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_betas(self, beta1=self.beta1, beta2=self.beta2)

    def slots(self):
        return {"mean": 0.0, "square": 0.0}

    def moments(self, g: Variable, state: State) -> State:
        """m and v after this step."""
        return {
            "mean": _average(state["mean"], g, self.beta1),
            "square": _average(state["square"], ops.square(g), self.beta2),
        }


@dataclass(frozen=True)
class Adam(Moments):
    """m and v divided by 1 - beta^t; w = w - rate m / (sqrt(v) + epsilon) (Kingma and Ba 2015). `amsgrad` takes the
    largest v so far (Reddi et al. 2018)."""

    amsgrad: bool = False

    def slots(self):
        return super().slots() | ({"largest_square": 0.0} if self.amsgrad else {})

    def rule(self, w, g, state, rate, t):
        new = self.moments(self.decayed(w, g), state)
        square = new["square"]
        if self.amsgrad:
            square = new["largest_square"] = ops.maximum(state["largest_square"], square)
        step = _as(w, rate / (1.0 - ops.power(self.beta1, t)))
        root = ops.sqrt(square) * _as(w, 1.0 / ops.sqrt(1.0 - ops.power(self.beta2, t)))
        return w - step * (new["mean"] / (root + self.epsilon)), new


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay: w is first multiplied by 1 - rate weight_decay (Loshchilov and Hutter 2019)."""

    weight_decay: float = 0.01

    def rule(self, w, g, state, rate, t):
        shrunk = w * _as(w, 1.0 - rate * self.weight_decay) if self.weight_decay else w
        return Adam.rule(replace(self, weight_decay=0.0), shrunk, g, state, rate, t)


@dataclass(frozen=True)
class Adamax(Moments):
    """Adam with the largest gradient in place of the root: u = max(beta2 u, |g| + epsilon), w = w - rate / (1 -
    beta1^t) m / u (Kingma and Ba 2015, section 7)."""

    def slots(self):
        return {"mean": 0.0, "largest": 0.0}

    def rule(self, w, g, state, rate, t):
        g = self.decayed(w, g)
        mean = _average(state["mean"], g, self.beta1)
        largest = ops.maximum(self.beta2 * state["largest"], ops.abs(g) + self.epsilon)
        step = _as(w, rate / (1.0 - ops.power(self.beta1, t)))
        return w - step * (mean / largest), {"mean": mean, "largest": largest}


@dataclass(frozen=True)
class NAdam(Moments):
    """Adam with Nesterov's momentum, whose weight mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2) grows with t (Dozat
    2016).

    The product of all mu so far is one more number per parameter, kept in float32 as PyTorch keeps it.
    """

    learning_rate: float | Schedule | Variable = 2e-3
    momentum_decay: float = 0.004

    def slots(self):
        return super().slots() | {"product": np.ones((), np.float32)}

    def rule(self, w, g, state, rate, t):
        g = self.decayed(w, g)
        new = self.moments(g, state)
        mu, after = self.momentum(t), self.momentum(t + 1.0)
        new["product"] = state["product"] * ops.cast(mu, "float32")
        product = ops.cast(new["product"], "float64")
        root = ops.sqrt(new["square"] * _as(w, 1.0 / (1.0 - ops.power(self.beta2, t)))) + self.epsilon
        step = _as(w, rate * (1.0 - mu) / (1.0 - product)) * g
        ahead = _as(w, rate * after / (1.0 - product * after)) * new["mean"]
        return w - (step + ahead) / root, new

    def momentum(self, t: Variable) -> Variable:
        """mu_t."""
        return self.beta1 * (1.0 - 0.5 * ops.power(0.96, t * self.momentum_decay))


@dataclass(frozen=True)
class RAdam(Moments):
    """Adam that waits: while too few steps were made to know the variance, w = w - rate m / (1 - beta1^t); later the
    step is multiplied by a factor that rises to 1 (Liu et al. 2020, algorithm 2)."""

    def rule(self, w, g, state, rate, t):
        new = self.moments(self.decayed(w, g), state)
        mean = new["mean"] * _as(w, rate / (1.0 - ops.power(self.beta1, t)))
        decay = ops.power(self.beta2, t)
        final = 2.0 / (1.0 - self.beta2) - 1.0
        length = final - 2.0 * t * decay / (1.0 - decay)
        known = length > 5.0
        safe = ops.where(known, length, 6.0)
        scale = (safe - 4.0) * (safe - 2.0) * final / ((final - 4.0) * (final - 2.0) * safe)
        factor = _as(w, ops.sqrt(scale * (1.0 - decay)))
        step = ops.where(known, factor / (ops.sqrt(new["square"]) + self.epsilon), 1.0)
        return w - mean * step, new


@dataclass(frozen=True)
class Lion(Optimizer):
    """w = w - rate (sign(beta1 m + (1 - beta1) g) + weight_decay w), m = beta2 m + (1 - beta2) g; the decay is
    decoupled (Chen et al. 2023, algorithm 2)."""

    learning_rate: float | Schedule | Variable = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_betas(self, beta1=self.beta1, beta2=self.beta2)

    def slots(self):
        return {"mean": 0.0}

    def rule(self, w, g, state, rate, t):
        step = self.decayed(w, ops.sign(_average(state["mean"], g, self.beta1)))
        return w - _as(w, rate) * step, {"mean": _average(state["mean"], g, self.beta2)}


def _check_betas(optimizer: Optimizer, **betas: float) -> None:
    for name, beta in betas.items():
        if not 0 <= beta < 1:
            raise ArgumentError(f"{type(optimizer).__name__}: {name}={beta}; expected at least 0 and less than 1")


OPTIMIZERS = {
    "sgd": SGD, "momentum": Momentum, "nesterov": Nesterov, "adagrad": Adagrad, "rmsprop": RMSProp, "adadelta":
    Adadelta, "adam": Adam, "adamw": AdamW, "adamax": Adamax, "nadam": NAdam, "radam": RAdam, "lion": Lion,
}  # fmt: skip
