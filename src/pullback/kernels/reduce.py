"""Reductions over one axis of [outer, length, inner]: along contiguous rows, or down columns.

OP chooses what is reduced: sums in blocks of limited length, so that rounding errors grow with the number of blocks and
not of elements; extremes with NumPy's rule that a NaN wins.
"""

from ..codegen import (
    VL,
    T,
    helper,
    i64,
    kernel,
    maximum,
    minimum,
    ptr,
    regs,
    unroll,
    vec,
    vfull,
    vmax,
    vmin,
    vrange,
    vsum,
)

SUM, MAX, MIN = 0, 1, 2
BLOCK = 256  # vectors, or rows, that are added up before they are added to the total
MOST_BLOCKS = 32  # into which one long reduction is cut


@helper
def start(OP: i64, first: T):
    """What a reduction begins with: nothing for a sum, the first element for an extreme."""
    return T(0) if OP == SUM else first


@helper
def joined(OP: i64, a, b):
    if OP == SUM:
        return a + b
    return maximum(a, b) if OP == MAX else minimum(a, b)


@helper
def across(OP: i64, v):
    if OP == SUM:
        return vsum(v)
    return vmax(v) if OP == MAX else vmin(v)


@kernel(reassoc=True)
def reduce_rows(x: ptr(T), out: ptr(T), length: i64, blocks: i64, OP: i64, lo: i64, hi: i64):
    """out[u]: reduction of block u % blocks of row u // blocks of x[rows, length]; lo, hi: such units."""
    for u in range(lo, hi):
        q = u % blocks
        first = q * length // blocks
        n = (q + 1) * length // blocks - first
        p = x + (u // blocks * length + first)
        result = start(OP, p[0])
        for at in range(0, n, BLOCK * VL):
            m = min(BLOCK * VL, n - at)
            row = p + at
            acc = regs(4, T)
            for j in unroll(4):
                acc[j] = vec(start(OP, p[0]))
            whole = m // (4 * VL) * (4 * VL)
            for i in vfull(0, whole, 4):
                for j in unroll(4):
                    acc[j] = joined(OP, acc[j], row[i + j * VL])
            last = vec(start(OP, p[0]))
            for i in vrange(whole, m):
                last = joined(OP, last, row[i])
            block = across(OP, joined(OP, joined(OP, joined(OP, acc[0], acc[1]), joined(OP, acc[2], acc[3])), last))
            result = joined(OP, result, block)
        out[u] = result


@kernel
def reduce_columns(
    x: ptr(T), out: ptr(T), length: i64, inner: i64, blocks: i64, strips: i64, OP: i64, lo: i64, hi: i64
):
    """out[outer, block, inner]: block q of x[outer, length, inner] reduced; lo, hi: units (outer, block, strip)."""
    for u in range(lo, hi):
        s = u % strips
        q = u // strips % blocks
        o = u // (strips * blocks)
        first = q * length // blocks
        end = (q + 1) * length // blocks
        p = x + o * length * inner
        target = out + (o * blocks + q) * inner
        for c in vrange(s * inner // strips, (s + 1) * inner // strips):
            total = p[c + first * inner] if OP != SUM else vec(T(0))
            for at in range(first, end, BLOCK):
                stop = min(at + BLOCK, end)
                a = vec(T(0))
                b = vec(T(0))
                if OP != SUM:
                    a = p[c + first * inner]
                    b = p[c + first * inner]
                pairs = at + (stop - at) // 2 * 2
                for r in range(at, pairs, 2):
                    a = joined(OP, a, p[c + r * inner])
                    b = joined(OP, b, p[c + (r + 1) * inner])
                if pairs < stop:
                    a = joined(OP, a, p[c + pairs * inner])
                total = joined(OP, total, joined(OP, a, b))
            target[c] = total
