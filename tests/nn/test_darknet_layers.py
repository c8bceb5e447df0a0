"""The layers that Darknet and NumPyNet have beyond the usual ones: values by definition, gradients by differences."""

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError, ShapeError
from pullback.nn.layers.base import Spec
from pullback.nn.layers.normalization import BatchStatistics

PJREDDIE = BatchStatistics(1e-6, 0.99, epsilon_outside=True, unbiased=True)
ALEXEYAB = BatchStatistics(1e-5, 0.99, unbiased=True)
IMAGE = (6, 4, 4)

LAYERS = {
    "connected, batch-normalised": [nn.Connected(5, "tanh", batch_normalize=ALEXEYAB)],
    "convolutional, pjreddie": [nn.Convolutional(3, 3, padding=1, activation="mish", batch_normalize=PJREDDIE)],
    "deconvolutional": [nn.Deconvolutional(3, 3, 2, 1, "leaky")],
    "deconvolutional, batch-normalised": [nn.Deconvolutional(3, 2, 2, batch_normalize=True)],
    "local": [nn.Local(3, 3, 2, 1, "tanh")],
    "maxpool, padded at the end": [nn.MaxPool(2, 2, ((0, 1), (0, 1)))],
    "local_avgpool": [nn.AvgPool(3, 1, ((1, 1), (1, 1)), counts_padding=False)],
    "maxpool over channels": [nn.ChannelMaxPool(2)],
    "blurred convolutional": [nn.BlurredConvolutional(3, 3, stride=2, padding=1, activation="tanh")],
    "blurred maxpool": [nn.BlurredMaxPool(2, 2, ((0, 1), (0, 1)), blur="mean")],
    "batchnorm, pjreddie": [nn.BatchNorm(1e-6, 0.99, epsilon_outside=True, unbiased=True)],
    "l1norm": [nn.L1Norm()],
    "l1norm of a sample": [nn.L1Norm((0, 1, 2))],
    "l2norm": [nn.L2Norm()],
    "l2norm of a sample": [nn.L2Norm((0, 1, 2))],
    "normalization": [nn.Normalization(5, alpha=0.7)],
    "normalization, even": [nn.Normalization(2, alpha=0.7, kappa=2.0)],
    "softmax in groups": [nn.GroupedSoftmax(2, temperature=2.0)],
    "softmax over all": [nn.GroupedSoftmax()],
    "softmax of a tree": [nn.GroupedSoftmax((90, 4, 2))],
    "upsample": [nn.Upsample((2, 3), scale=1.5)],
    "downsample, sum": [nn.Upsample(2, shrink="sum")],
    "downsample, mean": [nn.Upsample((3, 2), scale=3.0, shrink="mean")],
    "reorg": [nn.Reorg(2)],
    "reorg, reverse": [nn.Reorg(2, reverse=True)],
    "reorg3d": [nn.Reorg3d(2)],
    "reorg3d, reverse": [nn.Reorg3d(2, reverse=True)],
    "reorg, flat": [nn.FlatReorg(2)],
    "reorg, flat, reverse": [nn.FlatReorg(1, reverse=True)],
    "shuffler": [nn.Shuffler(2)],
    "crop": [nn.Crop(3, 2, flip=True)],
    "dropblock": [nn.DropBlock(0.3, 2)],
    "reshape": [nn.Reshape((2, 48))],
    "empty and cost": [nn.Empty(), nn.Cost("mae")],
    "route of groups": [nn.Convolutional(6, name="a"), nn.Route(("a", 0), groups=2, group=1)],
    "route along the batch": [nn.Activation("tanh", name="a"), nn.Route((0, "a"), along_batch=True)],
    "shortcut, weighted": [nn.Convolutional(4), nn.Shortcut((0, 0), "tanh", weights="per_channel")],
    "shortcut, relu weights": [nn.Convolutional(4), nn.Shortcut(0, weights="per_layer", normalization="relu")],
    "shortcut, softmax weights": [nn.Convolutional(4), nn.Shortcut(0, weights="per_channel", normalization="softmax")],
    "shortcut, leading channels": [nn.Convolutional(7), nn.Shortcut(0, alpha=0.5, beta=2.0, other_shapes="leading")],
    "shortcut, subsampled": [nn.Convolutional(3, stride=2), nn.Shortcut(0, alpha=0.5, other_shapes="resample")],
    "shortcut, spread": [nn.Upsample(2), nn.Shortcut(0, beta=3.0, other_shapes="resample")],
    "scale_channels": [nn.AvgPool(), nn.ScaleChannels(0, activation="logistic")],
    "scale_channels over positions": [nn.Convolutional(1), nn.ScaleChannels(0, over_positions=True)],
    "sam": [nn.Convolutional(4, activation="logistic"), nn.Sam(0)],
    "implicit": [nn.AvgPool(name="mean"), nn.Implicit(4, 1), nn.Sam("mean")],
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_inside_a_network(name):
    layers = [nn.Input(IMAGE), *LAYERS[name]]
    if name.startswith("route along"):
        layers.append(nn.Convolutional(2))
    else:
        layers.append(nn.Activation("tanh"))
    net = nn.Network(layers, dtype="float64", seed=1)
    assert net.check_gradients(samples=3, points=1).largest(1) < 1e-6


SEQUENCES = {
    "rnn": nn.RNN(3, 4, "tanh"),
    "rnn, batch-normalised, shortcut": nn.RNN(3, 4, "tanh", ALEXEYAB, shortcut=True),
    "lstm": nn.GatedLSTM(3),
    "lstm, batch-normalised": nn.GatedLSTM(3, ALEXEYAB),
    "gru, batch-normalised": nn.GatedGRU(3, "tanh", PJREDDIE),
    "gru": nn.GatedGRU(3, "logistic"),
    "crnn": nn.CRNN(3, 2, "tanh", batch_normalize=PJREDDIE),
    "conv_lstm": nn.ConvLSTM(2, padding=1, peephole=True, limit=0.5),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_gradients_over_time(name):
    shape = (3, 4, 3, 2) if name in ("crnn", "conv_lstm") else (4, 5)
    net = nn.Network([nn.Input(shape), SEQUENCES[name]], dtype="float64", seed=1)
    assert net.check_gradients(samples=4, points=1).largest(1) < 1e-6


def output(layers, x, training=False, backend=None):
    net = nn.Network([nn.Input(x.shape[1:]), *layers], dtype="float64")
    symbol = pb.tensor("float64", (None, *x.shape[1:]), "x")
    return net, pb.function([symbol], net(symbol, context=net.context(training)), backend=backend)(x)


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(3, 4, 6, 4))


def test_statistics_of_the_forks(x):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2), ddof=1)
    for layer, expected in (
        (nn.BatchNorm(1e-6, 0.99, epsilon_outside=True, unbiased=True), (x - mean) / (np.sqrt(variance) + 1e-6)),
        (nn.BatchNorm(1e-5, 0.99, unbiased=True), (x - mean) / np.sqrt(variance + 1e-5)),
    ):
        net, y = output([layer], x, training=True)
        assert np.allclose(y, expected, atol=1e-6)
        context = net.context(True)
        symbol = pb.tensor("float64", x.shape, "x")
        y = net(symbol, context=context)
        pb.function([symbol], y, updates=context.updates)(x)
        values = net.get_values()
        assert np.allclose(values["batchnorm_1.running_mean"], 0.01 * mean)
        assert np.allclose(values["batchnorm_1.running_variance"], 0.99 + 0.01 * variance)


