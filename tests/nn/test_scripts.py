"""The scripts in examples/ run as they stand, and say what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
LAST = {  # script -> beginning of the line that holds its result, and what the result must exceed
    "custom_loop.py": ("held-out accuracy: ", 0.95),
    "custom_op.py": ("explained variance: ", 0.9),
    "digits.py": ("held-out accuracy: ", 0.94),
    "sharpness_aware.py": ("held-out accuracy: ", 0.92),
    "table.py": ("explained variance on held-back rows: ", 0.9),
}


def test_all_are_run():
    assert {file.name for file in FOLDER.glob("*.py")} == set(LAST)


@pytest.mark.parametrize("name", LAST)
def test_script(name, tmp_path):
    done = subprocess.run([sys.executable, FOLDER / name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line, least = LAST[name]
    (result,) = (text.removeprefix(line) for text in done.stdout.splitlines() if text.startswith(line))
    assert float(result) > least
