"""Real data made ready for training: arrays, tables, splits, and batches that remember where they are."""

from .batches import Batches, split
from .datasets import mnist5k
from .encoder import TableEncoder, TargetEncoder
from .table import Table, read_table

__all__ = ["Batches", "Table", "TableEncoder", "TargetEncoder", "mnist5k", "read_table", "split"]
