"""Elementwise ops as one generated loop for a chain of rows, and copies between layouts."""

from collections.abc import Sequence
from math import prod

from .. import codegen
from ..graph import Apply, Constant, Variable
from ..kernels import copies
from ..ops.elementwise import BroadcastLike, Cast, Elementwise
from ..rewrites.fuse import Fused, has_formula
from .binding import Binding, Declined, binds
from .buffers import Buffer, contiguous_strides
from .loops import COMPUTED, STORED, Loop, loop_kernel, merge_axes, substitute

LETTERS = "xyz"
EXACT_IN_SINGLE = {"float16", "float32", "int8", "uint8", "bool"}
MOVED_AS = {
    "float32": codegen.i32, "int32": codegen.i32, "uint32": codegen.i32, "float64": codegen.i64, "int64": codegen.i64,
    "uint64": codegen.i64, "int8": codegen.i8, "uint8": codegen.i8, "bool": codegen.i8,
}  # fmt: skip
SCATTERED = 256  # elements, from which on it pays to copy an operand that lies in steps rather than to gather it
LONG_ROWS = 128  # elements that lie together in the source of a copy that turns them
SHORT = 64  # elements in a row, below which what happens at its end matters
LONG = 1024  # elements in a row made of several


@binds(Elementwise, Cast, Fused)
def bind_elementwise(node: Apply, b: Binding) -> None:
    inputs, nodes, outputs = _inner_graph(node)
    shape = b.shapes[0]
    if any(s != shape for s in b.shapes):
        raise Declined
    body = _Body(inputs, nodes, outputs)
    # all loads of an iteration come before its stores, so any result may lie on any input of the same layout, unless
    # another input reads the same memory in another order (as in x + x.T)
    whole = [x for x in b.inputs if x.shape == shape and x.is_contiguous]
    candidates = [x for x in whole if all(y in whole for y in b.inputs if y.storage is x.storage)]
    operands = [b.contiguous(x) if x.shape == shape and _is_scattered(x) else x for x in b.inputs]
    walked = [spread(x, shape) for x in operands]
    reuse = candidates if _is_smooth(merge_axes(shape, [*walked, contiguous_strides(shape)])) else []
    results = [b.output(j, next((x for x in reuse if b.can_reuse(x, j)), None)) for j in range(len(outputs))]
    pairs = [(result, x) for result in results for x in candidates]
    loop = merge_axes(shape, [*walked, *(r.strides for r in results)])
    _launch(b, loop, [*operands, *results], len(operands), body.statements, body.results, pairs)


def launch_formula(
    b: Binding, formula: str, inputs: Sequence[Buffer], target: Buffer, reads: Sequence[Buffer] | None = None
) -> None:
    """target = `formula` of x, y, z, which broadcast to its shape; any of them may be the target itself.

    `reads`: see `Binding.launch`.
    """
    if not all(buffer.dtype in STORED for buffer in (*inputs, target)):
        raise Declined
    loop = merge_axes(target.shape, [*(spread(x, target.shape) for x in inputs), target.strides])
    result = substitute(formula, tuple((letter, f"v{k}") for k, letter in zip(range(len(inputs)), LETTERS)))
    _launch(b, loop, [*inputs, target], len(inputs), [], [result], [], reads)


def _launch(
    b: Binding,
    loop: Loop,
    operands: Sequence[Buffer],
    n_inputs: int,
    statements: Sequence[str],
    results: Sequence[str],
    in_place: Sequence[tuple[Buffer, Buffer]],
    reads: Sequence[Buffer] | None = None,
) -> None:
    loop, operands = _rows_taken_together(b, loop, list(operands))
    kernel = loop_kernel(loop, [STORED[x.dtype] for x in operands], n_inputs, statements, results)
    n = prod(loop.lengths[:-1]) if len(loop.lengths) > 1 else loop.lengths[0]
    chunks = b.chunks(n, prod(loop.lengths) * (1 + len(statements)))
    b.launch(kernel, *operands, *loop.arguments, n=n, chunks=chunks, in_place=in_place, reads=reads)


