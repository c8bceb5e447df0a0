"""How an op becomes kernel launches: the table *Op type -> binder*, and what a binder is given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import Apply, ClosedGraph, Op, Variable
from .buffers import Buffer, new_buffer

if TYPE_CHECKING:
    from .plan import Planner

Binder = Callable[[Apply, "Binding"], None]
BINDERS: dict[type[Op], Binder] = {}


class Declined(Exception):
    """A binder has no kernel for these shapes or dtypes: the op runs its `perform`."""


def binds(*op_types: type[Op]) -> Callable[[Binder], Binder]:
    """Decorator: the function binds nodes of these op types to kernels."""

    def register(binder: Binder) -> Binder:
        for op_type in op_types:
            BINDERS[op_type] = binder
        return binder

    return register


@dataclass(eq=False)
class KernelCall:
    """One record of a plan: a kernel on `n` pieces of work cut into `chunks`, with its arguments in order.

    `in_place` names pairs (output, input) of buffers that the kernel may be given as one: it reads each element of the
    input before it writes the same element of the output.
    """

    node: Apply
    instance: Any
    args: tuple[Any, ...]
    n: int
    chunks: int
    in_place: tuple[tuple[Buffer, Buffer], ...] = ()
    fixed: bool = False  # it reads only constants and shared variables that the plan doesn't update


@dataclass(eq=False)
class HostCall:
    """A step that runs an op's `perform` and copies the results into their buffers."""

    node: Apply
    inputs: tuple[Buffer | np.ndarray, ...]
    outputs: tuple[Buffer, ...]
    fixed: bool = False


@dataclass(eq=False)
class Guard:
    """A step that stops the plan if a kernel before it counted bad values (labels, indices) into `flag`.

    The op's `perform` then runs on the same inputs, and raises the error that names the value.
    """

    node: Apply
    inputs: tuple[Buffer | np.ndarray, ...]
    flag: Buffer
    fixed: bool = False


Step = KernelCall | HostCall | Guard


def touched(step: Step) -> tuple[Any, ...]:
    """Everything that a step reads or writes: buffers, and numbers among them."""
    match step:
        case KernelCall():
            return step.args
        case HostCall():
            return (*step.inputs, *step.outputs)
    return (*step.inputs, step.flag)


class Binding:
    """What a binder sees of the plan while it binds one node.

    Attributes:
        inputs: buffers of the node's inputs (strided windows; see `contiguous`).
        shapes: of the outputs.
        values: the inputs' values where known before running, else None.
        threads: how many threads will share a launch.
    """

    def __init__(
        self, planner: "Planner", node: Apply, inputs: Sequence[Buffer], values: Sequence[Any], shapes: Sequence[Any]
    ) -> None:
        self._planner = planner
        self.node = node
        self.inputs = list(inputs)
        self.values = list(values)
        self.threads = planner.threads
        self.shapes = shapes
        self._outputs: list[Buffer | None] = [None] * len(node.outputs)

    @property
    def outputs(self) -> list[Buffer]:
        """Contiguous buffers for the results, made when first asked for."""
        return [self.output(j) for j in range(len(self._outputs))]

    def place_output(self, j: int, buffer: Buffer) -> None:
        """Let result j be a buffer that is there already."""
        self._outputs[j] = buffer

    def inline(
        self, graph: ClosedGraph, inputs: Sequence[Buffer], targets: Mapping[int, Buffer] | None = None
    ) -> list[Buffer]:
        """Bind the nodes of a graph here, on `inputs`; gives the buffers of its outputs.

        `targets` says, by the output's number, where a result should be written.
        """
        return self._planner.inline(graph, inputs, targets or {})

    def hold(self, buffers: Sequence[Buffer], count: int = 1) -> None:
        """Graphs that are bound here later read these buffers too; -1 when the last of them is at hand."""
        self._planner.hold(buffers, count)

    def output(self, j: int, reuse: Buffer | None = None) -> Buffer:
        """The buffer of result j; with `reuse`, that input's memory if nobody needs it afterwards."""
        if self._outputs[j] is None:
            target = self._planner.targets.get(self.node.outputs[j])
            if target is not None and target.shape == tuple(self.shapes[j]):
                self._outputs[j] = target
            elif reuse is not None and self.can_reuse(reuse, j):
                self._outputs[j] = reuse.reshaped(self.shapes[j])
                self._planner.claim(reuse)
            else:
                self._outputs[j] = new_buffer("arena", self.node.outputs[j].dtype, self.shapes[j])
        return self._outputs[j]

    def is_needed(self, j: int) -> bool:
        """Whether anybody reads result j."""
        return self._planner.uses.get(self.node.outputs[j], 0) > 0

    def can_reuse(self, buffer: Buffer, j: int) -> bool:
        """Whether result j may take the memory of an input: it fits, and nobody needs the input afterwards."""
        return self._planner.can_reuse(buffer, self.node.outputs[j], self.shapes[j])

    def scratch(self, shape: Sequence[int], dtype: str) -> Buffer:
        """Memory for the launches of this node only."""
        return new_buffer("arena", dtype, shape)

    def launch(
        self,
        instance: Any,
        *args: Any,
        n: int = 1,
        chunks: int = 1,
        in_place: Sequence[tuple[Buffer, Buffer]] = (),
        reads: Sequence[Buffer] | None = None,
    ) -> None:
        """Add a record: `instance` (a kernel instance) on `args` (buffers, ints, floats) over range(n) in `chunks`.

        `reads` says what it reads, where that is less than the node's inputs: a launch that reads nothing but constants
        and shared variables (filters to be packed, say) runs again only when one of them has changed.
        """
        self._planner.add(KernelCall(self.node, instance, args, n, max(1, min(chunks, n, 32)), tuple(in_place)), reads)

    def is_fixed(self, buffer: Buffer) -> bool:
        """Whether its contents only change when a shared variable is given another value from outside the plan."""
        return self._planner.is_fixed(buffer)

    def guard(self, flag: Buffer) -> None:
        """Go on only if `flag` (one int64, written by a launch before) is zero; else the op's `perform` raises."""
        inputs = [buffer if value is None else value for buffer, value in zip(self.inputs, self.values)]
        self._planner.add(Guard(self.node, tuple(inputs), flag))

    def is_unchecked(self, v: Variable, *about: Any) -> bool:
        """Whether this is the first time in the plan that it asks this about the values of `v`.

        A binder that is told so launches the check and its guard right away.
        """
        fresh = (v, *about) not in self._planner.checked
        self._planner.checked.add((v, *about))
        return fresh

    def contiguous(self, buffer: Buffer) -> Buffer:
        """`buffer` itself if its elements follow each other, else a copy of it that does."""
        if buffer.is_contiguous:
            return buffer
        copy = self.scratch(buffer.shape, buffer.dtype)
        from .elementwise import launch_copy

        launch_copy(self, buffer, copy, reads=[buffer])
        return copy

    def chunks(self, n: int, work: float) -> int:
        """How many pieces to cut `n` units into, given the whole work in floating-point operations (or elements moved).

        Depends on shapes only, never on the number of threads, so that results don't either.
        """
        return 1 if work < PARALLEL_THRESHOLD or n < 2 else min(n, CHUNKS)


PARALLEL_THRESHOLD = 1_000_000  # below this (some 20 microseconds) a launch on two cores costs more than it saves
CHUNKS = 4
