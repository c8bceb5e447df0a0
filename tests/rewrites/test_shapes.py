"""Shape facts: what is proved is true for every shape that runs, and the useful things are proved."""

import numpy as np
import pytest

import pullback as pb
from pullback.graph import evaluate
from pullback.rewrites.shapes import ShapeFacts, Symbol


@pytest.fixture
def facts():
    return ShapeFacts()


def test_unknown_lengths_are_symbols_and_known_ones_integers(facts):
    x = pb.tensor("float32", (None, 3))
    n, m = facts.dims(x)
    assert isinstance(n, Symbol) and m == 3
    assert facts.dims(pb.constant(np.ones((2, 5)))) == (2, 5)
    assert facts.dims(pb.exp(x)) == (n, 3) and facts.same(x, pb.exp(x), pb.tanh(x) * 2)


def test_broadcasting_keeps_a_symbol_only_where_it_is_certain(facts):
    x, y = pb.dmatrix("x"), pb.dmatrix("y")
    assert not facts.same(x, x + y)  # x may have one row
    assert facts.same(x + y, y * x) and facts.same(x + y, (x + y) * 2, pb.where(x > y, x, y))
    assert not facts.same(x + y, x) and not facts.same(x, y)
    known = pb.tensor("float64", (4, 1))
    assert facts.dims(x + known)[0] == 4 and facts.dims(x + known)[1] is facts.dims(x)[1]


def test_a_matrix_product_tells_that_inner_lengths_are_equal(facts):
    x, w, v = pb.dmatrix("x"), pb.dmatrix("w"), pb.dmatrix("v")
    h = x @ w
    assert facts.dims(h) == (facts.dims(x)[0], facts.dims(w)[1])
    gradient = x.T @ pb.tanh(h)
    assert facts.same(gradient, w)  # because x @ w runs
    assert facts.dims(h @ v)[1] == facts.dims(v)[1]


OPS = {
    "transpose": (lambda x: x.T, lambda a: (a[1], a[0])),
    "sum": (lambda x: x.sum(1), lambda a: (a[0],)),
    "keepdims": (lambda x: x.max(0, keepdims=True), lambda a: (1, a[1])),
    "expand": (lambda x: pb.expand_dims(x, 1), lambda a: (a[0], 1, a[1])),
    "squeeze": (lambda x: pb.squeeze(pb.expand_dims(x, 1), 1), lambda a: a),
    "softmax": (lambda x: pb.softmax(x), lambda a: a),
    "reshape to a shape": (lambda x: pb.reshape(pb.exp(x), x.shape), lambda a: a),
    "reshape with a rest": (lambda x: pb.reshape(x, (x.shape[0], -1)), lambda a: a),
    "reshape with ones": (lambda x: pb.reshape(x, (x.shape[0], 1, -1)), lambda a: (a[0], 1, a[1])),
    "broadcast_to": (lambda x: pb.broadcast_to(1.0, x.shape), lambda a: a),
    "a column": (lambda x: x[:, 0], lambda a: a[:1]),
    "slices of known lengths": (lambda x: pb.broadcast_to(x.sum(), (7, 2))[2:-1, ::-1], lambda a: (4, 2)),
    "new axes": (lambda x: x[:, None], lambda a: (a[0], 1, a[1])),
    "rows by index": (lambda x: x[pb.argmax(x, axis=1)], lambda a: a),
    "joined": (lambda x: pb.concatenate([x, x], axis=1)[:, :1], lambda a: (a[0], None)),
    "zeros": (lambda x: pb.zeros(x.shape), lambda a: a),
    "rows and back": (lambda x: pb.reshape(pb.reshape(x, [x.shape[0] * x.shape[1]]), x.shape), lambda a: a),
}


@pytest.mark.parametrize("name", OPS)
def test_ops_pass_symbols_on(name, facts):
    build, expected = OPS[name]
    x = pb.dmatrix("x")
    found = facts.dims(build(x))
    assert len(found) == len(expected(facts.dims(x)))
    assert all(m in (None, n) for n, m in zip(found, expected(facts.dims(x))))


def test_equal_slices_of_equal_lengths_are_equal(facts):
    x = pb.dmatrix("x")
    assert facts.same(x[1:], pb.exp(x)[1:], pb.sin(x[1:])) and not facts.same(x[1:], x[:-1])


def test_what_is_proved_holds_for_every_shape_that_runs(rng):
    """Random graphs: equal symbols are equal lengths, integers are right, whatever the inputs' lengths are."""
    makers = [
        lambda a, b: a + b, lambda a, b: a @ b, lambda a, b: a.T, lambda a, b: pb.sum(a, 0, keepdims=True),
        lambda a, b: pb.concatenate([a, b], 0), lambda a, b: a[1:], lambda a, b: pb.zeros_like(a) + b.sum(),
        lambda a, b: pb.reshape(a, (1, -1)), lambda a, b: pb.broadcast_like(b.sum(), a), lambda a, b: pb.softmax(a),
        lambda a, b: pb.reshape(a, (a.shape[1], -1)), lambda a, b: a[:2], lambda a, b: pb.where(a > 0, a, b),
        lambda a, b: a[:, None][:, 0], lambda a, b: pb.concatenate([a, b], 1), lambda a, b: a[np.array([0, 0])],
        lambda a, b: a[:, np.array([0])], lambda a, b: a[None][0, :, np.array([0, 0, 0])], lambda a, b: a[::-1],
        lambda a, b: a[None, :, None, 0], lambda a, b: a[pb.cast(b[:, 0], "int64") * 0],
    ]  # fmt: skip
    proved = 0
    for _ in range(150):
        x, y = pb.dmatrix("x"), pb.tensor("float64", (None, 2), "y")
        pool = [x, y]
        facts = ShapeFacts()
        for _ in range(7):
            a, b = (pool[k] for k in rng.integers(0, len(pool), 2))
            try:
                pool.append(makers[rng.integers(len(makers))](a, b))
            except pb.ShapeError:
                continue
        dims = [facts.dims(v) for v in pool]
        for n, m, k in ((1, 1, 1), (2, 2, 2), (1, 2, 1), (3, 2, 3), (2, 2, 1)):
            try:
                values = evaluate(pool, {x: np.ones((n, m)), y: np.ones((k, 2))})
            except (ValueError, IndexError):
                continue
            dims = [facts.dims(v) for v in pool]
            lengths = {}
            for v, shape in zip(values, dims):
                assert v.ndim == len(shape)
                for length, d in zip(v.shape, shape):
                    assert lengths.setdefault(d, length) == length and (not isinstance(d, int) or d == length)
                    proved += isinstance(d, Symbol)
    assert proved > 500


def test_a_representative_is_a_leaf_or_an_ancestor(facts):
    x, w = pb.dmatrix("x"), pb.dmatrix("w")
    facts.note_leaves([x, w])
    h = x @ w
    assert facts.representative(pb.tanh(pb.exp(x))) is x
    assert facts.representative(pb.tanh(h) + 1) is h
    assert facts.representative(x > 0).dtype == "bool"
    assert facts.leaf_of_length(facts.dims(h)[1]) == (w, 1)


def test_long_chains_are_no_recursion(facts):
    x = pb.dvector("x")
    y = x
    for _ in range(5000):
        y = pb.sin(y)
    facts.note_leaves([x])
    assert facts.same(x, y) and facts.representative(y) is x


def test_assumed_shapes(facts):
    s = pb.shared(np.ones((2, 3)))
    facts.assume(s, (2, 3))
    assert facts.dims(pb.exp(s).T) == (3, 2)
