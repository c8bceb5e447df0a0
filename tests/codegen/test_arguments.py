"""Argument blocks."""

import re
import struct

import numpy as np
import pytest

from pullback.codegen import (
    ArgumentBlock,
    T,
    address_of,
    bool_,
    call,
    f32,
    f64,
    i32,
    i64,
    kernel,
    ptr,
    u8,
    u64,
)
from pullback.errors import KernelError


@kernel
def everything(p: ptr(T), a: f32, b: f64, c: i32, d: i64, e: u8, f: u64, g: bool_, y: ptr(f64), lo: i64, hi: i64):
    y[0] = f64(p[0])
    y[1] = f64(a)
    y[2] = b
    y[3] = c
    y[4] = f64(d)
    y[5] = e
    y[6] = f64(f)
    y[7] = f64(g)
    y[8] = f64(lo)
    y[9] = f64(hi)


VALUES = (np.float32([5.5]), 0.1, 0.1, -7, -(2**40), 200, 2**63 + 2**40, True)


def block(*values, y=None):
    y = np.zeros(10) if y is None else y
    return ArgumentBlock(everything.specialise(T=f32), *values, y), y


def test_every_type_arrives():
    y = np.zeros(10)
    call(everything.specialise(T=f32), *VALUES, y, n=42)
    np.testing.assert_array_equal(y, [5.5, np.float32(0.1), 0.1, -7, -(2**40), 200, 2.0**63 + 2**40, 1, 0, 42])
    call(everything.specialise(T=f32), *(np.asarray(v)[()] if np.ndim(v) == 0 else v for v in VALUES), y, n=42)
    np.testing.assert_array_equal(y, [5.5, np.float32(0.1), 0.1, -7, -(2**40), 200, 2.0**63 + 2**40, 1, 0, 42])


def test_the_layout_of_a_block():
    made, y = block(*VALUES)
    assert made.array.dtype == np.int64 and made.address == address_of(made.array)
    assert made.array[made.slot("p")] == address_of(VALUES[0])
    assert made.array[1] == struct.unpack("<i", struct.pack("<f", 0.1))[0]
    assert made.array[2] == struct.unpack("<q", struct.pack("<d", 0.1))[0]
    assert list(made.array[3:6]) == [-7, -(2**40), 200]
    made.set("d", 9)
    assert made.array[made.slot("d")] == 9


def test_an_array_stays_alive_until_it_is_replaced():
    import gc
    import weakref

    class Array(np.ndarray):
        pass

    y = np.zeros(10).view(Array)
    made, _ = block(*VALUES, y=y)
    alive = weakref.ref(y)
    del y, _
    gc.collect()
    assert alive() is not None
    made.set("y", np.zeros(10))
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "place, wrong, message",
    [
        (0, np.zeros(3), "argument p: ptr(f32): the array has dtype float64"),
        (0, [1.0], "expected an array or an address, not list"),
        (0, True, "expected an array or an address, not bool"),
        (1, "1.0", "argument a: f32: expected a number, not str"),
        (1, np.zeros(2), "expected a number, not ndarray"),
        (3, 2**31, "argument c: i32: 2147483648 is outside -2147483648 to 2147483647"),
        (3, 1.0, "argument c: i32: expected an integer, not float"),
        (3, True, "expected an integer, not bool"),
        (5, -1, "argument e: u8: -1 is outside 0 to 255"),
        (7, 1, "argument g: bool_: expected a bool, not int"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(place, wrong, message):
    values = list(VALUES)
    values[place] = wrong
    with pytest.raises(KernelError, match=re.escape(message)):
        block(*values)


def test_counts_and_names():
    with pytest.raises(KernelError, match=r"takes 9 arguments \(p, a, b, c, d, e, f, g, y\), 8 were given"):
        ArgumentBlock(everything.specialise(T=f32), *VALUES)
    made, _ = block(*VALUES)
    with pytest.raises(KernelError, match="has no argument 'z'; it has p, a, b"):
        made.set("z", 1)
    with pytest.raises(KernelError, match="type parameter T is open"):
        ArgumentBlock(everything, *VALUES, np.zeros(10))
