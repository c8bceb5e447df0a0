"""Operators and methods of Variable: the NumPy face of a symbolic array. Installed when `pullback.ops` is imported."""

from ..graph import Variable
from . import arithmetic as a


def _swap(op):
    return lambda self, other: op(other, self)


BINARY = {
    "add": a.add, "sub": a.subtract, "mul": a.multiply, "truediv": a.divide, "pow": a.power, "mod": a.mod,
    "floordiv": a.floor_divide, "and": a.bitwise_and, "or": a.bitwise_or, "xor": a.bitwise_xor,
}  # fmt: skip
COMPARISONS = {"lt": a.less, "le": a.less_equal, "gt": a.greater, "ge": a.greater_equal}
UNARY = {"neg": a.negative, "abs": a.abs, "invert": a.invert}

for _name, _op in BINARY.items():
    setattr(Variable, f"__{_name}__", lambda self, other, op=_op: op(self, other))
    setattr(Variable, f"__r{_name}__", _swap(_op))
for _name, _op in COMPARISONS.items():
    setattr(Variable, f"__{_name}__", lambda self, other, op=_op: op(self, other))
for _name, _op in UNARY.items():
    setattr(Variable, f"__{_name}__", lambda self, op=_op: op(self))
