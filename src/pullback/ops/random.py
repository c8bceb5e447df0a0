"""Random draws as pure functions of a key and a counter, so that recomputation can't redraw them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, DTypeError
from ..graph import Apply, Constant, DisconnectedType, Op, SharedVariable, TensorType, Variable, grad_undefined
from .activation import ndtr
from .arithmetic import add, clip, divide, equal, greater, maximum, multiply, negative, reciprocal, subtract, where
from .creation import arange, shared
from .dtypes import as_tensor, as_tensors, float_dtype
from .elementwise import cast, zeros_like
from .gradient_views import undefined_grad
from .philox import Bits
from .reduce import sum as total
from .shape import (
    Sizes,
    expand_dims,
    fill_in,
    length,
    normalize_axes,
    normalize_axis,
    parse_shape,
    shape,
)
from .softmax import softmax
from .transcendental import erfcinv, log, log1p

__all__ = ["RandomStream", "dropout"]


# --- ops --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw(Op):
    """Base of random ops; inputs: key, counter, the distribution's parameters, then one length per None in `shape`."""

    shape: Sizes
    dtype: str
    parameters = 0

    def make_node(self, key: Any, counter: Any, *rest: Any) -> Apply:
        inputs = [as_tensor(v) for v in (key, counter, *rest)]
        return Apply(self, inputs, [TensorType(self.dtype, self.shape)])

    def perform(self, key, counter, *rest):
        size = fill_in(self.shape, rest[self.parameters :])
        return self.draw(Bits(int(key), int(counter)), size, *rest[: self.parameters])

    def draw(self, bits: Bits, size: tuple[int, ...], *parameters: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def grad(self, inputs, output_grads):
        return [DisconnectedType()() for _ in inputs]

    def connection_pattern(self, node):
        return [[False] for _ in node.inputs]

    def infer_shape(self, node, shapes, values):
        size = fill_in(self.shape, values[2 + self.parameters :])
        return None if size is None else [size]


@dataclass(frozen=True)
class Uniform(Draw):
    """Uniform numbers in [0, 1)."""

    def draw(self, bits, size):
        return bits.uniform(size, self.dtype)


@dataclass(frozen=True)
class StandardNormal(Draw):
    """Normal numbers of mean 0 and variance 1."""

    def draw(self, bits, size):
        return bits.normal(size, self.dtype)


@dataclass(frozen=True)
class Bernoulli(Draw):
    """1 (or True) where a uniform number in [0, 1) of the dtype of p lies below p."""

    parameters = 1

    def draw(self, bits, size, p):
        return (bits.uniform(size, p.dtype.name) < p).astype(self.dtype)

    def grad(self, inputs, output_grads):
        why = (
            "a draw of 0 or 1 jumps as its probability changes: use a score-function estimate, or a relaxed draw "
            "such as pb.random.gumbel_softmax"
        )
        answers = super().grad(inputs, output_grads)
        answers[2] = grad_undefined(self, 2, inputs[2], why)
        return answers

    def connection_pattern(self, node):
        return [[i == 2] for i in range(len(node.inputs))]


@dataclass(frozen=True)
class Integers(Draw):
    """Whole numbers in [low, high): low + w mod (high - low) with 64 random bits w (bias below (high - low) / 2^64)."""

    parameters = 2

    def draw(self, bits, size, low, high):
        if np.any(high <= low):
            raise ArgumentError(f"randint: high={high} is not above low={low}")
        span = (high.astype(np.int64) - low.astype(np.int64)).astype(np.uint64)
        offset = bits.words64(prod(size)).reshape(size) % span
        return (low.astype(np.int64) + offset.astype(np.int64)).astype(self.dtype)


@dataclass(frozen=True)
class Categorical(Draw):
    """Indices k with probability p[..., k] / sum(p): how many of the sums p[0] + ... + p[k] a uniform share reaches."""

    parameters = 1

    def draw(self, bits, size, p):
        sums = np.cumsum(p, axis=-1, dtype=np.float64)
        if not np.all(p >= 0) or not np.all(sums[..., -1] > 0):
            raise ArgumentError("categorical: probabilities must be at least 0 and not all 0")
        share = bits.uniform(size, "float64")[..., None] * sums[..., -1:]
        return np.sum(share >= sums[..., :-1], axis=-1, dtype=self.dtype)


@dataclass(frozen=True)
class Permutation(Draw):
    """0 ... n - 1 in random order; the length is n."""

    def draw(self, bits, size):
        return np.argsort(bits.words64(size[0]), kind="stable").astype(self.dtype)


# --- where keys come from ---------------------------------------------------------------------------------------------


def key(seed: int, *path: int) -> int:
    """A 64-bit key; different seeds or paths give unrelated keys (NumPy's SeedSequence mixes them)."""
    for n in (seed, *path):
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
            raise ArgumentTypeError(f"random.key: seeds are integers of at least 0, got {n!r}")
    from numpy.random import SeedSequence

    return int(SeedSequence(int(seed), spawn_key=tuple(map(int, path))).generate_state(1, np.uint64)[0])


class RandomStream:
    """A source of draws. Each draw in a graph has a key of its own; all share one counter, which every call of a
    function that uses them advances by one. A stream made anew from the same seed repeats itself bit for bit.

    Attributes:
        counter: the shared counter. Save it to go on later where one left off; set it to 0 to start again.

    Example:
        >>> import pullback as pb
        >>> stream = pb.RandomStream(seed=1)
        >>> noise = pb.function([], stream.normal(size=(2, 3)))
        >>> noise().shape, bool((noise() == noise()).any())
        ((2, 3), False)
    """

    def __init__(self, seed: int = 0, name: str | None = None) -> None:
        key(seed)
        self.seed = int(seed)
        self.draws = 0
        self.counter: SharedVariable = shared(np.int64(0), name or "random_counter")
        self.counter.default_update = self.counter + 1

    def __getstate__(self) -> dict[str, Any]:
        return {"seed": self.seed, "draws": self.draws, "name": self.counter.name, "count": self.counter.get_value()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["seed"], state["name"])
        self.draws = state["draws"]
        self.counter.set_value(state["count"])

    def next(self) -> tuple[Constant, SharedVariable]:
        """The (key, counter) of one more draw."""
        self.draws += 1
        return Constant(np.uint64(key(self.seed, self.draws))), self.counter

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None) -> Variable:
        """`pb.random.uniform` from this stream."""
        return uniform(self, low, high, size, dtype)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Variable:
        """`pb.random.normal` from this stream."""
        return normal(self, loc, scale, size, dtype)

    def truncated_normal(
        self, loc: Any = 0.0, scale: Any = 1.0, low: Any = -2.0, high: Any = 2.0, size: Any = None, dtype: Any = None
    ) -> Variable:
        """`pb.random.truncated_normal` from this stream."""
        return truncated_normal(self, loc, scale, low, high, size, dtype)

    def exponential(self, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Variable:
        """`pb.random.exponential` from this stream."""
        return exponential(self, scale, size, dtype)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Variable:
        """`pb.random.gumbel` from this stream."""
        return gumbel(self, loc, scale, size, dtype)

    def bernoulli(self, p: Any = 0.5, size: Any = None, dtype: Any = None) -> Variable:
        """`pb.random.bernoulli` from this stream."""
        return bernoulli(self, p, size, dtype)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = "int64") -> Variable:
        """`pb.random.randint` from this stream."""
        return randint(self, low, high, size, dtype)

    def categorical(self, p: Any, size: Any = None) -> Variable:
        """`pb.random.categorical` from this stream."""
        return categorical(self, p, size)

    def multinomial(self, n: int, p: Any, size: Any = None) -> Variable:
        """`pb.random.multinomial` from this stream."""
        return multinomial(self, n, p, size)

    def permutation(self, x: Any, axis: int = 0) -> Variable:
        """`pb.random.permutation` from this stream."""
        return permutation(self, x, axis)

    def choice(self, a: Any, size: Any = None, p: Any = None) -> Variable:
        """`pb.random.choice` from this stream."""
        return choice(self, a, size, p)

    def gumbel_softmax(self, logits: Any, temperature: Any = 1.0, axis: int = -1) -> Variable:
        """`pb.random.gumbel_softmax` from this stream."""
        return gumbel_softmax(self, logits, temperature, axis)

    def dropout(self, x: Any, p: Any = 0.5, shared_axes: Sequence[int] = ()) -> Variable:
        """`pb.dropout` with this stream."""
        return dropout(x, p, self, shared_axes)


Source = RandomStream | tuple[Any, Any] | int


def _key_and_counter(source: Source) -> tuple[Any, Any]:
    if isinstance(source, RandomStream):
        return source.next()
    if isinstance(source, tuple) and len(source) == 2:
        seed, counter = source
    else:
        seed, counter = source, 0
    if not isinstance(seed, Variable):
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise ArgumentTypeError(f"random draws need a RandomStream, a key or a pair (key, counter), got {source!r}")
        seed = Constant(np.uint64(seed))
    counter = as_tensor(counter)
    for v in (seed, counter):
        if v.ndim or not v.type.is_discrete:
            raise ArgumentTypeError(f"a random key and its counter are integer scalars, got {v!r} of type {v.type}")
    return seed, counter


def _draw(op: type[Draw], source: Source, size: Any, dtype: Any, *parameters: Any) -> Variable:
    sizes, lengths = parse_shape(size, "random draw")
    return op(sizes, dtype)(*_key_and_counter(source), *parameters, *lengths)


def _parameters(size: Any, dtype: Any, *parameters: Any) -> tuple[Any, str, list[Variable]]:
    """The size (by default that of the parameters broadcast together), the dtype, and the parameters in that dtype."""
    variables = as_tensors(parameters)
    together = reduce(add, variables)
    name = TensorType(dtype or float_dtype(together.dtype)).dtype
    if not name.startswith("float"):
        raise DTypeError(f"a continuous distribution has a float dtype, got {name}")
    return shape(together) if size is None else size, name, [cast(v, name) for v in variables]


