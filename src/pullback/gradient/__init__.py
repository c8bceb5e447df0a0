"""Gradients of graphs, with typed answers: the engine, what is derived from it, and why an answer is what it is."""

from .engine import grad
from .explain import Explanation, explain
from .kinks import kink_table, kinks_of

__all__ = ["Explanation", "explain", "grad", "kink_table", "kinks_of"]
