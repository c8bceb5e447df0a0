"""Every operation on every type, as scalars and as vectors, compiled and as plain Python, against NumPy."""

import math

import numpy as np
import pytest

from pullback.codegen import BY_DTYPE, call, from_source

COUNT = 45  # whole vectors and a tail
FLOATS = ("float32", "float64")
SIGNED = ("int8", "int32", "int64")
UNSIGNED = ("uint8", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTEGERS)


def test_every_type_has_a_dtype():
    assert {d.name for d in BY_DTYPE} == {*NUMBERS, "float16", "bool"}


def python_max(a, b):
    return np.where(b > a, b, a)


def python_min(a, b):
    return np.where(b < a, b, a)


def special(dtype: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of ordinary and special numbers."""
    if dtype in FLOATS:
        a = (rng.standard_normal(COUNT) * 10.0 ** rng.integers(-2, 3, COUNT)).astype(dtype)
        b = (rng.standard_normal(COUNT) * 10.0 ** rng.integers(-2, 3, COUNT)).astype(dtype)
        a[:12] = [np.nan, 1, np.inf, -np.inf, 0, -0.0, 2.5, -2.5, 0.5, 3, np.nan, 7]
        b[:12] = [1, np.nan, 2, 5, -0.0, 0, 2.5, 1, -3, np.inf, np.nan, 0]
        return a, b
    info = np.iinfo(dtype)
    a = rng.integers(-50 if info.min else 0, 100, COUNT).astype(dtype)
    b = rng.integers(-50 if info.min else 0, 100, COUNT).astype(dtype)
    if dtype != "int64":  # whose overflow isn't defined
        a[:2], b[:2] = [info.max, info.min], [info.max, 3]
    return a, b


def nonzero(b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, np.array(3, b.dtype), b)


# name: (text with a, b: T, types, what NumPy says)
SAME_TYPE = {
    "add": ("a + b", NUMBERS, np.add),
    "sub": ("a - b", NUMBERS, np.subtract),
    "mul": ("a * b", NUMBERS, np.multiply),
    "div": ("a / b", FLOATS, np.divide),
    "floordiv": ("a // (b if b != 0 else 3)", INTEGERS, lambda a, b: a // nonzero(b)),
    "mod": ("a % (b if b != 0 else 3)", INTEGERS, lambda a, b: a % nonzero(b)),
    "by power of two": ("a // 8 + a % 8", INTEGERS, lambda a, b: a // 8 + a % 8),
    "by seven": ("a // 7 + a % 7", INTEGERS, lambda a, b: a // 7 + a % 7),
    "and": ("a & b", INTEGERS, np.bitwise_and),
    "or": ("a | b", INTEGERS, np.bitwise_or),
    "xor": ("a ^ b", INTEGERS, np.bitwise_xor),
    "not": ("~a", INTEGERS, lambda a, b: ~a),
    "left": ("a << 3", INTEGERS, lambda a, b: a << 3),
    "right": ("a >> 2", INTEGERS, lambda a, b: a >> 2),
    "neg": ("-a", NUMBERS, lambda a, b: -a),
    "plus": ("+a", NUMBERS, lambda a, b: a),
    "cube": ("a ** 3", ("float32", "float64", "int32", "uint32"), lambda a, b: a * (a * a)),
    "zeroth power": ("a ** 0 + b", FLOATS, lambda a, b: 1 + b),
    "literal": ("2 * a - 1", NUMBERS, lambda a, b: 2 * a - 1),
    "float literal": ("0.1 * a + 0.25", FLOATS, lambda a, b: a.dtype.type(0.1) * a + a.dtype.type(0.25)),
    "max": ("max(a, b)", NUMBERS, python_max),
    "min": ("min(a, b)", NUMBERS, python_min),
    "maximum": ("maximum(a, b)", NUMBERS, np.maximum),
    "minimum": ("minimum(a, b)", NUMBERS, np.minimum),
    "maximum of a literal": ("maximum(1, a)", NUMBERS, lambda a, b: np.maximum(a, a.dtype.type(1))),
    "abs": ("abs(a)", NUMBERS, lambda a, b: np.abs(a)),
    "choice": ("a if a < b else b + 1", NUMBERS, lambda a, b: np.where(a < b, a, b + a.dtype.type(1))),
    "sqrt": ("sqrt(a)", FLOATS, lambda a, b: np.sqrt(a)),
    "floor": ("floor(a)", FLOATS, lambda a, b: np.floor(a)),
    "ceil": ("ceil(a)", FLOATS, lambda a, b: np.ceil(a)),
    "rint": ("rint(a)", FLOATS, lambda a, b: np.rint(a)),
    "trunc": ("trunc(a)", FLOATS, lambda a, b: np.trunc(a)),
    "copysign": ("copysign(a, b)", FLOATS, np.copysign),
    "bits": ("bits(ibits(a))", FLOATS, lambda a, b: a),
}
COMPARISONS = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
TRUTHS = {f"a {sign} b": (NUMBERS, rule) for sign, rule in COMPARISONS.items()} | {
    "0 <= a <= b": (NUMBERS, lambda a, b: (0 <= a) & (a <= b)),
    "not a < b": (NUMBERS, lambda a, b: ~(a < b)),
    "~(a < b)": (NUMBERS, lambda a, b: ~(a < b)),
    "a < b and a > 1": (NUMBERS, lambda a, b: (a < b) & (a > 1)),
    "a < b or a > 1": (NUMBERS, lambda a, b: (a < b) | (a > 1)),
    "(a < b) ^ (a > 1)": (NUMBERS, lambda a, b: (a < b) ^ (a > 1)),
    "(a < b) == (a > 1)": (NUMBERS, lambda a, b: (a < b) == (a > 1)),
    "bool_(a)": (NUMBERS, lambda a, b: a != 0),
    "isnan(a)": (FLOATS, lambda a, b: np.isnan(a)),
    "isfinite(a)": (FLOATS, lambda a, b: np.isfinite(a)),
}


def run_all(texts: list[str], source: str, results: list[str], a: np.ndarray, b: np.ndarray) -> list[list[np.ndarray]]:
    """The results of each expression: [each text] from scalar and vector loops, compiled and as plain Python."""
    outputs = ", ".join(f"y{i}: ptr({t})" for i, t in enumerate(results))
    stores = [f"        y{i}[i] = {text}" for i, text in enumerate(texts)]
    dtypes = {t.name: d for d, t in BY_DTYPE.items()}
    runs = []
    for loop in ("range", "vrange"):
        head = f"def each(p: ptr({source}), q: ptr({source}), {outputs}, lo: i64, hi: i64):"
        loads = [f"    for i in {loop}(lo, hi):", "        a = p[i]", "        b = q[i]"]
        kernel = from_source("each", "\n".join([head, *loads, *stores, ""]), strict=True)
        for compiled in (True, False):
            arrays = [np.zeros(COUNT, dtypes[t]) for t in results]
            if compiled:
                call(kernel, a.copy(), b.copy(), *arrays, n=COUNT)
            else:
                kernel.python(a.copy(), b.copy(), *arrays, lo=0, hi=COUNT)
            runs.append(arrays)
    return runs


@pytest.mark.parametrize("dtype", NUMBERS)
def test_operations_within_a_type(dtype, rng):
    a, b = special(dtype, rng)
    kind = BY_DTYPE[np.dtype(dtype)].name
    chosen = {name: (text, rule) for name, (text, types, rule) in SAME_TYPE.items() if dtype in types}
    runs = run_all([text for text, _ in chosen.values()], kind, [kind] * len(chosen), a, b)
    with np.errstate(all="ignore"):
        for i, (name, (_, rule)) in enumerate(chosen.items()):
            wanted = rule(a, b)
            assert wanted.dtype == dtype
            for run in runs:
                np.testing.assert_array_equal(run[i], wanted, err_msg=name)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_comparisons(dtype, rng):
    a, b = special(dtype, rng)
    b[::5] = a[::5]
    chosen = {text: rule for text, (types, rule) in TRUTHS.items() if dtype in types}
    runs = run_all(list(chosen), BY_DTYPE[np.dtype(dtype)].name, ["bool_"] * len(chosen), a, b)
    for i, (text, rule) in enumerate(chosen.items()):
        for run in runs:
            np.testing.assert_array_equal(run[i], rule(a, b), err_msg=text)


@pytest.mark.parametrize("source", [*NUMBERS, "bool"])
def test_conversions(source, rng):
    """From each type to each: exact values, and wrapping between integers."""
    targets = [t for t in BY_DTYPE.values() if t.name != "f16"]
    a = rng.integers(-100 if np.dtype(source).kind in "if" else 0, 100, COUNT).astype(source)
    if source in INTEGERS:
        a[:3] = np.iinfo(source).max, np.iinfo(source).min, 1
    texts = [f"{t.name}(a)" for t in targets]
    runs = run_all(texts, BY_DTYPE[np.dtype(source)].name, [t.name for t in targets], a, a)
    for i, target in enumerate(targets):
        wanted = a.astype(target.dtype)
        clear = (a >= 0) if source in FLOATS and target.kind == "unsigned" else np.ones(COUNT, bool)
        for run in runs:
            np.testing.assert_array_equal(run[i][clear], wanted[clear], err_msg=f"{source} to {target}")


def test_a_float_is_cut_towards_zero_and_rounded_to_nearest(rng):
    a = rng.uniform(-90, 90, COUNT)
    runs = run_all(["i32(a)", "i8(a)", "f64(f32(a))"], "f64", ["i32", "i8", "f64"], a, a)
    for run in runs:
        for result, wanted in zip(run, (a.astype("i4"), a.astype("i1"), a.astype("f4").astype("f8"))):
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_rounds_once(dtype, rng):
    """a * b is just above or below what the sum with c cancels: rounding twice would give another number."""
    kind = BY_DTYPE[np.dtype(dtype)]
    a = (1 + rng.random(COUNT)).astype(dtype)
    b = (1 + rng.random(COUNT)).astype(dtype)
    runs = run_all(["fma(a, b, -(a * b))", "fma(a, 0.5, b)", "fma(-a, b, 2.0)"], kind.name, [kind.name] * 3, a, b)
    from fractions import Fraction

    def exact(x, y, z):
        return np.array(
            [float(Fraction(float(i)) * Fraction(float(j)) + Fraction(float(k))) for i, j, k in zip(x, y, z)]
        )

    wanted = exact(a, b, -(a * b))
    assert (wanted != 0).sum() > COUNT // 2
    for run in runs:
        np.testing.assert_array_equal(run[0], wanted.astype(dtype))
        np.testing.assert_array_equal(run[1], runs[0][1])
        np.testing.assert_allclose(run[2], exact(-a, b, np.full(COUNT, 2.0)), rtol=np.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_mulhi(dtype, rng):
    a, b = rng.integers(0, np.iinfo(dtype).max, (2, COUNT), dtype=dtype, endpoint=True)
    kind = BY_DTYPE[np.dtype(dtype)]
    wanted = np.array([int(x) * int(y) >> kind.bits for x, y in zip(a, b)], dtype)
    for run in run_all(["mulhi(a, b)"], kind.name, [kind.name], a, b):
        np.testing.assert_array_equal(run[0], wanted)


def test_the_full_product_of_two_u32(rng):
    a, b = rng.integers(0, 2**32, (2, COUNT), dtype=np.uint32)
    for run in run_all(["u64(a) * u64(b)"], "u32", ["u64"], a, b):
        np.testing.assert_array_equal(run[0], a.astype("u8") * b.astype("u8"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_bit_patterns(dtype, rng):
    kind, whole = BY_DTYPE[np.dtype(dtype)].name, {"float32": "i32", "float64": "i64"}[dtype]
    a, b = special(dtype, rng)
    for run in run_all(["ibits(a)"], kind, [whole], a, b):
        np.testing.assert_array_equal(run[0], a.view(run[0].dtype))


LIBM = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "cbrt": np.cbrt, "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc),
    "lgamma": np.vectorize(math.lgamma), "tgamma": np.vectorize(math.gamma),
}  # fmt: skip
LIBM_TWO = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot, "fmod": np.fmod}


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_c_library(dtype, rng):
    kind = BY_DTYPE[np.dtype(dtype)].name
    a, b = rng.uniform(0.05, 0.95, COUNT).astype(dtype), rng.uniform(0.1, 3, COUNT).astype(dtype)
    texts = [f"{name}(a + 1.0)" if name == "acosh" else f"{name}(a)" for name in LIBM]
    texts += [f"{name}(a, b)" for name in LIBM_TWO] + ["pow(a, 2.5)", "atan2(1.0, b)"]
    runs = run_all(texts, kind, [kind] * len(texts), a, b)
    x, y = a.astype("f8"), b.astype("f8")
    wanted = [rule(x + 1 if name == "acosh" else x) for name, rule in LIBM.items()]
    wanted += [rule(x, y) for rule in LIBM_TWO.values()] + [x**2.5, np.arctan2(1, y)]
    for i, text in enumerate(texts):
        for run in runs:
            np.testing.assert_allclose(run[i], wanted[i], rtol=64 * np.finfo(dtype).eps, atol=1e-7, err_msg=text)


def test_poles_and_domains_of_the_c_library():
    a = np.resize(np.array([0.0, -1.0, np.inf, np.nan, -np.inf, 1000.0]), COUNT)
    with np.errstate(all="ignore"):
        wanted = {"log": np.log(a), "exp": np.exp(a), "acos": np.arccos(a), "atanh": np.arctanh(a)}
    for run in run_all([f"{name}(a)" for name in wanted], "f64", ["f64"] * len(wanted), a, a):
        for result, values in zip(run, wanted.values()):
            np.testing.assert_array_equal(result, values)
