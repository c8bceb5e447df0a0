"""Gradients of slices: joined instead of added up; and what only looks like it stays right."""

import numpy as np
import pytest

import pullback as pb
from tests.rewrites.compare import assert_kept, names


@pytest.mark.parametrize("axis", [0, 1])
def test_slices_that_make_up_an_axis_are_joined(axis, rng):
    x = pb.dmatrix("x")
    shape = (8, 3) if axis == 0 else (3, 8)

    def part(a, b):
        return x[a:b] if axis == 0 else x[:, a:b]

    gates = pb.sin(part(None, 2)), pb.exp(part(4, 6)), pb.cos(part(2, 4)), pb.tanh(part(-2, None))
    cost = (gates[0] * gates[1] + gates[2] * gates[3]).sum()
    simpler = assert_kept([pb.grad(cost, x)], {x: rng.normal(size=shape)})
    left = names(simpler)
    assert left.count("Concatenate") == 1 and "IncSubtensor" not in left


OTHERS = {
    "a gap": lambda x: pb.sin(x[:2]).sum() + pb.cos(x[3:]).sum(),
    "an overlap": lambda x: pb.sin(x[:3]).sum() + pb.cos(x[2:]).sum(),
    "one slice twice": lambda x: pb.sin(x[:3]).sum() + pb.exp(x[:3]).sum() + pb.cos(x[3:]).sum(),
    "steps": lambda x: pb.sin(x[::2]).sum() + pb.cos(x[1::2]).sum(),
    "backwards": lambda x: pb.sin(x[:3]).sum() + pb.cos(x[:2:-1]).sum(),
    "single entries": lambda x: pb.sin(x[0]).sum() + pb.cos(x[1:]).sum(),
    "two axes": lambda x: pb.sin(x[:3]).sum() + pb.cos(x[:, 1:]).sum(),
    "an index array": lambda x: pb.sin(x[:3]).sum() + pb.cos(x[np.array([3, 4, 4])]).sum(),
    "beside the whole": lambda x: pb.sin(x[:3]).sum() + pb.cos(x[3:]).sum() + pb.exp(x).sum(),
    "a symbolic end": lambda x: pb.sin(x[: x.shape[0] - 2]).sum() + pb.cos(x[3:]).sum(),
    "repeated values": lambda x: (x[:3] * 1).sum() + (x[3:] * 2).sum(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_law_11_sums_of_parts_keep_their_value(name, rng):
    x = pb.dmatrix("x")
    given = {x: rng.normal(size=(5, 2))}
    for shapes in (True, False):
        assert_kept([pb.grad(OTHERS[name](x), x)], given, shapes=shapes)


def test_a_sum_with_a_part_adds_no_zeros(rng):
    x = pb.dmatrix("x")
    left = names(assert_kept([pb.grad(pb.exp(x).sum() + pb.sin(x[:2]).sum(), x)], {x: rng.normal(size=(5, 2))}))
    assert left.count("IncSubtensor") == 1 and "add" not in left
