"""Each layer: what it describes is what comes out; values against NumPy; gradients of networks against differences."""

import numpy as np
import pytest

import pullback as pb
from pullback import nn


def network(*layers, shape=(6, 5, 4), **options):
    return nn.Network([nn.Input(shape), *layers], dtype="float64", **options)


def rows(rng, net, count=3):
    return rng.normal(size=(count, *net.inputs[0].output.shape))


LAYERS = {
    "connected": (nn.Connected(7, activation="tanh"), (7,)),
    "connected without bias": (nn.Connected(7, bias=False), (7,)),
    "convolutional": (nn.Convolutional(6, 3, padding=1, stride=2, activation="tanh"), (3, 3, 6)),
    "convolutional same": (nn.Convolutional(2, (3, 5), padding="same"), (6, 5, 2)),
    "convolutional groups": (nn.Convolutional(4, (2, 3), groups=2, dilation=(2, 1)), (4, 3, 4)),
    "convolutional batch-normalised": (nn.Convolutional(3, 2, batch_normalize=True, activation="silu"), (5, 4, 3)),
    "maxpool": (nn.MaxPool(2), (3, 2, 4)),
    "maxpool overlapping": (nn.MaxPool(3, stride=2, padding=1), (3, 3, 4)),
    "avgpool": (nn.AvgPool(2, stride=1), (5, 4, 4)),
    "avgpool without padding's zeros": (nn.AvgPool(3, padding=1, counts_padding=False), (2, 2, 4)),
    "avgpool of all": (nn.AvgPool(), (1, 1, 4)),
    "batchnorm": (nn.BatchNorm(), (6, 5, 4)),
    "activation": (nn.Activation("mish"), (6, 5, 4)),
    "flatten": (nn.Flatten(), (120,)),
    "dropout": (nn.Dropout(0.3), (6, 5, 4)),
    "softmax": (nn.Softmax(temperature=2.0), (6, 5, 4)),
    "logistic": (nn.Logistic(), (6, 5, 4)),
    "route": (nn.Route((0, -1)), (6, 5, 8)),
    "shortcut": (nn.Shortcut(0, activation="tanh"), (6, 5, 4)),
    "layernorm": (nn.LayerNorm(), (6, 5, 4)),
    "layernorm of all axes": (nn.LayerNorm(axes=3, bias=False), (6, 5, 4)),
    "rmsnorm": (nn.RMSNorm(axes=2), (6, 5, 4)),
    "groupnorm": (nn.GroupNorm(2), (6, 5, 4)),
    "concatenate": (nn.Concatenate((0, -1), axis=1), (12, 5, 4)),
    "add": (nn.Add((0, -1, 0), activation="silu"), (6, 5, 4)),
    "residual": (nn.Residual((nn.GroupNorm(4), nn.Convolutional(4, 3, padding=1)), activation="tanh"), (6, 5, 4)),
    "residual with a shortcut": (
        nn.Residual((nn.Dropout(0.2), nn.Connected(7)), shortcut=(nn.BatchNorm(), nn.Connected(7))),
        (7,),
    ),
    "lambda": (nn.Lambda(lambda x: pb.tanh(x)[:, ::2].sum(axis=3)), (3, 5)),
}
CASES = pytest.mark.parametrize(("layer", "shape"), LAYERS.values(), ids=LAYERS)


@CASES
def test_describes_what_comes_out(layer, shape, rng):
    net = network(layer)
    assert net.outputs[0].output == nn.Spec(shape, "float64")
    X = rows(rng, net)
    assert net.predict(X).shape == (3, *shape)
    assert net.predict(X).dtype == "float64"


