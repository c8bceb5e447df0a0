"""Taking, putting, looking up: beside NumPy, with the errors that a wrong index deserves."""

import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate


@pytest.fixture
def X(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(3, 4, 5))


x = pb.dtensor3("x")


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("indices", [2, [0, 2, 0], np.array([[0, -1], [1, 1]])], ids=str)
def test_take_is_numpys(axis, indices, X: np.ndarray) -> None:
    y = pb.take(x, indices, axis)
    expected = np.take(X, indices, axis)
    upstream = np.arange(expected.size).reshape(expected.shape) - 2.0
    value, g = evaluate([y, pb.grad(pb.sum(y * upstream), x)], {x: X})
    np.testing.assert_array_equal(value, expected)
    places = np.take(np.arange(X.size).reshape(X.shape), indices, axis)
    np.testing.assert_allclose(g.ravel(), np.bincount(places.ravel(), upstream.ravel(), X.size))


def test_take_modes(X: np.ndarray) -> None:
    indices = np.array([-9, -1, 0, 3, 8])
    for mode in ("wrap", "clip"):
        np.testing.assert_array_equal(pb.take(x, indices, 1, mode).eval({x: X}), np.take(X, indices, 1, mode=mode))
    with pytest.raises(pb.IndexRangeError, match="index -9 is out of range for axis 1 of length 4"):
        pb.take(x, indices, 1).eval({x: X})
    with pytest.raises(pb.ArgumentError, match="mode='near'"):
        pb.take(x, indices, 1, "near")
    with pytest.raises(pb.DTypeError, match="take: indices must be integers"):
        pb.take(x, [0.5], 1)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_axis_is_numpys(axis: int, X: np.ndarray, rng: np.random.Generator) -> None:
    shape = list(X.shape)
    shape[axis] = 6
    rows = rng.integers(-X.shape[axis], X.shape[axis], shape)
    V = rng.normal(size=shape)
    i, v = pb.ltensor3(), pb.dtensor3()
    put = X.copy()
    np.put_along_axis(put, rows, V, axis)
    added = X.copy()
    grid = list(np.ogrid[tuple(slice(n) for n in shape)])
    grid[axis] = rows
    np.add.at(added, tuple(grid), V)
    outputs = [pb.take_along_axis(x, i, axis), pb.put_along_axis(x, i, v, axis), pb.put_along_axis(x, i, v, axis, True)]
    for value, expected in zip(
        evaluate(outputs, {x: X, i: rows, v: V}), (np.take_along_axis(X, rows, axis), put, added)
    ):
        np.testing.assert_allclose(value, expected)


def test_along_axis_broadcasts_and_refuses_other_ranks(X: np.ndarray) -> None:
    rows = np.array([[[0, 3]]])
    np.testing.assert_array_equal(pb.take_along_axis(x, rows).eval({x: X}), np.take_along_axis(X, rows, -1))
    np.testing.assert_array_equal(pb.take_along_axis(x, rows[0, 0], None).eval({x: X}), X.ravel()[[0, 3]])
    with pytest.raises(pb.ShapeError, match="indices must have the rank of x"):
        pb.take_along_axis(x, rows[0])
    with pytest.raises(pb.IndexRangeError, match="index 7 is out of range for axis 2 of length 5"):
        pb.take_along_axis(x, rows + 4).eval({x: X})


def test_gather_and_scatter_slices(X: np.ndarray, rng: np.random.Generator) -> None:
    i, V = [1, 1, 0], rng.normal(size=(3, 3, 5))
    np.testing.assert_array_equal(pb.gather(x, i, 1).eval({x: X}), X[:, i])
    last, added = X.copy(), X.copy()
    last[:, 1], last[:, 0] = V[:, 1], V[:, 2]
    np.add.at(added, (slice(None), i), V)
    np.testing.assert_allclose(pb.scatter(x, i, V, 1).eval({x: X}), last)
    np.testing.assert_allclose(pb.scatter(x, i, V, 1, accumulate=True).eval({x: X}), added)


def test_nonzero_is_numpys(X: np.ndarray) -> None:
    for value, expected in zip(evaluate(pb.nonzero(x > 0), {x: X}), np.nonzero(X > 0)):
        np.testing.assert_array_equal(value, expected)
    places = pb.nonzero(x > 0)
    g = pb.grad(pb.sum(x[places] ** 2), x).eval({x: X})
    np.testing.assert_allclose(g, np.where(X > 0, 2 * X, 0))
    with pytest.raises(pb.ShapeError, match="nonzero: a scalar"):
        pb.nonzero(pb.dscalar())


# --- tables -----------------------------------------------------------------------------------------------------------


