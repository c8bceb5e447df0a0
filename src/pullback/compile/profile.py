"""Where a function's time goes: each step of a plan timed by itself."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import codegen
from .binding import HostCall, KernelCall
from .plan import Plan


@dataclass(frozen=True)
class StepTime:
    """One step: what it runs, for which op, over how many pieces of work, and its median time in microseconds."""

    kernel: str
    op: str
    n: int
    chunks: int
    microseconds: float


@dataclass(frozen=True)
class Profile:
    """Times of the steps in order; printing it sums them by kernel."""

    steps: tuple[StepTime, ...]

    def __str__(self) -> str:
        total = sum(s.microseconds for s in self.steps) or 1.0
        groups: dict[tuple[str, str], list[float]] = {}
        for s in self.steps:
            groups.setdefault((s.kernel, s.op), []).append(s.microseconds)
        rows = sorted(groups.items(), key=lambda item: -sum(item[1]))
        lines = [f"{'us':>10} {'share':>6} {'steps':>5}  kernel (op)"]
        for (kernel, op), times in rows:
            lines.append(f"{sum(times):10.1f} {sum(times) / total:6.1%} {len(times):5}  {kernel} ({op})")
        return "\n".join([*lines, f"{total:10.1f} {'':>6} {len(self.steps):5}  in all"])


def profile_calls(call: Callable[[], Any], plan: Plan, repeats: int) -> Profile:
    """Run `call` (which runs `plan`) `repeats` times with a clock around every step.

    What only shared variables decide has been computed by then, and is not among the steps.
    """
    clock = Clock()
    timed: list[Any] = []
    steps: list[StepTime] = []
    row = sum(isinstance(step, KernelCall) and step.n > 0 for step in plan.steps if step.fixed)
    for step in plan.steps:
        if step.fixed or (isinstance(step, KernelCall) and step.n == 0):
            continue
        if isinstance(step, KernelCall):
            steps.append(StepTime(step.instance.name, str(step.node.op), step.n, step.chunks, 0.0))
            timed += [clock.start, codegen.Launch(plan.table[row : row + 1]), clock.stop]
            row += 1
        else:
            kernel = "perform" if isinstance(step, HostCall) else "check"
            steps.append(StepTime(kernel, str(step.node.op), 1, 1, 0.0))
            timed += [clock.start, step, clock.stop]
    segments, plan.segments = plan.segments, timed
    try:
        for _ in range(repeats):
            call()
    finally:
        plan.segments = segments
    medians = np.median(np.reshape(clock.seconds, (repeats, len(steps))), axis=0) * 1e6
    return Profile(tuple(replace(step, microseconds=float(us)) for step, us in zip(steps, medians)))


class Clock:
    """Keeps the seconds between each start and stop."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._begun = 0.0

    def start(self) -> None:
        self._begun = time.perf_counter()

    def stop(self) -> None:
        self.seconds.append(time.perf_counter() - self._begun)
