"""Convolutions in one, two and three dimensions: turned to channels-last at the border, then by the best method."""

from ...ops.conv import Convolution, ConvolutionGradFilters, ConvolutionGradInputs
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from ..elementwise import launch_copy
from . import conv_depthwise, conv_direct, conv_winograd
from .conv_geometry import (
    Geometry,
    channels_last,
    filters_in_own_layout,
    has_channels_last,
    has_plain_filters,
    images_in_own_layout,
    plain_filters,
)
from .linear import TYPES, launch_gemm


@binds(Convolution)
def bind_convolution(node, b: Binding) -> None:
    f, (x, w) = node.op.filtering, float_inputs(b)
    g = Geometry.of(f, x.shape, w.shape)
    y = b.output(0)
    target = y.reshaped(g.output_shape) if has_channels_last(f) else b.scratch(g.output_shape, y.dtype)
    forward(b, g, channels_last(b, f, x), plain_filters(b, f, w), target)
    if target.storage is not y.storage:
        launch_copy(b, images_in_own_layout(f, target, y.shape), y)


@binds(ConvolutionGradInputs)
def bind_grad_inputs(node, b: Binding) -> None:
    f, (w, grad) = node.op.filtering, float_inputs(b)
    g = Geometry.of(f, b.shapes[0], w.shape)
    dx = b.output(0)
    target = dx.reshaped(g.image_shape) if has_channels_last(f) else b.scratch(g.image_shape, dx.dtype)
    backward(b, g, channels_last(b, f, grad), plain_filters(b, f, w), target)
    if target.storage is not dx.storage:
        launch_copy(b, images_in_own_layout(f, target, dx.shape), dx)


@binds(ConvolutionGradFilters)
def bind_grad_filters(node, b: Binding) -> None:
    f, (x, grad) = node.op.filtering, float_inputs(b)
    g = Geometry.of(f, x.shape, b.shapes[0])
    dw = b.output(0)
    target = dw.reshaped(g.filter_shape) if has_plain_filters(f) else b.scratch(g.filter_shape, dw.dtype)
    filter_gradient(b, g, channels_last(b, f, x), channels_last(b, f, grad), target)
    if target.storage is not dw.storage:
        launch_copy(b, filters_in_own_layout(f, target, dw.shape), dw)


def float_inputs(b: Binding) -> list[Buffer]:
    """The two operands; half precision is left to `perform`, which computes in single."""
    operands = b.inputs[:2]
    if any(x.dtype not in TYPES for x in operands):
        raise Declined
    return operands


# --- the three passes, on contiguous buffers of the geometry's shapes -------------------------------------------------


def forward(b: Binding, g: Geometry, x: Buffer, w: Buffer, y: Buffer) -> None:
    """y = the convolution of x with w."""
    if g.is_product:
        launch_gemm(b, x.reshaped((g.pixels, g.into)), w.reshaped((g.into, g.out)), y.reshaped((g.pixels, g.out)))
    elif g.is_depthwise:
        conv_depthwise.forward(b, g, x, w, y)
    elif conv_winograd.fits(g):
        conv_winograd.forward(b, g, x, w, y)
    else:
        conv_direct.forward(b, g, x, w, y)


def backward(b: Binding, g: Geometry, grad: Buffer, w: Buffer, dx: Buffer) -> None:
    """dx = the output's gradient pulled back to the images."""
    if g.is_product:
        turned = w.window((g.out, g.into), (1, g.out), 0)
        launch_gemm(b, grad.reshaped((g.pixels, g.out)), turned, dx.reshaped((g.pixels, g.into)))
    elif g.is_depthwise:
        conv_depthwise.backward(b, g, grad, w, dx)
    elif conv_winograd.fits(g) and conv_winograd.fits(g.adjoint()):
        conv_winograd.backward(b, g, grad, w, dx)
    else:
        conv_direct.backward(b, g, grad, w, dx)


def filter_gradient(b: Binding, g: Geometry, x: Buffer, grad: Buffer, dw: Buffer) -> None:
    """dw = the output's gradient pulled back to the filters."""
    if g.is_product:
        turned = x.window((g.into, g.pixels), (1, g.into), 0)
        launch_gemm(b, turned, grad.reshaped((g.pixels, g.out)), dw.reshaped((g.into, g.out)))
    elif g.is_depthwise:
        conv_depthwise.filter_gradient(b, g, x, grad, dw)
    elif conv_winograd.fits(g):
        conv_winograd.filter_gradient(b, g, x, grad, dw)
    else:
        conv_direct.filter_gradient(b, g, x, grad, dw)
