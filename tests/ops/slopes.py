"""Gradients against Richardson-extrapolated central differences along random directions, and again one order up."""

from collections.abc import Callable, Sequence

import numpy as np

import pullback as pb
from pullback.gradient.engine import grad
from pullback.graph import Constant, Variable, evaluate

STEP = 1e-4


def variable(array: np.ndarray) -> Variable:
    return pb.tensor(array.dtype, (None,) * array.ndim)


def value(f: Callable, *arrays: np.ndarray) -> np.ndarray:
    """f of arrays, run through a graph of symbolic inputs with unknown lengths."""
    given = {variable(a): a for a in arrays}
    return evaluate([f(*given)], given)[0]


def pulled_back(f: Callable, *arrays: np.ndarray, upstream: np.ndarray, wrt: Sequence[int] | None = None) -> list:
    """f's value, and `upstream` pulled back to each float input (or to those numbered in `wrt`)."""
    given = {variable(a): a for a in arrays}
    y = f(*given)
    inputs = list(given)
    targets = [x for x in inputs if x.type.is_float] if wrt is None else [inputs[i] for i in wrt]
    cost = pb.sum(y * Constant(upstream)) if y.ndim else y * Constant(upstream)
    return evaluate([y, *grad(cost, targets)], given)


def check_slopes(f: Callable, *arrays: np.ndarray, rng: np.random.Generator, order: int = 2, tol: float = 1e-7) -> None:
    """Hold the gradient of a signed random combination of f's outputs to differences in float64, up to `order`.

    The combination's weights are inputs too, so that the second order also differentiates gradients by their upstream.
    """
    shape = value(f, *arrays).shape
    weights = rng.normal(size=shape)

    def cost(g: Variable, *inputs: Variable) -> Variable:
        y = f(*inputs)
        return pb.sum(g * y) if y.ndim else g * y

    _check_cost(cost, [weights, *arrays], rng, order, tol)


def _check_cost(cost: Callable, arrays: Sequence[np.ndarray], rng: np.random.Generator, order: int, tol: float) -> None:
    inputs = [variable(a) for a in arrays]
    floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    total = cost(*inputs)
    targets = [inputs[i] for i in floats]
    grads = evaluate(grad(total, targets, disconnected_inputs="ignore"), dict(zip(inputs, arrays)))

    def at(shift: float, i: int, direction: np.ndarray) -> float:
        moved = [a + shift * direction if j == i else a for j, a in enumerate(arrays)]
        return float(evaluate([total], dict(zip(inputs, moved)))[0])

    for i, g in zip(floats, grads):
        assert g.shape == arrays[i].shape and g.dtype == arrays[i].dtype
        v = rng.normal(size=arrays[i].shape)
        wide, narrow = ((at(h, i, v) - at(-h, i, v)) / (2 * h) for h in (STEP, STEP / 2))
        slope, found = (4 * narrow - wide) / 3, float((v * g).sum())
        scale = max(abs(found), abs(slope), 1e-3 * np.linalg.norm(v) * np.linalg.norm(g), 1e-3)
        assert abs(found - slope) <= tol * scale, f"input {i}, order left {order}: {found} against {slope}"
    if order > 1:
        mix = [rng.normal(size=arrays[i].shape) for i in floats]

        def next_cost(*inputs: Variable) -> Variable:
            parts = grad(cost(*inputs), [inputs[i] for i in floats], disconnected_inputs="ignore")
            terms = [pb.sum(m * p) if p.ndim else m.item() * p for m, p in zip(mix, parts)]
            return sum(terms[1:], terms[0])

        _check_cost(next_cost, arrays, rng, order - 1, tol * 10)
