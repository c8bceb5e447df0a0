"""`pullback train`"""

import os
from argparse import Namespace
from pathlib import Path

import numpy as np

from ..darknet.training import compile_as_darknet
from ..data import Table, TableEncoder, TargetEncoder, read_table, split
from ..errors import ArgumentError, FileAccessError
from ..nn import AdamW, Connected, Dropout, EarlyStopping, History, Input, Network, Softmax
from .sources import find_arrays, find_network

PATIENCE = 20  # epochs without progress after which training on a table ends


def run(options: Namespace) -> None:
    """Train on a table (--target) or on arrays (--data), say how well it went, and save."""
    if options.source.endswith(".cfg") and (options.data or "").endswith(".data"):
        from .train_darknet import run

        return run(options)
    check_writable(options.output)
    if options.target is not None:
        train_table(options)
    else:
        train_network(options)


def check_writable(path: str) -> None:
    """Refuse a place that can't be written before any work is done."""
    folder = Path(path).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise FileAccessError(
            f"can't write {path}: {'no' if not folder.is_dir() else 'not allowed in'} folder {folder}"
        )


# --- tables -----------------------------------------------------------------------------------------------------------


def train_table(options: Namespace) -> None:
    """Column types, scaling, split, a network, its score on held-back rows, and a model that takes raw rows."""
    table = read_table(options.source, dict.fromkeys(options.category, "category"))
    column = table[options.target]
    kept = ~column.missing
    if not kept.all():
        print(f"{np.sum(~kept)} rows without a value of {options.target!r} are left out.")
        table = table.take(kept)
    for name in options.drop:
        table = table.without(name)
    rows = len(table)
    if rows < 10:
        raise ArgumentError(f"{options.source} has {rows} rows with a target: too few to train and test on")
    target = TargetEncoder.learn(table[options.target], options.task)
    y = target.encode(table[options.target])
    features = table.without(options.target)
    strata = y if target.task == "classification" else None
    ((train, test),) = split(np.arange(rows), held_back=options.held_back, stratify=strata, seed=options.seed)
    encoder = TableEncoder.learn(features.take(train))
    describe(features, encoder, target)

    X = encoder.encode(features)
    network = table_network(X.shape[1], target, len(train), options.hidden, options.seed)
    classes = target.task == "classification"
    network.compile(
        AdamW(options.learning_rate or 3e-3, weight_decay=1e-2),
        "cross_entropy" if classes else "mse",
        ["accuracy"] if classes else ["r2"],
    )
    network.metadata["table"] = {"columns": encoder.to_json(), "target": target.to_json()}
    history = network.fit(
        X[train],
        y[train],
        epochs=options.epochs or 200,
        batch_size=options.batch_size or min(256, max(16, len(train) // 20)),
        validation_split=0.15,
        seed=options.seed,
        callbacks=[EarlyStopping(patience=PATIENCE)],
    )
    print(f"\nOn {len(test)} rows that were held back:")
    for line in scores(target, network.predict(X[test]), y[test], y[train]):
        print(f"  {line}")
    finish(network, history, options)


def table_network(
    features: int, target: TargetEncoder, rows: int, hidden: tuple[int, ...] | None, seed: int
) -> Network:
    """A network of two hidden layers, wider for more rows."""
    hidden = hidden or ((128, 64) if rows >= 10_000 else (64, 32) if rows >= 1000 else (32, 16))
    layers = [Input(features)]
    for width in hidden:
        layers += [Connected(width, activation="silu"), Dropout(0.1)]
    if target.task == "classification":
        layers += [Connected(len(target.classes)), Softmax()]
    else:
        layers += [Connected(1)]
    return Network(layers, seed=seed, name=f"{target.task} of {target.name}")


def describe(table: Table, encoder: TableEncoder, target: TargetEncoder) -> None:
    """Say what was made of the columns."""
    what = f"one of {', '.join(target.classes)}" if target.classes else "a number"
    print(f"{len(table)} rows. The target {target.name} is {what}.")
    for kind, plural in (("number", "numbers"), ("date", "dates"), ("category", "categories")):
        names = [code.name for code in encoder.codes if code.kind == kind]
        if names:
            print(f"  {plural}: {', '.join(names)}")
    for name, why in encoder.dropped.items():
        print(f"  not used: {name} ({why})")


def scores(target: TargetEncoder, output: np.ndarray, y: np.ndarray, y_train: np.ndarray) -> list[str]:
    """How well held-back rows were predicted, beside what takes no network."""
    if target.task == "classification":
        right = np.mean(output.argmax(axis=1) == y)
        usual = np.mean(y == np.bincount(y_train).argmax())
        return [f"accuracy {right:.4f} (always the most frequent class: {usual:.4f})"]
    off = (output[:, 0] - y[:, 0]).astype(np.float64) * target.scale
    spread = (y[:, 0] - y_train.mean()).astype(np.float64) * target.scale
    explained = 1 - np.sum(off**2) / np.sum(spread**2)
    return [
        f"mean absolute error {np.mean(np.abs(off)):.4g} (always the mean: {np.mean(np.abs(spread)):.4g})",
        f"root mean squared error {np.sqrt(np.mean(off**2)):.4g} (always the mean: {np.sqrt(np.mean(spread**2)):.4g})",
        f"explained variance (R2) {explained:.4f}",
    ]


# --- networks ---------------------------------------------------------------------------------------------------------


def train_network(options: Namespace) -> None:
    """Train a network of the user's own on arrays, a share of which is held back."""
    network = find_network(options.source)
    X, y = find_arrays(options.data)
    batch_size = options.batch_size or 64
    if options.source.endswith(".cfg") and options.learning_rate is None:
        regime = compile_as_darknet(network, options.seed)
        batch_size = options.batch_size or (regime.batch if regime.batch > 1 else 64)
    elif network.recipe is None:
        classes = y.dtype.kind in "iu"
        network.compile("adam", "cross_entropy" if classes else "mse", ["accuracy"] if classes else ["rmse"])
    if options.learning_rate is not None:
        network.learning_rate = options.learning_rate
    network.summary()
    strata = y if y.ndim == 1 and y.dtype.kind in "iu" else None
    (X, X_test), (y, y_test) = split(X, y, held_back=options.held_back, stratify=strata, seed=options.seed)
    history = network.fit(
        X,
        y,
        epochs=options.epochs or 10,
        batch_size=batch_size,
        validation_data=(X_test, y_test),
        seed=options.seed,
    )
    measured = network.evaluate(X_test, y_test)
    print(f"\nOn {len(X_test)} rows that were held back: " + ", ".join(f"{k} {v:.4f}" for k, v in measured.items()))
    finish(network, history, options)


def finish(network: Network, history: History, options: Namespace) -> None:
    """Save the network, and the learning curve if it is wanted."""
    network.save(options.output)
    print(f"Saved {options.output}")
    if options.plot and len(history):
        history.plot(options.plot)
        print(f"Saved {options.plot}")
