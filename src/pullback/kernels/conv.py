"""Direct convolution through the register tile, channels last: forward, the images' gradient and the filters'.

Where things lie is told by tables of offsets, so that one kernel serves one to three dimensions, strides, dilation and
groups. The images' gradient is a forward convolution too (of the output's gradient with turned filters, once for each
phase of the stride), or a product whose rows are added where the windows lay.
"""

from ..codegen import VL, T, dispatch, helper, i64, kernel, ptr, vrange
from .gemm import tile

LINES_TOGETHER = 8  # output lines that share a panel of filters while it is in cache


@kernel
def pad(x: ptr(T), y: ptr(T), lines: ptr(i64), length: i64, left: i64, right: i64, lo: i64, hi: i64):
    """Line q of y: `left` zeros, `length` elements of x from lines[q], `right` zeros; zeros alone if lines[q] < 0."""
    whole = left + length + right
    for q in range(lo, hi):
        target = y + q * whole
        if lines[q] < 0:
            for i in vrange(whole):
                target[i] = T(0)
        else:
            source = x + lines[q]
            for i in vrange(left):
                target[i] = T(0)
            for i in vrange(length):
                target[i + left] = source[i]
            for i in vrange(right):
                target[i + (left + length)] = T(0)


@helper
def panel_tile(
    a, b, c, m: i64, n: i64, r_count: i64, a_r: i64, b_r: i64, k_count: i64, a_m: i64, a_k: i64, b_k: i64, c_m: i64,
    accumulate: i64, LOW: i64, HIGH: i64, NV: i64, TAIL: i64, RAGGED: i64,
):  # fmt: skip
    """The tile of m rows and n columns, where only the last panel has fewer than NV * VL of them, in TAIL vectors."""
    if TAIL != 0:
        if n < NV * VL:
            dispatch(tile, M=m, low=LOW, high=HIGH)(
                a, b, c, r_count, a_r, b_r, k_count, a_m, a_k, b_k, c_m, accumulate, n, NV=TAIL, RAGGED=RAGGED
            )
        else:
            dispatch(tile, M=m, low=LOW, high=HIGH)(
                a, b, c, r_count, a_r, b_r, k_count, a_m, a_k, b_k, c_m, accumulate, n, NV=NV, RAGGED=0
            )
    else:
        dispatch(tile, M=m, low=LOW, high=HIGH)(
            a, b, c, r_count, a_r, b_r, k_count, a_m, a_k, b_k, c_m, accumulate, n, NV=NV, RAGGED=0
        )


@kernel
def convolve(
    x: ptr(T), w: ptr(T), y: ptr(T), lines: ptr(i64), steps: ptr(i64),
    step_count: i64, taps: i64, depth: i64, columns: i64, groups: i64,
    x_column: i64, x_tap: i64, x_group: i64, w_tap: i64, w_k: i64, y_column: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, RAGGED: i64, lo: i64, hi: i64,
):  # fmt: skip
    """y[line, column, k] = sum over steps, taps and depth of x w, for the output lines [lo, hi).

    lines: where each output line begins to read x, where it begins in y, and how many columns it has. steps: where each
    step begins, from there, in x, and in w. A step has `taps` down the filters, and each tap a stretch of x without
    gaps, `depth` long: a filter line of all its channels, or the channels of one place. `columns`: filters of a group.
    """
    panels = (columns + NV * VL - 1) // (NV * VL)
    for first in range(lo, hi, LINES_TOGETHER):
        last = min(first + LINES_TOGETHER, hi)
        for u in range(groups * panels):
            g = u // panels
            k = u % panels * NV * VL
            for line in range(first, last):
                xl = x + (lines[3 * line] + g * x_group)
                yl = y + (lines[3 * line + 1] + g * columns + k)
                width = lines[3 * line + 2]
                tiles = (width + HIGH - 1) // HIGH
                for t in range(tiles):
                    c = t * width // tiles
                    m = (t + 1) * width // tiles - c
                    for s in range(step_count):
                        panel_tile(
                            xl + (c * x_column + steps[2 * s]), w + (steps[2 * s + 1] + g * columns + k),
                            yl + c * y_column, m, min(columns - k, NV * VL), taps, x_tap, w_tap, depth, x_column, 1,
                            w_k, y_column, s, LOW, HIGH, NV, TAIL, RAGGED,
                        )  # fmt: skip


