"""TensorFlow's BlockLSTM and BlockLSTMV2 over whole sequences, and their raw gradients."""

from collections.abc import Sequence
from typing import Any

from ..graph import Constant, Variable
from ..ops.arithmetic import add, subtract
from ..ops.elementwise import zeros_like
from ..ops.linear import matmul
from ..ops.recurrent import CLIP_GRADIENTS, LSTMBlockOutputs, as_floats, choose, fit
from ..ops.reduce import sum as total
from ..ops.shape import broadcast_to, concatenate, length, split, stack, swapaxes
from ..ops.transcendental import tanh
from .lstm_op import LSTM, LSTMGrad
from .sequence import before, checked_lengths, columns, product_over_time, rows

__all__ = ["block_lstm", "block_lstm_grad", "block_lstm_grad_v2", "block_lstm_v2"]

V1, V2 = "icfo", "ifco"  # TensorFlow's orders of the column blocks; c is our g


def block_lstm(
    seq_len_max: Any, x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any,
    forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = False, clip_gradient: str = "true",
) -> LSTMBlockOutputs:  # fmt: skip
    """TensorFlow's BlockLSTM: `lstm_block_cell` at the steps t < seq_len_max of x (T, B, I); column blocks i, c, f, o.

    Args:
        seq_len_max: an integer in [0, T], for the whole batch.
        x, cs_prev, h_prev, w, wci, wcf, wco, b, forget_bias, cell_clip, use_peephole, clip_gradient: as in
            `lstm_block_cell`.

    Returns:
        i, cs, f, o, ci, co, h, each (T, B, H), and all zero from seq_len_max on. All have gradients with respect to all
        inputs; steps from seq_len_max on get none.

    Raises:
        IndexRangeError: at run time, where seq_len_max is outside [0, T].
    """
    inputs = (seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b)
    return _forward("block_lstm", V1, inputs, forget_bias, cell_clip, use_peephole, clip_gradient)


def block_lstm_v2(
    seq_len_max: Any, x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any,
    cell_clip: float = 0.0, use_peephole: bool = False, clip_gradient: str = "true",
) -> LSTMBlockOutputs:  # fmt: skip
    """TensorFlow's BlockLSTMV2: as `block_lstm`, but with column blocks i, f, c, o, without a forget bias, and with
    cell_clip 0 (off) by default."""
    inputs = (seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b)
    return _forward("block_lstm_v2", V2, inputs, 0.0, cell_clip, use_peephole, clip_gradient)


def block_lstm_grad(
    seq_len_max: Any, x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any,
    i: Any, cs: Any, f: Any, o: Any, ci: Any, co: Any, h: Any, cs_grad: Any, h_grad: Any,
    use_peephole: bool = False, cell_clip: float = 0.0,
) -> tuple[Variable, ...]:  # fmt: skip
    """TensorFlow's BlockLSTMGrad: (x_grad, cs_prev_grad, h_prev_grad, w_grad, wci_grad, wcf_grad, wco_grad, b_grad).

    Args:
        seq_len_max ... b: the inputs of `block_lstm`.
        i, cs, f, o, ci, co, h: its outputs.
        cs_grad, h_grad: cotangents of cs and h, (T, B, H).
        cell_clip: nothing comes back through cells that it clipped. TensorFlow's op doesn't know it, which is its
            default, 0: straight through.
    """
    inputs = (seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b)
    return _backward("block_lstm_grad", V1, inputs, (i, cs, f, o, ci, co, h, cs_grad, h_grad), use_peephole, cell_clip)


def block_lstm_grad_v2(
    seq_len_max: Any, x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any,
    i: Any, cs: Any, f: Any, o: Any, ci: Any, co: Any, h: Any, cs_grad: Any, h_grad: Any, use_peephole: bool = False,
) -> tuple[Variable, ...]:  # fmt: skip
    """TensorFlow's BlockLSTMGradV2: as `block_lstm_grad`, for the column blocks i, f, c, o of `block_lstm_v2`."""
    inputs = (seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b)
    return _backward("block_lstm_grad_v2", V2, inputs, (i, cs, f, o, ci, co, h, cs_grad, h_grad), use_peephole, 0.0)


