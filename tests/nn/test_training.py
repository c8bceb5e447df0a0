"""`compile`, `train_on_batch`, `fit`, `evaluate`, `predict`: against a loop in NumPy, seeds, partial batches,
resuming."""

import os
import re
import signal
import types

import numpy as np
import pytest

import pullback as pb
from pullback import nn


@pytest.fixture
def digits(rng):
    """Forty points in three classes that a small network can tell apart."""
    y = rng.integers(0, 3, 40)
    X = rng.normal(size=(40, 5)).astype("float32")
    X[np.arange(40), y] += 2
    return X, y


def classifier(seed=1, dropout=0.0, **recipe):
    net = nn.Network(
        [nn.Input(5), nn.Connected(8, activation="tanh"), nn.Dropout(dropout), nn.Connected(3), nn.Softmax()], seed=seed
    )
    net.compile(**{"optimizer": nn.SGD(0.1), "loss": "cross_entropy", "metrics": ["accuracy"]} | recipe)
    return net


def assert_same_values(a, b):
    for name, value in a.get_values().items():
        np.testing.assert_array_equal(value, b.get_values()[name], err_msg=name)


def test_a_step_is_what_numpy_computes(rng):
    net = nn.Network([nn.Input(4), nn.Connected(3)], dtype="float64")
    net.compile(nn.SGD(0.3), "mse", l1=0.02, l2=0.05)
    X, y = rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    w, b = (v.get_value() for v in net.parameters.values())
    off = X @ w + b - y
    cost = np.mean(np.sum(off**2, 1)) + 0.02 * np.abs(w).sum() + 0.05 * np.sum(w**2)
    assert net.train_on_batch(X, y) == pytest.approx(cost, rel=1e-12)
    dw = 2 * X.T @ off / 6 + 0.02 * np.sign(w) + 0.1 * w
    new_w, new_b = (v.get_value() for v in net.parameters.values())
    np.testing.assert_allclose(new_w, w - 0.3 * dw, rtol=1e-12)
    np.testing.assert_allclose(new_b, b - 0.3 * 2 * off.mean(0), rtol=1e-12)
    off = X @ new_w + new_b - y
    shown = np.mean(np.sum(off**2, 1)) + 0.02 * np.abs(new_w).sum() + 0.05 * np.sum(new_w**2)
    assert net.evaluate(X, y) == {"loss": pytest.approx(shown, rel=1e-12)}


def test_train_on_batch_gives_the_cost_before_and_the_metrics(digits):
    X, y = digits
    net = classifier()
    before = net.evaluate(X, y)
    cost, accuracy = net.train_on_batch(X, y)
    assert (cost, accuracy) == (pytest.approx(before["loss"], rel=1e-6), before["accuracy"])
    assert type(cost) is float and type(accuracy) is float
    net.compile(nn.SGD(0.1), "cross_entropy")
    assert type(net.train_on_batch(X, y)) is float


def test_train_on_batch_converts_what_is_plain(digits):
    X, y = digits
    nets = [classifier() for _ in range(4)]
    batches = [(X, y), (X.astype("float64"), y.astype("int32")), (X.tolist(), y.tolist()), (X[:, ::-1][:, ::-1], y)]
    for net, batch in zip(nets, batches):
        net.train_on_batch(*batch)
        net.train_on_batch(*batch)
        assert_same_values(nets[0], net)


def test_targets_may_change_their_kind(digits):
    X, y = digits
    a, b = classifier(optimizer=nn.Adam(0.01)), classifier(optimizer=nn.Adam(0.01))
    one_hot = np.eye(3, dtype="float32")[y]
    for _ in range(2):
        a.train_on_batch(X, y)
    b.train_on_batch(X, y)
    b.train_on_batch(X, one_hot)
    for name, value in a.get_values().items():
        np.testing.assert_allclose(value, b.get_values()[name], rtol=1e-5, atol=1e-6)


