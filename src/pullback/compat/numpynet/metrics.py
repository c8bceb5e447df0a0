"""NumPyNet's metrics of (y_true, y_pred), and its helpers for labels and windows."""

from enum import IntEnum
from typing import Any

import numpy as np

from ...errors import ArgumentError

__all__ = [
    "cost_type", "data_to_timesteps", "from_categorical", "mean_absolute_error", "mean_accuracy_score",
    "mean_hellinger", "mean_iou_score", "mean_logcosh", "mean_square_error", "to_categorical",
]  # fmt: skip


def mean_accuracy_score(y_true: Any, y_pred: Any) -> float:
    """The share of equal entries."""
    return float(np.mean(np.equal(y_true, y_pred)))


def mean_square_error(y_true: Any, y_pred: Any) -> float:
    """The mean of (t - y)^2."""
    return float(np.mean(np.square(np.subtract(y_true, y_pred))))


def mean_absolute_error(y_true: Any, y_pred: Any) -> float:
    """The mean of |t - y|."""
    return float(np.mean(np.abs(np.subtract(y_true, y_pred))))


def mean_logcosh(y_true: Any, y_pred: Any) -> float:
    """The mean of log cosh(t - y), which can't overflow."""
    e = np.abs(np.subtract(y_true, y_pred))
    return float(np.mean(e + np.log1p(np.exp(-2 * e)) - np.log(2)))


def mean_hellinger(y_true: Any, y_pred: Any) -> float:
    """The mean of (sqrt(t) - sqrt(y))^2."""
    return float(np.mean(np.square(np.sqrt(y_true) - np.sqrt(y_pred))))


def mean_iou_score(y_true: Any, y_pred: Any) -> float:
    """The mean over the labels that occur in y_true of intersection over union."""
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    pairs = [(y_true == label, y_pred == label) for label in np.unique(y_true)]
    return float(np.mean([np.sum(t & p) / np.sum(t | p) for t, p in pairs]))


class cost_type(IntEnum):
    """What `Cost_layer` can compute."""

    mse = 0
    masked = 1
    mae = 2
    seg = 3
    smooth = 4
    wgan = 5
    hellinger = 6
    hinge = 7
    logcosh = 8


def to_categorical(arr: Any) -> np.ndarray:
    """Class numbers as rows with one 1 (float64)."""
    arr = np.asarray(arr).astype(int)
    if arr.size and arr.min() < 0:
        raise ArgumentError(f"to_categorical: class numbers begin at 0, got {arr.min()}")
    return np.eye(arr.max() + 1 if arr.size else 0)[arr]


def from_categorical(categoricals: Any) -> np.ndarray:
    """The number of the largest entry along the last axis."""
    return np.argmax(categoricals, axis=-1)


def data_to_timesteps(data: Any, steps: int, shift: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Windows (windows, steps, features) over the rows of `data`, and the rows from number `steps` on."""
    data = np.asarray(data)
    rows = data.reshape(len(data), -1)
    starts = np.arange(len(rows) - steps * shift) * shift
    starts = starts[starts + steps <= len(rows)]
    return rows[starts[:, None] + np.arange(steps)], data[steps:]
