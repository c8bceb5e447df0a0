"""Where the values of a plan lie: buffers are strided windows of storages, and one arena holds the temporaries."""

import bisect
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from ..graph import SharedVariable, aligned_empty

ALIGNMENT = 64


@dataclass(eq=False)
class Storage:
    """A piece of memory with one owner.

    Attributes:
        kind: "arena" (a temporary), "kept" (a result that only shared variables decide), "input", "constant", "shared",
            "output" (a fresh array at each call) or "pending" (the next value of a shared variable until it is
            committed).
        nbytes: its size.
        owner: what stands behind it: the input's number, the constant's array, the SharedVariable ...
        first, last: steps of its first writing and last reading (temporaries).
        offset: bytes from the start of the arena (or of the kept memory), once laid out.
        slots: places in the plan's argument block that hold an address inside it, each with a byte offset.
    """

    kind: str
    nbytes: int
    owner: Any = None
    first: int = -1
    last: int = -1
    offset: int = 0
    slots: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Buffer:
    """A strided window of a storage: what a variable is inside a plan.

    Attributes:
        dtype: of its elements.
        shape, strides: lengths, and distances in elements (0 where broadcast).
        offset: of the first element, in elements.
    """

    storage: Storage
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Rows follow each other without gaps (axes of length 1 don't matter)."""
        expected = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides)):
            if n != 1 and stride != expected:
                return self.size == 0
            expected *= n
        return True

    @property
    def fills_storage(self) -> bool:
        return self.offset == 0 and self.is_contiguous and self.nbytes == self.storage.nbytes

    def reshaped(self, shape: Sequence[int]) -> "Buffer":
        """The same elements of a contiguous buffer in another shape."""
        return replace(self, shape=tuple(shape), strides=contiguous_strides(shape))

    def window(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> "Buffer":
        """Another view of the same storage; `offset` is counted in elements from this one's first."""
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=self.offset + offset)

    def array(self, base: np.ndarray) -> np.ndarray:
        """This window as an array, where `base` holds the bytes of the storage (1-d uint8, or any contiguous array)."""
        if self.size == 0:
            return np.empty(self.shape, self.dtype)
        item = self.itemsize
        strides = [s * item for s in self.strides]
        return np.ndarray(self.shape, self.dtype, base.reshape(-1).view(np.uint8), self.offset * item, strides)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a C-contiguous array."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def new_buffer(kind: str, dtype: str, shape: Sequence[int], owner: Any = None) -> Buffer:
    """A contiguous buffer with a storage of its own."""
    nbytes = prod(shape) * np.dtype(dtype).itemsize
    return Buffer(Storage(kind, nbytes, owner), dtype, tuple(shape), contiguous_strides(shape))


def constant_buffer(array: np.ndarray) -> Buffer:
    """A buffer on a constant's value; a repeated element (zero strides) is stored once."""
    array = np.asarray(array)
    core = array[tuple(slice(0, 1) if s == 0 else slice(None) for s in array.strides)] if array.size else array
    stored = np.ascontiguousarray(core).reshape(core.shape)
    aligned = aligned_empty(stored.shape, stored.dtype.name)
    aligned[...] = stored
    strides = tuple(0 if s == 0 else c for s, c in zip(array.strides, contiguous_strides(core.shape)))
    return Buffer(Storage("constant", aligned.nbytes, aligned), array.dtype.name, array.shape, strides)


def shared_buffer(shared: SharedVariable) -> Buffer:
    value = shared.storage
    return new_buffer("shared", value.dtype.name, value.shape, shared)


def lay_out(temporaries: Sequence[Storage]) -> int:
    """Give each temporary a place so that those alive at one step don't overlap; returns the arena's size in bytes.

    Storages are placed in the order of their first step, each into the smallest free gap that holds it.
    """
    end = 0
    gaps: list[tuple[int, int]] = []  # (offset, size), by offset
    alive: list[tuple[int, int, int]] = []  # heap of (last step, offset, size)
    for storage in sorted(temporaries, key=lambda s: (s.first, -s.nbytes)):
        while alive and alive[0][0] < storage.first:
            _, offset, size = heapq.heappop(alive)
            _release(gaps, offset, size)
        need = max(-(-storage.nbytes // ALIGNMENT), 1) * ALIGNMENT
        fit = min((g for g in gaps if g[1] >= need), key=lambda g: g[1], default=None)
        if fit is None and gaps and gaps[-1][0] + gaps[-1][1] == end:
            fit = gaps[-1]  # the last gap reaches the end of the arena: lengthen it
        if fit is None:
            storage.offset = end
        else:
            storage.offset = fit[0]
            i = bisect.bisect_left(gaps, fit)
            gaps[i : i + 1] = [(fit[0] + need, fit[1] - need)] if fit[1] > need else []
        end = max(end, storage.offset + need)
        heapq.heappush(alive, (storage.last, storage.offset, need))
    return end


def _release(gaps: list[tuple[int, int]], offset: int, size: int) -> None:
    """Return a piece to the sorted list of gaps, joined with its neighbours."""
    i = bisect.bisect_left(gaps, (offset, size))
    if i < len(gaps) and offset + size == gaps[i][0]:
        size += gaps.pop(i)[1]
    if i > 0 and gaps[i - 1][0] + gaps[i - 1][1] == offset:
        offset, before = gaps.pop(i - 1)
        size += before
        i -= 1
    gaps.insert(i, (offset, size))
