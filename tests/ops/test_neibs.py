"""Patches of images as rows, and back."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, ShapeError
from pullback.graph import evaluate


def run(output):
    return evaluate([output])[0]


MODES = [
    ("valid", (6, 7), (2, 3), (2, 2)),
    ("ignore_borders", (5, 7), (2, 3), (2, 3)),
    ("half", (5, 6), (3, 2), (2, 3)),
    ("full", (4, 6), (3, 2), (1, 2)),
    ("wrap_centered", (5, 4), (3, 3), (2, 1)),
    ("wrap_centered", (5, 6), (5, 3), (1, 4)),
]


def patches(x: np.ndarray, size, step, mode) -> np.ndarray:
    """Patches cut out one by one, ordered by image, channel, row and column."""
    (r, c), (dr, dc) = size, step
    if mode == "wrap_centered":
        padded = np.pad(x, ((0, 0), (0, 0), (r // 2, r), (c // 2, c)), mode="wrap")
        tops, lefts = range(0, x.shape[2], dr), range(0, x.shape[3], dc)
    else:
        pad = {"half": (r // 2, c // 2), "full": (r - 1, c - 1)}.get(mode, (0, 0))
        padded = np.pad(x, ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2))
        tops = range(0, padded.shape[2] - r + 1, dr)
        lefts = range(0, padded.shape[3] - c + 1, dc)
    rows = [
        padded[n, k, i : i + r, j : j + c].ravel()
        for n in range(x.shape[0])
        for k in range(x.shape[1])
        for i in tops
        for j in lefts
    ]
    return np.array(rows)


@pytest.mark.parametrize(("mode", "lengths", "size", "step"), MODES)
def test_patches_are_rows(rng, mode, lengths, size, step) -> None:
    x = rng.normal(size=(2, 3, *lengths))
    rows = pb.images2neibs(x, size, step, mode)
    expected = patches(x, size, step, mode)
    assert rows.type.shape == expected.shape
    np.testing.assert_array_equal(run(rows), expected)


@pytest.mark.parametrize(("mode", "lengths", "size", "step"), MODES)
def test_images_from_patches_is_the_adjoint(rng, mode, lengths, size, step) -> None:
    x = rng.normal(size=(2, 3, *lengths))
    rows = run(pb.images2neibs(x, size, step, mode))
    g = rng.normal(size=rows.shape)
    back = run(pb.neibs2images(g, size, x.shape, step, mode))
    np.testing.assert_allclose(np.vdot(back, x), np.vdot(g, rows))


def test_without_overlap_it_is_the_inverse(rng) -> None:
    x = rng.normal(size=(2, 3, 4, 6))
    np.testing.assert_array_equal(run(pb.neibs2images(pb.images2neibs(x, (2, 3)), (2, 3), x.shape)), x)


def test_ignored_borders_come_back_as_zeros(rng) -> None:
    x = rng.normal(size=(1, 1, 5, 4))
    back = run(pb.neibs2images(pb.images2neibs(x, 2, mode="ignore_borders"), 2, x.shape, mode="ignore_borders"))
    np.testing.assert_array_equal(back[..., :4, :], x[..., :4, :])
    assert (back[..., 4, :] == 0).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int16"])
def test_the_dtype_is_that_of_the_images(dtype) -> None:
    x = np.arange(16).reshape(1, 1, 4, 4).astype(dtype)
    rows = run(pb.images2neibs(x, 2, 1))
    assert rows.dtype == dtype
    assert run(pb.neibs2images(rows, 2, (1, 1, 4, 4), 1)).dtype == dtype


def test_gradients_have_the_dtype_of_the_images() -> None:
    x = pb.ftensor4()
    g = pb.grad(pb.sum(pb.cast(pb.images2neibs(x, 2, 1, "ignore_borders"), "float64")), x)
    assert evaluate([g], {x: np.ones((1, 1, 3, 3), "float32")})[0].dtype == "float32"


def test_the_original_shape_may_be_symbolic(rng) -> None:
    x = pb.dtensor4()
    back = pb.neibs2images(pb.images2neibs(x, 2), 2, x.shape)
    value = rng.normal(size=(2, 1, 4, 6))
    np.testing.assert_array_equal(evaluate([back], {x: value})[0], value)


class TestRefusals:
    def test_a_rest_at_the_border(self) -> None:
        with pytest.raises(ShapeError, match=r"mode 'valid' needs patches \(2, 2\) with step \(2, 2\)"):
            pb.images2neibs(np.ones((1, 1, 5, 4)), 2)
        x = pb.dtensor4()
        with pytest.raises(ShapeError, match="ignore_borders"):
            evaluate([pb.images2neibs(x, 2)], {x: np.ones((1, 1, 5, 4))})

    def test_modes_and_sizes(self) -> None:
        with pytest.raises(ArgumentError, match="mode='same'; expected one of"):
            pb.images2neibs(pb.dtensor4(), 2, mode="same")
        with pytest.raises(ArgumentError, match="of odd size; got"):
            pb.images2neibs(pb.dtensor4(), 2, mode="wrap_centered")
        with pytest.raises(ShapeError, match="is larger than the image"):
            pb.images2neibs(np.ones((1, 1, 2, 9)), 3, mode="wrap_centered")

    def test_ranks(self) -> None:
        with pytest.raises(ShapeError, match=r"takes images \(batch, channels, height, width\)"):
            pb.images2neibs(pb.dmatrix(), 2)
        with pytest.raises(ShapeError, match="takes a matrix"):
            pb.neibs2images(pb.dtensor4(), 2, (1, 1, 4, 4))

    def test_patches_of_other_images(self) -> None:
        with pytest.raises(ShapeError, match=r"images \(1, 1, 4, 4\) have patches of shape \(4, 4\), got \(6, 4\)"):
            run(pb.neibs2images(np.ones((6, 4)), 2, (1, 1, 4, 4)))
