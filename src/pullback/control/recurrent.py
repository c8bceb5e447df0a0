"""Recurrent networks over sequences (time, batch, features): plain, GRU, LSTM; both directions, several layers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError
from ..graph import Constant, Variable
from ..ops.activation import relu
from ..ops.arithmetic import add, clip, multiply, subtract, where
from ..ops.gradient_views import disconnected_grad
from ..ops.linear import matmul
from ..ops.norm import layer_norm
from ..ops.recurrent import (
    CLIP_GRADIENTS,
    RESETS,
    as_floats,
    biased,
    choose,
    fit,
    gru_step,
    lstm_step,
    reset_before_step,
)
from ..ops.shape import broadcast_to, concatenate, expand_dims, length, split, stack
from ..ops.transcendental import tanh
from .gru_op import GRU
from .lstm_op import LSTM
from .sequence import checked_lengths, final, kept, running, walk

__all__ = ["bidirectional", "gru", "lstm", "rnn", "stacked"]

ACTIVATIONS: dict[str, Callable[[Variable], Variable]] = {"tanh": tanh, "relu": relu}
Parameters = Mapping[str, Any]
Window = Callable[..., Sequence[Variable]]


@dataclass(frozen=True)
class Course:
    """How the steps of a recurrent network follow each other, whatever its cell.

    Attributes:
        what: for messages.
        lengths: steps that count, per example, checked; None: all.
        reverse: from the end of time to its beginning.
        truncate: through how many steps gradients go back at most.
    """

    what: str
    lengths: Variable | None
    reverse: bool
    truncate: int | None

    def run(self, window: Window, x: Variable, *states: Variable) -> tuple[Variable, ...]:
        """(outputs, last states) of `window(x, lengths, *states)`; padding in x can't leak, and outputs are 0 there."""
        on = None if self.lengths is None else running(self.lengths, x)
        x = kept(x, on)
        y, *last = window(x, self.lengths, *states) if self.truncate is None else self.in_windows(window, x, states)
        return kept(y, on), *last

    def in_windows(self, window: Window, x: Variable, states: Sequence[Variable]) -> list[Variable]:
        """The same, window by window; each gets the states of the one before as constants."""
        count, size = x.type.shape[0], self.truncate
        if not isinstance(size, int) or size < 1:
            raise ArgumentError(f"{self.what}: truncate={size!r}; expected a whole number from 1 up, or None")
        if count is None:
            raise ArgumentError(f"{self.what}: truncate needs a number of steps that is known; x is {x.type}")
        outputs = []
        spans = [(max(0, end - size), end) for end in range(count, 0, -size)] if self.reverse else [
            (start, min(start + size, count)) for start in range(0, count, size)
        ]  # fmt: skip
        for start, end in spans or [(0, 0)]:
            counts = None if self.lengths is None else clip(subtract(self.lengths, start), 0, end - start)
            y, *last = window(x[start:end], counts, *states)
            outputs.append(y)
            states = [disconnected_grad(s) for s in last]
        return [concatenate(outputs[::-1] if self.reverse else outputs), *last]

    def walk(
        self, step: Callable[..., Sequence[Variable]], z: Variable, lengths: Variable | None, *states: Variable
    ) -> list[Variable]:
        """(outputs, last states) of a scan of `step(z_t, *states) -> new states`; an ended example keeps its states."""

        def bounded(slices: Sequence[Variable], old: Sequence[Variable]) -> tuple[list[Variable], tuple]:
            new = step(slices[0], *old)
            if lengths is not None:
                new = [where(expand_dims(slices[1], 1), n, o) for n, o in zip(new, old)]
            return list(new), ()

        sequences = [z] if lengths is None else [z, running(lengths, z)]
        found = walk(bounded, sequences, states, self.reverse, self.what)
        return [found[0], *(final(s, all_s, self.reverse) for s, all_s in zip(states, found))]


def course(what: str, x: Variable, lengths: Any, reverse: bool, truncate: int | None) -> Course:
    return Course(what, None if lengths is None else checked_lengths(lengths, x, what), bool(reverse), truncate)


