"""What was measured epoch by epoch."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, MissingPackageError, UnknownNameError, nearest


class History:
    """One dict of values per epoch: "loss", the metrics, and with validation "val_loss" and so on.

    Attributes:
        epochs: the dicts, oldest first.
        stopped: why training ended before its last epoch ("Ctrl-C", "early stopping ..."); None if it didn't.
    """

    def __init__(self, epochs: Iterable[Mapping[str, float]] = ()) -> None:
        self.epochs = [dict(values) for values in epochs]
        self.stopped: str | None = None

    def __len__(self) -> int:
        return len(self.epochs)

    def __getitem__(self, name: str) -> list[float]:
        """The values of that name, one per epoch that has it."""
        known = {key: None for values in self.epochs for key in values}
        if name not in known:
            raise UnknownNameError(f"the history has no {name!r}. {nearest(name, known)}")
        return [values[name] for values in self.epochs if name in values]

    def best(self, name: str, highest: bool | None = None) -> int:
        """The number of the epoch with the best value: the highest, or the lowest (by default that of losses and
        errors)."""
        highest = is_better_high(name) if highest is None else highest
        self[name]
        missing = float("-inf") if highest else float("inf")
        values = [epoch.get(name, missing) for epoch in self.epochs]
        return values.index((max if highest else min)(values))

    def plot(self, path: str | Path) -> None:
        """Write a picture of all curves: losses on the left, metrics on the right. Needs matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingPackageError("a plot needs matplotlib: pip install 'pullback[plot]'") from None
        if not self.epochs:
            raise ArgumentError("there is nothing to plot: no epoch was finished")
        names = list(dict.fromkeys(key.removeprefix("val_") for values in self.epochs for key in values))
        figure = Figure(figsize=(4.5 * len(names), 3.5), layout="constrained")
        for name, axes in zip(names, figure.subplots(1, len(names), squeeze=False)[0]):
            for key, what in ((name, "training"), (f"val_{name}", "held back")):
                points = [(i + 1, values[key]) for i, values in enumerate(self.epochs) if key in values]
                if points:
                    axes.plot(*zip(*points), marker="o", markersize=3, label=what)
            axes.set(xlabel="epoch", ylabel=name)
            axes.grid(alpha=0.3)
            axes.legend()
        figure.savefig(path, dpi=120)


def is_better_high(name: str) -> bool:
    """Whether higher values of a logged name are better: losses and errors fall, all else rises."""
    from .metrics import METRICS

    plain = name.removeprefix("val_")
    falling = {"loss"} | {key for key, metric in METRICS.items() if not metric.higher_is_better}
    return not any(plain == key or plain.endswith(f"_{key}") for key in falling)


def shown(values: Mapping[str, Any]) -> str:
    """Logged values on one line."""
    return "  ".join(
        f"{name} {value:.4f}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{name} {value:.3g}"
        for name, value in values.items()
    )
