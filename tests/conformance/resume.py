"""Training that is stopped and resumed in another process: `python -m tests.conformance.resume STEPS BACKEND IN OUT`.

Trains a network with dropout, Adam and a rate that changes at every step, up to step STEPS, from its beginning or
from the checkpoint IN ("-" for none), and writes OUT: a checkpoint, and beside it the rows and loss of each step.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pullback as pb
from pullback import nn
from pullback.data import Batches

SEED, ROWS, FEATURES, EPOCHS, BATCH = 7, 40, 3, 3, 10


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(ROWS, FEATURES)).astype("float32")
    x[:, 0] = np.arange(ROWS)  # so that a batch tells which rows it holds
    return x, (x[:, 1] > x[:, 2]).astype("int64")


def new_network() -> nn.Network:
    layers = [nn.Input(FEATURES), nn.Connected(8, activation="tanh"), nn.Dropout(0.5), nn.Connected(2), nn.Softmax()]
    network = nn.Network(layers, seed=SEED)
    network.compile(optimizer=nn.Adam(nn.schedules.Exponential(0.05, 0.9)), loss="cross_entropy")
    return network


def train(steps: int, source: str, target: Path) -> None:
    network = new_network() if source == "-" else nn.Network.load(source)
    seen: list[dict] = []
    drawn = Batches.__iter__

    def watched(batches: Batches) -> Iterator[tuple[np.ndarray, ...]]:
        for batch in drawn(batches):
            seen.append({"rows": batch[0][:, 0].astype(int).tolist()})
            yield batch

    def note(training: Any) -> None:
        seen[-1]["loss"] = float(training.logs["loss"]).hex()
        if int(network.optimizer_state["steps"].get_value()) == steps:
            network.save(target)
            training.stop("enough")

    Batches.__iter__ = watched
    x, y = data()
    callbacks = [nn.LambdaCallback(on_batch_end=note)]
    options = dict(epochs=EPOCHS, batch_size=BATCH, callbacks=callbacks, verbose=False, resume=source != "-")
    network.fit(x, y, **options)
    target.with_suffix(".json").write_text(json.dumps(seen))


if __name__ == "__main__":
    pb.config.backend = sys.argv[2]
    train(int(sys.argv[1]), sys.argv[3], Path(sys.argv[4]))
