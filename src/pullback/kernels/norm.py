"""Normalisation: statistics and gradients down the columns of x[outer, length, columns], or along its rows.

Statistics are taken block by block while the block is in cache, as mean and sum of squares about that mean, and merged
in float64 (Chan, Golub and LeVeque 1983): a mean far from zero costs no accuracy. Arrays per column have [outer,
columns] elements; `group` neighbouring columns share their statistics.
"""

from ..codegen import VL, T, f64, helper, i64, isfinite, kernel, ptr, regs, sqrt, unroll, vec, vfull, vrange, vsum

BLOCK = 4096  # elements of a row whose sum is taken in the array's own precision
TOGETHER = 4  # rows whose shares of d_gamma and d_beta are added at once


@helper
def scales(var, eps: f64, OUTSIDE: i64):
    """(1 / s, r) of ops.norm: s = sqrt(var + eps), or sqrt(var) + eps; r pulls back through the variance."""
    if OUTSIDE == 0:
        inverse = 1.0 / sqrt(var + eps)
        return inverse, inverse
    deviation = sqrt(var)
    return 1.0 / (deviation + eps), (0.0 if var == 0.0 else 1.0 / deviation)


@helper
def anchor(x):
    """What is taken off before summing, so that equal numbers have exactly their mean, and no variance."""
    return x if isfinite(x) else 0.0


