"""Products of vectors, matrices and tensors beside NumPy's."""

import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate, toposort
from pullback.ops.linear import MatMul

CALLS = {
    "dot": [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((3,), (2, 3, 4)), ((5, 3), (2, 3, 4)), ((), (2, 3)),
            ((2,), ())],
    "matmul": [((2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2)),
               ((3,), (3,)), ((5, 2, 3), (3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 2)), ((4, 0, 3), (3, 2))],
    "inner": [((2, 3), (4, 5, 3)), ((3,), (3,)), ((), (3,)), ((2, 3), ())],
    "outer": [((2, 3), (4,)), ((), (3,))],
    "vdot": [((2, 3), (2, 3))],
    "kron": [((2, 3), (4, 5)), ((2,), (4, 5)), ((2, 2, 2), (3,)), ((), (2,))],
    "tensordot": [((2, 3, 4), (3, 4, 5))],
}  # fmt: skip
SPECS = {
    "ij,jk->ik": [(2, 3), (3, 4)], "ij,jk": [(2, 3), (3, 4)], "ii->i": [(3, 3)], "ii": [(3, 3)], "iij->j": [(3, 3, 2)],
    "bnij,bnjc->bnic": [(2, 3, 4, 5), (2, 3, 5, 6)], "i,j->ij": [(2,), (3,)], "ij->": [(2, 3)], "ba": [(2, 3)],
    "...ij,...jk->...ik": [(5, 2, 3), (4, 5, 3, 2)], "i...->...": [(2, 3, 4)], "i...,i...": [(2, 3, 4), (2, 3, 4)],
    "ijk,jil->kl": [(2, 3, 4), (3, 2, 5)], "ij,jk,kl->il": [(2, 3), (3, 4), (4, 5)], "ab,cd->abcd": [(2, 3), (4, 5)],
    "abc,abd->acd": [(2, 3, 4), (2, 3, 5)], "abij,ab->ij": [(2, 3, 4, 5), (2, 3)], "i,i": [(3,), (3,)],
    "ijj,jk->ik": [(2, 3, 3), (3, 4)], ",ij": [(), (2, 3)], "iiii->i": [(2, 2, 2, 2)], "ab,ab,ab->a": [(2, 3)] * 3,
    "...,...": [(2, 1), (1, 3)], "a...b,b...->...a": [(2, 3, 1, 4), (4, 3, 5)], "i j , j k -> k i": [(2, 3), (3, 4)],
    "abc,bcd->da": [(0, 3, 4), (3, 4, 2)], "abc->cab": [(2, 3, 4)], "ab...,b->a...": [(2, 3), (3,)],
}  # fmt: skip


def value(f, *arrays: np.ndarray) -> np.ndarray:
    given = {pb.tensor(a.dtype, (None,) * a.ndim): a for a in arrays}
    y = f(*given)
    result = evaluate([y], given)[0]
    assert y.type.accepts(pb.TensorType(result.dtype.name, result.shape))
    return result


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("name, shapes", [(n, s) for n, every in CALLS.items() for s in every], ids=str)
def test_products_are_numpys(name: str, shapes, dtype: str, rng: np.random.Generator) -> None:
    A, B = ((rng.normal(size=s) * 9).astype(dtype).T.copy().T for s in shapes)
    found, expected = value(getattr(pb, name), A, B), getattr(np, name)(A, B)
    assert found.dtype == expected.dtype
    tolerance = dict(rtol=1e-12) if dtype != "float32" else dict(rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found, expected, **tolerance)


@pytest.mark.parametrize("spec, shapes", SPECS.items(), ids=SPECS)
def test_einsum_is_numpys(spec: str, shapes, rng: np.random.Generator) -> None:
    arrays = [rng.normal(size=s) for s in shapes]
    np.testing.assert_allclose(value(lambda *v: pb.einsum(spec, *v), *arrays), np.einsum(spec, *arrays), rtol=1e-10)


@pytest.mark.parametrize("spec, shapes", SPECS.items(), ids=SPECS)
def test_einsum_gradient_is_an_einsum(spec: str, shapes, rng: np.random.Generator) -> None:
    """The function is linear in each operand: its directional derivative is the function of the direction."""
    arrays = [rng.normal(size=s) for s in shapes]
    given = {pb.tensor("float64", s): a for s, a in zip(shapes, arrays)}
    y = pb.einsum(spec, *given)
    upstream = rng.normal(size=np.einsum(spec, *arrays).shape)
    grads = evaluate(pb.grad(pb.sum(y * upstream), list(given)), given)
    for i, g in enumerate(grads):
        direction = rng.normal(size=shapes[i])
        moved = np.einsum(spec, *[direction if j == i else a for j, a in enumerate(arrays)])
        np.testing.assert_allclose((g * direction).sum(), (upstream * moved).sum(), rtol=1e-9, atol=1e-9)


