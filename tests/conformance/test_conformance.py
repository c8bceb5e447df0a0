"""Golden vectors and bug reports in `tests/data`, each on both backends; and the runner itself."""

import json
from pathlib import Path

import numpy as np
import pytest

from . import cases, golden
from .__main__ import DATA, main
from .outcome import FAILED, PASSED, SKIPPED, Mismatch, compare
from .runner import custom_tests, run_folder

BACKENDS = ("reference", "native")
CASES = cases.load(DATA / "cases")
VECTORS = golden.Golden(DATA / "golden")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_bug_report(case: dict) -> None:
    outcome = cases.run(case, BACKENDS, custom_tests())
    assert outcome.status == PASSED, outcome.why


@pytest.mark.parametrize("case", VECTORS.cases, ids=lambda case: case["id"])
def test_golden_vector(case: dict) -> None:
    outcome = golden.run(VECTORS, case, BACKENDS)
    assert outcome.status == PASSED, outcome.why


# --- the runner -------------------------------------------------------------------------------------------------------
BASE = {
    "id": "square", "category": "toy", "runner": "expr", "inputs": {"x": {"dtype": "float64", "data": [1.0, -3.0]}},
    "expr": "x ** 2", "wrt": ["x"], "upstream": [1.0, 10.0], "rtol": 1e-9, "atol": 1e-12,
    "right": {"value": [1.0, 9.0], "grad": {"x": [2.0, -60.0]}},
}  # fmt: skip


def outcome_of(**changes: object) -> tuple[str, str]:
    outcome = cases.run({**BASE, **changes}, BACKENDS, {})
    return outcome.status, outcome.why


def test_a_right_case_passes_and_a_wrong_one_shows_the_worst_element() -> None:
    assert outcome_of() == (PASSED, "")
    status, why = outcome_of(right={"value": [1.0, 9.0], "grad": {"x": [2.0, -61.0]}})
    assert status == FAILED and "gradient of x[1] is -60, expected -61" in why and "1 of 2" in why
    status, why = outcome_of(right={"value": [1.0, 8.0]})
    assert status == FAILED and "value[1] is 9, expected 8" in why
    assert "shape" in outcome_of(right={"value": [[1.0, 9.0]]})[1]


def test_another_accepted_gradient_passes_as_a_whole() -> None:
    wrong = {"x": [0.0, 0.0]}
    assert outcome_of(right={"grad": wrong}, accept=[{"x": [2.0, -60.0]}])[0] == PASSED
    assert outcome_of(right={"grad": wrong}, accept=[{"x": [2.0, 0.0]}])[0] == FAILED


def test_errors_are_right_only_in_their_stage_and_kind() -> None:
    build = dict(expr="pb.reshape(x, (3,))")
    assert outcome_of(**build, raises={"types": ["ValueError"], "when": ["build"]})[0] == PASSED
    assert outcome_of(**build, raises={"types": ["ValueError"], "when": ["grad"]})[0] == FAILED
    assert outcome_of(**build, raises={"types": ["IndexError"], "when": ["build"]})[0] == FAILED
    assert outcome_of(raises={"types": ["ValueError"], "when": ["build"]})[0] == FAILED, "nothing was raised"
    assert outcome_of(may_raise={"types": ["ValueError"], "when": ["build"]})[0] == PASSED


def test_the_value_holds_even_if_the_gradient_must_raise() -> None:
    refused = dict(expr="pb.asarray([1.0, 9.0])", raises={"types": ["DisconnectedInputError"], "when": ["grad"]})
    assert outcome_of(**refused, right={"value": [1.0, 9.0]})[0] == PASSED
    assert outcome_of(**refused, right={"value": [1.0, 8.0]})[0] == FAILED


