"""Products leave loops: the same values and gradients, and no product that could stand outside is left inside."""

import numpy as np
import pytest

import pullback as pb
from pullback.control import Scan
from pullback.graph import toposort
from pullback.ops.linear import MatMul

HIDDEN = 6


def lstm_cell(x_t, h, c, w, u, b):
    z = x_t @ w + h @ u + b
    i, f, g, o = (z[:, k * HIDDEN : (k + 1) * HIDDEN] for k in range(4))
    c = pb.sigmoid(f) * c + pb.sigmoid(i) * pb.tanh(g)
    return pb.sigmoid(o) * pb.tanh(c), c


def products_inside(f):
    scans = [n for n in toposort(f.program.outputs) if isinstance(n.op, Scan)]
    return [[n for n in s.op.graph.nodes if isinstance(n.op, MatMul)] for s in scans], scans


@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("backwards", [False, True])
def test_a_recurrent_network_keeps_one_product_a_step(steps, backwards, rng):
    x = pb.dtensor3("x")
    h0, c0, w, u, b = pb.dmatrix("h0"), pb.dmatrix("c0"), pb.dmatrix("w"), pb.dmatrix("u"), pb.dvector("b")
    hs, _ = pb.scan(lambda a, h, c: lstm_cell(a, h, c, w, u, b), x, [h0, c0], go_backwards=backwards)
    upstream = rng.standard_normal((steps, 3, HIDDEN))
    inputs = [x, h0, c0, w, u, b]
    outputs = [hs, *pb.grad((hs * upstream).sum(), inputs)]
    shapes = [(steps, 3, 5), (3, HIDDEN), (3, HIDDEN), (5, 4 * HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN,)]
    arrays = [rng.standard_normal(s) for s in shapes]
    f = pb.function(inputs, outputs)
    found = f(*arrays)
    with pb.config.override(rewrites="stabilising"):
        expected = pb.function(inputs, outputs, backend="reference")(*arrays)
    for a, e in zip(found, expected):
        np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-12)
    inside, scans = products_inside(f)
    assert [len(products) for products in inside] == [1, 1]
    assert scans[1].op.n_states == 2  # no running sums of weight gradients are left


def test_products_that_need_the_state_stay(rng):
    x, w, h0 = pb.dtensor3("x"), pb.dmatrix("w"), pb.dmatrix("h0")
    y = pb.scan(lambda a, h: pb.tanh((a * h) @ w), x, h0)
    f = pb.function([x, w, h0], y)
    arrays = [rng.standard_normal(s) for s in ((4, 2, 3), (3, 3), (2, 3))]
    h, expected = arrays[2], []
    for a in arrays[0]:
        h = np.tanh((a * h) @ arrays[1])
        expected.append(h)
    np.testing.assert_allclose(f(*arrays), expected, rtol=1e-12)
    assert [len(p) for p in products_inside(f)[0]] == [1]


def test_results_are_multiplied_after(rng):
    x, w, h0 = pb.dtensor3("x"), pb.dmatrix("w"), pb.dmatrix("h0")
    y = pb.scan(lambda a, h: (h + a, pb.sin(h) @ w), x, [h0, None])[1]
    f = pb.function([x, w, h0], [y, pb.grad((y * y).sum(), w)])
    arrays = [rng.standard_normal(s) for s in ((4, 2, 3), (3, 5), (2, 3))]
    states = np.concatenate([arrays[2][None], arrays[2] + np.cumsum(arrays[0], 0)])[:-1]
    expected = np.sin(states) @ arrays[1]
    value, gradient = f(*arrays)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, 2 * np.einsum("tbi,tbj->ij", np.sin(states), expected), rtol=1e-10)
    assert not any(products_inside(f)[0])