# --- distributions ----------------------------------------------------------------------------------------------------


def uniform(source: Source, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = None) -> Variable:
    """Uniform numbers in [low, high), differentiable in both: low + (high - low) u.

    Args:
        source: a RandomStream, a key (see `pb.random.key`), or a pair (key, counter) of integer scalars.
        low, high: bounds, numbers or arrays.
        size: the shape of the result, of integers or integer variables; by default that of the bounds.
        dtype: by default that of the bounds (config.floatX for Python numbers).
    """
    size, name, (low, high) = _parameters(size, dtype, low, high)
    u = _draw(Uniform, source, size, name)
    if all(isinstance(v, Constant) and v.ndim == 0 for v in (low, high)) and (low.data, high.data) == (0, 1):
        return u
    return add(low, multiply(subtract(high, low), u))


def normal(source: Source, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Variable:
    """Normal numbers loc + scale z, differentiable in both (the reparametrisation of Kingma & Welling 2013)."""
    size, name, (loc, scale) = _parameters(size, dtype, loc, scale)
    return add(loc, multiply(scale, _draw(StandardNormal, source, size, name)))


def truncated_normal(
    source: Source,
    loc: Any = 0.0,
    scale: Any = 1.0,
    low: Any = -2.0,
    high: Any = 2.0,
    size: Any = None,
    dtype: Any = None,
) -> Variable:
    """Normal numbers loc + scale z given low <= z <= high, by inversion; differentiable in all four.

    `low` and `high` count in units of `scale` from `loc`. Intervals in the upper tail are mirrored into the lower,
    where the distribution function has full precision.
    """
    size, name, (loc, scale, low, high) = _parameters(size, dtype, loc, scale, low, high)
    upper = greater(low, 0)
    a, b = where(upper, negative(high), low), where(upper, negative(low), high)
    pa, pb = ndtr(a), ndtr(b)
    u = _draw(Uniform, source, size, name)
    z = multiply(-np.sqrt(2.0).item(), erfcinv(multiply(2, add(pa, multiply(subtract(pb, pa), u)))))
    z = clip(z, a, b)
    return add(loc, multiply(scale, where(upper, negative(z), z)))


def exponential(source: Source, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Variable:
    """Exponential numbers of mean `scale`, differentiable in it: -scale log(1 - u)."""
    size, name, (scale,) = _parameters(size, dtype, scale)
    return multiply(scale, negative(log1p(negative(_draw(Uniform, source, size, name)))))


def gumbel(source: Source, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = None) -> Variable:
    """Gumbel numbers, differentiable in both parameters: loc - scale log(-log u), u in (0, 1)."""
    size, name, (loc, scale) = _parameters(size, dtype, loc, scale)
    u = maximum(_draw(Uniform, source, size, name), float(np.finfo(name).epsneg) / 2)  # 0 is not in (0, 1)
    return subtract(loc, multiply(scale, log(negative(log(u)))))


def bernoulli(source: Source, p: Any = 0.5, size: Any = None, dtype: Any = None) -> Variable:
    """1 with probability `p`, else 0. The gradient to `p` is undefined: the draw jumps.

    Args:
        source: as in `pb.random.uniform`.
        p: probability, a number or array; outside [0, 1] it counts as the nearer bound.
        size: the shape of the result; by default that of `p`.
        dtype: by default that of `p`; "bool" gives True and False.
    """
    p = as_tensor(p)
    p = cast(p, float_dtype(p.dtype))
    name = TensorType(dtype or p.dtype).dtype
    return _draw(Bernoulli, source, shape(p) if size is None else size, name, p)


def randint(source: Source, low: Any, high: Any = None, size: Any = None, dtype: Any = "int64") -> Variable:
    """Whole numbers in [low, high), or in [0, low) without `high`."""
    low, high = as_tensors([0, low] if high is None else [low, high])
    for v in (low, high):
        if not v.type.is_discrete:
            raise ArgumentTypeError(f"randint: bounds are integers, got {v!r} of type {v.type}")
    return _draw(Integers, source, shape(add(low, high)) if size is None else size, TensorType(dtype).dtype, low, high)


def categorical(source: Source, p: Any, size: Any = None) -> Variable:
    """Indices drawn with probabilities `p` (along its last axis; they need not sum to 1), as int64.

    Args:
        source: as in `pb.random.uniform`.
        p: probabilities of at least 0, not all 0, else ArgumentError at run time.
        size: the shape of the result, to which the other axes of `p` broadcast; by default those axes.
    """
    p = as_tensor(p)
    if p.ndim == 0:
        raise ArgumentTypeError("categorical: p needs an axis of probabilities, got a scalar")
    p = cast(p, float_dtype(p.dtype))
    return _draw(Categorical, source, list(shape(p))[:-1] if size is None else size, "int64", p)


def multinomial(source: Source, n: int, p: Any, size: Any = None) -> Variable:
    """How often each index comes up in `n` draws with probabilities `p` (along its last axis), as int64.

    The result has the shape `size` (by default the other axes of `p`), then one axis for the indices.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        raise ArgumentTypeError(f"multinomial: n is a number of draws, got {n!r}")
    p = as_tensor(p)
    draws = categorical(source, p, [int(n), *(list(shape(p))[:-1] if size is None else _lengths(size))])
    hits = equal(expand_dims(draws, -1), arange(length(p, -1)))
    return total(cast(hits, "int64"), axis=0)


def _lengths(size: Any) -> list[Any]:
    sizes, unknown = parse_shape(size, "random draw")
    symbolic = iter(unknown)
    return [next(symbolic) if n is None else n for n in sizes]


def permutation(source: Source, x: Any, axis: int = 0) -> Variable:
    """0 ... x - 1 in random order for an integer scalar `x`; else the slices of `x` along `axis` in random order."""
    x = as_tensor(x)
    if x.ndim == 0:
        return _draw(Permutation, source, x, "int64")
    axis = normalize_axis(axis, x.ndim, "permutation")
    order = _draw(Permutation, source, length(x, axis), "int64")
    return x[(slice(None),) * axis + (order,)]


def choice(source: Source, a: Any, size: Any = None, p: Any = None) -> Variable:
    """Elements drawn with replacement from 0 ... a - 1 (integer `a`) or from the first axis of `a`.

    With `p` they are drawn with these probabilities, else with equal ones.
    """
    a = as_tensor(a)
    size = () if size is None else size
    index = randint(source, a if a.ndim == 0 else length(a), size=size) if p is None else categorical(source, p, size)
    return index if a.ndim == 0 else a[index]


def gumbel_softmax(source: Source, logits: Any, temperature: Any = 1.0, axis: int = -1) -> Variable:
    """A relaxed categorical draw: softmax((logits + gumbel) / temperature) (Jang et al. 2016; Maddison et al. 2016).

    Differentiable in `logits` and `temperature`; as the temperature falls to 0 it becomes a one-hot categorical draw.
    """
    logits = as_tensor(logits)
    logits = cast(logits, float_dtype(logits.dtype))
    noise = gumbel(source, size=shape(logits), dtype=logits.dtype)
    return softmax(divide(add(logits, noise), temperature), axis)


def dropout(x: Any, p: Any, source: Source, shared_axes: int | Sequence[int] = ()) -> Variable:
    """`x` with each entry set to 0 with probability `p`, the others divided by 1 - p (Srivastava et al. 2014).

    What is dropped is exactly 0 and gets exactly 0 gradient, even if it is NaN or infinite. Forward and backward use
    one mask. The gradient to `p` is undefined: the mask jumps.

    Args:
        x: a float tensor.
        p: probability of dropping, a number in [0, 1] or a float scalar variable.
        source: a RandomStream, a key, or a pair (key, counter).
        shared_axes: axes along which entries share their fate, e.g. (1, 2) to drop whole channels of NHWC images.
    """
    x = as_tensor(x)
    x = cast(x, float_dtype(x.dtype))
    size = list(shape(x))
    for axis in normalize_axes(shared_axes, x.ndim, "dropout"):
        size[axis] = 1
    if isinstance(p, Variable):
        p = undefined_grad(p, "the mask of a dropout jumps as its probability changes")
        keep = subtract(1, cast(p, "float32"))
        scale = cast(reciprocal(keep), x.dtype)
    else:
        if not 0 <= p <= 1:
            raise ArgumentError(f"dropout: p={p}; expected a probability in [0, 1]")
        keep = np.float32(1 - p)
        scale = 1.0 / (1 - p) if p < 1 else 0.0
    mask = _draw(Bernoulli, source, size, "bool", keep)
    return where(mask, multiply(x, scale), zeros_like(x))
