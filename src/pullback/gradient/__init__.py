"""Gradients of graphs, with typed answers: the engine, what is derived from it, and why an answer is what it is."""

from .derived import Lop, Rop, hessian, hvp, jacobian, jvp, subgraph_grad, vjp
from .engine import grad
from .explain import Explanation, explain
from .kinks import KinkEntry, kink_table, kinks_of
from .rows import EachRow

__all__ = [
    "EachRow", "Explanation", "KinkEntry", "Lop", "Rop", "explain", "grad", "hessian", "hvp", "jacobian", "jvp",
    "kink_table", "kinks_of", "subgraph_grad", "vjp",
]  # fmt: skip
