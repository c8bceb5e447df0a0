"""What there is to know about an op in order to test it: its inputs, its special points, its references."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Sizes = Mapping[str, int]
DEFAULT_RANGE = (2, 4)  # lengths that an axis name takes unless the entry says otherwise


@dataclass(frozen=True)
class Input:
    """What a test may feed into one input.

    Attributes:
        axes: one word per axis: a name (same name, same length: "batch n"), a number, or a product or sum of them
            ("2*n", "n+1"). Empty for a scalar.
        low, high: the interval that values are drawn from.
        dtype: "float" (tests run it as float64 and float32) or a fixed dtype.
        draw: `(rng, shape, sizes) -> array`, where a uniform draw won't do.
        name: for reports.
    """

    axes: str = ""
    low: float = -2.0
    high: float = 2.0
    dtype: str = "float"
    draw: Callable[[np.random.Generator, tuple[int, ...], Sizes], Any] | None = None
    name: str | None = None

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(int(eval(word, {"__builtins__": {}}, dict(sizes))) for word in self.axes.split())

    def array(self, rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
        """One draw, in float64 where the dtype is open."""
        dtype = "float64" if self.dtype == "float" else self.dtype
        if self.draw is not None:
            return np.asarray(self.draw(rng, shape, sizes), dtype)
        if np.dtype(dtype).kind == "b":
            return rng.random(shape) < 0.5
        if np.dtype(dtype).kind in "iu":
            return rng.integers(int(self.low), int(self.high), shape, endpoint=True).astype(dtype)
        return rng.uniform(self.low, self.high, shape).astype(np.float32).astype(dtype)  # exact in float32 too


def real(axes: str = "", low: float = -2.0, high: float = 2.0, **rest: Any) -> Input:
    """A float input of either sign."""
    return Input(axes, low, high, **rest)


def positive(axes: str = "", low: float = 0.3, high: float = 2.5, **rest: Any) -> Input:
    """A float input that stays above zero."""
    return Input(axes, low, high, **rest)


def integer(axes: str = "", low: int = 0, high: int = 4, dtype: str = "int64", **rest: Any) -> Input:
    """An integer input between `low` and `high`, both included."""
    return Input(axes, low, high, dtype, **rest)


def mask(axes: str = "", **rest: Any) -> Input:
    """A boolean input."""
    return Input(axes, dtype="bool", **rest)


def index(axes: str, length: str, negative: bool = True, dtype: str = "int64", **rest: Any) -> Input:
    """Indices into an axis of the length that the word `length` names; duplicates happen."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], sizes: Sizes) -> np.ndarray:
        n = Input(length).shape(sizes)[0]
        return rng.integers(-n if negative else 0, max(n, 1), shape) if n else np.zeros(shape, dtype)

    return Input(axes, dtype=dtype, draw=draw, **rest)


@dataclass(frozen=True)
class Point:
    """A point that draws never hit (a kink, a tie, infinity) with the answer that is right there.

    Attributes:
        inputs: arrays or numbers.
        grads: per input the gradient for `cotangents`; None where it isn't looked at.
        value: the value, if that is to be compared as well.
        cotangents: one per float output; ones unless given.
        why: the reason.
    """

    inputs: tuple[Any, ...]
    grads: tuple[Any, ...]
    value: Any = None
    cotangents: tuple[Any, ...] | None = None
    why: str = ""


@dataclass(frozen=True)
class Entry:
    """One op, or one use of it, with all that a test needs.

    Attributes:
        name: of the public function, with its options in brackets where there are several entries.
        call: from variables to the output variable or variables.
        inputs: what may be fed in.
        sizes: {axis name: (least, largest) length}, where the default (2, 4) won't do.
        broadcast: the inputs broadcast against each other: axes may be missing or of length 1.
        analytic: the value is computed by analytic functions that take complex numbers, so the complex step applies.
        strong_zero: a zero cotangent gives a zero gradient whatever the inputs are, NaN and infinity included (law 3).
        empty: axis names that may have length 0, all unless given.
        single: axis names that may have length 1, all unless given.
        ties: equal values are legal inputs, and the gradient there must be a legal subgradient.
        orders: the highest derivative to prove.
        points: special points.
        pullback: `(arrays, cotangents) -> gradients` where the gradient is deliberately not the derivative.
        differs: inputs whose values may change the output although they are declared disconnected, and why.
        limits: largest error allowed at order 1, 2, ...
        float32: largest error of the float32 gradient beside the float64 one, relative to its largest element.
        formula: the gradient in mathematical notation.
        references: papers, equations, bug reports.
    """

    name: str
    call: Callable[..., Any]
    inputs: tuple[Input, ...]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    broadcast: bool = False
    analytic: bool = False
    strong_zero: bool = False
    empty: tuple[str, ...] | None = None
    single: tuple[str, ...] | None = None
    ties: bool = False
    orders: int = 2
    points: tuple[Point, ...] = ()
    pullback: Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], Sequence[Any]] | None = None
    differs: Mapping[int, str] = field(default_factory=dict)
    limits: tuple[float, ...] = (1e-6, 1e-5, 1e-4)
    float32: float = 1e-4
    formula: str = ""
    references: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def axis_names(self) -> list[str]:
        words = " ".join(i.axes for i in self.inputs)
        return sorted(set(re.findall(r"[a-z_]+", words)) | set(self.sizes))

    def range_of(self, axis: str) -> tuple[int, int]:
        return self.sizes.get(axis, DEFAULT_RANGE)

    def draw_sizes(self, rng: np.random.Generator) -> dict[str, int]:
        return {axis: int(rng.integers(*self.range_of(axis), endpoint=True)) for axis in self.axis_names}

    def shapes(self, sizes: Sizes) -> list[tuple[int, ...]]:
        return [i.shape(sizes) for i in self.inputs]

    def draw(
        self, rng: np.random.Generator, sizes: Sizes, shapes: Sequence[tuple[int, ...]] | None = None
    ) -> list[np.ndarray]:
        """Input arrays, in float64 where the dtype is open."""
        shapes = self.shapes(sizes) if shapes is None else shapes
        return [i.array(rng, shape, sizes) for i, shape in zip(self.inputs, shapes)]


def variants(
    name: str, call: Callable[..., Any], inputs: Sequence[Input], options: Sequence[Mapping[str, Any]], **rest: Any
) -> list[Entry]:
    """One entry per set of keyword options of a function."""

    def bound(given: Mapping[str, Any]) -> Callable[..., Any]:
        return lambda *arguments: call(*arguments, **given)

    def label(given: Mapping[str, Any]) -> str:
        return f"{name}[{', '.join(f'{k}={v}' for k, v in given.items())}]" if given else name

    return [Entry(label(given), bound(given), tuple(inputs), **rest) for given in options]


def entry_of(op: Callable[..., Any], arrays: Sequence[Any], **options: Any) -> Entry:
    """An entry made from example inputs: draws have their shapes and values from their range; integers stay."""
    inputs = []
    for a in map(np.asarray, arrays):
        if a.dtype.kind == "f" and a.size:
            low, high = float(a.min()), float(a.max())
            if not low < high:
                low, high = low - 1.0, high + 1.0
            inputs.append(Input(" ".join(map(str, a.shape)), low, high))
        else:
            dtype = "float" if a.dtype.kind == "f" else a.dtype.name
            inputs.append(Input(" ".join(map(str, a.shape)), dtype=dtype, draw=lambda rng, shape, sizes, a=a: a))
    return Entry(getattr(op, "__name__", None) or str(op), op, tuple(inputs), **options)
