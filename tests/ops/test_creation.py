"""Inputs, shared values, constants and filled arrays."""

import numpy as np
import pytest

import pullback as pb
from pullback.config import config
from pullback.graph import Constant, evaluate
from pullback.testing import check_op
from tests.ops.helpers import value


def run(x: pb.Variable, given: dict | None = None) -> np.ndarray:
    return evaluate([x], given)[0]


@pytest.mark.parametrize(
    ("make", "dtype", "ndim"),
    [
        (pb.bscalar, "int8", 0), (pb.wvector, "int16", 1), (pb.imatrix, "int32", 2), (pb.ltensor3, "int64", 3),
        (pb.ftensor4, "float32", 4), (pb.dtensor5, "float64", 5), (pb.cvector, "complex64", 1),
        (pb.zmatrix, "complex128", 2),
    ],
)  # fmt: skip
def test_a_prefix_fixes_the_dtype(make, dtype, ndim) -> None:
    x = make("x")
    assert (x.dtype, x.ndim, x.name) == (dtype, ndim, "x")


def test_constructors_without_a_dtype_follow_floatX() -> None:
    assert pb.matrix().dtype == config.floatX == "float32"
    with config.override(floatX="float64"):
        assert pb.vector("v").dtype == "float64"
    assert pb.vector("v", dtype="int32").dtype == "int32"


def test_row_and_col_know_their_length_1() -> None:
    assert pb.row().type.shape == (1, None) and pb.dcol().type.shape == (None, 1)
    assert pb.tensor("float64", (2, None), "t").type.shape == (2, None)


def test_shared_keeps_an_arrays_dtype_and_types_python_floats_as_floatX() -> None:
    array = np.arange(3.0)
    w = pb.shared(array, name="w")
    assert (w.dtype, w.type.shape, w.name) == ("float64", (None,), "w")
    array[0] = 9
    assert w.get_value()[0] == 0, "a copy was taken"
    w.set_value(np.zeros(7))
    assert w.get_value().shape == (7,)
    assert pb.shared(1.0).dtype == pb.shared([[1.0, 2.0]]).dtype == config.floatX
    assert pb.shared(3).dtype == "int64" and pb.shared(2.0, dtype="float64").dtype == "float64"


def test_shared_and_constant_refuse_symbolic_values() -> None:
    with pytest.raises(pb.ArgumentTypeError, match="evaluate it"):
        pb.shared(pb.vector("x"))
    with pytest.raises(pb.ArgumentTypeError, match="symbolic"):
        pb.constant(pb.vector("x"))
    with pytest.raises(pb.DTypeError):
        pb.shared(["a", "b"])


def test_asarray_has_numpys_dtype_and_passes_variables_through() -> None:
    x = pb.vector("x")
    assert pb.asarray(5.0).dtype == "float64" and pb.asarray([1, 2]).dtype == "int64"
    assert pb.asarray(x) is x and pb.asarray(x, "float64").dtype == "float64"
    with pytest.raises(pb.ArgumentTypeError, match="pb.stack"):
        pb.asarray([x, x])


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda: pb.zeros((2, 3)), lambda: np.zeros((2, 3))),
        (lambda: pb.zeros(4, "int32"), lambda: np.zeros(4, "int32")),
        (lambda: pb.ones((0, 2)), lambda: np.ones((0, 2))),
        (lambda: pb.full((2,), 7), lambda: np.full((2,), 7)),
        (lambda: pb.full((2,), 7, "float32"), lambda: np.full((2,), 7, "float32")),
        (lambda: pb.eye(3, 4, 1), lambda: np.eye(3, 4, 1)),
        (lambda: pb.eye(3, k=-2, dtype="int8"), lambda: np.eye(3, k=-2, dtype="int8")),
        (lambda: pb.identity(2), lambda: np.identity(2)),
        (lambda: pb.arange(5), lambda: np.arange(5)),
        (lambda: pb.arange(1.0, 2.0, 0.25), lambda: np.arange(1.0, 2.0, 0.25)),
        (lambda: pb.arange(5, 0, -2, dtype="float32"), lambda: np.arange(5, 0, -2, dtype="float32")),
        (lambda: pb.linspace(0, 1, 5), lambda: np.linspace(0, 1, 5)),
        (lambda: pb.zeros_like(np.ones((2, 2), "float32")), lambda: np.zeros((2, 2), "float32")),
        (lambda: pb.full_like([1.5], 2), lambda: np.full_like([1.5], 2)),
    ],
)  # fmt: skip
def test_filled_arrays_are_numpys(ours, numpys) -> None:
    found, expected = run(ours()), numpys()
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


def test_sizes_may_be_symbolic() -> None:
    x, n = pb.matrix("x"), pb.lscalar("n")
    given = {x: np.ones((2, 3), "float32"), n: np.array(4)}
    assert run(pb.zeros((x.shape[1], 2)), given).shape == (3, 2)
    assert run(pb.ones(x.shape), given).shape == (2, 3)
    np.testing.assert_array_equal(run(pb.eye(n, k=1), given), np.eye(4, k=1))
    np.testing.assert_array_equal(run(pb.arange(n), given), np.arange(4))
    np.testing.assert_array_equal(run(pb.arange(1, n, 2), given), np.arange(1, 4, 2))
    assert pb.zeros((3, n)).type.shape == (3, None)


@pytest.mark.parametrize("shape", [(1.5, 2), ("a",), (True,)])
def test_lengths_that_are_no_integers_are_refused(shape) -> None:
    with pytest.raises(pb.ArgumentTypeError, match="length must be an integer"):
        pb.zeros(shape)


def test_negative_lengths_and_zero_steps_are_refused() -> None:
    with pytest.raises(pb.ShapeError):
        run(pb.zeros((-1,)))
    with pytest.raises(pb.ArgumentError, match="step"):
        pb.arange(0, 5, 0)
    step = pb.lscalar()
    with pytest.raises(pb.ArgumentError, match="step"):
        run(pb.arange(0, 5, step), {step: np.array(0)})


def test_gradients_of_arange_linspace_and_full(rng) -> None:
    check_op(lambda a, s: pb.arange(a, a + 2.1 * s, s), np.array(0.3), np.array(0.7))
    check_op(lambda a, b: pb.linspace(a, b, 5), rng.normal(size=(2, 3)), rng.normal(size=3))
    check_op(lambda v: pb.full((2, 3), v), np.array(0.3))


def test_linspace_hits_both_ends_exactly(rng) -> None:
    a, b = rng.normal(size=4).astype("float32"), rng.normal(size=4).astype("float32")
    points = value(lambda a, b: pb.linspace(a, b, 7), a, b)
    assert points.dtype == np.float32
    np.testing.assert_array_equal(points[[0, -1]], [a, b])


def test_static_sizes_become_static_shapes() -> None:
    assert pb.zeros((2, 3)).type.shape == (2, 3)
    assert isinstance(pb.eye(3), Constant) and isinstance(pb.arange(4), Constant)
