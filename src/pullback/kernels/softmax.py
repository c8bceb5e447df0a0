"""Softmax of contiguous rows, its gradients, its cross-entropy with integer labels, and what looks labels up.

Rows of many elements go one by one. Short rows (a few classes) go VL at a time: a block of them is turned, so that lane
i holds row i and nothing is joined across lanes.
"""

from ..codegen import (
    VL,
    T,
    TypeParameter,
    helper,
    i64,
    kernel,
    ld,
    local,
    maximum,
    ptr,
    regs,
    st,
    u8,
    unroll,
    vec,
    vfull,
    vmax,
    vrange,
    vsum,
    vtrans,
)
from .vmath import exp, log

L = TypeParameter("L")  # type of the labels
IGNORED = -(1 << 62)  # stands for "no label is ignored"
SHORT = 32  # elements of a row, up to which rows are turned
INFINITY = float("inf")


@helper
def strong(g: T, d: T) -> T:
    """g d, and zero wherever g is zero."""
    return T(0) if g == 0.0 else g * d


@helper
def top_of(p: ptr(T), n: i64) -> T:
    """The greatest of n elements; four at a time, since each must wait for the one before."""
    top = regs(4, T)
    for j in unroll(4):
        top[j] = vec(p[0])
    whole = n // (4 * VL) * (4 * VL)
    for i in vfull(0, whole, 4):
        for j in unroll(4):
            top[j] = maximum(top[j], p[i + j * VL])
    last = vec(p[0])
    for i in vrange(whole, n):
        last = maximum(last, p[i])
    return vmax(maximum(maximum(maximum(top[0], top[1]), maximum(top[2], top[3])), last))


@helper
def exponentials(p: ptr(T), q: ptr(T), n: i64, shift: T) -> T:
    """q = exp(p - shift); gives their sum."""
    total = vec(T(0))
    for i in vrange(n):
        e = exp(p[i] - shift)
        q[i] = e
        total += e
    return vsum(total)


@helper
def sum_of_exponentials(p: ptr(T), n: i64, shift: T) -> T:
    total = vec(T(0))
    for i in vrange(n):
        total += exp(p[i] - shift)
    return vsum(total)


# --- one row after the other ------------------------------------------------------------------------------------------


@kernel
def softmax_rows(x: ptr(T), y: ptr(T), n: i64, lo: i64, hi: i64):
    """y = exp(x - max x) / sum, row by row."""
    for r in range(lo, hi):
        p = x + r * n
        q = y + r * n
        scale = 1.0 / exponentials(p, q, n, top_of(p, n))
        for i in vrange(n):
            q[i] = q[i] * scale


@kernel
def log_softmax_rows(x: ptr(T), y: ptr(T), n: i64, lo: i64, hi: i64):
    """y = x - max x - log(sum(exp(x - max x))), row by row."""
    for r in range(lo, hi):
        p = x + r * n
        q = y + r * n
        top = top_of(p, n)
        s = log(sum_of_exponentials(p, n, top))
        for i in vrange(n):
            q[i] = p[i] - top - s


@kernel
def log_sum_exp_rows(x: ptr(T), out: ptr(T), n: i64, lo: i64, hi: i64):
    """out[r] = log(sum(exp(x[r]))); -inf where all are."""
    for r in range(lo, hi):
        p = x + r * n
        top = top_of(p, n)
        shift = top if abs(top) < INFINITY else T(0)
        out[r] = log(sum_of_exponentials(p, n, shift)) + shift


@kernel
def masked_softmax_rows(x: ptr(T), mask: ptr(u8), y: ptr(T), n: i64, lo: i64, hi: i64):
    """The softmax over the entries where the mask is true; zeros elsewhere, and in rows without any."""
    for r in range(lo, hi):
        p = x + r * n
        m = mask + r * n
        q = y + r * n
        best = vec(T(-INFINITY))
        for i in vrange(n):
            best = maximum(best, p[i] if m[i] != 0 else T(-INFINITY))
        top = vmax(best)
        shift = T(0) if top == -INFINITY else top
        total = vec(T(0))
        for i in vrange(n):
            e = exp((p[i] if m[i] != 0 else T(-INFINITY)) - shift)
            q[i] = e
            total += e
        s = vsum(total)
        scale = 1.0 / (T(1) if s == 0.0 else s)
        for i in vrange(n):
            q[i] = q[i] * scale


