"""Reductions over one axis of [outer, length, inner]: along contiguous rows, or down columns.

X is the type of the elements, T that in which they are joined. OP chooses how. Sums and products go in blocks of
limited length, so that rounding errors grow with the number of blocks and not of elements; in extremes a NaN wins, as
in NumPy.
"""

from ..codegen import (
    VL,
    T,
    TypeParameter,
    helper,
    i64,
    kernel,
    ld,
    local,
    maximum,
    minimum,
    ptr,
    regs,
    st,
    unroll,
    vec,
    vfull,
    vmax,
    vmin,
    vrange,
    vsum,
    vtrans,
)

X = TypeParameter("X")

SUM, MAX, MIN, PROD, SQUARES, ANY, ALL = range(7)
BLOCK = 256  # vectors that are joined before they are joined to the total
TOGETHER = 8  # rows that are read side by side


@helper
def entered(OP: i64, v: X, like: T) -> T:
    """What an element brings to the reduction."""
    if OP == SQUARES:
        return T(v) * T(v)
    if OP == ANY or OP == ALL:
        return T(v != 0)
    return T(v)


@helper
def start(OP: i64, first: T) -> T:
    """What a reduction begins with: its neutral number, or for an extreme the first element."""
    if OP == SUM or OP == SQUARES or OP == ANY:
        return T(0)
    if OP == PROD or OP == ALL:
        return T(1)
    return first


@helper
def joined(OP: i64, a, b):
    if OP == SUM or OP == SQUARES:
        return a + b
    if OP == PROD:
        return a * b
    return maximum(a, b) if OP == MAX or OP == ANY else minimum(a, b)


@helper
def across(OP: i64, v, like: T) -> T:
    """All lanes joined."""
    if OP == SUM or OP == SQUARES:
        return vsum(v)
    if OP == PROD:
        lanes = local(VL, T)
        st(lanes, v)
        result = lanes[0]
        for j in range(1, VL):
            result = result * lanes[j]
        return result
    return vmax(v) if OP == MAX or OP == ANY else vmin(v)


@kernel
def reduce_rows(x: ptr(X), out: ptr(T), length: i64, blocks: i64, OP: i64, lo: i64, hi: i64):
    """out[u]: reduction of block u % blocks of row u // blocks of x[rows, length]; lo, hi: such units."""
    acc = regs(4, T)
    for u in range(lo, hi):
        first = u % blocks * length // blocks
        end = (u % blocks + 1) * length // blocks
        row = x + u // blocks * length
        neutral = start(OP, T(row[first]))
        result = neutral
        for at in range(first, end, BLOCK * VL):
            stop = min(at + BLOCK * VL, end)
            whole = at + (stop - at) // (4 * VL) * (4 * VL)
            last = vec(neutral)
            for j in unroll(4):
                acc[j] = vec(neutral)
            for i in vfull(at, whole, 4):
                for j in unroll(4):
                    acc[j] = joined(OP, acc[j], entered(OP, row[i + j * VL], neutral))
            for i in vrange(whole, stop):
                last = joined(OP, last, entered(OP, row[i], neutral))
            pairs = joined(OP, joined(OP, acc[0], acc[1]), joined(OP, acc[2], acc[3]))
            result = joined(OP, result, across(OP, joined(OP, pairs, last), neutral))
        out[u] = result


@kernel
def reduce_short_rows(x: ptr(X), out: ptr(T), rows: i64, length: i64, OP: i64, lo: i64, hi: i64):
    """out[r]: row r of x[rows, length] reduced, for lengths up to VL; lo, hi: blocks of VL rows.

    A block is turned in registers, so that nothing is joined across lanes.
    """
    block = regs(VL, T)
    for u in range(lo, hi):
        for i in unroll(VL):
            block[i] = T(ld(x + min(u * VL + i, rows - 1) * length, length))
        vtrans(block)
        result = entered(OP, block[0], T(0))
        for j in unroll(1, VL):
            if j < length:
                result = joined(OP, result, entered(OP, block[j], T(0)))
        st(out + u * VL, result, rows - u * VL)