def test_fit_is_a_loop_over_seeded_batches(digits):
    X, y = digits
    net, other = classifier(seed=4), classifier(seed=4)
    history = net.fit(X, y, epochs=2, batch_size=12, verbose=False)
    for epoch in range(2):
        order = np.random.default_rng((4, epoch)).permutation(40)
        costs, right = [], 0
        for start in range(0, 40, 12):
            rows = order[start : start + 12]
            cost, accuracy = other.train_on_batch(X[rows], y[rows])
            costs.append(cost * len(rows))
            right += accuracy * len(rows)
        assert history["loss"][epoch] == pytest.approx(sum(costs) / 40, rel=1e-12)
        assert history["accuracy"][epoch] == pytest.approx(right / 40, rel=1e-12)
    assert_same_values(net, other)


def test_same_seed_same_bits_and_another_seed_others(digits):
    nets = [classifier(seed=seed, dropout=0.3) for seed in (1, 1, 2)]
    for net in nets:
        net.fit(*digits, epochs=3, batch_size=16, verbose=False)
    assert_same_values(nets[0], nets[1])
    with pytest.raises(AssertionError):
        assert_same_values(nets[0], nets[2])
    assert nets[0].history.epochs == nets[1].history.epochs


def test_it_learns(digits):
    X, y = digits
    net = classifier(optimizer="adam")
    net.learning_rate = 0.05
    history = net.fit(X, y, epochs=20, batch_size=8, verbose=False)
    assert history["accuracy"][-1] > 0.9 > history["accuracy"][0]
    assert np.mean(net.predict(X).argmax(1) == y) == net.evaluate(X, y)["accuracy"] > 0.9


def test_validation_split_is_random_and_disjoint(digits):
    X, y = digits
    net = classifier()
    seen = []
    watch = nn.LambdaCallback(on_begin=lambda t: seen.extend(t.batches.arrays[0].tolist()))
    history = net.fit(X, y, epochs=1, batch_size=50, validation_split=0.25, callbacks=[watch], verbose=False)
    kept = np.array(seen, "float32")
    assert len(kept) == 30
    held = [i for i in range(40) if not (kept == X[i]).all(1).any()]
    assert len(held) == 10 and held != list(range(30, 40))
    want = net.evaluate(X[held], y[held])
    assert history["val_loss"][0] == pytest.approx(want["loss"], rel=1e-5)
    assert history["val_accuracy"][0] == want["accuracy"]


def test_metrics_of_batches_are_those_of_all_samples(digits):
    X, y = digits
    net = classifier()
    whole = net.evaluate(X, y, batch_size=40)
    for size in (1, 7, 39):
        assert net.evaluate(X, y, batch_size=size) == pytest.approx(whole, rel=1e-5)


