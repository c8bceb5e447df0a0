"""Attention: values, masks, queries without keys."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import DTypeError, ShapeError
from pullback.graph import evaluate

attention = pb.scaled_dot_product_attention


def run(*outputs):
    values = evaluate(outputs)
    return values[0] if len(outputs) == 1 else values


@pytest.fixture
def qkv(rng):
    return rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(2, 3, 6, 7))


def reference(q, k, v, allowed=None, bias=0.0, scale=None):
    scores = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale) + bias
    e = np.exp(scores) * (1 if allowed is None else allowed)
    weights = e / np.where(e.sum(-1, keepdims=True) == 0, 1, e.sum(-1, keepdims=True))
    return weights @ v, weights


def test_values_and_weights(qkv) -> None:
    y, weights = reference(*qkv)
    np.testing.assert_allclose(run(attention(*qkv)), y)
    np.testing.assert_allclose(run(attention(*qkv, scale=0.3)), reference(*qkv, scale=0.3)[0])
    found, shown = run(*attention(*qkv, return_weights=True))
    np.testing.assert_allclose(found, y)
    np.testing.assert_allclose(shown, weights)


@pytest.mark.parametrize("shape", [(4, 6), (6,), (2, 1, 1, 6), (3, 4, 6)])
def test_masks_broadcast(qkv, rng, shape) -> None:
    allowed = rng.random(shape) < 0.6
    np.testing.assert_allclose(run(attention(*qkv, mask=allowed)), reference(*qkv, allowed)[0])
    bias = np.where(allowed, 0.0, -np.inf)
    np.testing.assert_allclose(run(attention(*qkv, mask=bias)), reference(*qkv, allowed)[0])


def test_causal_attention_aligns_the_first_query_and_key(qkv) -> None:
    allowed = np.tril(np.ones((4, 6), bool))
    np.testing.assert_allclose(run(attention(*qkv, is_causal=True)), reference(*qkv, allowed)[0])
    mask = np.arange(6) != 1
    np.testing.assert_allclose(run(attention(*qkv, mask, is_causal=True)), reference(*qkv, allowed & mask)[0])


def test_the_fused_gradient_is_that_of_the_parts(qkv, rng) -> None:
    mask = rng.random((2, 1, 4, 6)) < 0.6
    upstream = pb.constant(rng.normal(size=(2, 3, 4, 7)))
    variables = [pb.dtensor4() for _ in range(3)]
    given = dict(zip(variables, qkv))
    fused = pb.grad(pb.sum(attention(*variables, mask) * upstream), variables)
    parts = pb.grad(pb.sum(attention(*variables, mask, return_weights=True)[0] * upstream), variables)
    for a, b in zip(evaluate(fused, given), evaluate(parts, given)):
        np.testing.assert_allclose(a, b, atol=1e-13)


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("additive", [False, True])
def test_law_3_padding_has_no_effect_whatever_it_holds(qkv, return_weights, additive) -> None:
    q, k, v = (a.copy() for a in qkv)
    allowed = np.ones((2, 1, 4, 6), bool)
    allowed[..., 4:] = False  # two keys are padding
    allowed[1, :, 2] = False  # one query may attend to nothing
    k[..., 4:, :], v[..., 4:, :], q[1, :, 2] = np.nan, np.inf, np.nan
    variables = [pb.dtensor4() for _ in range(3)]
    y = attention(*variables, np.where(allowed, 0.0, -np.inf) if additive else allowed, return_weights=return_weights)
    y = y[0] if return_weights else y
    value, *grads = evaluate([y, *pb.grad(pb.sum(y * pb.square(y)), variables)], dict(zip(variables, (q, k, v))))
    assert (value[1, :, 2] == 0).all() and np.isfinite(value).all()
    assert all(np.isfinite(g).all() for g in grads)
    assert (grads[0][1, :, 2] == 0).all() and (grads[1][..., 4:, :] == 0).all() and (grads[2][..., 4:, :] == 0).all()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_dtypes_are_kept(qkv, dtype) -> None:
    q, k, v = (a.astype(dtype) for a in qkv)
    y = run(attention(q, k, v))
    assert y.dtype == dtype
    np.testing.assert_allclose(y, reference(*qkv)[0], atol=5e-3 if dtype == "float16" else 1e-5)


def test_large_scores_do_not_overflow(qkv) -> None:
    q, k, v = qkv
    assert np.isfinite(run(attention(1e4 * q, 1e4 * k, v))).all()


class TestRefusals:
    def test_ranks_and_lengths(self) -> None:
        with pytest.raises(ShapeError, match="must have one rank"):
            attention(pb.dtensor4(), pb.dtensor3(), pb.dtensor4())
        with pytest.raises(ShapeError, match=r"expected \(.., L, E\), \(.., S, E\) and \(.., S, V\)"):
            run(attention(np.ones((2, 3)), np.ones((4, 5)), np.ones((4, 5))))

    def test_masks(self) -> None:
        with pytest.raises(DTypeError, match="expected booleans"):
            attention(pb.dmatrix(), pb.dmatrix(), pb.dmatrix(), pb.lmatrix())
        with pytest.raises(ShapeError, match="more axes than the scores"):
            attention(pb.dmatrix(), pb.dmatrix(), pb.dmatrix(), pb.tensor("bool", (None,) * 3))
