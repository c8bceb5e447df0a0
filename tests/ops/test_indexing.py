"""x[...] against NumPy for every kind of index, and what setting and adding does to values and gradients."""

import copy
import pickle

import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate

I0, I1 = np.array([2, 0, -1, 2]), np.array([[1], [0]])
MASK3 = np.array([True, False, True])
S = slice

KEYS = {
    "integer": 1, "negative": -1, "tuple of integers": (0, 1, -1), "slice": S(1, 3), "steps": S(None, None, 2),
    "backwards": S(None, None, -1), "backwards from": (S(2, 0, -1), S(None)), "beyond": S(1, 100),
    "empty slice": S(3, 1),
    "ellipsis": (..., 1), "ellipsis in the middle": (1, ..., S(0, 2)), "ellipsis alone": ..., "nothing": (),
    "new axis": (None, S(None), None, 1), "new axis last": (..., None), "numpy integer": np.int32(2),
    "array": I0, "list": [0, 2], "empty list": [], "2-d array": I1, "array on axis 1": (S(None), I1),
    "arrays together": (I0, np.array([0, 1, 1, 3])), "arrays broadcast": (I1, np.array([0, 1, 2])),
    "arrays apart": (I1, S(None), np.array([0, 1, 2])), "array and integer": (I0, 1),
    "array and integer apart": (0, S(None), I0), "arrays last": (S(1, None), np.array([0, 1]), np.array([0, 3])),
    "arrays parted by a new axis": (I1, None, np.array([0, 1, 2])), "new axis before arrays": (None, I0, I0),
    "arrays parted by an empty ellipsis": (None, I0, ..., I0, S(None)), "unsigned": np.array([1, 2], np.uint8),
    "mask": MASK3, "mask list": [True, False, False], "2-d mask": np.arange(12).reshape(3, 4) % 3 == 0,
    "mask and slice": (S(None), np.array([True, False, True, True]), S(0, 2)),
    "mask and array": (MASK3, np.array([0, 1])),
    "mask apart": (MASK3, S(None), np.array([1, 1])), "true": True, "false": False,
}  # fmt: skip


def x_and_value(dtype: str = "float64", shape: tuple[int, ...] = (3, 4, 5)):
    rng = np.random.default_rng(7)
    return pb.tensor(dtype, (None,) * len(shape)), rng.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("known", [False, True], ids=["unknown lengths", "known lengths"])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_indexing_is_numpys(key, known: bool) -> None:
    X = np.random.default_rng(7).normal(size=(3, 4, 5))
    x = pb.tensor("float64", X.shape if known else (None,) * 3)
    part = x[key]
    value = part.eval({x: X})
    np.testing.assert_array_equal(value, X[key])
    assert part.ndim == value.ndim
    assert all(n in (None, m) for n, m in zip(part.type.shape, value.shape))
    inferred = part.owner.op.infer_shape(part.owner, [X.shape, *(v.data.shape for v in part.owner.inputs[1:])],
                                         [None, *(v.data for v in part.owner.inputs[1:])])  # fmt: skip
    assert inferred is None or inferred[0] == value.shape
    if known and not any(v.dtype == "bool" for v in part.owner.inputs[1:]):
        assert part.type.shape == value.shape


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_gradient_adds_at_every_place_taken(key) -> None:
    x, X = x_and_value()
    upstream = np.random.default_rng(8).normal(size=X[key].shape)
    g = pb.grad(pb.sum(x[key] * upstream), x).eval({x: X})
    expected = np.zeros_like(X)
    np.add.at(expected, key, upstream)
    np.testing.assert_allclose(g, expected, rtol=1e-12)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_set_and_inc_and_their_gradients(key) -> None:
    x, X = x_and_value()
    rng = np.random.default_rng(9)
    Y = rng.normal(size=X[key].shape)
    y = pb.tensor("float64", (None,) * Y.ndim)
    upstream = rng.normal(size=X.shape)
    places = np.arange(X.size).reshape(X.shape)[key]
    # one write after the other, as plain Python
    written, added, writer = X.copy().reshape(-1), X.copy().reshape(-1), {}
    for n, (place, v) in enumerate(zip(places.reshape(-1), Y.reshape(-1))):
        written[place] = v
        added[place] += v
        writer[place] = n
    gy_set = np.zeros(Y.size)
    gx_set = upstream.copy().reshape(-1)
    for place, n in writer.items():
        gy_set[n] = upstream.reshape(-1)[place]
        gx_set[place] = 0
    for op, value, gx, gy in (
        (pb.set_subtensor, written, gx_set, gy_set),
        (pb.inc_subtensor, added, upstream.reshape(-1), upstream.reshape(-1)[places].reshape(-1)),
    ):
        out = op(x[key], y)
        found = evaluate([out, *pb.grad(pb.sum(out * upstream), [x, y])], {x: X, y: Y})
        for array, expected in zip(found, (value, gx, gy)):
            np.testing.assert_allclose(array.reshape(-1), expected, rtol=1e-12)


