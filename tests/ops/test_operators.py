"""Variables behave like NumPy arrays: operators, methods, indexing, iteration, NumPy's functions; or say why not."""

import operator

import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate
from tests.ops.helpers import as_numpy, value

X = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], "float32")
Y = np.array([2.0, 0.5, 3.0], "float32")
N = np.array([5, 3, 6])


@pytest.mark.parametrize(
    "op",
    [
        operator.add, operator.sub, operator.mul, operator.truediv, operator.mod, operator.floordiv, operator.lt,
        operator.le, operator.gt, operator.ge,
    ],
)  # fmt: skip
def test_binary_operators_between_variables_arrays_and_numbers(op) -> None:
    as_numpy(op, op, X, Y)
    as_numpy(lambda x: op(x, Y), lambda x: op(x, Y), X)
    as_numpy(lambda x: op(Y, x), lambda x: op(Y, x), X)
    as_numpy(lambda x: op(x, 2), lambda x: op(x, 2), X)
    as_numpy(lambda x: op(2.5, x), lambda x: op(2.5, x), X)
    as_numpy(lambda x: op(np.float32(2.5), x), lambda x: op(np.float32(2.5), x), X)


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor])
def test_bitwise_operators(op) -> None:
    as_numpy(op, op, N, N[::-1].copy())
    as_numpy(lambda n: op(6, n), lambda n: op(6, n), N)
    as_numpy(lambda n: op(n > 4, n < 6), lambda n: op(n > 4, n < 6), N)


def test_unary_operators_and_powers() -> None:
    as_numpy(lambda x: -x, lambda x: -x, X)
    as_numpy(lambda x: +x, lambda x: +x, X)
    as_numpy(abs, abs, X)
    as_numpy(lambda n: ~n, lambda n: ~n, N)
    as_numpy(lambda x: x**2, lambda x: x**2, X)
    as_numpy(lambda x: 2.0**x, lambda x: 2.0**x, X)


def test_matmul_with_arrays_on_either_side() -> None:
    as_numpy(lambda x: x @ Y, lambda x: x @ Y, X)
    as_numpy(lambda y: X @ y, lambda y: X @ y, Y)
    as_numpy(lambda x: x @ x.T, lambda x: x @ x.T, X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.max(axis=1), lambda x: x.min(), lambda x: x.argmax(axis=0), lambda x: x.argmin(),
        lambda x: x.all(), lambda x: x.any(axis=1), lambda x: x.clip(-1.0, 1.0), lambda x: x.ravel(),
        lambda x: x.flatten(), lambda x: x.reshape(3, 2), lambda x: x.reshape((3, -1)), lambda x: x.T,
        lambda x: x.transpose(1, 0), lambda x: x.swapaxes(0, 1), lambda x: x.astype("int32"),
        lambda x: x.repeat(2, 1), lambda x: x.round(), lambda x: x.take([0, 2], 1), lambda x: x.cumsum(1),
        lambda x: x.diagonal(), lambda x: x.argsort(1), lambda x: x[:, :1].squeeze(1), lambda x: x.dot(Y),
        lambda x: x.trace(),
    ],
)  # fmt: skip
def test_methods_are_numpys(f) -> None:
    as_numpy(f, f, X)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "std", "var"])
def test_reductions_are_numpys_to_rounding(name) -> None:
    for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}):
        found = value(lambda x: getattr(x, name)(**options), X.astype("float64"))  # noqa: B023
        np.testing.assert_allclose(found, getattr(X.astype("float64"), name)(**options), rtol=1e-14)


@pytest.mark.parametrize(
    "key",
    [0, -1, (1, 2), slice(0, 1), (slice(None), 0), ..., (None, 1), (..., [2, 0]), (slice(None, None, -1), slice(1, 3))],
    ids=str,
)
def test_indexing(key) -> None:
    as_numpy(lambda x: x[key], lambda x: x[key], X)


def test_python_numbers_keep_the_dtype() -> None:
    x = pb.fvector()
    for y in (x + 1, 1 + x, x * 2.5, 2.5 / x, x**2, x > 1.5, x.sum() / 3, x + np.int64(3)):
        assert y.dtype in ("float32", "bool")
    assert (x + np.ones(1)).dtype == "float64"
    assert (pb.ivector() + 1).dtype == "int32" and (pb.ivector() + 1.5).dtype == "float32"


def test_equality_is_identity() -> None:
    x, y = pb.vector("x"), pb.vector("x")
    assert x == x and x != y and len({x, y, x}) == 2


@pytest.mark.parametrize(
    ("misuse", "words"),
    [
        (lambda x: bool(x > 0), "pb.where"), (lambda x: len(x), "x.shape\\[0\\]"), (lambda x: list(x), "pb.scan"),
        (lambda x: 1.0 in x, "pb.equal"), (lambda x: np.asarray(x), "eval"), (lambda x: len(x[0]), "scalar"),
        (lambda x: np.add.reduce(x), "reduce"), (lambda x: np.add(x, 1, out=np.ones(3)), "out"),
        (lambda x: np.frexp(x), "no such op"), (lambda x: np.linalg.cond(x), "no such op"),
        (lambda x: np.unwrap(x), "no such op"),
    ],
)  # fmt: skip
def test_what_needs_a_value_is_refused_with_a_hint(misuse, words) -> None:
    with pytest.raises(pb.PullbackError, match=words) as caught:
        misuse(pb.vector("x"))
    assert isinstance(caught.value, TypeError)


def test_a_known_first_axis_can_be_iterated_and_unpacked() -> None:
    x = pb.tensor("float32", (2, None))
    first, second = x
    assert len(x) == 2
    np.testing.assert_array_equal(evaluate([second], {x: X})[0], X[1])


@pytest.mark.parametrize(
    "f",
    [
        np.abs, np.fabs, np.negative, np.square, np.sign, np.floor, np.isnan, np.transpose, np.ravel, np.argmax, np.max,
        np.amin, lambda x: np.maximum(x, 0.5), lambda x: np.where(x > 0, x, 0), lambda x: np.concatenate([x, x], 1),
        lambda x: np.stack([x, x[::-1]]), lambda x: np.reshape(x, (3, 2)), lambda x: np.clip(x, -1, 1),
        lambda x: np.expand_dims(x, 1), lambda x: np.swapaxes(x, 0, 1), lambda x: np.broadcast_to(x, (4, 2, 3)),
        lambda x: np.zeros_like(x), lambda x: np.flip(x, 0), lambda x: np.remainder(x, 2.0), lambda x: np.divide(x, 3),
        lambda x: np.multiply(Y, x), lambda x: np.less(x, 1), lambda x: np.matmul(x, Y), lambda x: np.dot(x, Y),
        lambda x: np.tile(x, 2), lambda x: np.cumsum(x, axis=1), lambda x: np.einsum("ij,j->i", x, Y),
    ],
)  # fmt: skip
def test_numpys_functions_become_ops(f) -> None:
    as_numpy(f, f, X)


@pytest.mark.parametrize("f", [np.exp, np.tanh, np.sum, np.mean, np.linalg.norm, np.arctan, np.radians, np.sinc])
def test_numpys_functions_become_ops_to_rounding(f) -> None:
    np.testing.assert_allclose(value(f, X.astype("float64")), f(X.astype("float64")), rtol=1e-14)


def test_eval_runs_a_variable() -> None:
    x = pb.matrix("x")
    np.testing.assert_array_equal((x * 2).eval({x: X}), X * 2)
