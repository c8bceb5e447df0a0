"""Vector loops: masks, accumulators, indices, reductions, register arrays."""

import numpy as np
import pytest

from pullback.codegen import (
    BY_DTYPE,
    VL,
    T,
    f32,
    f64,
    fma,
    from_source,
    helper,
    i32,
    i64,
    isnan,
    kernel,
    lane,
    ld,
    prefetch,
    ptr,
    regs,
    st,
    unroll,
    vall,
    vany,
    vec,
    vfull,
    vmax,
    vmin,
    vrange,
    vsum,
    vtrans,
)  # fmt: skip
from tests.codegen.agree import both

COUNTS = (0, 1, VL - 1, VL, VL + 1, 3 * VL + 5)
KINDS = {"float32": f32, "float64": f64}


@pytest.fixture(params=KINDS)
def dtype(request):
    return request.param


@kernel
def axpy(x: ptr(T), y: ptr(T), a: T, lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[i] += a * x[i]


def test_every_count_and_nothing_beside_it(dtype, rng):
    for n in COUNTS:
        x, y = rng.integers(-9, 9, (2, n + 3)).astype(dtype)
        _, result = both(axpy.specialise(T=KINDS[dtype]), x, y, 2.0, n=n)
        np.testing.assert_array_equal(result[:n], y[:n] + 2 * x[:n])
        np.testing.assert_array_equal(result[n:], y[n:])


@kernel
def column_sums(x: ptr(T), y: ptr(T), rows: i64, lo: i64, hi: i64):
    n = hi
    for c in vrange(lo, hi):
        s = vec(T(0))
        for r in range(rows):
            v = x[c + r * n]
            if r != 1:
                s += v
        y[c] = s


def test_scalar_loops_and_choices_inside_a_vector_loop(dtype, rng):
    x = rng.integers(-9, 9, (5, 2 * VL + 3)).astype(dtype)
    _, y = both(column_sums.specialise(T=KINDS[dtype]), x, np.zeros(x.shape[1], dtype), 5, n=x.shape[1])
    np.testing.assert_array_equal(y, x.sum(0) - x[1])


@kernel(strict=True)
def moments(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    s = vec(T(0))
    big = vec(T(-100))
    small = vec(T(100))
    blocks = 0
    for i in vrange(lo, hi):
        v = x[i]
        s += v + 1  # lanes that are off would add 1 each
        big = max(big, v)
        small = min(small, v)
        blocks += 1
    y[0] = vsum(s)
    y[1] = vmax(big)
    y[2] = vmin(small)
    y[3] = T(blocks)


def test_lanes_that_are_off_leave_accumulators_alone(dtype, rng):
    for n in COUNTS:
        x = rng.integers(-9, 9, n).astype(dtype)
        _, y = both(moments.specialise(T=KINDS[dtype]), x, np.zeros(4, dtype), n=n)
        np.testing.assert_array_equal(y, [x.sum() + n, max(x, default=-100), min(x, default=100), -(-n // VL)])


@kernel
def reductions_inside(x: ptr(T), y: ptr(T), k: ptr(i32), lo: i64, hi: i64):
    s = T(0)
    big = T(-1000)
    small = T(1000)
    some = 0
    every = 0
    whole = i32(0)
    for i in vrange(lo, hi):
        s += vsum(x[i] * 0 + 1)
        big = max(big, vmax(x[i] - 500))
        small = min(small, vmin(x[i] + 500))
        some += i64(vany(x[i] == 0))
        every += i64(vall(x[i] != 0))
        whole += vsum(k[i]) + vmax(k[i]) - vmin(k[i])
    y[0] = s
    y[1] = big
    y[2] = small
    y[3] = T(some)
    y[4] = T(every)
    y[5] = T(whole)


def test_reductions_inside_a_vector_loop_count_only_live_lanes(dtype, rng):
    for n in COUNTS[1:]:
        x = rng.integers(1, 9, n).astype(dtype)
        k = rng.integers(1, 9, n).astype("i4")
        _, y, _ = both(reductions_inside.specialise(T=KINDS[dtype]), x, np.zeros(6, dtype), k, n=n)
        blocks = [k[j : j + VL] for j in range(0, n, VL)]
        whole = sum(b.sum() + b.max() - b.min() for b in blocks)
        np.testing.assert_array_equal(y, [n, x.max() - 500, x.min() + 500, 0, len(blocks), whole])


@kernel
def extremes(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    y[0] = vmax(ld(x))
    y[1] = vmin(ld(x))


def test_reductions_keep_nan_wherever_it_stands(dtype, rng):
    for place in range(VL):
        x = rng.standard_normal(VL).astype(dtype)
        x[place] = np.nan
        _, y = both(extremes.specialise(T=KINDS[dtype]), x, np.zeros(2, dtype), n=1)
        assert np.isnan(y).all()


@kernel(strict=True)
def tree_sum(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    y[0] = vsum(ld(x))


def test_the_order_of_a_sum_is_fixed(dtype, rng):
    x = rng.standard_normal(VL).astype(dtype)
    parts = x.copy()
    while parts.size > 1:
        parts = parts[: parts.size // 2] + parts[parts.size // 2 :]
    assert both(tree_sum.specialise(T=KINDS[dtype]), x, np.zeros(1, dtype), n=1)[1][0] == parts[0]


# Indices


@kernel
def strided(x: ptr(T), y: ptr(T), step: i64, lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[2 * i + 1] = x[i * step]
        y[i * 2] = x[hi - 1 - i]


def test_strided_and_reversed_access(dtype, rng):
    for n in COUNTS:
        x = rng.standard_normal(5 * n + 1).astype(dtype)
        _, y = both(strided.specialise(T=KINDS[dtype]), x, np.zeros(2 * n, dtype), 5, n=n)
        np.testing.assert_array_equal(y[1::2], x[: 5 * n : 5])
        np.testing.assert_array_equal(y[::2], x[:n][::-1])


@pytest.mark.parametrize("stride", [-1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int32", "uint8", "bool"])
def test_constant_strides_of_every_type(name, stride, rng):
    """The last element of the array is the last that is read."""
    n = 2 * VL + 3
    kind = BY_DTYPE[np.dtype(name)].name
    text = f"""
def strides(x: ptr({kind}), y: ptr({kind}), lo: i64, hi: i64):
    p = x + (hi - 1) if {stride} < 0 else x
    for i in vrange(lo, hi):
        y[i] = p[i * {stride}]
"""
    x = rng.integers(0, 2 if name == "bool" else 100, (n - 1) * abs(stride) + 1).astype(name)
    _, y = both(from_source("strides", text), x, np.zeros(n, name), n=n)
    np.testing.assert_array_equal(y, x[::stride])


@kernel
def gathered(x: ptr(T), at: ptr(i32), to: ptr(i64), y: ptr(T), lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[to[i]] = x[at[i] + 1]


def test_gather_and_scatter(dtype, rng):
    n = 2 * VL + 3
    x = rng.standard_normal(50).astype(dtype)
    at, to = rng.integers(-1, 49, n).astype("i4"), rng.permutation(n)
    *_, y = both(gathered.specialise(T=KINDS[dtype]), x, at, to, np.zeros(n, dtype), n=n)
    np.testing.assert_array_equal(y[to], x[at + 1])


@kernel
def index_values(y: ptr(T), z: ptr(i64), lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[i] = T(i) * 0.5
        z[i] = (i // 3) * 10 + i % 3 if i > 4 else -i


def test_the_index_is_a_number_too(dtype):
    n = 2 * VL + 3
    y, z = both(index_values.specialise(T=KINDS[dtype]), np.zeros(n, dtype), np.zeros(n, "i8"), n=n)
    i = np.arange(n)
    np.testing.assert_array_equal(y, i / 2)
    np.testing.assert_array_equal(z, np.where(i > 4, i // 3 * 10 + i % 3, -i))


@kernel
def padded(x: ptr(T), y: ptr(T), n: i64, before: i64, lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[i] = x[i - before] if before <= i < n + before else -1.0


def test_a_choice_reads_only_where_its_condition_holds(dtype, rng):
    """The plain-Python run checks bounds; the compiled one would read outside the array."""
    x = rng.standard_normal(VL + 2).astype(dtype)
    _, y = both(padded.specialise(T=KINDS[dtype]), x, np.zeros(x.size + 5, dtype), x.size, 3, n=x.size + 5)
    np.testing.assert_array_equal(y, np.pad(x, (3, 2), constant_values=-1))


@kernel
def guarded(x: ptr(T), at: ptr(i64), y: ptr(i64), n: i64, lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[i] = 1 if at[i] >= 0 and at[i] < n and x[at[i]] > 0 else 0
        y[i] += 2 if at[i] < 0 or at[i] >= n or x[at[i]] < 0 else 0


def test_and_and_or_narrow_the_lanes_that_are_read(dtype, rng):
    x = rng.standard_normal(9).astype(dtype)
    at = rng.integers(-5, 14, 2 * VL + 1)
    inside = (at >= 0) & (at < 9)
    _, _, y = both(guarded.specialise(T=KINDS[dtype]), x, at, np.zeros_like(at), 9, n=at.size)
    value = x[np.where(inside, at, 0)]
    np.testing.assert_array_equal(y, (inside & (value > 0)) + 2 * (~inside | (value < 0)))


@kernel
def safe_division(a: ptr(i32), b: ptr(i32), y: ptr(i32), lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[i] = (a[i] // b[i]) + (a[i] % b[i]) if b[i] != 0 else -7


def test_division_doesnt_trap_in_lanes_that_are_off(rng):
    for n in COUNTS:
        a, b = rng.integers(-9, 9, (2, n)).astype("i4")
        *_, y = both(safe_division, a, b, np.zeros_like(a), n=n)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(y, np.where(b == 0, -7, a // b + a % b))


@kernel
def best_index(x: ptr(T), y: ptr(i64), lo: i64, hi: i64):
    best = vec(T(-1e30))
    where = vec(i64(-1))
    for i in vrange(lo, hi):
        better = x[i] > best
        where = i if better else where
        best = x[i] if better else best
    top = vmax(best)
    y[0] = vmin(where if best == top else hi)


def test_argmax_with_index_vectors(dtype, rng):
    for n in COUNTS[1:]:
        x = rng.integers(-9, 9, n).astype(dtype)
        _, y = both(best_index.specialise(T=KINDS[dtype]), x, np.zeros(1, "i8"), n=n)
        assert y[0] == x.argmax()


# Registers


@kernel
def transpose(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    r = regs(VL)
    for i in unroll(VL):
        r[i] = ld(x + i * VL)
    vtrans(r)
    for i in unroll(VL):
        st(y + i * VL, r[i])


def test_transpose_in_registers(dtype):
    x = np.arange(VL * VL).reshape(VL, VL).astype(dtype)
    _, y = both(transpose.specialise(T=KINDS[dtype]), x, np.zeros_like(x), n=1)
    np.testing.assert_array_equal(y, x.T)


@kernel(strict=True)
def blocks(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    r = regs(3)
    for i in vfull(lo, hi, 3):
        for u in unroll(3):
            prefetch(x + lo)
            r[u] = fma(x[i + u * VL], 2.0, r[u])
    for u in unroll(3):
        st(y + u * VL, r[u])
    y[3 * VL] = lane(r[1], 2) + lane(r[0], VL - 1)


def test_whole_blocks_with_register_arrays(dtype, rng):
    x = rng.integers(-9, 9, 6 * VL).astype(dtype)
    _, y = both(blocks.specialise(T=KINDS[dtype]), x, np.zeros(3 * VL + 1, dtype), n=x.size)
    sums = 2 * x.reshape(2, 3, VL).sum(0)
    np.testing.assert_array_equal(y[:-1], sums.reshape(-1))
    assert y[-1] == sums[1, 2] + sums[0, -1]
    with pytest.raises(TypeError, match="not a multiple of"):
        blocks.specialise(T=KINDS[dtype]).python(x, y, lo=0, hi=VL)


@kernel
def tail_registers(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    r = regs(2)
    for i in vrange(lo, hi):
        fresh = regs(1)
        fresh[0] = x[i] + 1
        r[0] += fresh[0]
        r[1] = r[0]
    y[0] = vsum(r[0])
    y[1] = vsum(r[1])


def test_register_arrays_in_the_masked_tail(dtype, rng):
    for n in COUNTS:
        x = rng.integers(-9, 9, n).astype(dtype)
        _, y = both(tail_registers.specialise(T=KINDS[dtype]), x, np.zeros(2, dtype), n=n)
        np.testing.assert_array_equal(y, x.sum() + n)


@kernel
def uniform(x: ptr(T), y: ptr(T), p: ptr(T), flag: i64, lo: i64, hi: i64):
    for i in vrange(lo, hi):
        a = p[0]  # a scalar stays one
        a += 1
        v = x[i] * a
        if flag > 0:
            v = x[i] if flag == 1 else v + a
        y[i] = a if flag == 3 else v


def test_scalars_inside_a_vector_loop_stay_scalars(dtype, rng):
    x = rng.integers(-9, 9, 2 * VL + 1).astype(dtype)
    for flag, wanted in enumerate((x * 3, x, x * 3 + 3, x * 0 + 3)):
        _, y, _ = both(uniform.specialise(T=KINDS[dtype]), x, x * 0, np.array([2], dtype), flag, n=x.size)
        np.testing.assert_array_equal(y, wanted)


@helper
def relu(x):
    return max(x, 0)


@kernel
def python_rule(x: ptr(T), y: ptr(T), z: ptr(i64), lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[i] = relu(x[i])
        z[i] = i64(isnan(x[i]))


def test_max_keeps_nan_in_its_first_argument(dtype, rng):
    x = rng.standard_normal(2 * VL + 1).astype(dtype)
    x[[0, 5, 2 * VL]] = np.nan
    _, y, z = both(python_rule.specialise(T=KINDS[dtype]), x, x * 0, np.zeros(x.size, "i8"), n=x.size)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    np.testing.assert_array_equal(z, np.isnan(x))
