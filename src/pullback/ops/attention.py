"""Scaled dot-product attention, with its fused gradient."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..graph import Apply, DisconnectedType, Op, TensorType, Variable, as_variable
from .arithmetic import add, greater, greater_equal, logical_and, multiply, subtract, where
from .arithmetic import sqrt as root
from .creation import arange
from .dtypes import as_tensor, float_dtype, result_dtype
from .elementwise import cast, zeros_like
from .linear import matmul
from .reduce import any as any_of
from .reduce import sum as total
from .shape import expand_dims, length, swapaxes
from .softmax import SoftmaxGrad, masked_softmax, softmax, strong, widened

__all__ = ["scaled_dot_product_attention"]


class AttentionOp(Op):
    """Base of attention and its gradient: which queries may attend to which keys, on arrays.

    Attributes:
        causal: query i attends to keys 0 to i only.
        scale: of the scores; 1 / sqrt(length of a query) if None.
    """

    causal: bool
    scale: float | None

    def factor(self, q: np.ndarray) -> Any:
        return q.dtype.type(1 / sqrt(q.shape[-1]) if self.scale is None else self.scale)

    def allowed(self, q: np.ndarray, k: np.ndarray, mask: Sequence[np.ndarray]) -> np.ndarray | None:
        """Where attention is allowed; None: everywhere."""
        rows, columns = q.shape[-2], k.shape[-2]
        causal = [np.arange(rows)[:, None] >= np.arange(columns)] if self.causal else []
        masks = [*mask, *causal]
        if not masks:
            return None
        together = masks[0] if len(masks) == 1 else masks[0] & masks[1]
        return np.broadcast_to(together, (*q.shape[:-1], columns))

    def weights(self, q: np.ndarray, k: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
        """The softmax of the scores over the allowed keys; a row without any is zeros."""
        scores = (q * self.factor(q)) @ k.swapaxes(-1, -2)
        if allowed is not None:
            scores = np.where(allowed, scores, -np.inf)
        highest = scores.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(scores - (highest if allowed is None else np.where(highest == -np.inf, 0, highest)))
        s = e.sum(-1, keepdims=True)
        return e / (s if allowed is None else np.where(s == 0, 1, s))

    def check(self, *shapes: tuple[int, ...]) -> None:
        q, k, v = shapes[:3]
        if q[:-2] != k[:-2] or k[:-1] != v[:-1] or q[-1] != k[-1]:
            raise ShapeError(
                f"attention: queries {q}, keys {k} and values {v}; expected (.., L, E), (.., S, E) and (.., S, V)"
            )


def kept(x: np.ndarray, allowed: np.ndarray | None, axis: int) -> np.ndarray:
    """`x` with zeros in the rows that take no part: a product of a masked NaN with a weight of 0 would be NaN."""
    return x if allowed is None else np.where(allowed.any(axis)[..., None], x, np.zeros((), x.dtype))


@dataclass(frozen=True)
class Attention(AttentionOp):
    """softmax(scale q k^T) v. Inputs: q (.., L, E), k (.., S, E), v (.., S, V) and perhaps a mask (.., L, S)."""

    causal: bool = False
    scale: float | None = None

    formula = "dv = P^T g; dq = scale dS k, dk = scale dS^T q with dS = P (D - sum(D P)), D = g v^T"

    def make_node(self, q: Any, k: Any, v: Any, *mask: Any) -> Apply:
        inputs = [as_variable(x) for x in (q, k, v, *mask)]
        q, v = inputs[0], inputs[2]
        return Apply(self, inputs, [TensorType(q.dtype, (*q.type.shape[:-1], v.type.shape[-1]))])

    def perform(self, q, k, v, *mask):
        self.check(q.shape, k.shape, v.shape)
        dtype = q.dtype
        q, k, v = map(widened, (q, k, v))
        allowed = self.allowed(q, k, mask)
        with np.errstate(all="ignore"):
            y = self.weights(q, k, allowed) @ kept(v, allowed, -2)
        return y.astype(dtype, copy=False)

    def grad(self, inputs, output_grads):
        q, k, v, *mask = inputs
        grads = AttentionGrad(self.causal, self.scale)(q, k, v, output_grads[0], *mask)
        return [*grads, *(DisconnectedType()() for _ in mask)]

    def connection_pattern(self, node):
        return [[True], [True], [True], [False]][: len(node.inputs)]

    def infer_shape(self, node, shapes, values):
        self.check(*shapes)
        return [(*shapes[0][:-1], shapes[2][-1])]


@dataclass(frozen=True)
class AttentionGrad(AttentionOp):
    """The cotangent g of attention pulled back to q, k and v. With P the weights and D = g v^T:

    dv = P^T g,    dS = P (D - sum(D P)),    dq = scale dS k,    dk = scale dS^T q.
    """

    causal: bool = False
    scale: float | None = None

    def make_node(self, q: Any, k: Any, v: Any, g: Any, *mask: Any) -> Apply:
        inputs = [as_variable(x) for x in (q, k, v, g, *mask)]
        return Apply(self, inputs, [x.type for x in inputs[:3]])

    def perform(self, q, k, v, g, *mask):
        dtype = q.dtype
        q, k, v, g = map(widened, (q, k, v, g))
        allowed = self.allowed(q, k, mask)
        with np.errstate(all="ignore"):
            P = self.weights(q, k, allowed)
            q, g, k, v = kept(q, allowed, -1), kept(g, allowed, -1), kept(k, allowed, -2), kept(v, allowed, -2)
            D = g @ v.swapaxes(-1, -2)
            dS = strong(D - (D * P).sum(-1, keepdims=True), P) * self.factor(q)
            grads = dS @ k, dS.swapaxes(-1, -2) @ q, P.swapaxes(-1, -2) @ g
        return tuple(d.astype(dtype, copy=False) for d in grads)

    def grad(self, inputs, output_grads):
        q, k, v, g, *mask = inputs
        dq_bar, dk_bar, dv_bar = output_grads
        allowed = allowed_pairs(q, k, mask[0] if mask else None, self.causal)
        scale = scale_of(q, self.scale)
        P = attention_weights(q, k, allowed, scale)
        (q, g), (k, v) = (rows_kept((a, b), allowed, axis) for a, b, axis in ((q, g, -1), (k, v, -2)))
        back = SoftmaxGrad(P.ndim - 1)
        D = matmul(g, flipped(v))
        dS = multiply(back(D, P), scale)
        dS_bar = multiply(add(matmul(dq_bar, flipped(k)), matmul(q, flipped(dk_bar))), scale)
        D_bar = back(dS_bar, P)
        along, across = (total(multiply(u, P), axis=-1, keepdims=True) for u in (D, dS_bar))
        P_bar = add(subtract(multiply(dS_bar, subtract(D, along)), multiply(across, D)), matmul(g, flipped(dv_bar)))
        S_bar = multiply(back(P_bar, P), scale)
        return [
            add(matmul(S_bar, k), matmul(dS, dk_bar)),
            add(matmul(flipped(S_bar), q), matmul(flipped(dS), dq_bar)),
            matmul(flipped(D_bar), g),
            add(matmul(D_bar, v), matmul(P, dv_bar)),
            *(DisconnectedType()() for _ in mask),
        ]

    def connection_pattern(self, node):
        return [[i < 4] * 3 for i in range(len(node.inputs))]

    def infer_shape(self, node, shapes, values):
        return list(shapes[:3])


# --- the same in smaller ops ------------------------------------------------------------------------------------------


def flipped(x: Variable) -> Variable:
    return swapaxes(x, -1, -2)


def scale_of(q: Variable, scale: float | None) -> Any:
    if scale is not None:
        return scale
    n = q.type.shape[-1]
    return 1 / sqrt(n) if n else 1 / root(cast(length(q, -1), q.dtype))


def allowed_pairs(q: Variable, k: Variable, mask: Variable | None, causal: bool) -> Variable | None:
    """Where attention is allowed, with all axes of the scores but those of length 1; None: everywhere."""
    if causal:
        below = greater_equal(expand_dims(arange(length(q, -2)), 1), arange(length(k, -2)))
        mask = below if mask is None else logical_and(mask, below)
    if mask is not None and mask.ndim < q.ndim:
        mask = expand_dims(mask, tuple(range(q.ndim - mask.ndim)))
    return mask


def attention_weights(q: Variable, k: Variable, allowed: Variable | None, scale: Any) -> Variable:
    scores = matmul(multiply(q, scale), flipped(k))
    return softmax(scores) if allowed is None else masked_softmax(scores, allowed)


def rows_kept(arrays: Sequence[Variable], allowed: Variable | None, axis: int) -> Sequence[Variable]:
    """Arrays with zeros in the rows that take no part."""
    if allowed is None:
        return arrays
    part = expand_dims(any_of(allowed, axis=axis), allowed.ndim - 1)
    return [where(part, x, zeros_like(x)) for x in arrays]


def scaled_dot_product_attention(
    q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float | None = None,
    return_weights: bool = False,
) -> Any:  # fmt: skip
    """softmax(scale q k^T) v, row by row (Vaswani et al. 2017).

    Args:
        q: queries, (.., L, E).
        k: keys, (.., S, E).
        v: values, (.., S, V).
        mask: broadcasts to (.., L, S): booleans (true: may attend), or numbers that are added to the scores (-inf: may
            not) and are differentiable.
        is_causal: query i attends to keys 0 to i only.
        scale: 1 / sqrt(E) by default.
        return_weights: give (result, weights).

    A query that may attend to nothing gives zeros and zero gradient. Keys and values that no query may attend to have
    no effect, whatever they hold.
    """
    tensors = [as_tensor(x) for x in (q, k, v)]
    dtype = float_dtype(result_dtype(tensors))
    q, k, v = (cast(x, dtype) for x in tensors)
    if not 2 <= q.ndim == k.ndim == v.ndim:
        raise ShapeError(
            f"attention: q {q.type}, k {k.type} and v {v.type} must have one rank, of at least 2: "
            "(.., L, E), (.., S, E), (.., S, V)"
        )
    if mask is not None:
        mask = as_tensor(mask)
        if mask.ndim > q.ndim:
            raise ShapeError(f"attention: the mask {mask.type} has more axes than the scores, {q.ndim}")
        if mask.dtype != "bool" and not mask.type.is_float:
            raise DTypeError(
                f"attention: the mask is {mask.dtype}; expected booleans (may attend) or floats (are added)"
            )
    additive = mask is not None and mask.type.is_float
    if not additive and not return_weights:
        return Attention(bool(is_causal), scale)(q, k, v, *([] if mask is None else [mask]))
    bias = cast(mask, dtype) if additive else None
    pairs = greater(bias, -np.inf) if additive else mask
    allowed = allowed_pairs(q, k, pairs, is_causal)
    (q,), (k, v) = rows_kept([q], allowed, -1), rows_kept([k, v], allowed, -2)
    scores = matmul(multiply(q, scale_of(q, scale)), flipped(k))
    if additive:
        scores = add(scores, bias)
    weights = softmax(scores) if allowed is None else masked_softmax(scores, allowed)
    result = matmul(weights, v)
    return (result, weights) if return_weights else result
