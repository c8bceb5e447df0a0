"""Recorded networks through the runner, on both backends; the runner notices what is wrong."""

import json
import shutil

import numpy as np
import pytest

from tests.darknet_oracle.__main__ import DATA, main
from tests.darknet_oracle.runner import run_folder

CASES = [case["id"] for case in json.loads((DATA / "manifest.json").read_text())["cases"]]
SMALL = [case for case in CASES if case[:3] not in ("pj_", "ab_", "hk_")]
LARGE = [case for case in CASES if case not in SMALL]
FACES = ["tiny-face/astronaut", "tiny-face/camera", "tiny-face/coffee"]


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_small_networks(backend):
    results = dict(run_folder(DATA, (backend,), SMALL))
    assert len(results) == len(SMALL) == 57
    assert not {case: wrong for case, wrong in results.items() if wrong}


def test_public_networks_and_a_real_detector():
    results = dict(run_folder(DATA, ("native",), [*LARGE, *FACES]))
    assert len(results) == 11
    assert not {case: wrong for case, wrong in results.items() if wrong}


def test_a_wrong_number_is_noticed(tmp_path, capsys):
    for name in ("make_weights.py", "manifest.json"):
        shutil.copy(DATA / name, tmp_path / name)
    arrays = dict(np.load(DATA / "expected.npz"))
    arrays["yolo_a/3"].flat[7] += 0.01
    np.savez(tmp_path / "expected.npz", **arrays)
    assert main([str(tmp_path), "--backend", "native", "--only", "yolo_a", "--only", "region_a"]) == 1
    assert "1 passed, 1 failed, 0 skipped" in capsys.readouterr().out
    assert main([str(tmp_path / "nothing")]) == 2
