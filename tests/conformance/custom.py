"""Tests of the cases that no expression can state: `test_<case id>(case, backend)`."""

from typing import Any

import numpy as np

import pullback as pb

from .cases import array_of
from .outcome import Mismatch


def require(condition: Any, message: str) -> None:
    if not condition:
        raise Mismatch(message)


def test_dropout_mask_shared(case: dict[str, Any], backend: str) -> None:
    """The mask of the forward pass is the mask of the gradient, new at every call, the same again from the same seed."""
    ones = array_of(case["inputs"]["x"])

    def build() -> pb.compile.Function:
        x = pb.tensor("float64", ones.shape, "x")
        y = pb.dropout(x, 0.5, pb.RandomStream(seed=1))
        return pb.function([x], [y, pb.grad(pb.sum(y), x)], backend=backend)

    def call(f: pb.compile.Function) -> tuple[np.ndarray, np.ndarray]:
        y, g = f(ones)
        require(np.isin(y, (0.0, 2.0)).all(), "an entry of y is neither 0 nor 2")
        require(np.array_equal(y, g), "the gradient isn't the mask of the forward pass")
        return y, g

    f = build()
    first, second = call(f), call(f)
    zeros = int((first[0] == 0).sum())
    require(400 <= zeros <= 600, f"{zeros} of 1000 entries were dropped, expected 400 to 600")
    require(not np.array_equal(first[0], second[0]), "the second call drew the same mask")
    again = build()
    require(np.array_equal(call(again)[0], first[0]), "the same seed drew another first mask")
    require(np.array_equal(call(again)[0], second[0]), "the same seed drew another second mask")