@kernel(reassoc=True)
def column_moments(x: ptr(T), partial: ptr(f64), length: i64, columns: i64, parts: i64, blocks: i64, lo: i64, hi: i64):
    """partial[outer, part, 2, columns]: mean, and sum of squares about it, of each part of the length.

    blocks: into how many a part is cut, so that each fits the nearest cache; lo, hi: units (outer, part).
    """
    for u in range(lo, hi):
        first = u % parts * length // parts
        last = (u % parts + 1) * length // parts
        p = x + (u // parts) * length * columns
        out = partial + u * 2 * columns
        for i in range(blocks):
            at = first + i * (last - first) // blocks
            end = first + (i + 1) * (last - first) // blocks
            paired = at + (end - at) // 4 * 4
            share = f64(end - at) / f64(end - first)
            for c in vrange(columns):
                z = anchor(p[c + at * columns])
                s = regs(4, T)
                for r in range(at, paired, 4):
                    for j in unroll(4):
                        s[j] += p[c + (r + j) * columns] - z
                for r in range(paired, end):
                    s[0] += p[c + r * columns] - z
                m = z + ((s[0] + s[1]) + (s[2] + s[3])) / T(end - at)
                q = regs(4, T)
                for r in range(at, paired, 4):
                    for j in unroll(4):
                        d = p[c + (r + j) * columns] - m
                        q[j] += d * d
                for r in range(paired, end):
                    d = p[c + r * columns] - m
                    q[0] += d * d
                squares = f64((q[0] + q[1]) + (q[2] + q[3]))
                if at == first:
                    out[c] = f64(m)
                    out[c + columns] = squares
                else:
                    delta = f64(m) - out[c]
                    out[c] = out[c] + delta * share
                    out[c + columns] = out[c + columns] + squares + delta * delta * (share * f64(at - first))


@kernel
def finish_moments(
    partial: ptr(f64), gamma: ptr(T), mean: ptr(T), var: ptr(T), centre: ptr(T), scale: ptr(T),
    length: i64, columns: i64, parts: i64, group: i64, eps: f64, OUTSIDE: i64, lo: i64, hi: i64,
):  # fmt: skip
    """mean and var[outer, columns / group] of merged parts; centre and scale (gamma / s) for each column.

    lo, hi: outer.
    """
    for a in range(lo, hi):
        p = partial + a * parts * 2 * columns
        for c in vrange(columns):
            m = p[c]
            q = p[c + columns]
            for i in range(1, parts):
                first = i * length // parts
                last = (i + 1) * length // parts
                share = f64(last - first) / f64(last)
                delta = p[c + 2 * i * columns] - m
                m += delta * share
                q += p[c + (2 * i + 1) * columns] + delta * delta * (share * f64(first))
            p[c] = m
            p[c + columns] = q
        if group == 1:
            for c in vrange(columns):
                variances = p[c + columns] / f64(length)
                inverses, _rs = scales(variances, eps, OUTSIDE)
                mean[a * columns + c] = T(p[c])
                var[a * columns + c] = T(variances)
                centre[a * columns + c] = T(p[c])
                scale[a * columns + c] = T(inverses * f64(gamma[c]))
            continue
        for b in range(columns // group):
            first = b * group
            total = f64(0)
            for c in range(first, first + group):
                total += p[c]
            average = total / f64(group)
            squares = f64(0)
            for c in range(first, first + group):
                d = p[c] - average
                squares += p[c + columns] + d * d * f64(length)
            v = squares / f64(length * group)
            inverse, _ = scales(v, eps, OUTSIDE)
            mean[a * (columns // group) + b] = T(average)
            var[a * (columns // group) + b] = T(v)
            for c in range(first, first + group):
                centre[a * columns + c] = T(average)
                scale[a * columns + c] = T(inverse * f64(gamma[c]))


@kernel
def normalize_columns(
    x: ptr(T), centre: ptr(T), scale: ptr(T), beta: ptr(T), y: ptr(T), length: i64, columns: i64, lo: i64, hi: i64
):
    """y = (x - centre) scale + beta; lo, hi: rows of all outer."""
    for r in range(lo, hi):
        at = r * columns
        k = r // length * columns
        for c in vrange(columns):
            y[c + at] = (x[c + at] - centre[c + k]) * scale[c + k] + beta[c]


@kernel(reassoc=True)
def column_gradient_sums(
    x: ptr(T), g: ptr(T), centre: ptr(T), partial: ptr(f64), length: i64, columns: i64, parts: i64, blocks: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """partial[outer, part, 2, columns]: sums of g and of g (x - centre); otherwise as `column_moments`."""
    for u in range(lo, hi):
        first = u % parts * length // parts
        last = (u % parts + 1) * length // parts
        a = u // parts
        p = x + a * length * columns
        q = g + a * length * columns
        out = partial + u * 2 * columns
        for i in range(blocks):
            at = first + i * (last - first) // blocks
            end = first + (i + 1) * (last - first) // blocks
            paired = at + (end - at) // 2 * 2
            for c in vrange(columns):
                s = regs(2, T)
                t = regs(2, T)
                m = centre[c + a * columns]
                for r in range(at, paired, 2):
                    for j in unroll(2):
                        d = q[c + (r + j) * columns]
                        s[j] += d
                        t[j] += d * (p[c + (r + j) * columns] - m)
                for r in range(paired, end):
                    d = q[c + r * columns]
                    s[0] += d
                    t[0] += d * (p[c + r * columns] - m)
                if at == first:
                    out[c] = f64(s[0] + s[1])
                    out[c + columns] = f64(t[0] + t[1])
                else:
                    out[c] = out[c] + f64(s[0] + s[1])
                    out[c + columns] = out[c + columns] + f64(t[0] + t[1])


@kernel
def finish_gradient(
    partial: ptr(f64), gamma: ptr(T), var: ptr(T), d_gamma: ptr(T), d_beta: ptr(T), factors: ptr(T),
    outer: i64, length: i64, columns: i64, parts: i64, group: i64, eps: f64, OUTSIDE: i64, lo: i64, hi: i64,
):  # fmt: skip
    """d_gamma and d_beta[columns], and factors[outer, 3, columns], with which
    dx = factors[0] g + factors[1] (x - centre) + factors[2]. One unit of work; `partial` is used up."""
    n = f64(length * group)
    for a in range(outer):
        p = partial + a * parts * 2 * columns
        f = factors + a * 3 * columns
        for c in vrange(2 * columns):
            total = p[c]
            for i in range(1, parts):
                total += p[c + 2 * i * columns]
            p[c] = total
        if group == 1:
            for c in vrange(columns):
                weights = f64(gamma[c])
                inverses, rs = scales(f64(var[a * columns + c]), eps, OUTSIDE)
                hats = weights * p[c + columns] * inverses
                f[c] = T(weights * inverses)
                f[c + columns] = T(0.0 - inverses * rs * hats / n)
                f[c + 2 * columns] = T(0.0 - inverses * (weights * p[c]) / n)
                p[c + columns] = p[c + columns] * inverses
            continue
        for b in range(columns // group):
            first = b * group
            inverse, r = scales(f64(var[a * (columns // group) + b]), eps, OUTSIDE)
            h = f64(0)  # sum of g gamma
            hat = f64(0)  # sum of g gamma x^
            for c in range(first, first + group):
                h += f64(gamma[c]) * p[c]
                hat += f64(gamma[c]) * p[c + columns] * inverse
            for c in range(first, first + group):
                f[c] = T(f64(gamma[c]) * inverse)
                f[c + columns] = T(0.0 - inverse * r * hat / n)
                f[c + 2 * columns] = T(0.0 - inverse * h / n)
                p[c + columns] = p[c + columns] * inverse
    for c in vrange(columns):
        s = partial[c]
        t = partial[c + columns]
        for a in range(1, outer):
            s += partial[c + a * parts * 2 * columns]
            t += partial[c + (a * parts * 2 + 1) * columns]
        d_beta[c] = T(s)
        d_gamma[c] = T(t)


@kernel
def pull_back_columns(
    x: ptr(T), g: ptr(T), centre: ptr(T), factors: ptr(T), dx: ptr(T), length: i64, columns: i64, lo: i64, hi: i64
):
    """dx as `finish_gradient` says; lo, hi: rows of all outer."""
    for r in range(lo, hi):
        at = r * columns
        k = r // length * columns
        f = factors + 3 * k
        for c in vrange(columns):
            dx[c + at] = g[c + at] * f[c] + ((x[c + at] - centre[c + k]) * f[c + columns] + f[c + 2 * columns])


@helper
def row_sum(p: ptr(T), columns: i64, shift: T, SQUARED: i64):
    """The sum over a row of p - shift, or of its square; long rows in blocks that are added up in float64."""
    total = f64(0)
    for at in range(0, columns, BLOCK):
        end = min(at + BLOCK, columns)
        whole = at + (end - at) // (4 * VL) * (4 * VL)
        s = regs(4, T)
        for c in vfull(at, whole, 4):
            for j in unroll(4):
                d = p[c + j * VL] - shift
                s[j] += d * d if SQUARED != 0 else d
        for c in vrange(whole, end):
            d = p[c] - shift
            s[0] += d * d if SQUARED != 0 else d
        total += f64(vsum((s[0] + s[1]) + (s[2] + s[3])))
    return total


@kernel(reassoc=True)
def normalize_rows(
    x: ptr(T), gamma: ptr(T), beta: ptr(T), y: ptr(T), mean: ptr(T), var: ptr(T), columns: i64, eps: f64,
    OUTSIDE: i64, lo: i64, hi: i64,
):  # fmt: skip
    """Each row normalised by its own mean and variance; lo, hi: rows."""
    for r in range(lo, hi):
        p = x + r * columns
        o = y + r * columns
        z = anchor(p[0])
        m = T(f64(z) + row_sum(p, columns, z, 0) / f64(columns))
        v = row_sum(p, columns, m, 1) / f64(columns)
        mean[r] = m
        var[r] = T(v)
        inverse, _ = scales(v, eps, OUTSIDE)
        k = T(inverse)
        for c in vrange(columns):
            o[c] = (p[c] - m) * k * gamma[c] + beta[c]


@helper
def pull_back_some(
    p: ptr(T), q: ptr(T), o: ptr(T), gamma: ptr(T), mean: ptr(T), var: ptr(T), dg: ptr(T), db: ptr(T),
    columns: i64, eps: f64, OUTSIDE: i64, ROWS: i64,
):  # fmt: skip
    """`pull_back_rows` of ROWS rows that begin at p, with their numbers in registers."""
    m = regs(ROWS, T)
    k = regs(ROWS, T)
    shift = regs(ROWS, T)
    slope = regs(ROWS, T)
    for i in unroll(ROWS):
        inverse, pull = scales(f64(var[i]), eps, OUTSIDE)
        m[i] = vec(mean[i])
        k[i] = vec(T(inverse))
        h = f64(0)
        hat = f64(0)
        for at in range(0, columns, BLOCK):
            s = vec(T(0))
            t = vec(T(0))
            for c in vrange(at, min(at + BLOCK, columns)):
                e = q[c + i * columns] * gamma[c]
                s += e
                t += e * ((p[c + i * columns] - m[i]) * k[i])
            h += f64(vsum(s))
            hat += f64(vsum(t))
        shift[i] = vec(T(h / f64(columns) * inverse))
        slope[i] = vec(T(hat / f64(columns) * pull))
    for c in vrange(columns):
        f = gamma[c]
        d_gamma = dg[c]
        d_beta = db[c]
        for i in unroll(ROWS):
            d = q[c + i * columns]
            z = (p[c + i * columns] - m[i]) * k[i]
            d_gamma += d * z
            d_beta += d
            o[c + i * columns] = d * f * k[i] - shift[i] - z * slope[i]
        dg[c] = d_gamma
        db[c] = d_beta


@kernel(reassoc=True)
def pull_back_rows(
    x: ptr(T), g: ptr(T), gamma: ptr(T), mean: ptr(T), var: ptr(T), dx: ptr(T), partial: ptr(T),
    rows: i64, columns: i64, parts: i64, eps: f64, OUTSIDE: i64, lo: i64, hi: i64,
):  # fmt: skip
    """dx, and partial[part, 2, columns]: the part's rows in d_gamma and d_beta; lo, hi: parts of the rows."""
    for u in range(lo, hi):
        dg = partial + u * 2 * columns
        db = dg + columns
        for c in vrange(2 * columns):
            dg[c] = T(0)
        first = u * rows // parts
        last = (u + 1) * rows // parts
        whole = first + (last - first) // TOGETHER * TOGETHER
        for r in range(first, whole, TOGETHER):
            at = r * columns
            pull_back_some(
                x + at, g + at, dx + at, gamma, mean + r, var + r, dg, db, columns, eps, OUTSIDE, TOGETHER
            )
        for r in range(whole, last):
            at = r * columns
            pull_back_some(x + at, g + at, dx + at, gamma, mean + r, var + r, dg, db, columns, eps, OUTSIDE, 1)
