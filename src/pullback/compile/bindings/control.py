"""Ops that hold graphs: their nodes are bound in place; a scan is unrolled, each step on its windows."""

from ...control import GraphOp, Scan
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from ..elementwise import launch_copy
from ..host import optimized

MOST_NODES = 20_000  # of an unrolled scan; a longer one is stepped from Python, one native call a step


@binds(GraphOp)
def bind_graph(node, b: Binding) -> None:
    for j, buffer in enumerate(b.inline(node.op.graph, b.inputs)):
        b.place_output(j, buffer)


@binds(Scan)
def bind_scan(node, b: Binding) -> None:
    op: Scan = node.op
    if op.until or b.values[0] is None:
        raise Declined
    _, sequences, initial, constants = op.groups(b.inputs)
    steps = int(b.values[0])
    if steps == 0 or steps * len(optimized(op.graph).nodes) > MOST_NODES:
        raise Declined
    kept = op.last_only or (False,) * op.n_states
    stacked = [None if k < op.n_states and kept[k] else b.output(k) for k in range(len(node.outputs))]
    past = [[entry(x, t) for t in range(x.shape[0])][-reach:] for x, reach in zip(initial, op.reach)]
    again = [k for k, reach in enumerate(op.reach) if kept[k] and reach > 1]  # states that several steps read
    b.hold(constants)  # each step reads them, so that no step may overwrite them but the last
    for done in range(steps):
        if done == steps - 1:
            b.hold(constants, -1)
        t = steps - 1 - done if op.backwards else done
        targets = {k: entry(y, t) for k, y in enumerate(stacked) if y is not None}
        read = [values[tap] for taps, values in zip(op.taps, past) for tap in taps]
        for k in again:
            if done >= op.reach[k]:
                b.hold([past[k][-op.reach[k]]], -1)
        found = b.inline(op.graph, [*(entry(x, t) for x in sequences), *read, *constants], targets)
        for k, buffer in enumerate(found):
            if k in targets and not same_place(buffer, targets[k]):
                launch_copy(b, buffer, targets[k])
                found[k] = targets[k]
        for k, values in enumerate(past):
            values.append(found[k])
        b.hold([found[k] for k in again])
    for k, values in enumerate(past):
        if stacked[k] is None:
            b.place_output(k, values[-1])


def entry(x: Buffer, t: int) -> Buffer:
    """Entry t along the first axis."""
    return x.window(x.shape[1:], x.strides[1:], t * x.strides[0])


def same_place(a: Buffer, b: Buffer) -> bool:
    return a.storage is b.storage and a.offset == b.offset and a.strides == b.strides