@CASES
def test_gradient_in_training(layer, shape, rng):
    """Central differences in every parameter and the input, along random directions, with a signed upstream."""
    net = network(nn.BatchNorm(), layer)
    x = pb.tensor("float64", (None, 6, 5, 4), "x")
    upstream = rng.normal(size=(3, *shape))
    cost = (net(x, context=net.context(training=True)) * upstream).sum()
    wrt = [x, *net.trainable]
    f = pb.function([x], [cost, *pb.grad(cost, wrt)], no_default_updates=True)
    X = rows(rng, net)
    gradients = f(X)[1:]
    for v, g in zip(wrt, gradients):
        direction, h = rng.normal(size=g.shape), 1e-6

        def moved(sign, v=v, step=h * direction):
            if v is x:
                return f(X + sign * step)[0]
            before = v.get_value()
            v.set_value(before + sign * step)
            result = f(X)[0]
            v.set_value(before)
            return result

        slope = (moved(1) - moved(-1)) / (2 * h)
        assert np.sum(g * direction) == pytest.approx(slope, rel=2e-7, abs=2e-8), v.name


def test_connected_flattens_and_multiplies(rng):
    net = network(nn.Connected(3))
    X = rows(rng, net)
    w, b = net.parameters["connected_1.weight"], net.parameters["connected_1.bias"]
    b.set_value(rng.normal(size=3))
    np.testing.assert_allclose(net.predict(X), X.reshape(3, -1) @ w.get_value() + b.get_value(), rtol=1e-12)


def test_convolution_against_loops(rng):
    net = network(nn.Convolutional(4, (2, 3), stride=(2, 1), padding=(1, 0), groups=2))
    X, w = rows(rng, net), net.parameters["convolutional_1.weight"].get_value()
    padded = np.pad(X, ((0, 0), (1, 1), (0, 0), (0, 0)))
    found = net.predict(X)
    for i in range(4):
        for j in range(3):
            window = padded[:, 2 * i : 2 * i + 2, j : j + 3]
            for group in range(2):
                channels = slice(2 * group, 2 * group + 2)
                want = np.einsum("nhwc,hwco->no", window[..., channels], w[..., channels])
                np.testing.assert_allclose(found[:, i, j, channels], want, rtol=1e-12)


def test_first_weights_keep_the_scale_and_depend_on_the_seed_alone():
    nets = [nn.Network([nn.Input(200), nn.Connected(300), nn.Connected(5)], seed=seed) for seed in (1, 1, 2)]
    first, same, other = (net.get_values() for net in nets)
    assert first["connected_1.weight"].std() == pytest.approx(np.sqrt(2 / 200), rel=0.02)
    assert not first["connected_1.bias"].any()
    for name, value in first.items():
        np.testing.assert_array_equal(value, same[name])
    assert not np.array_equal(first["connected_1.weight"], other["connected_1.weight"])


