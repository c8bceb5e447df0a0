"""Weights of samples and classes; a batch's gradient as arrays, and steps along it."""

import numpy as np
import pytest

import pullback as pb
from pullback import nn


def classifier(**options):
    net = nn.Network(
        [nn.Input(4), nn.Connected(6, activation="tanh"), nn.Dropout(0.0), nn.Connected(3), nn.Softmax()],
        dtype="float64",
        seed=3,
    )
    net.compile(**{"optimizer": nn.SGD(0.1), "loss": "cross_entropy", "metrics": ["accuracy"]} | options)
    return net


def data(rng, n=12):
    return rng.normal(size=(n, 4)), rng.integers(0, 3, n)


def losses(net, X, y):
    return -np.log(net.predict(X)[np.arange(len(y)), y])


# --- weights ----------------------------------------------------------------------------------------------------------


def test_the_cost_is_the_weighted_sum_divided_by_the_rows(rng):
    net, (X, y), w = classifier(), data(rng), rng.uniform(0, 3, 12)
    want = float((w * losses(net, X, y)).mean())
    assert net.evaluate(X, y, sample_weight=w)["loss"] == pytest.approx(want, rel=1e-12)
    assert net.evaluate(X, y, sample_weight=w, batch_size=5)["loss"] == pytest.approx(want, rel=1e-12)
    assert net.evaluate(X, y, sample_weight=w)["accuracy"] == net.evaluate(X, y)["accuracy"]
    assert net.train_on_batch(X, y, w)[0] == pytest.approx(want, rel=1e-12)
    assert net.train_on_batch(X, y)[0] == pytest.approx(net.train_on_batch(X, y, np.ones(12))[0], rel=0.1)


def test_a_whole_weight_counts_like_copies(rng):
    (X, y), w = data(rng), np.array([1, 0, 2, 1, 3, 1, 0, 1, 1, 0, 1, 1])
    weighted, copied = classifier(), classifier()
    weighted.fit(X, y, sample_weight=w, epochs=1, batch_size=12, verbose=False)
    copied.fit(np.repeat(X, w, axis=0), np.repeat(y, w), epochs=1, batch_size=12, verbose=False)
    for name, value in weighted.get_values().items():  # both have 12 rows
        np.testing.assert_allclose(value, copied.get_values()[name], rtol=1e-10, atol=1e-14)


def test_fit_shuffles_and_splits_the_weights_with_their_rows(rng):
    X, y = data(rng, 60)
    wrong = rng.random(60) < 0.4
    taught = np.where(wrong, (y + 1) % 3, y)
    net, clean = classifier(), classifier()
    options = {"epochs": 3, "batch_size": 7, "validation_split": 0.25, "verbose": False}
    history = net.fit(X, taught, sample_weight=~wrong, **options)
    same = clean.fit(X, np.where(wrong, (y + 2) % 3, y), sample_weight=~wrong, **options)
    assert history["loss"] == same["loss"] and history["val_loss"] == same["val_loss"]
    measured = net.evaluate(X, y, sample_weight=~wrong)["loss"]
    again = net.fit(X, y, epochs=1, validation_data=(X, y, ~wrong), verbose=False, batch_size=60)
    assert again["val_loss"][0] != measured  # after one more epoch
    assert again["val_loss"][0] == pytest.approx(net.evaluate(X, y, sample_weight=~wrong)["loss"], rel=1e-12)


