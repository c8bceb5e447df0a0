"""Proofs of gradients: `check_op` for ops, `check_gradient` for anybody's function."""

from .check_op import check_op, examine
from .entry import Entry, Input, Point, index, integer, mask, positive, real, variants
from .report import CheckError, Mistake, Report

__all__ = [
    "CheckError", "Entry", "Input", "Mistake", "Point", "Report", "check_op", "examine", "index", "integer", "mask",
    "positive", "real", "variants",
]  # fmt: skip
