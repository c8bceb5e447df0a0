"""Elementwise kernels: one generated loop for a chain of rows, whatever its operands' strides."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from .. import codegen
from ..graph import Apply, Constant, Variable
from ..kernels import vmath
from ..ops.elementwise import BroadcastLike, Cast, Elementwise
from ..rewrites.fuse import Fused, has_formula
from .binding import Binding, Declined, binds
from .buffers import Buffer

STORED = {
    "float16": "f16", "float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "int8": "i8", "uint8": "u8",
    "uint32": "u32", "uint64": "u64", "bool": "bool_",
}  # fmt: skip
COMPUTED = STORED | {"float16": "f32"}
EXACT_IN_SINGLE = {"float16", "float32", "int8", "uint8", "bool"}
LETTERS = "xyz"


@dataclass(frozen=True)
class Loop:
    """How a kernel walks over its operands, by axis after merging: lengths, and per operand strides in elements."""

    lengths: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def inner(self) -> tuple[str, ...]:
        """Per operand how the innermost axis is read: "one" element for all, "next" to each other, or with a "step"."""
        kinds = {0: "one", 1: "next"}
        return tuple(kinds.get(s[-1], "step") for s in self.strides)

    @property
    def fixed(self) -> tuple[bool, ...]:
        """Per operand whether it is one single element."""
        return tuple(not any(s) for s in self.strides)


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
    results = [b.output(j, next((x for x in candidates if b.can_reuse(x, j)), None)) for j in range(len(outputs))]
    pairs = [(result, x) for result in results for x in candidates]
    loop = merge_axes(shape, [*(_spread(x, shape) for x in b.inputs), *(r.strides for r in results)])
    kernel = body.kernel(loop, [x.dtype for x in b.inputs])
    _launch(b, kernel, loop, [*b.inputs, *results], len(nodes), pairs)


def launch_copy(b: Binding, source: Buffer, target: Buffer) -> None:
    """Copy a strided window into another of the same shape."""
    launch_formula(b, "x", [source], target)


def launch_formula(b: Binding, formula: str, inputs: Sequence[Buffer], target: Buffer) -> None:
    """target = `formula` of x, y, z, which broadcast to its shape; any of them may be the target itself."""
    if not all(buffer.dtype in STORED for buffer in (*inputs, target)):
        raise Declined
    loop = merge_axes(target.shape, [*(_spread(x, target.shape) for x in inputs), target.strides])
    scalars = [STORED[buffer.dtype] for buffer in (*inputs, target)]
    result = substitute(formula, {letter: f"v{k}" for k, letter in zip(range(len(inputs)), LETTERS)})
    kernel = _compile(_source(loop, scalars, len(inputs), [], [result]))
    _launch(b, kernel, loop, [*inputs, target], 1, [])


def _launch(b: Binding, kernel, loop: Loop, operands: Sequence[Buffer], work: int, pairs) -> None:
    size = 1
    for n in loop.lengths:
        size *= n
    args: list = list(operands)
    args += [s[-1] for s, kind in zip(loop.strides, loop.inner) if kind == "step"]
    rows = 1
    if len(loop.lengths) > 1:
        args += [*loop.lengths[1:]]
        args += [s for strides, fixed in zip(loop.strides, loop.fixed) if not fixed for s in strides[:-1]]
        rows = size // loop.lengths[-1]
    n = loop.lengths[-1] if len(loop.lengths) == 1 else rows
    b.launch(kernel, *args, n=n, chunks=b.chunks(n, size * (1 + work)), in_place=pairs)


def _spread(buffer: Buffer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a buffer broadcast to `shape`."""
    lead = len(shape) - buffer.ndim
    own = [0 if n == 1 else s for n, s in zip(buffer.shape, buffer.strides)]
    return (0,) * lead + tuple(own)


