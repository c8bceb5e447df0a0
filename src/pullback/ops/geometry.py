"""Where windows lie: padding, stride, dilation, output size and window count, for convolution and pooling, both ways.

Per spatial axis, output o of a window of `size` taps reads, with its tap k, the input at

    o * stride + k * dilation - before,

and nothing where that lies outside the input. All forward and backward passes walk these places through `taps`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, ShapeError

Pairs = tuple[tuple[int, int], ...]
Lengths = Sequence[int | None]
Tap = tuple[tuple[int, ...], tuple, tuple]  # (place in the window, index into the outputs, index into the input)

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
NAMED_PADDING = ("valid", "same", "half", "full")


def per_axis(value: Any, ndim: int, name: str, what: str, least: int = 1) -> tuple[int, ...]:
    """An integer for all spatial axes, or one for each, as a tuple of integers of at least `least`."""
    if not isinstance(value, (int, np.integer, tuple, list, np.ndarray)):
        raise ArgumentTypeError(f"{what}: {name}={value!r}; expected an integer or {ndim} of them")
    values = (value,) * ndim if isinstance(value, (int, np.integer)) else tuple(value)
    if len(values) != ndim:
        raise ArgumentError(f"{what}: {name}={value!r}; expected an integer or {ndim} of them")
    if any(isinstance(v, bool) or not isinstance(v, (int, np.integer)) for v in values):
        raise ArgumentTypeError(f"{what}: {name}={value!r}; expected integers")
    if any(v < least for v in values):
        raise ArgumentError(f"{what}: {name}={value!r}; expected at least {least}")
    return tuple(int(v) for v in values)


def parse_padding(padding: Any, ndim: int, what: str) -> str | Pairs:
    """A user's padding as (before, after) for each spatial axis, or a name that needs sizes to become that.

    An integer pads all sides; a sequence holds for each axis an integer (both sides) or a pair (before, after).
    "valid" pads nothing; "same" so that the output has ceil(length / stride) entries, the odd one after; "half" by
    half the window on either side; "full" by all of the window but one.
    """
    if isinstance(padding, str):
        if padding not in NAMED_PADDING:
            raise ArgumentError(f"{what}: padding={padding!r}; expected numbers or one of {NAMED_PADDING}")
        return ((0, 0),) * ndim if padding == "valid" else padding
    if not isinstance(padding, (tuple, list, np.ndarray)):
        padding = per_axis(padding, ndim, "padding", what, least=0)
    elif ndim == 1 and len(padding) == 2:
        padding = (padding,)
    if len(padding) != ndim:
        raise ArgumentError(f"{what}: padding={padding!r}; expected a number, or for each of {ndim} axes one or a pair")
    return tuple(per_axis(p, 2, "padding", what, least=0) for p in padding)


@dataclass(frozen=True)
class Windows:
    """Windows of a fixed size that slide over the spatial axes.

    Attributes:
        size, stride, dilation: one entry per spatial axis.
        padding: (before, after) per spatial axis, or "same", "half", "full".
        ceil_mode: also take a last window that overhangs the end, if it starts inside the input or its left padding.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | Pairs
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    def extents(self) -> tuple[int, ...]:
        """How far a window reaches on each axis, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.size, self.dilation))

    def pads(self, lengths: Lengths) -> tuple[tuple[int, int] | None, ...]:
        """(before, after) per axis; None where it depends on an unknown length."""
        if not isinstance(self.padding, str):
            return self.padding
        if self.padding == "half":
            return tuple((e // 2, e // 2) for e in self.extents())
        if self.padding == "full":
            return tuple((e - 1, e - 1) for e in self.extents())
        pairs: list[tuple[int, int] | None] = []
        for n, e, s in zip(lengths, self.extents(), self.stride):
            if n is None:
                pairs.append(None)
            else:
                total = max((-(-n // s) - 1) * s + e - n, 0)
                pairs.append((total // 2, total - total // 2))
        return tuple(pairs)

    def counts(self, lengths: Lengths, what: str) -> tuple[int | None, ...]:
        """How many windows there are on each axis; None where the length is unknown."""
        counts: list[int | None] = []
        for axis, (n, e, s, pad) in enumerate(zip(lengths, self.extents(), self.stride, self.pads(lengths))):
            if n is None or pad is None:
                counts.append(None)
                continue
            before, after = pad
            room = n + before + after - e
            if room < 0:
                raise ShapeError(
                    f"{what}: a window of {e} (size {self.size[axis]}, dilation {self.dilation[axis]}) doesn't fit "
                    f"into length {n} with padding {pad} on spatial axis {axis}"
                )
            count = room // s + 1
            overhangs = self.ceil_mode and room % s != 0 and count * s < n + before
            counts.append(count + overhangs)
        return tuple(counts)

    def lengths(self, counts: Lengths, extra: Sequence[int], what: str) -> tuple[int | None, ...]:
        """The lengths from which `counts` windows come: the smallest possible, plus `extra` (below the stride)."""
        if any(x >= s for x, s in zip(extra, self.stride)):
            raise ArgumentError(f"{what}: output_padding {tuple(extra)} must be smaller than the stride {self.stride}")
        if self.padding == "same":
            if any(extra):
                raise ArgumentError(f"{what}: padding='same' leaves no choice to output_padding={tuple(extra)}")
            return tuple(None if m is None else m * s for m, s in zip(counts, self.stride))
        lengths: list[int | None] = []
        for m, e, s, (before, after), x in zip(counts, self.extents(), self.stride, self.pads(counts), extra):
            n = None if m is None else (m - 1) * s + e - before - after + x
            if n is not None and n < 1:
                raise ShapeError(f"{what}: padding ({before}, {after}) leaves nothing of {n + before + after} entries")
            lengths.append(n)
        return tuple(lengths)

    def taps(self, lengths: Sequence[int], what: str) -> Iterator[Tap]:
        """For each place in the window, in row-major order: the outputs for which it lies inside, and what they read.

        Outputs and inputs are indexed by slices of equal lengths; within one tap no input is read twice.
        """
        axes = []
        for n, m, k, s, d, (before, _) in zip(
            lengths, self.counts(lengths, what), self.size, self.stride, self.dilation, self.pads(lengths)
        ):
            axis = []
            for tap in range(k):
                shift = tap * d - before
                first = max(0, -(shift // s))
                last = min(m, (n - 1 - shift) // s + 1)
                if first < last:
                    start = first * s + shift
                    reads = slice(start, start + (last - first - 1) * s + 1, s)
                    axis.append((tap, slice(first, last), reads))
            axes.append(axis)
        for places in product(*axes):
            yield tuple(zip(*places)) if places else ((), (), ())

    def cells(self, lengths: Sequence[int], count_padding: bool, what: str) -> np.ndarray:
        """How many cells each window has inside the input, or inside input plus padding; overhang never counts."""
        per_axis = []
        for n, m, k, s, d, (before, after) in zip(
            lengths, self.counts(lengths, what), self.size, self.stride, self.dilation, self.pads(lengths)
        ):
            at = np.arange(m)[:, None] * s + np.arange(k) * d - before
            low, high = (-before, n + after) if count_padding else (0, n)
            per_axis.append(((at >= low) & (at < high)).sum(1))
        return outer_product(per_axis)

    def check_reaches_input(self, what: str) -> None:
        """Refuse padding as wide as the window: such a window would hold no real cell."""
        if not isinstance(self.padding, str) and any(max(p) >= e for p, e in zip(self.padding, self.extents())):
            raise ArgumentError(
                f"{what}: padding {self.padding} must be smaller than the window {self.extents()}: "
                "a window inside the padding holds no real cell"
            )


@dataclass(frozen=True)
class AdaptiveWindows:
    """A fixed number m of windows that share a length n out: number i covers floor(i n / m) to ceil((i + 1) n / m)."""

    count: tuple[int, ...]

    def counts(self, lengths: Lengths, what: str) -> tuple[int, ...]:
        if any(n == 0 for n in lengths):
            raise ShapeError(f"{what}: nothing to pool in spatial shape {tuple(lengths)}")
        return self.count

    def taps(self, lengths: Sequence[int], what: str) -> Iterator[Tap]:
        """As `Windows.taps`, with index arrays; neighbouring windows can read one input in the same tap."""
        axes = []
        for n, m in zip(lengths, self.counts(lengths, what)):
            start, size = self._spans(n, m)
            axes.append([(k, *self._reaching(start, size, k)) for k in range(size.max())])
        for places in product(*axes):
            tap, outputs, inputs = zip(*places)
            yield tap, np.ix_(*outputs), np.ix_(*inputs)

    def _spans(self, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
        i = np.arange(m)
        start = i * n // m
        return start, -(-(i + 1) * n // m) - start

    def _reaching(self, start: np.ndarray, size: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        outputs = np.flatnonzero(size > k)
        return outputs, start[outputs] + k

    def cells(self, lengths: Sequence[int], count_padding: bool, what: str) -> np.ndarray:
        return outer_product([self._spans(n, m)[1] for n, m in zip(lengths, self.counts(lengths, what))])


def outer_product(factors: Sequence[np.ndarray]) -> np.ndarray:
    """The product of one vector per axis, as an array with one axis for each."""
    result = np.ones((), np.int64)
    for f in factors:
        result = result[..., None] * f
    return result


def parse_layout(layout: str, letters: str, name: str, what: str) -> str:
    """A layout that names each of `letters` once, e.g. "NHWC"."""
    if not isinstance(layout, str) or sorted(layout) != sorted(letters):
        raise ArgumentError(f"{what}: {name}={layout!r}; expected the letters {', '.join(letters)} in some order")
    return layout


def axes_of(layout: str, letters: str) -> tuple[int, ...]:
    """The places of `letters` in `layout`."""
    return tuple(layout.index(letter) for letter in letters)


def add_at(array: np.ndarray, index: tuple, values: np.ndarray) -> None:
    """Add `values` at `index` of the last axes of `array`; entries named twice get both."""
    if any(isinstance(i, np.ndarray) for i in index):
        np.add.at(array, (..., *index), values)
    else:
        array[(..., *index)] += values
