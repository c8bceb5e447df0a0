"""Matrix products."""

from math import prod

from ... import codegen
from ...kernels import gemm as kernels
from ...ops.linear import MatMul
from ..binding import Binding, Declined, binds
from ..buffers import Buffer

TYPES = {"float32": codegen.f32, "float64": codegen.f64}
SMALL = 1_000_000  # multiply-adds below which a product stays on one core


@binds(MatMul)
def bind_matmul(node, b: Binding) -> None:
    x, y = b.inputs
    if x.dtype not in TYPES or x.dtype != y.dtype or node.outputs[0].dtype != x.dtype:
        raise Declined
    if x.ndim < 2 or y.ndim < 2:
        raise Declined
    launch_gemm(b, x, y, b.output(0))


def launch_gemm(b: Binding, x: Buffer, y: Buffer, out: Buffer) -> None:
    """out = x @ y; x and y are strided, with the same leading (batch) axes or none; out is contiguous."""
    kind = TYPES[x.dtype]
    batch = out.shape[:-2]
    m, n, k = out.shape[-2], out.shape[-1], x.shape[-1]
    x, x_batch = _flat_batch(b, x, batch)
    y, y_batch = _flat_batch(b, y, batch)
    count = prod(batch)
    vectors = kernels.tile_vectors(x.dtype)
    width = vectors * codegen.VL
    x_m, x_k = x.strides[-2:]
    y_k, y_n = y.strides[-2:]
    panel = width
    if n > 1 and y_n != 1:
        if y_k != 1 and k > 1:
            y, (y_k, y_n) = b.contiguous(y), (n, 1)
            y_batch = y_batch and k * n
        else:
            y, y_k, panel, y_batch = _packed(b, y, count if y_batch else 1, n, k, vectors)
    tiles, low, high = kernels.tile_heights(m)
    tail = -(-(n % width) // codegen.VL)
    rows, columns = _blocks(m, n, k, count, tiles, -(-n // width))
    instance = kernels.gemm.specialise(T=kind, LOW=low, HIGH=high, NV=vectors, TAIL=tail)
    units = count * rows * columns
    work = count * m * n * k
    b.launch(
        instance, x, y, out, m, n, k, x_batch, x_m, x_k, y_batch, panel, y_k, m * n, tiles, rows, columns,
        n=units, chunks=1 if work < SMALL else units,
    )  # fmt: skip


def _blocks(m: int, n: int, k: int, batch: int, tiles: int, panels: int) -> tuple[int, int]:
    """(row blocks, column blocks) into which one product is cut, by shapes only."""
    if m * n * k * batch < SMALL or batch >= 8:
        return 1, 1
    wanted = 4 if m * n * k < 16 * SMALL else 8
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
    if own != batch:
        raise Declined
    strides = [s for n, s in zip(own, x.strides) if n != 1]
    lengths = [n for n in own if n != 1]
    if all(s == t * m for s, t, m in zip(strides, strides[1:], lengths[1:])):
        return x, strides[-1]
    x = b.contiguous(x)
    return x, x.shape[-2] * x.shape[-1]


def _packed(b: Binding, y: Buffer, batches: int, n: int, k: int, vectors: int) -> tuple[Buffer, int, int, int]:
    """(panels, row stride, panel stride, batch stride) of an operand whose columns, not rows, are contiguous."""
    width = vectors * codegen.VL
    per_batch = -(-n // width)
    size = per_batch * k * width
    panels = b.scratch((batches, size), y.dtype)
    y_batch = y.strides[-3] if batches > 1 else 0
    strides = [s for m, s in zip(y.shape[:-2], y.strides) if m != 1]
    y_batch = strides[-1] if batches > 1 and strides else y_batch
    units = batches * per_batch
    instance = kernels.pack_transposed.specialise(T=TYPES[y.dtype], NV=vectors)
    chunks = b.chunks(units, units * k * width)
    b.launch(instance, y, panels, n, k, y.strides[-1], y_batch, size, n=units, chunks=chunks)
    return panels, width, k * width, size if batches > 1 else 0