def _checked(what: str, inputs: Sequence[Any], more: Sequence[Any] = ()) -> tuple[Variable, list[Variable]]:
    """(seq_len_max, the other arguments as float tensors whose shapes fit)"""
    seq_len_max, *rest = inputs
    names = ("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
    extra = ("i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad")[: len(more)]
    floats = as_floats(**dict(zip((*names, *extra), (*rest, *more))))
    axes = ("T B I", "B H", "B H", "I+H 4H", "H", "H", "H", "4H", *("T B H" for _ in more))
    fit(what, **{name: (v, a) for name, v, a in zip((*names, *extra), floats, axes)})
    return checked_lengths(seq_len_max, floats[0], what, ndim=0), floats


def _reordered(v: Variable, order: str) -> Variable:
    """Columns in a TensorFlow order as i, f, c, o, and back: the exchange is its own inverse."""
    if order == V2:
        return v
    i, c, f, o = split(v, 4, -1)
    return concatenate([i, f, c, o], -1)


def _forward(what, order, inputs, forget_bias, cell_clip, use_peephole, clip_gradient) -> LSTMBlockOutputs:
    steps, (x, cs, h, w, wci, wcf, wco, b) = _checked(what, inputs)
    choose(what, clip_gradient=(clip_gradient, CLIP_GRADIENTS))
    w, b = _reordered(w, order), _reordered(b, order)
    if forget_bias:
        i, f, c, o = split(b, 4)
        b = concatenate([i, add(f, forget_bias), c, o])
    wide = length(x, 2)
    op = LSTM(cell_clip=max(float(cell_clip), 0.0), straight_through=clip_gradient != "true", peepholes=use_peephole)
    extras = [stack([wci, wcf, wco])] if use_peephole else []
    hs, css, gates, *_ = op(matmul(x[:steps], w[:wide]), w[wide:], b, h, cs, *extras)
    i, f, c, o = split(gates, 4, 2)
    return LSTMBlockOutputs(*(_padded(v, x) for v in (i, css, f, o, c, tanh(css), hs)))


def _padded(v: Variable, x: Variable) -> Variable:
    """`v` with zeros up to the number of steps of x."""
    missing = subtract(length(x), length(v))
    return concatenate([v, broadcast_to(Constant(0.0, v.dtype), [missing, length(v, 1), length(v, 2)])])


def _backward(what, order, inputs, more, use_peephole, cell_clip) -> tuple[Variable, ...]:
    steps, floats = _checked(what, inputs, more)
    x, cs_prev, h_prev, w, wci, wcf, wco, b = floats[:8]
    i, cs, f, o, ci, _, h, cs_grad, h_grad = (v[:steps] for v in floats[8:])
    gates, wide, p = concatenate([i, f, ci, o], 2), length(x, 2), stack([wci, wcf, wco])
    w = _reordered(w, order)
    op = LSTMGrad(cell_clip=max(float(cell_clip), 0.0), peepholes=use_peephole)
    nothing = zeros_like(gates), zeros_like(h_prev), zeros_like(cs_prev)
    dz, dh0, dc0 = op(w[wide:], cs_prev, cs, gates, h_grad, cs_grad, *nothing, *([p] if use_peephole else []))
    dw = concatenate([matmul(columns(x[:steps]), rows(dz)), product_over_time(h_prev, h, dz, False)])
    di, df, _, do = split(dz, 4, 2)
    earlier = before(cs_prev, cs, False)
    holes = [total(d * s, (0, 1)) for d, s in ((di, earlier), (df, earlier), (do, cs))]
    dp = holes if use_peephole else [zeros_like(v) for v in holes]
    dx = _padded(matmul(dz, swapaxes(w[:wide], 0, 1)), x)
    return dx, dc0, dh0, _reordered(dw, order), *dp, _reordered(total(dz, (0, 1)), order)
