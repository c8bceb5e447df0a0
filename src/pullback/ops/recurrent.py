"""One step of recurrent networks: the GRU and the LSTM, and TensorFlow's block cells with their raw gradients.

The gates are written out in elementwise ops, so every output has a gradient of every order. s is the logistic function.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import ArgumentError, ShapeError
from ..graph import Variable
from .activation import sigmoid
from .arithmetic import abs as absolute
from .arithmetic import add, clip, greater, multiply, subtract, where
from .dtypes import as_tensor, float_dtype, result_dtype
from .elementwise import Disconnected, cast, define, zeros_like
from .linear import matmul
from .reduce import sum as total
from .shape import concatenate, length, split, swapaxes
from .transcendental import tanh

__all__ = [
    "GRUBlockOutputs", "LSTMBlockOutputs", "gru_block_cell", "gru_block_cell_grad", "gru_cell", "lstm_block_cell",
    "lstm_block_cell_grad", "lstm_cell", "straight_through_clip",
]  # fmt: skip

CLIP_GRADIENTS = ("true", "straight_through")
RESETS = ("after", "before")

straight_through_clip = define(
    "straight_through_clip", lambda x, bound: np.minimum(bound, np.maximum(x, -bound)), "minimum(y, maximum(x, -y))",
    lambda g, out, x, bound: [g, Disconnected()],
    "x held within [-bound, bound], with the gradient of x itself: nothing is cut off on the way back.",
    arity=2, result="same", formula="g to x, on purpose; the bound is disconnected", domain=((-3, 3), (0.5, 1.5)),
)  # fmt: skip


# --- what the functions below and the sequences share -----------------------------------------------------------------


def as_floats(**arrays: Any) -> list[Variable]:
    """The arguments (those that aren't None) as tensors of the float dtype in which they meet."""
    tensors = [None if x is None else as_tensor(x) for x in arrays.values()]
    dtype = float_dtype(result_dtype([x for x in tensors if x is not None]))
    return [None if x is None else cast(x, dtype) for x in tensors]


def fit(what: str, **arrays: tuple[Any, str]) -> dict[str, int]:
    """Hold shapes to what is expected of them, before anything is read; the lengths that the letters turn out to have.

    Args:
        what: in whose name a misfit is refused.
        arrays: per argument (a variable, a shape or None, its axes in words): "B I", "I+H 4H".
    """
    shapes = {name: _shape(x) for name, (x, _) in arrays.items() if x is not None}
    words = {name: arrays[name][1].split() for name in shapes}
    lengths: dict[str, int] = {}
    for name, shape in shapes.items():
        if len(shape) != len(words[name]):
            raise ShapeError(f"{what}: {name} has shape {_shown(shape)}; expected ({', '.join(words[name])})")
        for word, n in zip(words[name], shape):
            if word.isalpha() and n is not None:
                lengths.setdefault(word, n)
    for name, shape in shapes.items():
        for word, n in zip(words[name], shape):
            expected = _value(word, lengths)
            if None not in (n, expected) and n != expected:
                known = ", ".join(f"{letter}={m}" for letter, m in lengths.items() if letter in " ".join(words[name]))
                axes = ", ".join(words[name])
                raise ShapeError(f"{what}: {name} has shape {_shown(shape)}; expected ({axes}) with {known}")
    return lengths


def _shape(x: Any) -> tuple[int | None, ...]:
    return x.type.shape if isinstance(x, Variable) else tuple(x)


def _shown(shape: Sequence[int | None]) -> str:
    return str(tuple(shape)).replace("None", "?")


def _value(word: str, lengths: Mapping[str, int]) -> int | None:
    """The length that a word such as "I+H" or "4H" stands for, if its letters are known."""
    result = 0
    for term in word.split("+"):
        factor, letter = re.fullmatch(r"(\d*)([A-Za-z]*)", term).groups()
        if letter and letter not in lengths:
            return None
        result += int(factor or 1) * (lengths[letter] if letter else 1)
    return result


def choose(what: str, **options: tuple[str, Sequence[str]]) -> None:
    """Refuse an option that isn't among its choices."""
    for name, (given, choices) in options.items():
        if given not in choices:
            raise ArgumentError(f"{what}: {name}={given!r}; expected one of {', '.join(map(repr, choices))}")


class LSTMStep(NamedTuple):
    """What one step of an LSTM makes: gates after their activation, the cell and tanh of it, the output."""

    i: Variable
    f: Variable
    g: Variable
    o: Variable
    c: Variable
    t: Variable
    h: Variable


def lstm_step(
    z: Sequence[Variable],
    c: Variable,
    peepholes: Sequence[Variable] | None = None,
    cell_clip: float = 0.0,
    clip_gradient: str = "true",
) -> LSTMStep:
    """One step from the pre-activations z = (i, f, g, o) and the last cell. `peepholes` go to i, f and o.

    i = s(z_i + p_i c), f = s(z_f + p_f c), g = tanh(z_g), c' = clip(i g + f c), o = s(z_o + p_o c'), h = o tanh(c').
    """
    zi, zf, zg, zo = z
    if peepholes is not None:
        zi, zf = add(zi, multiply(peepholes[0], c)), add(zf, multiply(peepholes[1], c))
    i, f, g = sigmoid(zi), sigmoid(zf), tanh(zg)
    new = clipped(add(multiply(i, g), multiply(f, c)), cell_clip, clip_gradient)
    o = sigmoid(zo if peepholes is None else add(zo, multiply(peepholes[2], new)))
    t = tanh(new)
    return LSTMStep(i, f, g, o, new, t, multiply(o, t))


def clipped(c: Variable, bound: float, gradient: str) -> Variable:
    """`c` within [-bound, bound]; a bound of 0 or less is none."""
    if bound <= 0:
        return c
    return straight_through_clip(c, bound) if gradient == "straight_through" else clip(c, -bound, bound)


# --- cells ------------------------------------------------------------------------------------------------------------


def lstm_cell(x: Any, h: Any, c: Any, W: Any, U: Any, b: Any = None) -> tuple[Variable, Variable]:
    """(h', c') of an LSTM (Hochreiter and Schmidhuber 1997, with forget gates of Gers et al. 2000).

    With the column blocks i, f, g, o of x W + h U + b: c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c').

    Args:
        x: (B, I).
        h, c: the last output and cell, (B, H).
        W, U, b: (I, 4H), (H, 4H), (4H,).
    """
    x, h, c, W, U, b = as_floats(x=x, h=h, c=c, W=W, U=U, b=b)
    fit("lstm_cell", x=(x, "B I"), h=(h, "B H"), c=(c, "B H"), W=(W, "I 4H"), U=(U, "H 4H"), b=(b, "4H"))
    step = lstm_step(split(biased(add(matmul(x, W), matmul(h, U)), b), 4, -1), c)
    return step.h, step.c


def gru_cell(
    x: Any, h: Any, W: Any, U: Any, b: Any = None, recurrent_bias: Any = None, reset: str = "after"
) -> Variable:
    """The next state of a GRU (Cho et al. 2014). Column blocks are z, r, n.

    z = s(x W_z + h U_z), r = s(x W_r + h U_r), n = tanh(x W_n + r (h U_n)) or with reset="before"
    tanh(x W_n + (r h) U_n); the result is (1 - z) n + z h.

    Args:
        x: (B, I).
        h: the last state, (B, H).
        W, U: (I, 3H), (H, 3H).
        b, recurrent_bias: (3H,), added to x W and to the products with U.
        reset: whether the reset gate is applied after the product with U_n (cuDNN, PyTorch) or before it (the paper).
    """
    x, h, W, U, b, recurrent_bias = as_floats(x=x, h=h, W=W, U=U, b=b, recurrent_bias=recurrent_bias)
    fit(
        "gru_cell", x=(x, "B I"), h=(h, "B H"), W=(W, "I 3H"), U=(U, "H 3H"), b=(b, "3H"),
        recurrent_bias=(recurrent_bias, "3H"),
    )  # fmt: skip
    choose("gru_cell", reset=(reset, RESETS))
    z = biased(matmul(x, W), b)
    if reset == "before":
        return reset_before_step(z, h, U, recurrent_bias)
    return gru_step(z, biased(matmul(h, U), recurrent_bias), h).h


class GRUStep(NamedTuple):
    """What one step of a GRU makes: gates after their activation, what r multiplies, and the new state."""

    z: Variable
    r: Variable
    n: Variable
    q: Variable
    h: Variable


def gru_step(z: Variable, product: Variable, h: Variable) -> GRUStep:
    """One step from z = x W + b, the product h U + its bias, and h: the reset gate comes after the product."""
    (zz, zr, zn), (hz, hr, q) = split(z, 3, -1), split(product, 3, -1)
    update, r = sigmoid(add(zz, hz)), sigmoid(add(zr, hr))
    n = tanh(add(zn, multiply(r, q)))
    return GRUStep(update, r, n, q, between(update, n, h))


def reset_before_step(
    z: Variable, h: Variable, U: Variable, recurrent_bias: Variable | None = None, mask: Variable | None = None
) -> Variable:
    """The new state from z = x W + b and h, the reset gate before the product; `mask` multiplies what U sees of h."""
    zz, zr, zn = split(biased(z, recurrent_bias), 3, -1)
    seen = h if mask is None else multiply(h, mask)
    gates = 2 * length(h, -1)
    hz, hr = split(matmul(seen, U[:, :gates]), 2, -1)
    update, r = sigmoid(add(zz, hz)), sigmoid(add(zr, hr))
    return between(update, tanh(add(zn, matmul(multiply(r, seen), U[:, gates:]))), h)


def between(update: Variable, new: Variable, old: Variable) -> Variable:
    """The update gate's choice: 1 keeps the old state."""
    return add(multiply(subtract(1, update), new), multiply(update, old))


def biased(x: Variable, b: Variable | None) -> Variable:
    return x if b is None else add(x, b)


# --- TensorFlow's block cells -----------------------------------------------------------------------------------------


class GRUBlockOutputs(NamedTuple):
    """Reset gate, update gate, candidate, new state; each (B, H)."""

    r: Variable
    u: Variable
    c: Variable
    h: Variable


def gru_block_cell(x: Any, h_prev: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> GRUBlockOutputs:
    """TensorFlow's GRUBlockCell: [r | u] = s([x | h] w_ru + b_ru), c = tanh([x | r h] w_c + b_c), h' = u h + (1 - u) c.

    Args:
        x: (B, I).
        h_prev: the last state, (B, H).
        w_ru, w_c: (I+H, 2H) and (I+H, H), rows for x first.
        b_ru, b_c: (2H,) and (H,).

    All four outputs have their true gradients with respect to all six inputs (TensorFlow drops those of r, u and c).
    """
    x, h, w_ru, w_c, b_ru, b_c = as_floats(x=x, h=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c)
    _fit_gru("gru_block_cell", x, h, w_ru, w_c, b_ru, b_c)
    r, u = split(sigmoid(add(matmul(concatenate([x, h], 1), w_ru), b_ru)), 2, 1)
    c = tanh(add(matmul(concatenate([x, multiply(r, h)], 1), w_c), b_c))
    return GRUBlockOutputs(r, u, c, add(multiply(u, h), multiply(subtract(1, u), c)))


def _fit_gru(what: str, x, h, w_ru, w_c, b_ru, b_c, **more: Variable) -> None:
    fit(
        what, x=(x, "B I"), h_prev=(h, "B H"), w_ru=(w_ru, "I+H 2H"), w_c=(w_c, "I+H H"), b_ru=(b_ru, "2H"),
        b_c=(b_c, "H"), **{name: (v, "B H") for name, v in more.items()},
    )  # fmt: skip


def gru_block_cell_grad(
    x: Any, h_prev: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any, r: Any, u: Any, c: Any, d_h: Any
) -> tuple[Variable, Variable, Variable, Variable]:
    """TensorFlow's GRUBlockCellGrad: (d_x, d_h_prev, d_c_bar, d_r_bar_u_bar) for the cotangent `d_h` of h'.

    With the last two, d_w_ru = [x | h].T d_r_bar_u_bar, d_w_c = [x | r h].T d_c_bar, and the biases' are their sums
    over the batch. For a cost in small ops, `pb.grad` does all of it.
    """
    x, h, w_ru, w_c, b_ru, b_c, r, u, c, d_h = as_floats(
        x=x, h=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, r=r, u=u, c=c, d_h=d_h
    )
    _fit_gru("gru_block_cell_grad", x, h, w_ru, w_c, b_ru, b_c, r=r, u=u, c=c, d_h=d_h)
    c_bar = d_h * (1 - u) * (1 - c * c)
    dx2, d_hr = split(matmul(c_bar, swapaxes(w_c, 0, 1)), [length(x, 1)], 1)
    ru_bar = concatenate([d_hr * h * r * (1 - r), d_h * (h - c) * u * (1 - u)], 1)
    dx1, dh1 = split(matmul(ru_bar, swapaxes(w_ru, 0, 1)), [length(x, 1)], 1)
    return dx1 + dx2, dh1 + d_hr * r + d_h * u, c_bar, ru_bar


class LSTMBlockOutputs(NamedTuple):
    """Input gate, cell, forget gate, output gate, tanh of the candidate, tanh of the cell, output."""

    i: Variable
    cs: Variable
    f: Variable
    o: Variable
    ci: Variable
    co: Variable
    h: Variable


def lstm_block_cell(
    x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any,
    forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = False, clip_gradient: str = "true",
) -> LSTMBlockOutputs:  # fmt: skip
    """TensorFlow's LSTMBlockCell. Column blocks of w and b are i, c, f, o.

    [i | ci | f | o] = [x | h] w + b; with use_peephole wci cs, wcf cs and wco cs' are added to i, f and o;
    cs' = clip(s(i) tanh(ci) + s(f + forget_bias) cs), h' = s(o) tanh(cs').

    Args:
        x: (B, I).
        cs_prev, h_prev: the last cell and output, (B, H).
        w, b: (I+H, 4H), rows for x first, and (4H,).
        wci, wcf, wco: peepholes, (H,); read only with use_peephole.
        forget_bias: added when run; b doesn't hold it.
        cell_clip: cs' is held within [-cell_clip, cell_clip]; 0 or less: not at all.
        clip_gradient: "true" (nothing comes back through a clipped cell), or "straight_through" as TensorFlow does.

    All seven outputs have gradients with respect to all inputs (TensorFlow drops those of i, f, o, ci and co).
    """
    x, cs, h, w, wci, wcf, wco, b = as_floats(x=x, cs_prev=cs_prev, h_prev=h_prev, w=w, wci=wci, wcf=wcf, wco=wco, b=b)
    _fit_lstm("lstm_block_cell", x, cs, h, w, wci, wcf, wco, b)
    choose("lstm_block_cell", clip_gradient=(clip_gradient, CLIP_GRADIENTS))
    i, g, f, o = split(add(matmul(concatenate([x, h], 1), w), b), 4, 1)
    holes = (wci, wcf, wco) if use_peephole else None
    step = lstm_step((i, f + forget_bias, g, o), cs, holes, cell_clip, clip_gradient)
    return LSTMBlockOutputs(step.i, step.c, step.f, step.o, step.g, step.t, step.h)


def _fit_lstm(what: str, x, cs_prev, h_prev, w, wci, wcf, wco, b, **more: Variable) -> None:
    fit(
        what, x=(x, "B I"), cs_prev=(cs_prev, "B H"), h_prev=(h_prev, "B H"), w=(w, "I+H 4H"),
        wci=(wci, "H"), wcf=(wcf, "H"), wco=(wco, "H"), b=(b, "4H"), **{name: (v, "B H") for name, v in more.items()},
    )  # fmt: skip


def lstm_block_cell_grad(
    x: Any, cs_prev: Any, h_prev: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any,
    i: Any, cs: Any, f: Any, o: Any, ci: Any, co: Any, cs_grad: Any, h_grad: Any,
    use_peephole: bool = False, cell_clip: float = 0.0,
) -> tuple[Variable, Variable, Variable, Variable, Variable]:  # fmt: skip
    """TensorFlow's LSTMBlockCellGrad: (cs_prev_grad, dicfo, wci_grad, wcf_grad, wco_grad).

    `cs_grad` and `h_grad` are the cotangents of cs' and h'. dicfo (B, 4H) belongs to the pre-activations, in the column
    order i, c, f, o: [dx | dh_prev] = dicfo w.T, dw = [x | h].T dicfo, db is its sum over the batch.

    Args:
        cell_clip: nothing comes back through cells that it clipped. TensorFlow's op doesn't know it, which is its
            default, 0: straight through.
    """
    x, csp, h, w, wci, wcf, wco, b, i, cs, f, o, ci, co, cs_grad, h_grad = as_floats(
        x=x, cs_prev=cs_prev, h_prev=h_prev, w=w, wci=wci, wcf=wcf, wco=wco, b=b, i=i, cs=cs, f=f, o=o, ci=ci, co=co,
        cs_grad=cs_grad, h_grad=h_grad,
    )  # fmt: skip
    _fit_lstm(
        "lstm_block_cell_grad", x, csp, h, w, wci, wcf, wco, b,
        i=i, cs=cs, f=f, o=o, ci=ci, co=co, cs_grad=cs_grad, h_grad=h_grad,
    )  # fmt: skip
    o_bar = h_grad * co * o * (1 - o)
    dcs = cs_grad + h_grad * o * (1 - co * co)
    if use_peephole:
        dcs = dcs + wco * o_bar
    if cell_clip > 0:
        dcs = where(greater(absolute(i * ci + f * csp), cell_clip), zeros_like(dcs), dcs)
    i_bar, f_bar = dcs * ci * i * (1 - i), dcs * csp * f * (1 - f)
    dicfo = concatenate([i_bar, dcs * i * (1 - ci * ci), f_bar, o_bar], 1)
    if not use_peephole:
        return dcs * f, dicfo, zeros_like(wci), zeros_like(wcf), zeros_like(wco)
    cs_prev_grad = dcs * f + wci * i_bar + wcf * f_bar
    return cs_prev_grad, dicfo, total(i_bar * csp, 0), total(f_bar * csp, 0), total(o_bar * cs, 0)
