"""Vector mathematics: the functions that elementwise formulas may call.

float32 has polynomials of its own (a few ulp, right at infinities, NaN, zeros and subnormals); float64 calls the C
library lane by lane.
"""

from ..codegen import T, bits, f32, fma, helper, i32, ibits, maximum, minimum
from ..codegen import exp as libm_exp
from ..codegen import log as libm_log
from ..codegen import log1p as libm_log1p
from ..codegen import tanh as libm_tanh

LOG2E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4  # Cody and Waite: the high part has few bits, so that n * it is exact
ROUND = 12582912.0  # 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
ROUND_BITS = 0x4B400000
INFINITY = float("inf")


@helper
def _scaled(x: f32, n: i32) -> f32:
    """x * 2^n, in two steps so that results may be subnormal or overflow."""
    half = n >> 1
    return x * bits((half + 127) << 23) * bits((n - half + 127) << 23)


@helper
def _exp32(x0: f32) -> f32:
    """Cephes' expf: x = n ln 2 + r, e^r by a polynomial of degree 7; 1 ulp."""
    x = minimum(maximum(x0, -104.0), 89.0)
    rounded = fma(x, LOG2E, ROUND)
    n = rounded - ROUND
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    p = fma(1.9875691500e-4, r, 1.3981999507e-3)
    p = fma(p, r, 8.3334519073e-3)
    p = fma(p, r, 4.1665795894e-2)
    p = fma(p, r, 1.6666665459e-1)
    p = fma(p, r, 5.0000001201e-1)
    p = fma(p, r * r, r) + 1.0
    return _scaled(p, ibits(rounded) - ROUND_BITS)


@helper
def exp(x: T) -> T:
    if T == f32:
        return _exp32(x)
    return libm_exp(x)


@helper
def _log32(x0: f32) -> f32:
    """Cephes' logf: x = m 2^e with sqrt(1/2) <= m < sqrt(2), log m by a polynomial of degree 9; 1 ulp."""
    tiny = x0 < 1.1754944e-38
    x = x0 * 8388608.0 if tiny else x0  # subnormals are lifted by 2^23
    b = ibits(x)
    e = (b >> 23) - 126
    m = bits((b & 0x007FFFFF) | 0x3F000000)
    low = m < 0.70710678
    e = e - 1 if low else e
    y = (m + m if low else m) - 1.0
    n = f32(e) - (23.0 if tiny else 0.0)
    z = y * y
    p = fma(7.0376836292e-2, y, -1.1514610310e-1)
    p = fma(p, y, 1.1676998740e-1)
    p = fma(p, y, -1.2420140846e-1)
    p = fma(p, y, 1.4249322787e-1)
    p = fma(p, y, -1.6668057665e-1)
    p = fma(p, y, 2.0000714765e-1)
    p = fma(p, y, -2.4999993993e-1)
    p = fma(p, y, 3.3333331174e-1)
    r = fma(n, LN2_LOW, y * z * p)
    r = fma(-0.5, z, r)
    r = fma(n, LN2_HIGH, y + r)
    r = -INFINITY if x0 == 0.0 else r
    r = x0 if x0 == INFINITY else r
    return r if x0 >= 0.0 else (x0 - x0) / (x0 - x0)


@helper
def log(x: T) -> T:
    if T == f32:
        return _log32(x)
    return libm_log(x)


@helper
def log1p(x: T) -> T:
    """log(1 + x), with the rounding error of 1 + x put right (Kahan)."""
    if T == f32:
        u = 1.0 + x
        corrected = _log32(u) * (x / (u - 1.0))
        corrected = x if u == 1.0 else corrected
        return u if u == INFINITY else corrected
    return libm_log1p(x)


@helper
def tanh(x: T) -> T:
    """Cephes' tanhf: a polynomial near zero, 1 - 2 / (e^2x + 1) elsewhere."""
    if T == f32:
        z = x * x
        p = fma(-5.70498872745e-3, z, 2.06390887954e-2)
        p = fma(p, z, -5.37397155531e-2)
        p = fma(p, z, 1.33314422036e-1)
        p = fma(p, z, -3.33332819422e-1)
        near = fma(x * z, p, x)
        far = 1.0 - 2.0 / (_exp32(2.0 * abs(x)) + 1.0)
        far = -far if x < 0.0 else far
        return near if abs(x) < 0.625 else far
    return libm_tanh(x)


@helper
def sigmoid(x: T) -> T:
    return 1.0 / (1.0 + exp(-x))


NAMES = {"exp": exp, "log": log, "log1p": log1p, "tanh": tanh, "sigmoid": sigmoid}
