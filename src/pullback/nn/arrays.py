"""Checks of the arrays that a user hands to a network; messages say what the network takes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, DTypeError, PullbackError, ShapeError
from ..graph import TensorType, as_array
from .losses import fits, refuse_non_finite, shown
from .recipe import Recipe

if TYPE_CHECKING:
    from .network import Network

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and targets of the shapes that a network and its losses take.

    Attributes:
        inputs, targets: one array per input and output, as they were given.
        dtypes: what each is computed in, inputs first.
        target_types: types of the symbolic targets.
    """

    inputs: Arrays
    targets: Arrays
    dtypes: tuple[str, ...]
    target_types: tuple[TensorType, ...]

    def __len__(self) -> int:
        return len(self.inputs[0])

    @property
    def arrays(self) -> Arrays:
        """Inputs, then targets."""
        return (*self.inputs, *self.targets)

    def replaced(self, arrays: Sequence[np.ndarray]) -> "Samples":
        """Other samples of the same kind."""
        count = len(self.inputs)
        return replace(self, inputs=tuple(arrays[:count]), targets=tuple(arrays[count:]))

    def converted(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A batch of them in the dtypes that are computed in."""
        return [a.astype(dtype, copy=False) for a, dtype in zip(arrays, self.dtypes)]


@contextmanager
def about(what: str) -> Iterator[None]:
    """Errors inside begin with `what`."""
    try:
        yield
    except PullbackError as error:
        raise type(error)(f"{what}: {error}") from None


def input_arrays(network: "Network", X: Any) -> Arrays:
    """One array per input, of the shapes and kinds of number that the Input layers describe."""
    arrays = _one_each(X, len(network.inputs), "X", "inputs")
    for node, array, name in zip(network.inputs, arrays, _names("X", len(arrays))):
        spec = node.output
        if array.dtype.kind not in "biuf":
            raise DTypeError(f"{name} holds {array.dtype}; {node} takes numbers ({spec.dtype})")
        if array.dtype.kind == "f" and not spec.dtype.startswith("float"):
            raise DTypeError(f"{name} holds {array.dtype}; {node} takes whole numbers: {name}.astype({spec.dtype!r})")
        if array.ndim == 0 or not fits(spec.shape, array.shape[1:]):
            hint = _hint(name, array, spec.shape)
            raise ShapeError(f"{name} has shape {array.shape}; {node} takes {shown(spec.shape)}{hint}")
    return arrays


def _hint(name: str, array: np.ndarray, shape: tuple[int | None, ...]) -> str:
    """How to bring an array into shape, where that is plain."""
    if array.ndim == 0 or None in shape:
        return ""
    if array.shape == shape:
        return f"; for a single sample: {name}[None]"
    if len(array) and array.size == len(array) * prod(shape):
        return f"; {name}.reshape({', '.join(map(str, (-1, *shape)))})"
    return ""


def samples(network: "Network", recipe: Recipe, X: Any, y: Any) -> Samples:
    """X and y with their shapes and dtypes checked, but not their values."""
    inputs = input_arrays(network, X)
    targets = _one_each(y, len(network.outputs), "y", "outputs")
    types = tuple(loss.target_type(node.output, a) for loss, node, a in zip(recipe.losses, network.outputs, targets))
    dtypes = (*(node.output.dtype for node in network.inputs), *(kind.dtype for kind in types))
    return Samples(inputs, targets, dtypes, types)


def check_values(network: "Network", recipe: Recipe, given: Samples) -> None:
    """Refuse no samples, differing lengths, NaN, infinity and labels out of range."""
    lengths = [len(a) for a in given.arrays]
    if len(set(lengths)) != 1:
        raise ShapeError(f"X and y differ in length: {', '.join(map(str, lengths))}")
    if not lengths[0]:
        raise ArgumentError("there are no samples: X has length 0")
    for name, array in zip(_names("X", len(given.inputs)), given.inputs):
        refuse_non_finite(name, array)
    for loss, node, array in zip(recipe.losses, network.outputs, given.targets):
        loss.check(node.output, array)


def _names(what: str, count: int) -> list[str]:
    return [what] if count == 1 else [f"{what}[{i}]" for i in range(count)]


def _one_each(given: Any, count: int, what: str, of: str) -> Arrays:
    if count == 1:
        parts = [given]
    elif isinstance(given, (list, tuple)) and len(given) == count:
        parts = list(given)
    else:
        raise ArgumentTypeError(f"the network has {count} {of}: {what} must be a list of {count} arrays")
    if any(part is None for part in parts):
        raise ArgumentTypeError(f"{what} is missing")
    return tuple(as_array(part) for part in parts)
