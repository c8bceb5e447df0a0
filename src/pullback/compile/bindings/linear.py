"""Matrix products."""

from math import prod

from ... import codegen
from ...kernels import gemm as kernels
from ...ops.linear import MatMul
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from ..elementwise import launch_formula

TYPES = {"float32": codegen.f32, "float64": codegen.f64}
SMALL = 1_000_000  # multiply-adds below which a product stays on one core
LARGE = 100_000_000  # multiply-adds from which on copying both operands, so that they lie in order, always pays
MANY = 128  # rows (columns) over which the cost of copying B (A) is spread
FAR = 2048  # bytes between elements read one after the other, from which on caches and pages suffer
PAGE = 4096  # bytes: elements a multiple of it apart fall into the same set of a cache


@binds(MatMul)
def bind_matmul(node, b: Binding) -> None:
    (x, y), out = b.inputs, b.output(0)
    if x.dtype == y.dtype == "float16":
        product = b.scratch(out.shape, "float32")
        launch_gemm(b, _widened(b, x), _widened(b, y), product)
        launch_formula(b, "x", [product], out)
    elif x.dtype == y.dtype and x.dtype in TYPES:
        launch_gemm(b, x, y, out)
    else:
        raise Declined


def _widened(b: Binding, x: Buffer) -> Buffer:
    """float16 as float32, in which it is computed with."""
    wide = b.scratch(x.shape, "float32")
    launch_formula(b, "x", [x], wide, reads=[x])
    return wide


def launch_gemm(b: Binding, x: Buffer, y: Buffer, out: Buffer) -> None:
    """out = x @ y; x and y are strided, their batch axes broadcast to those of `out`, which is contiguous."""
    batch = out.shape[:-2]
    x, x_batch = _flat_batch(b, x, batch)
    y, y_batch = _flat_batch(b, y, batch)
    if out.shape[-1] == 1:
        _launch_vector(b, x, x_batch, y, y_batch, out)
    elif out.shape[-2] == 1:
        _launch_vector(b, _turned(y), y_batch, _turned(x), x_batch, out)
    else:
        _launch_tiles(b, x, x_batch, y, y_batch, out)


