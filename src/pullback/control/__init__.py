"""Ops that hold graphs and differentiate them: loops, branches, functions as ops, checkpoints."""

from .block_lstm import block_lstm, block_lstm_grad, block_lstm_grad_v2, block_lstm_v2
from .branches import IfElse, ifelse, while_loop
from .graph_op import GraphOp, as_op, checkpoint
from .recurrent import bidirectional, gru, lstm, rnn, stacked
from .scan import foldl, foldr, map, scan, until
from .scan_op import Scan

__all__ = [
    "GraphOp", "IfElse", "Scan", "as_op", "bidirectional", "block_lstm", "block_lstm_grad", "block_lstm_grad_v2",
    "block_lstm_v2", "checkpoint", "foldl", "foldr", "gru", "ifelse", "lstm", "map", "rnn", "scan", "stacked", "until",
    "while_loop",
]  # fmt: skip
