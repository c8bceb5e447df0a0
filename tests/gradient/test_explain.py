"""`explain` and the drawn refusals: verdicts, paths, cuts, conventions, hints, and their length."""

import os

import pytest

import pullback as pb
from pullback.gradient import explain
from pullback.gradient.explain import LONGEST_PATH, Explanation
from pullback.graph import evaluate


@pytest.fixture
def x():
    return pb.dmatrix("x")


def ops_of(found):
    return [str(step.node.op).split("{")[0] for step in found.path]


def test_a_formula_is_told_op_by_op(x):
    w = pb.dmatrix("w")
    cost = pb.square(pb.tanh(x @ w)).sum()
    cost.name = "cost"
    found = explain(cost, w)
    assert found.verdict == "formula" and found.operations == 4
    assert ops_of(found) == ["MatMul", "tanh", "square", "Sum"]
    text = str(found)
    assert text.startswith("d cost / d w: a formula, through 4 operations")
    assert "g (1 - tanh(x)^2)" in text and "2 g x" in text and "(input 1)" in text
    assert text.count("test_explain.py:") == 4 and repr(found) == text


def test_the_shortest_way_is_drawn_and_all_operations_counted(x):
    found = explain((pb.sin(pb.cos(pb.exp(x))) + x).sum(), x)
    assert ops_of(found) == ["add", "Sum"] and found.operations == 5


def test_zero_is_a_verdict_only_if_every_way_is_locally_constant(x):
    assert explain((pb.floor(x) * 2).sum(), x).verdict == "zero"
    found = explain((pb.floor(x) + x).sum(), x)
    assert found.verdict == "formula" and len(found.locally_constant) == 1
    assert explain((pb.floor(x) * 0 + pb.sin(pb.zero_grad(x))).sum(), x).verdict == "zero"


def test_one_where_cost_and_variable_are_one():
    c = pb.dscalar("c")
    assert str(explain(c, c)).startswith("d c / d c: one")


def test_cuts_are_placed_and_explained(x):
    cases = {
        "int64": pb.argmax(x).astype("float64"),
        "boolean": pb.where(x > 0, 1.0, 0.0).sum(),
        "only the shape": pb.ones_like(x).sum(),
        "it does not depend": pb.disconnected_grad(x).sum(),
    }
    for why, cost in cases.items():
        found = explain(cost, x)
        assert found.verdict == "disconnected"
        assert why in next(step.answer for step in found.path if step.cut)
        with pytest.raises(pb.DisconnectedInputError) as caught:
            pb.grad(cost, x)
        assert str(found) in str(caught.value) and "disconnected_inputs='ignore'" in str(caught.value)


def test_other_ways_that_are_cut_are_listed(x):
    found = explain((pb.where(x > 0, x, -x)).sum(), x)
    assert found.verdict == "formula"
    assert ["greater" in str(step.node.op) and "boolean" in step.answer for step in found.cuts] == [True]


def test_held_constant_variables_are_cuts(x):
    z = pb.exp(x)
    found = explain(z.sum(), x, consider_constant=[z])
    assert found.verdict == "disconnected" and "consider_constant" in found.path[0].answer
    assert explain((z * x).sum(), x, consider_constant=[z]).verdict == "formula"


def test_known_gradients_end_the_way(x):
    z = pb.exp(x)
    found = explain(None, x, known_grads={z: pb.ones_like(z)})
    assert found.verdict == "formula" and ops_of(found) == ["exp"] and "known_grads" in str(found)


def test_kinks_on_the_way_are_told_with_our_choice(x):
    found = explain(pb.maximum(pb.relu(x), 1.0).sum(), x)
    assert {str(node.op) for node, _ in found.kinks} == {"relu", "maximum"}
    assert "x = 0: legal [0, 1]; answered 0" in str(found)


def test_stable_forms_are_told(x):
    found = explain(pb.log(pb.softmax(x)).sum(), x)
    assert len(found.stable_forms) == 1 and "LogSoftmax" in str(found) and ops_of(found) == ["LogSoftmax", "Sum"]


