"""Fusion: which nodes become one loop, that no cycle arises, that nothing changes but the number of steps."""

import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate, toposort
from pullback.graph.function_graph import FunctionGraph
from pullback.ops.elementwise import ROWS
from pullback.rewrites import Fused, fuse, optimize
from pullback.rewrites.driver import Facts
from pullback.rewrites.fuse import MOST_INPUTS, MOST_NODES
from tests.rewrites.compare import assert_same, names, run


def fused(outputs, given):
    graph, facts = FunctionGraph(list(given), outputs), Facts()
    for v, a in given.items():
        facts.assume(v, a.shape)
    fuse(graph, facts)
    graph.validate()
    return graph.extract()


def loops(outputs):
    return [n for n in toposort(outputs) if isinstance(n.op, Fused)]


@pytest.fixture
def given(rng):
    return {pb.fvector(name): rng.normal(size=7).astype("float32") for name in "abcd"}


def test_a_chain_becomes_one_loop(given):
    a, b, *_ = given
    y = pb.tanh(a * b + 1) / (2 + pb.exp(-a))
    new = fused([y], given)
    assert names(new) == ["Fused"] and len(loops(new)[0].op.graph.nodes) == 7
    assert_same(run([y], given), run(new, given), 0)


def test_several_results_of_one_loop(given):
    p, m, v, g = given
    m2 = 0.9 * m + 0.1 * g
    v2 = 0.99 * v + 0.01 * pb.square(g)
    new = fused([m2, v2, p - 0.01 * m2 / (pb.sqrt(v2) + 1e-8)], given)
    assert names(new) == ["Fused"] and len(loops(new)[0].outputs) == 3
    outs = [m2, v2, p - 0.01 * m2 / (pb.sqrt(v2) + 1e-8)]
    assert_same(run(outs, given), run(new, given), 0)


def test_no_cycle_through_what_is_not_fused(given):
    a, *_ = given
    b = pb.exp(a)
    c = b * b.sum() + a  # needs the sum of b: can't be in b's loop
    d = pb.sin(c) + b
    new = fused([d], given)
    assert names(new).count("Sum") == 1 and len(toposort(new)) == 3
    assert_same(run([d], given), run(new, given), 0)


def test_what_is_needed_late_is_computed_late(given):
    """The mask and the slope of a backward pass belong to the loop of the backward pass."""
    x = pb.fmatrix("x")
    w = pb.fmatrix("w")
    point = {x: np.ones((3, 4), "float32"), w: np.ones((4, 4), "float32")}
    h = pb.tanh(x @ w)
    cost = pb.square(h @ w).sum()
    new = optimize([cost, pb.grad(cost, w)], [x, w], {v: a.shape for v, a in point.items()})
    forward = next(n for n in toposort(new) if str(n.op) == "tanh")
    assert any("square" in str(n.op) and "subtract" in str(n.op) for n in loops(new)) and forward is not None
    assert_same(run([cost, pb.grad(cost, w)], point), run(new, point))


def test_only_equal_shapes_share_a_loop(rng):
    x, y, s = pb.fmatrix("x"), pb.fvector("y"), pb.fscalar("s")
    point = {x: rng.normal(size=(3, 2)).astype("float32"), y: rng.normal(size=2).astype("float32"), s: np.float32(0.3)}
    out = pb.exp(x * (pb.sin(y) + 1) * (pb.cos(s) + 2))
    new = fused([out], {k: np.asarray(v) for k, v in point.items()})
    found = sorted(str(n.op) for n in toposort(new))
    assert found == ["fused{cos, add}", "fused{multiply, multiply, exp}", "fused{sin, add}"]
    assert_same(run([out], point), run(new, point), 0)


@pytest.mark.parametrize("known", [True, False])
def test_shapes_that_may_broadcast_are_not_taken_for_equal(known, rng):
    x, y = pb.fmatrix("x"), pb.fmatrix("y")
    out = [pb.exp(x) + 1, pb.sin(pb.exp(x) * y) + x]
    for shapes in (((3, 2), (3, 2)), ((1, 2), (3, 2)), ((3, 1), (1, 2)), ((0, 2), (1, 1))):
        point = {v: rng.normal(size=s).astype("float32") for v, s in zip((x, y), shapes)}
        new = optimize(out, [x, y], {v: a.shape for v, a in point.items()} if known else None)
        assert_same(run(out, point), run(new, point), 0)
        for backend in ("native", "reference"):
            found = pb.function([x, y], out, backend=backend)(*point.values())
            for p, q in zip(run(out, point), found):
                np.testing.assert_allclose(p, q, rtol=1e-5)


