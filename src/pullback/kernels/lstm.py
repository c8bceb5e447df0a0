"""The recurrence of an LSTM and its gradient, on the register tile of `gemm`.

What depends on x alone is in `gates` already when these begin, and sums over time (the gradient of U, of the bias) are
products of their own afterwards. Column blocks are i, f, g, o, each `hidden` wide. A block of units is one panel wide.
"""

from ..codegen import VL, T, fma, i64, kernel, maximum, minimum, ptr, vrange
from .recurrent import rows_by_panel
from .vmath import sigmoid, tanh


@kernel
def lstm_step(
    gates: ptr(T), panels: ptr(T), bias: ptr(T), holes: ptr(T), lengths: ptr(i64),
    h_before: ptr(T), c_before: ptr(T), h: ptr(T), c: ptr(T),
    hidden: i64, clip: T, t: i64, row: i64, end: i64, block: i64, last: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, PEEPHOLES: i64, CLIP: i64, BOUNDED: i64,
):  # fmt: skip
    """One step of the examples [row, end) and the blocks of units [block, last).

    gates[b, 4 hidden] holds x W and gets the gates; panels[4, blocks, hidden, NV VL] is U; holes[3, hidden];
    h_before, c_before, h, c are [b, hidden]. Examples whose length isn't above t keep their state; their gates are 0.
    """
    width = NV * VL
    blocks = (hidden + width - 1) // width
    wide = 4 * hidden
    for u in range(block, last):
        at = u * width
        n = min(width, hidden - at)
        for q in range(4):
            panel = panels + (q * blocks + u) * hidden * width
            rows_by_panel(
                h_before + row * hidden, panel, gates + (row * wide + q * hidden + at), end - row, n,
                hidden, hidden, wide, 1, LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL,
            )  # fmt: skip
        b = bias + at
        p = holes + at
        for r in range(row, end):
            g = gates + (r * wide + at)
            h0 = h_before + (r * hidden + at)
            c0 = c_before + (r * hidden + at)
            h1 = h + (r * hidden + at)
            c1 = c + (r * hidden + at)
            live = 1
            if BOUNDED != 0:
                live = 1 if t < lengths[r] else 0
            if live != 0:
                for j in vrange(n):
                    old = c0[j]
                    zi = g[j] + b[j]
                    zf = g[j + hidden] + b[j + hidden]
                    if PEEPHOLES != 0:
                        zi = fma(p[j], old, zi)
                        zf = fma(p[j + hidden], old, zf)
                    i = sigmoid(zi)
                    f = sigmoid(zf)
                    a = tanh(g[j + 2 * hidden] + b[j + 2 * hidden])
                    new = fma(i, a, f * old)
                    if CLIP != 0:
                        new = minimum(clip, maximum(new, -clip))
                    zo = g[j + 3 * hidden] + b[j + 3 * hidden]
                    if PEEPHOLES != 0:
                        zo = fma(p[j + 2 * hidden], new, zo)
                    o = sigmoid(zo)
                    g[j] = i
                    g[j + hidden] = f
                    g[j + 2 * hidden] = a
                    g[j + 3 * hidden] = o
                    c1[j] = new
                    h1[j] = o * tanh(new)
            else:
                for j in vrange(n):
                    g[j] = T(0)
                    g[j + hidden] = T(0)
                    g[j + 2 * hidden] = T(0)
                    g[j + 3 * hidden] = T(0)
                    c1[j] = c0[j]
                    h1[j] = h0[j]


@kernel
def lstm_examples(
    gates: ptr(T), panels: ptr(T), bias: ptr(T), holes: ptr(T), lengths: ptr(i64), h0: ptr(T), c0: ptr(T),
    h: ptr(T), c: ptr(T), hidden: i64, clip: T, steps: i64, batch: i64, reverse: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, PEEPHOLES: i64, CLIP: i64, BOUNDED: i64, lo: i64, hi: i64,
):  # fmt: skip
    """All steps of the examples [lo, hi); arrays as in `lstm_step`, with an axis of `steps` in front."""
    width = NV * VL
    blocks = (hidden + width - 1) // width
    state = batch * hidden
    for s in range(steps):
        t = steps - 1 - s if reverse != 0 else s
        here = t * state
        before = here + state if reverse != 0 else here - state
        lstm_step(
            gates + 4 * here, panels, bias, holes, lengths,
            h0 if s == 0 else h + before, c0 if s == 0 else c + before, h + here, c + here,
            hidden, clip, t, lo, hi, 0, blocks,
            LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL, PEEPHOLES=PEEPHOLES, CLIP=CLIP, BOUNDED=BOUNDED,
        )  # fmt: skip


