"""Native plans against the ops' own `perform`: the same graph on both backends."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np

import pullback as pb
from pullback import codegen
from pullback.compile.binding import HostCall
from pullback.graph import Op, TensorType, Variable


def graph(op: Op, arrays: Sequence[np.ndarray]) -> tuple[list[Variable], list[Variable]]:
    """Symbolic inputs for the arrays, and the outputs of `op` on them."""
    inputs = [Variable(TensorType(a.dtype.name, (None,) * a.ndim)) for a in arrays]
    return inputs, op.make_node(*inputs).outputs


def native(op: Op, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of compiled kernels, which must not be those of `perform`; the second of two calls."""
    f = pb.function(*graph(op, arrays), backend="native", on_unused_input="ignore")
    f(*arrays)
    results = f(*arrays)
    assert not [s for s in f.program.latest_plan().steps if isinstance(s, HostCall)], f"{op} has no kernel here"
    return results


def reference(op: Op, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of `perform` in float64."""
    wide = [a.astype("float64") if a.dtype.kind == "f" else a for a in arrays]
    results = op.perform(*wide)
    return list(results) if isinstance(results, tuple) else [results]


def assert_close(found: np.ndarray, expected: np.ndarray, scale: float, ulps: float) -> None:
    """Errors of at most `ulps` units in the last place of numbers as large as `scale`."""
    assert found.shape == expected.shape
    error = np.abs(found.astype("float64") - expected).max(initial=0)
    bound = ulps * np.finfo(found.dtype).eps * scale
    assert error <= bound, f"error {error:.3g} is above {bound:.3g}"


def under_isa(isa: str, module: str, function: str) -> None:
    """Call `function` of a test module in a process that is held to a narrower instruction set."""
    code = f"from {module} import {function}; {function}()"
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    narrower = {"avx512": ("avx2", "plain"), "avx2": ("plain",)}
    if isa not in narrower.get(codegen.isa(), ()):
        isa = codegen.isa()  # nothing to force: the set in use once more
    environment = {**os.environ, "PULLBACK_ISA": isa}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr


def assert_same_on_any_threads(run: Callable[[], Sequence[np.ndarray]]) -> None:
    """`run` gives the same bits on 1, 2 and 3 threads."""
    before, results = codegen.get_threads(), []
    try:
        for threads in (1, 2, 3):
            codegen.set_threads(threads)
            results.append(run())
    finally:
        codegen.set_threads(before)
    for other in results[1:]:
        for first, again in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(first, again)
