"""What the kernels of recurrent networks share: the product of some rows with one panel of weights."""

from ..codegen import VL, T, dispatch, i64, kernel, ptr
from .gemm import tile


@kernel
def rows_by_panel(
    a: ptr(T), panel: ptr(T), c: ptr(T), rows: i64, columns: i64, depth: i64, a_m: i64, c_m: i64, accumulate: i64,
    LOW: i64, HIGH: i64, NV: i64, TAIL: i64,
):  # fmt: skip
    """c[rows, columns] (+)= a[rows, depth] panel[depth, NV VL], by tiles of LOW to HIGH rows.

    TAIL: vectors of a panel with fewer columns than NV VL, or 0 if there is none.
    """
    tiles = (rows + HIGH - 1) // HIGH
    for k in range(tiles):
        m = k * rows // tiles
        height = (k + 1) * rows // tiles - m
        if TAIL != 0:
            if columns < NV * VL:
                dispatch(tile, M=height, low=LOW, high=HIGH)(
                    a + m * a_m, panel, c + m * c_m, 1, 0, 0, depth, a_m, 1, NV * VL, c_m, accumulate, columns,
                    NV=TAIL, RAGGED=1,
                )  # fmt: skip
            else:
                dispatch(tile, M=height, low=LOW, high=HIGH)(
                    a + m * a_m, panel, c + m * c_m, 1, 0, 0, depth, a_m, 1, NV * VL, c_m, accumulate, columns,
                    NV=NV, RAGGED=0,
                )  # fmt: skip
        else:
            dispatch(tile, M=height, low=LOW, high=HIGH)(
                a + m * a_m, panel, c + m * c_m, 1, 0, 0, depth, a_m, 1, NV * VL, c_m, accumulate, columns,
                NV=NV, RAGGED=0,
            )  # fmt: skip
