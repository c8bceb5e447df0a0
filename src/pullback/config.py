"""Settings of the process: `pb.config.floatX = "float64"`, or in a block with `pb.config.override(floatX=...)`."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from .errors import ArgumentError, UnknownNameError, nearest

CHOICES = {
    "floatX": ("float32", "float64"),
    "backend": ("native", "reference"),
    "rewrites": ("all", "stabilising"),
    "conv": ("accurate", "fast"),
    "flush_denormals": (False, True),
    "nan_guard": (False, True),
}


class Config:
    """Process-wide settings; each attribute takes one of a few values.

    Attributes:
        floatX: dtype of constructors that name none ("float32" or "float64").
        backend: "native" runs compiled kernels, "reference" runs each op's NumPy `perform`.
        rewrites: "all", or "stabilising" for only those that replace a non-finite or inexact value by the exact one.
        conv: "accurate" keeps a convolution's error at or below the direct sum's; "fast" allows Winograd F(4,3).
        flush_denormals: treat subnormal numbers as zero inside compiled kernels.
        nan_guard: stop at the first op that makes a non-finite number.
    """

    floatX: str
    backend: str
    rewrites: str
    conv: str
    flush_denormals: bool
    nan_guard: bool

    def __init__(self) -> None:
        for name, choices in CHOICES.items():
            given = os.environ.get(f"PULLBACK_{name.upper()}")
            known = {str(choice): choice for choice in choices}
            setattr(self, name, choices[0] if given is None else known.get(given, given))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in CHOICES:
            raise UnknownNameError(f"config has no setting {name!r}. {nearest(name, CHOICES)}")
        if not any(value is choice or value == choice for choice in CHOICES[name]):
            raise ArgumentError(f"config.{name} = {value!r}: expected one of {CHOICES[name]}")
        object.__setattr__(self, name, value)

    @contextlib.contextmanager
    def override(self, **settings: Any) -> Iterator[None]:
        """Change settings inside a `with` block, and put them back after it."""
        before = {name: getattr(self, name, None) for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                if name in CHOICES:
                    setattr(self, name, value)


config = Config()


def nan_guard() -> contextlib.AbstractContextManager[None]:
    """`with pb.nan_guard(): ...` stops at the first op, forward or backward, that makes a non-finite number.

    The error names the op, the place in the array, whether its inputs were finite, and the user's line that built it.
    Functions called inside run op by op, without fusion: slow, for hunting.
    """
    return config.override(nan_guard=True)
