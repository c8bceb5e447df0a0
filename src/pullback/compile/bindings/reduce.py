"""Reductions over any axes, by merging axes into (outer, length, inner); running sums, products and recurrences."""

from math import prod

from ... import codegen
from ...kernels import reduce as kernels
from ...ops.cumulative import CumProd, CumSum, Prod, Recurrence
from ...ops.elementwise import SumTo
from ...ops.extremes import ArgMax, ArgMin, Max, Min
from ...ops.reduce import AllTrue, AnyTrue, Center, Norm2, Sum
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from ..elementwise import launch_formula

ELEMENTS = {
    "float16": codegen.f16, "float32": codegen.f32, "float64": codegen.f64, "bool": codegen.u8, "uint8": codegen.u8,
    "int8": codegen.i8, "int32": codegen.i32, "uint32": codegen.u32, "int64": codegen.i64, "uint64": codegen.u64,
}  # fmt: skip
WIDER = {"float16": "float32", "bool": "int64", "uint8": "int64", "int8": "int64", "int32": "int64", "uint32": "int64"}
SAME = {"float16": "float32"}
JOINED_IN = {
    kernels.SUM: WIDER, kernels.PROD: WIDER, kernels.MAX: SAME, kernels.MIN: SAME,
    kernels.SQUARES: {"float32": "float64"},
    kernels.ANY: dict.fromkeys(ELEMENTS, "uint8"), kernels.ALL: dict.fromkeys(ELEMENTS, "uint8"),
}  # fmt: skip
KINDS = {
    Sum: kernels.SUM, SumTo: kernels.SUM, Prod: kernels.PROD, Max: kernels.MAX, Min: kernels.MIN, AnyTrue: kernels.ANY,
    AllTrue: kernels.ALL, ArgMax: kernels.MAX, ArgMin: kernels.MIN, CumSum: kernels.SUM, CumProd: kernels.PROD,
}  # fmt: skip
ROWS_PER_BLOCK = 512  # of a long column reduction
ELEMENTS_PER_BLOCK = 32768  # of a long row reduction
NARROW = 64  # columns, below which several rows are taken as one
WIDE = 4096  # columns, from which on they are shared out where rows are too few


@binds(Sum, Prod, Max, Min, AnyTrue, AllTrue)
def bind_reduction(node, b: Binding) -> None:
    reduce(b, b.inputs[0], set(node.op.axis), b.output(0), KINDS[type(node.op)])


@binds(SumTo)
def bind_sum_to(node, b: Binding) -> None:
    x, shape = b.inputs[0], b.shapes[0]
    lead = x.ndim - len(shape)
    axes = {a for a in range(x.ndim) if a < lead or (shape[a - lead] == 1 and x.shape[a] != 1)}
    reduce(b, x, axes, b.output(0), kernels.SUM)


@binds(Norm2)
def bind_norm(node, b: Binding) -> None:
    x, out = b.inputs[0], b.output(0)
    if x.dtype != "float32":
        raise Declined  # squares in float64 could overflow
    squares = b.scratch(out.shape, "float64")
    reduce(b, x, set(node.op.axis), squares, kernels.SQUARES)
    launch_formula(b, "f32(sqrt(x))", [squares], out)


@binds(Center)
def bind_center(node, b: Binding) -> None:
    """x - first, whose mean is then taken away: exactly zero where the entries are equal."""
    x, axes = b.inputs[0], set(node.op.axis)
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    out = b.output(0)
    launch_formula(b, "x - y", [x, x.window(shape, x.strides, 0)], out)
    total = b.scratch(shape, x.dtype)
    reduce(b, out, axes, total, kernels.SUM)
    launch_formula(b, f"x - y / {float(prod(x.shape[a] for a in axes))!r}", [out, total], out)


