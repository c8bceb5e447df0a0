"""Entries of pooling."""

from math import inf, nan

from ...ops.pool import (
    PoolGather,
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool,
    global_max_pool,
    lp_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    sum_pool1d,
)
from ..entry import Entry, Point, index, positive, real, variants

SIZES = {"h": (5, 7), "w": (5, 7)}
PLANES = [real("n c h w")]
REST = {"sizes": SIZES, "empty": ("n", "c"), "single": ("n", "c")}
SETTINGS = [
    {"size": 2},
    {"size": 3, "stride": 2, "padding": 1},
    {"size": (3, 2), "stride": (1, 2), "padding": ((1, 2), (0, 1))},
    {"size": 3, "stride": 2, "ceil_mode": True},
    {"size": 3, "stride": 2, "padding": "same"},
]
MEANS = [
    {"size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"size": 2, "stride": 2, "padding": 1, "ceil_mode": True},
    {"size": 2, "stride": 1, "divisor": 3},
]
ADAPTIVE = [{"output_size": (3, 2)}, {"output_size": (9, 4)}]

ENTRIES = [
    *variants("max_pool2d", max_pool2d, PLANES, [*SETTINGS, {"size": 2, "stride": 1, "dilation": 2}], ties=True,
              formula="g to the first maximum of its window", **REST),
    *variants("max_pool2d[channels last]", max_pool2d, [real("n h w c")], [{"size": 2, "layout": "NHWC"}], **REST),
    *variants("max_pool1d", max_pool1d, [real("n c w")], [{"size": 3, "stride": 2}], **REST),
    *variants("max_pool3d", max_pool3d, [real("n c 3 h 4")], [{"size": 2, "stride": 1}], **REST),
    Entry(
        "max_pool1d[special]",
        lambda x: max_pool1d(x, 2),
        (real("n c w"),),
        points=(
            Point(([[[-inf, -inf]]],), ([[[1.0, 0.0]]],), [[[-inf]]], why="a window of -inf"),
            Point(([[[3.0, 3.0, 1.0, 2.0]]],), ([[[1.0, 0.0, 0.0, 1.0]]],), why="a tie goes to the first"),
            Point(([[[1.0, nan, nan, 2.0]]],), ([[[0.0, 1.0, 1.0, 0.0]]],), [[[nan, nan]]], why="NaN wins"),
        ),
        **REST,
    ),
    Entry("max_pool's second derivative", PoolGather((1, 2)), (real("n h w"), index("n 2 3", "h*w", negative=False,
          dtype="int32")), sizes=SIZES, empty=("n",), single=("n",), formula="g added at the places"),
    *variants("avg_pool2d", avg_pool2d, PLANES, [*SETTINGS, *MEANS], formula="g / cells over its window", **REST),
    *variants("avg_pool2d[channels last]", avg_pool2d, [real("n h w c")], [{"size": 2, "layout": "NHWC"}], **REST),
    *variants("avg_pool1d", avg_pool1d, [real("n c w")], [{"size": 3, "stride": 2}], **REST),
    *variants("avg_pool3d", avg_pool3d, [real("n c 3 h 4")], [{"size": 2, "stride": 1}], **REST),
    Entry(
        "avg_pool1d[overhang]",
        lambda x: avg_pool(x, 2, ceil_mode=True),
        (real("n c w"),),
        points=(
            Point(([[[1.0, 2.0, 3.0, 4.0, 5.0]]],), ([[[0.5, 0.5, 0.5, 0.5, 1.0]]],), [[[1.5, 3.5, 5.0]]],
                  why="the overhang is no cell"),
        ),
        **REST,
    ),
    *variants("sum_pool1d", sum_pool1d, [real("n c w")], [{"size": 3, "stride": 2, "padding": 1}], **REST),
    *variants("lp_pool2d", lp_pool2d, [positive("n c h w")], [{"p": 2, "size": 2}, {"p": 3.0, "size": 3, "stride": 2},
              {"p": inf, "size": 2}], formula="g sign(x) (|x| / y)^(p - 1)", **REST),
    Entry(
        "lp_pool2d[zeros]",
        lambda x: lp_pool2d(x, 2, 2),
        (real("n c h w"),),
        points=(
            Point(([[[[0.0, 0.0], [0.0, 0.0]]]],), ([[[[0.0, 0.0], [0.0, 0.0]]]],), [[[[0.0]]]], why="all zeros"),
            Point(([[[[3.0, 0.0], [0.0, -4.0]]]],), ([[[[0.6, 0.0], [0.0, -0.8]]]],), [[[[5.0]]]], why="zeros in it"),
        ),
        **REST,
    ),
    *variants("adaptive_avg_pool", adaptive_avg_pool, PLANES, ADAPTIVE, **REST),
    *variants("adaptive_max_pool", adaptive_max_pool, PLANES, ADAPTIVE, **REST),
    *variants("global_avg_pool", global_avg_pool, PLANES, [{}, {"keepdims": True}], **REST),
    *variants("global_max_pool", global_max_pool, PLANES, [{}, {"keepdims": True}], **REST),
]  # fmt: skip
