"""What `check_op` looks at, beyond the mutations, and what it reports."""

import sys

import numpy as np
import pytest

import pullback as pb
from pullback.graph import Apply, Op, as_variable, grad_not_implemented, grad_undefined
from pullback.testing import (
    CheckError,
    Entry,
    Point,
    backends,
    check_op,
    examine,
    index,
    integer,
    mask,
    positive,
    real,
    variants,
)
from pullback.testing.audit import difference, poisoned_buffers, relaid


def test_an_op_and_example_arrays(rng: np.random.Generator) -> None:
    report = check_op(pb.multiply, rng.normal(size=(2, 3)), rng.normal(size=(2, 3)))
    assert report.right and report.answers == ["formula", "formula"]
    assert 0 < report.largest(1) < 1e-10 and 0 < report.largest(2) < 1e-10
    assert report.native is not None


def test_integers_given_as_examples_stay_as_they_are() -> None:
    report = check_op(lambda x, i: x[i], np.ones((3, 2)), np.array([0, 2, 0]))
    assert report.answers == ["formula", "discrete"]


def test_draws_depend_on_the_name_and_the_seed_only() -> None:
    entry = Entry("square", pb.square, (real("n"),))
    assert examine(entry).errors == examine(entry).errors
    assert examine(entry).errors != examine(entry, seed=1).errors


def test_the_report_can_be_read() -> None:
    text = str(check_op(Entry("product", lambda x, y: x * y, (real("n"), integer("n")))))
    assert "product: right" in text and "first order" in text and "second order" in text and "discrete" in text


class Answering(Op):
    """The value of the input, with a non-answer of choice."""

    def __init__(self, answer) -> None:
        self.answer = answer

    def make_node(self, x):
        x = as_variable(x)
        return Apply(self, [x], [x.type])

    def perform(self, x):
        return 2 * x

    def grad(self, inputs, output_grads):
        return [self.answer(self, 0, inputs[0], "nobody knows")]


@pytest.mark.parametrize(
    ("answer", "words"), [(grad_undefined, "undefined"), (grad_not_implemented, "not implemented")]
)
def test_a_typed_refusal_is_an_answer(answer, words: str) -> None:
    assert check_op(Answering(answer), np.ones(3)).answers == [f"{words}: nobody knows"]


def test_an_op_without_a_rule_is_not_implemented() -> None:
    class Bare(Answering):
        grad = Op.grad

    assert check_op(Bare(None), np.ones(3)).answers[0].startswith("not implemented")


def test_kinks_are_redrawn_and_counted() -> None:
    report = check_op(Entry("relu", pb.relu, (real("40 40", -0.02, 0.02),)))
    assert report.redraws > 0 and report.draws > report.redraws
    assert report.largest(1) < 1e-6


def test_what_jumps_everywhere_has_no_smooth_point() -> None:
    class Jumpy(Answering):
        def perform(self, x):
            return x + np.sin(1e9 * x) * 1e-3

        def grad(self, inputs, output_grads):
            return [output_grads[0]]

    with pytest.raises(CheckError, match="not smooth"):
        check_op(Jumpy(None), np.linspace(0.1, 0.9, 4))


def test_the_mistake_shows_the_worst_element() -> None:
    class Wrong(Answering):
        def grad(self, inputs, output_grads):
            (g,) = output_grads
            return [pb.set_subtensor((2 * g)[1], 0)]

    mistake = examine(Entry("wrong", Wrong(None), (real("3"),))).mistakes[0]
    assert mistake.element == (1,) and mistake.found == 0 and mistake.order == 1 and mistake.input == 0
    assert mistake.error > 1e-6 and abs(mistake.expected) > 0.5


def test_a_point_with_the_wrong_answer_fails() -> None:
    entry = Entry("abs", pb.abs, (real("n"),), points=(Point((0.0,), (1.0,), why="the kink"),))
    with pytest.raises(CheckError, match="the kink"):
        check_op(entry)
    value = Entry("abs", pb.abs, (real("n"),), points=(Point((-2.0,), (-1.0,), value=-2.0, why="the value"),))
    with pytest.raises(CheckError, match="the value"):
        check_op(value)