def reduce(b: Binding, x: Buffer, axes: set[int], out: Buffer, kind: int) -> None:
    """out = x reduced over `axes`; `out` is contiguous, of the dtype of x or of that in which elements are joined."""
    if x.dtype not in ELEMENTS:
        raise Declined
    joined_in = JOINED_IN[kind].get(x.dtype, x.dtype)
    narrower = out.dtype in SAME and joined_in == SAME[out.dtype]
    target = b.scratch(out.shape, joined_in) if narrower else out
    if target.itemsize != codegen.BY_DTYPE[ELEMENTS[joined_in].dtype].size:
        raise Declined
    x, axes = _in_memory_order(b, x, axes)
    groups = merged(x.shape, axes)
    while sum(reduced for _, reduced in groups) > 1:  # the last reduced group first, into scratch
        last = max(i for i, (_, reduced) in enumerate(groups) if reduced)
        outer, length = prod(n for n, _ in groups[:last]), groups[last][0]
        inner = prod(n for n, _ in groups[last + 1 :])
        partial = b.scratch((outer, inner), joined_in)
        _reduce_one(b, x, outer, length, inner, partial, kind)
        x, kind = partial, _later(kind)
        groups = _joined(groups[:last] + groups[last + 1 :])
    place = next((i for i, (_, reduced) in enumerate(groups) if reduced), None)
    if place is None:  # nothing to reduce but axes of length 1
        _reduce_one(b, x, 1, 1, x.size, target, kind)
    else:
        outer, inner = prod(n for n, _ in groups[:place]), prod(n for n, _ in groups[place + 1 :])
        _reduce_one(b, x, outer, groups[place][0], inner, target, kind)
    if narrower:
        launch_formula(b, "x", [target], out)


