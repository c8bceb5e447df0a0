"""NumPyNet's recurrent layers. Rows of the batch are steps of time.

RNN takes steps * n rows as n sequences, step by step. The others slide a window of `steps` rows over the batch and
start each window from zeros.
"""

from math import prod
from typing import Any

import numpy as np

from ... import ops
from ...control import gru, lstm, rnn, scan
from ...graph import Variable
from .activations import Activations
from .base import Activated, BaseLayer, Part, Shape, whole
from .layers import expect


class Product(Part):
    """One of the products inside a layer: `weights` (inputs, outputs) and `bias` (outputs,)."""

    parameters = ("bias", "weights")

    def __init__(self, inputs: int, outputs: int, weights: Any = None, bias: Any = None) -> None:
        bound = np.sqrt(2 / inputs)
        self.weights = np.random.uniform(-bound, bound, (inputs, outputs)) if weights is None else np.array(weights)
        self.bias = np.zeros(outputs) if bias is None else np.array(bias)
        self.weights_update = self.bias_update = None
        expect(self, weights=(inputs, outputs), bias=(outputs,))


class Recurrent(BaseLayer):
    """Base of all.

    Args:
        outputs: how many numbers the state has.
        steps: how many rows a sequence has.
    """

    takes_input = True

    def __init__(self, outputs: int, steps: int, input_shape: Shape | None = None, **kwargs: Any) -> None:
        whole(self, outputs=outputs, steps=steps)
        self.outputs, self.steps = outputs, steps
        super().__init__(input_shape, **kwargs)

    @property
    def features(self) -> int:
        return prod(self.input_shape[1:])

    @property
    def least_rows(self) -> int:
        return self.steps

    def shape_out(self, shape):
        return 1, 1, self.outputs

    def flat(self, x: Variable) -> Variable:
        return ops.reshape(x, (-1, self.features))

    def windows(self, x: Variable, count: Variable) -> Variable:
        """(steps, count, features): step by step, the rows that each window sees."""
        rows = ops.expand_dims(ops.arange(self.steps), 1) + ops.arange(count)
        return self.flat(x)[rows]

    def backward(self, inpt, delta=None, copy=False):
        """Add dLoss / dInput to the buffer `delta`; `inpt` is what went forward."""
        self._add(self._gradient(inpt), delta)
        return self

    def operations(self):
        return 2 * self.steps * sum(part.weights.size for part in self.parts() if isinstance(part, Product))

    def update(self):
        for part in self.parts():
            Part.update(part)
        return self


