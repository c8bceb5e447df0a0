"""Run plans: tables of kernel calls, executed by one native call, shared between a few threads that wait inside it."""

import atexit
import ctypes
import math
import os
import threading
from typing import Any

import numpy as np

from ..errors import ArgumentError
from . import launcher_ir
from .launcher_ir import MOST_CHUNKS, RECORD
from .units import load_ir

SPINS = 4000  # pauses of an idle worker before it sleeps: some tens of microseconds
FLUSH_BITS = 0x8040  # of the x86 control word: results to zero, operands as zero


class Pool:
    """The launcher's native code and its worker threads. One plan runs at a time."""

    def __init__(self, futex: bool) -> None:
        self.futex = futex
        symbols = load_ir("launcher", launcher_ir.launcher_ir(futex), launcher_ir.EXPORTS)
        self.run_plan = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(symbols["run_plan"])
        self._worker = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(symbols["worker"])
        self._wake = ctypes.CFUNCTYPE(None)(symbols["wake"])
        self._stop = ctypes.c_int32.from_address(symbols["stop"])
        self._sleepers = ctypes.c_int32.from_address(symbols["sleepers"])
        self._thread_count = ctypes.c_int64.from_address(symbols["threads"])
        self.control_word = ctypes.c_int32.from_address(symbols["control_word"])
        self.lock = threading.RLock()
        self.threads = default_threads()
        self.workers: list[threading.Thread] = []
        self.started = False
        self._parking = threading.Condition()
        self._plans = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._in_child
            )
        atexit.register(self.stop)

    def start(self) -> None:
        """Bring the workers up; the caller holds the lock."""
        if self.workers:  # an interrupt ended an earlier start half-way
            self.stop()
        self._stop.value = 0
        self._thread_count.value = self.threads
        for tid in range(1, self.threads):
            worker = threading.Thread(target=self._work, args=(tid,), name=f"pullback-{tid}", daemon=True)
            self.workers.append(worker)
            worker.start()
        self.started = True

    def stop(self) -> None:
        """Send the workers home."""
        with self.lock:
            self._stop.value = 1
            self._wake()
            with self._parking:
                self._parking.notify_all()
            for worker in self.workers:
                if worker.ident is not None:
                    worker.join(timeout=2)
            self.workers = []
            self.started = False

    def call_workers(self) -> None:
        """Have the workers at hand for a plan with parallel records; the caller holds the lock."""
        if not self.started:
            self.start()
        if not self.futex:
            with self._parking:
                self._plans += 1
                self._parking.notify_all()

    def _work(self, tid: int) -> None:
        """A worker: inside native code until told to stop or, without a futex, to park until the next plan."""
        while True:
            plans = self._plans
            if not self._worker(SPINS, tid):
                return
            with self._parking:
                self._parking.wait_for(lambda seen=plans: self._plans != seen or self._stop.value)

    def _before_fork(self) -> None:
        self.lock.acquire()

    def _after_fork(self) -> None:
        self.lock.release()

    def _in_child(self) -> None:
        """Only the forking thread lives on; workers are started again when needed."""
        self.lock = threading.RLock()
        self._parking = threading.Condition()
        self.workers = []
        self.started = False
        self._sleepers.value = 0


_pool_lock = threading.Lock()
_pool: Pool | None = None


def pool() -> Pool:
    """The process's pool."""
    global _pool
    if _pool is None:
        with _pool_lock:
            _pool = _pool or Pool(launcher_ir.has_futex())
    return _pool


def default_threads() -> int:
    """PULLBACK_THREADS, or the processors that this process may use (affinity and container quota)."""
    given = os.environ.get("PULLBACK_THREADS")
    if given:
        return _checked_threads(int(given) if given.isdigit() else given)
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        count = min(count, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or the quota is "max"
        pass
    return count


def _checked_threads(count: Any) -> int:
    if not isinstance(count, int) or not 1 <= count <= 256:
        raise ArgumentError(f"the number of threads is an integer from 1 to 256, not {count!r}")
    return count


def set_threads(count: int) -> None:
    """How many threads run a plan, the caller included. Results don't depend on it."""
    _checked_threads(count)
    with pool().lock:
        if count != pool().threads:
            pool().stop()
            pool().threads = count


def get_threads() -> int:
    """How many threads run a plan, the caller included."""
    return pool().threads


def set_flush_denormals(flush: bool) -> None:
    """Treat subnormal numbers as zero inside kernels (x86 only; elsewhere nothing changes)."""
    with pool().lock:
        if bool(pool().control_word.value) != bool(flush):
            pool().stop()  # new workers start with a clean control word
            pool().control_word.value = FLUSH_BITS if flush else 0


class Launch:
    """A table of records, ready to run again and again: `launch()`. Keeps the table alive; values in it may change."""

    __slots__ = ("_address", "_count", "_parallel", "_pool", "table")

    def __init__(self, table: np.ndarray, count: int | None = None) -> None:
        good = isinstance(table, np.ndarray) and table.dtype == np.int64 and table.ndim == 2
        if not good or table.shape[1] != RECORD or not table.flags.c_contiguous:
            raise ArgumentError(
                f"a plan is a contiguous int64 array of shape [n, {RECORD}] (function, arguments, n, chunks, 0), "
                f"not {getattr(table, 'dtype', type(table).__name__)} {getattr(table, 'shape', '')}"
            )
        count = len(table) if count is None else count
        if not 0 <= count <= len(table):
            raise ArgumentError(f"{count} records to run of a plan of {len(table)}")
        chunks = table[:count, 3]
        if count and (chunks.min() < 1 or chunks.max() > MOST_CHUNKS):
            raise ArgumentError(f"a record has 1 to {MOST_CHUNKS} chunks, not {chunks.min()} to {chunks.max()}")
        self.table = table
        self._address = ctypes.c_void_p(table.__array_interface__["data"][0])
        self._count = ctypes.c_int64(count)
        self._parallel = bool(count and chunks.max() > 1)
        self._pool = pool()

    def __call__(self) -> None:
        """Run the plan. Another Python thread that runs one waits for its end."""
        pool = self._pool
        with pool.lock:
            if self._parallel:
                pool.call_workers()
            pool.run_plan(self._address, self._count)


def run(table: np.ndarray, count: int | None = None) -> None:
    """Run the first `count` records of a plan once. For a plan that runs often, keep a `Launch`."""
    Launch(table, count)()
