"""Shapes: asking for them and changing them. Sizes are integers, or integer scalars such as `x.shape[0]`."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, ShapeError
from ..graph import Apply, Constant, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import floor_divide, multiply
from .dtypes import as_tensor, as_tensors, result_dtype
from .elementwise import cast, sum_to

__all__ = [
    "broadcast_to", "concatenate", "expand_dims", "flatten", "length", "moveaxis", "ravel", "reshape", "shape", "size",
    "split", "squeeze", "stack", "swapaxes", "transpose",
]  # fmt: skip


def normalize_axis(axis: Any, ndim: int, what: str) -> int:
    """`axis` counted from the front; outside [-ndim, ndim) it is refused in the name of `what`."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise ArgumentTypeError(f"{what}: axis must be an integer, got {axis!r}")
    if not -ndim <= axis < ndim:
        raise ShapeError(f"{what}: axis {axis} is out of range for {ndim} dimensions")
    return int(axis) % ndim


def normalize_axes(axes: Any, ndim: int, what: str) -> tuple[int, ...]:
    """One axis or several, counted from the front, without repeats; None means all."""
    if axes is None:
        return tuple(range(ndim))
    given = list(axes) if isinstance(axes, (tuple, list, range)) else [axes]
    normal = tuple(normalize_axis(a, ndim, what) for a in given)
    if len(set(normal)) != len(normal):
        raise ArgumentError(f"{what}: axes {tuple(given)} name one axis twice")
    return normal


# --- asking -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape(Op):
    """The lengths of all axes, as an int64 vector."""

    shape_only_inputs = (0,)

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType("int64", (x.ndim,))])

    def perform(self, x):
        return np.array(x.shape, np.int64)

    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False]]

    def infer_shape(self, node, shapes, values):
        return [(len(shapes[0]),)]


@dataclass(frozen=True)
class Length(Op):
    """The length of one axis, as an int64 scalar."""

    axis: int
    shape_only_inputs = (0,)

    def make_node(self, x: Any) -> Apply:
        return Apply(self, [as_variable(x)], [TensorType("int64")])

    def perform(self, x):
        return np.array(x.shape[self.axis], np.int64)

    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]

    def connection_pattern(self, node):
        return [[False]]

    def infer_shape(self, node, shapes, values):
        return [()]


def shape(x: Any) -> Variable:
    """The shape of `x` as an int64 vector; `shape(x)[i]` is an integer scalar. Nothing is differentiated through it."""
    return Shape()(x)


def length(x: Any, axis: int = 0) -> Variable:
    """The length of one axis of `x` as an int64 scalar: a constant where it is known statically."""
    x = as_variable(x)
    axis = normalize_axis(axis, x.ndim, "length")
    known = x.type.shape[axis]
    return Length(axis)(x) if known is None else Constant(np.int64(known))


def size(x: Any, axis: int | None = None) -> Variable:
    """The number of elements of `x`, or its length along `axis`, as an int64 scalar."""
    x = as_variable(x)
    if axis is not None:
        return length(x, axis)
    total: Variable = Constant(np.int64(prod(n for n in x.type.shape if n is not None)))
    for i, n in enumerate(x.type.shape):
        if n is None:
            total = multiply(total, length(x, i))
    return total


Sizes = tuple[int | None, ...]


def parse_shape(sizes: Any, what: str) -> tuple[Sizes, list[Variable]]:
    """A user's shape as (known lengths with None for the symbolic ones, the symbolic lengths in order)."""
    if isinstance(sizes, Variable) and sizes.ndim == 1:
        sizes = _elements(sizes, what)
    elif isinstance(sizes, (Variable, int, np.integer)):
        sizes = [sizes]
    elif isinstance(sizes, np.ndarray):
        sizes = sizes.reshape(-1).tolist()
    known: list[int | None] = []
    unknown: list[Variable] = []
    for n in sizes:
        n = n.data if isinstance(n, Constant) else n
        if isinstance(n, Variable):
            if n.ndim or not n.dtype.startswith(("int", "uint")):
                raise ArgumentTypeError(f"{what}: a length must be an integer scalar, got {n!r} of type {n.type}")
            known.append(None)
            unknown.append(cast(n, "int64"))
        else:
            if isinstance(n, bool) or np.ndim(n) or not np.issubdtype(np.asarray(n).dtype, np.integer):
                raise ArgumentTypeError(f"{what}: a length must be an integer, got {n!r}")
            known.append(int(n))
    return tuple(known), unknown


