"""Sums, means, products, extremes, norms, running sums and sorting, over any axes, at ties and at zeros."""

from math import inf, nan
from typing import Any

import numpy as np

from ... import ops
from ..entry import Entry, Point, integer, mask, real, variants

ABC = "a b c"
AXES = [dict(), dict(axis=0), dict(axis=-1), dict(axis=(0, 2)), dict(axis=1, keepdims=True), dict(axis=())]
ONE_AXIS = [dict(), dict(axis=0), dict(axis=-1), dict(axis=(0, 2), keepdims=True)]
SPREAD = [*ONE_AXIS, dict(axis=1, ddof=1)]
RUNNING = [dict(), dict(axis=0), dict(axis=-1)]
FILLED = dict(empty=())  # nothing is the extreme, the mean or the median of nothing


def where(name: str, op: Any, **rest: Any) -> Entry:
    inputs = real("a b", name="x"), mask("a b", name="where")
    return Entry(f"{name}[where]", lambda x, w: op(x, axis=1, where=w), inputs, **rest)


def spread(rng: np.random.Generator, shape: tuple[int, ...], sizes: Any) -> np.ndarray:
    """Values no two of which are near each other, so that their order holds over a step."""
    return rng.permuted(np.linspace(-2.0, 2.0, int(np.prod(shape)))).reshape(shape)


far_apart = real(ABC, draw=spread)

