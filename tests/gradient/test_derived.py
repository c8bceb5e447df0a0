"""Products with Jacobians, Jacobians, Hessians, subgraph gradients."""

from dataclasses import dataclass

import numpy as np
import pytest

import pullback as pb
from pullback.gradient import Lop, Rop, hessian, hvp, jacobian, jvp, subgraph_grad, vjp
from pullback.graph import Apply, Op, evaluate
from tests.gradient.numeric import assert_gradient, value


@pytest.fixture
def x():
    return pb.dvector("x")


@pytest.fixture
def y():
    return pb.dmatrix("y")


@pytest.fixture
def given(x, y, rng):
    return {x: rng.normal(size=3), y: rng.normal(size=(4, 3))}


def some_function(x, y):
    return pb.tanh(y @ x) * pb.exp(x[:1]) + pb.max(y, axis=1)


def difference(f, x, direction, given, h=1e-6):
    up, down = (value(f, {**given, x: given[x] + s * h * direction}) for s in (1, -1))
    return (up - down) / (2 * h)


# --- vjp and jvp ------------------------------------------------------------------------------------------------------


def test_jvp_is_the_directional_derivative(x, y, given, rng):
    f = some_function(x, y)
    for v in (x, y):
        direction = rng.normal(size=given[v].shape)
        np.testing.assert_allclose(
            value(jvp(f, v, direction), given), difference(f, v, direction, given), rtol=1e-6, atol=1e-8
        )


def test_vjp_and_jvp_are_adjoint(x, y, given, rng):
    f = [some_function(x, y), pb.log_softmax(y @ pb.sin(x)), pb.cumprod(x)]
    us = [rng.normal(size=value(v, given).shape) for v in f]
    ts = [rng.normal(size=given[v].shape) for v in (x, y)]
    left = sum((u * value(t, given)).sum() for u, t in zip(us, jvp(f, [x, y], ts, disconnected_outputs="ignore")))
    right = sum((value(g, given) * t).sum() for g, t in zip(vjp(f, [x, y], us), ts))
    np.testing.assert_allclose(left, right, rtol=1e-12)


def test_results_computed_from_each_other_count_each_on_its_own(x):
    z = x * x
    g = vjp([z, 2 * z, z], x, [np.array([1.0]), np.array([10.0]), np.array([100.0])])
    np.testing.assert_array_equal(value(g, {x: np.array([3.0])}), [(1 + 20 + 100) * 6])


def test_the_vectors_are_not_computed_with_in_vain(x):
    """What is linear in the cotangent leaves nothing of the stand-ins that jvp differentiates by."""
    t = pb.dvector("t")
    found = jvp(pb.sin(pb.exp(x) * x), x, t)
    assert set(pb.graph_inputs([found])) == {x, t}


def test_theanos_names():
    assert Lop is vjp and Rop is jvp


def test_jvp_of_inner_variables_and_of_a_variable_twice(x):
    z = pb.sin(x)
    point = {x: np.array([0.4, 1.0])}
    np.testing.assert_allclose(value(jvp(z * x, z, np.ones(2)), point), point[x])
    np.testing.assert_allclose(value(jvp(z, [x, x], [np.ones(2), np.ones(2)]), point), 2 * np.cos(point[x]))


def test_jvp_through_flat_and_disconnected_parts(x):
    np.testing.assert_array_equal(value(jvp(pb.floor(x) + 3 * x, x, [1.0, 2]), {x: np.array([0.5, 2.5])}), [3, 6])
    np.testing.assert_array_equal(value(jvp(pb.floor(x), x, [1.0, 2]), {x: np.array([0.5, 2.5])}), [0, 0])
    with pytest.raises(pb.DisconnectedInputError, match="jvp"):
        jvp(pb.disconnected_grad(x), x, [1.0, 2])
    with pytest.raises(pb.DisconnectedInputError):
        jvp([x * 2, pb.constant([1.0])], x, [1.0, 2])
    zero = jvp([x * 2, pb.constant([1.0])], x, [1.0, 2], disconnected_outputs="ignore")[1]
    np.testing.assert_array_equal(value(zero, {x: np.zeros(2)}), [0])
    with pytest.raises(pb.UndefinedGradientError, match=r"jvp.*why not.*|jvp.*test_derived"):
        jvp(pb.undefined_grad(x, "why not"), x, [1.0, 2])


