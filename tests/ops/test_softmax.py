"""Softmax, log-softmax, masked softmax and cross-entropy by labels: values, special rows, labels that are no class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as pb
from pullback.errors import DTypeError, IndexRangeError, ShapeError
from pullback.graph import Constant, evaluate

DTYPES = st.sampled_from(["float16", "float32", "float64"])


def run(*outputs):
    values = evaluate(outputs)
    return values[0] if len(outputs) == 1 else values


def reference(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x.astype(np.longdouble))
    return e / e.sum(axis, keepdims=True)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data(), DTYPES)
def test_values_in_every_dtype(shape, data, dtype) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = np.random.default_rng(len(shape)).uniform(-3, 3, shape).astype(dtype)
    p, logp = run(pb.softmax(x, axis), pb.log_softmax(x, axis))
    assert p.dtype == logp.dtype == dtype
    tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(p.astype(float), reference(x, axis).astype(float), atol=tolerance)
    np.testing.assert_allclose(logp.astype(float), np.log(reference(x, axis)).astype(float), atol=8 * tolerance)


def test_integers_become_floats() -> None:
    assert pb.softmax(np.array([1, 2])).dtype == pb.config.floatX
    assert pb.log_softmax([1.0, 2.0]).dtype.startswith("float")


def test_a_shift_changes_nothing_however_large() -> None:
    x = np.array([[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(run(pb.softmax(x + 2.0**40)), run(pb.softmax(x)))
    np.testing.assert_array_equal(run(pb.log_softmax(x - 2.0**40)), run(pb.log_softmax(x)))


def test_log_softmax_is_exact_where_softmax_underflows() -> None:
    np.testing.assert_array_equal(run(pb.log_softmax([[0.0, -2000.0]])), [[0.0, -2000.0]])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty(shape) -> None:
    x = np.ones(shape)
    for y in run(pb.softmax(x), pb.log_softmax(x), pb.masked_softmax(x, x > 0)):
        assert y.shape == shape
    assert run(pb.softmax_cross_entropy(np.ones((0, 3)), np.zeros(0, int))).shape == (0,)


def test_an_axis_out_of_range_is_refused() -> None:
    with pytest.raises(ShapeError, match="softmax: axis 2 is out of range"):
        pb.softmax(pb.matrix(), 2)


def test_masked_softmax_is_the_softmax_of_what_is_left(rng) -> None:
    x, mask = rng.normal(size=(3, 5)), np.array([[1, 0, 1, 1, 0]] * 3, bool)
    y = run(pb.masked_softmax(x, mask))
    np.testing.assert_allclose(y[:, mask[0]], run(pb.softmax(x[:, mask[0]])), rtol=1e-14)
    assert (y[:, ~mask[0]] == 0).all()


def test_a_mask_may_have_more_axes(rng) -> None:
    x, mask = rng.normal(size=(4, 5)), rng.random((2, 4, 5)) < 0.5
    each = [run(pb.masked_softmax(x, m)) for m in mask]
    np.testing.assert_array_equal(run(pb.masked_softmax(x, mask)), each)
    np.testing.assert_array_equal(run(pb.masked_softmax(x, mask.astype(float))), each)
    with pytest.raises(ShapeError, match="masked_softmax"):
        pb.masked_softmax(x, mask[:, :3])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cross_entropy_picks_the_log_probability(rng, axis) -> None:
    x = rng.normal(size=(3, 4, 5))
    labels = rng.integers(0, x.shape[axis], np.delete(x.shape, axis))
    loss = run(pb.softmax_cross_entropy(x, labels, axis))
    expected = -np.take_along_axis(np.log(reference(x, axis)), np.expand_dims(labels, axis), axis).squeeze(axis)
    np.testing.assert_allclose(loss, expected.astype(float), rtol=1e-13)
    np.testing.assert_allclose(run(pb.nll(pb.log_softmax(x, axis), labels, axis)), loss, rtol=1e-13)
    onehot = np.moveaxis(np.eye(x.shape[axis])[labels], -1, axis)
    np.testing.assert_allclose(run(pb.softmax_cross_entropy(x, onehot, axis)), loss, rtol=1e-13)
    np.testing.assert_allclose(run(pb.softmax_cross_entropy(x, onehot.astype(int), axis)), loss, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_labels_of_any_integer_dtype(dtype) -> None:
    loss = pb.softmax_cross_entropy(np.zeros((2, 200), "float32"), np.array([0, 3], dtype))
    assert loss.dtype == "float32"
    np.testing.assert_allclose(run(loss), np.log(200), rtol=1e-6)


def test_single_precision_keeps_small_losses(rng) -> None:
    """A confident row's loss is far below its logits, and exact to their rounding."""
    loss = run(pb.softmax_cross_entropy(np.array([[12.0, 0.0]], "float32"), [0]))
    np.testing.assert_allclose(loss, np.log1p(np.exp(-12.0)), atol=1e-7)


