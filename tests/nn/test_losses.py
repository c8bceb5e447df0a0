"""Losses and metrics against NumPy in float64, on odd shapes, and the checks of targets."""

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.nn import losses, metrics
from pullback.nn.layers import Spec


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def value(expression, *pairs):
    return expression.eval(dict(pairs))


def symbolic(array, name):
    return pb.tensor(array.dtype.name, (None, *array.shape[1:]), name)


def loss_of(loss, output, target, ending=lambda x: x):
    x, t = symbolic(output, "x"), symbolic(target, "t")
    return value(loss(ending(x), t), (x, output), (t, target))


def test_cross_entropy_with_labels(rng):
    x, y = rng.normal(size=(5, 7)), rng.integers(0, 7, 5)
    want = -np.log(softmax(x))[np.arange(5), y]
    for ending in (lambda v: v, pb.softmax):
        np.testing.assert_allclose(loss_of(losses.CrossEntropy(), x, y, ending), want, rtol=1e-12)


def test_cross_entropy_of_a_softmax_can_not_overflow():
    x, y = np.array([[0.0, 1000.0, -1000.0]], "float32"), np.array([2])
    assert loss_of(losses.CrossEntropy(), x, y, pb.softmax) == 2000.0
    logits = symbolic(x, "x")
    t = symbolic(y, "t")
    g = pb.grad(losses.CrossEntropy()(pb.softmax(logits), t).sum(), logits)
    np.testing.assert_array_equal(value(g, (logits, x), (t, y)), [[0, 1, -1]])


def test_cross_entropy_with_probabilities_smoothing_and_positions(rng):
    x, t = rng.normal(size=(4, 3)), softmax(rng.normal(size=(4, 3)))
    np.testing.assert_allclose(loss_of(losses.CrossEntropy(), x, t), -(t * np.log(softmax(x))).sum(1), rtol=1e-12)
    y = rng.integers(0, 3, 4)
    spread = 0.9 * np.eye(3)[y] + 0.1 / 3
    np.testing.assert_allclose(
        loss_of(losses.CrossEntropy(0.1), x, y), -(spread * np.log(softmax(x))).sum(1), rtol=1e-12
    )
    x, y = rng.normal(size=(4, 5, 3)), rng.integers(0, 3, (4, 5))
    each = -np.log(np.take_along_axis(softmax(x), y[..., None], -1))[..., 0]
    np.testing.assert_allclose(loss_of(losses.CrossEntropy(), x, y), each.sum(1), rtol=1e-12)


def test_binary_cross_entropy(rng):
    x, t = rng.normal(size=(6, 2)), rng.integers(0, 2, (6, 2))
    p = 1 / (1 + np.exp(-x))
    want = -(t * np.log(p) + (1 - t) * np.log(1 - p)).sum(1)
    for ending in (lambda v: v, pb.sigmoid):
        np.testing.assert_allclose(loss_of(losses.BinaryCrossEntropy(), x, t, ending), want, rtol=1e-12)
    huge = np.array([[800.0]])
    assert loss_of(losses.BinaryCrossEntropy(), huge, np.array([0]), pb.sigmoid) == 800.0


def test_a_target_without_the_last_axis_never_broadcasts(rng):
    x, t = rng.normal(size=(6, 1)), rng.normal(size=6)
    for loss, want in ((losses.MeanSquaredError(), (x[:, 0] - t) ** 2), (losses.MeanAbsoluteError(), abs(x[:, 0] - t))):
        np.testing.assert_allclose(loss_of(loss, x, t), want, rtol=1e-12)


def test_squared_and_absolute_errors_sum_or_mean_over_outputs(rng):
    x, t = rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 2, 3))
    for kind, f in ((losses.MeanSquaredError, np.square), (losses.MeanAbsoluteError, np.abs)):
        np.testing.assert_allclose(loss_of(kind(), x, t), f(x - t).sum((1, 2)), rtol=1e-12)
        np.testing.assert_allclose(loss_of(kind("mean"), x, t), f(x - t).mean((1, 2)), rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "shape", "target", "error", "message"),
    [
        ("cross_entropy", (3,), np.array([0.0, 1.0]), pb.DTypeError, "integers: y.astype"),
        (
            "cross_entropy",
            (3,),
            np.zeros((4, 1), int),
            pb.ShapeError,
            r"\(n,\) or probabilities \(n, 3\); take y\[:, 0\]",
        ),
        ("cross_entropy", (1,), np.zeros(4, int), pb.ShapeError, "use binary_cross_entropy"),
        ("mse", (3,), np.zeros((4, 2)), pb.ShapeError, r"y has shape \(4, 2\); the network's output is \(3,\)"),
        ("mse", (3,), np.array(["a"]), pb.DTypeError, "expected numbers"),
        ("mse", (1,), np.zeros((4, 2)), pb.ShapeError, r"\(n, 1\) or \(n,\)"),
    ],
)
def test_targets_of_the_wrong_shape_or_dtype(loss, shape, target, error, message):
    with pytest.raises(error, match=message):
        losses.LOSSES[loss].target_type(Spec(shape, "float32"), target)


