"""What the site takes from the library itself: the atlas of operations, the table of kinks, examples as code."""

import sys
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import atlas


class ExampleSections(griffe.Extension):
    """Our docstrings say `Example:`, the parser of Google's style knows `Examples:`."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")


def kinks() -> str:
    from pullback.gradient import kink_table

    rows = [[f"`{k.op}`", k.where, k.legal, k.choice] for k in kink_table()]
    return atlas.table(["op", "where", "legal values", "ours"], rows)


PARTS = {
    "<!-- table of kinks -->": kinks,
    "<!-- summary of the atlas -->": atlas.summary,
    "<!-- index of the atlas -->": atlas.index,
}


def on_files(files: Files, config: Any) -> Files:
    """Called by mkdocs: a page per operation."""
    for path, make in atlas.rendered().items():
        files.append(File.generated(config, path, content=make()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page."""
    for mark, make in PARTS.items():
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown
