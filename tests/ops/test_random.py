"""Random draws: the generator's published answers, distributions, keys and counters, gradients, dropout."""

import copy

import numpy as np
import pytest

import pullback as pb
from pullback.graph import clone_replace, evaluate
from pullback.ops.philox import Bits, philox
from pullback.testing import check_op
from tests.ops.helpers import slopes, value

MANY = 20_000


def run(x: pb.Variable, given: dict | None = None) -> np.ndarray:
    return evaluate([x], given)[0]


# --- the generator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "counter", "block", "words"),
    [
        (0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88,
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)  # fmt: skip
def test_philox_gives_the_published_words(key, counter, block, words) -> None:
    """Known answers of the Random123 distribution (Salmon et al. 2011)."""
    assert tuple(philox(key, counter, block, block + 1)[:, 0]) == words


def test_negative_counters_are_their_64_bits() -> None:
    np.testing.assert_array_equal(philox(3, -1, 0, 4), philox(3, 2**64 - 1, 0, 4))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_elements_take_words_in_groups_of_sixteen_blocks(dtype) -> None:
    words = philox(5, 9, 0, 32).astype(np.uint64)
    u = Bits(5, 9).uniform((100,), dtype)
    assert u.dtype == dtype
    if dtype == "float64":
        pairs = (words[0::2] << np.uint64(32)) | words[1::2]
        assert u[17] == int(pairs[1, 1] >> np.uint64(11)) * 2.0**-53  # the second pair of block 1
        assert u[33] == int(pairs[0, 17] >> np.uint64(11)) * 2.0**-53  # block 17 begins the second group
    else:
        bits = {"float16": 11, "float32": 24}[dtype]
        assert float(u[35]) == (int(words[2, 3]) >> (32 - bits)) * 2.0**-bits
        assert float(u[64 + 3]) == (int(words[0, 19]) >> (32 - bits)) * 2.0**-bits


@pytest.mark.parametrize("draw", [Bits.uniform, Bits.normal])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_shorter_draw_is_the_start_of_a_longer_one(draw, dtype) -> None:
    long = draw(Bits(1, 2), (70_000,), dtype)
    for n in (0, 1, 63, 64, 65, 1000):
        np.testing.assert_array_equal(draw(Bits(1, 2), (n,), dtype), long[:n])


# --- distributions ----------------------------------------------------------------------------------------------------


def spread(x: np.ndarray, cdf) -> float:
    """Kolmogorov's distance between a sample and a distribution function, times the root of its size."""
    x = np.sort(x.ravel().astype("float64"))
    steps = np.arange(len(x) + 1) / len(x)
    return float(np.sqrt(len(x)) * max(np.max(steps[1:] - cdf(x)), np.max(cdf(x) - steps[:-1])))


def normal_cdf(x):
    from scipy.special import ndtr

    return ndtr(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "draw", "cdf"),
    [
        ("uniform", lambda d: pb.random.uniform(1, -1, 3, (MANY,), d), lambda x: (x + 1) / 4),
        ("normal", lambda d: pb.random.normal(2, 1.5, 0.5, (MANY,), d), lambda x: normal_cdf((x - 1.5) / 0.5)),
        ("exponential", lambda d: pb.random.exponential(3, 2.0, (MANY,), d), lambda x: 1 - np.exp(-x / 2)),
        ("gumbel", lambda d: pb.random.gumbel(4, 1.0, 2.0, (MANY,), d), lambda x: np.exp(-np.exp(-(x - 1) / 2))),
        (
            "truncated", lambda d: pb.random.truncated_normal(5, 0.0, 1.0, -1.0, 2.0, (MANY,), d),
            lambda x: (normal_cdf(x) - normal_cdf(-1)) / (normal_cdf(2) - normal_cdf(-1)),
        ),
        (
            "upper tail", lambda d: pb.random.truncated_normal(6, 0.0, 1.0, 6.0, np.inf, (MANY,), d),
            lambda x: 1 - normal_cdf(-x) / normal_cdf(-6.0),
        ),
    ],
)  # fmt: skip
def test_continuous_distributions(name, draw, cdf, dtype) -> None:
    x = run(draw(dtype))
    assert x.dtype == dtype and np.isfinite(x).all()
    assert spread(x, cdf) < 1.95  # exceeded by one sample in a thousand; these keys are fixed


