"""Vector mathematics: the functions that elementwise formulas may call.

float32 has code of its own: a polynomial in float32 for what training leans on (1 to 3 ulp), float64 arithmetic for the
rest (rounded once, nearly). float64 calls the C library lane by lane. Everything is right at infinities, NaN, zeros and
subnormals; the sign of a zero isn't promised. Polynomials without a source are minimax fits made for this library.
"""

from ..codegen import (
    T,
    bits,
    copysign,
    f32,
    f64,
    floor,
    fma,
    helper,
    i32,
    i64,
    ibits,
    maximum,
    minimum,
    rint,
    sqrt,
)
from ..codegen import acosh as libm_acosh
from ..codegen import asinh as libm_asinh
from ..codegen import atanh as libm_atanh
from ..codegen import cbrt as libm_cbrt
from ..codegen import cosh as libm_cosh
from ..codegen import erf as libm_erf
from ..codegen import erfc as libm_erfc
from ..codegen import exp as libm_exp
from ..codegen import exp2 as libm_exp2
from ..codegen import expm1 as libm_expm1
from ..codegen import fmod as libm_fmod
from ..codegen import hypot as libm_hypot
from ..codegen import log as libm_log
from ..codegen import log1p as libm_log1p
from ..codegen import log2 as libm_log2
from ..codegen import log10 as libm_log10
from ..codegen import pow as libm_pow
from ..codegen import sinh as libm_sinh
from ..codegen import tanh as libm_tanh
from .angles import acos, asin, atan, atan2, cos, sin, tan

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
SQRT_HALF = 0.7071067811865476
NORMAL_PEAK = 0.3989422804014327  # 1 / sqrt(2 pi)
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4  # Cody and Waite: the high part has few bits, so that n * it is exact
LOG10_2 = 0.30102999566398120
ROUND = 12582912.0  # 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
ROUND_BITS = 0x4B400000
INFINITY = float("inf")


# --- exponentials -----------------------------------------------------------------------------------------------------


@helper
def _scaled(x: f32, n: i32) -> f32:
    """x * 2^n, in two steps so that results may be subnormal or overflow."""
    half = n >> 1
    return x * bits((half + 127) << 23) * bits((n - half + 127) << 23)


@helper
def _exp32(x0: f32) -> f32:
    """Cephes' expf: x = n ln 2 + r, e^r by a polynomial of degree 7; 1 ulp."""
    x = minimum(maximum(x0, -104.0), 89.0)
    rounded = x * LOG2E + ROUND
    n = rounded - ROUND
    r = x - n * LN2_HIGH - n * LN2_LOW
    p = 1.9875691500e-4 * r + 1.3981999507e-3
    p = p * r + 8.3334519073e-3
    p = p * r + 4.1665795894e-2
    p = p * r + 1.6666665459e-1
    p = p * r + 5.0000001201e-1
    p = p * (r * r) + r + 1.0
    return _scaled(p, ibits(rounded) - ROUND_BITS)


@helper
def exp(x: T) -> T:
    if T == f32:
        return _exp32(x)
    return libm_exp(x)


@helper
def _expm1_32(x0: f32) -> f32:
    """x = n ln 2 + r: 2^n (e^r - 1) + (2^n - 1); 2^n is halved so that n may be 128."""
    x = minimum(maximum(x0, -25.0), 89.0)
    rounded = x * LOG2E + ROUND
    n = rounded - ROUND
    r = x - n * LN2_HIGH - n * LN2_LOW
    p = 1.9845903443638235e-4 * r + 1.3940719654783607e-3
    p = p * r + 8.333389647305012e-3
    p = p * r + 4.166635870933533e-2
    p = p * r + 0.1666666567325592
    p = p * r + 0.5
    p = p * (r * r) + r
    half = bits((ibits(rounded) - (ROUND_BITS - 126)) << 23)
    return p if n == 0.0 else 2.0 * (half * p + (half - 0.5))


@helper
def expm1(x: T) -> T:
    """e^x - 1, exact to 2 ulp near zero too."""
    if T == f32:
        return _expm1_32(x)
    return libm_expm1(x)


