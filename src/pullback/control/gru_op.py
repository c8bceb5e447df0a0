"""The GRU over a whole sequence as one op, and its gradient as another. The reset gate is applied after the product."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Apply, DisconnectedType, TensorType, Variable, as_variable
from ..ops.arithmetic import add, multiply, square, subtract, where
from ..ops.elementwise import zeros_like
from ..ops.linear import matmul
from ..ops.recurrent import fit, gru_step
from ..ops.reduce import sum as total
from ..ops.shape import concatenate, expand_dims, split, swapaxes
from ..ops.softmax import widened
from .lstm_op import logistic, slope
from .sequence import SequenceOp, active, before, final, product_over_time, running, walk


@dataclass(frozen=True)
class GRUOp(SequenceOp):
    """Base of GRU and GRUGrad."""

    reverse: bool = False
    bounded: bool = False

    def lengths(self, inputs: Sequence[Any]) -> Any:
        return inputs[-1] if self.bounded else None


class GRU(GRUOp):
    """Inputs: z (T, B, 3H) = x W, U (H, 3H), b, rb (3H,), h0 (B, H), perhaps lengths (B,); column blocks z, r, n.
    Outputs: h (T, B, H), gates (T, B, 3H) after their activation, q = h_before U_n + rb_n (T, B, H), the last h (B, H).

    [z | r] = s(z + b + h U + rb), n = tanh(z_n + b_n + r q), h' = (1 - z) n + z h. Past an example's length h stays as
    it is, and its gates and q are 0.
    """

    formula = "backpropagation through time: one loop backwards"

    def make_node(self, *inputs: Any) -> Apply:
        z, U, b, rb, h0, *rest = map(as_variable, inputs)
        self._fit(*(v.type.shape for v in (z, U, b, rb, h0, *rest)))
        steps, batch, _ = z.type.shape
        batch = h0.type.shape[0] if batch is None else batch
        state = TensorType(z.dtype, (batch, U.type.shape[0]))
        sequence = TensorType(z.dtype, (steps, *state.shape))
        return Apply(self, [z, U, b, rb, h0, *rest], [sequence, z.type, sequence, state])

    def _fit(self, z, U, b, rb, h0, *rest) -> dict[str, int]:
        return fit(
            "gru", z=(z, "T B 3H"), U=(U, "H 3H"), b=(b, "3H"), recurrent_bias=(rb, "3H"), h0=(h0, "B H"),
            lengths=(self.lengths(rest), "B"),
        )  # fmt: skip

    def perform(self, z, U, b, rb, h0, *rest):
        dtype = z.dtype
        z, U, b, rb, h = map(widened, (z, U, b, rb, h0))
        lengths = self.lengths(rest)
        hs, qs = (np.empty((*z.shape[:2], U.shape[0]), z.dtype) for _ in range(2))
        gates = np.empty_like(z, order="C")
        with np.errstate(all="ignore"):
            for t in self.steps(len(z)):
                zz, zr, zn = np.split(z[t] + b, 3, 1)
                hz, hr, q = np.split(h @ U + rb, 3, 1)
                update, r = logistic(zz + hz), logistic(zr + hr)
                n = np.tanh(zn + r * q)
                on = active(lengths, t)
                h = np.where(on, (1 - update) * n + update * h, h)
                hs[t], qs[t] = h, np.where(on, q, 0)
                gates[t] = np.where(on, np.concatenate([update, r, n], 1), 0)
        return tuple(a.astype(dtype, copy=a is h0) for a in (hs, gates, qs, h))

    def definition(self, z, U, b, rb, h0, *rest):
        lengths = self.lengths(rest)

        def step(slices, states):
            z_t, (h,) = slices[0], states
            new = gru_step(add(z_t, b), add(matmul(h, U), rb), h)
            results = concatenate([new.z, new.r, new.n], 1), new.q
            if lengths is None:
                return (new.h,), results
            on = expand_dims(slices[1], 1)
            return (where(on, new.h, h),), tuple(where(on, v, zeros_like(v)) for v in results)

        sequences = [z] if lengths is None else [z, running(lengths, z)]
        h, gates, q = walk(step, sequences, [h0], self.reverse, "gru")
        return [h, gates, q, final(h0, h, self.reverse)]

    def L_op(self, inputs, outputs, output_grads):
        z, U, b, rb, h0, *rest = inputs
        h, gates, q, _ = outputs
        dz, dr, dh0 = GRUGrad(self.reverse, self.bounded)(U, h0, h, gates, q, *output_grads, *rest)
        dU = product_over_time(h0, h, dr, self.reverse)
        return [dz, dU, total(dz, (0, 1)), total(dr, (0, 1)), dh0, *(DisconnectedType()() for _ in rest)]

    def infer_shape(self, node, shapes, values):
        known = self._fit(*shapes)
        state = (known["B"], known["H"])
        return [(known["T"], *state), shapes[0], (known["T"], *state), state]


class GRUGrad(GRUOp):
    """Inputs: U, h0, of the forward op h, gates and q, then the cotangents of its four outputs, and its lengths.
    Outputs: the cotangents dz, dr (T, B, 3H) of x W and of h U (they differ in the block n), and dh0 (B, H).

    At each step, from the last one to the first, with h the cotangent carried so far: dz_z = (g_z + h (before - n))
    z (1 - z), dz_n = (g_n + h (1 - z)) (1 - n^2), dz_r = (g_r + dz_n q) r (1 - r), dr_n = dz_n r + g_q; back goes
    h z + dr U^T.
    """

    def make_node(self, *inputs: Any) -> Apply:
        U, h0, h, gates, *rest = map(as_variable, inputs)
        return Apply(self, [U, h0, h, gates, *rest], [gates.type, gates.type, h0.type])

    def perform(self, U, h0, h, gates, q, dh, dgates, dq, dh_last, *rest):
        dtype = U.dtype
        lengths = self.lengths(rest)
        U, first, h, gates, q, dh, dgates, dq, h_bar = map(widened, (U, h0, h, gates, q, dh, dgates, dq, dh_last))
        dz, dr = np.empty_like(gates, order="C"), np.empty_like(gates, order="C")
        with np.errstate(all="ignore"):
            for t in reversed(self.steps(len(gates))):
                start = t == (len(gates) - 1 if self.reverse else 0)
                old = first if start else h[t + 1 if self.reverse else t - 1]
                z, r, n = np.split(gates[t], 3, 1)
                gz, gr, gn = np.split(dgates[t], 3, 1)
                h_bar = h_bar + dh[t]
                zz, zn = (gz + h_bar * (old - n)) * (z * (1 - z)), (gn + h_bar * (1 - z)) * (1 - n * n)
                zr, zq = (gr + zn * q[t]) * (r * (1 - r)), zn * r + dq[t]
                on = active(lengths, t)
                dz[t] = np.where(on, np.concatenate([zz, zr, zn], 1), 0)
                dr[t] = np.where(on, np.concatenate([zz, zr, zq], 1), 0)
                h_bar = np.where(on, h_bar * z, h_bar) + dr[t] @ U.T
        return tuple(a.astype(dtype, copy=a is dh_last) for a in (dz, dr, h_bar))

    def definition(self, U, h0, h, gates, q, dh, dgates, dq, dh_last, *rest):
        lengths = self.lengths(rest)

        def step(slices, states):
            old, gates_t, q_t, dh_t, dgates_t, dq_t, *on = slices
            z, r, n = split(gates_t, 3, 1)
            gz, gr, gn = split(dgates_t, 3, 1)
            h_bar = add(states[0], dh_t)
            zz = multiply(add(gz, multiply(h_bar, subtract(old, n))), slope(z))
            zn = multiply(add(gn, multiply(h_bar, subtract(1, z))), subtract(1, square(n)))
            zr, zq = multiply(add(gr, multiply(zn, q_t)), slope(r)), add(multiply(zn, r), dq_t)
            dz, dr = concatenate([zz, zr, zn], 1), concatenate([zz, zr, zq], 1)
            back = multiply(h_bar, z)
            if on:
                live = expand_dims(on[0], 1)
                dz, dr = where(live, dz, zeros_like(dz)), where(live, dr, zeros_like(dr))
                back = where(live, back, h_bar)
            return (add(back, matmul(dr, swapaxes(U, 0, 1))),), (dz, dr)

        sequences: list[Variable] = [before(h0, h, self.reverse), gates, q, dh, dgates, dq]
        if lengths is not None:
            sequences.append(running(lengths, h))
        h_bar, dz, dr = walk(step, sequences, [dh_last], not self.reverse, "gradient of gru")
        return [dz, dr, final(dh_last, h_bar, not self.reverse)]

    def L_op(self, inputs, outputs, output_grads):
        return self.by_definition(inputs, output_grads)

    def infer_shape(self, node, shapes, values):
        return [shapes[3], shapes[3], shapes[1]]
