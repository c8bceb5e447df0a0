"""Steps of a scan share memory with what surrounds it: what later steps still read is never overwritten."""

import numpy as np
import pytest

import pullback as pb
from pullback.ops.norm import Normalize


def both(inputs, outputs, *arrays):
    return [pb.function(inputs, outputs, backend=backend)(*arrays) for backend in ("reference", "native")]


def test_a_value_from_outside_serves_every_step():
    """Found with batch-normalised recurrent gates: the scale of the second step was that of the first divided again."""
    rng = np.random.default_rng(0)
    s1, s2 = (pb.tensor("float64", (3,), name) for name in ("s1", "s2"))
    w = pb.tensor("float64", (3, 6), "w")
    x = pb.tensor("float64", (None, None, 6), "x")
    scales = pb.concatenate([s1, s2])

    def step(x_t, h):
        y = h @ w
        n = pb.cast(pb.length(h, 0), "float64")
        scale = pb.expand_dims(scales / pb.sqrt(n / (n - 1.0)), 0)
        y = Normalize((0,), 1e-5)(y, scale, pb.zeros_like(scale))[0]
        a, b = pb.split(x_t + y, 2, axis=1)
        return pb.sigmoid(a) * h + pb.tanh(b)

    states = pb.scan(step, x, [pb.zeros((pb.length(x, 1), 3), dtype="float64")])
    arrays = rng.normal(size=(4, 5, 6)), rng.uniform(1, 2, 3), rng.uniform(1, 2, 3), rng.normal(size=(3, 6))
    reference, native = both([x, s1, s2, w], states, *arrays)
    assert np.allclose(reference, native, rtol=1e-12)


@pytest.mark.parametrize("last", [True, False])
def test_a_state_that_reaches_back_is_there_for_all_who_read_it(last):
    first = pb.tensor("float64", (2, None), "first")

    def step(a, b):
        return (a + 0.5) * 0.9 + (b - 0.25) * 1.1 - b * a

    states = pb.scan(step, n_steps=5, outputs_info=[dict(initial=first, taps=[-2, -1])])
    result = states[-1] if last else states
    arrays = (np.random.default_rng(0).normal(size=(2, 40)),)
    reference, native = both([first], result, *arrays)
    assert np.allclose(reference, native, rtol=1e-12)
