"""Layers that normalise without parameters, and small ones: l1norm, l2norm, normalization (LRN), implicit, cost."""

from dataclasses import dataclass
from numbers import Integral

from ... import ops
from ...errors import ArgumentError, ShapeError
from ..initializers import Initializer, Normal
from .base import Layer, Parameter, Spec, positive


def _axes(layer: "L1Norm | L2Norm") -> tuple[int, ...]:
    axis = layer.axis
    return (axis,) if isinstance(axis, Integral) else tuple(axis)


@dataclass(frozen=True)
class L1Norm(Layer):
    """x / sum |x| along `axis`: one or several axes of a sample, the last (channels) by default. Zeros stay zeros."""

    axis: int | tuple[int, ...] = -1

    def describe(self, x):
        _check_axes(self, x)
        return x

    def apply(self, parameters, inputs, context):
        return ops.l1_normalize(inputs[0], axis=_with_batch(self, inputs[0].ndim))


@dataclass(frozen=True)
class L2Norm(Layer):
    """x / sqrt(sum x^2) along `axis`, as in `L1Norm`."""

    axis: int | tuple[int, ...] = -1

    def describe(self, x):
        _check_axes(self, x)
        return x

    def apply(self, parameters, inputs, context):
        return ops.l2_normalize(inputs[0], axis=_with_batch(self, inputs[0].ndim))


def _check_axes(layer: L1Norm | L2Norm, x: Spec) -> None:
    n = len(x.shape)
    if any(not -n <= a < n for a in _axes(layer)):
        raise ShapeError(f"axis={layer.axis} is outside of {x}")


def _with_batch(layer: L1Norm | L2Norm, ndim: int) -> tuple[int, ...]:
    """The axes of a sample counted with the batch axis in front."""
    return tuple(a if a < 0 else a + 1 for a in _axes(layer))


@dataclass(frozen=True)
class Normalization(Layer):
    """Local response normalisation over neighbouring channels: x / (kappa + alpha sum of x^2)^beta (Krizhevsky et al.
    2012). The window of channel c is c - (size - 1) // 2 to c + size // 2, as far as there are channels.

    alpha isn't divided by the size (Darknet; PyTorch's LocalResponseNorm divides).
    """

    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    kappa: float = 1.0

    def __post_init__(self) -> None:
        positive(self, size=self.size)

    def describe(self, x):
        if not x.shape or x.shape[-1] is None:
            raise ShapeError(f"needs to know the number of channels, got {x}")
        return x

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        before, after = (self.size - 1) // 2, self.size // 2
        channels = x.type.shape[-1]
        squares = ops.pad(ops.square(x), ((0, 0),) * (x.ndim - 1) + ((before, after),))
        total = sum(squares[..., i : i + channels] for i in range(self.size))
        return x * ops.power(self.kappa + self.alpha * total, -self.beta)


@dataclass(frozen=True)
class Implicit(Layer):
    """Numbers that are learnt and depend on no input (Wang et al. 2021): (atoms, 1, filters), parameter `weight`.

    What comes in says how many samples there are, and no more.
    """

    filters: int = 128
    atoms: int = 1
    initial: Initializer = Normal(0.2)

    def __post_init__(self) -> None:
        positive(self, filters=self.filters, atoms=self.atoms)

    def describe(self, x):
        return Spec((self.atoms, 1, self.filters), x.dtype)

    def parameters(self, x):
        return {"weight": Parameter((self.atoms, 1, self.filters), self.initial, decays=True)}

    def apply(self, parameters, inputs, context):
        weight = parameters["weight"]
        return ops.broadcast_to(weight, (ops.length(inputs[0], 0), *weight.type.shape))


@dataclass(frozen=True)
class Empty(Layer):
    """What comes in, as it is."""

    def describe(self, x):
        return x

    def apply(self, parameters, inputs, context):
        return inputs[0]


@dataclass(frozen=True)
class DropBlock(Layer):
    """In training, square blocks of cells are set to 0 and the others scaled so that the mean stays; nothing happens at
    predict (Ghiasi et al. 2018, algorithm 1).

    Args:
        probability: the share of cells that fall away.
        size: of the blocks, in cells.
    """

    probability: float = 0.1
    size: int = 7

    def __post_init__(self) -> None:
        positive(self, size=self.size)
        if not 0 <= self.probability < 1:
            raise ArgumentError(f"DropBlock: probability={self.probability}; expected at least 0 and less than 1")

    def describe(self, x):
        if len(x.shape) != 3 or None in x.shape:
            raise ShapeError(f"needs images of known size, got {x}")
        return x

    def apply(self, parameters, inputs, context):
        x = inputs[0]
        height, width, _ = x.type.shape[1:]
        size = min(self.size, height, width)
        if not context.training or self.probability == 0:
            return x
        room = (height - size + 1) * (width - size + 1)
        rate = min(1.0, self.probability * height * width / (size * size * room))
        shape = (ops.length(x, 0), height - size + 1, width - size + 1, ops.length(x, 3))
        centres = ops.cast(context.random.bernoulli(rate, size=shape), x.dtype)
        around = ops.pad(centres, ((0, 0), (size - 1, size - 1), (size - 1, size - 1), (0, 0)))
        kept = 1.0 - ops.max_pool2d(around, size, 1, layout="NHWC")
        share = ops.maximum(ops.mean(kept), 1e-3)
        return x * kept / share
