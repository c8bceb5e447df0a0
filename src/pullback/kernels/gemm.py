"""Matrix products: one register tile, batch-reduced over r and k, and what feeds it.

Everything here computes C[m, n] (+)= sum over k of A[m, k] B[k, n] with free strides in A and unit stride along n.
"""

from ..codegen import VL, T, dispatch, fma, i64, isa, kernel, ld, prefetch, ptr, regs, st, unroll, vec, vtrans

# The tallest tile whose accumulators, beside two rows of B, stay in registers: AVX-512 has 32, the others 16.
TALLEST = {"avx512": 14, "avx2": 6, "neon": 12, "plain": 6}[isa()]
VECTORS = 2  # of float32 in a row of the tile; float64 takes one, which is two registers
DEPTH = 256  # rows of a panel of B that are used at a time, so that it stays in L1


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
                    acc[i * NV + j] = fma(x, row[j], acc[i * NV + j])
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


@kernel
def gemm(
    a: ptr(T), b: ptr(T), c: ptr(T),
    m_count: i64, n_count: i64, k_count: i64,
    a_batch: i64, a_m: i64, a_k: i64, b_batch: i64, b_panel: i64, b_k: i64, c_batch: i64,
    tiles: i64, row_blocks: i64, column_blocks: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64,
    lo: i64, hi: i64,
):  # fmt: skip
    """Batches of C[m, n] = A[m, k] B[k, n], C contiguous; B by panels of NV * VL columns, panels `b_panel` apart.

    lo, hi: units, each one row block by one column block of one batch. TAIL: vectors of the last, ragged panel, or 0.
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
        for k in range(0, k_count, DEPTH):
            depth = min(DEPTH, k_count - k)
            for p in range(cb * whole // column_blocks, (cb + 1) * whole // column_blocks):
                for t in range(rb * tiles // row_blocks, (rb + 1) * tiles // row_blocks):
                    m = t * m_count // tiles
                    height = (t + 1) * m_count // tiles - m
                    qa = pa + (m * a_m + k * a_k)
                    qb = pb + (p * b_panel + k * b_k)
                    qc = pc + (m * n_count + p * width)
                    if TAIL != 0:
                        if p == panels:
                            dispatch(tile, M=height, low=LOW, high=HIGH)(
                                qa, qb, qc, 1, 0, 0, depth, a_m, a_k, b_k, n_count, k, n_count - p * width,
                                NV=TAIL, RAGGED=1,
                            )  # fmt: skip
                        else:
                            dispatch(tile, M=height, low=LOW, high=HIGH)(
                                qa, qb, qc, 1, 0, 0, depth, a_m, a_k, b_k, n_count, k, width, NV=NV, RAGGED=0
                            )
                    else:
                        dispatch(tile, M=height, low=LOW, high=HIGH)(
                            qa, qb, qc, 1, 0, 0, depth, a_m, a_k, b_k, n_count, k, width, NV=NV, RAGGED=0
                        )


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
