"""The three forks of Darknet: pjreddie, AlexeyAB and hank-ai. Their files look alike and mean different things."""

from dataclasses import dataclass

from ..errors import UnknownNameError, nearest
from ..nn.layers.normalization import BatchStatistics

ROLLING = 0.99  # of the old average


@dataclass(frozen=True)
class Dialect:
    """What a fork means by a file.

    Attributes:
        name: "pjreddie", "alexeyab" or "hank".
        statistics: of all batch normalisation.
        batchnorm_bias: whether a [batchnorm] section stores biases in a weights file.
        gru_gates: the order of a [gru]'s parts in a weights file, as (recurrent or input, gate).
        lstm_gates: the same of an [lstm].
        resamples: whether a shortcut takes layers of other height and width; else only of other channels.
        revision: of the weights files that it writes, (major, minor, revision).
    """

    name: str
    statistics: BatchStatistics
    batchnorm_bias: bool
    gru_gates: tuple[str, ...]
    lstm_gates: tuple[str, ...]
    resamples: bool
    revision: tuple[int, int, int]


PJREDDIE = Dialect(
    "pjreddie",
    BatchStatistics(1e-6, ROLLING, epsilon_outside=True, unbiased=True),
    batchnorm_bias=False,
    gru_gates=("state_z", "state_r", "state_h", "input_z", "input_r", "input_h"),
    lstm_gates=("state_i", "state_f", "state_o", "state_g", "input_i", "input_f", "input_o", "input_g"),
    resamples=True,
    revision=(0, 2, 0),
)
ALEXEYAB = Dialect(
    "alexeyab",
    BatchStatistics(1e-5, ROLLING, unbiased=True),
    batchnorm_bias=True,
    gru_gates=("input_z", "input_r", "input_h", "state_z", "state_r", "state_h"),
    lstm_gates=("state_f", "state_i", "state_g", "state_o", "input_f", "input_i", "input_g", "input_o"),
    resamples=False,
    revision=(0, 2, 5),
)
HANK = Dialect(
    "hank",
    ALEXEYAB.statistics,
    ALEXEYAB.batchnorm_bias,
    ALEXEYAB.gru_gates,
    ALEXEYAB.lstm_gates,
    ALEXEYAB.resamples,
    ALEXEYAB.revision,
)
DIALECTS = {dialect.name: dialect for dialect in (PJREDDIE, ALEXEYAB, HANK)}


def dialect_of(name: str | Dialect) -> Dialect:
    """The fork of that name."""
    if isinstance(name, Dialect):
        return name
    if name not in DIALECTS:
        raise UnknownNameError(f"unknown dialect {name!r}. {nearest(name, DIALECTS)}")
    return DIALECTS[name]
