"""Stable forms against exact arithmetic (mpmath): values and gradients, where the naive way fails and elsewhere."""

import mpmath
import numpy as np
import pytest

import pullback as pb
from pullback.gradient import explain
from pullback.graph import evaluate
from pullback.rewrites import optimize
from tests.gradient.numeric import value

DIGITS = 700  # enough to see 1 + exp(-740)
POINTS = np.array(
    [0.0, 1e-12, -1e-12, 1e-200, 0.3, -0.3, 1.0, -1.0, 5.5, -5.5, 20.0, -20.0, 40.0, -40.0, 88.0, -104.0, 700.0, -740.0]
)
POSITIVE_PART = np.array([1e-300, 1e-17, 1e-5, 0.3, 2.0, 1e3, 1e300])
NEGATIVE = -np.array([1e-12, 1e-3, 0.1, 0.6931, 0.7, 3.0, 40.0, 700.0])


@pytest.fixture(autouse=True)
def exact_arithmetic():
    with mpmath.workdps(DIGITS):
        yield


def sig(x):
    return 1 / (1 + mpmath.exp(-x))


# name: (expression, its exact meaning, the points)
FORMS = {
    "log(exp(x))": (lambda x: pb.log(pb.exp(x)), lambda x: x, POINTS),
    "log(1 + exp(x))": (lambda x: pb.log(1 + pb.exp(x)), lambda x: mpmath.log1p(mpmath.exp(x)), POINTS),
    "log(exp(x) + 1)": (lambda x: pb.log(pb.exp(x) + 1), lambda x: mpmath.log1p(mpmath.exp(x)), POINTS),
    "log(ones + exp(x))": (
        lambda x: pb.log(pb.ones_like(x) + pb.exp(x)), lambda x: mpmath.log1p(mpmath.exp(x)), POINTS),
    "log1p(exp(x))": (lambda x: pb.log1p(pb.exp(x)), lambda x: mpmath.log1p(mpmath.exp(x)), POINTS),
    "log2(1 + exp(x))": (
        lambda x: pb.log2(1 + pb.exp(x)), lambda x: mpmath.log1p(mpmath.exp(x)) / mpmath.log(2), POINTS),
    "log10(sigmoid(x))": (lambda x: pb.log10(pb.sigmoid(x)), lambda x: mpmath.log10(sig(x)), POINTS),
    "log(sigmoid(x))": (lambda x: pb.log(pb.sigmoid(x)), lambda x: mpmath.log(sig(x)), POINTS),
    "log(1 - sigmoid(x))": (lambda x: pb.log(1 - pb.sigmoid(x)), lambda x: mpmath.log(sig(-x)), POINTS),
    "log1p(-sigmoid(x))": (lambda x: pb.log1p(-pb.sigmoid(x)), lambda x: mpmath.log(sig(-x)), POINTS),
    "1 / (1 + exp(-x))": (lambda x: 1 / (1 + pb.exp(-x)), sig, POINTS),
    "1 / (1 + exp(x))": (lambda x: 1 / (1 + pb.exp(x)), lambda x: sig(-x), POINTS),
    "reciprocal(1 + exp(-x))": (lambda x: pb.reciprocal(1 + pb.exp(-x)), sig, POINTS),
    "exp(x) / (1 + exp(x))": (lambda x: pb.exp(x) / (1 + pb.exp(x)), sig, POINTS),
    "log(1 / (1 + exp(-x)))": (lambda x: pb.log(1 / (1 + pb.exp(-x))), lambda x: mpmath.log(sig(x)), POINTS),
    "log(exp(x) / (1 + exp(x)))": (
        lambda x: pb.log(pb.exp(x) / (1 + pb.exp(x))), lambda x: mpmath.log(sig(x)), POINTS),
    "tanh by exp": (
        lambda x: (pb.exp(x) - pb.exp(-x)) / (pb.exp(x) + pb.exp(-x)), mpmath.tanh, POINTS),
    "exp(x) - 1": (lambda x: pb.exp(x) - 1, mpmath.expm1, POINTS[np.abs(POINTS) < 700]),
    "-1 + exp(x)": (lambda x: -1 + pb.exp(x), mpmath.expm1, POINTS[np.abs(POINTS) < 700]),
    "1 - exp(x)": (lambda x: 1 - pb.exp(x), lambda x: -mpmath.expm1(x), POINTS[np.abs(POINTS) < 700]),
    "log(1 + x)": (lambda x: pb.log(1 + x), mpmath.log1p, POSITIVE_PART),
    "log(1 - x)": (lambda x: pb.log(1 - x), lambda x: mpmath.log1p(-x), NEGATIVE),
    "log(1 - exp(x))": (lambda x: pb.log(1 - pb.exp(x)), lambda x: mpmath.log(-mpmath.expm1(x)), NEGATIVE),
    "log1p(-exp(x))": (lambda x: pb.log1p(-pb.exp(x)), lambda x: mpmath.log(-mpmath.expm1(x)), NEGATIVE),
    "log(-expm1(x))": (lambda x: pb.log(-pb.expm1(x)), lambda x: mpmath.log(-mpmath.expm1(x)), NEGATIVE),
}  # fmt: skip