@kernel
def filter_gradient(
    x: ptr(T), g: ptr(T), w: ptr(T), blocks: ptr(i64), taps: ptr(i64),
    block_count: i64, parts: i64, tap_count: i64, depth: i64, columns: i64, groups: i64,
    x_line: i64, x_column: i64, x_group: i64, g_line: i64, g_column: i64, w_k: i64, w_part: i64, tiles: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, RAGGED: i64, lo: i64, hi: i64,
):  # fmt: skip
    """w[part, tap, depth, k] = sum of x g over the lines of the part's blocks.

    blocks: where each begins in x and in g, and how many lines and columns it has; a block stays in cache while all
    taps read it. taps: where each begins, from there, in x, and in w. lo, hi: units (part, group, tap, panel).
    """
    panels = (columns + NV * VL - 1) // (NV * VL)
    per_part = groups * tap_count * panels
    for part in range(lo // per_part, (hi + per_part - 1) // per_part):
        begin = max(lo, part * per_part)
        end = min(hi, (part + 1) * per_part)
        first = part * block_count // parts
        for block in range(first, (part + 1) * block_count // parts):
            xb = x + blocks[4 * block]
            gb = g + blocks[4 * block + 1]
            lines = blocks[4 * block + 2]
            width = blocks[4 * block + 3]
            for u in range(begin, end):
                k = u % panels * NV * VL
                tap = u // panels % tap_count
                group = u // (panels * tap_count) % groups
                xt = xb + (taps[2 * tap] + group * x_group)
                wt = w + (part * w_part + taps[2 * tap + 1] + group * columns + k)
                for t in range(tiles):
                    c = t * depth // tiles
                    m = (t + 1) * depth // tiles - c
                    panel_tile(
                        xt + c, gb + (group * columns + k), wt + c * w_k, m, min(columns - k, NV * VL), lines,
                        x_line, g_line, width, 1, x_column, g_column, w_k, block - first, LOW, HIGH, NV, TAIL, RAGGED,
                    )  # fmt: skip


@kernel
def sum_parts(parts: ptr(T), out: ptr(T), count: i64, size: i64, lo: i64, hi: i64):
    """out = the sum of `count` arrays of `size` elements; lo, hi: elements."""
    for i in vrange(lo, hi):
        total = parts[i]
        for p in range(1, count):
            total += parts[i + p * size]
        out[i] = total


@kernel
def product_windows(
    g: ptr(T), w: ptr(T), x: ptr(T), scratch: ptr(T),
    pixels: i64, depth: i64, columns: i64, w_panel: i64, scratch_size: i64, tiles: i64,
    g_height: i64, g_width: i64, height: i64, width: i64, channels: i64, taps_h: i64, taps_w: i64,
    stride_h: i64, stride_w: i64, step_h: i64, top: i64, left: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, RAGGED: i64, lo: i64, hi: i64, tid: i64,
):  # fmt: skip
    """x = the windows g w (rows of taps_h * taps_w * channels = `columns` elements), each added where it was read.

    w: the transposed filters [depth, columns] in panels; scratch: one image's windows for each thread; lo, hi: images.
    """
    windows = scratch + tid * scratch_size
    for n in range(lo, hi):
        for k in range(0, columns, NV * VL):
            for t in range(tiles):
                first = t * pixels // tiles
                panel_tile(
                    g + (n * pixels + first) * depth, w + k // (NV * VL) * w_panel, windows + (first * columns + k),
                    (t + 1) * pixels // tiles - first, min(columns - k, NV * VL), 1, 0, 0, depth, depth, 1, NV * VL,
                    columns, 0, LOW, HIGH, NV, TAIL, RAGGED,
                )  # fmt: skip
        add_windows(
            windows, x + n * height * width * channels, g_height, g_width, height, width, channels, taps_h, taps_w,
            stride_h, stride_w, step_h, top, left,
        )  # fmt: skip


@kernel
def add_windows(
    windows: ptr(T), x: ptr(T),
    g_height: i64, g_width: i64, height: i64, width: i64, channels: i64, taps_h: i64, taps_w: i64,
    stride_h: i64, stride_w: i64, step_h: i64, top: i64, left: i64,
):  # fmt: skip
    """x = sum of windows[oh, ow, taps_h, taps_w, channels] of one image, each added where it was read."""
    for i in vrange(height * width * channels):
        x[i] = T(0)
    for oh in range(g_height):
        for r in range(taps_h):
            h = oh * stride_h + r * step_h - top
            if h >= 0 and h < height:
                for ow in range(g_width):
                    v = ow * stride_w - left
                    first = max(0, -v)
                    last = min(taps_w, width - v)
                    source = windows + (((oh * g_width + ow) * taps_h + r) * taps_w + first) * channels
                    target = x + (h * width + v + first) * channels
                    for i in vrange((last - first) * channels):
                        target[i] += source[i]
