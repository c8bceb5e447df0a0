"""Winograd's minimal filtering (Winograd 1980; Lavin and Gray 2016) for 3x3 filters with stride 1, channels last.

A tile of EDGE x EDGE outputs comes of (EDGE + 2)^2 inputs by as many products instead of 9 EDGE^2:

    Y = A^T [(G g G^T) * (B^T d B)] A          dg = G^T [(B^T d B) * (A dY A^T)] G

so that, over all tiles and channels, each of the (EDGE + 2)^2 planes is a matrix product. F(2x2, 3x3) uses only sums
and halves and is as accurate as the direct sum; F(4x4, 3x3) costs a digit. Root mean square errors of normal numbers in
single precision, relative to the results: with 64, 256 and 512 channels 4, 8 and 12e-7 for the direct sum, 3, 5 and
5e-7 for F(2x2, 3x3), 17, 30 and 42e-7 for F(4x4, 3x3).

A transform mixes the pixels of a tile, and infinity - infinity is NaN where the direct sum has a number: results are
looked at, and a tile (or a row of the filters' gradient) where one isn't finite is computed directly.
"""

from collections.abc import Callable, Sequence

from ..codegen import (
    VL,
    Kernel,
    T,
    from_source,
    helper,
    i64,
    isnan,
    kernel,
    ld,
    local,
    prefetch,
    ptr,
    regs,
    st,
    unroll,
    vec,
    vrange,
    vtrans,
)
from .conv import panel_tile

DEPTH = 256  # products that are added up in registers before they are added to the rest
AHEAD = 8  # rows of filters that are fetched before they are needed
APART = 32  # elements between planes, which would else lie a power of two apart and share cache sets


