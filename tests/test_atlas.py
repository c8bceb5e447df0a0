"""The atlas has a page for every operation that has an entry; its facts and its record belong to pages that exist."""

import json
import re
import sys
from pathlib import Path

import pytest

from pullback.testing.entries import all_entries

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture(scope="module")
def atlas():
    sys.path.insert(0, str(SCRIPTS))
    try:
        import atlas
    finally:
        sys.path.remove(str(SCRIPTS))
    return atlas


def test_every_operation_has_a_page_with_its_gradient(atlas) -> None:
    pages = atlas.pages()
    assert {atlas.base_name(entry.name) for entry in all_entries()} - atlas.INTERNAL == set(pages)
    for name in ("sqrt", "conv2d", "index", "lstm", "conv2d_grad_wrt_inputs", "linalg.svd"):
        text = atlas.render(pages[name])
        assert "## Gradient" in text and "## Proved" in text and "The code" in text, name


def test_a_page_says_what_is_known(atlas) -> None:
    text = atlas.render(atlas.pages()["max"])
    assert "`g at the largest entries, in equal shares`" in text
    assert "| two tied | [[0.6, 0.6, 0.3], [1, 2, 2]] | [[0.5, 0.5, 0], [0, 0.5, 0.5]] |" in text
    assert "Each of k tied entries gets the whole gradient" in text and "jax-ml/jax#13600" in text
    assert re.search(r"\| `max\[axis=0\]` \| \d\.\de-\d\d \|", text)


def test_links_of_a_composite_lead_to_pages(atlas) -> None:
    text = atlas.render(atlas.pages()["var"])
    files = {page.file for page in atlas.pages().values()}
    linked = set(re.findall(r"\]\(([a-z_0-9.]+\.md)\)", text)) - {"index.md"}
    assert linked and linked <= files


def test_recorded_errors_are_within_what_is_promised() -> None:
    record = json.loads((SCRIPTS.parent / "docs" / "atlas" / "checks.json").read_text())["entries"]
    for order, limit in (("1", 1e-6), ("2", 1e-5)):
        errors = {name: [e or 0 for e in row["errors"].get(order, [])] for name, row in record.items()}
        assert {name: e for name, e in errors.items() if e and max(e) > limit} == {}
    assert max(row.get("complex step", 0) for row in record.values()) <= 1e-9
