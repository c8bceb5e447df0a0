"""Hypothesis strategies for shapes, dtypes, arrays and the inputs of an entry. They need the package `hypothesis`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import MissingPackageError
from .entry import Entry

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Shape = tuple[int, ...]


def _strategies():
    try:
        from hypothesis import strategies
    except ImportError:
        raise MissingPackageError("pullback.testing.strategies needs hypothesis: pip install hypothesis") from None
    return strategies


def lengths(least: int = 0, largest: int = 5) -> "SearchStrategy[int]":
    """The length of one axis; odd ones are as likely as even ones."""
    return _strategies().integers(least, largest)


def shapes(min_dims: int = 0, max_dims: int = 4, least: int = 0, largest: int = 5) -> "SearchStrategy[Shape]":
    """Shapes, those with empty and single-element axes included."""
    st = _strategies()
    return st.lists(lengths(least, largest), min_size=min_dims, max_size=max_dims).map(tuple)


def dtypes(floats: Sequence[str] = ("float32", "float64")) -> "SearchStrategy[str]":
    """A float dtype."""
    return _strategies().sampled_from(list(floats))


def broadcastable_shapes(count: int, max_dims: int = 3, largest: int = 4) -> "SearchStrategy[tuple[Shape, ...]]":
    """`count` shapes that broadcast together: axes are shortened to 1, leading axes are left out."""
    st = _strategies()

    @st.composite
    def together(draw) -> tuple[Shape, ...]:
        whole = draw(shapes(0, max_dims, 1, largest))
        result = []
        for _ in range(count):
            start = draw(st.integers(0, len(whole)))
            result.append(tuple(draw(st.sampled_from([1, n])) for n in whole[start:]))
        return tuple(result)

    return together()


def arrays(
    shape: "Shape | SearchStrategy[Shape]", low: float = -2.0, high: float = 2.0, dtype: str = "float64"
) -> "SearchStrategy[np.ndarray]":
    """Arrays with values in [low, high]; a seed is drawn rather than each element, so that large ones stay cheap."""
    st = _strategies()
    if isinstance(shape, tuple):
        shape = st.just(shape)

    def fill(parts: tuple[Shape, int]) -> np.ndarray:
        return np.random.default_rng(parts[1]).uniform(low, high, parts[0]).astype(dtype)

    return st.tuples(shape, st.integers(0, 2**32 - 1)).map(fill)


def sizes(entry: Entry) -> "SearchStrategy[dict[str, int]]":
    """A length for each axis name of an entry, single-element and empty axes included where it takes them."""
    st = _strategies()
    empty = entry.axis_names if entry.empty is None else entry.empty
    single = entry.axis_names if entry.single is None else entry.single

    def of(axis: str) -> "SearchStrategy[int]":
        least, largest = entry.range_of(axis)
        extra = [1] * (axis in single) + [0] * (axis in empty)
        return st.sampled_from([*range(least, largest + 1), *extra])

    return st.fixed_dictionaries({axis: of(axis) for axis in entry.axis_names})


def inputs(entry: Entry) -> "SearchStrategy[list[np.ndarray]]":
    """Input arrays of an entry, shapes drawn by Hypothesis."""
    st = _strategies()

    def fill(parts: tuple[dict[str, int], int]) -> list[np.ndarray]:
        return entry.draw(np.random.default_rng(parts[1]), parts[0])

    return st.tuples(sizes(entry), st.integers(0, 2**32 - 1)).map(fill)
