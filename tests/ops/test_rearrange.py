"""Flipping, rolling, repeating, padding, inserting, stacking and cutting; against NumPy."""

import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate
from pullback.testing import check_op
from tests.ops.helpers import as_numpy, value

X = np.arange(24, dtype="float32").reshape(2, 3, 4)
V = np.arange(5, dtype="float64")


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda x: pb.flip(x), lambda x: np.flip(x)),
        (lambda x: pb.flip(x, -1), lambda x: np.flip(x, -1)),
        (lambda x: pb.flip(x, (0, 2)), lambda x: np.flip(x, (0, 2))),
        (lambda x: pb.flipud(x), np.flipud),
        (lambda x: pb.fliplr(x), np.fliplr),
        *((lambda x, k=k: pb.rot90(x, k), lambda x, k=k: np.rot90(x, k)) for k in range(-1, 5)),
        *((lambda x, k=k: pb.rot90(x, k, (2, 0)), lambda x, k=k: np.rot90(x, k, (2, 0))) for k in range(4)),
        (lambda x: pb.roll(x, 5), lambda x: np.roll(x, 5)),
        (lambda x: pb.roll(x, -1, 1), lambda x: np.roll(x, -1, 1)),
        (lambda x: pb.roll(x, (1, -7), (0, 2)), lambda x: np.roll(x, (1, -7), (0, 2))),
        (lambda x: pb.roll(x, (1, 1), (2, 2)), lambda x: np.roll(x, (1, 1), (2, 2))),
        (lambda x: pb.roll(x, 1, (0, 1)), lambda x: np.roll(x, 1, (0, 1))),
        (lambda x: pb.roll(x, x.shape[0], 2), lambda x: np.roll(x, 2, 2)),
        (lambda x: pb.tile(x, 2), lambda x: np.tile(x, 2)),
        (lambda x: pb.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
        (lambda x: pb.tile(x, (2, 3, 1, 1, 2)), lambda x: np.tile(x, (2, 3, 1, 1, 2))),
        (lambda x: pb.tile(x, (0, 1)), lambda x: np.tile(x, (0, 1))),
        (lambda x: pb.tile(x, (x.shape[0], 1)), lambda x: np.tile(x, (2, 1))),
        (lambda x: pb.repeat(x, 3), lambda x: np.repeat(x, 3)),
        (lambda x: pb.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1)),
        (lambda x: pb.repeat(x, 0, 0), lambda x: np.repeat(x, 0, 0)),
        (lambda x: pb.repeat(x, [2, 0, 3], 1), lambda x: np.repeat(x, [2, 0, 3], 1)),
        (lambda x: pb.repeat(x, x.shape[0], -1), lambda x: np.repeat(x, 2, -1)),
        (lambda x: pb.atleast_3d(x[0, 0]), lambda x: np.atleast_3d(x[0, 0])),
        (lambda x: pb.atleast_3d(x[0]), lambda x: np.atleast_3d(x[0])),
        (lambda x: pb.atleast_2d(x[0, 0, 0]), lambda x: np.atleast_2d(x[0, 0, 0])),
        (lambda x: pb.atleast_1d(x[0, 0, 0]), lambda x: np.atleast_1d(x[0, 0, 0])),
        (lambda x: pb.vstack([x[0, 0], x[1]]), lambda x: np.vstack([x[0, 0], x[1]])),
        (lambda x: pb.hstack([x, x]), lambda x: np.hstack([x, x])),
        (lambda x: pb.hstack([x[0, 0], x[0, 0, 0]]), lambda x: np.hstack([x[0, 0], x[0, 0, 0]])),
        (lambda x: pb.dstack([x[0], x[1]]), lambda x: np.dstack([x[0], x[1]])),
        (lambda x: pb.column_stack([x[0, :, 0], x[1]]), lambda x: np.column_stack([x[0, :, 0], x[1]])),
        (lambda x: pb.array_split(x, 3, -1), lambda x: np.array_split(x, 3, -1)),
        (lambda x: pb.array_split(x, 5, 1), lambda x: np.array_split(x, 5, 1)),
        (lambda x: pb.array_split(x, [1, 2], 1), lambda x: np.array_split(x, [1, 2], 1)),
        (lambda x: pb.vsplit(x, 2), lambda x: np.vsplit(x, 2)),
        (lambda x: pb.hsplit(x, 3), lambda x: np.hsplit(x, 3)),
        (lambda x: pb.dsplit(x, 2), lambda x: np.dsplit(x, 2)),
        (
            lambda x: pb.broadcast_arrays(x, x[:, :1], x[0, 0]),
            lambda x: list(np.broadcast_arrays(x, x[:, :1], x[0, 0])),
        ),
    ],
)  # fmt: skip
def test_like_numpy(ours, numpys) -> None:
    as_numpy(ours, numpys, X)


@pytest.mark.parametrize("options", [{}, {"indexing": "ij"}, {"sparse": True}])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid(options, count) -> None:
    vectors = [V, V[:3], V[:2]][:count]
    as_numpy(lambda *v: pb.meshgrid(*v, **options), lambda *v: list(np.meshgrid(*v, **options)), *vectors)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("width", [2, (1, 3), ((0, 0), (2, 1), (0, 9)), 0])
