"""Layers made of others: outputs put together, a way around some layers, and any function as a layer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ... import ops
from ...errors import ArgumentError, ArgumentTypeError, ShapeError
from ...graph import SharedVariable, TensorType, Variable
from ..activations import activation
from .base import Context, Layer, Parameter, Reference, Spec
from .merge import references


@dataclass(frozen=True)
class Concatenate(Layer):
    """The outputs of several layers one after the other along an axis.

    Known elsewhere as cat (PyTorch). `Route` does the same for the last axis, and takes groups of channels.

    Args:
        layers: numbers from the front, negative distances back, or names.
        axis: counted with the batch as axis 0, which can't be taken; negative from the end.
    """

    layers: tuple[Reference, ...] | Reference
    axis: int = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", references(self.layers, "Concatenate"))

    def sources(self):
        return self.layers

    def describe(self, *inputs):
        ndim = len(inputs[0].shape)
        axis = self.axis + ndim if self.axis < 0 else self.axis - 1
        if not 0 <= axis < ndim:
            raise ShapeError(f"axis={self.axis} is none of {inputs[0]} (the batch is axis 0)")
        others = {x.shape[:axis] + x.shape[axis + 1 :] for x in inputs}
        if len(others) != 1 or any(len(x.shape) != ndim for x in inputs):
            raise ShapeError(f"the layers differ in more than axis {axis + 1}: {', '.join(map(str, inputs))}")
        lengths = [x.shape[axis] for x in inputs]
        total = None if None in lengths else sum(lengths)
        return Spec((*inputs[0].shape[:axis], total, *inputs[0].shape[axis + 1 :]), inputs[0].dtype)

    def apply(self, parameters, inputs, context):
        return ops.concatenate(inputs, axis=self.axis)


@dataclass(frozen=True)
class Add(Layer):
    """activation(the sum of several layers' outputs), which have one shape.

    `Shortcut` adds other layers to the one before it, and knows how Darknet brings different shapes together.

    Args:
        layers: numbers from the front, negative distances back, or names.
        activation: a name of `nn.ACTIVATIONS`.
    """

    layers: tuple[Reference, ...] | Reference
    activation: str = "linear"

    def __post_init__(self) -> None:
        activation(self.activation)
        object.__setattr__(self, "layers", references(self.layers, "Add"))

    def sources(self):
        return self.layers

    def describe(self, *inputs):
        if len({x.shape for x in inputs}) != 1:
            raise ShapeError(f"the layers differ in shape: {', '.join(map(str, inputs))}")
        return inputs[0]

    def apply(self, parameters, inputs, context):
        total = inputs[0]
        for x in inputs[1:]:
            total = total + x
        return activation(self.activation)(total)


@dataclass(frozen=True)
class Residual(Layer):
    """activation(x + what some layers make of x) (He et al. 2016).

    Parameters: those of the layers inside, as "<inner layer>.<parameter>".

    Args:
        layers: one after the other; each takes the output of the one before it.
        shortcut: layers that x goes through on its own way, where it must change its shape; none unless given.
        activation: a name of `nn.ACTIVATIONS`.

    Example:
        >>> from pullback import nn
        >>> around = nn.Residual((nn.LayerNorm(), nn.Connected(8, activation="relu"), nn.Connected(4)))
        >>> nn.Network([nn.Input(4), around]).outputs[0].output.shape
        (4,)
    """

    layers: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()
    activation: str = "linear"

    def __post_init__(self) -> None:
        activation(self.activation)
        for name in ("layers", "shortcut"):
            given = getattr(self, name)
            chain = (given,) if isinstance(given, Layer) else tuple(given)
            for layer in chain:
                if not isinstance(layer, Layer):
                    raise ArgumentTypeError(f"Residual: {name} holds {layer!r}; expected layers")
                if layer.sources() != (-1,):
                    raise ArgumentError(f"Residual: {type(layer).__name__} inside it must take the layer before it")
            names = [_inner_name(i, layer) for i, layer in enumerate(chain)]
            if len(set(names)) < len(names):
                raise ArgumentError(f"Residual: two layers inside it have one name: {names}")
            object.__setattr__(self, name, chain)
        if not self.layers:
            raise ArgumentError("Residual: there are no layers to go around")

    def describe(self, x):
        through, around = (_flow(chain, x)[-1] for chain in (self.layers, self.shortcut))
        if through != around:
            hint = "" if self.shortcut else ": give layers as shortcut that do the same"
            raise ShapeError(f"{around} can't be added to {through}{hint}")
        return through

    def _chains(self) -> list[tuple[str, tuple[Layer, ...]]]:
        return [("", self.layers), ("shortcut.", self.shortcut)]

    def parameters(self, x):
        return {
            f"{way}{_inner_name(i, layer)}.{key}": _inside(parameter, layer)
            for way, chain in self._chains()
            for i, (layer, spec) in enumerate(zip(chain, _flow(chain, x)))
            for key, parameter in layer.parameters(spec).items()
        }

    def apply(self, parameters, inputs, context):
        through, around = (_run(chain, _under(parameters, way), inputs[0], context) for way, chain in self._chains())
        return activation(self.activation)(around + through)

    def operations(self, inputs, output):
        return sum(
            layer.operations((before,), after)
            for _, chain in self._chains()
            for layer, (before, after) in zip(chain, pairwise(_flow(chain, inputs[0])))
        )

    def remarks(self):
        return [", ".join(type(layer).__name__ for layer in self.layers), *super().remarks()]


def _flow(chain: Sequence[Layer], x: Spec) -> list[Spec]:
    """What goes into each layer, and what comes out of the last."""
    flow = [x]
    for layer in chain:
        flow.append(layer.describe(flow[-1]))
    return flow


def _inner_name(index: int, layer: Layer) -> str:
    return layer.name or f"{type(layer).__name__.lower()}_{index}"


def _inside(parameter: Parameter, layer: Layer) -> Parameter:
    """A parameter of a layer inside another one."""
    return replace(
        parameter,
        trainable=parameter.trainable and not layer.frozen,
        learning_rate=parameter.learning_rate * layer.learning_rate,
    )


def _under(parameters: Mapping[str, SharedVariable], prefix: str) -> dict[str, SharedVariable]:
    """The parameters whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): v for name, v in parameters.items() if name.startswith(prefix)}


