"""pb.linalg: values beside NumPy's, gradients at singular and degenerate matrices, refusals, errors."""

import numpy as np
import pytest
import scipy.linalg

import pullback as pb
from pullback import linalg
from pullback.graph import evaluate

X = np.random.default_rng(3).normal(size=(2, 3, 4, 4))
TALL, WIDE = X[..., :3], X[..., :3, :]
SPD = X @ X.swapaxes(-1, -2) + np.eye(4)


def value(f, *arrays):
    given = {pb.tensor(a.dtype, (None,) * a.ndim): a for a in map(np.asarray, arrays)}
    y = f(*given)
    outputs = [y] if isinstance(y, pb.Variable) else list(y)
    results = evaluate(outputs, given)
    for v, result in zip(outputs, results):
        assert v.type.accepts(pb.TensorType(result.dtype.name, result.shape))
        inferred = v.owner.op.infer_shape(v.owner, [np.shape(evaluate([i], given)[0]) for i in v.owner.inputs],
                                          [None] * len(v.owner.inputs))  # fmt: skip
        assert inferred is None or inferred[v.index] == result.shape
    return results[0] if isinstance(y, pb.Variable) else results


def gradient(f, a, upstream=1.0):
    a = np.asarray(a)
    x = pb.tensor(a.dtype, (None,) * a.ndim)
    return pb.grad(pb.sum(f(x) * upstream), x).eval({x: a})


def slope(f, a, direction, h=1e-5):
    """Central difference of the sum of f along `direction`."""
    return (value(f, a + h * direction).sum() - value(f, a - h * direction).sum()) / (2 * h)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_are_numpys(dtype: str) -> None:
    tolerance = dict(rtol=1e-9, atol=1e-11) if dtype == "float64" else dict(rtol=2e-3, atol=1e-3)
    x, spd, tall, wide = (a.astype(dtype) for a in (X, SPD, TALL, WIDE))
    cases = {
        "solve": (value(linalg.solve, spd, wide.swapaxes(-1, -2)), np.linalg.solve(spd, wide.swapaxes(-1, -2))),
        "solve vector": (value(linalg.solve, spd, x[0, 0, 0]), np.linalg.solve(spd, x[0, 0, 0])),
        "solve broadcast": (value(linalg.solve, spd[0, 0], x), np.linalg.solve(spd[0, 0], x)),
        "inv": (value(linalg.inv, spd), np.linalg.inv(spd)),
        "det": (value(linalg.det, x), np.linalg.det(x)),
        "sign": (value(linalg.slogdet, x)[0], np.linalg.slogdet(x)[0]),
        "logdet": (value(linalg.slogdet, x)[1], np.linalg.slogdet(x)[1]),
        "cholesky": (value(linalg.cholesky, spd), np.linalg.cholesky(spd)),
        "upper": (value(lambda a: linalg.cholesky(a, upper=True), spd), np.linalg.cholesky(spd).swapaxes(-1, -2)),
        "eigvalsh": (value(linalg.eigvalsh, spd), np.linalg.eigvalsh(spd)),
        "svdvals": (value(linalg.svdvals, tall), np.linalg.svd(tall, compute_uv=False)),
        "pinv": (value(linalg.pinv, tall), np.linalg.pinv(tall)),
        "power": (value(lambda a: linalg.matrix_power(a, 5), x), np.linalg.matrix_power(x, 5)),
        "power 0": (value(lambda a: linalg.matrix_power(a, 0), x), np.broadcast_to(np.eye(4), x.shape)),
        "power -3": (value(lambda a: linalg.matrix_power(a, -3), spd), np.linalg.matrix_power(spd, -3)),
        "expm": (value(linalg.expm, x), scipy.linalg.expm(x)),
        "trace": (value(lambda a: linalg.trace(a, 1), tall), np.trace(tall, 1, -2, -1)),
        "diagonal": (value(lambda a: linalg.diagonal(a, -1), wide), np.diagonal(wide, -1, -2, -1)),
    }
    for name, (found, expected) in cases.items():
        assert found.dtype == dtype, name
        np.testing.assert_allclose(found, expected, **tolerance, err_msg=name)


