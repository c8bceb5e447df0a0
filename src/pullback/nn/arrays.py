"""Checks of the arrays that a user hands to a network; messages say what the network takes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Images
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    PullbackError,
    ShapeError,
    UnknownNameError,
    nearest,
)
from ..graph import TensorType, as_array
from .losses import fits, refuse_non_finite, shown
from .recipe import Recipe

if TYPE_CHECKING:
    from .network import Network

Arrays = tuple[np.ndarray | Images, ...]


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and targets of the shapes that a network and its losses take.

    Attributes:
        inputs, targets: one array per input and output, as they were given.
        weights: of the samples, one array per output; none if all weigh the same.
        dtypes: what each is computed in, inputs first.
        target_types: types of the symbolic targets, and after them of the weights.
    """

    inputs: Arrays
    targets: Arrays
    weights: Arrays
    dtypes: tuple[str, ...]
    target_types: tuple[TensorType, ...]

    def __len__(self) -> int:
        return len(self.inputs[0])

    @property
    def arrays(self) -> Arrays:
        """Inputs, then targets, then weights."""
        return (*self.inputs, *self.targets, *self.weights)

    def replaced(self, arrays: Sequence[np.ndarray]) -> "Samples":
        """Other samples of the same kind."""
        a, b = len(self.inputs), len(self.inputs) + len(self.targets)
        return replace(self, inputs=tuple(arrays[:a]), targets=tuple(arrays[a:b]), weights=tuple(arrays[b:]))

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


def samples(
    network: "Network", recipe: Recipe, X: Any, y: Any, sample_weight: Any = None, class_weight: Any = None
) -> Samples:
    """X, y and weights with their shapes and dtypes checked, but not their values."""
    inputs = input_arrays(network, X)
    targets = _one_each(y, len(network.outputs), "y", "outputs")
    weights = sample_weights(network, targets, sample_weight, class_weight)
    types = tuple(loss.target_type(node.output, a) for loss, node, a in zip(recipe.losses, network.outputs, targets))
    types += tuple(TensorType(node.output.dtype, (None,)) for node, _ in zip(network.outputs, weights))
    dtypes = (*(node.output.dtype for node in network.inputs), *(kind.dtype for kind in types))
    return Samples(inputs, targets, weights, dtypes, types)


def sample_weights(network: "Network", targets: Arrays, sample_weight: Any, class_weight: Any) -> Arrays:
    """What each sample's loss is multiplied by, one array per output; none if nothing is weighted."""
    if sample_weight is None and class_weight is None:
        return ()
    names = [node.name for node in network.outputs]
    by_sample = _by_output(sample_weight, names, "sample_weight")
    by_class = _by_output(class_weight, names, "class_weight")
    weights = []
    for target, own, classes in zip(targets, by_sample, by_class):
        weight = np.ones(len(target)) if own is None else as_array(own)
        if weight.dtype.kind not in "biuf" or weight.shape != (len(target),):
            raise ShapeError(
                f"sample_weight is {weight.dtype} of shape {weight.shape}; expected one number per sample: "
                f"({len(target)},)"
            )
        weights.append(weight if classes is None else weight * _class_weights(classes, target))
    return tuple(weights)


def _by_output(given: Any, names: Sequence[str], what: str) -> list[Any]:
    """What is given for each output: by a dict of their names, by a list where there are several, or for all alike."""
    if isinstance(given, Mapping) and all(isinstance(key, str) for key in given):
        unknown = [key for key in given if key not in names]
        if unknown:
            raise UnknownNameError(f"{what} for {unknown[0]!r}, which is no output. {nearest(unknown[0], names)}")
        return [given.get(name) for name in names]
    if len(names) > 1 and isinstance(given, (list, tuple)) and len(given) == len(names):
        return list(given)
    return [given] * len(names)


def _class_weights(given: Any, target: np.ndarray) -> np.ndarray:
    """The weight of each sample's class."""
    target = target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target
    target = target.argmax(axis=1) if target.ndim == 2 else target
    if target.ndim != 1 or target.dtype.kind not in "biu":
        raise DTypeError(f"class_weight needs a class number per sample; y is {target.dtype} of shape {target.shape}")
    classes, place, counts = np.unique(target.astype(np.int64), return_inverse=True, return_counts=True)
    if isinstance(given, str):
        if given != "balanced":
            raise ArgumentError(f"class_weight={given!r}; expected {{class: weight}} or 'balanced'")
        return (len(target) / (len(classes) * counts))[place]
    table = given if isinstance(given, Mapping) else dict(enumerate(given))
    missing = [int(c) for c in classes if c not in table]
    if missing:
        raise ArgumentError(f"class_weight has no weight for class {missing[0]}, which y holds")
    return np.array([float(table[c]) for c in classes.tolist()])[place]


def check_values(network: "Network", recipe: Recipe, given: Samples) -> None:
    """Refuse no samples, differing lengths, NaN, infinity and labels out of range."""
    lengths = [len(a) for a in given.arrays]
    if len(set(lengths)) != 1:
        raise ShapeError(f"X and y differ in length: {', '.join(map(str, lengths))}")
    if not lengths[0]:
        raise ArgumentError("there are no samples: X has length 0")
    for name, array in zip(_names("X", len(given.inputs)), given.inputs):
        if not isinstance(array, Images):  # which are finite
            refuse_non_finite(name, array)
    for loss, node, array in zip(recipe.losses, network.outputs, given.targets):
        loss.check(node.output, array)
    for array in given.weights:
        refuse_non_finite("sample_weight", array)


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
    return tuple(part if isinstance(part, Images) else as_array(part) for part in parts)