def test_upsample_and_shrink(x):
    assert np.array_equal(output([nn.Upsample((1, 2), 2.0)], x)[1], 2 * np.repeat(x, 2, axis=2))
    blocks = x.reshape(3, 2, 2, 3, 2, 4)
    assert np.allclose(output([nn.Upsample(2, shrink="sum")], x)[1], blocks.sum((2, 4)))
    assert np.allclose(output([nn.Upsample(2, 3.0, shrink="mean")], x)[1], 3 * blocks.mean((2, 4)))


def test_reorg3d_is_space_to_depth(x):
    y = output([nn.Reorg3d(2)], x)[1]
    assert y.shape == (3, 2, 3, 16)
    assert np.array_equal(y[1, 1, 2, 4 * 3 + 2], x[1, 3, 5, 2])  # cell (1, 1) of the block, channel 2
    assert np.array_equal(output([nn.Reorg3d(2), nn.Reorg3d(2, reverse=True)], x)[1], x)
    assert np.array_equal(output([nn.Shuffler(2)], x)[1][0, 3, 5, 0], x[0, 1, 2, 3])


def test_flat_reorg_reads_the_numbers_as_they_lie(x):
    lying = x.transpose(0, 3, 1, 2)  # as Darknet has them
    y = output([nn.FlatReorg(1)], x)[1].transpose(0, 3, 1, 2)
    assert np.array_equal(y.reshape(3, -1), x.reshape(3, -1))
    y = output([nn.FlatReorg(1, reverse=True)], x)[1].transpose(0, 3, 1, 2)
    assert np.array_equal(y.reshape(3, -1), lying.reshape(3, 4, 6, 4).transpose(0, 3, 1, 2).reshape(3, -1))


