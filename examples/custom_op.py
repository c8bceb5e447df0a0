"""An operation of one's own, with its derivative, proved and then used in a layer.

The op is the "squareplus" of Barron (2021): y = (x + sqrt(x^2 + b)) / 2, a smooth relu without exponentials.
"""

from dataclasses import dataclass

import numpy as np

import pullback as pb
from pullback import nn
from pullback.testing import check_op


@dataclass(frozen=True)
class SquarePlus(pb.Op):
    """y = (x + sqrt(x^2 + b)) / 2."""

    b: float = 0.25

    def make_node(self, x):
        x = pb.asarray(x)
        return pb.Apply(self, [x], [x.type])

    def perform(self, x):
        return (x + np.sqrt(x * x + x.dtype.type(self.b))) / 2

    def grad(self, inputs, output_grads):
        (x,), (g,) = inputs, output_grads
        return [g * (1 + x / pb.sqrt(x * x + self.b)) / 2]

    def infer_shape(self, node, shapes, values):
        return shapes


# The proof: against extrapolated differences, to the second order, in both dtypes, on both backends.
print(check_op(SquarePlus(), np.linspace(-3, 3, 12).reshape(3, 4)))


# A layer only describes: what comes out, which parameters it needs, which expression it stands for.
@dataclass(frozen=True)
class SmoothRelu(nn.Layer):
    """SquarePlus times a scale per channel, which is learnt."""

    def describe(self, x):
        return x

    def parameters(self, x):
        return {"scale": nn.Parameter(x.shape[-1:], nn.initializers.Ones())}

    def apply(self, parameters, inputs, context):
        return SquarePlus()(inputs[0]) * parameters["scale"]


net = nn.Network([nn.Input(3), nn.Connected(16), SmoothRelu(), nn.Connected(1)])
net.compile(nn.Adam(1e-2), "mse", ["r2"])
print(net.check_gradients())

X = np.random.default_rng(0).uniform(-1, 1, (2000, 3)).astype("float32")
y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
net.fit(X, y, epochs=40, batch_size=50, verbose=False)
print("explained variance:", round(net.evaluate(X, y)["r2"], 3))