@kernel
def softmax_rows_grad(g: ptr(T), y: ptr(T), dx: ptr(T), n: i64, lo: i64, hi: i64):
    """dx = y (g - sum(g y)), where zeros of g and of the difference win."""
    for r in range(lo, hi):
        p = g + r * n
        q = y + r * n
        total = vec(T(0))
        for i in vrange(n):
            total += strong(p[i], q[i])
        s = vsum(total)
        for i in vrange(n):
            dx[r * n + i] = strong(p[i] - s, q[i])


@kernel
def log_softmax_rows_grad(g: ptr(T), y: ptr(T), dx: ptr(T), n: i64, lo: i64, hi: i64):
    """dx = g - exp(y) sum(g)."""
    for r in range(lo, hi):
        p = g + r * n
        total = vec(T(0))
        for i in vrange(n):
            total += p[i]
        s = vsum(total)
        for i in vrange(n):
            dx[r * n + i] = p[i] - strong(s, exp(y[r * n + i]))


# --- by labels --------------------------------------------------------------------------------------------------------


@kernel
def count_bad_labels(labels: ptr(L), flag: ptr(i64), classes: i64, ignored: i64, count: i64, lo: i64, hi: i64):
    """flag = how many labels are neither in [0, classes) nor the ignored one."""
    bad = vec(0)
    for i in vrange(count):
        label = i64(labels[i])
        bad += i64(label != ignored and (label < 0 or label >= classes))
    flag[0] = vsum(bad)


@kernel
def cross_entropy_rows(x: ptr(T), labels: ptr(L), loss: ptr(T), n: i64, ignored: i64, lo: i64, hi: i64):
    """loss[r] = log(sum(exp(x[r]))) - x[r, label], and 0 where the label is the ignored one."""
    for r in range(lo, hi):
        p = x + r * n
        label = i64(labels[r])
        if label == ignored:
            loss[r] = T(0)
        else:
            top = top_of(p, n)
            loss[r] = log(sum_of_exponentials(p, n, top)) - (p[label] - top)


@kernel
def cross_entropy_rows_grad(
    g: ptr(T), g_step: i64, x: ptr(T), labels: ptr(L), dx: ptr(T), n: i64, ignored: i64, lo: i64, hi: i64
):
    """dx[r] = g[r] (softmax(x[r]) - onehot(label)); exactly 0 where g is 0 or the label is the ignored one."""
    for r in range(lo, hi):
        p = x + r * n
        q = dx + r * n
        label = i64(labels[r])
        upstream = g[r * g_step]
        if label == ignored or upstream == 0.0:
            for i in vrange(n):
                q[i] = T(0)
        else:
            scale = 1.0 / exponentials(p, q, n, top_of(p, n))
            chosen = (q[label] * scale - 1.0) * upstream
            for i in vrange(n):
                q[i] = q[i] * scale * upstream
            q[label] = chosen