def merge_axes(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Loop:
    """Join neighbouring axes that every operand walks through as one, and drop those of length 1."""
    axes = [a for a, n in enumerate(shape) if n != 1]
    lengths: list[int] = []
    merged: list[list[int]] = []
    for a in axes:
        column = [s[a] for s in strides]
        if lengths and all(before == s * shape[a] for before, s in zip(merged[-1], column)):
            lengths[-1] *= shape[a]
            merged[-1] = column
        else:
            lengths.append(shape[a])
            merged.append(column)
    if not lengths:
        lengths, merged = [1], [[0] * len(strides)]
    return Loop(tuple(lengths), tuple(tuple(c[i] for c in merged) for i in range(len(strides))))


def _inner_graph(node: Apply) -> tuple[Sequence[Variable], Sequence[Apply], Sequence[Variable]]:
    if isinstance(node.op, Fused):
        graph = node.op.graph
        return graph.inputs, graph.nodes, graph.outputs
    return node.inputs, [node], node.outputs


class _Body:
    """The statements of the loop: each inner node as one assignment in the kernel language."""

    def __init__(self, inputs: Sequence[Variable], nodes: Sequence[Apply], outputs: Sequence[Variable]) -> None:
        self.names: dict[Variable, str] = {}
        for i, v in enumerate(inputs):
            self.names.setdefault(v, f"v{i}")
        self.dtypes = [v.dtype for v in inputs]
        self.statements: list[str] = []
        for node in nodes:
            name = f"t{len(self.statements)}"
            self.statements.append(f"{name} = {self._expression(node)}")
            self.names[node.outputs[0]] = name
        self.results = [self._operand(v, v.dtype) for v in outputs]
        self.out_dtypes = [v.dtype for v in outputs]
        if not all(d in STORED for d in [*self.dtypes, *self.out_dtypes]):
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
        operands = {letter: self._operand(v, d) for letter, v, d in zip(LETTERS, node.inputs, wanted)}
        return substitute(row.native, operands)

    def kernel(self, loop: Loop, dtypes: Sequence[str]):
        scalars = [STORED[d] for d in [*self.dtypes, *self.out_dtypes]]
        return _compile(_source(loop, scalars, len(self.dtypes), self.statements, self.results))


def substitute(formula: str, operands: dict[str, str]) -> str:
    """A row's formula with its letters replaced by what stands for them."""
    return _substituted(formula, tuple(operands.items()))


@lru_cache(maxsize=4096)
def _substituted(formula: str, operands: tuple[tuple[str, str], ...]) -> str:
    replacement = dict(operands)

    class Names(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            text = replacement.get(name.id)
            return ast.parse(text, mode="eval").body if text is not None else name

    return ast.unparse(Names().visit(ast.parse(formula, mode="eval")))


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


def _source(
    loop: Loop, scalars: Sequence[str], n_inputs: int, statements: Sequence[str], results: Sequence[str]
) -> str:
    """The kernel's text. Operand k is p{k}; the first n_inputs are read, the rest written."""
    inner, fixed = loop.inner, loop.fixed
    depth = len(loop.lengths)
    parameters = [f"p{k}: ptr({s})" for k, s in enumerate(scalars)]
    parameters += [f"step{k}: i64" for k, kind in enumerate(inner) if kind == "step"]
    parameters += [f"n{a}: i64" for a in range(1, depth)]
    parameters += [f"s{k}_{a}: i64" for k in range(len(scalars)) if not fixed[k] for a in range(depth - 1)]
    lines = [f"def elementwise({', '.join(parameters)}, lo: i64, hi: i64):"]
    lines += [f"    v{k} = p{k}[0]" for k in range(n_inputs) if fixed[k]]
    indent, index = "    ", "i"
    if depth > 1:
        lines.append("    for r in range(lo, hi):")
        indent = "        "
        rest = "r"
        for a in range(depth - 2, 0, -1):
            lines.append(f"{indent}i{a} = {rest} % n{a}")
            lines.append(f"{indent}r{a} = {rest} // n{a}")
            rest = f"r{a}"
        lines.append(f"{indent}i0 = {rest}")
        for k in range(len(scalars)):
            if not fixed[k]:
                offset = " + ".join(f"i{a} * s{k}_{a}" for a in range(depth - 1))
                lines.append(f"{indent}q{k} = p{k} + ({offset})")
        lines += [f"{indent}v{k} = q{k}[0]" for k in range(n_inputs) if inner[k] == "one" and not fixed[k]]
        lines.append(f"{indent}for i in vrange(0, n{depth - 1}):")
    else:
        lines.append("    for i in vrange(lo, hi):")
    indent += "    "
    pointer = [f"q{k}" if depth > 1 and not fixed[k] else f"p{k}" for k in range(len(scalars))]
    where = {"next": index, "step": f"{index} * step{{k}}"}
    for k in range(n_inputs):
        if not fixed[k] and inner[k] != "one":
            lines.append(f"{indent}v{k} = {pointer[k]}[{where[inner[k]].format(k=k)}]")
    lines += [indent + s for s in statements]
    for k, result in enumerate(results, n_inputs):
        place = "0" if fixed[k] else where.get(inner[k], "0").format(k=k)
        place = index if fixed[k] else place  # a result of one element: the loop runs once
        lines.append(f"{indent}{pointer[k]}[{place}] = {result}")
    return "\n".join(lines) + "\n"


@cache
def _compile(source: str):
    return codegen.from_source("elementwise", source, vmath.NAMES, inplace=True).specialise()