def _run(chain: Sequence[Layer], parameters: Mapping[str, SharedVariable], x: Variable, context: Context) -> Variable:
    for i, layer in enumerate(chain):
        around = replace(context, training=False) if layer.frozen else context
        y = layer.apply(_under(parameters, f"{_inner_name(i, layer)}."), [x], around)
        if x in context.lengths and y.type.shape[1:2] == x.type.shape[1:2]:
            context.lengths.setdefault(y, context.lengths[x])
        x = y
    return x


@dataclass(frozen=True)
class Lambda(Layer):
    """Any function of variables as a layer: one argument per layer that `after` names.

    A network with it can be trained, copied and pickled like any other. Into a model file goes the function's name in
    `nn.FUNCTIONS`, where it must be put first, here and where the file is loaded.

    Args:
        function: takes variables with the batch on their first axis, gives one of the same kind.
        shape: of what comes out, without the batch; found out unless given.

    Example:
        >>> from pullback import nn
        >>> net = nn.Network([nn.Input((5, 3)), nn.Lambda(lambda x: x[:, -1])])
        >>> net.outputs[0].output.shape
        (3,)
    """

    function: Callable[..., Variable]
    shape: tuple[int | None, ...] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentTypeError(f"Lambda: {self.function!r} is no function")

    def describe(self, *inputs):
        found = self._result([Variable(TensorType(x.dtype, (None, *x.shape))) for x in inputs]).type
        return Spec(found.shape[1:] if self.shape is None else tuple(self.shape), found.dtype)

    def _result(self, inputs: Sequence[Variable]) -> Variable:
        y = self.function(*inputs)
        if not isinstance(y, Variable) or not y.ndim:
            raise ArgumentTypeError(f"its function gave {y!r}; expected a variable with the batch on its first axis")
        return y

    def apply(self, parameters, inputs, context):
        return self._result(inputs)

    def remarks(self):
        return [getattr(self.function, "__name__", type(self.function).__name__), *super().remarks()]
