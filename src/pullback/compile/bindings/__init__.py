"""Which kernels serve which op: one module per family; importing them fills the table."""

from .. import elementwise
from . import attention, control, conv, linear, norm, pool, recurrent, reduce, shape, softmax
