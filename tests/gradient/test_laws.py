"""The laws of the gradient engine, one by one, by name (the numbers are those of the design)."""

from dataclasses import dataclass

import numpy as np
import pytest

import pullback as pb
from pullback.errors import RuleError
from pullback.gradient import explain, kink_table, kinks_of
from pullback.graph import Apply, Op, TensorType, evaluate
from pullback.graph.type import NotImplementedType, UndefinedType
from tests.gradient.numeric import assert_gradient, value


@dataclass(frozen=True)
class TwoIn(Op):
    """x * y with any rule: what the tests need."""

    rule: object = None

    def make_node(self, x, y):
        return Apply(self, [pb.asarray(x), pb.asarray(y)], [x.type])

    def perform(self, x, y):
        return x * y

    def grad(self, inputs, output_grads):
        return self.rule(self, inputs, output_grads[0])


def answers(*given):
    """A rule that answers these, built from (op, inputs, g)."""
    return TwoIn(lambda op, inputs, g: [a(op, inputs, g) if callable(a) else a for a in given])


def formula(op, inputs, g):
    return g * inputs[1]


def undefined(op, inputs, g):
    return pb.grad_undefined(op, 1, inputs[1], "a table has no neighbourhood")


def missing(op, inputs, g):
    return pb.grad_not_implemented(op, 1, inputs[1], "nobody needed it yet")


def disconnected(op, inputs, g):
    return pb.DisconnectedType()()


# --- law 1 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, 3.0, np.ones(2)], ids=["none", "number", "array"])
def test_law_1_anything_but_the_four_answers_is_refused_by_name(wrong):
    x, y = pb.dvector("x"), pb.dvector("y")
    with pytest.raises(RuleError, match=r"TwoIn.*input 1.*grad_undefined.*grad_not_implemented.*DisconnectedType"):
        pb.grad(answers(formula, wrong)(x, y).sum(), x)


@pytest.mark.parametrize("rule", [lambda op, i, g: None, lambda op, i, g: [g], lambda op, i, g: g])
def test_law_1_a_rule_answers_once_per_input(rule):
    x, y = pb.dvector("x"), pb.dvector("y")
    with pytest.raises(RuleError, match="TwoIn"):
        pb.grad(TwoIn(rule)(x, y).sum(), x)


def test_law_1_undefined_and_not_implemented_differ_and_carry_reason_and_line():
    x, y = pb.dvector("x"), pb.dvector("y")
    op = answers(formula, undefined)
    g = pb.grad(op(x, y).sum(), y, null_gradients="return")
    assert isinstance(g.type, UndefinedType) and g.type.why == "a table has no neighbourhood" and g.type.op == op
    g = pb.grad(answers(formula, missing)(x, y).sum(), y, null_gradients="return")
    assert isinstance(g.type, NotImplementedType) and not isinstance(g.type, UndefinedType)
    with pytest.raises(pb.UndefinedGradientError, match=r"test_laws\.py:\d+"):
        pb.grad(op(x, y).sum(), y)
    with pytest.raises(TypeError):
        pb.grad(op(x, y).sum(), y)
    with pytest.raises(NotImplementedError):
        pb.grad(answers(formula, missing)(x, y).sum(), y)


def test_law_1_a_formula_against_the_connection_pattern_is_refused():
    class Liar(TwoIn):
        def connection_pattern(self, node):
            return [[True], [False]]

    x, y = pb.dvector("x"), pb.dvector("y")
    with pytest.raises(RuleError, match="formula for input 1.*disconnected"):
        pb.grad(Liar(answers(formula, formula).rule)(x, y).sum(), x)


@pytest.mark.parametrize("pattern", [None, [[True]], [[True, True], [True]], [True, True]])
def test_law_1_a_connection_pattern_is_a_row_per_input(pattern):
    class Misfit(TwoIn):
        def connection_pattern(self, node):
            return pattern

    x, y = pb.dvector("x"), pb.dvector("y")
    with pytest.raises(RuleError, match="Misfit.*connection_pattern.*2 rows"):
        pb.grad(Misfit(answers(formula, formula).rule)(x, y).sum(), x)


