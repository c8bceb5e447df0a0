"""Two graphs beside each other: values to 4 ulp, NaN sets, shapes, dtypes, gradients."""

from collections.abc import Mapping, Sequence

import numpy as np

import pullback as pb
from pullback.gradient import vjp
from pullback.graph import Apply, TensorType, Variable, evaluate, toposort
from pullback.graph.function_graph import FunctionGraph
from pullback.ops.elementwise import Elementwise
from pullback.rewrites import optimize
from pullback.rewrites.canonical import ordinary
from pullback.rewrites.driver import Facts, rewrite
from pullback.rewrites.fold import folding
from pullback.rewrites.stabilise import stabilising

ULPS = 4
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, np.inf, -np.inf, np.nan, 1e-30, -1e30, 7.25]


def run(outputs: Sequence[Variable], given: Mapping[Variable, np.ndarray]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return evaluate(outputs, given)


def names(outputs: Sequence[Variable]) -> list[str]:
    """The ops that a graph takes, by name (rows) or class."""
    return [name_of(node) for node in toposort(outputs)]


def name_of(node: Apply) -> str:
    return node.op.row.name if isinstance(node.op, Elementwise) else type(node.op).__name__


def unfused(outputs: Sequence[Variable], inputs: Sequence[Variable], shapes=None) -> list[Variable]:
    """The rewritten graph before fusion."""
    graph = FunctionGraph(inputs, outputs)
    facts = Facts()
    for v, shape in (shapes or {}).items():
        facts.assume(v, shape)
    rewrite(graph, [ordinary, folding, stabilising], facts)
    graph.validate()
    return graph.extract()


def assert_same(old: Sequence[np.ndarray], new: Sequence[np.ndarray], ulps: float = ULPS) -> None:
    for a, b in zip(old, new, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
            continue
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        finite = np.isfinite(a)
        np.testing.assert_array_equal(a[~finite], b[~finite])
        wide = np.longdouble
        gap = np.abs(a[finite].astype(wide) - b[finite].astype(wide))
        assert (gap <= ulps * np.spacing(np.abs(a[finite])).astype(wide)).all(), (a, b)


def assert_kept(
    outputs: Sequence[Variable], given: Mapping[Variable, np.ndarray], shapes: bool = True, gradient: bool = True
) -> list[Variable]:
    """Rewriting keeps what `outputs` compute on `given`, and their gradients; returns the rewritten, unfused graph."""
    inputs = list(given)
    known = {v: a.shape for v, a in given.items()} if shapes else {}
    simpler = unfused(outputs, inputs, known)
    for new in (simpler, optimize(outputs, inputs, known)):
        assert [(v.type.dtype, v.type.ndim) for v in new] == [(v.type.dtype, v.type.ndim) for v in outputs]
        assert_same(run(outputs, given), run(new, given))
    wrt = [v for v in inputs if isinstance(v.type, TensorType) and v.type.is_float]
    if gradient and wrt and all(v.type.is_float for v in outputs):
        rng = np.random.default_rng(0)
        seeds = [rng.normal(size=a.shape).astype(a.dtype) for a in run(outputs, given)]
        old, new = (
            vjp(graph, wrt, [pb.constant(s) for s in seeds], disconnected_inputs="ignore")
            for graph in (outputs, simpler)
        )
        assert_same(run(old, given), run(new, given), ulps=16)
    return simpler
