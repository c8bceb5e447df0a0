"""The code that guides show runs as it stands there, from its first line to its last."""

import re
from pathlib import Path

import pytest

from pullback.testing import CheckError

ROOT = Path(__file__).parent.parent
GUIDES = [
    "README.md", "docs/index.md", "docs/getting-started.md", "docs/gradients.md", "docs/debugging.md",
    "docs/functions.md", "docs/recurrent.md", "docs/darknet.md", "docs/writing-an-op.md",
]  # fmt: skip


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page", GUIDES)
def test_code_of_the_guide(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in python_blocks(page):
        exec(compile(block, str(ROOT / page), "exec"), names)
    assert names


def test_every_page_of_the_site_is_in_its_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = [str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if f": {page}" not in menu]


def test_the_op_on_one_screen_is_proved() -> None:
    _, op, proof = python_blocks("CONTRIBUTING.md")
    exec(op + proof, {})


def test_the_proof_would_notice_a_wrong_sign() -> None:
    _, op, proof = python_blocks("CONTRIBUTING.md")
    wrong = op.replace("-shift", "shift")
    assert wrong != op
    with pytest.raises(CheckError, match="roll"):
        exec(wrong + proof, {})
