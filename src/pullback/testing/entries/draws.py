"""Random draws as functions of a key and a counter, differentiated in their parameters where that is possible."""

from typing import Any

import numpy as np

from ... import ops
from ...ops import random
from ..entry import Entry, Input, integer, positive, real

KEY = Input(dtype="uint64", draw=lambda rng, shape, sizes: 12345, name="key")
COUNTER = integer(low=0, high=9, name="counter")
FREE = dict(float32=np.inf, empty=(), single=())  # other dtypes draw other numbers


def draw(name: str, distribution: Any, *inputs: Input, **rest: Any) -> Entry:
    """`distribution` from the source (key, counter), with a fixed size."""
    return Entry(
        f"random.{name}",
        lambda key, counter, *parameters: distribution((key, counter), *parameters),
        (KEY, COUNTER, *inputs),
        **{**FREE, **rest},
    )


ENTRIES = [
    draw("uniform", lambda s, low, high: random.uniform(s, low, high, size=(3, 4)), real("4"), real("3 1", 2.1, 3.0)),
    draw("normal", lambda s, loc, scale: random.normal(s, loc, scale, size=(3, 4)), real("4"), positive()),
    draw("truncated_normal", random.truncated_normal, real("3"), positive("3"), real("3", -2, -0.5), real("3", 0.5, 2)),
    draw("exponential", random.exponential, positive("3 4")),
    draw("gumbel", random.gumbel, real("3 4"), positive("4")),
    draw("bernoulli", random.bernoulli, real("3 4", 0.2, 0.8)),
    draw("randint", lambda s, high: random.randint(s, 0, high, size=(3, 4)), integer("4", 3, 9)),
    draw("categorical", random.categorical, real("3 4", 0.2, 0.8)),
    draw("multinomial", lambda s, p: random.multinomial(s, 5, p), real("3 4", 0.2, 0.8)),
    draw("permutation", random.permutation, real("5 2")),
    draw("choice", lambda s, a: random.choice(s, a, size=(3, 2)), real("5 2")),
    draw("gumbel_softmax", random.gumbel_softmax, real("3 4"), positive(low=0.6)),
    draw("dropout", lambda s, x: ops.dropout(x, 0.4, s), real("a b"), empty=None, single=None),
]
