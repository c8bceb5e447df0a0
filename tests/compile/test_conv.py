"""Convolution kernels: forward and both gradients against the ops' own definition."""

from dataclasses import dataclass

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from pullback.ops.conv import Convolution, ConvolutionGradFilters, ConvolutionGradInputs, Filtering
from tests.compile.agreement import assert_close, assert_same_on_any_threads, native, reference, under_isa

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
ULPS = 8  # of the largest sum of magnitudes: what rounding can do to sums of this length, and no mistake survives


@dataclass(frozen=True)
class Case:
    """One convolution: its settings and sizes."""

    filtering: Filtering
    batch: int
    lengths: tuple[int, ...]
    into: int
    out: int
    sizes: tuple[int, ...]

    def arrays(self, seed: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Images, filters, and a gradient of the output."""
        f, rng = self.filtering, np.random.default_rng(seed)
        x = f.laid_out(self.batch, self.into * f.groups, self.lengths)
        named = dict(zip("OI" + f.spatial, (self.out * f.groups, self.into, *self.sizes)))
        w = tuple(named[letter] for letter in f.filter_layout)
        shapes = x, w, f.output_shape(x, w)
        return tuple(rng.standard_normal(s).astype(dtype) for s in shapes)

    def passes(self, x, w, g):
        """(name, op, its inputs) of the three passes."""
        f = self.filtering
        yield "forward", Convolution(f), (x, w)
        yield "inputs", ConvolutionGradInputs(f), (w, g, x)
        yield "filters", ConvolutionGradFilters(f), (x, g, w)

    def check(self, seed: int = 0, dtype: str = "float32") -> None:
        for _, op, inputs in self.passes(*self.arrays(seed, dtype)):
            (found,) = native(op, *inputs)
            (expected,) = reference(op, *inputs)
            (scale,) = reference(op, *map(np.abs, inputs))
            assert_close(found, expected, scale.max(), ULPS)


def case(
    lengths, into, out, sizes, batch=2, stride=1, padding=0, dilation=1, groups=1, last=True, flip=False
) -> Case:
    """A case by its sizes; numbers stand for the same on each axis."""
    n = len(lengths)
    spatial = SPATIAL[n]
    each = lambda value: (value,) * n if isinstance(value, int) else tuple(value)  # noqa: E731
    if not isinstance(padding, str):
        padding = tuple(p if isinstance(p, tuple) else (p, p) for p in each(padding))
    layouts = ("N" + spatial + "C", spatial + "IO") if last else ("NC" + spatial, "OI" + spatial)
    f = Filtering(each(stride), padding, each(dilation), groups, *layouts, flip)
    return Case(f, batch, tuple(lengths), into, out, tuple(each(sizes)))


NAMED = {
    "lenet's first": case((12, 12), 1, 20, 5),
    "lenet's second": case((12, 12), 20, 50, 5),
    "first layer of three channels": case((17, 19), 3, 16, 3, padding=1),
    "3x3": case((13, 11), 24, 40, 3, padding=1),
    "3x3 without padding": case((8, 9), 16, 16, 3),
    "3x3 of odd channels": case((9, 7), 19, 35, 3, padding=1, last=False),
    "3x3 on a single pixel": case((1, 1), 16, 16, 3, padding=1),
    "3x3 with much padding": case((5, 6), 17, 16, 3, padding=((2, 3), (4, 2))),
    "3x3 with stride 2": case((11, 14), 18, 33, 3, stride=2, padding=1),
    "1x1": case((7, 6), 20, 36, 1),
    "1x1 with stride 2": case((7, 9), 20, 17, 1, stride=2),
    "1x1 with padding": case((4, 5), 9, 8, 1, padding=1),
    "stride above size": case((13, 12), 5, 6, 2, stride=(3, 4)),
    "dilated": case((14, 15), 6, 18, 3, padding=2, dilation=2),
    "dilated with stride": case((15, 14), 4, 5, 3, padding=1, dilation=(2, 3), stride=(2, 2)),
    "grouped": case((9, 8), 6, 5, 3, groups=3, padding=1),
    "grouped with stride": case((9, 10), 4, 6, (3, 2), groups=2, padding=1, stride=2),
    "depthwise": case((10, 9), 1, 1, 3, groups=37, padding=1),
    "depthwise with stride": case((11, 10), 1, 1, 3, groups=18, padding=1, stride=2),
    "depthwise 5x5, dilated": case((12, 13), 1, 1, 5, groups=16, padding=2, dilation=2),
    "depthwise with a multiplier": case((6, 7), 1, 3, 3, groups=5, padding=1),
    "flipped": case((8, 7), 5, 6, (3, 2), padding=1, flip=True),
    "1-D": case((23,), 7, 17, 4, padding=2),
    "1-D with stride, channels first": case((31,), 5, 9, 5, stride=3, padding=((2, 1),), last=False),
    "1-D, long": case((1500,), 3, 17, 5, batch=1, padding=2),
    "1-D, long, with stride and dilation": case((2300,), 5, 9, 3, batch=1, stride=2, dilation=3),
    "3-D": case((5, 6, 7), 4, 9, 3, padding=1),
    "3-D with stride": case((7, 6, 5), 3, 4, (3, 2, 2), stride=(2, 1, 2), padding=((1, 0), (0, 1), (1, 1)), last=False),
    "3-D grouped, dilated": case((7, 7, 6), 2, 3, 2, groups=2, dilation=(2, 1, 3)),
    "one image": case((9, 9), 16, 20, 3, batch=1, padding=1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMED)
def test_named_cases(name, dtype):
    NAMED[name].check(dtype=dtype)


@st.composite
def cases(draw) -> Case:
    """Convolutions of any kind, whose images are never smaller than the filters."""
    n = draw(st.sampled_from([1, 2, 2, 2, 3]))
    per_axis = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(n))  # noqa: E731
    sizes, stride, dilation = per_axis(1, 4 if n < 3 else 2), per_axis(1, 3), per_axis(1, 2)
    pads = tuple(zip(per_axis(0, 3), per_axis(0, 3)))
    padding = draw(st.sampled_from([pads, pads, "same", "half", "full"]))
    room = per_axis(0, 9 if n < 3 else 4)
    lengths = tuple((k - 1) * d + 1 + r for k, d, r in zip(sizes, dilation, room))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    into, out = draw(st.integers(1, 20)), draw(st.integers(1, 36))
    flip, last, batch = draw(st.booleans()), draw(st.booleans()), draw(st.integers(1, 3))
    return case(lengths, into, out, sizes, batch, stride, padding, dilation, groups, last, flip)


@hypothesis.given(cases(), st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]))
def test_any_case(one, seed, dtype):
    one.check(seed, dtype)


@pytest.mark.parametrize("extra", [(0, 0), (1, 2)])
def test_transposed_convolution_lengthened_by_output_padding(extra):
    f = Filtering((2, 3), ((1, 0), (2, 1)), (1, 1), 1, "NHWC", "HWIO")
    rng = np.random.default_rng(0)
    w, g = rng.standard_normal((3, 4, 5, 7)), rng.standard_normal((2, 4, 6, 7))
    op = ConvolutionGradInputs(f, extra)
    (found,), (expected,) = native(op, w, g), reference(op, w, g)
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_nan_and_infinity_stay_where_they_are():
    """A non-finite pixel shows in the outputs whose window holds it, and in no other."""
    one = case((12, 12), 16, 16, 3, padding=1)
    x, w, _ = one.arrays(0, "float32")
    x[0, 5, 6, 3] = np.nan
    x[1, 0, 0, 0] = np.inf
    (y,) = native(Convolution(one.filtering), x, w)
    touched = np.zeros(y.shape[:3], bool)
    touched[0, 4:7, 5:8] = touched[1, :2, :2] = True
    assert not np.isfinite(y[touched]).any()
    assert np.isfinite(y[~touched]).all()


THREAD_CASES = [
    "lenet's second", "3x3", "3x3 with stride 2", "first layer of three channels", "depthwise", "3-D", "1-D, long",
]  # fmt: skip


@pytest.mark.parametrize("name", THREAD_CASES)
def test_results_do_not_depend_on_the_number_of_threads(name):
    one = NAMED[name]
    big = Case(one.filtering, 8, tuple(2 * n for n in one.lengths), one.into, one.out, one.sizes)
    passes = list(big.passes(*big.arrays(0, "float32")))
    assert_same_on_any_threads(lambda: [native(op, *inputs)[0] for _, op, inputs in passes])


def check_all() -> None:
    for one in NAMED.values():
        one.check()
    NAMED["3x3"].check(dtype="float64")
    NAMED["lenet's second"].check(dtype="float64")


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_all")