@pytest.mark.parametrize("a", [X, TALL, WIDE], ids=["square", "tall", "wide"])
def test_decompositions_compose_and_their_gradients_too(a: np.ndarray) -> None:
    q, r = value(linalg.qr, a)
    np.testing.assert_allclose(q @ r, a, atol=1e-12)
    np.testing.assert_allclose(q.swapaxes(-1, -2) @ q - np.eye(q.shape[-1]), 0, atol=1e-12)
    u, s, vt = value(linalg.svd, a)
    np.testing.assert_allclose(u * s[..., None, :] @ vt, a, atol=1e-12)
    upstream = np.random.default_rng(4).normal(size=a.shape)

    def through_qr(x):
        q, r = linalg.qr(x)
        return q @ r

    def through_svd(x):
        u, s, vt = linalg.svd(x)
        return (u * s[..., None, :]) @ vt

    for f in (through_qr, through_svd):  # the identity
        np.testing.assert_allclose(gradient(f, a, upstream), upstream, atol=1e-9)
    np.testing.assert_array_equal(value(lambda x: linalg.qr(x, "r"), a), r)


def test_through_symmetric_decompositions() -> None:
    upstream = np.random.default_rng(4).normal(size=SPD.shape)
    half = (upstream + upstream.swapaxes(-1, -2)) / 2

    def through_eigh(x):
        w, v = linalg.eigh(x)
        return (v * w[..., None, :]) @ v.mT

    def through_cholesky(x):
        lower = linalg.cholesky(x)
        return lower @ lower.mT

    for f in (through_eigh, through_cholesky):  # x -> (x + x^T) / 2
        np.testing.assert_allclose(value(f, SPD), SPD)
        np.testing.assert_allclose(gradient(f, SPD, upstream), half, atol=1e-9)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_solve_triangular(lower: bool, unit: bool) -> None:
    a, b = X[0, 0], X[0, 1]
    f = lambda m: linalg.solve_triangular(m, b, lower, unit)  # noqa: E731
    np.testing.assert_allclose(value(f, a), scipy.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit))
    g = gradient(f, a)
    other_side = (np.triu if lower else np.tril)(np.ones((4, 4), bool), 1 if lower else -1)
    unread = other_side | (unit * np.eye(4, dtype=bool))
    assert not g[unread].any() and g[~unread].all()
    np.testing.assert_allclose(value(lambda m: linalg.solve_triangular(m, b[:, 0], lower, unit), a), value(f, a)[:, 0])


# --- determinants of singular matrices --------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [4, 3, 2, 1, 0])
def test_determinant_of_any_rank_is_right_to_second_order(rank: int) -> None:
    rng = np.random.default_rng(rank)
    a = rng.normal(size=(4, rank)) @ rng.normal(size=(rank, 4))
    cofactors = np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(4)]
                          for i in range(4)])  # fmt: skip
    np.testing.assert_allclose(gradient(linalg.det, a, -2.0), -2 * cofactors, atol=1e-12)
    direction = rng.normal(size=(4, 4))
    x = pb.dmatrix()
    second = pb.grad(pb.sum(pb.grad(linalg.det(x), x) * direction), x).eval({x: a})
    h = 1e-4
    moved = [gradient(linalg.det, a + s * h * direction) for s in (1, -1)]
    np.testing.assert_allclose(second, (moved[0] - moved[1]) / (2 * h), atol=1e-6)


def test_third_derivative_of_a_determinant_is_a_typed_non_answer() -> None:
    x = pb.dmatrix()
    second = pb.grad(pb.sum(pb.grad(linalg.det(x), x) ** 2), x)
    with pytest.raises(pb.NotImplementedGradientError, match="third derivative of a determinant"):
        pb.grad(pb.sum(second), x)


def test_slogdet_leaves_singular_matrices_alone_that_nobody_asks_for() -> None:
    a = np.stack([np.eye(2) * 2, np.ones((2, 2))])
    sign, logarithm = value(linalg.slogdet, a)
    assert sign.tolist() == [1, 0] and logarithm[1] == -np.inf
    x = pb.dtensor3()
    _, logarithm = linalg.slogdet(x)
    g = pb.grad(pb.sum(pb.where(pb.isfinite(logarithm), logarithm, 0.0)), x).eval({x: a})
    np.testing.assert_allclose(g, [np.eye(2) / 2, np.zeros((2, 2))])
    with pytest.raises(pb.ArgumentError, match="inv: Singular matrix"):
        pb.grad(pb.sum(logarithm), x).eval({x: a})


