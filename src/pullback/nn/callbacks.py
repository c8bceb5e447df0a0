"""What happens beside training. A callback is told of the start, each batch, each epoch and the end."""

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, FileAccessError, UnknownNameError, nearest
from .history import is_better_high

if TYPE_CHECKING:
    from .fitting import Training

EVENTS = ("on_begin", "on_epoch_begin", "on_batch_end", "on_epoch_end", "on_end")


class Callback:
    """Base of callbacks: override what you need. Each method gets the `Training`, which holds the network, the epoch's
    number, the values measured so far, and `stop(why)`.

    Example:
        >>> class Shout(Callback):
        ...     def on_epoch_end(self, training):
        ...         print(training.epoch, training.logs["loss"])
    """

    def on_begin(self, training: "Training") -> None:
        """Before the first step."""

    def on_epoch_begin(self, training: "Training") -> None:
        """Before each epoch."""

    def on_batch_end(self, training: "Training") -> None:
        """After each step."""

    def on_epoch_end(self, training: "Training") -> None:
        """After each epoch, when its values (validation included) stand in `training.logs`."""

    def on_end(self, training: "Training") -> None:
        """After the last step, also if training was stopped."""


class LambdaCallback(Callback):
    """Functions as a callback: `LambdaCallback(on_epoch_end=lambda training: print(training.logs))`."""

    def __init__(self, **functions: Callable[["Training"], Any]) -> None:
        for name, function in functions.items():
            if name not in EVENTS:
                raise UnknownNameError(f"LambdaCallback: unknown event {name!r}. {nearest(name, EVENTS)}")
            setattr(self, name, function)


class Watching(Callback):
    """Base of callbacks that watch one value from epoch to epoch and know which epoch was best so far.

    Args:
        monitor: the value's name in the history, e.g. "val_loss".
        highest: whether higher is better; by default not for losses and errors.
        least: by how much a value must be better to count as better.
    """

    def __init__(self, monitor: str = "val_loss", *, highest: bool | None = None, least: float = 0.0) -> None:
        self.monitor = monitor
        self.sign = 1.0 if (is_better_high(monitor) if highest is None else highest) else -1.0
        self.least = least

    def on_begin(self, training: "Training") -> None:
        self.best = -np.inf
        self.since = 0
        for logs in training.history.epochs:  # of the part before a resumed training
            self.observe(logs)

    def observe(self, logs: dict[str, float]) -> bool:
        """Take in an epoch's values: is it the best so far?"""
        if self.monitor not in logs:
            raise UnknownNameError(f"{type(self).__name__}: nothing named {self.monitor!r} is measured. "
                                   f"{nearest(self.monitor, logs)}")  # fmt: skip
        value = self.sign * logs[self.monitor]
        if value > self.best + self.least:
            self.best, self.since = value, 0
            return True
        self.since += 1
        return False


class EarlyStopping(Watching):
    """Ends training after `patience` epochs without a better value, with the parameters of the best epoch."""

    def __init__(
        self,
        monitor: str = "val_loss",
        *,
        patience: int = 5,
        highest: bool | None = None,
        least: float = 0.0,
        restore_best: bool = True,
    ) -> None:
        super().__init__(monitor, highest=highest, least=least)
        if patience < 1:
            raise ArgumentError(f"EarlyStopping: patience={patience}; expected 1 or more")
        self.patience = patience
        self.restore_best = restore_best

    def on_begin(self, training: "Training") -> None:
        super().on_begin(training)
        self.values: dict[str, np.ndarray] | None = None

    def on_epoch_end(self, training: "Training") -> None:
        if self.observe(training.logs):
            self.values = training.network.get_values() if self.restore_best else None
        elif self.since >= self.patience:
            training.stop(f"early stopping: {self.monitor} was best {self.since} epochs ago")

    def on_end(self, training: "Training") -> None:
        if self.values is not None:
            training.network.set_values(self.values)


class ReduceLearningRate(Watching):
    """Multiplies the learning rate by `factor` after each `patience` epochs without a better value."""

    def __init__(
        self,
        monitor: str = "val_loss",
        *,
        factor: float = 0.5,
        patience: int = 3,
        lowest: float = 0.0,
        highest: bool | None = None,
        least: float = 0.0,
    ) -> None:
        super().__init__(monitor, highest=highest, least=least)
        if not 0 < factor < 1 or patience < 1:
            raise ArgumentError(f"ReduceLearningRate: factor={factor}, patience={patience}; expected a factor between "
                                "0 and 1 and patience of 1 or more")  # fmt: skip
        self.factor, self.patience, self.lowest = factor, patience, lowest

    def on_epoch_end(self, training: "Training") -> None:
        if not self.observe(training.logs) and self.since % self.patience == 0:
            training.network.learning_rate = max(self.lowest, training.network.learning_rate * self.factor)


class ModelCheckpoint(Watching):
    """Saves the network after epochs, from where `fit(..., resume=True)` goes on after `Network.load`.

    Args:
        path: of the model file; "{epoch}" and names of measured values in it are filled in:
            "net-{epoch}-{val_loss:.3f}".
        monitor: save only epochs whose value is the best so far; by default all.
    """

    def __init__(
        self, path: str | Path, *, monitor: str | None = None, highest: bool | None = None, least: float = 0.0
    ) -> None:
        super().__init__(monitor or "val_loss", highest=highest, least=least)
        self.path = str(path)
        self.all = monitor is None

    def on_begin(self, training: "Training") -> None:
        if not self.all:
            super().on_begin(training)
        folder = Path(self.path).parent
        if not os.access(folder, os.W_OK):
            raise FileAccessError(f"ModelCheckpoint: can't write into {folder}: make the folder, or give another path")

    def on_epoch_end(self, training: "Training") -> None:
        if self.all or self.observe(training.logs):
            training.network.save(self.path.format(epoch=training.epoch + 1, **training.logs))


class CSVLogger(Callback):
    """Writes a line per epoch to a CSV file; a resumed training appends."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def on_begin(self, training: "Training") -> None:
        self.append = len(training.history) > 0
        try:
            self.path.open("a").close()
        except OSError as error:
            raise FileAccessError(f"CSVLogger: can't write {self.path}: {error.strerror}") from None

    def on_epoch_end(self, training: "Training") -> None:
        with self.path.open("a" if self.append else "w", newline="") as file:
            writer = csv.writer(file)
            if not self.append:
                writer.writerow(["epoch", *training.logs])
            writer.writerow([training.epoch + 1, *training.logs.values()])
        self.append = True
