"""Statements, variables, helpers and calls: each kernel compiled, as plain Python, and against NumPy."""

import math

import numpy as np
import pytest

from pullback.codegen import (
    VL,
    T,
    TypeParameter,
    bool_,
    call,
    dispatch,
    f16,
    f32,
    f64,
    from_source,
    helper,
    i8,
    i32,
    i64,
    kernel,
    lane,
    ld,
    local,
    ptr,
    regs,
    st,
    u8,
    unroll,
    vec,
    vrange,
    vsum,
)  # fmt: skip
from tests.codegen.agree import both

SCALE = 3
WEIGHTS = (0.5, -1.0, 2.0)


@kernel
def branches(x: ptr(i64), y: ptr(i64), lo: i64, hi: i64):
    for i in range(lo, hi):
        if x[i] > 10:
            y[i] = 1
        elif x[i] > 5 and x[i] != 7:
            y[i] = 2
        elif not x[i] >= 0:
            y[i] = 3
        else:
            y[i] = 4


def test_if_and_elif():
    x = np.arange(-3, 15)
    (_, y) = both(branches, x, np.zeros_like(x), n=x.size)
    np.testing.assert_array_equal(y, [1 if v > 10 else 2 if v > 5 and v != 7 else 3 if v < 0 else 4 for v in x])


@kernel
def collatz(x: ptr(i64), steps: ptr(i64), limit: i64, lo: i64, hi: i64):
    for i in range(lo, hi):
        v = x[i]
        n = 0
        while True:
            if v == 1:
                break
            n += 1
            if n == limit:
                break
            if v % 2 == 0:
                v = v // 2
                continue
            v = 3 * v + 1
        while n < 3:
            n += 1
        steps[i] = n


