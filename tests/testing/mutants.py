"""Ops with one deliberate mistake each, beside the right op that the mistake was made in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pullback as pb
from pullback.graph import Apply, DisconnectedType, Op, TensorType, as_variable
from pullback.testing import Entry, Point, index, positive, real


def typed(op: Op, inputs: Any, shape: Callable[..., tuple], dtype: str | None = None) -> Apply:
    variables = [as_variable(x) for x in inputs]
    return Apply(op, variables, [TensorType(dtype or variables[0].dtype, shape(*(v.type.shape for v in variables)))])


# --- right: x^3 -------------------------------------------------------------------------------------------------------
class Cube(Op):
    def make_node(self, x):
        return typed(self, [x], lambda s: s)

    def perform(self, x):
        return x**3

    def grad(self, inputs, output_grads):
        (x,), (g,) = inputs, output_grads
        return [3 * g * x**2]

    def infer_shape(self, node, shapes, values):
        return [shapes[0]]


class CubeSign(Cube):
    def grad(self, inputs, output_grads):
        return [-3 * output_grads[0] * inputs[0] ** 2]


class CubeFactor(Cube):
    def grad(self, inputs, output_grads):
        return [6 * output_grads[0] * inputs[0] ** 2]


class CubeUpstreamIgnored(Cube):
    def grad(self, inputs, output_grads):
        return [3 * inputs[0] ** 2]


class CubeUpstreamDivides(Cube):
    def grad(self, inputs, output_grads):
        return [3 * inputs[0] ** 2 / output_grads[0]]


class CubeZero(Cube):
    def grad(self, inputs, output_grads):
        return [0 * inputs[0]]


class CubeNone(Cube):
    def grad(self, inputs, output_grads):
        return [None]


class CubeDisconnected(Cube):
    def grad(self, inputs, output_grads):
        return [DisconnectedType()()]


class CubePattern(Cube):
    def connection_pattern(self, node):
        return [[False]]


class CubePatternRows(Cube):
    def connection_pattern(self, node):
        return [[True], [True]]


class CubeHalfPrecision(Cube):
    def grad(self, inputs, output_grads):
        return [pb.cast(3 * output_grads[0] * inputs[0] ** 2, "float32")]


class CubeWide(Cube):
    def perform(self, x):
        return x.astype(np.float64) ** 3


class CubeRounded(Cube):
    def perform(self, x):
        return (x.astype(np.float32) ** 3).astype(x.dtype)


class CubeWrites(Cube):
    def perform(self, x):
        y = x.copy()
        x **= 2
        return y * x


class CubeKeepsBuffer(Cube):
    buffers: dict = {}

    def perform(self, x):
        buffer = self.buffers.setdefault((x.shape, x.dtype), np.zeros_like(x))
        return np.power(x, 3, out=buffer)


class CubeAccumulates(Cube):
    buffers: dict = {}

    def perform(self, x):
        buffer = self.buffers.setdefault((x.shape, x.dtype), np.zeros_like(x))
        buffer += x**3
        return buffer.copy()


class CubeHalfWritten(Cube):
    def perform(self, x):
        y = np.empty_like(x)
        positive = x > 0
        y[positive] = x[positive] ** 3
        return y


class CubeNoisy(Cube):
    def perform(self, x):
        return x**3 * (1 + 1e-6 * np.random.default_rng().random(x.shape).astype(x.dtype))


class CubeMemoryOrder(Cube):
    def perform(self, x):
        return (np.ravel(x, order="K") ** 3).reshape(x.shape)


class CubeInferredShape(Cube):
    def infer_shape(self, node, shapes, values):
        return [shapes[0][::-1]]


class CubeStaticShape(Cube):
    def make_node(self, x):
        return typed(self, [x], lambda s: (*s[:-1], 7))


class CubeFirstOfBatch(Cube):
    def grad(self, inputs, output_grads):
        (x,), (g,) = inputs, output_grads
        return [3 * pb.broadcast_like(pb.expand_dims(g[0], 0), x) * x**2]


class CubeRolled(Cube):
    def grad(self, inputs, output_grads):
        (x,), (g,) = inputs, output_grads
        right = 3 * g * x**2
        return [pb.concatenate([right[1:], right[:1]], axis=0)]


# --- right: x^3 through a gradient op whose own gradient is wrong -----------------------------------------------------
class CubeGrad(Op):
    def make_node(self, g, x):
        return typed(self, [g, x], lambda s, t: t)

    def perform(self, g, x):
        return 3 * g * x**2

    def grad(self, inputs, output_grads):
        (g, x), (w,) = inputs, output_grads
        return [3 * w * x**2, 6 * w * g * x]


class CubeGradSecondOrder(CubeGrad):
    def grad(self, inputs, output_grads):
        (g, x), (w,) = inputs, output_grads
        return [3 * w * x**2, 3 * w * g * x]


class CubeTwice(Cube):
    gradient: Op = CubeGrad()

    def grad(self, inputs, output_grads):
        return [self.gradient(output_grads[0], inputs[0])]


class CubeTwiceWrong(CubeTwice):
    gradient = CubeGradSecondOrder()


# --- right: sin 3x ----------------------------------------------------------------------------------------------------
class Sin3(Cube):
    def perform(self, x):
        return np.sin(3 * x)

    def grad(self, inputs, output_grads):
        return [3 * output_grads[0] * pb.cos(3 * inputs[0])]


class Sin3Chain(Sin3):
    def grad(self, inputs, output_grads):
        return [output_grads[0] * pb.cos(3 * inputs[0])]


# --- right: x (n, m) times s (m) --------------------------------------------------------------------------------------
class Scale(Op):
    def make_node(self, x, s):
        return typed(self, [x, s], lambda a, b: a)

    def perform(self, x, s):
        return x * s

    def grad(self, inputs, output_grads):
        (x, s), (g,) = inputs, output_grads
        return [g * s, pb.sum(g * x, axis=0)]


class ScaleNotSummed(Scale):
    def grad(self, inputs, output_grads):
        (x, s), (g,) = inputs, output_grads
        return [g * s, g * x]


class ScaleMean(Scale):
    def grad(self, inputs, output_grads):
        (x, s), (g,) = inputs, output_grads
        return [g * s, pb.mean(g * x, axis=0)]


class ScaleLastRow(Scale):
    def grad(self, inputs, output_grads):
        (x, s), (g,) = inputs, output_grads
        return [g * s, (g * x)[-1]]


class ScaleWrongAxis(Scale):
    def grad(self, inputs, output_grads):
        (x, s), (g,) = inputs, output_grads
        return [g * s, pb.sum(g * x, axis=1)]


# --- right: a @ b -----------------------------------------------------------------------------------------------------
class Product(Op):
    def make_node(self, a, b):
        return typed(self, [a, b], lambda s, t: (s[0], t[1]))

    def perform(self, a, b):
        return a @ b

    def grad(self, inputs, output_grads):
        (a, b), (g,) = inputs, output_grads
        return [g @ pb.transpose(b), pb.transpose(a) @ g]


class ProductTransposed(Product):
    def grad(self, inputs, output_grads):
        (a, b), (g,) = inputs, output_grads
        return [b @ pb.transpose(g), pb.transpose(a) @ g]


class ProductSwapped(Product):
    def grad(self, inputs, output_grads):
        return super().grad(inputs, output_grads)[::-1]


class ProductForgotTranspose(Product):
    def grad(self, inputs, output_grads):
        (a, b), (g,) = inputs, output_grads
        return [g @ b, pb.transpose(a) @ g]


# --- right: the largest of each row -----------------------------------------------------------------------------------
class RowMax(Op):
    def make_node(self, x):
        return typed(self, [x], lambda s: s[:1])

    def perform(self, x):
        return x.max(axis=1)

    def share(self, is_max, count):
        return is_max / count

    def L_op(self, inputs, outputs, output_grads):
        (x,), (y,), (g,) = inputs, outputs, output_grads
        is_max = pb.cast(pb.equal(x, pb.expand_dims(y, 1)), x.dtype)
        return [pb.expand_dims(g, 1) * self.share(is_max, pb.sum(is_max, axis=1, keepdims=True))]


class RowMaxTiesDoubled(RowMax):
    def share(self, is_max, count):
        return is_max


class RowMaxTiesDropped(RowMax):
    def share(self, is_max, count):
        return is_max * pb.cast(pb.equal(count, 1), is_max.dtype)


# --- right: rows of x by index ----------------------------------------------------------------------------------------
class ScatterRows(Op):
    """The adjoint of taking rows."""

    def make_node(self, g, rows, like):
        return typed(self, [g, rows, like], lambda s, t, u: u)

    def perform(self, g, rows, like):
        out = np.zeros_like(like)
        np.add.at(out, rows, g)
        return out

    def grad(self, inputs, output_grads):
        return [TakeRows()(output_grads[0], inputs[1]), DisconnectedType()(), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False], [False]]


class ScatterOverwrites(ScatterRows):
    def perform(self, g, rows, like):
        out = np.zeros_like(like)
        out[rows] = g
        return out


class ScatterIntoOld(ScatterRows):
    def perform(self, g, rows, like):
        out = np.empty_like(like)
        out[np.unique(rows)] = 0
        np.add.at(out, rows, g)
        return out


class TakeRows(Op):
    adjoint: Op = ScatterRows()

    def make_node(self, x, rows):
        return typed(self, [x, rows], lambda s, t: (*t, *s[1:]))

    def perform(self, x, rows):
        return x[rows]

    def grad(self, inputs, output_grads):
        return [self.adjoint(output_grads[0], inputs[1], inputs[0]), DisconnectedType()()]

    def connection_pattern(self, node):
        return [[True], [False]]


class TakeOverwrites(TakeRows):
    adjoint = ScatterOverwrites()


class TakeStale(TakeRows):
    adjoint = ScatterIntoOld()


class TakeNoNegatives(TakeRows):
    def perform(self, x, rows):
        return x[np.maximum(rows, 0)]

    def grad(self, inputs, output_grads):
        x, rows = inputs
        return [self.adjoint(output_grads[0], rows, x), DisconnectedType()()]


# --- right: softmax along the last axis -------------------------------------------------------------------------------
class Softmax(Cube):
    def perform(self, x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def L_op(self, inputs, outputs, output_grads):
        (s,), (g,) = outputs, output_grads
        return [s * (g - pb.sum(g * s, axis=-1, keepdims=True))]


class SoftmaxDroppedTerm(Softmax):
    def L_op(self, inputs, outputs, output_grads):
        return [outputs[0] * output_grads[0]]


class SoftmaxWrongAxis(Softmax):
    def L_op(self, inputs, outputs, output_grads):
        (s,), (g,) = outputs, output_grads
        return [s * (g - pb.sum(g * s, axis=0, keepdims=True))]


# --- right: sin and cos together --------------------------------------------------------------------------------------
class SinCos(Op):
    def make_node(self, x):
        x = as_variable(x)
        return Apply(self, [x], [x.type, x.type])

    def perform(self, x):
        return np.sin(x), np.cos(x)

    def L_op(self, inputs, outputs, output_grads):
        (s, c), (g, h) = outputs, output_grads
        return [g * c - h * s]


class SinCosOneOnly(SinCos):
    def L_op(self, inputs, outputs, output_grads):
        return [output_grads[0] * outputs[1]]


# --- right: the rest --------------------------------------------------------------------------------------------------
class Root(Cube):
    def perform(self, x):
        return np.sqrt(x)

    def L_op(self, inputs, outputs, output_grads):
        return [pb.strong_mul(output_grads[0], 0.5 / outputs[0])]


class RootWeakZero(Root):
    def L_op(self, inputs, outputs, output_grads):
        return [output_grads[0] * (0.5 / outputs[0])]


class Ramp(Cube):
    def perform(self, x):
        return np.maximum(x, 0)

    def grad(self, inputs, output_grads):
        return [pb.where(inputs[0] > 0, output_grads[0], pb.zeros_like(output_grads[0]))]


class RampClosed(Ramp):
    def grad(self, inputs, output_grads):
        return [pb.where(inputs[0] >= 0, output_grads[0], pb.zeros_like(output_grads[0]))]


class Turn(Op):
    view_map = {0: 0}

    def make_node(self, x):
        return typed(self, [x], lambda s: s[::-1])

    def perform(self, x):
        return x.T

    def grad(self, inputs, output_grads):
        return [pb.transpose(output_grads[0])]


class TurnUndeclared(Turn):
    view_map: dict = {}


class RowProduct(Op):
    def make_node(self, x):
        return typed(self, [x], lambda s: s[:1])

    def perform(self, x):
        return x.prod(axis=1)

    def L_op(self, inputs, outputs, output_grads):
        (x,), (g,) = inputs, output_grads
        a, b = x[:, 0], x[:, 1]
        return [pb.stack([g * b, g * a], axis=1)]


class RowProductDivides(RowProduct):
    def L_op(self, inputs, outputs, output_grads):
        return [pb.expand_dims(output_grads[0] * outputs[0], 1) / inputs[0]]


class RowMean(Op):
    def make_node(self, x):
        return typed(self, [x], lambda s: s[:1])

    def perform(self, x):
        return x.mean(axis=1)

    def grad(self, inputs, output_grads):
        (x,), (g,) = inputs, output_grads
        return [pb.broadcast_like(pb.expand_dims(g, 1), x) / pb.cast(x.shape[1], x.dtype)]


class RowMeanNotDivided(RowMean):
    def grad(self, inputs, output_grads):
        return [pb.broadcast_like(pb.expand_dims(output_grads[0], 1), inputs[0])]


class RowMeanFailsWhenEmpty(RowMean):
    def perform(self, x):
        return x.reshape(len(x), -1).mean(axis=1)


class RowMeanSqueezes(RowMean):
    def perform(self, x):
        return x.mean(axis=1).squeeze()


class RunningSum(Cube):
    def perform(self, x):
        return x.cumsum(axis=1)

    def grad(self, inputs, output_grads):
        g = output_grads[0]
        return [RunningSum()(g[:, ::-1])[:, ::-1]]


class RunningSumForwards(RunningSum):
    def grad(self, inputs, output_grads):
        return [RunningSum()(output_grads[0])]


@dataclass(frozen=True)
class Mutant:
    """A broken op, the right one, how to test both, and the kind of mistake that is to be named (None: any)."""

    broken: Op
    right: Op
    entry: Callable[[Op], Entry]
    kind: str | None

    def __str__(self) -> str:
        return type(self.broken).__name__


def entry(*inputs, **options):
    return lambda op: Entry(str(op), op, inputs, **options)


matrix = entry(real("n m", 0.4, 2.0), sizes={"n": (2, 4), "m": (5, 6)})
rows = {"m": (3, 5), "n": (2, 4)}
filled_rows = entry(real("n m"), sizes={"n": (2, 4), "m": (5, 6)}, empty=("n",))
scale = entry(real("n m"), real("m"), sizes=rows)
square_scale = entry(real("m m"), real("m"), sizes=rows)
square = entry(real("n n"), real("n n"), sizes={"n": (3, 4)})
ties = entry(real("n m"), sizes={"n": (2, 4), "m": (4, 6)}, ties=True, empty=("n",))
take = entry(real("n m"), index("k", "n"), sizes={"n": (2, 3), "k": (5, 7)}, empty=())
root = entry(positive("n m"), strong_zero=True)
kinked = entry(real("n m"), points=(Point((0.0,), (0.0,), why="at 0"),))
pairs = entry(real("n 2"), points=(Point(([[0.0, 3.0]],), ([[3.0, 0.0]],), why="a zero factor"),))

MUTANTS = [
    Mutant(CubeSign(), Cube(), matrix, "sign"),
    Mutant(CubeFactor(), Cube(), matrix, "factor"),
    Mutant(Sin3Chain(), Sin3(), matrix, "factor"),
    Mutant(RowMeanNotDivided(), RowMean(), filled_rows, "factor"),
    Mutant(CubeUpstreamIgnored(), Cube(), matrix, "upstream gradient"),
    Mutant(CubeUpstreamDivides(), Cube(), matrix, "upstream gradient"),
    Mutant(CubeZero(), Cube(), matrix, "dropped term"),
    Mutant(CubeNone(), Cube(), matrix, None),
    Mutant(CubeDisconnected(), Cube(), matrix, "disconnected"),
    Mutant(CubePattern(), Cube(), matrix, "disconnected"),
    Mutant(CubePatternRows(), Cube(), matrix, "connection pattern"),
    Mutant(CubeHalfPrecision(), Cube(), matrix, "dtype"),
    Mutant(CubeWide(), Cube(), matrix, "dtype"),
    Mutant(CubeRounded(), Cube(), matrix, "not smooth"),
    Mutant(CubeWrites(), Cube(), matrix, "writes its input"),
    Mutant(CubeKeepsBuffer(), Cube(), matrix, "stale buffer"),
    Mutant(CubeAccumulates(), Cube(), matrix, "stale buffer"),
    Mutant(CubeHalfWritten(), Cube(), entry(real("n m")), "stale buffer"),
    Mutant(CubeNoisy(), Cube(), matrix, "stale buffer"),
    Mutant(CubeMemoryOrder(), Cube(), matrix, "memory layout"),
    Mutant(CubeInferredShape(), Cube(), matrix, "shape"),
    Mutant(CubeStaticShape(), Cube(), matrix, "shape"),
    Mutant(CubeFirstOfBatch(), Cube(), matrix, None),
    Mutant(CubeRolled(), Cube(), matrix, "transposed"),
    Mutant(CubeTwiceWrong(), CubeTwice(), matrix, "factor"),
    Mutant(ScaleNotSummed(), Scale(), scale, "missing broadcast sum"),
    Mutant(ScaleMean(), Scale(), scale, "missing broadcast sum"),
    Mutant(ScaleLastRow(), Scale(), scale, "missing broadcast sum"),
    Mutant(ScaleWrongAxis(), Scale(), square_scale, None),
    Mutant(ProductTransposed(), Product(), square, "transposed"),
    Mutant(ProductSwapped(), Product(), square, "swapped"),
    Mutant(ProductForgotTranspose(), Product(), square, None),
    Mutant(RowMaxTiesDoubled(), RowMax(), ties, "tie"),
    Mutant(RowMaxTiesDropped(), RowMax(), ties, "tie"),
    Mutant(TakeOverwrites(), TakeRows(), take, "overwritten accumulation"),
    Mutant(TakeStale(), TakeRows(), take, "stale buffer"),
    Mutant(TakeNoNegatives(), TakeRows(), take, None),
    Mutant(SoftmaxDroppedTerm(), Softmax(), filled_rows, "dropped term"),
    Mutant(SoftmaxWrongAxis(), Softmax(), filled_rows, None),
    Mutant(SinCosOneOnly(), SinCos(), matrix, "dropped term"),
    Mutant(RootWeakZero(), Root(), root, "strong zero"),
    Mutant(RampClosed(), Ramp(), kinked, "kink"),
    Mutant(TurnUndeclared(), Turn(), matrix, "undeclared view"),
    Mutant(RowProductDivides(), RowProduct(), pairs, "kink"),
    Mutant(RowMeanFailsWhenEmpty(), RowMean(), filled_rows, "error"),
    Mutant(RowMeanSqueezes(), RowMean(), filled_rows, "shape"),
    Mutant(RunningSumForwards(), RunningSum(), matrix, "transposed"),
]