@kernel
def select_labels(
    x: ptr(T), labels: ptr(L), out: ptr(T), classes: i64, inner: i64, ignored: i64, lo: i64, hi: i64
):  # fmt: skip
    """out[outer, i] = x[outer, label, i] by the label at [outer, i]; 0 where it is the ignored one; lo, hi: labels."""
    for k in range(lo, hi):
        label = i64(labels[k])
        if label == ignored:
            out[k] = T(0)
        else:
            out[k] = x[(k // inner * classes + label) * inner + k % inner]


@kernel
def place_labels(
    g: ptr(T), labels: ptr(L), out: ptr(T), classes: i64, inner: i64, ignored: i64, lo: i64, hi: i64
):  # fmt: skip
    """out[outer, c, i] = g[outer, i] where c is the label at [outer, i], else 0; lo, hi: outer."""
    for u in range(lo, hi):
        block = out + u * classes * inner
        for i in vrange(classes * inner):
            block[i] = T(0)
        for i in range(inner):
            label = i64(labels[u * inner + i])
            if label != ignored:
                block[label * inner + i] = g[u * inner + i]


# --- short rows, VL at a time -----------------------------------------------------------------------------------------


@helper
def turned_in(x: ptr(T), columns: ptr(T), first: i64, rows: i64, n: i64):
    """columns[c, i] = x[first + i, c]; past the last row that row again."""
    block = regs(VL, T)
    for c in range(0, n, VL):
        for i in unroll(VL):
            block[i] = ld(x + (min(first + i, rows - 1) * n + c), n - c)
        vtrans(block)
        for j in unroll(VL):
            if c + j < n:
                st(columns + (c + j) * VL, block[j])


@helper
def turned_out(columns: ptr(T), y: ptr(T), first: i64, rows: i64, n: i64):
    """y[first + i, c] = columns[c, i]."""
    block = regs(VL, T)
    for c in range(0, n, VL):
        for j in unroll(VL):
            if c + j < n:
                block[j] = ld(columns + (c + j) * VL)
        vtrans(block)
        for i in unroll(VL):
            if first + i < rows:
                st(y + ((first + i) * n + c), block[i], n - c)


@helper
def top_of_columns(columns: ptr(T), n: i64):
    top = ld(columns)
    for c in range(1, n):
        top = maximum(top, ld(columns + c * VL))
    return top


@helper
def exponentials_of_columns(columns: ptr(T), n: i64, top):
    """columns = exp(columns - top); gives their sums."""
    total = vec(T(0))
    for c in range(n):
        e = exp(ld(columns + c * VL) - top)
        st(columns + c * VL, e)
        total += e
    return total


@kernel
def softmax_short_rows(x: ptr(T), y: ptr(T), rows: i64, n: i64, lo: i64, hi: i64):
    """As softmax_rows; lo, hi: blocks of VL rows."""
    columns = local(SHORT * VL, T)
    for u in range(lo, hi):
        turned_in(x, columns, u * VL, rows, n)
        total = exponentials_of_columns(columns, n, top_of_columns(columns, n))
        scale = 1.0 / total
        for c in range(n):
            st(columns + c * VL, ld(columns + c * VL) * scale)
        turned_out(columns, y, u * VL, rows, n)


@kernel
def log_softmax_short_rows(x: ptr(T), y: ptr(T), rows: i64, n: i64, lo: i64, hi: i64):
    """As log_softmax_rows; lo, hi: blocks of VL rows."""
    columns = local(SHORT * VL, T)
    for u in range(lo, hi):
        turned_in(x, columns, u * VL, rows, n)
        top = top_of_columns(columns, n)
        total = vec(T(0))
        for c in range(n):
            total += exp(ld(columns + c * VL) - top)
        s = log(total)
        for c in range(n):
            st(columns + c * VL, ld(columns + c * VL) - top - s)
        turned_out(columns, y, u * VL, rows, n)


@kernel
def cross_entropy_short_rows(
    x: ptr(T), labels: ptr(L), loss: ptr(T), rows: i64, n: i64, ignored: i64, lo: i64, hi: i64
):  # fmt: skip
    """As cross_entropy_rows; lo, hi: blocks of VL rows."""
    columns = local(SHORT * VL, T)
    for u in range(lo, hi):
        turned_in(x, columns, u * VL, rows, n)
        top = top_of_columns(columns, n)
        s = log(exponentials_of_columns(columns, n, top))
        for i in vrange(u * VL, min((u + 1) * VL, rows)):
            label = i64(labels[i])
            picked = x[i * n + (0 if label == ignored else label)]
            loss[i] = T(0) if label == ignored else s - (picked - top)


@kernel
def cross_entropy_short_rows_grad(
    g: ptr(T), g_step: i64, x: ptr(T), labels: ptr(L), dx: ptr(T), rows: i64, n: i64, ignored: i64, lo: i64, hi: i64
):
    """As cross_entropy_rows_grad; lo, hi: blocks of VL rows."""
    columns = local(SHORT * VL, T)
    upstream = local(VL, T)
    for u in range(lo, hi):
        first = u * VL
        turned_in(x, columns, first, rows, n)
        scale = 1.0 / exponentials_of_columns(columns, n, top_of_columns(columns, n))
        for c in range(n):
            st(columns + c * VL, ld(columns + c * VL) * scale)
        for i in range(min(VL, rows - first)):
            label = i64(labels[first + i])
            upstream[i] = T(0) if label == ignored else g[(first + i) * g_step]
            if label != ignored:
                columns[label * VL + i] -= 1.0
        factor = ld(upstream)
        for c in range(n):
            st(columns + c * VL, strong(factor, ld(columns + c * VL)))
        turned_out(columns, dx, first, rows, n)
