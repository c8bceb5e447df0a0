"""A table with numbers, categories and gaps: from raw rows to a price, and back to raw rows.

`pullback train houses.csv --target price` does the same from the command line.
"""

import numpy as np

from pullback import data, nn

rng = np.random.default_rng(0)
size, town = rng.uniform(40, 200, 800), rng.choice(["Bonn", "Köln", "Ulm"], 800)
houses = {
    "size": [None if rng.random() < 0.05 else round(s) for s in size],
    "town": list(town),
    "price": 2500 * size + np.select([town == "Bonn", town == "Köln"], [40_000, 90_000], 0) + rng.normal(0, 9e3, 800),
}

table = data.read_table(houses)  # a CSV file or a data frame does as well
((train, test),) = data.split(np.arange(len(table)), held_back=0.2)
features = data.TableEncoder.learn(table.without("price").take(train))
price = data.TargetEncoder.learn(table["price"])
X, y = features.encode(table), price.encode(table["price"])

net = nn.Network([nn.Input(X.shape[1]), nn.Connected(32, activation="silu"), nn.Connected(1)])
net.compile(nn.AdamW(1e-2), "mse", ["r2"])
net.fit(X[train], y[train], epochs=100, validation_split=0.15, callbacks=[nn.EarlyStopping(patience=10)], verbose=False)
print("explained variance on held-back rows:", round(net.evaluate(X[test], y[test])["r2"], 3))

new = data.read_table({"size": [100, None], "town": ["Ulm", "Berlin"]})
print("two new houses:", price.decode(net.predict(features.encode(new))).round(-3))