def _launch_vector(b: Binding, a: Buffer, a_batch: int, x: Buffer, x_batch: int, out: Buffer) -> None:
    """out = a @ x for a single column x."""
    (m, k), kind, count = a.shape[-2:], TYPES[a.dtype], prod(out.shape[:-2])
    if k > 1 and x.strides[-2] != 1:
        x, x_batch = _copied(b, x, x_batch)
    if k > 1 and a.strides[-1] != 1 and (m > 1 and a.strides[-2] != 1):
        a, a_batch = _copied(b, a, a_batch)
    work = count * m * k
    if k == 1 or a.strides[-1] == 1:
        kernel, units = kernels.dot_rows.specialise(T=kind), count * m
        sizes = (m, k, a_batch, a.strides[-2], x_batch)
    else:
        kernel, strips = kernels.combine_rows.specialise(T=kind), -(-m // (4 * codegen.VL))
        units, sizes = count * strips, (m, k, strips, a_batch, a.strides[-1], x_batch)
    b.launch(kernel, a, x, out, *sizes, n=units, chunks=b.chunks(units, work))


def _launch_tiles(b: Binding, x: Buffer, x_batch: int, y: Buffer, y_batch: int, out: Buffer) -> None:
    kind, count = TYPES[x.dtype], prod(out.shape[:-2])
    m, n, k = out.shape[-2], out.shape[-1], x.shape[-1]
    vectors = kernels.tile_vectors(x.dtype)
    width = vectors * codegen.VL
    work = count * m * n * k
    if y.strides[-1] != 1 and y.strides[-2] != 1 and k > 1:
        y, y_batch = _copied(b, y, y_batch)
    x_m, x_k = x.strides[-2:]
    y_k, y_n = y.strides[-2:]
    panel = width
    large = work >= LARGE and m >= MANY and n >= MANY
    if y_n != 1 or large or (m >= MANY and y_k * y.itemsize >= FAR):
        y, y_k, panel, y_batch = _packed(b, y, y_batch, count if y_batch else 1, vectors)
    tiles, low, high = kernels.tile_heights(m)
    rows, columns = _blocks(work, count, tiles, -(-n // width))
    units = count * rows * columns
    in_bad_order = x_m * x.itemsize % PAGE == 0 if x_k == 1 else x_k * x.itemsize >= FAR
    pack = 1 in (x_m, x_k) and ((large and x_k == 1) or (n // columns >= MANY and in_bad_order))
    unit = (-(-m // rows) + kernels.TALLEST) * min(k, kernels.DEPTH)
    copy = b.scratch((units, unit), x.dtype) if pack else x
    tail = -(-(n % width) // codegen.VL)
    instance = kernels.gemm.specialise(T=kind, LOW=low, HIGH=high, NV=vectors, TAIL=tail, PACK=int(pack))
    b.launch(
        instance, x, y, out, copy, m, n, k, x_batch, x_m, x_k, y_batch, panel, y_k, m * n, tiles, rows, columns, unit,
        n=units, chunks=1 if work < SMALL else units,
    )  # fmt: skip


def _blocks(work: int, batch: int, tiles: int, panels: int) -> tuple[int, int]:
    """(row blocks, column blocks) into which one product is cut, by shapes only."""
    if work < SMALL or batch >= 8:
        return 1, 1
    wanted = 4 if work < 16 * SMALL else 8
    if tiles >= panels:
        rows = min(tiles, wanted)
        return rows, min(panels, -(-wanted // rows))
    columns = min(panels, wanted)
    return min(tiles, -(-wanted // columns)), columns


def _flat_batch(b: Binding, x: Buffer, batch: tuple[int, ...]) -> tuple[Buffer, int]:
    """The operand with one stride over all its batches (0 if it has none of its own)."""
    own = x.shape[:-2]
    if prod(own) == 1:
        return x, 0
    lead = len(batch) - len(own)
    spread = (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(own, x.strides))
    x = x.window((*batch, *x.shape[-2:]), (*spread, *x.strides[-2:]), 0)
    strides = [s for n, s in zip(batch, spread) if n != 1]
    lengths = [n for n in batch if n != 1]
    if all(s == t * m for s, t, m in zip(strides, strides[1:], lengths[1:])):
        return x, strides[-1]
    x = b.contiguous(x)
    return x, x.shape[-2] * x.shape[-1]


def _turned(x: Buffer) -> Buffer:
    """The transposed matrices."""
    *batch, m, n = x.shape
    *strides, s, t = x.strides
    return x.window((*batch, n, m), (*strides, t, s), 0)


def _copied(b: Binding, x: Buffer, batch_stride: int) -> tuple[Buffer, int]:
    """A contiguous copy of a matrix, or of all if each batch has its own; and the new distance between batches."""
    if not batch_stride:
        x = x.window(x.shape[-2:], x.strides[-2:], 0)
    copy = b.contiguous(x)
    return copy, x.shape[-2] * x.shape[-1] if batch_stride else 0


def _packed(b: Binding, y: Buffer, y_batch: int, batches: int, vectors: int) -> tuple[Buffer, int, int, int]:
    """(panels, row stride, panel stride, batch stride) of an operand whose rows or columns are contiguous."""
    k, n = y.shape[-2:]
    width = vectors * codegen.VL
    per_batch = -(-n // width)
    size = per_batch * k * width
    panels = b.scratch((batches, size), y.dtype)
    units = batches * per_batch
    by_rows = y.strides[-1] == 1
    pack = (kernels.pack_panels if by_rows else kernels.pack_transposed).specialise(T=TYPES[y.dtype], NV=vectors)
    step = y.strides[-2 if by_rows else -1]
    b.launch(
        pack, y, panels, n, k, step, y_batch, size,
        n=units, chunks=b.chunks(units, units * k * width), reads=[y],
    )  # fmt: skip
    return panels, width, k * width, size if batches > 1 else 0
