"""What can be computed: every op with its type rule, its meaning and its gradient on one screen."""

from . import operators
from .arithmetic import *
from .elementwise import broadcast_like, cast, full_like, ones_like, sum_to, zeros_like
