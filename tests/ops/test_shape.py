"""Shapes: asked for, changed, joined and cut; against NumPy, with lengths known and unknown."""

import numpy as np
import pytest

import pullback as pb
from pullback.graph import Constant, evaluate
from pullback.testing import check_op
from tests.ops.helpers import as_numpy, value

X = np.arange(24, dtype="float32").reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda x: pb.reshape(x, (4, 6)), lambda x: x.reshape(4, 6)),
        (lambda x: x.reshape(3, -1), lambda x: x.reshape(3, -1)),
        (lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
        (lambda x: x.reshape(np.array([8, 3])), lambda x: x.reshape(8, 3)),
        (lambda x: x.reshape((x.shape[1], x.shape[0] * x.shape[2])), lambda x: x.reshape(3, 8)),
        (lambda x: x.reshape(x.shape), lambda x: x),
        (lambda x: x.reshape((1, 2, 3, 4, 1)), lambda x: x.reshape(1, 2, 3, 4, 1)),
        (lambda x: pb.ravel(x), np.ravel),
        (lambda x: x.flatten(), np.ravel),
        (lambda x: x.flatten(2), lambda x: x.reshape(2, 12)),
        (lambda x: pb.transpose(x), np.transpose),
        (lambda x: x.T, lambda x: x.T),
        (lambda x: x.mT, lambda x: np.swapaxes(x, -1, -2)),
        (lambda x: x.transpose(1, 2, 0), lambda x: x.transpose(1, 2, 0)),
        (lambda x: x.transpose((-1, 0, 1)), lambda x: x.transpose(-1, 0, 1)),
        (lambda x: x.swapaxes(0, -1), lambda x: x.swapaxes(0, -1)),
        (lambda x: pb.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
        (lambda x: pb.moveaxis(x, (0, 1), (-1, 0)), lambda x: np.moveaxis(x, (0, 1), (-1, 0))),
        (lambda x: pb.expand_dims(x, 1), lambda x: np.expand_dims(x, 1)),
        (lambda x: pb.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1))),
        (lambda x: pb.squeeze(pb.expand_dims(x, (0, 2)), (0, 2)), lambda x: x),
        (lambda x: pb.squeeze(pb.expand_dims(x, -1)), lambda x: x),
        (lambda x: pb.broadcast_to(x, (5, 2, 3, 4)), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
        (lambda x: pb.broadcast_to(x[:1], x.shape), lambda x: np.broadcast_to(x[:1], x.shape)),
        (lambda x: pb.concatenate([x, x[:1], 2 * x]), lambda x: np.concatenate([x, x[:1], 2 * x])),
        (lambda x: pb.concatenate([x, x], -1), lambda x: np.concatenate([x, x], -1)),
        (lambda x: pb.concatenate([x, x[0]], None), lambda x: np.concatenate([x, x[0]], None)),
        (lambda x: pb.stack([x, -x]), lambda x: np.stack([x, -x])),
        (lambda x: pb.stack([x, -x], -2), lambda x: np.stack([x, -x], -2)),
        (lambda x: pb.split(x, 2, 2), lambda x: np.split(x, 2, 2)),
        (lambda x: pb.split(x, [1, 1, 3], -1), lambda x: np.split(x, [1, 1, 3], -1)),
        (lambda x: pb.split(x, [-1, 9], 1), lambda x: np.split(x, [-1, 9], 1)),
        (lambda x: pb.shape(x), lambda x: np.array(x.shape)),
        (lambda x: x.size, lambda x: np.int64(x.size)),
        (lambda x: pb.size(x, -1), lambda x: np.int64(x.shape[-1])),
        (lambda x: x.shape[-2], lambda x: np.int64(x.shape[-2])),
        (lambda x: x.shape[1:], lambda x: np.array(x.shape[1:])),
    ],
)  # fmt: skip
def test_like_numpy(ours, numpys) -> None:
    as_numpy(ours, numpys, X)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), ()])
def test_empty_and_tiny_arrays(shape) -> None:
    x = np.zeros(shape, "float64")
    as_numpy(lambda x: pb.reshape(x, (1, *shape)), lambda x: x.reshape(1, *shape), x)
    as_numpy(lambda x: pb.expand_dims(x, 0), lambda x: np.expand_dims(x, 0), x)
    as_numpy(lambda x: pb.squeeze(pb.expand_dims(x, 0), 0), lambda x: x, x)
    as_numpy(lambda x: pb.transpose(x), np.transpose, x)
    as_numpy(lambda x: pb.concatenate([pb.expand_dims(x, 0)] * 2), lambda x: np.stack([x, x]), x)


def test_dtypes_meet_by_the_promotion_rule() -> None:
    x, i = np.ones(2, "float32"), np.ones(2, "int64")
    assert value(lambda a, b: pb.concatenate([a, b]), x, i).dtype == np.float32
    assert value(lambda a: pb.stack([a, a * 0 + 1.5]), x.astype("float64")).dtype == np.float64


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.reshape(x, (4, -1)), lambda x: x.transpose(2, 0, 1), lambda x: pb.expand_dims(x, (1, -1)),
        lambda x: pb.squeeze(x[:, :1], 1), lambda x: pb.broadcast_to(x[:, :1], (5, 2, 3, 4)),
        lambda x: pb.concatenate([x, x[:1] * x[0], x], 0), lambda x: pb.stack([x, x * x], 1),
        lambda x: pb.split(x * x, 2, 2)[1] * pb.split(x, 2, 2)[0], lambda x: pb.split(x, [1], 1)[1] ** 2,
        lambda x: x / x.shape[0] + x.size, lambda x: x.flatten(2) ** 2,
    ],
)  # fmt: skip
def test_gradients_to_second_order(f, rng) -> None:
    check_op(f, rng.normal(size=(2, 3, 4)))


