"""What `fit` shows: a moving line on a terminal, a line per epoch elsewhere."""

import sys
import time
from typing import TYPE_CHECKING, Any

from .history import shown

if TYPE_CHECKING:
    from .fitting import Training

REFRESH = 0.1  # seconds between two pictures


class Progress:
    """Shows nothing: the base of what does."""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def batch(self, training: "Training") -> None:
        """A step was made."""

    def epoch(self, training: "Training") -> None:
        """An epoch is done, and its values stand in `training.logs`."""

    def say(self, text: str) -> None:
        """A message."""


class Lines(Progress):
    """One line per epoch."""

    def __enter__(self) -> "Lines":
        self.begin = self.since = time.perf_counter()
        self.first_epoch: int | None = None
        return self

    def batch(self, training: "Training") -> None:
        if self.first_epoch is None:
            self.first_epoch = training.epoch

    def epoch(self, training: "Training") -> None:
        now = time.perf_counter()
        speed = training.batches.samples / (now - self.since)
        self.since = now
        self.say(f"{heading(training)}  {shown(training.logs)}  {speed:,.0f} samples/s  {self.left(training, 1.0)}")

    def left(self, training: "Training", share: float) -> str:
        """The time that the rest will take, if it goes on like this; `share` of the current epoch is done."""
        done = training.epoch - (training.epoch if self.first_epoch is None else self.first_epoch) + share
        seconds = (time.perf_counter() - self.begin) / max(done, 1e-9) * (training.epochs - training.epoch - share)
        minutes, seconds = divmod(round(seconds), 60)
        return f"{minutes}:{seconds:02d} left"

    def say(self, text: str) -> None:
        print(text, flush=True)


class Terminal(Lines):
    """The same lines, and below them one that moves."""

    def __enter__(self) -> "Terminal":
        from rich.live import Live

        super().__enter__()
        self.painted = 0.0
        self.live = Live(auto_refresh=False, transient=True)
        self.live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.live.__exit__(*error)

    def batch(self, training: "Training") -> None:
        super().batch(training)
        now = time.perf_counter()
        if now - self.painted < REFRESH:
            return
        self.painted = now
        self.live.update(self.picture(training, now), refresh=True)

    def picture(self, training: "Training", now: float) -> Any:
        """The moving line."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        samples, total = training.totals.samples, training.batches.samples
        speed = samples / max(now - self.since, 1e-9)
        line = Table.grid(padding=(0, 2))
        line.add_row(
            heading(training),
            ProgressBar(total=total, completed=samples, width=24),
            shown(training.logs),
            f"{speed:,.0f} samples/s",
            self.left(training, samples / total),
        )
        return line

    def say(self, text: str) -> None:
        self.live.console.print(text, highlight=False)


def heading(training: "Training") -> str:
    width = len(str(training.epochs))
    return f"epoch {training.epoch + 1:>{width}}/{training.epochs}"


def make_progress(verbose: bool) -> Progress:
    """What suits the place that is printed to."""
    if not verbose:
        return Progress()
    return Terminal() if sys.stdout.isatty() else Lines()
