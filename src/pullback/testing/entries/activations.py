"""Activation functions that are made of rows."""

from ... import ops
from ..entry import Entry, Point, real, variants


def unary(name: str, *points: tuple[float, float], **options: float | str) -> list[Entry]:
    """A function of one tensor, with its slope at some places."""
    places = tuple(Point((x,), (slope,), why=f"x = {x:g}") for x, slope in points)
    return variants(name, getattr(ops, name), [real("a b")], [options], points=places, strong_zero=True)


ENTRIES = [
    *unary("softplus", (1000.0, 1.0), (-1000.0, 0.0), beta=1.5),
    *unary("leaky_relu", (0.0, 0.01)),
    *unary("elu", (0.0, 1.3), alpha=1.3),
    *unary("selu"),
    *unary("celu", (0.0, 1.0), alpha=0.7),
    *unary("gelu", approximate="tanh"),
    *unary("hardtanh", (-1.0, 0.0), (2.0, 0.0), min_val=-1.0, max_val=2.0),
    *unary("relu6", (0.0, 0.0), (6.0, 0.0)),
    *unary("hard_sigmoid", (-3.0, 0.0), (3.0, 0.0)),
    *unary("softshrink", (0.5, 0.0), (-0.5, 0.0)),
    *unary("hardshrink", (0.5, 0.0), (-0.5, 0.0)),
    *unary("tanhshrink"),
    *unary("threshold", (0.1, 0.0), threshold=0.1, value=-3.0),
    *unary("hardtan", (-1.0, 0.0), (1.0, 0.0)),
    *unary("lhtan", (0.0, 0.001), (1.0, 0.001)),
    *unary("plse", (-4.0, 0.125), (4.0, 0.125)),
    *unary("loggy"),
    *unary("ramp", (0.0, 0.1)),
    *unary("relie", (0.0, 0.01)),
    *unary("elliot", steepness=1.5),
    *unary("symmelliot", steepness=1.5),
    Entry("glu", lambda x: ops.glu(x, axis=1), (real("a 2*b"),)),
    Entry("prelu", lambda x, weight: ops.prelu(x, weight, axis=1), (real("n c w"), real("c", 0.05, 0.5))),
]
