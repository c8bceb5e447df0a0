"""Reductions: values beside NumPy's, dtypes, what happens at zeros, ties, infinities and NaN, and to second order."""

from math import inf, nan

import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate

AXES = [None, 0, -1, (0, 2), (1, -1), (), (2, 0, 1)]
NUMPY = {
    "sum": np.sum, "mean": np.mean, "var": np.var, "std": np.std, "prod": np.prod, "max": np.max, "min": np.min,
    "amax": np.amax, "amin": np.amin, "ptp": np.ptp, "any": np.any, "all": np.all, "count_nonzero": np.count_nonzero,
    "median": np.median, "nansum": np.nansum, "nanmean": np.nanmean, "nanmax": np.nanmax, "nanmin": np.nanmin,
}  # fmt: skip


def gradient(f, *arrays: np.ndarray, upstream=1.0) -> np.ndarray:
    """`upstream` pulled back through f to its first argument."""
    inputs = [pb.tensor(a.dtype, (None,) * a.ndim) for a in arrays]
    return evaluate([pb.grad(pb.sum(f(*inputs) * upstream), inputs[0])], dict(zip(inputs, arrays)))[0]


def hessian(f, x: np.ndarray) -> np.ndarray:
    """Second derivatives of a scalar f, row by row."""
    v = pb.tensor(x.dtype, (None,) * x.ndim)
    g = pb.grad(f(v), v)
    rows = []
    for k in np.ndindex(*x.shape):
        row = pb.grad(g[k], v, disconnected_inputs="ignore")
        rows.append(row.eval({v: x}))
    return np.stack(rows).reshape(x.size, x.size)


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
def test_values_and_dtypes_are_numpys(name: str, dtype: str, rng: np.random.Generator) -> None:
    X = (rng.normal(size=(3, 4, 5)) * 3).astype(dtype).swapaxes(0, 2)
    if dtype == "bool" and name == "ptp":
        X = X.astype("int8")  # NumPy can't subtract booleans either
    x = pb.tensor(X.dtype, (None,) * 3)
    options = [dict(axis=axis, keepdims=keepdims) for axis in AXES for keepdims in (False, True)]
    outputs = [getattr(pb, name)(x, **given) for given in options]
    tolerance = dict(rtol=1e-12) if dtype == "float64" else dict(rtol=1e-5, atol=1e-5)
    for given, y, value in zip(options, outputs, evaluate(outputs, {x: X})):
        with np.errstate(all="ignore"):
            expected = NUMPY[name](X, **given)
        np.testing.assert_allclose(value, expected, **tolerance, err_msg=str(given))
        assert y.type.accepts(pb.TensorType(value.dtype.name, value.shape))
        if name in ("any", "all"):
            assert value.dtype == "bool"
        elif dtype.startswith("float") and name != "count_nonzero":
            assert value.dtype == dtype
        elif name in ("sum", "prod", "count_nonzero"):
            assert value.dtype == "int64"