class Symbol:
    """A value in a transform that is being written out: `+`, `-` and `*` become lines of a kernel."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.lines = lines

    def _line(self, operator: str, other: "Symbol | float") -> "Symbol":
        operand = other.name if isinstance(other, Symbol) else f"T({other!r})"
        result = Symbol(f"t{len(self.lines)}", self.lines)
        self.lines.append(f"{result.name} = {self.name} {operator} {operand}")
        return result

    def __add__(self, other: "Symbol") -> "Symbol":
        return self._line("+", other)

    def __sub__(self, other: "Symbol") -> "Symbol":
        return self._line("-", other)

    def __mul__(self, other: float) -> "Symbol":
        return self._line("*", other)


Transform = Callable[[Sequence[Symbol]], Sequence[Symbol]]


def transform(name: str, one: Transform, size: int, checked: bool = False) -> Kernel:
    """The kernel target = one(one(source)^T)^T on size x size pixels of n channels each.

    If `checked` it returns NaN where a result isn't finite, else 0.
    """
    lines: list[str] = []
    pixels = [[Symbol(f"x{i}_{j}", lines) for j in range(size)] for i in range(size)]
    columns = [one([row[j] for row in pixels]) for j in range(size)]
    results = [one(across) for across in zip(*columns)]
    loads = [f"x{i}_{j} = source[c + ({i} * row + {j} * column)]" for i in range(size) for j in range(size)]
    stores = [
        f"target[c + ({i} * to_row + {j} * to_column)] = {y.name}"
        for i, across in enumerate(results)
        for j, y in enumerate(across)
    ]
    every = " + ".join(y.name for across in results for y in across)
    body = [f"        {line}" for line in [*loads, *lines, *stores, *([f"seen += ({every}) * T(0)"] * checked)]]
    parameters = "source: ptr(T), row: i64, column: i64, target: ptr(T), to_row: i64, to_column: i64, n: i64"
    text = [f"def {name}({parameters}){' -> T' * checked}:", *(["    seen = vec(T(0))"] * checked)]
    text += ["    for c in vrange(n):", *body, *(["    return vsum(seen)"] * checked)]
    return from_source(name, "\n".join(text) + "\n")


def image_2(d):
    """B^T d of F(2, 3)."""
    return d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]


def result_2(m):
    """A^T m."""
    return m[0] + m[1] + m[2], m[1] - m[2] - m[3]


def gradient_2(y):
    """A y."""
    return y[0], y[0] + y[1], y[0] - y[1], y[1] * -1.0


def filter_2(g):
    """G g."""
    outer, middle = (g[0] + g[2]) * 0.5, g[1] * 0.5
    return g[0], outer + middle, outer - middle, g[2]


def filter_gradient_2(u):
    """G^T u."""
    outer = (u[1] + u[2]) * 0.5
    return u[0] + outer, (u[1] - u[2]) * 0.5, outer + u[3]


def image_4(d):
    """B^T d of F(4, 3)."""
    a, b = d[4] - d[2] * 4.0, d[3] - d[1] * 4.0
    c, e = d[4] - d[2], (d[3] - d[1]) * 2.0
    return d[0] * 4.0 - d[2] * 5.0 + d[4], a + b, a - b, c + e, c - e, d[1] * 4.0 - d[3] * 5.0 + d[5]


def result_4(m):
    """A^T m."""
    a, b, c, e = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return m[0] + a + c, b + e * 2.0, a + c * 4.0, b + e * 8.0 + m[5]


def gradient_4(y):
    """A y."""
    p, q, r, s = y[0] + y[2], y[1] + y[3], y[0] + y[2] * 4.0, y[1] * 2.0 + y[3] * 8.0
    return y[0], p + q, p - q, r + s, r - s, y[3]


def filter_4(g):
    """G g."""
    p, q, r, s = (g[0] + g[2]) * (-1 / 6), g[1] * (1 / 6), g[0] * (1 / 24) + g[2] * (1 / 6), g[1] * (1 / 12)
    return g[0] * 0.25, p - q, p + q, r + s, r - s, g[2]


def filter_gradient_4(u):
    """G^T u."""
    p, q, r, s = (u[1] + u[2]) * (-1 / 6), (u[2] - u[1]) * (1 / 6), u[3] + u[4], u[3] - u[4]
    return u[0] * 0.25 + p + r * (1 / 24), q + s * (1 / 12), p + r * (1 / 6) + u[5]


IMAGE_2, IMAGE_4 = transform("image_2", image_2, 4), transform("image_4", image_4, 6)
RESULT_2, RESULT_4 = transform("result_2", result_2, 4, True), transform("result_4", result_4, 6, True)
GRADIENT_2, GRADIENT_4 = transform("gradient_2", gradient_2, 2), transform("gradient_4", gradient_4, 4)
FILTER_2, FILTER_4 = transform("filter_2", filter_2, 3), transform("filter_4", filter_4, 3)
FILTER_GRADIENT_2 = transform("filter_gradient_2", filter_gradient_2, 4, True)
FILTER_GRADIENT_4 = transform("filter_gradient_4", filter_gradient_4, 6, True)


@kernel
def filters_in(
    w: ptr(T), u: ptr(T), channels: i64, columns: i64, u_panel: i64, base: i64,
    EDGE: i64, NV: i64, TURNED: i64, lo: i64, hi: i64,
):  # fmt: skip
    """u[panel - base, plane, channel, NV * VL] from w[3, 3, channels, columns]; lo, hi: panels of columns.

    Panels are `u_panel` elements apart and planes APART further than they are long; the last panel is as narrow as full
    vectors allow, and its surplus columns are never used.
    TURNED: w is [3, 3, columns, channels], to be turned round.
    """
    tap = channels * columns
    if TURNED == 0:
        for c in range(channels):
            for p in range(lo, hi):
                n = p * NV * VL
                wide = panel_width(columns - n, NV)
                plane = channels * wide + APART
                source = w + (c * columns + n)
                target = u + ((p - base) * u_panel + c * wide)
                for t in unroll(9):
                    for part in unroll(NV):
                        prefetch(source + (t * tap + AHEAD * columns + part * VL))
                if EDGE == 4:
                    FILTER_4(source, 3 * tap, tap, target, 6 * plane, plane, min(wide, columns - n))
                else:
                    FILTER_2(source, 3 * tap, tap, target, 4 * plane, plane, min(wide, columns - n))
    else:
        block = regs(VL, T)
        turned = local(9 * VL * VL, T)  # [3, 3, VL channels, VL columns]
        for p in range(lo, hi):
            n = p * NV * VL
            wide = panel_width(columns - n, NV)
            plane = channels * wide + APART
            for c in range(0, channels, VL):
                for part in range(0, wide, VL):
                    for t in range(9):
                        for i in unroll(VL):
                            row = w + (t * tap + min(n + part + i, columns - 1) * channels + c)
                            prefetch(row + 2 * VL)
                            block[i] = ld(row, channels - c)
                        vtrans(block)
                        for i in unroll(VL):
                            st(turned + ((8 - t) * VL + i) * VL, block[i])
                    for i in range(min(VL, channels - c)):
                        target = u + ((p - base) * u_panel + (c + i) * wide + part)
                        if EDGE == 4:
                            FILTER_4(turned + i * VL, 3 * VL * VL, VL * VL, target, 6 * plane, plane, VL)
                        else:
                            FILTER_2(turned + i * VL, 3 * VL * VL, VL * VL, target, 4 * plane, plane, VL)


@helper
def panel_width(columns: i64, NV: i64):
    """How wide the panel is that begins where `columns` are left: full vectors, NV of them at most."""
    return min((columns + VL - 1) // VL, NV) * VL


@kernel
def tiles_in(
    x: ptr(T), v: ptr(T), patch: ptr(T), height: i64, width: i64, channels: i64, down: i64, across: i64,
    top: i64, left: i64, first: i64, v_plane: i64, v_tile: i64, patch_size: i64, EDGE: i64, GRADIENT: i64,
    lo: i64, hi: i64, tid: i64,
):  # fmt: skip
    """v[plane, q] from the tiles first + q, q in [lo, hi), of images or of their gradients.

    An image has down x across tiles.

    Tile (i, j) begins at pixel (i EDGE - top, j EDGE - left); beyond the image there are zeros.
    patch: `patch_size` elements for each thread, where a tile that reaches over the border is laid out.
    """
    side = EDGE if GRADIENT != 0 else EDGE + 2
    for q in range(lo, hi):
        tile = first + q
        y0 = tile // across % down * EDGE - top
        x0 = tile % across * EDGE - left
        source = x + ((tile // (down * across) * height + y0) * width + x0) * channels
        row = width * channels
        if y0 < 0 or x0 < 0 or y0 + side > height or x0 + side > width:
            copy = patch + tid * patch_size
            for i in range(side):
                for j in range(side):
                    target = copy + (i * side + j) * channels
                    if y0 + i >= 0 and y0 + i < height and x0 + j >= 0 and x0 + j < width:
                        pixel = source + (i * row + j * channels)
                        for c in vrange(channels):
                            target[c] = pixel[c]
                    else:
                        for c in vrange(channels):
                            target[c] = T(0)
            source = copy
            row = side * channels
        to = v + q * v_tile
        if GRADIENT != 0:
            if EDGE == 4:
                GRADIENT_4(source, row, channels, to, 6 * v_plane, v_plane, channels)
            else:
                GRADIENT_2(source, row, channels, to, 4 * v_plane, v_plane, channels)
        else:
            if EDGE == 4:
                IMAGE_4(source, row, channels, to, 6 * v_plane, v_plane, channels)
            else:
                IMAGE_2(source, row, channels, to, 4 * v_plane, v_plane, channels)


@kernel
def multiply(
    a: ptr(T), b: ptr(T), c: ptr(T), m_count: i64, n_count: i64, k_count: i64,
    a_plane: i64, a_m: i64, a_k: i64, b_plane: i64, b_panel: i64, b_k: i64, c_plane: i64, panels: i64,
    accumulate: i64, LOW: i64, HIGH: i64, NV: i64, TAIL: i64, lo: i64, hi: i64,
):  # fmt: skip
    """c[plane, m, n] (+)= a[plane, m, k] b[plane, k, n]; n_count is a multiple of VL; lo, hi: units (plane, panel).

    b_k: from row to row of b, or 0 if b is made of panels as `filters_in` makes them.
    """
    tiles = (m_count + HIGH - 1) // HIGH
    for unit in range(lo, hi):
        plane = unit // panels
        n = unit % panels * NV * VL
        wide = min(n_count - n, NV * VL)
        row = b_k if b_k != 0 else wide
        panel = b + (unit % panels * b_panel + plane * (b_plane if b_k != 0 else k_count * wide + APART))
        for k in range(0, k_count, DEPTH):
            for t in range(tiles):
                m = t * m_count // tiles
                panel_tile(
                    a + (plane * a_plane + m * a_m + k * a_k), panel + k * row, c + (plane * c_plane + m * n_count + n),
                    (t + 1) * m_count // tiles - m, wide, 1, 0, 0, min(DEPTH, k_count - k), a_m, a_k, row, n_count,
                    k + accumulate, LOW, HIGH, NV, TAIL, 0,
                )  # fmt: skip


@kernel
def multiply_filters(
    v: ptr(T), w: ptr(T), m: ptr(T), scratch: ptr(T), m_count: i64, columns: i64, channels: i64, whole: i64,
    v_plane: i64, m_plane: i64, u_panel: i64, EDGE: i64, LOW: i64, HIGH: i64, NV: i64, TAIL: i64, TURNED: i64,
    lo: i64, hi: i64, tid: i64,
):  # fmt: skip
    """m[plane, tile, column] of all tiles; each panel of filters is transformed and used at once; lo, hi: panels."""
    panels = (whole + NV * VL - 1) // (NV * VL)
    u = scratch + tid * u_panel
    for p in range(lo, hi):
        filters_in(w, u, channels, columns, u_panel, p, p, p + 1, EDGE=EDGE, NV=NV, TURNED=TURNED)
        for plane in range((EDGE + 2) * (EDGE + 2)):
            unit = plane * panels + p
            multiply(
                v, u - p * u_panel, m, m_count, whole, channels, v_plane, channels, 1, 0, u_panel, 0, m_plane, panels,
                0, unit, unit + 1, LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL,
            )  # fmt: skip


@kernel
def tiles_out(
    m: ptr(T), y: ptr(T), patch: ptr(T), x: ptr(T), w: ptr(T), height: i64, width: i64, columns: i64,
    down: i64, across: i64, first: i64, m_plane: i64, m_tile: i64, patch_size: i64,
    x_height: i64, x_width: i64, channels: i64, top: i64, left: i64, EDGE: i64, TURNED: i64,
    lo: i64, hi: i64, tid: i64,
):  # fmt: skip
    """The tiles first + q of y from m[plane, q], q in [lo, hi); one that isn't finite is computed from x and w."""
    for q in range(lo, hi):
        tile = first + q
        n = tile // (down * across)
        y0 = tile // across % down * EDGE
        x0 = tile % across * EDGE
        target = y + ((n * height + y0) * width + x0) * columns
        row = width * columns
        copy = patch + tid * patch_size
        rows = min(EDGE, height - y0)
        pixels = min(EDGE, width - x0)
        to = target
        if rows < EDGE or pixels < EDGE:
            to = copy
            row = EDGE * columns
        source = m + q * m_tile
        if EDGE == 4:
            seen = RESULT_4(source, 6 * m_plane, m_plane, to, row, columns, columns)
        else:
            seen = RESULT_2(source, 4 * m_plane, m_plane, to, row, columns, columns)
        if rows < EDGE or pixels < EDGE:
            for i in range(rows):
                for j in range(pixels):
                    pixel = target + (i * width + j) * columns
                    for c in vrange(columns):
                        pixel[c] = copy[c + (i * EDGE + j) * columns]
        if isnan(seen):
            for i in range(rows):
                for j in range(pixels):
                    direct_pixel(
                        x + n * x_height * x_width * channels, w, target + (i * width + j) * columns,
                        x_height, x_width, channels, columns, y0 + i - top, x0 + j - left, TURNED=TURNED,
                    )  # fmt: skip


