"""Vector mathematics: the functions that elementwise formulas may call."""

from ..codegen import helper

NAMES: dict = {}