def test_non_answers_give_their_verdict(x):
    for view, verdict in ((pb.undefined_grad(x, "a sample"), "undefined"),):
        found = explain(pb.sin(view).sum(), x)
        assert found.verdict == verdict and "a sample" in str(found)
    with pytest.raises(pb.UndefinedGradientError, match="(?s)d cost / d x: undefined.*a sample.*disconnected_grad"):
        pb.grad(pb.sin(view).sum(), x)


@pytest.mark.parametrize("how", ["same name", "made after", "elsewhere"])
def test_hints_where_the_variable_is_no_part_of_the_cost(x, how):
    cost = pb.sin(x).sum()
    other = {"same name": pb.dmatrix("x"), "made after": x * 2.0, "elsewhere": pb.dvector("elsewhere")}[how]
    found = explain(cost, other)
    assert found.verdict == "disconnected" and not found.path
    says = {"same name": "another variable that is also called 'x'", "made after": "build the cost from it"}
    assert says.get(how, "The cost is computed from: x.") in str(found)


def test_several_variables_give_several_explanations(x):
    y = pb.dmatrix("y")
    both = explain((x * y).sum(), [x, y])
    assert [e.wrt for e in both] == [x, y] and all(isinstance(e, Explanation) for e in both)


def test_messages_stay_short_for_huge_graphs(x):
    y = x
    for _ in range(1000):
        y = pb.tanh(y) * x + pb.relu(pb.floor(y))
    z = pb.rint(y).astype("int64").astype("float64")
    for _ in range(1000):
        z = pb.sin(z)
    found = explain(z.sum(), x)
    lines = str(found).splitlines()
    assert found.verdict == "disconnected" and len(lines) < LONGEST_PATH + 20 and max(map(len, lines)) < 200
    assert any("X  cast[int64]" in line for line in lines)
    hidden = [int(line.split("...")[1].split()[0]) for line in lines if "more ..." in line]
    drawn = [line for line in lines if line.strip()[:1] in ("|", "X", ":") and "more ..." not in line]
    assert sum(hidden) + len(drawn) == len(found.path)
    assert len(str(explain(y.sum(), x)).splitlines()) < 2 * LONGEST_PATH + 20


def test_long_op_names_are_shortened(x):
    found = explain(pb.undefined_grad(x, "because " * 30).sum(), x)
    assert max(map(len, str(found).splitlines()[2:6])) < 400


def test_explain_refuses_what_grad_refuses(x):
    with pytest.raises(TypeError, match="scalar"):
        explain(x, x)
    with pytest.raises(TypeError, match="neighbourhood"):
        explain(x.sum(), pb.lvector())


def test_errors_of_inner_variables_name_how_they_were_made(x):
    inner = pb.exp(pb.dmatrix("z"))
    with pytest.raises(pb.DisconnectedInputError, match="this result of exp"):
        pb.grad(x.sum(), inner)


def test_files_are_named_from_the_current_folder(x, monkeypatch, tmp_path):
    cost = pb.sin(x).sum()
    monkeypatch.chdir(os.path.dirname(__file__))
    assert "  test_explain.py:" in str(explain(cost, x))
    monkeypatch.chdir(tmp_path)
    assert f"{os.path.dirname(__file__)}{os.sep}test_explain.py:" in str(explain(cost, x))


def test_explain_agrees_with_the_gradient_on_random_graphs(rng):
    """The verdict says what `grad` does, for graphs of mixed smooth, flat and cutting ops."""
    steps = [pb.sin, pb.floor, pb.relu, pb.zero_grad, pb.disconnected_grad, lambda v: pb.cast(v > 0, "float64")]
    for _ in range(60):
        x, y = pb.dvector("x"), pb.dvector("y")
        pool = [x, y]
        for k in rng.integers(0, len(steps), 6):
            a, b = (pool[i] for i in rng.integers(0, len(pool), 2))
            pool.append(steps[k](a) if rng.random() < 0.6 else a + b)
        cost = pool[-1].sum()
        verdict = explain(cost, x).verdict
        g = pb.grad(cost, x, disconnected_inputs="ignore", return_disconnected="none")
        assert (g is None) == (verdict == "disconnected")
        if verdict == "zero":
            assert not evaluate([g], {x: rng.normal(size=3), y: rng.normal(size=3)})[0].any()


def test_nothing_is_computed(x):
    far_too_large = pb.zeros((10**9, 10**9)) + x.sum()
    assert explain(far_too_large.sum(), x).verdict == "formula"
