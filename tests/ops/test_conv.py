"""Convolution, its two gradients and transposed convolution, against sums written out."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as pb
from pullback.errors import ArgumentError, ShapeError
from pullback.graph import evaluate
from pullback.ops import conv
from pullback.ops.geometry import Windows, parse_padding

CONV = {1: pb.conv1d, 2: pb.conv2d, 3: pb.conv3d}
TRANSPOSE = {1: pb.conv_transpose1d, 2: pb.conv_transpose2d, 3: pb.conv_transpose3d}
WRT_INPUTS = {1: pb.conv1d_grad_wrt_inputs, 2: pb.conv2d_grad_wrt_inputs, 3: pb.conv3d_grad_wrt_inputs}
WRT_WEIGHTS = {1: pb.conv1d_grad_wrt_weights, 2: pb.conv2d_grad_wrt_weights, 3: pb.conv3d_grad_wrt_weights}


def run(*outputs):
    values = evaluate(outputs)
    return values[0] if len(outputs) == 1 else values


def written_out(x, w, stride, padding, dilation, groups, flip):
    """y[n, o, p] = sum over c, k of w[o, c, k] x[n, c, p s + k d - before], channels first, by loops."""
    ndim = x.ndim - 2
    if flip:
        w = np.flip(w, tuple(range(2, x.ndim)))
    windows = Windows(w.shape[2:], stride, parse_padding(padding, ndim, ""), dilation)
    counts = windows.counts(x.shape[2:], "")
    pads = windows.pads(x.shape[2:])
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    y = np.zeros((x.shape[0], w.shape[0], *counts))
    for o in range(w.shape[0]):
        channels = slice(o // per_out * per_in, (o // per_out + 1) * per_in)
        for p in itertools.product(*map(range, counts)):
            window = tuple(
                slice(a * s, a * s + (k - 1) * d + 1, d) for a, s, k, d in zip(p, stride, w.shape[2:], dilation)
            )
            y[(slice(None), o, *p)] = (padded[(slice(None), channels, *window)] * w[o]).reshape(x.shape[0], -1).sum(1)
    return y


@st.composite
def problems(draw):
    """Images, filters and settings in channels-first layout."""
    ndim = draw(st.integers(1, 3))
    axes = range(ndim)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = draw(st.integers(1, 3))
    into, out = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    size = [draw(st.integers(1, 3)) for _ in axes]
    dilation = tuple(draw(st.integers(1, 2)) for _ in axes)
    length = [(k - 1) * d + draw(st.integers(1, 4)) for k, d in zip(size, dilation)]
    x = rng.normal(size=(draw(st.integers(1, 3)), into, *length))
    w = rng.normal(size=(out, into // groups, *size))
    settings = {
        "stride": tuple(draw(st.integers(1, 3)) for _ in axes),
        "padding": draw(
            st.one_of(
                st.tuples(*(st.tuples(st.integers(0, 2), st.integers(0, 2)) for _ in axes)),
                st.sampled_from(["same", "valid", "half", "full"]),
            )
        ),
        "dilation": dilation,
        "groups": groups,
        "flip": draw(st.booleans()),
    }
    return x, w, settings, rng


@given(problems())
def test_convolution_is_the_sum_written_out(problem) -> None:
    x, w, settings, _ = problem
    np.testing.assert_allclose(run(CONV[x.ndim - 2](x, w, **settings)), written_out(x, w, **settings), atol=1e-12)


@given(problems())
def test_law_9_the_three_ops_are_adjoint(problem) -> None:
    """<C(x, w), g> = <x, X(w, g)> = <w, F(x, g)>."""
    x, w, settings, rng = problem
    n = x.ndim - 2
    y = run(CONV[n](x, w, **settings))
    g = rng.normal(size=y.shape)
    dx = run(WRT_INPUTS[n](g, w, x.shape, **settings))
    dw = run(WRT_WEIGHTS[n](x, g, w.shape, **settings))
    assert dx.shape == x.shape and dw.shape == w.shape
    np.testing.assert_allclose([np.vdot(dx, x), np.vdot(dw, w)], np.vdot(y, g), atol=1e-10)


@given(problems(), st.data())
def test_transposed_convolution_is_the_adjoint(problem, data) -> None:
    _, w, settings, rng = problem
    if settings["padding"] == "same":
        return
    n = w.ndim - 2
    extra = tuple(data.draw(st.integers(0, s - 1)) for s in settings["stride"])
    g = rng.normal(size=(2, w.shape[0], *(data.draw(st.integers(2, 4)) for _ in range(n))))
    try:
        x = run(TRANSPOSE[n](g, w, output_padding=extra, **settings))
    except ShapeError:  # padding leaves nothing
        return
    other = rng.normal(size=x.shape)
    back = run(CONV[n](other, w, **settings))
    assert back.shape == g.shape
    np.testing.assert_allclose(np.vdot(x, other), np.vdot(back, g), atol=1e-10)


def test_length_of_a_transposed_convolution(rng) -> None:
    x, w = rng.normal(size=(1, 2, 5, 4)), rng.normal(size=(2, 3, 3, 2))
    y = run(pb.conv_transpose2d(x, w, stride=(2, 3), padding=((1, 0), (0, 1)), dilation=(2, 1), output_padding=(1, 2)))
    assert y.shape == (1, 3, 4 * 2 - 1 + 2 * 2 + 1 + 1, 3 * 3 - 1 + 1 + 1 + 2)
    assert run(pb.conv_transpose2d(x, w, stride=(2, 3), padding="same")).shape == (1, 3, 10, 12)


@pytest.mark.parametrize("layout", ["NHWC", "CHWN", "NWCH"])
@pytest.mark.parametrize("filter_layout", ["HWIO", "OHWI", "IWHO"])
def test_layouts_name_the_axes(rng, layout, filter_layout) -> None:
    x, w = rng.normal(size=(2, 4, 6, 5)), rng.normal(size=(6, 2, 3, 2))
    settings = {"stride": (2, 1), "padding": ((1, 0), (0, 2)), "groups": 2, "flip": True}

    def laid(a, letters, order):
        return a.transpose([letters.index(c) for c in order])

    y = pb.conv2d(
        laid(x, "NCHW", layout), laid(w, "OIHW", filter_layout), layout=layout, filter_layout=filter_layout, **settings
    )
    np.testing.assert_allclose(run(y), laid(run(pb.conv2d(x, w, **settings)), "NCHW", layout), atol=1e-12)


def test_depthwise_is_one_convolution_a_channel(rng) -> None:
    x, w = rng.normal(size=(2, 5, 7, 6)), rng.normal(size=(5, 1, 3, 3))
    each = [run(pb.conv2d(x[:, c : c + 1], w[c : c + 1])) for c in range(5)]
    np.testing.assert_allclose(run(pb.conv2d(x, w, groups=5)), np.concatenate(each, 1), atol=1e-12)


def test_blocks_of_the_batch_give_the_same(rng, monkeypatch) -> None:
    x, w = rng.normal(size=(7, 2, 6, 5)), rng.normal(size=(3, 2, 3, 3))
    g = rng.normal(size=(7, 3, 6, 5))

    def results():
        return run(
            pb.conv2d(x, w, padding=1),
            pb.conv2d_grad_wrt_inputs(g, w, x.shape, padding=1),
            pb.conv2d_grad_wrt_weights(x, g, w.shape, padding=1),
        )

    whole = results()
    monkeypatch.setattr(conv, "BLOCK_BYTES", 2 * 6 * 5 * 9 * 2 * 8)
    for a, b in zip(results(), whole):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes_are_kept(rng, dtype) -> None:
    x, w = rng.normal(size=(2, 3, 5, 5)).astype(dtype), rng.normal(size=(4, 3, 3, 3)).astype(dtype)
    y = run(pb.conv2d(x, w))
    assert y.dtype == dtype
    tolerance = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    exact = run(pb.conv2d(x.astype("float64"), w.astype("float64")))
    np.testing.assert_allclose(y.astype("float64"), exact, atol=tolerance * 10)


def test_half_precision_accumulates_in_single(rng) -> None:
    x, w = np.full((1, 1, 1, 4096), 1.0, "float16"), np.full((1, 1, 1, 4096), 1.0, "float16")
    assert run(pb.conv2d(x, w)).item() == 4096  # sums in float16 stop at 2048


def test_dtypes_meet_and_integers_become_floats(rng) -> None:
    x32, w64 = np.ones((1, 1, 3, 3), "float32"), np.ones((1, 1, 2, 2))
    assert pb.conv2d(x32, w64).dtype == "float64"
    assert pb.conv2d(x32, np.ones((1, 1, 2, 2), "int64")).dtype == "float32"


def test_images_in_any_memory_order(rng) -> None:
    x, w = rng.normal(size=(2, 3, 8, 7)), rng.normal(size=(4, 3, 3, 3))
    plain = run(pb.conv2d(x[:, :, ::-1, ::2].copy(), w))
    strided = evaluate([pb.conv2d(v := pb.tensor("float64", (None,) * 4), w)], {v: x[:, :, ::-1, ::2]})[0]
    np.testing.assert_array_equal(strided, plain)


@pytest.mark.parametrize("batch", [0, 1])
def test_small_batches(batch) -> None:
    x, w = np.ones((batch, 2, 4, 4)), np.ones((3, 2, 3, 3))
    y = run(pb.conv2d(x, w))
    assert y.shape == (batch, 3, 2, 2) and (y == 18).all()
    assert run(pb.conv2d_grad_wrt_weights(x, y, w.shape)).shape == w.shape


def test_alpha_beta_accumulate(rng) -> None:
    g, w, out = rng.normal(size=(2, 3, 4, 4)), rng.normal(size=(3, 2, 3, 3)), rng.normal(size=(2, 2, 6, 6))
    plain = run(pb.conv2d_grad_wrt_inputs(g, w, out.shape))
    alpha, beta = pb.scalar("alpha", "float64"), pb.scalar("beta", "float64")
    both = pb.conv2d_grad_wrt_inputs(g, w, output=out, alpha=alpha, beta=beta)
    found = evaluate([both], {alpha: np.asarray(0.5), beta: np.asarray(-2.0)})[0]
    np.testing.assert_allclose(found, 0.5 * plain - 2 * out, atol=1e-12)
    single = pb.conv2d_grad_wrt_inputs(g.astype("float32"), w.astype("float32"), output=out, alpha=alpha, beta=beta)
    assert single.dtype == "float32"


def test_beta_zero_leaves_the_output_unread(rng) -> None:
    g, w = rng.normal(size=(2, 3, 4, 4)), rng.normal(size=(3, 2, 3, 3))
    plain = run(pb.conv2d_grad_wrt_inputs(g, w, (2, 2, 6, 6)))
    nothing = np.full((2, 2, 6, 6), np.nan)
    np.testing.assert_array_equal(run(pb.conv2d_grad_wrt_inputs(g, w, output=nothing)), plain)
    beta = pb.scalar("beta", "float64")
    symbolic = pb.conv2d_grad_wrt_inputs(g, w, output=nothing, beta=beta)
    np.testing.assert_array_equal(evaluate([symbolic], {beta: np.asarray(0.0)})[0], plain)


def test_one_of_shape_and_output_is_needed(rng) -> None:
    g, w = np.ones((2, 3, 4, 4)), np.ones((3, 2, 3, 3))
    with pytest.raises(ArgumentError, match="give either input_shape or output"):
        pb.conv2d_grad_wrt_inputs(g, w)
    with pytest.raises(ArgumentError, match="give either filter_shape or output"):
        pb.conv2d_grad_wrt_weights(g, g, (3, 2, 3, 3), output=w)


def test_static_shapes_are_inferred() -> None:
    x, w = pb.tensor("float32", (None, 3, 9, 8)), pb.tensor("float32", (5, 3, 3, 2))
    assert pb.conv2d(x, w, stride=2, padding=1).type.shape == (None, 5, 5, 5)
    assert pb.conv2d(x, pb.tensor("float32", (5, 3, None, 2))).type.shape == (None, 5, None, None)
    assert pb.conv_transpose2d(x, pb.tensor("float32", (3, 4, 2, 2)), stride=2).type.shape == (None, 4, 18, 16)


class TestRefusals:
    def test_ranks(self) -> None:
        with pytest.raises(ShapeError, match=r"conv2d takes 4-d images and filters, got float64\[\?, \?\]"):
            pb.conv2d(pb.dmatrix(), np.ones((1, 1, 2, 2)))

    def test_channels_at_build(self) -> None:
        with pytest.raises(ShapeError, match=r"images \(1, 3, 5, 5\) \(NCHW\) have 3 channels, but filters .* read 2"):
            pb.conv2d(np.ones((1, 3, 5, 5)), np.ones((4, 2, 3, 3)))

    def test_channels_at_run_time(self) -> None:
        x, w = pb.dtensor4(), np.ones((4, 2, 3, 3))
        with pytest.raises(ShapeError, match="have 3 channels"):
            evaluate([pb.conv2d(x, w)], {x: np.ones((1, 3, 5, 5))})

    def test_groups(self) -> None:
        with pytest.raises(ShapeError, match="4 output channels can't be cut into groups=3"):
            pb.conv2d(np.ones((1, 3, 5, 5)), np.ones((4, 1, 3, 3)), groups=3)

    def test_filters_larger_than_images(self) -> None:
        with pytest.raises(ShapeError, match=r"a window of 5 \(size 3, dilation 2\) doesn't fit into length 4"):
            pb.conv2d(np.ones((1, 1, 4, 9)), np.ones((1, 1, 3, 3)), dilation=2)

    def test_output_gradient_of_another_shape(self) -> None:
        with pytest.raises(ShapeError, match=r"gradient has shape \(1, 1, 2, 2\), the output \(1, 1, 3, 3\)"):
            run(pb.conv2d_grad_wrt_weights(np.ones((1, 1, 5, 5)), np.ones((1, 1, 2, 2)), (1, 1, 3, 3)))

    def test_output_padding_beyond_the_stride(self) -> None:
        with pytest.raises(ArgumentError, match="must be smaller than the stride"):
            pb.conv_transpose2d(np.ones((1, 1, 4, 4)), np.ones((1, 1, 3, 3)), stride=2, output_padding=2)

    def test_padding_that_leaves_nothing(self) -> None:
        with pytest.raises(ShapeError, match="leaves nothing"):
            pb.conv_transpose2d(np.ones((1, 1, 1, 1)), np.ones((1, 1, 3, 3)), padding=2)