def test_normalization_by_definition(x):
    y = output([nn.Normalization(3, 0.5, 0.75, 2.0)], x)[1]
    for c in range(4):
        around = np.square(x[..., max(0, c - 1) : c + 2]).sum(-1)
        assert np.allclose(y[..., c], x[..., c] * (2 + 0.5 * around) ** -0.75)


def test_local_by_definition(x):
    net, y = output([nn.Local(2, 3, 1, 1)], x)
    w, b = net.get_values()["local_1.weight"], net.get_values()["local_1.bias"]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    patch = padded[:, 2:5, 3:6].reshape(3, -1)
    assert np.allclose(y[:, 2, 3], patch @ w[2, 3] + b[2, 3])


def test_softmax_counts_images_channels_first(x):
    y = output([nn.GroupedSoftmax(2)], x)[1]
    flat = np.exp(x.transpose(0, 3, 1, 2).reshape(3, 2, -1))
    assert np.allclose(y.transpose(0, 3, 1, 2).reshape(3, 2, -1), flat / flat.sum(-1, keepdims=True))


def test_shortcuts_between_shapes(x):
    small = nn.MaxPool(2, name="small")
    y = output([small, nn.Shortcut(0, alpha=2.0, beta=3.0, other_shapes="resample")], x)[1]
    pooled = x.reshape(3, 2, 2, 3, 2, 4).max((2, 4))
    assert np.allclose(y, 2 * pooled + 3 * x[:, ::2, ::2])
    y = output([nn.Upsample(2), nn.Shortcut(0, alpha=2.0, beta=3.0, other_shapes="resample")], x)[1]
    expected = x.repeat(2, 1).repeat(2, 2)
    expected[:, ::2, ::2] = 2 * expected[:, ::2, ::2] + 3 * x  # other cells stay as they are
    assert np.allclose(y, expected)
    y = output([nn.Route((0, 0)), nn.Shortcut(0, other_shapes="leading")], x)[1]
    assert np.allclose(y, np.concatenate([2 * x, x], axis=-1))


def test_weighted_shortcuts(x):
    for normalization, weights, factors in (
        ("none", [2.0, -1.0], [2.0, -1.0]),
        ("relu", [3.0, -1.0], np.array([3.0, 1e-3]) / (3.001 + 1e-4)),
        ("softmax", [0.0, np.log(3)], np.array([1 / 3, 1.0]) / (4 / 3 + 1e-4)),
    ):
        layer = nn.Shortcut(0, weights="per_layer", normalization=normalization, name="s")
        net = nn.Network([nn.Input(x.shape[1:]), nn.Activation("tanh"), layer], dtype="float64")
        net.set_values({"s.weight": np.array(weights)[:, None]})
        assert np.allclose(net.predict(x), factors[0] * np.tanh(x) + factors[1] * x)


def test_crop_takes_the_middle_at_predict_and_any_part_in_training(x):
    assert np.allclose(output([nn.Crop(2, 3)], x)[1], 2 * x[:, 1:3, 1:4] - 1)
    y = output([nn.Crop(2, 3, flip=True, to_unit=False)], x, training=True)[1]
    for image, part in zip(x, y):
        places = [image[i : i + 2, j : j + 3] for i in range(3) for j in range(4)]
        assert any(np.array_equal(part, q) or np.array_equal(part, q[:, ::-1]) for q in places)


def test_dropblock_drops_blocks_and_keeps_the_mean():
    x = np.ones((40, 12, 12, 3))
    net, y = output([nn.DropBlock(0.25, 3)], x, training=True)
    share = (y == 0).mean()
    assert 0.15 < share < 0.3 and y.mean() == pytest.approx(1)
    zeros = y[..., 0] == 0
    beside = zeros[:, :-2, 1:-1] | zeros[:, 2:, 1:-1] | zeros[:, 1:-1, :-2] | zeros[:, 1:-1, 2:]
    assert not (zeros[:, 1:-1, 1:-1] & ~beside).any()
    assert np.array_equal(net.predict(x), x)


