"""What all layers share: shapes, the two directions, the caller's buffer, updates, files.

Arrays are (batch, w, h, c). `forward` sets `output` and makes `delta` zeros of its shape; the caller (or the layer that
comes next) adds dLoss / dOutput to it; `backward` adds dLoss / dInput to the buffer that it is given, and sets
`weights_update` and the like. A layer computes in the dtype of what comes in: float32, or float64 for all else. Of the
arrays that are given only that buffer is ever changed: `copy` is taken for the sake of old programs.
"""

import warnings
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...errors import ArgumentError, ShapeError
from ...graph import TensorType, Variable
from ...ops import RandomStream
from .activations import EXPRESSIONS, Activations, find
from .exception import LayerError, NetworkError, NotFittedError
from .optimizer import Optimizer
from .passes import Pass

Shape = tuple[int, ...]


def whole(layer: Any, **settings: Any) -> None:
    """Refuse settings that aren't whole numbers from 1 up."""
    for name, value in settings.items():
        for n in value if isinstance(value, (tuple, list)) else (value,):
            if not isinstance(n, (int, np.integer)) or n < 1:
                raise ArgumentError(f"{type(layer).__name__}: {name}={value!r}; expected whole numbers from 1 up")


def pair(layer: Any, name: str, value: Any) -> tuple[int, int]:
    """One number for both axes, or one for each."""
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2:
        raise LayerError(f"{type(layer).__name__}: {name}={value!r}; expected one number or two")
    return both


def as_floats(array: Any) -> np.ndarray:
    """float32 as it is, all else as float64."""
    array = np.asarray(array)
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


class Part:
    """Parameters that share an optimizer: a whole layer, or one of several parts of a layer.

    Attributes:
        parameters: names of the attributes that hold them, in the order of files; their gradients are called
            `<name>_update`.
        optimizer: what changes them.
    """

    parameters: tuple[str, ...] = ()
    optimizer: Optimizer | None = None

    def update(self) -> "Part":
        """One step of the optimizer along the gradients of the last `backward`."""
        if getattr(self, f"{self.parameters[0]}_update", None) is None:
            raise NotFittedError(f"{type(self).__name__}: call forward and backward before update")
        if self.optimizer is None:
            raise NetworkError(f"{type(self).__name__}: it has no optimizer: set .optimizer, or compile the network")
        gradients = [getattr(self, f"{name}_update") for name in self.parameters]
        new = self.optimizer.update([getattr(self, name) for name in self.parameters], gradients)
        for name, value in zip(self.parameters, new):
            setattr(self, name, value)
        return self


