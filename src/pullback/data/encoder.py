"""Raw rows to the numbers that a network takes, and its numbers back to raw values; both remember how, as plain
JSON."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..errors import ArgumentError, DTypeError, FormatError, UnknownNameError, nearest
from .table import Column, Table, text_of

MOST_LEVELS = 50  # of a category that get a column of their own; the rest share one
DAYS = {"year": 365.2425, "week": 7.0}


@dataclass(frozen=True)
class ColumnCode:
    """How one column becomes features.

    Attributes:
        kind: of the column, see `Column.kind`.
        fill: what stands for a missing number (the median).
        mean, scale: a number x becomes (x - mean) / scale.
        flags_missing: whether one more feature says that the value is missing.
        levels: categories with a feature of their own; a last feature stands for all others and for missing.
    """

    name: str
    kind: str
    fill: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    flags_missing: bool = False
    levels: tuple[str, ...] = ()

    def encode(self, column: Column) -> np.ndarray:
        """Features of shape (rows, width)."""
        if self.kind == "category":
            number = {level: i for i, level in enumerate(self.levels)}
            codes = np.array([number.get(v, len(number)) for v in column.values], int)
            return (codes[:, None] == np.arange(len(number) + 1)).astype(np.float32)
        filled = np.where(column.missing, self.fill, column.values)
        features = [(filled - self.mean) / self.scale]
        if self.kind == "date":
            for period in DAYS.values():
                angle = filled * (2 * np.pi / period)
                features += [np.sin(angle), np.cos(angle)]
        if self.flags_missing:
            features.append(column.missing)
        return np.stack(features, axis=1).astype(np.float32)


@dataclass(frozen=True)
class TableEncoder:
    """Features of a table: numbers standardised, categories one feature per level, dates with year and week.

    Learn it from the rows used for training only, so that nothing of the held-back rows leaks into them.

    Attributes:
        codes: one per column that is used.
        dropped: {column: why} for the others.
    """

    codes: tuple[ColumnCode, ...]
    dropped: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def learn(table: Table) -> "TableEncoder":
        """Find out from a table how to encode its columns."""
        codes, dropped = [], {}
        for column in table:
            code = _learn_column(column)
            if isinstance(code, str):
                dropped[column.name] = code
            else:
                codes.append(code)
        if not codes:
            reasons = "; ".join(f"{name}: {why}" for name, why in dropped.items())
            raise ArgumentError(f"no column is left to learn from ({reasons or 'the table has no other column'})")
        return TableEncoder(tuple(codes), dropped)

    @property
    def kinds(self) -> dict[str, str]:
        """What `read_table` needs to read other rows of the same table the same way."""
        return {code.name: code.kind for code in self.codes}

    def encode(self, table: Table) -> np.ndarray:
        """Features, float32 of shape (rows, features)."""
        absent = [code.name for code in self.codes if code.name not in table.columns]
        if absent:
            raise UnknownNameError(
                f"the rows lack the column {absent[0]!r}, which the network was trained on. "
                f"{nearest(absent[0], table.columns)}"
            )
        for code in self.codes:
            kind = table[code.name].kind
            if kind != code.kind:
                raise DTypeError(f"column {code.name!r} is a {kind} here, but was a {code.kind} in training")
        return np.concatenate([code.encode(table[code.name]) for code in self.codes], axis=1)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> "TableEncoder":
        try:
            codes = [ColumnCode(**{**code, "levels": tuple(code["levels"])}) for code in data["codes"]]
            return TableEncoder(tuple(codes), dict(data["dropped"]))
        except (KeyError, TypeError) as error:
            raise FormatError(f"not the description of a table's encoding: {error!r}") from None


def _learn_column(column: Column) -> ColumnCode | str:
    """How to encode a column, or why it is of no use."""
    present = column.values[~column.missing]
    if not len(present):
        return "all values are missing"
    if column.kind == "category":
        return _learn_category(column.name, present, has_missing=len(present) < len(column.values))
    if np.all(present == present[0]):
        return "all values are the same"
    fill = float(np.median(present))
    filled = np.where(column.missing, fill, column.values)
    return ColumnCode(
        column.name, column.kind, fill, float(filled.mean()), float(filled.std()), bool(column.missing.any())
    )


def _learn_category(name: str, present: np.ndarray, has_missing: bool) -> ColumnCode | str:
    levels, counts = np.unique(present.astype(str), return_counts=True)
    if len(levels) == 1 and not has_missing:
        return "all values are the same"
    if len(levels) > MOST_LEVELS and len(levels) > len(present) / 2:
        return "nearly every row has a value of its own, like a name or a number of a file"
    frequent = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    return ColumnCode(name, "category", levels=tuple(str(levels[i]) for i in sorted(frequent)))


@dataclass(frozen=True)
class TargetEncoder:
    """What a network shall predict, as numbers: classes counted from 0, or a standardised number.

    Attributes:
        task: "classification" or "regression".
        classes: names of the classes, in the order of their numbers.
        mean, scale: a target y becomes (y - mean) / scale.
    """

    name: str
    task: str
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    @staticmethod
    def learn(column: Column, task: str | None = None) -> "TargetEncoder":
        """Categories, and whole numbers of few different values, are classes; other numbers are regressed."""
        values = column.values[~column.missing]
        distinct = np.unique(values.astype(str) if column.kind == "category" else values)
        if len(distinct) < 2:
            raise ArgumentError(f"the target {column.name!r} has {len(distinct)} different values; nothing to learn")
        if task is None:
            few = len(distinct) <= min(20, max(2, len(values) // 10))
            whole = column.kind == "number" and bool(np.all(distinct == np.round(distinct)))
            task = "classification" if column.kind == "category" or (few and whole) else "regression"
        if task == "classification":
            if len(distinct) > max(2, len(values) // 2):
                raise ArgumentError(
                    f"the target {column.name!r} has {len(distinct)} different values in {len(values)} rows: "
                    "too many for classes"
                )
            return TargetEncoder(column.name, task, tuple(text_of(v) for v in distinct))
        if column.kind == "category":
            raise ArgumentError(
                f"the target {column.name!r} holds text such as {str(distinct[0])!r}; regression needs numbers"
            )
        return TargetEncoder(column.name, task, mean=float(values.mean()), scale=float(values.std()))

    def encode(self, column: Column) -> np.ndarray:
        """Class numbers, int64 of shape (rows,), or standardised numbers, float32 of shape (rows, 1)."""
        if self.task == "regression":
            return ((column.values - self.mean) / self.scale).astype(np.float32)[:, None]
        number = {name: i for i, name in enumerate(self.classes)}
        try:
            return np.array([number[text_of(v)] for v in column.values], np.int64)
        except KeyError as error:
            raise UnknownNameError(
                f"the target {self.name!r} has the value {error.args[0]!r}, which was no class in training"
            ) from None

    def decode(self, output: np.ndarray) -> np.ndarray:
        """Values of the target from a network's outputs: names of the likeliest classes, or numbers in its own
        units."""
        if self.task == "regression":
            return output[:, 0].astype(np.float64) * self.scale + self.mean
        return np.array(self.classes)[output.argmax(axis=1)]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> "TargetEncoder":
        try:
            return TargetEncoder(**{**data, "classes": tuple(data["classes"])})
        except (KeyError, TypeError) as error:
            raise FormatError(f"not the description of a target: {error!r}") from None
