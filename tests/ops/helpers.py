"""Functions of variables run on arrays, and compared with NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb
from pullback.graph import evaluate


def value(f: Callable[..., pb.Variable], *arrays: np.ndarray) -> np.ndarray:
    """f of arrays, run through a graph of symbolic inputs with unknown lengths."""
    given = {pb.tensor(a.dtype, (None,) * a.ndim): a for a in arrays}
    return evaluate([f(*given)], given)[0]


def slopes(f: Callable[..., pb.Variable], *arrays: np.ndarray, upstream: Any = 1.0) -> list[np.ndarray]:
    """`upstream` pulled back to each of f's inputs."""
    given = {pb.tensor(a.dtype, (None,) * a.ndim): a for a in arrays}
    y = f(*given)
    g = np.broadcast_to(np.asarray(upstream, y.dtype), evaluate([y], given)[0].shape)
    return evaluate(pb.grad(None, list(given), known_grads={y: pb.constant(g)}), given)


def as_numpy(ours: Callable[..., Any], numpys: Callable[..., Any], *arrays: np.ndarray) -> None:
    """`ours` on symbolic inputs with unknown and with known lengths, contiguous or not, is `numpys` on arrays."""
    expected = numpys(*arrays)
    for shapes in ([(None,) * a.ndim for a in arrays], [a.shape for a in arrays]):
        inputs = [pb.tensor(a.dtype, s) for a, s in zip(arrays, shapes)]
        outputs = ours(*inputs)
        if not isinstance(outputs, list):
            outputs, wanted = [outputs], [expected]
        else:
            wanted = list(expected)
        for order in "CF":
            given = dict(zip(inputs, (np.asarray(a, order=order) for a in arrays)))
            for v, f, e in zip(outputs, evaluate(outputs, given), wanted, strict=True):
                assert f.dtype == e.dtype and f.shape == e.shape
                assert all(n in (None, m) for n, m in zip(v.type.shape, e.shape))
                np.testing.assert_array_equal(f, e)
