"""One entry per op, family by family, and what they cover."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache

from ...graph import ClosedGraph, Op, toposort
from ...ops.elementwise import ROWS, Elementwise
from ..check_op import Examination
from ..entry import Entry

PROVED_ROOMS = ("pullback.ops", "pullback.control")  # whose ops must have an entry


@cache
def all_entries() -> tuple[Entry, ...]:
    """Every entry of every family, in the order of the families' names."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__))
    families = [importlib.import_module(f"{__name__}.{name}").ENTRIES for name in modules]
    return tuple(entry for family in families for entry in family)


def ops_of(entry: Entry) -> set[str]:
    """Names of the ops (and `row:name` of the elementwise rows) whose rules an entry proves: those in its graph, and in
    the graphs of its gradients of all orders below the highest that it proves."""
    subject = Examination(entry).subject()
    nodes = toposort(subject.every_output, stop=subject.inputs)
    for _ in range(entry.orders - 1):
        nodes += toposort(subject.formulas, stop=[*subject.inputs, *subject.cotangents])
        subject = subject.derivative()
        if subject is None:
            break
    return {name_of(op) for node in nodes for op in with_inner_ops(node.op)}


def with_inner_ops(op: Op) -> Iterator[Op]:
    """An op, and the ops of the graphs that it holds."""
    yield op
    for field in fields(op) if is_dataclass(op) else ():
        graph = getattr(op, field.name)
        if isinstance(graph, ClosedGraph):
            for node in graph.nodes:
                yield from with_inner_ops(node.op)


def name_of(op: Op) -> str:
    return f"row:{op.row.name}" if isinstance(op, Elementwise) else f"{type(op).__module__}.{type(op).__qualname__}"


def library_ops() -> set[str]:
    """Names of all ops that the library defines, in the notation of `ops_of`."""
    names = {f"{c.__module__}.{c.__qualname__}" for c in concrete(Op) if c.__module__.startswith(PROVED_ROOMS)}
    return (names - {f"{Elementwise.__module__}.{Elementwise.__qualname__}"}) | {f"row:{name}" for name in ROWS}


def concrete(base: type[Op]) -> Iterator[type[Op]]:
    """Subclasses that nothing is derived from: the others are bases, which make no nodes."""
    for cls in base.__subclasses__():
        if not cls.__subclasses__():
            yield cls
        yield from concrete(cls)
