"""Find out what kind of data a folder holds, and run it case by case."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from . import cases, golden
from .outcome import Outcome

# modules whose functions are the tests of custom cases
CUSTOM_TESTS = ("tests.conformance.custom", "tests.conformance.custom_darknet")


def run_folder(
    folder: Path, backends: Sequence[str], only: Sequence[str] | None = None, without: Sequence[str] = ()
) -> Iterator[Outcome]:
    """Outcomes of every case in `folder`, of the families `only` if given.

    Raises:
        FileNotFoundError: the folder holds neither a manifest.json nor a cases.json.
    """
    folder = folder.parent if folder.is_file() else folder
    known = False
    if (folder / cases.FILE).exists():
        known = True
        for case in cases.load(folder):
            if wanted({case["id"], case["category"]}, only, without):
                yield cases.run(case, backends, custom_tests())
    if (folder / golden.FILE).exists():
        known = True
        vectors = golden.Golden(folder)
        for case in vectors.cases:
            if wanted({case["id"], case["family"], case["op"]}, only, without):
                yield golden.run(vectors, case, backends)
    if not known:
        raise FileNotFoundError(f"{folder} holds neither {golden.FILE} nor {cases.FILE}")


def wanted(labels: set[str], only: Sequence[str] | None, without: Sequence[str]) -> bool:
    return (only is None or not labels.isdisjoint(only)) and labels.isdisjoint(without)


@cache
def custom_tests() -> dict[str, Callable[..., None]]:
    """Tests of custom cases by name: `test_<case id>(case, backend)`."""
    found: dict[str, Callable[..., None]] = {}
    for name in CUSTOM_TESTS:
        module = importlib.import_module(name)
        found |= {key: value for key, value in vars(module).items() if key.startswith("test_")}
    return found
