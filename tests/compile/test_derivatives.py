"""Derivatives of plain functions over nested containers, beside those of expressions."""

from collections import namedtuple

import numpy as np
import pytest

import pullback as pb
from pullback.compile.derivatives import hessian, hvp, jacobian, jvp, vjp

Pair = namedtuple("Pair", "a b")


def difference(f, x, v, h=1e-6):
    return (np.asarray(f(x + h * v)) - np.asarray(f(x - h * v))) / (2 * h)


def plain(x):
    return np.tanh(np.array([[1.0, 2, 0.5], [0.1, -1, 3]]) @ x) * np.exp(x[0])


def traced(x):
    return pb.tanh(pb.constant([[1.0, 2, 0.5], [0.1, -1, 3]]) @ x) * pb.exp(x[0])


X = np.array([0.3, -0.2, 0.5])


def test_jacobian_of_a_function():
    found = jacobian(traced)(X)
    assert found.shape == (2, 3) and isinstance(found, np.ndarray)
    for k, e in enumerate(np.eye(3)):
        np.testing.assert_allclose(found[:, k], difference(plain, X, e), rtol=1e-7)


def test_jacobian_of_containers():
    def f(p, k):
        return {"sum": p["x"].sum() * k, "all": [p["x"] * p["y"].b]}

    found = jacobian(f)({"x": X, "y": Pair(X, np.float64(2.0))}, 3.0)
    np.testing.assert_allclose(found["sum"]["x"], [3, 3, 3])
    assert not found["sum"]["y"].a.any() and found["all"][0]["x"].shape == (3, 3)
    np.testing.assert_allclose(found["all"][0]["y"].b, X)
    by_both = jacobian(f, (0, 1))({"x": X, "y": Pair(X, np.float64(2.0))}, 3.0)
    np.testing.assert_allclose(by_both["sum"][1], X.sum())


def test_hessian_of_a_function_has_all_blocks():
    found = hessian(lambda p: (p["x"] ** 2 * p["y"]).sum())({"x": X, "y": 2 * X})
    np.testing.assert_allclose(found["x"]["x"], np.diag(4 * X))
    np.testing.assert_allclose(found["x"]["y"], np.diag(2 * X))
    np.testing.assert_allclose(found["y"]["x"], np.diag(2 * X))
    assert not found["y"]["y"].any()


def test_hvp_is_the_hessian_times_the_vector():
    def cost(x):
        return (traced(x) ** 2).sum()

    v = np.array([1.0, -2, 0.3])
    np.testing.assert_allclose(hvp(cost)(X, v), hessian(cost)(X) @ v, rtol=1e-10)
    both = hvp(lambda x, y: (x * y).sum(), (0, 1))(X, 2 * X, (v, 3 * v))
    np.testing.assert_allclose(both[0], 3 * v)
    np.testing.assert_allclose(both[1], v)


def test_vjp_and_jvp_return_the_value_too():
    v, u = np.array([1.0, -2, 0.3]), np.array([0.5, -1])
    value, moved = jvp(traced)(X, v)
    np.testing.assert_allclose(value, plain(X), rtol=1e-6)
    np.testing.assert_allclose(moved, difference(plain, X, v), rtol=1e-7)
    value, slopes = vjp(traced)(X, u)
    np.testing.assert_allclose(value, plain(X), rtol=1e-6)
    np.testing.assert_allclose(slopes @ v, u @ moved, rtol=1e-6)
    _, (gx, gy) = vjp(lambda x, y: [x * y, x], (0, 1))(X, 2 * X, [X, X])
    np.testing.assert_allclose(gx, 2 * X * X + X)
    np.testing.assert_allclose(gy, X * X)


def test_expressions_under_the_same_names():
    x = pb.dvector("x")
    assert jacobian(pb.sin(x), x).eval({x: X}).shape == (3, 3)
    np.testing.assert_allclose(hessian(pb.sin(x).sum(), x).eval({x: X}), np.diag(-np.sin(X)))
    np.testing.assert_allclose(hvp(pb.sin(x).sum(), x, X).eval({x: X}), -np.sin(X) * X)
    np.testing.assert_allclose(vjp(pb.sin(x), x, X).eval({x: X}), np.cos(X) * X)
    np.testing.assert_allclose(jvp([pb.sin(x)], [x], [X])[0].eval({x: X}), np.cos(X) * X)


def test_transforms_nest():
    row = jacobian(lambda x: pb.grad((x**3).sum(), x))(X)
    np.testing.assert_allclose(row, np.diag(6 * X))
    f = pb.value_and_grad(lambda x: jvp(traced)(x, np.ones(3))[1].sum())
    value, slope = f(X)
    np.testing.assert_allclose(value, difference(plain, X, np.ones(3)).sum(), rtol=1e-7)
    np.testing.assert_allclose(
        slope @ np.ones(3), difference(lambda x: difference(plain, x, np.ones(3), 1e-4).sum(), X, np.ones(3), 1e-4),
        rtol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: jacobian(3), TypeError, "expression or a function"),
        (lambda: jacobian(traced, 1)(X), ValueError, "wrt=1"),
        (lambda: jacobian(traced, disconnected_inputs="ignore"), TypeError, "disconnected_inputs"),
        (lambda: hvp(traced, 0, X), TypeError, r"hvp\(f\)\(\*args, vectors\)"),
        (lambda: vjp(traced)(X, [X]), TypeError, "structure"),
        (lambda: jvp(traced)(X, {"x": X}), TypeError, "structure"),
        (lambda: jacobian(traced)(np.array([1, 2, 3])), TypeError, "neighbourhood"),
        (lambda: hessian(traced)(X), TypeError, "scalar"),
    ],
)
def test_misuse_is_refused(call, error, says):
    with pytest.raises(error, match=says) as caught:
        call()
    assert isinstance(caught.value, pb.PullbackError)
