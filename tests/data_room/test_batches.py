"""Batches and splits: every row once, orders that depend on seed and epoch alone, cursors that can be saved."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as pb
from pullback.data import Batches, split


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 5))
def test_every_row_comes_once_per_epoch(n, size, seed):
    X, y = np.arange(n), np.arange(n) * 2.0
    batches = Batches(X, y, batch_size=size, seed=seed)
    for epoch in range(2):
        assert batches.epoch == epoch
        parts = list(batches)
        assert [len(a) for a, _ in parts] == [size] * (n // size) + [n % size] * (n % size > 0)
        assert len(parts) == len(batches)
        rows = np.concatenate([a for a, _ in parts])
        np.testing.assert_array_equal(np.sort(rows), X)
        np.testing.assert_array_equal(np.concatenate([b for _, b in parts]), rows * 2.0)


def test_orders_differ_by_seed_and_epoch_and_by_nothing_else():
    a, b, c = (Batches(np.arange(50), batch_size=7, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.order(3), b.order(3))
    assert not np.array_equal(a.order(3), a.order(4))
    assert not np.array_equal(a.order(3), c.order(3))
    np.testing.assert_array_equal(Batches(np.arange(5), shuffle=False).order(3), np.arange(5))


@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 40))
def test_a_saved_cursor_goes_on_where_it_was(n, size, steps):
    X = np.arange(n)
    whole = Batches(X, batch_size=size, seed=9)
    stopped = Batches(X, batch_size=size, seed=9)

    def stream(batches):
        while True:
            yield from batches

    one, other = stream(whole), stream(stopped)
    for _ in range(steps):
        next(one), next(other)
    resumed = Batches(X, batch_size=size, seed=9)
    resumed.restore(json.loads(json.dumps(stopped.state())))
    for (a,), (b,) in zip((next(one) for _ in range(10)), stream(resumed)):
        np.testing.assert_array_equal(a, b)


def test_refuses():
    with pytest.raises(pb.ShapeError, match=r"lengths \[3, 4\]"):
        Batches(np.zeros(3), np.zeros(4))
    for options in ({"batch_size": 0}, {"seed": -1}):
        with pytest.raises(pb.ArgumentError):
            Batches(np.zeros(3), **options)
    with pytest.raises(pb.FormatError, match="no state of Batches"):
        Batches(np.zeros(3)).restore({"epoch": 1})
    with pytest.raises(pb.ArgumentError, match="had samples=4, these have samples=3"):
        Batches(np.zeros(3)).restore(Batches(np.zeros(4)).state())


# --- split ------------------------------------------------------------------------------------------------------------


@given(st.integers(2, 60), st.integers(1, 59), st.integers(0, 3))
def test_split_is_a_partition_that_keeps_rows_together(n, held, seed):
    if held >= n:
        return
    X, y = np.arange(n), np.arange(n) + 100
    (a, b), (c, d) = split(X, y, held_back=held, seed=seed)
    assert len(b) == held
    np.testing.assert_array_equal(np.sort(np.concatenate([a, b])), X)
    np.testing.assert_array_equal(c, a + 100)
    np.testing.assert_array_equal(d, b + 100)
    ((again, _),) = split(X, held_back=held, seed=seed)
    np.testing.assert_array_equal(a, again)


def test_split_by_share_and_by_class(rng):
    y = rng.permutation(np.repeat([0, 1, 2], [50, 30, 21]))
    ((kept, held),) = split(y, held_back=0.2, stratify=y)
    assert len(held) == 20
    assert np.abs(np.bincount(held) - np.array([50, 30, 21]) * 20 / 101).max() < 1
    assert len(np.unique(held[:10])) > 1, "classes are mixed, not one after the other"


@pytest.mark.parametrize("held", [0, 10, 11, 0.01, -1])
def test_split_refuses_to_leave_a_side_empty(held):
    with pytest.raises(pb.ArgumentError, match="leave some on both sides"):
        split(np.arange(10), held_back=held)


def test_split_refuses_lengths_that_differ():
    with pytest.raises(pb.ShapeError):
        split(np.arange(3), np.arange(4), held_back=1)
    with pytest.raises(pb.ShapeError, match="4 labels for 3 rows"):
        split(np.arange(3), held_back=1, stratify=np.arange(4))
