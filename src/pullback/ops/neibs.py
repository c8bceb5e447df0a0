"""Patches of images as rows of a matrix, and back: images2neibs and its adjoint, in every mode and with any step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..graph import Apply, Constant, DisconnectedType, Op, TensorType, Variable, as_variable
from .dtypes import as_tensor
from .geometry import Tap, Windows, add_at, per_axis
from .shape import broadcast_to
from .softmax import widened

__all__ = ["images2neibs", "neibs2images"]

PADDINGS = {"valid": ((0, 0), (0, 0)), "ignore_borders": ((0, 0), (0, 0)), "half": "half", "full": "full"}
MODES = (*PADDINGS, "wrap_centered")


@dataclass(frozen=True)
class WrappedWindows:
    """Windows of odd size round every stride-th entry, on axes that go on at their other end."""

    size: tuple[int, ...]
    stride: tuple[int, ...]

    def counts(self, lengths: Sequence[int | None], what: str) -> tuple[int | None, ...]:
        for n, k in zip(lengths, self.size):
            if n is not None and n < k:
                raise ShapeError(f"{what}: a patch of {self.size} is larger than the image, {tuple(lengths)}")
        return tuple(None if n is None else -(-n // s) for n, s in zip(lengths, self.stride))

    def taps(self, lengths: Sequence[int], what: str) -> Iterator[Tap]:
        counts = self.counts(lengths, what)
        for tap in product(*map(range, self.size)):
            reads = [
                (np.arange(m) * s + k - size // 2) % n
                for n, m, s, k, size in zip(lengths, counts, self.stride, tap, self.size)
            ]
            yield tap, np.ix_(*map(np.arange, counts)), np.ix_(*reads)


@dataclass(frozen=True)
class Patches:
    """Which patches are cut out: their size, the step between them, and what happens at the borders."""

    size: tuple[int, int]
    step: tuple[int, int]
    mode: str

    @property
    def windows(self) -> Windows | WrappedWindows:
        if self.mode == "wrap_centered":
            return WrappedWindows(self.size, self.step)
        return Windows(self.size, self.step, PADDINGS[self.mode], (1, 1))

    def counts(self, lengths: Sequence[int | None]) -> tuple[int | None, ...]:
        """How many patches lie along height and width; modes that leave no rest refuse one."""
        windows = self.windows
        counts = windows.counts(lengths, "images2neibs")
        if isinstance(windows, Windows) and self.mode != "ignore_borders":
            for n, k, s, pad in zip(lengths, self.size, self.step, windows.pads(lengths)):
                if n is not None and (n + sum(pad) - k) % s:
                    raise ShapeError(
                        f"images2neibs: mode {self.mode!r} needs patches {self.size} with step {self.step} to reach "
                        f"the border of {tuple(lengths)}; use mode='ignore_borders' to leave a rest out"
                    )
        return counts

    def rows(self, shape: Sequence[int | None]) -> tuple[int | None, int]:
        """The shape of the matrix for images of a shape."""
        sizes = (*shape[:2], *self.counts(shape[2:]))
        return None if None in sizes else prod(sizes), prod(self.size)

    def cut(self, images: np.ndarray) -> np.ndarray:
        counts = self.counts(images.shape[2:])
        patches = np.zeros((*images.shape[:2], *counts, *self.size), images.dtype)
        for tap, outputs, inputs in self.windows.taps(images.shape[2:], "images2neibs"):
            patches[(..., *outputs, *tap)] = images[(..., *inputs)]
        return patches.reshape(self.rows(images.shape))

    def paste(self, neibs: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        if neibs.shape != self.rows(shape):
            raise ShapeError(
                f"neibs2images: images {shape} have patches of shape {self.rows(shape)}, got {neibs.shape}"
            )
        patches = neibs.reshape(*shape[:2], *self.counts(shape[2:]), *self.size)
        images = np.zeros(shape, neibs.dtype)
        for tap, outputs, inputs in self.windows.taps(shape[2:], "neibs2images"):
            add_at(images, inputs, patches[(..., *outputs, *tap)])
        return images


@dataclass(frozen=True)
class Images2Neibs(Op):
    """One row per patch, ordered by (image, channel, row, column)."""

    patches: Patches

    formula = "g added where the patches were cut out"

    def make_node(self, images: Any) -> Apply:
        images = as_variable(images)
        return Apply(self, [images], [TensorType(images.dtype, self.patches.rows(images.type.shape))])

    def perform(self, images):
        return self.patches.cut(images)

    def grad(self, inputs, output_grads):
        return [Neibs2Images(self.patches)(output_grads[0], inputs[0])]

    def infer_shape(self, node, shapes, values):
        return [self.patches.rows(shapes[0])]


@dataclass(frozen=True)
class Neibs2Images(Op):
    """Patches added where they were cut out, onto zeros of the shape of `like`: the adjoint of Images2Neibs."""

    patches: Patches
    formula = "(g cut into patches, disconnected)"
    shape_only_inputs = (1,)

    def make_node(self, neibs: Any, like: Any) -> Apply:
        neibs, like = as_variable(neibs), as_variable(like)
        return Apply(self, [neibs, like], [TensorType(neibs.dtype, like.type.shape)])

    def perform(self, neibs, like):
        return self.patches.paste(widened(neibs), like.shape).astype(neibs.dtype, copy=False)

    def grad(self, inputs, output_grads):
        return [Images2Neibs(self.patches)(output_grads[0]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[1]]


def _patches(neib_shape: Any, neib_step: Any, mode: str, what: str) -> Patches:
    if mode not in MODES:
        raise ArgumentError(f"{what}: mode={mode!r}; expected one of {MODES}")
    size = per_axis(neib_shape, 2, "neib_shape", what)
    step = size if neib_step is None else per_axis(neib_step, 2, "neib_step", what)
    if mode == "wrap_centered" and any(k % 2 == 0 for k in size):
        raise ArgumentError(f"{what}: mode 'wrap_centered' needs patches with a centre, of odd size; got {size}")
    return Patches(size, step, mode)


def images2neibs(
    ten4: Any, neib_shape: int | Sequence[int], neib_step: int | Sequence[int] | None = None, mode: str = "valid"
) -> Variable:
    """Patches of images as rows of a matrix.

    Args:
        ten4: images, (batch, channels, height, width).
        neib_shape: the patches' height and width.
        neib_step: from one patch to the next, down and across; as large as the patch by default.
        mode: "valid" (patches must reach the border exactly), "ignore_borders" (a rest is left out), "half" (zeros
            round the image, half a patch wide), "full" (zeros, a patch less one wide), or "wrap_centered" (patches of
            odd size round every step-th pixel; the image goes on at its other side).

    Returns:
        (number of patches, height * width of a patch), ordered by image, channel, row and column, in the dtype of
        the images. The gradient adds each patch's where it was cut out, in every mode and with any step.
    """
    images = as_tensor(ten4)
    if images.ndim != 4:
        raise ShapeError(f"images2neibs takes images (batch, channels, height, width), got {images.type}")
    return Images2Neibs(_patches(neib_shape, neib_step, mode, "images2neibs"))(images)


def neibs2images(
    neibs: Any, neib_shape: int | Sequence[int], original_shape: Any, neib_step: int | Sequence[int] | None = None,
    mode: str = "valid",
) -> Variable:  # fmt: skip
    """Images from their patches: each patch is put where `images2neibs` cut it out, and overlaps are added.

    Without overlap that is the inverse (pixels that are in no patch are 0). It is the adjoint of `images2neibs`, and
    `images2neibs` is its gradient.

    Args:
        neibs: a matrix with one row per patch.
        original_shape: (batch, channels, height, width), integers or integer variables.
        neib_shape, neib_step, mode: as they were for `images2neibs`.
    """
    neibs = as_tensor(neibs)
    if neibs.ndim != 2:
        raise ShapeError(f"neibs2images takes a matrix with one row per patch, got {neibs.type}")
    like = broadcast_to(Constant(np.zeros((), neibs.dtype)), original_shape)
    if like.ndim != 4:
        raise ShapeError(
            f"neibs2images: original_shape must be (batch, channels, height, width), got {like.ndim} numbers"
        )
    return Neibs2Images(_patches(neib_shape, neib_step, mode, "neibs2images"))(neibs, like)