# --- degenerate spectra -----------------------------------------------------------------------------------------------


def svd_product(x):
    u, s, vt = linalg.svd(x)
    return (u * s) @ vt


def log_spd(x):
    w, v = linalg.eigh(x)
    return (v * pb.log(w)) @ v.mT


@pytest.mark.parametrize(
    "f, a, message",
    [
        (svd_product, np.diag([1.0, 1, 2, 3]), "U and V have no derivative where singular values 2 and 3 are repeated"),
        (svd_product, np.zeros((3, 3)), "are repeated"),
        (svd_product, np.outer([1.0, 2], [3, 4, 5]), "unless A is square, .* where singular value 1 is zero"),
        (log_spd, np.eye(3), "eigh: eigenvectors have no derivative where eigenvalues 0 and 1 are repeated"),
        (lambda x: linalg.eigh(x)[1], np.eye(2) * 3, "are repeated"),
        (lambda x: linalg.qr(x)[0], np.ones((3, 2)), "qr: Q and R aren't differentiable where the first columns"),
        (linalg.pinv, np.ones((3, 2)), "pinv: it jumps"),
    ],
    ids=["svd", "svd of zero", "svd of low rank", "log at identity", "eigenvectors", "qr", "pinv"],
)
def test_undefined_gradients_are_refused_at_run_time(f, a, message: str) -> None:
    value(f, a)
    for upstream in (1.0, np.random.default_rng(0).normal(size=value(f, a).shape)):
        with pytest.raises(pb.UndefinedGradientError, match=message):
            gradient(f, a, upstream)
    assert not gradient(f, a, 0.0).any()  # nothing is asked for: zero, not a refusal


def test_a_masked_degenerate_matrix_in_a_batch_does_no_harm() -> None:
    a = np.stack([np.diag([1.0, 2, 4]), np.eye(3)])

    def f(x):
        w, v = linalg.eigh(x)
        return (v * pb.log(w)[:, None, :]) @ v.mT * np.array([[[1.0]], [[0.0]]])

    g = gradient(f, a, 1.0)
    assert not g[1].any()
    np.testing.assert_allclose((g * X[0, :2, :3, :3]).sum(), slope(f, a, X[0, :2, :3, :3]), rtol=1e-6)


def test_leading_vectors_are_differentiable_beside_a_degenerate_rest() -> None:
    u, _, vt = np.linalg.svd(X[0, 0])
    a = u * np.array([3.0, 1, 1, 1]) @ vt

    def best_rank_1(x):
        u, s, vt = linalg.svd(x)
        return s[0] * u[:, :1] @ vt[:1] * X[0, 1]

    np.testing.assert_allclose((gradient(best_rank_1, a) * X[1, 0]).sum(), slope(best_rank_1, a, X[1, 0]), rtol=1e-6)


def test_singular_values_alone_are_differentiable_where_they_repeat() -> None:
    a = np.diag([1.0, 1, 2, 0])
    np.testing.assert_allclose(gradient(lambda x: pb.sum(linalg.svdvals(x) ** 2), a), 2 * a, atol=1e-12)
    np.testing.assert_allclose(gradient(lambda x: pb.sum(linalg.eigvalsh(x) ** 3), a), 3 * a @ a, atol=1e-12)
    assert not gradient(lambda x: linalg.norm(x, "nuc"), np.zeros((3, 2))).any()
    np.testing.assert_allclose(gradient(lambda x: linalg.norm(x, "nuc"), a), np.diag([1.0, 1, 1, 0]), atol=1e-12)


