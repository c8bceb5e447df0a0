"""NumPyNet's interface: shapes, values, buffers, updates, networks, files, refusals, and the table of its gradients."""

import copy
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
import pullback.compat.numpynet as npn

SCRIPT = Path(__file__).parents[2] / "scripts" / "numpynet_table.py"
SPEC = importlib.util.spec_from_file_location("numpynet_table", SCRIPT)
table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table)
ROWS = list(table.rows())
SHAPE = (3, 6, 5, 4)


@pytest.mark.parametrize("row", ROWS, ids=[row.setting for row in ROWS])
def test_gradients(row):
    for quantity, error in row.measure().items():
        assert error < 1e-6, quantity


def test_the_page_holds_every_row():
    page = (Path(__file__).parents[2] / "docs" / "numpynet.md").read_text()
    for row in ROWS:
        assert f"| {row.setting} | {row.theirs} |" in page


# --- values -----------------------------------------------------------------------------------------------------------


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_connected(rng):
    W, b, x = rng.normal(size=(120, 7)), rng.normal(size=7), rng.normal(size=SHAPE)
    made = npn.Connected_layer(7, "tanh", SHAPE, W, b)
    made.forward(x)
    assert made.out_shape == made.output.shape == (3, 1, 1, 7)
    np.testing.assert_allclose(made.output[:, 0, 0], np.tanh(x.reshape(3, -1) @ W + b), rtol=1e-12)
    np.testing.assert_array_equal(made.forward(x.reshape(3, -1)).output, made.output)  # rows of numbers do as well
    buffer = np.zeros((3, 120))
    made.delta += 1.0
    made.backward(x.reshape(3, -1), buffer)
    assert buffer.any()


