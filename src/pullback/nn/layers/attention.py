"""Attention: each position of a sequence looks at all positions of another, or of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ... import ops
from ...errors import ArgumentError, DTypeError, ShapeError
from ...graph import SharedVariable, Variable
from ..initializers import GlorotUniform, Initializer, Zeros
from .base import Layer, Parameter, Reference, Spec, positive


@dataclass(frozen=True)
class MultiHeadAttention(Layer):
    """Several attentions side by side, each over projections of its own (Vaswani et al. 2017, section 3.2):

        head = softmax(q k^T / sqrt(size)) v,    q = x Q,  k = m K,  v = m V,    y = (heads side by side) O.

    x (time, features) asks, the memory m (positions, features) answers; it is x itself unless `memory` names another
    layer. Out comes (time, outputs). A position that may look at nothing gets the projection of zeros.

    Parameters: `query` (features, heads * size), `key` and `value` (features of the memory, heads * size), `output`
    (heads * size, outputs); with biases `query_bias`, `key_bias`, `value_bias`, `output_bias`.

    Args:
        heads: how many attentions.
        size: of a head's queries, keys and values; features / heads unless given.
        outputs: how many features come out; as many as x has unless given.
        memory: the layer that is looked at: cross-attention.
        mask: a layer of truth values: (positions,) says which positions of the memory there are, (time, positions)
            which position of x may look at which of the memory. Unless given, lengths that travel with the memory
            count (from `Masking`, or from `Embedding` with a padding).
        causal: position i looks at 0 to i only.
        dropout: the probability with which a weight of attention is set to 0 in training.
        bias: whether the projections have biases.
        initial: the rule for the first projections.
    """

    heads: int
    size: int | None = None
    outputs: int | None = None
    memory: Reference | None = None
    mask: Reference | None = None
    causal: bool = False
    dropout: float = 0.0
    bias: bool = True
    initial: Initializer = GlorotUniform()

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("size", "outputs") if getattr(self, name) is not None}
        positive(self, heads=self.heads, **given)
        if not 0 <= self.dropout < 1:
            raise ArgumentError(f"MultiHeadAttention: dropout={self.dropout}; expected at least 0 and less than 1")

    def sources(self):
        return (*super().sources(), *(r for r in (self.memory, self.mask) if r is not None))

    def _roles(self, inputs: Sequence) -> tuple:
        """(x, memory, mask or None) among what the sources give."""
        x, *others = inputs
        memory = others.pop(0) if self.memory is not None else x
        return x, memory, others[0] if others else None

    def describe(self, *inputs):
        x, memory, mask = self._roles(inputs)
        for spec in (x, memory):
            if len(spec.shape) != 2 or spec.shape[1] is None:
                raise ShapeError(f"takes sequences (time, features) with known features, got {spec}")
        if self.size is None and x.shape[1] % self.heads:
            raise ShapeError(f"{x.shape[1]} features can't be cut into heads={self.heads} equal parts: give a size")
        if mask is not None:
            if mask.dtype != "bool":
                raise DTypeError(f"the mask holds {mask.dtype}; expected truth values (bool)")
            pairs = (x.shape[0], memory.shape[0])
            fitting = (pairs[1:], pairs)
            if not any(_compatible(mask.shape, shape) for shape in fitting):
                raise ShapeError(f"the mask has shape {mask}; expected {Spec(pairs[1:], '')} or {Spec(pairs, '')}")
        return Spec((x.shape[0], self.outputs or x.shape[1]), x.dtype)

    def _width(self, x: Spec) -> int:
        return self.heads * (self.size or x.shape[1] // self.heads)

    def parameters(self, *inputs):
        x, memory, _ = self._roles(inputs)
        width, features = self._width(x), memory.shape[1]
        shapes = {
            "query": (x.shape[1], width),
            "key": (features, width),
            "value": (features, width),
            "output": (width, self.outputs or x.shape[1]),
        }
        made = {name: Parameter(shape, self.initial, decays=True) for name, shape in shapes.items()}
        biases = {f"{name}_bias": Parameter(shape[1:], Zeros()) for name, shape in shapes.items()}
        return made | (biases if self.bias else {})

    def apply(self, parameters, inputs, context):
        x, memory, mask = self._roles(inputs)
        lengths = context.lengths.get(memory)
        if mask is None and lengths is not None:
            mask = ops.less(ops.arange(ops.length(memory, 1)), ops.expand_dims(lengths, 1))
        if mask is not None:
            reachable = mask if mask.ndim == 2 else ops.any(mask, axis=1)
            # what is masked counts as zeros before it meets a weight, so that a NaN there reaches no gradient
            memory = ops.where(ops.expand_dims(reachable, 2), memory, ops.zeros_like(memory))
            x = memory if self.memory is None and mask.ndim == 2 else x
            mask = ops.expand_dims(mask, (1, 2) if mask.ndim == 2 else 1)
        q = self._heads(_projected(x, parameters, "query"))
        k, v = (self._heads(_projected(memory, parameters, name)) for name in ("key", "value"))
        dropping = context.training and self.dropout > 0
        if dropping:
            _, weights = ops.scaled_dot_product_attention(q, k, v, mask, self.causal, return_weights=True)
            heads = ops.matmul(context.random.dropout(weights, self.dropout), v)
        else:
            heads = ops.scaled_dot_product_attention(q, k, v, mask, self.causal)
        side_by_side = ops.swapaxes(heads, 1, 2)
        width = parameters["output"].type.shape[0]
        return _projected(ops.reshape(side_by_side, (*_leading(side_by_side), width)), parameters, "output")

    def _heads(self, x: Variable) -> Variable:
        """(batch, time, heads * size) as (batch, heads, time, size)."""
        size = x.type.shape[2] // self.heads
        return ops.swapaxes(ops.reshape(x, (*_leading(x), self.heads, size)), 1, 2)

    def operations(self, inputs, output):
        x, memory, _ = self._roles(inputs)
        if None in (x.shape[0], memory.shape[0]):
            return 0
        width = self._width(x)
        projections = x.shape[0] * (x.shape[1] + output.shape[1]) + 2 * memory.shape[0] * memory.shape[1]
        return 2 * width * (projections + 2 * x.shape[0] * memory.shape[0])


def _compatible(found: tuple[int | None, ...], expected: tuple[int | None, ...]) -> bool:
    return len(found) == len(expected) and all(n == m or None in (n, m) for n, m in zip(found, expected))


def _projected(x: Variable, parameters: Mapping[str, SharedVariable], name: str) -> Variable:
    y = ops.matmul(x, parameters[name])
    return y + parameters[f"{name}_bias"] if f"{name}_bias" in parameters else y


def _leading(x: Variable) -> tuple:
    """The lengths of the first two axes, as numbers where they are known."""
    return tuple(x.shape[i] if n is None else n for i, n in enumerate(x.type.shape[:2]))
