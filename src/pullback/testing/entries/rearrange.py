"""Entries of what turns, rolls, repeats, pads, inserts, stacks and cuts."""

import numpy as np

from ... import ops
from ..entry import Entry, Input, integer, real, variants

ABC = "a b c"
PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def places(rng: np.random.Generator, shape: tuple[int, ...], sizes: dict) -> np.ndarray:
    """Distinct places in an axis that is 3 longer, some counted from its end."""
    (k,) = shape
    chosen = rng.permutation(k + 3)[:k]
    return np.where(rng.random(k) < 0.5, chosen, chosen - (k + 3))


ENTRIES = [
    *variants("flip", ops.flip, [real(ABC)], [dict(), dict(axis=1), dict(axis=(0, -1))]),
    *variants("rot90", ops.rot90, [real(ABC)], [dict(k=k, axes=(2, 0)) for k in range(4)]),
    *variants("roll", ops.roll, [real(ABC)], [dict(shift=5), dict(shift=-1, axis=1), dict(shift=(1, 2), axis=(0, -1))]),
    Entry("roll[symbolic]", lambda x, s: ops.roll(x, s, 0), (real("a b"), integer("", -5, 5))),
    *variants("tile", ops.tile, [real("a b")], [dict(reps=2), dict(reps=(2, 1)), dict(reps=(2, 3, 1))]),
    *variants("repeat", ops.repeat, [real("a b")], [dict(repeats=3), dict(repeats=2, axis=0)]),
    Entry("repeat[each]", lambda x, r: ops.repeat(x, r, 1), (real("a b"), integer("b", 0, 3))),
    *variants("pad", ops.pad, [real("a b")], [dict(pad_width=((0, 1), (3, 2)), mode=mode) for mode in PAD_MODES],
              empty=()),
    Entry("pad[value]", lambda x, v: ops.pad(x, (1, 2), constant_values=v), (real("a b"), real())),
    *(
        Entry(
            f"insert_along_axis[axis={axis}]",
            lambda x, i, v, axis=axis: ops.insert_along_axis(x, i, i.shape[0] + 3, axis, v),
            (real("k a" if axis == 0 else "a k"), Input("k", dtype="int64", draw=places), real()),
            references=("https://github.com/lisa-lab/pylearn2, InsertAlongAxis: right for axes 0 and 1 only",),
        )
        for axis in (0, -1)
    ),
    Entry("broadcast_arrays", lambda x, y: ops.broadcast_arrays(x, y), (real("a 1"), real("b"))),
    Entry("meshgrid", lambda x, y: ops.meshgrid(x, y), (real("a"), real("b"))),
    Entry("vstack", lambda x, y: ops.vstack([x, y]), (real("b"), real("a b"))),
    Entry("hstack", lambda x, y: ops.hstack([x, y]), (real("a b"), real("a c"))),
    Entry("dstack", lambda x, y: ops.dstack([x, y]), (real("a b"), real("a b"))),
    Entry("column_stack", lambda x, y: ops.column_stack([x, y]), (real("a"), real("a b"))),
    Entry("array_split", lambda x: ops.array_split(x, 3), (real("n a"),), sizes={"n": (3, 7)}),
]  # fmt: skip