@pytest.mark.parametrize("stride", [1, 2, (2, 1)])
def test_padding_is_that_of_keras(stride, rng):
    x, (down, across) = rng.normal(size=(2, 7, 6, 3)), (stride, stride) if isinstance(stride, int) else stride
    made = npn.Convolutional_layer(4, (3, 2), stride, x.shape, pad=True)
    made.forward(x)
    assert made.output.shape == made.out_shape == (2, -(-7 // down), -(-6 // across), 4)
    above, before = (
        max((made.out_shape[1] - 1) * down + 3 - 7, 0) // 2,
        max((made.out_shape[2] - 1) * across - 4, 0) // 2,
    )
    padded = np.pad(x, ((0, 0), (above, 5), (before, 5), (0, 0)))
    for i in range(made.out_shape[1]):
        for j in range(made.out_shape[2]):
            window = padded[:, i * down : i * down + 3, j * across : j * across + 2]
            np.testing.assert_allclose(made.output[:, i, j], np.tensordot(window, made.weights, 3), rtol=1e-11)
    for kind, reduce in ((npn.Maxpool_layer, np.nanmax), (npn.Avgpool_layer, np.nanmean)):
        pool = kind((3, 2), stride, True, x.shape)
        pool.forward(x)
        holes = np.pad(x, ((0, 0), (above, 5), (before, 5), (0, 0)), constant_values=np.nan)
        want = reduce(holes[:, :3, :2], axis=(1, 2))
        np.testing.assert_allclose(pool.output[:, 0, 0], want, rtol=1e-12)


def test_batch_norm_by_position_and_running_averages(rng):
    x = rng.normal(2.0, 3.0, size=(50, 2, 3, 1))
    made = npn.BatchNorm_layer(input_shape=x.shape)
    for _ in range(60):
        made.forward(x)
    want = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-8)
    np.testing.assert_allclose(made.output, want, rtol=1e-10)
    made.training = False
    np.testing.assert_allclose(made.forward(x[:1]).output, want[:1], rtol=0.02, atol=0.01)
    other = npn.BatchNorm_layer(input_shape=x.shape)
    assert other.load_weights(made.save_weights()) == 24
    other.training = False
    np.testing.assert_array_equal(other.forward(x[:1]).output, made.output)


def test_recurrent_layers_step_by_step(rng):
    x = rng.normal(size=(7, 1, 1, 3))
    rows = x.reshape(7, 3)
    simple = npn.SimpleRNN_layer(2, 3, "tanh", x.shape)
    W, U, b = simple.weights, simple.recurrent_weights, simple.bias
    for window in range(4):
        s = np.zeros(2)
        for t in range(3):
            s = np.tanh(rows[window + t] @ W + s @ U + b)
        np.testing.assert_allclose(simple.forward(x).output[window, 0, 0], s, rtol=1e-12)

    rnn = npn.RNN_layer(2, 3, "tanh", x.shape)
    layers = [(p.weights, p.bias) for p in rnn.parts()]
    s = np.zeros((2, 2))
    out = rnn.forward(x).output[:, 0, 0]
    assert out.shape == (6, 2) and rnn.out_shape == (6, 1, 1, 2)  # 3 steps of 2 sequences; a row is left over
    for t in range(3):
        s = np.tanh(rows[2 * t : 2 * t + 2] @ layers[0][0] + layers[0][1]) + np.tanh(s @ layers[1][0] + layers[1][1])
        np.testing.assert_allclose(out[2 * t : 2 * t + 2], np.tanh(s @ layers[2][0] + layers[2][1]), rtol=1e-12)

    lstm = npn.LSTM_layer(2, 3, x.shape)
    found = lstm.forward(x).output[:, 0, 0]
    for row in range(7):
        h = c = np.zeros(2)
        for t in range(max(0, row - 2), row + 1):
            f, i, g, o = (rows[t] @ getattr(lstm, f"u{k}").weights + h @ getattr(lstm, f"w{k}").weights for k in "figo")
            c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            h = np.tanh(c) / (1 + np.exp(-o))
        np.testing.assert_allclose(found[row], h, rtol=1e-11)


def test_activations_by_every_kind_of_name():
    x = np.linspace(-3, 3, 7)
    for given in ("softplus", "SoftPlus", npn.SoftPlus, npn.SoftPlus()):
        made = npn.Activation_layer((7, 1, 1, 1), given)
        np.testing.assert_allclose(made.forward(x.reshape(7, 1, 1, 1)).output.ravel(), np.logaddexp(0, x), rtol=1e-12)
    assert npn.SoftPlus.activate(np.array([1000.0])) == 1000.0 and npn.SoftPlus.gradient(np.array([1000.0])) == 1.0
    assert npn.Relu().name == "Relu" and npn.Relu.activate(np.float32([-1, 2])).dtype == np.float32
    with pytest.raises(pb.UnknownNameError, match="unknown activation 'rleu'. Did you mean 'relu'"):
        npn.Activation_layer(SHAPE, "rleu")


# --- buffers ----------------------------------------------------------------------------------------------------------


def test_the_buffer_is_added_to_and_nothing_else_is_changed(rng):
    x = rng.normal(size=SHAPE)
    kept = x.copy()
    for dtype in (np.float64, np.float32):
        made = npn.Convolutional_layer(3, 3, 1, SHAPE, activation="relu")
        made.forward(x.astype(dtype)[:, ::-1], copy=False)
        assert made.output.dtype == dtype and not made.delta.any() and made.delta.shape == made.output.shape
        output = made.output.copy()
        made.delta += 1.0
        first, second = np.zeros(SHAPE), np.full(SHAPE, 5.0, "float32")
        made.backward(first)
        made.backward(second, copy=True)
        np.testing.assert_allclose(second - 5.0, first, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(made.output, output)
        made.backward()
    np.testing.assert_array_equal(x, kept)
    strided = np.zeros((6, 6, 5, 4))[::2]
    made.backward(strided)
    np.testing.assert_allclose(strided, first, rtol=1e-5, atol=1e-6)
    with pytest.raises(pb.ShapeError, match=r"the buffer has shape \(3, 6, 5, 1\)"):
        made.backward(np.zeros((3, 6, 5, 1)))


def test_dropout_by_seed_and_at_predict(rng):
    x = np.ones((4, 5, 5, 2))
    outputs = []
    for _ in range(2):
        np.random.seed(3)
        made = npn.Dropout_layer(0.4, x.shape)
        outputs.append(made.forward(x).output)
    np.testing.assert_array_equal(*outputs)
    assert set(np.unique(outputs[0])) == {0.0, 1 / 0.6}
    made.training = False
    np.testing.assert_array_equal(made.forward(x).output, x)
    assert not npn.Dropout_layer(1.0, x.shape).forward(x).output.any()


# --- optimizers -------------------------------------------------------------------------------------------------------


def test_optimizers_have_a_state_for_each_layer(rng):
    w, g = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    for kind in (
        npn.SGD,
        npn.Momentum,
        npn.NesterovMomentum,
        npn.Adagrad,
        npn.RMSprop,
        npn.Adadelta,
        npn.Adam,
        npn.Adamax,
    ):
        one = kind(lr=0.1)
        (first,) = one.update([w], [g])
        (second,) = one.update([first], [g])
        other = copy.copy(one)
        (again,) = other.update([w], [g])
        np.testing.assert_array_equal(again, first)
        assert one.iterations == 3 and other.iterations == 2 and not np.allclose(second - first, 0)
        assert (np.sign(first - w) == -np.sign(g)).all(), kind
        assert repr(one).startswith(f"{kind.__name__}(lr=0.1")


def test_the_learning_rate_decays_as_is_usual():
    made = npn.SGD(lr=1.0, decay=0.01, lr_min=0.4)
    w = np.zeros(1)
    rates = []
    for _ in range(200):
        (new,) = made.update([w], [np.ones(1)])
        rates.append(float(w[0] - new[0]))
        w = new
    assert rates[0] == 1.0 and rates[100] == pytest.approx(0.5) and rates[199] == pytest.approx(0.4)


# --- networks ---------------------------------------------------------------------------------------------------------


def digits_like(rng, n=90):
    X = rng.normal(size=(n, 6, 6, 1))
    classes = X.reshape(n, -1)[:, :3].argmax(1)
    return X, npn.to_categorical(classes).reshape(n, 1, 1, 3)


def test_a_network_learns_predicts_and_is_saved(rng, tmp_path, capsys):
    np.random.seed(1)
    X, truth = digits_like(rng)

    def made():
        net = npn.Network(batch=20, input_shape=(6, 6, 1))
        net.add(npn.Convolutional_layer(6, 3, 1, pad=True, activation="relu")).add(npn.BatchNorm_layer())
        net.add(npn.Dropout_layer(0.1)).add(npn.Connected_layer(3)).add(npn.Softmax_layer(spatial=True))
        return net

    net = made()
    with pytest.raises(npn.NetworkError, match="call compile with an optimizer first"):
        net.fit(X, truth)
    net.compile(npn.Adam(lr=0.02), metrics=[npn.mean_absolute_error])
    with pytest.raises(npn.NetworkError, match="isn't fitted"):
        net.predict(X)
    before, _ = net.fit(X, truth, max_iter=1, verbose=False).evaluate(X, truth)
    capsys.readouterr()
    assert net.fit(X, truth, max_iter=25) is net
    text = capsys.readouterr().out
    assert text.count("loss: ") == 25 and text.count("mean_absolute_error: 0.") == 25
    loss, output = net.evaluate(X, truth)
    assert loss < 0.3 * before and np.mean(npn.from_categorical(output) == npn.from_categorical(truth)) > 0.9
    want = -np.sum(truth * np.log(output)) / len(X)
    assert loss == pytest.approx(want, rel=1e-9)
    np.testing.assert_array_equal(net.predict(X, verbose=False), output)
    net.predict(X[:1])  # one row, by running averages
    np.testing.assert_allclose(net.predict(X[:1], verbose=False), output[:1], rtol=1e-6)

    net.save_weights(tmp_path / "w.bin")
    other = made()
    other.load_weights(tmp_path / "w.bin")
    np.testing.assert_allclose(other.predict(X, verbose=False), output, rtol=1e-12)
    with pytest.raises(pb.FormatError, match="parameters need"):
        npn.Network(4, (6, 6, 1)).add(npn.Connected_layer(2)).load_weights(tmp_path / "w.bin")

    capsys.readouterr()
    net.summary()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7 and "convolutional" in lines[2] and "BFLOPs" in lines[2]
    assert net.num_layers == 6 == len(list(net)) and net.input_shape == (6, 6, 1) and net.out_shape == (1, 1, 3)
    assert net[-1] is net[5]


def test_every_row_is_trained_on_and_the_loss_is_that_of_all(rng):
    X, y = rng.normal(size=(7, 1, 1, 2)), rng.normal(size=(7, 1, 1, 1))
    net = npn.Network(batch=3, input_shape=(1, 1, 2)).add(npn.Connected_layer(1)).add(npn.Cost_layer("mse"))
    net.compile(npn.SGD(lr=0.0))
    seen = []
    connected = net[1]
    update = connected.update
    connected.update = lambda: (seen.append(len(connected.output)), update())
    net.fit(X, y, max_iter=1, verbose=False)
    assert seen == [3, 3, 1]
    loss, output = net.evaluate(X, y)
    assert loss == pytest.approx(np.mean((output - y) ** 2), rel=1e-12)


def test_parts_have_optimizers_of_their_own(rng):
    net = npn.Network(6, (1, 1, 2)).add(npn.LSTM_layer(3, 2)).add(npn.Connected_layer(1)).add(npn.Cost_layer("mse"))
    net.compile(npn.Momentum(lr=0.01))
    optimizers = {id(part.optimizer) for layer in net for part in layer.parts()}
    assert len(optimizers) == 9
    X, y = rng.normal(size=(13, 1, 1, 2)), rng.normal(size=(13, 1, 1, 1))
    first = net.fit(X, y, max_iter=1, shuffle=False, verbose=False).evaluate(X, y)[0]
    assert net.fit(X, y, max_iter=60, shuffle=False, verbose=False).evaluate(X, y)[0] < first
    frozen = npn.Network(4, (1, 1, 2), train=False).add(npn.Connected_layer(1)).add(npn.Cost_layer("mae"))
    weights = frozen[1].weights
    frozen.fit(X, y, max_iter=1, verbose=False)
    assert frozen[1].weights is weights


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "call", "message"),
    [
        (npn.NotFittedError, lambda x: npn.Connected_layer(2, input_shape=SHAPE).backward(x), "before backward"),
        (npn.NotFittedError, lambda x: npn.Route_layer(1).backward(), "before backward"),
        (npn.NotFittedError, lambda x: npn.Softmax_layer(SHAPE).backward(x), "before backward"),
        (npn.NotFittedError, lambda x: npn.Connected_layer(2, input_shape=SHAPE).update(), "before update"),
        (pb.ShapeError, lambda x: npn.Maxpool_layer(2, input_shape=SHAPE).forward(x[:, :5]), r"\(batch, 6, 5, 4\)"),
        (pb.ShapeError, lambda x: npn.Connected_layer(2, input_shape=SHAPE, bias=np.zeros(3)), r"expected \(2,\)"),
        (pb.ShapeError, lambda x: npn.Softmax_layer(SHAPE).forward(x, x[:2]), "the truth has shape"),
        (pb.ShapeError, lambda x: npn.SimpleRNN_layer(2, 3, input_shape=SHAPE).forward(x), "takes 4 rows or more"),
        (npn.LayerError, lambda x: npn.Maxpool_layer(2).forward(x), "doesn't know its shape"),
        (npn.LayerError, lambda x: npn.Maxpool_layer(7, input_shape=SHAPE).out_shape, "doesn't fit"),
        (npn.LayerError, lambda x: npn.Upsample_layer(SHAPE, (2, -2)), "two numbers of one sign"),
        (npn.LayerError, lambda x: npn.Input_layer((3, 3)), r"expected \(batch, w, h, c\)"),
        (pb.ArgumentError, lambda x: npn.Connected_layer(0), "outputs=0"),
        (pb.ArgumentError, lambda x: npn.Dropout_layer(1.5), "prob=1.5"),
        (pb.ArgumentError, lambda x: npn.Shuffler_layer(1), "scale=1"),
        (pb.ArgumentError, lambda x: npn.Softmax_layer(temperature=0), "temperature=0"),
        (pb.UnknownNameError, lambda x: npn.Cost_layer("msee"), "Did you mean 'mse'"),
        (npn.LayerError, lambda x: npn.Network(2).add(npn.Connected_layer(2)), "add an Input_layer first"),
        (npn.LayerError, lambda x: npn.Network(2, SHAPE[1:]).add(3), "3 is no layer"),
        (npn.LayerError, lambda x: npn.Network(2, SHAPE[1:]).add(npn.Shortcut_layer()), "layer=-3"),
        (npn.LayerError, lambda x: npn.Network(2, SHAPE[1:])[4], "there is no layer 4"),
        (npn.NetworkError, lambda x: npn.Network(2, SHAPE[1:]).fit(x, x), "no layer computes a cost"),
        (npn.MetricsError, lambda x: npn.Network(2, SHAPE[1:]).compile(npn.SGD(), [np.zeros(2)]), "is no function"),
        (npn.MetricsError, lambda x: npn.Network(2, SHAPE[1:]).compile(npn.SGD(), [lambda a: 1]), "must take"),
        (npn.NetworkError, lambda x: npn.Optimizer().update([x], [x]), "only the base of optimizers"),
    ],
)  # fmt: skip
def test_refusals(kind, call, message, rng):
    with pytest.raises(kind, match=message) as caught:
        call(rng.normal(size=SHAPE))
    assert isinstance(caught.value, pb.PullbackError)