def test_symbolic_bounds_and_integers() -> None:
    x, X = x_and_value()
    i, j, k = (pb.lscalar(n) for n in "ijk")
    f = pb.function([x, i, j, k], [x[i], x[i:], x[:j], x[j:i:k], x[:, j, None], x[i, I0], pb.grad(x[i, j, i], x)])
    for values in [(1, 2, -1), (-1, 0, -2), (0, -1, 2)]:
        a, b, c = values
        found = f(X, *values)
        for value, expected in zip(found, (X[a], X[a:], X[:b], X[b:a:c], X[:, b, None], X[a, I0])):
            np.testing.assert_array_equal(value, expected)
        assert found[-1].sum() == found[-1][a, b, a] == 1


def test_symbolic_arrays_and_masks() -> None:
    x, X = x_and_value()
    i, m = pb.lmatrix("i"), pb.tensor("bool", (None,), "m")
    f = pb.function([x, i, m], [x[i], x[:, i, 1], x[m], x[m, 1:], pb.grad(pb.sum(x[m] ** 2), x)])
    found = f(X, I1, MASK3)
    expected = X[I1], X[:, I1, 1], X[MASK3], X[MASK3, 1:], np.where(MASK3[:, None, None], 2 * X, 0)
    for value, e in zip(found, expected):
        np.testing.assert_allclose(value, e)
    assert f(X, I1, ~MASK3)[2].shape == (1, 4, 5)


def test_broadcast_values() -> None:
    x, X = x_and_value()
    y = pb.dvector("y")
    out = pb.inc_subtensor(x[I0, 1:], y)
    cost = pb.sum(out**2)
    X2 = X.copy()
    Y = np.arange(5.0)
    np.add.at(X2, (I0, slice(1, None)), Y)
    value, gy = evaluate([out, pb.grad(cost, y)], {x: X, y: Y})
    np.testing.assert_allclose(value, X2)
    np.testing.assert_allclose(gy, 2 * X2[I0, 1:].sum((0, 1)))
    assert pb.set_subtensor(x[0], 1.5).eval({x: X})[0].tolist() == np.full((4, 5), 1.5).tolist()


def test_overwritten_writes_are_dead_even_if_they_are_infinite() -> None:
    x = pb.dvector("x")
    y = pb.set_subtensor(pb.zeros((1,))[0:1], pb.sqrt(x))
    y = pb.set_subtensor(y[0:1], x - 1)
    assert pb.grad(pb.sum(y), x).eval({x: [0.0]}).tolist() == [1.0]


def test_inputs_are_left_alone() -> None:
    x, X = x_and_value()
    before = X.copy()
    pb.function([x], [pb.inc_subtensor(x[:], 1.0), pb.set_subtensor(x[0], 0.0)])(X)
    np.testing.assert_array_equal(X, before)


def test_a_non_contiguous_array_and_index() -> None:
    x, X = x_and_value()
    i = pb.lvector("i")
    out = pb.set_subtensor(x[i], pb.arange(4.0)[:, None, None])
    every_other = np.array([0, 9, 1, 9, 0, 9, 2, 9])[::2]
    expected = X.transpose(2, 1, 0).copy()
    expected[0], expected[1], expected[2] = 2, 1, 3
    np.testing.assert_array_equal(evaluate([out], {x: X.transpose(2, 1, 0), i: every_other})[0], expected)


def test_float16_adds_in_float32() -> None:
    x, i = pb.tensor("float16", (None,)), pb.lvector()
    out = pb.inc_subtensor(x[i], pb.asarray(np.ones(10000, "float16")))
    value = out.eval({x: np.zeros(1, "float16"), i: np.zeros(10000, int)})
    assert value.tolist() == [10000] and value.dtype == "float16"
    g = pb.grad(pb.sum(x[i]), x)
    assert g.dtype == "float16" and g.eval({x: np.zeros(1, "float16"), i: np.zeros(10000, int)}).tolist() == [10000]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_keep_the_dtype(dtype: str) -> None:
    x, X = x_and_value(dtype)
    assert pb.grad(pb.sum(x[I0] * X[I0]), x).dtype == dtype
    assert pb.set_subtensor(x[0], np.ones((4, 5))).dtype == dtype


@pytest.mark.parametrize(
    "key, message",
    [
        (5, "index 5 is out of range for axis 0 of length 3"),
        ((0, -5), "index -5 is out of range for axis 1 of length 4"),
        ((slice(None), [0, 9]), "index 9 is out of range for axis 1 of length 4"),
        ((None, ..., np.array([[0, -6]])), "index -6 is out of range for axis 2 of length 5"),
        (np.array([True, False]), r"a mask of shape \(2,\), from axis 0 on, doesn't fit shape \(3, 4, 5\)"),
    ],
)
def test_range_errors_name_the_index(key, message: str) -> None:
    x, X = x_and_value()
    for part in (x[key], pb.set_subtensor(x[key], 0.0), pb.inc_subtensor(x[key], 0.0)):
        with pytest.raises(pb.IndexRangeError, match=message):
            part.eval({x: X})