# --- law 2 ------------------------------------------------------------------------------------------------------------


def test_law_2_only_the_path_that_is_asked_for_raises():
    x, y = pb.dvector("x"), pb.dvector("y")
    cost = answers(formula, undefined)(x, pb.sin(y)).sum()
    given = {x: np.array([1.0, 2]), y: np.array([0.5, -1])}
    np.testing.assert_array_equal(value(pb.grad(cost, x), given), np.sin(given[y]))
    with pytest.raises(pb.UndefinedGradientError):
        pb.grad(cost, [x, y])


def test_law_2_a_sum_with_an_undefined_term_is_undefined():
    x = pb.dvector("x")
    cost = (pb.sin(x) + answers(formula, undefined)(x, x)).sum()
    with pytest.raises(pb.UndefinedGradientError):
        pb.grad(cost, x)


def test_law_2_the_message_draws_the_chain_and_marks_the_cut():
    w, x = pb.dmatrix("w"), pb.dmatrix("x")
    cost = pb.exp(pb.argmax(pb.tanh(x @ w), axis=1).astype("float64")).sum()
    with pytest.raises(pb.DisconnectedInputError) as caught:
        pb.grad(cost, w)
    lines = [line.split() for line in str(caught.value).splitlines()]
    chain = [words[1] for words in lines if words and words[0] in ("|", "X", ":")]
    assert [c.split("{")[0] for c in chain] == ["MatMul", "tanh", "ArgMax", "cast[float64]", "exp", "Sum"]
    cut = next(line for line in str(caught.value).splitlines() if line.strip().startswith("X"))
    assert "ArgMax" in cut and "int64" in cut and "test_laws.py" in cut
    assert isinstance(caught.value, ValueError)


def test_law_2_explain_gives_the_same_report_without_raising():
    x, y = pb.dvector("x"), pb.dvector("y")
    cost = answers(formula, undefined)(x, pb.sin(y)).sum()
    found = explain(cost, y)
    assert found.verdict == "undefined"
    assert "a table has no neighbourhood" in str(found)
    with pytest.raises(pb.UndefinedGradientError) as caught:
        pb.grad(cost, y)
    drawn = [line for line in str(caught.value).splitlines() if line.strip()[:1] in ("|", "X", ":")]
    assert drawn and all(line in str(found) for line in drawn)


# --- law 3 ------------------------------------------------------------------------------------------------------------

UNSAFE_AT_ZERO = {
    "sqrt": lambda x: pb.sqrt(x), "log": lambda x: pb.log(x), "reciprocal": lambda x: 1 / x, "power": lambda x: x**0.3,
    "divide": lambda x: 2.0 / x, "arccos": lambda x: pb.arccos(1 - x), "cbrt": lambda x: pb.cbrt(x),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSAFE_AT_ZERO)
def test_law_3_a_zero_cotangent_gives_zero_whatever_the_derivative_is(name):
    x, c = pb.dvector("x"), pb.dvector("c")
    given = {x: np.array([0.0, 0.5, 0.0]), c: np.array([0.0, 2.0, 0.0])}
    first = pb.grad(pb.where(c > 0, UNSAFE_AT_ZERO[name](x), 0.0).sum(), x)
    assert value(first, given)[0] == 0 and np.isfinite(value(first, given)).all()
    second = pb.grad(first.sum(), x)
    assert (value(second, given)[[0, 2]] == 0).all()
    assert np.isfinite(value(second, given)).all() and value(second, given)[1] != 0


