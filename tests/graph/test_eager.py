"""Eager evaluation: values while the graph is built, errors at the user's own line."""

import traceback

import numpy as np
import pytest

import pullback as pb


def test_values_are_there_at_once_and_printed():
    x = pb.vector("x")
    with pb.eager({x: [1.0, 2.0]}) as values:
        y = x * 2
        assert values[y].tolist() == [2, 4]
        assert "[2. 4.]" in str(y) and "[1. 2.]" in str(x)
        g = pb.grad((y * y).sum(), x)
        assert values[g].tolist() == [8, 16]
    assert "[2. 4.]" not in str(y)


def test_an_error_points_at_the_users_line():
    x = pb.matrix("x")
    with pb.eager({x: np.ones((2, 3), "float32")}), pytest.raises(pb.ShapeError) as caught:
        x @ x  # the line
    assert any("# the line" in (frame.line or "") for frame in traceback.extract_tb(caught.tb))


def test_what_has_no_value_is_built_all_the_same():
    x, y = pb.vector("x"), pb.vector("y")
    with pb.eager({x: [1.0]}) as values:
        z = x + y
        with pytest.raises(KeyError, match="no value"):
            values[z]
    assert z.eval({x: [1.0], y: [2.0]}).tolist() == [3]


def test_shared_variables_and_nesting():
    w = pb.shared(np.float32([3.0]))
    with pb.eager() as outer:
        a = w + 1
        with pb.eager() as inner:
            b = w * 2
        assert outer[a] == 4 and inner[b] == 6 and outer.get(b) is None
