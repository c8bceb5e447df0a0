"""Which kernels serve which op: one module per family; importing them fills the table."""

from .. import elementwise
from . import (
    attention,
    control,
    conv,
    indexing,
    linear,
    norm,
    pool,
    random,
    rearrange,
    recurrent,
    reduce,
    shape,
    softmax,
)