def derivative(f, x, order=1):
    h = mpmath.mpf(10) ** (-DIGITS // 4)
    x = mpmath.mpf(float(x))
    if order == 1:
        return (f(x + h) - f(x - h)) / (2 * h)
    return (f(x + h) - 2 * f(x) + f(x - h)) / h**2


def assert_exact(found, exact, tolerance=4e-15):
    for a, b in zip(np.ravel(found), exact, strict=True):
        b = float(b)  # under- and overflow as the exact value does when it is rounded
        assert a == b or abs(a - b) <= tolerance * abs(b) + 5e-324, (a, b)


@pytest.mark.parametrize("name", FORMS)
def test_values_and_slopes_are_exact(name):
    build, exact, points = FORMS[name]
    x = pb.dvector("x")
    y = build(x)
    found, slope = evaluate(optimize([y, pb.grad(y.sum(), x)], [x]), {x: points})
    assert_exact(found, [exact(mpmath.mpf(float(p))) for p in points])
    np.testing.assert_allclose(slope, [float(derivative(exact, p)) for p in points], rtol=1e-14, atol=4e-16)
    np.testing.assert_array_equal(slope, value(pb.grad(y.sum(), x), {x: points}))  # also where nothing is rewritten


@pytest.mark.parametrize("name", FORMS)
def test_second_derivatives_are_finite_and_right(name):
    build, exact, points = FORMS[name]
    points = points[(np.abs(points) > 1e-6) & (np.abs(points) < 100)]
    x = pb.dvector("x")
    second = pb.grad(pb.grad(build(x).sum(), x).sum(), x, disconnected_inputs="ignore")
    for a, p in zip(value(second, {x: points}), points):
        b = float(derivative(exact, p, 2))
        assert abs(a - b) <= 1e-11 * abs(b) + 1e-15, (p, a, b)


ROWS = np.array([[1000.0, 0, -1000], [3e4, 3e4, -3e4], [0.1, 0.2, 0.3], [-800, -900, -1000], [88, 89, 1]])


def exact_softmax(row):
    e = [mpmath.exp(mpmath.mpf(float(v))) for v in row]
    return [v / mpmath.fsum(e) for v in e]


SOFTMAXES = {
    "softmax": lambda x, a: pb.softmax(x, a),
    "exp / sum exp": lambda x, a: pb.exp(x) / pb.exp(x).sum(a, keepdims=True),
    "e / e.sum()": lambda x, a: (lambda e: e / e.sum(a, keepdims=True))(pb.exp(x)),
    "shifted": lambda x, a: (
        pb.exp(x - x.max(a, keepdims=True)) / pb.exp(x - x.max(a, keepdims=True)).sum(a, keepdims=True)),
    "with None": lambda x, a: (lambda e: e / (e.sum(1)[:, None] if a == 1 else e.sum(0)[None]))(pb.exp(x)),
    "expand_dims": lambda x, a: (lambda e: e / pb.expand_dims(e.sum(a), a))(pb.exp(x)),
}  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("spelt", SOFTMAXES)
def test_softmax_and_its_logarithm_however_spelt(spelt, axis):
    rows = ROWS if axis == 1 else ROWS.T
    x = pb.dmatrix("x")
    p = SOFTMAXES[spelt](x, axis)
    logp = pb.log(p)
    picked = pb.constant(np.random.default_rng(0).normal(size=rows.shape))
    slope = pb.grad((logp * picked).sum(), x)
    found, logs, g = evaluate(optimize([p, logp, slope], [x]), {x: rows})
    np.testing.assert_array_equal(g, value(slope, {x: rows}))
    if axis == 0:
        found, logs, g, weights = found.T, logs.T, g.T, picked.data.T
    else:
        weights = picked.data
    for row, a, b, c, w in zip(ROWS, found, logs, g, weights):
        exact = exact_softmax(row)
        np.testing.assert_allclose(a, [float(v) for v in exact], rtol=1e-12, atol=0)
        np.testing.assert_allclose(b, [float(mpmath.log(v)) for v in exact], rtol=1e-12, atol=1e-16)
        total = mpmath.fsum(mpmath.mpf(float(v)) for v in w)
        np.testing.assert_allclose(c, [float(mpmath.mpf(float(v)) - e * total) for v, e in zip(w, exact)], atol=1e-12)


MOVED = {
    "reshaped": lambda p: pb.reshape(p, (3, 5)),
    "transposed": lambda p: p.T,
    "picked": lambda p: p[pb.constant(np.arange(5)), pb.constant(np.array([0, 1, 2, 0, 2]))],
    "sliced": lambda p: p[1:, :2],
    "squeezed": lambda p: pb.squeeze(pb.expand_dims(p, 1), 1),
    "by label": lambda p: pb.select_label(p, pb.constant(np.array([0, 1, 2, 0, 2]))),
}


@pytest.mark.parametrize("how", MOVED)
def test_the_logarithm_reaches_the_softmax_through_moves(how):
    x = pb.dmatrix("x")
    cost = -pb.log(MOVED[how](pb.softmax(x, axis=1))).sum()
    direct = -MOVED[how](pb.log_softmax(x, axis=1)).sum()
    for a, b in ((cost, direct), (pb.grad(cost, x), pb.grad(direct, x))):
        expected = value(b, {x: ROWS})
        assert np.isfinite(expected).all()
        np.testing.assert_array_equal(evaluate(optimize([a], [x]), {x: ROWS})[0], expected)
    np.testing.assert_array_equal(value(pb.grad(cost, x), {x: ROWS}), value(pb.grad(direct, x), {x: ROWS}))


def test_cross_entropy_with_soft_targets_on_any_axis():
    x, t = pb.dmatrix("x"), pb.dmatrix("t")
    targets = np.random.default_rng(1).dirichlet(np.ones(3), 5)
    cost = -(t * pb.log(pb.softmax(x, axis=1))).sum()
    g = value(pb.grad(cost, x), {x: ROWS, t: targets})
    for row, target, slope in zip(ROWS, targets, g):
        np.testing.assert_allclose(slope, [float(p) - q for p, q in zip(exact_softmax(row), target)], atol=1e-12)


def test_binary_cross_entropy_from_a_sigmoid():
    x, t = pb.dvector("x"), pb.dvector("t")
    s = pb.sigmoid(x)
    cost = -(t * pb.log(s) + (1 - t) * pb.log(1 - s)).sum()
    given = {x: np.array([-1000.0, 1000, 0.3]), t: np.array([1.0, 0, 0.25])}
    exact = [1000, 1000, float(-0.25 * mpmath.log(sig(0.3)) - 0.75 * mpmath.log(sig(-0.3)))]
    np.testing.assert_allclose(evaluate(optimize([cost], [x, t]), given)[0], sum(exact), rtol=1e-14)
    np.testing.assert_allclose(value(pb.grad(cost, x), given), [-1, 1, float(sig(0.3)) - 0.25], rtol=1e-14)


def test_the_logarithm_of_a_choice_is_the_choice_of_logarithms():
    x = pb.dmatrix("x")
    inside = pb.constant(np.array([[True, False, True]]))
    cost = pb.log(pb.where(inside, pb.softmax(x, axis=1), 1.0)).sum()
    direct = pb.where(inside, pb.log_softmax(x, axis=1), 0.0).sum()
    for a, b in ((cost, direct), (pb.grad(cost, x), pb.grad(direct, x))):
        np.testing.assert_array_equal(evaluate(optimize([a], [x]), {x: ROWS})[0], value(b, {x: ROWS}))
    assert explain(pb.log(pb.where(inside, x, 1.0)).sum(), x).stable_forms == ()


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("keepdims", [True, False])
def test_log_sum_exp(axis, keepdims):
    x = pb.dmatrix("x")
    y = pb.log(pb.sum(pb.exp(x), axis=axis, keepdims=keepdims))
    direct = pb.logsumexp(x, axis=axis, keepdims=keepdims)
    for a, b in ((y, direct), (pb.grad(y.sum(), x), pb.grad(direct.sum(), x))):
        np.testing.assert_array_equal(evaluate(optimize([a], [x]), {x: ROWS})[0], value(b, {x: ROWS}))


def test_log_add_exp():
    a, b = pb.dvector("a"), pb.dvector("b")
    given = {a: np.array([1000.0, -1000, 3]), b: np.array([1000.0, -1001, -4])}
    y = pb.log(pb.exp(a) + pb.exp(b))
    exact = [mpmath.log(mpmath.exp(p) + mpmath.exp(q)) for p, q in zip(*given.values())]
    assert_exact(evaluate(optimize([y], [a, b]), given)[0], exact)
    np.testing.assert_allclose(value(pb.grad(y.sum(), a), given), [0.5, 1 / (1 + np.exp(-1)), 1 / (1 + np.exp(-7))])


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_dtypes_are_kept(dtype):
    x = pb.tensor(dtype, (None,), "x")
    for build, _, _ in FORMS.values():
        y = build(x)
        [new] = optimize([y], [x])
        assert new.dtype == y.dtype and new.type.ndim == 1


def test_nan_and_infinity_where_the_exact_value_is():
    x = pb.dvector("x")
    given = {x: np.array([np.nan, np.inf, -np.inf])}
    for name, expected in {
        "log(exp(x))": [np.nan, np.inf, -np.inf],
        "log(1 + exp(x))": [np.nan, np.inf, 0],
        "log(sigmoid(x))": [np.nan, 0, -np.inf],
        "1 / (1 + exp(-x))": [np.nan, 1, 0],
        "exp(x) / (1 + exp(x))": [np.nan, 1, 0],
        "exp(x) - 1": [np.nan, np.inf, -1],
    }.items():
        found = evaluate(optimize([FORMS[name][0](x)], [x]), given)[0]
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_what_is_asked_for_is_not_looked_through():
    x = pb.dmatrix("x")
    p = pb.softmax(x, axis=1)
    cost = pb.log(p).sum()
    rows = {x: np.array([[0.1, 0.5]])}
    np.testing.assert_allclose(value(pb.grad(cost, p), rows), 1 / value(p, rows))
    gx, gp = pb.grad(cost, [x, p])
    np.testing.assert_allclose(value(gx, rows), value(pb.grad(cost, x), rows), atol=1e-15)
    constant = pb.grad((cost + p.sum()), p, consider_constant=[p])
    np.testing.assert_allclose(value(constant, rows), 1 / value(p, rows) + 1)
    assert explain(cost, p).stable_forms == () and len(explain(cost, x).stable_forms) == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda x: pb.log(2 + pb.exp(x)), lambda x: pb.log(1 + pb.sin(x) + x), lambda x: pb.exp(x) / pb.exp(2 * x).sum(),
        lambda x: pb.exp(x) / pb.exp(x).sum() ** 2, lambda x: pb.exp(x) - 2, lambda x: 2 / (1 + pb.exp(x)),
        lambda x: pb.log(pb.exp(x).sum() + x), lambda x: 1 - pb.tanh(x), lambda x: pb.exp(x) / (1 + pb.exp(-x)),
        lambda x: pb.log(pb.softmax(x[None], axis=0) + 1e-7),
        lambda x: pb.exp(x[None]) / pb.exp(x[None]).sum(0, keepdims=True), lambda x: 1 - pb.sigmoid(x),
    ],
)  # fmt: skip
def test_lookalikes_keep_their_value(build):
    x = pb.dvector("x")
    given = {x: np.array([0.3, -1.2, 2.0])}
    np.testing.assert_allclose(evaluate(optimize([build(x)], [x]), given)[0], value(build(x), given), rtol=1e-14)


def test_both_backends_use_the_stable_form():
    x = pb.fmatrix("x")
    cost = -pb.log(pb.exp(x) / pb.exp(x).sum(1, keepdims=True)).sum()
    rows = ROWS.astype("float32")
    for rewrites in ("all", "stabilising"):
        with pb.config.override(rewrites=rewrites):
            for backend in ("native", "reference"):
                found, slope = pb.function([x], [cost, pb.grad(cost, x)], backend=backend)(rows)
                assert np.isfinite(found) and np.isfinite(slope).all()
                np.testing.assert_allclose(found, 1000 + 2000 + 60000 + 300 + 88, rtol=0.2)