def test_embedding_and_its_padding_row(rng: np.random.Generator) -> None:
    W, rows = rng.normal(size=(5, 3)), np.array([[0, 4], [2, 0], [0, 1]])
    U = rng.normal(size=(3, 2, 3))
    w, i = pb.dmatrix(), pb.lmatrix()
    for padding in (None, 0, -5):
        y = pb.embedding(w, i, padding_idx=padding)
        value, g = evaluate([y, pb.grad(pb.sum(y * U), w)], {w: W, i: rows})
        np.testing.assert_array_equal(value, W[rows])
        expected = np.zeros_like(W)
        np.add.at(expected, rows, U)
        if padding is not None:
            expected[0] = 0
        np.testing.assert_allclose(g, expected)


def test_embedding_scaled_by_frequency(rng: np.random.Generator) -> None:
    W, rows = rng.normal(size=(4, 3)).astype("float32"), np.array([1, 1, 3, 1])
    w = pb.fmatrix()
    y = pb.embedding(w, rows, scale_grad_by_freq=True)
    g = pb.grad(pb.sum(y), w)
    assert g.dtype == "float32"
    np.testing.assert_allclose(g.eval({w: W}), np.array([[0], [1], [0], [1]]) * np.ones((4, 3)), rtol=1e-6)


def test_embedding_in_float16_counts_every_row() -> None:
    w, i = pb.tensor("float16", (None, None)), pb.lvector()
    g = pb.grad(pb.sum(pb.embedding(w, i) * pb.asarray(np.ones((10000, 1), "float16"))), w)
    assert g.eval({w: np.ones((1, 1), "float16"), i: np.zeros(10000, int)}) == 10000


def test_tables_refuse_numbers_that_are_no_rows() -> None:
    w, i = pb.dmatrix(), pb.lvector()
    f = pb.function([w, i], pb.embedding(w, i))
    for wrong in (3, -1):
        with pytest.raises(pb.IndexRangeError, match=f"embedding: index {wrong} is no row of a table of 3 rows"):
            f(np.ones((3, 2)), [0, wrong])
    with pytest.raises(pb.DTypeError, match="embedding: indices must be integers"):
        pb.embedding(w, [0.0])
    with pytest.raises(pb.IndexRangeError, match="padding_idx: index 5 is out of range"):
        pb.embedding(pb.tensor("float32", (5, 2)), i, padding_idx=5)
    with pytest.raises(pb.IndexRangeError, match="one_hot: label 4 is no class; there are 3"):
        pb.one_hot(i, 3).eval({i: [0, 4]})
    with pytest.raises(pb.ArgumentError, match="num_classes=0"):
        pb.one_hot(i, 0)


def test_one_hot() -> None:
    assert pb.one_hot([[2, 0]], 3).eval().tolist() == [[[0, 0, 1], [1, 0, 0]]]
    assert pb.one_hot([1], 2).dtype == "float32" and pb.one_hot([1], 2, "int64").dtype == "int64"


# --- diagonals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-4, -2, 0, 1, 3, 7])
def test_diagonals_and_triangles_are_numpys(offset: int, X: np.ndarray) -> None:
    for axes in ((0, 1), (2, 0), (-1, 1)):
        np.testing.assert_array_equal(pb.diagonal(x, offset, *axes).eval({x: X}), np.diagonal(X, offset, *axes))
        np.testing.assert_allclose(pb.trace(x, offset, *axes).eval({x: X}), np.trace(X, offset, *axes))
    np.testing.assert_array_equal(pb.tril(x, offset).eval({x: X}), np.tril(X, offset))
    np.testing.assert_array_equal(pb.triu(x, offset).eval({x: X}), np.triu(X, offset))
    m, v = pb.dmatrix(), pb.dvector()
    np.testing.assert_array_equal(pb.diag(m, offset).eval({m: X[0]}), np.diag(X[0], offset))
    np.testing.assert_array_equal(pb.diag(v, offset).eval({v: X[0, 0]}), np.diag(X[0, 0], offset))
    g = pb.grad(pb.sum(pb.diagonal(x, offset, 2, 1) ** 2), x).eval({x: X})
    kept = np.eye(5, 4, offset).T.astype(bool)
    np.testing.assert_allclose(g, np.where(kept, 2 * X, 0))


def test_diagonal_errors() -> None:
    with pytest.raises(pb.ShapeError, match="diagonal: expected at least 2 dimensions"):
        pb.diagonal(pb.dvector())
    with pytest.raises(pb.ArgumentError, match="both name axis 1"):
        pb.diagonal(x, 0, 1, -2)
    with pytest.raises(pb.ArgumentTypeError, match="must be an integer, got 0.5"):
        pb.diagonal(x, 0.5)
    with pytest.raises(pb.ShapeError, match="diag: expected a vector or a matrix"):
        pb.diag(x)
    with pytest.raises(pb.ShapeError, match="tril: expected at least 2"):
        pb.tril(pb.dvector())
