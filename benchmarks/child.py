"""Runs in a contender's own interpreter: `python -m benchmarks.child MODULE VARIANT WORKLOAD`.

Builds the workload and makes its first step, then makes steps whenever the parent asks. It speaks JSON lines on the
real stdout; what the library prints goes to stderr. Nothing heavy is imported before the library itself, so that the
cold start is the library's own.
"""

import importlib
import json
import os
import sys
import time
import traceback
from typing import Any

BUSY = os.environ.get("BENCH_CLOCK") == "cpu"
CLOCK = time.process_time if BUSY else time.perf_counter
LOSSES = 20  # of the first steps, kept for the comparison


def peak_memory_mb() -> float:
    """Largest resident size of this process so far (interpreter + NumPy + library)."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes


def main(module: str, variant: str, workload: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(**message: Any) -> None:
        print(json.dumps(message), file=answers)

    clock = time.process_time if BUSY else time.monotonic
    process_start = 0.0 if BUSY else float(os.environ["BENCH_STARTED"])
    try:
        start = clock()
        peer = importlib.import_module(module)
        imported = clock()

        from benchmarks.workloads import UnsupportedWorkload, find_workload

        work = find_workload(workload)
        if not hasattr(peer, work.kind):
            raise UnsupportedWorkload("not available in this library")
        step = getattr(peer, work.kind)(work.spec, variant)
        losses = [step()]
        done = clock()
    except Exception as problem:
        traceback.print_exc()
        say(failed=str(problem) if type(problem).__name__ == "UnsupportedWorkload" else repr(problem)[:300])
        return
    say(
        version=peer.VERSION,
        import_seconds=imported - start,
        first_step_seconds=done - imported,
        cold_start_seconds=done - process_start,
        peak_memory_mb=peak_memory_mb(),
    )
    for line in sys.stdin:
        order = json.loads(line)
        times: list[float] = []
        end = time.perf_counter() + order["seconds"]
        while (len(times) < order["at_least"] or time.perf_counter() < end) and len(times) < order["at_most"]:
            start = CLOCK()
            loss = step()
            times.append(CLOCK() - start)
            if len(losses) < LOSSES:
                losses.append(loss)
        say(times=times, losses=losses, peak_memory_mb=peak_memory_mb())


if __name__ == "__main__":
    main(*sys.argv[1:])
