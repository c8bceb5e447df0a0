"""Binding a graph to concrete shapes: an order of steps, and a buffer for every variable."""

import logging
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from .. import codegen
from ..errors import PullbackError
from ..graph import Apply, ClosedGraph, Constant, SharedVariable, Variable, run_node
from . import bindings as _bindings  # noqa: F401  (fills the table of binders)
from .binding import BINDERS, Binding, Declined, HostCall, Step, touched
from .buffers import Buffer, Storage, constant_buffer, new_buffer, shared_buffer
from .host import optimized

log = logging.getLogger("pullback")
_logged: set[type] = set()
STATIC_LIMIT = 4096  # results up to this many elements are computed while planning, if their inputs are known
FOREVER = 1 << 30


class Planner:
    """Binds nodes one by one and gathers the steps that a `Plan` runs."""

    def __init__(
        self,
        order: Sequence[Apply],
        outputs: Sequence[Variable],
        updates: Mapping[SharedVariable, Variable],
        shapes: Mapping[Variable, tuple[int, ...]],
    ) -> None:
        self.inputs = list(shapes)
        self.threads = codegen.get_threads()
        self.steps: list[Step] = []
        self.buffers: dict[Variable, Buffer] = {}
        self.values: dict[Variable, np.ndarray] = {}
        self.deferred: list[Apply] = []
        self.unknown: set[Variable] = set()
        self.updated = set(updates)
        self.binding_fixed = False  # whether the node being bound reads fixed memory only
        self.targets: dict[Variable, Buffer] = {}
        self.next_values = set(updates.values())
        self.uses: dict[Variable, int] = dict.fromkeys([*outputs, *updates.values()], FOREVER)
        self.storage_uses: dict[Storage, int] = {}
        self.shared: dict[SharedVariable, Buffer] = {}
        self.checked: set[tuple] = set()
        for node in order:
            for i, v in enumerate(node.inputs):
                if i not in node.op.shape_only_inputs:
                    self.uses[v] = self.uses.get(v, 0) + 1
        for i, (v, shape) in enumerate(shapes.items()):
            self.place(v, new_buffer("input", v.type.dtype, shape, i))
        for node in order:
            self.visit(node)

    # --- buffers ------------------------------------------------------------------------------------------------------
    def place(self, v: Variable, buffer: Buffer) -> None:
        self.buffers[v] = buffer
        storage = buffer.storage
        self.storage_uses[storage] = self.storage_uses.get(storage, 0) + self.uses.get(v, 0)

    def buffer(self, v: Variable) -> Buffer:
        """Where `v` lies; constants and shared variables get their place when first met."""
        found = self.buffers.get(v)
        if found is None:
            if isinstance(v, Constant) or v in self.values:
                found = constant_buffer(self.values.get(v) if v in self.values else v.data)
            elif isinstance(v, SharedVariable):
                found = self.shared[v] = shared_buffer(v)
            else:
                raise AssertionError(f"{v!r} has no buffer")
            self.place(v, found)
        return found

    def shape(self, v: Variable) -> tuple[int, ...]:
        if v in self.values:
            return self.values[v].shape
        if isinstance(v, Constant):
            return v.data.shape
        return self.buffer(v).shape

    def value(self, v: Variable) -> np.ndarray | None:
        return v.data if isinstance(v, Constant) else self.values.get(v)

    def can_reuse(self, buffer: Buffer, result: Variable, shape: tuple[int, ...]) -> bool:
        """Whether the node being bound is the last to need all of the memory of `buffer`, and the result fits it.

        The next value of a shared variable gets no used memory: it may be able to go straight over the old value.
        """
        storage = buffer.storage
        return (
            storage.kind == "arena"
            and result not in self.next_values
            and buffer.fills_storage
            and buffer.dtype == result.dtype
            and buffer.shape == shape
            and self.storage_uses[storage] == 0
        )

    def hold(self, buffers: Sequence[Buffer], count: int = 1) -> None:
        """Somebody will read these once more, so that nobody takes their memory; -1 when that is over."""
        for buffer in buffers:
            self.storage_uses[buffer.storage] = self.storage_uses.get(buffer.storage, 0) + count

    def claim(self, buffer: Buffer) -> None:
        self.storage_uses[buffer.storage] = FOREVER  # until the result is placed on it

    def is_fixed(self, buffer: Buffer) -> bool:
        """Whether the contents only change when a shared variable is given another value from outside the plan."""
        storage = buffer.storage
        return storage.kind in ("constant", "kept") or (storage.kind == "shared" and storage.owner not in self.updated)

    def add(self, step: Step, reads: Sequence[Buffer] | None = None) -> None:
        index = len(self.steps)
        step.fixed = self.binding_fixed or (reads is not None and all(map(self.is_fixed, reads)))
        self.steps.append(step)
        for item in touched(step):
            if isinstance(item, Buffer):
                storage = item.storage
                storage.first = index if storage.first < 0 else storage.first
                storage.last = index
                if step.fixed and storage.kind == "arena":
                    storage.kind = "kept"

    # --- nodes --------------------------------------------------------------------------------------------------------
    def visit(self, node: Apply) -> None:
        if any(v in self.unknown for v in node.inputs):
            self.defer(node)
            return
        shapes = [self.shape(v) for v in node.inputs]
        values = [self.value(v) for v in node.inputs]
        try:
            out_shapes = node.op.infer_shape(node, shapes, values)
        except PullbackError as error:
            raise type(error)(f"{error}\n  in {node.op}, {node.origin}") from None
        if self.try_static(node, shapes, values, out_shapes):
            return
        if out_shapes is None:
            self.defer(node)
            return
        out_shapes = [tuple(int(n) for n in s) for s in out_shapes]
        for i, v in enumerate(node.inputs):
            if i not in node.op.shape_only_inputs:
                self.storage_uses[self.buffer(v).storage] -= 1
        if not self.try_view(node, shapes, values):
            self.bind(node, values, out_shapes)

    def defer(self, node: Apply) -> None:
        """Leave a node whose result sizes only running tells, or that needs one, to the next stage."""
        self.deferred.append(node)
        self.unknown.update(node.outputs)
        for v in node.inputs:
            self.uses[v] = FOREVER
            if v in self.buffers:
                self.storage_uses[self.buffers[v].storage] = FOREVER

    def try_static(self, node: Apply, shapes, values, out_shapes) -> bool:
        """Compute now what depends on shapes and constants only."""
        only_shape = node.op.shape_only_inputs
        if any(value is None and i not in only_shape for i, value in enumerate(values)):
            return False
        if not node.op.view_map:
            if out_shapes is None or sum(map(prod, out_shapes)) > STATIC_LIMIT:
                return False
        stand_ins = [
            np.broadcast_to(np.zeros((), v.type.dtype), shape) if value is None else value
            for v, shape, value in zip(node.inputs, shapes, values)
        ]
        for v, array in zip(node.outputs, run_node(node, stand_ins)):
            self.values[v] = array
        return True

    def try_view(self, node: Apply, shapes, values) -> bool:
        """Bind an op that only looks at its input differently (transpose, slice, flip, broadcast) to no step at all.

        Its `perform` runs on a stand-in with the layout of the real buffer; where its results lie tells the strides.
        """
        sources = {node.op.view_map.get(j) for j in range(len(node.outputs))}
        if len(sources) != 1 or None in sources:
            return False
        source = sources.pop()
        only_shape = node.op.shape_only_inputs
        if any(value is None and i not in only_shape for i, value in enumerate(values) if i != source):
            return False
        buffer = self.buffer(node.inputs[source])
        if buffer.size == 0:
            return False
        reach = [(n - 1) * s for n, s in zip(buffer.shape, buffer.strides)]
        first = -sum(r for r in reach if r < 0)  # where the buffer's first element lies among those that it spans
        memory = np.empty(1 + sum(map(abs, reach)), buffer.dtype)
        item = memory.itemsize
        stand_ins = [
            np.broadcast_to(np.zeros((), v.type.dtype), shape) if value is None else value
            for v, shape, value in zip(node.inputs, shapes, values)
        ]
        strides = [s * item for s in buffer.strides]
        stand_ins[source] = np.ndarray(buffer.shape, buffer.dtype, memory, first * item, strides)
        windows = []
        for view in run_node(node, stand_ins):
            offset = codegen.address_of(view) - codegen.address_of(memory)
            inside = 0 <= offset < memory.nbytes and np.may_share_memory(view, memory)
            if view.dtype != memory.dtype or not (inside or view.size == 0):
                return False
            strides = [0 if n == 1 else s // item for n, s in zip(view.shape, view.strides)]
            windows.append(buffer.window(view.shape, strides, offset // item - first if inside else 0))
        for v, window in zip(node.outputs, windows):
            self.place(v, window)
        return True

    def bind(self, node: Apply, values, out_shapes) -> None:
        """Turn a node into steps; what reads nothing but fixed memory is marked, and runs only when that changes."""
        read = [v for i, v in enumerate(node.inputs) if i not in node.op.shape_only_inputs]
        outer = self.binding_fixed
        placed = any(v in self.targets for v in node.outputs)
        self.binding_fixed = not placed and all(self.is_fixed(self.buffer(v)) for v in read)
        try:
            self._bind(node, values, out_shapes)
        finally:
            self.binding_fixed = outer

    def _bind(self, node: Apply, values, out_shapes) -> None:
        binder = BINDERS.get(type(node.op))
        binding = Binding(self, node, [self.buffer(v) for v in node.inputs], values, out_shapes)
        before = len(self.steps)
        if not any(map(prod, out_shapes)):  # nothing to compute
            for v, buffer in zip(node.outputs, binding.outputs):
                self.place(v, buffer)
            return
        if binder is not None and all(buffer.size for buffer in binding.inputs):
            try:
                binder(node, binding)
                for v, buffer in zip(node.outputs, binding.outputs):
                    self.release_claim(buffer)
                    self.place(v, buffer)
                return
            except Declined:
                del self.steps[before:]
        if type(node.op) not in _logged:
            _logged.add(type(node.op))
            log.info("%s has no kernel for %s: it runs its perform", node.op, [str(v.type) for v in node.inputs])
        inputs = tuple(
            buffer if value is None else value for buffer, value in zip(binding.inputs, values)
        )
        self.add(HostCall(node, inputs, tuple(binding.outputs)))
        for v, buffer in zip(node.outputs, binding.outputs):
            self.place(v, buffer)

    def inline(self, graph: ClosedGraph, inputs: Sequence[Buffer], targets: Mapping[int, Buffer]) -> list[Buffer]:
        """Bind a copy of the graph's nodes on the given buffers."""
        graph = optimized(graph, tuple([buffer.shape for buffer in inputs]))
        copy: dict[Variable, Variable] = {v: Variable(v.type, name=v.name) for v in graph.inputs}
        nodes = []
        for node in graph.nodes:
            twin = Apply(node.op, [copy.get(v, v) for v in node.inputs], [v.type for v in node.outputs], node.origin)
            copy.update(zip(node.outputs, twin.outputs))
            nodes.append(twin)
            for i, v in enumerate(twin.inputs):
                if i not in node.op.shape_only_inputs:
                    self.uses[v] = self.uses.get(v, 0) + 1
        outputs = [copy.get(v, v) for v in graph.outputs]
        for v in outputs:  # alive until the caller has taken them over
            self.uses[v] = self.uses.get(v, 0) + 1
        for v, buffer in zip(graph.inputs, inputs):
            self.place(copy[v], buffer)
        made = {v for node in nodes for v in node.outputs}
        self.targets.update((outputs[j], buffer) for j, buffer in targets.items() if outputs[j] in made)
        deferred = len(self.deferred)
        for node in nodes:
            self.visit(node)
        if len(self.deferred) > deferred:
            del self.deferred[deferred:]
            raise Declined
        found = [self.buffer(v) for v in outputs]
        for v, buffer in zip(outputs, found):
            self.storage_uses[buffer.storage] -= 1
            self.targets.pop(v, None)
        return found

    def release_claim(self, buffer: Buffer) -> None:
        if self.storage_uses.get(buffer.storage, 0) >= FOREVER and buffer.storage.kind == "arena":
            self.storage_uses[buffer.storage] = 0
