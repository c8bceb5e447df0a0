"""NumPyNet's `Network`: layers trained one after the other, each by its own optimizer."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError, IndexRangeError, ShapeError
from .base import BaseLayer, NotFittedError
from .layers import Input_layer, Loss_layer, Route_layer, Shortcut_layer
from .optimizers import SGD, Optimizer


class Network:
    """Layers in a row; Route and Shortcut refer to earlier ones.

    Args:
        batch: samples per step.
        input_shape: (w, h, c) of a sample.
        train: whether layers behave as in training within `fit`.

    Example:
        net = Network(batch=32, input_shape=(28, 28, 1))
        net.add(Convolutional_layer(filters=16, size=3, activation="Relu"))
        net.add(Connected_layer(outputs=10))
        net.add(Softmax_layer())
        net.compile(optimizer=Adam(lr=1e-3), metrics=[mean_accuracy_score])
        net.fit(X, y, max_iter=5)
    """

    def __init__(self, batch: int, input_shape: tuple[int, int, int] | None = None, train: bool | None = None) -> None:
        if batch < 1:
            raise ArgumentError(f"Network: batch={batch}; expected 1 or more")
        self.batch, self.train = int(batch), train
        self.metrics: list[Callable[[np.ndarray, np.ndarray], float]] = []
        self.layers: list[BaseLayer] = []
        self._fitted = False
        if input_shape is not None:
            if len(input_shape) != 3:
                raise ShapeError(f"Network: input_shape={input_shape}; expected (w, h, c)")
            self.layers.append(Input_layer((self.batch, *input_shape)))

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[BaseLayer]:
        return iter(self.layers)

    def __getitem__(self, i: int) -> BaseLayer:
        """Layer i, from 0, the input included; negative from the end."""
        if not -len(self.layers) <= i < len(self.layers):
            raise IndexRangeError(f"there is no layer {i}: the network has {len(self.layers)}")
        return self.layers[i]

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self[0].input_shape

    @property
    def out_shape(self) -> tuple[int, ...]:
        return self[-1].out_shape

    def add(self, layer: BaseLayer) -> "Network":
        """Put a layer behind the others; it takes its shape from them."""
        if not isinstance(layer, BaseLayer):
            raise ArgumentTypeError(f"Network.add: {layer!r} is no layer")
        if not self.layers and not isinstance(layer, Input_layer):
            raise ArgumentError("Network.add: the first layer is an Input_layer, or give input_shape to the Network")
        if isinstance(layer, Route_layer):
            layer.input_layers = tuple(self._index(i) for i in layer.input_layers)
            layer([self[i] for i in layer.input_layers])
        elif isinstance(layer, Shortcut_layer):
            layer.index = self._index(layer.index)
            layer([self[-1], self[layer.index]])
        elif not isinstance(layer, Input_layer):
            layer(self[-1])
        self.layers.append(layer)
        return self

    def _index(self, i: int) -> int:
        """The number of a layer that the next one refers to, negative ones counted back from it."""
        found = i if i >= 0 else len(self.layers) + i
        if not 0 <= found < len(self.layers):
            raise IndexRangeError(f"it refers to layer {i}, but there are only layers 0 to {len(self.layers) - 1}")
        return found

    def compile(self, optimizer: Optimizer | None = None, metrics: Sequence[Callable[..., float]] = ()) -> "Network":
        """Give every layer an optimizer of its own. Metrics take (truth, output)."""
        self.metrics = list(metrics)
        for layer in self.layers:
            layer.optimizer = (SGD() if optimizer is None else optimizer).copy()
        return self

    # --- training -----------------------------------------------------------------------------------------------------
    def _forward(self, X: np.ndarray, truth: np.ndarray | None, training: bool) -> np.ndarray:
        value = X
        for layer in self.layers:
            if layer.trainable != training:
                layer.trainable = training
            if isinstance(layer, Route_layer):
                layer.forward(self)
            elif isinstance(layer, Shortcut_layer):
                layer.forward(value, self[layer.index].output)
            elif isinstance(layer, Loss_layer) and layer is self._judge():
                layer.forward(value, truth)
            else:
                layer.forward(value)
            value = layer.output
        return value

    def _judge(self) -> Loss_layer | None:
        """The layer that compares with the truth: the last one that can."""
        return next((layer for layer in reversed(self.layers) if isinstance(layer, Loss_layer)), None)

    def _backward(self) -> None:
        judge = self._judge()
        for i in range(self.layers.index(judge), 0, -1):
            layer, before = self[i], self[i - 1]
            if isinstance(layer, Route_layer):
                layer.backward(network=self)
            elif isinstance(layer, Shortcut_layer):
                layer.backward(before.delta, self[layer.index].delta)
            else:
                layer.backward(before.delta)
        for layer in self.layers:
            layer.update()

    def fit(self, X: Any, y: Any, max_iter: int = 100, shuffle: bool = True, verbose: bool = True) -> "Network":
        """Train for `max_iter` passes over all samples; the last batch of a pass may be smaller.

        Args:
            X: (samples, w, h, c).
            y: truths with as many numbers per sample as come out.
        """
        judge = self._judge()
        if judge is None:
            raise ArgumentError("fit: no layer has a cost: add a Cost_layer, Softmax_layer or Logistic_layer")
        X, y = np.asarray(X), np.asarray(y)
        if len(X) != len(y) or not len(X):
            raise ShapeError(f"fit: {len(X)} samples, but {len(y)} truths")
        if all(layer.optimizer is None for layer in self.layers):
            self.compile()
        rng = np.random.default_rng(0)
        for iteration in range(max_iter):
            order = rng.permutation(len(X)) if shuffle else np.arange(len(X))
            total = 0.0
            for start in range(0, len(X), self.batch):
                rows = order[start : start + self.batch]
                output = self._forward(X[rows], y[rows], self.train is not False)
                total += judge.cost
                self._backward()
            self._fitted = True
            if verbose:
                scores = "".join(f"  {m.__name__} {m(y[rows], output):.4f}" for m in self.metrics)
                print(f"{iteration + 1}/{max_iter}  loss {total / -(-len(X) // self.batch):.4f}{scores}")
        return self

    def fit_generator(self, train_generator: Any, max_iter: int = 100, verbose: bool = True) -> "Network":
        """As `fit`, one pass over what `train_generator.load_data()` or the iterator gives: (X, y) at a time."""
        for iteration in range(max_iter):
            data = train_generator.load_data() if hasattr(train_generator, "load_data") else next(train_generator)
            self.fit(data[0], data[1], 1, True, False)
            if verbose:
                print(f"{iteration + 1}/{max_iter}  loss {self._judge().cost:.4f}")
        return self

    def predict(self, X: Any, truth: Any = None, verbose: bool = False) -> np.ndarray:
        """The last layer's output for any number of samples, with dropout off and running statistics.

        Raises:
            NotFittedError: before `fit`.
        """
        if not self._fitted:
            raise NotFittedError("predict: the network isn't fitted: call fit first")
        return self.evaluate(X, truth)[1]

    def evaluate(self, X: Any, truth: Any = None, verbose: bool = False) -> tuple[float, np.ndarray]:
        """(the mean of the batches' costs, 0 without a truth; the output)."""
        X = np.asarray(X)
        judge, costs, outputs = self._judge(), [], []
        for start in range(0, len(X), self.batch):
            rows = slice(start, start + self.batch)
            outputs.append(self._forward(X[rows], None if truth is None else np.asarray(truth)[rows], False))
            costs.append(judge.cost if judge is not None and truth is not None else 0.0)
        return float(np.mean(costs)), np.concatenate(outputs)

    def summary(self) -> None:
        """Print a line per layer."""
        print("layer         input -> output")
        for i, layer in enumerate(self.layers):
            print(f"{i:>3} {layer}")


Model = Network


def mean_accuracy_score(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """The share of samples whose largest number stands at the same place."""
    a, b = (np.asarray(v).reshape(len(v), -1).argmax(axis=1) for v in (y_true, y_pred))
    return float(np.mean(a == b))


def _difference(y_true: np.ndarray, y_pred: np.ndarray) -> np.ndarray:
    return np.asarray(y_true).reshape(len(y_true), -1) - np.asarray(y_pred).reshape(len(y_pred), -1)


def mean_square_error(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """The mean of squared differences."""
    return float(np.mean(np.square(_difference(y_true, y_pred))))


def mean_absolute_error(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """The mean of absolute differences."""
    return float(np.mean(np.abs(_difference(y_true, y_pred))))


def mean_logcosh(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """The mean of log cosh of the differences."""
    e = np.abs(_difference(y_true, y_pred))
    return float(np.mean(e + np.log1p(np.exp(-2 * e)) - np.log(2)))


def mean_hellinger(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """The mean of squared differences of square roots."""
    return float(np.mean(np.square(np.sqrt(y_true) - np.sqrt(np.asarray(y_pred).reshape(np.shape(y_true))))))


def mean_iou_score(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """The mean over classes of intersection over union, of class numbers."""
    a, b = np.asarray(y_true).ravel(), np.asarray(y_pred).ravel()
    scores = [np.sum((a == c) & (b == c)) / np.sum((a == c) | (b == c)) for c in np.union1d(a, b)]
    return float(np.mean(scores))
