"""The parent: starts one process per contender, checks that they do the same work, then times them in turn.

A time is the median over rounds of the median step in a slice; a ratio is the median over rounds of two contenders'
times *in the same round*, so that what the machine does besides hits both.
"""

import contextlib
import fcntl
import json
import os
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.child import LOSSES
from benchmarks.contenders import HERE, PEERS, ROOT, Contender
from benchmarks.workloads import THREADS, WORKLOADS

RESULTS = HERE / "results"
AGREEMENT = 1e-4  # of pullback's losses with the base's
SAME_WORK = 1e-3  # of other libraries' losses: Keras' Adam, for one, adds its epsilon elsewhere
MAX_STEPS = 400  # in a slice; few enough that no workload trains until Adam's moments turn denormal
SETTLE_SECONDS = 0.25  # the previous contender's threads may spin this long before they sleep
THREAD_VARIABLES = (
    "PULLBACK_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
ISA_VARIABLES = {  # what holds a library to fewer instructions than the machine has
    "avx2": {
        "PULLBACK_ISA": "avx2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    }
}
BUSY_VARIABLES = {"BENCH_CLOCK": "cpu", "BENCH_THREADS": "1"}
CACHE_VARIABLES = (
    "PULLBACK_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "NUMBA_CACHE_DIR",
    "PYTENSOR_COMPILEDIR",
    "XDG_CACHE_HOME",
)


Results = dict[str, dict[str, Any]]  # contender -> figure -> value

# Two slow OpenBLAS down; without byte code a library that runs from its sources is compiled anew at every start.
NOT_INHERITED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE")


class ContenderFailed(Exception):
    """A contender can't do the work, died or took too long; the message says which."""


@contextlib.contextmanager
def machine_lock() -> Iterator[None]:
    """Two benchmarks on one machine take turns, a round at a time."""
    with open(Path(tempfile.gettempdir()) / "pullback-benchmark.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shared_environment() -> dict[str, str]:
    """Of all children: the same number of threads, and no OpenBLAS tuning inherited from this shell."""
    inherited = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
    return inherited | dict.fromkeys(THREAD_VARIABLES, os.environ.get("BENCH_THREADS", str(THREADS)))


def environment(contender: Contender, extra: dict[str, str]) -> dict[str, str]:
    """One child's."""
    return shared_environment() | contender.peer.environment | {"BENCH_VARIANT": contender.variant} | extra


class Child:
    """One contender's process, built and waiting for orders."""

    def __init__(self, contender: Contender, workload: str, extra: dict[str, str] | None = None) -> None:
        self.contender = contender
        logs = RESULTS / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self.log = logs / f"{workload}-{contender}.log".replace(":", "_")
        self.result: dict[str, Any] = {}
        self.step_seconds = 0.0
        arguments = ["-m", "benchmarks.child", contender.peer.module, contender.variant, workload]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [contender.peer.interpreter(), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=environment(contender, {"BENCH_STARTED": repr(time.monotonic()), **(extra or {})}),
            )

    def receive(self, seconds: float) -> dict[str, Any]:
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            raise ContenderFailed(f"took over {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise ContenderFailed(f"died with exit status {self.process.wait()}; see {self.log.relative_to(ROOT)}")
        message = json.loads(line)
        if "failed" in message:
            raise ContenderFailed(message["failed"])
        return message

    def steps(self, seconds: float, at_least: int, at_most: int, patience: float = 120) -> dict[str, Any]:
        order = {"seconds": seconds, "at_least": at_least, "at_most": at_most}
        try:
            print(json.dumps(order), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise ContenderFailed(f"died; see {self.log.relative_to(ROOT)}") from None
        return self.receive(patience)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def largest_difference(losses: Sequence[float | None], expected: Sequence[float | None]) -> float:
    """Relative to the expected loss where that is above 1; None stands for a step that gave no check value."""
    pairs = [(a, b) for a, b in zip(losses, expected) if a is not None and b is not None]
    return float(np.max([abs(a - b) / max(1.0, abs(b)) for a, b in pairs]))  # NumPy's max keeps a NaN


def ratio(contender: dict[str, Any], base: dict[str, Any]) -> float | None:
    if not contender.get("rounds") or not base.get("rounds"):
        return None
    return statistics.median(a / b for a, b in zip(contender["rounds"], base["rounds"]))


def compare(
    workload: str, contenders: Sequence[Contender], base: str, rounds: int, slice_seconds: float, patience: float
) -> tuple[str, Results]:
    """Times the contenders whose losses agree with `base`'s; where that can't do the work, another takes its place.

    Returns the base's name, and for each contender's name its figures, or `{"failed": why}`."""
    children = [Child(contender, workload) for contender in contenders]
    try:
        for child in children:
            with _failures_kept(child):
                child.result = child.receive(patience)
        for child in _running(children):
            with _failures_kept(child):
                answer = child.steps(0, LOSSES - 1, LOSSES - 1)
                child.step_seconds = statistics.median(answer.pop("times"))
                child.result |= answer
        ready = {str(child.contender): child.result for child in _running(children)}
        base = base if base in ready else next((name for name in ready if name != "pullback"), "pullback")
        for child in _running(children):
            with _failures_kept(child):
                limit = AGREEMENT if child.contender.peer.name == "pullback" else SAME_WORK
                _check_agreement(child.result, ready[base]["losses"][: WORKLOADS[workload].compared], limit)
        for _ in range(rounds):
            with machine_lock():
                for child in _running(children):
                    with _failures_kept(child):
                        _time_slice(child, slice_seconds)
    finally:
        for child in children:
            child.close()
    for child in _running(children):
        child.result["ms"] = 1e3 * statistics.median(child.result["rounds"])
    return base, {str(child.contender): child.result for child in children}


@contextlib.contextmanager
def _failures_kept(child: Child) -> Iterator[None]:
    try:
        yield
    except ContenderFailed as failure:
        child.result = {"failed": str(failure)}


def _running(children: Sequence[Child]) -> list[Child]:
    return [child for child in children if "failed" not in child.result]


def _check_agreement(result: dict[str, Any], expected: Sequence[float | None], limit: float) -> None:
    result["disagreement"] = largest_difference(result["losses"], expected)
    if not result["disagreement"] <= limit:
        shown = ", ".join(f"{loss:.6g}" for loss in result["losses"][:4])
        raise ContenderFailed(f"its losses ({shown}, ...) differ by {result['disagreement']:.1e}: not the same work")


def _time_slice(child: Child, seconds: float) -> None:
    time.sleep(SETTLE_SECONDS)
    answer = child.steps(seconds, 1 if child.step_seconds > 0.8 else 3, MAX_STEPS)
    warm = answer["times"][2:] if len(answer["times"]) > 10 else answer["times"]
    child.result.setdefault("rounds", []).append(statistics.median(warm))
    child.result["peak_memory_mb"] = answer["peak_memory_mb"]


def cold_starts(
    workloads: Sequence[str], contenders: Sequence[Contender], repetitions: int, fresh: bool, patience: float
) -> dict[str, Results]:
    """From process start to the end of the first step. Workload -> contender -> medians over `repetitions`.

    fresh: every start finds empty compile caches; else the user's are used, and one unmeasured start fills them."""
    return {
        workload: {str(c): _cold_start(workload, c, repetitions, fresh, patience) for c in contenders}
        for workload in workloads
    }


def _cold_start(workload: str, contender: Contender, repetitions: int, fresh: bool, patience: float) -> dict[str, Any]:
    starts: list[dict[str, Any]] = []
    try:
        for _ in range(repetitions + (not fresh)):
            with machine_lock(), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty:
                caches = {name: f"{empty}/{name}" for name in CACHE_VARIABLES} if fresh else {}
                child = Child(contender, workload, caches)
                try:
                    starts.append(child.receive(patience))
                finally:
                    child.close()
    except ContenderFailed as failure:
        return {"failed": str(failure)}
    measured = starts if fresh else starts[1:]
    figures = ("cold_start_seconds", "first_step_seconds", "import_seconds", "peak_memory_mb")
    return {"version": starts[0]["version"]} | {f: statistics.median(s[f] for s in measured) for f in figures}


def single_kernels(what: str, rounds: int, seconds: float, patience: float) -> dict[str, Any]:
    """`beside` PyTorch, in one process of its environment, or `scaling` from one thread to two, in pullback's."""
    interpreter = PEERS["torch" if what == "beside" else "pullback"].interpreter()
    if interpreter is None:
        raise LookupError("torch is not installed; run: python -m benchmarks --setup torch")
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT / "src")]))
    with machine_lock():
        done = subprocess.run(
            [interpreter, "-m", "benchmarks.kernels.measure", what, str(rounds), str(seconds)],
            stdout=subprocess.PIPE,
            check=True,
            timeout=patience,
            cwd=ROOT,
            env=shared_environment() | {"PYTHONPATH": path},
        )
    return json.loads(done.stdout)


def installed_sizes(contenders: Sequence[Contender], patience: float) -> Results:
    """Installed size with dependencies, and peak memory after the first step of W1."""
    results: Results = {}
    for contender in contenders:
        peer = contender.peer
        if peer.name in results:
            continue
        command = [peer.interpreter(), "-m", "benchmarks.sizes", peer.package]
        size = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout)
        start = _cold_start("W1", contender, 1, fresh=False, patience=patience)
        results[peer.name] = start | {"installed_mb": size}
    return results
