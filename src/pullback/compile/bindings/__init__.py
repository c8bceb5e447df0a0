"""Which kernels serve which op: one module per family; importing them fills the table."""

from .. import elementwise
from . import conv, linear, pool, reduce, softmax
