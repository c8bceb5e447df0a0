"""Kernels over images, each compiled and as plain Python: the same numbers, and nothing touched beside the arrays."""

from typing import Any

import numpy as np
import pytest

from pullback.codegen import VL, KernelInstance, T, call, f32, f64, from_source, i64, kernel, ptr
from pullback.kernels import conv, depthwise, norm, pool, winograd
from pullback.kernels.conv import add_windows

CHANNELS = VL + 3  # one vector, and a part of one


def run(instance: KernelInstance, *args: Any, n: int, atol: float = 0.0) -> list[np.ndarray]:
    """The arrays as the compiled kernel leaves them, and the plain Python run too, up to `atol`."""
    compiled, python = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    call(instance, *compiled, n=n)
    tid = {"tid": 0} if "tid" in [p.name for p in instance.signature] else {}
    instance.python(*python, lo=0, hi=n, **tid)
    arrays = [(a, b) for a, b in zip(compiled, python) if isinstance(a, np.ndarray)]
    for a, b in arrays:
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)
    return [a for a, _ in arrays]


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers whose products and short sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")


def table(*rows: tuple[int, ...]) -> np.ndarray:
    return np.array(rows, np.int64)


def test_lines_are_padded():
    x, y = floats(3, 7), np.full((4, 12), 9, "float32")
    _, y, _ = run(conv.pad.specialise(T=f32), x, y, table((0,), (-1,), (14,), (7,)), 7, 2, 3, n=4)
    np.testing.assert_array_equal(y, np.pad(np.stack([x[0], 0 * x[0], x[2], x[1]]), ((0, 0), (2, 3))))


@pytest.mark.parametrize("columns", [VL + 3, 2 * VL, 3 * VL])
def test_direct_convolution(columns):
    """A 2x2 filter over lines of 4 places with 2 channels."""
    x, w, y = floats(3, 4, 2), floats(2, 4, columns, seed=1), floats(2, 3, columns, seed=2)
    rest = columns % (2 * VL)
    shape = dict(LOW=3, HIGH=3, NV=2, TAIL=-(-rest // VL), RAGGED=int(rest % VL != 0))
    lines, steps = table((0, 0, 3), (8, 3 * columns, 3)), table((0, 0))
    arguments = 1, 2, 4, columns, 1, 2, 8, 0, 4 * columns, columns, columns
    _, _, y, *_ = run(conv.convolve.specialise(T=f32, **shape), x, w, y, lines, steps, *arguments, n=2)
    for line in range(2):
        for column in range(3):
            window = x[line : line + 2, column : column + 2].reshape(8)
            np.testing.assert_array_equal(y[line, column], window @ w.reshape(8, columns))


def test_filter_gradient_sums_blocks_and_parts():
    line, size = 4 * CHANNELS, 4 * CHANNELS
    x, g, w = floats(4, 5, 2), floats(4, 4, CHANNELS, seed=1), floats(2, 4, CHANNELS, seed=2)
    instance = conv.filter_gradient.specialise(T=f32, LOW=4, HIGH=4, NV=2, TAIL=2, RAGGED=1)
    blocks, taps = table((0, 0, 1, 4), (10, line, 2, 4), (30, 3 * line, 1, 4)), table((0, 0))
    arguments = 3, 2, 1, 4, CHANNELS, 1, 10, 2, 0, line, CHANNELS, CHANNELS, size, 1
    _, _, w, *_ = run(instance, x, g, w, blocks, taps, *arguments, n=2)
    windows = np.stack([x[:, j : j + 2].reshape(4, 4) for j in range(4)], 1)
    np.testing.assert_array_equal(w[0], np.einsum("ljd,ljk->dk", windows[:1], g[:1]))
    np.testing.assert_array_equal(w[1], np.einsum("ljd,ljk->dk", windows[1:], g[1:]))
    _, total = run(conv.sum_parts.specialise(T=f32), w, floats(4, CHANNELS), 2, size, n=size)
    np.testing.assert_array_equal(total, w.sum(0))


@kernel
def scatter(windows: ptr(T), x: ptr(T), lo: i64, hi: i64):
    add_windows(windows, x, 2, 3, 4, 5, 3, 2, 3, 2, 1, 1, 1, 1)


def test_windows_are_added_where_they_were_read():
    windows, x = floats(2, 3, 2, 3, 3), floats(4, 5, 3)
    _, found = run(scatter.specialise(T=f32), windows, x, n=1)
    wide = np.zeros((6, 7, 3), "float32")
    for oh in range(2):
        for ow in range(3):
            wide[oh * 2 : oh * 2 + 2, ow : ow + 3] += windows[oh, ow]
    np.testing.assert_array_equal(found, wide[1:5, 1:6])


# --- Winograd ---------------------------------------------------------------------------------------------------------


def transformed(name: str, edge: int, source: np.ndarray) -> np.ndarray:
    """A transform of a square tile of CHANNELS channels."""
    one = getattr(winograd, f"{name}_{edge}")
    size = len(source)
    to = {"RESULT": edge, "FILTER_GRADIENT": 3}.get(name, edge + 2)
    call = f"one(source, {size * CHANNELS}, {CHANNELS}, target, {to * CHANNELS}, {CHANNELS}, {CHANNELS})"
    text = f"def apply(source: ptr(T), target: ptr(T), seen: ptr(T), lo: i64, hi: i64):\n    {{}}{call}\n"
    apply = from_source("apply", text.format("seen[0] = " if one.returns else ""), {"one": one})
    target, seen = np.zeros((to, to, CHANNELS), "float32"), np.zeros(1, "float32")
    _, target, seen = run(apply.specialise(T=f32), source, target, seen, n=1, atol=1e-4)
    assert np.isnan(seen[0]) == (one.returns is not None and not np.isfinite(target).all())
    return target


@pytest.mark.parametrize("edge", [2, 4])
def test_transforms_give_a_tile_of_the_convolution_and_of_its_gradient(edge):
    """Y = A^T [(G g G^T) * (B^T d B)] A, and dg = G^T [(B^T d B) * (A dY A^T)] G."""
    d, g, dy = (floats(n, n, CHANNELS, seed=n) for n in (edge + 2, 3, edge))
    v, u = transformed("IMAGE", edge, d), transformed("FILTER", edge, g)
    windows = np.lib.stride_tricks.sliding_window_view(d, (3, 3), (0, 1))
    expected = np.einsum("ijcrs,rsc->ijc", windows, g)
    np.testing.assert_allclose(transformed("RESULT", edge, u * v), expected, atol=1e-3)
    expected = np.einsum("ijcrs,ijc->rsc", windows, dy)
    found = transformed("FILTER_GRADIENT", edge, v * transformed("GRADIENT", edge, dy))
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("name", ["RESULT", "FILTER_GRADIENT"])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_transforms_back_see_what_is_not_finite(name, odd):
    tile = floats(4, 4, CHANNELS)
    tile[1, 2, CHANNELS - 1] = odd
    transformed(name, 2, tile)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("odd", [1.0, np.inf])
def test_blocks_of_tiles(turned, odd):
    """The whole way from an image of 3x4 pixels, in two blocks of two tiles; with an infinity, pixel by pixel."""
    into, out, whole = 3, VL + 2, 2 * VL
    x, w = floats(1, 3, 4, into), floats(3, 3, *((out, into) if turned else (into, out)), seed=1)
    x[0, 0, 3, 1] = odd
    plane = winograd.APART
    u = np.zeros((1, 16 * (into * 2 * VL + plane)), "float32")
    filters = winograd.filters_in.specialise(T=f32, EDGE=2, NV=2, TURNED=turned)
    _, u = run(filters, w, u, into, out, u.size, 0, n=1)
    patch = 16 * 2 * VL
    scratch = np.zeros(patch + 16 * (2 * (into + whole) + 2 * plane), "float32")
    y = np.zeros((1, 3, 4, out), "float32")
    blocks = winograd.convolve_tiles.specialise(T=f32, EDGE=2, LOW=2, HIGH=2, NV=2, TAIL=0, TURNED=turned)
    sizes = 3, 4, into, 3, 4, out, whole, 2, 2, 1, 1, 4, 2, u.size, patch, scratch.size
    _, _, _, y, _ = run(blocks, x, w, u, y, scratch, *sizes, n=2, atol=1e-3)
    plain = np.flip(w, (0, 1)).swapaxes(2, 3) if turned else w
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2))
    with np.errstate(invalid="ignore"):
        expected = np.einsum("nijcrs,rsck->nijk", windows, plain)
    np.testing.assert_allclose(y, expected, atol=1e-3)


# --- the others -------------------------------------------------------------------------------------------------------


def test_depthwise_lines_and_their_borders():
    """A 3x3 filter with padding 1 over an image of 3 lines of 6 pixels: 4 inner columns, one at each border."""
    x, w, y = floats(3, 6, CHANNELS), floats(3, 3, CHANNELS, seed=1), np.zeros((3, 6, CHANNELS), "float32")
    line = 6 * CHANNELS
    lines = table(*((((i - 1) * 6 - 1) * CHANNELS, i * line, int(i == 0), 3 - int(i == 2)) for i in range(3)))
    rows = table(*((r * line, r * 3 * CHANNELS, 0) for r in range(3)))
    columns = 6, 1, 5, -1, 6, CHANNELS, CHANNELS
    wide = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (0, 1))
    forward = depthwise.convolve.specialise(T=f32, SPAN=3, STRIDE=1)
    _, _, y, *_ = run(forward, x, w, y, lines, rows, *columns, CHANNELS, n=3)
    np.testing.assert_array_equal(y, np.einsum("ijcrs,rsc->ijc", windows, w))
    backward = depthwise.filter_gradient.specialise(T=f32, SPAN=3, STRIDE=1)
    partial = np.zeros((2, 3, 3, CHANNELS), "float32")
    _, _, partial, *_ = run(backward, x, y, partial, lines, rows, 3, 2, w.size, *columns, n=2)
    np.testing.assert_array_equal(partial.sum(0), np.einsum("ijcrs,ijc->rsc", windows, y))


def test_moments_of_columns_are_merged():
    x = np.random.default_rng(0).standard_normal((2, 11, CHANNELS)).astype("float32") + np.float32(100)
    partial = np.zeros((2, 3, 2, CHANNELS))
    _, partial = run(norm.column_moments.specialise(T=f32), x, partial, 11, CHANNELS, 3, 2, n=6, atol=1e-5)
    one = np.ones(CHANNELS, "float32")
    mean, var, centre, scale = (np.zeros((2, CHANNELS), "float32") for _ in range(4))
    finish = norm.finish_moments.specialise(T=f32, OUTSIDE=0)
    _, _, mean, var, *_ = run(finish, partial, one, mean, var, centre, scale, 11, CHANNELS, 3, 1, 1e-5, n=2, atol=1e-5)
    np.testing.assert_allclose(mean, x.mean(1), rtol=1e-6)
    np.testing.assert_allclose(var, x.astype("float64").var(1), rtol=1e-4)


@pytest.mark.parametrize("columns", [1, CHANNELS, 9 * VL])
def test_rows_are_normalised_and_pulled_back(columns):
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal((5, columns)).astype("float32") for _ in range(2))
    gamma, beta = (rng.standard_normal(columns).astype("float32") for _ in range(2))
    y, mean, var = np.zeros_like(x), np.zeros(5, "float32"), np.zeros(5, "float32")
    forward, back = (k.specialise(T=f32, OUTSIDE=1) for k in (norm.normalize_rows, norm.pull_back_rows))
    *_, y, mean, var = run(forward, x, gamma, beta, y, mean, var, columns, 0.1, n=5, atol=1e-5)
    np.testing.assert_allclose(mean, x.mean(1), atol=1e-6)
    np.testing.assert_allclose(y, (x - x.mean(1)[:, None]) / (x.std(1)[:, None] + 0.1) * gamma + beta, atol=1e-5)
    partial = np.zeros((2, 2, columns), "float32")
    *_, partial = run(back, x, g, gamma, mean, var, 0 * x, partial, 5, columns, 2, 0.1, n=2, atol=1e-4)
    np.testing.assert_allclose(partial.sum(0)[1], g.sum(0), atol=1e-5)


@pytest.mark.parametrize("dtype", [f32, f64])
def test_pooling_kernels(dtype):
    """Windows of 2x3 cells, two down and one across apart, over images of 5x4 with padding; NaN among the cells."""
    x = floats(2, 5, 4, CHANNELS).astype(dtype.dtype)
    x[1, 2, 2, 1] = np.nan
    y, index = np.zeros((2, 3, 4, CHANNELS), dtype.dtype), np.zeros((2, 3, 4, CHANNELS), np.int32)
    cells = table((0, 1), (0, 1), (1, 2), (3, 2), (0, 2), (0, 3), (1, 3), (2, 2))
    windows = table((0, 1), (0, 1), (1, 1), (1, 1), (2, 1), (2, 1), (0, 2), (0, 3), (1, 3), (2, 2))
    sizes = 1, 5, 4, CHANNELS, 1, 3, 4, 1, 1, 1
    _, y, index, _ = run(pool.max_pool.specialise(T=dtype, PLACES=1), x, y, index, cells, *sizes, n=6)
    places = index.reshape(2, 12, CHANNELS)
    np.testing.assert_array_equal(
        np.take_along_axis(x.reshape(2, 20, CHANNELS), places, 1), y.reshape(places.shape)
    )
    g = floats(*y.shape, seed=1).astype(dtype.dtype)
    _, _, dx = run(pool.scatter_add.specialise(T=dtype), g, index, 0 * x, 12, CHANNELS, 20, n=2)
    assert dx.sum() == g.sum()
    halves = table((0, 1), (0, 1), (0, 1), (1, 1), (1, 1), (0, 0), (0, 1), (0, 1), (1, 1), (1, 1))
    best = np.zeros((2, 2, 2, CHANNELS), np.int32) + np.int32([[0, 7], [8, 15]])[..., None]
    g = floats(2, 2, 2, CHANNELS, seed=1).astype(dtype.dtype)
    _, _, dx, _ = run(pool.pull_back_apart.specialise(T=dtype), g, best, 0 * x, halves, *sizes[:5], 2, 2, 1, 1, 1, n=10)
    np.testing.assert_array_equal(dx[:, [0, 1, 2, 3], [0, 3, 0, 3]], g.reshape(2, 4, CHANNELS))
    assert dx.sum() == g.sum()
    x, weights = np.nan_to_num(x), floats(3, 4).astype(dtype.dtype)
    _, sums, *_ = run(pool.window_sums.specialise(T=dtype), x, y, weights, cells, *sizes, n=6)
    g = floats(*y.shape, seed=2).astype(dtype.dtype)
    _, dx, *_ = run(pool.pull_back_sums.specialise(T=dtype), g, x, weights, windows, *sizes, n=10)
    np.testing.assert_array_equal(np.vdot(sums, g), np.vdot(dx, x))
