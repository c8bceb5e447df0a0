"""Vector mathematics: float32 errors against mpmath, special values against NumPy, compiled against plain Python."""

from functools import cache

import mpmath
import numpy as np
import pytest
import scipy.special

from pullback import codegen
from pullback.kernels import vmath
from tests.codegen.agree import both
from tests.compile.agreement import under_isa

FLOAT32 = np.finfo(np.float32)

# name: (the exact function, NumPy's or SciPy's)
ONE = {
    "acos": (mpmath.acos, np.arccos),
    "acosh": (mpmath.acosh, np.arccosh),
    "asin": (mpmath.asin, np.arcsin),
    "asinh": (mpmath.asinh, np.arcsinh),
    "atan": (mpmath.atan, np.arctan),
    "atanh": (mpmath.atanh, np.arctanh),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), np.cbrt),
    "cos": (mpmath.cos, np.cos),
    "cosh": (mpmath.cosh, np.cosh),
    "erf": (mpmath.erf, scipy.special.erf),
    "erfc": (mpmath.erfc, scipy.special.erfc),
    "exp": (mpmath.exp, np.exp),
    "exp2": (lambda x: mpmath.power(2, x), np.exp2),
    "expm1": (mpmath.expm1, np.expm1),
    "log": (mpmath.log, np.log),
    "log10": (mpmath.log10, np.log10),
    "log1p": (mpmath.log1p, np.log1p),
    "log2": (lambda x: mpmath.log(x, 2), np.log2),
    "ndtr": (mpmath.ncdf, scipy.special.ndtr),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), scipy.special.expit),
    "sin": (mpmath.sin, np.sin),
    "sinh": (mpmath.sinh, np.sinh),
    "tan": (mpmath.tan, np.tan),
    "tanh": (mpmath.tanh, np.tanh),
}
TWO = {
    "atan2": (mpmath.atan2, np.arctan2),
    "floor_divide": (lambda x, y: mpmath.floor(x / y), np.floor_divide),
    "hypot": (mpmath.hypot, np.hypot),
    "mod": (lambda x, y: x - y * mpmath.floor(x / y), np.mod),
    "pow": (mpmath.power, np.power),
}
BOTH_KINDS = [*ONE.items(), *TWO.items()]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e-45, -1e-45, 3e38, -3e38]


@cache
def applied(name: str) -> codegen.Kernel:
    """A kernel that applies the function to one array or to two."""
    letters = "xz" if name in TWO else "x"
    parameters = ", ".join(f"{v}: ptr(T)" for v in letters)
    call = f"{name}({', '.join(f'{v}[i]' for v in letters)})"
    text = f"def f({parameters}, y: ptr(T), lo: i64, hi: i64):\n    for i in vrange(lo, hi):\n        y[i] = {call}\n"
    return codegen.from_source("f", text, vmath.NAMES)


def run(name: str, *inputs: np.ndarray) -> np.ndarray:
    out = np.empty_like(inputs[0])
    kind = codegen.BY_DTYPE[out.dtype]
    codegen.call(applied(name).specialise(T=kind), *inputs, out, n=out.size)
    return out