def test_neighbours_and_consecutive_draws_are_uncorrelated() -> None:
    stream = pb.RandomStream(3)
    f = pb.function([], [stream.normal(size=(MANY,)), stream.normal(size=(MANY,))], backend="reference")
    a, b = f()
    c, _ = f()
    for x, y in ((a, b), (a, c), (a[1:], a[:-1]), (a[16:], a[:-16]), (a[32:], a[:-32])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 4 / np.sqrt(MANY)


def test_gumbel_and_normal_are_finite_at_the_extreme_words() -> None:
    u = pb.vector("u")
    noise = pb.random.gumbel(0, size=(3,))
    uniform = next(n for n in pb.graph.toposort([noise]) if type(n.op).__name__ == "Uniform").outputs[0]
    extremes = clone_replace([noise], {uniform: u})[0]
    assert np.isfinite(run(extremes, {u: np.array([0, 2**-24, 1 - 2**-24], "float32")})).all()


def test_integers() -> None:
    x = run(pb.random.randint(1, -3, 4, (MANY,)))
    counts = np.bincount(x + 3, minlength=7)
    assert x.dtype == np.int64 and len(counts) == 7 and abs(counts - MANY / 7).max() < 5 * np.sqrt(MANY / 7)
    assert run(pb.random.randint(1, 5, size=(4,), dtype="int8")).dtype == np.int8
    wide = run(pb.random.randint(1, [0, 100], [10, 200], (50, 2)))
    assert wide[:, 0].max() < 10 and wide[:, 1].min() >= 100
    huge = run(pb.random.randint(1, -(2**62), 2**62, (100,)))
    assert huge.min() < -(2**60) and huge.max() > 2**60


def test_categorical_never_draws_what_has_no_probability() -> None:
    p = np.array([[0.0, 0.2, 0.0, 0.8, 0.0], [2.0, 2.0, 0.0, 0.0, 0.0]], "float32")
    x = run(pb.random.categorical(2, p, (MANY, 2)))
    assert x.dtype == np.int64 and set(x[:, 0]) == {1, 3} and set(x[:, 1]) == {0, 1}
    assert abs((x[:, 0] == 1).mean() - 0.2) < 0.015 and abs(x[:, 1].mean() - 0.5) < 0.015
    assert run(pb.random.categorical(2, p)).shape == (2,)


@pytest.mark.parametrize("p", [[-0.1, 1.1], [0.0, 0.0], [np.nan, 1.0]])
def test_categorical_refuses_what_are_no_probabilities(p) -> None:
    with pytest.raises(pb.ArgumentError, match="probabilities"):
        run(pb.random.categorical(2, np.array(p)))


def test_multinomial_counts() -> None:
    counts = run(pb.random.multinomial(2, 1000, [0.1, 0.0, 0.9], (3,)))
    assert counts.shape == (3, 3) and (counts.sum(-1) == 1000).all() and not counts[:, 1].any()
    assert abs(counts[:, 0] - 100).max() < 50 and len(set(counts[:, 0])) > 1
    assert run(pb.random.multinomial(2, 0, [0.5, 0.5])).tolist() == [0, 0]


def test_permutation_and_choice(rng) -> None:
    order = run(pb.random.permutation(1, 50))
    assert sorted(order) == list(range(50)) and (order != np.arange(50)).any()
    x = rng.normal(size=(3, 20))
    shuffled = run(pb.random.permutation(1, x, axis=1))
    np.testing.assert_array_equal(np.sort(shuffled, 1), np.sort(x, 1))
    order = [int(np.flatnonzero(x[0] == v)[0]) for v in shuffled[0]]
    np.testing.assert_array_equal(shuffled, x[:, order], "all rows move together")
    picked = run(pb.random.choice(1, [10, 20, 30], (100,)))
    assert set(picked) == {10, 20, 30}
    assert set(run(pb.random.choice(1, 3, (100,), [0.5, 0.0, 0.5]))) == {0, 2}


def test_every_position_is_equally_likely_in_a_permutation() -> None:
    stream = pb.RandomStream(0)
    f = pb.function([], stream.permutation(4), backend="reference")
    where = np.array([np.argsort(f()) for _ in range(600)])
    counts = np.array([np.bincount(column, minlength=4) for column in where.T])
    assert abs(counts - 150).max() < 60


def test_bernoulli() -> None:
    p = np.array([0.0, 0.3, 1.0], "float32")
    x = run(pb.random.bernoulli(1, p, (MANY, 3)))
    assert x.dtype == np.float32 and not x[:, 0].any() and x[:, 2].all() and abs(x[:, 1].mean() - 0.3) < 0.02
    assert run(pb.random.bernoulli(1, 0.5, (4,), "bool")).dtype == bool


# --- shapes and dtypes ------------------------------------------------------------------------------------------------


def test_sizes_are_numbers_variables_or_those_of_the_parameters() -> None:
    x = pb.dmatrix("x")
    given = {x: np.zeros((3, 5))}
    assert run(pb.random.normal(1, size=x.shape), given).shape == (3, 5)
    assert run(pb.random.normal(1, x, 1.0), given).shape == (3, 5)
    assert run(pb.random.uniform(1, x[0], x[:, :1] + 1), given).shape == (3, 5)
    assert run(pb.random.uniform(1, size=(x.shape[0], 2)), given).shape == (3, 2)
    assert pb.random.uniform(1, size=7).type.shape == (7,) and pb.random.normal(1).type.shape == ()
    assert run(pb.random.normal(1, size=(0, 3))).shape == (0, 3)


def test_dtypes_follow_the_parameters() -> None:
    assert pb.random.normal(1, size=3).dtype == pb.config.floatX
    assert pb.random.normal(1, pb.dvector(), 1.0).dtype == "float64"
    half = run(pb.random.uniform(1, size=(MANY,), dtype="float16"))
    assert half.dtype == np.float16 and half.max() < 1
    with pytest.raises(pb.DTypeError, match="float dtype"):
        pb.random.normal(1, dtype="int64")


# --- keys and counters ------------------------------------------------------------------------------------------------


def test_a_key_and_a_counter_decide_everything() -> None:
    draw = lambda *source: run(pb.random.uniform(source, size=(8,)))  # noqa: E731
    np.testing.assert_array_equal(draw(5, 1), draw(5, 1))
    assert (draw(5, 1) != draw(5, 2)).any() and (draw(5, 1) != draw(6, 1)).any()
    key, counter = pb.tensor("uint64"), pb.lscalar()
    symbolic = pb.random.uniform((key, counter), size=(8,))
    np.testing.assert_array_equal(run(symbolic, {key: np.uint64(5), counter: np.array(1)}), draw(5, 1))


def test_keys_from_seeds() -> None:
    keys = {pb.random.key(seed, *path) for seed in range(20) for path in ((), (0,), (1,), (0, 0))}
    assert len(keys) == 80
    for bad in (-1, 1.5, True, "a"):
        with pytest.raises(pb.ArgumentTypeError, match="at least 0"):
            pb.random.key(bad)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_call_advances_the_stream_by_one_whatever_it_draws(backend) -> None:
    def two_calls():
        stream = pb.RandomStream(seed=4)
        f = pb.function([], [stream.uniform(size=(6,)), stream.uniform(size=(6,))], backend=backend)
        return stream, f, f(), f()

    stream, f, first, second = two_calls()
    assert stream.counter.get_value() == 2
    everything = np.concatenate([*first, *second])
    assert len(set(everything)) == len(everything), "no two draws alike"
    _, _, *again = two_calls()
    np.testing.assert_array_equal(again, [first, second])
    stream.counter.set_value(1)
    np.testing.assert_array_equal(f(), second)


def test_both_backends_draw_the_same_bits() -> None:
    for dtype in ("float32", "float64"):
        x = pb.random.uniform(11, size=(333,), dtype=dtype)
        n = pb.random.normal(11, size=(333,), dtype=dtype)
        b = pb.random.bernoulli(11, 0.3, (333,), "bool")
        reference, native = (pb.function([], [x, n, b], backend=k)() for k in ("reference", "native"))
        np.testing.assert_array_equal(reference[0], native[0])
        np.testing.assert_allclose(reference[1], native[1], rtol=4 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(reference[2], native[2])


def test_seeds_give_different_streams_and_names_are_kept() -> None:
    a, b = (run(pb.RandomStream(s).uniform(size=(4,))) for s in (1, 2))
    assert (a != b).all()
    assert pb.RandomStream(1, name="noise").counter.name == "noise"
    with pytest.raises(pb.ArgumentTypeError):
        pb.RandomStream(-1)


def test_a_stream_is_copied_with_its_state() -> None:
    stream = pb.RandomStream(1, name="noise")
    pb.function([], stream.uniform(), backend="reference")()
    twin = copy.deepcopy(stream)
    assert twin.counter is not stream.counter and twin.counter.name == "noise" and twin.counter.get_value() == 1
    assert run(twin.uniform()) == run(stream.uniform())


@pytest.mark.parametrize("source", ["seed", 1.5, None, (1, 2, 3), (1.0, 2)])
def test_other_sources_are_refused(source) -> None:
    with pytest.raises(pb.ArgumentTypeError, match="RandomStream|integer"):
        pb.random.uniform(source)


# --- gradients --------------------------------------------------------------------------------------------------------


def test_reparametrised_draws_differentiate_their_parameters(rng) -> None:
    a, b = rng.normal(size=(3, 4)), rng.uniform(0.5, 2.0, size=(4,))
    for f, *arrays in (
        (lambda a, b: pb.random.uniform(1, a, b), a, b),
        (lambda a, b: pb.random.normal(1, a, b), a, b),
        (lambda b: pb.random.exponential(1, b), b),
        (lambda a, b: pb.random.gumbel(1, a, b), a, b),
        (lambda a, t: pb.random.gumbel_softmax(1, a, t), a, np.array(0.7)),
    ):
        check_op(f, *arrays, float32=np.inf)  # another dtype is another draw


def test_truncated_normals_differentiate_their_bounds_too(rng) -> None:
    low, high = rng.uniform(-2.0, -0.5, size=4), rng.uniform(0.5, 2.0, size=4)
    for shift in (0.0, 3.0):
        check_op(
            lambda a, b, low, high, shift=shift: pb.random.truncated_normal(1, a, b, low + shift, high + shift),
            rng.normal(size=4), rng.uniform(0.5, 2.0, size=4), low, high, float32=np.inf,
        )  # fmt: skip


def test_the_gradient_to_a_probability_is_refused_with_the_reason() -> None:
    p = pb.dvector("p")
    with pytest.raises(pb.UndefinedGradientError, match="gumbel_softmax"):
        pb.grad(pb.random.bernoulli(1, p).sum(), p)
    with pytest.raises(pb.DisconnectedInputError):
        pb.grad(pb.random.categorical(1, p) * 1.0, p)


def test_recomputation_draws_the_same_numbers() -> None:
    x = pb.dvector("x")
    y = pb.dropout(x, 0.5, (3, 1)) * pb.random.normal((4, 1), size=x.shape)
    copy_ = clone_replace([y], {x: x * 1.0})[0]
    a, b = evaluate([y, copy_], {x: np.ones(100)})
    np.testing.assert_array_equal(a, b)


# --- dropout ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_dropout_uses_one_mask_forward_and_backward_and_a_new_one_each_call(backend) -> None:
    stream = pb.RandomStream(1)
    x = pb.dvector("x")
    y = stream.dropout(x, 0.5)
    f = pb.function([x], [y, pb.grad(y.sum(), x)], backend=backend)
    previous = None
    for _ in range(3):
        value_, g = f(np.ones(1000))
        assert set(value_) == {0.0, 2.0} and 400 < (value_ == 0).sum() < 600
        np.testing.assert_array_equal(value_, g)
        assert previous is None or (previous != value_).any()
        previous = value_


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("p", [0.0, 0.2, 0.8, 1.0])
def test_dropout_keeps_the_mean_and_the_dtype(p, dtype) -> None:
    y = value(lambda x: pb.dropout(x, p, 7), np.ones((100, 100), dtype))
    assert y.dtype == dtype
    assert set(np.unique(y)) <= {0, np.dtype(dtype).type(1 / (1 - p) if p < 1 else 0)}
    assert abs((y == 0).mean() - p) < 0.02


def test_what_is_dropped_is_zero_even_if_it_is_nan() -> None:
    x = np.where(np.arange(64) % 2, np.nan, np.inf)
    kept = value(lambda x: pb.dropout(x, 0.5, 3), np.ones(64)) > 0
    y, g = value(lambda x: pb.dropout(x, 0.5, 3), x), slopes(lambda x: pb.dropout(x, 0.5, 3), x)[0]
    np.testing.assert_array_equal(y[~kept], 0)
    np.testing.assert_array_equal(g, np.where(kept, 2.0, 0.0))


def test_shared_axes_drop_whole_channels() -> None:
    y = value(lambda x: pb.dropout(x, 0.5, 3, shared_axes=(1, 2)), np.ones((4, 5, 6, 7)))
    assert (y == y[:, :1, :1]).all() and len(np.unique(y[:, 0, 0])) == 2


def test_dropout_proved_to_second_order(rng) -> None:
    check_op(lambda x: pb.dropout(x, 0.3, 5) ** 2, rng.normal(size=(4, 5)))


def test_dropout_with_a_symbolic_probability() -> None:
    x, p = pb.dvector("x"), pb.dscalar("p")
    y = pb.dropout(x, p, 3)
    found = run(y, {x: np.ones(1000), p: np.array(0.75)})
    assert set(found) == {0.0, 4.0} and 700 < (found == 0).sum() < 800
    assert (run(y, {x: np.ones(10), p: np.array(0.0)}) == 1).all()
    assert (run(y, {x: np.ones(10), p: np.array(1.0)}) == 0).all()
    with pytest.raises(pb.UndefinedGradientError, match="mask"):
        pb.grad(y.sum(), p)
    assert run(pb.grad(y.sum(), x), {x: np.ones(10), p: np.array(1.0)}).tolist() == [0.0] * 10


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_dropout_refuses_what_is_no_probability(p) -> None:
    with pytest.raises(pb.ArgumentError, match="probability"):
        pb.dropout(pb.vector(), p, 1)
