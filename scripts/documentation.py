"""What the site takes from the library itself: the table of kinks, the table of elementwise ops, examples as code."""

from typing import Any

import griffe


class ExampleSections(griffe.Extension):
    """Our docstrings say `Example:`, the parser of Google's style knows `Examples:`."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")


def table(heading: list[str], rows: list[list[str]]) -> str:
    """Markdown; a bar in a cell would end it."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def kinks() -> str:
    from pullback.gradient import kink_table

    rows = [[f"`{k.op}`", k.where, k.legal, k.choice] for k in kink_table()]
    return table(["op", "where", "legal values", "ours"], rows)


def elementwise() -> str:
    from pullback.ops.elementwise import ROWS

    rows = [[f"`{row.name}`", row.doc, f"`{row.formula}`" if row.formula else ""] for row in ROWS.values()]
    return table(["op", "value", "gradient"], rows)


TABLES = {"<!-- table of kinks -->": kinks, "<!-- table of elementwise ops -->": elementwise}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page."""
    for mark, make in TABLES.items():
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown
