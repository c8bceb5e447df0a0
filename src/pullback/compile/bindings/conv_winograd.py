"""Winograd's minimal filtering: which convolutions take it, and its launches."""

from dataclasses import dataclass
from math import prod
from typing import Any

from ... import codegen
from ...config import config
from ...kernels import gemm
from ...kernels import winograd as kernels
from ..binding import Binding
from ..buffers import Buffer
from .conv_direct import tile_rows
from .conv_geometry import Axis, Geometry
from .linear import TYPES

LEAST_CHANNELS = 16  # with fewer the transforms cost more than they save
CACHE_BYTES = 3 << 18  # of transformed tiles that a thread works on at a time
LEAST_TILES = 56  # of a block, even beyond that: fewer would wait for the filters
FEW_TILES = 400  # fewer of them with filters beyond the cache go through the phases together
LARGE_FILTERS = 1 << 24  # bytes of transformed filters that are better made panel by panel than written to memory
GROUP_BYTES = 1 << 22  # of transformed tiles from which the filters' gradient is summed at a time, if filters are small


def fits(g: Geometry) -> bool:
    """Whether the method applies and pays."""
    deep, *plane = g.axes
    if g.groups > 1 or deep != Axis(deep.length, 1, deep.length, 1, 1, 0):
        return False
    if any(a.size != 3 or a.stride != 1 or a.dilation != 1 for a in plane) or min(g.into, g.out) < LEAST_CHANNELS:
        return False
    pixels = plane[0].count * plane[1].count
    return products(g, edge(g)) * 5 < 9 * pixels * 4  # at most 4/5 of the direct sum's, borders included


def edge(g: Geometry) -> int:
    """Outputs of a tile each way: what takes the fewest products, within the precision that is asked for."""
    return min((2, 4) if config.conv == "fast" else (2,), key=lambda edge: products(g, edge))


def products(g: Geometry, edge: int) -> int:
    """Multiply-adds for an image, an input and an output channel."""
    return (edge + 2) ** 2 * prod(-(-a.count // edge) for a in g.axes[1:])


@dataclass(frozen=True)
class Tiling:
    """How the outputs of a convolution are cut into tiles, and what the kernels need to know of it."""

    edge: int
    images: int
    into: int
    out: int
    x_size: tuple[int, int]
    y_size: tuple[int, int]
    before: tuple[int, int]
    dtype: str

    @classmethod
    def of(cls, g: Geometry, dtype: str) -> "Tiling":
        deep, high, wide = g.axes
        lengths, counts, before = (high.length, wide.length), (high.count, wide.count), (high.before, wide.before)
        return cls(edge(g), g.images * deep.length, g.into, g.out, lengths, counts, before, dtype)

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across an image."""
        return tuple(-(-n // self.edge) for n in self.y_size)  # type: ignore[return-value]

    @property
    def count(self) -> int:
        """Tiles of all images."""
        return self.images * prod(self.grid)

    @property
    def planes(self) -> int:
        return (self.edge + 2) ** 2

    @property
    def columns(self) -> int:
        """Output channels, rounded up to full vectors."""
        return whole(self.out)

    @property
    def patch(self) -> int:
        """Elements of a tile's pixels laid out by themselves."""
        return self.planes * whole(max(self.into, self.out))

    @property
    def panels(self) -> int:
        return -(-self.out // gemm.panel_width(self.dtype))

    @property
    def panel_size(self) -> int:
        """Elements of a panel of transformed filters."""
        return self.planes * (self.into * gemm.panel_width(self.dtype) + kernels.APART)

    def kernel(self, kernel: Any, **constants: int) -> Any:
        return kernel.specialise(T=TYPES[self.dtype], EDGE=self.edge, **constants)

    def product(self, rows: int, least: int | None = None) -> dict[str, int]:
        """The constants of a product with `columns` columns and `rows` rows, or `least` of them at times."""
        vectors = gemm.tile_vectors(self.dtype)
        return {**tile_rows(least or rows, rows), "NV": vectors, "TAIL": self.columns // codegen.VL % vectors}


def whole(channels: int) -> int:
    """Rounded up to full vectors."""
    return -(-channels // codegen.VL) * codegen.VL


def forward(b: Binding, g: Geometry, x: Buffer, w: Buffer, y: Buffer, turned: bool = False) -> None:
    """y = the convolution of x with w, or with w turned round and its inputs and outputs exchanged."""
    t = Tiling.of(g, x.dtype)
    size = t.panels * t.panel_size * x.itemsize
    few = t.count < FEW_TILES and size > CACHE_BYTES
    if few and size > LARGE_FILTERS and not b.is_fixed(w):
        all_at_once(b, t, x, w, None, y, turned)
        return
    u = b.scratch((t.panels, t.panel_size), w.dtype)
    b.launch(
        t.kernel(kernels.filters_in, NV=gemm.tile_vectors(x.dtype), TURNED=int(turned)), w, u, t.into, t.out,
        t.panel_size, 0, n=t.panels, chunks=b.chunks(t.panels, 4 * u.size), reads=[w],
    )  # fmt: skip
    (all_at_once if few else by_blocks)(b, t, x, w, u, y, turned)


def by_blocks(b: Binding, t: Tiling, x: Buffer, w: Buffer, u: Buffer, y: Buffer, turned: bool) -> None:
    """Blocks of tiles go the whole way while they are in cache."""
    per_tile = t.planes * (t.into + t.columns) * x.itemsize
    blocks = -(-t.count * per_tile // max(CACHE_BYTES, LEAST_TILES * per_tile))
    blocks = max(1, min(-(-blocks // 4) * 4, t.count // gemm.TALLEST))
    tiles = -(-t.count // blocks)
    size = t.patch + t.planes * (tiles * (t.into + t.columns) + 2 * kernels.APART)
    scratch = b.scratch((b.threads, size), x.dtype)
    b.launch(
        t.kernel(kernels.convolve_tiles, TURNED=int(turned), **t.product(tiles, t.count // blocks)),
        x, w, u, y, scratch, *t.x_size, t.into, *t.y_size, t.out, t.columns, *t.grid, *t.before, t.count, blocks,
        t.panel_size, t.patch, size, n=blocks, chunks=b.chunks(blocks, t.count * t.planes * t.into * t.columns),
    )  # fmt: skip


def all_at_once(b: Binding, t: Tiling, x: Buffer, w: Buffer, u: Buffer | None, y: Buffer, turned: bool) -> None:
    """All tiles are transformed, all planes multiplied, all tiles transformed back: filters, u or w, are read once."""
    v_plane, m_plane = (t.count * n + kernels.APART for n in (t.into, t.columns))
    v, m = b.scratch((t.planes, v_plane), x.dtype), b.scratch((t.planes, m_plane), x.dtype)
    patch = b.scratch((b.threads, t.patch), x.dtype)
    work = t.count * t.into * t.columns * t.planes
    b.launch(
        t.kernel(kernels.tiles_in, GRADIENT=0), x, v, patch, *t.x_size, t.into, *t.grid, *t.before, 0, v_plane, t.into,
        t.patch, n=t.count, chunks=b.chunks(t.count, 4 * v.size),
    )  # fmt: skip
    if u is None:
        scratch = b.scratch((b.threads, t.panel_size), w.dtype)
        b.launch(
            t.kernel(kernels.multiply_filters, TURNED=int(turned), **t.product(t.count)), v, w, m, scratch, t.count,
            t.out, t.into, t.columns, v_plane, m_plane, t.panel_size, n=t.panels, chunks=b.chunks(t.panels, work),
        )  # fmt: skip
    else:
        n = t.panels * t.planes
        b.launch(
            kernels.multiply.specialise(T=TYPES[x.dtype], **t.product(t.count)), v, u, m, t.count, t.columns, t.into,
            v_plane, t.into, 1, 0, t.panel_size, 0, m_plane, t.panels, 0, n=n, chunks=b.chunks(n, work),
        )  # fmt: skip
    b.launch(
        t.kernel(kernels.tiles_out, TURNED=int(turned)), m, y, patch, x, w, *t.y_size, t.out, *t.grid, 0, m_plane,
        t.columns, t.patch, *t.x_size, t.into, *t.before, n=t.count, chunks=b.chunks(t.count, 4 * m.size),
    )  # fmt: skip


def backward(b: Binding, g: Geometry, grad: Buffer, w: Buffer, dx: Buffer) -> None:
    """dx = the output's gradient pulled back to the images: its convolution with the turned filters."""
    forward(b, g.adjoint(), grad, w, dx, turned=True)


def filter_gradient(b: Binding, g: Geometry, x: Buffer, grad: Buffer, dw: Buffer) -> None:
    """dw = the output's gradient pulled back to the filters, summed over groups of tiles that fit the cache."""
    t = Tiling.of(g, x.dtype)
    u_plane = t.into * t.columns + kernels.APART
    u = b.scratch((t.planes, u_plane), x.dtype)
    groups = -(-t.count * t.planes * (t.into + t.columns) * x.itemsize // max(GROUP_BYTES, u.nbytes))
    tiles = -(-t.count // groups)
    v_plane, m_plane = (tiles * n + kernels.APART for n in (t.into, t.columns))
    v, m = b.scratch((t.planes, v_plane), x.dtype), b.scratch((t.planes, m_plane), x.dtype)
    patch = b.scratch((b.threads, t.patch), x.dtype)
    units = t.panels * t.planes
    for i in range(groups):
        first, last = (k * t.count // groups for k in (i, i + 1))
        n = last - first
        b.launch(
            t.kernel(kernels.tiles_in, GRADIENT=0), x, v, patch, *t.x_size, t.into, *t.grid, *t.before, first,
            v_plane, t.into, t.patch, n=n, chunks=b.chunks(n, 4 * v.size),
        )  # fmt: skip
        b.launch(
            t.kernel(kernels.tiles_in, GRADIENT=1), grad, m, patch, *t.y_size, t.out, *t.grid, 0, 0, first,
            m_plane, t.columns, t.patch, n=n, chunks=b.chunks(n, 4 * m.size),
        )  # fmt: skip
        b.launch(
            kernels.multiply.specialise(T=TYPES[x.dtype], **t.product(t.into)), v, m, u, t.into, t.columns, n,
            v_plane, 1, t.into, m_plane, gemm.panel_width(x.dtype), t.columns, u_plane, t.panels, i,
            n=units, chunks=b.chunks(units, n * t.into * t.columns * t.planes),
        )  # fmt: skip
    b.launch(
        t.kernel(kernels.filters_out), u, dw, x, grad, t.images, *t.x_size, t.into, *t.y_size, t.out, t.columns,
        *t.before, n=t.into, chunks=b.chunks(t.into, 4 * u.size),
    )  # fmt: skip
