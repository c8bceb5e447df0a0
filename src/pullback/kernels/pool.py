"""Pooling over windows of channels-last images."""

from ..codegen import T, helper, i32, i64, isnan, kernel, ptr, vec, vrange


@helper
def first_tap(start: i64, step: i64):
    """The least tap k >= 0 with start + k * step >= 0."""
    return (step - 1 - start) // step if start < 0 else 0


@helper
def end_tap(start: i64, step: i64, taps: i64, length: i64):
    """One past the greatest tap k < taps with start + k * step < length."""
    room = length - start
    reach = (room + step - 1) // step if room > 0 else 0
    return min(taps, reach)


@kernel
def max_pool(
    x: ptr(T), y: ptr(T), index: ptr(i32),
    height: i64, width: i64, channels: i64, y_height: i64, y_width: i64, taps_h: i64, taps_w: i64,
    stride_h: i64, stride_w: i64, step_h: i64, step_w: i64, top: i64, left: i64, PLACES: i64, lo: i64, hi: i64,
):  # fmt: skip
    """The greatest of each window and, with PLACES, where in the plane it is: the first among equals, or the first NaN.

    lo, hi: output rows of all images.
    """
    for row in range(lo, hi):
        h0 = row % y_height * stride_h - top
        r0 = first_tap(h0, step_h)
        r1 = end_tap(h0, step_h, taps_h, height)
        image = x + row // y_height * height * width * channels
        for v in range(y_width):
            w0 = v * stride_w - left
            s0 = first_tap(w0, step_w)
            s1 = end_tap(w0, step_w, taps_w, width)
            target = (row * y_width + v) * channels
            start = (h0 + r0 * step_h) * width + w0 + s0 * step_w
            for c in vrange(channels):
                best = image[c + start * channels]
                at = vec(i32(start))
                for r in range(r0, r1):
                    for s in range(s0, s1):
                        place = (h0 + r * step_h) * width + w0 + s * step_w
                        value = image[c + place * channels]
                        better = value > best or (isnan(value) and not isnan(best))
                        at = vec(i32(place)) if better else at
                        best = value if better else best
                y[c + target] = best
                if PLACES != 0:
                    index[c + target] = at


@kernel
def scatter_apart(
    g: ptr(T), index: ptr(i32), dx: ptr(T),
    height: i64, width: i64, channels: i64, y_height: i64, y_width: i64, taps_h: i64, taps_w: i64,
    stride_h: i64, stride_w: i64, step_h: i64, step_w: i64, top: i64, left: i64, lo: i64, hi: i64,
):  # fmt: skip
    """dx = g where `index` says, else 0, for windows that don't overlap (stride >= size, undilated); lo, hi: images."""
    for n in range(lo, hi):
        image = dx + n * height * width * channels
        for h in range(height):
            oh = (h + top) // stride_h
            inside_h = (h + top) % stride_h < taps_h and oh < y_height
            for w in range(width):
                ow = (w + left) // stride_w
                target = image + (h * width + w) * channels
                if inside_h and (w + left) % stride_w < taps_w and ow < y_width:
                    source = ((n * y_height + oh) * y_width + ow) * channels
                    place = i32(h * width + w)
                    for c in vrange(channels):
                        target[c] = g[c + source] if index[c + source] == place else T(0)
                else:
                    for c in vrange(channels):
                        target[c] = T(0)


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


@kernel
def window_sums(
    x: ptr(T), y: ptr(T), weights: ptr(T),
    height: i64, width: i64, channels: i64, y_height: i64, y_width: i64, taps_h: i64, taps_w: i64,
    stride_h: i64, stride_w: i64, step_h: i64, step_w: i64, top: i64, left: i64, lo: i64, hi: i64,
):  # fmt: skip
    """y = weights[window] times the sum of each window; lo, hi: output rows of all images."""
    for row in range(lo, hi):
        h0 = row % y_height * stride_h - top
        r0 = first_tap(h0, step_h)
        r1 = end_tap(h0, step_h, taps_h, height)
        image = x + row // y_height * height * width * channels
        for v in range(y_width):
            w0 = v * stride_w - left
            s0 = first_tap(w0, step_w)
            s1 = end_tap(w0, step_w, taps_w, width)
            target = (row * y_width + v) * channels
            weight = weights[row % y_height * y_width + v]
            for c in vrange(channels):
                total = vec(T(0))
                for r in range(r0, r1):
                    for s in range(s0, s1):
                        total += image[c + ((h0 + r * step_h) * width + w0 + s * step_w) * channels]
                y[c + target] = total * weight


@kernel
def spread_windows(
    g: ptr(T), dx: ptr(T), weights: ptr(T),
    height: i64, width: i64, channels: i64, y_height: i64, y_width: i64, taps_h: i64, taps_w: i64,
    stride_h: i64, stride_w: i64, step_h: i64, step_w: i64, top: i64, left: i64, lo: i64, hi: i64,
):  # fmt: skip
    """dx = weights[window] g added to all cells of each window; lo, hi: images."""
    for n in range(lo, hi):
        image = dx + n * height * width * channels
        for i in vrange(height * width * channels):
            image[i] = T(0)
        for oh in range(y_height):
            h0 = oh * stride_h - top
            r0 = first_tap(h0, step_h)
            r1 = end_tap(h0, step_h, taps_h, height)
            for ow in range(y_width):
                w0 = ow * stride_w - left
                s0 = first_tap(w0, step_w)
                s1 = end_tap(w0, step_w, taps_w, width)
                source = ((n * y_height + oh) * y_width + ow) * channels
                weight = weights[oh * y_width + ow]
                for r in range(r0, r1):
                    for s in range(s0, s1):
                        target = image + ((h0 + r * step_h) * width + w0 + s * step_w) * channels
                        for c in vrange(channels):
                            target[c] = target[c] + g[c + source] * weight
