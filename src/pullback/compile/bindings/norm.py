"""Normalisation: axes are brought into the order outer, length, columns, and statistics taken down or along them."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...kernels import norm as kernels
from ...kernels.conv import sum_parts
from ...kernels.reduce import SUM
from ...ops.norm import Normalization, Normalize, NormalizeGrad
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from ..elementwise import launch_copy
from .conv_geometry import transposed
from .linear import TYPES
from .reduce import reduce

BLOCK_BYTES = 1 << 14  # of rows that are read twice while they are in the nearest cache
PART_BYTES = 1 << 16
MOST_PARTS = 16
KINDS = ((False, False), (False, True), (True, False), (True, True))  # (along the columns?, averaged?)


@binds(Normalize)
def bind_normalize(node, b: Binding) -> None:
    x, gamma, beta = b.inputs
    v = View.of(node.op, x, gamma)
    y, mean, var = (v.result(b, j) for j in range(3))
    source, gamma, beta = v.turned(b, x), v.spread(b, gamma), v.spread(b, beta)
    if v.by_rows:
        b.launch(
            v.kernel(kernels.normalize_rows, outside=True), source, gamma, beta, y, mean, var, v.columns, v.eps,
            n=v.outer, chunks=b.chunks(v.outer, 4 * x.size),
        )  # fmt: skip
    else:
        units = v.outer * v.parts
        partial = b.scratch((units, 2, v.columns), "float64")
        centre, scale = (b.scratch((v.outer, v.columns), x.dtype) for _ in range(2))
        b.launch(
            v.kernel(kernels.column_moments), source, partial, v.length, v.columns, v.parts, v.blocks,
            n=units, chunks=b.chunks(units, 4 * x.size),
        )  # fmt: skip
        b.launch(
            v.kernel(kernels.finish_moments, outside=True), partial, gamma, mean, var, centre, scale,
            v.length, v.columns, v.parts, v.group, v.eps, n=v.outer,
        )  # fmt: skip
        b.launch(
            v.kernel(kernels.normalize_columns), source, centre, scale, beta, y, v.length, v.columns,
            n=v.outer * v.length, chunks=b.chunks(v.outer * v.length, 2 * x.size),
        )  # fmt: skip
    for j, target in enumerate((y, mean, var)):
        v.finish(b, target, j)


@binds(NormalizeGrad)
def bind_normalize_grad(node, b: Binding) -> None:
    x, gamma, mean, var, g = b.inputs
    v = View.of(node.op, x, gamma)
    dx = v.result(b, 0)
    sums = b.scratch((2, v.columns), x.dtype)
    d_gamma, d_beta = (sums.window((v.columns,), (1,), j * v.columns) for j in range(2))
    source, g, mean, var = (v.turned(b, s) for s in (x, g, mean, var))
    gamma = v.spread(b, gamma)
    if v.by_rows:
        parts = min(MOST_PARTS, v.outer)
        partial = b.scratch((parts, 2, v.columns), x.dtype)
        b.launch(
            v.kernel(kernels.pull_back_rows, outside=True), source, g, gamma, mean, var, dx, partial, v.outer,
            v.columns, parts, v.eps, n=parts, chunks=b.chunks(parts, 6 * x.size),
        )  # fmt: skip
        b.launch(sum_parts.specialise(T=v.type), partial, sums, parts, sums.size, n=sums.size)
    else:
        units = v.outer * v.parts
        partial = b.scratch((units, 2, v.columns), "float64")
        factors = b.scratch((v.outer, 3, v.columns), x.dtype)
        centre = b.contiguous(mean.window((v.outer, v.columns // v.group, v.group), (v.columns // v.group, 1, 0), 0))
        b.launch(
            v.kernel(kernels.column_gradient_sums), source, g, centre, partial, v.length, v.columns, v.parts, v.blocks,
            n=units, chunks=b.chunks(units, 3 * x.size),
        )  # fmt: skip
        b.launch(
            v.kernel(kernels.finish_gradient, outside=True), partial, gamma, var, d_gamma, d_beta, factors,
            v.outer, v.length, v.columns, v.parts, v.group, v.eps,
        )  # fmt: skip
        b.launch(
            v.kernel(kernels.pull_back_columns), source, g, centre, factors, dx, v.length, v.columns,
            n=v.outer * v.length, chunks=b.chunks(v.outer * v.length, 3 * x.size),
        )  # fmt: skip
    v.finish(b, dx, 0)
    for j, spread in ((1, d_gamma), (2, d_beta)):
        v.gather(b, spread, b.output(j))


@dataclass(frozen=True)
class View:
    """A tensor seen as [outer, length, columns], each of them several of its axes.

    `length` and, in each run of `group` columns, the columns are averaged over; gamma and beta lie along the columns.

    Attributes:
        order: the axes of x: kept, averaged, then those along which gamma lies: kept, averaged.
        shape: of x.
    """

    op: Normalization
    order: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    leading: int  # how many of `order` make outer and length
    outer: int
    length: int
    columns: int
    group: int

    @classmethod
    def of(cls, op: Normalization, x: Buffer, gamma: Buffer) -> "View":
        if x.dtype not in TYPES or any(m not in (1, n) for m, n in zip(gamma.shape, x.shape)):
            raise Declined
        axes = range(x.ndim)
        along = {a for a in axes if gamma.shape[a] != 1}
        # gamma can be repeated along the last axis: better than bringing another axis there
        for columns in (along | {x.ndim - 1}, along):
            parts = [[a for a in axes if (a in columns, a in op.axes) == key] for key in KINDS]
            order = tuple(a for part in parts for a in part)
            if order == tuple(axes):
                break
        sizes = [prod(x.shape[a] for a in part) for part in parts]
        leading = len(parts[0]) + len(parts[1])
        return cls(op, order, x.shape, x.dtype, leading, sizes[0], sizes[1], sizes[2] * sizes[3], sizes[3])

    @property
    def type(self) -> Any:
        return TYPES[self.dtype]

    @property
    def eps(self) -> float:
        return self.op.eps

    @property
    def by_rows(self) -> bool:
        """Whether each average is over one contiguous row."""
        return self.length == 1 and self.group == self.columns

    @property
    def parts(self) -> int:
        """Into how many the length is cut, to be shared out."""
        most = 1 if self.outer >= MOST_PARTS else MOST_PARTS
        return max(1, min(most, self.length, self.length * self.columns * np.dtype(self.dtype).itemsize // PART_BYTES))

    @property
    def blocks(self) -> int:
        """Into how many a part is cut, so that it stays in the nearest cache."""
        rows = max(8, BLOCK_BYTES // (self.columns * np.dtype(self.dtype).itemsize))
        return max(1, self.length // self.parts // rows)

    def kernel(self, kernel: Any, outside: bool = False) -> Any:
        """The instance for this dtype and, where the kernel asks, for the place of eps."""
        return kernel.specialise(T=self.type, **({"OUTSIDE": int(self.op.eps_outside)} if outside else {}))

    def turned(self, b: Binding, x: Buffer) -> Buffer:
        """x, or its statistics, contiguous in the order of the view."""
        return b.contiguous(transposed(x, self.order))

    def result(self, b: Binding, j: int) -> Buffer:
        """Where to write result j in the order of the view: its own memory, if that order is its own."""
        out = transposed(b.output(j), self.order)
        return b.output(j) if out.is_contiguous else b.scratch(out.shape, out.dtype)

    def finish(self, b: Binding, target: Buffer, j: int) -> None:
        """Bring what was written for result j into its own order."""
        if target.storage is not b.output(j).storage:
            launch_copy(b, transposed(target, np.argsort(self.order).tolist()), b.output(j))

    def spread(self, b: Binding, gamma: Buffer) -> Buffer:
        """gamma or beta with one element for each column."""
        axes = self.order[self.leading :]
        shape = [self.shape[a] for a in axes]
        strides = [gamma.strides[a] if gamma.shape[a] != 1 else 0 for a in axes]
        return b.contiguous(gamma.window(shape, strides, 0)).reshaped((self.columns,))

    def gather(self, b: Binding, spread: Buffer, out: Buffer) -> None:
        """What was computed for each column summed to the shape of gamma."""
        whole = spread.reshaped((*(1,) * self.leading, *(self.shape[a] for a in self.order[self.leading :])))
        whole = transposed(whole, np.argsort(self.order).tolist())
        repeated = {a for a, n in enumerate(out.shape) if n == 1 != whole.shape[a]}
        reduce(b, whole, repeated, out, SUM)
