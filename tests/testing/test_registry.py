"""Every op of the library has an entry, every input an answer, and everything that an entry claims is proved."""

import pytest

from pullback.testing import Entry, check_op
from pullback.testing.entries import all_entries, library_ops, ops_of

ENTRIES = all_entries()


def test_every_op_has_an_entry() -> None:
    covered = set().union(*map(ops_of, ENTRIES))
    assert not sorted(library_ops() - covered)


def test_names_of_entries_are_unique() -> None:
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_entry(entry: Entry) -> None:
    report = check_op(entry)
    assert len(report.answers) == len(entry.inputs)
