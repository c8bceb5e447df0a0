"""Darknet's .cfg files: a parser that loses nothing, typed access to settings, and a writer.

A line is `[section]`, `key=value`, a comment (`#` or `;`) or blank. Blanks and tabs count nowhere, not even inside
values; what follows a `#` or `;` is a comment; of equal keys in one section the first counts. Writing an unchanged
Cfg gives back the very bytes that were read.
"""

import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ArgumentError, FileAccessError, FormatError, PullbackError, nearest

LINE = re.compile(r"(?P<before>[^=]*=[ \t]*)(?P<value>[^#;\r\n]*?)(?P<after>[ \t]*(?:[#;].*)?\r?\n?)\Z", re.DOTALL)
BLANKS = re.compile(r"[ \t\r\n\f\v]")


class CfgWarning(UserWarning):
    """Something in a cfg file that is probably a mistake, but doesn't keep it from being read."""


class CfgError(FormatError):
    """Something in a cfg file that can't be right; the message names line and section."""


@dataclass
class Setting:
    """One `key=value`.

    Attributes:
        line: its number in the file, from 1.
        value: without blanks and comment.
    """

    key: str
    value: str
    line: int


@dataclass
class Section:
    """One `[name]` and the settings below it.

    Attributes:
        name: as written, without blanks.
        line: its number in the file, from 1.
        index: the layer's number as Darknet counts, from 0; -1 for the first section.
        settings: in the order of the file, equal keys included.
    """

    name: str
    line: int
    index: int
    settings: list[Setting] = field(default_factory=list)

    def __str__(self) -> str:
        return f"line {self.line}, [{self.name}]" + (f" (layer {self.index})" if self.index >= 0 else "")

    def find(self, key: str) -> Setting | None:
        """The setting of that key: the first, if there are several."""
        return next((s for s in self.settings if s.key == key), None)

    def __contains__(self, key: str) -> bool:
        return self.find(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """The value as it stands."""
        found = self.find(key)
        if found is not None:
            return found.value
        if default is None:
            raise CfgError(f"{self}: {key} is missing")
        return default

    def whole(self, key: str, default: int | None = None, least: int | None = None) -> int:
        """The value as a whole number."""
        found = self.find(key)
        if found is None and default is not None:
            return default
        return self._number(self.text(key), key, int, least)

    def real(self, key: str, default: float | None = None, least: float | None = None) -> float:
        """The value as a finite number."""
        found = self.find(key)
        if found is None and default is not None:
            return default
        return self._number(self.text(key), key, float, least)

    def flag(self, key: str, default: bool = False) -> bool:
        """The value as yes or no: a whole number, 0 for no."""
        return bool(self.whole(key, int(default)))

    def wholes(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """The value as whole numbers with commas between them."""
        return self._numbers(key, default, int)

    def reals(self, key: str, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """The value as numbers with commas between them."""
        return self._numbers(key, default, float)

    def choice(self, key: str, default: str, known: dict | tuple) -> str:
        """The value as one of a few names."""
        value = self.text(key, default)
        if value not in known:
            raise CfgError(f"{self.place(key)}: {key}={value} is not known. {nearest(value, known)}")
        return value

    def place(self, key: str) -> str:
        """Where a setting stands, for messages."""
        found = self.find(key)
        return str(self) if found is None else f"line {found.line}, [{self.name}]"

    def _numbers(self, key: str, default: tuple | None, kind: type) -> tuple:
        if self.find(key) is None and default is not None:
            return default
        parts = [part for part in self.text(key).split(",") if part]
        if not parts:
            raise CfgError(f"{self.place(key)}: {key} lists no numbers")
        return tuple(self._number(part, key, kind, None) for part in parts)

    def _number(self, text: str, key: str, kind: type, least: float | None) -> float:
        try:
            value = float(text) if kind is float else _whole(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            what = "a number" if kind is float else "a whole number"
            raise CfgError(f"{self.place(key)}: {key}={text}; expected {what}")
        if least is not None and value < least:
            raise CfgError(f"{self.place(key)}: {key}={text}; expected at least {least}")
        return value


def _whole(text: str) -> int:
    """A whole number, `1.0` and `1e3` included, that fits into 32 bits as Darknet's do."""
    value = int(text) if re.fullmatch(r"[+-]?[0-9]{1,12}", text) else float(text)
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(text)
    if abs(value) >= 2**31:
        raise ValueError(text)
    return int(value)


class Cfg:
    """A Darknet network file.

    Attributes:
        sections: the first is [net].
        name: of the file, for messages.

    Example:
        >>> cfg = parse_cfg("[net]\\nwidth = 416   # pixels\\n[conv]\\nfilters=8\\n")
        >>> cfg.sections[0].whole("width"), cfg.sections[1].index
        (416, 0)
        >>> cfg.set(0, "width", 320)
        >>> print(cfg.text, end="")
        [net]
        width = 320   # pixels
        [conv]
        filters=8
    """

    def __init__(self, text: str, name: str = "cfg") -> None:
        self.name = name
        self.lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
        self.sections: list[Section] = []
        for number, line in enumerate(self.lines, 1):
            self._read(number, line)
        if not self.sections:
            raise CfgError(f"{name}: there is no section; expected [net]")

    @property
    def text(self) -> str:
        """The file, with what was changed."""
        return "".join(self.lines)

    @property
    def net(self) -> Section:
        """The first section."""
        return self.sections[0]

    @property
    def layers(self) -> list[Section]:
        """All sections but the first."""
        return self.sections[1:]

    def _read(self, number: int, line: str) -> None:
        content = BLANKS.sub("", line)
        if number == 1:
            content = content.removeprefix("\ufeff")
        if not content or content[0] in "#;\0":
            return
        if content[0] == "[":
            name, closed, _ = content[1:].partition("]")
            if not closed or not name:
                raise CfgError(f"{self.name}: line {number}: {content!r} is no whole [section]")
            self.sections.append(Section(name, number, len(self.sections) - 1))
            return
        key, equals, value = re.split("[#;]", content)[0].partition("=")
        if not equals or not key:
            raise CfgError(f"{self.name}: line {number}: {content!r} is neither a [section] nor key=value")
        if not self.sections:
            raise CfgError(f"{self.name}: line {number}: {key}={value} comes before the first section, [net]")
        section = self.sections[-1]
        if key in section:
            warnings.warn(
                f"{self.name}: line {number}, [{section.name}]: {key} is given again; line {section.find(key).line} "
                "counts",
                CfgWarning,
                stacklevel=4,
            )
        section.settings.append(Setting(key, value, number))

    def set(self, section: int, key: str, value: object) -> None:
        """Change a setting in place, comment and blanks kept, or add it below the section's last one."""
        owner = self.sections[section]
        text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
        if re.search(r"[#;=\[\]\r\n]", text + key) or not key:
            raise ArgumentError(f"{key}={text} can't stand in a cfg file")
        found = owner.find(key)
        if found is not None:
            match = LINE.match(self.lines[found.line - 1])
            self.lines[found.line - 1] = match["before"] + text + match["after"]
            found.value = BLANKS.sub("", text)
            return
        at = owner.settings[-1].line if owner.settings else owner.line
        end = "\r\n" if self.lines[at - 1].endswith("\r\n") else "\n"
        if not self.lines[at - 1].endswith("\n"):
            self.lines[at - 1] += end
        self.lines.insert(at, f"{key}={text}{end}")
        for other in self.sections:
            other.line += other.line > at
            for setting in other.settings:
                setting.line += setting.line > at
        owner.settings.append(Setting(key, BLANKS.sub("", text), at + 1))

    def write(self, path: str | Path) -> None:
        """Write the file, as a whole or not at all."""
        from ..nn.checkpoint import write_file

        write_file(Path(path), self.text.encode("utf-8", "surrogateescape"))

    def __iter__(self) -> Iterator[Section]:
        return iter(self.sections)


def parse_cfg(text: str | bytes, name: str = "cfg") -> Cfg:
    """A Cfg from its text.

    Raises:
        CfgError: with the line that is no section, setting or comment.
    """
    return Cfg(text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text, name)


def read_cfg(path: str | Path) -> Cfg:
    """A Cfg from its file.

    Raises:
        FileAccessError: there is no such file, or it can't be read.
        CfgError: as `parse_cfg`.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise FileAccessError(f"can't read {path}: {getattr(error, 'strerror', None) or error}") from None
    return parse_cfg(content, path.name)


def located(section: Section, error: PullbackError) -> CfgError:
    """An error of a layer, with the section that asked for it."""
    return CfgError(f"{section}: {error}")
