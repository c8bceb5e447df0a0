"""Real data made ready for training: arrays, tables, splits, and batches that remember where they are."""

from . import augment
from .batches import Batches, split
from .datasets import mnist5k
from .encoder import TableEncoder, TargetEncoder
from .folders import Images, image_folder
from .table import Table, read_table

__all__ = [
    "Batches", "Images", "Table", "TableEncoder", "TargetEncoder", "augment", "image_folder", "mnist5k", "read_table",
    "split",
]  # fmt: skip
