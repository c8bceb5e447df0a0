"""The harness: contenders are chosen, checked against each other, and timed in their own processes."""

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import contenders, report, runner
from benchmarks.workloads import WORKLOADS

RECURRENT = [key for key in WORKLOADS if key.startswith("W2")]
NUMPY = contenders.Contender(contenders.PEERS["numpy"], "by_hand")


@pytest.fixture(autouse=True)
def results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(runner, "SETTLE_SECONDS", 0)
    return tmp_path


def test_a_name_stands_for_all_variants_or_for_one() -> None:
    here = contenders.Peer("numpy", "numpy", ("plain", "fast"), ())
    assert [str(contenders.Contender(here, v)) for v in here.variants] == ["numpy:plain", "numpy:fast"]
    assert contenders.select(["numpy", "numpy:by_hand"]) == [NUMPY]
    with pytest.raises(LookupError, match="no contender is called 'torhc'; there are: pullback, torch:eager"):
        contenders.select(["torhc"])


def test_a_library_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(contenders, "VENVS", tmp_path)
    monkeypatch.setitem(contenders.PEERS, "mygrad", contenders.Peer("mygrad", "no_such_package", ("eager",), ()))
    with pytest.raises(LookupError, match="python -m benchmarks --setup mygrad"):
        contenders.select(["mygrad"])


def test_workloads_go_by_name_or_number() -> None:
    assert command.find(["mlp", "recurrent", "W3", "cold"]) == ["W1", *RECURRENT, "W3", "cold"]
    with pytest.raises(LookupError, match="no workload is called 'lennet'"):
        command.find(["lennet"])


def test_difference_is_relative_above_one_and_sees_nan() -> None:
    assert runner.largest_difference([200.0, 0.5], [202.0, 0.5]) == pytest.approx(2 / 202)
    assert runner.largest_difference([0.1, None], [0.3, 5.0]) == pytest.approx(0.2)
    assert not runner.largest_difference([1.0, float("nan")], [1.0, 1.0]) <= runner.AGREEMENT


def test_ratio_is_taken_round_by_round() -> None:
    slow_machine_then_fast = {"rounds": [8.0, 2.0, 2.0]}
    assert runner.ratio(slow_machine_then_fast, {"rounds": [16.0, 4.0, 3.0]}) == 0.5


def test_a_contender_that_does_other_work_is_not_timed() -> None:
    expected = [3.5, 3.2]
    runner._check_agreement({"losses": [3.5, 3.2001]}, expected, runner.AGREEMENT)
    with pytest.raises(runner.ContenderFailed, match="not the same work"):
        runner._check_agreement({"losses": [3.5, 3.25]}, expected, runner.AGREEMENT)


@pytest.mark.parametrize("workload", ["mlp", "lenet"])
def test_pullback_trains_as_the_others_do(workload: str, results_folder: Path) -> None:
    """The losses of 20 steps agree with a second opinion; where none is there, pullback is its own."""
    arguments = [workload, "--peers", "numpy", "--base", "numpy", "--rounds", "2", "--slice", "0.01"]
    assert command.main(arguments) == 0
    record = json.loads(next(results_folder.glob("W*.json")).read_text())
    figures = record["results"]["pullback"]
    assert len(figures["losses"]) == 20 and len(figures["rounds"]) == 2
    assert figures["disagreement"] <= runner.AGREEMENT
    assert figures["ms"] > 0 and figures["peak_memory_mb"] > 10


def test_a_failure_is_a_row_of_the_table_and_of_the_record(
    results_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["hvp", "--peers", "numpy", "--rounds", "1", "--slice", "0.01"])
    record = json.loads((results_folder / "W8.json").read_text())
    assert record["results"]["numpy"] == {"failed": "not available in this library"}
    assert record["base"] == "pullback"
    printed = capsys.readouterr().out
    assert "W8: Hessian-vector product" in printed and "not available in this library" in printed
    assert "| numpy | not available in this library |" in report.markdown(results_folder)


def test_first_steps_are_timed_from_process_start() -> None:
    figures = runner.cold_starts(["W10:4"], [NUMPY], repetitions=1, fresh=True, patience=60)["W10:4"]["numpy"]
    assert figures["cold_start_seconds"] > figures["import_seconds"] > 0


def test_children_inherit_threads_but_no_blas_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    child = runner.environment(NUMPY, {})
    assert "OPENBLAS_CORETYPE" not in child
    assert child["OPENBLAS_NUM_THREADS"] == child["PULLBACK_THREADS"] == "2"
