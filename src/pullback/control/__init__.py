"""Ops that hold graphs and differentiate them: loops, branches, functions as ops, checkpoints."""

from .branches import IfElse, ifelse, while_loop
from .graph_op import GraphOp, as_op, checkpoint
from .scan import foldl, foldr, map, scan, until
from .scan_op import Scan

__all__ = [
    "GraphOp", "IfElse", "Scan", "as_op", "checkpoint", "foldl", "foldr", "ifelse", "map", "scan", "until",
    "while_loop",
]  # fmt: skip
