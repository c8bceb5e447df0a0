"""Object code on disk: one file a unit, named by the hash of all that it was made of.

A file is a header line (JSON: what the unit calls, length and checksum of the rest) and the object. A damaged file is
as good as none; a folder that can't be used costs time only.
"""

import contextlib
import hashlib
import json
import logging
import os
import pathlib
import stat
import sys
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger("pullback.codegen")


@dataclass(frozen=True)
class Entry:
    """A compiled unit: its object code and whatever JSON value was stored with it."""

    notes: Any
    code: bytes


def default_folder() -> pathlib.Path:
    """PULLBACK_CACHE_DIR, or the platform's place for a user's caches."""
    given = os.environ.get("PULLBACK_CACHE_DIR")
    if given:
        return pathlib.Path(given)
    if sys.platform == "win32":
        return pathlib.Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser() / "pullback" / "cache"
    if sys.platform == "darwin":
        return pathlib.Path("~/Library/Caches/pullback").expanduser()
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pullback"


class ObjectCache:
    """A folder of compiled units. Safe between threads and processes: files are written beside and renamed."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.usable = True
        self.checked = False

    def get(self, name: str) -> Entry | None:
        """The unit called `name`, or None if it isn't there whole."""
        if not self._ready():
            return None
        try:
            data = (self.folder / f"{name}.o").read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._give_up(error)
            return None
        header, _, code = data.partition(b"\n")
        try:
            described = json.loads(header)
            if described["size"] == len(code) and described["sha256"] == hashlib.sha256(code).hexdigest():
                return Entry(described["notes"], code)
        except (ValueError, KeyError, TypeError):
            pass
        logger.warning("kernel cache: %s is damaged and will be made again", self.folder / f"{name}.o")
        return None

    def put(self, name: str, entry: Entry) -> None:
        """Keep a unit."""
        import tempfile

        if not self._ready():
            return
        described = {"notes": entry.notes, "size": len(entry.code), "sha256": hashlib.sha256(entry.code).hexdigest()}
        try:
            handle, beside = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(json.dumps(described).encode() + b"\n" + entry.code)
                os.replace(beside, self.folder / f"{name}.o")
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside)
                raise
        except OSError as error:
            self._give_up(error)

    def _ready(self) -> bool:
        """Make the folder on first use. One that others could write to is refused: its files would be run."""
        if not self.checked:
            self.checked = True
            try:
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                if hasattr(os, "getuid"):
                    found = self.folder.stat()
                    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                        raise PermissionError(f"{self.folder} belongs to, or can be written by, someone else")
            except OSError as error:
                self._give_up(error)
        return self.usable

    def _give_up(self, error: OSError) -> None:
        if self.usable:
            logger.warning(
                "kernel cache %s can't be used (%s): kernels are compiled anew each time", self.folder, error
            )
        self.usable = False