def begun(state: Variable | None, x: Variable, width: Variable) -> Variable:
    """The first state, zeros (B, width) if none is given."""
    if state is not None:
        return state
    return broadcast_to(Constant(0.0, x.dtype), [length(x, 1), width])


def normalized(x: Variable, gain: Variable | None) -> Variable:
    return x if gain is None else layer_norm(x, gain)


def masked(h: Variable, mask: Variable | None) -> Variable:
    return h if mask is None else multiply(h, mask)


def named(gains: Sequence[Any] | None, count: int, what: str) -> dict[str, Any]:
    """The gains of layer normalisation by name, all None without."""
    if gains is not None and len(gains) != count:
        raise ArgumentError(f"{what}: gains has {len(gains)} entries; expected {count}")
    return {f"gains[{k}]": None if gains is None else gains[k] for k in range(count)}


# --- the three networks -----------------------------------------------------------------------------------------------


def rnn(
    x: Any, W: Any, U: Any, b: Any = None, h0: Any = None, *, activation: str | Callable[[Variable], Variable] = "tanh",
    lengths: Any = None, reverse: bool = False, mask: Any = None, gains: Sequence[Any] | None = None,
    truncate: int | None = None,
) -> tuple[Variable, Variable]:  # fmt: skip
    """A plain recurrent network (Elman 1990): h' = activation(x W + h U + b).

    Args:
        x: (T, B, I).
        W, U, b: (I, H), (H, H), (H,).
        h0: the first state, (B, H); zeros unless given.
        activation: "tanh", "relu", or a function of a variable.
        lengths: how many steps of each example count, (B,) integers. Past them the state stays as it is, outputs are 0,
            and what x holds there has no effect, NaN included.
        reverse: walk from the end of time (of each example) to its beginning; outputs stay in the order of time.
        mask: (B, H) or (H,), multiplies the state before the product with U at every step: with values of 0 and
            1 / (1 - p) it is variational dropout (Gal and Ghahramani 2016).
        gains: (g_x, g_h), one entry per column: the products x W and h U are layer-normalised and scaled with them
            before they are added up (Ba et al. 2016).
        truncate: let gradients go back through at most so many steps: time is cut into windows, and each gets the state
            of the one before as a constant. The number of steps must be known when the graph is built.

    Returns:
        (outputs (T, B, H), the last state (B, H)).
    """
    x, W, U, b, h0, mask, g_x, g_h = as_floats(x=x, W=W, U=U, b=b, h0=h0, mask=mask, **named(gains, 2, "rnn"))
    fit("rnn", x=(x, "T B I"), W=(W, "I H"), U=(U, "H H"), b=(b, "H"), h0=(h0, "B H"), g_x=(g_x, "H"), g_h=(g_h, "H"))
    f = activation if callable(activation) else ACTIVATIONS.get(activation)
    if f is None:
        raise ArgumentError(f"rnn: activation={activation!r}; expected a function, 'tanh' or 'relu'")
    path = course("rnn", x, lengths, reverse, truncate)

    def step(z: Variable, h: Variable) -> list[Variable]:
        return [f(add(z, normalized(matmul(masked(h, mask), U), g_h)))]

    def window(x: Variable, lengths: Variable | None, h0: Variable) -> list[Variable]:
        return path.walk(step, biased(normalized(matmul(x, W), g_x), b), lengths, h0)

    return path.run(window, x, begun(h0, x, length(U, 0)))


