"""Who says the vowel? Nine speakers, recordings of 7 to 29 steps: a recurrent network that knows each one's length.

    pip install sktime matplotlib
    python examples/recurrent/speakers.py

Data: Kudo, Toyama and Shimbo (1999), twelve LPC cepstrum coefficients at each step. The baseline is a softmax
regression on each recording's mean over time.
"""

from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np

from pullback import nn

FOLDER = files("sktime") / "datasets" / "data" / "JapaneseVowels"
LONGEST, SPEAKERS = 29, 9


def recordings(part):
    """(numbers (n, steps, 12), filled up with zeros; lengths (n,); speakers from 0)"""
    text = (FOLDER / f"JapaneseVowels_{part}.ts").read_text().partition("@data\n")[2]
    series, speakers = [], []
    for line in text.splitlines():
        *channels, speaker = line.split(":")
        series.append(np.array([channel.split(",") for channel in channels], "float32").T)
        speakers.append(int(speaker) - 1)
    X = np.zeros((len(series), LONGEST, 12), "float32")  # what lies beyond a length has no effect
    for row, one in zip(X, series):
        row[: len(one)] = one
    return X, np.array([len(one) for one in series]), np.array(speakers)


def means(X, lengths):
    return np.stack([x[:n].mean(0) for x, n in zip(X, lengths)])


X, lengths, speakers = recordings("TRAIN")
X_test, lengths_test, speakers_test = recordings("TEST")
steps = np.concatenate([x[:n] for x, n in zip(X, lengths)])
X, X_test = ((x - steps.mean(0)) / steps.std(0) for x in (X, X_test))

baseline = nn.Network([nn.Input(12), nn.Connected(SPEAKERS), nn.Softmax()])
baseline.compile(nn.Adam(0.02), "cross_entropy", ["accuracy"])
baseline.fit(means(X, lengths), speakers, epochs=200, batch_size=32, verbose=False)
plain = baseline.evaluate(means(X_test, lengths_test), speakers_test)["accuracy"]

net = nn.Network(
    [
        nn.Input((None, 12), name="steps"),
        nn.Input((), dtype="int64", name="lengths"),
        nn.Bidirectional(nn.GRU(64, lengths="lengths", dropout=0.3), after="steps"),
        nn.Dropout(0.5),
        nn.Connected(SPEAKERS),
        nn.Softmax(),
    ]
)
net.compile(nn.AdamW(3e-3, weight_decay=1e-2), "cross_entropy", ["accuracy"])
history = net.fit([X, lengths], speakers, epochs=40, batch_size=16, verbose=False)
accuracy = net.evaluate([X_test, lengths_test], speakers_test)["accuracy"]

print(f"softmax regression on the mean: {plain:.3f} of {len(speakers_test)} held-out recordings right")
print(f"bidirectional GRU: {accuracy:.3f}")

confusion = np.zeros((SPEAKERS, SPEAKERS), int)
np.add.at(confusion, (speakers_test, net.predict([X_test, lengths_test]).argmax(1)), 1)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.plot(history["loss"])
left.set(xlabel="epoch", ylabel="cross-entropy", title="Training", yscale="log")
right.imshow(confusion, cmap="Blues")
right.set(xlabel="answer", ylabel="speaker", title=f"Held-out recordings, {accuracy:.1%} right")
figure.savefig("speakers.png", dpi=120)
print("see speakers.png")
