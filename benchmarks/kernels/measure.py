"""Runs where both libraries are: `python -m benchmarks.kernels.measure beside|scaling [NAME ...]` prints JSON."""

import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb
from benchmarks.child import CLOCK
from benchmarks.kernels import pullback_
from benchmarks.kernels.cases import CASES, Case
from benchmarks.peak import sgemm_gflops
from benchmarks.workloads import THREADS
from pullback import codegen

AGREEMENT = 1e-4  # largest difference over the largest value: float32 sums of some ten thousand numbers
SETTLE_SECONDS = 0.02  # the other pool's threads may spin this long before they sleep
Run = Callable[[], list]


def slice_seconds(run: Run, seconds: float) -> float:
    """The median time of one run, over as many as fit."""
    time.sleep(SETTLE_SECONDS)
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = CLOCK()
        run()
        times.append(CLOCK() - start)
    return statistics.median(times)


def alternated(runs: dict[str, Run], rounds: int, seconds: float) -> dict[str, list[float]]:
    """The median time of each in each round."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(slice_seconds(run, seconds))
    return times


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest one over all results, each relative to the largest value of the expected one."""
    worst = [np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in zip(found, expected, strict=True)]
    return float(np.max(worst))


def build(case: Case) -> Run:
    """pullback's run, called once so that its plan is made under the case's settings."""
    with pb.config.override(conv="fast" if case.fast else "accurate"):
        run = getattr(pullback_, case.kind)(case.arrays(), **case.options or {})
        run()
    return run


def beside(case: Case, rounds: int, seconds: float, peak: float) -> dict[str, Any]:
    """pullback and PyTorch's forms of one case, checked against each other and timed."""
    from benchmarks.kernels import torch_

    fresh = build(case)
    theirs: dict[str, Run] = getattr(torch_, case.kind)(case.arrays(), **case.options or {})
    for run in theirs.values():  # as often as ours has run: some change their inputs
        run()
    expected = [t.numpy() for t in next(iter(theirs.values()))()]
    disagreement = difference(fresh(), expected)
    if not disagreement <= AGREEMENT:
        return {"failed": f"the results differ by {disagreement:.1e}"}
    times = alternated({"pullback": fresh, **theirs}, rounds, seconds)
    fastest = min(theirs, key=lambda name: statistics.median(times[name]))
    ours = times["pullback"]
    return {
        "ms": 1e3 * statistics.median(ours),
        "torch_ms": {name: 1e3 * statistics.median(times[name]) for name in theirs},
        "fastest": fastest,
        "ratio": statistics.median(a / b for a, b in zip(ours, times[fastest])),
        "disagreement": disagreement,
        "share_of_peak": case.work / statistics.median(ours) / 1e9 / peak if case.work else None,
    }


def scaling(case: Case, rounds: int, seconds: float) -> dict[str, Any]:
    """One thread and two on one case, whose results must be the same bits."""
    run = build(case)

    def under(threads: int) -> Run:
        def with_threads() -> list[np.ndarray]:
            if codegen.get_threads() != threads:
                codegen.set_threads(threads)
            return run()

        return with_threads

    runs = {str(threads): under(threads) for threads in (1, 2)}
    one, two = (run() for run in runs.values())
    if not all(np.array_equal(a, b) for a, b in zip(one, two, strict=True)):
        return {"failed": "the results depend on the number of threads"}
    times = alternated(runs, rounds, seconds)
    return {
        "ms": {name: 1e3 * statistics.median(found) for name, found in times.items()},
        "ratio": statistics.median(a / b for a, b in zip(times["1"], times["2"])),
    }


def kept(measure: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What it measured, or why it failed: one case doesn't hide the others."""
    try:
        return measure(*arguments)
    except Exception as problem:
        traceback.print_exc()
        return {"failed": repr(problem)[:300]}


def main(what: str, rounds: str, seconds: str, *names: str) -> None:
    """Prints the record as JSON."""
    chosen = [case for case in CASES if not names or case.name in names]
    peak = sgemm_gflops(1024)
    if what == "scaling":
        chosen = [case for case in chosen if case.kind == "convolution"]
        results = {case.name: kept(scaling, case, int(rounds), float(seconds)) for case in chosen}
    else:
        import torch

        torch.set_num_threads(THREADS)
        results = {case.name: kept(beside, case, int(rounds), float(seconds), peak) for case in chosen}
    print(json.dumps({"sgemm_gflops": peak, "results": results}))


if __name__ == "__main__":
    main(*sys.argv[1:])