def test_tensordot_axes(rng: np.random.Generator) -> None:
    A, B = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 5, 2))
    for axes in (0, 1, ((0, 2), (2, 0)), (-1, 0), ((2,), (0,))):
        found = value(lambda a, b, axes=axes: pb.tensordot(a, b, axes), A, B)
        np.testing.assert_allclose(found, np.tensordot(A, B, axes))
    with pytest.raises(pb.ArgumentError, match="name 2 axes of a and 1 of b"):
        pb.tensordot(A, B, ((0, 1), (0,)))


def test_batched_dot(rng: np.random.Generator) -> None:
    A, B = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 3, 4))
    np.testing.assert_allclose(value(pb.batched_dot, A, B), A @ B)
    np.testing.assert_allclose(value(pb.batched_dot, A, B[..., 0]), np.einsum("bij,bj->bi", A, B[..., 0]))
    np.testing.assert_allclose(value(pb.batched_dot, A[:, 0], B), np.einsum("bj,bjk->bk", A[:, 0], B))
    np.testing.assert_allclose(value(pb.batched_dot, A[:, 0], B[..., 0]), np.einsum("bj,bj->b", A[:, 0], B[..., 0]))
    with pytest.raises(pb.ShapeError, match="2 or 3 dimensions"):
        pb.batched_dot(A, B[0, 0])


def test_a_stack_times_a_matrix_is_one_product() -> None:
    x, w = pb.ftensor3(), pb.fmatrix()
    products = [n for n in toposort(pb.grad(pb.sum(pb.tanh(x @ w)), [x, w])) if isinstance(n.op, MatMul)]
    assert len(products) == 3 and all(v.ndim == 2 for n in products for v in n.inputs)


def test_mixed_dtypes_meet_and_gradients_keep_their_own() -> None:
    a, b, i = pb.fmatrix(), pb.dmatrix(), pb.lmatrix()
    assert (a @ b).dtype == "float64" and (a @ i).dtype == "float32"
    assert [g.dtype for g in pb.grad(pb.sum(a @ b), [a, b])] == ["float32", "float64"]


def test_float16_multiplies_in_float32() -> None:
    x = np.full((1, 4000), 1.0, "float16")
    found = value(pb.matmul, x, x.T)
    assert found.dtype == "float16" and found == 4000


def test_errors_name_shapes() -> None:
    a, b = pb.tensor("float32", (2, 3)), pb.tensor("float32", (2, 3))
    with pytest.raises(pb.ShapeError, match=r"float32\[2, 3\] and float32\[2, 3\] don't fit"):
        a @ b
    with pytest.raises(pb.ShapeError, match="a scalar is no matrix"):
        pb.matmul(a, 2.0)
    x, y = pb.dtensor3(), pb.dtensor3()
    for shapes in (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 4, 2))):
        with pytest.raises(pb.ShapeError, match=r"matmul: shapes .* don't fit"):
            (x @ y).eval({x: np.ones(shapes[0]), y: np.ones(shapes[1])})


def test_einsum_errors() -> None:
    a, b = pb.dmatrix(), pb.dmatrix()
    wrong = {
        "ij->ik": "output's labels", "ij->ii": "output's labels", "ijk": "doesn't name the axes",
        "i": "doesn't name the axes", "i1->i": "labels are letters", "...j->j": "the output must have the ellipsis",
    }  # fmt: skip
    for spec, message in wrong.items():
        with pytest.raises(pb.PullbackError, match=message):
            pb.einsum(spec, a)
    with pytest.raises(pb.ArgumentError, match="names 2 operands, got 1"):
        pb.einsum("ij,jk", a)
    with pytest.raises(pb.ArgumentTypeError, match="first argument must be a string"):
        pb.einsum(a, b)
    for n, m in ((2, 3), (1, 3), (3, 1)):
        with pytest.raises(pb.PullbackError):
            pb.einsum("ii", a).eval({a: np.ones((n, m))})
    with pytest.raises(pb.ShapeError, match="don't fit"):
        pb.einsum("ij,jk", a, b).eval({a: np.ones((2, 3)), b: np.ones((4, 2))})
