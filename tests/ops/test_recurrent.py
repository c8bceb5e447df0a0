"""Cells of recurrent networks; TensorFlow's block cells, whose values are held to golden vectors elsewhere."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, IndexRangeError, ShapeError
from pullback.graph import evaluate

B, I, H, T = 3, 2, 4, 5  # noqa: E741


def draw(rng, *shapes):
    return [0.7 * rng.standard_normal(s) for s in shapes]


def gru_block(rng):
    return draw(rng, (B, I), (B, H), (I + H, 2 * H), (I + H, H), (2 * H,), (H,))


def lstm_block(rng, *lead):
    return draw(rng, (*lead, B, I), (B, H), (B, H), (I + H, 4 * H), (H,), (H,), (H,), (4 * H,))


def symbolic(arrays):
    return [pb.tensor(a.dtype.name, (None,) * a.ndim) for a in arrays]


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_lstm_cell_against_its_formula(rng) -> None:
    x, h, c, W, U, b = draw(rng, (B, I), (B, H), (B, H), (I, 4 * H), (H, 4 * H), (4 * H,))
    i, f, g, o = np.split(x @ W + h @ U + b, 4, 1)
    s = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    cell = s(f) * c + s(i) * np.tanh(g)
    close(evaluate(pb.lstm_cell(x, h, c, W, U, b)), [s(o) * np.tanh(cell), cell])


@pytest.mark.parametrize("reset", ["after", "before"])
def test_gru_cell_against_its_formula(rng, reset) -> None:
    x, h, W, U, b, k = draw(rng, (B, I), (B, H), (I, 3 * H), (H, 3 * H), (3 * H,), (3 * H,))
    s = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    xz, xr, xn = np.split(x @ W + b, 3, 1)
    hz, hr, hn = np.split(h @ U + k, 3, 1)
    z, r = s(xz + hz), s(xr + hr)
    n = np.tanh(xn + r * hn) if reset == "after" else np.tanh(xn + (r * h) @ U[:, 2 * H :] + k[2 * H :])
    close(evaluate([pb.gru_cell(x, h, W, U, b, k, reset=reset)]), [(1 - z) * n + z * h])


class TestRawGradients:
    def test_gru(self, rng) -> None:
        arrays, d_h = gru_block(rng), rng.standard_normal((B, H))
        inputs = symbolic(arrays)
        r, u, c, h = pb.gru_block_cell(*inputs)
        d_x, d_h_prev, d_c_bar, d_ru_bar = pb.gru_block_cell_grad(*inputs, r, u, c, d_h)
        x, h_prev = inputs[:2]
        raw = [
            d_x, d_h_prev, pb.concatenate([x, h_prev], 1).T @ d_ru_bar, pb.concatenate([x, r * h_prev], 1).T @ d_c_bar,
            d_ru_bar.sum(0), d_c_bar.sum(0),
        ]  # fmt: skip
        true = pb.grad(None, inputs, known_grads={h: pb.constant(d_h)})
        found = evaluate([*raw, *true], dict(zip(inputs, arrays)))
        close(found[:6], found[6:])

    @pytest.mark.parametrize("use_peephole", [False, True])
    @pytest.mark.parametrize("clip, gradient", [(0.0, "true"), (0.3, "straight_through"), (0.3, "true")])
    def test_lstm(self, rng, use_peephole, clip, gradient) -> None:
        arrays, (cs_grad, h_grad) = lstm_block(rng), draw(rng, (B, H), (B, H))
        inputs = symbolic(arrays)
        out = pb.lstm_block_cell(*inputs, cell_clip=clip, use_peephole=use_peephole, clip_gradient=gradient)
        known = clip if gradient == "true" else 0.0  # TensorFlow's op doesn't know the clip: straight through
        cs_prev_grad, dicfo, *holes = pb.lstm_block_cell_grad(*inputs, *out[:6], cs_grad, h_grad, use_peephole, known)
        dxh = dicfo @ inputs[3].T
        dw = pb.concatenate([inputs[0], inputs[2]], 1).T @ dicfo
        raw = [dxh[:, :I], cs_prev_grad, dxh[:, I:], dw, *holes, dicfo.sum(0)]
        upstream = {out.cs: pb.constant(cs_grad), out.h: pb.constant(h_grad)}
        cost = sum((y * g).sum() for y, g in upstream.items())
        true = pb.grad(cost, inputs, disconnected_inputs="ignore")
        found = evaluate([*raw, *true], dict(zip(inputs, arrays)))
        close(found[:8], found[8:])

    @pytest.mark.parametrize("use_peephole", [False, True])
    @pytest.mark.parametrize("steps", [0, 3, T])
    @pytest.mark.parametrize("version", ["", "_v2"])
    def test_block_lstm(self, rng, use_peephole, steps, version) -> None:
        arrays, (cs_grad, h_grad) = lstm_block(rng, T), draw(rng, (T, B, H), (T, B, H))
        inputs = symbolic(arrays)
        forward, backward = getattr(pb, "block_lstm" + version), getattr(pb, "block_lstm_grad" + version)
        out = forward(steps, *inputs, cell_clip=0.0, use_peephole=use_peephole)
        raw = backward(steps, *inputs, *out, cs_grad, h_grad, use_peephole)
        cost = (out.cs * pb.constant(cs_grad)).sum() + (out.h * pb.constant(h_grad)).sum()
        true = pb.grad(cost, inputs, disconnected_inputs="ignore")
        found = evaluate([*raw, *true], dict(zip(inputs, arrays)))
        close(found[:8], found[8:])


def test_block_lstm_is_a_loop_of_the_cell_with_a_tail_of_zeros(rng) -> None:
    x, c, h, *weights = lstm_block(rng, T)
    out = evaluate(pb.block_lstm(3, x, c, h, *weights, use_peephole=True))
    for t in range(3):
        cell = pb.lstm_block_cell(x[t], c, h, *weights, use_peephole=True)
        close([v[t] for v in out], evaluate(cell))
        c, h = cell.cs, cell.h
    assert not any(v[3:].any() for v in out)


def test_the_number_of_steps_may_be_an_input(rng) -> None:
    arrays = lstm_block(rng, T)
    inputs, steps = symbolic(arrays), pb.lscalar()
    out = pb.block_lstm(steps, *inputs)
    f = pb.function([steps, *inputs], [out.h, pb.grad(out.h.sum(), inputs[0])], on_unused_input="ignore")
    for n in (0, 2, T):
        h, dx = f(n, *arrays)
        close([h], evaluate([pb.block_lstm(n, *arrays).h]))
        assert not dx[n:].any() and (n == 0 or dx[:n].any(axis=(1, 2)).all())
    for n in (-1, T + 1):
        with pytest.raises(IndexRangeError, match=rf"a length of {n} is outside \[0, 5\]"):
            f(n, *arrays)


def test_a_clipped_cell_stops_the_gradient_but_for_an_exact_hit(rng) -> None:
    """With gates i = s(0), f = s(0) and ci = 0 the new cell is half of the old one."""
    x, h, w, hole, b = np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((2, 4)), np.zeros(1), np.zeros(4)
    for old, slope in ((0.8, 0.5), (1.0, 0.5), (1.2, 0.0)):
        c = pb.dmatrix()
        for gradient, want in (("true", slope), ("straight_through", 0.5)):
            out = pb.lstm_block_cell(
                x, c, h, w, hole, hole, hole, b, forget_bias=0.0, cell_clip=0.5, clip_gradient=gradient
            )
            cs, g = evaluate([out.cs, pb.grad(out.cs.sum(), c)], {c: np.array([[old]])})
            assert cs == min(old / 2, 0.5) and g == want


def test_peepholes_that_are_not_read_are_disconnected(rng) -> None:
    inputs = symbolic(lstm_block(rng))
    out = pb.lstm_block_cell(*inputs)
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(out.h.sum(), inputs[4])


def test_an_empty_batch(rng) -> None:
    arrays = [a[:0] if k < 3 else a for k, a in enumerate(lstm_block(rng))]
    assert all(v.shape == (0, H) for v in evaluate(pb.lstm_block_cell(*arrays)))


def test_straight_through_clip(rng) -> None:
    x = pb.dvector()
    y = pb.straight_through_clip(x, 0.5)
    value, g = evaluate([y, pb.grad(y.sum(), x)], {x: np.array([-np.inf, -0.2, 0.7])})
    np.testing.assert_array_equal(value, [-0.5, -0.2, 0.5])
    np.testing.assert_array_equal(g, [1, 1, 1])


class TestRefusals:
    def test_shapes(self, rng) -> None:
        arrays = lstm_block(rng)
        with pytest.raises(ShapeError, match=r"lstm_block_cell: x has shape \(2,\); expected \(B, I\)"):
            pb.lstm_block_cell(arrays[0][0], *arrays[1:])
        with pytest.raises(ShapeError, match=r"w has shape \(5, 16\); expected \(I\+H, 4H\) with I=2, H=4"):
            pb.lstm_block_cell(*arrays[:3], arrays[3][1:], *arrays[4:])
        with pytest.raises(ShapeError, match="gru_block_cell: w_c has shape"):
            pb.gru_block_cell(*gru_block(rng)[:3], np.zeros((3, 3)), *gru_block(rng)[4:])
        with pytest.raises(ShapeError, match="gru_cell: b has shape"):
            pb.gru_cell(*draw(rng, (B, I), (B, H), (I, 3 * H), (H, 3 * H), (H,)))

    def test_options(self, rng) -> None:
        with pytest.raises(ArgumentError, match="clip_gradient='no'; expected one of 'true', 'straight_through'"):
            pb.lstm_block_cell(*lstm_block(rng), clip_gradient="no")
        with pytest.raises(ArgumentError, match="reset='x'"):
            pb.gru_cell(*draw(rng, (B, I), (B, H), (I, 3 * H), (H, 3 * H)), reset="x")