@helper
def _exp2_64(x0: f64) -> f64:
    """2^x for |x| up to 1000, relative error 2e-9: enough for a result in float32."""
    x = minimum(maximum(x0, -1000.0), 1000.0)
    n = rint(x)
    r = x - n
    p = 1.5478023601404363e-4 * r + 1.3400430995820936e-3
    p = p * r + 9.61799449061154e-3
    p = p * r + 5.5503272175183214e-2
    p = p * r + 0.2402265150562167
    p = p * r + 0.6931472067085682
    p = p * r + 0.999999999918907
    return p * bits((i64(n) + 1023) << 52)


@helper
def exp2(x: T) -> T:
    if T == f32:
        return f32(_exp2_64(f64(x)))
    return libm_exp2(x)


@helper
def sigmoid(x: T) -> T:
    """1 / (1 + e^-x), from e^-|x|, which doesn't overflow."""
    e = exp(-abs(x))
    return (e if x < 0.0 else T(1)) / (1.0 + e)


@helper
def tanh(x: T) -> T:
    """Cephes' tanhf: a polynomial near zero, 1 - 2 / (e^2x + 1) elsewhere."""
    if T == f32:
        z = x * x
        p = -5.70498872745e-3 * z + 2.06390887954e-2
        p = p * z - 5.37397155531e-2
        p = p * z + 1.33314422036e-1
        p = p * z - 3.33332819422e-1
        near = x * z * p + x
        far = 1.0 - 2.0 / (_exp32(2.0 * abs(x)) + 1.0)
        far = -far if x < 0.0 else far
        return near if abs(x) < 0.625 else far
    return libm_tanh(x)


@helper
def sinh(x: T) -> T:
    if T == f32:
        z = x * x
        p = 2.816950882333913e-6 * z + 1.983615948120132e-4
        p = p * z + 8.333349600434303e-3
        p = p * z + 0.1666666716337204
        e = _exp2_64(f64(x) * LOG2E)
        return x * z * p + x if abs(x) < 1.0 else f32(0.5 * (e - 1.0 / e))
    return libm_sinh(x)


@helper
def cosh(x: T) -> T:
    if T == f32:
        e = _exp2_64(f64(x) * LOG2E)
        return f32(0.5 * (e + 1.0 / e))
    return libm_cosh(x)


# --- logarithms -------------------------------------------------------------------------------------------------------


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
    p = 7.0376836292e-2 * y - 1.1514610310e-1
    p = p * y + 1.1676998740e-1
    p = p * y - 1.2420140846e-1
    p = p * y + 1.4249322787e-1
    p = p * y - 1.6668057665e-1
    p = p * y + 2.0000714765e-1
    p = p * y - 2.4999993993e-1
    p = p * y + 3.3333331174e-1
    r = n * LN2_LOW + y * z * p
    r = r - 0.5 * z
    r = n * LN2_HIGH + (y + r)
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
def _log2_series(s: f64) -> f64:
    """log2((1 + s) / (1 - s)) for |s| < 0.1716, relative error 1e-11."""
    z = s * s
    p = 0.34074255481431914 * z + 0.4116719999525037
    p = p * z + 0.577083597950324
    p = p * z + 0.9617966732666454
    return s * (p * z + 2.8853900817901548)


