"""Optimizers: equal to recorded traces of PyTorch, decoupled from the dtype of scalars, state that can be kept."""

import json
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback import nn

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
CASES = {
    case["id"]: case
    for case in json.loads((GOLDEN / "manifest.json").read_text())["cases"]
    if case["family"] == "torch_optim"
}
NAMES = {  # PyTorch's name -> ours
    "lr": "learning_rate", "eps": "epsilon", "alpha": "beta", "rho": "beta", "lr_decay": "rate_decay",
    "initial_accumulator_value": "first",
}  # fmt: skip
DROPPED = {"decoupled_weight_decay"}
CLASSES = {"RMSprop": nn.RMSProp}


def from_torch(case):
    """Our optimizer with the settings of a case."""
    name = case["op"].rpartition(".")[2]
    settings = {}
    for key, value in case["attrs"]["all"].items():
        if key == "betas":
            settings["beta1"], settings["beta2"] = value
        elif key not in DROPPED and not (key == "amsgrad" and not value):
            settings[NAMES.get(key, key)] = value
    return CLASSES.get(name, getattr(nn, name, None))(**settings)


def run(optimizer, first, grads):
    """The parameter after each step, for gradients that are given."""
    w = pb.shared(first, name="w")
    g = pb.tensor(first.dtype, first.shape, "g")
    step = pb.function([g], updates=optimizer.updates([g], [w]))
    values = []
    for value in grads:
        step(np.ascontiguousarray(value, first.dtype))
        values.append(w.get_value())
    return np.array(values)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch(name, dtype):
    case = CASES[name]
    with np.load(GOLDEN / case["npz"]) as file:
        arrays = {k: file[f"{name}/{k}"] for k in ("inputs/param", "inputs/grads", "outputs/params")}
    found = run(from_torch(case), arrays["inputs/param"].astype(dtype), arrays["inputs/grads"])
    tolerance = case["tolerance"] if dtype == "float64" else {"rtol": 2e-5, "atol": 5e-6}
    assert found.dtype == dtype
    np.testing.assert_allclose(found, arrays["outputs/params"], **tolerance)


def test_every_torch_optimizer_of_ours_has_a_trace():
    traced = {type(from_torch(case)).__name__ for case in CASES.values()}
    assert traced == {
        "SGD", "Adam", "AdamW", "RMSProp", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"
    }  # fmt: skip


def test_lion_follows_its_paper(rng):
    w, m = rng.normal(size=5), np.zeros(5)
    grads = rng.normal(size=(6, 5))
    found = run(nn.Lion(0.1, weight_decay=0.3, beta1=0.8, beta2=0.95), w, grads)
    for g, value in zip(grads, found):
        w = w - 0.1 * (np.sign(0.8 * m + 0.2 * g) + 0.3 * w)
        m = 0.95 * m + 0.05 * g
        np.testing.assert_allclose(value, w, rtol=1e-12)


def test_momentum_and_nesterov_are_sgd_with_other_defaults(rng):
    first, grads = rng.normal(size=3), rng.normal(size=(4, 3))
    for short, long in (
        (nn.Momentum(0.1), nn.SGD(0.1, momentum=0.9)),
        (nn.Nesterov(0.1), nn.SGD(0.1, momentum=0.9, nesterov=True)),
    ):
        np.testing.assert_array_equal(run(short, first, grads), run(long, first, grads))


def test_a_cost_or_its_gradients(rng):
    w = pb.shared(rng.normal(size=3), name="w")
    cost = (w**3).sum()
    by_cost = nn.SGD(0.1).updates(cost, [w])[w].eval()
    by_grads = nn.SGD(0.1).updates([pb.grad(cost, w)], [w])[w].eval()
    np.testing.assert_array_equal(by_cost, by_grads)
    np.testing.assert_allclose(by_cost, w.get_value() - 0.3 * w.get_value() ** 2)


