"""`pullback warm`: kernels are compiled before somebody waits for them."""

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator

import numpy as np

from ..codegen.cache import default_folder
from ..nn import (
    ACTIVATIONS,
    GRU,
    LSTM,
    Add,
    AvgPool,
    BatchNorm,
    Bidirectional,
    Connected,
    Convolutional,
    Dropout,
    Embedding,
    Input,
    Lambda,
    Layer,
    LayerNorm,
    MaxPool,
    MultiHeadAttention,
    Network,
    Residual,
    Shortcut,
    SimpleRNN,
    Softmax,
)
from ..nn.optimizers import OPTIMIZERS
from .sources import find_network

ROWS = (4, 1)  # of the batches that each network is tried on
Task = tuple[str, Callable[[], Network]]


def run(options: Namespace) -> None:
    """Train and run each network for one step, so that its kernels are compiled and kept."""
    from rich.progress import Progress

    tasks = [(name, lambda name=name: find_network(name)) for name in options.networks] or list(common())
    before, begin = compiled(), time.perf_counter()
    with Progress(transient=True, disable=not sys.stdout.isatty()) as progress:
        bar = progress.add_task("", total=len(tasks))
        for name, make in tasks:
            progress.update(bar, description=name)
            exercise(make())
            progress.advance(bar)
    seconds = time.perf_counter() - begin
    print(
        f"{len(tasks)} networks in {seconds:.1f} s: {compiled() - before} kernels compiled, {compiled()} in "
        f"{default_folder()}"
    )


def compiled() -> int:
    """How many kernels are kept."""
    return len(list(default_folder().glob("*.o")))


def exercise(network: Network) -> None:
    """One step of training and one of prediction, on random numbers."""
    if network.recipe is None:
        losses = ["cross_entropy" if isinstance(node.layer, Softmax) else "mse" for node in network.outputs]
        network.compile("adam", losses)
    rng = np.random.default_rng(0)
    for rows in ROWS:
        X = [example(node.output.shape, node.output.dtype, rows, rng) for node in network.inputs]
        y = [loss.example(node.output, rows, rng) for loss, node in zip(network.recipe.losses, network.outputs)]
        X, y = (X if len(X) > 1 else X[0]), (y if len(y) > 1 else y[0])
        network.train_on_batch(X, y)
        network.evaluate(X, y)
        network.predict(X)


def example(shape: tuple[int | None, ...], dtype: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Random rows for an Input layer; 8 stands for unknown lengths."""
    shape = (rows, *(8 if n is None else n for n in shape))
    return rng.normal(size=shape).astype(dtype) if np.dtype(dtype).kind == "f" else np.zeros(shape, dtype)


def common() -> Iterator[Task]:
    """Small networks of the kinds that are usual: kernels serve all sizes."""

    def task(name: str, *layers: Layer, optimizer: str = "adam") -> Task:
        def make() -> Network:
            network = Network(layers, name=name)
            classes = isinstance(layers[-1], Softmax)
            loss, metrics = ("cross_entropy", ["accuracy"]) if classes else ("mse", ["r2"])
            network.compile(optimizer, loss, metrics)
            return network

        return name, make

    head = Connected(3), Softmax()
    for optimizer in OPTIMIZERS:
        yield task(f"table, {optimizer}", Input(5), Connected(8, activation="silu"), *head, optimizer=optimizer)
    for name in ACTIVATIONS:
        yield task(f"table, {name}", Input(5), Connected(8, activation=name), Dropout(0.1), Connected(1))
        yield task(f"images, {name}", Input((9, 9, 1)), Convolutional(8, 3, activation=name), MaxPool(2), *head)
    for name in ("relu", "leaky", "silu"):
        block = Convolutional(8, 3, padding="same", batch_normalize=True, activation=name)
        yield task(f"residual, {name}", Input((9, 9, 3)), block, block, Shortcut(-2), AvgPool(), *head)
    grouped = Convolutional(8, 3, stride=2, padding=1, groups=2), BatchNorm(), AvgPool(2)
    yield task("images, grouped", Input((9, 9, 4)), *grouped, *head)
    attention = Residual((LayerNorm(), MultiHeadAttention(2, causal=True, dropout=0.1)))
    yield task("sequences", Input((None, 8)), attention, Add((0, -1)), Lambda(lambda x: x.mean(axis=1)), *head)
    for recurrent in (LSTM(8), GRU(8), SimpleRNN(8), Bidirectional(LSTM(8))):
        yield task(f"sequences, {type(recurrent).__name__}", Input((None, 4)), recurrent, *head)
    yield task("tokens", Input((None,), "int64"), Embedding(20, 8, padding=0), GRU(8), *head)
