"""A network as a table."""

from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .assembly import Node
    from .network import Network


def print_summary(network: "Network", file: Any = None) -> None:
    """Print layers, shapes, parameters and floating-point operations per sample; file is standard output unless
    given."""
    from rich.console import Console

    Console(file=file, highlight=False).print(summary_table(network))


def summary_table(network: "Network") -> Any:
    """The summary as a table for rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=network.name, box=SIMPLE_HEAD, show_footer=True, pad_edge=False)
    operations = sum(_operations(node) for node in network.nodes)
    table.add_column("#", justify="right")
    count = len(network.nodes) - len(network.inputs)
    table.add_column("layer", footer=f"{count} layer{'s' if count != 1 else ''}, {network.dtype}")
    table.add_column("from")
    table.add_column("output")
    stored, learnt = sum(map(parameter_count, network.nodes)), sum(map(learnt_count, network.nodes))
    footer = f"{stored:,}" + (f"\n{learnt:,} learnt" if learnt != stored else "")
    table.add_column("parameters", justify="right", footer=footer)
    table.add_column("FLOPs", justify="right", footer=shown(operations))
    for node in network.nodes:
        skips = node.sources != (node.index - 1,) and node.sources
        table.add_row(
            str(node.index),
            _kind(node),
            ", ".join(map(str, node.sources)) if skips else "",
            " × ".join("?" if n is None else str(n) for n in node.output.shape),
            f"{parameter_count(node):,}" if node.parameters else "",
            shown(_operations(node)) if _operations(node) else "",
        )
    return table


def parameter_count(node: "Node") -> int:
    """Numbers that a layer owns, running statistics included."""
    return sum(prod(p.shape) for p in node.described.values())


def learnt_count(node: "Node") -> int:
    """Numbers that a layer learns by gradient."""
    return sum(prod(p.shape) for p in node.described.values() if p.trainable)


def _operations(node: "Node") -> int:
    return node.layer.operations(node.inputs, node.output)


def _kind(node: "Node") -> str:
    layer = node.layer
    extra = [*layer.remarks(), *(["frozen"] if layer.frozen and node.parameters else [])]
    name = f" {layer.name!r}" if layer.name else ""
    return f"{type(layer).__name__}{name}" + (f" ({', '.join(extra)})" if extra else "")


def shown(count: int) -> str:
    """A number of operations with its unit."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return str(count)
