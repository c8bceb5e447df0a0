"""Entries of resizing, pixel shuffle, reorg, and patches of images."""

from ...ops.neibs import images2neibs, neibs2images
from ...ops.upsample import pixel_shuffle, pixel_unshuffle, reorg, resize, upsample
from ..entry import Entry, Point, real, variants

PLANES = [real("n c h w")]
SIZES = {"h": (2, 5), "w": (2, 5)}
REST = {"sizes": SIZES, "empty": ("n", "c")}
SHAPES = [
    ("valid", "n c 6 7", (2, 3), (2, 2)),
    ("valid", "n c 4 6", (2, 3), (2, 3)),
    ("ignore_borders", "n c 5 7", (2, 3), (2, 3)),
    ("ignore_borders", "n c 6 7", (3, 2), (1, 2)),
    ("half", "n c 5 6", (3, 2), (2, 3)),
    ("full", "n c 4 6", (3, 2), (1, 2)),
    ("wrap_centered", "n c 5 4", (3, 3), (2, 1)),
    ("wrap_centered", "n c 5 6", (5, 3), (1, 4)),
]


def patches(mode: str, axes: str, size: tuple[int, int], step: tuple[int, int]) -> Entry:
    return Entry(
        f"images2neibs[{mode}, {size}, step={step}]",
        lambda x: images2neibs(x, size, step, mode),
        (real(axes),),
        empty=("n", "c"),
        formula="each patch's g added where it was cut out",
        references=("Theano#6630: there without a gradient for half, full, wrap_centered and most steps",),
    )


ENTRIES = [
    *variants(
        "resize", resize, PLANES,
        [
            {"size": (5, 3)},
            {"size": (7, 4), "mode": "nearest-exact"},
            {"size": (3, 8), "mode": "bilinear"},
            {"size": (3, 8), "mode": "bilinear", "align_corners": True},
            {"scale": (1.5, 2.5), "mode": "linear"},
            {"scale": 2, "mode": "bicubic"},
            {"size": (1, 9), "mode": "bicubic", "align_corners": True},
        ],
        formula="each g added, weighted, to the entries that its output read", **REST,
    ),
    *variants("resize[channels last]", resize, [real("n h w c")], [{"scale": 2, "layout": "NHWC"}], **REST),
    *variants("upsample", upsample, PLANES, [{}, {"scale": 3, "mode": "linear"}], **REST),
    Entry(
        "upsample[one axis]",
        lambda x: upsample(x, 2, "linear", align_corners=True),
        (real("n c w"),),
        empty=("n", "c"),
        points=(
            Point(([[[2.0, 4.0]]],), ([[[41.0, 1070.0]]],), [[[2.0, 8 / 3, 10 / 3, 4.0]]],
                  ([[[1.0, 10.0, 100.0, 1000.0]]],)),
        ),
    ),
    Entry("upsample[three axes]", lambda x: upsample(x, 2, "trilinear"), (real("n c 2 3 2"),), empty=("n", "c")),
    *variants("pixel_shuffle", pixel_shuffle, [real("n 4*c h w")], [{"r": 2}], **REST),
    *variants("pixel_shuffle[channels last]", pixel_shuffle, [real("n h w 4*c")], [{"r": 2, "layout": "NHWC"}], **REST),
    *variants("pixel_unshuffle", pixel_unshuffle, [real("n c 2*h 3*2")], [{"r": 2}], **REST),
    *variants("reorg", reorg, [real("n 4*c 2*h 2*w")], [{"stride": 2}, {"stride": 2, "reverse": True}], **REST),
    *(patches(*shape) for shape in SHAPES),
    Entry("neibs2images", lambda p: neibs2images(p, (2, 2), (2, 3, 3, 5), (1, 3)), (real("24 4"),), sizes={}),
    Entry("neibs2images[wrap_centered]", lambda p: neibs2images(p, 3, (1, 2, 4, 5), (2, 2), "wrap_centered"),
          (real("12 9"),)),
]  # fmt: skip
