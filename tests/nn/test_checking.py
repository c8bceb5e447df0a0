"""`check_gradients`: right networks pass to 1e-6 on the backend that runs them; a wrong rule is found and named."""

from dataclasses import dataclass

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.testing import CheckError

LAYERS = [
    nn.Input((7, 6, 2)),
    nn.Convolutional(3, 3, padding=1, batch_normalize=True, activation="relu", name="conv"),
    nn.MaxPool(2),
    nn.Dropout(0.2),
    nn.Connected(4, activation="mish"),
    nn.Connected(3),
    nn.Softmax(),
]


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_network_with_and_without_data(rng, backend):
    net = nn.Network(LAYERS)
    net.compile("adam", "cross_entropy", l2=1e-3)
    X, y = rng.normal(size=(9, 7, 6, 2)).astype("float32"), rng.integers(0, 3, 9)
    before = net.get_values()
    with pb.config.override(backend=backend):
        with_data, without = net.check_gradients(X, y), net.check_gradients(samples=3, points=1)
    parameters = [v.name for v in net.trainable]
    assert with_data.inputs == parameters and without.inputs == [*parameters, "input_0"]
    for report in (with_data, without):
        assert report.right and 0 < report.largest(1) <= 1e-6
        assert all(e is not None for e in report.errors[1]) and len(report.errors[1]) == len(report.inputs)
    assert with_data.draws == 2 * len(parameters) + with_data.redraws
    assert all(np.array_equal(before[k], v) for k, v in net.get_values().items())


def test_outputs_of_a_network_that_is_not_compiled():
    net = nn.Network([nn.Input(3), nn.Connected(4, activation="tanh"), nn.Connected(2, after=0)], outputs=[1, 2])
    assert net.check_gradients().right


@pytest.mark.parametrize("loss", ["mse", "mae", "binary_cross_entropy"])
def test_other_losses(loss):
    net = nn.Network([nn.Input(3), nn.Connected(4, activation="tanh"), nn.Connected(2), nn.Logistic()])
    net.compile("sgd", loss)
    assert net.check_gradients(points=1).right


@dataclass(frozen=True)
class HalfSquare(pb.Op):
    """x^2 / 2 with a gradient that is wrong by a factor."""

    def make_node(self, x):
        return pb.Apply(self, [x], [x.type])

    def perform(self, x):
        return x * x / 2

    def grad(self, inputs, output_grads):
        return [1.001 * output_grads[0] * inputs[0]]


@dataclass(frozen=True)
class Wrong(nn.Layer):
    def describe(self, x):
        return x

    def apply(self, parameters, inputs, context):
        return HalfSquare()(inputs[0])


def test_a_wrong_rule_is_found():
    net = nn.Network([nn.Input(3), nn.Connected(4, name="below"), Wrong(), nn.Connected(2, name="above")])
    with pytest.raises(CheckError) as raised:
        net.check_gradients()
    report = raised.value.report
    wrong = {report.inputs[m.input] for m in report.mistakes}
    assert wrong == {"below.weight", "below.bias", "input_0"}
    assert all(m.error == pytest.approx(1e-3, rel=0.01) for m in report.mistakes)


def test_refuses():
    with pytest.raises(pb.ArgumentError, match=r"layer 0 \(Input\) takes int64.*give X"):
        nn.Network([nn.Input(3, dtype="int64"), nn.Activation("relu")]).check_gradients()
    net = nn.Network(LAYERS)
    net.compile("adam", "cross_entropy")
    with pytest.raises(pb.ShapeError, match="check_gradients: X has shape"):
        net.check_gradients(np.zeros((3, 4)), np.zeros(3, int))


def test_an_input_of_single_precision_is_widened():
    net = nn.Network([nn.Input(3, dtype="float32"), nn.Connected(2, activation="tanh")])
    assert net.astype("float64").inputs[0].output.dtype == "float64"
    seen = []
    report = net.check_gradients(points=3, progress=lambda *step: seen.append(step))
    assert report.right and report.largest(1) < 1e-9 and len(report.errors[1]) == 3
    assert [done for _, done, _ in seen] == list(range(9)) and {total for *_, total in seen} == {9}
