"""Generated loops: how operands of any strides are walked over together, and the text of the kernel that does it."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from .. import codegen
from ..kernels import vmath

STORED = {
    "float16": "f16", "float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "int8": "i8", "uint8": "u8",
    "uint32": "u32", "uint64": "u64", "bool": "bool_",
}  # fmt: skip
COMPUTED = STORED | {"float16": "f32"}
WALKS = {0: "one", 1: "next", -1: "back"}


@dataclass(frozen=True)
class Loop:
    """How a kernel walks over its operands, by axis after merging: lengths, and per operand strides in elements."""

    lengths: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def inner(self) -> tuple[str, ...]:
        """Per operand how the innermost axis is walked: "one" element for all, "next", "back", or with a "step"."""
        return tuple(WALKS.get(s[-1], "step") for s in self.strides)

    @property
    def fixed(self) -> tuple[bool, ...]:
        """Per operand whether it is one single element."""
        return tuple(not any(s) for s in self.strides)

    @property
    def arguments(self) -> list[int]:
        """The numbers that the kernel takes after its operands."""
        steps = [s[-1] for s, kind in zip(self.strides, self.inner) if kind == "step"]
        outer = [n for s, fixed in zip(self.strides, self.fixed) if not fixed for n in s[:-1]]
        return [*steps, *self.lengths[1:], *outer]


def merge_axes(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Loop:
    """Join neighbouring axes that every operand walks through as one, and drop those of length 1."""
    lengths: list[int] = []
    merged: list[list[int]] = []
    for a, n in enumerate(shape):
        if n == 1:
            continue
        column = [s[a] for s in strides]
        if lengths and all(before == s * n for before, s in zip(merged[-1], column)):
            lengths[-1] *= n
            merged[-1] = column
        else:
            lengths.append(n)
            merged.append(column)
    if not lengths:
        lengths, merged = [1], [[0] * len(strides)]
    return Loop(tuple(lengths), tuple(zip(*merged)))


@lru_cache(maxsize=4096)
def substitute(formula: str, operands: tuple[tuple[str, str], ...]) -> str:
    """A row's formula with its letters replaced by what stands for them."""
    replacement = dict(operands)

    class Names(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            text = replacement.get(name.id)
            return ast.parse(text, mode="eval").body if text is not None else name

    return ast.unparse(Names().visit(ast.parse(formula, mode="eval")))


def loop_kernel(
    loop: Loop, scalars: Sequence[str], n_inputs: int, statements: Sequence[str], results: Sequence[str]
) -> codegen.KernelInstance:
    """A kernel over operands p0, p1, ... of the types `scalars`; the first n_inputs are read as v0, v1, ..., and the
    `statements` make of them the `results`, which are written to the rest.

    It runs over the rows of the innermost axis, or over the elements if there is one axis only.
    """
    return _compiled(_text(loop, scalars, n_inputs, statements, results))


@cache
def _compiled(text: str) -> codegen.KernelInstance:
    return codegen.from_source("elementwise", text, vmath.NAMES, inplace=True).specialise()


def _text(loop: Loop, scalars: Sequence[str], n_inputs: int, statements: Sequence[str], results: Sequence[str]) -> str:
    inner, fixed, depth = loop.inner, loop.fixed, len(loop.lengths)
    parameters = [f"p{k}: ptr({s})" for k, s in enumerate(scalars)]
    parameters += [f"step{k}: i64" for k, kind in enumerate(inner) if kind == "step"]
    parameters += [f"n{a}: i64" for a in range(1, depth)]
    parameters += [f"s{k}_{a}: i64" for k in range(len(scalars)) if not fixed[k] for a in range(depth - 1)]
    head = [f"def elementwise({', '.join(parameters)}, lo: i64, hi: i64):"]
    head += [f"    v{k} = p{k}[0]" for k in range(n_inputs) if fixed[k]]
    moving = [k for k in range(len(scalars)) if not fixed[k]]
    if depth == 1:
        head.append("    for i in vrange(lo, hi):")
        pointers, indent, tail = "p", "        ", []
    else:
        head += _first_row(depth, moving)
        head.append("    for row in range(lo, hi):")
        head += [f"        v{k} = q{k}[0]" for k in range(n_inputs) if inner[k] == "one" and not fixed[k]]
        head.append(f"        for i in vrange(0, n{depth - 1}):")
        pointers, indent, tail = "q", "            ", _next_row(depth, moving)
    where = {"one": "0", "next": "i", "back": "-i", "step": "i * step{k}"}
    body = [
        f"v{k} = {pointers}{k}[{where[inner[k]]}]".format(k=k) for k in moving if k < n_inputs and inner[k] != "one"
    ]
    body += statements
    for k, result in enumerate(results, n_inputs):
        place = f"p{k}[i]" if fixed[k] else f"{pointers}{k}[{where[inner[k]]}]".format(k=k)
        body.append(f"{place} = {result}")  # a fixed result is one element: the loop runs once
    return "\n".join([*head, *(indent + line for line in body), *tail]) + "\n"


def _first_row(depth: int, operands: Sequence[int]) -> list[str]:
    """The indices i0, i1, ... of the row number `lo`, and pointers to it."""
    lines, rest = [], "lo"
    for a in range(depth - 2, 0, -1):
        lines += [f"    i{a} = {rest} % n{a}", f"    r{a} = {rest} // n{a}"]
        rest = f"r{a}"
    indices = [rest, *(f"i{a}" for a in range(1, depth - 1))]
    for k in operands:
        offset = " + ".join(f"{i} * s{k}_{a}" for a, i in enumerate(indices))
        lines.append(f"    q{k} = p{k} + ({offset})")
    return lines


def _next_row(depth: int, operands: Sequence[int]) -> list[str]:
    """To the next row: the last index goes on, and where it comes to its end the one before does."""
    indent, last = "        ", depth - 2
    lines = [f"{indent}q{k} = q{k} + s{k}_{last}" for k in operands]
    for a in range(last, 0, -1):
        lines += [f"{indent}i{a} += 1", f"{indent}if i{a} == n{a}:", f"{indent}    i{a} = 0"]
        indent += "    "
        lines += [f"{indent}q{k} = q{k} + (s{k}_{a - 1} - n{a} * s{k}_{a})" for k in operands]
    return lines
