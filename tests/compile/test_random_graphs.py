"""Random graphs of views, loops, products, reductions and updates: the native plan against the reference, twice.

What can go wrong in a plan is shared memory: a buffer reused too early, a view of something overwritten, an update
that lands before its last reader. So the graphs are dense in views, in values used twice, and in several outputs and
updates.
"""

import os

import numpy as np
import pytest

import pullback as pb
from pullback.compile import function

DRAWS = 400 if os.environ.get("PULLBACK_PROVE") == "1" else 40


class Builder:
    """Grows a pool of matrices by random ops; all have the shape (n, m), (m, n), (n, n) or (m, m) of run-time sizes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.x = [pb.dmatrix(f"x{i}") for i in range(2)]
        self.w = [pb.shared(rng.standard_normal((4, 4)), name=f"w{i}") for i in range(3)]
        self.pool: dict[str, list] = {"nm": list(self.x), "mn": [], "nn": [], "mm": list(self.w)}

    def pick(self, kind: str):
        candidates = self.pool[kind]
        return candidates[self.rng.integers(len(candidates))] if candidates else None

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            kind = self.rng.choice(list(self.pool))
            a, b = self.pick(kind), self.pick(kind)
            if a is None:
                a = b = pb.transpose(self.pick("nm")) if kind == "mn" else self.pick("nm") @ pb.transpose(self.x[0])
                kind = "mn" if kind == "mn" else "nn"
            self.apply(kind, a, b if b is not None else a)

    def apply(self, kind: str, a, b) -> None:
        rows, columns = kind
        flipped = columns + rows
        choice = self.rng.integers(14)
        match choice:
            case 0:
                self.pool[kind].append(pb.tanh(a) * b + 0.5)
            case 1:
                self.pool[flipped].append(pb.transpose(a))
            case 2:
                self.pool[kind].append(a - pb.sin(b))
            case 3:
                self.pool[kind].append(a + a.sum(axis=0, keepdims=True))
            case 4:
                self.pool[kind].append(a * pb.sigmoid(b[:, :1]))
            case 5:
                self.pool[rows + rows].append(pb.tanh(a @ pb.transpose(b)))
            case 6:
                self.pool[kind].append(pb.reshape(pb.reshape(a, (-1,)), a.shape) - b)
            case 7:
                self.pool[kind].append(pb.set_subtensor(a[1:], b[:-1]))
            case 8:
                self.pool[kind].append(pb.concatenate([b[:1], a[1:]], axis=0))
            case 9:
                self.pool[kind].append(pb.maximum(a, b.mean(axis=1, keepdims=True)))
            case 10:
                self.pool[kind].append(a[::-1] * 0.5)
            case 11:
                self.pool[kind].append(pb.where(a > b, a, -b))
            case 12:
                self.pool[kind].append(pb.softmax(a, axis=-1) + b)
            case 13:
                cost = (pb.tanh(a) * b).sum()
                self.pool[kind].append(pb.grad(cost, a) if a is not b else a * 2)

    def outputs(self) -> tuple[list, dict]:
        everything = [v for group in self.pool.values() for v in group]
        chosen = [everything[i] for i in self.rng.integers(len(everything), size=4)]
        made = self.pool["mm"]
        updates = {w: made[self.rng.integers(len(made))] * 0.25 for w in self.w[:2]}
        return [*chosen, chosen[0], chosen[1].sum()], updates


@pytest.mark.parametrize("seed", range(DRAWS))
def test_plans_compute_what_the_graph_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    builder = Builder(rng)
    builder.grow(14)
    outputs, updates = builder.outputs()
    f = function(builder.x, outputs, updates=updates, backend="native", on_unused_input="ignore")
    g = function(builder.x, outputs, updates=updates, backend="reference", on_unused_input="ignore")
    for n in (5, 3, 5):
        arrays = [rng.standard_normal((n, 4)) for _ in builder.x]
        before = [w.get_value() for w in builder.w]
        expected = g(*arrays)
        after = [w.get_value() for w in builder.w]
        for w, value in zip(builder.w, before):
            w.set_value(value)
        found = f(*arrays)
        for i, (a, b) in enumerate(zip(found, expected)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"output {i}, n = {n}")
        for w, value in zip(builder.w, after):
            np.testing.assert_allclose(w.get_value(), value, rtol=1e-9, atol=1e-9, err_msg=f"{w}, n = {n}")