def test_loops_with_equal_computations_are_equal(given):
    a, b, c, d = given
    x, y = pb.fmatrix("x"), pb.fmatrix("y")
    first, second = (fused([pb.exp(p) * q + 2], {p: np.ones(3), q: np.ones(3)}) for p, q in ((a, b), (d, c)))
    third = fused([pb.exp(x) * y + 2], {x: np.ones((3, 2)), y: np.ones((3, 2))})
    ops = [loops(f)[0].op for f in (first, second, third)]
    assert ops[0] == ops[1] == ops[2] and len({hash(op) for op in ops}) == 1
    assert loops(fused([pb.exp(a) * b + 3], {a: np.ones(3), b: np.ones(3)}))[0].op != ops[0]


def test_loops_are_bounded():
    x = pb.fvector("x")
    many = [pb.fvector() for _ in range(3 * MOST_INPUTS)]
    y = x
    for _ in range(3 * MOST_NODES):
        y = pb.sin(y) + 0.5
    z = x
    for v in many:
        z = z * v + 1
    point = {v: np.full(3, 0.5, "float32") for v in (x, *many)}
    new = fused([y, z], point)
    assert all(len(n.op.graph.nodes) <= MOST_NODES and len(n.inputs) <= MOST_INPUTS for n in loops(new))
    assert len(toposort(new)) <= 12
    assert_same(run([y, z], point), run(new, point), 0)


def test_what_has_no_native_formula_stays_out(given):
    a, *_ = given
    z = pb.zvector("z")
    assert ROWS["digamma"].native is None
    assert names(fused([pb.digamma(pb.exp(a) + 1) * 2 + 1], given)) == ["Fused", "digamma", "Fused"]
    assert not loops(fused([pb.exp(z) * z], {z: np.ones(2, complex)}))
    h = pb.tensor("float16", (None,))
    assert not loops(fused([pb.exp(h) * h], {h: np.ones(2, "float16")}))


def test_constants_that_are_not_finite_or_not_scalar_are_operands(given):
    a, *_ = given
    y = pb.where(a > 0, a, -np.inf) * pb.constant(np.arange(7, dtype="float32")) + np.nan
    new = fused([y], given)
    assert names(new) == ["Fused"] and len(loops(new)[0].inputs) == 4
    assert_same(run([y], given), run(new, given), 0)


def test_mixed_dtypes_in_a_loop(given):
    a, *_ = given
    k = pb.lvector("k")
    point = {**given, k: np.arange(7)}
    y = [pb.where(k > 2, a, k * 2).astype("float64") / 3, (a > 0) & (k > 1), pb.cast(a * 10, "int32") + 1]
    new = fused(y, point)
    assert loops(new)
    assert_same(run(y, point), run(new, point), 0)
    found = pb.function(list(point), y, on_unused_input="ignore")(*point.values())
    for p, q in zip(run(y, point), found):
        np.testing.assert_allclose(p, q, rtol=1e-6)


def test_fusion_is_deterministic(given):
    a, b, *_ = given

    def text():
        outs = [pb.exp(a) * b + k for k in range(5)] + [pb.sin(a * b).sum() + pb.tanh(b)]
        return pb.debugprint(fused(outs, given))

    assert text() == text()


def test_a_loop_is_differentiated_to_second_order(given):
    a, b, *_ = given
    y = pb.tanh(a * b) * pb.exp(a) + b
    new = fused([y, pb.sin(y) * a], given)
    for old_out, new_out in zip([y, pb.sin(y) * a], new):
        old, quick = ([pb.grad(pb.square(v).sum(), [a, b]) for v in (old_out, new_out)])
        second = [pb.grad(sum(pb.sum(g) for g in gs), [a, b]) for gs in (old, quick)]
        for p, q in zip(evaluate([*old, *second[0]], given), evaluate([*quick, *second[1]], given)):
            np.testing.assert_allclose(p, q, rtol=2e-4, atol=1e-5)


def test_one_variable_given_twice(given):
    a, b, *_ = given
    op = loops(fused([pb.exp(a) * b + 2], given))[0].op
    y = op(a, a)
    np.testing.assert_allclose(evaluate([pb.grad(y.sum(), a)], given)[0], np.exp(given[a]) * (given[a] + 1), rtol=1e-5)
    assert op.infer_shape(None, [(3, 1), (4,)], [None, None]) == [(3, 4)]
    with pytest.raises(pb.ShapeError):
        op.infer_shape(None, [(3,), (4,)], [None, None])


def test_scalars_and_empty_arrays():
    s = pb.fscalar("s")
    new = fused([pb.exp(s) * 2 + 1], {s: np.float32(0.5)})
    assert evaluate(new, {s: np.array(0.5, "float32")})[0].shape == ()
    v = pb.fvector("v")
    new = fused([pb.exp(v) * 2 + 1], {v: np.ones(0)})
    assert evaluate(new, {v: np.ones(0, "float32")})[0].shape == (0,)