def test_law_3_strong_mul_is_strong_in_both_arguments_to_second_order():
    g, d = pb.dvector("g"), pb.dvector("d")
    given = {g: np.array([0.0, 2.0, 0.0, -1.0]), d: np.array([np.inf, 3.0, np.nan, 0.5])}
    product = pb.strong_mul(g, d)
    np.testing.assert_array_equal(value(product, given), [0, 6, 0, -0.5])
    u = pb.constant([0.0, 1.0, 0.0, -2.0])
    for wrt, expected in ((g, [0, 3, 0, -1]), (d, [0, 2, 0, 2])):
        slope = pb.grad((product * u).sum(), wrt)
        np.testing.assert_array_equal(value(slope, given), expected)
    mixed = pb.grad(pb.grad((product * u).sum(), g).sum(), d)
    np.testing.assert_array_equal(value(mixed, given), u.data)


# --- law 4 ------------------------------------------------------------------------------------------------------------

SAFE_AT_ZERO = {
    "prod": lambda x: pb.prod(x), "norm": lambda x: pb.linalg.norm(x), "std": lambda x: pb.std(x),
    "cumprod": lambda x: pb.cumprod(x).sum(), "logsumexp": lambda x: pb.logsumexp(x),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFE_AT_ZERO)
def test_law_4_no_rule_divides_by_an_input_or_output_that_may_be_zero(name):
    x = pb.dvector("x")
    point = {x: np.zeros(3)}
    first = pb.grad(SAFE_AT_ZERO[name](x), x)
    assert np.isfinite(value(first, point)).all()
    second = pb.grad(first[0], x, disconnected_inputs="ignore")
    assert np.isfinite(value(second, point)).all()


# --- law 5 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((1, 1, 1), (2, 3, 2)), ((0, 2), (1,))]
)
def test_law_5_every_gradient_has_its_inputs_shape_and_dtype(shapes, dtype, rng):
    x, y = (pb.tensor(dtype, (None,) * len(s)) for s in shapes)
    given = {v: rng.normal(size=s).astype(dtype) for v, s in zip((x, y), shapes)}
    cost = pb.sum(pb.sin(x * y) + x / (2 + y * y))
    for v, g in zip((x, y), pb.grad(cost, [x, y])):
        assert g.dtype == dtype and value(g, given).shape == given[v].shape and value(g, given).dtype == dtype


def test_law_5_unbroadcasting_sums_and_is_right(rng):
    x, y = pb.dmatrix("x"), pb.dvector("y")
    given = {x: rng.normal(size=(3, 1)), y: rng.normal(size=4)}
    cost = pb.sum(pb.tanh(x * y) * pb.constant(rng.normal(size=(3, 4))))
    assert_gradient(cost, [x, y], given, pb.grad(cost, [x, y]))


def test_law_5_mixed_dtypes_give_each_its_own():
    x, y = pb.fvector("x"), pb.dvector("y")
    gx, gy = pb.grad((x * y).sum(), [x, y])
    assert (gx.dtype, gy.dtype) == ("float32", "float64")


@pytest.mark.parametrize(
    "wrong, found", [(lambda op, i, g: g.sum(), "0-d"), (lambda op, i, g: pb.argmax(g)[None], "int64")]
)
def test_law_5_a_term_of_another_rank_or_kind_is_refused(wrong, found):
    x, y = pb.dvector("x"), pb.dvector("y")
    with pytest.raises(RuleError, match=f"TwoIn.*{found}"):
        pb.grad(answers(wrong, formula)(x, y).sum(), x)


def test_law_5_a_term_of_another_static_shape_is_refused():
    x, y = pb.tensor("float64", (3,)), pb.tensor("float64", (3,))
    with pytest.raises(RuleError, match=r"TwoIn.* gave shape \(2,\) for input 0 of shape \(3,\)"):
        pb.grad(answers(lambda op, i, g: pb.constant(np.ones(2)), formula)(x, y).sum(), x)


# --- law 6 ------------------------------------------------------------------------------------------------------------


def test_law_6_fan_out_adds(rng):
    x = pb.dvector("x")
    given = {x: rng.normal(size=3)}
    y = pb.sin(x)
    cost = (y * y + y + pb.exp(x) * x - y / (1 + x * x)).sum()
    assert_gradient(cost, [x], given, [pb.grad(cost, x)])