def test_predict_any_number_of_rows(digits):
    X, _ = digits
    net = classifier(dropout=0.5)
    whole = net.predict(X)
    np.testing.assert_allclose(whole.sum(1), 1, rtol=1e-5)
    for size in (1, 7, 64):
        np.testing.assert_allclose(net.predict(X, batch_size=size), whole, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(net.predict(X[:1]), whole[:1], rtol=1e-5)
    assert net.predict(X[:0]).shape == (0, 3)
    np.testing.assert_array_equal(net.predict(X.astype("float64")), whole)


def test_frozen_layers_multipliers_and_decay(digits):
    X, y = digits
    net = nn.Network(
        [nn.Input(5), nn.Connected(4, frozen=True), nn.Connected(4, learning_rate=0.0), nn.Connected(3), nn.Softmax()]
    )
    net.compile(nn.SGD(0.1), "cross_entropy")
    before = net.get_values()
    net.fit(X, y, verbose=False)
    changed = {name for name, value in net.get_values().items() if not np.array_equal(value, before[name])}
    assert changed == {"connected_3.weight", "connected_3.bias"}
    assert [v.name for v in net.trainable] == [
        "connected_2.weight", "connected_2.bias", "connected_3.weight", "connected_3.bias"
    ]  # fmt: skip


def test_a_frozen_layer_behaves_as_at_predict(rng):
    net = nn.Network([nn.Input(3), nn.BatchNorm(frozen=True), nn.Dropout(0.5, frozen=True), nn.Connected(1)])
    net.compile(nn.SGD(0.0), "mse")
    X, y = 5 + rng.normal(size=(8, 3)).astype("float32"), rng.normal(size=8).astype("float32")
    before = net.get_values()
    assert net.train_on_batch(X, y) == pytest.approx(net.evaluate(X, y)["loss"], rel=1e-6)
    assert all(np.array_equal(before[k], v) for k, v in net.get_values().items())


def test_weight_decay_spares_biases(digits):
    X, y = digits
    net = nn.Network([nn.Input(5), nn.Connected(3, learning_rate=1.0), nn.Softmax()], dtype="float64")
    net.compile(nn.AdamW(0.1, weight_decay=0.5), "cross_entropy")
    net.set_values({"connected_1.bias": np.ones(3)})
    before = net.get_values()
    net.train_on_batch(X, y)
    free = nn.Network([nn.Input(5), nn.Connected(3), nn.Softmax()], dtype="float64")
    free.compile(nn.Adam(0.1), "cross_entropy")
    free.set_values(before)
    free.train_on_batch(X, y)
    for name, value in net.get_values().items():
        shrunk = 0.05 * before[name] if name.endswith("weight") else 0
        np.testing.assert_allclose(value, free.get_values()[name] - shrunk, rtol=1e-10)


def test_clip_norm(rng):
    net = nn.Network([nn.Input(2), nn.Connected(2)], dtype="float64")
    net.compile(nn.SGD(1.0), "mse", clip_norm=0.1)
    before = net.get_values()
    net.train_on_batch(100 * rng.normal(size=(3, 2)), rng.normal(size=(3, 2)))
    moved = [np.sum((value - before[name]) ** 2) for name, value in net.get_values().items()]
    assert np.sqrt(sum(moved)) == pytest.approx(0.1, rel=1e-9)


def test_learning_rate_can_be_set_between_steps(digits):
    net = classifier()
    net.learning_rate = 0.0
    before = net.get_values()
    net.fit(*digits, verbose=False)
    for name, value in net.get_values().items():
        np.testing.assert_array_equal(value, before[name])
    assert net.learning_rate == 0.0
    net.compile(nn.SGD(nn.schedules.Exponential(0.1, 0.9)), "cross_entropy")
    with pytest.raises(pb.ArgumentTypeError, match="follows Exponential"):
        net.learning_rate = 0.1


def test_a_custom_loop(digits):
    X, y = digits
    net, other = classifier(), classifier()
    x, t = pb.matrix("x"), pb.lvector("t")
    context = net.context(training=True)
    cost = pb.mean(nn.losses.CrossEntropy()(net(x, context=context), t))
    updates = nn.SGD(0.1).updates(cost, net.trainable) | context.updates
    step = pb.function([x, t], cost, updates=updates)
    assert float(step(X, y)) == pytest.approx(other.train_on_batch(X, y)[0], rel=1e-6)
    for name, value in net.get_values().items():
        np.testing.assert_allclose(value, other.get_values()[name], rtol=1e-5, atol=1e-7)


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_a_run_that_stops_anywhere_goes_on_as_if_it_never_had(digits, tmp_path):
    """Saved in the middle of an epoch, loaded, resumed: the same parameters, optimizer state and history, bit for
    bit."""
    X, y = digits
    options = dict(epochs=4, batch_size=12, validation_split=0.2, verbose=False)
    whole = classifier(dropout=0.2, optimizer=nn.Adam(0.01))
    whole.fit(X, y, **options)
    for stop_at in (1, 2, 3, 5, 6):
        part = classifier(dropout=0.2, optimizer=nn.Adam(0.01))
        steps = []

        def save(training, steps=steps, stop_at=stop_at, part=part):
            steps.append(1)
            if len(steps) == stop_at:
                part.save(tmp_path / "part.safetensors")
                training.stop("enough")

        part.fit(X, y, callbacks=[nn.LambdaCallback(on_batch_end=save)], **options)
        resumed = nn.Network.load(tmp_path / "part.safetensors")
        resumed.fit(X, y, resume=True, **options)
        assert_same_values(whole, resumed)
        assert whole.history.epochs == resumed.history.epochs
        for name, v in whole.optimizer_state.items():
            np.testing.assert_array_equal(v.get_value(), resumed.optimizer_state[name].get_value())


def test_more_epochs_by_resuming(digits):
    whole, parts = classifier(), classifier()
    whole.fit(*digits, epochs=4, verbose=False)
    parts.fit(*digits, epochs=2, verbose=False)
    history = parts.fit(*digits, epochs=4, resume=True, verbose=False)
    assert_same_values(whole, parts)
    assert history.epochs == whole.history.epochs == parts.history.epochs


def test_resume_refuses_other_data_and_nothing_to_resume(digits):
    X, y = digits
    net = classifier()
    with pytest.raises(pb.ArgumentError, match="nothing to resume"):
        net.fit(X, y, resume=True, verbose=False)
    net.fit(X, y, epochs=1, batch_size=8, verbose=False)
    with pytest.raises(pb.ArgumentError, match="batch_size=8, these have batch_size=9"):
        net.fit(X, y, epochs=2, batch_size=9, resume=True, verbose=False)


def test_ctrl_c_ends_after_the_step_with_a_usable_network(digits, capsys):
    X, y = digits
    net, other = classifier(), classifier()

    def press(training):
        if training.epoch == 1 and training.batches.position == 2:
            os.kill(os.getpid(), signal.SIGINT)

    history = net.fit(X, y, epochs=9, batch_size=10, callbacks=[nn.LambdaCallback(on_batch_end=press)])
    assert history.stopped == "Ctrl-C" and len(history) == 1
    assert "Stopped after 1 of 9 epochs: Ctrl-C" in capsys.readouterr().out
    other.fit(X, y, epochs=1, batch_size=10, verbose=False)
    order = np.random.default_rng((1, 1)).permutation(40)
    for rows in (order[:10], order[10:20]):
        other.train_on_batch(X[rows], y[rows])
    assert_same_values(net, other)
    assert net.evaluate(X, y)["loss"] == other.evaluate(X, y)["loss"]
    resumed = net.fit(X, y, epochs=2, batch_size=10, resume=True, verbose=False)
    assert len(resumed) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_twice_interrupts_at_once(digits):
    def press(training):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    net = classifier()
    with pytest.raises(KeyboardInterrupt):
        net.fit(*digits, callbacks=[nn.LambdaCallback(on_batch_end=press)], verbose=False)
    assert net.training is None


def test_fit_outside_the_main_thread(digits):
    from concurrent.futures import ThreadPoolExecutor

    net = classifier()
    with ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(net.fit, *digits, verbose=False).result()) == 1