def gru(
    x: Any, W: Any, U: Any, b: Any = None, recurrent_bias: Any = None, h0: Any = None, *, reset: str = "after",
    lengths: Any = None, reverse: bool = False, mask: Any = None, gains: Sequence[Any] | None = None,
    truncate: int | None = None,
) -> tuple[Variable, Variable]:  # fmt: skip
    """A GRU (Cho et al. 2014); its cell is `gru_cell`, with column blocks z, r, n.

    Args:
        x: (T, B, I).
        W, U: (I, 3H), (H, 3H).
        b, recurrent_bias: (3H,), added to x W and to the products with U.
        h0: the first state, (B, H); zeros unless given.
        reset: "after" the product with U_n (cuDNN, PyTorch, Keras) or "before" it (the paper, TensorFlow).
        gains: as in `rnn`, with lengths 3H; only with reset="after".
        lengths, reverse, mask, truncate: as in `rnn`.

    Returns:
        (outputs (T, B, H), the last state (B, H)).
    """
    x, W, U, b, rb, h0, mask, g_x, g_h = as_floats(
        x=x, W=W, U=U, b=b, recurrent_bias=recurrent_bias, h0=h0, mask=mask, **named(gains, 2, "gru")
    )
    fit(
        "gru", x=(x, "T B I"), W=(W, "I 3H"), U=(U, "H 3H"), b=(b, "3H"), recurrent_bias=(rb, "3H"), h0=(h0, "B H"),
        g_x=(g_x, "3H"), g_h=(g_h, "3H"),
    )  # fmt: skip
    choose("gru", reset=(reset, RESETS))
    if gains is not None and reset == "before":
        raise ArgumentError("gru: layer normalisation (gains) goes with reset='after'")
    path = course("gru", x, lengths, reverse, truncate)

    def step(z: Variable, h: Variable) -> list[Variable]:
        if reset == "before":
            return [reset_before_step(z, h, U, rb, mask)]
        return [gru_step(z, biased(normalized(matmul(masked(h, mask), U), g_h), rb), h).h]

    def window(x: Variable, lengths: Variable | None, h0: Variable) -> list[Variable]:
        z = normalized(matmul(x, W), g_x)
        if reset == "after" and mask is g_x is g_h is None:
            op = GRU(path.reverse, lengths is not None)
            h, _, _, last = op(z, U, *(columns(v, U) for v in (b, rb)), h0, *bounds(lengths))
            return [h, last]
        return path.walk(step, biased(z, b), lengths, h0)

    return path.run(window, x, begun(h0, x, length(U, 0)))


def lstm(
    x: Any, W: Any, U: Any, b: Any = None, h0: Any = None, c0: Any = None, *, peepholes: Any = None,
    projection: Any = None, cell_clip: float = 0.0, clip_gradient: str = "true", lengths: Any = None,
    reverse: bool = False, mask: Any = None, gains: Sequence[Any] | None = None, truncate: int | None = None,
) -> tuple[Variable, Variable, Variable]:  # fmt: skip
    """An LSTM (Hochreiter and Schmidhuber 1997, Gers et al. 2000); its cell is `lstm_cell`: column blocks i, f, g, o.

    Args:
        x: (T, B, I).
        W, U, b: (I, 4H), (H, 4H), (4H,).
        h0, c0: the first output and cell, (B, H); zeros unless given.
        peepholes: (3, H), for i, f and o: these gates also see the cell, by p_i c, p_f c and p_o c' (Gers et al. 2002).
        projection: (H, P): outputs are o tanh(c) projected; h0 is then (B, P) and U (P, 4H) (Sak et al. 2014).
        cell_clip: cells are held within [-cell_clip, cell_clip]; 0 or less: not at all.
        clip_gradient: "true" (nothing comes back through a clipped cell) or "straight_through".
        gains: (g_x, g_h, g_c), of lengths 4H, 4H and H, as in `rnn`; the cell is normalised before its tanh.
        lengths, reverse, mask, truncate: as in `rnn`.

    Returns:
        (outputs (T, B, H or P), the last output, the last cell).
    """
    x, W, U, b, h0, c0, p, R, mask, g_x, g_h, g_c = as_floats(
        x=x, W=W, U=U, b=b, h0=h0, c0=c0, peepholes=peepholes, projection=projection, mask=mask,
        **named(gains, 3, "lstm"),
    )  # fmt: skip
    out = "H" if R is None else "P"
    fit(
        "lstm", x=(x, "T B I"), W=(W, "I 4H"), U=(U, f"{out} 4H"), b=(b, "4H"), h0=(h0, f"B {out}"), c0=(c0, "B H"),
        peepholes=(p, "3 H"), projection=(R, "H P"), g_x=(g_x, "4H"), g_h=(g_h, "4H"), g_c=(g_c, "H"),
    )  # fmt: skip
    choose("lstm", clip_gradient=(clip_gradient, CLIP_GRADIENTS))
    path = course("lstm", x, lengths, reverse, truncate)
    holes = None if p is None else (p[0], p[1], p[2])

    def step(z: Variable, h: Variable, c: Variable) -> list[Variable]:
        z = add(z, normalized(matmul(masked(h, mask), U), g_h))
        new = lstm_step(split(z, 4, 1), c, holes, cell_clip, clip_gradient)
        y = new.h if g_c is None else multiply(new.o, tanh(normalized(new.c, g_c)))
        return [y if R is None else matmul(y, R), new.c]

    def window(x: Variable, lengths: Variable | None, h0: Variable, c0: Variable) -> list[Variable]:
        z = normalized(matmul(x, W), g_x)
        if R is mask is g_x is g_h is g_c is None:
            straight = clip_gradient == "straight_through"
            op = LSTM(path.reverse, max(float(cell_clip), 0.0), straight, p is not None, lengths is not None)
            h, _, _, *last = op(z, U, columns(b, U), h0, c0, *([] if p is None else [p]), *bounds(lengths))
            return [h, *last]
        return path.walk(step, biased(z, b), lengths, h0, c0)

    cells = length(U if R is None else R, 0)
    return path.run(window, x, begun(h0, x, length(U, 0)), begun(c0, x, cells))


