"""What is measured: an operation each, with data and the share of PyTorch's time that pullback is to stay within."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@dataclass(frozen=True)
class Case:
    """`kind` is the name of the function that builds it in either library, and gets `arrays()` and `options`.

    `work` counts multiplications and additions by the definition, whatever the algorithm; 0: bound by memory."""

    name: str
    title: str
    kind: str
    target: float
    arrays: Callable[[], list[np.ndarray]]
    options: dict[str, int] | None = None
    work: float = 0.0
    fast: bool = False  # under pb.config.conv = "fast"


def convolution(
    name: str, images: tuple[int, int, int, int], filters: int, size: int, target: float,
    stride: int = 1, groups: int = 1, fast: bool = False,
) -> Case:  # fmt: skip
    """Output, dX and dW for images (batch, height, width, channels), padded so that stride 1 keeps their size."""
    batch, height, width, channels = images
    rows, columns = -(-height // stride), -(-width // stride)

    def arrays() -> list[np.ndarray]:
        w = normal(1, size, size, channels // groups, filters) / np.float32(size * (channels / groups) ** 0.5)
        return [normal(0, *images), w, normal(2, batch, rows, columns, filters)]

    work = 3 * 2 * batch * rows * columns * size**2 * (channels // groups) * filters
    title = f"{size}x{size} {batch}x{height}x{width} {channels}->{filters}"
    title += f" stride {stride}" if stride > 1 else " depthwise" if groups > 1 else ""
    title += ', conv = "fast"' if fast else ""
    options = dict(stride=stride, padding=size // 2, groups=groups)
    return Case(name, title, "convolution", target, arrays, options, work, fast)


def gemm(name: str, m: int, n: int, k: int, target: float) -> Case:
    def arrays() -> list[np.ndarray]:
        return [normal(0, m, k), normal(1, k, n), normal(2, m, n)]

    return Case(name, f"product {m}x{k} by {k}x{n}, with dA and dB", "gemm", target, arrays, work=3 * 2 * m * n * k)


def elements(name: str, title: str, kind: str, target: float, *shape: int, count: int = 2) -> Case:
    return Case(name, title, kind, target, lambda: [normal(i, *shape) for i in range(count)])


def attention(batch: int, heads: int, time: int, depth: int, target: float) -> Case:
    def arrays() -> list[np.ndarray]:
        return [normal(i, batch, heads, time, depth) for i in range(4)]

    title = f"attention B{batch} h{heads} T{time} D{depth}"
    return Case("attention", title, "attention", target, arrays, work=3 * 2 * 2 * batch * heads * time**2 * depth)


def norm(kind: str, target: float, *shape: int) -> Case:
    def arrays() -> list[np.ndarray]:
        return [normal(0, *shape), 1 + normal(1, shape[-1]) / 10, normal(2, shape[-1]), normal(3, *shape)]

    title = f"{kind.replace('_', '-')} {'x'.join(map(str, shape))}"
    return Case(kind, title, kind, target, arrays)


def cross_entropy(rows: int, classes: int, target: float) -> Case:
    def arrays() -> list[np.ndarray]:
        return [normal(0, rows, classes), np.random.default_rng(1).integers(0, classes, rows)]

    return Case("softmax_xent", f"softmax cross-entropy {rows}x{classes}", "softmax_xent", target, arrays)


def max_pool(*images: int, target: float) -> Case:
    batch, height, width, channels = images

    def arrays() -> list[np.ndarray]:
        return [normal(0, *images), normal(1, batch, height // 2, width // 2, channels)]

    return Case("max_pool", f"max-pool 2x2 {'x'.join(map(str, images))}", "max_pool", target, arrays)


WINOGRAD = {
    "conv3x3_56": ((8, 56, 56, 64), 64),
    "conv3x3_28": ((8, 28, 28, 128), 128),
    "conv3x3_14": ((8, 14, 14, 256), 256),
    "conv3x3_52": ((1, 52, 52, 128), 256),
}
CASES = [
    *(convolution(name, images, filters, 3, 0.62) for name, (images, filters) in WINOGRAD.items()),
    *(convolution(f"{name}_fast", images, n, 3, 0.42, fast=True) for name, (images, n) in WINOGRAD.items()),
    convolution("conv1x1", (8, 56, 56, 64), 256, 1, 1.0),
    convolution("depthwise", (8, 56, 56, 64), 64, 3, 0.80, groups=64),
    convolution("stride2", (8, 56, 56, 64), 128, 3, 1.0, stride=2),
    convolution("conv5x5", (8, 28, 28, 64), 64, 5, 1.0),
    convolution("first_layer", (1, 416, 416, 3), 16, 3, 1.0),
    gemm("gemm_512", 1024, 512, 512, 0.55),
    gemm("gemm_2048", 2048, 2048, 2048, 0.55),
    attention(8, 8, 128, 32, 0.35),
    norm("batch_norm", 0.50, 8, 56, 56, 64),
    norm("layer_norm", 0.45, 1024, 256),
    cross_entropy(4096, 1000, 0.65),
    elements("gelu_small", "erf-GELU of 262,144", "gelu", 0.80, 1024, 256),
    elements("gelu_large", "erf-GELU of 4.2 M", "gelu", 0.80, 4096, 1024),
    max_pool(8, 56, 56, 64, target=0.35),
    elements("chain", "x sigmoid(x) + tanh(y) z of 10 M, step down its gradient", "chain", 0.08, 10_000_000, count=3),
    elements("strided", "x[::5] of 4 M, forward", "strided", 1.0, 4_000_000, count=1),
]