def draws(name: str, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Numbers of ordinary size, of every size, and special ones (in all pairs)."""
    letters = 2 if name in TWO else 1
    pairs = [g.ravel() for g in np.meshgrid(*[SPECIAL] * letters)]

    def one(special: np.ndarray) -> np.ndarray:
        any_bits = rng.integers(0, 2**32, count, np.uint32).view(np.float32)
        parts = [special, rng.normal(0, 3, count), rng.uniform(-1, 1, count), rng.uniform(-105, 105, count), any_bits]
        return np.concatenate([np.asarray(p, np.float32) for p in parts])

    return [one(p) for p in pairs]


def in_ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distances of float32 numbers from exact ones (float64) in units of the last place; infinity where only one is
    finite or NaN."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.maximum(np.spacing(np.abs(rounded)), FLOAT32.smallest_subnormal).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    finite = np.isfinite(got) & np.isfinite(rounded)
    overflow = np.isinf(got) & (np.abs(exact) > FLOAT32.max * (1 - 2.0**-23)) & (np.sign(got) == np.sign(exact))
    return np.where(same | overflow, 0, np.where(finite, error, np.inf))


@pytest.mark.parametrize("name, facts", BOTH_KINDS, ids=[name for name, _ in BOTH_KINDS])
def test_float32_error_is_as_stated(name, facts, rng):
    check_errors(name, facts[1], rng, 4000)


def check_errors(name: str, reference, rng: np.random.Generator, count: int) -> None:
    inputs = draws(name, rng, count)
    with np.errstate(all="ignore"):
        if name in ("mod", "floor_divide"):  # exact functions of the float32 numbers as they are
            expected = reference(*inputs).astype(np.float64)
        else:
            expected = reference(*(x.astype(np.float64) for x in inputs))
    errors = in_ulps(run(name, *inputs), expected)
    worst = int(np.argmax(errors))
    assert errors[worst] <= vmath.ULPS[name], (name, errors[worst], [x[worst] for x in inputs])


@pytest.mark.parametrize("name, facts", BOTH_KINDS, ids=[name for name, _ in BOTH_KINDS])
def test_float32_error_against_mpmath(name, facts, rng):
    exact, _ = facts
    inputs = [x[np.isfinite(x)] for x in [rng.normal(0, 2, 60).astype(np.float32) for _ in range(1 + (name in TWO))]]
    if name == "acosh":
        inputs = [1 + np.abs(inputs[0])]
    elif name in ("acos", "asin", "atanh"):
        inputs = [rng.uniform(-1, 1, 60).astype(np.float32)]
    elif name in ("log", "log2", "log10", "pow"):
        inputs[0] = np.abs(inputs[0])
    elif name == "log1p":
        inputs = [np.abs(inputs[0]) - np.float32(0.99)]
    got = run(name, *inputs)
    with mpmath.workdps(40):
        for y, *x in zip(got.tolist(), *(v.tolist() for v in inputs)):
            error = abs(mpmath.mpf(y) - exact(*map(mpmath.mpf, x)))
            assert error <= max(vmath.ULPS[name], 0.5) * float(np.spacing(np.float32(abs(y)))), (name, x, y)


@pytest.mark.parametrize("name, facts", BOTH_KINDS, ids=[name for name, _ in BOTH_KINDS])
def test_float64_is_the_c_library(name, facts, rng):
    with np.errstate(invalid="ignore"):  # signalling NaN among the bits
        inputs = [x.astype(np.float64) for x in draws(name, rng, 100)]
    with np.errstate(all="ignore"):
        expected = facts[1](*inputs)
    got = run(name, *inputs)
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    size = 1 + (np.square(inputs[0]) if name in ("erfc", "ndtr") else 0)  # how much a rounded argument is magnified
    with np.errstate(all="ignore"):
        close = np.abs(got - expected) <= 1e-15 * 4 * size * np.abs(expected) + 1e-306
    assert np.all(close | (got == expected) | np.isnan(got)), name


@pytest.mark.parametrize("kind", [codegen.f32, codegen.f64], ids=str)
@pytest.mark.parametrize("name", [name for name, _ in BOTH_KINDS])
def test_compiled_and_plain_python_agree(name, kind, rng):
    inputs = [x[-45:] for x in draws(name, rng, 9)]
    inputs = [np.where(np.isfinite(x), x, 1).astype(kind.dtype) for x in inputs]
    both(applied(name).specialise(T=kind), *inputs, np.zeros_like(inputs[0]), n=45, ulps=4)


@pytest.mark.parametrize("name", ["mod", "floor_divide"])
@pytest.mark.parametrize("kind", [codegen.i8, codegen.i32, codegen.i64, codegen.u8], ids=str)
def test_integer_division_never_traps(name, kind):
    low, high = kind.range
    ends = np.array([low, low + 1, 0, 1, 2, 7, high - 1, high, *([-1, -7] if low else [5, 9])], kind.dtype)
    x, y = (v.ravel().copy() for v in np.meshgrid(ends, ends))
    reference = {"mod": np.mod, "floor_divide": np.floor_divide}[name]
    with np.errstate(all="ignore"):
        expected = reference(x, y)
    assert np.array_equal(run(name, x, y), expected)


def test_every_error_is_stated():
    assert vmath.ULPS.keys() == vmath.NAMES.keys() - {"INFINITY", "LN2", "gelu_slope"}


def test_large_angles_are_reduced_exactly():
    x = np.array([1e5, 1048577.0, 1e10, 1e20, 3e38, 16367173 * 2.0**72], np.float32)  # the last is close to n pi / 2
    with mpmath.workdps(60):
        exact = [float(mpmath.sin(mpmath.mpf(float(v)))) for v in x]
    assert np.all(in_ulps(run("sin", x), np.array(exact)) <= 2)


def check_some() -> None:
    for name, (_, reference) in BOTH_KINDS:
        check_errors(name, reference, np.random.default_rng(0), 300)


@pytest.mark.parametrize("isa", ["avx2", "plain"])
def test_other_instruction_sets(isa):
    under_isa(isa, __name__, "check_some")
