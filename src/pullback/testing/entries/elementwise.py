"""Entries of the elementwise rows, made from each row's domain, with what happens at their kinks."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

from ...ops.elementwise import ROWS, BroadcastLike, Cast, Elementwise, Row, SumTo
from ...ops.transcendental import polygamma, spherical_jn
from ..entry import Entry, Input, Point, integer, mask, positive, real

AXES = "a b"
ANALYTIC = set(
    "add arccos arccosh arcsin arcsinh arctan arctanh cos cosh divide exp expm1 log log10 log1p log2 multiply negative "
    "power reciprocal sin sinh sqrt square subtract tan tanh".split()
)
INTEGERS = {"bitwise_and", "bitwise_or", "bitwise_xor", "invert"}
NEVER_DRAWN = {"strong_mul": ((0.3, 2.0), (-2.0, 2.0)), "not_equal": ((-2.0, 2.0), (-2.0, 2.0))}


def at(x: float, slope: float, why: str | None = None) -> Point:
    """A row of one input has this slope at x."""
    return Point((x,), (slope,), why=why or f"x = {x:g}")


def pair(x: float, y: float, dx: float | None, dy: float | None, why: str) -> Point:
    return Point((x, y), (dx, dy), why=why)


NAN_SHOWS = "NaN takes the gradient, so that it shows"
POINTS: dict[str, tuple[Point, ...]] = {
    "abs": (at(0.0, 0.0), at(-0.0, 0.0)),
    "arccos": (at(1.0, -inf), at(-1.0, -inf)),
    "arccosh": (at(1.0, inf),),
    "arcsin": (at(1.0, inf), at(-1.0, inf)),
    "arctan2": (pair(0.0, 0.0, 0.0, 0.0, "the origin"), pair(0.0, 1.0, 1.0, 0.0, "on an axis")),
    "arctanh": (at(1.0, inf), at(-1.0, inf)),
    "cbrt": (at(0.0, inf),),
    "ceil": (at(2.0, 0.0),),
    "clip": (
        Point((1.0, -1.0, 1.0), (1.0, 0.0, 0.0), why="x = high"),
        Point((-1.0, -1.0, 1.0), (1.0, 0.0, 0.0), why="x = low"),
        Point((0.0, 1.0, -1.0), (0.0, 0.0, 1.0), why="the interval is empty: the upper bound wins"),
    ),
    "elu": (pair(0.0, 1.5, 1.5, 0.0, "x = 0"),),
    "erfcinv": (at(0.0, -inf), at(2.0, -inf)),
    "erfinv": (at(1.0, inf), at(-1.0, inf)),
    "floor": (at(2.0, 0.0),),
    "hard_mish": (at(-2.0, 0.0), at(0.0, 1.0)),
    "hard_swish": (at(-3.0, 0.0), at(3.0, 1.0)),
    "hardtanh": (
        Point((1.0, -1.0, 1.0), (0.0, 0.0, 1.0), why="x = high"),
        Point((-1.0, -1.0, 1.0), (0.0, 1.0, 0.0), why="x = low"),
    ),
    "hypot": (pair(0.0, 0.0, 0.0, 0.0, "the origin"),),
    "leaky_relu": (pair(0.0, 0.1, 0.1, 0.0, "x = 0"),),
    "log": (at(0.0, inf),),
    "log10": (at(0.0, inf),),
    "log1mexp": (at(0.0, -inf),),
    "log1p": (at(-1.0, inf),),
    "log2": (at(0.0, inf),),
    "logaddexp": (
        pair(-inf, -inf, 0.0, 0.0, "x = y = -inf"),
        pair(-inf, 1.0, 0.0, 1.0, "x = -inf"),
        pair(1000.0, 0.0, 1.0, 0.0, "no overflow"),
    ),
    "logit": (at(0.0, inf), at(1.0, inf)),
    "maximum": (pair(1.0, 1.0, 0.5, 0.5, "x = y"), pair(nan, 1.0, 1.0, None, NAN_SHOWS)),
    "minimum": (pair(1.0, 1.0, 0.5, 0.5, "x = y"), pair(1.0, nan, None, 1.0, NAN_SHOWS)),
    "mod": (pair(2.0, 1.0, 1.0, -2.0, "x / y whole"),),
    "power": (
        pair(0.0, 0.0, 0.0, 0.0, "0^0"),
        pair(0.0, 1.0, 1.0, 0.0, "0^1"),
        pair(0.0, 2.0, 0.0, 0.0, "0^2"),
        pair(-2.0, 3.0, 12.0, None, "a negative base with a whole exponent"),
    ),
    "relu": (at(0.0, 0.0), at(-0.0, 0.0)),
    "rint": (at(0.5, 0.0),),
    "sigmoid": (at(-1000.0, 0.0, "no overflow"), at(1000.0, 0.0, "no overflow")),
    "softplus": (at(-1000.0, 0.0, "no overflow"), at(1000.0, 1.0, "no overflow")),
    "softsign": (at(0.0, 1.0),),
    "sqrt": (at(0.0, inf),),
    "stair": (at(1.0, 0.0), at(2.0, 0.0)),
    "trunc": (at(2.0, 0.0),),
    "where": (Point((True, 1.0, nan), (None, 1.0, 0.0), why="the branch not taken gets exactly zero"),),
    "xlog1py": (pair(0.0, -1.0, -inf, None, "y = -1"),),
    "xlogy": (pair(0.0, 0.0, -inf, None, "y = 0"),),
}

# Rows whose gradient is deliberately not the derivative: (arrays, cotangents) -> gradients.
DELIBERATE: dict[str, Callable[..., Any]] = {
    "straight_through_clip": lambda arrays, cotangents: (cotangents[0], None),
}


def inputs_of(row: Row) -> tuple[Input, ...]:
    if row.name in INTEGERS:
        return tuple(integer(AXES, 0, 9, name=name) for name in "xyz"[: row.arity])
    domain = row.domain or NEVER_DRAWN[row.name]
    inputs = [real(AXES, low, high, name=name) for name, (low, high) in zip("xyz", domain)]
    if row.name == "where":
        inputs[0] = mask(AXES, name="condition")
    return tuple(inputs)


def row_entry(row: Row) -> Entry:
    discrete = row.result == "bool" or row.name in INTEGERS
    return Entry(
        f"row:{row.name}",
        Elementwise(row),
        inputs_of(row),
        broadcast=row.arity > 1,
        analytic=row.name in ANALYTIC,
        strong_zero=not discrete,
        ties=row.name in ("maximum", "minimum"),
        points=POINTS.get(row.name, ()),
        pullback=DELIBERATE.get(row.name),
        formula=row.formula,
    )


def constant_bound(name: str, op: Callable[..., Any]) -> Entry:
    point = Point(([0.5, 1.0, 2.0],), ([0.0, 0.0, 1.0] if name == "maximum" else [1.0, 0.0, 0.0],), why="x = bound")
    return Entry(f"{name}[constant]", lambda x: op(x, 1.0), (real("n"),), points=(point,), strong_zero=True)


ENTRIES = [row_entry(row) for row in ROWS.values()] + [
    constant_bound("maximum", Elementwise(ROWS["maximum"])),
    constant_bound("minimum", Elementwise(ROWS["minimum"])),
    Entry("polygamma", lambda x: polygamma(2, x), (positive("a b", 0.3, 4.0, name="x"),), strong_zero=True),
    Entry("spherical_jn", lambda x: spherical_jn(2, x), (real("a b", -4.0, 4.0, name="x"),), strong_zero=True),
    Entry("broadcast_like", BroadcastLike(), (real("b", name="x"), real("a b", name="like"))),
    Entry("sum_to", SumTo(), (real("a b c", name="g"), real("b 1", name="like"))),
    Entry("cast", Cast("float64"), (real("a b"),), float32=1e-6),
    Entry("cast[int64]", Cast("int64"), (real("a b"),)),
    Entry("cast[from int32]", Cast("float64"), (integer("a b", dtype="int32"),)),
]
