"""The recurrence of a GRU and its gradient, on the register tile of `gemm`; the reset gate comes after the product.

As in `lstm`, what depends on x alone is there already, and sums over time are products of their own afterwards. Column
blocks are z, r, n, each `hidden` wide. A block of units is one panel wide.
"""

from ..codegen import VL, T, fma, i64, kernel, ptr, vrange
from .recurrent import rows_by_panel
from .vmath import sigmoid, tanh


@kernel
def gru_step(
    gates: ptr(T), panels: ptr(T), bias: ptr(T), recurrent: ptr(T), lengths: ptr(i64),
    h_before: ptr(T), h: ptr(T), q: ptr(T),
    hidden: i64, t: i64, row: i64, end: i64, block: i64, last: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, BOUNDED: i64,
):  # fmt: skip
    """One step of the examples [row, end) and the blocks of units [block, last).

    gates[b, 3 hidden] holds x W and gets the gates; panels[3, blocks, hidden, NV VL] is U; bias, recurrent [3 hidden];
    h_before, h, q are [b, hidden]. Examples whose length isn't above t keep their state; their gates and q are 0.
    """
    width = NV * VL
    blocks = (hidden + width - 1) // width
    wide = 3 * hidden
    for u in range(block, last):
        at = u * width
        n = min(width, hidden - at)
        source = h_before + row * hidden
        for k in range(2):
            rows_by_panel(
                source, panels + (k * blocks + u) * hidden * width, gates + (row * wide + k * hidden + at),
                end - row, n, hidden, hidden, wide, 1, LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL,
            )  # fmt: skip
        rows_by_panel(
            source, panels + (2 * blocks + u) * hidden * width, q + (row * hidden + at), end - row, n,
            hidden, hidden, hidden, 0, LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL,
        )  # fmt: skip
        b = bias + at
        rb = recurrent + at
        for m in range(row, end):
            g = gates + (m * wide + at)
            h0 = h_before + (m * hidden + at)
            h1 = h + (m * hidden + at)
            p = q + (m * hidden + at)
            live = 1
            if BOUNDED != 0:
                live = 1 if t < lengths[m] else 0
            if live != 0:
                for j in vrange(n):
                    z = sigmoid(g[j] + (b[j] + rb[j]))
                    r = sigmoid(g[j + hidden] + (b[j + hidden] + rb[j + hidden]))
                    s = p[j] + rb[j + 2 * hidden]
                    a = tanh(fma(r, s, g[j + 2 * hidden] + b[j + 2 * hidden]))
                    g[j] = z
                    g[j + hidden] = r
                    g[j + 2 * hidden] = a
                    p[j] = s
                    h1[j] = fma(z, h0[j] - a, a)
            else:
                for j in vrange(n):
                    g[j] = T(0)
                    g[j + hidden] = T(0)
                    g[j + 2 * hidden] = T(0)
                    p[j] = T(0)
                    h1[j] = h0[j]


@kernel
def gru_examples(
    gates: ptr(T), panels: ptr(T), bias: ptr(T), recurrent: ptr(T), lengths: ptr(i64), h0: ptr(T), h: ptr(T), q: ptr(T),
    hidden: i64, steps: i64, batch: i64, reverse: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, BOUNDED: i64, lo: i64, hi: i64,
):  # fmt: skip
    """All steps of the examples [lo, hi); arrays as in `gru_step`, with an axis of `steps` in front."""
    width = NV * VL
    blocks = (hidden + width - 1) // width
    state = batch * hidden
    for s in range(steps):
        t = steps - 1 - s if reverse != 0 else s
        here = t * state
        before = here + state if reverse != 0 else here - state
        gru_step(
            gates + 3 * here, panels, bias, recurrent, lengths, h0 if s == 0 else h + before, h + here, q + here,
            hidden, t, lo, hi, 0, blocks, LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL, BOUNDED=BOUNDED,
        )  # fmt: skip


@kernel
def gru_units(
    gates: ptr(T), panels: ptr(T), bias: ptr(T), recurrent: ptr(T), lengths: ptr(i64), h_before: ptr(T), h: ptr(T),
    q: ptr(T), hidden: i64, t: i64, batch: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, BOUNDED: i64, lo: i64, hi: i64,
):  # fmt: skip
    """One step of all examples and the blocks of units [lo, hi): `gru_step`."""
    gru_step(
        gates, panels, bias, recurrent, lengths, h_before, h, q, hidden, t, 0, batch, lo, hi,
        LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL, BOUNDED=BOUNDED,
    )  # fmt: skip


# --- backward ---------------------------------------------------------------------------------------------------------


