"""The registry, gathered into a page per op."""

from pullback.testing.atlas import pages
from pullback.testing.entries import all_entries


def test_entries_of_one_op_share_a_page() -> None:
    names = ("row:relu", "row:maximum", "maximum[constant]", "sum", "sum[axis=0]")
    maximum, relu, total = pages(entry for entry in all_entries() if entry.name in names)
    assert (maximum.name, relu.name, total.name) == ("maximum", "relu", "sum")
    assert list(maximum.reports) == ["row:maximum", "maximum[constant]"] and len(total.reports) == 2
    assert relu.formula == "g where x > 0" and relu.doc.startswith("max(x, 0)")
    assert [k.choice for k in relu.kinks] == ["0"] and relu.answers == {"x": "formula"}
    assert 0 < total.largest(1) < 1e-9 and total.complex_step is not None and relu.complex_step is None
