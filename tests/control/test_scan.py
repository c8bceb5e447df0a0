"""Scan against the same computation unrolled by hand: values, gradients to third order, all options; both backends."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, ArgumentTypeError, DTypeError, GraphError, ShapeError

BACKENDS = ("native", "reference")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def same(inputs, scanned, unrolled, arrays, backend, rtol=1e-12):
    n = len(scanned)
    found = pb.function(inputs, [*scanned, *unrolled], backend=backend, on_unused_input="ignore")(*arrays)
    for i, (a, b) in enumerate(zip(found[:n], found[n:])):
        scale = max(1.0, np.abs(b).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale, err_msg=f"output {i}")


def derivatives(y, upstream, wrt, order):
    """y, its gradient under `upstream`, and gradients of nonlinear functions of that, up to `order`."""
    cost, found = (y * upstream).sum(), [y]
    for _ in range(order):
        grads = pb.grad(cost, wrt, disconnected_inputs="ignore")
        found += grads
        cost = sum((g * pb.sin(g + 1)).sum() for g in grads)
    return found


def test_a_recurrent_network_to_third_order(backend, rng):
    x, h0, w = pb.dmatrix("x"), pb.dvector("h0"), pb.dmatrix("w")
    upstream = rng.standard_normal((5, 3))
    scanned = pb.scan(lambda x_t, h: pb.tanh(x_t + h @ w), sequences=x, outputs_info=h0)
    h, steps = h0, []
    for t in range(5):
        h = pb.tanh(x[t] + h @ w)
        steps.append(h)
    unrolled = pb.stack(steps)
    arrays = [rng.standard_normal((5, 3)), rng.standard_normal(3), rng.standard_normal((3, 3)) / 2]
    wrt = [x, h0, w]
    same([x, h0, w], derivatives(scanned, upstream, wrt, 3), derivatives(unrolled, upstream, wrt, 3), arrays, backend)


def test_several_taps_results_and_states(backend, rng):
    s, first = pb.dvector("s"), pb.dvector("first")
    a, b = pb.scan(
        lambda s_t, p, q, r: (pb.sin(p) * s_t + q, r * q, p * s_t)[:2],
        sequences=s,
        outputs_info=[dict(initial=first, taps=[-3, -1]), pb.asarray(0.5)],
    )
    values, r, products = [first[0], first[1], first[2]], pb.asarray(0.5), []
    for t in range(4):
        p, q = values[t], values[t + 2]
        r = r * q
        products.append(r)
        values.append(pb.sin(p) * s[t] + q)
    upstream = rng.standard_normal(4)
    scanned = derivatives(a + b, upstream, [s, first], 2)
    unrolled = derivatives(pb.stack(values[3:]) + pb.stack(products), upstream, [s, first], 2)
    same([s, first], scanned, unrolled, [rng.standard_normal(4), rng.standard_normal(3)], backend)


def test_sequences_with_taps_and_backwards(backend, rng):
    x = pb.dvector("x")
    data = rng.standard_normal(6)
    differences = pb.scan(lambda before, now: now - before, sequences=dict(input=x, taps=[-1, 0]))
    total = pb.scan(lambda x_t, t: 2 * t + x_t, sequences=x, outputs_info=pb.asarray(0.0), go_backwards=True)
    f = pb.function([x], [differences, total], backend=backend)
    found, totals = f(data)
    np.testing.assert_allclose(found, np.diff(data))
    expected, t = [], 0.0
    for value in data[::-1]:
        t = 2 * t + value
        expected.append(t)
    np.testing.assert_allclose(totals, expected)


def test_until_keeps_the_step_that_ends_it(backend):
    v = pb.dvector("v")
    u = pb.scan(lambda a, t: (a + t, pb.until(a + t > 5)), sequences=v, outputs_info=pb.asarray(0.0))
    f = pb.function([v], [u, pb.grad((u * u).sum(), v)], backend=backend)
    values, gradient = f(np.arange(8.0))
    assert values.tolist() == [0, 1, 3, 6]
    assert gradient.tolist() == [20, 20, 18, 12, 0, 0, 0, 0]
    assert f(np.array([9.0, 1.0]))[0].tolist() == [9.0]


def test_truncated_gradients(backend):
    v, first = pb.dvector("v"), pb.dscalar("first")
    y = pb.scan(lambda a, t: a * t, sequences=v, outputs_info=first, truncate_gradient=2)
    g_v, g_first = pb.grad(y[-1], [v, first])
    f = pb.function([v, first], [g_v, g_first], backend=backend)
    found = f(np.array([2.0, 3.0, 4.0, 5.0]), 1.0)
    assert found[0].tolist() == [0, 0, 30, 24] and found[1] == 0
    assert f(np.array([4.0, 5.0]), 1.0)[1] == 20


def test_zero_steps(backend):
    v, h = pb.dmatrix("v"), pb.dvector("h")
    states, results = pb.scan(lambda a, s: (s + a, a * 2), sequences=v, outputs_info=[h, None])
    cost = states.sum() + results.sum()
    f = pb.function([v, h], [states, results, *pb.grad(cost, [v, h])], backend=backend)
    shapes = [a.shape for a in f(np.zeros((0, 3)), np.ones(3))]
    assert shapes == [(0, 3), (0, 3), (0, 3), (3,)]


def test_steps_without_sequences_and_symbolic_counts(backend):
    n, x = pb.lscalar("n"), pb.dscalar("x")
    powers = pb.scan(lambda p: p * x, outputs_info=pb.asarray(1.0), n_steps=n)
    f = pb.function([n, x], [powers, pb.grad(powers[-1], x)], backend=backend)
    values, gradient = f(4, 3.0)
    assert values.tolist() == [3, 9, 27, 81] and gradient == 108
    assert f(2, 3.0)[0].tolist() == [3, 9]


def test_updates_of_shared_variables(backend):
    count = pb.shared(np.float64(0))
    x = pb.dvector("x")
    y, updates = pb.scan(lambda a: (a * count, {count: count + 1}), sequences=x, return_updates=True)
    f = pb.function([x], y, updates=updates, backend=backend)
    assert f(np.ones(3)).tolist() == [0, 1, 2] and count.get_value() == 3
    assert f(np.ones(2)).tolist() == [3, 4] and count.get_value() == 5


def test_long_loops_are_stepped(rng):
    x = pb.vector("x")
    y = pb.scan(lambda a, t: pb.tanh(t * 0.9 + a), sequences=x, outputs_info=pb.asarray(0.0).astype("float32"))
    data = rng.standard_normal(12000).astype("float32")
    found = pb.function([x], y)(data)
    t, expected = np.float32(0), []
    for a in data:
        t = np.tanh(t * np.float32(0.9) + a)
        expected.append(t)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_folds_and_maps(backend):
    x = pb.dvector("x")
    assert pb.function([x], pb.foldl(lambda a, t: t * 2 + a, x, pb.asarray(0.0)), backend=backend)([1, 2, 3.0]) == 11
    assert pb.function([x], pb.foldr(lambda a, t: t * 2 + a, x, pb.asarray(0.0)), backend=backend)([1, 2, 3.0]) == 17
    assert pb.function([x], pb.map(lambda a: a * a, x), backend=backend)([1, 2, 3.0]).tolist() == [1, 4, 9]


def test_what_reaches_the_cost_is_connected_and_nothing_else():
    x, unused, h = pb.dvector("x"), pb.dscalar("unused"), pb.dscalar("h")
    a, b = pb.scan(lambda x_t, s: (s * x_t, x_t + unused), sequences=x, outputs_info=[h, None])
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(a.sum(), unused)
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(b.sum(), h)
    assert pb.grad(b.sum(), unused).eval({x: [1.0, 2.0], h: 0.0, unused: 1.0}) == 2


def test_mistakes():
    x, h = pb.matrix("x"), pb.vector("h")
    with pytest.raises(ArgumentError, match="n_steps"):
        pb.scan(lambda s: s + 1, outputs_info=h)
    with pytest.raises(DTypeError, match="state 0.*float32.*float64"):
        pb.scan(lambda a, s: (s + a).astype("float64"), x, h)
    with pytest.raises(ShapeError, match="state 0"):
        pb.scan(lambda a, s: s.sum(), x, h)
    with pytest.raises(ArgumentError, match="2 outputs"):
        pb.scan(lambda a, s: (s, a), x, [h])
    with pytest.raises(ArgumentError, match="taps"):
        pb.scan(lambda a, s: s, x, dict(initial=x, taps=[1]))
    with pytest.raises(ShapeError, match="scalar"):
        pb.scan(lambda a: a, pb.scalar())
    with pytest.raises(ArgumentTypeError, match="scalar"):
        pb.until(h > 0)
    w = pb.shared(np.float32(0))
    with pytest.raises(GraphError, match="return_updates"):
        pb.scan(lambda a: (a, {w: w + 1}), x)
    y = pb.scan(lambda a: a * 2, sequences=x, n_steps=5)
    with pytest.raises(ShapeError, match="3 entries, but 5 steps"):
        y.eval({x: np.zeros((3, 2), "float32")})
