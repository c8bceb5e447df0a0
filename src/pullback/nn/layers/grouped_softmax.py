"""Softmax over parts of a sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from ... import ops
from ...errors import ArgumentError, ShapeError
from ...graph import Variable
from .base import Layer, positive
from .basic import length


@dataclass(frozen=True)
class GroupedSoftmax(Layer):
    """exp(x / temperature), normalised to sum 1 over each part of a sample. Images count in the order (channels,
    height, width), as Darknet has them.

    Args:
        groups: how many equal parts, or the length of each: those of a word tree (Redmon and Farhadi 2017, section 4).
        temperature: a number above 0.
    """

    groups: int | tuple[int, ...] = 1
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.groups, Integral):
            object.__setattr__(self, "groups", tuple(self.groups))
        positive(self, groups=self.groups)
        if not self.temperature > 0:
            raise ArgumentError(f"GroupedSoftmax: temperature={self.temperature}; expected a number above 0")

    def describe(self, x):
        n = length(x)
        if n % self.groups if isinstance(self.groups, Integral) else n != sum(self.groups):
            raise ShapeError(f"{n} numbers can't be cut into groups={self.groups}")
        return x

    def apply(self, parameters, inputs, context):
        x = inputs[0] if self.temperature == 1 else inputs[0] / self.temperature
        if x.ndim != 4:
            return self._over_parts(x)
        height, width, channels = x.type.shape[1:]
        flat = ops.reshape(ops.transpose(x, (0, 3, 1, 2)), (-1, channels * height * width))
        y = ops.reshape(self._over_parts(flat), (-1, channels, height, width))
        return ops.transpose(y, (0, 2, 3, 1))

    def _over_parts(self, x: Variable) -> Variable:
        n = x.type.shape[1]
        if isinstance(self.groups, Integral):
            if self.groups == 1:
                return ops.softmax(x, axis=-1)
            parts = ops.reshape(x, (-1, self.groups, n // self.groups))
            return ops.reshape(ops.softmax(parts, axis=-1), (-1, n))
        return ops.concatenate([ops.softmax(part, axis=-1) for part in cut(x, self.groups)], axis=-1)


def cut(x: Variable, lengths: Sequence[int]) -> list[Variable]:
    """`x` in parts of these lengths along its last axis."""
    parts, start = [], 0
    for n in lengths:
        parts.append(x[..., start : start + n])
        start += n
    return parts