def test_class_weights(rng):
    X, y = data(rng, 40)
    y[:25] = 0
    counts = np.bincount(y)
    table = {0: 0.5, 1: 2.0, 2: 4.0}
    for given, weight in (
        (table, np.array([0.5, 2.0, 4.0])[y]),
        ([0.5, 2.0, 4.0], np.array([0.5, 2.0, 4.0])[y]),
        ("balanced", (40 / (3 * counts))[y]),
    ):
        for target in (y, np.eye(3)[y].astype(int)):
            by_class, by_sample = classifier(), classifier()
            by_class.fit(X, target, class_weight=given, epochs=2, verbose=False)
            by_sample.fit(X, target, sample_weight=weight, epochs=2, verbose=False)
            for name, value in by_class.get_values().items():
                np.testing.assert_array_equal(value, by_sample.get_values()[name])
    both = classifier()
    own = rng.uniform(0.5, 1.5, 40)
    history = both.fit(X, y, class_weight=table, sample_weight=own, epochs=1, batch_size=40, verbose=False)
    want = (own * np.array([0.5, 2.0, 4.0])[y] * losses(classifier(), X, y)).mean()
    assert history["loss"][0] == pytest.approx(want, rel=1e-12)


def test_yes_or_no_classes(rng):
    net = nn.Network([nn.Input(2), nn.Connected(1), nn.Logistic()], dtype="float64")
    net.compile("sgd", "binary_cross_entropy")
    X, y = rng.normal(size=(10, 2)), rng.random((10, 1)) < 0.3
    y[0] = True
    history = net.fit(X, y, class_weight={0: 1.0, 1: 5.0}, epochs=1, verbose=False, batch_size=10)
    assert np.isfinite(history["loss"][0])


def test_weights_of_several_outputs(rng):
    net = nn.Network(
        [nn.Input(3), nn.Connected(2, name="a"), nn.Connected(1, after=0, name="b")],
        outputs=["a", "b"],
        dtype="float64",
    )
    net.compile("sgd", {"a": "mse", "b": "mae"}, loss_weights={"a": 1.0, "b": 0.5})
    X, y = rng.normal(size=(6, 3)), [rng.normal(size=(6, 2)), rng.normal(size=(6, 1))]
    a, b = net.predict(X)
    u, v = rng.uniform(size=6), rng.uniform(size=6)
    first, second = ((a - y[0]) ** 2).sum(1), np.abs(b - y[1])[:, 0]
    for given, want in (
        (u, (u * first + 0.5 * u * second).mean()),
        ([u, v], (u * first + 0.5 * v * second).mean()),
        ({"b": v}, (first + 0.5 * v * second).mean()),
    ):
        assert net.evaluate(X, y, sample_weight=given)["loss"] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": np.ones(5)}, r"sample_weight is float64 of shape \(5,\); expected one number per sample"),
        ({"sample_weight": np.full(12, np.nan)}, "fit: sample_weight is nan at"),
        ({"sample_weight": np.array(["a"] * 12)}, "expected one number per sample"),
        ({"sample_weight": {"softmx": np.ones(12)}}, "'softmx', which is no output. Did you mean 'softmax_4'"),
        ({"class_weight": {0: 1.0, 1: 2.0}}, "no weight for class 2, which y holds"),
        ({"class_weight": "even"}, "class_weight='even'"),
    ],
)
def test_wrong_weights_are_refused(options, message, rng):
    X, y = data(rng)
    y[0] = 2
    with pytest.raises(pb.PullbackError, match=message):
        classifier().fit(X, y, **options, verbose=False)


def test_class_weights_need_classes(rng):
    net = nn.Network([nn.Input(2), nn.Connected(1)])
    net.compile("sgd", "mse")
    with pytest.raises(pb.DTypeError, match="class_weight needs a class number per sample; y is float64"):
        net.fit(np.zeros((3, 2)), np.zeros(3), class_weight={0: 1.0}, verbose=False)
    with pytest.raises(pb.ArgumentTypeError, match=r"\(X, y, sample_weight\)"):
        net.fit(np.zeros((3, 2)), np.zeros(3), validation_data=(1, 2, 3, 4), verbose=False)


