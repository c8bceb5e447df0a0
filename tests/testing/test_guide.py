"""The guide to proofs runs as it stands there, and prints what it says."""

import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "proving.md").read_text()


def test_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    wrong, op = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    exec(wrong, {})
    printed = capsys.readouterr().out.splitlines()
    (shown,) = re.findall(r"```\n(scale: WRONG.*?)```", GUIDE, re.DOTALL)
    assert [line.split("  first order")[0] for line in shown.splitlines()] == [
        line.split("  first order")[0] for line in printed
    ]
    exec(op, {})
    assert "relu: right" in capsys.readouterr().out
