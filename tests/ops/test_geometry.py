"""Windows against their definition, place by place: forward and backward passes all walk through these."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.errors import ArgumentError, ArgumentTypeError, ShapeError
from pullback.ops.geometry import AdaptiveWindows, Windows, add_at, parse_layout, parse_padding, per_axis

numbers = st.integers(1, 3)
pads = st.tuples(st.integers(0, 3), st.integers(0, 3))


def reads(windows, lengths) -> set:
    """All (output, tap, input) triples, as flat indices, that `taps` walks."""
    counts = windows.counts(lengths, "test")
    outputs = np.arange(np.prod(counts)).reshape(counts)
    inputs = np.arange(np.prod(lengths)).reshape(lengths)
    found = []
    for tap, o, i in windows.taps(lengths, "test"):
        assert outputs[o].shape == inputs[i].shape
        found += [(int(a), tap, int(b)) for a, b in zip(outputs[o].flat, inputs[i].flat)]
    assert len(set(found)) == len(found)
    return set(found)


def definition(windows, lengths) -> set:
    """Output o reads with tap k the input at o * stride + k * dilation - before, where that lies inside."""
    counts = windows.counts(lengths, "test")
    found = set()
    for o in itertools.product(*map(range, counts)):
        for k in itertools.product(*map(range, windows.size)):
            at = [
                a * s + b * d - before
                for a, s, b, d, (before, _) in zip(o, windows.stride, k, windows.dilation, windows.pads(lengths))
            ]
            if all(0 <= p < n for p, n in zip(at, lengths)):
                found.add((int(np.ravel_multi_index(o, counts)), k, int(np.ravel_multi_index(at, lengths))))
    return found


@given(n=st.integers(1, 9), size=numbers, stride=st.integers(1, 4), pad=pads, dilation=numbers, ceil=st.booleans())
def test_law_12_taps_are_the_definition(n, size, stride, pad, dilation, ceil) -> None:
    windows = Windows((size,), (stride,), (pad,), (dilation,), ceil)
    try:
        (count,) = windows.counts((n,), "test")
    except ShapeError:
        assert n + sum(pad) < windows.extents()[0]
        return
    room = n + sum(pad) - windows.extents()[0]
    whole = room // stride + 1  # windows that lie inside the padded input
    assert count >= 1 and count - whole == (ceil and room % stride != 0 and whole * stride < n + pad[0])
    assert reads(windows, (n,)) == definition(windows, (n,))


@given(st.lists(st.tuples(st.integers(3, 5), numbers, numbers, pads), min_size=2, max_size=3))
def test_taps_on_several_axes(axes) -> None:
    lengths, size, stride, padding = zip(*axes)
    windows = Windows(size, stride, padding, (1,) * len(axes))
    assert reads(windows, lengths) == definition(windows, lengths)


def test_taps_run_through_the_window_in_row_major_order() -> None:
    taps = [tap for tap, _, _ in Windows((2, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)).taps((4, 4), "test")]
    assert taps == sorted(taps) and len(taps) == 6


@given(n=st.integers(1, 9), m=st.integers(1, 9))
def test_adaptive_windows_cover_shares_of_the_input(n, m) -> None:
    windows = AdaptiveWindows((m,))
    inputs = [sorted(i for o, _, i in reads(windows, (n,)) if o == k) for k in range(m)]
    assert inputs == [list(range(k * n // m, -(-(k + 1) * n // m))) for k in range(m)]
    assert windows.cells((n,), True, "test").tolist() == [len(i) for i in inputs]


@given(n=st.integers(1, 9), size=numbers, stride=numbers, pad=pads, ceil=st.booleans())
def test_cells_count_what_each_window_holds(n, size, stride, pad, ceil) -> None:
    windows = Windows((size,), (stride,), (pad,), (1,), ceil)
    if n + sum(pad) < size:
        return
    inside, padded = (windows.cells((n,), c, "test") for c in (False, True))
    for o, (a, b) in enumerate(zip(inside, padded)):
        at = range(o * stride - pad[0], o * stride - pad[0] + size)
        assert a == sum(0 <= p < n for p in at)
        assert b == sum(-pad[0] <= p < n + pad[1] for p in at)


@given(n=st.integers(1, 12), size=numbers, stride=numbers, dilation=numbers)
def test_same_padding_divides_the_length_by_the_stride(n, size, stride, dilation) -> None:
    windows = Windows((size,), (stride,), "same", (dilation,))
    (before, after) = windows.pads((n,))[0]
    assert windows.counts((n,), "test") == (-(-n // stride),)
    assert 0 <= after - before <= 1


@given(n=st.integers(1, 12), size=numbers, dilation=numbers)
def test_full_and_half_padding(n, size, dilation) -> None:
    extent = (size - 1) * dilation + 1
    assert Windows((size,), (1,), "full", (dilation,)).counts((n,), "test") == (n + extent - 1,)
    assert Windows((size,), (1,), "half", (dilation,)).counts((n,), "test") == (n + 1 - extent % 2,)


@given(m=st.integers(1, 6), size=numbers, stride=numbers, pad=pads, dilation=numbers, data=st.data())
def test_lengths_are_those_that_give_the_counts(m, size, stride, pad, dilation, data) -> None:
    windows = Windows((size,), (stride,), (pad,), (dilation,))
    extra = data.draw(st.integers(0, stride - 1))
    try:
        lengths = windows.lengths((m,), (extra,), "test")
    except ShapeError:
        return
    assert windows.counts(lengths, "test") == (m,)


def test_unknown_lengths_stay_unknown() -> None:
    windows = Windows((3, 3), (2, 2), "same", (1, 1))
    assert windows.counts((None, 5), "test") == (None, 3)
    assert windows.lengths((None, 3), (0, 0), "test") == (None, 6)


def test_entries_named_twice_are_added_twice() -> None:
    x = np.zeros((2, 3))
    add_at(x, (np.array([0, 0, 1]),), np.ones((2, 3)))
    add_at(x, (slice(0, 3, 2),), np.ones((2, 2)))
    assert x.tolist() == [[3.0, 1.0, 1.0]] * 2


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        (1, ((1, 1), (1, 1))),
        ((1, 2), ((1, 1), (2, 2))),
        (((1, 2), (0, 3)), ((1, 2), (0, 3))),
        ("valid", ((0, 0), (0, 0))),
        ("same", "same"),
    ],
)
def test_padding_is_a_number_numbers_pairs_or_a_name(padding, expected) -> None:
    assert parse_padding(padding, 2, "test") == expected


def test_on_one_axis_two_numbers_are_before_and_after() -> None:
    assert parse_padding((1, 2), 1, "test") == ((1, 2),)


@pytest.mark.parametrize("padding", ["sane", (1,), (1, 2, 3), -1, ((1, -1), (0, 0)), 1.5, ((1, 2, 3), 0)])
def test_other_padding_is_refused(padding) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match="conv2d: padding="):
        parse_padding(padding, 2, "conv2d")


def test_arguments_are_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match=r"conv2d: stride=0; expected at least 1"):
        per_axis(0, 2, "stride", "conv2d")
    with pytest.raises(ArgumentError, match=r"stride=\(1, 2, 3\); expected an integer or 2 of them"):
        per_axis((1, 2, 3), 2, "stride", "conv2d")
    for value in ((1.5, 2), 1.5, None, "2"):
        with pytest.raises(ArgumentTypeError, match="conv2d: stride=.*expected"):
            per_axis(value, 2, "stride", "conv2d")
    with pytest.raises(ArgumentError, match=r"layout='NHW'; expected the letters N, C, H, W"):
        parse_layout("NHW", "NCHW", "layout", "conv2d")
