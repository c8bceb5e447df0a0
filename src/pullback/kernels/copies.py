"""Copies between layouts: blocks turned in registers, and every so many-th element of a row."""

from ..codegen import VL, T, i64, kernel, ld, ptr, regs, st, unroll, vtrans


@kernel
def turn(
    source: ptr(T), target: ptr(T),
    rows: i64, columns: i64, source_column: i64, target_row: i64,
    middle: i64, source_outer: i64, target_outer: i64, source_middle: i64, target_middle: i64,
    band: i64, strip: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """target[outer, middle, r, c] = source[outer, middle, c, r]; c is contiguous in the target, r in the source.

    lo, hi: units (outer, middle, `band` rows, `strip` columns).
    """
    block = regs(VL, T)
    strips = (columns + strip - 1) // strip
    bands = (rows + band - 1) // band
    for unit in range(lo, hi):
        left = unit % strips * strip
        top = unit // strips % bands * band
        m = unit // (strips * bands) % middle
        outer = unit // (strips * bands * middle)
        p = source + (outer * source_outer + m * source_middle)
        q = target + (outer * target_outer + m * target_middle)
        for r in range(top, min(top + band, rows), VL):
            for c in range(left, min(left + strip, columns), VL):
                for j in unroll(VL):
                    if c + j < columns:
                        block[j] = ld(p + ((c + j) * source_column + r), rows - r)
                vtrans(block)
                for i in unroll(VL):
                    if r + i < rows:
                        st(q + ((r + i) * target_row + c), block[i], columns - c)


@kernel
def pick(source: ptr(T), target: ptr(T), length: i64, step: i64, source_row: i64, target_row: i64, lo: i64, hi: i64):
    """target[row, i] = source[row, i * step]; lo, hi: rows. Scalar moves are faster than gathers here."""
    for row in range(lo, hi):
        p = source + row * source_row
        q = target + row * target_row
        for i in range(0, length - 3, 4):
            for j in unroll(4):
                q[i + j] = p[(i + j) * step]
        for i in range(length // 4 * 4, length):
            q[i] = p[i * step]