def test_batch_norm_uses_the_batch_in_training_and_running_averages_at_predict(rng):
    net = network(nn.BatchNorm(epsilon=1e-3, momentum=0.8), nn.Connected(2))
    net.compile(nn.SGD(0.0), "mse")
    X, y = 3 + 2 * rng.normal(size=(7, 6, 5, 4)), rng.normal(size=(7, 2))
    mean, variance = np.zeros(4), np.ones(4)
    for _ in range(3):
        net.train_on_batch(X, y)
        mean = 0.8 * mean + 0.2 * X.mean((0, 1, 2))
        variance = 0.8 * variance + 0.2 * X.var((0, 1, 2), ddof=1)
    values = net.get_values()
    np.testing.assert_allclose(values["batchnorm_1.running_mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(values["batchnorm_1.running_variance"], variance, rtol=1e-12)
    alone = nn.Network([nn.Input((6, 5, 4)), nn.BatchNorm(epsilon=1e-3)], dtype="float64")
    alone.set_values({k: v for k, v in values.items() if k.startswith("batchnorm_1")})
    np.testing.assert_allclose(alone.predict(X), (X - mean) / np.sqrt(variance + 1e-3), rtol=1e-12)
    y = alone(pb.constant(X), context=alone.context(training=True)).eval()
    np.testing.assert_allclose(y, (X - X.mean((0, 1, 2))) / np.sqrt(X.var((0, 1, 2)) + 1e-3), rtol=1e-10)


def test_batch_norm_takes_a_batch_of_one_value_per_channel():
    net = nn.Network([nn.Input(3), nn.BatchNorm()])
    net.compile(nn.SGD(0.1), "mse")
    net.train_on_batch(np.ones((1, 3), "float32"), np.ones((1, 3), "float32"))
    assert all(np.isfinite(v).all() for v in net.get_values().values())


def test_dropout_draws_anew_in_training_and_does_nothing_at_predict():
    net = nn.Network([nn.Input(1000), nn.Dropout(0.25)], seed=5)
    X = np.ones((4, 1000), "float32")
    np.testing.assert_array_equal(net.predict(X), X)
    x = pb.matrix("x")
    f = pb.function([x], net(x, context=net.context(training=True)))
    first, second = f(X), f(X)
    assert set(np.unique(first)) == {np.float32(0), np.float32(1 / 0.75)}
    assert np.mean(first == 0) == pytest.approx(0.25, abs=0.03)
    assert not np.array_equal(first, second)


def test_two_dropouts_draw_differently():
    net = nn.Network([nn.Input(200), nn.Dropout(0.5), nn.Dropout(0.5, after=0)], outputs=[1, 2])
    x = pb.constant(np.ones((1, 200), "float32"))
    a, b = pb.function([], net(x, context=net.context(training=True)))()
    assert not np.array_equal(a, b)


def test_softmax_takes_one_pixel_as_a_vector(rng):
    net = network(nn.AvgPool(), nn.Softmax())
    assert net.outputs[0].output.shape == (4,)
    X = rows(rng, net)
    e = np.exp(X.mean((1, 2)))
    np.testing.assert_allclose(net.predict(X), e / e.sum(1, keepdims=True), rtol=1e-12)


def test_unknown_image_sizes(rng):
    net = nn.Network([nn.Input((None, None, 3)), nn.Convolutional(4, 3, padding=1), nn.MaxPool(2), nn.AvgPool()])
    assert net.nodes[2].output.shape == (None, None, 4)
    for side in (8, 11):
        assert net.predict(rng.normal(size=(2, side, side + 2, 3)).astype("float32")).shape == (2, 1, 1, 4)


def test_several_inputs_and_outputs(rng):
    net = nn.Network(
        [
            nn.Input(3, name="left"),
            nn.Input(2, name="right"),
            nn.Connected(4, after="left", name="hidden"),
            nn.Route(("hidden", "right"), name="both"),
            nn.Connected(5, name="classes"),
            nn.Connected(1, after="both", name="number"),
        ],
        outputs=["classes", "number"],
        dtype="float64",
    )
    net.compile("sgd", {"number": "mse", "classes": "cross_entropy"}, {"classes": ["accuracy"]}, loss_weights=[1, 0.5])
    A, B = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    y = rng.integers(0, 5, 6), rng.normal(size=6)
    classes, number = net.predict([A, B])
    values = net.get_values()
    both = np.concatenate([A @ values["hidden.weight"], B], 1)
    np.testing.assert_allclose(classes, both @ values["classes.weight"], rtol=1e-12)
    log_p = classes - np.log(np.exp(classes).sum(1, keepdims=True))
    want = -log_p[np.arange(6), y[0]].mean() + 0.5 * np.mean((number[:, 0] - y[1]) ** 2)
    assert net.evaluate([A, B], y) == pytest.approx(
        {"loss": want, "classes_accuracy": np.mean(classes.argmax(1) == y[0])}, rel=1e-12
    )
    before = net.evaluate([A, B], y)["loss"]
    net.fit([A, B], y, epochs=3, batch_size=4, verbose=False)
    assert net.evaluate([A, B], y)["loss"] < before


def test_a_layer_of_ones_own(rng):
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Scale(nn.Layer):
        first: float = 2.0

        def describe(self, x):
            return x

        def parameters(self, x):
            return {"scale": nn.Parameter(x.shape[-1:], nn.initializers.Constant(self.first))}

        def apply(self, parameters, inputs, context):
            return inputs[0] * parameters["scale"]

    net = network(Scale(3.0), shape=(4,))
    X = rows(rng, net)
    np.testing.assert_array_equal(net.predict(X), 3 * X)


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        ([], pb.ArgumentError, "begins with nn.Input"),
        ([nn.Connected(3)], pb.ArgumentError, "begins with nn.Input.*got Connected"),
        ([nn.Input(3), nn.Connected], pb.ArgumentTypeError, r"layer 1 is .*write nn.Connected\(\.\.\.\)"),
        ([nn.Input(3), nn.Convolutional(4, 3)], pb.ShapeError, r"layer 1 \(Convolutional\): takes images.*got \(3,\)"),
        ([nn.Input((4, 4, 1)), nn.MaxPool(5)], pb.ShapeError, r"layer 1 \(MaxPool\): a window of 5 cells doesn't fit"),
        ([nn.Input((4, 4, 3)), nn.Convolutional(4, groups=2)], pb.ShapeError, "3 channels can't be cut"),
        ([nn.Input((None, None, 3)), nn.Connected(4)], pb.ShapeError, r"layer 1 \(Connected\): needs inputs of known"),
        ([nn.Input(3), nn.Route((0, "hiden"))], pb.UnknownNameError, "layer 1.*no layer before it is named 'hiden'"),
        ([nn.Input(3), nn.Connected(3), nn.Shortcut(5)], pb.GraphError, r"layer 2 \(Shortcut\): it refers to layer 5"),
        ([nn.Input(3), nn.Connected(2), nn.Shortcut(0)], pb.ShapeError, r"one shape, got \(2,\) and \(3,\)"),
        ([nn.Input(3), nn.Connected(2), nn.Connected(4, after=0)], pb.GraphError, r"layer 1 \(Connected\) leads to no"),
        ([nn.Input(3, name="a"), nn.Connected(2, name="a")], pb.ArgumentError, "named 'a' already"),
        ([nn.Input(3), nn.Connected(2), nn.Route((0, nn.Input))], pb.ArgumentTypeError, "a layer's number"),
    ],
)
def test_what_does_not_fit_is_refused_by_number_and_kind(layers, error, message):
    with pytest.raises(error, match=message):
        nn.Network(layers)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Connected(0), "Connected: outputs=0"),
        (lambda: nn.Connected(2.5), "outputs=2.5"),
        (lambda: nn.Connected(3, activation="rellu"), "unknown activation 'rellu'. Did you mean 'relu'"),
        (lambda: nn.Convolutional(4, 3, padding=-1), "padding=-1"),
        (lambda: nn.Convolutional(4, 3, padding="valid"), "padding='valid'"),
        (lambda: nn.Convolutional(4, (3, 3, 3)), r"size=\(3, 3, 3\)"),
        (lambda: nn.Convolutional(4, 3, groups=3), "4 filters can't be cut into groups=3"),
        (lambda: nn.MaxPool(0), "MaxPool: size=0"),
        (lambda: nn.AvgPool(stride=2), "without a size"),
        (lambda: nn.Dropout(1.0), "probability=1.0"),
        (lambda: nn.Softmax(0.0), "temperature=0.0"),
        (lambda: nn.BatchNorm(epsilon=0.0), "epsilon=0.0"),
        (lambda: nn.Input((3, 0)), "shape="),
        (lambda: nn.Input(3, dtype="complex64"), "dtype='complex64'"),
        (lambda: nn.Network([nn.Input(3)], dtype="float16"), "dtype='float16'"),
        (lambda: nn.Network([nn.Input((4, 4, 1)), nn.Convolutional(1, 2, padding="same")]), "needs an odd window"),
    ],
)
def test_settings_are_refused(make, message):
    with pytest.raises(pb.PullbackError, match=message):
        make()
