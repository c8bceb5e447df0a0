"""ifelse, while_loop, functions as ops and checkpoints: laziness, gradients to second order, both backends."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, ArgumentTypeError, GraphError

BACKENDS = ("native", "reference")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def test_ifelse_computes_only_the_branch_that_is_taken(backend):
    x, i = pb.dvector("x"), pb.lscalar("i")
    y = pb.ifelse(x.sum() > 0, lambda: x[i], lambda: x.sum() * 2)
    f = pb.function([x, i], y, backend=backend)
    assert f([-1.0, -2.0], 7) == -6.0  # x[7] would be an error
    assert f([1.0, 2.0], 1) == 2.0


def test_gradients_of_ifelse(backend, rng):
    x, w = pb.dvector("x"), pb.dvector("w")
    y = pb.ifelse(x[0] > 0, lambda: (pb.exp(x) * w).sum(), lambda: (pb.log(-x) * 2).sum())
    g = pb.grad(y, [x, w])
    second = pb.grad((g[0] * g[0]).sum(), x)
    f = pb.function([x, w], [*g, second], backend=backend)
    v = rng.uniform(1, 2, 3)
    a = f(v, v)
    np.testing.assert_allclose(a[0], np.exp(v) * v)
    np.testing.assert_allclose(a[1], np.exp(v))
    np.testing.assert_allclose(a[2], 2 * (np.exp(v) * v) ** 2)
    b = f(-v, v)
    np.testing.assert_allclose(b[0], -2 / v)
    assert b[1].tolist() == [0, 0, 0]
    np.testing.assert_allclose(b[2], 2 * (-2 / v) * (-2 / v**2))


def test_ifelse_of_lists_and_mistakes():
    c, x = pb.scalar("c"), pb.vector("x")
    a, b = pb.ifelse(c, [x, x.sum()], [x * 2, x.max()])
    assert a.eval({c: 0.0, x: [1.0, 2.0]}).tolist() == [2, 4] and b.eval({c: 1.0, x: [1.0, 2.0]}) == 3
    with pytest.raises(ArgumentTypeError, match="pb.where"):
        pb.ifelse(x, c, c)
    with pytest.raises(GraphError, match="value 0"):
        pb.ifelse(c, x, c)
    with pytest.raises(ArgumentError, match="2 values"):
        pb.ifelse(c, [x, x], [x])


def test_while_loop(backend):
    x = pb.dscalar("x")
    y = pb.while_loop(lambda v: v < 100, lambda v: v * v, x)
    f = pb.function([x], [y, pb.grad(y, x), pb.grad(pb.grad(y, x), x)], backend=backend)
    assert [float(v) for v in f(3.0)] == [6561, 8 * 3**7, 56 * 3**6]
    assert [float(v) for v in f(200.0)] == [200, 1, 0]
    a, b = pb.while_loop(lambda a, b: b > 0, lambda a, b: (b, a % b), (pb.lscalar("a"), pb.lscalar("b")))
    assert a.eval(dict(zip(pb.graph_inputs([a]), (np.int64(48), np.int64(36))))) == 12
    capped = pb.while_loop(lambda v: v < 100, lambda v: v + 1, x, max_steps=5)
    assert capped.eval({x: 0.0}) == 5 and pb.while_loop(lambda v: v < 9, lambda v: v + 1, x, 0).eval({x: 0.0}) == 0


def test_while_loop_mistakes():
    x = pb.vector("x")
    with pytest.raises(ArgumentTypeError, match="scalar"):
        pb.while_loop(lambda v: v > 0, lambda v: v, x)
    with pytest.raises(GraphError, match="part 0"):
        pb.while_loop(lambda v: v.sum() > 0, lambda v: v.sum(), x)
    with pytest.raises(ArgumentError, match="2 parts"):
        pb.while_loop(lambda a, b: a.sum() > 0, lambda a, b: a, (x, x))


def test_a_function_as_an_op_is_the_function(backend, rng):
    x, w = pb.dmatrix("x"), pb.dmatrix("w")
    f = lambda a, b: (pb.tanh(a @ b), (a * a).sum())  # noqa: E731
    found = {}
    for name, (y, s) in {"op": pb.as_op(f)(x, w), "plain": f(x, w)}.items():
        cost = (y * y * s).sum()
        g = pb.grad(cost, [x, w])
        found[name] = [cost, *g, *pb.grad(sum((v * v * v).sum() for v in g), [x, w])]
    n = len(found["op"])
    values = pb.function([x, w], [*found["op"], *found["plain"]], backend=backend)(
        rng.standard_normal((3, 4)), rng.standard_normal((4, 2))
    )
    for a, b in zip(values[:n], values[n:]):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_checkpoints_keep_values_gradients_and_draws(backend, rng):
    x = pb.dmatrix("x")
    stream = pb.random.RandomStream(1)
    block = lambda a: pb.dropout(pb.exp(pb.sin(a)), 0.5, stream)  # noqa: E731
    y = pb.checkpoint(block, x)
    f = pb.function([x], [y, pb.grad(y.sum(), x)], backend=backend)
    data = rng.standard_normal((4, 5))
    for _ in range(2):
        value, gradient = f(data)
        np.testing.assert_allclose(gradient, value * np.cos(data), rtol=1e-12)


def test_refusals_come_out_of_inner_graphs():
    x, c = pb.dvector("x"), pb.dscalar("c")
    bad = lambda v: pb.undefined_grad(v, "for this test").sum()  # noqa: E731
    with pytest.raises(pb.UndefinedGradientError, match="for this test"):
        pb.grad(pb.as_op(bad)(x), x)
    with pytest.raises(pb.UndefinedGradientError, match="for this test"):
        pb.grad(pb.ifelse(c, lambda: bad(x), lambda: x.sum()), x)
    with pytest.raises(pb.UndefinedGradientError, match="for this test"):
        pb.grad(pb.scan(lambda v: pb.undefined_grad(v, "for this test"), sequences=x).sum(), x)
    assert pb.grad(pb.ifelse(c, lambda: bad(x) * c, lambda: c), c).eval({c: 0.0, x: [1.0]}) == 1
