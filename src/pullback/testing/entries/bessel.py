"""Bessel functions: in the argument and in the order, where orders meet zero and whole numbers, and at x = 0."""

from math import inf, nan

from ... import ops
from ...ops.bessel import Bessel
from ..entry import Entry, Point, positive, real

WATSON = ("G. N. Watson, A Treatise on the Theory of Bessel Functions (1944), 6.2, 6.22 and 7.21",)


def of(name: str, *points: Point, low: float = -2.5, orders: int = 3, **rest) -> Entry:
    return Entry(
        name, getattr(ops, name), (real("a b", low, 2.5, name="v"), positive("a b", 0.3, 6.0, name="x")),
        broadcast=True, strong_zero=True, orders=orders, points=points, references=WATSON, **rest,
    )  # fmt: skip


def at(v: float, x: float, dv: float | None, dx: float | None, value: float | None, why: str) -> Point:
    return Point((v, x), (dv, dx), value, why=why)


ENTRIES = [
    of("iv",
       at(0.0, 0.0, -inf, 0.0, 1.0, "order 0 at x = 0"),
       at(1.0, 0.0, 0.0, 0.5, 0.0, "order 1 at x = 0"),
       at(0.5, 0.0, 0.0, inf, 0.0, "like a square root"),
       at(1.5, -1.0, nan, nan, nan, "complex"),
       at(2.0, inf, -inf, inf, inf, "x = inf"),
       formula="(g dI_v/dv by its integral, g (I_(v-1) + I_(v+1)) / 2)"),
    of("ive",
       at(0.0, 0.0, -inf, 0.0, 1.0, "the mean of the slopes -1 and 1 on both sides"),
       at(1.0, 0.0, 0.0, 0.5, 0.0, "order 1 at x = 0"),
       at(0.0, 1e8, None, -1.9947114095964e-13, 3.98942280900098e-05, "I_0' and I_0 nearly cancel"),
       at(2.0, inf, 0.0, 0.0, 0.0, "x = inf"),
       formula="(g exp(-x) dI_v/dv by its integral, g d/dx exp(-x) I_v by its integral)"),
    of("jv",
       at(0.0, 0.0, -inf, 0.0, 1.0, "order 0 at x = 0"),
       at(1.0, 0.0, 0.0, 0.5, 0.0, "order 1 at x = 0"),
       at(-1.0, 0.0, inf, -0.5, 0.0, "J_(-1) = -J_1, but the order may move"),
       formula="(g dJ_v/dv by its integral, g (J_(v-1) - J_(v+1)) / 2)"),
    of("kv",
       at(0.0, 2.0, 0.0, -0.13986588181652243, 0.11389387274953344, "even in v"),
       at(0.0, 0.0, 0.0, -inf, inf, "order 0 at x = 0"),
       at(1.0, -1.0, nan, nan, nan, "complex"),
       formula="(g int_0^inf exp(-x cosh t) t sinh(v t) dt, -g (K_(v-1) + K_(v+1)) / 2)"),
    Entry("i0", ops.i0, (real("a b"),), formula="g I_1(x)"),
    Entry("i1", ops.i1, (real("a b"),), formula="g (I_0(x) + I_2(x)) / 2"),
    Entry("j0", ops.j0, (real("a b"),), formula="-g J_1(x)"),
    Entry("j1", ops.j1, (real("a b"),), formula="g (J_0(x) - J_2(x)) / 2"),
    Entry("ive[order 1, x of any sign]", lambda x: ops.ive(1.0, x), (real("a b"),)),
    Entry("jv[x far out]", Bessel("jv"), (real("a b", -7.5, 7.5, name="v"), positive("a b", 65.0, 90.0, name="x"))),
]  # fmt: skip
