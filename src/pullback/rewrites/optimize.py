"""The way of a graph through all rewrites, before it is planned and run."""

from collections.abc import Mapping, Sequence

from ..config import config
from ..graph import Variable
from ..graph.function_graph import FunctionGraph
from .canonical import ordinary
from .driver import Facts, rewrite
from .fold import folding
from .fuse import fuse
from .stabilise import stabilising


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
    if config.rewrites == "all":
        rewrite(graph, [ordinary, folding, stabilising], facts)
        fuse(graph, facts)
    else:
        rewrite(graph, [stabilising], facts)
    return graph.extract()