ENTRIES = [
    *variants("sum", ops.sum, [real(ABC)], AXES, analytic=True),
    Entry("sum[integer]", lambda x: ops.sum(x, axis=0), (integer("a b"),)),
    Entry("sum[bool]", lambda x: ops.sum(x, axis=0), (mask("a b"),)),
    where("sum", ops.sum),
    *variants("mean", ops.mean, [real(ABC)], AXES, analytic=True, **FILLED),
    where("mean", ops.mean, empty=("a",), single=("a",)),
    *variants("var", ops.var, [real(ABC)], SPREAD, sizes={"b": (3, 5)}, single=("c",), **FILLED),
    *variants("std", ops.std, [real(ABC)], SPREAD, sizes={"b": (3, 5)}, single=(), **FILLED),
    Entry(
        "std[equal entries]",
        lambda x: ops.std(x, axis=0),
        (real("n m"),),
        points=(Point(([[1.0, 2.0], [1.0, 4.0]],), ([[0.0, -0.5], [0.0, 0.5]],), why="all entries equal"),),
        **FILLED,
    ),
    *variants("prod", ops.prod, [real(ABC)], AXES, analytic=False),
    where("prod", ops.prod),
    Entry(
        "prod[zeros]",
        lambda x: ops.prod(x, axis=1),
        (real("a b"),),
        points=(
            Point(([[4.0, 0.0], [0.0, 0.0]],), ([[0.0, 4.0], [0.0, 0.0]],), why="zero factors"),
            Point(([[0.0, 2.0, 3.0]],), ([[6.0, 0.0, 0.0]],), why="one zero"),
        ),
    ),
    *variants("max", ops.max, [real(ABC)], ONE_AXIS, ties=True, **FILLED),
    *variants("min", ops.min, [real(ABC)], ONE_AXIS, ties=True, **FILLED),
    *variants("ptp", ops.ptp, [real(ABC)], [dict(axis=1)], ties=True, single=("a",), **FILLED),
    Entry(
        "max[ties]",
        lambda x: ops.max(x, axis=1),
        (real("a b"),),
        points=(
            Point(([[0.6, 0.6, 0.3], [1.0, 2.0, 2.0]],), ([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]],), why="two tied"),
            Point(([[nan, 1.0, 2.0]],), ([[1.0, 0.0, 0.0]],), why="NaN takes the gradient, so that it shows"),
            Point(([[-inf, -inf]],), ([[0.5, 0.5]],), why="all -inf"),
        ),
        **FILLED,
    ),
    *variants("max_and_argmax", ops.max_and_argmax, [real(ABC)], ONE_AXIS, ties=True, **FILLED),
    *variants("min_and_argmin", ops.min_and_argmin, [real(ABC)], [dict(axis=1)], ties=True, **FILLED),
    Entry(
        "max_and_argmax[ties]",
        lambda x: ops.max_and_argmax(x, axis=1),
        (real("a b"),),
        points=(Point(([[1.0, 3.0, 3.0, 2.0]],), ([[0.0, 1.0, 0.0, 0.0]],), why="the reported one takes it"),),
        **FILLED,
    ),
    *variants("argmax", ops.argmax, [real(ABC)], ONE_AXIS, **FILLED),
    *variants("argmin", ops.argmin, [real(ABC)], [dict(axis=1)], **FILLED),
    *variants("any", ops.any, [mask(ABC)], ONE_AXIS),
    *variants("all", ops.all, [mask(ABC)], ONE_AXIS),
    Entry("count_nonzero", lambda x: ops.count_nonzero(x, axis=1), (integer("a b", 0, 2),)),
    *variants("logsumexp", ops.logsumexp, [real(ABC)], ONE_AXIS),
    where("logsumexp", ops.logsumexp),
    Entry(
        "logsumexp[extremes]",
        lambda x: ops.logsumexp(x, axis=-1),
        (real("a b"),),
        points=(
            Point(([-inf, -inf],), ([0.0, 0.0],), value=-inf, why="no mass"),
            Point(([1000.0, 1000.0],), ([0.5, 0.5],), value=1000.0 + np.log(2.0), why="no overflow"),
            Point(([0.0, -inf],), ([1.0, 0.0],), value=0.0, why="one -inf"),
            Point(([inf, 0.0],), ([1.0, 0.0],), value=inf, why="one +inf"),
        ),
    ),
    Entry("nansum", lambda x: ops.nansum(x, axis=1), (real("a b"),)),
    Entry("nanmean", lambda x: ops.nanmean(x, axis=1), (real("a b"),), **FILLED),
    Entry("nanmax", lambda x: ops.nanmax(x, axis=1), (real("a b"),), ties=True, **FILLED),
    Entry("nanmin", lambda x: ops.nanmin(x, axis=1), (real("a b"),), ties=True, **FILLED),
    *variants("median", ops.median, [real(ABC)], [dict(axis=1), dict()], ties=True, **FILLED),
    # running sums, products and extremes
    *variants("cumsum", ops.cumsum, [real(ABC)], RUNNING, analytic=True),
    *variants("cumprod", ops.cumprod, [real(ABC)], RUNNING),
    Entry(
        "cumprod[zeros]",
        lambda x: ops.cumprod(x, axis=0),
        (real("a"),),
        points=(Point(([2.0, 0.0, 0.0, 3.0],), ([1.0, 2.0, 0.0, 0.0],), why="two zeros"),),
    ),
    *variants("cummax", ops.cummax, [real(ABC)], RUNNING, ties=True),
    *variants("cummin", ops.cummin, [real(ABC)], RUNNING, ties=True),
    # order
    *variants("sort", ops.sort, [far_apart], [dict(), dict(axis=0), dict(axis=None), dict(descending=True)], ties=True),
    *variants("argsort", ops.argsort, [far_apart], [dict(), dict(axis=0, descending=True)]),
    *variants(
        "topk", ops.topk, [far_apart], [dict(k=2), dict(k=1, axis=0), dict(k=2, largest=False)], sizes={"c": (3, 4)},
        ties=True, empty=("b",), single=("b",),
    ),  # fmt: skip
    Entry(
        "searchsorted",
        ops.searchsorted,
        (real("n", draw=lambda rng, shape, sizes: np.sort(rng.normal(size=shape)), name="a"), real("m k", name="v")),
    ),
]  # fmt: skip
