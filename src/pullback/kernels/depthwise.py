"""Depthwise convolution: each channel has a filter of its own, so that lanes are channels and nothing is a product.

A filter is cut into rows of SPAN taps that lie side by side in the images (1 where dilation sets them apart). Tables
say where things lie: `lines`, for each output line, where it begins to read x, where it begins in y, and its first and
last row (those inside the image); `rows`, for each of them, where it lies in x from there, where in w, and in which
column. Output column j reads the columns start + j STRIDE + column + 0 .. SPAN - 1, which lie in the image where j is
in [inner, outer).
"""

from ..codegen import T, i64, kernel, ptr, regs, unroll, vec, vrange

BLOCK = 4  # output columns that are computed together


@kernel
def convolve(
    x: ptr(T), w: ptr(T), y: ptr(T), lines: ptr(i64), rows: ptr(i64),
    width: i64, inner: i64, outer: i64, start: i64, x_width: i64, channels: i64, w_tap: i64, y_column: i64,
    SPAN: i64, STRIDE: i64, lo: i64, hi: i64,
):  # fmt: skip
    """y[line, column, c] = sum over the taps of x w, for the output lines [lo, hi)."""
    whole = inner + (outer - inner) // BLOCK * BLOCK
    step = STRIDE * channels
    for line in range(lo, hi):
        xl = x + lines[4 * line]
        yl = y + lines[4 * line + 1]
        first = lines[4 * line + 2]
        last = lines[4 * line + 3]
        for j in range(inner, whole, BLOCK):
            for c in vrange(channels):
                acc = regs(BLOCK, T)
                for r in range(first, last):
                    p = xl + (j * step + rows[3 * r])
                    f = w + rows[3 * r + 1]
                    pixel = regs((BLOCK - 1) * STRIDE + SPAN, T)
                    for i in unroll((BLOCK - 1) * STRIDE + SPAN):
                        pixel[i] = p[c + i * channels]
                    for s in unroll(SPAN):
                        tap = f[c + s * w_tap]
                        for i in unroll(BLOCK):
                            acc[i] += pixel[i * STRIDE + s] * tap
                for i in unroll(BLOCK):
                    yl[c + (j + i) * y_column] = acc[i]
        for k in range(inner + width - whole):  # the rest, and the columns at both borders
            column = k if k < inner else whole + k - inner
            for c in vrange(channels):
                total = vec(T(0))
                for r in range(first, last):
                    for s in unroll(SPAN):
                        at = start + column * STRIDE + rows[3 * r + 2] + s
                        if at >= 0 and at < x_width:
                            pixel_at = column * step + rows[3 * r] + s * channels
                            total += xl[c + pixel_at] * w[c + (rows[3 * r + 1] + s * w_tap)]
                yl[c + column * y_column] = total


@kernel
def filter_gradient(
    x: ptr(T), g: ptr(T), w: ptr(T), lines: ptr(i64), rows: ptr(i64),
    line_count: i64, parts: i64, w_part: i64, width: i64, inner: i64, outer: i64, start: i64, x_width: i64,
    channels: i64, w_tap: i64, SPAN: i64, STRIDE: i64, lo: i64, hi: i64,
):  # fmt: skip
    """w[part, tap, c] = sum of x g over the part's lines; lo, hi: parts."""
    whole = inner + (outer - inner) // BLOCK * BLOCK
    step = STRIDE * channels
    for part in range(lo, hi):
        target = w + part * w_part
        for i in vrange(w_part):
            target[i] = T(0)
        for line in range(part * line_count // parts, (part + 1) * line_count // parts):
            xl = x + lines[4 * line]
            gl = g + lines[4 * line + 1]
            first = lines[4 * line + 2]
            last = lines[4 * line + 3]
            for j in range(inner, whole, BLOCK):
                for c in vrange(channels):
                    v = regs(BLOCK, T)
                    for i in unroll(BLOCK):
                        v[i] = gl[c + (j + i) * channels]
                    for r in range(first, last):
                        p = xl + (j * step + rows[3 * r])
                        f = target + rows[3 * r + 1]
                        pixel = regs((BLOCK - 1) * STRIDE + SPAN, T)
                        for i in unroll((BLOCK - 1) * STRIDE + SPAN):
                            pixel[i] = p[c + i * channels]
                        for s in unroll(SPAN):
                            total = vec(T(0))
                            for i in unroll(BLOCK):
                                total += pixel[i * STRIDE + s] * v[i]
                            f[c + s * w_tap] = f[c + s * w_tap] + total
            for k in range(inner + width - whole):  # the rest, and the columns at both borders
                column = k if k < inner else whole + k - inner
                for c in vrange(channels):
                    one = gl[c + column * channels]
                    for r in range(first, last):
                        f = target + rows[3 * r + 1]
                        for s in unroll(SPAN):
                            at = start + column * STRIDE + rows[3 * r + 2] + s
                            if at >= 0 and at < x_width:
                                pixel_at = column * step + rows[3 * r] + s * channels
                                f[c + s * w_tap] = f[c + s * w_tap] + xl[c + pixel_at] * one
