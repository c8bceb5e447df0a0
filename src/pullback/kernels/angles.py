"""Vector trigonometry and its inverses. float32 has code of its own, float64 calls the C library; see `vmath`."""

from ..codegen import T, copysign, f32, f64, fma, helper, i64, ibits, isnan, rint, sqrt, unroll, vany, vec
from ..codegen import acos as libm_acos
from ..codegen import asin as libm_asin
from ..codegen import atan as libm_atan
from ..codegen import atan2 as libm_atan2
from ..codegen import cos as libm_cos
from ..codegen import sin as libm_sin
from ..codegen import tan as libm_tan

INFINITY = float("inf")
PI, HALF_PI, QUARTER_PI = 3.141592653589793, 1.5707963267948966, 0.7853981633974483
HALF_PI_LOW = 6.123233995736766e-17
TWO_OVER_PI_ALL = 0.6366197723675814
# 2 / pi in pieces of 24 bits, so that their products with a float32 are exact in float64
TWO_OVER_PI = (
    0.6366197466850281, 2.5682552973194106e-08, 2.937095214933759e-16, 3.2543794001732456e-23, 1.2089613708828537e-29,
    5.667556795740071e-37, 2.6204031112097215e-44, 7.053957680880629e-52, 1.582624282116559e-58,
)  # fmt: skip


@helper
def _quadrant(x: f32):
    """(r, q) with x = q pi / 2 + r modulo 2 pi and |r| <= pi / 4.

    Beyond 2^20 q comes from the product of x with 2 / pi, piece by piece, whole multiples dropped on the way.
    """
    wide = f64(x)
    n = rint(wide * TWO_OVER_PI_ALL)
    r = fma(n, -HALF_PI_LOW, fma(n, -HALF_PI, wide))
    if vany(vec(abs(x) > 1048576.0)):
        large = abs(x) > 1048576.0
        turns = wide * 0.0  # NaN where x is infinite
        quarter = wide * 0.0
        for j in unroll(9):
            part = wide * TWO_OVER_PI[j]
            part = part - 4.0 * rint(0.25 * part)
            turns = turns + part
            whole = rint(turns)
            turns = turns - whole
            quarter = quarter + whole
        r = turns * HALF_PI if large else r
        n = quarter if large else n
    return f32(r), i64(n)


@helper
def _sin_near(r: f32) -> f32:
    """sin r for |r| <= pi / 4."""
    z = r * r
    p = -1.9516656175255775e-4 * z + 8.332173340022564e-3
    p = p * z - 0.16666655242443085
    return r * z * p + r


@helper
def _cos_near(r: f32) -> f32:
    """cos r for |r| <= pi / 4."""
    z = r * r
    p = 2.4437729734927416e-5 * z - 1.388736185617745e-3
    p = p * z + 4.166664555668831e-2
    return z * z * p + (1.0 - 0.5 * z)


@helper
def sin(x: T) -> T:
    if T == f32:
        r, q = _quadrant(x)
        y = _cos_near(r) if (q & 1) != 0 else _sin_near(r)
        return -y if (q & 2) != 0 else y
    return libm_sin(x)


@helper
def cos(x: T) -> T:
    if T == f32:
        r, q = _quadrant(x)
        y = _sin_near(r) if (q & 1) != 0 else _cos_near(r)
        return -y if ((q + 1) & 2) != 0 else y
    return libm_cos(x)


@helper
def tan(x: T) -> T:
    if T == f32:
        r, q = _quadrant(x)
        s = _sin_near(r)
        c = _cos_near(r)
        return -c / s if (q & 1) != 0 else s / c
    return libm_tan(x)


@helper
def _atan_ratio(a: f64, b: f64) -> f32:
    """The angle in [0, pi / 2] of the point (b, a), both at least 0: Cephes' atanf on the ratio."""
    high = a > 2.414213562373095 * b
    low = a <= 0.4142135623730951 * b
    above = -b if high else (a if low else a - b)
    below = a if high else (b if low else a + b)
    base = f32(HALF_PI) if high else (f32(0) if low else f32(QUARTER_PI))
    t = f32(above / below)
    z = t * t
    p = -6.0777705162763596e-2 * z + 0.1059364452958107
    p = p * z - 0.14243511855602264
    p = p * z + 0.19998469948768616
    p = p * z - 0.33333316445350647
    return base + (t * z * p + t)


@helper
def atan(x: T) -> T:
    if T == f32:
        r = _atan_ratio(f64(abs(x)), f64(1))
        return copysign(r, x)
    return libm_atan(x)


@helper
def _atan2_32(y: f32, x: f32) -> f32:
    both = abs(y) == INFINITY and abs(x) == INFINITY
    a = f64(1) if both else f64(abs(y))
    b = f64(1) if both else f64(abs(x))
    r = _atan_ratio(a, b)
    r = f32(0) if a == 0.0 and b == 0.0 else r
    r = f32(PI) - r if ibits(x) < 0 else r
    return x + y if isnan(x) or isnan(y) else copysign(r, y)


@helper
def atan2(y: T, x: T) -> T:
    """The angle of the point (x, y); a zero's sign chooses the side of the cut."""
    if T == f32:
        return _atan2_32(y, x)
    return libm_atan2(y, x)


@helper
def _asin_near(x: f32, z: f32) -> f32:
    """asin x for 0 <= x <= 1/2, z = x^2."""
    p = 4.2218420654535294e-2 * z + 2.4147674441337585e-2
    p = p * z + 4.5477088540792465e-2
    p = p * z + 7.495241612195969e-2
    p = p * z + 0.16666753590106964
    return x * z * p + x


@helper
def asin(x: T) -> T:
    """asin x, from 1/2 on as pi / 2 - 2 asin(sqrt((1 - x) / 2))."""
    if T == f32:
        a = abs(x)
        far = a > 0.5
        z = 0.5 * (1.0 - a) if far else a * a
        r = _asin_near(sqrt(z) if far else a, z)
        r = f32(HALF_PI) - 2.0 * r if far else r
        return -r if x < 0.0 else r
    return libm_asin(x)


@helper
def acos(x: T) -> T:
    """acos x = pi / 2 - asin x, and 2 asin(sqrt((1 - x) / 2)) from 1/2 on, mirrored below -1/2."""
    if T == f32:
        a = abs(x)
        far = a > 0.5
        z = 0.5 * (1.0 - a) if far else a * a
        r = _asin_near(sqrt(z) if far else a, z)
        near = f32(HALF_PI) - (-r if x < 0.0 else r)
        away = f32(PI) - 2.0 * r if x < 0.0 else 2.0 * r
        return away if far else near
    return libm_acos(x)
