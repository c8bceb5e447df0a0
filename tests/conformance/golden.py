"""Golden vectors: arrays in and out of an op with given attributes, and its gradients, made by other libraries."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pullback as pb

from .golden_ops import BUILDERS, TRACES
from .golden_recurrent import RECURRENT, VARIANTS, is_wrong
from .outcome import FAILED, PASSED, Mismatch, Outcome, compare

FILE = "manifest.json"
FLOAT32 = {"rtol": 2e-5, "atol": 5e-6}
WIDER = {"tf.BlockLSTM": 2e-5, "tf.BlockLSTMV2": 2e-5}  # atol in float32

# Gradients that PyTorch 2.13 computes from a constant rounded to float32, and how far off that puts them in float64.
PEER_FAULTS = {
    "celu": 1e-6,  # derivatives.yaml: 1.0 / alpha.toFloat()
    "hardsigmoid": 1e-7,  # the kernel's one_sixth is 1.0f / 6.0f
}


class Golden:
    """A folder of golden vectors.

    Attributes:
        cases: the manifest's rows.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cases = json.loads((folder / FILE).read_text())["cases"]
        self._files: dict[str, Any] = {}

    def arrays(self, case: dict[str, Any]) -> dict[str, dict[str, np.ndarray]]:
        """{section: {name: array}}; sections are inputs, outputs, upstream, grads and variants."""
        if case["npz"] not in self._files:
            self._files[case["npz"]] = np.load(self.folder / case["npz"], allow_pickle=False)
        file = self._files[case["npz"]]
        return {section: {k: file[key] for k, key in keys.items()} for section, keys in case["arrays"].items()}


def run(vectors: Golden, case: dict[str, Any], backends: Sequence[str]) -> Outcome:
    """One case on each backend, in float64 to its own tolerance and in float32."""
    name, family = case["id"], case["family"]
    arrays = vectors.arrays(case)
    for backend in backends:
        for dtype in ("float64", "float32"):
            try:
                if case["op"] in TRACES:
                    run_trace(case, arrays, backend, dtype)
                else:
                    run_vectors(case, arrays, backend, dtype)
            except Exception as error:
                kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
                return Outcome(name, family, FAILED, f"{backend}, {dtype}: {kind}{error}")
    return Outcome(name, family, PASSED)


def run_vectors(case: dict[str, Any], arrays: dict[str, dict[str, np.ndarray]], backend: str, dtype: str) -> None:
    """Values of all outputs, and gradients of sum(upstream . output); in float64 then the same of each variant."""
    compare_results(case, arrays, backend, dtype, arrays["outputs"], arrays["grads"])
    for section, recorded in arrays.items():
        name = section.removeprefix("variant:")
        if name == section or dtype != "float64":
            continue
        if is_wrong(name):
            expect_mismatch(name, case, arrays, backend, dtype, recorded)
            continue
        reaching, options = VARIANTS[name]
        outputs, grads = (recorded, {}) if reaching is None else ({}, recorded)
        precision = "float32" if "f32" in name else dtype
        try:
            compare_results(case, arrays, backend, dtype, outputs, grads, reaching, precision, options)
        except Mismatch as mismatch:
            raise Mismatch(f"{name}: {mismatch}") from None


def expect_mismatch(name, case, arrays, backend, dtype, recorded) -> None:
    """A published fault must not be reproduced, by any setting."""
    for reaching, options in VARIANTS.values():
        if reaching is None:
            continue
        try:
            compare_results(case, arrays, backend, dtype, {}, recorded, reaching, "float32", options)
        except Mismatch:
            continue
        raise Mismatch(f"the gradients are those of {name}, a published fault")


def compare_results(
    case: dict[str, Any],
    arrays: dict[str, dict[str, np.ndarray]],
    backend: str,
    dtype: str,
    outputs: dict[str, np.ndarray],
    grads: dict[str, np.ndarray],
    reaching: Sequence[str] | None = None,
    precision: str | None = None,
    options: dict[str, Any] | None = None,
) -> None:
    """Hold values and gradients to what was recorded.

    Args:
        outputs, grads: what was recorded.
        reaching: outputs that an upstream gradient reaches; all unless given.
        precision: the dtype whose tolerance holds, `dtype` unless given.
        options: for the builder.
    """
    builder = BUILDERS.get(case["op"]) or RECURRENT.get(case["op"])
    if builder is None:
        raise Mismatch(f"the op {case['op']!r} has no expression here")
    inputs = {name: lowered(a, dtype) for name, a in arrays["inputs"].items()}
    variables = {name: pb.tensor(a.dtype.name, (None,) * a.ndim, name) for name, a in inputs.items()}
    found = builder(case["attrs"], variables, **(options or {}))
    upstream = {
        found[name]: pb.constant(lowered(u, dtype))
        for name, u in arrays["upstream"].items()
        if reaching is None or name in reaching
    }
    wrt = [variables[name] for name in grads]
    slopes = pb.grad(sum_of(upstream), wrt, disconnected_inputs="ignore") if wrt else []  # unread: recorded as zeros
    f = pb.function(
        list(variables.values()), [*(found[n] for n in outputs), *slopes], backend=backend, on_unused_input="ignore"
    )
    results = f(*inputs.values())
    tolerance = tolerance_of(case, precision or dtype)
    for (name, want), value in zip(outputs.items(), results):
        compare(name, value, want, **tolerance)
    for (name, want), value in zip(grads.items(), results[len(outputs) :]):
        if value.dtype != inputs[name].dtype:
            raise Mismatch(f"the gradient of {name} is {value.dtype}, the input is {inputs[name].dtype}")
        rtol = max(tolerance["rtol"], PEER_FAULTS.get(case["op"], 0.0))
        compare(f"gradient of {name}", value, want, rtol, tolerance["atol"])


def sum_of(upstream: dict[pb.Variable, pb.Variable]) -> pb.Variable:
    total = None
    for output, g in upstream.items():
        term = pb.sum(output * g)
        total = term if total is None else total + term
    return total


def run_trace(case: dict[str, Any], arrays: dict[str, dict[str, np.ndarray]], backend: str, dtype: str) -> None:
    """An optimizer's parameters after each step, for gradients that are given."""
    parameter = pb.shared(lowered(arrays["inputs"]["param"], dtype), name="parameter")
    gradient = pb.tensor(dtype, (None,) * parameter.ndim, "gradient")
    updates = TRACES[case["op"]](case["attrs"]["all"], parameter, gradient)
    step = pb.function([gradient], updates=updates, backend=backend)
    tolerance = tolerance_of(case, dtype)
    for t, (g, want) in enumerate(zip(lowered(arrays["inputs"]["grads"], dtype), arrays["outputs"]["params"])):
        step(np.ascontiguousarray(g))
        compare(f"parameter after step {t + 1}", parameter.get_value(), want, **tolerance)


def lowered(a: np.ndarray, dtype: str) -> np.ndarray:
    """Float arrays in the dtype under test; others as they are."""
    return a.astype(dtype) if a.dtype.kind == "f" else a


def tolerance_of(case: dict[str, Any], dtype: str) -> dict[str, float]:
    if dtype == "float64":
        return case["tolerance"]
    return {**FLOAT32, "atol": WIDER.get(case["op"], FLOAT32["atol"])}