def test_pad_as_numpy(mode, width) -> None:
    as_numpy(lambda x: pb.pad(x, width, mode), lambda x: np.pad(x, width, mode), X)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_pad_of_an_axis_of_length_1(mode) -> None:
    as_numpy(lambda x: pb.pad(x, 3, mode), lambda x: np.pad(x, 3, mode), V[:1])


def test_pad_with_a_value_keeps_the_dtype() -> None:
    as_numpy(
        lambda x: pb.pad(x, 1, constant_values=7.5),
        lambda x: np.pad(x, 1, constant_values=np.float32(7.5)), X,
    )  # fmt: skip
    as_numpy(lambda x: pb.pad(x, 1, constant_values=-1), lambda x: np.pad(x, 1, constant_values=-1), X.astype("int16"))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.flip(x, 1), lambda x: pb.roll(x, (1, -1), (0, 2)), lambda x: pb.rot90(x, 1, (0, 2)),
        lambda x: pb.tile(x, (2, 1, 2)) ** 2, lambda x: pb.repeat(x, [2, 0, 1], 1) ** 2,
        lambda x: pb.repeat(x, 2, 1) ** 2,
        *(lambda x, m=m: pb.pad(x, ((1, 0), (2, 2), (5, 1)), m) ** 2
          for m in ("constant", "edge", "reflect", "symmetric", "wrap")),
        lambda x: pb.meshgrid(x[0, 0], x[0, :, 0])[0] ** 2, lambda x: pb.array_split(x, 3, 2)[0] ** 2,
    ],
)  # fmt: skip
def test_gradients_to_second_order(f, rng) -> None:
    check_op(f, rng.normal(size=(2, 3, 4)))


def test_the_padding_value_gets_the_sum_over_the_border(rng) -> None:
    check_op(lambda x, v: pb.pad(x, (1, 2), constant_values=v), rng.normal(size=(2, 3)), np.array(0.4))


def test_roll_by_a_symbolic_shift(rng) -> None:
    shift = np.array(3)
    as_numpy(lambda x: pb.roll(x, pb.constant(shift), 0), lambda x: np.roll(x, 3, 0), X)
    x, s = pb.dvector("x"), pb.lscalar("s")
    y = pb.roll(x, s, 0)
    g = pb.grad(None, x, known_grads={y: pb.constant(V)})
    np.testing.assert_array_equal(evaluate([g], {x: V, s: shift})[0], np.roll(V, -3))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("positions", ["front", "negative", "shuffled"])
def test_insert_along_axis(axis, positions, rng) -> None:
    n = X.shape[axis]
    places = {"front": np.arange(n), "negative": -1 - np.arange(n), "shuffled": rng.permutation(n + 3)[:n]}[positions]
    expected = np.full([n + 3 if a == axis % 3 else k for a, k in enumerate(X.shape)], 2.5, X.dtype)
    np.moveaxis(expected, axis, 0)[places] = np.moveaxis(X, axis, 0)
    as_numpy(lambda x: pb.insert_along_axis(x, places, n + 3, axis, 2.5), lambda x: expected, X)
    check_op(
        lambda x, fill: pb.insert_along_axis(x, places, n + 3, axis, fill) ** 2,
        rng.normal(size=X.shape), np.array(0.3),
    )  # fmt: skip


def test_insert_along_axis_refuses_what_doesnt_fit() -> None:
    with pytest.raises(pb.ShapeError):
        value(lambda x: pb.insert_along_axis(x, [0, 1], 5), V)
    with pytest.raises(pb.IndexRangeError):
        value(lambda x: pb.insert_along_axis(x, [0, 1, 2, 3, 9], 7), V)
    with pytest.raises(pb.DTypeError):
        pb.insert_along_axis(pb.vector(), pb.vector(), 5)


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: pb.pad(x, -1), pb.ArgumentError, "at least 0"),
        (lambda x: pb.pad(x, 1.5), pb.ArgumentError, "integers"),
        (lambda x: pb.pad(x, ((1, 2), (3, 4))), pb.ShapeError, "each of 3"),
        (lambda x: pb.pad(x, 1, "mean"), pb.ArgumentError, "'reflect'"),
        (lambda x: pb.roll(x, (1, 2), 0), pb.ArgumentError, "2 shifts for 1"),
        (lambda x: pb.roll(x, 1.5, 0), pb.ArgumentTypeError, "integer scalar"),
        (lambda x: pb.flip(x, 3), pb.ShapeError, "axis 3"),
        (lambda x: pb.meshgrid(x, indexing="ab"), pb.ArgumentError, "'xy' or 'ij'"),
        (lambda x: pb.repeat(x, 1.5, 0), pb.DTypeError, "integers"),
        (lambda x: pb.array_split(x, 0), pb.ArgumentError, "at least 1"),
        (lambda x: pb.rot90(x, 1, (0, 0)), pb.ArgumentError, "twice"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_at_build(f, error, words) -> None:
    with pytest.raises(error, match=words):
        f(pb.tensor("float32", X.shape, "x"))
