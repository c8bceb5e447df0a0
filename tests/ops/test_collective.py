"""all_reduce: the identity for one process, and the right rules for several (threads here), to second order."""

import threading

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError
from pullback.ops.collective import ThreadGroup

HOWS = ("sum", "mean", "max", "min", "prod")
COMBINE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}


@pytest.mark.parametrize("how", HOWS)
def test_alone_it_is_the_identity_with_gradient_one(how, rng):
    x = pb.dvector("x")
    y = pb.all_reduce(x, how)
    g = pb.grad((y * y * y).sum(), x)
    data = rng.standard_normal(4)
    value, first, second = pb.function([x], [y, g, pb.grad(g.sum(), x)])(data)
    np.testing.assert_allclose(value, data)
    np.testing.assert_allclose(first, 3 * data**2)
    np.testing.assert_allclose(second, 6 * data)


def run_members(size, build, arrays):
    """What each member's function returns, with one thread a member."""
    group, results = ThreadGroup(size), [None] * size

    def work(member):
        group.join(member)
        results[member] = functions[member](arrays[member])

    functions = [build(group) for _ in range(size)]
    threads = [threading.Thread(target=work, args=(m,)) for m in range(size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    return results


@pytest.mark.parametrize("how", HOWS)
def test_gradients_over_three_members_against_differences(how, rng):
    arrays = rng.standard_normal((3, 4))
    arrays[1, 2] = 0.0
    upstream = rng.standard_normal((3, 4))
    x, u = pb.dvector("x"), pb.dvector("u")

    def build(group):
        y = pb.all_reduce(x, how, group)
        f = pb.function([x, u], [y, pb.grad((y * u).sum(), x)], backend="reference")
        return lambda pair: f(*pair)

    found = run_members(3, build, list(zip(arrays, upstream)))

    def cost(a):
        return (COMBINE[how](a, axis=0) * upstream).sum()

    expected = np.zeros_like(arrays)
    for i in np.ndindex(arrays.shape):
        step = np.zeros_like(arrays)
        step[i] = 1e-6
        expected[i] = (cost(arrays + step) - cost(arrays - step)) / 2e-6
    for member, (value, gradient) in enumerate(found):
        np.testing.assert_allclose(value, COMBINE[how](arrays, axis=0), rtol=1e-14)
        np.testing.assert_allclose(gradient, expected[member], atol=1e-8)


def test_tied_owners_share():
    x = pb.dvector("x")

    def build(group):
        f = pb.function([x], pb.grad(pb.all_reduce(x, "max", group).sum(), x), backend="reference")
        return f

    found = run_members(2, build, [np.array([1.0, 5.0]), np.array([1.0, 2.0])])
    assert found[0].tolist() == [1.0, 2.0] and found[1].tolist() == [1.0, 0.0]  # two members, each with upstream one


def test_two_reductions_of_one_value_stay_two():
    x = pb.dvector("x")
    calls = []

    class Counting:
        size, member = 1, 0

        def gather(self, array):
            calls.append(1)
            return [array]

    group = Counting()
    pb.function([x], pb.all_reduce(x, "sum", group) + pb.all_reduce(x, "sum", group))([1.0])
    assert len(calls) == 2


def test_an_unknown_reduction():
    with pytest.raises(ArgumentError, match="median"):
        pb.all_reduce(pb.vector(), "median")
