"""`gradient_flow`: its numbers are those of the gradient, and what is wrong with a layer is said."""

import numpy as np
import pytest

import pullback as pb
from pullback import nn


def network(activation: str, depth: int = 2, width: int = 6, **first) -> nn.Network:
    hidden = [nn.Connected(width, activation=activation, name=f"hidden_{i}", **first) for i in range(depth)]
    net = nn.Network([nn.Input(4), *hidden, nn.Connected(3, name="last"), nn.Softmax()], dtype="float64")
    net.compile("sgd", "cross_entropy")
    return net


@pytest.fixture
def samples(rng):
    return rng.normal(size=(40, 4)), rng.integers(0, 3, 40)


def test_numbers_are_those_of_the_gradient(samples) -> None:
    X, y = samples
    net = network("tanh")
    flow = net.gradient_flow(X, y, samples=1000)
    cost, gradient = net.gradient(X, y)
    assert flow.healthy and flow.samples == 40 and flow.cost == pytest.approx(cost)
    assert [one.layer for one in flow] == ["hidden_0", "hidden_1", "last", "softmax_4"]
    both = [gradient["hidden_1.weight"].ravel(), gradient["hidden_1.bias"]]
    assert flow["hidden_1"].weights_gradient == pytest.approx(np.sqrt(np.mean(np.concatenate(both) ** 2)))
    weights = net.get_values()
    hidden = np.tanh(X @ weights["hidden_0.weight"] + weights["hidden_0.bias"])
    assert flow["hidden_0"].output == pytest.approx(np.sqrt(np.mean(hidden**2)))
    assert flow["hidden_0"].saturated == pytest.approx(np.mean(1 - hidden**2 <= 0.01))
    scores = np.tanh(hidden @ weights["hidden_1.weight"] + weights["hidden_1.bias"]) @ weights["last.weight"]
    error = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True) - np.eye(3)[y]  # of each sample's cost
    assert flow["hidden_1"].gradient == pytest.approx(np.sqrt(np.mean((error @ weights["last.weight"].T) ** 2)))
    assert flow["softmax_4"].gradient is None and flow["softmax_4"].weights is None
    assert flow["last"].saturated is None


def test_dead_units_are_counted_and_a_dead_layer_is_named(samples) -> None:
    net = network("relu")
    values = net.get_values()
    values["hidden_0.bias"][:2] = -100.0
    net.set_values(values)
    flow = net.gradient_flow(*samples)
    assert (flow["hidden_0"].dead, flow["hidden_0"].units) == (2, 6)
    assert flow["hidden_0"].remark == "many dead units" and not flow.healthy
    values["hidden_1.bias"][:] = -100.0
    net.set_values(values)
    flow = net.gradient_flow(*samples)
    assert flow["hidden_1"].dead == 6 and flow["hidden_1"].saturated == 1
    assert "its weights get no gradient" in flow["hidden_0"].remark


def test_a_channel_is_dead_if_it_is_so_at_every_place(rng) -> None:
    net = nn.Network([nn.Input((5, 4, 2)), nn.Convolutional(3, 3, activation="relu", name="conv"), nn.Connected(1)])
    net.compile("sgd", "mse")
    values = net.get_values()
    values["conv.bias"][1] = -100.0
    net.set_values(values)
    conv = net.gradient_flow(rng.normal(size=(6, 5, 4, 2)), rng.normal(size=6))["conv"]
    assert (conv.dead, conv.units) == (1, 3)


def test_saturation_and_vanishing_gradients_are_named(samples) -> None:
    steep = network("logistic", initial=nn.initializers.Normal(50.0))
    assert "saturated" in steep.gradient_flow(*samples)["hidden_0"].remark
    flow = network("logistic", depth=12, initial=nn.initializers.Normal(0.3)).gradient_flow(*samples)
    assert flow["hidden_0"].remark == "the gradient vanishes" and flow["hidden_11"].remark == ""
    assert "vanishes" in str(flow) and "see the remarks" in str(flow)


def test_an_exploding_gradient_and_numbers_that_are_not_finite_are_named(samples) -> None:
    net = network("linear", depth=6, initial=nn.initializers.Normal(30.0))
    assert net.gradient_flow(*samples)["hidden_0"].remark == "the gradient explodes"
    values = net.get_values()
    values["hidden_3.weight"][0, 0] = np.inf
    net.set_values(values)
    flow = net.gradient_flow(*samples)
    assert [one.remark for one in flow if one.layer < "hidden_3"][-1] == "not finite" or not np.isfinite(flow.cost)
    assert flow["hidden_3"].remark == "not finite"


def test_nothing_is_changed_by_looking(samples) -> None:
    layers = [nn.Input(4), nn.Connected(5), nn.BatchNorm(), nn.Dropout(0.5), nn.Connected(3), nn.Softmax()]
    net = nn.Network(layers)
    net.compile("adam", "cross_entropy")
    before = net.get_values()
    first, second = net.gradient_flow(*samples, seed=3), net.gradient_flow(*samples, seed=3)
    assert str(first) == str(second)
    assert all(np.array_equal(v, before[k]) for k, v in net.get_values().items())


def test_it_needs_to_know_the_cost(samples) -> None:
    with pytest.raises(pb.ArgumentError, match="compile"):
        nn.Network([nn.Input(4), nn.Connected(3)]).gradient_flow(*samples)


def test_messages_name_the_layer(samples) -> None:
    X, y = samples
    net = network("relu")
    cost = net(pb.dmatrix("x")).sum()
    assert "layer hidden_0" in str(pb.explain(cost, net.parameters["hidden_0.weight"]))
    values = net.get_values()
    values["hidden_1.weight"][0, 0] = np.nan
    net.set_values(values)
    told = r"input 1, hidden_1\.weight, was .*\n.*layer hidden_1$"
    with pb.nan_guard(), pytest.raises(pb.NonFiniteError, match=told):
        net.train_on_batch(X, y)
