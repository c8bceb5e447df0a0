"""Installed size: `python -m benchmarks.sizes PACKAGE` in a library's own interpreter prints it, in MB."""

import importlib.metadata as metadata
import importlib.util
import json
import re
import sys
from pathlib import Path


def distribution_of(package: str) -> metadata.Distribution:
    """The distribution that brings an importable package."""
    try:
        return metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return metadata.distribution(metadata.packages_distributions()[package][0])


def with_dependencies(first: metadata.Distribution) -> list[metadata.Distribution]:
    """All installed distributions that it needs, extras left out."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [first]
    while waiting:
        distribution = waiting.pop()
        if distribution.name in found:
            continue
        found[distribution.name] = distribution
        for requirement in distribution.requires or ():
            if "extra ==" not in requirement:
                try:
                    waiting.append(metadata.distribution(re.match(r"[\w.-]+", requirement)[0]))
                except metadata.PackageNotFoundError:
                    pass  # for another system or Python
    return list(found.values())


def size_of(distribution: metadata.Distribution) -> int:
    """Bytes of its files; of the source tree, where it is installed as editable."""
    files = [Path(distribution.locate_file(f)) for f in distribution.files or ()]
    if "editable" in (distribution.read_text("direct_url.json") or ""):
        (folder,) = importlib.util.find_spec(distribution.name).submodule_search_locations
        files += Path(folder).rglob("*")
    return sum(f.stat().st_size for f in files if f.is_file())


def installed_mb(package: str) -> float:
    return sum(map(size_of, with_dependencies(distribution_of(package)))) / 1e6


if __name__ == "__main__":
    print(json.dumps(installed_mb(sys.argv[1])))
