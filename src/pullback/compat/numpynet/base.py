"""What NumPyNet's layers have in common: shapes with the batch in front, `forward`, `backward` into the caller's buffer,
an optimizer of their own."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ... import ops
from ...compile import Function, function
from ...errors import ArgumentError, ArgumentTypeError, PullbackError, ShapeError
from ...gradient.engine import grad
from ...graph import TensorType, Variable
from ...ops import RandomStream
from .optimizers import Optimizer

Arrays = Mapping[str, np.ndarray]


class NotFittedError(PullbackError, ValueError, AttributeError):
    """Something was asked of a layer or network before `forward` or `fit`."""


class BaseLayer:
    """Base of all layers: a subclass writes `expression`, and `initial` if it has parameters.

    Attributes:
        input_shape, out_shape: (batch, w, h, c); the batch may be of another length at each call.
        output: of the last forward.
        delta: the gradient of the cost with respect to the output, to be filled in before `backward`.
        parameters, gradients: arrays by name.
        optimizer: applied by `update`; None leaves parameters alone.
    """

    def __init__(self, input_shape: tuple[int, ...] | None = None) -> None:
        self.parameters: dict[str, np.ndarray] = {}
        self.statistics: dict[str, np.ndarray] = {}
        self.gradients: dict[str, np.ndarray] = {}
        self.optimizer: Optimizer | None = None
        self.trainable = True
        self.delta: np.ndarray | None = None
        self._output: np.ndarray | None = None
        self._shape: tuple[int, ...] | None = None
        self._functions: dict[Any, Function] = {}
        self._random = RandomStream(0)
        if input_shape is not None:
            self._build(tuple(input_shape))

    # --- what a subclass says -----------------------------------------------------------------------------------------
    def initial(self, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, np.ndarray]:
        """First values of the parameters, for samples of that shape."""
        return {}

    def expression(
        self, x: Variable, parameters: Mapping[str, Variable], training: bool
    ) -> tuple[Variable, dict[str, Variable]]:
        """The output, and what statistics become."""
        raise NotImplementedError(f"{type(self).__name__} must define expression")

    # --- shapes -------------------------------------------------------------------------------------------------------
    def _build(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 4 or any(n < 1 for n in shape[1:]):
            raise ShapeError(f"{type(self).__name__}: input_shape={shape}; expected (batch, w, h, c)")
        self._shape = shape
        for name, value in self.initial(shape[1:], np.random.default_rng(0)).items():
            kept = self.statistics if name.startswith("rolling") else self.parameters
            if kept.get(name) is None:
                kept[name] = np.asarray(value, np.float32)

    def __call__(self, previous: "BaseLayer") -> "BaseLayer":
        """Take the input's shape from the layer before."""
        if previous.out_shape is None:
            raise ArgumentTypeError(f"{type(self).__name__}: the layer before has no shape yet")
        self._build(previous.out_shape)
        return self

    @property
    def input_shape(self) -> tuple[int, ...]:
        if self._shape is None:
            raise NotFittedError(f"{type(self).__name__} has no shape yet: give input_shape, or add it to a Network")
        return self._shape

    @property
    def out_shape(self) -> tuple[int, ...]:
        if self._output is not None:
            return self._output.shape
        return (self.input_shape[0], *self._outline(self.input_shape[1:]))

    def _outline(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        x = Variable(TensorType("float32", (None, *shape)), name="x")
        y, _ = self.expression(x, {k: ops.asarray(v) for k, v in self._values("float32").items()}, False)
        return y.type.shape[1:]

    @property
    def output(self) -> np.ndarray:
        if self._output is None:
            raise NotFittedError(f"{type(self).__name__}: there is no output before forward")
        return self._output

    # --- running ------------------------------------------------------------------------------------------------------
    def forward(self, inpt: np.ndarray, copy: bool = True, **options: Any) -> "BaseLayer":
        """The output for a batch; `delta` becomes zeros. `copy` is taken for compatibility: inputs are never written."""
        x = self._checked(inpt)
        if self._shape is None:
            self._build(x.shape)
        self._input = x
        self._output = self._forward(x)
        self.delta = np.zeros_like(self._output)
        return self

    def backward(self, delta: np.ndarray | None = None, *rest: Any, copy: bool = False) -> "BaseLayer":
        """Add the input's gradient to the caller's buffer, and find those of the parameters, from `self.delta`.

        Layers that are handed their input too take it first: `backward(inpt, delta)`.
        """
        if self._output is None:
            raise NotFittedError(f"{type(self).__name__}: backward needs a forward before it")
        buffer = rest[0] if rest and isinstance(rest[0], np.ndarray) else delta
        found = self._backward(np.asarray(self.delta, self._input.dtype))
        if buffer is not None and not (rest == () and buffer is self._input):
            if buffer.shape != self._input.shape:
                raise ShapeError(f"{type(self).__name__}: delta has shape {buffer.shape}; expected {self._input.shape}")
            buffer += found
        return self

    def update(self) -> "BaseLayer":
        """One step of the layer's optimizer; gradients are used up by it."""
        if self.optimizer is not None and self.trainable and self.gradients:
            names = list(self.gradients)
            new = self.optimizer.update([self.parameters[k] for k in names], [self.gradients[k] for k in names])
            self.parameters.update(zip(names, new))
        self.gradients = {}
        return self

    def _checked(self, inpt: np.ndarray) -> np.ndarray:
        x = np.asarray(inpt)
        if x.dtype not in (np.float32, np.float64):
            x = x.astype(np.float32)
        if x.ndim != 4 or (self._shape is not None and x.shape[1:] != self._shape[1:]):
            expected = "(batch, w, h, c)" if self._shape is None else f"(batch, {', '.join(map(str, self._shape[1:]))})"
            raise ShapeError(f"{type(self).__name__}: the input has shape {x.shape}; expected {expected}")
        return x

    def _values(self, dtype: str) -> dict[str, np.ndarray]:
        return {k: np.asarray(v, dtype) for k, v in (self.parameters | self.statistics).items()}

    def _function(self, kind: str, dtype: str, make: Callable[..., Function]) -> Function:
        key = (kind, dtype, self.trainable)
        if key not in self._functions:
            self._functions[key] = make(dtype)
        return self._functions[key]

    def _symbols(self, dtype: str) -> tuple[Variable, dict[str, Variable]]:
        x = Variable(TensorType(dtype, (None, *self._input.shape[1:])), name="x")
        return x, {k: Variable(TensorType(dtype, v.shape), name=k) for k, v in self._values(dtype).items()}

    def _make_forward(self, dtype: str) -> Function:
        x, parameters = self._symbols(dtype)
        self._random.draws = 0
        y, statistics = self.expression(x, parameters, self.trainable)
        outputs = [y, *statistics.values()]
        self._following = list(statistics)
        return function([x, *parameters.values()], outputs, on_unused_input="ignore", no_default_updates=True)

    def _forward(self, x: np.ndarray) -> np.ndarray:
        run = self._function("forward", x.dtype.name, self._make_forward)
        self._random.counter.set_value(self._random.counter.get_value() + 1)
        y, *statistics = run(x, *self._values(x.dtype.name).values())
        self._used = self._values(x.dtype.name)
        for name, value in zip(self._following, statistics):
            self.statistics[name] = value
        return y

    def _make_backward(self, dtype: str) -> Function:
        x, parameters = self._symbols(dtype)
        self._random.draws = 0
        y, _ = self.expression(x, parameters, self.trainable)
        g = Variable(y.type, name="delta")
        wrt = [x, *(parameters[k] for k in self.parameters)]
        found = grad(ops.sum(y * g), wrt, disconnected_inputs="ignore")
        return function([x, g, *parameters.values()], found, on_unused_input="ignore", no_default_updates=True)

    def _backward(self, delta: np.ndarray) -> np.ndarray:
        run = self._function("backward", self._input.dtype.name, self._make_backward)
        if delta.shape != self._output.shape:
            raise ShapeError(f"{type(self).__name__}: delta has shape {delta.shape}; expected {self._output.shape}")
        dx, *found = run(self._input, delta, *self._used.values())
        for name, g in zip(self.parameters, found):
            self.gradients[name] = self.gradients[name] + g if name in self.gradients else g
        return dx

    # --- NumPyNet's names ---------------------------------------------------------------------------------------------
    def __str__(self) -> str:
        shapes = " -> ".join(" x ".join(map(str, s)) for s in (self.input_shape, self.out_shape))
        return f"{type(self).__name__.removesuffix('_layer').lower():<14}{shapes}"

    @property
    def weights(self) -> np.ndarray | None:
        return self.parameters.get("weights")

    @property
    def bias(self) -> np.ndarray | None:
        return self.parameters.get("bias")

    @property
    def weights_update(self) -> np.ndarray | None:
        return self.gradients.get("weights")

    @property
    def bias_update(self) -> np.ndarray | None:
        return self.gradients.get("bias")

    def load_weights(self, chunk_weights: np.ndarray, pos: int = 0) -> int:
        """Fill the parameters from an array of numbers, beginning at `pos`; gives where they end."""
        for name, value in self.parameters.items():
            part = np.asarray(chunk_weights[pos : pos + value.size])
            if part.size != value.size:
                raise ArgumentError(f"{type(self).__name__}: {name} needs {value.size} numbers, {part.size} are left")
            self.parameters[name] = part.reshape(value.shape).astype(value.dtype)
            pos += value.size
        return pos

    def save_weights(self) -> list[float]:
        """All parameters' numbers."""
        return [float(v) for value in self.parameters.values() for v in value.ravel()]