def columns(b: Variable | None, U: Variable) -> Variable:
    """A bias for the columns of U, zeros if there is none."""
    return broadcast_to(Constant(0.0, U.dtype), [length(U, 1)]) if b is None else b


def bounds(lengths: Variable | None) -> list[Variable]:
    return [] if lengths is None else [lengths]


# --- both directions, several layers ----------------------------------------------------------------------------------


def bidirectional(
    network: Callable[..., Any], x: Any, forward: Parameters, backward: Parameters, lengths: Any = None
) -> tuple[Variable, ...]:
    """A network walked in both directions, with parameters of its own for each.

    Args:
        network: `rnn`, `gru`, `lstm` or a function like them.
        x: (T, B, I).
        forward, backward: the arguments of each direction by name: `dict(W=.., U=.., b=..)`.
        lengths: as in `rnn`; the backward direction begins at each example's last step.

    Returns:
        (outputs (T, B, 2H), forward then backward, and the last states of both, (2, B, H) each).
    """
    one = network(x, **forward, lengths=lengths)
    other = network(x, **backward, lengths=lengths, reverse=True)
    return concatenate([one[0], other[0]], -1), *(stack(pair) for pair in zip(one[1:], other[1:]))


def stacked(
    network: Callable[..., Any],
    x: Any,
    layers: Sequence[Parameters | tuple[Parameters, Parameters]],
    lengths: Any = None,
    between: Callable[[Variable], Variable] | None = None,
) -> tuple[Variable, ...]:
    """Networks on top of each other.

    Args:
        network: `rnn`, `gru`, `lstm` or a function like them.
        x: (T, B, I).
        layers: per layer its arguments by name, or a pair of them for both directions.
        lengths: as in `rnn`.
        between: applied to the outputs of each layer but the last, e.g. `lambda y: stream.dropout(y, 0.5)`.

    Returns:
        (outputs of the last layer, last states of all layers and directions, (layers * directions, B, H) each).
    """
    if not layers:
        raise ArgumentError("stacked: give the parameters of at least one layer")
    states: list[Sequence[Variable]] = []
    for k, layer in enumerate(layers):
        if k and between is not None:
            x = between(x)
        if isinstance(layer, Mapping):
            x, *last = network(x, **layer, lengths=lengths)
            states.append([expand_dims(s, 0) for s in last])
        else:
            x, *last = bidirectional(network, x, *layer, lengths=lengths)
            states.append(last)
    return x, *(concatenate(parts) for parts in zip(*states))