@kernel
def gru_step_back(
    gates: ptr(T), q: ptr(T), lengths: ptr(i64), h_before: ptr(T), dh: ptr(T), dgates: ptr(T), dq: ptr(T),
    h_bar: ptr(T), dz: ptr(T), dr: ptr(T), hidden: i64, t: i64, row: i64, end: i64, at: i64, n: i64,
    BOUNDED: i64, DH: i64, DGATES: i64, DQ: i64,
):  # fmt: skip
    """The elementwise part of one step back, of the examples [row, end) and the units [at, at + n).

    h_bar [b, hidden] holds what later steps sent back, and gets what goes on to earlier ones, but for the product of dr
    with U^T, which is to be added. DH, DGATES, DQ: which of the upstream gradients of this step's outputs, dh, dq
    [b, hidden] and dgates [b, 3 hidden], aren't zero.
    """
    wide = 3 * hidden
    for m in range(row, end):
        g = gates + (m * wide + at)
        x = dz + (m * wide + at)
        y = dr + (m * wide + at)
        h0 = h_before + (m * hidden + at)
        p = q + (m * hidden + at)
        hb = h_bar + (m * hidden + at)
        xh = dh + (m * hidden + at)
        xg = dgates + (m * wide + at)
        xq = dq + (m * hidden + at)
        live = 1
        if BOUNDED != 0:
            live = 1 if t < lengths[m] else 0
        if live != 0:
            for j in vrange(n):
                z = g[j]
                r = g[j + hidden]
                a = g[j + 2 * hidden]
                e = hb[j]
                if DH != 0:
                    e = e + xh[j]
                ez = e * (h0[j] - a)
                ea = e * (1 - z)
                if DGATES != 0:
                    ez = ez + xg[j]
                    ea = ea + xg[j + 2 * hidden]
                ez = ez * (z * (1 - z))
                ea = ea * (1 - a * a)
                er = ea * p[j]
                eq = ea * r
                if DGATES != 0:
                    er = er + xg[j + hidden]
                if DQ != 0:
                    eq = eq + xq[j]
                er = er * (r * (1 - r))
                x[j] = ez
                x[j + hidden] = er
                x[j + 2 * hidden] = ea
                y[j] = ez
                y[j + hidden] = er
                y[j + 2 * hidden] = eq
                hb[j] = e * z
        else:
            for j in vrange(n):
                x[j] = T(0)
                x[j + hidden] = T(0)
                x[j + 2 * hidden] = T(0)
                y[j] = T(0)
                y[j + hidden] = T(0)
                y[j + 2 * hidden] = T(0)
                if DH != 0:
                    hb[j] = hb[j] + xh[j]


@kernel
def gru_examples_back(
    gates: ptr(T), panels: ptr(T), q: ptr(T), lengths: ptr(i64), h0: ptr(T), h: ptr(T),
    dh: ptr(T), dgates: ptr(T), dq: ptr(T), h_bar: ptr(T), dz: ptr(T), dr: ptr(T),
    hidden: i64, steps: i64, batch: i64, reverse: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, BOUNDED: i64, DH: i64, DGATES: i64, DQ: i64, lo: i64, hi: i64,
):  # fmt: skip
    """All steps back of the examples [lo, hi); arrays as in `gru_step_back`, with an axis of `steps` in front; U^T is
    panels[blocks, 3 hidden, NV VL]."""
    width = NV * VL
    wide = 3 * hidden
    state = batch * hidden
    for s in range(steps):
        t = s if reverse != 0 else steps - 1 - s
        here = t * state
        before = here + state if reverse != 0 else here - state
        gru_step_back(
            gates + 3 * here, q + here, lengths, h0 if s == steps - 1 else h + before,
            dh + here * DH, dgates + 3 * here * DGATES, dq + here * DQ, h_bar, dz + 3 * here, dr + 3 * here,
            hidden, t, lo, hi, 0, hidden, BOUNDED=BOUNDED, DH=DH, DGATES=DGATES, DQ=DQ,
        )  # fmt: skip
        for at in range(0, hidden, width):
            rows_by_panel(
                dr + (3 * here + lo * wide), panels + at * wide, h_bar + (lo * hidden + at), hi - lo,
                min(width, hidden - at), wide, wide, hidden, 1, LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL,
            )  # fmt: skip


@kernel
def gru_units_back(
    gates: ptr(T), panels: ptr(T), q: ptr(T), lengths: ptr(i64), h_before: ptr(T),
    dh: ptr(T), dgates: ptr(T), dq: ptr(T), h_bar: ptr(T), dz: ptr(T), dr: ptr(T), later: ptr(T),
    hidden: i64, t: i64, batch: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, BOUNDED: i64, DH: i64, DGATES: i64, DQ: i64, PRODUCT: i64, STEP: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """Of all examples and the blocks of units [lo, hi): the product with `later`, which is dr of the step that was
    walked back before this one (if PRODUCT), then `gru_step_back` (if STEP)."""
    width = NV * VL
    wide = 3 * hidden
    for u in range(lo, hi):
        at = u * width
        n = min(width, hidden - at)
        if PRODUCT != 0:
            rows_by_panel(
                later, panels + at * wide, h_bar + at, batch, n, wide, wide, hidden, 1,
                LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL,
            )  # fmt: skip
        if STEP != 0:
            gru_step_back(
                gates, q, lengths, h_before, dh, dgates, dq, h_bar, dz, dr, hidden, t, 0, batch, at, n,
                BOUNDED=BOUNDED, DH=DH, DGATES=DGATES, DQ=DQ,
            )  # fmt: skip