def test_the_complex_step_can_fail() -> None:
    class Almost(Answering):
        def grad(self, inputs, output_grads):
            return [output_grads[0] * (2 + 1e-8)]

    entry = Entry("almost", Almost(None), (real("n"),), analytic=True)
    with pytest.raises(CheckError, match="complex step"):
        check_op(entry)


def test_a_float32_gradient_that_loses_digits_fails() -> None:
    def cancelling(x):
        return pb.sum((x + 1e6) - 1e6)

    with pytest.raises(CheckError, match="float32"):
        check_op(Entry("cancelling", lambda x: pb.square((x + 1e4) - 1e4), (real("n"),)))
    assert check_op(Entry("linear", cancelling, (real("n"),), limits=(1e-4, 1e-4))).right


def test_outputs_that_share_memory_are_caught() -> None:
    class Twins(Answering):
        def make_node(self, x):
            x = as_variable(x)
            return Apply(self, [x], [x.type, x.type])

        def perform(self, x):
            y = np.exp(x)
            return y, y

        def L_op(self, inputs, outputs, output_grads):
            return [(output_grads[0] + output_grads[1]) * outputs[0]]

    with pytest.raises(CheckError, match="outputs 0 and 1 of Twins"):
        check_op(Twins(None), np.ones(3))


def test_an_exception_in_a_rule_is_reported_with_its_check() -> None:
    class Broken(Answering):
        def grad(self, inputs, output_grads):
            raise ZeroDivisionError("oops")

    with pytest.raises(CheckError, match="ZeroDivisionError: oops"):
        check_op(Broken(None), np.ones(3))


def test_static_shapes_that_change_the_result_are_caught() -> None:
    def by_luck(x):
        return x * 2 if None in x.type.shape else x * 3

    with pytest.raises(CheckError, match="known statically"):
        check_op(Entry("by luck", by_luck, (real("n"),)))


def test_a_deliberate_gradient_is_compared_with_what_the_entry_says() -> None:
    right = Entry("scaled", lambda x: pb.grad_scale(x, 3.0), (real("n"),), pullback=lambda arrays, g: [3 * g[0]])
    wrong = Entry("scaled", lambda x: pb.grad_scale(x, 3.0), (real("n"),), pullback=lambda arrays, g: [2 * g[0]])
    assert check_op(right).right and not examine(wrong).right


def test_drawn_inputs_fit_their_descriptions(rng: np.random.Generator) -> None:
    inputs = (positive("n 2*m"), mask("n"), index("k", "m"), integer("", 3, 5), real("n+1", dtype="float32"))
    entry = Entry("drawn", lambda *x: x[0], inputs, sizes={"n": (5, 5)})
    sizes = entry.draw_sizes(rng)
    x, m, i, k, f = entry.draw(rng, sizes)
    assert x.shape == (5, 2 * sizes["m"]) and x.min() > 0 and x.dtype == np.float64
    assert m.dtype == bool and i.shape == (sizes["k"],) and -sizes["m"] <= i.min() and i.max() < sizes["m"]
    assert k.shape == () and 3 <= k <= 5 and f.dtype == np.float32 and f.shape == (6,)
    assert entry.axis_names == ["k", "m", "n"]


def test_variants_are_named_after_their_options() -> None:
    entries = variants("sum", pb.sum, [real("a b")], [dict(), dict(axis=1, keepdims=True)])
    assert [e.name for e in entries] == ["sum", "sum[axis=1, keepdims=True]"]


def test_poisoned_buffers_are_full_of_what_would_show() -> None:
    with poisoned_buffers(0):
        assert np.isnan(np.empty((2, 2))).all() and np.isnan(np.empty_like(np.ones(3, np.float32))).all()
    with poisoned_buffers(1):
        assert not np.empty(3).any()


@pytest.mark.parametrize("layout", ["transposed", "strided", "reversed"])
def test_relaid_arrays_hold_the_same_values(layout: str, rng: np.random.Generator) -> None:
    a = rng.normal(size=(3, 4))
    b = relaid(a, layout)
    assert np.array_equal(a, b) and not b.flags.c_contiguous