def test_jvp_goes_through_stable_forms(x):
    f = pb.log(pb.exp(x).sum())
    found = value(jvp(f, x, [1.0, -1]), {x: np.array([1000.0, 1000.0 + np.log(3)])})
    np.testing.assert_allclose(found, 0.25 - 0.75, rtol=1e-12)


def test_an_op_may_give_its_own_forward_rule(x):
    @dataclass(frozen=True)
    class Cube(Op):
        def make_node(self, x):
            return Apply(self, [x], [x.type])

        def perform(self, x):
            return x**3

        def R_op(self, inputs, tangents):
            assert len(tangents) == 1
            return [3 * inputs[0] ** 2 * tangents[0]]

    found = jvp(pb.sin(Cube()(x)), x, [2.0])
    point = np.array([0.7])
    np.testing.assert_allclose(value(found, {x: point}), np.cos(point**3) * 3 * point**2 * 2)


@pytest.mark.parametrize("transform", [vjp, jvp])
def test_vectors_that_do_not_fit_are_refused(transform, x):
    for wrong in ([np.ones(2), np.ones(2)], 1.0, np.ones((2, 2)), pb.zvector()):
        with pytest.raises(TypeError, match="(vjp|jvp): "):
            transform(x * 2, x, wrong)
    with pytest.raises(TypeError, match="float"):
        transform(pb.argmax(x), x, 1.0)
    option = {vjp: "disconnected_inputs", jvp: "disconnected_outputs"}[transform]
    with pytest.raises(ValueError, match=f"{option}='rise'"):
        transform(x * 2, x, np.ones(2), **{option: "rise"})


# --- Jacobians and Hessians -------------------------------------------------------------------------------------------


def test_jacobians_of_any_rank(x, y, given):
    f = some_function(x, y)
    by_x, by_y = evaluate(jacobian(f, [x, y]), given)
    assert by_x.shape == (4, 3) and by_y.shape == (4, 4, 3)
    for k in np.ndindex(3):
        np.testing.assert_allclose(by_x[:, k[0]], difference(f, x, np.eye(3)[k], given), rtol=1e-6, atol=1e-8)
    matrix = pb.tanh(y) * x
    assert value(jacobian(matrix, y), given).shape == (4, 3, 4, 3)
    np.testing.assert_allclose(value(jacobian(x.sum(), x), given), np.ones(3))
    assert value(jacobian(f, x), {x: given[x], y: np.ones((1, 3))}).shape == (1, 3)
    assert value(jacobian(f, x), {x: given[x], y: np.ones((0, 3))}).shape == (0, 3)


def test_jacobians_are_differentiable_twice(x, y, given):
    cost = pb.square(jacobian(pb.tanh(y @ x), x)).sum()
    first = pb.grad(cost, [x, y])
    assert_gradient(cost, [x, y], given, first)
    second = pb.square(first[0]).sum()
    assert_gradient(second, [x, y], given, pb.grad(second, [x, y]))


def test_jacobian_of_what_does_not_depend_on_wrt(x, y, given):
    with pytest.raises(pb.DisconnectedInputError):
        jacobian(pb.sin(x), y)
    zero = value(jacobian(pb.sin(x), y, disconnected_inputs="ignore"), given)
    assert zero.shape == (3, 4, 3) and not zero.any()


