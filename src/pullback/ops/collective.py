"""Reductions across the processes of a group. With one process each is the identity; the rules hold for any number."""

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..errors import ArgumentError
from ..graph import Apply, Op, Variable, as_variable, grad_not_implemented
from .arithmetic import divide, equal, where
from .dtypes import as_tensor
from .elementwise import cast, strong_mul, zeros_like

__all__ = ["all_reduce"]

UFUNCS: dict[str, Callable[..., np.ndarray]] = {
    "sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply,
}  # fmt: skip
_tokens = itertools.count()


class Group(Protocol):
    """Processes (or threads) that call the same collectives in the same order; `member` is the caller's number."""

    size: int
    member: int

    def gather(self, array: np.ndarray) -> list[np.ndarray]:
        """The arrays that all members handed in, by number, the same for everyone."""
        ...


@dataclass(frozen=True)
class SingleProcess:
    """The group of one."""

    size: int = 1
    member: int = 0

    def gather(self, array: np.ndarray) -> list[np.ndarray]:
        return [array]


class ThreadGroup:
    """Members are threads of this process, numbered by `join`: for trying out code that runs over several."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._slots: list[Any] = [None] * size
        self._barrier = threading.Barrier(size)
        self._thread = threading.local()

    def join(self, member: int) -> None:
        """Say which member the calling thread is."""
        self._thread.member = member

    @property
    def member(self) -> int:
        return self._thread.member

    def gather(self, array: np.ndarray) -> list[np.ndarray]:
        self._slots[self.member] = np.array(array)
        self._barrier.wait()
        everything = list(self._slots)
        self._barrier.wait()
        return everything


@dataclass(frozen=True)
class AllReduce(Op):
    """The reduction `how` over what all members of `group` hand in; everyone gets the result.

    `token` keeps two reductions of one value apart: members must call the same number of them in the same order.
    """

    how: str
    group: Any
    token: int = field(default_factory=lambda: next(_tokens))

    formula = "g summed over the members (mean: averaged; prod: times the others; max, min: to the owners)"

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [x.type])

    def perform(self, x):
        arrays = self.group.gather(x)
        wide = [a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays]
        total = wide[0].copy()
        for a in wide[1:]:
            total = UFUNCS[self.how](total, a)
        if self.how == "mean":
            total = total / total.dtype.type(len(arrays))
        return total.astype(x.dtype, copy=False)

    def L_op(self, inputs, outputs, output_grads):
        """The whole cost is the sum of all members' costs, so what arrives is first added up over the group."""
        (x,), (out,) = inputs, outputs
        g = all_reduce(output_grads[0], "sum", self.group)
        if self.how == "sum":
            return [g]
        if self.how == "mean":
            return [divide(g, float(self.group.size))]
        if self.how == "prod":
            return [strong_mul(g, ProductOfOthers(self.group)(x))]
        mine = equal(x, out)
        owners = all_reduce(cast(mine, x.dtype), "sum", self.group)
        return [where(mine, divide(g, owners), zeros_like(g))]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


@dataclass(frozen=True)
class ProductOfOthers(Op):
    """The product of all members' arrays but this one's own: no division, so zeros are safe."""

    group: Any
    token: int = field(default_factory=lambda: next(_tokens))

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [x.type])

    def perform(self, x):
        arrays = self.group.gather(x)
        return product([a for i, a in enumerate(arrays) if i != self.group.member], x)

    def grad(self, inputs, output_grads):
        return [ProductOfOthersGrad(self.group)(output_grads[0], inputs[0])]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


@dataclass(frozen=True)
class ProductOfOthersGrad(Op):
    """Member j gets the sum over the other members m of g_m times the product of all arrays but those of m and j."""

    group: Any
    token: int = field(default_factory=lambda: next(_tokens))

    def make_node(self, g: Any, x: Any) -> Apply:
        g, x = as_variable(g), as_variable(x)
        return Apply(self, [g, x], [x.type])

    def perform(self, g, x):
        grads, arrays, own = self.group.gather(g), self.group.gather(x), self.group.member
        total = np.zeros_like(x)
        for m, upstream in enumerate(grads):
            if m != own:
                total = total + upstream * product([a for i, a in enumerate(arrays) if i not in (m, own)], x)
        return total

    def grad(self, inputs, output_grads):
        why = "the third derivative of a product over processes is not written"
        return [grad_not_implemented(self, i, v, why) for i, v in enumerate(inputs)]

    def infer_shape(self, node, shapes, values):
        return [shapes[1]]


def product(arrays: Sequence[np.ndarray], like: np.ndarray) -> np.ndarray:
    result = np.ones_like(like)
    for a in arrays:
        result = result * a
    return result


def all_reduce(x: Any, op: str = "sum", group: Group | None = None) -> Variable:
    """Reduce `x` elementwise over all members of a group: "sum", "mean", "max", "min" or "prod".

    Args:
        x: an array of the same shape and dtype in every member.
        group: who takes part; this process alone if left out.

    Gradient, where the whole cost is the sum of the members' costs: sum and mean add up what arrives (mean divides by
    the number of members); max and min give it to the owners of the extreme, in equal shares; prod multiplies it with
    the product of the others' values.
    """
    if op not in UFUNCS:
        raise ArgumentError(f"all_reduce: op={op!r}; expected one of {tuple(UFUNCS)}")
    return AllReduce(op, group or SingleProcess())(as_tensor(x))
