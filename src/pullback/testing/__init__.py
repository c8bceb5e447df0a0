"""Proofs of gradients: `check_op` for ops, `check_gradient` for anybody's function."""

from .by_name import check_target
from .check_gradient import check_gradient
from .check_op import check_op, examine
from .entry import Entry, Input, Point, index, integer, mask, positive, real, variants
from .report import CheckError, Mistake, Report

__all__ = [
    "CheckError", "Entry", "Input", "Mistake", "Point", "Report", "check_gradient", "check_op",
    "check_target", "examine", "index", "integer", "mask",
    "positive", "real", "variants",
]  # fmt: skip
