"""Philox4x32-10: random bits as a pure function of a key and a counter, and the draws made of them.

Block b of a draw gives four words of 32 bits. Elements take the words in groups of GROUP blocks: first all first words
of the group, then all second ones, and so on; 64-bit elements take pairs of words in the same way. Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from ..codegen import (
    VL,
    T,
    TypeParameter,
    f16,
    f32,
    f64,
    helper,
    i32,
    i64,
    kernel,
    ld,
    local,
    mulhi,
    ptr,
    sqrt,
    st,
    u32,
    u64,
    unroll,
    vec,
)
from .vmath import cos, log, sin

K, C = TypeParameter("K"), TypeParameter("C")  # types of the key and of the counter

GROUP = 16
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1
TWO_PI = 6.283185307179586


@helper
def philox(block: u64, key: u64, counter: u64):
    """The four words of VL blocks."""
    c0 = u32(block)
    c1 = u32(block >> 32)
    c2 = vec(u32(counter))
    c3 = vec(u32(counter >> 32))
    k0 = u32(key)
    k1 = u32(key >> 32)
    for _ in unroll(10):
        a = mulhi(c0, MULTIPLIERS[0])
        b = mulhi(c2, MULTIPLIERS[1])
        low_a = c0 * MULTIPLIERS[0]
        low_b = c2 * MULTIPLIERS[1]
        c0 = b ^ c1 ^ k0
        c1 = low_b
        c2 = a ^ c3 ^ k1
        c3 = low_a
        k0 = k0 + WEYL[0]
        k1 = k1 + WEYL[1]
    return c0, c1, c2, c3


@helper
def joined(high: u32, low: u32) -> u64:
    return (u64(high) << 32) | u64(low)


@helper
def share32(word: u32) -> f32:
    """A multiple of 2^-24 in [0, 1), made of the upper bits of a word."""
    return f32(i32(word >> 8)) * 2.0**-24


@helper
def share16(word: u32) -> f32:
    """A multiple of 2^-11 in [0, 1), made of the upper bits of a word."""
    return f32(i32(word >> 21)) * 2.0**-11


@helper
def share64(word: u64) -> f64:
    """A multiple of 2^-53 in [0, 1)."""
    return f64(i64(word >> 11)) * 2.0**-53


@helper
def box_muller(u: T, v: T):
    """Two normal numbers out of u in (0, 1] and v in [0, 1)."""
    r = sqrt(-2.0 * log(u))
    t = v * TWO_PI
    return r * cos(t), r * sin(t)


@helper
def count_lanes(numbers: ptr(u64)):
    for j in range(VL):
        numbers[j] = u64(j)


@kernel
def words64(key: ptr(K), counter: ptr(C), out: ptr(u64), count: i64, lo: i64, hi: i64):
    """out: 64 random bits an element; lo, hi: groups."""
    numbers = local(VL, u64)
    count_lanes(numbers)
    for g in range(lo, hi):
        for part in unroll(GROUP // VL):
            first = u64(g * GROUP + part * VL)
            w0, w1, w2, w3 = philox(first + ld(numbers), u64(key[0]), u64(counter[0]))
            at = g * 2 * GROUP + part * VL
            st(out + at, joined(w0, w1), count - at)
            st(out + (at + GROUP), joined(w2, w3), count - at - GROUP)


@kernel
def uniform(key: ptr(K), counter: ptr(C), out: ptr(T), count: i64, lo: i64, hi: i64):
    """out: multiples of 2^-b in [0, 1), b bits as many as T's significand has; lo, hi: groups."""
    numbers = local(VL, u64)
    count_lanes(numbers)
    for g in range(lo, hi):
        for part in unroll(GROUP // VL):
            first = u64(g * GROUP + part * VL)
            w0, w1, w2, w3 = philox(first + ld(numbers), u64(key[0]), u64(counter[0]))
            if T == f64:
                at = g * 2 * GROUP + part * VL
                st(out + at, share64(joined(w0, w1)), count - at)
                st(out + (at + GROUP), share64(joined(w2, w3)), count - at - GROUP)
            else:
                at = g * 4 * GROUP + part * VL
                st(out + at, share16(w0) if T == f16 else share32(w0), count - at)
                st(out + (at + GROUP), share16(w1) if T == f16 else share32(w1), count - at - GROUP)
                st(out + (at + 2 * GROUP), share16(w2) if T == f16 else share32(w2), count - at - 2 * GROUP)
                st(out + (at + 3 * GROUP), share16(w3) if T == f16 else share32(w3), count - at - 3 * GROUP)


@kernel
def normal(key: ptr(K), counter: ptr(C), out: ptr(T), count: i64, lo: i64, hi: i64):
    """out: normal numbers by pairs (Box & Muller 1958), from the words at even places and those at odd ones; lo, hi:
    groups."""
    numbers = local(VL, u64)
    count_lanes(numbers)
    for g in range(lo, hi):
        for part in unroll(GROUP // VL):
            first = u64(g * GROUP + part * VL)
            w0, w1, w2, w3 = philox(first + ld(numbers), u64(key[0]), u64(counter[0]))
            if T == f64:
                at = g * 2 * GROUP + part * VL
                u = (f64(i64(joined(w0, w1) >> 11)) + 0.5) * 2.0**-53
                a, b = box_muller(u, share64(joined(w2, w3)))
                st(out + at, a, count - at)
                st(out + (at + GROUP), b, count - at - GROUP)
            else:
                at = g * 4 * GROUP + part * VL
                a, b = box_muller(f32(w0) * 2.0**-32 + 2.0**-33, share32(w1))
                st(out + at, a, count - at)
                st(out + (at + GROUP), b, count - at - GROUP)
                a, b = box_muller(f32(w2) * 2.0**-32 + 2.0**-33, share32(w3))
                st(out + (at + 2 * GROUP), a, count - at - 2 * GROUP)
                st(out + (at + 3 * GROUP), b, count - at - 3 * GROUP)