def test_integers_are_summed_exactly_and_averaged_in_floatx() -> None:
    X = np.full(3, 2**62 // 3, "int64")
    x = pb.lvector()
    assert pb.sum(x).eval({x: X}) == X.sum()
    assert pb.mean(x).dtype == "float32" and pb.sum(x, dtype="float64").dtype == "float64"
    b = pb.tensor("uint8", (None,))
    assert pb.sum(b).eval({b: np.full(300, 255, "uint8")}) == 300 * 255


def test_float16_is_accumulated_in_float32() -> None:
    x = pb.tensor("float16", (None,))
    ones = np.ones(70000, "float16")
    outputs = [pb.mean(x), pb.var(x), pb.std(x), pb.prod(x), pb.linalg.norm(x), pb.cumsum(x)[2999]]
    for value, expected in zip(evaluate(outputs, {x: ones}), [1, 0, 0, 1, 264.6, 3000]):
        assert value.dtype == "float16"
        np.testing.assert_allclose(value, expected, rtol=6e-3)
    g = pb.grad(pb.max(x), x).eval({x: ones})
    assert g.dtype == "float16"
    np.testing.assert_allclose(g, 1 / 70000, rtol=5e-3)


def test_where_leaves_entries_out(rng: np.random.Generator) -> None:
    X, W = rng.normal(size=(4, 5)), rng.random((4, 5)) < 0.5
    W[0], W[1] = False, True
    dirty = np.where(W, X, nan)
    for name, nothing in (("sum", 0.0), ("mean", nan), ("prod", 1.0), ("logsumexp", -inf)):
        f = getattr(pb, name)
        x = pb.dmatrix()
        value, g = evaluate([f(x, axis=1, where=W), pb.grad(pb.sum(f(x, axis=1, where=W)[1:]), x)], {x: dirty})
        whole = [getattr(pb, name)(row[w]).eval() if w.any() else nothing for row, w in zip(X, W)]
        np.testing.assert_allclose(value, whole, err_msg=name)
        assert np.isfinite(g).all() and not g[~W].any(), name
    m = pb.dmatrix()
    np.testing.assert_allclose(pb.mean(m, where=W[:1].T[:4]).eval({m: X}), X[W[0, :4]].mean() if W[0].any() else nan)


# --- kinks ------------------------------------------------------------------------------------------------------------


def test_max_shares_ties_and_nan_takes_all() -> None:
    X = np.array([[0.5, 0.5, 0.25], [1, 2, 2], [nan, 1, nan], [-inf, -inf, -inf]])
    third = 1 / 3
    np.testing.assert_allclose(gradient(lambda x: pb.max(x, 1), X, upstream=[2.0, -4.0, 1.0, 3.0]),
                               [[1, 1, 0], [0, -2, -2], [0.5, 0, 0.5], [1, 1, 1]])  # fmt: skip
    np.testing.assert_allclose(gradient(lambda x: pb.min(x), -X[:2], upstream=6.0), [[0, 0, 0], [0, 3, 3]])
    np.testing.assert_allclose(gradient(lambda x: pb.ptp(x, 0), np.ones((3, 1))), np.zeros((3, 1)), atol=third * 1e-9)


def test_an_index_takes_the_whole_gradient_of_a_tie() -> None:
    X = np.array([[[1.0, 3], [3, 2]], [[nan, 0], [nan, 9]]])
    x = pb.dtensor3()
    value, place = pb.max_and_argmax(x, axis=(1, 2))
    g = pb.grad(pb.sum(value * np.array([-2.0, 5.0])), x)
    value, place, g = evaluate([value, place, g], {x: X})
    assert value[0] == 3 and np.isnan(value[1]) and place.tolist() == [1, 0] and place.dtype == "int64"
    assert g.tolist() == [[[0, -2], [0, 0]], [[5, 0], [0, 0]]]
    value, place = pb.min_and_argmin(x, axis=-1, keepdims=True)
    value, place = evaluate([value, place], {x: X})
    assert value.shape == place.shape == (2, 2, 1) and place.ravel().tolist() == [0, 1, 0, 0]


def test_integers_have_extremes_too() -> None:
    X = np.array([[3, 7], [7, -1]])
    x = pb.lmatrix()
    value, place = pb.max_and_argmax(x)
    assert evaluate([value, place, pb.max(x, 0), pb.argmin(x)], {x: X})[:2] == [7, 1]
    assert pb.argmin(x).eval({x: X}) == 3
    scores = pb.dmatrix()
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(pb.argmax(scores) * 1.0, scores)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_std_and_norm_have_zero_gradient_at_zero(dtype: str) -> None:
    X = np.full((2, 3), 0.1, dtype)
    assert not gradient(lambda x: pb.std(x, 1), X).any()
    assert not gradient(pb.linalg.norm, X * 0).any()
    assert not gradient(lambda x: pb.exp(-(pb.std(x) ** 2)), X).any()
    assert pb.std(pb.asarray(X)).eval() == 0  # not 1e-17, though the mean of three 0.1 isn't 0.1
    assert np.isfinite(hessian(lambda x: pb.std(x) * 2, X)).all()


def test_variance_is_exact_far_from_zero() -> None:
    x = pb.fvector()
    X = np.array([1, 2, 3, 4], "float32") + np.float32(1e6)
    assert pb.var(x, ddof=1).eval({x: X}) == np.float32(5 / 3)
    assert pb.var(x, ddof=4).eval({x: X}) == inf and pb.var(x[:0]).dtype == "float32"


def test_norm_neither_overflows_nor_underflows() -> None:
    for dtype, big, small in (("float32", 1e30, 1e-30), ("float64", 1e300, 1e-300)):
        for scale in (big, small):
            X = np.array([3, -4], dtype) * np.dtype(dtype).type(scale)
            x = pb.tensor(dtype, (None,))
            value, g = evaluate([pb.linalg.norm(x), pb.grad(pb.linalg.norm(x), x)], {x: X})
            np.testing.assert_allclose(value, 5 * scale, rtol=1e-6)
            np.testing.assert_allclose(g, [0.6, -0.8], rtol=1e-6)
    assert pb.linalg.norm(pb.asarray([inf, 1.0])).eval() == inf
    assert np.isnan(pb.linalg.norm(pb.asarray([nan, 1.0])).eval())


def test_logsumexp_at_infinities() -> None:
    X = np.array([[-inf, -inf], [0, -inf], [inf, 5], [1000, 1000], [nan, 0]])
    x = pb.dmatrix()
    y = pb.logsumexp(x, axis=1)
    value, g = evaluate([y, pb.grad(pb.sum(y[:4] * np.array([1.0, 2, 3, 4])), x)], {x: X})
    np.testing.assert_allclose(value, [-inf, 0, inf, 1000 + np.log(2), nan])
    np.testing.assert_allclose(g, [[0, 0], [2, 0], [3, 0], [2, 2], [0, 0]])
    np.testing.assert_allclose(hessian(pb.logsumexp, np.array([0.0, 0.0])), [[0.25, -0.25], [-0.25, 0.25]])
    assert pb.logsumexp(x[:0], axis=0).eval({x: X}).tolist() == [-inf, -inf]


@pytest.mark.parametrize("zeros", [0, 1, 2, 3], ids="{} zeros".format)
def test_products_are_right_to_second_order_with_any_number_of_zeros(zeros: int) -> None:
    X = np.array([0.5, -2.0, 3.0, 1.5])
    X[:zeros] = 0
    rest = lambda *out: np.prod([v for i, v in enumerate(X) if i not in out])  # noqa: E731
    n = len(X)
    np.testing.assert_allclose(gradient(pb.prod, X), [rest(i) for i in range(n)])
    second = [[0 if i == j else rest(i, j) for j in range(n)] for i in range(n)]
    np.testing.assert_allclose(hessian(pb.prod, X), second)
    np.testing.assert_allclose(hessian(lambda x: pb.prod(pb.reshape(x, (2, 2))), X), second)
    np.testing.assert_allclose(hessian(lambda x: pb.cumprod(x)[-1], X), second)
    np.testing.assert_allclose(hessian(lambda x: pb.cumprod(x[::-1])[-1], X), second)


def test_strong_zero_in_reductions() -> None:
    """A zero cotangent leaves zero, whatever the entries are."""
    X = np.array([[nan, inf, 0.0], [1.0, 2.0, 3.0]])
    for f in (pb.sum, pb.mean, pb.var, pb.std, pb.prod, pb.max, pb.logsumexp, pb.linalg.norm):
        g = gradient(lambda x, f=f: f(x, axis=1)[1:], X)
        assert not g[0].any() and np.isfinite(g).all(), f
    for f in (pb.cumprod, pb.cumsum, pb.cummax):
        with np.errstate(all="ignore"):
            g = gradient(lambda x, f=f: f(x, axis=1)[1:], X)
        assert not g[0].any() and np.isfinite(g).all(), f


# --- running ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_running_values_are_numpys(axis, rng: np.random.Generator) -> None:
    X = rng.normal(size=(4, 5, 3)).T
    x = pb.dtensor3()
    for f, expected in (
        (pb.cumsum, np.cumsum(X, axis)),
        (pb.cumprod, np.cumprod(X, axis)),
        (pb.cummax, np.maximum.accumulate(X.ravel() if axis is None else X, axis or 0)),
        (pb.cummin, np.minimum.accumulate(X.ravel() if axis is None else X, axis or 0)),
    ):
        np.testing.assert_allclose(f(x, axis).eval({x: X}), expected)
    i = pb.tensor("int8", (None,))
    assert pb.cumsum(i).eval({i: np.full(3, 100, "int8")}).tolist() == [100, 200, 300]


def test_running_extremes_at_ties_and_nan() -> None:
    X = np.array([1.0, 3, 3, 2, nan, 5, nan])
    x = pb.dvector()
    y = pb.cummax(x)
    value, g = evaluate([y, pb.grad(pb.sum(y), x)], {x: X})
    np.testing.assert_array_equal(value, np.maximum.accumulate(X))
    assert g.tolist() == [1, 3, 0, 0, 3, 0, 0]


def test_cumprod_of_a_long_line_and_of_many_lines(rng: np.random.Generator) -> None:
    for shape in ((3000,), (40, 7)):
        X, U = 1 + 0.01 * rng.normal(size=shape), rng.normal(size=shape)
        X[5] = 0
        found = gradient(lambda x, U=U: pb.cumprod(x, 0) * U, X)
        expected = np.zeros(shape)
        for k in range(shape[0]):
            without = X.copy()
            without[k] = 1
            expected[k] = (U * np.cumprod(without, 0))[k:].sum(0)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# --- order ------------------------------------------------------------------------------------------------------------


def test_sorting_beside_numpy(rng: np.random.Generator) -> None:
    X = rng.integers(0, 4, size=(3, 6)).astype("float64")
    X[0, 0] = nan
    x = pb.dmatrix()
    for axis in (0, 1, -1, None):
        np.testing.assert_array_equal(pb.sort(x, axis).eval({x: X}), np.sort(X, axis))
        np.testing.assert_array_equal(pb.argsort(x, axis).eval({x: X}), np.argsort(X, axis, kind="stable"))
        down = pb.argsort(x, axis, descending=True).eval({x: X})
        filled = np.where(np.isnan(X), 99, X)
        np.testing.assert_array_equal(down, np.argsort(-filled, axis, kind="stable"))
    values, places = (v.eval({x: X}) for v in pb.topk(x, 2))
    np.testing.assert_array_equal(values, -np.sort(-np.where(np.isnan(X), inf, X), 1)[:, :2] + 0 * values)
    np.testing.assert_array_equal(np.take_along_axis(X, places, 1), values)
    low = pb.topk(x, 2, axis=0, largest=False)[0].eval({x: X})
    np.testing.assert_array_equal(low, np.sort(X, 0)[:2])
    g = pb.grad(pb.sum(pb.topk(x, 2, largest=False)[0] * 2.0), x).eval({x: X})
    assert g.sum() == 12 and g[0, 0] == 0


def test_sort_gradient_goes_home(rng: np.random.Generator) -> None:
    X, U = rng.normal(size=(3, 5)), rng.normal(size=(3, 5))
    expected = np.zeros_like(X)
    np.put_along_axis(expected, np.argsort(X, 0), U, 0)
    np.testing.assert_allclose(gradient(lambda x: pb.sort(x, 0) * U, X), expected)


def test_median_gradient_and_nan() -> None:
    assert gradient(pb.median, np.array([5.0, 1, 3])).tolist() == [0, 0, 1]
    assert gradient(pb.median, np.array([5.0, 1, 3, 4])).tolist() == [0, 0, 0.5, 0.5]
    assert np.isnan(pb.median(pb.asarray([1.0, nan, 2])).eval())


def test_searchsorted() -> None:
    a, v = pb.dvector(), pb.dmatrix()
    A, V = np.array([0.0, 1, 1, 2]), np.array([[1.0, 0.5, 3]])
    for side in ("left", "right"):
        np.testing.assert_array_equal(pb.searchsorted(a, v, side).eval({a: A, v: V}), np.searchsorted(A, V, side))


# --- errors -----------------------------------------------------------------------------------------------------------


def test_errors_name_what_is_wrong() -> None:
    x = pb.tensor("float64", (None, 3))
    with pytest.raises(pb.ShapeError, match="sum: axis 2 is out of range for 2 dimensions"):
        pb.sum(x, 2)
    with pytest.raises(pb.ArgumentError, match="name one axis twice"):
        pb.mean(x, (0, -2))
    with pytest.raises(pb.ArgumentTypeError, match="axis must be an integer"):
        pb.max(x, 0.5)
    with pytest.raises(pb.ShapeError, match="max: axis 0 of shape .* is empty"):
        pb.max(x, 0).eval({x: np.zeros((0, 3))})
    with pytest.raises(pb.ShapeError, match="argmax: axis 0 of shape"):
        pb.argmax(x).eval({x: np.zeros((0, 3))})
    with pytest.raises(pb.ArgumentError, match="topk: k=4; axis 1 of .* has 3 entries"):
        pb.topk(x, 4)
    with pytest.raises(pb.ArgumentError, match="side='middle'"):
        pb.searchsorted(x[0], x, "middle")
    with pytest.raises(pb.ShapeError, match="must be a vector"):
        pb.searchsorted(x, x)


def test_empty_reductions() -> None:
    x = pb.dmatrix()
    X = np.zeros((0, 3))
    outputs = [pb.sum(x), pb.sum(x, 1), pb.prod(x, 0), pb.any(x), pb.all(x, 0), pb.max(x, 1), pb.argmax(x, 1)]
    expected = [0, [], [1, 1, 1], False, [True] * 3, [], []]
    for value, e in zip(evaluate(outputs, {x: X}), expected):
        assert value.tolist() == e
    assert np.isnan(pb.mean(x, 0).eval({x: X})).all()
    total = pb.sum(pb.mean(x, 1) + pb.var(x, 1) + pb.std(x, 1) + pb.prod(x, 1) + pb.logsumexp(x, 1))
    assert pb.grad(total, x).eval({x: X}).shape == (0, 3)


def test_complex_numbers_are_summed_and_multiplied_but_have_no_spread() -> None:
    z, values = pb.zvector(), np.array([1 + 2j, 3j, -1])
    outputs = [pb.sum(z), pb.mean(z), pb.prod(z), pb.cumsum(z)]
    expected = values.sum(), values.mean(), values.prod(), values.cumsum()
    for value, e in zip(evaluate(outputs, {z: values}), expected):
        np.testing.assert_allclose(value, e)
    for f in (pb.var, pb.std, pb.logsumexp, pb.median, pb.linalg.norm):
        with pytest.raises(pb.DTypeError, match="expected real numbers, got complex128"):
            f(z)
