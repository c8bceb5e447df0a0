"""Shapes and arrays that Hypothesis draws are what they say."""

import numpy as np
from hypothesis import given

from pullback.testing import Entry, index, real, strategies


@given(strategies.shapes(1, 3, 0, 4))
def test_shapes_stay_within_their_bounds(shape: tuple[int, ...]) -> None:
    assert 1 <= len(shape) <= 3 and all(0 <= n <= 4 for n in shape)


@given(strategies.broadcastable_shapes(3))
def test_broadcastable_shapes_broadcast(shapes: tuple[tuple[int, ...], ...]) -> None:
    assert len(shapes) == 3
    np.broadcast_shapes(*shapes)


@given(strategies.arrays(strategies.shapes(), 0.5, 2.0, "float32"))
def test_arrays_stay_within_their_bounds(array: np.ndarray) -> None:
    assert array.dtype == np.float32 and (array >= 0.5).all() and (array <= 2.0).all()


@given(strategies.dtypes())
def test_dtypes_are_floats(dtype: str) -> None:
    assert np.dtype(dtype).kind == "f"


INPUTS = real("n m"), index("k", "n")
TAKE = Entry("take", lambda x, i: x[i], INPUTS, sizes={"n": (2, 5)}, empty=("k",), single=("m",))


@given(strategies.inputs(TAKE))
def test_inputs_of_an_entry_fit_together(arrays: list[np.ndarray]) -> None:
    x, i = arrays
    assert 2 <= x.shape[0] <= 5 and 1 <= x.shape[1] <= 4 and i.size <= 4
    assert x[i].shape == (len(i), x.shape[1])