def test_hessians(x, y, given):
    cost = pb.exp(pb.sin(x) @ pb.constant([1.0, 2, -1])) + pb.sum(y**3)
    block, other = evaluate(hessian(cost, [x, y]), given)
    assert block.shape == (3, 3) and other.shape == (4, 3, 4, 3)
    np.testing.assert_allclose(block, block.T, atol=1e-12)
    slope = pb.grad(cost, x)
    for k in range(3):
        np.testing.assert_allclose(block[k], difference(slope, x, np.eye(3)[k], given), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(other.reshape(12, 12), np.diag(6 * given[y].ravel()))
    assert not value(hessian(x.sum(), x), given).any()


def test_hvp_counts_mixed_blocks(x, y, given, rng):
    cost = pb.sum(pb.tanh(y @ x) ** 2) + pb.sum(x)
    vs = [rng.normal(size=3), rng.normal(size=(4, 3))]
    found = hvp(cost, (x, y), vs)
    assert isinstance(found, tuple)
    slopes = pb.grad(cost, [x, y])
    for h, g in zip(found, slopes):
        expected = difference(g, x, vs[0], given) + difference(g, y, vs[1], given)
        np.testing.assert_allclose(value(h, given), expected, rtol=1e-5, atol=1e-7)
    assert not value(hvp(x.sum(), x, vs[0]), given).any()


def test_jacobians_run_as_functions_on_both_backends(x, y, given):
    f = jacobian(some_function(x, y), x)
    results = [pb.function([x, y], f, backend=b)(given[x], given[y]) for b in ("native", "reference")]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


# --- subgraphs --------------------------------------------------------------------------------------------------------


def subgraph():
    x, w1, w2 = pb.dvector("x"), pb.dvector("w1"), pb.dvector("w2")
    hidden = pb.tanh(x * w1)
    cost1 = pb.square(hidden * w2 - 1).sum()
    cost2 = pb.abs(w1).sum()
    return x, w1, w2, hidden, cost1, cost2


def test_gradients_in_two_parts_are_those_of_the_whole(rng):
    x, w1, w2, hidden, cost1, cost2 = subgraph()
    given = {v: rng.normal(size=3) for v in (x, w1, w2)}
    grads2, at_hidden = subgraph_grad(wrt=[w2], end=[hidden], cost=cost1)
    grads1, at_x = subgraph_grad(wrt=[w1], end=[x], start=dict(zip([hidden], at_hidden)), cost=cost2)
    whole = pb.grad(cost1 + cost2, [w2, w1, x])
    for part, full in zip([*grads2, *grads1, *at_x], whole):
        np.testing.assert_allclose(value(part, given), value(full, given))


def test_details_of_a_subgraph_keep_the_shares_apart(rng):
    x, w1, _, hidden, _, cost2 = subgraph()
    given = {v: rng.normal(size=3) for v in (x, w1)}
    grads, ends, from_start, from_cost = subgraph_grad([w1], [x], {hidden: pb.ones_like(hidden)}, cost2, details=True)
    np.testing.assert_allclose(value(from_cost[0], given), np.sign(given[w1]))
    np.testing.assert_allclose(value(grads[0], given), value(from_start[0], given) + value(from_cost[0], given))
    assert not value(from_cost[1], given).any() and len(from_start) == len(from_cost) == 2
    alone = subgraph_grad([w1], [x], cost=cost2, details=True)
    assert not value(alone[2][0], given).any()
    np.testing.assert_allclose(value(alone[3][0], given), np.sign(given[w1]))


def test_subgraphs_need_lists_and_a_beginning():
    x, w1, _, _, _, cost2 = subgraph()
    with pytest.raises(ValueError, match="start, cost or both"):
        subgraph_grad([w1], [x])
    with pytest.raises(TypeError, match="wrt must be a list"):
        subgraph_grad(w1, [x], cost=cost2)
    with pytest.raises(TypeError, match="end must be a list"):
        subgraph_grad([w1], x, cost=cost2)
