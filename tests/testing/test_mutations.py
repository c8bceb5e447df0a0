"""`check_op` catches deliberately broken rules, names the kind of mistake, and lets the right ones pass."""

import pytest

from pullback.testing import CheckError, check_op
from tests.testing.mutants import MUTANTS, Mutant


def test_there_are_many_kinds_of_mistake() -> None:
    assert len({type(m.broken) for m in MUTANTS}) == len(MUTANTS) >= 30
    assert len({m.kind for m in MUTANTS}) >= 18


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_broken_rule_is_caught_and_named(mutant: Mutant) -> None:
    with pytest.raises(CheckError) as caught:
        check_op(mutant.entry(mutant.broken))
    if mutant.kind is not None:
        assert caught.value.mistake.kind == mutant.kind, str(caught.value)
    assert str(mutant.broken) in str(caught.value)


@pytest.mark.parametrize("op", {type(m.right): m for m in MUTANTS}.values(), ids=lambda m: type(m.right).__name__)
def test_the_right_rule_passes(op: Mutant) -> None:
    report = check_op(op.entry(op.right))
    assert report.right and 0 < report.largest(1) <= 1e-6
