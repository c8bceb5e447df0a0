"""Entries of the losses."""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from ...ops import losses
from ...ops.activation import sigmoid
from ...ops.softmax import softmax
from ..entry import Entry, Input, Point, index, integer, positive, real, variants
from .softmax import labels

PAIR = (real("n c"), real("n c"))
REDUCTIONS = [{}, {"reduction": "mean"}, {"reduction": "sum"}, {"reduction": "none"}]


def probability(axes: str) -> Input:
    return real(axes, 0.1, 0.9)


def sign(axes: str) -> Input:
    """-1 or 1."""
    return Input(axes, draw=lambda rng, shape, sizes: rng.choice([-1.0, 1.0], shape))


def loss(name: str, inputs: tuple[Input, ...] = PAIR, options: tuple = ({},), **rest: Any) -> list[Entry]:
    return variants(name, getattr(losses, name), inputs, options, empty=(), **rest)


def weighted(logits: Any, target: Any, weight: Any, **options: Any) -> Any:
    return losses.cross_entropy(logits, target, weight=weight, **options)


WINDOW = (index("n", "2", negative=False), integer("n", 0, 1))  # lengths and starts of windows inside 3 steps

both_kinds = Input("5", dtype="bool", draw=lambda rng, shape, sizes: rng.permutation(np.arange(5) < 2))
STEPS = [[[0.5, 0.5], [0.25, 0.75], [0.0, 1.0]]]


def masked(f: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, t, lengths, starts: losses.masked_loss(f(x), t, lengths, starts)


ENTRIES = [
    *variants("cross_entropy", losses.cross_entropy, [real("n c a"), labels("n a", "c", -100)],
              [*REDUCTIONS, {"label_smoothing": 0.2}, {"reduction": "sum", "label_smoothing": 0.1}], empty=("n", "a"),
              formula="g (softmax(x) - onehot) over the number of rows that count"),
    *variants("cross_entropy[weight]", weighted, [real("n c"), labels("n", "c", -100), positive("c")],
              [{}, {"reduction": "none", "label_smoothing": 0.2}, {"label_smoothing": 0.1}], empty=()),
    *variants("cross_entropy[probabilities]", losses.cross_entropy, [real("n c"), probability("n c")],
              [{}, {"label_smoothing": 0.1}, {"reduction": "none"}], empty=()),
    Entry("cross_entropy[probabilities, weight]", weighted, (real("n c"), probability("n c"), positive("c")), empty=()),
    Entry("cross_entropy[special]", losses.cross_entropy, (real("n c"), labels("n", "c")), empty=(), points=(
        Point(([[1.0, 2.0]], [-100]), ([[0.0, 0.0]], None), 0.0, why="no row counts"),
        Point(([[0.0, 0.0], [9.0, 3.0]], [0, -100]), ([[-0.5, 0.5], [0.0, 0.0]], None), why="one row counts"),
    )),
    Entry("masked_loss", masked(lambda p: p), (positive("n 3 c"), labels("n 3", "c"), *WINDOW), empty=("n",),
          formula="-g / p at the targets inside the window",
          references=("JonathanRaiman/theano_lstm, masked_loss.py (there -1 / (p g), which is wrong)",)),
    Entry("masked_loss[of a softmax]", masked(softmax), (real("n 3 c"), labels("n 3", "c"), *WINDOW), empty=("n",)),
    Entry(
        "masked_loss[special]", masked(lambda p: p), (positive("n 3 c"), labels("n 3", "c"), *WINDOW), empty=("n",),
        points=(
            Point((STEPS, [[7, 0, 0]], [1], [1]), ([[[0.0, 0.0], [-4.0, 0.0], [0.0, 0.0]]], None, None, None),
                  why="labels and zeros outside the window don't count"),
            Point((STEPS, [[0, 0, 0]], [2], [0]), ([[[0.0, 0.0]] * 3], None, None, None), cotangents=([0.0],),
                  why="a zero cotangent stays zero"),
        ),
    ),
    *loss("binary_cross_entropy", (probability("n c"), probability("n c")), ({}, {"reduction": "none"}), points=(
        Point(([[0.0, 1.0]], [[0.0, 1.0]]), ([[1.0, -1.0]], None), 0.0, why="certain and right"),
        Point(([[0.0]], [[1.0]]), ([[-inf]], None), inf, why="what was ruled out happened"),
    ), formula="(g ((1 - t) / (1 - p) - t / p), g log((1 - p) / p))"),
    Entry("binary_cross_entropy[of a sigmoid]", lambda x, t: losses.binary_cross_entropy(sigmoid(x), t), PAIR, empty=(),
          points=(Point(([[1000.0]], [[0.0]]), ([[1.0]], None), 1000.0, why="saturated"),)),
    *loss("bce_with_logits", (real("n c"), probability("n c")), (*REDUCTIONS[1:], {"pos_weight": 3.0})),
    *loss("bce_with_logits", (real("n c"), probability("n c")), formula="(g (sigmoid(x) - t), -g x)", points=(
        Point(([[1000.0, -1000.0, 0.0]], [[0.0, 0.0, 1.0]]), ([[1.0, 0.0, -0.5]], None), [[1000.0, 0.0, np.log(2)]],
              why="saturated"),
    )),
    *loss("focal", (real("n c"), probability("n c")), ({}, {"gamma": 0.0}, {"gamma": 1.5, "alpha": None})),
    *loss("hinge", (real("n c"), sign("n c")), formula="(-g t, -g s) where t s < 1"),
    *loss("squared_hinge", (real("n c"), sign("n c"))),
    *loss("mse", PAIR, REDUCTIONS, formula="2 g (x - t)"),
    *loss("mae", formula="g sign(x - t)"),
    *loss("huber", PAIR, ({}, {"delta": 0.4}), formula="g (x - t) within delta, g delta sign(x - t) outside"),
    *loss("smooth_l1", PAIR, ({}, {"beta": 0.5}, {"beta": 0.0})),
    *loss("log_cosh_loss", formula="g tanh(x - t)"),
    *loss("poisson_nll", (positive("n c"), positive("n c")), ({}, {"log_input": False})),
    *loss("gaussian_nll", (*PAIR, positive("n c"))),
    *loss("kl_divergence", (real("n c"), positive("n c")), ({}, {"log_target": True}, {"reduction": "none"})),
    *loss("hellinger", (positive("n c"), positive("n c")), formula="g (1 - sqrt(t / p)) / 2"),
    *loss("cosine_similarity", PAIR, ({"axis": 0},)),
    *loss("cosine_similarity", points=(
        Point(([[0.0, 0.0]], [[3.0, 4.0]]), ([[0.6e8, 0.8e8]], [[0.0, 0.0]]), [0.0], why="zeros"),
    )),
    *loss("cosine_distance"),
    Entry("auc", losses.auc, (both_kinds, real("5")), formula="0: it depends on the order of the scores only"),
]  # fmt: skip