class SimpleRNN_layer(Recurrent, Activated):
    """s_t = activation(x_t W + s_{t-1} U + b) over each of the b - steps windows that a row follows. Out come the last
    states, or all of a window side by side with `return_sequence`.

    Args:
        weights, recurrent_weights, bias: first values of W, U, b; by default normal of variance 2 / inputs and
            2 / outputs, and zeros.
    """

    parameters = ("bias", "weights", "recurrent_weights")

    def __init__(
        self, outputs: int, steps: int, activation: Any = Activations, input_shape: Shape | None = None,
        weights: Any = None, recurrent_weights: Any = None, bias: Any = None, return_sequence: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        self._choose(activation)
        self.weights, self.recurrent_weights, self.bias = weights, recurrent_weights, bias
        self.return_sequence = return_sequence
        super().__init__(outputs, steps, input_shape, **kwargs)

    def _build(self):
        n, m = self.features, self.outputs
        if self.weights is None:
            self.weights = np.random.normal(0.0, np.sqrt(2 / n), (n, m))
        if self.recurrent_weights is None:
            self.recurrent_weights = np.random.normal(0.0, np.sqrt(2 / m), (m, m))
        self.bias = np.zeros(m) if self.bias is None else self.bias
        expect(self, weights=(n, m), recurrent_weights=(m, m), bias=(m,))

    @property
    def least_rows(self):
        return self.steps + 1

    def rows_out(self, rows):
        return rows - self.steps

    def shape_out(self, shape):
        return 1, 1, self.outputs * (self.steps if self.return_sequence else 1)

    def expression(self, x, bias, weights, recurrent_weights):
        windows = self.windows(x, ops.length(x, 0) - self.steps)
        states, last = rnn(windows, weights, recurrent_weights, bias, activation=self.activate)
        y = ops.swapaxes(states, 0, 1) if self.return_sequence else last
        return ops.reshape(y, (-1, *self.shape_out(self.input_shape[1:])))

    def operations(self):
        return 2 * self.steps * (self.weights.size + self.recurrent_weights.size)


class RNN_layer(Recurrent, Activated):
    """s_t = f(x_t W + b) + f(s_{t-1} U + c), y_t = f(s_t V + d), from a state of zeros; the batch's rows are steps * n,
    step by step.

    Args:
        weights, bias: three first values each, of `input_layer` (W, b), `self_layer` (U, c) and `output_layer` (V, d).
    """

    def __init__(
        self, outputs: int, steps: int, activation: Any = Activations, input_shape: Shape | None = None,
        weights: Any = None, bias: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        self._choose(activation)
        self._first = _each(weights, 3, "weights"), _each(bias, 3, "bias")
        super().__init__(outputs, steps, input_shape, **kwargs)

    def _build(self):
        (w, u, v), (b, c, d) = self._first
        self.input_layer = Product(self.features, self.outputs, w, b)
        self.self_layer = Product(self.outputs, self.outputs, u, c)
        self.output_layer = Product(self.outputs, self.outputs, v, d)

    def parts(self):
        return [self.input_layer, self.self_layer, self.output_layer]

    def rows_out(self, rows):
        return rows // self.steps * self.steps

    def expression(self, x, b, W, c, U, d, V):
        count = ops.length(x, 0) // self.steps
        sequences = ops.reshape(self.flat(x)[: count * self.steps], (self.steps, count, self.features))
        drive = self.activate(sequences @ W + b)
        first = ops.zeros((count, self.outputs), dtype=x.dtype)
        states = scan(lambda z, s: z + self.activate(s @ U + c), drive, [first], name="rnn")
        return ops.reshape(self.activate(states @ V + d), (-1, 1, 1, self.outputs))


def _each(given: Any, count: int, what: str) -> tuple:
    if given is None:
        return (None,) * count
    if len(given) != count:
        raise ValueError(f"{what}: expected {count} arrays, got {len(given)}")
    return tuple(given)


class LSTM_layer(Recurrent):
    """An LSTM: c_t = f c_{t-1} + i g, h_t = o tanh(c_t), with f, i, o = logistic and g = tanh of x_t u + h_{t-1} w. The
    output of a row is that after it in the window that ends there; the first rows see what there is before them.

    Args:
        weights, bias: two first values each: those of all u (`uf`, `ui`, `ug`, `uo`), and those of all w.
    """

    def __init__(
        self, outputs: int, steps: int, input_shape: Shape | None = None, weights: Any = None, bias: Any = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        self._first = _each(weights, 2, "weights"), _each(bias, 2, "bias")
        super().__init__(outputs, steps, input_shape, **kwargs)

    def _build(self):
        (u, w), (a, b) = self._first
        for gate in "figo":
            setattr(self, f"u{gate}", Product(self.features, self.outputs, u, a))
            setattr(self, f"w{gate}", Product(self.outputs, self.outputs, w, b))

    def parts(self):
        return [getattr(self, source + gate) for source in "uw" for gate in "figo"]

    def expression(self, x, *parameters):
        biases, weights = parameters[::2], parameters[1::2]
        i, f, g, o = 1, 0, 2, 3  # the parts' order is f i g o, that of `lstm` i f g o
        order = [i, f, g, o]
        W, U = (ops.concatenate([part[k] for k in order], axis=1) for part in (weights[:4], weights[4:]))
        b = ops.concatenate([biases[k] + biases[k + 4] for k in order])
        h, *_ = lstm(self.windows(x, ops.length(x, 0) - self.steps + 1), W, U, b)
        y = ops.concatenate([h[: self.steps - 1, 0], h[self.steps - 1]])
        return ops.reshape(y, (-1, 1, 1, self.outputs))


class GRU_layer(Recurrent):
    """h_t = z h_{t-1} + (1 - z) tanh(x_t Wh + (r h_{t-1}) Uh + bh), z and r = logistic(x_t W + h_{t-1} U + b), over
    each of the b - steps windows that a row follows. Out come the last states.

    Args:
        weights: first values of Wz, Wr, Wh (inputs, outputs), Uz, Ur, Uh (outputs, outputs); random unless given.
        bias: of bz, br, bh; zeros unless given.
    """

    parameters = ("bz", "br", "bh", "Wz", "Wr", "Wh", "Uz", "Ur", "Uh")
    takes_input = False

    def __init__(
        self, outputs: int, steps: int, input_shape: Shape | None = None, weights: Any = None, bias: Any = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        self._first = _each(weights, 6, "weights"), _each(bias, 3, "bias")
        super().__init__(outputs, steps, input_shape, **kwargs)

    def _build(self):
        (Wz, Wr, Wh, Uz, Ur, Uh), biases = self._first
        for gate, W, U, b in zip("zrh", (Wz, Wr, Wh), (Uz, Ur, Uh), biases):
            into, again = Product(self.features, self.outputs, W, b), Product(self.outputs, self.outputs, U)
            setattr(self, f"W{gate}", into.weights)
            setattr(self, f"U{gate}", again.weights)
            setattr(self, f"b{gate}", into.bias)

    @property
    def least_rows(self):
        return self.steps + 1

    def rows_out(self, rows):
        return rows - self.steps

    def expression(self, x, bz, br, bh, Wz, Wr, Wh, Uz, Ur, Uh):
        W, U = (ops.concatenate(part, axis=1) for part in ((Wz, Wr, Wh), (Uz, Ur, Uh)))
        windows = self.windows(x, ops.length(x, 0) - self.steps)
        _, last = gru(windows, W, U, ops.concatenate([bz, br, bh]), reset="before")
        return ops.reshape(last, (-1, 1, 1, self.outputs))

    def backward(self, delta=None, copy=False):
        return BaseLayer.backward(self, delta, copy)

    def operations(self):
        return 2 * self.steps * sum(getattr(self, name).size for name in self.parameters[3:])
