"""`function`: calling, updates, givens, defaults, errors; on both backends."""

import copy
import pickle
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.compile import In, function
from pullback.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GraphError,
    MissingInputError,
    NonFiniteError,
    ShapeError,
    UnknownNameError,
    UnusedInputError,
)

BACKENDS = ("native", "reference")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def test_outputs_mirror_what_was_asked_for(backend):
    x = pb.vector("x")
    data = np.array([1.0, -2.0, 3.0], "float32")
    single = function([x], x * 2, backend=backend)(data)
    assert isinstance(single, np.ndarray) and single.tolist() == [2.0, -4.0, 6.0]
    assert [a.tolist() for a in function([x], [x + 1, x], backend=backend)(data)] == [[2, -1, 4], [1, -2, 3]]
    assert function([x], {"a": x + 1}, backend=backend)(data)["a"].tolist() == [2, -1, 4]
    assert function([x], None, backend=backend, on_unused_input="ignore")(data) is None


def test_results_belong_to_the_caller(backend):
    x = pb.vector("x")
    w = pb.shared(np.ones(3, "float32"))
    f = function([x], [x, x * 1.0, x[::2], w, w * x], backend=backend)
    data = np.arange(3, dtype="float32")
    first = f(data)
    kept = [a.copy() for a in first]
    for a in first:
        a[...] = -7
    assert data.tolist() == [0, 1, 2] and w.get_value().tolist() == [1, 1, 1]
    assert all(np.array_equal(a, b) for a, b in zip(f(data), kept))


def test_updates_are_computed_from_the_old_values_and_committed_together(backend):
    a, b = pb.shared(np.float32([1, 2])), pb.shared(np.float32([10, 20]))
    f = function([], a + b, updates={a: b, b: a}, backend=backend)
    assert f().tolist() == [11, 22]
    assert a.get_value().tolist() == [10, 20] and b.get_value().tolist() == [1, 2]
    g = function([], [a, b], updates=[(a, a + b), (b, a - b)], backend=backend)
    old = [v.tolist() for v in g()]
    assert old == [[10, 20], [1, 2]]
    assert a.get_value().tolist() == [11, 22] and b.get_value().tolist() == [9, 18]


def test_a_chain_of_updates_reads_old_values_where_a_later_kernel_could_see_new_ones(backend):
    w1, w2 = pb.shared(np.float32([[2.0, 1.0]])), pb.shared(np.float32([[3.0], [1.0]]))
    x = pb.matrix("x")
    loss = ((x @ w1) @ w2).sum()
    g1, g2 = pb.grad(loss, [w1, w2])
    f = function([x], loss, updates={w1: w1 - g1, w2: w2 - g2}, backend=backend)
    assert f(np.float32([[1.0], [2.0]])) == 21.0
    assert w1.get_value().tolist() == [[-7.0, -2.0]] and w2.get_value().tolist() == [[-3.0], [-2.0]]


def test_a_failure_commits_no_update(backend):
    w, v = pb.shared(np.ones(2, "float32")), pb.shared(np.ones(2, "float32"))
    i = pb.lvector("i")
    f = function([i], None, updates={w: w * 2, v: v[i] + 1}, backend=backend)
    with pytest.raises(IndexError):
        f([0, 5])
    assert w.get_value().tolist() == [1, 1] and v.get_value().tolist() == [1, 1]
    f([1, 0])
    assert w.get_value().tolist() == [2, 2] and v.get_value().tolist() == [2, 2]


def test_arguments_by_name_and_defaults(backend):
    x, y = pb.scalar("x"), pb.scalar("y")
    f = function([x, In(y, default=3.0)], x - y, backend=backend)
    assert f(5.0) == 2.0 and f(y=1.0, x=5.0) == 4.0 and f(5, 6) == -1
    with pytest.raises(UnknownNameError, match="'z'"):
        f(1.0, z=2.0)
    with pytest.raises(ArgumentTypeError, match="twice"):
        f(1.0, x=2.0)
    with pytest.raises(MissingInputError, match="'x'"):
        f()
    with pytest.raises(ArgumentTypeError, match="takes 2"):
        f(1.0, 2.0, 3.0)


