"""What attention does to its scores, row by row: the softmax over the keys that a query may see, and its gradient."""

from ..codegen import T, i64, kernel, maximum, ptr, vec, vmax, vrange, vsum
from .vmath import exp


@kernel
def weights(s: ptr(T), queries: i64, keys: i64, scale: T, causal: i64, lo: i64, hi: i64):
    """s = softmax(scale s) in place; with `causal` query i of each matrix sees keys 0 to i only. lo, hi: rows."""
    for r in range(lo, hi):
        p = s + r * keys
        seen = min(r % queries + 1, keys) if causal != 0 else keys
        top = vec(p[0] * scale)
        for i in vrange(seen):
            top = maximum(top, p[i] * scale)
        greatest = vmax(top)
        total = vec(T(0))
        for i in vrange(seen):
            e = exp(p[i] * scale - greatest)
            p[i] = e
            total += e
        share = 1.0 / vsum(total)
        for i in vrange(seen):
            p[i] = p[i] * share
        for i in vrange(seen, keys):
            p[i] = T(0)


@kernel
def score_gradient(w: ptr(T), d: ptr(T), keys: i64, scale: T, lo: i64, hi: i64):
    """d = scale w (d - sum(w d)) in place: d = g v^T pulled back through the softmax w. lo, hi: rows."""
    for r in range(lo, hi):
        p = w + r * keys
        q = d + r * keys
        total = vec(T(0))
        for i in vrange(keys):
            total += p[i] * q[i]
        along = vsum(total)
        for i in vrange(keys):
            q[i] = 0.0 if p[i] == 0.0 else p[i] * (q[i] - along) * scale
