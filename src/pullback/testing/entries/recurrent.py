"""Recurrent networks: cells, and whole sequences as fused ops with their gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import control, ops
from ..entry import Entry, Input, Sizes, positive, real

LSTM_FORMULA = (
    "with t = tanh(c'): o_bar = (g_o + g_h t) o (1 - o), e = g_c + g_h o (1 - t^2), i_bar = e g i (1 - i), "
    "f_bar = e c f (1 - f), g_bar = e i (1 - g^2); c gets e f, and h, x, W, U, b what these pull back"
)
GRU_FORMULA = (
    "z_bar = g (h - n) z (1 - z), n_bar = g (1 - z) (1 - n^2), r_bar = n_bar q r (1 - r), q_bar = n_bar r; h gets g z, "
    "and h, x, W, U, b what these pull back"
)
LSTM_PAPERS = ("Hochreiter and Schmidhuber 1997", "Gers, Schmidhuber and Cummins 2000")
GRU_PAPERS = ("Cho et al. 2014",)
CELL: dict[str, Any] = dict(empty=("b",), sizes={"b": (2, 3), "i": (2, 2), "h": (2, 2)})
SEQUENCE: dict[str, Any] = dict(empty=("t", "b"), sizes={"t": (2, 3), "b": (2, 3), "i": (2, 2), "h": (2, 2)})


def weights(*axes: str) -> tuple[Input, ...]:
    return tuple(real(a, -0.8, 0.8) for a in axes)


def some_lengths(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
    """From 0 to the number of steps; the first one 0."""
    lengths = rng.integers(0, sizes["t"], shape, endpoint=True)
    lengths[:1] = 0
    return lengths


def with_lengths(network: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`network` of all inputs but the last, which is `lengths`."""
    return lambda *inputs: network(*inputs[:-1], lengths=inputs[-1], **options)


LENGTHS = Input("b", dtype="int64", draw=some_lengths, name="lengths")
X, H = real("t b i", name="x"), real("b h")
LSTM = (X, *weights("i 4*h", "h 4*h", "4*h"), H, H)
GRU = (X, *weights("i 3*h", "h 3*h", "3*h", "3*h"), H)
RNN = (X, *weights("i h", "h h", "h"), H)
LSTM_CELL = (real("b i"), H, H, *weights("(i+h) 4*h", "h", "h", "h", "4*h"))
BLOCK = (X, H, H, *weights("(i+h) 4*h", "h", "h", "h", "4*h"))


def peeping(x: Any, W: Any, U: Any, b: Any, h0: Any, c0: Any, peepholes: Any, *rest: Any, **options: Any) -> Any:
    options |= dict(zip(["lengths"], rest))
    return control.lstm(x, W, U, b, h0, c0, peepholes=peepholes, **options)


def layer_normalized(x: Any, W: Any, U: Any, b: Any, h0: Any, c0: Any, g_x: Any, g_h: Any, g_c: Any) -> Any:
    return control.lstm(x, W, U, b, h0, c0, gains=(g_x, g_h, g_c))


def projected(x: Any, W: Any, U: Any, h0: Any, c0: Any, R: Any, mask: Any, lengths: Any) -> Any:
    return control.lstm(x, W, U, None, h0, c0, projection=R, mask=mask, lengths=lengths)


def both_directions(x: Any, W: Any, U: Any, V: Any, lengths: Any) -> Any:
    return control.bidirectional(control.rnn, x, dict(W=W, U=U), dict(W=W, U=V), lengths)


def two_layers(x: Any, W: Any, U: Any, V: Any) -> Any:
    return control.stacked(control.rnn, x, [dict(W=W, U=U), dict(W=V, U=U)], between=ops.sin)


def block(**options: Any) -> Callable[..., Any]:
    return lambda *inputs: control.block_lstm(2, *inputs, **options)


ENTRIES = [
    Entry("straight_through_clip", ops.straight_through_clip, (real("a b"), positive("")),
          pullback=lambda arrays, cotangents: [cotangents[0], None], differs={1: "the bound is data"}),
    Entry("lstm_cell", ops.lstm_cell, (real("b i"), H, H, *weights("i 4*h", "h 4*h", "4*h")), **CELL,
          formula=LSTM_FORMULA, references=LSTM_PAPERS),
    Entry("gru_cell", ops.gru_cell, (real("b i"), H, *weights("i 3*h", "h 3*h", "3*h", "3*h")), **CELL,
          formula=GRU_FORMULA, references=GRU_PAPERS),
    Entry("gru_cell[reset=before]", lambda *inputs: ops.gru_cell(*inputs, reset="before"),
          (real("b i"), H, *weights("i 3*h", "h 3*h", "3*h", "3*h")), **CELL),
    Entry("gru_block_cell", ops.gru_block_cell,
          (real("b i"), H, *weights("(i+h) 2*h", "(i+h) h", "2*h", "h")), **CELL),
    Entry("lstm_block_cell[use_peephole=True]",
          lambda *inputs: ops.lstm_block_cell(*inputs, use_peephole=True, cell_clip=0.0), LSTM_CELL, **CELL),
    Entry("lstm_block_cell[cell_clip=0.5]", lambda *inputs: ops.lstm_block_cell(*inputs, cell_clip=0.5), LSTM_CELL,
          **CELL),
    Entry("rnn", control.rnn, RNN, **SEQUENCE, references=("Elman 1990",)),
    Entry("rnn[lengths, reverse, gains]", lambda x, W, U, b, h0, g, k, lengths: control.rnn(
        x, W, U, b, h0, lengths=lengths, reverse=True, gains=(g, k), activation=ops.sin),
        (*RNN, positive("h"), positive("h"), LENGTHS), single=("t", "b"), orders=1, **SEQUENCE),
    Entry("gru", control.gru, GRU, **SEQUENCE, formula=GRU_FORMULA, references=GRU_PAPERS),
    Entry("gru[lengths, reverse]", with_lengths(control.gru, reverse=True), (*GRU, LENGTHS), **SEQUENCE),
    Entry("gru[reset=before, lengths]", with_lengths(control.gru, reset="before"), (*GRU, LENGTHS), **SEQUENCE),
    Entry("lstm", control.lstm, LSTM, **SEQUENCE, formula=LSTM_FORMULA, references=LSTM_PAPERS),
    Entry("lstm[lengths, reverse]", with_lengths(control.lstm, reverse=True), (*LSTM, LENGTHS), **SEQUENCE),
    Entry("lstm[peepholes, lengths]", peeping, (*LSTM, *weights("3 h"), LENGTHS), **SEQUENCE),
    Entry("lstm[gains]", layer_normalized, (*LSTM, positive("4*h"), positive("4*h"), positive("h")), single=("t", "b"),
          empty=("t", "b"), sizes={"t": (2, 2), "b": (2, 2), "i": (2, 2), "h": (3, 3)}, orders=1),
    Entry("lstm[projection, mask, lengths]", projected,
          (X, *weights("i 4*h", "p 4*h"), real("b p"), H, *weights("h p"), positive("b p"), LENGTHS),
          orders=1, **SEQUENCE),
    Entry("bidirectional", both_directions, (X, *weights("i h", "h h", "h h"), LENGTHS), **SEQUENCE),
    Entry("stacked", two_layers, (X, *weights("i h", "h h", "h h")), **SEQUENCE),
    Entry("block_lstm[use_peephole=True]", block(use_peephole=True, cell_clip=0.0), BLOCK, empty=("b",),
          sizes={"t": (2, 3), "b": (2, 3), "i": (2, 2), "h": (2, 2)}, single=("b", "h")),
]  # fmt: skip