def test_what_a_layer_does_not_know_is_said():
    with pytest.warns(UserWarning, match="Maxpool_layer ignores padding=True"):
        npn.Maxpool_layer(size=2, stride=1, padding=True)


# --- metrics and helpers ----------------------------------------------------------------------------------------------


def test_metrics_and_helpers(rng):
    t, y = rng.uniform(0.1, 1, 20), rng.uniform(0.1, 1, 20)
    assert npn.mean_square_error(t, y) == pytest.approx(np.mean((t - y) ** 2))
    assert npn.mean_absolute_error(t, y) == pytest.approx(np.mean(np.abs(t - y)))
    assert npn.mean_logcosh(t, y) == pytest.approx(np.mean(np.log(np.cosh(t - y))))
    assert npn.mean_logcosh([1e4], [0.0]) == pytest.approx(1e4 - np.log(2))
    assert npn.mean_hellinger(t, y) == pytest.approx(np.mean((np.sqrt(t) - np.sqrt(y)) ** 2))
    assert npn.mean_accuracy_score([1, 2, 3], [1, 0, 3]) == pytest.approx(2 / 3)
    assert npn.mean_iou_score(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])) == pytest.approx((1 / 2 + 2 / 3) / 2)
    classes = np.array([2, 0, 1])
    np.testing.assert_array_equal(npn.from_categorical(npn.to_categorical(classes)), classes)
    X, y = npn.data_to_timesteps(np.arange(12.0).reshape(6, 2), steps=2)
    assert X.shape == (4, 2, 2) and y.shape == (4, 2)
    np.testing.assert_array_equal(X[3], [[6, 7], [8, 9]])
    assert npn.cost_type(2) is npn.cost_type.mae


def test_the_program_on_the_page_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "numpynet.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    np.random.seed(0)
    exec(code, {})
    assert float(capsys.readouterr().out.splitlines()[-1]) > 0.85