@kernel
def lstm_units(
    gates: ptr(T), panels: ptr(T), bias: ptr(T), holes: ptr(T), lengths: ptr(i64), h_before: ptr(T), c_before: ptr(T),
    h: ptr(T), c: ptr(T), hidden: i64, clip: T, t: i64, batch: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, PEEPHOLES: i64, CLIP: i64, BOUNDED: i64, lo: i64, hi: i64,
):  # fmt: skip
    """One step of all examples and the blocks of units [lo, hi): `lstm_step`."""
    lstm_step(
        gates, panels, bias, holes, lengths, h_before, c_before, h, c, hidden, clip, t, 0, batch, lo, hi,
        LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL, PEEPHOLES=PEEPHOLES, CLIP=CLIP, BOUNDED=BOUNDED,
    )  # fmt: skip


# --- backward ---------------------------------------------------------------------------------------------------------


@kernel
def lstm_step_back(
    gates: ptr(T), holes: ptr(T), lengths: ptr(i64), c_before: ptr(T), c: ptr(T),
    dh: ptr(T), dc: ptr(T), dgates: ptr(T), h_bar: ptr(T), c_bar: ptr(T), dz: ptr(T),
    hidden: i64, clip: T, t: i64, row: i64, end: i64, at: i64, n: i64,
    PEEPHOLES: i64, CLIP: i64, BOUNDED: i64, DH: i64, DC: i64, DGATES: i64,
):  # fmt: skip
    """The elementwise part of one step back, of the examples [row, end) and the units [at, at + n).

    h_bar and c_bar [b, hidden] hold what later steps sent back, and get what goes on to earlier ones, but for the
    product with U^T, which is added to h_bar (BOUNDED) or replaces it. CLIP: clipped cells stop the gradient. DH, DC,
    DGATES: which of dh, dc [b, hidden] and dgates [b, 4 hidden], the upstream gradients of this step's outputs, aren't
    zero.
    """
    wide = 4 * hidden
    p = holes + at
    for r in range(row, end):
        g = gates + (r * wide + at)
        d = dz + (r * wide + at)
        c0 = c_before + (r * hidden + at)
        c1 = c + (r * hidden + at)
        hb = h_bar + (r * hidden + at)
        cb = c_bar + (r * hidden + at)
        xh = dh + (r * hidden + at)
        xc = dc + (r * hidden + at)
        xg = dgates + (r * wide + at)
        live = 1
        if BOUNDED != 0:
            live = 1 if t < lengths[r] else 0
        if live != 0:
            for j in vrange(n):
                i = g[j]
                f = g[j + hidden]
                a = g[j + 2 * hidden]
                o = g[j + 3 * hidden]
                old = c0[j]
                s = tanh(c1[j])
                eh = hb[j]
                if DH != 0:
                    eh = eh + xh[j]
                zo = eh * s
                if DGATES != 0:
                    zo = zo + xg[j + 3 * hidden]
                zo = zo * (o * (1 - o))
                e = fma(eh, o * (1 - s * s), cb[j])
                if DC != 0:
                    e = e + xc[j]
                if PEEPHOLES != 0:
                    e = fma(p[j + 2 * hidden], zo, e)
                if CLIP != 0:
                    e = 0 if abs(fma(i, a, f * old)) > clip else e
                zi = e * a
                zf = e * old
                za = e * i
                if DGATES != 0:
                    zi = zi + xg[j]
                    zf = zf + xg[j + hidden]
                    za = za + xg[j + 2 * hidden]
                zi = zi * (i * (1 - i))
                zf = zf * (f * (1 - f))
                d[j] = zi
                d[j + hidden] = zf
                d[j + 2 * hidden] = za * (1 - a * a)
                d[j + 3 * hidden] = zo
                back = e * f
                if PEEPHOLES != 0:
                    back = fma(p[j], zi, fma(p[j + hidden], zf, back))
                cb[j] = back
                if BOUNDED != 0:
                    hb[j] = T(0)
        else:
            for j in vrange(n):
                d[j] = T(0)
                d[j + hidden] = T(0)
                d[j + 2 * hidden] = T(0)
                d[j + 3 * hidden] = T(0)
                if DH != 0:
                    hb[j] = hb[j] + xh[j]
                if DC != 0:
                    cb[j] = cb[j] + xc[j]


