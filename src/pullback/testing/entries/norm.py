"""Entries of normalisation."""

from functools import partial

from ...ops.norm import (
    batch_norm,
    batch_norm_train,
    group_norm,
    instance_norm,
    l1_normalize,
    l2_normalize,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from ..entry import Entry, Point, positive, real, variants

SIZES = {"n": (2, 4), "s": (2, 4)}
PARTS = (real("n c s"), real("c"), real("c"))
DX = "(h - mean(h)) / s - x^ mean(h x^) / s with h = g gamma, x^ = (x - mean) / s"
OUTSIDE = [{}, {"eps_outside": True}]
SINGLE = ("c",)

ENTRIES = [
    *variants(
        "batch_norm", partial(batch_norm, training=True, eps=0.01), PARTS, [*OUTSIDE, {"axis": -2}],
        sizes=SIZES, single=SINGLE, formula=f"({DX}, sum(g x^), sum(g))",
        references=("Ioffe and Szegedy 2015", "pjreddie/darknet#1723"),
    ),
    *variants("batch_norm_train", partial(batch_norm_train, eps=0.01), PARTS, OUTSIDE, sizes=SIZES, single=SINGLE),
    Entry(
        "batch_norm[three samples]",
        lambda x, gamma, beta: batch_norm(x, gamma, beta, training=True),
        (real("n c"), real("c"), real("c")),
        sizes={"n": (3, 5)},
        single=SINGLE,
        points=(
            Point(
                ([[1.0], [2.0], [4.0]], [1.0], [0.0]),
                ([[0.22908229170096833], [-0.3436200013686195], [0.11453770966765114]], None, None),
                cotangents=([[1.0], [0.0], [0.0]],),
            ),
        ),
    ),
    Entry(
        "batch_norm[constant batch, eps_outside]",
        lambda x: batch_norm(x, [2.0], [1.0], training=True, eps=0.5, eps_outside=True),
        (real("n 1"),),
        sizes={"n": (3, 5)},
        single=(),
        points=(Point(([[3.0], [3.0]],), ([[2.0], [-2.0]],), cotangents=([[1.0], [0.0]],), why="variance 0"),),
    ),
    *variants(
        "batch_norm[inference]",
        lambda x, gamma, beta, mean, var, **rest: batch_norm(x, gamma, beta, False, 0.01, 1, mean, var, **rest),
        (*PARTS, real("c"), positive("c")),
        OUTSIDE,
    ),
    *variants("layer_norm", layer_norm, [real("a b n"), real("n"), real("n")], [{}, {"eps": 0.1}],
              sizes={"n": (3, 5)}, single=("a", "b"), formula=f"({DX}, sum(g x^), sum(g))"),
    Entry("layer_norm[axis=(1, 2)]", lambda x, g, b: layer_norm(x, g, b, axis=(1, 2)),
          (real("a b n"), real("b n"), real("b n")), single=("a",)),
    Entry("layer_norm[one vector]", layer_norm, (real("n"), real("n"), real("n")), sizes={"n": (3, 5)}, single=()),
    Entry("layer_norm[no scale]", layer_norm, (real("a n"),), sizes={"n": (3, 5)}, single=("a",)),
    Entry("instance_norm", instance_norm, (real("b c n"), real("c"), real("c")), sizes={"n": (3, 5)},
          single=("b", "c")),
    Entry("group_norm", lambda x, g, b: group_norm(x, 2, g, b), (real("b 2*c n"), real("2*c"), real("2*c")),
          sizes={"n": (3, 5)}, empty=("b",), single=("b", "c")),
    Entry("group_norm[axis=-1]", lambda x, g, b: group_norm(x, 3, g, b, axis=-1),
          (real("b n 3*c"), real("3*c"), real("3*c")), sizes={"n": (3, 5)}, empty=("b",), single=("b", "c")),
    Entry("rms_norm", rms_norm, (real("a n"), real("n")),
          formula="with r = sqrt(mean x^2 + eps): (g gamma - y mean(g gamma x / r)) / r"),
    Entry("l2_normalize", l2_normalize, (real("a n"),), sizes={"n": (3, 4)}, single=("a",),
          formula="(g - y (g . y)) / |x|",
          points=(Point(([[0.0, 0.0]],), ([[1e12, 2e12]],), [[0.0, 0.0]], ([[1.0, 2.0]],), "zeros"),)),
    Entry("l1_normalize", lambda x: l1_normalize(x, 0), (real("n a"),), sizes={"n": (3, 4)}, single=("a",),
          formula="(g - sign(x) (g . y)) / sum |x|",
          points=(Point(([[0.0], [0.0]],), ([[1e12], [2e12]],), [[0.0], [0.0]], ([[1.0], [2.0]],), "zeros"),)),
    *variants("local_response_norm", local_response_norm, [real("b c n")],
              [{"size": 3, "alpha": 0.4}, {"size": 4, "alpha": 0.6, "beta": 0.5, "k": 2.0}],
              sizes={"c": (3, 6)}, empty=("b", "n"), references=("Krizhevsky et al. 2012",)),
]  # fmt: skip
