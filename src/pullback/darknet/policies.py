"""Darknet's learning rates, batch by batch."""

from dataclasses import dataclass

from .. import ops
from ..errors import ArgumentError
from ..nn.optimizers import SGD, Adam, Optimizer
from ..nn.schedules import Cosine, Schedule
from ..ops import random
from .cfg import Cfg, CfgError
from .dialects import Dialect

POLICIES = ("constant", "step", "steps", "exp", "poly", "random", "sig", "sigmoid", "sgdr")


@dataclass(frozen=True)
class Policy(Schedule):
    """The learning rate after n batches: during burn-in rate (n / burn_in)^power, later by the policy:

        constant   rate
        step       rate scale^floor(n / step)
        steps      rate, times each of `scales` whose step is reached
        exp        rate gamma^n
        poly       rate (1 - n / max_batches)^power
        random     rate u^power, u between 0 and 1 drawn anew for each batch
        sig        rate / (1 + exp(gamma (n - step)))
        sgdr       least + (rate - least) (1 + cos(pi share of the cycle done)) / 2, cycles growing by `stretch`
    """

    policy: str = "constant"
    base: float = 0.001
    burn_in: int = 0
    power: float = 4.0
    step: int = 1
    scale: float = 1.0
    steps: tuple[int, ...] = ()
    scales: tuple[float, ...] = ()
    gamma: float = 1.0
    max_batches: int = 0
    least: float = 1e-5
    cycle: int = 0
    stretch: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ArgumentError(f"Policy: policy={self.policy!r}; expected one of {POLICIES}")
        if len(self.steps) != len(self.scales):
            raise ArgumentError(f"Policy: {len(self.steps)} steps, but {len(self.scales)} scales")
        if self.policy == "poly" and self.max_batches < 1:
            raise ArgumentError("Policy: poly needs max_batches of 1 or more")

    def __call__(self, step):
        rate = self._after_burn_in(step)
        if not self.burn_in:
            return rate
        early = self.base * ops.power(step / self.burn_in, self.power)
        return ops.where(step < self.burn_in, early, rate)

    def _after_burn_in(self, n):
        match self.policy:
            case "step":
                return self.base * ops.power(self.scale, ops.floor(n / self.step))
            case "steps":
                rate = ops.full_like(n, self.base)
                for at, scale in zip(self.steps, self.scales):
                    rate = ops.where(n >= at, rate * scale, rate)
                return rate
            case "exp":
                return self.base * ops.power(self.gamma, n)
            case "poly":
                return self.base * ops.power(ops.maximum(1.0 - n / self.max_batches, 0.0), self.power)
            case "random":
                key = random.key(self.seed, 0)
                drawn = random.uniform((key, ops.cast(n, "int64")), size=(), dtype="float64")
                return self.base * ops.power(drawn, self.power)
            case "sig" | "sigmoid":
                return self.base * ops.sigmoid(-self.gamma * (n - self.step))
            case "sgdr":
                cycle = self.cycle or max(self.max_batches, 1)
                return Cosine(self.base, cycle, self.least, restarts=True, stretch=max(self.stretch, 1.0))(n)
        return ops.full_like(n, self.base)


@dataclass(frozen=True)
class Regime:
    """How [net] wants to be trained.

    Attributes:
        batch: images per step.
        subdivisions: in how many parts they are taken, gradients added up.
        max_batches: steps in all; 0 for no end.
        optimizer: with its schedule.
        average: of the weights' running average, AlexeyAB's ema_alpha; 0 for none.
    """

    batch: int
    subdivisions: int
    max_batches: int
    optimizer: Optimizer
    average: float = 0.0


def policy_of(cfg: Cfg, dialect: Dialect, seed: int = 0) -> Policy:
    """The learning rates that [net] asks for."""
    net = cfg.net
    name = net.choice("policy", "constant", POLICIES)
    steps = net.wholes("steps", ()) if name == "steps" else ()
    scales = net.reals("scales", ()) if name == "steps" else ()
    if name == "steps" and (not steps or len(steps) != len(scales)):
        raise CfgError(f"{net.place('steps')}: {len(steps)} steps, but {len(scales)} scales")
    most = net.whole("max_batches", 0, least=0)
    if name == "poly" and not most:
        raise CfgError(f"{net}: policy=poly needs max_batches")
    return Policy(
        policy=name,
        base=net.real("learning_rate", 0.001, least=0),
        burn_in=net.whole("burn_in", 0, least=0),
        power=net.real("power", 4.0),
        step=net.whole("step", 1, least=1),
        scale=net.real("scale", 1.0),
        steps=steps,
        scales=scales,
        gamma=net.real("gamma", 1.0),
        max_batches=most,
        least=net.real("learning_rate_min", 1e-5),
        cycle=net.whole("sgdr_cycle", 0, least=0),
        stretch=net.real("sgdr_mult", 2.0),
        seed=seed,
    )


def regime_of(cfg: Cfg, dialect: Dialect, seed: int = 0) -> Regime:
    """How a cfg wants to be trained.

    Darknet's rule for SGD, u = momentum u - sum of gradients - decay batch w, w = w + rate / batch u, is that of
    `nn.SGD` with v = -u / batch; decay applies to weights, not to biases and scales.
    """
    net = cfg.net
    rate = policy_of(cfg, dialect, seed)
    decay = net.real("decay", 1e-4, least=0)
    batch, parts = net.whole("batch", 1, least=1), net.whole("subdivisions", 1, least=1)
    if net.flag("adam"):
        default = 1e-7 if dialect.name == "pjreddie" else 1e-6
        optimizer: Optimizer = Adam(
            rate, decay, beta1=net.real("B1", 0.9), beta2=net.real("B2", 0.999), epsilon=net.real("eps", default)
        )
    else:
        optimizer = SGD(rate, decay, momentum=net.real("momentum", 0.9))
    average = net.real("ema_alpha", 0.0, least=0)
    return Regime(batch, min(parts, batch), net.whole("max_batches", 0, least=0), optimizer, average)

