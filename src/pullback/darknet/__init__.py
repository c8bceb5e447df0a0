"""Darknet: cfg and weights files, detection, training as its forks do it."""

from .cfg import Cfg, CfgError, CfgWarning, Section, Setting, parse_cfg, read_cfg
from .detector import Detector
from .dialects import DIALECTS, Dialect
from .evaluation import Curve, Evaluation, average_precision, evaluate
from .files import DataFile, label_path, read_data, read_labels, read_list, read_names
from .losses import (
    CostLoss,
    DetectionLoss,
    GaussianYoloLoss,
    IsegLoss,
    RegionLoss,
    YoloLoss,
    loss_of,
    losses_of,
)
from .network import from_darknet, load_weights, read_header, to_darknet
from .suppression import Found, suppress
from .weights import Header

__all__ = [
    "Cfg", "CfgError", "CfgWarning", "CostLoss", "Curve", "DIALECTS", "DataFile", "DetectionLoss", "Detector",
    "Dialect", "Evaluation", "Found", "GaussianYoloLoss", "Header", "IsegLoss", "RegionLoss", "Section", "Setting",
    "YoloLoss", "average_precision", "evaluate", "from_darknet", "label_path", "load_weights", "loss_of", "losses_of",
    "parse_cfg", "read_cfg", "read_data", "read_header", "read_labels", "read_list", "read_names", "suppress",
    "to_darknet",
]  # fmt: skip
