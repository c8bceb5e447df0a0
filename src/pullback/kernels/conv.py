"""Direct convolution through the register tile, images last-axis-channels: forward, and the filters' gradient.

The images' gradient is a forward convolution too: of the output's gradient with turned filters (stride 1), or a product
with the transposed filters whose rows are added where the windows lay (any stride).
"""

from ..codegen import VL, T, dispatch, i64, kernel, ptr, vrange
from .gemm import tile

ROWS_TOGETHER = 8  # output rows that share a panel of filters while it is in cache


@kernel
def pad(x: ptr(T), y: ptr(T), height: i64, row: i64, top: i64, bottom: i64, left: i64, right: i64, lo: i64, hi: i64):
    """y[n] = x[n] with zero borders; `row`, `left`, `right` count elements (columns times channels); lo, hi: images."""
    width = left + row + right
    for n in range(lo, hi):
        p = x + n * height * row
        q = y + n * (top + height + bottom) * width
        for i in vrange(top * width):
            q[i] = T(0)
        for h in range(height):
            line = q + (top + h) * width
            for i in vrange(left):
                line[i] = T(0)
            for i in vrange(row):
                line[i + left] = p[i + h * row]
            for i in vrange(right):
                line[i + (left + row)] = T(0)
        last = q + (top + height) * width
        for i in vrange(bottom * width):
            last[i] = T(0)


