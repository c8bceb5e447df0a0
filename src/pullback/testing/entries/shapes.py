"""Shape ops, indexing, gathering and scattering, diagonals, and arrays made from lengths."""

from typing import Any

import numpy as np

from ... import ops
from ..entry import Entry, Input, index, integer, mask, real, variants

ABC = "a b c"


def length(name: str) -> Input:
    """The length that an axis name has, as an input that is known at run time only."""
    return Input(dtype="int64", draw=lambda rng, shape, sizes: sizes[name], name="length")


def key_entry(label: str, key: Any, axes: str = "a b c", **rest: Any) -> list[Entry]:
    """`x[key]`, `set_subtensor` and `inc_subtensor` at one constant key."""
    sizes = dict.fromkeys(axes.split(), (4, 5))
    options = dict(sizes=sizes, empty=(), single=(), **rest)
    return [
        Entry(f"index[{label}]", lambda x: ops.index(x, key), (real(axes),), **options),
        Entry(f"set_subtensor[{label}]", lambda x, y: ops.set_subtensor(x[key], y), (real(axes), real()), **options),
        Entry(f"inc_subtensor[{label}]", lambda x, y: ops.inc_subtensor(x[key], y), (real(axes), real()), **options),
    ]  # fmt: skip


KEYS: dict[str, Any] = {
    "0": 0,
    "-1": -1,
    "1:": slice(1, None),
    "::2": slice(None, None, 2),
    "::-1": slice(None, None, -1),
    "3:0:-2": slice(3, 0, -2),
    "2:2": slice(2, 2),
    "..., 1": (..., 1),
    "None, :, 0": (None, slice(None), 0),
    "1, :, ::2": (1, slice(None), slice(None, None, 2)),
    "[2, 0, 2]": [2, 0, 2],
    "[0, 1], [1, 1]": ([0, 1], [1, 1]),
    "[[0], [2]], [1, 3]": ([[0], [2]], [1, 3]),
    ":, [2, 2]": (slice(None), [2, 2]),
    "[1, 1], :, [0, 2]": ([1, 1], slice(None), [0, 2]),
    "[1, 1], 0": ([1, 1], 0),
}

