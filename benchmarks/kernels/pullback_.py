"""The operations in pullback: each function gives what computes output and gradients, as a list of arrays."""

from collections.abc import Callable, Sequence

import numpy as np

import pullback as pb

Run = Callable[[], list[np.ndarray]]


def differentiated(operation: Callable[..., pb.Variable], arrays: Sequence[np.ndarray]) -> Run:
    """The output and the gradients with respect to all arrays but the last, which is the upstream gradient."""
    inputs = [pb.tensor(a.dtype.name, a.shape) for a in arrays]
    *given, upstream = inputs
    y = operation(*given)
    gradients = pb.grad(None, given, known_grads={y: upstream})
    run = pb.function(inputs, [y, *gradients])
    return lambda: run(*arrays)


def convolution(arrays: Sequence[np.ndarray], stride: int, padding: int, groups: int) -> Run:
    layouts = dict(layout="NHWC", filter_layout="HWIO")
    return differentiated(lambda x, w: pb.conv2d(x, w, stride, padding, groups=groups, **layouts), arrays)


def gemm(arrays: Sequence[np.ndarray]) -> Run:
    return differentiated(pb.matmul, arrays)


def attention(arrays: Sequence[np.ndarray]) -> Run:
    return differentiated(pb.scaled_dot_product_attention, arrays)


def batch_norm(arrays: Sequence[np.ndarray]) -> Run:
    return differentiated(lambda x, gamma, beta: pb.batch_norm(x, gamma, beta, training=True, axis=3), arrays)


def layer_norm(arrays: Sequence[np.ndarray]) -> Run:
    return differentiated(pb.layer_norm, arrays)


def softmax_xent(arrays: Sequence[np.ndarray]) -> Run:
    x, y = pb.fmatrix("x"), pb.lvector("y")
    cost = pb.softmax_cross_entropy(x, y).mean()
    run = pb.function([x, y], [cost, pb.grad(cost, x)])
    return lambda: run(*arrays)


def gelu(arrays: Sequence[np.ndarray]) -> Run:
    return differentiated(pb.gelu, arrays)


def max_pool(arrays: Sequence[np.ndarray]) -> Run:
    return differentiated(lambda x: pb.max_pool2d(x, 2, layout="NHWC"), arrays)


def chain(arrays: Sequence[np.ndarray]) -> Run:
    x, y, z = moving = [pb.shared(a) for a in arrays]
    cost = (x * pb.sigmoid(x) + pb.tanh(y) * z).mean()
    run = pb.function([], [cost], updates={v: v - 0.1 * g for v, g in zip(moving, pb.grad(cost, moving))})
    return run


def strided(arrays: Sequence[np.ndarray]) -> Run:
    x = pb.fvector("x")
    run = pb.function([x], [x[::5]])
    return lambda: run(*arrays)
