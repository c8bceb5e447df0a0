"""The op that CONTRIBUTING.md shows, and the proof that it shows, run as they stand there."""

import re
from pathlib import Path

from pullback.testing import Report

GUIDE = Path(__file__).parent.parent / "CONTRIBUTING.md"


def test_the_op_on_one_screen_is_proved() -> None:
    _, op, proof = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    imports, call = proof.strip().rsplit("\n", 1)
    guide: dict = {}
    exec(f"{op}\n{imports}\nreport = {call}", guide)
    report: Report = guide["report"]
    assert report.right and report.answers == ["formula", "disconnected"]