ENTRIES = [
    *variants("reshape", ops.reshape, [real(ABC)], [dict(shape=(-1,)), dict(shape=(-1, 1, 2))], sizes={"c": (2, 2)},
              empty=("a", "b"), single=("a", "b")),
    Entry("reshape[symbolic]", lambda x, n, m: ops.reshape(x, (n, m)), (real("n m"), length("m"), length("n"))),
    Entry("ravel", ops.ravel, (real(ABC),)),
    *variants("flatten", ops.flatten, [real(ABC)], [dict(), dict(ndim=2)]),
    *variants("transpose", ops.transpose, [real(ABC)], [dict(), dict(axes=(1, 2, 0)), dict(axes=(-1, 0, 1))]),
    Entry("swapaxes", lambda x: ops.swapaxes(x, 0, -1), (real(ABC),)),
    Entry("moveaxis", lambda x: ops.moveaxis(x, 0, -1), (real(ABC),)),
    *variants("expand_dims", ops.expand_dims, [real("a b")], [dict(axis=0), dict(axis=-1), dict(axis=(0, 2))]),
    Entry("squeeze", lambda x: ops.squeeze(x, axis=(0, 2)), (real("1 a 1 b"),)),
    Entry("broadcast_to", lambda x: ops.broadcast_to(x, (2, 3, 4)), (real("3 1"),)),
    Entry("broadcast_to[symbolic]", lambda x, a, b: ops.broadcast_to(x, (a, b)),
          (real("b"), length("a"), length("b")), sizes={"a": (2, 4)}),
    *variants("concatenate", lambda x, y, z, axis: ops.concatenate([x, y, z], axis),
              [real("a b"), real("a b"), real("a b")], [dict(axis=0), dict(axis=-1), dict(axis=None)]),
    Entry("stack", lambda x, y: ops.stack([x, y], axis=1), (real("a b"), real("a b"))),
    Entry("split", lambda x: ops.split(x, 2, axis=1), (real("a 2*b"),)),
    Entry("split[indices]", lambda x: ops.split(x, [1, 3], axis=0), (real("n b"),), sizes={"n": (4, 5)}, empty=("b",),
          single=("b",)),
    Entry("shape", ops.shape, (real("a b"),)),
    Entry("length", lambda x: ops.length(x, 1), (real("a b"),)),
    Entry("size", lambda x: ops.size(x), (real("a b"),)),
    # indexing
    *(entry for label, key in KEYS.items() for entry in key_entry(label, key)),
    *key_entry("mask", np.array([True, False, True, True]), "4 b"),
    Entry("index[array]", lambda x, i: x[i], (real("n b"), index("k", "n")), sizes={"k": (4, 6)}, empty=("k", "b")),
    Entry("index[2 arrays]", lambda x, i, j: x[i, j], (real("n m"), index("k", "n"), index("k", "m")), empty=("k",)),
    Entry("index[scalar]", lambda x, i: x[i], (real("n b"), index("", "n")), empty=("b",)),
    Entry("index[slice]", lambda x, i: x[i:], (real("n b"), integer("", 0, 2))),
    Entry("index[symbolic mask]", lambda x, m: x[m], (real("n b"), mask("n"))),
    Entry("set_subtensor[array]", lambda x, i, y: ops.set_subtensor(x[i], y),
          (real("n b"), index("k", "n"), real("k b")), sizes={"k": (4, 6)}, empty=("k", "b")),
    Entry("set_subtensor[broadcast]", lambda x, y: ops.set_subtensor(x[1:], y), (real("n b"), real("b")),
          sizes={"n": (3, 4)}, single=("b",)),
    Entry("inc_subtensor[array]", lambda x, i, y: ops.inc_subtensor(x[i], y),
          (real("n b"), index("k", "n"), real("k b")), sizes={"k": (4, 6)}, empty=("k", "b")),
    # gathering and scattering
    *variants("take", ops.take, [real(ABC), index("k m", "b")], [dict(axis=1)], empty=("a", "c", "k"),
              sizes={"k": (3, 4)}),
    Entry("take[flat]", lambda x, i: ops.take(x, i), (real("a b"), index("k", "a*b")), empty=("k",)),
    Entry("take[wrap]", lambda x, i: ops.take(x, i, axis=0, mode="wrap"), (real("n b"), integer("k", -9, 9)),
          empty=("k",)),
    Entry("take[clip]", lambda x, i: ops.take(x, i, axis=0, mode="clip"), (real("n b"), integer("k", -9, 9)),
          empty=("k",)),
    Entry("gather", lambda x, i: ops.gather(x, i, axis=1), (real("a n"), index("k", "n")), empty=("k", "a")),
    Entry("scatter", lambda x, i, v: ops.scatter(x, i, v, axis=1), (real("a n"), index("k", "n"), real("a k")),
          sizes={"k": (4, 5)}, empty=("k",)),
    Entry("scatter[accumulate]", lambda x, i, v: ops.scatter(x, i, v, axis=0, accumulate=True),
          (real("n b"), index("k", "n"), real("k b")), sizes={"k": (4, 5)}, empty=("k",)),
    Entry("take_along_axis", lambda x, i: ops.take_along_axis(x, i, axis=1), (real("a n"), index("a k", "n")),
          sizes={"k": (4, 5)}, empty=("k",)),
    Entry("put_along_axis", lambda x, i, v: ops.put_along_axis(x, i, v, axis=1),
          (real("a n"), index("a k", "n"), real("a k")), empty=("k",)),
    Entry("put_along_axis[accumulate]", lambda x, i, v: ops.put_along_axis(x, i, v, axis=1, accumulate=True),
          (real("a n"), index("a k", "n"), real("a k")), sizes={"k": (4, 5)}, empty=("k",)),
    Entry("nonzero", ops.nonzero, (integer("a b", 0, 2),)),
    Entry("embedding", ops.embedding, (real("n d"), index("t b", "n", negative=False)), sizes={"t": (3, 4)},
          empty=("t",)),
    Entry("embedding[padding_idx]", lambda table, idx: ops.embedding(table, idx, padding_idx=1),
          (real("n d"), index("t b", "n", negative=False)), sizes={"t": (3, 4), "n": (3, 4)}, empty=("t",),
          single=("d",),
          pullback=lambda arrays, cotangents: (scattered(arrays, cotangents[0], padding=1), None)),
    Entry("embedding[scale_grad_by_freq]", lambda table, idx: ops.embedding(table, idx, scale_grad_by_freq=True),
          (real("n d"), index("t b", "n", negative=False)), sizes={"t": (3, 4)}, empty=("t",),
          pullback=lambda arrays, cotangents: (scattered(arrays, cotangents[0], by_frequency=True), None)),
    Entry("one_hot", lambda labels: ops.one_hot(labels, 4), (integer("a b", 0, 3),)),
    # diagonals
    *variants("diagonal", ops.diagonal, [real(ABC)],
              [dict(), dict(offset=1), dict(offset=-1, axis1=1, axis2=2), dict(offset=1, axis1=2, axis2=0)]),
    *variants("diag", ops.diag, [real("n")], [dict(), dict(k=1), dict(k=-2)]),
    *variants("diag[matrix]", ops.diag, [real("a b")], [dict(), dict(k=1)]),
    *variants("trace", ops.trace, [real(ABC)], [dict(), dict(offset=-1, axis1=1, axis2=2)]),
    *variants("tril", ops.tril, [real(ABC)], [dict(), dict(k=-1)]),
    *variants("triu", ops.triu, [real(ABC)], [dict(), dict(k=1)]),
    # arrays made from lengths and ends
    Entry("arange", lambda start, step: ops.arange(start, 9.05, step), (real("", 0.1, 0.4), real("", 1.0, 1.5))),
    Entry("linspace", lambda start, stop: ops.linspace(start, stop, 5), (real(), real())),
    Entry("full", lambda n, value: ops.full((n, 3), value), (length("n"), real()), sizes={"n": (2, 4)}),
    Entry("zeros_like", ops.zeros_like, (real("a b"),)),
    Entry("eye", lambda n, m: ops.eye(n, m, 1), (length("n"), length("m")), sizes={"n": (2, 4), "m": (2, 4)}),
]  # fmt: skip


def scattered(arrays: Any, g: np.ndarray, padding: int | None = None, by_frequency: bool = False) -> np.ndarray:
    """What an embedding's gradient is by definition: rows added where they were looked up."""
    table, idx = arrays
    out = np.zeros_like(table)
    for place, row in np.ndenumerate(idx):
        if row != padding:
            out[row] += g[place] / ((idx == row).sum() if by_frequency else 1)
    return out