@kernel
def direct_pixel(
    x: ptr(T), w: ptr(T), y: ptr(T), height: i64, width: i64, channels: i64, columns: i64, y0: i64, x0: i64,
    TURNED: i64,
):  # fmt: skip
    """y[columns] = the sum over the 3x3 window of x that begins at (y0, x0)."""
    for k in vrange(columns):
        total = vec(T(0))
        for r in range(max(0, -y0), min(3, height - y0)):
            for s in range(max(0, -x0), min(3, width - x0)):
                pixel = x + ((y0 + r) * width + x0 + s) * channels
                for c in range(channels):
                    if TURNED == 0:
                        total += pixel[c] * w[k + ((r * 3 + s) * channels + c) * columns]
                    else:
                        total += pixel[c] * w[k * channels + ((8 - r * 3 - s) * columns * channels + c)]
        y[k] = total


@kernel
def convolve_tiles(
    x: ptr(T), w: ptr(T), u: ptr(T), y: ptr(T), scratch: ptr(T),
    x_height: i64, x_width: i64, channels: i64, height: i64, width: i64, columns: i64, whole: i64,
    down: i64, across: i64, top: i64, left: i64, tiles: i64, blocks: i64, u_panel: i64, patch_size: i64,
    scratch_size: i64, EDGE: i64, LOW: i64, HIGH: i64, NV: i64, TAIL: i64, TURNED: i64, lo: i64, hi: i64, tid: i64,
):  # fmt: skip
    """The whole way from x to y for the blocks [lo, hi) of tiles, each of which stays in the thread's own cache."""
    panels = (whole + NV * VL - 1) // (NV * VL)
    planes = (EDGE + 2) * (EDGE + 2)
    patch = scratch + tid * scratch_size
    for block in range(lo, hi):
        first = block * tiles // blocks
        last = (block + 1) * tiles // blocks
        v_plane = (last - first) * channels + APART
        m_plane = (last - first) * whole + APART
        v = patch + patch_size
        m = v + planes * v_plane
        tiles_in(
            x, v, patch, x_height, x_width, channels, down, across, top, left, first, v_plane, channels, 0,
            0, last - first, 0, EDGE=EDGE, GRADIENT=0,
        )  # fmt: skip
        multiply(
            v, u, m, last - first, whole, channels, v_plane, channels, 1, 0, u_panel, 0, m_plane, panels, 0,
            0, planes * panels, LOW=LOW, HIGH=HIGH, NV=NV, TAIL=TAIL,
        )  # fmt: skip
        tiles_out(
            m, y, patch, x, w, height, width, columns, down, across, first, m_plane, whole, 0, x_height, x_width,
            channels, top, left, 0, last - first, 0, EDGE=EDGE, TURNED=TURNED,
        )  # fmt: skip


