"""The words of the kernel language. Inside a kernel the compiler (and the plain-Python run) give them their meaning."""

from typing import Any


class Intrinsic:
    """A word that has a meaning only inside a kernel. `libm_arguments` counts those of a C library function."""

    def __init__(self, name: str, doc: str, libm_arguments: int = 0) -> None:
        self.name = name
        self.__doc__ = doc
        self.libm_arguments = libm_arguments

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.name}(...) has a meaning only inside a kernel")

    def __repr__(self) -> str:
        return self.name


# Loops
vrange = Intrinsic("vrange", "for i in vrange(lo, hi): blocks of VL lanes, the last one with the surplus lanes off.")
vfull = Intrinsic("vfull", "for i in vfull(lo, hi[, u]): blocks of u * VL lanes; hi - lo must be a multiple of that.")
unroll = Intrinsic("unroll", "for i in unroll(lo, hi, step): written out at compile time; i is a constant.")

# Memory
ld = Intrinsic("ld", "ld(p[, n]): the VL elements at p as a vector; with n only the first n are read, the rest are 0.")
st = Intrinsic("st", "st(p, v[, n]): store a vector at p; with n only its first n lanes.")
prefetch = Intrinsic("prefetch", "prefetch(p[, write]): bring the cache line at p near.")
regs = Intrinsic("regs", "r = regs(n[, type]): n vector registers, zeroed; an index into them must be a constant.")
local = Intrinsic("local", "p = local(n[, type]): n elements of stack scratch, 64-byte aligned; n is a constant.")

# Vectors
vec = Intrinsic("vec", "vec(x): a vector with x in every lane.")
vsum = Intrinsic("vsum", "vsum(v): sum of the live lanes, by halves (lane j meets lane j + VL/2, then j + VL/4, ...).")
vmax = Intrinsic("vmax", "vmax(v): greatest of the live lanes; NaN if one is NaN.")
vmin = Intrinsic("vmin", "vmin(v): least of the live lanes; NaN if one is NaN.")
vany = Intrinsic("vany", "vany(m): whether any live lane of a comparison is true.")
vall = Intrinsic("vall", "vall(m): whether every live lane of a comparison is true.")
vtrans = Intrinsic("vtrans", "vtrans(r): transpose the VL x VL block held in the VL registers r.")
lane = Intrinsic("lane", "lane(v, k): the number in lane k.")

# Arithmetic
fma = Intrinsic("fma", "fma(a, b, c): a * b + c, rounded once.")
sqrt = Intrinsic("sqrt", "sqrt(x).")
floor = Intrinsic("floor", "floor(x), still a float.")
ceil = Intrinsic("ceil", "ceil(x), still a float.")
rint = Intrinsic("rint", "rint(x): the nearest integer, ties to even, still a float.")
trunc = Intrinsic("trunc", "trunc(x): towards zero, still a float.")
copysign = Intrinsic("copysign", "copysign(a, b): |a| with the sign of b.")
maximum = Intrinsic("maximum", "maximum(a, b): NumPy's rule, NaN if either is NaN. (max(a, b) is a unless b > a.)")
minimum = Intrinsic("minimum", "minimum(a, b): NumPy's rule, NaN if either is NaN. (min(a, b) is a unless b < a.)")
isnan = Intrinsic("isnan", "isnan(x).")
isfinite = Intrinsic("isfinite", "isfinite(x): neither NaN nor infinite.")
bits = Intrinsic("bits", "bits(n): the float with these bits (i32 or u32 to f32, i64 or u64 to f64).")
ibits = Intrinsic("ibits", "ibits(x): the bits of a float, as a signed integer of its width.")
mulhi = Intrinsic("mulhi", "mulhi(a, b): the upper half of the product of two u32 or two u64.")

# Calls
dispatch = Intrinsic("dispatch", "dispatch(k, M=m, low=1, high=14)(...): the specialisation of k for a run-time m.")


def _libm(name: str, arguments: str) -> Intrinsic:
    doc = f"{name}({arguments}) of the C library, one lane after the other: slow and right."
    return Intrinsic(name, doc, libm_arguments=arguments.count(",") + 1)


exp = _libm("exp", "x")
exp2 = _libm("exp2", "x")
expm1 = _libm("expm1", "x")
log = _libm("log", "x")
log2 = _libm("log2", "x")
log10 = _libm("log10", "x")
log1p = _libm("log1p", "x")
sin = _libm("sin", "x")
cos = _libm("cos", "x")
tan = _libm("tan", "x")
asin = _libm("asin", "x")
acos = _libm("acos", "x")
atan = _libm("atan", "x")
sinh = _libm("sinh", "x")
cosh = _libm("cosh", "x")
tanh = _libm("tanh", "x")
asinh = _libm("asinh", "x")
acosh = _libm("acosh", "x")
atanh = _libm("atanh", "x")
cbrt = _libm("cbrt", "x")
erf = _libm("erf", "x")
erfc = _libm("erfc", "x")
lgamma = _libm("lgamma", "x")
tgamma = _libm("tgamma", "x")
pow = _libm("pow", "x, y")
atan2 = _libm("atan2", "y, x")
hypot = _libm("hypot", "x, y")
fmod = _libm("fmod", "x, y")

INTRINSICS = {name: word for name, word in globals().items() if isinstance(word, Intrinsic)}
__all__ = list(INTRINSICS)
