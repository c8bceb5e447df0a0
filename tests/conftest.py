"""Settings of the whole test-suite: fixed seeds in an ordinary run, many draws when PULLBACK_PROVE=1 (`make prove`)."""

import os
import zlib

# Two workers share the cores: a BLAS with a thread pool of its own in each would only get in the other's way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile("fixed", derandomize=True, max_examples=20, deadline=None)
hypothesis.settings.register_profile("prove", max_examples=500, deadline=None, print_blob=True)
hypothesis.settings.load_profile("prove" if os.environ.get("PULLBACK_PROVE") == "1" else "fixed")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name only, so that tests don't disturb each other."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """NumPy's global generator, from which NumPyNet's layers draw, begins the same in every run of a test."""
    np.random.seed(zlib.crc32(request.node.nodeid.encode()))
