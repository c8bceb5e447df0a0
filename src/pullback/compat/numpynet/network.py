"""NumPyNet's Network: layers one after the other, each with its own copy of the optimizer."""

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArgumentError, FileAccessError, FormatError, ShapeError
from ...nn.checkpoint import write_file
from .base import BaseLayer
from .costs import Costing
from .exception import LayerError, MetricsError, NetworkError
from .layers import Input_layer, Route_layer, Shortcut_layer
from .optimizer import Optimizer

Metric = Callable[[np.ndarray, np.ndarray], float]
HEADER = np.array([1, 0, 0], np.int64)


class Network:
    """Layers in a row.

    Args:
        batch: rows per step of training.
        input_shape: (w, h, c); None if an Input_layer is added first.
        train: False leaves the parameters as they are in `fit`.
    """

    def __init__(self, batch: int, input_shape: Sequence[int] | None = None, train: bool = True) -> None:
        if not isinstance(batch, (int, np.integer)) or batch < 1:
            raise ArgumentError(f"Network: batch={batch!r}; expected a whole number from 1 up")
        self.batch, self.train = int(batch), train
        self.metrics: list[Metric] = []
        self._net: list[BaseLayer] = []
        self._fitted = False
        if input_shape is not None:
            if len(input_shape) != 3:
                raise ArgumentError(f"Network: input_shape={input_shape}; expected (w, h, c)")
            self.add(Input_layer((self.batch, *input_shape)))

    # --- building -----------------------------------------------------------------------------------------------------
    def add(self, layer: BaseLayer) -> "Network":
        """Put a layer behind the others."""
        if not isinstance(layer, BaseLayer):
            raise LayerError(f"Network.add: {layer!r} is no layer")
        if isinstance(layer, Input_layer):
            if self._net:
                raise LayerError("Network.add: the Input_layer comes first, and once")
        elif not self._net:
            raise LayerError("Network.add: give the network an input_shape, or add an Input_layer first")
        elif isinstance(layer, Route_layer):
            layer([self[i] for i in layer.input_layers])
        elif isinstance(layer, Shortcut_layer):
            if layer.layer is None:
                raise LayerError("Shortcut_layer: in a network say which layer is added: layer=-3")
            layer([self[-1], self._other(layer, self.num_layers)])
        else:
            layer(self[-1])
        self._net.append(layer)
        return self

    def _other(self, layer: Shortcut_layer, here: int) -> BaseLayer:
        return self[layer.layer + here if layer.layer < 0 else layer.layer]

    def compile(self, optimizer: Optimizer, metrics: Sequence[Metric] | None = None) -> None:
        """Give each part of each layer a copy of the optimizer; say which functions of (y_true, y_pred) are printed."""
        optimizer = optimizer() if isinstance(optimizer, type) else optimizer
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"compile: {optimizer!r} is no optimizer")
        for metric in metrics or ():
            if not callable(metric):
                raise MetricsError(f"compile: {metric!r} is no function")
            parameters = inspect.signature(metric).parameters.values()
            if sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters) != 2:
                raise MetricsError(
                    f"compile: {metric.__name__} must take (y_true, y_pred) and no more without a default"
                )
        for layer in self._net:
            for part in layer.parts():
                part.optimizer = copy(optimizer)
        self.metrics = list(metrics or ())

    # --- running ------------------------------------------------------------------------------------------------------
    def _forward(self, X: np.ndarray, truth: np.ndarray | None = None, trainable: bool = True) -> np.ndarray:
        """The output for a batch, layer by layer; the last layer that computes a cost is given the truth."""
        y, costing = X, self._costing
        for i, layer in enumerate(self._net):
            layer.training = trainable
            if isinstance(layer, Route_layer):
                layer.forward(self)
            elif isinstance(layer, Shortcut_layer):
                layer.forward(y, self._other(layer, i).output)
            elif layer is costing:
                layer.forward(y, truth)
            else:
                layer.forward(y)
            y = layer.output
        return y

    def _backward(self) -> None:
        """The gradient of the last cost, into every layer; then, unless `train` is False, a step of every optimizer."""
        for i in range(self.num_layers - 1, 0, -1):
            layer, before = self._net[i], self._net[i - 1]
            if isinstance(layer, Route_layer):
                layer.backward(network=self)
            elif isinstance(layer, Shortcut_layer):
                layer.backward(before.delta, self._other(layer, i).delta)
            elif layer.takes_input:
                layer.backward(before.output, before.delta)
            else:
                layer.backward(before.delta)
        for layer in self._net if self.train else ():
            if layer.parts():
                layer.update()

    @property
    def _costing(self) -> Costing | None:
        """The last layer that computes a cost."""
        return next((layer for layer in reversed(self._net) if isinstance(layer, Costing)), None)

    def _get_loss(self) -> float | None:
        """The cost of the last batch."""
        return None if self._costing is None else self._costing.cost

    def _summed_cost(self, rows: int) -> float:
        """The cost of the last batch, counted per sample and summed."""
        layer = self._costing
        return 0.0 if layer is None else float(np.sum(layer.cost)) * (rows if layer.per_number else 1)

    def fit(self, X: Any, y: Any, max_iter: int = 100, shuffle: bool = True, verbose: bool = True) -> "Network":
        """Train for `max_iter` epochs, in batches of `batch` rows; all rows are used, the last batch may be shorter.

        The loss that is printed is the mean over the samples of an epoch.
        """
        X, y = np.asarray(X), np.asarray(y)
        if len(X) != len(y):
            raise ShapeError(f"fit: X has {len(X)} rows, y {len(y)}")
        if self._costing is None:
            raise NetworkError("fit: no layer computes a cost: add a Cost_layer, Softmax_layer or Logistic_layer")
        if self.train and any(part.optimizer is None for layer in self._net for part in layer.parts()):
            raise NetworkError("fit: call compile with an optimizer first")
        least = max(layer.least_rows for layer in self._net)
        order = np.arange(len(X))
        for epoch in range(max_iter):
            start, loss, seen = time.perf_counter(), 0.0, 0
            if shuffle:
                np.random.shuffle(order)
            for first in range(0, len(X), self.batch):
                rows = order[first : first + self.batch]
                if len(rows) < least:
                    continue
                self._forward(X[rows], y[rows])
                self._backward()
                loss, seen = loss + self._summed_cost(len(rows)), seen + len(rows)
            self._fitted = True
            if verbose:
                seconds = time.perf_counter() - start
                print(f"Epoch {epoch + 1}/{max_iter}  loss: {loss / max(seen, 1):.4f}  ({seconds:.1f} s)", flush=True)
                if self.metrics:
                    predicted = self.predict(X, verbose=False)
                    print(" ".join(f" {f.__name__}: {f(y, predicted):1.3f}" for f in self.metrics), flush=True)
        return self

    def predict(self, X: Any, truth: Any = None, verbose: bool = True) -> np.ndarray:
        """The output for all rows, with layers as at predict."""
        return self._predict(X, truth, verbose)[0]

    def evaluate(self, X: Any, truth: Any, verbose: bool = False) -> tuple[float, np.ndarray]:
        """(the mean loss per sample, the output for all rows)."""
        output, loss = self._predict(X, truth, verbose)
        return loss / len(output), output

    def _predict(self, X: Any, truth: Any, verbose: bool) -> tuple[np.ndarray, float]:
        if not self._fitted:
            raise NetworkError("this network isn't fitted: call fit, or load_weights, first")
        X = np.asarray(X)
        truth = None if truth is None else np.asarray(truth)
        least = max(layer.least_rows for layer in self._net)
        start, loss, outputs = time.perf_counter(), 0.0, []
        for rows in np.array_split(np.arange(len(X)), max(len(X) // max(self.batch, least), 1)):
            outputs.append(self._forward(X[rows], None if truth is None else truth[rows], trainable=False))
            loss += 0.0 if truth is None else self._summed_cost(len(rows))
        if verbose:
            print(f"Prediction on {len(X)} samples took {time.perf_counter() - start:1.1f} sec", flush=True)
        return np.concatenate(outputs), loss

    # --- files --------------------------------------------------------------------------------------------------------
    def save_weights(self, filename: str | Path) -> "Network":
        """Write all parameters: three int64, then float64, layer by layer."""
        values = np.array([v for layer in self._net for v in layer.save_weights()], np.float64)
        write_file(Path(filename), HEADER.tobytes() + values.tobytes())
        return self

    def load_weights(self, weights_filename: str | Path) -> "Network":
        """Read what `save_weights` wrote for a network of the same layers."""
        try:
            content = Path(weights_filename).read_bytes()
        except OSError as error:
            raise FileAccessError(f"can't read {weights_filename}: {error.strerror}") from None
        size = sum(len(layer.save_weights()) for layer in self._net)
        if len(content) != HEADER.nbytes + 8 * size:
            raise FormatError(
                f"{weights_filename} has {len(content)} bytes; {size} parameters need {HEADER.nbytes + 8 * size}"
            )
        values, pos = np.frombuffer(content[HEADER.nbytes :], np.float64), 0
        for layer in self._net:
            pos = layer.load_weights(values, pos)
        self._fitted = True
        return self

    # --- telling ------------------------------------------------------------------------------------------------------
    def summary(self) -> None:
        """Print the layers and their shapes."""
        print("layer                input                       output")
        for i, layer in enumerate(self._net):
            print(f"{i:>4d} {layer}")

    @property
    def num_layers(self) -> int:
        return len(self._net)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self[0].input_shape[1:]

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self[-1].out_shape[1:]

    def __iter__(self) -> Iterator[BaseLayer]:
        return iter(self._net)

    def __getitem__(self, pos: int) -> BaseLayer:
        if not -self.num_layers <= pos < self.num_layers:
            raise LayerError(f"Network: there is no layer {pos}; it has {self.num_layers}")
        return self._net[pos]