def test_blur_smooths(x):
    y = output([nn.BlurredMaxPool(1, 2)], x)[1]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    kernel = np.outer([1, 2, 1], [1, 2, 1]) / 16
    expected = sum(kernel[i, j] * padded[:, i : i + 4 : 2, j : j + 6 : 2] for i in range(3) for j in range(3))
    assert np.allclose(y, expected)


def test_lstm_and_gru_by_hand():
    x = np.random.default_rng(0).normal(size=(2, 3, 4))

    def s(v):
        return 1 / (1 + np.exp(-v))

    net, y = output([nn.GatedLSTM(2, name="l")], x)
    p = {k.partition(".")[2]: v for k, v in net.get_values().items()}
    h = c = np.zeros((2, 2))
    for t in range(3):
        f, i, g, o = (
            x[:, t] @ p[f"input_{k}_weight"] + h @ p[f"state_{k}_weight"] for k in "figo"
        )
        c = s(f) * c + s(i) * np.tanh(g)
        h = s(o) * np.tanh(c)
        assert np.allclose(y[:, t], h)
    net, y = output([nn.GatedGRU(2, "logistic", name="l")], x)
    p = {k.partition(".")[2]: v for k, v in net.get_values().items()}
    h = np.zeros((2, 2))
    for t in range(3):
        z, r = (s(x[:, t] @ p[f"input_{k}_weight"] + h @ p[f"state_{k}_weight"]) for k in "zr")
        h = z * h + (1 - z) * s(x[:, t] @ p["input_h_weight"] + (r * h) @ p["state_h_weight"])
        assert np.allclose(y[:, t], h)


def test_running_averages_take_in_step_after_step():
    x = np.random.default_rng(0).normal(size=(5, 3, 4))
    net = nn.Network([nn.Input((3, 4)), nn.RNN(2, batch_normalize=ALEXEYAB, name="r")], dtype="float64")
    context, symbol = net.context(True), pb.tensor("float64", (None, 3, 4), "x")
    drive = np.einsum("btf,fh->tbh", x, net.get_values()["r.input_weight"])
    y = net(symbol, context=context)
    pb.function([symbol], y, updates=context.updates)(x)
    mean, variance = np.zeros(2), np.ones(2)
    for t in range(3):
        mean = 0.99 * mean + 0.01 * drive[t].mean(0)
        variance = 0.99 * variance + 0.01 * drive[t].var(0, ddof=1)
    assert np.allclose(net.get_values()["r.input_running_mean"], mean)
    assert np.allclose(net.get_values()["r.input_running_variance"], variance)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: nn.Shortcut(0, weights="many"), ArgumentError),
        (lambda: nn.Shortcut(()), ArgumentError),
        (lambda: nn.Route(0, groups=2, group=2), ArgumentError),
        (lambda: nn.Upsample(0), ArgumentError),
        (lambda: nn.Upsample(2, shrink="max"), ArgumentError),
        (lambda: nn.GroupedSoftmax(temperature=0), ArgumentError),
        (lambda: nn.MaxPool(2, padding=((0, 1), (0, -1))), ArgumentError),
        (lambda: nn.DropBlock(1.0), ArgumentError),
        (lambda: nn.BlurredMaxPool(2, blur="median"), ArgumentError),
        (lambda: BatchStatistics(epsilon=0), ArgumentError),
        (lambda: nn.Reorg(2).describe(Spec((4, 4, 3), "float32")), ShapeError),
        (lambda: nn.Reorg3d(2).describe(Spec((3, 4, 3), "float32")), ShapeError),
        (lambda: nn.Shuffler(2).describe(Spec((3, 4, 3), "float32")), ShapeError),
        (lambda: nn.Crop(9, 9).describe(Spec((4, 4, 3), "float32")), ShapeError),
        (lambda: nn.L2Norm(3).describe(Spec((4, 4, 3), "float32")), ShapeError),
        (lambda: nn.ChannelMaxPool(2).describe(Spec((4, 4, 3), "float32")), ShapeError),
        (lambda: nn.ScaleChannels(0).describe(Spec((1, 1, 2), "f"), Spec((4, 4, 3), "f")), ShapeError),
        (lambda: nn.Deconvolutional(1, 1, padding=4).describe(Spec((4, 4, 3), "f")), ShapeError),
        (lambda: nn.GroupedSoftmax(5).describe(Spec((4,), "f")), ShapeError),
    ],
)
def test_what_makes_no_sense_is_refused(make, error):
    with pytest.raises(error):
        make()
