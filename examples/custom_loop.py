"""A training loop of one's own: a cost, its gradient, the updates of an optimizer, and one compiled step.

Two moons in the plane are told apart by a network written out as expressions, with no layer and no `fit`.
"""

import numpy as np

import pullback as pb
from pullback import data, nn

rng = np.random.default_rng(0)


def moons(count):
    """Two half circles, one inside the other's arms."""
    label = rng.integers(0, 2, count)
    angle = rng.uniform(0, np.pi, count)
    side = np.where(label, -1, 1)
    points = np.stack([side * np.cos(angle) + label, side * np.sin(angle) + 0.5 * label], axis=1)
    return (points + rng.normal(0, 0.15, points.shape)).astype("float32"), label


def weights(inputs, outputs):
    """A matrix of He's first weights, and a vector of zeros."""
    first = rng.normal(0, np.sqrt(2 / inputs), (inputs, outputs)).astype("float32")
    return pb.shared(first, name="W"), pb.shared(np.zeros(outputs, "float32"), name="b")


(W1, b1), (W2, b2) = weights(2, 16), weights(16, 2)
parameters = [W1, b1, W2, b2]

x, label = pb.matrix("x"), pb.lvector("label")
scores = pb.tanh(x @ W1 + b1) @ W2 + b2
cost = pb.cross_entropy(scores, label) + 1e-4 * (pb.square(W1).sum() + pb.square(W2).sum())
gradients = pb.grad(cost, parameters)

optimizer = nn.Adam(nn.schedules.Cosine(0.03, total=600))
step = pb.function([x, label], cost, updates=optimizer.updates(gradients, parameters))
predict = pb.function([x], pb.argmax(scores, axis=1))

X, y = moons(1000)
batches = data.Batches(X, y, batch_size=50)
for epoch in range(30):
    costs = [float(step(*batch)) for batch in batches]
    if epoch % 5 == 0:
        print(f"epoch {epoch:2}  cost {np.mean(costs):.4f}")

X_test, y_test = moons(1000)
print("held-out accuracy:", np.mean(predict(X_test) == y_test))
