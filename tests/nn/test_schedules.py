"""Schedules against their formulas, step by step, and inside a training step."""

import math

import numpy as np
import pytest

import pullback as pb
from pullback.nn import schedules as s


@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        (s.Step(0.4, every=3, factor=0.5), lambda n: 0.4 * 0.5 ** (n // 3)),
        (s.Steps(0.4, (2, 5), (0.1, 0.5)), lambda n: 0.4 * (0.1 if n >= 2 else 1) * (0.5 if n >= 5 else 1)),
        (s.Exponential(0.4, 0.9), lambda n: 0.4 * 0.9**n),
        (s.Polynomial(0.4, 6, 2.0), lambda n: 0.4 * max(0, 1 - n / 6) ** 2),
        (s.Sigmoid(0.4, 4, 0.7), lambda n: 0.4 / (1 + math.exp(0.7 * (n - 4)))),
        (s.Cosine(0.4, 6, last=0.1), lambda n: 0.1 + 0.3 * 0.5 * (1 + math.cos(math.pi * min(n / 6, 1)))),
        (s.Cosine(0.4, 3, restarts=True), lambda n: 0.4 * 0.5 * (1 + math.cos(math.pi * (n % 3) / 3))),
        (s.WarmUp(0.4, 4), lambda n: 0.4 * min((n + 1) / 4, 1)),
        (s.WarmUp(s.Exponential(0.4, 0.9), 4, power=4.0), lambda n: 0.4 * 0.9**n * min((n + 1) / 4, 1) ** 4),
    ],
)
def test_formula(schedule, formula):
    assert [schedule.rate(n) for n in range(10)] == pytest.approx([formula(n) for n in range(10)], rel=1e-12)


def test_restarts_that_stretch():
    schedule = s.Cosine(1.0, 2, restarts=True, stretch=2.0)  # cycles of 2, 4, 8, 16 ... steps
    rates = [schedule.rate(n) for n in range(31)]
    for begin, length in ((0, 2), (2, 4), (6, 8), (14, 16)):
        for k in range(length):
            assert rates[begin + k] == pytest.approx(0.5 * (1 + math.cos(math.pi * k / length)), abs=1e-12)


def test_one_cycle_rises_and_falls():
    rates = [s.OneCycle(1.0, 100).rate(n) for n in range(101)]
    assert rates[0] == pytest.approx(1 / 25)
    assert int(np.argmax(rates)) == 30 and rates[30] == pytest.approx(1.0)
    assert np.all(np.diff(rates[:31]) > 0) and np.all(np.diff(rates[30:]) < 0)
    assert rates[-1] == pytest.approx(1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: s.Step(0.1, every=0),
        lambda: s.Steps(0.1, (1, 2), (0.5,)),
        lambda: s.Polynomial(0.1, total=0),
        lambda: s.Cosine(0.1, 5, stretch=0.5),
        lambda: s.WarmUp(0.1, steps=0),
        lambda: s.OneCycle(0.1, 10, rising=1.0),
    ],
)
def test_refuses(make):
    with pytest.raises(pb.ArgumentError):
        make()
