"""Entries of convolution, its two gradients and transposed convolution."""

from collections.abc import Callable, Mapping
from typing import Any

from ...ops.conv import (
    conv1d,
    conv2d,
    conv2d_grad_wrt_inputs,
    conv2d_grad_wrt_weights,
    conv3d,
    conv3d_grad_wrt_inputs,
    conv3d_grad_wrt_weights,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from ..entry import Entry, real

SIZES = {"h": (5, 7), "w": (5, 7), "d": (4, 5), "n": (1, 3), "c": (1, 3), "o": (1, 3)}
EMPTY, SINGLE = ("n",), ("n", "c", "o")
ASYMMETRIC = {"stride": (2, 1), "padding": ((1, 2), (0, 1)), "dilation": (1, 2)}


def entry(name: str, f: Callable[..., Any], x: str, w: str, options: Mapping[str, Any], **rest: Any) -> Entry:
    label = f"{name}[{', '.join(f'{k}={v}' for k, v in options.items())}]" if options else name
    return Entry(
        label, lambda x, w: f(x, w, **options), (real(x), real(w)), SIZES, empty=EMPTY, single=SINGLE, **rest
    )


FORMULA = "(filters spread by g, images times g summed over positions)"
ENTRIES = [
    *(
        entry("conv2d", conv2d, "n c h w", "o c 3 2", options, formula=FORMULA)
        for options in ({}, ASYMMETRIC, {"padding": "same", "stride": 2}, {"padding": "full", "flip": True})
    ),
    entry("conv2d", conv2d, "n 2*c h w", "2*o c 3 2", {"groups": 2, **ASYMMETRIC}),
    entry("conv2d", conv2d, "n 3 h w", "6 1 3 3", {"groups": 3, "padding": 1}),
    entry("conv2d", conv2d, "n h w 2*c", "3 2 c 2*o",
          {"layout": "NHWC", "filter_layout": "HWIO", "groups": 2, "stride": 2, "padding": "half"}),
    entry("conv2d", conv2d, "n c h w", "o c 1 1", {"stride": (1, 2)}),
    entry("conv1d", conv1d, "n c w", "o c 3", {"stride": 2, "padding": (2, 1), "dilation": 2}),
    entry("conv1d", conv1d, "n w 2*c", "3 c 4", {"layout": "NWC", "filter_layout": "WIO", "groups": 2}),
    entry("conv3d", conv3d, "n c d h w", "o c 2 3 2", {"stride": (1, 2, 1), "padding": (1, 0, 1)}),
    entry("conv_transpose2d", conv_transpose2d, "n c h w", "c o 3 2", {}),
    entry("conv_transpose2d", conv_transpose2d, "n c h w", "c o 3 2", {"output_padding": (1, 0), **ASYMMETRIC}),
    entry("conv_transpose2d", conv_transpose2d, "n 2*c h w", "2*c o 3 3",
          {"groups": 2, "stride": 2, "padding": "same", "flip": True}),
    entry("conv_transpose2d", conv_transpose2d, "n h w c", "3 3 o c",
          {"layout": "NHWC", "filter_layout": "HWOI", "stride": 2, "padding": 1}),
    entry("conv_transpose1d", conv_transpose1d, "n c w", "c o 3", {"stride": 3, "output_padding": 2}),
    entry("conv_transpose3d", conv_transpose3d, "n c 3 4 3", "c o 2 2 2", {"stride": (1, 2, 2), "padding": (0, 1, 0)}),
    Entry(
        "conv2d_grad_wrt_inputs",
        lambda g, w, out, alpha, beta: conv2d_grad_wrt_inputs(
            g, w, output=out, alpha=alpha, beta=beta, stride=2, padding=((1, 1), (0, 1))
        ),
        (real("n o 4 3"), real("o c 3 2"), real("n c 7 6"), real(), real()),
        SIZES, empty=EMPTY, single=SINGLE,
        formula="(alpha conv(G, w), alpha dW(G, g), beta G, sum(G X), sum(G output))",
        references=("Theano's GpuDnnConvGradI",),
    ),
    Entry(
        "conv2d_grad_wrt_weights",
        lambda x, g, out, alpha, beta: conv2d_grad_wrt_weights(
            x, g, output=out, alpha=alpha, beta=beta, padding=1, flip=True, groups=2
        ),
        (real("n 2*c 5 4"), real("n 2*o 5 5"), real("2*o c 3 2"), real(), real()),
        SIZES, empty=EMPTY, single=SINGLE,
        formula="(alpha dX(G, g), alpha conv(x, G), beta G, sum(G F), sum(G output))",
    ),
    Entry(
        "conv3d_grad_wrt_inputs",
        lambda g, w, out, alpha: conv3d_grad_wrt_inputs(g, w, output=out, alpha=alpha, beta=2.0, stride=2),
        (real("n o 2 2 1"), real("o c 2 1 2"), real("n c 4 4 3"), real()),
        SIZES, empty=EMPTY, single=SINGLE,
        references=("Theano's GpuDnn3dConvGradI",),
    ),
    Entry(
        "conv3d_grad_wrt_weights",
        lambda x, g: conv3d_grad_wrt_weights(x, g, (2, 3, 2, 1, 2), stride=2),
        (real("n 3 4 4 3"), real("n 2 2 2 1")),
        SIZES, empty=EMPTY, single=("n",),
    ),
]  # fmt: skip
