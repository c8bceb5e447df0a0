"""What is wrong with the data is said before anything is changed."""

import numpy as np
import pytest

import pullback as pb
from pullback import nn

X = np.linspace(-1, 1, 6 * 4 * 4, dtype="float32").reshape(6, 4, 4, 1)
Y = np.array([0, 1, 2, 0, 1, 2])


def bad(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.fixture
def net():
    net = nn.Network([nn.Input((4, 4, 1), name="picture"), nn.Convolutional(2, 3), nn.Connected(3), nn.Softmax()])
    net.compile("adam", "cross_entropy", ["accuracy"])
    return net


CASES = [
    (
        X[..., 0],
        Y,
        pb.ShapeError,
        r"X has shape \(6, 4, 4\); layer 0 \(Input 'picture'\) takes \(n, 4, 4, 1\); X.reshape\(-1",
    ),
    (X[0], Y, pb.ShapeError, r"for a single sample: X\[None\]"),
    (X[:, :3], Y, pb.ShapeError, r"X has shape \(6, 3, 4, 1\)"),
    (np.float32(3), Y, pb.ShapeError, r"X has shape \(\)"),
    (X.astype("complex64"), Y, pb.DTypeError, "X holds complex64"),
    (X.astype(str), Y, pb.DTypeError, r"layer 0 \(Input 'picture'\) takes numbers"),
    (bad(X, (2, 1, 3, 0), np.nan), Y, pb.ArgumentError, r"X is nan at \[2, 1, 3, 0\] \(1 of 96 values"),
    (bad(X, (0, 0, 0, 0), -np.inf), Y, pb.ArgumentError, r"X is -inf at \[0, 0, 0, 0\]"),
    (X, bad(Y, 4, 3), pb.IndexRangeError, r"y is 3 at \[4\] .*classes are 0 to 2"),
    (X, bad(Y, 1, -1), pb.IndexRangeError, r"y is -1 at \[1\]"),
    (X, Y.astype("float32"), pb.DTypeError, r"y.astype\('int64'\)"),
    (X, np.array(list("abcabc")), pb.DTypeError, "class numbers as integers"),
    (X, Y[:, None], pb.ShapeError, r"take y\[:, 0\]"),
    (X, Y[:5], pb.ShapeError, "X and y differ in length: 6, 5"),
    (X[:0], Y[:0], pb.ArgumentError, "no samples"),
    (X, None, pb.ArgumentTypeError, "y is missing"),
    ([X, X], Y, pb.ShapeError, r"X has shape \(2, 6, 4, 4, 1\)"),
]


@pytest.mark.parametrize(("x", "y", "error", "message"), CASES)
@pytest.mark.parametrize("method", ["fit", "evaluate", "validation_data"])
def test_data_that_does_not_fit(net, method, x, y, error, message):
    before = net.get_values()
    with pytest.raises(error, match=message) as raised:
        if method == "validation_data":
            net.fit(X, Y, validation_data=(x, y), verbose=False)
        else:
            getattr(net, method)(x, y, **({"verbose": False} if method == "fit" else {}))
    assert str(raised.value).startswith(method if method != "validation_data" else "fit: validation_data")
    assert all(np.array_equal(before[k], v) for k, v in net.get_values().items())
    assert len(net.history) == 0


OF_VALUES = ("nan", "inf", "length", "samples")  # what only fit and evaluate look at


@pytest.mark.parametrize(("x", "y", "error", "message"), [c for c in CASES if not any(w in c[3] for w in OF_VALUES)])
def test_train_on_batch_refuses_too(net, x, y, error, message):
    net.train_on_batch(X, Y)
    before = net.get_values()
    with pytest.raises(error):
        net.train_on_batch(x, y)
    assert all(np.array_equal(before[k], v) for k, v in net.get_values().items())


def test_predict_refuses(net):
    with pytest.raises(pb.ShapeError, match=r"predict: X has shape \(6, 16\)"):
        net.predict(X.reshape(6, 16))


def test_tokens_take_whole_numbers_only():
    net = nn.Network([nn.Input(3, dtype="int64")])
    with pytest.raises(pb.DTypeError, match=r"takes whole numbers: X.astype\('int64'\)"):
        net.predict(np.ones((2, 3)))


def test_several_inputs_must_agree():
    net = nn.Network([nn.Input(2), nn.Input(3), nn.Route((0, 1))])
    a, b = np.ones((4, 2), "float32"), np.ones((4, 3), "float32")
    assert net.predict([a, b]).shape == (4, 5)
    with pytest.raises(pb.ArgumentTypeError, match="has 2 inputs: X must be a list of 2 arrays"):
        net.predict(a)
    with pytest.raises(pb.ShapeError, match="differ in length: 4, 3"):
        net.predict([a, b[:3]])
    with pytest.raises(pb.ShapeError, match=r"X\[1\] has shape \(4, 2\)"):
        net.predict([a, a])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": -1}, "epochs=-1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"validation_split": 1.0}, "validation_split=1.0"),
        ({"validation_split": 0.01}, "takes 0 of 6 rows"),
        ({"validation_data": X}, "expected a pair"),
        ({"callbacks": [print]}, "is no nn.Callback"),
        ({"seed": -3}, "seed is -3"),
    ],
)
def test_fit_refuses_settings(net, options, message):
    with pytest.raises(pb.PullbackError, match=message):
        net.fit(X, Y, verbose=False, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "addam"}, "unknown optimizer 'addam'. Did you mean 'adam'"),
        ({"optimizer": nn.Adam}, "expected a name or a Optimizer"),
        ({"loss": "crossentropy"}, "unknown loss 'crossentropy'. Did you mean 'cross_entropy'"),
        ({"metrics": ["acuracy"]}, "unknown metric 'acuracy'. Did you mean 'accuracy'"),
        ({"metrics": {"nowhere": ["accuracy"]}}, "metrics for 'nowhere', which is no output"),
        ({"loss": ["mse", "mae"]}, "2 values of loss for 1 outputs"),
        ({"loss": {"x": "mse"}}, "the outputs are"),
        ({"l2": -1.0}, "l2=-1.0"),
        ({"clip_norm": -1.0}, "clip_norm=-1.0"),
    ],
)
def test_compile_refuses(net, options, message):
    recipe = net.recipe
    with pytest.raises(pb.PullbackError, match=message):
        net.compile(**options)
    assert net.recipe is recipe


def test_not_compiled():
    net = nn.Network([nn.Input(3), nn.Connected(1)])
    for use in (net.fit, net.evaluate, net.train_on_batch):
        with pytest.raises(pb.ArgumentError, match="call net.compile"):
            use(np.ones((2, 3)), np.ones(2))
    with pytest.raises(pb.ArgumentError, match="call net.compile"):
        net.learning_rate = 0.1


def test_values_are_checked_before_any_is_set(net):
    before = net.get_values()
    good = {"convolutional_1.weight": np.zeros((3, 3, 1, 2))}
    with pytest.raises(pb.ShapeError, match=r"'connected_2.bias' has shape \(4,\); expected \(3,\)"):
        net.set_values(good | {"connected_2.bias": np.zeros(4)})
    with pytest.raises(pb.UnknownNameError, match="Did you mean 'connected_2.bias'"):
        net.set_values(good | {"connected_2.bais": np.zeros(3)})
    assert all(np.array_equal(before[k], v) for k, v in net.get_values().items())
