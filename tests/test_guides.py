"""The code that guides show runs as it stands there."""

import re
from pathlib import Path

import pytest

from pullback.testing import CheckError

ROOT = Path(__file__).parent.parent


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_the_first_page_runs() -> None:
    [code] = python_blocks("docs/index.md")
    exec(code, {})


def test_the_op_on_one_screen_is_proved() -> None:
    _, op, proof = python_blocks("CONTRIBUTING.md")
    exec(op + proof, {})


def test_the_proof_would_notice_a_wrong_sign() -> None:
    _, op, proof = python_blocks("CONTRIBUTING.md")
    wrong = op.replace("-shift", "shift")
    assert wrong != op
    with pytest.raises(CheckError, match="roll"):
        exec(wrong + proof, {})