def test_law_6_leaves_keep_their_identity_even_when_equal():
    a, b = pb.shared(np.ones(2), "a"), pb.shared(np.ones(2), "b")
    f = pb.function([], pb.grad((a * a * b).sum(), [a, b]))
    np.testing.assert_array_equal(f()[0], [2, 2])
    b.set_value(np.array([5.0, 7]))
    np.testing.assert_array_equal(f()[0], [10, 14])
    np.testing.assert_array_equal(f()[1], [1, 1])


def test_law_6_the_same_input_twice_gets_both_terms():
    x = pb.dvector("x")
    cost = answers(formula, lambda op, i, g: g * i[0])(x, x).sum()
    np.testing.assert_array_equal(value(pb.grad(cost, x), {x: np.array([1.0, 3])}), [2, 6])


# --- law 7 ------------------------------------------------------------------------------------------------------------

AT_KINKS = {
    "max shares a tie": (lambda x: pb.max(x), [2, 2, 1], [0.5, 0.5, 0]),
    "min shares a tie": (lambda x: pb.min(x), [1, 2, 1], [0.5, 0, 0.5]),
    "maximum of variables shares": (lambda x: pb.maximum(x, x[::-1]).sum(), [1, 3, 1], [1, 1, 1]),
    "maximum with a constant gives 0": (lambda x: pb.maximum(x, 1.0).sum(), [0, 1, 2], [0, 0, 1]),
    "minimum with a constant gives 0": (lambda x: pb.minimum(x, 1.0).sum(), [0, 1, 2], [1, 0, 0]),
    "relu gives 0": (lambda x: pb.relu(x).sum(), [-1, 0, 1], [0, 0, 1]),
    "abs gives 0": (lambda x: pb.abs(x).sum(), [-1, 0, 1], [-1, 0, 1]),
    "norm gives 0": (lambda x: pb.linalg.norm(x), [0, 0, 0], [0, 0, 0]),
    "clip is closed": (lambda x: pb.clip(x, 0, 2).sum(), [0, 1, 2], [1, 1, 1]),
    "max_and_argmax sends it to the index": (lambda x: pb.max_and_argmax(x, 0)[0], [2, 2, 1], [1, 0, 0]),
    "max-pool gives the first": (lambda x: pb.max_pool1d(x[None, None], 3, 3).sum(), [2, 2, 1], [1, 0, 0]),
}


@pytest.mark.parametrize("name", AT_KINKS)
def test_law_7_conventions_at_kinks(name):
    f, point, expected = AT_KINKS[name]
    x = pb.dvector("x")
    np.testing.assert_array_equal(value(pb.grad(f(x), x), {x: np.array(point, float)}), expected)


def test_law_7_the_table_lists_every_op_with_kinks_once():
    table = kink_table()
    assert len(set(table)) == len(table)
    assert {"maximum", "minimum", "relu", "abs", "clip", "Max", "Min", "MaxPool"} <= {entry.op for entry in table}
    assert all(entry.where and entry.legal and entry.choice for entry in table)
    assert [k.choice for k in kinks_of(pb.abs)] == [entry.choice for entry in table if entry.op == "abs"]


# --- law 8 ------------------------------------------------------------------------------------------------------------

DISCONNECTED = {
    "argmax": lambda x: pb.argmax(x).astype("float64"),
    "a comparison": lambda x: (x > 0).astype("float64").sum(),
    "shape": lambda x: x.shape[0].astype("float64"),
    "a cast to int": lambda x: x.astype("int64").astype("float64").sum(),
    "an index": lambda x: pb.constant(np.arange(5.0))[x.astype("int64")].sum(),
    "a size": lambda x: pb.zeros(x.shape).sum(),
}


@pytest.mark.parametrize("name", DISCONNECTED)
def test_law_8_what_passes_through_integers_is_disconnected(name):
    x = pb.dvector("x")
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(DISCONNECTED[name](x), x)
    g = pb.grad(DISCONNECTED[name](x), x, disconnected_inputs="ignore")
    np.testing.assert_array_equal(value(g, {x: np.array([1.0, 2])}), [0, 0])