@kernel
def filters_out(
    u: ptr(T), w: ptr(T), x: ptr(T), g: ptr(T), images: i64, x_height: i64, x_width: i64, channels: i64,
    height: i64, width: i64, columns: i64, whole: i64, top: i64, left: i64, EDGE: i64, lo: i64, hi: i64,
):  # fmt: skip
    """w[3, 3, channels, columns] from u[plane, channels, whole], planes APART; lo, hi: channels.

    A channel that isn't finite is computed from the images x and their outputs' gradient g.
    """
    across = channels * columns
    plane = channels * whole + APART
    for c in range(lo, hi):
        if EDGE == 4:
            seen = FILTER_GRADIENT_4(u + c * whole, 6 * plane, plane, w + c * columns, 3 * across, across, columns)
        else:
            seen = FILTER_GRADIENT_2(u + c * whole, 4 * plane, plane, w + c * columns, 3 * across, across, columns)
        if isnan(seen):
            for r in range(3):
                for s in range(3):
                    for k in vrange(columns):
                        total = vec(T(0))
                        for n in range(images):
                            for i in range(max(0, top - r), min(height, x_height + top - r)):
                                for j in range(max(0, left - s), min(width, x_width + left - s)):
                                    pixel = ((n * x_height + i + r - top) * x_width + j + s - left) * channels
                                    total += x[pixel + c] * g[k + ((n * height + i) * width + j) * columns]
                        w[k + ((r * 3 + s) * channels + c) * columns] = total
