"""The driver: fixed points, merging, origins, and work that grows with the graph and no faster."""

import logging

import numpy as np

import pullback as pb
from pullback.graph import evaluate, toposort
from pullback.graph.function_graph import FunctionGraph
from pullback.ops.arithmetic import negative
from pullback.rewrites import optimize
from pullback.rewrites.driver import RuleSet, Sweep, rewrite


def test_rules_run_to_a_fixed_point_and_see_each_others_results():
    halve = RuleSet("halve")
    seen = []

    @halve.on("sin")
    def two_sines_are_a_cosine(node, facts):
        seen.append(node)
        below = node.inputs[0].owner
        return pb.cos(below.inputs[0]) if below is not None and str(below.op) == "sin" else None

    @halve.on("cos")
    def cosine_of_cosine(node, facts):
        below = node.inputs[0].owner
        return pb.sin(below.inputs[0]) if below is not None and str(below.op) == "cos" else None

    x = pb.dvector("x")
    y = x
    for _ in range(16):
        y = pb.sin(y)
    graph = FunctionGraph([x], [y])
    rewrite(graph, [halve])
    graph.validate()
    assert len(graph.nodes) <= 2 and len(seen) < 200


def test_rules_that_undo_each_other_stop_with_a_warning(caplog):
    circle = RuleSet("circle")

    @circle.on("sin")
    def to_cosine(node, facts):
        return pb.cos(node.inputs[0])

    @circle.on("cos")
    def to_sine(node, facts):
        return pb.sin(node.inputs[0])

    x = pb.dvector("x")
    graph = FunctionGraph([x], [pb.exp(pb.sin(x))])
    with caplog.at_level(logging.WARNING, "pullback"):
        rewrite(graph, [circle])
    graph.validate()
    assert "two rules undo each other" in caplog.text


def test_no_ordinary_graph_reaches_the_limit_of_sweeps(caplog, rng):
    x, w = pb.dmatrix("x"), pb.dmatrix("w")
    y = x
    for _ in range(12):
        y = pb.log(pb.softmax(pb.relu(y @ w) ** 2 + 0 * y, axis=1)) * 1
    with caplog.at_level(logging.WARNING, "pullback"):
        optimize([y.mean(), *pb.grad(y.mean(), [x, w])], [x, w])
    assert not caplog.text


def test_new_nodes_carry_the_line_of_what_they_replace():
    x = pb.dvector("x")
    y = x**3
    line = y.owner.origin.line
    nodes = toposort(optimize([pb.sum(y)], [x]))
    assert {str(n.op)[:5]: n.origin.line for n in nodes}["fused"] == line
    assert all(n.origin.file == __file__ for n in nodes)


def test_names_of_outputs_survive():
    x = pb.dvector("x")
    y = pb.exp(x) * 1
    y.name = "y"
    assert optimize([y], [x])[0].name in ("y", None)


def test_merging_needs_equal_ops_on_equal_inputs():
    x = pb.dmatrix("x")
    graph = FunctionGraph([x], [x.sum(0), x.sum(0), x.sum(1), pb.sum(x, 0, keepdims=True)])
    rewrite(graph, [])
    assert len(graph.nodes) == 3 and graph.outputs[0] is graph.outputs[1]


def test_merging_cascades():
    x = pb.dvector("x")

    def tower():
        y = x
        for k in range(40):
            y = pb.sin(y) + float(k)
        return y

    graph = FunctionGraph([x], [tower(), tower(), tower()])
    rewrite(graph, [])
    assert len(graph.nodes) == 80 and graph.outputs[0] is graph.outputs[2]


def test_unhashable_ops_are_left_apart():
    from dataclasses import dataclass

    from pullback.graph import Apply, Op

    @dataclass
    class Loose(Op):
        k: int = 0

        def make_node(self, x):
            return Apply(self, [x], [x.type])

        def perform(self, x):
            return x + self.k

    x = pb.dvector("x")
    found = optimize([Loose(1)(x), Loose(1)(x)], [x])
    assert found[0] is not found[1] and evaluate(found, {x: np.ones(1)})[0] == 2


def test_work_is_linear_in_the_graph(monkeypatch):
    """The number of visits per node does not grow with the graph (a graph of 10^4 nodes is ordinary)."""
    visits = [0]
    visit = Sweep.visit

    def counted(self, node):
        visits[0] += 1
        return visit(self, node)

    monkeypatch.setattr(Sweep, "visit", counted)
    per_node = []
    for n in (50, 200, 800):
        x = pb.dmatrix("x")
        y = x
        for k in range(n):
            y = pb.tanh(y @ y) * 0.5 + x if k % 5 == 0 else pb.where(y > 0, y * 1.0, 0.5 * y) + pb.sin(x) * 0
        outputs = [y.sum(), pb.grad(y.sum(), x)]
        size = len(toposort(outputs))
        visits[0] = 0
        optimize(outputs, [x])
        per_node.append(visits[0] / size)
    assert per_node[2] < 1.2 * per_node[0] < 12


def test_rules_never_see_replaced_nodes():
    spy = RuleSet("spy")
    x = pb.dvector("x")
    graph = FunctionGraph([x], [negative(negative(pb.exp(x) + 0)) * 1])

    @spy.on("any")
    def watch(node, facts):
        assert node in graph.nodes
        if str(node.op) == "negative" and str(node.inputs[0].owner.op) == "negative":
            return node.inputs[0].owner.inputs[0]
        return None

    rewrite(graph, [spy])
    graph.validate()
