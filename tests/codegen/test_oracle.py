"""Kernels as plain Python: checked bounds, types kept, source lines kept."""

import re
import sys

import numpy as np
import pytest

from pullback.codegen import VL, T, f32, f64, helper, i32, i64, kernel, ld, local, ptr, st, vec, vrange
from pullback.errors import KernelBoundsError, KernelError, PullbackError


@kernel
def copy(x: ptr(T), y: ptr(T), shift: i64, lo: i64, hi: i64):
    for i in vrange(lo, hi):
        y[i] = x[i + shift]


@kernel
def scalar_copy(x: ptr(T), y: ptr(T), shift: i64, lo: i64, hi: i64):
    p = x + shift
    for i in range(lo, hi):
        y[i] = p[i]


@pytest.mark.parametrize("run", [copy, scalar_copy])
@pytest.mark.parametrize("size, shift, place", [(20, 3, 20), (20, -1, -1)])
def test_a_read_outside_an_array_names_kernel_line_pointer_and_index(run, size, shift, place):
    with pytest.raises(IndexError) as caught:
        run.python(np.zeros(size), np.zeros(size), shift, lo=0, hi=size)
    assert isinstance(caught.value, KernelBoundsError) and isinstance(caught.value, PullbackError)
    found = re.match(
        rf"kernel {run.name}, (\S+) line (\d+): reads \(?(x)( \+ -?\d+)?\)?\[(-?\d+)\], but x has {size} elements",
        str(caught.value),
    )
    line = open(found[1]).readlines()[int(found[2]) - 1]
    assert "y[i] =" in line
    assert int(found[5]) + int((found[4] or "0").replace(" + ", "")) == place


def test_a_write_outside_an_array():
    with pytest.raises(KernelBoundsError, match=r"writes y\[5\], but y has 5 elements"):
        copy.python(np.zeros(9), np.zeros(5), 0, lo=0, hi=9)


@kernel
def past_the_end(x: ptr(f32), n: i64, lo: i64, hi: i64):
    t = local(VL)
    st(t, ld(x, n))
    st(x, ld(t) + 1, n)
    x[0] = t[VL]


def test_vector_loads_stores_and_scratch_are_checked():
    with pytest.raises(KernelBoundsError, match=r"reads x\[3\]"):
        past_the_end.python(np.zeros(3, "f4"), VL, lo=0, hi=1)
    with pytest.raises(KernelBoundsError, match=rf"reads local\({VL}\)\[{VL}\]"):
        past_the_end.python(np.zeros(3, "f4"), 3, lo=0, hi=1)


@helper
def reach(p: ptr(T), i: i64) -> T:
    return p[i]


@kernel
def reaching(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    y[0] = reach(x, hi)


def test_an_access_inside_a_helper_is_blamed_on_the_helper():
    with pytest.raises(KernelBoundsError, match=r"kernel reach, .* line \d+: reads p?x?\[4\]"):
        reaching.python(np.zeros(4), np.zeros(1), lo=0, hi=4)


@kernel
def steps(x: ptr(T), y: ptr(T), row: i64, column: i64, rows: i64, lo: i64, hi: i64):
    for r in range(rows):
        for c in vrange(lo, hi):
            y[c + r * hi] = x[c * column + r * row]


def test_arrays_with_any_strides(rng):
    whole = rng.standard_normal((9, 11))
    for view in (whole[1::2, ::3], whole[::-1, ::-2], whole.T[2:5], whole[:, 4:5]):
        row, column = (s // 8 for s in view.strides)
        y = np.zeros(view.shape)
        steps.python(view, y, row, column, view.shape[0], lo=0, hi=view.shape[1])
        np.testing.assert_array_equal(y, view)


@kernel
def types_are_kept(x: ptr(f32), k: ptr(i32), y: ptr(f32), z: ptr(f64), lo: i64, hi: i64):
    y[0] = x[0] * 16777216.0 + 1.0
    k[0] = k[1] * k[2]
    for i in vrange(lo, hi):
        y[i + 1] = x[i] * 3.0
        z[i] = x[i] / 3.0


def test_arithmetic_stays_in_its_type():
    x = np.array([1.1, 0.7], "f4")
    k = np.array([0, 2**20, 2**15], "i4")
    y, z = np.zeros(3, "f4"), np.zeros(2)
    types_are_kept.python(x, k, y, z, lo=0, hi=2)
    assert y[0] == np.float32(1.1) * np.float32(16777216) + np.float32(1)
    assert k[0] == 0
    np.testing.assert_array_equal(y[1:], x * np.float32(3))
    np.testing.assert_array_equal(z, (x / np.float32(3)).astype("f8"))


@kernel
def mistakes(x: ptr(f32), y: ptr(f64), n: i64, which: i64, lo: i64, hi: i64):
    assert n > 0, "n is positive"
    a = 0.0
    v = vec(0.0)
    if which == 1:
        a = y[0]
    if which == 2:
        for i in vrange(n):
            a = x[i]
    if which == 3:
        v = a + a
    if which == 4:
        x[0] = y[0]
    if which == 5:
        a = n // (n - n)
    v += a


def test_the_plain_run_refuses_what_the_compiler_refuses():
    x, y = np.zeros(4, "f4"), np.zeros(4)
    mistakes.python(x, y, 4, 0, lo=0, hi=1)
    for which, message in enumerate(["a f64 where f32", "a is a scalar", "v is a vector", "a f64 where f32"], 1):
        with pytest.raises(KernelError, match=message):
            mistakes.python(x, y, 4, which, lo=0, hi=1)
    with pytest.raises(ZeroDivisionError):
        mistakes.python(x, y, 4, 5, lo=0, hi=1)
    with pytest.raises(AssertionError, match="n is positive"):
        mistakes.python(x, y, 0, 0, lo=0, hi=1)


def test_arguments_are_checked():
    with pytest.raises(KernelError, match="takes 5 arguments"):
        copy.python(np.zeros(3), lo=0, hi=3)
    with pytest.raises(KernelError, match="argument y is a ptr"):
        copy.python(np.zeros(3), np.zeros(3, "f4"), 0, lo=0, hi=3)
    with pytest.raises(KernelError, match="argument x is a ptr"):
        copy.specialise(T=f32).python(np.zeros(3), np.zeros(3), 0, lo=0, hi=3)


def test_a_debugger_sees_the_lines_of_the_source():
    seen = set()

    def trace(frame, event, arg):
        if frame.f_code.co_name == "copy" and event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        copy.python(np.zeros(3), np.zeros(3), 0, lo=0, hi=3)
    finally:
        sys.settrace(before)
    first = copy.function.__code__.co_firstlineno
    assert seen == {(__file__, first + 2), (__file__, first + 3)}


def test_unset_scratch_is_poisoned():
    @kernel
    def forgetful(y: ptr(f32), k: ptr(i32), lo: i64, hi: i64):
        t = local(4)
        u = local(4, i32)
        y[0] = t[2]
        k[0] = u[2]

    y, k = np.zeros(1, "f4"), np.zeros(1, "i4")
    forgetful.python(y, k, lo=0, hi=1)
    assert np.isnan(y[0]) and k[0] != 0
