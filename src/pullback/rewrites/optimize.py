"""The way of a graph through all rewrites, before it is planned and run."""

from collections.abc import Mapping, Sequence

from ..config import config
from ..graph import Variable
from ..graph.function_graph import FunctionGraph
from .driver import Facts, rewrite
from .fuse import fuse


def optimize(
    outputs: Sequence[Variable],
    inputs: Sequence[Variable],
    shapes: Mapping[Variable, tuple[int, ...]] | None = None,
) -> list[Variable]:
    """Outputs that compute the same from the same `inputs`, with fewer or better steps.

    `shapes` of leaves (of shared variables, say) may be relied on: the result is only right where they hold. With
    `config.rewrites == "stabilising"` only equal nodes are merged and unstable forms replaced.
    """
    graph = FunctionGraph(inputs, outputs)
    facts = Facts()
    for v, shape in (shapes or {}).items():
        facts.assume(v, shape)
    rewrite(graph, [], facts)
    if config.rewrites == "all":
        fuse(graph, facts)
    return graph.extract()