def _reduce_one(b: Binding, x: Buffer, outer: int, length: int, inner: int, out: Buffer, kind: int) -> None:
    """out[outer, inner] from a contiguous x[outer, length, inner]."""
    source, wide = ELEMENTS[x.dtype], ELEMENTS[out.dtype]
    rows = inner == 1
    if not rows and inner < NARROW:
        together = next((k for k in range(NARROW // inner, 1, -1) if length % k == 0 and length > k), 1)
        if together > 1:
            folded = b.scratch((outer, together, inner), out.dtype)
            _reduce_one(b, x, outer, length // together, together * inner, folded, kind)
            x, source, length, kind = folded, wide, together, _later(kind)
    blocks = -(-length // (ELEMENTS_PER_BLOCK if rows else ROWS_PER_BLOCK))
    target = out if blocks == 1 else b.scratch((outer, blocks, inner), out.dtype)
    work = outer * length * inner
    if rows and length <= codegen.VL and outer >= codegen.VL and wide.is_float:
        kernel = kernels.reduce_short_rows.specialise(X=source, T=wide, OP=kind)
        units, sizes = -(-outer // codegen.VL), (outer, length)
    elif rows:
        kernel = kernels.reduce_rows.specialise(X=source, T=wide, OP=kind)
        units, sizes = outer * blocks, (length, blocks)
    else:
        kernel = kernels.reduce_columns.specialise(X=source, T=wide, OP=kind)
        strips = 4 if outer * blocks < 4 and inner >= WIDE else 1
        units, sizes = outer * blocks * strips, (length, inner, blocks, strips)
    b.launch(kernel, x, target, *sizes, n=units, chunks=b.chunks(units, work))
    if blocks > 1:
        _reduce_one(b, target, outer, blocks, inner, out, _later(kind))


def _later(kind: int) -> int:
    """What joins partial results."""
    return kernels.SUM if kind == kernels.SQUARES else kind


def _in_memory_order(b: Binding, x: Buffer, axes: set[int]) -> tuple[Buffer, set[int]]:
    """x with its axes in the order in which they lie in memory, where that spares a copy; else a contiguous copy."""
    order = sorted((a for a in range(x.ndim) if x.shape[a] != 1), key=lambda a: -x.strides[a])
    turned = x.window([x.shape[a] for a in order], [x.strides[a] for a in order], 0)
    kept = [a for a in order if a not in axes]
    if turned.is_contiguous and kept == sorted(kept):
        return turned, {i for i, a in enumerate(order) if a in axes}
    return b.contiguous(x), axes


def merged(shape: tuple[int, ...], axes: set[int]) -> list[tuple[int, bool]]:
    """(length, reduced?) of runs of axes that are all reduced or all kept; axes of length 1 left out."""
    return _joined([(n, a in axes) for a, n in enumerate(shape) if n != 1])


def _joined(groups: list[tuple[int, bool]]) -> list[tuple[int, bool]]:
    joined: list[tuple[int, bool]] = []
    for n, reduced in groups:
        if joined and joined[-1][1] == reduced:
            joined[-1] = (joined[-1][0] * n, reduced)
        else:
            joined.append((n, reduced))
    return joined


# --- along one axis ---------------------------------------------------------------------------------------------------


@binds(ArgMax, ArgMin)
def bind_arg_extreme(node, b: Binding) -> None:
    x, axes = b.inputs[0], node.op.axis
    if x.dtype not in ELEMENTS or x.dtype == "float16" or axes != tuple(range(axes[0], axes[0] + len(axes))):
        raise Declined
    x, out = b.contiguous(x), b.output(0)
    outer, length, inner = split_at(x.shape, axes[0], len(axes))
    if 1 < inner < codegen.VL:  # columns that don't fill a vector become rows
        x = b.contiguous(x.window((outer, inner, length), (length * inner, 1, inner), 0))
        outer, inner = outer * inner, 1
    types = dict(T=ELEMENTS[x.dtype], OP=KINDS[type(node.op)])
    chunks = b.chunks(outer, 4 * x.size)
    if inner > 1:
        best = b.scratch((outer, inner), x.dtype)
        b.launch(kernels.arg_columns.specialise(**types), x, best, out, length, inner, n=outer, chunks=chunks)
    elif length <= codegen.VL <= outer:
        units = -(-outer // codegen.VL)
        chunks = b.chunks(units, 4 * x.size)
        b.launch(kernels.arg_short_rows.specialise(**types), x, out, outer, length, n=units, chunks=chunks)
    else:
        b.launch(kernels.arg_rows.specialise(**types), x, out, length, n=outer, chunks=chunks)


@binds(CumSum, CumProd)
def bind_running(node, b: Binding) -> None:
    x, out, op = b.inputs[0], b.output(0), node.op
    if x.dtype not in ELEMENTS or out.dtype not in ("float32", "float64", "int64", "uint64"):
        raise Declined
    x = b.contiguous(x)
    outer, length, inner = split_at(x.shape, op.axis)
    types = dict(X=ELEMENTS[x.dtype], T=ELEMENTS[out.dtype], OP=KINDS[type(op)], REVERSE=int(op.reverse))
    chunks = b.chunks(outer, 4 * x.size)
    if inner == 1:
        b.launch(kernels.running_rows.specialise(**types), x, out, length, n=outer, chunks=chunks)
    else:
        b.launch(kernels.running_columns.specialise(**types), x, out, length, inner, n=outer, chunks=chunks)


@binds(Recurrence)
def bind_recurrence(node, b: Binding) -> None:
    if b.inputs[0].dtype != b.inputs[1].dtype or b.inputs[0].dtype not in ("float32", "float64"):
        raise Declined
    factors, terms, out = *map(b.contiguous, b.inputs), b.output(0)
    outer, length, inner = split_at(terms.shape, node.op.axis)
    types = dict(T=ELEMENTS[terms.dtype], REVERSE=int(node.op.reverse))
    chunks = b.chunks(outer, 4 * terms.size)
    if inner == 1:
        b.launch(kernels.recurrence_rows.specialise(**types), factors, terms, out, length, n=outer, chunks=chunks)
    else:
        b.launch(
            kernels.recurrence_columns.specialise(**types), factors, terms, out, length, inner, n=outer, chunks=chunks
        )  # fmt: skip


def split_at(shape: tuple[int, ...], axis: int, count: int = 1) -> tuple[int, int, int]:
    """(outer, length, inner) for `count` axes from `axis` on."""
    return prod(shape[:axis]), prod(shape[axis : axis + count]), prod(shape[axis + count :])