def test_while_break_and_continue():
    def count(v):
        n = 0
        while v != 1 and n < 50:
            v, n = (v // 2 if v % 2 == 0 else 3 * v + 1), n + 1
        return max(n, 3)

    x = np.arange(1, 30)
    _, steps = both(collatz, x, np.zeros_like(x), 50, n=x.size)
    np.testing.assert_array_equal(steps, [count(v) for v in x])


@kernel
def ranges(y: ptr(i64), n: i64, lo: i64, hi: i64):
    k = 0
    for i in range(n):
        y[k] = i
        k += 1
    for i in range(n, 0, -2):
        y[k] = i
        k += 1
    for i in range(2, n, 3):
        for j in range(i):
            if j == 1:
                continue
            if j == 4:
                break
            y[k] = 100 * i + j
            k += 1
    y[k] = -1


def test_ranges_and_nested_loops():
    def wanted(n):
        out = [*range(n), *range(n, 0, -2)]
        out += [100 * i + j for i in range(2, n, 3) for j in range(min(i, 4)) if j != 1]
        return [*out, -1]

    for n in (0, 1, 7):
        (y,) = both(ranges, np.zeros(100, "i8"), n, n=1)
        np.testing.assert_array_equal(y[: len(wanted(n))], wanted(n))


@kernel
def swap(x: ptr(i64), lo: i64, hi: i64):
    a, b = x[0], x[1]
    for _ in range(5):
        a, b = b, a + b
    x[0], x[1] = a, b


def test_tuple_assignment_reads_before_it_writes():
    (x,) = both(swap, np.array([1, 1]), n=1)
    np.testing.assert_array_equal(x, [8, 13])


@kernel
def constants(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    third = 1 / 3  # a name that is given one literal is that literal, of the type of what stands beside it
    power = 2**10
    total = 0.0
    for i in unroll(3):
        total += WEIGHTS[i] * x[i]
    for i in range(lo, hi):
        y[i] = third * x[i] + power / SCALE + math.pi + total


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constants_have_full_precision(dtype, rng):
    x = rng.standard_normal(9).astype(dtype)
    kind = f64 if dtype == "float64" else f32
    _, y = both(constants.specialise(T=kind), x, np.zeros_like(x), n=9, ulps=8)
    wanted = x / 3 + 1024 / 3 + np.pi + x[:3] @ np.array(WEIGHTS)
    np.testing.assert_allclose(y, wanted, rtol=4 * np.finfo(dtype).eps)


@kernel
def literals(y: ptr(f64), lo: i64, hi: i64):
    a = 0.1  # alone in a kernel whose floats are all f64: f64
    a += 0.0
    y[0] = a


@kernel
def literals_single(y: ptr(f32), lo: i64, hi: i64):
    a = 0.1
    a += 0.0
    y[0] = a * 3


def test_a_lone_float_literal_takes_the_kernels_float_type():
    assert both(literals, np.zeros(1), n=1)[0][0] == 0.1
    assert both(literals_single, np.zeros(1, "f4"), n=1)[0][0] == np.float32(0.1) * np.float32(3)


@kernel
def by_type(y: ptr(T), lo: i64, hi: i64):
    if T == f64:
        y[0] = 64.0
    else:
        y[0] = 32.0
    y[1] = 1.0 if T != f32 else 2.0


def test_a_branch_on_a_type_parameter_is_taken_at_compile_time():
    assert list(both(by_type.specialise(T=f64), np.zeros(2), n=1)[0]) == [64, 1]
    assert list(both(by_type.specialise(T=f32), np.zeros(2, "f4"), n=1)[0]) == [32, 2]


@kernel
def with_constants(y: ptr(i64), M: i64, scale: f64, flag: bool_, lo: i64, hi: i64):
    if M > 100:
        y[0] = nothing_of_this_name  # noqa: F821
    for i in unroll(M):
        y[i] = i64(scale * i) if flag else i


def test_constants_of_specialise_and_dropped_branches():
    instance = with_constants.specialise(M=4, scale=2.5, flag=True)
    assert [p.name for p in instance.signature] == ["y", "lo", "hi"]
    np.testing.assert_array_equal(both(instance, np.zeros(5, "i8"), n=1)[0], [0, 2, 5, 7, 0])
    assert with_constants.specialise(M=1) != with_constants.specialise(M=2)
    assert with_constants.specialise(M=1) is with_constants.specialise(M=1)
    assert with_constants.specialise(scale=1) != with_constants.specialise(scale=1.0)


# Helpers


@helper
def clip(x: T, low: T, high: T) -> T:
    if x < low:
        return low
    if x > high:
        return high
    return x


@helper
def sum_and_difference(a, b):
    return a + b, a - b


@helper
def polynomial(x, coefficients):
    y = x * 0.0 + coefficients[0]
    for k in unroll(1, 3):
        y = y * x + coefficients[k]
    return y


@helper
def square(x: T) -> T:
    return x * x


@helper
def fill(p: ptr(T), n: i64, value: T):
    for i in vrange(n):
        p[i] = value


@kernel
def helped(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    fill(y, hi, 7.0)
    for i in range(lo, hi):
        s, d = sum_and_difference(x[i], 1.0)
        y[i] += clip(x[i], -0.5, 0.5) + s * d
    for i in vrange(lo, hi):
        s2, d2 = sum_and_difference(polynomial(x[i], WEIGHTS), square(x[i]))
        y[i] += s2 * d2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_helpers_on_scalars_and_vectors(dtype, rng):
    x = rng.standard_normal(21).astype(dtype)
    kind = f64 if dtype == "float64" else f32
    _, y = both(helped.specialise(T=kind), x, np.zeros_like(x), n=x.size, ulps=64)
    p = np.polyval(WEIGHTS, x)
    np.testing.assert_allclose(
        y, 7 + np.clip(x, -0.5, 0.5) + x * x - 1 + p * p - x**4, rtol=1e-4 if kind is f32 else 1e-12
    )


@helper
def accumulate(r, v):
    r[0] += v
    r[1] = r[0] * 2.0


@kernel
def registers(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    r = regs(2)
    whole = regs(2, i64)
    for i in vrange(lo, hi):
        accumulate(r, x[i])
        whole[1] += 1
    y[0] = vsum(r[0])
    y[1] = vsum(r[1])
    y[2] = T(vsum(whole[1]) + vsum(whole[0]))


def test_a_helper_changes_registers_of_its_caller(rng):
    for n in (VL, 2 * VL + 3):
        x = rng.integers(-9, 9, n).astype("f4")
        _, y = both(registers.specialise(T=f32), x, np.zeros(3, "f4"), n=n)
        assert list(y) == [x.sum(), 2 * x.sum(), n]


@helper
def chosen(HOW: i64, a: T, b: T) -> T:
    if HOW == 0:
        return a + b
    if HOW == 1:
        return a - b
    r = regs(HOW)  # a literal argument is a constant
    return a * b + lane(r[HOW - 1], 0)


@helper
def counting(n: i32, start) -> i64:
    while n > 0:
        n -= 1
        start += 2
    return start


@kernel
def with_literals(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    y[0] = T(counting(3, 10))
    for u in unroll(3):
        y[u + 1] = chosen(u, x[0], x[1])
    for i in vrange(4, hi):
        y[i] = chosen(2, x[i], 2.0)


def test_literal_arguments_of_helpers_stay_constants(rng):
    x = rng.integers(-9, 9, 30).astype("f4")
    _, y = both(with_literals.specialise(T=f32), x, np.zeros_like(x), n=30)
    np.testing.assert_array_equal(y, [16, x[0] + x[1], x[0] - x[1], x[0] * x[1], *(2 * x[4:])])


# Kernels that call kernels


@kernel
def dot(x: ptr(T), y: ptr(T), n: i64) -> T:
    s = vec(T(0))
    for i in vrange(n):
        s += x[i] * y[i]
    return vsum(s)


@kernel
def scaled_copy(x: ptr(T), y: ptr(T), n: i64, factor: T, STEP: i64):
    for i in range(n):
        y[i * STEP] = factor * x[i]


@kernel
def products(x: ptr(T), y: ptr(T), n: i64, lo: i64, hi: i64):
    for i in range(lo, hi):
        y[i] = dot(x + i * n, x, n)
    scaled_copy(x, y + hi, 2, 0.5, STEP=2)
    scaled_copy(x, y + hi, 1, -1.0, STEP=3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_call_kernels_with_constants(dtype, rng):
    x = rng.integers(-5, 5, (3, 19)).astype(dtype)
    kind = f64 if dtype == "float64" else f32
    _, y = both(products.specialise(T=kind), x, np.zeros(7, dtype), 19, n=3)
    np.testing.assert_array_equal(y, [*(x @ x[0]), -x[0, 0], 0, x[0, 1] / 2, 0])


@kernel
def tile(x: ptr(T), y: ptr(T), M: i64, N: i64):
    for i in unroll(M):
        y[i] = x[i] * M + N


@kernel
def tiles(x: ptr(T), y: ptr(T), m: i64, lo: i64, hi: i64):
    dispatch(tile, M=m, low=2, high=4)(x, y, N=SCALE)


def test_dispatch_on_a_run_time_integer():
    for m in (2, 3, 4):
        x = np.arange(5.0)
        _, y = both(tiles.specialise(T=f64), x, np.zeros(5), m, n=1)
        np.testing.assert_array_equal(y, [v * m + 3 if v < m else 0 for v in x])
    with pytest.raises(TypeError, match="M = 5 is outside 2 to 4"):
        tiles.python(np.zeros(9), np.zeros(9), 5, lo=0, hi=1)


# Memory


@kernel
def pointers(x: ptr(i32), y: ptr(i32), lo: i64, hi: i64):
    p = x + 3
    q = p - 1
    for _ in range(3):
        q += 1
        y[0] += q[0]
    whole = ptr(i8)(x)
    y[1] = i32(whole[4])
    bits_of = ptr(f32)(x + 8)
    y[2] = i32(bits_of[0])
    y[3] = p[-3]


def test_pointers_move_and_change_their_type():
    x = np.arange(1, 12, dtype="i4")
    x[8:] = np.array([7.0, 0, 0], "f4").view("i4")
    _, y = both(pointers, x, np.zeros(4, "i4"), n=1)
    np.testing.assert_array_equal(y, [4 + 5 + 6, 2, 7, 1])


@kernel
def chosen_pointer(x: ptr(i32), y: ptr(i32), n: i64, lo: i64, hi: i64):
    p = x if n > 1 else x + 2
    q = x + 1 if n > 1 and x[n] > 0 else y
    for i in range(lo, hi):
        y[i] = p[i] + q[i]


def test_a_choice_between_pointers():
    x = np.arange(1, 9, dtype="i4")
    for n, wanted in ((1, x[2:6] + 5), (2, x[:4] + x[1:5])):
        _, y = both(chosen_pointer, x, np.full(4, 5, "i4"), n, n=4)
        np.testing.assert_array_equal(y, wanted)


@kernel
def scratch(x: ptr(f32), y: ptr(f32), lo: i64, hi: i64):
    t = local(40)
    k = local(3, i64)
    for i in range(40):
        t[i] = x[39 - i]
    for i in range(3):
        k[i] = i * i
    for i in vrange(lo, hi):
        y[i] = t[i] + f32(k[2])


def test_scratch_on_the_stack(rng):
    x = rng.standard_normal(40).astype("f4")
    _, y = both(scratch, x, np.zeros_like(x), n=40)
    np.testing.assert_array_equal(y, x[::-1] + 4)


@kernel
def halves(x: ptr(f16), y: ptr(f16), z: ptr(f32), lo: i64, hi: i64):
    z[0] = x[1]
    y[0] = x[0] * 2.0
    y[1] = 1.0
    for i in vrange(lo, hi):
        z[i] = x[i]
        y[i] = x[i] * 1.0


def test_float16_is_computed_in_float32():
    """All 65536 numbers: to float32 exactly, and back to the same bits (NaN stays NaN)."""
    x = np.arange(65536, dtype="u2").view("f2")
    _, y, z = both(halves, x, np.zeros_like(x), np.zeros(x.size, "f4"), n=x.size)
    np.testing.assert_array_equal(z, x.astype("f4"))
    np.testing.assert_array_equal(np.where(np.isnan(x), 0, y.view("u2")), np.where(np.isnan(x), 0, x.view("u2")))


@kernel
def narrow(x: ptr(f32), y: ptr(f16), lo: i64, hi: i64):
    for i in range(lo, hi):
        y[i] = x[i]
    for i in vrange(lo, hi):
        y[i + hi] = x[i]


def test_float32_is_rounded_to_float16(rng):
    x = np.concatenate([rng.standard_normal(3000) * 10.0 ** rng.integers(-9, 6, 3000), [65519.9, 65520, np.inf, 6e-8]])
    x = np.concatenate([x, (np.arange(2000) + 0.5) * 2.0**-24, -(1 + np.arange(99) * 2.0**-11)]).astype("f4")
    with np.errstate(over="ignore"):
        wanted = np.tile(x.astype("f2"), 2)
    _, y = both(narrow, x, np.zeros(2 * x.size, "f2"), n=x.size)
    np.testing.assert_array_equal(y, wanted)


@kernel
def small_types(x: ptr(u8), m: ptr(bool_), s: u8, flag: bool_, y: ptr(u8), z: ptr(bool_), lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[i] = x[i] * 2 + s
        z[i] = m[i] ^ flag
    z[0] = not m[0]
    y[0] = u8(m[1])


def test_bytes_wrap_and_bools_are_bools(rng):
    x, m = rng.integers(0, 256, 37).astype("u1"), rng.random(37) < 0.5
    _, _, y, z = both(small_types, x, m, 3, True, np.zeros_like(x), np.zeros_like(m), n=37)
    np.testing.assert_array_equal(y[1:], (x * 2 + 3)[1:])
    np.testing.assert_array_equal(z, np.where(np.arange(37) == 0, ~m, ~m))
    assert y[0] == m[1]


@kernel
def lazy(x: ptr(f32), y: ptr(f32), n: i64, lo: i64, hi: i64):
    for i in range(lo, hi):
        y[i] = x[i] if i < n else -1.0
        if i < n and x[i] > 0:
            y[i] += 10
        if i >= n or x[i] > 0:
            y[i] += 100


def test_scalar_choices_read_nothing_that_they_do_not_use():
    x = np.array([1, -1, 2, 3], "f4")
    _, y = both(lazy, x[:3], np.zeros(6, "f4"), 3, n=6)
    np.testing.assert_array_equal(y, [111, -1, 112, 99, 99, 99])


@kernel(inplace=True)
def increment(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[i] = x[i] + 1


def test_an_inplace_kernel_takes_one_buffer_twice():
    x = np.arange(37.0)
    call(increment.specialise(T=f64), x, x, n=37)
    np.testing.assert_array_equal(x, np.arange(37) + 1)


@kernel
def offset_by_tid(y: ptr(i64), lo: i64, hi: i64, tid: i64):
    for i in range(lo, hi):
        y[i] = tid + 5


def test_the_thread_id_arrives():
    y = np.zeros(3, "i8")
    call(offset_by_tid, y, n=3)
    np.testing.assert_array_equal(y, 5)
    offset_by_tid.python(y, lo=1, hi=2, tid=4)
    np.testing.assert_array_equal(y, [5, 9, 5])


# Where kernels come from


def test_closures_are_constants():
    def make(count, factor):
        @kernel
        def made(y: ptr(f32), lo: i64, hi: i64):
            for i in unroll(count):
                y[i] = factor

        return made

    two, three = make(2, 0.5), make(3, 1.5)
    assert two.key != three.key
    np.testing.assert_array_equal(both(two, np.zeros(4, "f4"), n=1)[0], [0.5, 0.5, 0, 0])
    np.testing.assert_array_equal(both(three, np.zeros(4, "f4"), n=1)[0], [1.5, 1.5, 1.5, 0])


def test_generated_source_knows_the_language_and_what_it_is_given():
    text = (
        "def made(y: ptr(T), lo: i64, hi: i64):\n    for i in vrange(lo, hi):\n        y[i] = square(y[i]) + OFFSET\n"
    )
    made = from_source("made", text, {"square": square, "OFFSET": 2.0}, inplace=True)
    (y,) = both(made.specialise(T=f32), np.arange(5, dtype="f4"), n=5)
    np.testing.assert_array_equal(y, np.arange(5) ** 2 + 2)


def test_two_type_parameters():
    S = TypeParameter("S")
    text = "def widen(x: ptr(S), y: ptr(T), lo: i64, hi: i64):\n    for i in vrange(lo, hi):\n        y[i] = T(x[i])\n"
    widen = from_source("widen", text, {"S": S})
    assert [t.name for t in widen.type_parameters] == ["S", "T"]
    _, y = both(widen.specialise(S=u8, T=f64), np.arange(200, 221, dtype="u1"), np.zeros(21), n=21)
    np.testing.assert_array_equal(y, np.arange(200, 221))


@kernel
def partial_runs(x: ptr(T), y: ptr(T), n: i64, lo: i64, hi: i64):
    st(y, ld(x), n)
    st(y + VL, ld(x, n))
    st(y + 2 * VL, ld(x, 100))
    st(y + 3 * VL, 2.0, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_partial_vector_loads_and_stores(dtype, rng):
    x = rng.standard_normal(VL).astype(dtype)
    kind = f64 if dtype == "float64" else f32
    for n in (0, 1, VL - 1, VL, VL + 5):
        _, y = both(partial_runs.specialise(T=kind), x, np.full(4 * VL, 9, dtype), n, n=1)
        some = np.arange(VL) < n
        np.testing.assert_array_equal(y[:VL], np.where(some, x, 9))
        np.testing.assert_array_equal(y[VL : 2 * VL], np.where(some, x, 0))
        np.testing.assert_array_equal(y[2 * VL : 3 * VL], x)
        np.testing.assert_array_equal(y[3 * VL :], [2, *[9] * (VL - 1)])
