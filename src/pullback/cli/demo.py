"""`pullback demo`: real handwritten digits from nothing to a proved network."""

import time
from argparse import Namespace
from pathlib import Path

import numpy as np

from ..data import mnist5k, split
from ..errors import FileAccessError, MissingPackageError
from ..nn import Adam, Connected, Convolutional, Dropout, Input, MaxPool, Network, Softmax
from ..nn.schedules import OneCycle
from ..testing import CheckError
from .check import print_report

HELD_BACK = 1000
BATCH = 64


def run(options: Namespace) -> int | None:
    """Run the demo of that name."""
    if options.what == "detect":
        from .demo_detect import run

        return run(options)
    if options.what == "yolo":
        from .demo_yolo import run

        return run(options)
    return run_digits(options)


def run_digits(options: Namespace) -> int:
    """Train on 4,000 digits, test on 1,000, check the gradient, and write model, learning curve and mistakes."""
    epochs = options.epochs or 10
    folder = make_folder(options.output)
    X, y = mnist5k()
    (X, X_test), (y, y_test) = split(X, y, held_back=HELD_BACK, stratify=y, seed=options.seed)
    print(f"{len(X):,} handwritten digits of MNIST to learn from, {len(X_test):,} held back.")
    network = digits_network(options.seed)
    network.compile(Adam(OneCycle(5e-3, epochs * -(-len(X) // BATCH))), "cross_entropy", ["accuracy"])
    network.summary()

    begin = time.perf_counter()
    history = network.fit(X, y, epochs=epochs, batch_size=BATCH, validation_data=(X_test, y_test))
    seconds = time.perf_counter() - begin
    probabilities = network.predict(X_test)
    accuracy = float(np.mean(probabilities.argmax(axis=1) == y_test))

    network.save(folder / "model.safetensors")
    if len(history):
        history.plot(folder / "learning-curve.png")
    plot_mistakes(X_test, y_test, probabilities, folder / "mistakes.png")

    print("\nThe gradient of the trained network against differences, in float64:")
    try:
        report = network.check_gradients(X, y, seed=options.seed)
    except CheckError as error:
        report = error.report
    print_report(report)
    print(
        f"Wrote {', '.join(str(folder / name) for name in ('model.safetensors', 'learning-curve.png', 'mistakes.png'))}"
    )
    print(
        f"Held-out accuracy {accuracy:.4f} after {seconds:.1f} s of training (compilation included); "
        f"largest relative error of the gradient {report.largest(1):.1e}."
    )
    return 0 if report.right else 3


def make_folder(name: str) -> Path:
    """The folder for the results; refused now if it can't be written or the pictures can't be drawn."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except OSError as error:
        raise FileAccessError(f"can't write into {folder}: {error.strerror}") from None
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingPackageError("the pictures need matplotlib: pip install 'pullback[plot]'") from None
    return folder


def digits_network(seed: int) -> Network:
    """Two convolutions, two connected layers."""
    return Network(
        [
            Input((28, 28, 1)),
            Convolutional(16, 5, activation="relu"),
            MaxPool(2),
            Convolutional(48, 5, activation="relu"),
            MaxPool(2),
            Dropout(0.4),
            Connected(128, activation="relu"),
            Dropout(0.5),
            Connected(10),
            Softmax(),
        ],
        seed=seed,
        name="digits",
    )


def plot_mistakes(X: np.ndarray, y: np.ndarray, probabilities: np.ndarray, path: Path, most: int = 20) -> None:
    """Draw the wrongly classified images that the network was surest of."""
    from matplotlib.figure import Figure

    said = probabilities.argmax(axis=1)
    wrong = np.flatnonzero(said != y)
    worst = wrong[np.argsort(-probabilities[wrong, said[wrong]])][:most]
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    figure.suptitle(f"The {len(worst)} surest of {len(wrong)} mistakes on {len(y):,} digits")
    for axes, i in zip(figure.subplots(4, 5).flat, [*worst, *[None] * (most - len(worst))]):
        axes.axis("off")
        if i is not None:
            axes.imshow(X[i, :, :, 0], cmap="gray_r")
            axes.set_title(f"a {y[i]}, seen as {said[i]} ({probabilities[i, said[i]]:.0%})", fontsize=9)
    figure.savefig(path, dpi=120)
