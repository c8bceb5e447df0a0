"""Einstein summation, made of diagonals, sums, transposes and matrix products; so gradients of any order are too."""

from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, ArgumentTypeError, ShapeError
from ..graph import Variable
from .arithmetic import multiply
from .creation import arange
from .indexing import index
from .linear import matmul
from .reduce import sum as total
from .shape import as_same_dtype, expand_dims, length, moveaxis, normalize_axes, reshape, size_of, transpose

__all__ = ["einsum", "tensordot"]

Labels = list[Any]  # one per axis: a letter, or for an axis of the ellipsis its place from the end (-1, -2, ...)


def einsum(spec: str, *operands: Any) -> Variable:
    """Products of `operands` summed over the labels that the output doesn't name, as NumPy's `einsum`.

    Args:
        spec: for example "bij,bjk->bik"; repeated labels take diagonals, "..." stands for axes that broadcast. Without
            "->" the output has the labels that occur once, in alphabetical order, after the ellipsis.
        operands: arrays, one per comma-separated part of `spec`; multiplied from left to right.
    """
    if not isinstance(spec, str):
        raise ArgumentTypeError(f"einsum: the first argument must be a string such as 'ij,jk->ik', got {spec!r}")
    arrays = as_same_dtype(operands, "einsum")
    inputs, output = _parse(spec, arrays)
    (x, labels), *rest = [_with_distinct_labels(x, labels) for x, labels in zip(arrays, inputs)]
    for i, (y, others) in enumerate(rest):
        needed = {label for _, later in rest[i + 1 :] for label in later} | set(output)
        x, labels = _without(x, labels, needed | set(others))
        x, labels = _multiply(x, labels, *_without(y, others, needed | set(labels)), needed)
    x, labels = _without(x, labels, set(output))
    return transpose(x, [labels.index(label) for label in output])


def _parse(spec: str, arrays: Sequence[Variable]) -> tuple[list[Labels], Labels]:
    left, arrow, right = spec.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(arrays):
        raise ArgumentError(f"einsum: {spec!r} names {len(parts)} operands, got {len(arrays)}")
    inputs = [_labels(part, x.ndim, spec, f"operand {i} ({x.type})") for i, (part, x) in enumerate(zip(parts, arrays))]
    every = [label for labels in inputs for label in labels]
    broadcast = sorted({label for label in every if isinstance(label, int)})
    if arrow:
        if broadcast and "..." not in right:
            raise ArgumentError(f"einsum: in {spec!r} the output must have the ellipsis that an operand has")
        output = _labels(right, len(right.replace("...", "")) + len(broadcast), spec, "the output")
        unknown = [label for label in output if label not in every]
        if unknown or len(set(output)) < len(output):
            raise ArgumentError(f"einsum: in {spec!r} the output's labels must be distinct labels of the operands")
    else:
        output = broadcast + sorted(label for label in set(every) - set(broadcast) if every.count(label) == 1)
    return inputs, output


def _labels(part: str, ndim: int, spec: str, what: str) -> Labels:
    before, dots, after = part.partition("...")
    if not (before + after).isalpha() and before + after or not (before + after).isascii():
        raise ArgumentError(f"einsum: {part!r} in {spec!r}: labels are letters a-z and A-Z")
    spread = ndim - len(before + after)
    if spread < 0 or (spread and not dots):
        raise ShapeError(f"einsum: {part!r} in {spec!r} doesn't name the axes of {what}")
    return [*before, *range(-spread, 0), *after]


def _with_distinct_labels(x: Variable, labels: Labels) -> tuple[Variable, Labels]:
    """Diagonals over the labels that occur twice."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = moveaxis(x, (i, j), (-2, -1))
            # each axis indexed by the length of the other: lengths that differ raise
            x = index(x, (..., arange(length(x, -1)), arange(length(x, -2))))
            labels = [k for n, k in enumerate(labels) if n not in (i, j)] + [label]
    return x, labels


def _without(x: Variable, labels: Labels, needed: set) -> tuple[Variable, Labels]:
    """`x` summed over the labels that nobody needs."""
    axes = [i for i, label in enumerate(labels) if label not in needed]
    return (total(x, axes), [label for label in labels if label in needed]) if axes else (x, labels)


def _multiply(x: Variable, xs: Labels, y: Variable, ys: Labels, needed: set) -> tuple[Variable, Labels]:
    """The product of two operands, summed over the labels of both that nobody else needs."""
    batch = [k for k in xs if k in ys and k in needed]
    summed = [k for k in xs if k in ys and k not in needed]
    free_x, free_y = [k for k in xs if k not in ys], [k for k in ys if k not in xs]
    x = transpose(x, [xs.index(k) for k in batch + free_x + summed])
    y = transpose(y, [ys.index(k) for k in batch + summed + free_y])
    labels = batch + free_x + free_y
    b, m, k, n = len(batch), len(free_x), len(summed), len(free_y)
    if not summed:
        return multiply(expand_dims(x, range(b + m, b + m + n)), expand_dims(y, range(b, b + m))), labels
    product = matmul(_grouped(x, b, m, k), _grouped(y, b, k, n))
    if m == n == 1:
        return product, labels
    sizes = [length(product, i) for i in range(b)]
    sizes += [length(x, i) for i in range(b, b + m)] + [length(y, i) for i in range(b + k, b + k + n)]
    return reshape(product, sizes), labels


def _grouped(x: Variable, batch: int, first: int, second: int) -> Variable:
    """A stack of matrices: the `first` axes after the batch axes made one, and the `second` axes after those."""
    if first == second == 1:
        return x
    cut = batch + first
    lead = [length(x, i) for i in range(batch)]
    return reshape(x, [*lead, size_of(x, range(batch, cut)), size_of(x, range(cut, cut + second))])


def tensordot(a: Any, b: Any, axes: Any = 2) -> Variable:
    """The product of `a` and `b` summed over pairs of axes.

    Args:
        axes: a number n: the last n axes of `a` with the first n of `b`; or (axes of a, axes of b).
    """
    a, b = as_same_dtype([a, b], "tensordot")
    if isinstance(axes, int):
        of_a, of_b = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        of_a, of_b = ([i] if isinstance(i, int) else list(i) for i in axes)
    if len(of_a) != len(of_b):
        raise ArgumentError(f"tensordot: axes {axes!r} name {len(of_a)} axes of a and {len(of_b)} of b")
    xs, ys = [("a", i) for i in range(a.ndim)], [("b", i) for i in range(b.ndim)]
    pairs = zip(normalize_axes(of_a, a.ndim, "tensordot"), normalize_axes(of_b, b.ndim, "tensordot"))
    for n, (i, j) in enumerate(pairs):
        xs[i] = ys[j] = ("sum", n)
    return _multiply(a, xs, b, ys, {k for k in xs + ys if k[0] != "sum"})[0]
