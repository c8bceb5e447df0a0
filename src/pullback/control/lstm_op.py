"""The LSTM over a whole sequence as one op, and its gradient as another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Apply, DisconnectedType, TensorType, Variable, as_variable
from ..ops.arithmetic import abs as absolute
from ..ops.arithmetic import add, greater, multiply, square, subtract, where
from ..ops.elementwise import zeros_like
from ..ops.linear import matmul
from ..ops.recurrent import fit, lstm_step
from ..ops.reduce import sum as total
from ..ops.shape import concatenate, expand_dims, split, stack, swapaxes
from ..ops.softmax import widened
from ..ops.transcendental import tanh
from .sequence import SequenceOp, active, before, final, product_over_time, running, walk


@dataclass(frozen=True)
class LSTMOp(SequenceOp):
    """Base of LSTM and LSTMGrad.

    Attributes:
        cell_clip: cells are held within [-cell_clip, cell_clip]; 0: not at all.
        straight_through: the gradient ignores that.
        peepholes: whether an input p (3, H) is there, for i, f and o.
    """

    reverse: bool = False
    cell_clip: float = 0.0
    straight_through: bool = False
    peepholes: bool = False
    bounded: bool = False

    def extras(self, rest: Sequence[Any]) -> tuple[Any, Any]:
        """(peepholes or None, lengths or None) of the inputs after the fixed ones."""
        return rest[0] if self.peepholes else None, rest[-1] if self.bounded else None

    @property
    def cuts(self) -> bool:
        """Whether a clipped cell stops the gradient."""
        return self.cell_clip > 0 and not self.straight_through


class LSTM(LSTMOp):
    """Inputs: z (T, B, 4H) = x W, U (H, 4H), b (4H,), h0, c0 (B, H), perhaps p (3, H), perhaps lengths (B,); column
    blocks i, f, g, o. Outputs: h, c (T, B, H), gates (T, B, 4H) after their activation, the last h and c (B, H).

    Past an example's length h and c stay as they are, and its gates are 0.
    """

    formula = "backpropagation through time: one loop backwards"

    def make_node(self, *inputs: Any) -> Apply:
        z, U, b, h0, c0, *rest = map(as_variable, inputs)
        self._fit(*(v.type.shape for v in (z, U, b, h0, c0, *rest)))
        steps, batch, _ = z.type.shape
        batch = h0.type.shape[0] if batch is None else batch
        hidden = U.type.shape[0]
        state = TensorType(z.dtype, (batch, hidden))
        sequence = TensorType(z.dtype, (steps, batch, hidden))
        return Apply(self, [z, U, b, h0, c0, *rest], [sequence, sequence, z.type, state, state])

    def _fit(self, z, U, b, h0, c0, *rest) -> dict[str, int]:
        p, lengths = self.extras(rest)
        return fit(
            "lstm", z=(z, "T B 4H"), U=(U, "H 4H"), b=(b, "4H"), h0=(h0, "B H"), c0=(c0, "B H"), peepholes=(p, "3 H"),
            lengths=(lengths, "B"),
        )  # fmt: skip

    def perform(self, z, U, b, h0, c0, *rest):
        dtype = z.dtype
        z, U, b, h, c = map(widened, (z, U, b, h0, c0))
        p, lengths = self.extras(rest)
        pi, pf, po = (0, 0, 0) if p is None else widened(p)
        hidden = U.shape[0]
        hs, cs = (np.empty((*z.shape[:2], hidden), z.dtype) for _ in range(2))
        gates = np.zeros_like(z, order="C")
        with np.errstate(all="ignore"):
            for t in self.steps(len(z)):
                zi, zf, zg, zo = np.split(z[t] + b + h @ U, 4, 1)
                i, f, g = logistic(zi + pi * c), logistic(zf + pf * c), np.tanh(zg)
                new = i * g + f * c
                if self.cell_clip > 0:
                    new = np.minimum(self.cell_clip, np.maximum(new, -self.cell_clip)).astype(z.dtype, copy=False)
                o = logistic(zo + po * new)
                on = active(lengths, t)
                c, h = np.where(on, new, c), np.where(on, o * np.tanh(new), h)
                hs[t], cs[t] = h, c
                gates[t] = np.where(on, np.concatenate([i, f, g, o], 1), 0)
        return tuple(a.astype(dtype, copy=a is h0 or a is c0) for a in (hs, cs, gates, h, c))

    def definition(self, z, U, b, h0, c0, *rest):
        p, lengths = self.extras(rest)
        holes = None if p is None else (p[0], p[1], p[2])
        gradient = "straight_through" if self.straight_through else "true"

        def step(slices, states):
            z_t, h, c = slices[0], *states
            new = lstm_step(split(add(add(z_t, b), matmul(h, U)), 4, 1), c, holes, self.cell_clip, gradient)
            gates = concatenate([new.i, new.f, new.g, new.o], 1)
            if lengths is None:
                return (new.h, new.c), (gates,)
            on = expand_dims(slices[1], 1)
            return (where(on, new.h, h), where(on, new.c, c)), (where(on, gates, zeros_like(gates)),)

        sequences = [z] if lengths is None else [z, running(lengths, z)]
        h, c, gates = walk(step, sequences, [h0, c0], self.reverse, "lstm")
        return [h, c, gates, final(h0, h, self.reverse), final(c0, c, self.reverse)]

    def L_op(self, inputs, outputs, output_grads):
        z, U, b, h0, c0, *rest = inputs
        h, c, gates, *_ = outputs
        p, lengths = self.extras(rest)
        pullback = LSTMGrad(self.reverse, self.cell_clip, self.straight_through, self.peepholes, self.bounded)
        dz, dh0, dc0 = pullback(U, c0, c, gates, *output_grads, *rest)
        answers = [dz, product_over_time(h0, h, dz, self.reverse), total(dz, (0, 1)), dh0, dc0]
        if p is not None:
            earlier = before(c0, c, self.reverse)
            di, df, _, do = split(dz, 4, 2)
            answers.append(stack([total(multiply(d, s), (0, 1)) for d, s in ((di, earlier), (df, earlier), (do, c))]))
        return answers if lengths is None else [*answers, DisconnectedType()()]

    def infer_shape(self, node, shapes, values):
        known = self._fit(*shapes)
        state = (known["B"], known["H"])
        return [(known["T"], *state), (known["T"], *state), shapes[0], state, state]


class LSTMGrad(LSTMOp):
    """Inputs: U, c0, of the forward op c and gates, then the cotangents of its five outputs, and its p and lengths.
    Outputs: the cotangents dz (T, B, 4H) of the pre-activations, dh0 and dc0 (B, H).

    At each step, from the last one to the first, with t = tanh(c) and h, c the cotangents carried so far:
    dz_o = (g_o + h t) o (1 - o), e = (c + h o (1 - t^2) + p_o dz_o) [c not clipped], dz_i = (g_i + e g) i (1 - i),
    dz_f = (g_f + e c_before) f (1 - f), dz_g = (g_g + e i) (1 - g^2); back go h = dz U^T and
    c = e f + p_i dz_i + p_f dz_f.
    """

    def make_node(self, *inputs: Any) -> Apply:
        U, c0, c, gates, *rest = map(as_variable, inputs)
        return Apply(self, [U, c0, c, gates, *rest], [gates.type, c0.type, c0.type])

    def perform(self, U, c0, c, gates, dh, dc, dgates, dh_last, dc_last, *rest):
        dtype = U.dtype
        p, lengths = self.extras(rest)
        pi, pf, po = (0, 0, 0) if p is None else widened(p)
        U, first, c, gates, dh, dc, dgates, h_bar, c_bar = map(
            widened, (U, c0, c, gates, dh, dc, dgates, dh_last, dc_last)
        )
        dz = np.empty_like(gates, order="C")
        with np.errstate(all="ignore"):
            for t in reversed(self.steps(len(gates))):
                start = t == (len(gates) - 1 if self.reverse else 0)
                old = first if start else c[t + 1 if self.reverse else t - 1]
                i, f, g, o = np.split(gates[t], 4, 1)
                gi, gf, gg, go = np.split(dgates[t], 4, 1)
                h_bar, c_bar, tc = h_bar + dh[t], c_bar + dc[t], np.tanh(c[t])
                zo = (go + h_bar * tc) * (o * (1 - o))
                e = c_bar + h_bar * (o * (1 - tc * tc)) + po * zo
                if self.cuts:
                    e = np.where(np.abs(i * g + f * old) > self.cell_clip, 0, e)
                zi, zf = (gi + e * g) * (i * (1 - i)), (gf + e * old) * (f * (1 - f))
                zg = (gg + e * i) * (1 - g * g)
                on = active(lengths, t)
                dz[t] = np.where(on, np.concatenate([zi, zf, zg, zo], 1), 0)
                h_bar = np.where(on, 0, h_bar) + dz[t] @ U.T
                c_bar = np.where(on, e * f + pi * zi + pf * zf, c_bar)
        return tuple(a.astype(dtype, copy=a is dh_last or a is dc_last) for a in (dz, h_bar, c_bar))

    def definition(self, U, c0, c, gates, dh, dc, dgates, dh_last, dc_last, *rest):
        p, lengths = self.extras(rest)

        def step(slices, states):
            c_t, old, gates_t, dh_t, dc_t, dgates_t, *on = slices
            i, f, g, o = split(gates_t, 4, 1)
            gi, gf, gg, go = split(dgates_t, 4, 1)
            h_bar, c_bar, tc = add(states[0], dh_t), add(states[1], dc_t), tanh(c_t)
            zo = multiply(add(go, multiply(h_bar, tc)), slope(o))
            e = add(c_bar, multiply(h_bar, multiply(o, subtract(1, square(tc)))))
            if p is not None:
                e = add(e, multiply(p[2], zo))
            if self.cuts:
                clipped = greater(absolute(add(multiply(i, g), multiply(f, old))), self.cell_clip)
                e = where(clipped, zeros_like(e), e)
            zi = multiply(add(gi, multiply(e, g)), slope(i))
            zf = multiply(add(gf, multiply(e, old)), slope(f))
            zg = multiply(add(gg, multiply(e, i)), subtract(1, square(g)))
            dz, back = concatenate([zi, zf, zg, zo], 1), multiply(e, f)
            if p is not None:
                back = add(back, add(multiply(p[0], zi), multiply(p[1], zf)))
            if not on:
                return (matmul(dz, swapaxes(U, 0, 1)), back), (dz,)
            live = expand_dims(on[0], 1)
            dz = where(live, dz, zeros_like(dz))
            stays = where(live, zeros_like(h_bar), h_bar)
            return (add(stays, matmul(dz, swapaxes(U, 0, 1))), where(live, back, c_bar)), (dz,)

        sequences = [c, before(c0, c, self.reverse), gates, dh, dc, dgates]
        if lengths is not None:
            sequences.append(running(lengths, c))
        h_bar, c_bar, dz = walk(step, sequences, [dh_last, dc_last], not self.reverse, "gradient of lstm")
        return [dz, final(dh_last, h_bar, not self.reverse), final(dc_last, c_bar, not self.reverse)]

    def L_op(self, inputs, outputs, output_grads):
        return self.by_definition(inputs, output_grads)

    def infer_shape(self, node, shapes, values):
        return [shapes[3], shapes[1], shapes[1]]


def slope(y: Variable) -> Variable:
    """The derivative of the logistic function where its value is `y`."""
    return multiply(y, subtract(1, y))


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))
