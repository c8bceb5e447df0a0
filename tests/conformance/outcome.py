"""What became of a case, and the comparison that decides it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Outcome:
    """The result of one case on all backends: `status`, and why where it isn't "passed"."""

    case: str
    family: str
    status: str
    why: str = ""


class Mismatch(Exception):
    """A value or gradient that isn't the right one; the text names the worst element."""


def compare(what: str, found: Any, want: np.ndarray, rtol: float, atol: float) -> None:
    """Hold `found` to `want`: same shape, |found - want| <= atol + rtol |want|, NaN equals NaN, infinities equal.

    Raises:
        Mismatch: with the worst element.
    """
    found = np.asarray(found)
    if found.shape != want.shape:
        raise Mismatch(f"{what} has shape {found.shape}, expected {want.shape}")
    if want.size == 0:
        return
    if want.dtype.kind in "biu" and found.dtype.kind in "biu":
        excess = np.where(found == want, -1.0, np.inf)
    else:
        excess = _excess(found.astype(_wide(found)), want.astype(_wide(want)), rtol, atol)
    if (worst := int(np.argmax(excess))) is not None and excess.flat[worst] > 0:
        index = ", ".join(str(int(i)) for i in np.unravel_index(worst, want.shape))
        wrong = int((excess > 0).sum())
        raise Mismatch(
            f"{what}[{index}] is {found.flat[worst]:.10g}, expected {want.flat[worst]:.10g} "
            f"({wrong} of {want.size} elements are wrong)"
        )


def _wide(a: np.ndarray) -> type:
    return np.complex128 if a.dtype.kind == "c" else np.float64


def _excess(found: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """By how much each element misses its tolerance; at most 0 where it's right."""
    with np.errstate(invalid="ignore", over="ignore"):
        excess = np.abs(found - want) - (atol + rtol * np.abs(want))
    same = (found == want) | (np.isnan(found) & np.isnan(want))
    return np.where(same, -1.0, np.where(np.isfinite(found) & np.isfinite(want), excess, np.inf))
