"""Expressions made callable: `function`, plans bound to shapes, and the two backends."""

from .function import Function, In, evaluate_variable, function

__all__ = ["Function", "In", "evaluate_variable", "function"]