def test_lines_when_not_on_a_terminal(digits, capsys):
    net = classifier()
    net.fit(*digits, epochs=2, validation_split=0.2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for i, line in enumerate(lines):
        assert re.fullmatch(
            rf"epoch {i + 1}/2  loss [\d.]+  accuracy [\d.]+  val_loss [\d.]+  val_accuracy [\d.]+  "
            r"[\d,]+ samples/s  \d+:\d\d left",
            line,
        )
    net.fit(*digits, verbose=False)
    assert capsys.readouterr().out == ""


def test_moving_line_on_a_terminal(digits, monkeypatch):
    from io import StringIO

    import rich.console

    from pullback.nn import progress

    screen = StringIO()
    console = rich.console.Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(rich, "get_console", lambda: console)
    monkeypatch.setattr(progress, "REFRESH", 0.0)
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stdout=types.SimpleNamespace(isatty=lambda: True)))
    classifier().fit(*digits, epochs=2, batch_size=10)
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.getvalue())
    assert "epoch 1/2" in text and "epoch 2/2" in text
    assert "samples/s" in text and "left" in text and "━" in text


def test_the_cost_that_is_no_number_is_an_error(digits):
    X, y = digits
    net = nn.Network([nn.Input(5), nn.Connected(1)])
    net.compile(nn.SGD(1e30), "mse")
    with pytest.raises(pb.NonFiniteError, match=r"the cost became (inf|nan) in batch \d of epoch 1"):
        net.fit(X, y.astype("float32"), batch_size=8, verbose=False)


def test_zero_epochs_change_nothing(digits):
    net = classifier()
    before = net.get_values()
    assert len(net.fit(*digits, epochs=0, verbose=False)) == 0
    assert all(np.array_equal(before[k], v) for k, v in net.get_values().items())


def test_images_as_bytes(rng):
    X, y = rng.integers(0, 256, (8, 4, 4, 1)).astype("uint8"), rng.integers(0, 2, 8)
    net = nn.Network([nn.Input((4, 4, 1)), nn.Connected(2), nn.Softmax()])
    net.compile("adam", "cross_entropy")
    net.fit(X, y, verbose=False)
    np.testing.assert_array_equal(net.predict(X), net.predict(X.astype("float32")))