def _elements(vector: Variable, what: str) -> list[Variable]:
    """The elements of a vector of lengths, seen through `shape`."""
    if vector.owner is not None and isinstance(vector.owner.op, Shape):
        x = vector.owner.inputs[0]
        return [length(x, i) for i in range(x.ndim)]
    n = vector.type.shape[0]
    if n is None:
        raise ArgumentTypeError(f"{what}: {vector!r} of type {vector.type} has an unknown number of lengths")
    if isinstance(vector, Constant):
        return [Constant(v) for v in vector.data]
    return [vector[i] for i in range(n)]


def fill_in(sizes: Sizes, values: Sequence[Any]) -> tuple[int, ...] | None:
    """`sizes` with each None replaced by the next of `values`; None if one of those is unknown."""
    if any(v is None for v in values):
        return None
    symbolic = iter(values)
    return tuple(int(next(symbolic)) if n is None else n for n in sizes)


# --- the same elements in another shape -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reshape(Op):
    """The elements in C order under a new shape; inputs: x, then a scalar per None in `shape`; one may be -1."""

    shape: Sizes
    formula = "g in the shape of x"
    view_map = {0: 0}

    def make_node(self, x: Any, *lengths: Any) -> Apply:
        x = as_variable(x)
        static = [None if n == -1 else n for n in self.shape]
        if None not in x.type.shape and None not in self.shape:
            static = list(self._resolve(x.type.shape, self.shape))
        return Apply(self, [x, *map(as_variable, lengths)], [TensorType(x.dtype, tuple(static))])

    def perform(self, x, *lengths):
        return x.reshape(self._resolve(x.shape, fill_in(self.shape, lengths)))

    def _resolve(self, old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        """`new` with its -1 computed, checked against the number of elements in `old`."""
        count, rest = prod(old), prod(n for n in new if n != -1)
        if new.count(-1) > 1:
            raise ShapeError(f"reshape to {new}: only one length can be -1")
        if any(n < -1 for n in new):
            raise ShapeError(f"reshape to {new}: lengths can't be negative")
        if -1 in new:
            if rest == 0 or count % rest:
                raise ShapeError(f"can't reshape {count} elements of shape {old} into {new}")
            return tuple(count // rest if n == -1 else n for n in new)
        if count != rest:
            raise ShapeError(f"can't reshape {count} elements of shape {old} into {new}, which has {rest}")
        return new

    def grad(self, inputs, output_grads):
        return [reshape(output_grads[0], shape(inputs[0])), *(DisconnectedType()() for _ in inputs[1:])]

    def connection_pattern(self, node):
        return [[True], *([False] for _ in node.inputs[1:])]

    def infer_shape(self, node, shapes, values):
        new = fill_in(self.shape, values[1:])
        return None if new is None else [self._resolve(shapes[0], new)]


def reshape(x: Any, shape: Any) -> Variable:
    """The elements of `x` in C order under a new shape.

    Args:
        x: any tensor.
        shape: integers or integer variables, or the `shape` of a variable; one length may be -1: what remains.

    Raises:
        ShapeError: where the number of elements doesn't fit (at build where lengths are known, else at run time).
    """
    x = as_tensor(x)
    sizes, unknown = parse_shape(shape, "reshape")
    if sizes.count(-1) > 1:
        raise ShapeError(f"reshape to {sizes}: only one length can be -1")
    if sizes == x.type.shape and not unknown:
        return x
    return Reshape(sizes)(x, *unknown)


def ravel(x: Any) -> Variable:
    """All elements of `x` in C order, as a vector."""
    return flatten(x, 1)


def flatten(x: Any, ndim: int = 1) -> Variable:
    """`x` with its trailing axes made one, so that `ndim` dimensions are left; as a vector by default."""
    x = as_tensor(x)
    if not 1 <= ndim <= max(x.ndim, 1):
        raise ArgumentError(f"flatten: ndim={ndim}; expected 1 to {max(x.ndim, 1)} for {x.type}")
    kept = ndim - 1
    rest = x.type.shape[kept:]
    last = -1 if None in rest and None not in x.type.shape[:kept] else size_of(x, range(kept, x.ndim))
    return x if x.ndim == ndim else reshape(x, [*(length(x, i) for i in range(kept)), last])


def size_of(x: Variable, axes: Any) -> Variable:
    """The number of elements along several axes."""
    total: Variable = Constant(np.int64(prod(n for a in axes if (n := x.type.shape[a]) is not None)))
    for a in axes:
        if x.type.shape[a] is None:
            total = multiply(total, length(x, a))
    return total


@dataclass(frozen=True)
class Transpose(Op):
    """Axes permuted: output axis i is input axis `axes[i]`."""

    axes: tuple[int, ...]
    formula = "g with its axes put back"
    view_map = {0: 0}

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType(x.dtype, tuple(x.type.shape[a] for a in self.axes))])

    def perform(self, x):
        return x.transpose(self.axes)

    def grad(self, inputs, output_grads):
        return [Transpose(tuple(int(a) for a in np.argsort(self.axes)))(output_grads[0])]

    def infer_shape(self, node, shapes, values):
        return [tuple(shapes[0][a] for a in self.axes)]