@pytest.mark.parametrize(
    ("loss", "shape", "target", "error", "message"),
    [
        (
            "cross_entropy",
            (3,),
            np.array([0, 2, 3, -1]),
            pb.IndexRangeError,
            r"y is 3 at \[2\] \(2 of 4 labels.*0 to 2",
        ),
        ("cross_entropy", (2,), np.array([[0.5, np.nan]]), pb.ArgumentError, r"nan at \[0, 1\]"),
        ("binary_cross_entropy", (1,), np.array([0, 2]), pb.ArgumentError, "between 0 and 2"),
        ("mse", (1,), np.array([1.0, np.inf]), pb.ArgumentError, r"y is inf at \[1\]"),
    ],
)
def test_targets_with_wrong_values(loss, shape, target, error, message):
    with pytest.raises(error, match=message):
        losses.LOSSES[loss].check(Spec(shape, "float32"), target)


# --- metrics ----------------------------------------------------------------------------------------------------------


def measured(metric, output, target, ending=lambda x: x, sizes=(3, 1, 4)):
    """The metric over batches of the given sizes."""
    x, t = symbolic(output, "x"), symbolic(target, "t")
    sums = pb.function([x, t], list(metric.sums(ending(x), t)))
    totals, start = np.zeros(metric.terms), 0
    for n in sizes:
        totals += [float(v) for v in sums(output[start : start + n], target[start : start + n])]
        start += n
    return metric.result(list(totals), start)


def test_accuracy_of_classes(rng):
    x, y = rng.normal(size=(8, 3)), rng.integers(0, 3, 8)
    want = np.mean(x.argmax(1) == y)
    assert measured(metrics.Accuracy(), x, y) == want
    assert measured(metrics.Accuracy(), x, y, pb.softmax) == want
    assert measured(metrics.Accuracy(), x, np.eye(3)[y], pb.softmax) == want


def test_accuracy_of_yes_or_no(rng):
    x, t = rng.normal(size=(8, 1)), rng.integers(0, 2, 8)
    assert measured(metrics.Accuracy(), x, t, pb.sigmoid) == np.mean((x[:, 0] > 0) == t)
    assert measured(metrics.Accuracy(), x, t) == np.mean((x[:, 0] > 0.5) == t)
    x, t = rng.normal(size=(8, 3)), rng.integers(0, 2, (8, 3))
    assert measured(metrics.Accuracy(), x, t, pb.sigmoid) == pytest.approx(np.mean((x > 0) == t))


def test_top_accuracy(rng):
    x, y = rng.normal(size=(8, 6)), rng.integers(0, 6, 8)
    ranks = (x > x[np.arange(8), y][:, None]).sum(1)
    assert measured(metrics.TopAccuracy(2), x, y) == np.mean(ranks < 2)
    assert metrics.TopAccuracy(2).name == "top_2_accuracy"


def test_errors_and_explained_variance(rng):
    x, t = rng.normal(size=(8, 1)).astype("float32"), (10 + rng.normal(size=8)).astype("float32")
    off = x[:, 0].astype(float) - t
    assert measured(metrics.MSE(), x, t) == pytest.approx(np.mean(off**2), rel=1e-6)
    assert measured(metrics.RMSE(), x, t) == pytest.approx(np.sqrt(np.mean(off**2)), rel=1e-6)
    assert measured(metrics.MAE(), x, t) == pytest.approx(np.mean(abs(off)), rel=1e-6)
    want = 1 - np.sum(off**2) / np.sum((t - t.mean(dtype=float)) ** 2)
    assert measured(metrics.R2(), x, t) == pytest.approx(want, rel=1e-6)
    assert np.isnan(measured(metrics.R2(), x, np.ones(8, "float32")))


def test_which_way_is_up():
    assert not metrics.MSE().higher_is_better and metrics.R2().higher_is_better
    history = nn.History(
        [{"val_loss": 2.0, "rmse": 1.0, "accuracy": 0.5}, {"val_loss": 1.0, "rmse": 2.0, "accuracy": 0.6}]
    )
    assert (history.best("val_loss"), history.best("rmse"), history.best("accuracy")) == (1, 0, 1)
