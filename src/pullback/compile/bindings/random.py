"""Random draws: the same bits as the ops' definition, on any number of threads."""

from ... import codegen
from ...kernels import random as kernels
from ...ops.random import Bernoulli, Integers, StandardNormal, Uniform
from ..binding import Binding, Declined, binds
from ..buffers import Buffer
from ..elementwise import launch_formula
from ..loops import COMPUTED

FLOATS = {"float16": codegen.f16, "float32": codegen.f32, "float64": codegen.f64}
NUMBERS = {
    "int64": codegen.i64, "uint64": codegen.u64, "int32": codegen.i32, "uint32": codegen.u32, "int8": codegen.i8,
    "uint8": codegen.u8,
}  # fmt: skip
COST = 30  # of one element, in operations


@binds(Uniform, StandardNormal)
def bind_floats(node, b: Binding) -> None:
    kernel = kernels.uniform if isinstance(node.op, Uniform) else kernels.normal
    _draw(b, kernel, b.output(0))


@binds(Bernoulli)
def bind_bernoulli(node, b: Binding) -> None:
    p, out = b.inputs[2], b.output(0)
    if out.dtype not in COMPUTED:
        raise Declined
    u = b.scratch(out.shape, p.dtype)
    _draw(b, kernels.uniform, u)
    launch_formula(b, "x < y" if out.dtype == "bool" else f"{COMPUTED[out.dtype]}(x < y)", [u, p], out)


@binds(Integers)
def bind_integers(node, b: Binding) -> None:
    low, high, out = *b.inputs[2:4], b.output(0)
    if any(value is None or low.dtype != "int64" for value in b.values[2:4]) or out.dtype != "int64":
        raise Declined  # bounds that only running tells have to be checked
    if (b.values[2] >= b.values[3]).any():
        raise Declined  # and these are wrong
    words = b.scratch(out.shape, "uint64")
    _draw(b, kernels.words64, words)
    launch_formula(b, "y + i64(x % u64(z - y))", [words, low, high], out)


def _draw(b: Binding, kernel: codegen.Kernel, out: Buffer) -> None:
    """Fill `out` with draws by the node's key and counter."""
    key, counter = b.inputs[:2]
    if key.dtype not in NUMBERS or counter.dtype not in NUMBERS:
        raise Declined
    types = dict(K=NUMBERS[key.dtype], C=NUMBERS[counter.dtype])
    if out.dtype in FLOATS:
        types["T"] = FLOATS[out.dtype]
    groups = -(-out.size // (kernels.GROUP * (2 if out.itemsize == 8 else 4)))
    chunks = b.chunks(groups, COST * out.size)
    b.launch(kernel.specialise(**types), key, counter, out, out.size, n=groups, chunks=chunks)
