"""Convolution and its two gradients: three linear ops, closed under differentiation, in one to three dimensions.

    y = C(x, w)         dx = X(w, g)        dw = F(x, g)

Each one's gradients are the other two: of X they are F(x', g) and C(x', w), of F they are X(w', g) and C(x, w').
Convolution here is cross-correlation, unless `flip` turns the filters round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..graph import Apply, Constant, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import add, multiply
from .dtypes import WEAK, as_tensor, float_dtype, result_dtype
from .elementwise import cast, strong_mul
from .geometry import SPATIAL, Lengths, Pairs, Windows, axes_of, parse_layout, parse_padding, per_axis
from .shape import broadcast_to
from .softmax import widened

__all__ = [
    "conv1d", "conv1d_grad_wrt_inputs", "conv1d_grad_wrt_weights", "conv2d", "conv2d_grad_wrt_inputs",
    "conv2d_grad_wrt_weights", "conv3d", "conv3d_grad_wrt_inputs", "conv3d_grad_wrt_weights", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip

BLOCK_BYTES = 1 << 23  # of unrolled windows held at a time


@dataclass(frozen=True)
class Filtering:
    """How filters meet images: all that the three ops share.

    Attributes:
        stride, dilation: one entry per spatial axis.
        padding: (before, after) per spatial axis, or "same", "half", "full".
        groups: input and output channels are cut into so many parts that don't mix.
        layout: of images and outputs, e.g. "NCHW".
        filter_layout: e.g. "OIHW", where I counts the input channels of one group.
        flip: turn the filters round in space (convolution proper).
    """

    stride: tuple[int, ...]
    padding: str | Pairs
    dilation: tuple[int, ...]
    groups: int
    layout: str
    filter_layout: str
    flip: bool = False

    @property
    def spatial(self) -> str:
        return SPATIAL[len(self.stride)]

    @property
    def name(self) -> str:
        return f"conv{len(self.stride)}d"

    def windows(self, sizes: Sequence[int]) -> Windows:
        return Windows(tuple(sizes), self.stride, self.padding, self.dilation)

    # shapes: None marks an unknown length

    def image_shape(self, shape: Sequence) -> tuple[Any, Any, Lengths]:
        """(batch, channels, lengths) of an image's shape."""
        batch, channels, *lengths = (shape[a] for a in axes_of(self.layout, "NC" + self.spatial))
        return batch, channels, lengths

    def filter_shape(self, shape: Sequence) -> tuple[Any, Any, Lengths]:
        """(output channels, input channels of a group, sizes) of the filters' shape."""
        out, into, *sizes = (shape[a] for a in axes_of(self.filter_layout, "OI" + self.spatial))
        return out, into, sizes

    def laid_out(self, batch: Any, channels: Any, lengths: Lengths) -> tuple:
        named = dict(zip("NC" + self.spatial, (batch, channels, *lengths)))
        return tuple(named[letter] for letter in self.layout)

    def output_shape(self, x: Sequence, w: Sequence) -> tuple:
        """The shape of the convolution of images of shape `x` with filters of shape `w`; refuses what doesn't fit."""
        batch, channels, lengths = self.image_shape(x)
        out, into, sizes = self.filter_shape(w)
        if None not in (channels, into) and channels != into * self.groups:
            raise ShapeError(
                f"{self.name}: images {shown(x)} ({self.layout}) have {channels} channels, but filters {shown(w)} "
                f"({self.filter_layout}) with groups={self.groups} read {into * self.groups}"
            )
        if out is not None and out % self.groups:
            raise ShapeError(f"{self.name}: {out} output channels can't be cut into groups={self.groups} equal parts")
        return self.laid_out(batch, out, self._counts(lengths, sizes))

    def _counts(self, lengths: Lengths, sizes: Lengths) -> tuple:
        if None in sizes:
            return (None,) * len(sizes)
        return self.windows(sizes).counts(lengths, self.name)

    def input_shape(self, g: Sequence, w: Sequence, extra: Sequence[int]) -> tuple:
        """The shape of images from which outputs of shape `g` come, `extra` entries longer than the smallest."""
        batch, channels, counts = self.image_shape(g)
        out, into, sizes = self.filter_shape(w)
        what = self.name.replace("conv", "conv_transpose")
        if None not in (channels, out) and channels != out:
            raise ShapeError(
                f"{what}: images {shown(g)} ({self.layout}) have {channels} channels, but filters {shown(w)} read {out}"
            )
        if out is not None and out % self.groups:
            raise ShapeError(f"{what}: {out} input channels can't be cut into groups={self.groups} equal parts")
        lengths = (None,) * len(sizes) if None in sizes else self.windows(sizes).lengths(counts, extra, what)
        return self.laid_out(batch, None if into is None else into * self.groups, lengths)

    def check_output(self, x: Sequence, w: Sequence, g: Sequence) -> None:
        """Refuse an output gradient whose shape isn't the convolution's."""
        expected = self.output_shape(x, w)
        if tuple(g) != expected:
            raise ShapeError(f"{self.name}: the output's gradient has shape {tuple(g)}, the output {expected}")

    # arrays, with groups in front: images (G, N, lengths.., C/G), filters (G, sizes.., I, O/G)

    def split_images(self, x: np.ndarray) -> np.ndarray:
        x = x.transpose(axes_of(self.layout, "N" + self.spatial + "C"))
        return np.moveaxis(x.reshape(*x.shape[:-1], self.groups, x.shape[-1] // self.groups), -2, 0)

    def join_images(self, x: np.ndarray) -> np.ndarray:
        x = np.moveaxis(x, 0, -2)
        x = x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])
        return x.transpose(axes_of("N" + self.spatial + "C", self.layout))

    def split_filters(self, w: np.ndarray) -> np.ndarray:
        w = self._turned(w.transpose(axes_of(self.filter_layout, self.spatial + "IO")))
        return np.moveaxis(w.reshape(*w.shape[:-1], self.groups, w.shape[-1] // self.groups), -2, 0)

    def join_filters(self, w: np.ndarray) -> np.ndarray:
        w = np.moveaxis(w, 0, -2)
        w = self._turned(w.reshape(*w.shape[:-2], w.shape[-2] * w.shape[-1]))
        return w.transpose(axes_of(self.spatial + "IO", self.filter_layout))

    def _turned(self, w: np.ndarray) -> np.ndarray:
        return np.flip(w, tuple(range(len(self.stride)))) if self.flip else w


def shown(shape: Sequence) -> str:
    return "(" + ", ".join("?" if n is None else str(n) for n in shape) + ")"


# --- on arrays with groups in front -----------------------------------------------------------------------------------


def blocks(batch: int, bytes_per_image: int) -> Iterator[slice]:
    """The batch in parts whose unrolled windows stay small."""
    step = max(1, BLOCK_BYTES // max(1, bytes_per_image))
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch))


class Unrolled:
    """Windows of images laid out as rows of a matrix (im2col), and the adjoint of that (col2im)."""

    def __init__(self, filtering: Filtering, lengths: Sequence[int], sizes: Sequence[int]) -> None:
        windows = filtering.windows(sizes)
        self.counts = windows.counts(lengths, filtering.name)
        self.taps = list(windows.taps(lengths, filtering.name))
        self.sizes = tuple(sizes)

    def bytes_per_image(self, x: np.ndarray) -> int:
        return x.shape[0] * prod(self.counts) * prod(self.sizes) * x.shape[-1] * x.itemsize

    def unroll(self, x: np.ndarray) -> np.ndarray:
        """(G, N, lengths.., C) -> (G, N counts.., sizes.. C)"""
        groups, batch, channels = x.shape[0], x.shape[1], x.shape[-1]
        rows = np.zeros((groups, batch, *self.counts, *self.sizes, channels), x.dtype)
        for tap, outputs, inputs in self.taps:
            rows[(slice(None), slice(None), *outputs, *tap)] = x[(slice(None), slice(None), *inputs)]
        return rows.reshape(groups, batch * prod(self.counts), prod(self.sizes) * channels)

    def roll_onto(self, x: np.ndarray, rows: np.ndarray) -> None:
        """Add what each window holds to where it was read."""
        rows = rows.reshape(*x.shape[:2], *self.counts, *self.sizes, x.shape[-1])
        for tap, outputs, inputs in self.taps:
            x[(slice(None), slice(None), *inputs)] += rows[(slice(None), slice(None), *outputs, *tap)]


def as_matrix(w: np.ndarray) -> np.ndarray:
    """(G, .., O) -> (G, rest, O)"""
    return w.reshape(w.shape[0], prod(w.shape[1:-1]), w.shape[-1])


# --- the three ops ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Convolution(Op):
    """y = C(x, w)."""

    filtering: Filtering

    formula = "(transposed convolution of g with w, correlation of x with g)"

    def make_node(self, x: Any, w: Any) -> Apply:
        x, w = as_variable(x), as_variable(w)
        return Apply(self, [x, w], [TensorType(x.dtype, self.filtering.output_shape(x.type.shape, w.type.shape))])

    def perform(self, x, w):
        f = self.filtering
        f.output_shape(x.shape, w.shape)
        images, filters = f.split_images(widened(x)), f.split_filters(widened(w))
        unrolled = Unrolled(f, images.shape[2:-1], filters.shape[1:-2])
        matrix = as_matrix(filters)
        y = np.empty((*images.shape[:2], *unrolled.counts, filters.shape[-1]), images.dtype)
        for part in blocks(images.shape[1], unrolled.bytes_per_image(images)):
            product = unrolled.unroll(images[:, part]) @ matrix
            y[:, part] = product.reshape(y[:, part].shape)
        return f.join_images(y).astype(x.dtype, copy=False)

    def grad(self, inputs, output_grads):
        (x, w), g = inputs, output_grads[0]
        return [ConvolutionGradInputs(self.filtering)(w, g, x), ConvolutionGradFilters(self.filtering)(x, g, w)]

    def infer_shape(self, node, shapes, values):
        return [self.filtering.output_shape(*shapes)]


@dataclass(frozen=True)
class ConvolutionGradInputs(Op):
    """dx = X(w, g): the output's gradient g pulled back to the images; transposed convolution.

    Inputs: filters, g, and an array of the images' shape. With `extra` there is no third input, and the images are the
    smallest that give outputs of the shape of g, longer by `extra` on each spatial axis.
    """

    filtering: Filtering
    extra: tuple[int, ...] | None = None

    formula = "to the filters: correlation of g with y; to y: convolution of g with the filters"

    @property
    def shape_only_inputs(self) -> tuple[int, ...]:  # type: ignore[override]
        return (2,) if self.extra is None else ()

    def make_node(self, w: Any, g: Any, *like: Any) -> Apply:
        inputs = [as_variable(v) for v in (w, g, *like)]
        return Apply(self, inputs, [TensorType(inputs[1].dtype, self._shape([v.type.shape for v in inputs]))])

    def _shape(self, shapes: Sequence[Sequence]) -> tuple:
        if self.extra is None:
            return tuple(shapes[2])
        return self.filtering.input_shape(shapes[1], shapes[0], self.extra)

    def perform(self, w, g, *like):
        f = self.filtering
        shape = self._shape([v.shape for v in (w, g, *like)])
        f.check_output(shape, w.shape, g.shape)
        filters, grads = f.split_filters(widened(w)), f.split_images(widened(g))
        batch, channels, lengths = f.image_shape(shape)
        x = np.zeros((f.groups, batch, *lengths, channels // f.groups), grads.dtype)
        unrolled = Unrolled(f, lengths, filters.shape[1:-2])
        matrix = as_matrix(filters).swapaxes(1, 2)
        for part in blocks(batch, unrolled.bytes_per_image(x)):
            unrolled.roll_onto(x[:, part], as_matrix(grads[:, part]) @ matrix)
        return f.join_images(x).astype(g.dtype, copy=False)

    def grad(self, inputs, output_grads):
        (w, g, *like), x = inputs, output_grads[0]
        return [
            ConvolutionGradFilters(self.filtering)(x, g, w),
            Convolution(self.filtering)(x, w),
            *(DisconnectedType()() for _ in like),
        ]

    def connection_pattern(self, node):
        return [[True], [True], [False]][: len(node.inputs)]

    def infer_shape(self, node, shapes, values):
        return [self._shape(shapes)]


@dataclass(frozen=True)
class ConvolutionGradFilters(Op):
    """dw = F(x, g): the output's gradient g pulled back to the filters. Inputs: images, g, an array of their shape."""

    filtering: Filtering
    formula = "to the images: transposed convolution of y with g; to y: convolution of the images with g"
    shape_only_inputs = (2,)

    def make_node(self, x: Any, g: Any, like: Any) -> Apply:
        x, g, like = as_variable(x), as_variable(g), as_variable(like)
        return Apply(self, [x, g, like], [TensorType(x.dtype, like.type.shape)])

    def perform(self, x, g, like):
        f = self.filtering
        f.check_output(x.shape, like.shape, g.shape)
        images, grads = f.split_images(widened(x)), f.split_images(widened(g))
        out, into, sizes = f.filter_shape(like.shape)
        unrolled = Unrolled(f, images.shape[2:-1], sizes)
        w = np.zeros((f.groups, prod(sizes) * into, out // f.groups), images.dtype)
        for part in blocks(images.shape[1], unrolled.bytes_per_image(images)):
            w += unrolled.unroll(images[:, part]).swapaxes(1, 2) @ as_matrix(grads[:, part])
        w = w.reshape(f.groups, *sizes, into, out // f.groups)
        return f.join_filters(w).astype(x.dtype, copy=False)

    def grad(self, inputs, output_grads):
        (x, g, _), w = inputs, output_grads[0]
        return [
            ConvolutionGradInputs(self.filtering)(w, g, x),
            Convolution(self.filtering)(x, w),
            DisconnectedType()(),
        ]

    def connection_pattern(self, node):
        return [[True], [True], [False]]

    def infer_shape(self, node, shapes, values):
        return [shapes[2]]


# --- for users --------------------------------------------------------------------------------------------------------


def _filtering(
    ndim: int, stride: Any, padding: Any, dilation: Any, groups: int, layout: Any, filter_layout: Any, flip: bool
) -> Filtering:
    what, spatial = f"conv{ndim}d", SPATIAL[ndim]
    return Filtering(
        per_axis(stride, ndim, "stride", what),
        parse_padding(padding, ndim, what),
        per_axis(dilation, ndim, "dilation", what),
        *per_axis(groups, 1, "groups", what),
        parse_layout(layout or "NC" + spatial, "NC" + spatial, "layout", what),
        parse_layout(filter_layout or "OI" + spatial, "OI" + spatial, "filter_layout", what),
        bool(flip),
    )


def _operands(ndim: int, *given: Any) -> list[Variable]:
    """Images and filters as float tensors of one dtype and the right rank."""
    variables = [as_tensor(v) for v in given]
    for v in variables:
        if v.ndim != ndim + 2:
            raise ShapeError(f"conv{ndim}d takes {ndim + 2}-d images and filters, got {v.type}")
    dtype = float_dtype(result_dtype(variables))
    return [cast(v, dtype) for v in variables]


def _convolve(ndim: int, x: Any, w: Any, *settings: Any) -> Variable:
    return Convolution(_filtering(ndim, *settings))(*_operands(ndim, x, w))


def conv1d(
    x: Any, w: Any, stride: int | Sequence[int] = 1, padding: Any = 0, dilation: int | Sequence[int] = 1,
    groups: int = 1, layout: str = "NCW", filter_layout: str = "OIW", flip: bool = False,
) -> Variable:  # fmt: skip
    """Cross-correlation along one axis; see `conv2d`."""
    return _convolve(1, x, w, stride, padding, dilation, groups, layout, filter_layout, flip)


def conv2d(
    x: Any, w: Any, stride: int | Sequence[int] = 1, padding: Any = 0, dilation: int | Sequence[int] = 1,
    groups: int = 1, layout: str = "NCHW", filter_layout: str = "OIHW", flip: bool = False,
) -> Variable:  # fmt: skip
    """Cross-correlation of images with filters.

    y[n, o, i, j] = sum over c, a, b of w[o, c, a, b] x[n, c, i s + a d - p, j s + b d - p]

    Args:
        x: images, laid out as `layout` says (N batch, C channels, H height, W width).
        w: filters, laid out as `filter_layout` says (O output channels, I input channels of one group).
        stride, dilation: an integer, or one for each spatial axis.
        padding: zeros round the image: a number, one for each spatial axis, a pair (before, after) for each, or
            "valid" (none), "same" (the output has ceil(length / stride) entries), "half", "full".
        groups: channels are cut into so many parts that don't mix; as many as there are channels is depthwise.
        flip: turn the filters round first (convolution as mathematicians and Theano define it).

    The gradients to images and filters are `conv2d_grad_wrt_inputs` and `conv2d_grad_wrt_weights`; those two and this
    are each other's gradients, to any order.

    Raises:
        ShapeError: where ranks or channels don't fit or a filter is larger than the padded image.
    """
    return _convolve(2, x, w, stride, padding, dilation, groups, layout, filter_layout, flip)


def conv3d(
    x: Any, w: Any, stride: int | Sequence[int] = 1, padding: Any = 0, dilation: int | Sequence[int] = 1,
    groups: int = 1, layout: str = "NCDHW", filter_layout: str = "OIDHW", flip: bool = False,
) -> Variable:  # fmt: skip
    """Cross-correlation along three axes; see `conv2d`."""
    return _convolve(3, x, w, stride, padding, dilation, groups, layout, filter_layout, flip)


def _transpose(
    ndim: int, x: Any, w: Any, stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int,
    layout: Any, filter_layout: str, flip: bool,
) -> Variable:  # fmt: skip
    forward = filter_layout.translate(str.maketrans("IO", "OI"))  # its input channels are the forward op's outputs
    filtering = _filtering(ndim, stride, padding, dilation, groups, layout, forward, flip)
    extra = per_axis(output_padding, ndim, "output_padding", f"conv_transpose{ndim}d", least=0)
    x, w = _operands(ndim, x, w)
    return ConvolutionGradInputs(filtering, extra)(w, x)


def conv_transpose1d(
    x: Any, w: Any, stride: int | Sequence[int] = 1, padding: Any = 0, output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1, layout: str = "NCW", filter_layout: str = "IOW",
    flip: bool = False,
) -> Variable:  # fmt: skip
    """The adjoint of `conv1d`; see `conv_transpose2d`."""
    return _transpose(1, x, w, stride, padding, output_padding, dilation, groups, layout, filter_layout, flip)


def conv_transpose2d(
    x: Any, w: Any, stride: int | Sequence[int] = 1, padding: Any = 0, output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1, layout: str = "NCHW", filter_layout: str = "IOHW",
    flip: bool = False,
) -> Variable:  # fmt: skip
    """The adjoint of `conv2d` (transposed convolution): each input spreads a filter over the output.

    Output length: (n - 1) stride - padding before and after + dilation (size - 1) + 1 + output_padding; with
    padding="same" it is n stride.

    Args:
        x: images, laid out as `layout` says.
        w: filters; in `filter_layout`, I is the number of channels of x and O the output channels of one group.
        output_padding: entries added at the end, fewer than the stride: which of the lengths that `conv2d` shortens
            to n is meant.
    """
    return _transpose(2, x, w, stride, padding, output_padding, dilation, groups, layout, filter_layout, flip)


def conv_transpose3d(
    x: Any, w: Any, stride: int | Sequence[int] = 1, padding: Any = 0, output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1, layout: str = "NCDHW", filter_layout: str = "IODHW",
    flip: bool = False,
) -> Variable:  # fmt: skip
    """The adjoint of `conv3d`; see `conv_transpose2d`."""
    return _transpose(3, x, w, stride, padding, output_padding, dilation, groups, layout, filter_layout, flip)


def _accumulate(result: Variable, output: Any, alpha: Any, beta: Any) -> Variable:
    """alpha result + beta output; beta = 0 leaves `output` unread, whatever it holds."""
    if not (type(alpha) in WEAK and alpha == 1):
        result = multiply(cast(as_tensor(alpha), result.dtype), result)
    if output is None or (type(beta) in WEAK and beta == 0):
        return result
    beta, output = (cast(as_tensor(v), result.dtype) for v in (beta, output))
    return add(result, strong_mul(beta, output))


def _like(output: Any, shape: Any, dtype: str, name: str, what: str) -> Variable:
    """Something of the shape that the result is to have."""
    if (output is None) == (shape is None):
        raise ArgumentError(f"{what}: give either {name} or output, which says how large the result is")
    return broadcast_to(Constant(np.zeros((), dtype)), shape) if output is None else as_tensor(output)


def _grad_wrt_inputs(
    ndim: int, output_grad: Any, filters: Any, input_shape: Any, output: Any, alpha: Any, beta: Any, *settings: Any
) -> Variable:
    w, g = _operands(ndim, filters, output_grad)
    like = _like(output, input_shape, g.dtype, "input_shape", f"conv{ndim}d_grad_wrt_inputs")
    return _accumulate(ConvolutionGradInputs(_filtering(ndim, *settings))(w, g, like), output, alpha, beta)


def _grad_wrt_weights(
    ndim: int, input: Any, output_grad: Any, filter_shape: Any, output: Any, alpha: Any, beta: Any, *settings: Any
) -> Variable:
    x, g = _operands(ndim, input, output_grad)
    like = _like(output, filter_shape, x.dtype, "filter_shape", f"conv{ndim}d_grad_wrt_weights")
    return _accumulate(ConvolutionGradFilters(_filtering(ndim, *settings))(x, g, like), output, alpha, beta)


WRT_INPUTS = """alpha X + beta output, where X is `output_grad` pulled back through `conv{n}d` to the images.

    Args:
        output_grad: the gradient of the output of `conv{n}d`.
        filters: the filters.
        input_shape: the shape of the images (which stride makes ambiguous), unless `output` says it.
        output: what the result is accumulated onto; not read if beta is 0.
        alpha, beta: numbers or scalar variables, differentiable: d alpha = sum(g X), d beta = sum(g output).
        stride, padding, dilation, groups, layout, filter_layout, flip: as in `conv{n}d`.
    """
WRT_WEIGHTS = """alpha F + beta output, where F is `output_grad` pulled back through `conv{n}d` to the filters.

    Args:
        input: the images.
        output_grad: the gradient of the output of `conv{n}d`.
        filter_shape: the shape of the filters, unless `output` says it.
        output: what the result is accumulated onto; not read if beta is 0.
        alpha, beta: numbers or scalar variables, differentiable: d alpha = sum(g F), d beta = sum(g output).
        stride, padding, dilation, groups, layout, filter_layout, flip: as in `conv{n}d`.
    """


def _gradients_for(ndim: int) -> tuple:
    spatial = SPATIAL[ndim]

    def wrt_inputs(
        output_grad: Any, filters: Any, input_shape: Any = None, *, output: Any = None, alpha: Any = 1.0,
        beta: Any = 0.0, stride: int | Sequence[int] = 1, padding: Any = 0, dilation: int | Sequence[int] = 1,
        groups: int = 1, layout: str = "NC" + spatial, filter_layout: str = "OI" + spatial, flip: bool = False,
    ) -> Variable:  # fmt: skip
        settings = stride, padding, dilation, groups, layout, filter_layout, flip
        return _grad_wrt_inputs(ndim, output_grad, filters, input_shape, output, alpha, beta, *settings)

    def wrt_weights(
        input: Any, output_grad: Any, filter_shape: Any = None, *, output: Any = None, alpha: Any = 1.0,
        beta: Any = 0.0, stride: int | Sequence[int] = 1, padding: Any = 0, dilation: int | Sequence[int] = 1,
        groups: int = 1, layout: str = "NC" + spatial, filter_layout: str = "OI" + spatial, flip: bool = False,
    ) -> Variable:  # fmt: skip
        settings = stride, padding, dilation, groups, layout, filter_layout, flip
        return _grad_wrt_weights(ndim, input, output_grad, filter_shape, output, alpha, beta, *settings)

    for function, kind, doc in ((wrt_inputs, "inputs", WRT_INPUTS), (wrt_weights, "weights", WRT_WEIGHTS)):
        function.__name__ = function.__qualname__ = f"conv{ndim}d_grad_wrt_{kind}"
        function.__doc__ = doc.format(n=ndim)
    return wrt_inputs, wrt_weights


conv1d_grad_wrt_inputs, conv1d_grad_wrt_weights = _gradients_for(1)
conv2d_grad_wrt_inputs, conv2d_grad_wrt_weights = _gradients_for(2)
conv3d_grad_wrt_inputs, conv3d_grad_wrt_weights = _gradients_for(3)
