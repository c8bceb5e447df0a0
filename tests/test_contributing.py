"""The op that CONTRIBUTING.md shows, and the proof that it shows, run as they stand there."""

import re
from pathlib import Path

import pytest

from pullback.testing import CheckError

GUIDE = Path(__file__).parent.parent / "CONTRIBUTING.md"
_, OP, PROOF = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def test_the_op_on_one_screen_is_proved() -> None:
    exec(OP + PROOF, {})


def test_the_proof_would_notice_a_wrong_sign() -> None:
    wrong = OP.replace("-shift", "shift")
    assert wrong != OP
    with pytest.raises(CheckError, match="roll"):
        exec(wrong + PROOF, {})
