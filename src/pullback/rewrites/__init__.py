"""The same meaning in fewer or better steps."""

from .driver import rewrite
from .fuse import Fused, fuse
from .optimize import optimize

__all__ = ["Fused", "fuse", "optimize", "rewrite"]
