"""Graphs inside ops are rewritten like any other."""

import numpy as np
import pytest

import pullback as pb
from pullback.graph import toposort
from pullback.rewrites import optimize
from pullback.rewrites.inner import held_graphs

ROWS = np.array([[1000.0, 0, -1000], [0.1, 0.2, 0.3], [-800, -900, -1000]])


def inside(outputs):
    """The names of the ops inside the one node that holds a graph."""
    [held] = [g for n in toposort(outputs) for g in held_graphs(n.op).values()]
    return [str(n.op) for n in held.nodes]


def scanned(x):
    return pb.scan(lambda row: pb.log(pb.softmax(row)) * 1, sequences=[x])


@pytest.mark.parametrize("rewrites", ["all", "stabilising"])
@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_logarithm_of_a_softmax_inside_a_scan_is_stable(rewrites, backend):
    x = pb.dmatrix("x")
    y = scanned(x)
    weights = pb.constant(np.array([[1.0, -2, 0.5]]))
    direct = pb.log_softmax(x, axis=1)
    with pb.config.override(rewrites=rewrites):
        outputs = [y, pb.grad((y * weights).sum(), x), direct, pb.grad((direct * weights).sum(), x)]
        a, b, c, d = pb.function([x], outputs, backend=backend)(ROWS)
    np.testing.assert_allclose(a, c, rtol=1e-12)
    np.testing.assert_allclose(b, d, rtol=1e-12, atol=1e-15)


def test_ordinary_rewrites_reach_inside_but_fusion_waits_for_shapes():
    x = pb.dmatrix("x")
    assert inside(optimize([scanned(x)], [x])) == ["LogSoftmax{axis=0}"]
    y = pb.as_op(lambda v: pb.exp(v * 1 + 0) ** 2 + pb.sin(v - 0))(x)
    assert inside(optimize([y], [x])) == ["exp", "square", "sin", "add"]


def test_graphs_inside_graphs():
    x = pb.dmatrix("x")
    outer = pb.as_op(lambda v: pb.as_op(lambda u: u * 1 + pb.sin(u))(v) + 0)
    [held] = [g for n in toposort(optimize([outer(x)], [x])) for g in held_graphs(n.op).values()]
    assert inside(held.outputs) == ["sin", "add"] and len(held.nodes) == 1


def test_equal_graphs_are_merged():
    x = pb.dmatrix("x")
    assert len(toposort(optimize([scanned(x), scanned(x)], [x]))) == len(toposort(optimize([scanned(x)], [x])))
