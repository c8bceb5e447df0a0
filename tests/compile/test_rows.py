"""Every elementwise row: its native formula against its NumPy function, on special values and in both float dtypes."""

import numpy as np
import pytest

from pullback.ops.elementwise import ROWS, Elementwise
from pullback.rewrites.fuse import INTEGER_ROWS, has_formula
from tests.compile.agreement import native

FLOAT_ROWS = sorted(
    name for name, row in ROWS.items() if name != "where" and has_formula(Elementwise(row), ["float32"] * row.arity)
)
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 700.0, -700.0]
# What rounding the argument, or a difference of nearly equal terms, does to the result: relative to it, or absolute.
CONDITION = {
    "gelu": lambda x: np.square(x),
    "gelu_tanh": lambda x: np.abs(x) ** 3,
    "ndtr": lambda x: np.square(x),
    "erfc": lambda x: np.square(x),
}
CANCELS = {"gelu_slope", "logaddexp", "logit", "log1mexp", "clip", "stair"}
DRAWN = 200


def operands(name: str, dtype: str, rng: np.random.Generator) -> list[np.ndarray]:
    row, limits = ROWS[name], np.finfo(dtype)
    special = [*SPECIAL, limits.tiny, -limits.tiny, limits.smallest_subnormal, limits.max, -limits.max]
    grids = np.meshgrid(*[special[: 20 if row.arity < 3 else 10]] * row.arity)
    domain = row.domain or ((-2.0, 2.0),) * row.arity
    parts = [(g.ravel(), rng.normal(0, 3, DRAWN), rng.uniform(*d, DRAWN)) for g, d in zip(grids, domain)]
    return [np.concatenate(p).astype(dtype) for p in parts]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FLOAT_ROWS)
def test_float_formula(name, dtype, rng):
    op, inputs = Elementwise(ROWS[name]), operands(name, dtype, rng)
    expected, got = op.perform(*inputs), native(op, *inputs)[0]
    assert got.dtype == expected.dtype
    if expected.dtype == bool:
        assert np.array_equal(got, expected)
        return
    assert np.array_equal(np.isnan(got), np.isnan(expected)), [x[np.isnan(got) != np.isnan(expected)] for x in inputs]
    finite = np.isfinite(got) & np.isfinite(expected)
    assert np.array_equal(got[~finite], expected[~finite], equal_nan=True)
    with np.errstate(all="ignore"):
        exact = op.perform(*(x.astype("float64") for x in inputs)) if dtype == "float32" else expected
        size = np.abs(exact) * (1 + CONDITION[name](inputs[0].astype("float64")) if name in CONDITION else 1)
        size = size + (1 if name in CANCELS else 0)
        allowed = 6 * np.finfo(dtype).eps * size + np.finfo(dtype).tiny * 1e-3
        wrong = finite & ~(np.abs(got - exact) <= allowed) & (got != expected)
    assert not wrong.any(), ([x[wrong][:3] for x in inputs], got[wrong][:3], exact[wrong][:3])


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("name", sorted(INTEGER_ROWS - {"where"}))
def test_integer_formula(name, dtype, rng):
    op, limits = Elementwise(ROWS[name]), np.iinfo(dtype)
    ends = np.array([limits.min, limits.min + 1, 0, 1, 2, 5, limits.max - 1, limits.max], dtype)
    inputs = [g.ravel() for g in np.meshgrid(*[ends] * ROWS[name].arity)]
    with np.errstate(all="ignore"):
        expected = op.perform(*inputs)
    got = native(op, *inputs)[0]
    assert got.dtype == expected.dtype and np.array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_where(dtype, rng):
    inputs = [rng.random(50) < 0.5, *(rng.integers(-3, 4, 50).astype(dtype) for _ in range(2))]
    assert np.array_equal(native(Elementwise(ROWS["where"]), *inputs)[0], np.where(*inputs))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "invert", "logical_xor", "less"])
def test_booleans(name):
    op = Elementwise(ROWS[name])
    inputs = [np.array([True, True, False, False]), np.array([True, False, True, False])][: ROWS[name].arity]
    assert np.array_equal(native(op, *inputs)[0], op.perform(*inputs))


@pytest.mark.parametrize("name", ["add", "exp", "greater", "maximum", "tanh", "where"])
def test_half_precision_is_stored_and_computed_with_in_single(name, rng):
    op = Elementwise(ROWS[name])
    inputs = [np.concatenate([rng.normal(0, 3, 70), SPECIAL, [65504, 6e-8]]).astype("float16") for _ in range(2)]
    inputs = [inputs[0] > 0, *inputs] if name == "where" else inputs[: op.row.arity]
    got, expected = native(op, *inputs)[0], op.perform(*inputs)
    assert got.dtype == expected.dtype
    if got.dtype == bool:
        assert np.array_equal(got, expected)
    else:
        assert np.allclose(got.astype("float32"), expected.astype("float32"), 2e-3, 1e-7, equal_nan=True)
