"""Pooling over windows of channels-last images [n, depth, height, width, channels].

Tables say, axis by axis, which cells a window has and, for the way back, which windows have a cell: the first of them,
and how many, `step` apart. So one kernel serves one to three axes, padding, dilation and windows of unequal sizes.
"""

from ..codegen import T, i32, i64, isnan, kernel, ptr, vec, vrange


@kernel
def max_pool(
    x: ptr(T), y: ptr(T), index: ptr(i32), cells: ptr(i64),
    depth: i64, height: i64, width: i64, channels: i64, y_depth: i64, y_height: i64, y_width: i64,
    step_d: i64, step_h: i64, step_w: i64, PLACES: i64, lo: i64, hi: i64,
):  # fmt: skip
    """The greatest of each window and, with PLACES, where in the image it is: the first among equals, or the first NaN.

    lo, hi: output rows of all images.
    """
    wide = cells + 2 * (y_depth + y_height)
    for row in range(lo, hi):
        deep = cells + 2 * (row // y_height % y_depth)
        high = cells + 2 * (y_depth + row % y_height)
        image = x + row // (y_height * y_depth) * depth * height * width * channels
        for v in range(y_width):
            target = (row * y_width + v) * channels
            start = (deep[0] * height + high[0]) * width + wide[2 * v]
            for c in vrange(channels):
                best = image[c + start * channels]
                at = vec(i32(start))
                for q in range(deep[1]):
                    for r in range(high[1]):
                        line = start + (q * step_d * height + r * step_h) * width
                        for s in range(wide[2 * v + 1]):
                            place = line + s * step_w
                            value = image[c + place * channels]
                            better = value > best or (isnan(value) and not isnan(best))
                            at = vec(i32(place)) if better else at
                            best = value if better else best
                y[c + target] = best
                if PLACES != 0:
                    index[c + target] = at


@kernel
def pull_back_apart(
    g: ptr(T), index: ptr(i32), dx: ptr(T), windows: ptr(i64),
    depth: i64, height: i64, width: i64, channels: i64, y_depth: i64, y_height: i64, y_width: i64,
    step_d: i64, step_h: i64, step_w: i64, lo: i64, hi: i64,
):  # fmt: skip
    """dx = g of the window of a cell if it is the greatest there, else 0, for windows that share no cell.

    lo, hi: lines of all images.
    """
    wide = windows + 2 * (depth + height)
    for line in range(lo, hi):
        deep = windows + 2 * (line // height % depth)
        high = windows + 2 * (depth + line % height)
        row = (line // (height * depth) * y_depth + deep[0]) * y_height + high[0]
        for w in range(width):
            target = dx + (line * width + w) * channels
            if deep[1] * high[1] * wide[2 * w + 1] != 0:
                place = i32(line % (height * depth) * width + w)
                source = (row * y_width + wide[2 * w]) * channels
                for c in vrange(channels):
                    target[c] = g[c + source] if index[c + source] == place else T(0)
            else:
                for c in vrange(channels):
                    target[c] = T(0)


@kernel
def window_sums(
    x: ptr(T), y: ptr(T), weights: ptr(T), cells: ptr(i64),
    depth: i64, height: i64, width: i64, channels: i64, y_depth: i64, y_height: i64, y_width: i64,
    step_d: i64, step_h: i64, step_w: i64, lo: i64, hi: i64,
):  # fmt: skip
    """y = weights[window] times the sum of each window; lo, hi: output rows of all images."""
    wide = cells + 2 * (y_depth + y_height)
    for row in range(lo, hi):
        deep = cells + 2 * (row // y_height % y_depth)
        high = cells + 2 * (y_depth + row % y_height)
        image = x + row // (y_height * y_depth) * depth * height * width * channels
        for v in range(y_width):
            target = (row * y_width + v) * channels
            start = (deep[0] * height + high[0]) * width + wide[2 * v]
            weight = weights[row % (y_height * y_depth) * y_width + v]
            for c in vrange(channels):
                total = vec(T(0))
                for q in range(deep[1]):
                    for r in range(high[1]):
                        line = start + (q * step_d * height + r * step_h) * width
                        for s in range(wide[2 * v + 1]):
                            total += image[c + (line + s * step_w) * channels]
                y[c + target] = total * weight


@kernel
def pull_back_sums(
    g: ptr(T), dx: ptr(T), weights: ptr(T), windows: ptr(i64),
    depth: i64, height: i64, width: i64, channels: i64, y_depth: i64, y_height: i64, y_width: i64,
    step_d: i64, step_h: i64, step_w: i64, lo: i64, hi: i64,
):  # fmt: skip
    """dx = the sum of weights[window] g over the windows of a cell; lo, hi: lines of all images."""
    wide = windows + 2 * (depth + height)
    plane = y_depth * y_height
    for line in range(lo, hi):
        deep = windows + 2 * (line // height % depth)
        high = windows + 2 * (depth + line % height)
        first = line // (height * depth) * plane
        for w in range(width):
            target = dx + (line * width + w) * channels
            for c in vrange(channels):
                target[c] = T(0)
            for q in range(deep[1]):
                for r in range(high[1]):
                    row = (deep[0] + q * step_d) * y_height + high[0] + r * step_h
                    for s in range(wide[2 * w + 1]):
                        v = wide[2 * w] + s * step_w
                        weight = weights[row * y_width + v]
                        source = ((first + row) * y_width + v) * channels
                        for c in vrange(channels):
                            target[c] += g[c + source] * weight


@kernel
def scatter_add(g: ptr(T), index: ptr(i32), dx: ptr(T), places: i64, channels: i64, plane: i64, lo: i64, hi: i64):
    """dx[n, index, c] += g[n, place, c] on zeros; lo, hi: images."""
    for n in range(lo, hi):
        image = dx + n * plane * channels
        for i in vrange(plane * channels):
            image[i] = T(0)
        for k in range(places):
            source = (n * places + k) * channels
            for c in range(channels):
                at = i64(index[source + c]) * channels + c
                image[at] = image[at] + g[source + c]


@kernel
def gather(x: ptr(T), index: ptr(i32), y: ptr(T), places: i64, channels: i64, plane: i64, lo: i64, hi: i64):
    """y[n, place, c] = x[n, index, c]; lo, hi: images."""
    for n in range(lo, hi):
        image = x + n * plane * channels
        for k in range(places):
            source = (n * places + k) * channels
            for c in range(channels):
                y[source + c] = image[i64(index[source + c]) * channels + c]
