"""Tables of named columns from CSV files, data frames and dicts, with the kind of each column found by looking at
it."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, FileAccessError, FormatError, ShapeError, UnknownNameError, nearest

MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}
KINDS = ("number", "date", "category")


@dataclass(frozen=True, eq=False)
class Column:
    """One column.

    Attributes:
        kind: "number" (values are float64, NaN where missing), "date" (days since 1970 as float64, NaN where missing)
            or "category" (values are strings, None where missing).
    """

    name: str
    kind: str
    values: np.ndarray

    @property
    def missing(self) -> np.ndarray:
        """Where there is no value."""
        return np.equal(self.values, None) if self.kind == "category" else np.isnan(self.values)


class Table:
    """Columns of equal length, by name and in order."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = {c.name: c for c in columns}
        if len(self.columns) != len(columns):
            names = [c.name for c in columns]
            double = next(n for n in names if names.count(n) > 1)
            raise FormatError(f"two columns are named {double!r}; rename one")
        lengths = {len(c.values) for c in columns}
        if len(lengths) > 1:
            raise ShapeError(f"columns have different lengths: { {c.name: len(c.values) for c in columns} }")
        self.rows = lengths.pop() if lengths else 0

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns.values())

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise UnknownNameError(f"the table has no column {name!r}. {nearest(name, self.columns)}")
        return self.columns[name]

    def take(self, rows: np.ndarray) -> "Table":
        """The table of those rows (numbers, or a mask)."""
        return Table([Column(c.name, c.kind, c.values[rows]) for c in self])

    def without(self, name: str) -> "Table":
        """The table without one column."""
        self[name]
        return Table([c for c in self if c.name != name])


def read_table(source: Any, kinds: Mapping[str, str] | None = None) -> Table:
    """A table from a CSV or TSV file, a data frame (pandas, polars), or a dict of columns.

    A file's delimiter (comma, semicolon, tab or bar) is found by looking; its first line holds the names. A column is a
    number if all its values are, a date if all are ISO dates, else a category. Missing are empty cells, NA, N/A, NaN,
    null, none, ? and -.

    Args:
        kinds: {column: "number" | "date" | "category"} for columns whose kind shall not be found by looking; values
            that can't be of that kind count as missing.

    Raises:
        FileAccessError, FormatError: the file can't be read, or a line has too many or too few cells (the message says
            which).
    """
    raw = _read_file(Path(source)) if isinstance(source, (str, Path)) else _read_frame(source)
    kinds = dict(kinds or {})
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise ArgumentError(f"column {name!r}: kind {kind!r}; expected one of {KINDS}")
    return Table([_column(name, cells, kinds.get(name)) for name, cells in raw])


def _read_file(path: Path) -> list[tuple[str, list[Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileAccessError(f"can't read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path} is no text file in UTF-8: byte {error.start} is {error.object[error.start]:#x}"
        ) from None
    head = text[: text.find("\n") if "\n" in text else None]
    delimiter = max(",;\t|", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    lines = ((reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells))
    try:
        number, names = next(lines)
        names = [name.strip() or f"column {i + 1}" for i, name in enumerate(names)]
        rows = []
        for number, cells in lines:
            if len(cells) != len(names):
                raise FormatError(
                    f"{path}, line {number}: {len(cells)} cells, but the first line names {len(names)} columns"
                )
            rows.append(cells)
    except StopIteration:
        raise FormatError(f"{path} is empty; expected a line of column names and rows below it") from None
    except csv.Error as error:
        raise FormatError(f"{path}, line {reader.line_num}: {error}") from None
    if not rows:
        raise FormatError(f"{path} has column names ({', '.join(names)}), but no rows")
    return list(zip(names, map(list, zip(*rows))))


def _read_frame(frame: Any) -> list[tuple[str, list[Any]]]:
    names = list(frame) if isinstance(frame, Mapping) else list(getattr(frame, "columns", ()))
    if not names:
        raise ArgumentError(f"expected a CSV file, a data frame or a dict of columns, got {type(frame).__name__}")
    return [(str(name), list(frame[name])) for name in names]


def _column(name: str, cells: list[Any], kind: str | None) -> Column:
    values = [_plain(cell) for cell in cells]
    readers = {"number": _number, "date": _date}
    for candidate in [kind] if kind else KINDS:
        if candidate == "category":
            break
        parsed = [None if v is None else readers[candidate](v) for v in values]
        given = sum(v is not None for v in values)
        if kind or (given and given == sum(p is not None for p in parsed)):
            return Column(name, candidate, np.array([math.nan if p is None else p for p in parsed], np.float64))
    texts = np.empty(len(values), object)
    texts[:] = [None if v is None else text_of(v) for v in values]
    return Column(name, "category", texts)


def _plain(cell: Any) -> Any:
    """A cell without its outer blanks, or None if it is missing."""
    if cell is None or type(cell).__name__ == "NAType" or cell != cell:  # NaN and NaT differ from themselves
        return None
    if isinstance(cell, str):
        cell = cell.strip()
        return None if cell.lower() in MISSING else cell
    return cell


def _number(value: Any) -> float | None:
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _date(value: Any) -> float | None:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[s]").item()
    if isinstance(value, str):
        if len(value) < len("2000-01-01") or value[4] != "-":
            return None
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not hasattr(value, "year"):
        return None
    hours = (getattr(value, "hour", 0) + getattr(value, "minute", 0) / 60) / 24
    return value.toordinal() - datetime(1970, 1, 1).toordinal() + hours


def text_of(value: Any) -> str:
    """The text of a category; a whole number reads the same whether it came as 3, 3.0 or "3"."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    return str(value)
