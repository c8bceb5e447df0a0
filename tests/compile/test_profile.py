"""Profiles: every step of a call is there with its time, and the calls are real ones."""

import numpy as np
import pytest

import pullback as pb


def test_a_profile_lists_kernels_and_host_steps():
    x = pb.matrix("x")
    w = pb.shared(np.ones((4, 4), "float32"))
    calls = pb.shared(np.int64(0))
    f = pb.function([x], pb.linalg.det(pb.tanh(x @ w)) + pb.exp(w).sum(), updates={calls: calls + 1})
    profile = f.profile(np.eye(4, dtype="float32"), repeats=3)
    kernels = {step.kernel.partition("[")[0] for step in profile.steps}
    assert {"gemm", "elementwise", "perform"} <= kernels
    assert all(step.microseconds > 0 for step in profile.steps)
    assert calls.get_value() == 4
    assert "in all" in str(profile) and "MatMul" in str(profile)


def test_indices_stay_what_they_are_while_a_profile_is_taken(rng):
    table = pb.shared(rng.standard_normal((50, 8)).astype("float32"))
    i = pb.lvector("i")
    rows = pb.embedding(table, i * 2)
    cost = (rows * rows).sum()
    f = pb.function([i], cost, updates={table: table - 0.1 * pb.grad(cost, table)})
    before = f(np.arange(20))
    f.profile(np.arange(20), repeats=5)
    assert f(np.arange(20)) < before


def test_plans_in_parts_have_no_profile():
    x = pb.vector("x")
    f = pb.function([x], x[x > 0].sum())
    with pytest.raises(pb.GraphError, match="in parts"):
        f.profile(np.float32([1, -1]))
