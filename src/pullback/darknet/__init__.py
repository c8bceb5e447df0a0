"""Darknet: cfg and weights files, detection, training as its forks do it."""

from .cfg import Cfg, CfgError, CfgWarning, Section, Setting, parse_cfg, read_cfg
from .dialects import DIALECTS, Dialect
from .network import from_darknet, read_header, to_darknet
from .suppression import Found, suppress
from .weights import Header

__all__ = [
    "Cfg", "CfgError", "CfgWarning", "DIALECTS", "Dialect", "Found", "Header", "Section", "Setting", "from_darknet", "parse_cfg",
    "read_cfg", "read_header", "suppress", "to_darknet",
]  # fmt: skip
