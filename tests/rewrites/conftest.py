"""What is tested here are the rewrites: they are on, whatever the environment says."""

from collections.abc import Iterator

import pytest

import pullback as pb


@pytest.fixture(autouse=True)
def all_rewrites() -> Iterator[None]:
    with pb.config.override(rewrites="all"):
        yield
