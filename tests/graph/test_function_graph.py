"""The editable graph: replacing, pruning, and an index of clients that always agrees."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import GraphError
from pullback.graph import evaluate, toposort
from pullback.graph.function_graph import FunctionGraph


def ops_in(graph):
    return [str(node.op) for node in graph.toposort()]


def test_nodes_are_copied_and_leaves_shared():
    x, s, c = pb.dvector("x"), pb.shared(np.ones(2)), pb.constant(2.0)
    y = pb.exp(x * s + c)
    y.name = "y"
    graph = FunctionGraph([x], [y])
    graph.validate()
    assert not {id(n) for n in graph.nodes} & {id(n) for n in toposort([y])}
    assert graph.outputs[0].name == "y" and {v for v in graph.clients if v.owner is None} == {x, s, c}
    assert [n.origin for n in graph.toposort()] == [n.origin for n in toposort([y])]


def test_replace_redirects_clients_and_prunes():
    x = pb.dvector("x")
    a = pb.exp(pb.sin(x))
    graph = FunctionGraph([x], [a + 1, a * 2])
    old = next(n for n in graph.nodes if str(n.op) == "exp").outputs[0]
    edit = graph.replace({old: pb.cos(x)})
    graph.validate()
    assert sorted(ops_in(graph)) == ["add", "cos", "multiply"]
    assert [str(n.op) for n in edit.new] == ["cos"] and sorted(str(n.op) for n in edit.changed) == ["add", "multiply"]
    np.testing.assert_allclose(evaluate(graph.extract(), {x: np.array([0.5])})[0], np.cos(0.5) + 1)


def test_what_wraps_the_replaced_variable_still_reads_it():
    x = pb.dvector("x")
    graph = FunctionGraph([x], [pb.exp(x) + pb.exp(x) * 2])
    for node in [n for n in graph.toposort() if str(n.op) == "exp"]:
        graph.replace({node.outputs[0]: pb.negative(pb.negative(node.outputs[0]))})
        graph.validate()
    assert ops_in(graph).count("negative") == 4
    np.testing.assert_allclose(evaluate(graph.extract(), {x: np.array([0.5])})[0], 3 * np.exp(0.5))


def test_outputs_are_clients_too():
    x = pb.dvector("x")
    y = pb.exp(x)
    graph = FunctionGraph([x], [y, y, x])
    assert graph.is_output(graph.outputs[0]) and graph.is_output(x) and list(graph.client_nodes(x)) != []
    graph.replace({graph.outputs[0]: x})
    graph.validate()
    assert graph.outputs == [x, x, x] and not graph.nodes
    assert graph.extract() == [x, x, x]


def test_an_inner_input_is_a_leaf_until_extracted():
    x = pb.dvector("x")
    inner = pb.sin(x)
    graph = FunctionGraph([inner], [pb.exp(inner), inner])
    graph.validate()
    assert graph.inputs[0] is not inner and graph.inputs[0].owner is None
    found = graph.extract()
    assert found[1] is inner and found[0].owner.inputs[0] is inner


def test_inputs_stay_known_even_if_nothing_reads_them():
    x, y = pb.dvector("x"), pb.dvector("y")
    graph = FunctionGraph([x, y], [x + y])
    graph.replace({graph.outputs[0]: x})
    graph.validate()
    assert y in graph.clients and not graph.clients[y]


def test_one_of_several_results_can_be_replaced():
    x = pb.dvector("x")
    left, right = pb.split(x, 2)
    graph = FunctionGraph([x], [pb.exp(left), pb.exp(right)])
    graph.replace({graph.toposort()[-1].inputs[0]: pb.sin(x[:2])})
    graph.validate()
    assert "sin" in ops_in(graph)


@pytest.mark.parametrize("new", [pb.fvector(), pb.dmatrix(), pb.tensor("float64", (3,))], ids=str)
def test_what_does_not_fit_is_refused(new):
    x = pb.tensor("float64", (2,))
    graph = FunctionGraph([x], [pb.exp(x)])
    with pytest.raises(GraphError, match="can't replace"):
        graph.replace({graph.outputs[0]: new})


def test_validate_notices_a_wrong_index_and_a_cycle():
    x = pb.dvector("x")
    graph = FunctionGraph([x], [pb.exp(pb.sin(x))])
    node = graph.toposort()[-1]
    graph.clients[x][node, 0] = None
    with pytest.raises(GraphError, match="clients"):
        graph.validate()
    del graph.clients[x][node, 0]
    graph.validate()
    sine = graph.toposort()[0]
    sine.inputs = (node.outputs[0],)
    with pytest.raises(GraphError, match="cycle"):
        graph.validate()


def test_a_long_chain_is_edited_without_recursion():
    x = pb.dvector("x")
    y = x
    for _ in range(10_000):
        y = pb.sin(y)
    graph = FunctionGraph([x], [y + x])
    assert len(graph.nodes) == 10_001
    graph.replace({graph.outputs[0].owner.inputs[0]: pb.cos(x)})
    graph.validate()
    assert sorted(ops_in(graph)) == ["add", "cos"]


def test_random_edits_keep_the_index_right(rng):
    for _ in range(30):
        x = pb.dvector("x")
        pool = [x]
        for _ in range(15):
            a, b = (pool[k] for k in rng.integers(0, len(pool), 2))
            pool.append(a + b if rng.random() < 0.5 else pb.sin(a))
        graph = FunctionGraph([x], pool[-3:])
        for _ in range(6):
            order = graph.toposort()
            if not order:
                break
            k = int(rng.integers(len(order)))
            earlier = [v for n in order[:k] for v in n.outputs] + [x]
            new = earlier[rng.integers(len(earlier))]
            graph.replace({order[k].outputs[0]: pb.cos(new) if rng.random() < 0.5 else new})
            graph.validate()
