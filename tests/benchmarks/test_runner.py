"""The harness: contenders are chosen, checked against each other, and timed in their own processes."""

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import contenders, report, runner

NUMPY = contenders.Contender(contenders.PEERS["numpy"], "by_hand")


@pytest.fixture(autouse=True)
def results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    monkeypatch.setattr(command, "RESULTS", tmp_path)
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
    assert command.find(["mlp", "recurrent", "W3", "cold"]) == ["W1", "W2", "W2b", "W2c", "W3", "cold"]
    with pytest.raises(LookupError, match="no workload is called 'lennet'"):
        command.find(["lennet"])


def test_difference_is_relative_above_one_and_sees_nan() -> None:
    assert runner.largest_difference([200.0, 0.5], [202.0, 0.5]) == pytest.approx(2 / 202)
    assert runner.largest_difference([0.1, None], [0.3, 5.0]) == pytest.approx(0.2)
    assert not runner.largest_difference([1.0, float("nan")], [1.0, 1.0]) <= runner.AGREEMENT


def test_ratio_is_taken_round_by_round() -> None:
    slow_machine_then_fast = {"rounds": [8.0, 2.0, 2.0]}
    assert runner.ratio(slow_machine_then_fast, {"rounds": [16.0, 4.0, 3.0]}) == 0.5


def test_a_contender_that_does_other_work_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [3.5, 3.2]
    runner._check_agreement({"losses": [3.5, 3.2001]}, expected, runner.AGREEMENT)
    with pytest.raises(runner.ContenderFailed, match="not the same work"):
        runner._check_agreement({"losses": [3.5, 3.25]}, expected, runner.AGREEMENT)


def test_a_run_records_and_prints_what_it_measured(results_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mlp", "hvp", "--peers", "numpy", "--base", "numpy", "--rounds", "2", "--slice", "0.01"]
    status = command.main(arguments)
    record = json.loads((results_folder / "W1.json").read_text())
    figures = record["results"]["numpy"]
    assert len(figures["losses"]) == 20 and len(figures["rounds"]) == 2
    assert figures["ms"] > 0 and figures["peak_memory_mb"] > 10
    printed = capsys.readouterr().out
    assert "W1: MLP 64-128-64-10" in printed