def test_the_difference_of_arrays() -> None:
    a = np.array([1.0, np.nan, np.inf])
    assert difference(a, a.copy()) == 0.0
    assert difference(a, np.array([1.0, np.nan, -np.inf])) == np.inf
    assert difference(a, np.array([1.0, 0.0, np.inf])) == np.inf
    assert difference(np.array([1.0, 2.0]), np.array([1.0, 4.0])) == pytest.approx(0.5)
    assert difference(np.float32([1]), np.float64([1])) == np.inf
    assert difference(np.array([1, 2]), np.array([1, 3])) == np.inf


def test_a_leaf_among_the_outputs_does_no_harm() -> None:
    assert check_op(Entry("identity", lambda x: pb.cast(x, x.dtype), (real("n"),), empty=(), single=())).right


def test_outputs_that_feed_each_other_are_pulled_back_together() -> None:
    def chain(x):
        y = pb.exp(x)
        return y, pb.sin(y), y * SCALE

    assert check_op(Entry("chain", chain, (real("n"),))).right


SCALE = 1.5


# --- the backends' check can fail -------------------------------------------------------------------------------------
def tampered(monkeypatch: pytest.MonkeyPatch, change) -> None:
    """Native functions whose results are changed: `change(call number, results)`."""
    genuine = backends.function

    def function(*args, **options):
        f = genuine(*args, **options)
        if options["backend"] == "reference":
            return f
        count = 0

        def call(*arrays):
            nonlocal count
            count += 1
            return change(count, f(*arrays))

        return call

    monkeypatch.setattr(backends, "function", function)


KEPT = np.zeros((3, 4), "float32")


def reused(count: int, results: list[np.ndarray]) -> list[np.ndarray]:
    """One buffer for the first output of all calls."""
    KEPT[...] = results[0]
    return [KEPT, *results[1:]]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda count, results: [results[0] * np.float32(1.001), *results[1:]], "native"),
        (lambda count, results: [results[0].astype("float64"), *results[1:]], "native"),
        (lambda count, results: [np.full_like(results[0], np.nan), *results[1:]], "native"),
        (lambda count, results: [results[0] * np.float32(1 + 1e-6 * (count > 2)), *results[1:]], "stale buffer"),
        (reused, "stale buffer"),
    ],
)
def test_a_backend_that_computes_something_else_is_caught(monkeypatch: pytest.MonkeyPatch, change, kind: str) -> None:
    tampered(monkeypatch, change)
    mistake = examine(Entry("exp", pb.exp, (real("3 4"),), strong_zero=True)).mistakes[0]
    assert mistake.kind == kind


def test_a_backend_that_treats_nan_its_own_way_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    tampered(monkeypatch, lambda count, results: [np.nan_to_num(results[0]), *results[1:]])
    report = examine(Entry("exp", pb.exp, (real("3 4"),), strong_zero=True))
    assert "at NaN" in report.mistakes[0].message


def test_an_elementwise_op_that_never_sums_is_caught_when_shapes_broadcast() -> None:
    class Plus(Op):
        def make_node(self, x, y):
            x, y = as_variable(x), as_variable(y)
            return Apply(self, [x, y], [pb.add(x, y).type])

        def perform(self, x, y):
            return x + y

        def grad(self, inputs, output_grads):
            return [output_grads[0], output_grads[0]]

    inputs = real("a b"), real("a b")
    assert check_op(Entry("plus", Plus(), inputs)).right
    with pytest.raises(CheckError, match="broadcast|1-d|shape"):
        check_op(Entry("plus", Plus(), inputs, broadcast=True))


def test_a_rule_that_needs_all_cotangents_is_caught() -> None:
    class Pair(Op):
        def make_node(self, x):
            x = as_variable(x)
            return Apply(self, [x], [x.type, x.type])

        def perform(self, x):
            return np.sin(x), np.cos(x)

        def L_op(self, inputs, outputs, output_grads):
            (s, c), (g, h) = outputs, output_grads
            both = pb.where(pb.equal(h, 0), 0.0, g * c - h * s)
            return [both]

    with pytest.raises(CheckError, match="input 0, first order"):
        check_op(Pair(), np.linspace(0.1, 0.9, 4))


def test_a_refusal_must_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pullback.testing.check_op"], "grad", lambda cost, x: x)
    with pytest.raises(CheckError, match="yet grad gives something"):
        check_op(Answering(grad_undefined), np.ones(3))