@kernel
def reduce_columns(
    x: ptr(X), out: ptr(T), length: i64, inner: i64, blocks: i64, strips: i64, OP: i64, lo: i64, hi: i64
):
    """out[outer, block, inner]: each block of x[outer, length, inner] reduced; lo, hi: units (outer, block, strip).

    Memory is walked row after row, some rows together; the results so far wait in `out`.
    """
    for u in range(lo, hi):
        q = u // strips % blocks
        first = q * length // blocks
        end = (q + 1) * length // blocks
        left = u % strips * inner // strips
        right = (u % strips + 1) * inner // strips
        rows = x + u // (strips * blocks) * length * inner
        target = out + u // strips * inner
        for c in vrange(left, right):
            target[c] = start(OP, T(rows[first * inner + c]))
        for r in range(first, end - TOGETHER + 1, TOGETHER):
            row = rows + r * inner
            for c in vrange(left, right):
                so_far = target[c]
                a = entered(OP, row[c], T(0))
                b = entered(OP, row[c + inner], T(0))
                for j in unroll(2, TOGETHER, 2):
                    a = joined(OP, a, entered(OP, row[c + j * inner], T(0)))
                    b = joined(OP, b, entered(OP, row[c + (j + 1) * inner], T(0)))
                target[c] = joined(OP, so_far, joined(OP, a, b))
        for r in range(first + (end - first) // TOGETHER * TOGETHER, end):
            row = rows + r * inner
            for c in vrange(left, right):
                target[c] = joined(OP, target[c], entered(OP, row[c], T(0)))


# --- where the extreme is ---------------------------------------------------------------------------------------------


@helper
def beats(OP: i64, a, b):
    """Whether a comes before b as the extreme, whatever their places: a NaN beats every number."""
    return (a > b if OP == MAX else a < b) or (a != a and b == b)


@kernel
def arg_rows(x: ptr(T), out: ptr(i64), length: i64, OP: i64, lo: i64, hi: i64):
    """out[r]: the place of the first extreme of row r of x[rows, length]."""
    values = local(VL, T)
    places = local(VL, i64)
    for r in range(lo, hi):
        row = x + r * length
        best = vec(row[0])
        place = vec(0)
        for i in vrange(length):
            v = row[i]
            better = beats(OP, v, best)
            place = i if better else place
            best = v if better else best
        st(values, best)
        st(places, place)
        chosen = 0
        for j in range(1, VL):
            other = values[j]
            top = values[chosen]
            tied = other == top or (other != other and top != top)
            if beats(OP, other, top) or (tied and places[j] < places[chosen]):
                chosen = j
        out[r] = places[chosen]


@kernel
def arg_short_rows(x: ptr(T), out: ptr(i64), rows: i64, length: i64, OP: i64, lo: i64, hi: i64):
    """As arg_rows for lengths up to VL; lo, hi: blocks of VL rows, which are turned in registers."""
    block = regs(VL, T)
    for u in range(lo, hi):
        for i in unroll(VL):
            block[i] = ld(x + min(u * VL + i, rows - 1) * length, length)
        vtrans(block)
        best = block[0]
        place = vec(0)
        for j in unroll(1, VL):
            if j < length:
                better = beats(OP, block[j], best)
                place = vec(j) if better else place
                best = block[j] if better else best
        st(out + u * VL, place, rows - u * VL)


@kernel
def arg_columns(x: ptr(T), best: ptr(T), out: ptr(i64), length: i64, inner: i64, OP: i64, lo: i64, hi: i64):
    """out[outer, inner]: where the first extremes down the columns of x[outer, length, inner] are; lo, hi: outer.

    Memory is walked row after row; the extremes so far wait in `best`.
    """
    for u in range(lo, hi):
        rows = x + u * length * inner
        values = best + u * inner
        places = out + u * inner
        for c in vrange(inner):
            values[c] = rows[c]
            places[c] = i64(0)
        for r in range(1, length):
            row = rows + r * inner
            for c in vrange(inner):
                so_far = values[c]
                place = places[c]
                better = beats(OP, row[c], so_far)
                values[c] = row[c] if better else so_far
                places[c] = r if better else place


# --- running sums and products ----------------------------------------------------------------------------------------


@kernel
def running_rows(x: ptr(X), out: ptr(T), length: i64, OP: i64, REVERSE: i64, lo: i64, hi: i64):
    """out[r, i]: the sum (or product) of x[r, 0 ... i], from the other end if REVERSE; lo, hi: rows."""
    for r in range(lo, hi):
        row = x + r * length
        target = out + r * length
        total = start(OP, T(0))
        for k in range(length):
            i = length - 1 - k if REVERSE != 0 else k
            total = joined(OP, total, T(row[i]))
            target[i] = total


@kernel
def running_columns(x: ptr(X), out: ptr(T), length: i64, inner: i64, OP: i64, REVERSE: i64, lo: i64, hi: i64):
    """As running_rows, down the columns of x[outer, length, inner]; lo, hi: outer."""
    for u in range(lo, hi):
        rows = x + u * length * inner
        target = out + u * length * inner
        for c in vrange(inner):
            total = vec(start(OP, T(0)))
            for k in range(length):
                i = length - 1 - k if REVERSE != 0 else k
                total = joined(OP, total, T(rows[c + i * inner]))
                target[c + i * inner] = total


@helper
def next_state(a, b, h):
    """a h + b, where a zero h keeps zero whatever a is."""
    return b if h == 0.0 else a * h + b


@kernel
def recurrence_rows(a: ptr(T), b: ptr(T), out: ptr(T), length: i64, REVERSE: i64, lo: i64, hi: i64):
    """h_i = a_i h_(i-1) + b_i along each row, from h = 0; lo, hi: rows."""
    for r in range(lo, hi):
        first = r * length
        h = T(0)
        for k in range(length):
            i = first + (length - 1 - k if REVERSE != 0 else k)
            h = next_state(a[i], b[i], h)
            out[i] = h


@kernel
def recurrence_columns(a: ptr(T), b: ptr(T), out: ptr(T), length: i64, inner: i64, REVERSE: i64, lo: i64, hi: i64):
    """As recurrence_rows, down the columns of [outer, length, inner]; lo, hi: outer."""
    for u in range(lo, hi):
        first = u * length * inner
        for c in vrange(inner):
            h = vec(T(0))
            for k in range(length):
                i = first + (length - 1 - k if REVERSE != 0 else k) * inner
                h = next_state(a[c + i], b[c + i], h)
                out[c + i] = h