@kernel
def convolve(
    x: ptr(T), w: ptr(T), y: ptr(T),
    y_height: i64, y_width: i64, columns: i64, groups: i64, steps: i64, taps: i64, depth: i64,
    x_image: i64, x_row: i64, x_column: i64, x_step: i64, x_tap: i64, x_group: i64,
    w_step: i64, w_tap: i64, w_k: i64, tiles: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """y[row, column, k] = sum over steps, taps, depth of x w, for output rows [lo, hi) of all images.

    A tap is one step down the filter; `depth` runs along a stretch of x without gaps: a filter row of all its channels,
    or, where columns or groups lie apart, the channels of one of `steps` columns. `columns`: filters of one group.
    """
    width = NV * VL
    panels = columns // width
    whole = panels + 1 if TAIL != 0 else panels
    y_pixel = groups * columns
    for first in range(lo, hi, ROWS_TOGETHER):
        last = min(first + ROWS_TOGETHER, hi)
        for g in range(groups):
            for p in range(whole):
                for row in range(first, last):
                    xr = x + (row // y_height * x_image + row % y_height * x_row + g * x_group)
                    yr = y + (row * y_width * y_pixel + g * columns + p * width)
                    for t in range(tiles):
                        c0 = t * y_width // tiles
                        height = (t + 1) * y_width // tiles - c0
                        for s in range(steps):
                            a = xr + (c0 * x_column + s * x_step)
                            b = w + (s * w_step + g * columns + p * width)
                            c = yr + c0 * y_pixel
                            if TAIL != 0:
                                if p == panels:
                                    dispatch(tile, M=height, low=LOW, high=HIGH)(
                                        a, b, c, taps, x_tap, w_tap, depth, x_column, 1, w_k, y_pixel, s,
                                        columns - p * width, NV=TAIL, RAGGED=1,
                                    )  # fmt: skip
                                else:
                                    dispatch(tile, M=height, low=LOW, high=HIGH)(
                                        a, b, c, taps, x_tap, w_tap, depth, x_column, 1, w_k, y_pixel, s, width,
                                        NV=NV, RAGGED=0,
                                    )  # fmt: skip
                            else:
                                dispatch(tile, M=height, low=LOW, high=HIGH)(
                                    a, b, c, taps, x_tap, w_tap, depth, x_column, 1, w_k, y_pixel, s, width,
                                    NV=NV, RAGGED=0,
                                )  # fmt: skip


@kernel
def filter_gradient(
    x: ptr(T), g: ptr(T), w: ptr(T),
    images: i64, g_height: i64, g_width: i64, columns: i64, groups: i64, steps: i64, taps: i64, depth: i64,
    x_image: i64, x_row: i64, x_column: i64, x_step: i64, x_tap: i64, x_group: i64,
    w_step: i64, w_tap: i64, w_k: i64, tiles: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """w[tap, step, depth, k] = sum over images, rows, columns of x g; the arguments are those of `convolve`.

    lo, hi: units (group, tap, step, panel).
    """
    width = NV * VL
    panels = columns // width
    whole = panels + 1 if TAIL != 0 else panels
    pixel = groups * columns
    for u in range(lo, hi):
        p = u % whole
        s = u // whole % steps
        r = u // (whole * steps) % taps
        group = u // (whole * steps * taps)
        for n in range(images):
            xn = x + (n * x_image + r * x_tap + s * x_step + group * x_group)
            gn = g + (n * g_height * g_width * pixel + group * columns + p * width)
            wn = w + (r * w_tap + s * w_step + group * columns + p * width)
            for t in range(tiles):
                m = t * depth // tiles
                height = (t + 1) * depth // tiles - m
                if TAIL != 0:
                    if p == panels:
                        dispatch(tile, M=height, low=LOW, high=HIGH)(
                            xn + m, gn, wn + m * w_k, g_height, x_row, g_width * pixel, g_width, 1, x_column, pixel,
                            w_k, n, columns - p * width, NV=TAIL, RAGGED=1,
                        )  # fmt: skip
                    else:
                        dispatch(tile, M=height, low=LOW, high=HIGH)(
                            xn + m, gn, wn + m * w_k, g_height, x_row, g_width * pixel, g_width, 1, x_column, pixel,
                            w_k, n, width, NV=NV, RAGGED=0,
                        )  # fmt: skip
                else:
                    dispatch(tile, M=height, low=LOW, high=HIGH)(
                        xn + m, gn, wn + m * w_k, g_height, x_row, g_width * pixel, g_width, 1, x_column, pixel,
                        w_k, n, width, NV=NV, RAGGED=0,
                    )  # fmt: skip


@kernel
def turn_filters(w: ptr(T), t: ptr(T), rows: i64, columns: i64, into: i64, out: i64, groups: i64, lo: i64, hi: i64):
    """t[h, w, k, g, c] = w[rows-1-h, columns-1-w, c, g, k]: what a convolution with the adjoint reads; lo, hi: places.

    `into` and `out` are the channels of one group.
    """
    for place in range(lo, hi):
        source = w + (rows * columns - 1 - place) * into * groups * out
        target = t + place * out * groups * into
        for g in range(groups):
            for k in range(out):
                for c in vrange(into):
                    target[c + (k * groups + g) * into] = source[(c * groups + g) * out + k]


@kernel
def add_windows(
    rows: ptr(T), x: ptr(T),
    g_height: i64, g_width: i64, height: i64, width: i64, channels: i64, taps_h: i64, taps_w: i64,
    stride_h: i64, stride_w: i64, step_h: i64, step_w: i64, top: i64, left: i64, lo: i64, hi: i64,
):  # fmt: skip
    """x = sum of the windows in rows[n, oh, ow, r, s, channels], each added where it was read; lo, hi: images."""
    for n in range(lo, hi):
        image = x + n * height * width * channels
        for i in vrange(height * width * channels):
            image[i] = T(0)
        for oh in range(g_height):
            for ow in range(g_width):
                window = rows + ((n * g_height + oh) * g_width + ow) * taps_h * taps_w * channels
                for r in range(taps_h):
                    h = oh * stride_h + r * step_h - top
                    if h >= 0 and h < height:
                        for s in range(taps_w):
                            v = ow * stride_w + s * step_w - left
                            if v >= 0 and v < width:
                                target = image + (h * width + v) * channels
                                source = window + (r * taps_w + s) * channels
                                for c in vrange(channels):
                                    target[c] = target[c] + source[c]