@kernel
def lstm_examples_back(
    gates: ptr(T), panels: ptr(T), holes: ptr(T), lengths: ptr(i64), c0: ptr(T), c: ptr(T),
    dh: ptr(T), dc: ptr(T), dgates: ptr(T), h_bar: ptr(T), c_bar: ptr(T), dz: ptr(T),
    hidden: i64, clip: T, steps: i64, batch: i64, reverse: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, PEEPHOLES: i64, CLIP: i64, BOUNDED: i64, DH: i64, DC: i64, DGATES: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """All steps back of the examples [lo, hi); arrays as in `lstm_step_back`, with an axis of `steps` in front."""
    width = NV * VL
    state = batch * hidden
    for s in range(steps):
        t = s if reverse != 0 else steps - 1 - s
        here = t * state
        before = here + state if reverse != 0 else here - state
        lstm_step_back(
            gates + 4 * here, holes, lengths, c0 if s == steps - 1 else c + before, c + here,
            dh + here * DH, dc + here * DC, dgates + 4 * here * DGATES, h_bar, c_bar, dz + 4 * here,
            hidden, clip, t, lo, hi, 0, hidden,
            PEEPHOLES=PEEPHOLES, CLIP=CLIP, BOUNDED=BOUNDED, DH=DH, DC=DC, DGATES=DGATES,
        )  # fmt: skip
        for at in range(0, hidden, width):
            rows_by_panel(
                dz + 4 * (here + lo * hidden), panels + at * 4 * hidden, h_bar + (lo * hidden + at),
                hi - lo, min(width, hidden - at), 4 * hidden, 4 * hidden, hidden, BOUNDED,
                LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL,
            )  # fmt: skip


@kernel
def lstm_units_back(
    gates: ptr(T), panels: ptr(T), holes: ptr(T), lengths: ptr(i64), c_before: ptr(T), c: ptr(T),
    dh: ptr(T), dc: ptr(T), dgates: ptr(T), h_bar: ptr(T), c_bar: ptr(T), dz: ptr(T), later: ptr(T),
    hidden: i64, clip: T, t: i64, batch: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, PEEPHOLES: i64, CLIP: i64, BOUNDED: i64, DH: i64, DC: i64, DGATES: i64,
    PRODUCT: i64, STEP: i64, lo: i64, hi: i64,
):  # fmt: skip
    """Of all examples and the blocks of units [lo, hi): the product with `later`, which is dz of the step that was
    walked back before this one (if PRODUCT), then `lstm_step_back` (if STEP)."""
    width = NV * VL
    for u in range(lo, hi):
        at = u * width
        n = min(width, hidden - at)
        if PRODUCT != 0:
            rows_by_panel(
                later, panels + at * 4 * hidden, h_bar + at, batch, n, 4 * hidden, 4 * hidden, hidden, BOUNDED,
                LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL,
            )  # fmt: skip
        if STEP != 0:
            lstm_step_back(
                gates, holes, lengths, c_before, c, dh, dc, dgates, h_bar, c_bar, dz, hidden, clip, t, 0, batch, at, n,
                PEEPHOLES=PEEPHOLES, CLIP=CLIP, BOUNDED=BOUNDED, DH=DH, DC=DC, DGATES=DGATES,
            )  # fmt: skip
