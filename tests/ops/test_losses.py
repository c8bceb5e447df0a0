"""Losses: values against their formulas, reductions, masks, and the ends where naive forms overflow."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, IndexRangeError, ShapeError
from pullback.graph import Constant, evaluate


def run(*outputs):
    values = evaluate(outputs)
    return values[0] if len(outputs) == 1 else values


def log_p(x: np.ndarray, axis: int = 1) -> np.ndarray:
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


@pytest.fixture
def pair(rng):
    return rng.normal(size=(3, 5)), rng.normal(size=(3, 5))


@pytest.fixture
def shares(rng):
    """Two batches of distributions."""
    return (rng.dirichlet(np.ones(5), 3) for _ in range(2))


def capped(e: np.ndarray, corner: float) -> np.ndarray:
    """A parabola that goes on as a line."""
    return np.where(abs(e) < corner, e * e / 2, corner * (abs(e) - corner / 2))


FORMULAS = {
    "mse": (pb.mse, {}, lambda e: e**2),
    "mae": (pb.mae, {}, np.abs),
    "huber": (pb.huber, {"delta": 0.7}, lambda e: capped(e, 0.7)),
    "smooth_l1": (pb.smooth_l1, {"beta": 0.7}, lambda e: capped(e, 0.7) / 0.7),
    "log_cosh_loss": (pb.log_cosh_loss, {}, lambda e: np.log(np.cosh(e))),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_losses_of_the_error(pair, name) -> None:
    loss, options, formula = FORMULAS[name]
    each = formula(pair[0] - pair[1])
    np.testing.assert_allclose(run(loss(*pair, reduction="none", **options)), each, rtol=1e-12)
    np.testing.assert_allclose(run(loss(*pair, reduction="sum", **options)), each.sum(), rtol=1e-12)
    np.testing.assert_allclose(run(loss(*pair, reduction="mean", **options)), each.mean(), rtol=1e-12)
    np.testing.assert_allclose(run(loss(*pair, **options)), each.sum() / 3, rtol=1e-12)


def test_losses_of_scores(rng) -> None:
    s, t = rng.normal(size=(4, 3)), rng.choice([-1.0, 1.0], (4, 3))
    np.testing.assert_allclose(run(pb.hinge(s, t, "none")), np.maximum(0, 1 - t * s))
    np.testing.assert_allclose(run(pb.squared_hinge(s, t, "none")), np.maximum(0, 1 - t * s) ** 2)


def test_losses_of_distributions(shares) -> None:
    p, q = shares
    divergence = (q * np.log(q / p)).sum() / 3
    np.testing.assert_allclose(run(pb.kl_divergence(np.log(p), q)), divergence)
    np.testing.assert_allclose(run(pb.kl_divergence(np.log(p), np.log(q), log_target=True)), divergence)
    np.testing.assert_allclose(run(pb.hellinger(p, q, "sum")), ((np.sqrt(p) - np.sqrt(q)) ** 2).sum() / 2)


def test_kl_divergence_of_a_certain_target() -> None:
    np.testing.assert_array_equal(run(pb.kl_divergence([[0.0, -np.inf]], [[1.0, 0.0]])), 0.0)


def test_likelihoods(pair, rng) -> None:
    x, t = pair
    np.testing.assert_allclose(run(pb.poisson_nll(x, t, reduction="none")), np.exp(x) - t * x)
    rate, count = np.exp(x), rng.poisson(2.0, x.shape).astype(float)
    np.testing.assert_allclose(run(pb.poisson_nll(rate, count, False, "none")), rate - count * np.log(rate))
    expected = (np.log(rate) + (x - t) ** 2 / rate) / 2
    np.testing.assert_allclose(run(pb.gaussian_nll(x, t, rate, reduction="none")), expected)


def test_cosine(pair) -> None:
    a, b = pair
    expected = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(run(pb.cosine_similarity(a, b)), expected)
    np.testing.assert_allclose(run(pb.cosine_distance(a, b)), (1 - expected).mean())
    np.testing.assert_array_equal(run(pb.cosine_similarity(np.zeros(3), np.ones(3))), 0.0)


def test_binary_cross_entropy(rng) -> None:
    x, t = rng.normal(size=(3, 4)), rng.uniform(size=(3, 4))
    p = 1 / (1 + np.exp(-x))
    expected = -t * np.log(p) - (1 - t) * np.log(1 - p)
    np.testing.assert_allclose(run(pb.binary_cross_entropy(p, t, "none")), expected, rtol=1e-12)
    np.testing.assert_allclose(run(pb.bce_with_logits(x, t)), expected, rtol=1e-12)
    weighted = run(pb.bce_with_logits(x, t, pos_weight=2.5))
    np.testing.assert_allclose(weighted, -2.5 * t * np.log(p) - (1 - t) * np.log(1 - p), rtol=1e-12)
    power = t * (1 - p) + (1 - t) * p
    np.testing.assert_allclose(
        run(pb.focal(x, t, 3.0, 0.3, "none")), expected * power**3 * (0.3 * t + 0.7 * (1 - t)), rtol=1e-12
    )


def test_small_losses_keep_their_digits_in_single_precision() -> None:
    loss = run(pb.bce_with_logits(np.array([20.0, -20.0], "float32"), np.array([1.0, 0.0], "float32")))
    assert loss.dtype == "float32"
    np.testing.assert_allclose(loss, np.log1p(np.exp(-20.0)), rtol=1e-6)
    small = run(pb.log_cosh(np.array([1e-4, -3e-3, 90.0], "float32")))
    np.testing.assert_allclose(small, [5e-9, 4.4999932e-06, 90 - np.log(2)], rtol=1e-6)


def test_a_saturated_sigmoid_and_softmax_are_seen_through() -> None:
    x = np.array([[200.0, -200.0]], "float32")
    wrong = 1 - (x > 0)
    direct, through = run(pb.bce_with_logits(x, wrong, "sum"), pb.binary_cross_entropy(pb.sigmoid(x), wrong))
    assert direct == through == 400
    np.testing.assert_array_equal(run(pb.crossentropy_categorical_1hot(pb.softmax(x), [1])), [400.0])
    np.testing.assert_array_equal(run(pb.crossentropy_categorical_1hot(pb.softmax(x), [[0.0, 1.0]])), [400.0])
    np.testing.assert_array_equal(run(pb.masked_loss(pb.softmax(x[None]), [[1]], [1], [0])), [400.0])


def test_categorical_cross_entropy_of_probabilities(shares) -> None:
    p, q = shares
    labels = [4, 0, 2]
    by_label, by_share = run(pb.crossentropy_categorical_1hot(p, labels), pb.crossentropy_categorical_1hot(p, q))
    np.testing.assert_allclose(by_label, -np.log(p[range(3), labels]))
    np.testing.assert_allclose(by_share, -(q * np.log(p)).sum(1))
    np.testing.assert_allclose(run(pb.crossentropy_categorical_1hot(p.T, labels, axis=0)), by_label)


def test_saturated_without_the_softmax_is_infinite_and_says_so() -> None:
    p = pb.dmatrix()
    loss = pb.sum(pb.crossentropy_categorical_1hot(p, [1]))
    value, g = evaluate([loss, pb.grad(loss, p)], {p: np.array([[1.0, 0.0]])})
    assert value == np.inf
    np.testing.assert_array_equal(g, [[0.0, -np.inf]])


class TestCrossEntropy:
    def test_reductions_count_only_rows_that_count(self, rng) -> None:
        x, t = rng.normal(size=(4, 3)), np.array([0, -100, 2, 1])
        each = np.array([0.0 if c < 0 else -log_p(x)[i, c] for i, c in enumerate(t)])
        np.testing.assert_allclose(run(pb.cross_entropy(x, t, reduction="none")), each)
        np.testing.assert_allclose(run(pb.cross_entropy(x, t)), each.sum() / 3)
        np.testing.assert_allclose(run(pb.cross_entropy(x, t, reduction="sum")), each.sum())
        np.testing.assert_allclose(run(pb.cross_entropy(x, t, reduction="batchmean")), each.sum() / 4)

    def test_weights_divide_the_mean(self, rng) -> None:
        x, t, w = rng.normal(size=(4, 3)), np.array([0, 1, 2, 1]), np.array([0.5, 2.0, 3.0])
        each = -log_p(x)[range(4), t] * w[t]
        np.testing.assert_allclose(run(pb.cross_entropy(x, t, weight=w)), each.sum() / w[t].sum())

    def test_smoothing_is_a_softer_target(self, rng) -> None:
        x, t = rng.normal(size=(4, 3)), np.array([0, 1, 2, 1])
        soft = 0.8 * np.eye(3)[t] + 0.2 / 3
        hard, probabilities, both = run(
            pb.cross_entropy(x, t, label_smoothing=0.2),
            pb.cross_entropy(x, soft),
            pb.cross_entropy(x, np.eye(3)[t], label_smoothing=0.2),
        )
        np.testing.assert_allclose([hard, both], probabilities, rtol=1e-12)

    def test_classes_on_any_axis(self, rng) -> None:
        x, t = rng.normal(size=(2, 3, 4)), rng.integers(0, 3, (2, 4))
        second, last = run(pb.cross_entropy(x, t), pb.cross_entropy(x.transpose(0, 2, 1), t, axis=-1))
        np.testing.assert_allclose(second, last)
        np.testing.assert_allclose(run(pb.cross_entropy(x[0, :, 0], t[0, 0])), -log_p(x)[0, t[0, 0], 0])

    def test_a_mean_over_nothing_is_zero(self) -> None:
        x = pb.dmatrix()
        for options in ({}, {"weight": [1.0, 2.0]}, {"label_smoothing": 0.1}):
            loss = pb.cross_entropy(x, [-100, -100], **options)
            value, g = evaluate([loss, pb.grad(loss, x)], {x: np.array([[1.0, np.nan], [0.0, 1.0]])})
            assert value == 0 and (g == 0).all()

    def test_labels_out_of_range_are_named(self) -> None:
        with pytest.raises(IndexRangeError, match="label 2 of row 1 is no class: there are 2"):
            run(pb.cross_entropy(np.zeros((2, 2)), [0, 2]))

    def test_arguments_are_refused(self) -> None:
        with pytest.raises(ArgumentError, match="label_smoothing=1.5; expected 0 to 1"):
            pb.cross_entropy(pb.dmatrix(), pb.lvector(), label_smoothing=1.5)
        with pytest.raises(ArgumentError, match="reduction='average'; expected one of"):
            pb.cross_entropy(pb.dmatrix(), pb.lvector(), reduction="average")
        with pytest.raises(ShapeError, match="weight must be a vector"):
            pb.cross_entropy(pb.dmatrix(), pb.lvector(), weight=pb.dmatrix())


class TestMaskedLoss:
    def test_only_the_window_counts(self, rng) -> None:
        p, t = rng.dirichlet(np.ones(4), (3, 6)), rng.integers(0, 4, (3, 6))
        lengths, starts = np.array([2, 0, 9]), np.array([1, 3, 4])
        windows = [range(1, 3), (), range(4, 6)]
        expected = [-sum(np.log(p[i, k, t[i, k]]) for k in steps) for i, steps in enumerate(windows)]
        np.testing.assert_allclose(run(pb.masked_loss(p, t, lengths, starts)), expected)

    def test_the_gradient_is_divided_by_the_probability_and_multiplied_by_the_upstream(self, rng) -> None:
        p = pb.dtensor3()
        probabilities, t = rng.dirichlet(np.ones(4), (2, 3)), rng.integers(0, 4, (2, 3))
        upstream = np.array([1 / 3, -2.0])
        loss = pb.masked_loss(p, t, [2, 1], [0, 2])
        g = evaluate([pb.grad(pb.sum(loss * Constant(upstream)), p)], {p: probabilities})[0]
        expected = np.zeros_like(g)
        for i, k in ((0, 0), (0, 1), (1, 2)):
            expected[i, k, t[i, k]] = -upstream[i] / probabilities[i, k, t[i, k]]
        np.testing.assert_allclose(g, expected)

    def test_only_labels_inside_the_window_must_be_classes(self) -> None:
        p = np.full((1, 3, 2), 0.5)
        np.testing.assert_allclose(run(pb.masked_loss(p, [[9, 1, -3]], [1], [1])), [np.log(2)])
        with pytest.raises(IndexRangeError, match="label 9"):
            run(pb.masked_loss(p, [[9, 1, 0]], [1], [0]))

    def test_ranks_are_checked(self) -> None:
        with pytest.raises(ShapeError, match=r"expected \(batch, time, classes\)"):
            pb.masked_loss(pb.dmatrix(), pb.lmatrix(), pb.lvector(), pb.lvector())


class TestAuc:
    def test_pairs_in_order(self, rng) -> None:
        t, s = rng.random(40) < 0.4, rng.integers(0, 9, 40).astype(float)
        pairs = [(a > b) + 0.5 * (a == b) for a in s[t] for b in s[~t]]
        np.testing.assert_allclose(run(pb.auc(t, s)), np.mean(pairs))

    def test_it_is_locally_constant(self) -> None:
        s = pb.dvector()
        g = evaluate([pb.grad(pb.auc([0, 1, 1], s), s)], {s: np.array([0.1, 0.2, 0.0])})[0]
        np.testing.assert_array_equal(g, [0.0, 0.0, 0.0])

    def test_one_kind_has_no_pairs(self) -> None:
        with pytest.raises(ArgumentError, match="both kinds"):
            run(pb.auc([1, 1], [0.1, 0.2]))


def test_a_stray_axis_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"mse: the prediction is float64\[\?, \?\], but the target float64\[\?\]"):
        pb.mse(pb.dmatrix(), pb.dvector())


def test_parameters_are_refused() -> None:
    with pytest.raises(ArgumentError, match="huber: delta=0"):
        pb.huber(pb.dvector(), pb.dvector(), 0)
    with pytest.raises(ArgumentError, match="smooth_l1: beta=-1"):
        pb.smooth_l1(pb.dvector(), pb.dvector(), -1)


SPELLINGS = {
    "op": lambda x, axis: pb.softmax(x, axis),
    "quotient": lambda x, axis: pb.exp(x) / pb.sum(pb.exp(x), axis=axis, keepdims=True),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("soft", [False, True])
def test_a_saturated_softmax_is_seen_through_however_it_is_spelt(spelling, axis, soft) -> None:
    """Logits 1000, 0, -1000 with the middle one true: the gradient is p - onehot = (1, -1, 0)."""
    logits = np.array([[1000.0, 0.0, -1000.0], [0.0, 0.0, 0.0]])
    labels = np.array([1, 2])
    x = pb.dmatrix()
    target = np.eye(3)[labels] if soft else labels
    if axis == 0:
        logits, target = logits.T, target.T
    loss = pb.crossentropy_categorical_1hot(SPELLINGS[spelling](x, axis), target, axis)
    value, g = pb.function([x], [loss, pb.grad(pb.sum(loss), x)])(logits)
    np.testing.assert_allclose(value, [1000.0, np.log(3)])
    expected = np.array([[1.0, -1.0, 0.0], [1 / 3, 1 / 3, -2 / 3]])
    np.testing.assert_allclose(g, expected.T if axis == 0 else expected, atol=1e-12)


def test_a_saturated_sigmoid_is_seen_through_inside_a_function() -> None:
    x = pb.dvector()
    loss = pb.binary_cross_entropy(pb.sigmoid(x), [0.0, 1.0, 1.0], "none")
    value, g = pb.function([x], [loss, pb.grad(pb.sum(loss), x)])(np.array([800.0, -800.0, 0.0]))
    np.testing.assert_allclose(value, [800.0, 800.0, np.log(2)])
    np.testing.assert_allclose(g, [1.0, -1.0, -0.5])
