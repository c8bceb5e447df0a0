"""The guide's code runs from its first line to its last, in one go."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "networks.md"


def test_the_code_of_the_guide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    assert len(names["history"]) == 2 and names["history"]["val_accuracy"][-1] > 0.8
    assert "epoch 4/4" in capsys.readouterr().out