def test_a_split_with_one_piece_used_sends_zeros_to_the_rest() -> None:
    x = pb.dvector("x")
    g = pb.grad(pb.split(x, 3)[1].sum(), x)
    np.testing.assert_array_equal(evaluate([g], {x: np.ones(6)})[0], [0, 0, 1, 1, 0, 0])


def test_nothing_is_differentiated_through_a_shape() -> None:
    x = pb.dmatrix("x")
    for cost in (x.shape[0] * 1.0, x.shape.sum() * 1.0, x.size * 1.0):
        with pytest.raises(pb.DisconnectedInputError):
            pb.grad(cost, x)
    g = pb.grad((x / x.shape[0]).sum(), x)
    assert g.dtype == "float64"
    np.testing.assert_array_equal(evaluate([g], {x: np.ones((4, 2))})[0], np.full((4, 2), 0.25))


def test_dividing_by_a_length_keeps_float32() -> None:
    x = pb.matrix("x")
    assert (x / x.shape[0]).dtype == "float32"


def test_known_lengths_are_constants_and_unknown_ones_infer_what_they_can() -> None:
    x = pb.tensor("float32", (None, 3))
    assert isinstance(x.shape[1], Constant) and not isinstance(x.shape[0], Constant)
    assert pb.concatenate([x, x], 1).type.shape == (None, 6)
    assert pb.reshape(x, (x.shape[0], 3, 1)).type.shape == (None, 3, 1)
    assert pb.stack([x, x]).type.shape == (2, None, 3)
    a, b = x.shape
    assert b.data == 3 and a.dtype == "int64"


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: x.reshape(5, 5), pb.ShapeError, r"24 elements of shape \(2, 3, 4\) into \(5, 5\)"),
        (lambda x: x.reshape(-1, -1), pb.ShapeError, "only one"),
        (lambda x: x.reshape(-1, 7), pb.ShapeError, "24 elements"),
        (lambda x: x.reshape(-2, 12), pb.ShapeError, "negative"),
        (lambda x: x.reshape(2.0, 12), pb.ArgumentTypeError, "must be an integer"),
        (lambda x: x.reshape((x, 12)), pb.ArgumentTypeError, "integer scalar"),
        (lambda x: x.transpose(0, 1), pb.ArgumentError, "each of the 3 axes"),
        (lambda x: x.transpose(0, 1, 1), pb.ArgumentError, "twice"),
        (lambda x: pb.expand_dims(x, 5), pb.ShapeError, "axis 5 is out of range for 4"),
        (lambda x: pb.squeeze(x, 0), pb.ShapeError, "length 2, expected 1"),
        (lambda x: pb.broadcast_to(x, (3, 4)), pb.ShapeError, "can't be broadcast"),
        (lambda x: pb.broadcast_to(x, (2, 3, 5)), pb.ShapeError, "can't be broadcast"),
        (lambda x: pb.concatenate([x, x[0]]), pb.ShapeError, "ranks differ"),
        (lambda x: pb.concatenate([x, x[:, :1]]), pb.ShapeError, "differ"),
        (lambda x: pb.concatenate([]), pb.ArgumentError, "empty list"),
        (lambda x: pb.concatenate(x), pb.ArgumentTypeError, "list of arrays"),
        (lambda x: pb.concatenate([x, x], 3), pb.ShapeError, "axis 3"),
        (lambda x: pb.split(x, 5, 1), pb.ShapeError, "equal pieces"),
        (lambda x: pb.split(x, 0), pb.ArgumentError, "at least 1"),
        (lambda x: x.flatten(4), pb.ArgumentError, "1 to 3"),
        (lambda x: pb.transpose(x, (0, 1, 2.5)), pb.ArgumentTypeError, "integer"),
    ],
)  # fmt: skip
def test_what_is_known_to_be_wrong_is_refused_at_build(f, error, words) -> None:
    with pytest.raises(error, match=words):
        f(pb.tensor("float32", X.shape, "x"))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.reshape(5, 5), lambda x: x.reshape(-1, 7), lambda x: pb.squeeze(x, 0),
        lambda x: pb.broadcast_to(x, (2, 3, 5)), lambda x: pb.concatenate([x, x[:, :1]]),
        lambda x: pb.split(x, 5, 1)[0],
    ],
)  # fmt: skip
def test_what_is_wrong_at_run_time_is_refused_then(f) -> None:
    with pytest.raises(pb.ShapeError):
        value(f, X)


def test_a_shape_of_unknown_rank_is_refused() -> None:
    with pytest.raises(pb.ArgumentTypeError, match="unknown number of lengths"):
        pb.reshape(pb.vector("x"), pb.lvector("n"))