# --- gradients --------------------------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_cost(rng):
    net, (X, y), w = classifier(l2=0.01), data(rng), rng.uniform(size=12)
    cost, gradients = net.gradient(X, y, sample_weight=w)
    assert list(gradients) == list(net.parameters)
    assert cost == pytest.approx(net.evaluate(X, y, sample_weight=w)["loss"], rel=1e-12)
    for name, g in gradients.items():
        direction, before, h = rng.normal(size=g.shape), net.get_values()[name], 1e-6
        costs = []
        for sign in (1, -1):
            net.set_values({name: before + sign * h * direction})
            costs.append(net.evaluate(X, y, sample_weight=w)["loss"])
        net.set_values({name: before})
        assert np.sum(g * direction) == pytest.approx((costs[0] - costs[1]) / (2 * h), rel=1e-6)


def test_the_gradient_to_the_inputs(rng):
    net, (X, y) = classifier(), data(rng)
    cost, gradients = net.gradient(X, y, wrt="inputs")
    ((name, g),) = gradients.items()
    assert name == net.inputs[0].name and g.shape == X.shape
    lower, _ = net.gradient(X - 1e-3 * g, y, wrt="inputs")
    assert cost - lower == pytest.approx(1e-3 * np.sum(g**2), rel=0.01)
    with pytest.raises(pb.ArgumentError, match="wrt='weights'"):
        net.gradient(X, y, wrt="weights")


@pytest.mark.parametrize("options", [{}, {"optimizer": nn.Adam(0.05), "clip_norm": 0.1}])
def test_steps_along_the_gradient_are_those_of_training(options, rng):
    by_hand, trained, (X, y) = classifier(**options), classifier(**options), data(rng)
    for _ in range(4):
        cost, gradients = by_hand.gradient(X, y)
        by_hand.apply_gradients(gradients)
        assert trained.train_on_batch(X, y)[0] == pytest.approx(cost, rel=1e-12)
    for name, value in trained.get_values().items():
        np.testing.assert_allclose(value, by_hand.get_values()[name], rtol=1e-10, atol=1e-14)
    by_hand.train_on_batch(X, y)  # the optimizer's state is one and the same
    trained.train_on_batch(X, y)
    for name, value in trained.optimizer_state.items():
        np.testing.assert_allclose(value.get_value(), by_hand.optimizer_state[name].get_value(), rtol=1e-9, atol=1e-15)


def test_gradients_of_parts_of_a_batch_add_up(rng):
    net, (X, y) = classifier(), data(rng)
    _, whole = net.gradient(X, y)
    parts = [net.gradient(X[i : i + 4], y[i : i + 4])[1] for i in range(0, 12, 4)]
    for name, g in whole.items():
        np.testing.assert_allclose(sum(part[name] for part in parts) / 3, g, rtol=1e-10, atol=1e-14)


def test_layers_behave_as_in_training_unless_told_otherwise(rng):
    net = nn.Network([nn.Input(4), nn.BatchNorm(), nn.Dropout(0.5), nn.Connected(1)], dtype="float64")
    net.compile("sgd", "mse")
    X, y = rng.normal(2.0, 1.0, size=(20, 4)), rng.normal(size=20)
    costs = {net.gradient(X, y, training=False)[0] for _ in range(3)}
    assert len(costs) == 1 and not net.get_values()["batchnorm_1.running_mean"].any()
    assert len({net.gradient(X, y)[0] for _ in range(3)}) == 3
    assert net.get_values()["batchnorm_1.running_mean"].all()


def test_gradients_that_do_not_fit_are_refused(rng):
    net, (X, y) = classifier(), data(rng)
    _, gradients = net.gradient(X, y)
    with pytest.raises(pb.UnknownNameError, match="no gradient is given for 'connected_1.bias'"):
        net.apply_gradients({k: g for k, g in gradients.items() if k != "connected_1.bias"})
    with pytest.raises(pb.UnknownNameError, match="there is no trainable parameter 'connected_1.bais'"):
        net.apply_gradients(gradients | {"connected_1.bais": 0})
    with pytest.raises(pb.ShapeError):
        net.apply_gradients(gradients | {"connected_1.bias": np.zeros(5)})
    with pytest.raises(pb.ArgumentError, match="isn't compiled"):
        nn.Network([nn.Input(4), nn.Connected(3)]).gradient(X, y)
