"""A training loop of one's own around a Network: sharpness-aware minimisation (Foret et al. 2021, equation 2).

Each step goes along the gradient that is found a little uphill, at w + rho g / |g|, so that training prefers wide
valleys. It needs the gradient as arrays: `net.gradient` gives it, `net.apply_gradients` takes a step of the optimizer.
"""

import numpy as np

from pullback import data, nn

RHO = 0.05

X, y = data.mnist5k()
(X, X_test), (y, y_test) = data.split(X, y, held_back=4000, stratify=y)

net = nn.Network(
    [
        nn.Input((28, 28, 1)),
        nn.Convolutional(16, 5, activation="relu"),
        nn.MaxPool(3),
        nn.Connected(64, activation="relu"),
        nn.Connected(10),
        nn.Softmax(),
    ]
)
net.compile(nn.SGD(0.05, momentum=0.9), "cross_entropy", ["accuracy"])

batches = data.Batches(X, y, batch_size=50)
for epoch in range(10):
    costs = []
    for batch in batches:
        cost, gradients = net.gradient(*batch)
        here = net.get_values()
        norm = np.sqrt(sum(np.vdot(g, g) for g in gradients.values()))
        net.set_values({name: here[name] + RHO * g / norm for name, g in gradients.items()})
        _, uphill = net.gradient(*batch)
        net.set_values(here)
        net.apply_gradients(uphill)
        costs.append(cost)
    print(f"epoch {epoch + 1:2}  cost {np.mean(costs):.4f}")

print("held-out accuracy:", net.evaluate(X_test, y_test)["accuracy"])