# --- norms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_are_numpys(keepdims: bool) -> None:
    of_vectors = [(p, a) for p in (None, 0, 1, 2, 3, 0.5, -1, -2, np.inf, -np.inf) for a in (0, 1, -1)]
    orders = (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    of_matrices = [(p, a) for p in orders for a in ((0, 1), (2, 0), (-1, 1))]
    for options in of_vectors + of_matrices:
        found = value(lambda x, options=options: linalg.norm(x, *options, keepdims), TALL[0])
        np.testing.assert_allclose(found, np.linalg.norm(TALL[0], *options, keepdims), err_msg=str(options))
    np.testing.assert_allclose(value(linalg.norm, X), np.linalg.norm(X))
    assert value(linalg.norm, np.array([3, 4])) == 5 and linalg.norm([3, 4]).dtype == "float32"


@pytest.mark.parametrize("ord", [None, 1, 2, 3, 1.5, np.inf])
def test_vector_norms_at_zero_and_with_zero_entries(ord) -> None:
    for composite in (lambda n: n, lambda n: n**2, lambda n: pb.exp(-(n**2))):
        assert not gradient(lambda x: composite(linalg.norm(x, ord)), np.zeros(3)).any()  # noqa: B023
    a, direction = np.array([0.0, -2, 3]), np.array([0.0, 1, 0.5])
    g = gradient(lambda x: linalg.norm(x, ord), a)
    assert np.isfinite(g).all() and g[0] == 0
    np.testing.assert_allclose(g @ direction, slope(lambda x: linalg.norm(x, ord), a, direction), rtol=1e-8)
    x = pb.dvector()
    second = pb.grad(pb.sum(pb.grad(linalg.norm(x, ord), x) * direction), x, disconnected_inputs="ignore")
    assert np.isfinite(second.eval({x: np.zeros(3)})).all()


def test_norm_of_large_powers_neither_overflows_nor_underflows() -> None:
    for scale in (1e200, 1e-200):
        a = np.array([3.0, -4, 0]) * scale
        np.testing.assert_allclose(value(lambda x: linalg.norm(x, 3), a), (27 + 64) ** (1 / 3) * scale)
        assert np.isfinite(gradient(lambda x: linalg.norm(x, 3), a)).all()


# --- errors -----------------------------------------------------------------------------------------------------------


def test_errors_name_the_function_and_the_shape() -> None:
    with pytest.raises(pb.ShapeError, match=r"inv: expected square matrices, got float64\[4, 3\]"):
        linalg.inv(TALL[0, 0])
    with pytest.raises(pb.ShapeError, match=r"det: expected square matrices, got shape \(2, 3, 4, 3\)"):
        value(linalg.det, TALL)
    with pytest.raises(pb.ShapeError, match="svd: expected a matrix or a stack"):
        linalg.svd(np.ones(3))
    with pytest.raises(pb.ArgumentError, match="cholesky: Matrix is not positive definite"):
        value(linalg.cholesky, -np.eye(2))
    with pytest.raises(pb.ArgumentError, match="inv: Singular matrix"):
        value(linalg.inv, np.ones((2, 2)))
    with pytest.raises(pb.ArgumentError, match="svd: .*holds NaN or infinity"):
        value(linalg.svd, np.full((2, 2), np.nan))
    with pytest.raises(pb.ShapeError, match=r"solve: shapes \(4, 4\) and \(3, 2\) don't fit"):
        value(linalg.solve, X[0, 0], np.ones((3, 2)))
    with pytest.raises(pb.ShapeError, match="solve: 4 unknowns in .*, but 3 rows"):
        linalg.solve(X[0, 0], np.ones((3, 2)))
    with pytest.raises(pb.ShapeError, match="right-hand side must be a vector or matrices"):
        linalg.solve(X[0, 0], 1.0)
    with pytest.raises(pb.ArgumentError, match="mode='full'"):
        linalg.qr(X, "full")
    with pytest.raises(pb.ArgumentError, match="full_matrices=True isn't offered"):
        linalg.svd(X, full_matrices=True)
    with pytest.raises(pb.ArgumentError, match="ord=3 of matrices"):
        linalg.norm(X[0, 0], 3)
    with pytest.raises(pb.ArgumentTypeError, match="ord='fro' of vectors"):
        linalg.norm(np.ones(3), "fro")
    with pytest.raises(pb.ArgumentError, match="needs one or two axes, got 4"):
        linalg.norm(X, 2)
    with pytest.raises(pb.ArgumentTypeError, match="exponent must be an integer, got 0.5"):
        linalg.matrix_power(X, 0.5)
    with pytest.raises(pb.DTypeError, match="float16 isn't supported"):
        linalg.inv(np.eye(2, dtype="float16"))
