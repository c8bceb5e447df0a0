"""Callbacks: when they are called, and what each of the ready-made ones does."""

import csv

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.nn.callbacks import EVENTS

X = np.linspace(-1, 1, 20, dtype="float32")[:, None]
Y = 3 * X[:, 0]


def line(rate=0.1):
    net = nn.Network([nn.Input(1), nn.Connected(1)])
    net.compile(nn.SGD(rate), "mse", ["mae"])
    return net


def scripted(values, name="val_loss"):
    """A callback that writes given values into the logs, epoch by epoch."""
    return nn.LambdaCallback(on_epoch_end=lambda t: t.logs.update({name: values[t.epoch]}))


def test_order_of_calls():
    seen = []
    watch = nn.LambdaCallback(
        **{
            event: lambda t, event=event: seen.append((event, t.epoch, t.batches.position, sorted(t.logs)))
            for event in EVENTS
        }
    )
    line().fit(X, Y, epochs=2, batch_size=15, callbacks=[watch], verbose=False)
    logs = ["loss", "mae"]
    assert seen == [
        ("on_begin", 0, 0, []),
        ("on_epoch_begin", 0, 0, []), ("on_batch_end", 0, 1, logs), ("on_batch_end", 0, 2, logs),
        ("on_epoch_end", 0, 0, logs),
        ("on_epoch_begin", 1, 0, []), ("on_batch_end", 1, 1, logs), ("on_batch_end", 1, 2, logs),
        ("on_epoch_end", 1, 0, logs),
        ("on_end", 2, 0, []),
    ]  # fmt: skip


def test_stop_from_a_callback():
    net = line()
    stop = nn.LambdaCallback(on_epoch_end=lambda t: t.stop("enough") if t.epoch == 1 else None)
    history = net.fit(X, Y, epochs=9, callbacks=[stop], verbose=False)
    assert len(history) == 2 and history.stopped == "enough" and net.history.stopped == "enough"


def test_early_stopping_keeps_the_best_parameters():
    net, kept = line(), []
    keep = nn.LambdaCallback(on_epoch_end=lambda t: kept.append(net.get_values()))
    values = [5.0, 3.0, 3.0, 4.0, 1.0]
    early = nn.EarlyStopping(patience=2)
    history = net.fit(X, Y, epochs=5, callbacks=[scripted(values), keep, early], verbose=False)
    assert len(history) == 4
    assert history.stopped == "early stopping: val_loss was best 2 epochs ago"
    assert all(np.array_equal(kept[1][k], v) for k, v in net.get_values().items())
    assert not np.array_equal(kept[3]["connected_1.weight"], kept[1]["connected_1.weight"])


def test_early_stopping_of_what_should_rise_and_by_how_much():
    net = line()
    early = nn.EarlyStopping("val_accuracy", patience=1, least=0.05, restore_best=False)
    scores = scripted([0.5, 0.6, 0.64], "val_accuracy")
    assert len(net.fit(X, Y, epochs=3, callbacks=[scores, early], verbose=False)) == 3
    assert early.best == 0.6


def test_the_best_epoch_is_restored_even_without_stopping():
    net, kept = line(), []
    keep = nn.LambdaCallback(on_epoch_end=lambda t: kept.append(net.get_values()))
    net.fit(X, Y, epochs=2, callbacks=[scripted([1.0, 2.0]), keep, nn.EarlyStopping()], verbose=False)
    assert all(np.array_equal(kept[0][k], v) for k, v in net.get_values().items())


def test_reduce_learning_rate():
    net, rates = line(0.8), []
    note = nn.LambdaCallback(on_epoch_end=lambda t: rates.append(net.learning_rate))
    reduce = nn.ReduceLearningRate(factor=0.5, patience=2, lowest=0.3)
    values = scripted([1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5])
    net.fit(X, Y, epochs=7, callbacks=[values, reduce, note], verbose=False)
    assert rates == [0.8, 0.8, 0.4, 0.4, 0.4, 0.3, 0.3]


def test_model_checkpoint(tmp_path):
    net = line()
    every = nn.ModelCheckpoint(tmp_path / "{epoch}-{val_loss:.1f}.safetensors")
    best = nn.ModelCheckpoint(tmp_path / "best.safetensors", monitor="val_loss")
    net.fit(X, Y, epochs=3, callbacks=[scripted([2.0, 1.0, 3.0]), every, best], verbose=False)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["1-2.0.safetensors", "2-1.0.safetensors", "3-3.0.safetensors", "best.safetensors"]
    a, b = (nn.Network.load(tmp_path / name) for name in ("2-1.0.safetensors", "best.safetensors"))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert len(b.history) == 2


def test_csv_logger(tmp_path):
    net, file = line(), tmp_path / "log.csv"
    net.fit(X, Y, epochs=2, validation_split=0.2, callbacks=[nn.CSVLogger(file)], verbose=False)
    net.fit(X, Y, epochs=3, validation_split=0.2, callbacks=[nn.CSVLogger(file)], resume=True, verbose=False)
    rows = list(csv.DictReader(file.open()))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    for row, logs in zip(rows, net.history.epochs, strict=True):
        assert {k: float(v) for k, v in row.items() if k != "epoch"} == logs
    net.fit(X, Y, callbacks=[nn.CSVLogger(file)], verbose=False)
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.LambdaCallback(on_epoch=print), "unknown event 'on_epoch'. Did you mean 'on_epoch_end'"),
        (lambda: nn.EarlyStopping(patience=0), "patience=0"),
        (lambda: nn.ReduceLearningRate(factor=1.5), "factor=1.5"),
    ],
)
def test_settings_are_refused(make, message):
    with pytest.raises(pb.PullbackError, match=message):
        make()


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (nn.EarlyStopping(), "nothing named 'val_loss' is measured. Did you mean 'loss'"),
        (nn.ModelCheckpoint("no/such/folder/net.safetensors"), "can't write into no/such/folder"),
        (nn.CSVLogger("no/such/folder/log.csv"), "can't write no/such/folder/log.csv"),
    ],
)
def test_what_can_not_work_is_said(callback, message):
    with pytest.raises(pb.PullbackError, match=message):
        line().fit(X, Y, callbacks=[callback], verbose=False)


def test_history_plot(tmp_path):
    net = line()
    history = net.fit(X, Y, epochs=2, validation_split=0.2, verbose=False)
    history.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(pb.UnknownNameError, match="no 'val_acc'"):
        history["val_acc"]
    with pytest.raises(pb.ArgumentError, match="nothing to plot"):
        nn.History().plot(tmp_path / "none.png")