def test_multipliers_and_undecayed_parameters(rng):
    a, b = (pb.shared(rng.normal(size=2), name=name) for name in "ab")
    grads = [pb.constant(rng.normal(size=2)) for _ in range(2)]
    updates = nn.SGD(0.1, weight_decay=0.5).updates(grads, [a, b], undecayed=[b], multipliers={a: 3.0})
    np.testing.assert_allclose(
        updates[a].eval(), a.get_value() - 0.3 * (grads[0].data + 0.5 * a.get_value()), rtol=1e-14
    )
    np.testing.assert_allclose(updates[b].eval(), b.get_value() - 0.1 * grads[1].data, rtol=1e-14)


def test_undecayed_holds_for_decoupled_decay_too(rng):
    a, b = (pb.shared(np.ones(2), name=name) for name in "ab")
    updates = nn.AdamW(0.1, weight_decay=0.5).updates([a * 0, b * 0], [a, b], undecayed=[b])
    np.testing.assert_allclose(updates[a].eval(), 0.95)
    np.testing.assert_array_equal(updates[b].eval(), 1.0)


def test_state_is_named_and_used_again():
    w = pb.shared(np.ones(2, "float32"), name="layer.weight")
    state = {}
    nn.Adam().updates([w], [w], state=state)
    assert {k: v.get_value().shape for k, v in state.items()} == {
        "steps": (), "layer.weight.mean": (2,), "layer.weight.square": (2,)
    }  # fmt: skip
    state["steps"].set_value(np.int64(41))
    assert nn.Adam().updates([w], [w], state=state)[state["steps"]].eval() == 42


@pytest.mark.parametrize("name", ["w", None])
def test_parameters_of_one_name_or_none_have_a_state_each(name, rng):
    parameters = [pb.shared(np.zeros(2), name=name) for _ in range(2)]
    grads = rng.normal(size=(3, 2, 2))
    g = pb.dmatrix("g")
    step = pb.function([g], updates=nn.Momentum(0.1).updates([g[0], g[1]], parameters))
    for value in grads:
        step(value)
    for i, w in enumerate(parameters):
        np.testing.assert_allclose(w.get_value(), run(nn.Momentum(0.1), np.zeros(2), grads[:, i])[-1], rtol=1e-12)


def test_learning_rate_may_be_a_schedule_or_a_variable():
    w = pb.shared(np.zeros(1), name="w")
    rate = pb.shared(0.5)
    step = pb.function([], updates=nn.SGD(rate).updates([pb.ones(1)], [w]))
    step()
    rate.set_value(2.0)
    step()
    np.testing.assert_allclose(w.get_value(), [-2.5])
    w.set_value(np.zeros(1))
    step = pb.function([], updates=nn.SGD(nn.schedules.Exponential(1.0, 0.5)).updates([pb.ones(1)], [w]))
    for _ in range(3):
        step()
    np.testing.assert_allclose(w.get_value(), [-1.75])


@pytest.mark.parametrize("optimizer", [nn.Adam(0.1), nn.RAdam(0.1), nn.NAdam(0.1), nn.Adamax(0.1)], ids=str)
def test_first_steps_in_float32_are_as_exact_as_later_ones(optimizer, rng):
    """1 - beta2^t must not be computed in float32, where it would be wrong by 6e-5 at t = 1."""
    first, grads = rng.normal(size=8), rng.normal(size=(2, 8))
    exact = run(optimizer, first, grads)
    rounded = run(optimizer, first.astype("float32"), grads)
    np.testing.assert_allclose(rounded, exact, rtol=3e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.SGD(-1.0), "learning_rate=-1.0"),
        (lambda: nn.SGD(float("nan")), "learning_rate=nan"),
        (lambda: nn.SGD("fast"), "expected a number or a Schedule"),
        (lambda: nn.SGD(0.1, momentum=1.0), "momentum=1.0"),
        (lambda: nn.SGD(0.1, nesterov=True), "nesterov needs momentum"),
        (lambda: nn.Adam(beta2=1.5), "beta2=1.5"),
        (lambda: nn.RMSProp(beta=-0.1), "beta=-0.1"),
        (lambda: nn.AdamW(weight_decay=-1), "weight_decay=-1"),
        (lambda: nn.SGD().updates([], [pb.shared(1.0)]), "0 gradients for 1 parameters"),
    ],
)
def test_refuses(make, message):
    with pytest.raises(pb.PullbackError, match=message):
        make()
