"""Attention and its gradients: native against reference, to second order."""

import numpy as np
import pytest

import pullback as pb


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, -0.7])
@pytest.mark.parametrize("shapes", [((2, 3, 7, 5), (2, 3, 7, 5), 6), ((33, 4), (17, 4), 1), ((1, 1, 3), (1, 1, 3), 40)])
def test_native_equals_reference(shapes, scale, causal, dtype, rng):
    q_shape, k_shape, width = shapes
    q, k, v, g = (pb.tensor(dtype, (None,) * len(q_shape)) for _ in range(4))
    y = pb.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    first = pb.grad((y * g).sum(), [q, k, v])
    second = pb.grad(sum((d * pb.sin(d)).sum() for d in first), [q, k, v, g])
    arrays = [
        rng.standard_normal(s).astype(dtype)
        for s in (q_shape, k_shape, (*k_shape[:-1], width), (*q_shape[:-1], width))
    ]
    results = [pb.function([q, k, v, g], [y, *first, *second], backend=b)(*arrays) for b in ("native", "reference")]
    for a, b in zip(*results):
        scale_of = max(np.abs(b).max(), 1.0)
        np.testing.assert_allclose(a, b, atol=(2e-5 if dtype == "float32" else 1e-12) * scale_of)


def test_heads_taken_out_of_one_projection(rng):
    x = pb.tensor4("x")  # (batch, time, heads, depth), as a projection gives it
    heads = pb.transpose(x, (0, 2, 1, 3))
    y = pb.scaled_dot_product_attention(heads, heads * 2, heads, is_causal=True)
    f = [pb.function([x], [y, pb.grad((y * y).sum(), x)], backend=b) for b in ("native", "reference")]
    data = rng.standard_normal((2, 9, 3, 8)).astype("float32")
    for a, b in zip(f[0](data), f[1](data)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert all(type(step).__name__ == "KernelCall" for step in f[0].program.latest_plan().steps)
