"""Reductions over processes; here the group is this process alone."""

from ...ops.collective import UFUNCS, ProductOfOthersGrad, SingleProcess, all_reduce
from ..entry import Entry, real

ENTRIES = [
    *(Entry(f"all_reduce[{how}]", lambda x, how=how: all_reduce(x, how), (real("a b"),)) for how in UFUNCS),
    Entry("all_reduce[prod]'s second derivative", ProductOfOthersGrad(SingleProcess()), (real("a b"), real("a b"))),
]
