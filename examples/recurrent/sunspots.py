"""Next year's sunspots from the last 33, against the linear autoregression that statisticians fit since Yule (1927).

    pip install statsmodels matplotlib
    python examples/recurrent/sunspots.py
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import sunspots

from pullback import nn

HELD_OUT, WINDOW, NETWORKS = 80, 33, 8

table = sunspots.load_pandas().data
year, spots = table["YEAR"].to_numpy(), table["SUNACTIVITY"].to_numpy()


def error(prediction):
    """Root mean square over the held-out years."""
    return np.sqrt(np.mean((prediction - spots[-HELD_OUT:]) ** 2))


def windows(series, length):
    """The values before each year from number WINDOW on."""
    return np.stack([series[i - length : i] for i in range(WINDOW, len(series))])


# The baseline: a linear function of the last nine years, by least squares.
lags = np.c_[windows(spots, 9), np.ones(len(spots) - WINDOW)]
coefficients = np.linalg.lstsq(lags[:-HELD_OUT], spots[WINDOW:-HELD_OUT], rcond=None)[0]
linear = lags[-HELD_OUT:] @ coefficients

# The network sees square roots, which makes the noise about as large in quiet years as in active ones.
root = np.sqrt(spots)
mean, scale = root[:-HELD_OUT].mean(), root[:-HELD_OUT].std()
series = ((root - mean) / scale).astype("float32")
X, y = windows(series, WINDOW)[..., None], series[WINDOW:, None]

predictions = []
for seed in range(NETWORKS):  # the average of several networks is better than any of them
    net = nn.Network([nn.Input((WINDOW, 1)), nn.GRU(16), nn.Connected(1)], seed=seed)
    net.compile(nn.AdamW(1e-2, weight_decay=1e-2), "mse")
    net.fit(X[:-HELD_OUT], y[:-HELD_OUT], epochs=40, batch_size=32, verbose=False)
    found = net.predict(X[-HELD_OUT:])[:, 0] * scale + mean
    predictions.append(np.maximum(found, 0) ** 2)
recurrent = np.mean(predictions, axis=0)

print(f"linear autoregression: {error(linear):.2f} spots of error on the last {HELD_OUT} years")
print(f"GRU: {error(recurrent):.2f}")
print(f"error of the GRU, relative to the baseline's: {error(recurrent) / error(linear):.3f}")

figure, axes = plt.subplots(figsize=(10, 4), layout="constrained")
axes.plot(year[-HELD_OUT:], spots[-HELD_OUT:], "k.", label="observed")
axes.plot(year[-HELD_OUT:], linear, "C1", lw=1, label=f"linear, error {error(linear):.1f}")
axes.plot(year[-HELD_OUT:], recurrent, "C0", lw=2, label=f"GRU, error {error(recurrent):.1f}")
axes.set(xlabel="year", ylabel="sunspots", title="Sunspots one year ahead, years that no model was fitted to")
axes.legend()
figure.savefig("sunspots.png", dpi=120)
print("see sunspots.png")
