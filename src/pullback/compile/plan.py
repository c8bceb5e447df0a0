"""A plan: the steps of a graph at concrete shapes, with their memory. One native call runs all between host calls."""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import codegen
from ..codegen import address_of
from ..config import config
from ..graph import SharedVariable, Variable, aligned_empty, run_node
from .binding import Guard, HostCall, KernelCall, Step, touched
from .buffers import ALIGNMENT, Buffer, Storage, lay_out
from .host import host_perform
from .planner import FOREVER, Planner


class Workspace:
    """The arena in which plans run, one at a time; it only grows."""

    def __init__(self) -> None:
        self.memory = aligned_empty((0,), "uint8")
        self.address = 0

    def reserve(self, nbytes: int) -> None:
        if self.memory.nbytes < nbytes or not self.address:
            self.memory = aligned_empty((nbytes,), "uint8")
            self.address = address_of(self.memory)


class Plan:
    """Runs `outputs` and `updates` of a graph at one set of input shapes.

    Args:
        planner: what was bound.
        inputs, outputs, updates: as in `Program`; all are bound by the planner.
    """

    flushing = False  # whether the launcher treats subnormal numbers as zero at present

    def __init__(
        self,
        planner: Planner,
        outputs: Sequence[Variable],
        updates: Mapping[SharedVariable, Variable],
    ) -> None:
        self.steps = planner.steps
        self.inputs = [planner.buffers[v].storage for v in planner.inputs]
        self.shared = {s: b.storage for s, b in planner.shared.items()}
        self.untouched = [s for s in self.shared if s not in updates]
        self.seen: dict[SharedVariable, np.ndarray] = {}
        self.fresh: list[tuple[int, Storage, tuple[int, ...], str]] = []  # outputs that a kernel writes directly
        self.copied: list[tuple[int, Buffer]] = []  # outputs that are copied when the steps are done
        self.pending: list[tuple[SharedVariable, Storage]] = []
        self.copied_updates: list[tuple[SharedVariable, Buffer]] = []
        self.aliases: dict[Storage, Storage] = {}
        self.n_outputs = len(outputs)
        self.buffer = planner.buffer
        for i, v in enumerate(outputs):
            self._place_output(i, planner.buffer(v))
        for s, v in updates.items():
            self._place_update(s, planner.shared.get(s), planner.buffer(v))
        self._lay_out()
        self._write_blocks()

    # --- where results go ---------------------------------------------------------------------------------------------
    def _place_output(self, i: int, buffer: Buffer) -> None:
        storage = buffer.storage
        if storage.kind == "arena" and buffer.fills_storage and storage.first >= 0:
            storage.kind = "output"
            self.fresh.append((i, storage, buffer.shape, buffer.dtype))
        else:
            storage.last = FOREVER
            self.copied.append((i, buffer))

    def _place_update(self, s: SharedVariable, old: Buffer | None, new: Buffer) -> None:
        """The next value goes straight over the old one if nobody reads that any more; else it waits for the commit."""
        storage = new.storage
        if old is not None and storage is old.storage and new.fills_storage:
            return
        if storage.kind != "arena" or not new.fills_storage or storage.first < 0:
            storage.last = FOREVER
            self.copied_updates.append((s, new))
        elif old is not None and old.shape == new.shape and self._may_overwrite(old.storage, storage):
            storage.kind = "alias"
            self.aliases[storage] = old.storage
        else:
            storage.kind = "pending"
            self.pending.append((s, storage))

    def _may_overwrite(self, old: Storage, new: Storage) -> bool:
        first = new.first
        if old.last > first or not all(isinstance(step, KernelCall) for step in self.steps[first:]):
            return False  # a host call or guard may fail, and then nothing may have changed
        if old.last < first:
            return True
        step = self.steps[first]
        touching = [a for a in step.args if isinstance(a, Buffer) and a.storage is old]
        safe = [i for o, i in step.in_place if o.storage is new and i.storage is old]
        return all(any(a is i for i in safe) for a in touching)

    def _lay_out(self) -> None:
        arena: dict[Storage, None] = {}
        kept: dict[Storage, None] = {}
        for step in self.steps:
            for item in touched(step):
                if isinstance(item, Buffer) and item.storage.kind in ("arena", "kept"):
                    (arena if item.storage.kind == "arena" else kept)[item.storage] = None
        self.arena_size = lay_out(list(arena))
        size = 0
        for storage in kept:
            storage.offset = size
            size += -(-storage.nbytes // ALIGNMENT) * ALIGNMENT
        self.kept_memory = aligned_empty((size,), "uint8")

    # --- argument blocks ----------------------------------------------------------------------------------------------
    def _write_blocks(self) -> None:
        ordered = sorted(self.steps, key=lambda step: not step.fixed)
        launches = [step for step in ordered if isinstance(step, KernelCall) and step.n > 0]
        addresses = codegen.link({step.instance for step in launches})
        starts, total = [], 0
        for step in launches:
            starts.append(total)
            total += max(len(step.args), 1)
        self.block = np.zeros(max(total, 1), np.int64)
        self.table = np.zeros((max(len(launches), 1), 5), np.int64)
        base = address_of(self.block)
        arena_slots: list[int] = []
        for row, (step, start) in enumerate(zip(launches, starts)):
            parameters = step.instance.arguments
            if len(parameters) != len(step.args):
                raise AssertionError(f"{step.instance.name} takes {len(parameters)} arguments, got {len(step.args)}")
            for slot, (parameter, value) in enumerate(zip(parameters, step.args), start):
                if isinstance(value, Buffer):
                    self._point(slot, value, arena_slots)
                else:
                    self.block[slot] = _bits(value, parameter.type)
            self.table[row] = addresses[step.instance], base + 8 * start, step.n, step.chunks, 0
        self.arena_slots = np.array(arena_slots, np.intp)
        self.arena_base = 0
        self.prologue = self._segments([step for step in ordered if step.fixed], 0)
        self.segments = self._segments(
            [step for step in ordered if not step.fixed], sum(step.fixed for step in launches)
        )
        self.prepared: tuple[int, ...] | None = None  # versions of the shared variables when the prologue last ran

    def _point(self, slot: int, buffer: Buffer, arena_slots: list[int]) -> None:
        storage = self.aliases.get(buffer.storage, buffer.storage)
        offset = buffer.offset * buffer.itemsize
        if storage.kind == "constant":
            self.block[slot] = address_of(storage.owner) + offset
        elif storage.kind == "kept":
            self.block[slot] = address_of(self.kept_memory) + storage.offset + offset
        elif storage.kind == "arena":
            self.block[slot] = storage.offset + offset
            arena_slots.append(slot)
        else:
            storage.slots.append((slot, offset))

    def _segments(self, steps: Sequence[Step], row: int) -> list[Any]:
        """Stretches of native records from table row `row` on, with host calls and guards between them."""
        segments: list[Any] = []
        for step in steps:
            if not isinstance(step, KernelCall):
                segments.append(step)
            elif step.n > 0:
                if segments and isinstance(segments[-1], list):
                    segments[-1][1] += 1
                else:
                    segments.append([row, 1])
                row += 1
        return [codegen.Launch(self.table[s[0] : s[0] + s[1]]) if isinstance(s, list) else s for s in segments]

    # --- running ------------------------------------------------------------------------------------------------------
    def run(self, arrays: Sequence[np.ndarray], workspace: Workspace) -> list[np.ndarray]:
        """Compute. Results are fresh arrays; updates are committed when all steps are done."""
        block = self.block
        if config.flush_denormals is not Plan.flushing:
            codegen.set_flush_denormals(config.flush_denormals)
            Plan.flushing = config.flush_denormals
        workspace.reserve(self.arena_size)
        if workspace.address != self.arena_base:
            block[self.arena_slots] += workspace.address - self.arena_base
            self.arena_base = workspace.address
        kept = [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in arrays]
        for storage, array in zip(self.inputs, kept):
            _patch(block, storage, array)
        for s, storage in self.shared.items():
            value = s.storage
            if self.seen.get(s) is not value:
                self.seen[s] = value
                _patch(block, storage, value)
        results: list[Any] = [None] * self.n_outputs
        targets: dict[Storage, np.ndarray] = {}
        for i, storage, shape, dtype in self.fresh:
            results[i] = targets[storage] = array = np.empty(shape, dtype)
            _patch(block, storage, array)
        for s, storage in self.pending:
            targets[storage] = array = aligned_empty(s.storage.shape, s.type.dtype)
            _patch(block, storage, array)
        if self.prologue:
            versions = tuple([s.version for s in self.untouched])
            if versions != self.prepared:
                self._run_segments(self.prologue, kept, targets, workspace)
                self.prepared = versions
        self._run_segments(self.segments, kept, targets, workspace)
        for i, buffer in self.copied:
            results[i] = np.array(self._array(buffer, kept, targets, workspace), order="C")
        self._commit(kept, targets, workspace)
        return results

    def _run_segments(self, segments: Sequence[Any], kept, targets, workspace) -> None:
        for segment in segments:
            match segment:
                case HostCall():
                    self._host_call(segment, kept, targets, workspace)
                case Guard():
                    self._check(segment, kept, targets, workspace)
                case _:
                    segment()

    def _commit(self, kept, targets, workspace) -> None:
        copies = [(s, np.array(self._array(b, kept, targets, workspace))) for s, b in self.copied_updates]
        for storage in self.aliases.values():
            storage.owner.version += 1
        for s, storage in self.pending:
            s.replace_storage(targets[storage])
        for s, array in copies:
            s.set_value(array)

    def _host_call(self, step: HostCall, kept, targets, workspace) -> None:
        inputs = [self._array(x, kept, targets, workspace) if isinstance(x, Buffer) else x for x in step.inputs]
        results = run_node(step.node, inputs, host_perform(step.node.op))
        for buffer, result in zip(step.outputs, results):
            self._array(buffer, kept, targets, workspace)[...] = result

    def _check(self, step: Guard, kept, targets, workspace) -> None:
        storage = step.flag.storage
        base = workspace.address if storage.kind == "arena" else address_of(self.kept_memory)
        if ctypes.c_int64.from_address(base + storage.offset).value:  # an array on it would take microseconds to make
            inputs = [self._array(x, kept, targets, workspace) if isinstance(x, Buffer) else x for x in step.inputs]
            run_node(step.node, inputs)
            raise AssertionError(f"{step.node.op}: the kernel counted bad values where its perform accepts all")

    def _array(self, buffer: Buffer, kept, targets, workspace) -> np.ndarray:
        """The buffer's present contents, as an array on its memory."""
        storage = self.aliases.get(buffer.storage, buffer.storage)
        match storage.kind:
            case "arena":
                base = workspace.memory[storage.offset : storage.offset + storage.nbytes]
            case "kept":
                base = self.kept_memory[storage.offset : storage.offset + storage.nbytes]
            case "input":
                base = kept[storage.owner]
            case "shared":
                base = storage.owner.storage
            case "constant":
                base = storage.owner
            case _:
                base = targets[storage]
        return buffer.array(base)


def _patch(block: np.ndarray, storage: Storage, array: np.ndarray) -> None:
    """Write the address of `array` wherever a kernel's argument points into `storage`."""
    if storage.slots:
        address = array.__array_interface__["data"][0]
        for slot, offset in storage.slots:
            block[slot] = address + offset


def _bits(value: Any, kind: Any) -> int:
    """A number as it lies in an argument slot."""
    if kind.is_float:
        code = {16: "<e", 32: "<f", 64: "<d"}[kind.bits]
        return int.from_bytes(struct.pack(code, float(value)), "little", signed=kind.bits == 64)
    return int(value)
