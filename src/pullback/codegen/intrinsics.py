"""The words of the kernel language. Inside a kernel the compiler (and the plain-Python run) give them their meaning."""

from typing import Any


class Intrinsic:
    """A word that has a meaning only inside a kernel."""

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.name}(...) has a meaning only inside a kernel")

    def __repr__(self) -> str:
        return self.name


_WORDS = {
    # loops
    "vrange": "for i in vrange(lo, hi): blocks of VL lanes, then one block with the surplus lanes masked off.",
    "vfull": "for i in vfull(lo, hi[, u]): blocks of u * VL lanes, no tail: hi - lo must be a multiple.",
    "unroll": "for i in unroll(lo, hi, step): a loop written out at compile time; i is a constant.",
    # memory
    "ld": "ld(p[, n]): the VL elements at p as a vector; with n only the first n are read, the rest are 0.",
    "st": "st(p, v[, n]): store a vector at p; with n only its first n lanes.",
    "prefetch": "prefetch(p[, write]): bring the cache line at p near.",
    "regs": "r = regs(n[, type]): n vector registers, zeroed; their index must be a constant.",
    "local": "p = local(n[, type]): n elements of scratch on the stack, 64-byte aligned; n is a constant.",
    # vectors
    "vec": "vec(x): a vector with x in every lane.",
    "vsum": "vsum(v): sum of the live lanes, halves first (lane j meets lane j + VL/2, and so on).",
    "vmax": "vmax(v): greatest of the live lanes; NaN if one is NaN.",
    "vmin": "vmin(v): least of the live lanes; NaN if one is NaN.",
    "vany": "vany(m): whether any live lane of a comparison is true.",
    "vall": "vall(m): whether every live lane of a comparison is true.",
    "vtrans": "vtrans(r): transpose the VL x VL block held in VL registers.",
    "lane": "lane(v, k): the number in lane k.",
    # arithmetic
    "fma": "fma(a, b, c): a * b + c, rounded once.",
    "sqrt": "sqrt(x).",
    "floor": "floor(x), still a float.",
    "ceil": "ceil(x), still a float.",
    "rint": "rint(x): nearest integer, ties to even, still a float.",
    "trunc": "trunc(x): towards zero, still a float.",
    "copysign": "copysign(a, b): |a| with b's sign.",
    "maximum": "maximum(a, b): NumPy's rule: NaN if either is NaN. (Python's max(a, b) gives a unless b > a.)",
    "minimum": "minimum(a, b): NumPy's rule: NaN if either is NaN. (Python's min(a, b) gives a unless b < a.)",
    "isnan": "isnan(x).",
    "isfinite": "isfinite(x): neither NaN nor infinite.",
    "bits": "bits(n): the float with these bits (i32 or u32 to f32, i64 or u64 to f64).",
    "ibits": "ibits(x): the bits of a float as a signed integer of its width.",
    "mulhi": "mulhi(a, b): the upper half of the product of two u32 or two u64.",
    # calls
    "dispatch": "dispatch(kernel, M=m, low=1, high=14)(...): call the specialisation for the run-time integer m.",
}

LIBM_ONE = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf", "erfc", "lgamma", "tgamma",
)  # fmt: skip
LIBM_TWO = ("pow", "atan2", "hypot", "fmod")

_WORDS |= {name: f"{name}(x) from the C library, one lane after the other: slow and right." for name in LIBM_ONE}
_WORDS |= {name: f"{name}(x, y) from the C library, one lane after the other: slow and right." for name in LIBM_TWO}

INTRINSICS = {name: Intrinsic(name, doc) for name, doc in _WORDS.items()}
globals().update(INTRINSICS)

__all__ = sorted(INTRINSICS)  # noqa: PLE0605