def _is_smooth(loop: Loop) -> bool:
    """Whether few vectors are cut off by the end of a row.

    Where many are, a processor that has just stored such a vector lets the next load from the same memory wait.
    """
    n = loop.lengths[-1] * _together(loop)
    return len(loop.lengths) == 1 or n % codegen.VL == 0 or n >= SHORT


def _together(loop: Loop) -> int:
    """How many rows can be taken as one where rows are short or don't end with a vector, as pixels of three channels.

    Every operand goes on from row to row, or is the same row each time.
    """
    if len(loop.lengths) < 2 or prod(loop.lengths[-2:]) < 4 * LONG:
        return 1
    rows, n = loop.lengths[-2:]
    same = [s for s in loop.strides if s[-1] == 1 and not any(s[:-1])]
    if n % codegen.VL == 0 or not same or any(s[-2] != n * s[-1] for s in loop.strides if s not in same):
        return 1
    fitting = [k for k in range(LONG // n, 1, -1) if rows % k == 0]
    return next((k for k in fitting if k * n % codegen.VL == 0), fitting[0] if fitting else 1)


def _rows_taken_together(b: Binding, loop: Loop, operands: list[Buffer]) -> tuple[Loop, list[Buffer]]:
    """Several rows as one, with what is the same in each row written out as often."""
    together = _together(loop)
    if together == 1:
        return loop, operands
    *outer, rows, n = loop.lengths
    for k, strides in enumerate(loop.strides):
        if strides[-1] == 1 and not any(strides[:-1]):
            repeated = b.scratch((together, n), operands[k].dtype)
            row = operands[k].window((together, n), (0, 1), 0)
            launch_formula(b, "x", [row], repeated, reads=[row])
            operands[k] = repeated
    strides = tuple((*s[:-2], s[-2] * together, s[-1]) for s in loop.strides)
    return Loop((*outer, rows // together, n * together), strides), operands


def spread(buffer: Buffer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a buffer broadcast to `shape`."""
    lead = len(shape) - buffer.ndim
    own = [0 if n == 1 else s for n, s in zip(buffer.shape, buffer.strides)]
    return (0,) * lead + tuple(own)


def _is_scattered(x: Buffer) -> bool:
    steps = [s for n, s in zip(x.shape, x.strides) if n != 1]
    return x.size >= SCATTERED and steps[-1] not in (-1, 0, 1)


# --- copies -----------------------------------------------------------------------------------------------------------


def launch_copy(b: Binding, source: Buffer, target: Buffer, reads: Sequence[Buffer] | None = None) -> None:
    """Copy a strided window into another of the same shape and dtype. `reads`: see `Binding.launch`."""
    loop = merge_axes(target.shape, [source.strides, target.strides])
    if target.strides and source.dtype == target.dtype and source.dtype in MOVED_AS and loop.inner[1] == "next":
        if loop.inner[0] not in ("next", "one") and _launch_turn(b, source, target, loop, reads):
            return
        if loop.inner[0] == "step" and len(loop.lengths) <= 2:
            _launch_pick(b, source, target, loop, reads)
            return
    launch_formula(b, "x", [source], target, reads)


def _launch_turn(b: Binding, source: Buffer, target: Buffer, loop: Loop, reads: Sequence[Buffer] | None) -> bool:
    """Copy by blocks turned in registers, if one of the other axes is contiguous in the source."""
    axes = list(zip(loop.lengths, *loop.strides))
    rows = next((a for a in axes[:-1] if a[1] == 1), None)
    rest = [a for a in axes[:-1] if a is not rows]
    if rows is None or len(rest) > 2:
        return False
    outer, middle = [*[(1, 0, 0)] * (2 - len(rest)), *rest]
    columns = axes[-1]
    # read long stretches where the source has them, else write long ones
    band, strip = (1024, codegen.VL) if rows[0] >= LONG_ROWS else (LONG_ROWS, 256)
    units = outer[0] * middle[0] * -(-rows[0] // band) * -(-columns[0] // strip)
    b.launch(
        copies.turn.specialise(T=MOVED_AS[source.dtype]), source, target, rows[0], columns[0], columns[1], rows[2],
        middle[0], outer[1], outer[2], middle[1], middle[2], band, strip,
        n=units, chunks=b.chunks(units, 4 * target.size), reads=reads,
    )  # fmt: skip
    return True


def _launch_pick(b: Binding, source: Buffer, target: Buffer, loop: Loop, reads: Sequence[Buffer] | None) -> None:
    """Copy rows of elements that lie in steps; a single row is cut into pieces, so that cores can share them."""
    length, step = loop.lengths[-1], loop.strides[0][-1]
    rows, (from_row, to_row) = loop.lengths[0], (s[0] for s in loop.strides)
    if len(loop.lengths) == 1:
        rows = next(k for k in (64, 16, 4, 1) if length % k == 0)
        length //= rows
        from_row, to_row = length * step, length
    b.launch(
        copies.pick.specialise(T=MOVED_AS[source.dtype]), source, target, length, step, from_row, to_row,
        n=rows, chunks=b.chunks(rows, 4 * target.size), reads=reads,
    )  # fmt: skip


# --- the statements of a loop -----------------------------------------------------------------------------------------


def _inner_graph(node: Apply) -> tuple[Sequence[Variable], Sequence[Apply], Sequence[Variable]]:
    if isinstance(node.op, Fused):
        graph = node.op.graph
        return graph.inputs, graph.nodes, graph.outputs
    return node.inputs, [node], node.outputs


class _Body:
    """Each inner node as one assignment in the kernel language."""

    def __init__(self, inputs: Sequence[Variable], nodes: Sequence[Apply], outputs: Sequence[Variable]) -> None:
        self.names: dict[Variable, str] = {}
        for i, v in enumerate(inputs):
            self.names.setdefault(v, f"v{i}")
        self.statements: list[str] = []
        for node in nodes:
            name = f"t{len(self.statements)}"
            self.statements.append(f"{name} = {self._expression(node)}")
            self.names[node.outputs[0]] = name
        self.results = [self._operand(v, v.dtype) for v in outputs]
        if not all(v.dtype in STORED for v in (*inputs, *outputs)):
            raise Declined

    def _operand(self, v: Variable, dtype: str) -> str:
        if isinstance(v, Constant) and v not in self.names:
            if v.ndim and v.data.size != 1:
                raise Declined
            return _literal(v.data.reshape(-1)[0], dtype)
        name = self.names[v]
        return name if _scalar(v.dtype) == _scalar(dtype) else f"{_scalar(dtype)}({name})"

    def _expression(self, node: Apply) -> str:
        op = node.op
        if isinstance(op, BroadcastLike):
            return self._operand(node.inputs[0], node.inputs[0].dtype)
        if isinstance(op, Cast):
            x = node.inputs[0]
            if op.dtype == "float16" and x.dtype not in EXACT_IN_SINGLE:
                raise Declined  # it would be rounded twice
            if op.dtype == "bool":
                return f"{self._operand(x, 'int32' if x.dtype == 'bool' else x.dtype)} != 0"
            return self._operand(x, op.dtype)
        row = op.row
        dtypes = [v.dtype for v in node.inputs]
        if not has_formula(op, dtypes):
            raise Declined
        meet = op.compute_dtype(dtypes)
        if meet == "bool" and row.result != "same":
            meet = "int32"
        wanted = ["bool", meet, meet] if row.name == "where" else [meet] * row.arity
        operands = [(letter, self._operand(v, d)) for letter, v, d in zip(LETTERS, node.inputs, wanted)]
        return substitute(row.native, tuple(operands))


def _scalar(dtype: str) -> str:
    if dtype not in COMPUTED:
        raise Declined
    return COMPUTED[dtype]


def _literal(value, dtype: str) -> str:
    number = value.item()
    if dtype == "bool":
        return repr(bool(number))
    if dtype.startswith("float"):
        if number != number or number in (float("inf"), float("-inf")):
            raise Declined  # a non-finite constant stays an operand in memory
        return f"{_scalar(dtype)}({float(number)!r})"
    return f"{_scalar(dtype)}({int(number)})"
