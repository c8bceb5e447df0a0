"""Where a function's time goes: each step of a plan timed by itself."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

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
        total = float(np.nansum([s.microseconds for s in self.steps])) or 1.0
        groups: dict[tuple[str, str], list[float]] = {}
        for s in self.steps:
            groups.setdefault((s.kernel, s.op), []).append(s.microseconds)
        rows = sorted(groups.items(), key=lambda item: -np.nan_to_num(sum(item[1]), nan=np.inf))
        lines = [f"{'us':>10} {'share':>6} {'steps':>5}  kernel (op)"]
        for (kernel, op), times in rows:
            lines.append(f"{sum(times):10.1f} {sum(times) / total:6.1%} {len(times):5}  {kernel} ({op})")
        return "\n".join([*lines, f"{total:10.1f} {'':>6} {len(self.steps):5}  in all"])


def profile_plan(plan: Plan, repeats: int = 20) -> Profile:
    """Time each native record of a plan that has run at least once (its buffers still hold that run's values)."""
    steps: list[StepTime] = []
    row = 0
    for step in sorted(plan.steps, key=lambda step: not step.fixed):  # as the table has them
        if isinstance(step, KernelCall) and step.n > 0:
            launch = codegen.Launch(plan.table[row : row + 1])
            row += 1
            steps.append(
                StepTime(step.instance.name, str(step.node.op), step.n, step.chunks, _median(launch, repeats))
            )
        elif isinstance(step, HostCall):
            steps.append(StepTime("perform", str(step.node.op), 1, 1, float("nan")))
    return Profile(tuple(steps))


def _median(launch: codegen.Launch, repeats: int) -> float:
    times: Sequence[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        launch()
        times = [*times, time.perf_counter() - start]
    return float(np.median(times)) * 1e6