def test_wrong_arguments_name_the_input():
    x = pb.matrix("features")
    f = function([x], x.sum())
    with pytest.raises(ShapeError, match="features.*2 dimensions"):
        f(np.zeros(3, "float32"))
    with pytest.raises(DTypeError, match="features.*float32.*float64"):
        f(np.zeros((2, 2)))
    with pytest.raises(DTypeError, match="features"):
        f([["a"]])
    fixed = pb.tensor("float32", (None, 3), name="fixed")
    with pytest.raises(ShapeError, match="fixed.*length 3 on axis 1"):
        function([fixed], fixed.sum())(np.zeros((2, 4), "float32"))


def test_mistakes_when_building():
    x, y = pb.vector("x"), pb.vector("y")
    w = pb.shared(np.zeros(3, "float32"), name="w")
    with pytest.raises(UnusedInputError, match="y"):
        function([x, y], x)
    with pytest.warns(UserWarning, match="y"):
        function([x, y], x, on_unused_input="warn")
    with pytest.raises(MissingInputError, match="needs y"):
        function([x], x + y)
    with pytest.raises(ArgumentTypeError, match="shared"):
        function([w], w)
    with pytest.raises(ArgumentError, match="twice"):
        function([x, x], x)
    with pytest.raises(ArgumentError, match="updated twice"):
        function([], updates=[(w, w), (w, w + 1)])
    with pytest.raises(DTypeError, match="cast"):
        function([], updates={w: w.astype("float64")})
    with pytest.raises(GraphError):
        function([], updates={w: w.sum()})
    with pytest.raises(ArgumentTypeError, match="pb.jit"):
        function([x], lambda: x)
    with pytest.raises(GraphError, match="givens"):
        function([x], x + 1, givens={x: pb.matrix("m")})


def test_givens_replace_before_anything_else(backend):
    x, y = pb.vector("x"), pb.vector("y")
    f = function([y], (x * 2).sum(), givens={x: y + 1}, backend=backend)
    assert f([1.0, 2.0]) == 10.0
    w = pb.shared(np.float32([1, 1]))
    assert function([], x.sum(), givens={x: w * 3}, backend=backend)() == 6.0


def test_default_updates_advance_once_a_call(backend):
    counter = pb.shared(np.int64(0))
    counter.default_update = counter + 1
    f = function([], [counter * 1, counter + 10], backend=backend)
    assert [int(v) for v in f()] == [0, 10]
    assert [int(v) for v in f()] == [1, 11]
    frozen = function([], counter * 1, no_default_updates=True, backend=backend)
    assert int(frozen()) == 2 and int(frozen()) == 2


def test_new_shapes_need_no_new_function(backend):
    x = pb.matrix("x")
    f = function([x], [(x * 2).sum(axis=0), x.T, x.shape[0]], backend=backend)
    for n in (1, 5, 0, 33, 5):
        data = np.random.default_rng(n).standard_normal((n, 3)).astype("float32")
        total, turned, length = f(data)
        np.testing.assert_allclose(total, data.sum(0) * 2, rtol=1e-5, atol=1e-5)
        assert np.array_equal(turned, data.T) and length == n


def test_non_contiguous_and_foreign_arguments(backend):
    x = pb.matrix("x")
    f = function([x], x * 2 + 1, backend=backend)
    data = np.arange(12, dtype="float32").reshape(3, 4)
    for view in (data.T, data[:, ::2], data[::-1], np.broadcast_to(data[0], (3, 4)), np.asfortranarray(data)):
        assert np.array_equal(f(view), view * 2 + 1)

    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return data

    assert np.array_equal(f(Foreign()), data * 2 + 1)


