"""`grad`: its arguments, what it refuses, known gradients, constants, names, and size."""

import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.graph import Constant, evaluate, toposort
from tests.gradient.numeric import assert_gradient, value


@pytest.fixture
def x():
    return pb.dvector("x")


# --- cost and wrt -----------------------------------------------------------------------------------------------------


def test_the_result_mirrors_wrt(x):
    y = pb.dvector("y")
    cost = (x * y).sum()
    assert isinstance(pb.grad(cost, [x, y]), list) and isinstance(pb.grad(cost, (x, y)), tuple)
    assert pb.grad(cost, []) == [] and isinstance(pb.grad(cost, x), pb.Variable)
    assert [v.name for v in pb.grad(cost, [x])] == [None]


def test_the_cost_itself(x):
    cost = pb.dscalar("c")
    assert value(pb.grad(cost, cost), {cost: np.array(3.0)}) == 1
    inner = x.sum()
    assert value(pb.grad(inner * inner, inner), {x: np.array([1.0, 2])}) == 6


@pytest.mark.parametrize(
    "cost, wrt, error, says",
    [
        (lambda x: x, lambda x: x, TypeError, "scalar"),
        (lambda x: 3.0, lambda x: x, TypeError, "Variable"),
        (lambda x: None, lambda x: x, ValueError, "known_grads"),
        (lambda x: np.sin, lambda x: x, TypeError, "value_and_grad"),
        (lambda x: pb.DisconnectedType()(), lambda x: x, ValueError, "disconnected"),
        (lambda x: pb.abs(x).astype("complex128").sum(), lambda x: x, NotImplementedError, "complex"),
        (lambda x: x.sum(), lambda x: {x}, TypeError, "list or tuple"),
        (lambda x: x.sum(), lambda x: [x, 3], TypeError, "tensor variables"),
        (lambda x: x.sum(), lambda x: np.ones(3), TypeError, "Variable, list or tuple"),
    ],
)
def test_wrong_arguments_are_refused(x, cost, wrt, error, says):
    with pytest.raises(error, match=says) as caught:
        pb.grad(cost(x), wrt(x))
    assert isinstance(caught.value, pb.PullbackError)


@pytest.mark.parametrize("option", ["disconnected_inputs", "return_disconnected", "null_gradients"])
def test_a_misspelt_option_is_refused_even_where_it_would_not_matter(x, option):
    with pytest.raises(ValueError, match=f"{option}='rais'"):
        pb.grad(x.sum(), x, **{option: "rais"})


def test_an_integer_cost_is_disconnected_from_everything(x):
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(pb.argmax(x), x)


# --- disconnected -----------------------------------------------------------------------------------------------------


def test_policies_for_disconnected_inputs(x):
    y = pb.fvector("y")
    cost = x.sum()
    zero = pb.grad(cost, y, disconnected_inputs="ignore")
    found = value(zero, {y: np.ones(3, "float32")})
    assert found.dtype == np.float32 and not found.any() and found.shape == (3,)
    assert pb.grad(cost, y, disconnected_inputs="ignore", return_disconnected="none") is None
    kept = pb.grad(cost, y, disconnected_inputs="ignore", return_disconnected="disconnected")
    assert isinstance(kept.type, pb.DisconnectedType)
    with pytest.warns(UserWarning, match="disconnected") as caught:
        pb.grad(cost, y, disconnected_inputs="warn")
    assert len(caught) == 1 and caught[0].filename == __file__


# --- known gradients --------------------------------------------------------------------------------------------------


def test_a_known_gradient_replaces_what_would_be_computed(x):
    z = x * x
    a = (z * z).sum()
    g = pb.grad(a, [x, z], known_grads={z: pb.constant([5.0, 5.0])})
    np.testing.assert_array_equal(value(g[0], {x: np.array([1.0, 3])}), [10, 30])
    np.testing.assert_array_equal(value(g[1], {x: np.array([1.0, 3])}), [5, 5])


def test_other_ways_round_a_known_gradient_still_count(x):
    z = x * x
    g = pb.grad((z * x).sum(), x, known_grads={z: pb.constant([0.0, 0.0])})
    np.testing.assert_array_equal(value(g, {x: np.array([2.0, 3])}), [4, 9])


def test_known_gradients_can_start_the_walk(x):
    z = pb.sin(x)
    g = pb.grad(None, x, known_grads={z: np.array([2.0, -1])})
    point = np.array([0.3, 2])
    np.testing.assert_allclose(value(g, {x: point}), np.array([2, -1]) * np.cos(point))


def test_a_known_gradient_of_the_cost_replaces_its_one(x):
    cost = pb.square(x).sum()
    g = pb.grad(cost, x, known_grads={cost: 3.0})
    np.testing.assert_array_equal(value(g, {x: np.array([1.0, 2])}), [6, 12])


def test_known_gradients_take_the_dtype_of_their_variable():
    x = pb.fvector("x")
    g = pb.grad(None, x, known_grads={x * 2: pb.constant(np.ones(2, "float64"))})
    assert g.dtype == "float32" and value(g, {x: np.zeros(2, "float32")}).dtype == np.float32


