"""Slices and elements taken by number, put back, or added up where they came from.

Arrays are [outer, rows, inner]; `flat` holds the row that each of `count` indices means, between 0 and `rows`.
"""

from ..codegen import T, TypeParameter, i64, kernel, ptr, vec, vrange, vsum

L = TypeParameter("L")  # type of the indices


@kernel
def flat_index(
    indices: ptr(L), flat: ptr(i64), flag: ptr(i64), length: i64, count: i64, FIRST: i64, WRAP: i64, lo: i64, hi: i64
):
    """flat = flat * length + index (FIRST: = index), and flag += how many indices are out of range; those count as 0.

    WRAP: negative indices count from the end.
    """
    bad = vec(0)
    for i in vrange(count):
        index = i64(indices[i])
        if WRAP != 0:
            index = index + length if index < 0 else index
        wrong = index < 0 or index >= length
        bad += i64(wrong)
        index = 0 if wrong else index
        flat[i] = index if FIRST != 0 else flat[i] * length + index
    flag[0] = vsum(bad) if FIRST != 0 else flag[0] + vsum(bad)


@kernel
def take_rows(x: ptr(T), flat: ptr(i64), out: ptr(T), rows: i64, count: i64, inner: i64, lo: i64, hi: i64):
    """out[o, k] = x[o, flat[k]]; lo, hi: (o, k)."""
    for u in range(lo, hi):
        source = x + (u // count * rows + flat[u % count]) * inner
        target = out + u * inner
        for i in vrange(inner):
            target[i] = source[i]


@kernel
def take_elements(x: ptr(T), flat: ptr(i64), out: ptr(T), rows: i64, count: i64, pieces: i64, lo: i64, hi: i64):
    """out[o, k] = x[o, flat[k]] for single elements; lo, hi: (o, piece of the k)."""
    for u in range(lo, hi):
        piece = u % pieces
        source = x + u // pieces * rows
        target = out + u // pieces * count
        for k in range(piece * count // pieces, (piece + 1) * count // pieces):
            target[k] = source[flat[k]]


@kernel
def set_rows(out: ptr(T), flat: ptr(i64), y: ptr(T), rows: i64, count: i64, inner: i64, lo: i64, hi: i64):
    """out[o, flat[k]] = y[o, k], one k after the other; lo, hi: o."""
    for o in range(lo, hi):
        for k in range(count):
            target = out + (o * rows + flat[k]) * inner
            source = y + (o * count + k) * inner
            for i in vrange(inner):
                target[i] = source[i]


@kernel
def add_rows(
    out: ptr(T), flat: ptr(i64), y: ptr(T), rows: i64, count: i64, inner: i64, strips: i64, lo: i64, hi: i64
):  # fmt: skip
    """out[o, flat[k]] += y[o, k], one k after the other; lo, hi: (o, strip of the columns)."""
    for u in range(lo, hi):
        o = u // strips
        left = u % strips * inner // strips
        right = (u % strips + 1) * inner // strips
        for k in range(count):
            target = out + (o * rows + flat[k]) * inner
            source = y + (o * count + k) * inner
            for i in vrange(left, right):
                target[i] += source[i]


@kernel
def add_elements(out: ptr(T), flat: ptr(i64), y: ptr(T), rows: i64, count: i64, lo: i64, hi: i64):
    """out[o, flat[k]] += y[o, k] for single elements, one k after the other; lo, hi: o."""
    for o in range(lo, hi):
        target = out + o * rows
        source = y + o * count
        for k in range(count):
            target[flat[k]] += source[k]


@kernel
def one_hot(flat: ptr(i64), out: ptr(T), classes: i64, lo: i64, hi: i64):
    """out[k, c] = 1 where c is flat[k], else 0; lo, hi: k."""
    for k in range(lo, hi):
        row = out + k * classes
        for c in vrange(classes):
            row[c] = T(0)
        row[flat[k]] = T(1)
