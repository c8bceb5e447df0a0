"""The way of a graph through all rewrites, before it is planned and run."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from ..config import config
from ..graph import ClosedGraph, Variable
from ..graph.function_graph import FunctionGraph
from . import parts  # noqa: F401  (its rules are ordinary ones)
from .canonical import ordinary
from .driver import Facts, RuleSet, rewrite
from .fold import folding
from .fuse import fuse
from .inner import rewrite_inside
from .loops import push_out_of_loops
from .stabilise import stabilising

RULES: dict[str, list[RuleSet]] = {"all": [ordinary, folding, stabilising], "stabilising": [stabilising]}


def optimize(
    outputs: Sequence[Variable],
    inputs: Sequence[Variable],
    shapes: Mapping[Variable, tuple[int, ...]] | None = None,
) -> list[Variable]:
    """Outputs that compute the same from the same `inputs`, with fewer or better steps.

    `shapes` of leaves (of shared variables, say) may be relied on: the result is only right where they hold. With
    `config.rewrites == "stabilising"` only equal nodes are merged and unstable forms replaced.
    """
    graph, facts = FunctionGraph(inputs, outputs), Facts()
    for v, shape in (shapes or {}).items():
        facts.assume(v, shape)
    _rewrite(graph, facts, config.rewrites)
    if config.rewrites == "all":
        fuse(graph, facts)
    return graph.extract()


def _rewrite(graph: FunctionGraph, facts: Facts, which: str) -> None:
    rewrite(graph, RULES[which], facts)
    rewrite_inside(graph, lambda held: _rewritten(held, which))
    if which == "all" and push_out_of_loops(graph):
        rewrite(graph, RULES[which], facts)


@lru_cache(maxsize=256)
def _rewritten(held: ClosedGraph, which: str) -> ClosedGraph:
    """A graph that an op holds, rewritten but not fused: whoever runs it knows more about its shapes."""
    graph = FunctionGraph(held.inputs, held.outputs)
    _rewrite(graph, Facts(), which)
    return ClosedGraph(held.inputs, graph.extract())