@pytest.mark.parametrize(
    "key, gradient",
    [
        (lambda x: 3, 1.0),
        (lambda x: x, pb.constant([1, 2])),
        (lambda x: x, 1.0),
        (lambda x: pb.argmax(x), 1.0),
        (lambda x: x, pb.constant([1j])),
    ],
)
def test_wrong_known_gradients_are_refused(x, key, gradient):
    with pytest.raises(TypeError, match="known_grads"):
        pb.grad(None, x, known_grads={key(x): gradient})


def test_non_answers_can_be_known(x):
    z = pb.sin(x)
    with pytest.raises(pb.UndefinedGradientError, match="who knows"):
        pb.grad(None, x, known_grads={z: pb.grad_undefined(pb.sin, 0, x, "who knows")})
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(None, x, known_grads={z: pb.DisconnectedType()()})


# --- consider_constant ------------------------------------------------------------------------------------------------


def test_nothing_above_a_constant_is_differentiated_but_itself(x):
    z = x * x
    g, gz = pb.grad((z * x).sum(), [x, z], consider_constant=[z])
    np.testing.assert_array_equal(value(g, {x: np.array([2.0, 3])}), [4, 9])
    np.testing.assert_array_equal(value(gz, {x: np.array([2.0, 3])}), [2, 3])
    with pytest.raises(pb.DisconnectedInputError, match="consider_constant"):
        pb.grad(z.sum(), x, consider_constant=[z])


def test_one_of_two_results_of_an_op_is_constant():
    a = pb.dmatrix("a")
    left, right = pb.split(a, 2, axis=1)
    cost = (left * left).sum() + (3 * right).sum()
    g = pb.grad(cost, a, consider_constant=[left])
    np.testing.assert_array_equal(value(g, {a: np.full((2, 2), 5.0)}), [[0, 3], [0, 3]])


@pytest.mark.parametrize("wrong", [None, 3, [3.0], [[pb.dscalar()]], pb.dvector()])
def test_wrong_constants_are_refused(x, wrong):
    with pytest.raises(TypeError, match="consider_constant"):
        pb.grad(x.sum(), x, consider_constant=wrong)


# --- names, determinism, size -----------------------------------------------------------------------------------------


def test_results_are_named_after_cost_and_variable(x):
    cost = pb.square(x).sum()
    cost.name = "cost"
    assert pb.grad(cost, x).name == "(dcost/dx)" and pb.grad(cost, x, add_names=False).name is None
    assert pb.grad(pb.square(x).sum(), x).name is None


def test_the_order_of_terms_is_the_same_every_time(x):
    def build():
        v = pb.dvector("v")
        y = [pb.sin(v * k) for k in range(5)]
        return pb.debugprint(pb.grad((y[0] * y[1] + y[2] / (2 + y[3] * y[4])).sum(), v))

    assert build() == build() == build()


def test_gradients_of_nodes_carry_the_users_line(x):
    cost = pb.sin(x).sum()
    made = [n for n in toposort([pb.grad(cost, x)]) if n.origin.gradient_of]
    assert made and all(n.origin.file == __file__ for n in made)
    assert {"sin", "Sum"} <= {n.origin.gradient_of.split("{")[0] for n in made}


def test_deep_graphs_are_differentiated_without_recursion(x):
    y = x
    for _ in range(3_000):
        y = y * 0.9999 + x
    g = pb.grad(y.sum(), x)
    assert len(toposort([g])) >= 6_000


def test_the_walk_is_linear_in_the_graph(x):
    def nodes_of_gradient(n):
        y = x
        for _ in range(n):
            y = pb.tanh(y) + y
        return len(toposort([pb.grad(y.sum(), x)]))

    a, b, c = (nodes_of_gradient(n) for n in (100, 200, 400))
    assert c - b == 2 * (b - a)


def test_a_gradient_is_itself_differentiable_to_third_order(x, rng):
    given = {x: rng.normal(size=3)}
    cost = (pb.exp(pb.sin(x)) * pb.constant([1.0, -2, 0.5])).sum()
    for _ in range(2):
        cost = (pb.grad(cost, x) * pb.constant([0.7, 1.0, -1])).sum()
    assert_gradient(cost, [x], given, [pb.grad(cost, x)])


def test_an_input_that_is_also_the_result_of_others(x):
    y = pb.sin(x)
    gx, gy = pb.grad((y * x).sum(), [x, y])
    given = {x: np.array([0.5, 1.0])}
    np.testing.assert_allclose(value(gy, given), given[x])
    np.testing.assert_allclose(value(gx, given), given[x] * np.cos(given[x]) + np.sin(given[x]))


def test_building_a_gradient_warns_of_nothing(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pb.grad((pb.sqrt(x) * pb.log(x - x) / 0.0).sum(), x)


def test_gradients_with_respect_to_constants_and_shared():
    c, s = Constant(np.array([1.0, 2])), pb.shared(np.array([3.0, 4]), "s")
    gc, gs = pb.grad((c * s).sum(), [c, s])
    np.testing.assert_array_equal(evaluate([gc, gs])[0], [3, 4])
    np.testing.assert_array_equal(evaluate([gc, gs])[1], [1, 2])
