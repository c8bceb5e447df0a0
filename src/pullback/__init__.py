"""Deep learning for CPUs with gradients that you can trust."""

__version__ = "0.1.0"
