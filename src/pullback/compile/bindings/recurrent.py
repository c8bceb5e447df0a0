"""Whole sequences of LSTMs and GRUs in few launches.

The work is cut in one of two ways. If all of U fits a core's cache, each core takes some of the examples and walks
through time on its own, in one launch. Else each step is a launch, cut by blocks of units, so that each core keeps its
own part of U.
"""

from dataclasses import dataclass

import numpy as np

from ... import codegen
from ...control.gru_op import GRU, GRUGrad
from ...control.lstm_op import LSTM, LSTMGrad, LSTMOp
from ...kernels import gemm, gru, lstm
from ..binding import Binding, Declined, binds
from ..buffers import Buffer, constant_buffer
from ..elementwise import launch_copy
from .linear import TYPES

CACHE = 600_000  # bytes of U that stay in a core's cache while it walks through time
ROWS = 14  # examples that make a core's share worth having
STEP = 250_000  # multiply-adds of a step from which on it is worth cutting


@dataclass(frozen=True)
class Recurrence:
    """The sizes of a recurrence, and how its work is cut, which they alone decide."""

    steps: int
    batch: int
    hidden: int
    gates: int
    dtype: str

    @property
    def groups(self) -> int:
        """Into how many groups of examples the work is cut."""
        count = self.batch // ROWS
        return 1 if count < 2 or self.steps * self.work < STEP else min(1 << (count.bit_length() - 1), 32)

    @property
    def by_units(self) -> bool:
        """Whether each step is cut by blocks of units instead."""
        too_large = self.gates * self.hidden**2 * np.dtype(self.dtype).itemsize > CACHE
        return self.blocks > 1 and self.work >= STEP and (too_large or self.groups == 1)

    @property
    def work(self) -> int:
        """Multiply-adds of a step."""
        return self.batch * self.gates * self.hidden**2

    @property
    def blocks(self) -> int:
        return -(-self.hidden // gemm.panel_width(self.dtype))

    def walk(self, reverse: bool) -> list[int]:
        """The steps in the order in which they are taken."""
        return list(range(self.steps - 1, -1, -1) if reverse else range(self.steps))

    def constants(self) -> dict[str, int]:
        """Compile-time constants of tiles over the examples of a group."""
        n, count = self.batch, 1 if self.by_units else self.groups
        rows = {(k + 1) * n // count - k * n // count for k in range(count)}
        tallest = max(gemm.tile_heights(m)[2] for m in rows)
        lowest = min(m // -(-m // tallest) for m in rows)
        tail = -(-(self.hidden % gemm.panel_width(self.dtype)) // codegen.VL)
        return dict(
            T=TYPES[self.dtype], LOW=lowest, HIGH=tallest, NV=gemm.tile_vectors(self.dtype), TAIL=tail
        )  # fmt: skip


def forward_panels(b: Binding, U: Buffer, gates: int) -> Buffer:
    """U as panels[gates, blocks, hidden, width]."""
    U, hidden = b.contiguous(U), U.shape[0]
    width = gemm.panel_width(U.dtype)
    blocks = -(-hidden // width)
    panels = b.scratch((gates, blocks, hidden, width), U.dtype)
    pack = gemm.pack_panels.specialise(T=TYPES[U.dtype], NV=gemm.tile_vectors(U.dtype))
    sizes = hidden, hidden, gates * hidden, hidden, blocks * hidden * width
    b.launch(pack, U, panels, *sizes, n=gates * blocks, chunks=b.chunks(gates * blocks, 4 * panels.size), reads=[U])
    return panels


def backward_panels(b: Binding, U: Buffer) -> Buffer:
    """U^T as panels[blocks, columns, width]."""
    U = b.contiguous(U)
    hidden, columns = U.shape
    width = gemm.panel_width(U.dtype)
    blocks = -(-hidden // width)
    panels = b.scratch((blocks, columns, width), U.dtype)
    pack = gemm.pack_transposed.specialise(T=TYPES[U.dtype], NV=gemm.tile_vectors(U.dtype))
    sizes = hidden, columns, columns, 0, panels.size
    b.launch(pack, U, panels, *sizes, n=blocks, chunks=b.chunks(blocks, 4 * panels.size), reads=[U])
    return panels


def overwritten(b: Binding, j: int, x: Buffer) -> Buffer:
    """Result j, holding a copy of x to begin with: x itself, if nobody needs it afterwards."""
    y = b.output(j, x)
    if y.storage is not x.storage:
        launch_copy(b, x, y)
    return y


def entry(x: Buffer, t: int) -> Buffer:
    """Entry t along the first axis."""
    return x.window(x.shape[1:], x.strides[1:], t * x.strides[0])


def upstream(b: Binding, i: int) -> Buffer | None:
    """Input number i, an upstream gradient, made contiguous; None if it is known to be zero."""
    value = b.values[i]
    if value is not None and not value.any():
        return None
    return b.contiguous(b.inputs[i])


def checked(b: Binding, *inputs: Buffer) -> list[Buffer]:
    if any(x.dtype not in TYPES for x in inputs):
        raise Declined
    return [b.contiguous(x) for x in inputs]


def bounds(b: Binding, bounded: bool) -> Buffer:
    """The lengths, or a number that nobody reads."""
    return b.contiguous(b.inputs[-1]) if bounded else constant_buffer(np.zeros(1, np.int64))


# --- LSTM -------------------------------------------------------------------------------------------------------------


def options(op: LSTMOp) -> dict[str, int]:
    return dict(PEEPHOLES=int(op.peepholes), BOUNDED=int(op.bounded))


@binds(LSTM)
def bind_lstm(node, b: Binding) -> None:
    op: LSTM = node.op
    z, U, bias, h0, c0 = b.inputs[:5]
    U, bias, h0, c0 = checked(b, U, bias, h0, c0)
    r = Recurrence(*z.shape[:2], U.shape[0], 4, z.dtype)
    panels = forward_panels(b, U, 4)
    holes = b.contiguous(b.inputs[5]) if op.peepholes else bias
    lengths = bounds(b, op.bounded)
    h, c, gates = b.output(0), b.output(1), overwritten(b, 2, z)
    constants = dict(r.constants(), **options(op), CLIP=int(op.cell_clip > 0))
    last = r.walk(op.reverse)[-1]
    if not r.by_units:
        kernel = lstm.lstm_examples.specialise(**constants)
        b.launch(
            kernel, gates, panels, bias, holes, lengths, h0, c0, h, c, r.hidden, op.cell_clip, r.steps, r.batch,
            int(op.reverse), n=r.batch, chunks=r.groups,
        )  # fmt: skip
    else:
        kernel = lstm.lstm_units.specialise(**constants)
        state = h0, c0
        for t in r.walk(op.reverse):
            new = entry(h, t), entry(c, t)
            b.launch(
                kernel, entry(gates, t), panels, bias, holes, lengths, *state, *new, r.hidden, op.cell_clip, t, r.batch,
                n=r.blocks, chunks=r.blocks,
            )  # fmt: skip
            state = new
    b.place_output(3, entry(h, last))
    b.place_output(4, entry(c, last))


@binds(LSTMGrad)
def bind_lstm_grad(node, b: Binding) -> None:
    op: LSTMGrad = node.op
    U, c0, c, gates = checked(b, *b.inputs[:4])
    r = Recurrence(*c.shape, 4, c.dtype)
    holes = b.contiguous(b.inputs[9]) if op.peepholes else c0
    lengths = bounds(b, op.bounded)
    given = [upstream(b, i) for i in (4, 5, 6)]
    dz, h_bar, c_bar = b.outputs
    panels = backward_panels(b, U)
    launch_copy(b, b.inputs[7], h_bar)
    launch_copy(b, b.inputs[8], c_bar)
    flags = {name: int(x is not None) for name, x in zip(("DH", "DC", "DGATES"), given)}
    constants = dict(r.constants(), **options(op), **flags, CLIP=int(op.cuts))
    walk = r.walk(op.reverse)[::-1]
    if not r.by_units:
        kernel = lstm.lstm_examples_back.specialise(**constants)
        b.launch(
            kernel, gates, panels, holes, lengths, c0, c, *(c if x is None else x for x in given), h_bar, c_bar, dz,
            r.hidden, op.cell_clip, r.steps, r.batch, int(op.reverse), n=r.batch, chunks=r.groups,
        )  # fmt: skip
        return
    for k in range(r.steps + 1):
        product, step = int(k > 0), int(k < r.steps)
        t = walk[min(k, r.steps - 1)]
        before = entry(c, walk[k + 1]) if k + 1 < r.steps else c0
        kernel = lstm.lstm_units_back.specialise(**constants, PRODUCT=product, STEP=step)
        b.launch(
            kernel, entry(gates, t), panels, holes, lengths, before, entry(c, t),
            *(c if x is None else entry(x, t) for x in given), h_bar, c_bar, entry(dz, t),
            entry(dz, walk[k - 1]) if product else gates, r.hidden, op.cell_clip, t, r.batch,
            n=r.blocks, chunks=r.blocks,
        )  # fmt: skip





# --- GRU --------------------------------------------------------------------------------------------------------------


@binds(GRU)
def bind_gru(node, b: Binding) -> None:
    op: GRU = node.op
    z = b.inputs[0]
    U, bias, recurrent, h0 = checked(b, *b.inputs[1:5])
    r = Recurrence(*z.shape[:2], U.shape[0], 3, z.dtype)
    panels, lengths = forward_panels(b, U, 3), bounds(b, op.bounded)
    h, gates, q = b.output(0), overwritten(b, 1, z), b.output(2)
    constants = dict(r.constants(), BOUNDED=int(op.bounded))
    walk = r.walk(op.reverse)
    if not r.by_units:
        kernel = gru.gru_examples.specialise(**constants)
        b.launch(
            kernel, gates, panels, bias, recurrent, lengths, h0, h, q, r.hidden, r.steps, r.batch, int(op.reverse),
            n=r.batch, chunks=r.groups,
        )  # fmt: skip
    else:
        kernel, before = gru.gru_units.specialise(**constants), h0
        for t in walk:
            new = entry(h, t)
            b.launch(
                kernel, entry(gates, t), panels, bias, recurrent, lengths, before, new, entry(q, t),
                r.hidden, t, r.batch, n=r.blocks, chunks=r.blocks,
            )  # fmt: skip
            before = new
    b.place_output(3, entry(h, walk[-1]))


@binds(GRUGrad)
def bind_gru_grad(node, b: Binding) -> None:
    op: GRUGrad = node.op
    U, h0, h, gates, q = checked(b, *b.inputs[:5])
    r = Recurrence(*h.shape, 3, h.dtype)
    lengths, given = bounds(b, op.bounded), [upstream(b, i) for i in (5, 6, 7)]
    dz, dr, h_bar = b.outputs
    panels = backward_panels(b, U)
    launch_copy(b, b.inputs[8], h_bar)
    flags = {name: int(x is not None) for name, x in zip(("DH", "DGATES", "DQ"), given)}
    constants = dict(r.constants(), **flags, BOUNDED=int(op.bounded))
    walk = r.walk(op.reverse)[::-1]
    if not r.by_units:
        kernel = gru.gru_examples_back.specialise(**constants)
        b.launch(
            kernel, gates, panels, q, lengths, h0, h, *(h if x is None else x for x in given), h_bar, dz, dr,
            r.hidden, r.steps, r.batch, int(op.reverse), n=r.batch, chunks=r.groups,
        )  # fmt: skip
        return
    for k in range(r.steps + 1):
        product, step = int(k > 0), int(k < r.steps)
        t = walk[min(k, r.steps - 1)]
        before = entry(h, walk[k + 1]) if k + 1 < r.steps else h0
        kernel = gru.gru_units_back.specialise(**constants, PRODUCT=product, STEP=step)
        b.launch(
            kernel, entry(gates, t), panels, entry(q, t), lengths, before,
            *(h if x is None else entry(x, t) for x in given), h_bar, entry(dz, t), entry(dr, t),
            entry(dr, walk[k - 1]) if product else gates, r.hidden, t, r.batch, n=r.blocks, chunks=r.blocks,
        )  # fmt: skip
