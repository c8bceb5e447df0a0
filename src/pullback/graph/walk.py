"""Walks over graphs. All are iterative: graphs of 10^5 nodes are ordinary."""

from collections.abc import Iterable, Iterator, Sequence

from ..errors import GraphError
from .op import Apply
from .variable import Constant, SharedVariable, Variable


def toposort(outputs: Iterable[Variable], stop: Iterable[Variable] = ()) -> list[Apply]:
    """Nodes that `outputs` need, each after the nodes that it needs. Nothing above a variable in `stop` is visited."""
    stopped = set(stop)
    order: list[Apply] = []
    done: set[Apply] = set()
    open_nodes: set[Apply] = set()
    stack: list[tuple[Apply, bool]] = []

    def push(variables: Sequence[Variable]) -> None:
        for v in reversed(variables):
            if v.owner is not None and v.owner not in done and v not in stopped:
                stack.append((v.owner, False))

    push(list(outputs))
    while stack:
        node, inputs_done = stack.pop()
        if node in done:
            continue
        if inputs_done:
            open_nodes.discard(node)
            done.add(node)
            order.append(node)
        elif node in open_nodes:
            raise GraphError(f"the graph has a cycle through {node.op}")
        else:
            open_nodes.add(node)
            stack.append((node, True))
            push(node.inputs)
    return order


def ancestors(outputs: Iterable[Variable], stop: Iterable[Variable] = ()) -> Iterator[Variable]:
    """Every variable that `outputs` depend on, themselves included, each once; nothing above one in `stop`."""
    stopped = set(stop)
    seen: set[Variable] = set()
    stack = list(outputs)[::-1]
    while stack:
        v = stack.pop()
        if v in seen:
            continue
        seen.add(v)
        yield v
        if v.owner is not None and v not in stopped:
            stack.extend(reversed(v.owner.inputs))


def leaves(outputs: Iterable[Variable], stop: Iterable[Variable] = ()) -> list[Variable]:
    """Variables without an owner (and those in `stop`) that `outputs` depend on, in order of discovery."""
    stopped = set(stop)
    return [v for v in ancestors(outputs, stopped) if v.owner is None or v in stopped]


def graph_inputs(outputs: Iterable[Variable]) -> list[Variable]:
    """Leaves that need a value at run time: neither constant nor shared."""
    return [v for v in leaves(outputs) if not isinstance(v, (Constant, SharedVariable))]


def shared_variables(outputs: Iterable[Variable]) -> list[SharedVariable]:
    return [v for v in leaves(outputs) if isinstance(v, SharedVariable)]