@helper
def _log2_64(x: f64) -> f64:
    """log2 x for a positive, normal x."""
    b = ibits(x)
    m = bits((b & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000)
    high = m > 1.4142135623730951
    m = 0.5 * m if high else m
    n = f64((b >> 52) - (1022 if high else 1023))
    return n + _log2_series((m - 1.0) / (m + 1.0))


@helper
def _log2_any(x: f64) -> f64:
    """log2 x of a float32 held in float64 (so that no subnormal is left)."""
    r = _log2_64(x)
    r = -INFINITY if x == 0.0 else r
    r = x if x == INFINITY else r
    return r if x >= 0.0 else (x - x) / (x - x)


@helper
def _log1p_64(x: f64) -> f64:
    """log(1 + x) for x > -1, with full relative precision near zero."""
    near = _log2_series(x / (2.0 + x))
    return LN2 * (near if -0.29 < x < 0.41 else _log2_64(1.0 + x))


@helper
def log2(x: T) -> T:
    if T == f32:
        return f32(_log2_any(f64(x)))
    return libm_log2(x)


@helper
def log10(x: T) -> T:
    if T == f32:
        return f32(LOG10_2 * _log2_any(f64(x)))
    return libm_log10(x)


@helper
def asinh(x: T) -> T:
    if T == f32:
        a = f64(abs(x))
        z = a * a
        r = f32(_log1p_64(a + z / (1.0 + sqrt(1.0 + z))))
        r = r if abs(x) < INFINITY else abs(x)
        return -r if x < 0.0 else r
    return libm_asinh(x)


@helper
def acosh(x: T) -> T:
    if T == f32:
        t = f64(x) - 1.0
        r = f32(_log1p_64(t + sqrt(t * (t + 2.0))))
        r = x if x == INFINITY else r
        return r if x >= 1.0 else (x - x) / (x - x)
    return libm_acosh(x)


@helper
def atanh(x: T) -> T:
    if T == f32:
        a = f64(abs(x))
        r = f32(0.5 * _log1p_64(2.0 * a / (1.0 - a)))
        r = INFINITY if a == 1.0 else r
        r = r if a <= 1.0 else (x - x) / (x - x)
        return -r if x < 0.0 else r
    return libm_atanh(x)


# --- powers -----------------------------------------------------------------------------------------------------------


@helper
def _pow32(x: f32, y: f32) -> f32:
    """|x|^y = 2^(y log2 |x|), with the C library's rules for signs and special values."""
    a = f64(abs(x))
    r = f32(_exp2_64(f64(y) * _log2_any(a)))
    whole = y == floor(y)
    odd = whole and floor(0.5 * y) * 2.0 != y
    r = -r if ibits(x) < 0 and odd else r
    invalid = x < 0.0 and not whole and x != -INFINITY
    r = (x - x) / (x - x) if invalid else r
    r = f32(1) if x == -1.0 and abs(y) == INFINITY else r
    return f32(1) if x == 1.0 or y == 0.0 else r


@helper
def pow(x: T, y: T) -> T:
    if T == f32:
        return _pow32(x, y)
    return libm_pow(x, y)


@helper
def cbrt(x: T) -> T:
    if T == f32:
        r = f32(_exp2_64(0.3333333333333333 * _log2_any(f64(abs(x)))))
        return -r if x < 0.0 else r
    return libm_cbrt(x)


@helper
def hypot(x: T, y: T) -> T:
    """sqrt(x^2 + y^2); infinite where either is, even beside a NaN."""
    if T == f32:
        a = f64(x)
        b = f64(y)
        r = f32(sqrt(a * a + b * b))
        return INFINITY if abs(x) == INFINITY or abs(y) == INFINITY else r
    return libm_hypot(x, y)


# --- the error function -----------------------------------------------------------------------------------------------


@helper
def _erf_near(x: f32) -> f32:
    """erf x for |x| <= 1."""
    z = x * x
    p = 7.85385345807299e-5 * z - 8.010190795175731e-4
    p = p * z + 5.18832728266716e-3
    p = p * z - 2.6853810995817184e-2
    p = p * z + 0.1128358542919159
    p = p * z - 0.3761262595653534
    p = p * z + 0.12837916612625122
    return x * p + x


@helper
def _erfc_scaled(a: f32) -> f32:
    """e^(a^2) erfc a for 0 <= a <= 10.2: a polynomial in t = (a - 3) / (a + 3), over a + 3."""
    r = 1.0 / (a + 3.0)
    t = (a - 3.0) * r
    p = -3.2533565536141396e-4 * t - 4.831808328162879e-4
    p = p * t + 3.0803277622908354e-3
    p = p * t - 1.2264284305274487e-3
    p = p * t - 2.683982625603676e-2
    p = p * t + 0.11952906847000122
    p = p * t - 0.3104660212993622
    p = p * t + 0.5902283191680908
    p = p * t - 0.8833944797515869
    p = p * t + 1.0740069150924683
    return p * r


@helper
def _tail_scaled(a: f32) -> f32:
    """e^(a^2 / 2) ndtr(-a) for 0 <= a <= 14.5: a polynomial in t = (a - 4) / (a + 4), over a + 4."""
    r = 1.0 / (a + 4.0)
    t = (a - 4.0) * r
    p = -1.3197175576351583e-4 * t + 1.793544361134991e-4
    p = p * t + 1.5699239447712898e-3
    p = p * t - 3.5125536378473043e-3
    p = p * t - 7.525271736085415e-3
    p = p * t + 6.040383130311966e-2
    p = p * t - 0.1865234375
    p = p * t + 0.38713690638542175
    p = p * t - 0.6078965663909912
    p = p * t + 0.7552851438522339
    return p * r


@helper
def _exp_minus_product(x: f32, y: f32) -> f32:
    """e^(-x y), with the rounding error of the product put right."""
    s = x * y
    return _exp32(-s) * (1.0 - fma(x, y, -s))


@helper
def _erfc_far(x: f32) -> f32:
    """erfc |x|, but for |x| near 0."""
    a = minimum(abs(x), 10.2)
    return _exp_minus_product(a, a) * _erfc_scaled(a)


@helper
def erf(x: T) -> T:
    if T == f32:
        far = 1.0 - _erfc_far(x)
        return _erf_near(x) if abs(x) < 1.0 else copysign(far, x)
    return libm_erf(x)


@helper
def erfc(x: T) -> T:
    """1 - erf x, without cancellation for large x."""
    if T == f32:
        far = _erfc_far(x)
        far = 2.0 - far if x < 0.0 else far
        return 1.0 - _erf_near(x) if abs(x) < 0.5 else far
    return libm_erfc(x)


@helper
def ndtr(x: T) -> T:
    """Distribution function of the standard normal: erfc(-x / sqrt(2)) / 2."""
    if T == f32:
        a = minimum(abs(x), 14.5)
        far = _exp_minus_product(0.5 * a, a) * _tail_scaled(a)
        return far if x < 0.0 else 1.0 - far
    return 0.5 * libm_erfc(-SQRT_HALF * x)


@helper
def gelu_slope(x: T) -> T:
    """Derivative of x ndtr(x): ndtr(x) + x e^(-x^2 / 2) / sqrt(2 pi)."""
    a = minimum(abs(x), 14.5 if T == f32 else 40.0)
    if T == f32:
        density = _exp_minus_product(0.5 * a, a)
        far = density * (_tail_scaled(a) - NORMAL_PEAK * a)
        return far if x < 0.0 else 1.0 - far
    far = 0.5 * libm_erfc(SQRT_HALF * a) - NORMAL_PEAK * a * libm_exp(-0.5 * a * a)
    return far if x < 0.0 else 1.0 - far


# --- remainders -------------------------------------------------------------------------------------------------------


@helper
def _safe_divisor(y: T) -> T:
    """y, but 1 for the integers 0 and -1, division by which traps (the least integer has no negative)."""
    return T(1) if y == 0 or (y < 0 and ~y == 0) else y


@helper
def mod(x: T, y: T) -> T:
    """What is left of x after a whole number of times y, with the sign of y; integers modulo 0 give 0."""
    if T == f32 or T == f64:
        r = libm_fmod(x, y)
        return r + y if r != 0.0 and (r < 0.0) != (y < 0.0) else r
    return x % _safe_divisor(y)


@helper
def floor_divide(x: T, y: T) -> T:
    """x / y rounded down, exactly; an integer divided by 0 gives 0."""
    if T == f32 or T == f64:
        r = libm_fmod(x, y)
        whole = (x - r) / y - (T(1) if r != 0.0 and (r < 0.0) != (y < 0.0) else T(0))
        down = floor(whole)
        near = down + 1.0 if whole - down > 0.5 else down
        return x / y if y == 0.0 else near
    quotient = x // _safe_divisor(y)
    return T(0) if y == 0 else (T(0) - x if y < 0 and ~y == 0 else quotient)


NAMES = {
    f.name: f
    for f in (
        acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, erf, erfc, exp, exp2, expm1, floor_divide,
        gelu_slope, hypot, log, log10, log1p, log2, mod, ndtr, pow, sigmoid, sin, sinh, tan, tanh,
    )
} | {"INFINITY": INFINITY, "LN2": LN2}  # fmt: skip

# The largest errors of float32 results in units of the last place: tests hold them to it, against mpmath.
ULPS = {
    "acos": 2, "acosh": 1, "asin": 3, "asinh": 1, "atan": 2, "atan2": 2, "atanh": 1, "cbrt": 1, "cos": 2, "cosh": 1,
    "erf": 2, "erfc": 6, "exp": 1, "exp2": 1, "expm1": 2, "floor_divide": 0, "hypot": 1, "log": 1, "log10": 1,
    "log1p": 3, "log2": 1, "mod": 0, "ndtr": 5, "pow": 1, "sigmoid": 3, "sin": 2, "sinh": 1, "tan": 4, "tanh": 2,
}  # fmt: skip
