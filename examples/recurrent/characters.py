"""Python's documentation, character by character: a network learns it, and writes a sample.

    python examples/recurrent/characters.py

The baseline is an interpolated 4-gram model (Witten and Bell 1991). Both are measured in bits per character on the last
twentieth of the text. Training takes one to four minutes on two cores.
"""

import time
from collections import Counter, defaultdict
from math import log2
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np

from pullback import nn

EPOCHS, STREAMS, STEPS = 8, 32, 64

text = "\n\n".join(topics[name] for name in sorted(topics))
letters, cut = sorted(set(text)), len(text) * 19 // 20
codes = np.array([letters.index(c) for c in text])
train, tail = codes[:cut], codes[cut:]


def four_gram_bits():
    """p(c | three before) = (count + kinds * p(c | two before)) / (total + kinds), and so on down."""
    counts, bits = defaultdict(Counter), 0.0
    for n in range(4):
        for i in range(n, cut):
            counts[text[i - n : i]][text[i]] += 1
    for i in range(cut, len(text)):
        p = 1 / len(letters)
        for n in range(4):
            if seen := counts.get(text[i - n : i]):
                p = (seen[text[i]] + len(seen) * p) / (seen.total() + len(seen))
        bits -= log2(p)
    return bits / len(tail)


def network(streams, steps=1):
    """Each batch goes on where the one before it ended."""
    middle = nn.LSTM(256, return_sequences=True, stateful=streams), nn.Dropout(0.1)
    head = nn.TimeDistributed(nn.Connected(len(letters))), nn.Softmax()
    net = nn.Network([nn.Input((None,), dtype="int64"), nn.Embedding(len(letters), 64), *middle, *head])
    net.compile(nn.Adam(nn.schedules.Cosine(4e-3, total=steps)), "cross_entropy", clip_norm=5.0 * STEPS)
    return net


def windows(codes):
    """(x, y) of all streams, side by side, window by window; y is one character ahead."""
    length = (len(codes) - 1) // STREAMS
    x, y = (codes[k : k + STREAMS * length].reshape(STREAMS, length) for k in (0, 1))
    return [(x[:, i : i + STEPS], y[:, i : i + STEPS]) for i in range(0, length - STEPS + 1, STEPS)]


baseline, batches = four_gram_bits(), windows(train)
net, losses, start = network(STREAMS, EPOCHS * len(batches)), [], time.monotonic()
for _ in range(EPOCHS):
    net.reset_states()
    losses += [net.train_on_batch(x, y) / STEPS / np.log(2) for x, y in batches]
    print(f"{time.monotonic() - start:4.0f} s  {np.mean(losses[-100:]):.3f} bits per character in training", flush=True)
net.reset_states()
bits = np.mean([net.evaluate(x, y)["loss"] for x, y in windows(tail)]) / STEPS / np.log(2)
print(f"4-gram model: {baseline:.3f} bits per character on the held-out tail\nLSTM: {bits:.3f}")

writer, sample, rng = network(1), [letters.index("\n")], np.random.default_rng(0)
writer.set_values({name: v for name, v in net.get_values().items() if ".state_" not in name})
for _ in range(400):
    p = writer.predict(np.array([sample[-1:]]))[0, -1].astype("float64") ** 1.4
    sample.append(rng.choice(len(letters), p=p / p.sum()))
print("".join(letters[c] for c in sample))
plt.plot(losses, lw=0.5, label="LSTM, in training")
plt.axhline(baseline, color="C1", label="4-gram, held out")
plt.axhline(bits, color="C2", label="LSTM, held out")
plt.gca().set(xlabel="step", ylabel="bits per character", ylim=(1, 5))
plt.legend()
plt.savefig("characters.png", dpi=120)
