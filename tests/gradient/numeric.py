"""Values and central differences of graphs, for the tests of the gradient engine."""

from collections.abc import Mapping, Sequence

import numpy as np

from pullback.graph import Variable, evaluate

STEP = 1e-3


def value(v: Variable, given: Mapping[Variable, np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return evaluate([v], given)[0]


def slopes(cost: Variable, x: Variable, given: Mapping[Variable, np.ndarray]) -> np.ndarray:
    """d cost / d x in float64 by central differences with two extrapolations: error of order STEP^6."""
    point = np.asarray(given[x], np.float64)
    result = np.empty(point.shape)
    for k in np.ndindex(point.shape):

        def difference(h: float, k=k) -> float:
            values = []
            for sign in (1, -1):
                moved = point.copy()
                moved[k] += sign * h
                values.append(float(value(cost, {**given, x: moved})))
            return (values[0] - values[1]) / (2 * h)

        d = [difference(STEP / 2**level) for level in range(3)]
        first = [(4 * b - a) / 3 for a, b in zip(d, d[1:])]
        result[k] = (16 * first[1] - first[0]) / 15
    return result


def assert_gradient(cost: Variable, wrt: Sequence[Variable], given: Mapping[Variable, np.ndarray], gradients) -> None:
    """The expressions `gradients` are the slopes of `cost`, to 1e-7."""
    for x, g in zip(wrt, gradients):
        found, expected = value(g, given), slopes(cost, x, given)
        assert found.shape == expected.shape and found.dtype == np.float64
        scale = max(np.abs(expected).max(initial=0), 1.0)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 * scale)
