"""For scale, the limits of this machine with 2 threads: `OPENBLAS_NUM_THREADS=2 python -m benchmarks.peak`."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.child import CLOCK


def median_seconds(work: Callable[[], object], seconds: float = 0.6) -> float:
    work()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = CLOCK()
        work()
        times.append(CLOCK() - start)
    return statistics.median(times)


def sgemm_gflops(n: int) -> float:
    """Rate of a float32 product of two n x n matrices."""
    a, b, c = (np.random.default_rng(0).random((n, n), np.float32) for _ in range(3))
    return 2 * n**3 / median_seconds(lambda: np.dot(a, b, out=c)) / 1e9


def copy_gigabytes_per_second() -> float:
    """Bytes read plus bytes written by one thread's copy of 256 MB."""
    a = np.ones(64 << 20, np.float32)
    b = np.empty_like(a)
    return 2 * a.nbytes / median_seconds(lambda: np.copyto(b, a)) / 1e9


if __name__ == "__main__":
    for n in (64, 128, 256, 512, 1024, 2048):
        print(f"sgemm {n:4d}  {sgemm_gflops(n):7.1f} GFLOP/s")
    print(f"copy        {copy_gigabytes_per_second():7.1f} GB/s")