class BaseLayer(Part):
    """Base of all layers. A subclass writes `expression`, `_build` if it has parameters, and `shape_out`.

    Args:
        input_shape: (batch, w, h, c); None where a network says it. Batches of any size are taken.

    Attributes:
        output: what came out.
        delta: dLoss / dOutput, which the caller adds to.
        training: False for layers that behave otherwise at predict.
    """

    takes_input = False  # whether backward is given the input again
    least_rows = 1

    def __init__(self, input_shape: Sequence[int] | None = None, **unused: Any) -> None:
        if unused:
            names = ", ".join(f"{name}={value!r}" for name, value in unused.items())
            warnings.warn(f"{type(self).__name__} ignores {names}", stacklevel=3)
        self.input_shape = None if input_shape is None else tuple(input_shape)
        self.output: np.ndarray | None = None
        self.delta: np.ndarray | None = None
        self.training = True
        self._passes: dict[tuple[str, bool], Pass] = {}
        self._last: tuple[Pass, list[np.ndarray], Sequence[np.ndarray]] | None = None
        self._random: RandomStream | None = None
        if self.input_shape is not None:
            if len(self.input_shape) != 4:
                raise LayerError(f"{type(self).__name__}: input_shape={input_shape}; expected (batch, w, h, c)")
            self._build()

    def __call__(self, previous_layer: "BaseLayer") -> "BaseLayer":
        """Take the shape from the layer before it."""
        if previous_layer.out_shape is None:
            raise LayerError(f"{type(self).__name__} can't follow {type(previous_layer).__name__}, which has no shape")
        self.input_shape = previous_layer.out_shape
        self._build()
        return self

    # --- what a subclass says ---------------------------------------------------------------------------------------
    def _build(self) -> None:
        """Give parameters their first values, and refuse shapes that don't fit."""

    def expression(self, x: Variable, *parameters: Variable) -> Variable:
        """The output, in training or (`self.training` is False) at predict."""
        raise NotImplementedError(f"{type(self).__name__} must define expression(self, x, *parameters)")

    def shape_out(self, shape: Shape) -> Shape:
        """(w, h, c) of what comes out."""
        return shape

    def rows_out(self, rows: int) -> int:
        """How many rows come out."""
        return rows

    def parts(self) -> list[Part]:
        """All parts with parameters."""
        return [self] if self.parameters else []

    def extras(self) -> list[Variable]:
        """Further variables of the expression made last, whose values `_took` gets."""
        return []

    def _took(self, values: Sequence[np.ndarray]) -> None:
        """Take in the values of `extras`."""

    # --- both directions --------------------------------------------------------------------------------------------
    @property
    def out_shape(self) -> Shape | None:
        """(batch, w, h, c) of what comes out; None while the input's shape isn't known."""
        if self.input_shape is None:
            return None
        return (self.rows_out(self.input_shape[0]), *self.shape_out(self.input_shape[1:]))

    @property
    def random(self) -> RandomStream:
        """Where it draws from; np.random.seed before the first draw makes it repeatable."""
        if self._random is None:
            self._random = RandomStream(int(np.random.randint(2**31)))
        return self._random

    def _values(self, dtype: np.dtype) -> list[np.ndarray]:
        """All parameters, brought to the dtype that is computed in."""
        values = []
        for part in self.parts():
            for name in part.parameters:
                value = np.asarray(getattr(part, name))
                if value.dtype != dtype:
                    value = value.astype(dtype)
                    setattr(part, name, value)
                values.append(value)
        return values

    def _pass(self, dtype: str, values: Sequence[np.ndarray]) -> Pass:
        key = (dtype, self.training)
        if key not in self._passes:
            x = Variable(TensorType(dtype, (None, *self.input_shape[1:])), name="x")
            parameters = [Variable(TensorType(dtype, v.shape)) for v in values]
            y = self.expression(x, *parameters)
            self._passes[key] = Pass([x, *parameters], y, self.extras())
        return self._passes[key]

    def forward(self, inpt: Any, copy: bool = False) -> "BaseLayer":
        """Set `output` for a batch."""
        x = self._checked(inpt, "forward")
        values = [x, *self._values(x.dtype)]
        run = self._pass(x.dtype.name, values[1:])
        self.output, extras, kept = run.forward(values)
        self._took(extras)
        self._last = run, values, kept
        self.delta = np.zeros_like(self.output)
        return self

    def backward(self, delta: np.ndarray | None = None, copy: bool = False) -> "BaseLayer":
        """Add dLoss / dInput to the buffer `delta`, and set the gradients of the parameters."""
        self._add(self._gradient(), delta)
        return self

    def _gradient(self, inpt: Any = None) -> np.ndarray:
        """dLoss / dInput; the parameters' gradients are set beside."""
        if self._last is None:
            raise NotFittedError(f"{type(self).__name__}: call forward before backward")
        run, values, kept = self._last
        if inpt is not None:
            x = self._checked(inpt, "backward").astype(values[0].dtype, copy=False)
            values = [x, *values[1:]]
        upstream = np.asarray(self.delta, self.output.dtype).reshape(self.output.shape)
        gradient, *updates = run.backward(values, kept, upstream)
        names = [(part, name) for part in self.parts() for name in part.parameters]
        for (part, name), value in zip(names, updates):
            setattr(part, f"{name}_update", value)
        return gradient

    def _add(self, gradient: np.ndarray, delta: np.ndarray | None) -> None:
        if delta is None:
            return
        if delta.shape != gradient.shape:
            raise ShapeError(
                f"{type(self).__name__}.backward: the buffer has shape {delta.shape}; expected {gradient.shape}"
            )
        delta += gradient

    def _checked(self, inpt: Any, what: str) -> np.ndarray:
        if self.input_shape is None:
            raise LayerError(f"{type(self).__name__} doesn't know its shape: give input_shape, or add it to a network")
        x = as_floats(inpt)
        if x.shape[1:] != self.input_shape[1:] and not self._reshapes(x):
            raise ShapeError(
                f"{type(self).__name__}.{what}: expected (batch, {', '.join(map(str, self.input_shape[1:]))}), "
                f"got {x.shape}"
            )
        if len(x) < self.least_rows:
            raise ShapeError(f"{type(self).__name__}.{what}: takes {self.least_rows} rows or more, got {len(x)}")
        return x.reshape(-1, *self.input_shape[1:])

    def _reshapes(self, x: np.ndarray) -> bool:
        """Whether rows of another shape are taken if they hold as many numbers."""
        return False

    # --- files ------------------------------------------------------------------------------------------------------
    def save_weights(self) -> list[float]:
        """All parameters in one list."""
        return [float(v) for part in self.parts() for name in part.parameters for v in np.ravel(getattr(part, name))]

    def load_weights(self, chunck_weights: Any, pos: int = 0) -> int:
        """Take parameters from a list of all, beginning at `pos`; returns where the next layer begins."""
        chunk = np.asarray(chunck_weights, float)
        found = []
        for part in self.parts():
            for name in part.parameters:
                shape = np.shape(getattr(part, name))
                if pos + prod(shape) > len(chunk):
                    raise ShapeError(
                        f"{type(self).__name__}: {name} needs {prod(shape)} numbers from {pos} on, of {len(chunk)}"
                    )
                found.append((part, name, chunk[pos : pos + prod(shape)].reshape(shape)))
                pos += prod(shape)
        for part, name, value in found:
            setattr(part, name, value.copy())
        return pos

    # --- telling ----------------------------------------------------------------------------------------------------
    def operations(self) -> int:
        """Floating-point operations per sample, forward."""
        return 0

    def __str__(self) -> str:
        kind = type(self).__name__.removesuffix("_layer").lower()
        if self.input_shape is None:
            return kind
        before, after = (" x".join(f"{n:4d}" for n in shape) for shape in (self.input_shape, self.out_shape))
        cost = f"  {self.operations() * self.input_shape[0] / 1e9:5.3f} BFLOPs" if self.operations() else ""
        return f"{kind:<14} {before}   -> {after}{cost}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.input_shape} -> {self.out_shape}>"


class Activated(BaseLayer):
    """Base of layers with an activation."""

    def _choose(self, activation: Any) -> None:
        self._activation = find(activation, type(self).__name__)
        self.activation, self.gradient = self._activation.activate, self._activation.gradient

    def activate(self, x: Variable) -> Variable:
        return EXPRESSIONS[self._activation.key](x)


__all__ = ["Activated", "Activations", "BaseLayer", "Part", "Shape", "as_floats", "pair", "whole"]
