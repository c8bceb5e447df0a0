"""Layers at their places: who feeds whom, what flows, and the parameters made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, FormatError, GraphError, PullbackError, UnknownNameError, nearest
from ..graph import SharedVariable, TensorType
from .layers.base import Layer, Parameter, Reference, Spec
from .layers.basic import Input


@dataclass(frozen=True, eq=False)
class Node:
    """One layer at its place in a network.

    Attributes:
        index: its number, from 0.
        name: unique in the network.
        sources: numbers of the layers that feed it.
        inputs, output: what comes in and what goes out.
        described: its parameters as the layer asked for them.
        parameters: its parameters.
    """

    index: int
    layer: Layer
    name: str
    sources: tuple[int, ...]
    inputs: tuple[Spec, ...]
    output: Spec
    described: dict[str, Parameter]
    parameters: dict[str, SharedVariable]

    def __str__(self) -> str:
        return label(self.index, self.layer)


def label(index: int, layer: Layer) -> str:
    """How messages name a layer."""
    return f"layer {index} ({type(layer).__name__}{f' {layer.name!r}' if layer.name else ''})"


def assemble(
    layers: Sequence[Layer], dtype: str, seed: int, values: Mapping[str, np.ndarray] | None = None
) -> list[Node]:
    """Check each layer against those that feed it and make its parameters, with `values` or else their first values."""
    layers = list(layers)
    for i, layer in enumerate(layers):
        if not isinstance(layer, Layer):
            hint = f": write nn.{layer.__name__}(...)" if isinstance(layer, type) else ""
            raise ArgumentTypeError(f"layer {i} is {layer!r}; expected a layer{hint}")
    if not layers or not isinstance(layers[0], Input):
        found = f", got {type(layers[0]).__name__}" if layers else ""
        raise ArgumentError(f"a network begins with nn.Input(shape of one sample){found}")
    nodes: list[Node] = []
    for i, layer in enumerate(layers):
        try:
            nodes.append(_place(i, layer, nodes, dtype, seed, values))
        except PullbackError as error:
            raise type(error)(f"{label(i, layer)}: {error}") from None
    return nodes


def _place(
    index: int, layer: Layer, before: Sequence[Node], dtype: str, seed: int, values: Mapping[str, np.ndarray] | None
) -> Node:
    name = layer.name or f"{type(layer).__name__.lower()}_{index}"
    if any(node.name == name for node in before):
        raise ArgumentError(f"another layer is named {name!r} already")
    sources = tuple(find(reference, before, index) for reference in layer.sources())
    inputs = tuple(before[i].output for i in sources)
    output = layer.describe(*inputs)
    if output.dtype is None:
        output = replace(output, dtype=dtype)
    described = layer.parameters(*inputs)
    parameters = {
        key: SharedVariable(
            _value(f"{name}.{key}", parameter, np.random.default_rng((seed, index, number)), values).astype(dtype),
            TensorType(dtype, parameter.shape),
            f"{name}.{key}",
        )
        for number, (key, parameter) in enumerate(described.items())
    }
    return Node(index, layer, name, sources, inputs, output, described, parameters)


def _value(
    name: str, parameter: Parameter, rng: np.random.Generator, values: Mapping[str, np.ndarray] | None
) -> np.ndarray:
    if values is None:
        return parameter.initial(parameter.shape, rng)
    if name not in values:
        raise FormatError(f"there is no value for {name!r}. {nearest(name, values)}")
    if values[name].shape != parameter.shape:
        raise FormatError(f"the value for {name!r} has shape {values[name].shape}; expected {parameter.shape}")
    return values[name]


def find(reference: Reference, nodes: Sequence[Node], here: int) -> int:
    """The number of the layer that `reference`, written in layer number `here`, means."""
    if isinstance(reference, str):
        names = [node.name for node in nodes]
        if reference not in names:
            raise UnknownNameError(f"no layer before it is named {reference!r}. {nearest(reference, names)}")
        return names.index(reference)
    if not isinstance(reference, Integral):
        raise ArgumentTypeError(f"it refers to {reference!r}; expected a layer's number, negative distance or name")
    index = here + reference if reference < 0 else reference
    if not 0 <= index < len(nodes):
        raise GraphError(f"it refers to layer {reference}, but there are only layers 0 to {len(nodes) - 1} before it")
    return index


def leading_to(outputs: Sequence[Node], nodes: Sequence[Node]) -> set[int]:
    """Numbers of the layers that the outputs depend on, themselves included."""
    found = {node.index for node in outputs}
    for node in reversed(nodes):
        if node.index in found:
            found.update(node.sources)
    return found
