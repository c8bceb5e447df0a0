"""Random draws on the native backend: the bits of their definition."""

import numpy as np
import pytest

import pullback as pb
from pullback import codegen
from pullback.compile.binding import HostCall
from pullback.kernels import random as kernels
from pullback.ops.philox import Bits
from tests.codegen.agree import both
from tests.compile.agreement import assert_same_on_any_threads, under_isa

KEY, COUNTER = 0x0123456789ABCDEF, (7 << 32) + 3
SIZES = [(1,), (15,), (64,), (65,), (3, 41), (1000,), (2, 3, 5, 7)]


def run(draw, **options) -> np.ndarray:
    """The draw by a compiled function, all of whose steps are kernels."""
    counter = pb.lscalar("counter")
    f = pb.function([counter], draw((np.uint64(KEY), counter), **options), backend="native")
    f(0)
    result = f(COUNTER)
    assert not [s for s in f.program.latest_plan().steps if isinstance(s, HostCall)]
    return result


BITS = Bits(KEY, COUNTER)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_uniform_bits(size, dtype):
    found = run(pb.random.uniform, size=size, dtype=dtype)
    assert found.dtype == dtype and np.array_equal(found, BITS.uniform(size, dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_normal(size, dtype):
    found = run(pb.random.normal, size=size, dtype=dtype)
    np.testing.assert_array_max_ulp(found, BITS.normal(size, dtype), 4)


def test_large_draws_do_not_depend_on_the_number_of_threads():
    draws = (pb.random.uniform, pb.random.normal)
    assert_same_on_any_threads(lambda: [run(d, size=(300, 1000), dtype="float32") for d in draws])
    assert np.array_equal(run(pb.random.uniform, size=300_000, dtype="float32"), BITS.uniform((300_000,), "float32"))


@pytest.mark.parametrize("dtype", ["bool", "float32", "float64", "int64"])
def test_bernoulli(dtype):
    p = np.linspace(0, 1, 50, dtype="float32")
    found = run(lambda s, **o: pb.random.bernoulli(s, p, **o), size=(7, 50), dtype=dtype)
    assert found.dtype == dtype and np.array_equal(found, (BITS.uniform((7, 50), "float32") < p).astype(dtype))


def test_integers():
    low, high = np.array([-5, 0, 10]), np.array([5, 2**62, 11])
    found = run(lambda s, **o: pb.random.randint(s, low, high, **o), size=(20, 3))
    expected = low + (BITS.words64(60).reshape(20, 3) % (high - low).astype("uint64")).astype("int64")
    assert np.array_equal(found, expected)


def test_dropout_uses_one_mask_both_ways():
    x = pb.matrix("x")
    stream = pb.RandomStream(3)
    y = pb.dropout(x, 0.4, stream)
    f = pb.function([x], [y, pb.grad(y.sum(), x)])
    data = np.ones((40, 30), "float32")
    for _ in range(2):
        out, grad = f(data)
        assert np.array_equal(out, grad) and 0.3 < (out == 0).mean() < 0.5
    assert not np.array_equal(out, f(data)[0])


@pytest.mark.parametrize("counter", [np.int64(-1), np.uint64(2**64 - 1), np.int32(5)])
def test_counters_of_any_type(counter):
    expected = Bits(KEY, int(counter)).uniform((70,), "float32")
    f = pb.function([], pb.random.uniform((pb.shared(np.uint64(KEY)), pb.shared(counter)), size=70, dtype="float32"))
    assert np.array_equal(f(), expected)


@pytest.mark.parametrize("kind", [codegen.f32, codegen.f64], ids=str)
@pytest.mark.parametrize("kernel", ["uniform", "normal"])
def test_kernels_as_plain_python(kernel, kind):
    key, counter = np.array([KEY], "uint64"), np.array([COUNTER])
    instance = getattr(kernels, kernel).specialise(K=codegen.u64, C=codegen.i64, T=kind)
    count = 70
    found = both(instance, key, counter, np.zeros(count, kind.dtype), count, n=-(-count // 32), ulps=4)[2]
    np.testing.assert_array_max_ulp(found, getattr(BITS, kernel)((count,), kind.dtype.name), 4)


def test_kernel_words64():
    key, counter = np.array([KEY], "uint64"), np.array([COUNTER])
    instance = kernels.words64.specialise(K=codegen.u64, C=codegen.i64)
    assert np.array_equal(both(instance, key, counter, np.zeros(40, "uint64"), 40, n=2)[2], BITS.words64(40))


def check_some() -> None:
    for size in SIZES:
        for dtype in ("float32", "float64"):
            assert np.array_equal(run(pb.random.uniform, size=size, dtype=dtype), BITS.uniform(size, dtype))
            np.testing.assert_array_max_ulp(run(pb.random.normal, size=size, dtype=dtype), BITS.normal(size, dtype), 4)


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_some")
