"""An operation of one's own, with its derivative: proved, proved wrong five times, and then used in a layer.

The op is the "squareplus" of Barron (2021) with a sharpness b per column: y = (x + sqrt(x^2 + b)) / 2, a smooth relu
without exponentials.
"""

from dataclasses import dataclass

import numpy as np

import pullback as pb
from pullback import nn
from pullback.testing import Entry, Point, check_op, examine, positive, real


@dataclass(frozen=True)
class SquarePlus(pb.Op):
    """y = (x + sqrt(x^2 + b)) / 2, with one b per column."""

    formula = "(g (1 + x / r) / 2, g / (4 r) summed over rows), r = sqrt(x^2 + b)"

    def make_node(self, x, b):
        x, b = pb.asarray(x), pb.asarray(b)
        return pb.Apply(self, [x, b], [x.type])

    def perform(self, x, b):
        return (x + np.sqrt(x * x + b)) / 2

    def grad(self, inputs, output_grads):
        (x, b), (g,) = inputs, output_grads
        root = pb.sqrt(x * x + b)
        return [g * (1 + x / root) / 2, pb.sum(g / (4 * root), axis=0)]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


def entry(op):
    """What a test may feed in: x of either sign, b above zero, axes by name; and a point that no draw hits."""
    corner = Point(([[0.0]], [4.0]), ([[0.5]], [0.125]), [[1.0]], why="x = 0")
    return Entry(type(op).__name__, op, (real("rows columns"), positive("columns")), points=(corner,))


# The proof: against extrapolated differences, to the second order, in both dtypes, on both backends.
print(check_op(entry(SquarePlus())))


# What is said if the rule is wrong. Each of these is a mistake that people make.
class Sign(SquarePlus):
    def grad(self, inputs, output_grads):
        dx, db = super().grad(inputs, output_grads)
        return [-dx, db]


class Factor(SquarePlus):
    def grad(self, inputs, output_grads):
        dx, db = super().grad(inputs, output_grads)
        return [dx, 2 * db]


class Broadcast(SquarePlus):
    def grad(self, inputs, output_grads):
        (x, b), (g,) = inputs, output_grads
        return [super().grad(inputs, output_grads)[0], (g / (4 * pb.sqrt(x * x + b)))[0]]


class Upstream(SquarePlus):
    def grad(self, inputs, output_grads):
        x, b = inputs
        return [(1 + x / pb.sqrt(x * x + b)) / 2, super().grad(inputs, output_grads)[1]]


class Constant(SquarePlus):
    def grad(self, inputs, output_grads):
        return [super().grad(inputs, output_grads)[0], pb.DisconnectedType()()]


for wrong in (Sign, Factor, Broadcast, Upstream, Constant):
    print()
    print(examine(entry(wrong())))


# A layer only describes: what comes out, which parameters it needs, which expression it stands for.
@dataclass(frozen=True)
class SmoothRelu(nn.Layer):
    """SquarePlus with a sharpness per channel, which is learnt (as its logarithm, so that it stays above zero)."""

    def describe(self, x):
        return x

    def parameters(self, x):
        return {"log_b": nn.Parameter(x.shape[-1:], nn.initializers.Constant(-1.0))}

    def apply(self, parameters, inputs, context):
        return SquarePlus()(inputs[0], pb.exp(parameters["log_b"]))


net = nn.Network([nn.Input(3), nn.Connected(16), SmoothRelu(), nn.Connected(1)])
net.compile(nn.Adam(1e-2), "mse", ["r2"])
print()
print(net.check_gradients())

X = np.random.default_rng(0).uniform(-1, 1, (2000, 3)).astype("float32")
y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
net.fit(X, y, epochs=40, batch_size=50, verbose=False)
print("explained variance:", round(net.evaluate(X, y)["r2"], 3))
