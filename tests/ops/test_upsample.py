"""Resizing and moving channels to positions: values against their definitions."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, ShapeError
from pullback.graph import Constant, evaluate


def run(output):
    return evaluate([output])[0]


def line(*values: float) -> np.ndarray:
    return np.array(values, float)[None, None]


def test_nearest_repeats() -> None:
    x = np.arange(6.0).reshape(1, 1, 2, 3)
    np.testing.assert_array_equal(run(pb.upsample(x, 2)), x.repeat(2, 2).repeat(2, 3))
    np.testing.assert_array_equal(run(pb.upsample(x, (1, 3))), x.repeat(3, 3))


def test_nearest_of_other_lengths() -> None:
    x = line(0, 1, 2, 3, 4)
    np.testing.assert_array_equal(run(pb.resize(x, 3)), line(0, 1, 3))
    np.testing.assert_array_equal(run(pb.resize(x, 3, mode="nearest-exact")), line(0, 2, 4))
    np.testing.assert_array_equal(run(pb.resize(x, 8)), line(0, 0, 1, 1, 2, 3, 3, 4))


def test_linear_between_corners_and_between_edges() -> None:
    x = line(1, 2, 4)
    aligned = pb.resize(x, 5, mode="linear", align_corners=True)
    np.testing.assert_allclose(run(aligned), line(1, 1.5, 2, 3, 4))
    np.testing.assert_allclose(run(pb.upsample(x, 2, "linear")), line(1, 1.25, 1.75, 2.5, 3.5, 4))
    np.testing.assert_allclose(run(pb.resize(x, 1, mode="linear", align_corners=True)), line(1))
    np.testing.assert_allclose(run(pb.upsample(x[0, 0], 2, "linear")), [1, 1.25, 1.75, 2.5, 3.5, 4])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_constants_stay_constant(mode, align_corners) -> None:
    y = run(pb.resize(np.full((1, 2, 4, 5), 3.0), (7, 2), mode=mode, align_corners=align_corners))
    np.testing.assert_allclose(y, 3.0)


def test_cubic_reproduces_lines_away_from_the_ends() -> None:
    y = run(pb.resize(np.arange(9.0)[None, None], 17, mode="cubic", align_corners=True))
    np.testing.assert_allclose(y[..., 3:-3:2], np.arange(1.5, 7.5)[None, None])


def test_axes_are_resized_one_after_the_other(rng) -> None:
    x = rng.normal(size=(2, 3, 4, 5))
    both = run(pb.resize(x, (7, 3), mode="bilinear"))
    rows = run(pb.resize(x.transpose(0, 1, 3, 2).reshape(2, 15, 4), 7, mode="linear")).reshape(2, 3, 5, 7)
    columns = run(pb.resize(rows.transpose(0, 1, 3, 2).reshape(2, 21, 5), 3, mode="linear")).reshape(2, 3, 7, 3)
    np.testing.assert_allclose(both, columns)


def test_layouts_name_the_axes(rng) -> None:
    x = rng.normal(size=(2, 3, 4, 5))
    y = run(pb.resize(x.transpose(0, 2, 3, 1), (6, 9), mode="bilinear", layout="NHWC"))
    np.testing.assert_allclose(y, run(pb.resize(x, (6, 9), mode="bilinear")).transpose(0, 2, 3, 1))


def test_the_gradient_sums_over_what_was_read() -> None:
    x = pb.dtensor3()
    g = evaluate([pb.grad(pb.sum(pb.upsample(x, 3) * Constant(line(*range(6)))), x)], {x: line(7, 8)})[0]
    np.testing.assert_array_equal(g, line(0 + 1 + 2, 3 + 4 + 5))
    ends = evaluate([pb.grad(pb.sum(pb.upsample(x, 5, "linear", True)), x)], {x: line(2, 4)})[0]
    np.testing.assert_allclose(ends, line(5, 5))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_dtypes_are_kept(dtype) -> None:
    x = pb.tensor(dtype, (None, None, None))
    y = pb.upsample(x, 2, "linear")
    value, g = evaluate([y, pb.grad(pb.sum(pb.cast(y, "float64")), x)], {x: line(1, 2).astype(dtype)})
    assert value.dtype == g.dtype == dtype


def test_sizes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="give either size or scale"):
        pb.resize(pb.dtensor3())
    with pytest.raises(ArgumentError, match="mode='lanczos'; expected one of"):
        pb.resize(pb.dtensor3(), 4, mode="lanczos")
    with pytest.raises(ArgumentError, match="align_corners has no meaning"):
        pb.resize(pb.dtensor3(), 4, align_corners=True)
    with pytest.raises(ArgumentError, match="scale=-1; expected a positive number"):
        pb.upsample(pb.dtensor3(), -1)
    with pytest.raises(ShapeError, match="becomes empty"):
        pb.upsample(line(1, 2), 0.1)


def test_pixel_shuffle_spreads_channels(rng) -> None:
    x = rng.normal(size=(2, 3 * 4, 3, 5))
    y = run(pb.pixel_shuffle(x, 2))
    for c, i, j in np.ndindex(3, 2, 2):
        np.testing.assert_array_equal(y[:, c, i::2, j::2], x[:, 4 * c + 2 * i + j])
    np.testing.assert_array_equal(run(pb.pixel_unshuffle(y, 2)), x)
    last = run(pb.pixel_shuffle(x.transpose(0, 2, 3, 1), 2, layout="NHWC"))
    np.testing.assert_array_equal(last, y.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(("reverse", "shape"), [(False, (2, 8, 6, 4)), (True, (2, 8, 3, 5))])
def test_reorg_reads_memory_as_darknet_does(rng, reverse, shape) -> None:
    x, s = rng.normal(size=shape), 2
    n, c, h, w = shape
    few = c // (s * s)
    wide = x.reshape(n, few, h * s, w * s)  # how Darknet addresses the larger side
    small = np.empty(shape)
    large = np.empty_like(wide)
    for k, j, i in np.ndindex(c, h, w):
        offset = k // few
        place = (slice(None), k % few, j * s + offset // s, i * s + offset % s)
        small[:, k, j, i] = wide[place]
        large[place] = x[:, k, j, i]
    y = run(pb.reorg(x, s, reverse))
    expected = large if reverse else small.reshape(n, c * s * s, h // s, w // s)
    np.testing.assert_array_equal(y, expected)


def test_shapes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ShapeError, match="pixel_shuffle: channels 6 must be a multiple of 4"):
        pb.pixel_shuffle(np.ones((1, 6, 2, 2)), 2)
    with pytest.raises(ShapeError, match="pixel_unshuffle: height 3 must be a multiple of 2"):
        pb.pixel_unshuffle(np.ones((1, 1, 3, 2)), 2)
    with pytest.raises(ShapeError, match="reorg: width 5 must be a multiple of 2"):
        pb.reorg(np.ones((1, 4, 2, 5)), 2)
    with pytest.raises(ShapeError, match="takes 4-d images"):
        pb.pixel_shuffle(pb.dmatrix(), 2)