def transpose(x: Any, axes: Sequence[int] | None = None) -> Variable:
    """Axes permuted: output axis i is input axis `axes[i]`; reversed by default."""
    x = as_tensor(x)
    order = tuple(reversed(range(x.ndim))) if axes is None else normalize_axes(axes, x.ndim, "transpose")
    if len(order) != x.ndim:
        raise ArgumentError(f"transpose: axes {tuple(axes)} don't name each of the {x.ndim} axes of {x.type}")
    return x if order == tuple(range(x.ndim)) else Transpose(order)(x)


def moveaxis(x: Any, source: Any, destination: Any) -> Variable:
    """`x` with axes `source` put at the places `destination`, the others in their order."""
    x = as_tensor(x)
    source = normalize_axes(source, x.ndim, "moveaxis")
    destination = normalize_axes(destination, x.ndim, "moveaxis")
    if len(source) != len(destination):
        raise ArgumentError(f"moveaxis: {len(source)} axes can't go to {len(destination)} places")
    order = [a for a in range(x.ndim) if a not in source]
    for place, a in sorted(zip(destination, source)):
        order.insert(place, a)
    return transpose(x, order)


def swapaxes(x: Any, axis1: int, axis2: int) -> Variable:
    """`x` with two axes exchanged."""
    x = as_tensor(x)
    i, j = normalize_axis(axis1, x.ndim, "swapaxes"), normalize_axis(axis2, x.ndim, "swapaxes")
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return transpose(x, order)


@dataclass(frozen=True)
class ExpandDims(Op):
    """New axes of length 1 at the (sorted, output) places `axes`."""

    axes: tuple[int, ...]
    formula = "g without the new axes"
    view_map = {0: 0}

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType(x.dtype, self._expand(x.type.shape))])

    def _expand(self, old: tuple) -> tuple:
        new = list(old)
        for a in self.axes:
            new.insert(a, 1)
        return tuple(new)

    def perform(self, x):
        return x.reshape(self._expand(x.shape)) if x.size == 0 else np.expand_dims(x, self.axes)

    def grad(self, inputs, output_grads):
        return [Squeeze(self.axes)(output_grads[0])]

    def infer_shape(self, node, shapes, values):
        return [self._expand(shapes[0])]


@dataclass(frozen=True)
class Squeeze(Op):
    """The axes of length 1 named in `axes` (sorted) removed."""

    axes: tuple[int, ...]
    formula = "g with the axes back"
    view_map = {0: 0}

    def make_node(self, x: Any) -> Apply:
        x = as_variable(x)
        return Apply(self, [x], [TensorType(x.dtype, self._squeeze(x.type.shape))])

    def _squeeze(self, old: tuple) -> tuple:
        for a in self.axes:
            if old[a] not in (1, None):
                raise ShapeError(f"squeeze: axis {a} has length {old[a]}, expected 1 (shape {old})")
        return tuple(n for a, n in enumerate(old) if a not in self.axes)

    def perform(self, x):
        return x.reshape(self._squeeze(x.shape)) if x.size == 0 else np.squeeze(self._checked(x), self.axes)

    def _checked(self, x):
        self._squeeze(x.shape)
        return x

    def grad(self, inputs, output_grads):
        return [ExpandDims(self.axes)(output_grads[0])]

    def infer_shape(self, node, shapes, values):
        return [self._squeeze(shapes[0])]


def expand_dims(x: Any, axis: int | Sequence[int]) -> Variable:
    """`x` with new axes of length 1, at the place(s) `axis` of the result."""
    x = as_tensor(x)
    count = 1 if isinstance(axis, (int, np.integer)) else len(axis)
    axes = tuple(sorted(normalize_axes(axis, x.ndim + count, "expand_dims")))
    return ExpandDims(axes)(x) if axes else x


