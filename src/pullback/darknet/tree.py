"""Word trees: files with one `name parent` per line, by which classes exclude only their siblings."""

from dataclasses import dataclass
from pathlib import Path

from ..errors import FileAccessError, FormatError
from ..nn.layers.detection import group_sizes


@dataclass(frozen=True)
class Tree:
    """Classes and their parents (-1 for the roots); siblings follow each other."""

    names: tuple[str, ...]
    parents: tuple[int, ...]

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """How many siblings there are in each group."""
        return group_sizes(self.parents)


def read_tree(path: str | Path) -> Tree:
    """The tree in a file.

    Raises:
        FileAccessError, FormatError: it can't be read; a line isn't `name parent`, or a parent comes after its child.
    """
    try:
        lines = Path(path).read_text("utf-8", "replace").split("\n")
    except (OSError, ValueError) as error:
        raise FileAccessError(f"can't read the tree {path}: {getattr(error, 'strerror', None) or error}") from None
    names, parents = [], []
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if not parts:
            continue
        try:
            name, parent = parts[0], int(parts[1])
        except (IndexError, ValueError):
            raise FormatError(f"{path}: line {number}: {line!r}; expected a name and its parent's number") from None
        if not -1 <= parent < len(names):
            raise FormatError(f"{path}: line {number}: the parent {parent} of {name!r} doesn't come before it")
        names.append(name)
        parents.append(parent)
    return Tree(tuple(names), tuple(parents))