@pytest.mark.parametrize("f", [pb.floor, pb.ceil, pb.round, pb.sign, pb.trunc])
def test_law_8_locally_constant_ops_give_zeros_that_explain_reports(f):
    x = pb.dvector("x")
    cost = f(x).sum()
    np.testing.assert_array_equal(value(pb.grad(cost, x), {x: np.array([0.3, -1.7])}), [0, 0])
    found = explain(cost, x)
    assert found.verdict == "zero" and len(found.locally_constant) == 1 and "locally constant" in str(found)


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool"])
def test_law_8_with_respect_to_an_integer_is_refused_with_the_way_out(dtype):
    k = pb.tensor(dtype, (None,), "k")
    with pytest.raises(TypeError, match=r"k is .*neighbourhood.*astype"):
        pb.grad((k * 2.0).sum(), k)
    x = k.astype("float64")
    np.testing.assert_array_equal(value(pb.grad((x * 2.0).sum(), x), {k: np.ones(2, dtype)}), [2, 2])


def test_law_8_a_gradient_is_never_an_integer():
    x, k = pb.fvector("x"), pb.lvector("k")
    assert pb.grad((x * k).sum(), x).dtype == "float32"
    assert pb.grad(pb.sum(x * x.shape[0]), x).dtype == "float32"


def test_law_8_complex_is_a_typed_not_implemented():
    x, z = pb.dvector("x"), pb.zvector("z")
    with pytest.raises(pb.NotImplementedGradientError, match="complex"):
        pb.grad(pb.abs(z).sum(), z)
    with pytest.raises(pb.NotImplementedGradientError, match="complex"):
        pb.grad(pb.abs(z * x).sum(), x)


# --- law 9, on the engine's own terms ---------------------------------------------------------------------------------


def test_law_9_second_order_of_a_whole_expression(rng):
    x, w = pb.dmatrix("x"), pb.dmatrix("w")
    given = {x: rng.normal(size=(3, 2)), w: rng.normal(size=(2, 4))}
    cost = pb.sum(pb.log_softmax(pb.tanh(x @ w), axis=1) * pb.constant(rng.normal(size=(3, 4))))
    first = pb.grad(cost, w)
    second_cost = pb.sum(first * pb.constant(rng.normal(size=(2, 4))))
    assert_gradient(second_cost, [x, w], given, pb.grad(second_cost, [x, w]))


def test_law_9_fused_equals_unfused_for_every_subset_of_outputs(rng):
    from pullback.graph.function_graph import FunctionGraph
    from pullback.rewrites import Fused, fuse
    from pullback.rewrites.driver import Facts

    x, y = pb.dvector("x"), pb.dvector("y")
    a = pb.sin(x) * y
    outs = [a, pb.exp(a) + x, pb.tanh(a * y)]
    graph = FunctionGraph([x, y], outs)
    facts = Facts()
    facts.assume(x, (3,))
    facts.assume(y, (3,))
    fuse(graph, facts)
    fused = graph.extract()
    assert isinstance(fused[0].owner.op, Fused) and fused[0].owner is fused[2].owner is fused[1].owner
    given = {x: rng.normal(size=3), y: rng.normal(size=3)}
    for subset in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
        weights = [pb.constant(rng.normal(size=3)) for _ in subset]
        plain, quick = (
            pb.grad(sum((w * o[k]).sum() for w, k in zip(weights, subset)), [x, y]) for o in (outs, fused)
        )
        for p, q in zip(evaluate(plain, given), evaluate(quick, given)):
            np.testing.assert_allclose(p, q, rtol=1e-12)


def test_types_of_the_four_answers_hold_no_value():
    for v in (pb.DisconnectedType()(), pb.grad_undefined(pb.abs, 0, None, "why")):
        assert not isinstance(v.type, TensorType)
        with pytest.raises(TypeError):
            v.type.filter(0.0)