def squeeze(x: Any, axis: int | Sequence[int] | None = None) -> Variable:
    """`x` without the axes `axis`, which must have length 1; by default without all that are known to have length 1."""
    x = as_tensor(x)
    if axis is None:
        axes = tuple(a for a, n in enumerate(x.type.shape) if n == 1)
    else:
        axes = tuple(sorted(normalize_axes(axis, x.ndim, "squeeze")))
    return Squeeze(axes)(x) if axes else x


# --- repeating, joining, cutting --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BroadcastTo(Op):
    """`x` repeated to a shape; inputs: x, then one scalar per None in `shape`."""

    shape: Sizes
    formula = "g summed over the repeated axes"
    view_map = {0: 0}

    def make_node(self, x: Any, *lengths: Any) -> Apply:
        x = as_variable(x)
        lead = len(self.shape) - x.ndim
        for n, m in zip(x.type.shape, self.shape[lead:] if lead >= 0 else ()):
            if n not in (None, 1) and m is not None and n != m:
                lead = -1
        if lead < 0:
            raise ShapeError(f"broadcast_to: {x.type} can't be broadcast to shape {self.shape}")
        return Apply(self, [x, *map(as_variable, lengths)], [TensorType(x.dtype, self.shape)])

    def perform(self, x, *lengths):
        return np.broadcast_to(x, self._check(x.shape, fill_in(self.shape, lengths)))

    def _check(self, old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        lead = len(new) - len(old)
        if any(n not in (1, m) for n, m in zip(old, new[lead:])) or any(m < 0 for m in new):
            raise ShapeError(f"broadcast_to: shape {old} can't be broadcast to {new}")
        return new

    def grad(self, inputs, output_grads):
        return [sum_to(output_grads[0], inputs[0]), *(DisconnectedType()() for _ in inputs[1:])]

    def connection_pattern(self, node):
        return [[True], *([False] for _ in node.inputs[1:])]

    def infer_shape(self, node, shapes, values):
        new = fill_in(self.shape, values[1:])
        return None if new is None else [self._check(shapes[0], new)]


def broadcast_to(x: Any, shape: Any) -> Variable:
    """`x` repeated to `shape` (integers or integer variables), by NumPy's broadcasting rule. Its gradient sums back."""
    x = as_tensor(x)
    sizes, unknown = parse_shape(shape, "broadcast_to")
    return x if sizes == x.type.shape and not unknown else BroadcastTo(sizes)(x, *unknown)


@dataclass(frozen=True)
class Concatenate(Op):
    """Arrays joined along an existing axis."""

    axis: int

    formula = "g cut into the pieces"

    def make_node(self, *arrays: Any) -> Apply:
        inputs = [as_variable(x) for x in arrays]
        static = [None] * inputs[0].ndim
        for a in range(inputs[0].ndim):
            lengths = [x.type.shape[a] for x in inputs]
            known = {n for n in lengths if n is not None}
            if a == self.axis:
                static[a] = None if None in lengths else sum(lengths)
            elif len(known) > 1:
                shapes = ", ".join(str(x.type) for x in inputs)
                raise ShapeError(f"concatenate along axis {self.axis}: lengths on axis {a} differ: {shapes}")
            else:
                static[a] = known.pop() if known else None
        return Apply(self, inputs, [TensorType(inputs[0].dtype, tuple(static))])

    def perform(self, *arrays):
        self.infer_shape(None, [x.shape for x in arrays], ())
        return np.concatenate(arrays, self.axis)

    def grad(self, inputs, output_grads):
        if len(inputs) == 1:
            return [output_grads[0]]
        sizes = [length(x, self.axis) for x in inputs]
        return Split(self.axis, len(inputs))(output_grads[0], *sizes)

    def infer_shape(self, node, shapes, values):
        rests = {s[: self.axis] + s[self.axis + 1 :] for s in shapes}
        if len(rests) > 1:
            raise ShapeError(f"concatenate along axis {self.axis}: shapes {', '.join(map(str, shapes))} don't fit")
        first = shapes[0]
        return [(*first[: self.axis], sum(s[self.axis] for s in shapes), *first[self.axis + 1 :])]


@dataclass(frozen=True)
class Split(Op):
    """`x` cut along `axis` into `count` pieces; inputs: x, then the length of each piece."""

    axis: int
    count: int

    formula = "the pieces' cotangents joined"

    @property
    def view_map(self) -> dict[int, int]:  # type: ignore[override]
        return dict.fromkeys(range(self.count), 0)

    def make_node(self, x: Any, *sizes: Any) -> Apply:
        x, sizes = as_variable(x), [as_variable(n) for n in sizes]
        types = []
        for n in sizes:
            static = list(x.type.shape)
            static[self.axis] = int(n.data) if isinstance(n, Constant) else None
            types.append(TensorType(x.dtype, tuple(static)))
        return Apply(self, [x, *sizes], types)

    def perform(self, x, *sizes):
        self._check(x.shape, sizes)
        return tuple(np.split(x, np.cumsum(sizes[:-1]), self.axis))

    def _check(self, whole: tuple[int, ...], sizes: Sequence[Any]) -> None:
        if sum(sizes) != whole[self.axis] or min(sizes) < 0:
            pieces = ", ".join(str(int(n)) for n in sizes)
            raise ShapeError(f"split: lengths {pieces} don't make up axis {self.axis} of shape {whole}")

    def grad(self, inputs, output_grads):
        return [Concatenate(self.axis)(*output_grads), *(DisconnectedType()() for _ in inputs[1:])]

    def connection_pattern(self, node):
        return [[True] * self.count, *([False] * self.count for _ in node.inputs[1:])]

    def infer_shape(self, node, shapes, values):
        if any(n is None for n in values[1:]):
            return None
        self._check(shapes[0], values[1:])
        before, after = shapes[0][: self.axis], shapes[0][self.axis + 1 :]
        return [(*before, int(n), *after) for n in values[1:]]


def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Variable:
    """Arrays joined along an existing axis (None: all flattened first). Dtypes meet by the promotion rule."""
    if isinstance(arrays, Variable):
        raise ArgumentTypeError(f"concatenate takes a list of arrays, got one variable {arrays!r}")
    inputs = as_same_dtype(arrays, "concatenate")
    if axis is None:
        inputs, axis = [flatten(x) for x in inputs], 0
    if len({x.ndim for x in inputs}) > 1:
        raise ShapeError(f"concatenate: ranks differ: {', '.join(str(x.type) for x in inputs)}")
    if inputs[0].ndim == 0:
        raise ShapeError("concatenate: scalars have no axis to join along; use pb.stack")
    axis = normalize_axis(axis, inputs[0].ndim, "concatenate")
    return inputs[0] if len(inputs) == 1 else Concatenate(axis)(*inputs)


def as_same_dtype(arrays: Sequence[Any], what: str) -> list[Variable]:
    """A non-empty list of arrays as variables of the dtype in which they meet."""
    given = list(arrays)
    if not given:
        raise ArgumentError(f"{what}: an empty list has no dtype and no shape")
    inputs = as_tensors(given)
    dtype = result_dtype(inputs)
    return [cast(x, dtype) for x in inputs]


def stack(arrays: Sequence[Any], axis: int = 0) -> Variable:
    """Arrays of one shape joined along a new axis."""
    if isinstance(arrays, Variable):
        raise ArgumentTypeError(f"stack takes a list of arrays, got one variable {arrays!r}")
    inputs = as_same_dtype(arrays, "stack")
    if len({x.ndim for x in inputs}) > 1:
        raise ShapeError(f"stack: ranks differ: {', '.join(str(x.type) for x in inputs)}")
    axis = normalize_axis(axis, inputs[0].ndim + 1, "stack")
    return concatenate([expand_dims(x, axis) for x in inputs], axis)


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Variable]:
    """`x` cut along `axis`: into that many equal pieces, or at the given indices, as NumPy's `split`.

    Raises:
        ShapeError: if the axis can't be cut into equal pieces (at build where its length is known, else at run time).
    """
    x = as_tensor(x)
    axis = normalize_axis(axis, x.ndim, "split")
    if not isinstance(indices_or_sections, (int, np.integer)):
        cuts = [None, *indices_or_sections, None]
        return [x[(slice(None),) * axis + (slice(a, b),)] for a, b in zip(cuts, cuts[1:])]
    count, known = int(indices_or_sections), x.type.shape[axis]
    if count < 1:
        raise ArgumentError(f"split: {count} pieces; expected at least 1")
    if known is not None and known % count:
        raise ShapeError(f"split: axis {axis} of {x.type} can't be cut into {count} equal pieces")
    each = floor_divide(length(x, axis), count) if known is None else Constant(np.int64(known // count))
    return list(Split(axis, count).make_node(x, *[each] * count).outputs)
