"""Deep learning for CPUs with gradients that you can trust.

    >>> import numpy as np
    >>> import pullback as pb
    >>> x = pb.vector("x")
    >>> cost = (pb.square(x) * x).sum()
    >>> f = pb.function([x], pb.grad(cost, x))
    >>> f(np.array([1, 2], "float32"))
    array([ 3., 12.], dtype=float32)
"""

import importlib as _importlib
from typing import Any as _Any

from .compile import In, evaluate_variable, function
from .compile.derivatives import hessian, hvp, jacobian, jvp, vjp
from .compile.transforms import jit, value_and_grad
from .config import config, nan_guard
from .control import *
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    DisconnectedInputError,
    DTypeError,
    FileAccessError,
    FormatError,
    GradientError,
    GraphError,
    IndexRangeError,
    KernelError,
    MissingInputError,
    MissingPackageError,
    NonFiniteError,
    NotImplementedGradientError,
    PullbackError,
    RuleError,
    ShapeError,
    UndefinedGradientError,
    UnknownNameError,
    UnusedInputError,
)
from .gradient import Lop, Rop, explain, grad, kink_table, subgraph_grad
from .graph import (
    Apply,
    Constant,
    DisconnectedType,
    Op,
    SharedVariable,
    TensorType,
    Variable,
    clone_replace,
    debugprint,
    eager,
    grad_not_implemented,
    grad_undefined,
    graph_inputs,
    to_dot,
    to_svg,
)
from .ops import *
from .ops import linalg, random

__version__ = "0.1.0"

Variable.eval = evaluate_variable
_LAZY = ("darknet", "data", "nn", "testing")  # rooms that most graphs don't need: imported when first named


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
