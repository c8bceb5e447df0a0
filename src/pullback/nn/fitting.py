"""The training loop behind `Network.fit`."""

import math
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..data import Batches, split
from ..data.augment import Change
from ..errors import ArgumentError, ArgumentTypeError, NonFiniteError
from .arrays import Samples, about, check_values
from .callbacks import Callback
from .history import History
from .progress import Progress, make_progress
from .recipe import Totals

if TYPE_CHECKING:
    from .network import Network


class Training:
    """A running `fit`: what callbacks see.

    Attributes:
        network: what is trained.
        samples, batches: what it is trained on, and in which order.
        epoch, epochs: the number of the epoch at hand, from 0, and how many there will be.
        stopped: why it ends early; None while it doesn't.
        logs: values measured so far in this epoch: "loss" and metrics; after the epoch also those of validation.
        history: of the epochs done.
    """

    def __init__(self, network: "Network", samples: Samples, batches: Batches, epochs: int) -> None:
        self.network = network
        self.samples = samples
        self.batches = batches
        self.epochs = epochs
        self.epoch = 0
        self.totals = Totals(network, network.recipe)
        self.history = History()
        self.stopped: str | None = None

    @property
    def logs(self) -> dict[str, float]:
        if len(self.history) > self.epoch:
            return self.history.epochs[self.epoch]
        return self.totals.results() if self.totals.samples else {}

    def stop(self, why: str) -> None:
        """End training: after the step at hand if called between steps, else after the epoch."""
        self.stopped = why

    def cursor(self) -> dict[str, Any]:
        """Where training stands, as JSON values."""
        return {
            "batches": self.batches.state(),
            "sums": self.totals.sums,
            "samples": self.totals.samples,
            "history": self.history.epochs,
        }

    def restore(self, cursor: dict[str, Any]) -> None:
        """Go on from where `cursor()` was taken."""
        self.batches.restore(cursor["batches"])
        self.epoch = self.batches.epoch
        self.totals.sums, self.totals.samples = list(cursor["sums"]), cursor["samples"]
        self.history = History(cursor["history"])


def fit(
    network: "Network",
    given: Samples,
    epochs: int,
    batch_size: int,
    validation_split: float,
    validation_data: tuple[Any, ...] | None,
    shuffle: bool,
    seed: int | None,
    augment: Change | None,
    callbacks: Sequence[Any],
    verbose: bool,
    resume: bool,
) -> History:
    """See `Network.fit`; `given` is its data with weights, of checked shapes."""
    seed = network.seed if seed is None else seed
    with about("fit"):
        if epochs < 0:
            raise ArgumentError(f"epochs={epochs}; expected 0 or more")
        if not 0 <= validation_split < 1:
            raise ArgumentError(f"validation_split={validation_split}; expected at least 0 and less than 1")
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise ArgumentTypeError(f"{callback!r} is no nn.Callback; wrap functions in nn.LambdaCallback")
        check_values(network, network.recipe, given)
        held = None
        if validation_split:
            kept, held_arrays = zip(*split(*given.arrays, held_back=validation_split, seed=seed))
            given, held = given.replaced(kept), given.replaced(held_arrays)
        change = None if augment is None else changing(augment, len(given.inputs) + len(given.targets))
        batches = Batches(*given.arrays, batch_size=batch_size, shuffle=shuffle, seed=seed, augment=change)
    if validation_data is not None:
        with about("fit: validation_data"):
            if not isinstance(validation_data, (tuple, list)) or len(validation_data) not in (2, 3):
                raise ArgumentTypeError("expected a pair (X, y), or (X, y, sample_weight)")
            held = network.samples(*validation_data)
            check_values(network, network.recipe, held)
    training = Training(network, given, batches, epochs)
    if resume:
        if network.cursor is None:
            raise ArgumentError("fit: there is nothing to resume: the network was not saved during training")
        with about("fit: resume"):
            training.restore(network.cursor)
    _run(training, held, callbacks, make_progress(verbose))
    return training.history


def changing(augment: Change, count: int) -> Change:
    """A change of the first `count` arrays of a batch; weights behind them stay."""
    return lambda rng, *batch: (*augment(rng, *batch[:count]), *batch[count:])


def _run(training: Training, held: Samples | None, callbacks: Sequence[Callback], progress: Progress) -> None:
    network = training.network
    earlier = network.history.epochs[: len(network.history) - len(training.history)]
    network.training = training
    try:
        for callback in callbacks:
            callback.on_begin(training)
        try:
            with progress, interrupts() as interrupted:
                while training.epoch < training.epochs and not training.stopped:
                    if _steps(training, callbacks, progress, interrupted):
                        _close_epoch(training, held)
                        network.history = History([*earlier, *training.history.epochs])
                        for callback in callbacks:
                            callback.on_epoch_end(training)
                        progress.epoch(training)
                        training.epoch += 1
                    if interrupted:
                        training.stop("Ctrl-C")
        finally:
            for callback in callbacks:
                callback.on_end(training)
    finally:
        training.history.stopped = network.history.stopped = training.stopped
        network.end_training()
    if training.stopped:
        progress.say(f"Stopped after {len(training.history)} of {training.epochs} epochs: {training.stopped}")


def _steps(training: Training, callbacks: Sequence[Callback], progress: Progress, interrupted: list[int]) -> bool:
    """The steps of one epoch; whether all were made."""
    samples, batches = training.samples, training.batches
    step = training.network.training_step(samples.target_types)
    if batches.position == 0:
        for callback in callbacks:
            callback.on_epoch_begin(training)
    for batch in batches:
        values = step(*samples.converted(batch))
        if not math.isfinite(values[0]):
            raise NonFiniteError(
                f"fit: the cost became {float(values[0])} in batch {batches.position} of epoch {training.epoch + 1}; "
                "the parameters may hold NaN now, so build or load the network again. Lower the learning rate, give "
                "clip_norm to compile, or run with pb.config.nan_guard = True to see where it begins"
            )
        training.totals.add(values, len(batch[0]))
        for callback in callbacks:
            callback.on_batch_end(training)
        progress.batch(training)
        if interrupted or training.stopped:
            return False
    return True


def _close_epoch(training: Training, held: Samples | None) -> None:
    """Put the epoch's values, those of validation included, into the history."""
    logs = training.totals.results()
    if held is not None:
        measured = training.network.measure(held, training.batches.batch_size)
        logs |= {f"val_{name}": value for name, value in measured.items()}
    training.history.epochs.append(logs)
    training.totals = Totals(training.network, training.network.recipe)


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """A list that is empty until Ctrl-C is pressed, so that a step is never cut in half; pressed twice it interrupts as
    usual."""
    pressed: list[int] = []

    def note(number: int, frame: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield pressed  # signals are the main thread's business
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
