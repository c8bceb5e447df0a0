"""The same meaning in fewer steps."""

from collections.abc import Sequence

from ..graph import Variable


def optimize(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> list[Variable]:
    """Outputs that compute the same with fewer or better steps."""
    return list(outputs)
