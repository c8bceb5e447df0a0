"""The one table of kinks: every op and point where the derivative does not exist, and what is answered there."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..graph import Op
from ..ops.elementwise import ROWS, Kink


@dataclass(frozen=True)
class KinkEntry:
    """A line of the table.

    Attributes:
        op: the op's name.
        where: the point.
        legal: which values a derivative may take there.
        choice: the one that is given.
    """

    op: str
    where: str
    legal: str
    choice: str


def kinks_of(op: Op) -> tuple[Kink, ...]:
    """The points where the derivative of `op` does not exist."""
    return getattr(getattr(op, "row", op), "kinks", ())


def kink_table() -> list[KinkEntry]:
    """Every kink of the library's ops, by name of the op."""
    named = [(row.name, row.kinks) for row in ROWS.values()]
    named += [(kind.__name__, kind.kinks) for kind in _concrete(Op) if hasattr(kind, "kinks")]
    return [KinkEntry(name, k.where, k.legal, k.choice) for name, kinks in sorted(named) for k in kinks]


def _concrete(base: type[Op]) -> Iterator[type[Op]]:
    """The library's op classes from which no other is derived."""
    derived = [kind for kind in base.__subclasses__() if kind.__module__.startswith("pullback.")]
    for kind in derived:
        yield from _concrete(kind)
    if not derived:
        yield base
