"""Single kernels: what is built does the work, is compared, and becomes rows of tables."""

import json
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from benchmarks import __main__ as command
from benchmarks import report, runner, sizes
from benchmarks.kernels import cases, measure, pullback_

SMALL = [
    cases.convolution("plain", (2, 5, 7, 3), 4, 3, 1.0),
    cases.convolution("strided", (2, 6, 4, 3), 5, 3, 1.0, stride=2),
    cases.convolution("depthwise", (2, 5, 4, 6), 6, 3, 1.0, groups=6),
    cases.convolution("fast", (1, 9, 10, 16), 16, 3, 1.0, fast=True),
    cases.gemm("gemm", 5, 7, 3, 1.0),
    cases.attention(2, 3, 5, 4, 1.0),
    cases.norm("batch_norm", 1.0, 2, 5, 3, 4),
    cases.norm("layer_norm", 1.0, 6, 5),
    cases.cross_entropy(5, 7, 1.0),
    cases.elements("gelu", "", "gelu", 1.0, 3, 5),
    cases.max_pool(2, 4, 6, 3, target=1.0),
    cases.elements("chain", "", "chain", 1.0, 50, count=3),
    cases.elements("strided", "", "strided", 1.0, 52, count=1),
]


@pytest.mark.parametrize("case", SMALL, ids=lambda case: f"{case.kind}-{case.name}")
def test_kernels_agree_with_the_reference(case: cases.Case) -> None:
    with pb.config.override(backend="reference"):
        expected = measure.build(case)()
    assert measure.difference(measure.build(case)(), expected) < 1e-4


def test_every_case_can_be_built_and_has_a_name_of_its_own() -> None:
    assert len({case.name for case in cases.CASES}) == len(cases.CASES)
    assert all(hasattr(pullback_, case.kind) for case in cases.CASES)


def test_work_of_a_convolution_is_counted_by_its_definition() -> None:
    case = cases.convolution("c", (2, 8, 6, 4), 5, 3, 1.0, stride=2)
    x, w, g = case.arrays()
    multiplications = g.size * w[..., 0].size
    assert case.work == 3 * 2 * multiplications


def test_difference_is_relative_to_the_largest_value_and_sees_nan() -> None:
    assert measure.difference([np.array([1.0, 10.0])], [np.array([2.0, 10.0])]) == 0.1
    assert not measure.difference([np.array([np.nan])], [np.array([1.0])]) <= measure.AGREEMENT


def test_contenders_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SETTLE_SECONDS", 0)
    calls: list[str] = []
    runs = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    times = measure.alternated(runs, rounds=2, seconds=0)
    assert "".join(calls) == "aaaabbbb" * 2
    assert [len(found) for found in times.values()] == [2, 2]


def test_one_and_two_threads_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SETTLE_SECONDS", 0)
    threads = pb.codegen.get_threads()
    try:
        assert set(measure.scaling(SMALL[0], 1, 0)["ms"]) == {"1", "2"}
    finally:
        pb.codegen.set_threads(threads)


def test_a_case_that_fails_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise ValueError("no such kernel")

    assert "no such kernel" in measure.kept(fails)["failed"]
    good = dict(ms=1.0, torch_ms={"mm": 2.0}, fastest="mm", ratio=0.5, disagreement=1e-7, share_of_peak=0.25)
    results = {"gemm_512": good, "chain": {"failed": "no such kernel"}}
    machine = {"date": "2020-01-01", "cpu": "a", "cores": 2, "python": "3.11"}
    record = {"workload": "kernels", "sgemm_gflops": 100.0, "results": results, "machine": machine, "isa": "avx2"}
    text = report.table(record)
    assert "0.50" in text and "25%" in text and "no such kernel" in text and "held to AVX2" in text
    assert any("failed" in figures for figures in report.of_pullback(record))


def test_sizes_follow_dependencies() -> None:
    names = {d.name for d in sizes.with_dependencies(sizes.distribution_of("pullback"))}
    assert {"pullback", "numpy", "scipy", "llvmlite", "safetensors", "rich"} <= names
    assert "pytest" not in names
    assert sizes.installed_mb("numpy") > 5


def test_all_are_held_to_the_same_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, str] = {}

    def no_measurement(*_: object) -> tuple[str, dict]:
        seen.update(runner.shared_environment())
        return "pullback", {"pullback": {"failed": "not run"}}

    for name in runner.ISA_VARIABLES["avx2"]:
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(command, "compare", no_measurement)
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    command.main(["mlp", "--peers", "numpy", "--isa", "avx2"])
    assert seen["PULLBACK_ISA"] == seen["ATEN_CPU_CAPABILITY"] == "avx2" and seen["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert json.loads((tmp_path / "W1-avx2.json").read_text())["isa"] == "avx2"
