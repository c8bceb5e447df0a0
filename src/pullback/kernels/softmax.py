"""Softmax of contiguous rows, and its cross-entropy with integer labels."""

from ..codegen import T, TypeParameter, i64, kernel, maximum, ptr, vec, vmax, vrange, vsum
from .vmath import exp, log

L = TypeParameter("L")  # type of the labels
IGNORED = -(1 << 62)  # stands for "no label is ignored"


@kernel
def count_bad_labels(labels: ptr(L), flag: ptr(i64), classes: i64, ignored: i64, count: i64, lo: i64, hi: i64):
    """flag = how many labels are neither in [0, classes) nor the ignored one."""
    bad = 0
    for i in range(count):
        label = i64(labels[i])
        if label != ignored and (label < 0 or label >= classes):
            bad += 1
    flag[0] = bad


@kernel
def softmax_rows(x: ptr(T), y: ptr(T), n: i64, lo: i64, hi: i64):
    """y = exp(x - max x) / sum, row by row."""
    for r in range(lo, hi):
        p = x + r * n
        q = y + r * n
        top = vec(p[0])
        for i in vrange(n):
            top = maximum(top, p[i])
        greatest = vmax(top)
        total = vec(T(0))
        for i in vrange(n):
            e = exp(p[i] - greatest)
            q[i] = e
            total += e
        scale = 1.0 / vsum(total)
        for i in vrange(n):
            q[i] = q[i] * scale


@kernel
def log_softmax_rows(x: ptr(T), y: ptr(T), n: i64, lo: i64, hi: i64):
    """y = x - max x - log(sum(exp(x - max x))), row by row."""
    for r in range(lo, hi):
        p = x + r * n
        q = y + r * n
        top = vec(p[0])
        for i in vrange(n):
            top = maximum(top, p[i])
        greatest = vmax(top)
        total = vec(T(0))
        for i in vrange(n):
            total += exp(p[i] - greatest)
        s = log(vsum(total))
        for i in vrange(n):
            q[i] = p[i] - greatest - s


@kernel
def cross_entropy_rows(x: ptr(T), labels: ptr(L), loss: ptr(T), n: i64, ignored: i64, lo: i64, hi: i64):
    """loss[r] = log(sum(exp(x[r]))) - x[r, label], and 0 where the label is the ignored one."""
    for r in range(lo, hi):
        p = x + r * n
        label = i64(labels[r])
        if label == ignored:
            loss[r] = T(0)
        else:
            top = vec(p[0])
            for i in vrange(n):
                top = maximum(top, p[i])
            greatest = vmax(top)
            total = vec(T(0))
            for i in vrange(n):
                total += exp(p[i] - greatest)
            loss[r] = log(vsum(total)) - (p[label] - greatest)


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
            top = vec(p[0])
            for i in vrange(n):
                top = maximum(top, p[i])
            greatest = vmax(top)
            total = vec(T(0))
            for i in vrange(n):
                e = exp(p[i] - greatest)
                q[i] = e
                total += e
            scale = 1.0 / vsum(total)
            chosen = (q[label] * scale - 1.0) * upstream
            for i in vrange(n):
                q[i] = q[i] * scale * upstream
            q[label] = chosen
