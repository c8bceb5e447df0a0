"""Matrix products: one register tile, batch-reduced over r and k, and what feeds it.

Everything here computes C[m, n] (+)= sum over k of A[m, k] B[k, n] with free strides in A and unit stride along n.
Multiply-adds are left to be fused by the compiler, since a machine that can't would call a function for each.
"""

from ..codegen import (
    VL,
    T,
    dispatch,
    helper,
    i64,
    isa,
    kernel,
    ld,
    prefetch,
    ptr,
    regs,
    st,
    unroll,
    vec,
    vfull,
    vrange,
    vsum,
    vtrans,
)

# The tallest tile whose accumulators, beside two rows of B, stay in registers: AVX-512 has 32, the others 16.
TALLEST = {"avx512": 14, "avx2": 6, "neon": 12, "plain": 6}[isa()]
VECTORS = 2  # of float32 in a row of the tile; float64 takes one, which is two registers
DEPTH = 384  # rows of a panel of B that are used at a time, so that it stays in L1


def tile_vectors(dtype: str) -> int:
    """How many vectors of `dtype` a row of the tile holds."""
    return 1 if dtype == "float64" else VECTORS


def panel_width(dtype: str) -> int:
    """Columns of one tile."""
    return tile_vectors(dtype) * VL


def tile_heights(m: int) -> tuple[int, int, int]:
    """(number of tiles, least height, greatest height) when m rows are cut evenly."""
    count = -(-m // TALLEST)
    return count, m // count, -(-m // count)


@kernel
def tile(
    a: ptr(T), b: ptr(T), c: ptr(T),
    r_count: i64, a_r: i64, b_r: i64, k_count: i64, a_m: i64, a_k: i64, b_k: i64, c_m: i64,
    accumulate: i64, n: i64, M: i64, NV: i64, RAGGED: i64,
):  # fmt: skip
    """C[M, n] (+)= sum over r < r_count, k < k_count of A[r, m, k] B[r, k, n]; n = NV * VL unless RAGGED."""
    acc = regs(M * NV, T)
    row = regs(NV, T)
    if accumulate != 0:  # C is added at the end: its misses overlap with the loop
        for i in unroll(M):
            prefetch(c + i * c_m, 1)
    for r in range(r_count):
        pa = a + r * a_r
        pb = b + r * b_r
        for _ in range(k_count):
            for j in unroll(NV):
                if RAGGED != 0:
                    row[j] = ld(pb + j * VL, n - j * VL)
                else:
                    row[j] = ld(pb + j * VL)
            for i in unroll(M):
                x = vec(pa[i * a_m])
                for j in unroll(NV):
                    acc[i * NV + j] += x * row[j]
            pa = pa + a_k
            pb = pb + b_k
    for i in unroll(M):
        for j in unroll(NV):
            if RAGGED != 0:
                if accumulate != 0:
                    acc[i * NV + j] += ld(c + (i * c_m + j * VL), n - j * VL)
                st(c + (i * c_m + j * VL), acc[i * NV + j], n - j * VL)
            else:
                if accumulate != 0:
                    acc[i * NV + j] += ld(c + (i * c_m + j * VL))
                st(c + (i * c_m + j * VL), acc[i * NV + j])


@helper
def pack_rows(a: ptr(T), packed: ptr(T), rows: i64, depth: i64, a_m: i64, a_k: i64):
    """packed[k, rows] = A[rows, k]: what one tile reads, in order; a_m or a_k is 1."""
    for r in range(0, rows, VL):
        if a_m == 1:
            for k in range(depth):
                st(packed + (k * rows + r), ld(a + (k * a_k + r), rows - r), rows - r)
        else:
            block = regs(VL, T)
            for k in range(0, depth, VL):
                for i in unroll(VL):
                    block[i] = ld(a + (min(r + i, rows - 1) * a_m + k), depth - k)
                vtrans(block)
                for i in unroll(VL):
                    if k + i < depth:
                        st(packed + ((k + i) * rows + r), block[i], rows - r)


@kernel
def gemm(
    a: ptr(T), b: ptr(T), c: ptr(T), packed: ptr(T),
    m_count: i64, n_count: i64, k_count: i64,
    a_batch: i64, a_m: i64, a_k: i64, b_batch: i64, b_panel: i64, b_k: i64, c_batch: i64,
    tiles: i64, row_blocks: i64, column_blocks: i64, packed_unit: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64, PACK: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """Batches of C[m, n] = A[m, k] B[k, n], C contiguous; B by panels of NV * VL columns, panels `b_panel` apart.

    lo, hi: units, each one row block by one column block of one batch. TAIL: vectors of the last, ragged panel, or 0.
    PACK: a unit first copies its part of A, tile by tile, to its `packed_unit` elements of `packed`; a_m or a_k is 1.
    """
    width = NV * VL
    panels = n_count // width
    whole = panels + 1 if TAIL != 0 else panels
    for unit in range(lo, hi):
        batch = unit // (row_blocks * column_blocks)
        block = unit % (row_blocks * column_blocks)
        rb = block // column_blocks
        cb = block % column_blocks
        pa = a + batch * a_batch
        pb = b + batch * b_batch
        pc = c + batch * c_batch
        first = rb * tiles // row_blocks * m_count // tiles
        copy = packed + unit * packed_unit
        for k in range(0, k_count, DEPTH):
            depth = min(DEPTH, k_count - k)
            if PACK != 0:
                for t in range(rb * tiles // row_blocks, (rb + 1) * tiles // row_blocks):
                    m = t * m_count // tiles
                    rows = (t + 1) * m_count // tiles - m
                    pack_rows(pa + (m * a_m + k * a_k), copy + (m - first) * depth, rows, depth, a_m, a_k)
            for p in range(cb * whole // column_blocks, (cb + 1) * whole // column_blocks):
                for t in range(rb * tiles // row_blocks, (rb + 1) * tiles // row_blocks):
                    m = t * m_count // tiles
                    height = (t + 1) * m_count // tiles - m
                    qa = copy + (m - first) * depth if PACK != 0 else pa + (m * a_m + k * a_k)
                    q_m = 1 if PACK != 0 else a_m
                    q_k = height if PACK != 0 else a_k
                    qb = pb + (p * b_panel + k * b_k)
                    qc = pc + (m * n_count + p * width)
                    if TAIL != 0 and p == panels:
                        dispatch(tile, M=height, low=LOW, high=HIGH)(
                            qa, qb, qc, 1, 0, 0, depth, q_m, q_k, b_k, n_count, k, n_count - p * width,
                            NV=TAIL, RAGGED=1,
                        )  # fmt: skip
                    else:
                        dispatch(tile, M=height, low=LOW, high=HIGH)(
                            qa, qb, qc, 1, 0, 0, depth, q_m, q_k, b_k, n_count, k, width, NV=NV, RAGGED=0
                        )


@kernel(reassoc=True)
def dot_rows(
    a: ptr(T), x: ptr(T), out: ptr(T), m_count: i64, k_count: i64, a_batch: i64, a_m: i64, x_batch: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """out[batch, m] = sum over k of A[batch, m, k] x[batch, k], k contiguous; lo, hi: rows of all batches.

    Products are added up in blocks, so that rounding errors grow with the number of blocks and not of elements.
    """
    acc = regs(4, T)
    for u in range(lo, hi):
        row = a + (u // m_count * a_batch + u % m_count * a_m)
        column = x + u // m_count * x_batch
        result = T(0)
        for at in range(0, k_count, 4 * DEPTH):
            end = min(at + 4 * DEPTH, k_count)
            whole = at + (end - at) // (4 * VL) * (4 * VL)
            last = vec(T(0))
            for j in unroll(4):
                acc[j] = vec(T(0))
            for k in vfull(at, whole, 4):
                for j in unroll(4):
                    acc[j] += row[k + j * VL] * column[k + j * VL]
            for k in vrange(whole, end):
                last += row[k] * column[k]
            result += vsum(acc[0] + acc[1] + (acc[2] + acc[3]) + last)
        out[u] = result


@kernel
def combine_rows(
    a: ptr(T), x: ptr(T), out: ptr(T), n_count: i64, k_count: i64, strips: i64, a_batch: i64, a_k: i64, x_batch: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """out[batch, n] = sum over k of x[batch, k] A[batch, k, n], n contiguous; lo, hi: strips of 4 VL columns.

    The sum over k is taken in blocks of DEPTH.
    """
    acc = regs(4, T)
    total = regs(4, T)
    for u in range(lo, hi):
        first = u % strips * (4 * VL)
        rows = a + (u // strips * a_batch + first)
        column = x + u // strips * x_batch
        n = n_count - first
        for j in unroll(4):
            total[j] = vec(T(0))
        for at in range(0, k_count, DEPTH):
            for j in unroll(4):
                acc[j] = vec(T(0))
            for k in range(at, min(at + DEPTH, k_count)):
                scale = vec(column[k])
                for j in unroll(4):
                    acc[j] += scale * ld(rows + (k * a_k + j * VL), n - j * VL)
            for j in unroll(4):
                total[j] += acc[j]
        for j in unroll(4):
            st(out + (u // strips * n_count + first + j * VL), total[j], n - j * VL)


@kernel
def pack_panels(w: ptr(T), panels: ptr(T), n_count: i64, k_count: i64, w_k: i64, w_batch: i64, p_batch: i64,
                NV: i64, lo: i64, hi: i64):  # fmt: skip
    """B given by rows, w[k, n] with rows `w_k` apart, into panels[p, k, NV * VL], surplus columns zero.

    lo, hi: panels of all batches, one batch after the other; a batch of panels is `p_batch` elements.
    """
    width = NV * VL
    per_batch = (n_count + width - 1) // width
    for q in range(lo, hi):
        p = q % per_batch
        source = w + (q // per_batch * w_batch + p * width)
        target = panels + (q // per_batch * p_batch + p * k_count * width)
        for k in range(k_count):
            for part in unroll(NV):
                n = p * width + part * VL
                st(target + (k * width + part * VL), ld(source + (k * w_k + part * VL), n_count - n))


@kernel
def pack_transposed(w: ptr(T), panels: ptr(T), n_count: i64, k_count: i64, w_n: i64, w_batch: i64, p_batch: i64,
                    NV: i64, lo: i64, hi: i64):  # fmt: skip
    """B given by columns, w[n, k] with rows `w_n` apart, into panels[p, k, NV * VL], surplus columns zero.

    lo, hi: panels of all batches, one batch after the other; a batch of panels is `p_batch` elements.
    """
    width = NV * VL
    per_batch = (n_count + width - 1) // width
    block = regs(VL, T)
    for q in range(lo, hi):
        source = w + q // per_batch * w_batch
        p = q % per_batch
        target = panels + (q // per_batch * p_batch + p * k_count * width)
        for part in unroll(NV):
            n0 = p * width + part * VL
            for k in range(0, k_count, VL):
                for i in unroll(VL):
                    if n0 + i < n_count:
                        block[i] = ld(source + ((n0 + i) * w_n + k), k_count - k)
                    else:
                        block[i] = vec(T(0))
                vtrans(block)
                for i in unroll(VL):
                    if k + i < k_count:
                        st(target + ((k + i) * width + part * VL), block[i])
