"""Walks, clones, closed graphs and pictures."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import GraphError, MissingInputError
from pullback.graph import (
    ClosedGraph,
    aligned_empty,
    ancestors,
    evaluate,
    leaves,
    shared_variables,
    to_dot,
    to_svg,
    toposort,
)


def test_nodes_come_after_what_they_need():
    x = pb.dvector("x")
    a = pb.sin(x)
    outputs = [pb.exp(a) * a, pb.cos(a)]
    order = toposort(outputs)
    place = {n: k for k, n in enumerate(order)}
    assert len(order) == len(set(order)) == 4
    assert all(place[v.owner] < k for k, n in enumerate(order) for v in n.inputs if v.owner is not None)


def test_walks_stop_where_told():
    x = pb.dvector("x")
    a = pb.sin(x)
    y = pb.exp(a) + a
    assert [str(n.op) for n in toposort([y], stop=[a])] == ["exp", "add"]
    assert x not in set(ancestors([y], stop=[a])) and leaves([y], stop=[a]) == [a]
    assert toposort([a], stop=[a]) == []


def test_leaves_by_kind():
    x, s = pb.dvector("x"), pb.shared(np.ones(2), "s")
    y = x * s + pb.constant(1.0)
    assert pb.graph_inputs([y]) == [x] and shared_variables([y]) == [s] and len(leaves([y])) == 3


def test_clone_replace_shares_what_is_untouched():
    x, z = pb.dvector("x"), pb.dvector("z")
    a, b = pb.sin(x), pb.cos(z)
    [new] = pb.clone_replace([a + b], {x: pb.exp(z)})
    assert new.owner.inputs[1] is b and new.owner.inputs[0] is not a
    given = {z: np.array([0.3])}
    np.testing.assert_allclose(evaluate([new], given)[0], np.sin(np.exp(0.3)) + np.cos(0.3))
    with pytest.raises(GraphError, match="can't replace"):
        pb.clone_replace([a], {x: pb.fvector()})


def test_closed_graphs_are_equal_by_structure():
    def build(number=2.0, op=pb.exp):
        x, y = pb.dvector("anything"), pb.dvector()
        return ClosedGraph([x, y], [op(x * number) + y, y])

    assert build() == build() and hash(build()) == hash(build())
    assert build() != build(3.0) and build() != build(op=pb.sin)
    assert build(0.0) != build(-0.0) and build(np.nan) == build(np.nan)
    x, y = pb.dvector(), pb.dvector()
    assert ClosedGraph([x, y], [x + y]) != ClosedGraph([y, x], [x + y])
    assert build() != "graph"


def test_closed_graphs_have_no_free_leaf():
    x, s = pb.dvector("x"), pb.shared(np.ones(2), "s")
    with pytest.raises(GraphError, match="reads s"):
        ClosedGraph([x], [x + s])
    graph = ClosedGraph([x, s], [pb.exp(x) + s])
    a, b = pb.dvector("a"), pb.dvector("b")
    np.testing.assert_allclose(evaluate(graph(a * 2, b), {a: np.zeros(2), b: np.ones(2)})[0], [2, 2])


def test_evaluate_takes_inner_values_and_misses_inputs():
    x = pb.dvector("x")
    a = pb.sin(x)
    assert evaluate([a + 1], {a: np.array([4.0])})[0] == 5
    with pytest.raises(MissingInputError, match="x"):
        evaluate([a])


def test_pictures_show_every_node_once():
    x = pb.dvector("x")
    a = pb.sin(x)
    y = pb.exp(a) * a
    text = pb.debugprint(y)
    assert text.count("sin [id") == 2 and "(above)" in text and "<float64[?]>" in text
    dot = to_dot(y)
    assert dot.startswith("digraph") and dot.count("->") == 5
    svg = to_svg([y, a])
    assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>") and ">sin<" in svg


def test_truth_and_identity():
    x, y = pb.dvector("x"), pb.dvector("y")
    assert x == x and not x == y and x in [y, x] and {x: 1}[x] == 1
    with pytest.raises(TypeError, match="pb.equal"):
        bool(x > y)


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 5), (2, 0), (4, 3, 2), ()])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "int8"])
def test_memory_begins_on_a_cache_line(shape, dtype):
    made = aligned_empty(shape, dtype)
    assert made.__array_interface__["data"][0] % 64 == 0  # `ctypes` invents an address where there is no element
    assert made.shape == shape and made.dtype == dtype
    assert made.flags.c_contiguous and made.flags.writeable
    made[...] = 1
    assert (made == 1).all()
