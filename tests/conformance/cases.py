"""Bug reports: expressions over `pb`, their right values and gradients, or the errors that must be raised."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pullback as pb

from .outcome import FAILED, PASSED, SKIPPED, Mismatch, Outcome, compare

Case = dict[str, Any]
FILE = "cases.json"


def load(folder: Path) -> list[Case]:
    return json.loads((folder / FILE).read_text())["cases"]


def families(case: Case) -> set[str]:
    return {case["category"]}


def run(case: Case, backends: Sequence[str], custom: dict[str, Callable[..., None]]) -> Outcome:
    """One case with all its checks, on each backend."""
    name, family = case["id"], case["category"]
    if case["runner"] == "custom":
        test = custom.get(test_name(name))
        if test is None:
            return Outcome(name, family, SKIPPED, f"custom case without a test named {test_name(name)}")
        steps: list[tuple[str, Callable[[str], None]]] = [("", lambda backend: test(case, backend))]
    else:
        parts = [case, *({**inherited(case), **check} for check in case.get("checks", []))]
        steps = [(part.get("name", ""), lambda backend, part=part: run_expression(part, backend)) for part in parts]
    for backend in backends:
        for label, step in steps:
            try:
                step(backend)
            except Exception as error:
                kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
                where = f"{backend}, {label}" if label else backend
                return Outcome(name, family, FAILED, f"{where}: {kind}{error}")
    return Outcome(name, family, PASSED)


def test_name(case: str) -> str:
    """The name of the test that a custom case needs."""
    return "test_" + case.replace("-", "_")


def inherited(case: Case) -> Case:
    """What a check takes over from its case."""
    kept = ("id", "category", "inputs", "wrt", "rtol", "atol", "repeat")
    return {key: case[key] for key in kept if key in case}


def run_expression(case: Case, backend: str) -> None:
    """Build, differentiate and call an expression, and compare it with what is right."""
    inputs = {name: array_of(spec) for name, spec in case["inputs"].items()}
    allowed = [case[key] for key in ("raises", "may_raise") if key in case]
    for stage, result in stages(case, inputs, backend):
        if isinstance(result, Exception):
            if any(stage in rule["when"] and is_one_of(result, rule["types"]) for rule in allowed):
                return
            raise result
        if stage == "call":
            check_results(case, inputs, *result)


def stages(case: Case, inputs: dict[str, np.ndarray], backend: str) -> Iterator[tuple[str, Any]]:
    """("value", ...), ("build", ...), ("grad", ...), ("call", (values, gradients of each call)), as far as it goes.

    A stage that raises yields its exception and ends the case, but not before the value itself has been compared.
    """
    variables = {
        name: pb.tensor(a.dtype.name, a.shape, name) if a.dtype.kind in "biufc" else a for name, a in inputs.items()
    }
    try:
        output = build(case, variables)
    except Exception as error:
        yield "build", error
        return
    right = case.get("right", {})
    wrt = [variables[name] for name in case.get("wrt", [])]
    try:
        upstream = np.asarray(array_of(case.get("upstream", 1.0)), output.dtype)
        grads = pb.grad(None, wrt, known_grads={output: pb.constant(upstream)}) if wrt else []
    except Exception as error:
        if "value" in right:
            _, results = call(variables, inputs, [output], backend, 1)
            compare_value(case, results[0][0])
        yield "grad", error
        return
    try:
        roots, results = call(variables, inputs, [output, *grads], backend, case.get("repeat", 1))
    except Exception as error:
        yield "call", error
        return
    yield "call", (roots, results)


def build(case: Case, variables: dict[str, Any]) -> pb.Variable:
    namespace = {"pb": pb, **variables}
    for statement in case.get("setup", []):
        exec(statement, namespace)
    return eval(case["expr"], namespace)


def call(
    variables: dict[str, Any], inputs: dict[str, np.ndarray], roots: list[pb.Variable], backend: str, times: int
) -> tuple[list[pb.Variable], list[list[np.ndarray]]]:
    names = [name for name, v in variables.items() if isinstance(v, pb.Variable)]
    f = pb.function([variables[n] for n in names], roots, backend=backend, on_unused_input="ignore")
    return roots, [f(*[inputs[n] for n in names]) for _ in range(times)]


def check_results(
    case: Case, inputs: dict[str, np.ndarray], roots: list[pb.Variable], results: list[list[np.ndarray]]
) -> None:
    for values in results:
        compare_value(case, values[0])
        grads = dict(zip(case.get("wrt", []), values[1:]))
        for name, g in grads.items():
            if g.dtype != inputs[name].dtype:
                raise Mismatch(f"the gradient of {name} is {g.dtype}, the input is {inputs[name].dtype}")
        compare_grads(case, grads)


def compare_value(case: Case, value: np.ndarray) -> None:
    if "value" in case.get("right", {}):
        compare("value", value, np.asarray(array_of(case["right"]["value"])), case["rtol"], case["atol"])


def compare_grads(case: Case, grads: dict[str, np.ndarray]) -> None:
    """Against the right gradient, or any that is accepted as a whole."""
    accepted = list(case.get("accept", []))
    if "raises" not in case and "grad" in case.get("right", {}):
        accepted.insert(0, case["right"]["grad"])
    if not accepted:
        if "raises" in case:
            raise Mismatch(f"expected one of {case['raises']['types']} at {case['raises']['when']}, nothing was raised")
        return
    first: Mismatch | None = None
    for answer in accepted:
        try:
            for name, want in answer.items():
                compare(f"gradient of {name}", pairs(grads[name]), array_of(want), case["rtol"], case["atol"])
            return
        except Mismatch as error:
            first = first or error
    raise first


def pairs(g: np.ndarray) -> np.ndarray:
    """Complex gradients as [d/dRe, d/dIm]."""
    return np.stack([g.real, g.imag], axis=-1) if g.dtype.kind == "c" else g


def is_one_of(error: Exception, types: Sequence[str]) -> bool:
    return any(cls.__name__ in types for cls in type(error).__mro__)


def array_of(spec: Any) -> np.ndarray:
    """Data as a case gives it: nested lists, {fill, shape, dtype, set}, {dtype, data}; complex as [re, im] pairs."""
    if isinstance(spec, dict) and "fill" in spec:
        array = np.full(spec["shape"], number(spec["fill"]), spec.get("dtype", "float64"))
        for index, value in spec.get("set", []):
            array[tuple(index)] = number(value)
        return array
    if isinstance(spec, dict):
        dtype, data = spec["dtype"], spec["data"]
        if dtype.startswith("complex"):
            parts = np.asarray(numbers(data), np.float64)
            return (parts[..., 0] + 1j * parts[..., 1]).astype(dtype)
        return np.frombuffer(bytes.fromhex(data), np.uint8) if dtype == "hex" else np.asarray(numbers(data), dtype)
    return np.asarray(numbers(spec))


def numbers(data: Any) -> Any:
    return [numbers(d) for d in data] if isinstance(data, list) else number(data)


def number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value
