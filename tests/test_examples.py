"""The examples in docstrings print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import pullback

MODULES = [
    "pullback",
    *(m.name for m in pkgutil.walk_packages(pullback.__path__, "pullback.") if not m.name.endswith("__main__")),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert not doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE).failed


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    modules = map(importlib.import_module, MODULES)
    assert sum(bool(test.examples) for module in modules for test in finder.find(module)) > 10