@pytest.mark.parametrize("wrong", [4, -1, -4])
def test_a_label_that_is_no_class_is_named(wrong) -> None:
    x, labels = pb.dmatrix(), pb.lvector()
    given = {x: np.zeros((3, 4)), labels: np.array([0, wrong, 1])}
    loss = pb.softmax_cross_entropy(x, labels)
    picked = pb.select_label(x, labels)
    for output in (loss, picked, pb.grad(pb.sum(loss), x), pb.grad(pb.sum(picked), x)):
        with pytest.raises(IndexRangeError, match=rf"label {wrong} of row 1 is no class: there are 4, numbered 0 to 3"):
            evaluate([output], given)


def test_a_label_without_classes_is_named() -> None:
    with pytest.raises(IndexRangeError, match="the label 0 of row 0 is no class"):
        run(pb.softmax_cross_entropy(np.zeros((1, 0)), [0]))


def test_the_ignored_label_is_named_beside_a_wrong_one() -> None:
    with pytest.raises(IndexRangeError, match=r"label 9 of row \(0, 1\) .* -100 would be ignored"):
        run(pb.softmax_cross_entropy(np.zeros((1, 2, 4)), [[-100, 9]], ignore_index=-100))


def test_labels_of_a_wrong_type_are_refused() -> None:
    with pytest.raises(DTypeError, match="labels must be integers"):
        pb.softmax_cross_entropy(pb.dmatrix(), pb.dvector())
    with pytest.raises(ShapeError, match=r"labels must have shape \(\?,\)"):
        pb.softmax_cross_entropy(pb.dmatrix(), pb.lscalar())
    with pytest.raises(ShapeError, match=r"labels must have shape \(2,\), got int64\[3\]"):
        pb.softmax_cross_entropy(np.zeros((2, 4)), [0, 1, 2])


def test_lengths_that_differ_at_run_time_are_refused() -> None:
    x, labels = pb.dmatrix(), pb.lvector()
    with pytest.raises(ShapeError, match=r"values have shape \(2, 4\) .* labels \(3,\)"):
        evaluate([pb.softmax_cross_entropy(x, labels)], {x: np.zeros((2, 4)), labels: np.zeros(3, int)})


def test_ignored_rows_are_zero_whatever_they_hold() -> None:
    x = pb.dmatrix()
    loss = pb.softmax_cross_entropy(x, [0, -1], ignore_index=-1)
    g = pb.grad(pb.sum(loss), x)
    values, slope = evaluate([loss, g], {x: np.array([[0.0, 0.0], [np.nan, np.inf]])})
    np.testing.assert_allclose(values, [np.log(2), 0.0])
    np.testing.assert_array_equal(slope, [[-0.5, 0.5], [0.0, 0.0]])


def test_law_3_a_zero_cotangent_stays_zero_beside_nan() -> None:
    x = pb.dmatrix()
    upstream = Constant(np.array([[0.0, 0.0], [1.0, 2.0]]))
    rows = np.array([[np.nan, np.inf], [0.0, 0.0]])
    for f in (pb.softmax, pb.log_softmax):
        g = evaluate([pb.grad(pb.sum(f(x) * upstream), x)], {x: rows})[0]
        assert (g[0] == 0).all() and np.isfinite(g).all()


def test_labels_are_disconnected() -> None:
    labels = pb.lvector()
    loss = pb.sum(pb.softmax_cross_entropy(pb.dmatrix(), labels))
    with pytest.raises(TypeError, match="cast it first|Cast it first"):
        pb.grad(loss, labels)