def test_errors_while_the_graph_is_built() -> None:
    x = pb.tensor("float64", (3, None))
    n = pb.lvector("n")
    with pytest.raises(pb.IndexRangeError, match="index 3 is out of range for axis 0 of length 3"):
        x[3]
    with pytest.raises(pb.IndexRangeError, match="3 indices for .*, which has 2 dimensions"):
        x[0, 0, 0]
    with pytest.raises(pb.ArgumentError, match="only one Ellipsis"):
        x[..., ...]
    with pytest.raises(pb.DTypeError, match="can't index; expected integers"):
        x[pb.dvector("v")]
    with pytest.raises(pb.DTypeError, match="can't index"):
        x[1.0]
    with pytest.raises(pb.ArgumentTypeError, match="a slice bound must be an integer scalar"):
        x[:n]
    with pytest.raises(pb.ArgumentError, match="step 0"):
        x[::0]
    with pytest.raises(pb.ShapeError, match="don't broadcast together"):
        x[[0, 1], [0, 1, 2]]
    with pytest.raises(pb.ArgumentTypeError, match=r"must be an indexed variable such as x\[2:5\]"):
        pb.set_subtensor(x, 1.0)
    with pytest.raises(pb.ShapeError, match=r"a value of shape \(2,\) can't go into a part of shape \(3,\)"):
        pb.set_subtensor(x[:, 0], np.ones(2))
    with pytest.raises(pb.DTypeError, match="float32 values can't go into"):
        pb.inc_subtensor(n[0], 0.5)


def test_errors_at_run_time() -> None:
    x, X = x_and_value()
    k, i, j = pb.lscalar(), pb.lvector(), pb.lvector()
    with pytest.raises(pb.ArgumentError, match="step 0"):
        pb.function([x, k], x[::k])(X, 0)
    with pytest.raises(pb.ShapeError, match=r"arrays of shapes \(2,\) and \(3,\) don't broadcast"):
        pb.function([x, i, j], x[i, j])(X, [0, 1], [0, 1, 2])
    with pytest.raises(pb.ShapeError, match="can't go into a part of shape"):
        pb.function([x, i], pb.set_subtensor(x[0, 0], i * 1.0))(X, [0, 1])


def test_an_index_is_disconnected() -> None:
    x, i = pb.dvector("x"), pb.dscalar("i")
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(x[pb.cast(i, "int64")], i)


def test_the_order_of_writes_is_c_order_for_broadcast_indices() -> None:
    X = np.zeros((2, 3))
    i, j = np.array([[0], [1], [0]]), np.array([[0, 1, 0]])
    Y = np.arange(9.0).reshape(3, 3)
    expected = np.zeros((2, 3))
    for a in range(3):
        for b in range(3):
            expected[i[a, 0], j[0, b]] = Y[a, b]
    for key, y in (((i, j), Y), ((i.T.copy().T, np.asfortranarray(j)), np.asfortranarray(Y))):
        x = pb.dmatrix()
        np.testing.assert_array_equal(pb.set_subtensor(x[key], y).eval({x: X}), expected)


def test_second_order_through_gather_and_scatter(rng: np.random.Generator) -> None:
    x, y, X, Y = pb.dvector("x"), pb.dvector("y"), rng.normal(size=4), rng.normal(size=3)
    out = pb.set_subtensor(pb.inc_subtensor(x[I0], y[0])[[1, 1, 3]], y) ** 3
    u = pb.grad(pb.sum(out * x), x)
    v = rng.normal(size=4)
    second = pb.function([x, y], pb.grad(pb.sum(u * v), [x, y]))
    first = pb.function([x, y], u)
    h = 1e-5
    for found, step in zip(second(X, Y), (lambda d: (d, 0), lambda d: (0, d))):
        for k in range(len(found)):
            d = h * np.eye(len(found))[k]
            (a, b) = step(d)
            slope = (first(X + a, Y + b) - first(X - a, Y - b)) @ v / (2 * h)
            np.testing.assert_allclose(found[k], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_ops_survive_pickling(key) -> None:
    x, X = x_and_value()
    node = x[key].owner
    slots = [v.data for v in node.inputs[1:]]
    for op in (pickle.loads(pickle.dumps(node.op)), copy.deepcopy(node.op)):
        assert op == node.op and hash(op) == hash(node.op) and str(op) == str(node.op)
        np.testing.assert_array_equal(op.perform(X, *slots), X[key])


def test_patterns_read_like_indices() -> None:
    x, i = pb.dtensor3(), pb.lscalar()
    assert str(x[0, 1:i, ::2].owner.op) == "Subtensor[0, 1:?, ::2]"
    assert str(x[None, i, I0].owner.op) == "AdvancedSubtensor[None, ?, array, :]"
    assert str(pb.inc_subtensor(x[MASK3], 1.0).owner.op) == "IncSubtensor[mask, :, :]"