def test_sizes_that_only_running_tells(backend):
    x = pb.vector("x")
    w = pb.shared(np.float32(1.0))
    positive = x[x > 0]
    f = function([x], [(positive * 2).sum() * w, positive], updates={w: w + positive.sum()}, backend=backend)
    total, kept = f([1.0, -1.0, 3.0])
    assert total == 8.0 and kept.tolist() == [1.0, 3.0] and w.get_value() == 5.0
    total, kept = f([-1.0, -1.0, 2.0])
    assert total == 20.0 and kept.tolist() == [2.0] and w.get_value() == 7.0


def test_threads_may_share_a_function(backend):
    x = pb.matrix("x")
    hits = pb.shared(np.int64(0))
    f = function([x], (x @ x.T).sum(), updates={hits: hits + 1}, backend=backend)
    g = function([x], [x * 2, (x @ x.T)], backend=backend)
    errors = []

    def work(seed):
        data = np.random.default_rng(seed).standard_normal((seed + 2, 7)).astype("float32")
        for _ in range(50):
            doubled, gram = g(data)
            if not np.array_equal(doubled, data * 2) or not np.allclose(gram, data @ data.T, atol=1e-4):
                errors.append(seed)
            f(data)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and hits.get_value() == 200


def test_functions_pickle_and_deepcopy(backend):
    x = pb.vector("x")
    w = pb.shared(np.ones(3, "float32"), name="w")
    f = function([x], {"s": (x * w).sum()}, updates={w: w + 1}, backend=backend, name="scored")
    f([1, 2, 3])
    for twin in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        assert twin(x=[1, 2, 3])["s"] == 12.0 and twin([1, 2, 3])["s"] == 18.0
    assert w.get_value().tolist() == [2, 2, 2]


def test_the_nan_guard_names_op_and_line():
    x = pb.vector("x")
    cost = pb.sqrt(x).sum()
    f = function([x], [cost, pb.grad(cost, x)])
    with pb.config.override(nan_guard=True):
        with pytest.raises(NonFiniteError, match=r"(?s)sqrt made nan at index \(1,\).*test_function.py"):
            f([1.0, -1.0])
        with pytest.raises(NonFiniteError, match="gradient of sqrt"):
            f([1.0, 0.0])
    assert f([4.0, 1.0])[0] == 3.0


def test_eval():
    x, y = pb.scalar("x"), pb.scalar("y")
    assert (x + y).eval({x: 1.0, y: 2.0}) == 3.0
    with pytest.raises(MissingInputError):
        (x + y).eval({x: 1.0})


def test_flushing_of_subnormals_is_a_setting():
    x = pb.vector("x")
    f = function([x], x * 0.5, backend="native")
    tiny = np.float32([1e-40])
    assert f(tiny)[0] > 0
    with pb.config.override(flush_denormals=True):
        assert f(tiny)[0] == 0
    assert f(tiny)[0] > 0


def test_what_only_shared_variables_decide_is_computed_when_they_change():
    w = pb.shared(np.float32([[1.0, 2.0], [3.0, 4.0]]))
    x = pb.matrix("x")
    y = x @ pb.transpose(pb.exp(w)) + (w * w).sum(axis=0)
    f = function([x], y, backend="native")
    step = function([x], None, updates={w: w * 0.5 + x.sum()}, backend="native")
    plan_steps = []
    data = np.float32([[1.0, -1.0]])

    def expected():
        value = w.get_value()
        return data @ np.exp(value).T + (value * value).sum(0)

    for change in (lambda: None, lambda: None, lambda: w.set_value(np.float32([[0, 1], [1, 0]])), lambda: step(data)):
        change()
        np.testing.assert_allclose(f(data), expected(), rtol=1e-5)
        plan_steps.append(sum(s.fixed for s in f.program.latest_plan().steps))
    assert min(plan_steps) > 0
