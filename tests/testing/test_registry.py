"""Every op of the library has an entry, every input an answer, and everything that an entry claims is proved."""

import numpy as np
import pytest
from hypothesis import given, settings

from pullback.graph import Op, run_node, toposort
from pullback.graph.interpreter import lookup
from pullback.ops.elementwise import ROWS, Elementwise
from pullback.testing import Entry, check_op, strategies
from pullback.testing.check_op import Examination, check_at, thorough
from pullback.testing.entries import all_entries, concrete, library_ops, ops_of

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

    @settings(max_examples=30 if thorough() else 2)
    @given(strategies.inputs(entry))
    def at_any_shape(arrays: list[np.ndarray]) -> None:
        check_at(entry, arrays)

    at_any_shape()


def test_every_kink_of_a_row_has_a_point_that_is_tested() -> None:
    points = {entry.call.row.name for entry in ENTRIES if isinstance(entry.call, Elementwise) and entry.points}
    assert {row.name for row in ROWS.values() if row.kinks} <= points


def test_shapes_are_known_before_running_unless_they_depend_on_values() -> None:
    unknown: set[str] = set()
    for entry in ENTRIES:
        examination = Examination(entry)
        subject = examination.subject()
        values = dict(zip(subject.inputs, examination.draw()))
        for node in toposort(subject.every_output, stop=subject.inputs):
            inputs = [lookup(values, v) for v in node.inputs]
            values.update(zip(node.outputs, run_node(node, inputs)))
            known = [a if a.dtype.kind in "biu" else None for a in inputs]
            if node.op.infer_shape(node, [a.shape for a in inputs], known) is None:
                unknown.add(type(node.op).__name__)
    assert unknown <= {"AdvancedSubtensor", "Arange", "IfElse", "Nonzero", "Scan"}


def test_ops_of_the_library_write_a_rule() -> None:
    silent = [op for op in concrete(Op) if op.grad is Op.grad and op.L_op is Op.L_op]
    assert not [name for op in silent if (name := f"{op.__module__}.{op.__qualname__}") in library_ops()]


def test_a_missing_entry_would_be_noticed() -> None:
    sqrt = next(entry for entry in ENTRIES if entry.name == "row:sqrt")
    assert {"row:sqrt", "row:divide", "row:strong_mul"} <= ops_of(sqrt) <= library_ops()
