"""Run a kernel compiled and as plain Python, and insist that they agree."""

from typing import Any

import numpy as np

from pullback.codegen import Kernel, KernelInstance, call


def both(kernel: Kernel | KernelInstance, *args: Any, n: int, ulps: int = 0) -> list[np.ndarray]:
    """Run `kernel` over [0, n) both ways on copies of the arrays, and give the arrays as the compiled run left them.

    Floats may differ by `ulps` units in the last place (multiply-adds may be fused unless the kernel is strict).
    """
    compiled, python = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    call(kernel, *compiled, n=n)
    kernel.python(*python, lo=0, hi=n)
    arrays = [(a, b) for a, b in zip(compiled, python) if isinstance(a, np.ndarray)]
    for a, b in arrays:
        if ulps and a.dtype.kind == "f":
            np.testing.assert_array_max_ulp(a, b, ulps)
        else:
            np.testing.assert_array_equal(a, b)
    return [a for a, _ in arrays]
