"""Sums of parts: the gradients of slices of one array, put together without adding zeros."""

from ..graph import Apply, Variable
from ..ops.indexing import IncSubtensor
from ..ops.pattern import Cut
from ..ops.shape import Concatenate
from .canonical import op_of, ordinary
from .driver import Facts
from .shapes import Dims

LONGEST_CHAIN = 64


@ordinary.on("add")
def add_to_part(node: Apply, facts: Facts) -> Variable | None:
    """x + (zeros with y in a part) = x with y added to that part."""
    out = node.outputs[0]
    for x, y in (node.inputs, node.inputs[::-1]):
        part = op_of(y, IncSubtensor)
        if part is not None and part.op.pattern.is_basic and facts.is_fill(part.inputs[0], 0):
            if x.dtype == y.dtype == out.dtype and facts.same(x, y, out):
                return part.op(x, *part.inputs[1:])
    return None


@ordinary.on(IncSubtensor)
def parts_of_a_whole(node: Apply, facts: Facts) -> Variable | None:
    """Zeros with values in slices that make up an axis are those values joined."""
    lengths = facts.dims(node.outputs[0])
    found: dict[tuple[int, int], Variable] = {}
    axes: set[int] = set()
    v = node.outputs[0]
    while not facts.is_fill(v, 0):
        link = op_of(v, IncSubtensor)
        place = _slice(link, lengths) if link is not None and len(found) < LONGEST_CHAIN else None
        if place is None:
            return None
        axis, start, stop = place
        part = (*lengths[:axis], stop - start, *lengths[axis + 1 :])
        v, y = link.inputs[:2]
        if facts.dims(y) != part or y.dtype != v.dtype:
            return None
        axes.add(axis)
        found[start, stop] = y
    if len(axes) != 1:
        return None
    (axis,) = axes
    places = sorted(found)
    ends = [0, *(stop for _, stop in places)]
    if ends[-1] != lengths[axis] or any(start != end for (start, _), end in zip(places, ends)):
        return None
    return Concatenate(axis)(*(found[place] for place in places)) if len(places) > 1 else found[places[0]]


def _slice(node: Apply, lengths: Dims) -> tuple[int, int, int] | None:
    """(axis, start, stop) if the node's part is one slice with known ends along one axis of known length."""
    entries = node.op.pattern.entries
    if len(node.inputs) > 2 or not all(isinstance(e, Cut) for e in entries):
        return None
    cuts = [(axis, e) for axis, e in enumerate(entries) if e != Cut()]
    if len(cuts) != 1 or not isinstance(lengths[cuts[0][0]], int):
        return None
    axis, cut = cuts[0]
    start, stop, step = slice(*cut).indices(lengths[axis])
    return (axis, start, stop) if step == 1 and start < stop else None