def test_setup_checks_and_repeats_are_run() -> None:
    assert outcome_of(setup=["y = x + 0", "y = y * y"], expr="y", repeat=3)[0] == PASSED
    check = {"name": "doubled", "expr": "2 * x", "upstream": [1.0, 1.0], "right": {"grad": {"x": [2.0, 3.0]}}}
    status, why = outcome_of(checks=[check])
    assert status == FAILED and "doubled" in why


def test_data_of_every_notation() -> None:
    filled = cases.array_of({"fill": 1.0, "shape": [2, 2], "dtype": "float32", "set": [[[0, 1], "inf"]]})
    assert filled.dtype == np.float32 and filled.tolist() == [[1, np.inf], [1, 1]]
    assert cases.array_of({"dtype": "complex128", "data": [[3.0, 4.0]]}).tolist() == [3 + 4j]
    assert cases.array_of({"dtype": "hex", "data": "00 0a"}).tolist() == [0, 10]
    assert np.isnan(cases.array_of(["nan", 1.0])[0])


def test_a_custom_case_passes_only_if_its_test_ran() -> None:
    custom = {**BASE, "runner": "custom", "steps": ["..."]}
    ran = []
    assert cases.run(custom, BACKENDS, {}).status == SKIPPED
    assert cases.run(custom, BACKENDS, {"test_square": lambda case, backend: ran.append(backend)}).status == PASSED
    assert ran == list(BACKENDS)
    assert cases.run(custom, BACKENDS, {"test_square": lambda case, backend: 1 / 0}).status == FAILED


def test_the_command_counts_and_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {**BASE, "id": "wrong", "category": "other", "right": {"value": [0.0, 0.0]}}
    unknown = {**BASE, "id": "unknown", "runner": "custom"}
    (tmp_path / "cases.json").write_text(json.dumps({"cases": [BASE, wrong, unknown]}))
    assert main([str(tmp_path), "--list-skipped"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 1 failed, 1 skipped"
    assert any(line.startswith("FAILED other/wrong") for line in lines)
    assert any(line.startswith("SKIPPED toy/unknown") for line in lines)
    assert main([str(tmp_path), "--only", "toy"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"
    assert main([str(tmp_path), "--except", "other"]) == 0
    assert main([str(tmp_path / "nowhere")]) == 2


def test_a_golden_folder_of_ones_own(tmp_path: Path) -> None:
    x, u = np.array([[1.0, -2.0]]), np.array([[3.0, 5.0]])
    np.savez(tmp_path / "own.npz", x=x, y=np.maximum(x, 0), u=u, g=np.array([[3.0, 0.0]]), bad=np.array([[3.0, 1.0]]))

    def row(name: str, op: str, grad: str) -> dict:
        arrays = {"inputs": {"x": "x"}, "outputs": {"y": "y"}, "upstream": {"y": "u"}, "grads": {"x": grad}}
        tolerance = {"rtol": 1e-9, "atol": 1e-12}
        return {
            "id": name,
            "family": "own",
            "op": op,
            "attrs": {},
            "npz": "own.npz",
            "tolerance": tolerance,
            "arrays": arrays,
        }

    manifest = {"cases": [row("right", "relu", "g"), row("wrong", "relu", "bad"), row("unknown", "no_such_op", "g")]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    right, wrong, unknown = run_folder(tmp_path, BACKENDS)
    assert right.status == PASSED
    assert wrong.status == FAILED and "gradient of x[0, 1] is 0, expected 1" in wrong.why
    assert unknown.status == FAILED and "no_such_op" in unknown.why


def test_comparison_treats_nan_and_infinity_as_values() -> None:
    values = np.array([1.0, np.nan, np.inf])
    compare("value", values, values, 0.0, 0.0)
    for other in ([1.0, 2.0, np.inf], [1.0, np.nan, -np.inf], [1.1, np.nan, np.inf]):
        with pytest.raises(Mismatch):
            compare("value", np.array(other), values, 1e-9, 1e-9)
    with pytest.raises(Mismatch):
        compare("index", np.array([1, 2]), np.array([1, 3]), 1.0, 1.0)
