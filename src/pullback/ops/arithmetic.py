"""Elementwise rows: arithmetic, powers, comparisons, choice, rounding."""

import numpy as np

from ..graph import Constant, Variable
from .elementwise import (
    Disconnected,
    Elementwise,
    Kink,
    LocallyConstant,
    cast,
    define,
    not_equal,
    strong_mul,
    zeros_like,
)

__all__ = [
    "abs", "add", "bitwise_and", "bitwise_or", "bitwise_xor", "ceil", "clip", "divide", "equal", "floor",
    "floor_divide", "greater", "greater_equal", "invert", "isfinite", "isinf", "isnan", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "negative",
    "not_equal", "power", "reciprocal", "rint", "round", "sign", "sqrt", "square", "strong_mul", "subtract", "trunc",
    "where",
]  # fmt: skip

REAL = (-3.0, 3.0)
POSITIVE = (0.1, 3.0)


def _never(g: Variable, out: Variable, *inputs: Variable) -> list:
    """Booleans and integers have no neighbourhood: no output of theirs is differentiated."""
    return [Disconnected() for _ in inputs]


def _locally_constant(g: Variable, out: Variable, x: Variable) -> list:
    return [LocallyConstant()]


# --- arithmetic -------------------------------------------------------------------------------------------------------
add = define("add", np.add, "x + y", lambda g, out, x, y: [g, g], "x + y.",
             arity=2, result="same", formula="(g, g)", domain=(REAL, REAL))  # fmt: skip
subtract = define("subtract", np.subtract, "x - y", lambda g, out, x, y: [g, negative(g)], "x - y.",
                  arity=2, result="same", formula="(g, -g)", domain=(REAL, REAL))  # fmt: skip
multiply = define("multiply", np.multiply, "x * y",
                  lambda g, out, x, y: [strong_mul(g, y), strong_mul(g, x)], "x * y.",
                  arity=2, result="same", formula="(g y, g x)", domain=(REAL, REAL))  # fmt: skip


def _divide_grad(g: Variable, out: Variable, x: Variable, y: Variable) -> list:
    y = cast(y, out.dtype)  # an integer's reciprocal would be no more exact than config.floatX
    return [strong_mul(g, reciprocal(y)), strong_mul(negative(g), divide(x, square(y)))]


divide = define(
    "divide", np.true_divide, "x / y", _divide_grad,
    "x / y; integers give config.floatX.",
    arity=2, formula="(g / y, -g x / y^2)", domain=(REAL, POSITIVE),
)  # fmt: skip
reciprocal = define("reciprocal", np.reciprocal, "1.0 / x",
                    lambda g, out, x: [strong_mul(negative(g), square(out))], "1 / x.",
                    formula="-g / x^2", domain=(POSITIVE,))  # fmt: skip
negative = define("negative", np.negative, "-x", lambda g, out, x: [negative(g)], "-x.",
                  result="same", formula="-g", domain=(REAL,))  # fmt: skip
square = define("square", np.square, "x * x", lambda g, out, x: [strong_mul(g, 2 * x)], "x squared.",
                result="same", formula="2 g x", domain=(REAL,))  # fmt: skip
sqrt = define(
    "sqrt", np.sqrt, "sqrt(x)",
    lambda g, out, x: [strong_mul(g, divide(0.5, out))],
    "Square root; NaN below zero.",
    formula="g / (2 sqrt(x))", domain=(POSITIVE,),
    kinks=(Kink("x = 0", "+inf (the one-sided limit)", "+inf, never a silent 0"),),
)  # fmt: skip


def _power_grad(g: Variable, out: Variable, x: Variable, y: Variable) -> list:
    # x^0 is identically 1, and 0^y is identically 0 for y near any positive y: both derivatives are 0 there. At y = 0
    # the factor y sees to that, unless x^-1 is infinite or NaN; the product stays, since its own slope in y is 1 / x.
    lost = logical_and(equal(y, 0), logical_not(greater(abs(x), 0)))
    base = multiply(y, power(where(lost, 1, x), subtract(y, 1)))
    exponent = where(equal(x, 0), zeros_like(y), multiply(out, _log(cast(x, out.dtype))))
    return [strong_mul(g, base), strong_mul(g, exponent)]


def _log(x: Variable) -> Variable:
    from .transcendental import log

    return log(x)


power = define(
    "power", np.power, "pow(x, y)", _power_grad,
    "x to the power y. Float powers of negative numbers are NaN unless y is a whole number.",
    arity=2, result="same", formula="(g y x^(y-1), g x^y log x)", domain=(POSITIVE, REAL),
    kinks=(Kink("x = 0, y = 0 (with respect to y)", "nothing: 0^y jumps from 0 to 1", "0"),),
)  # fmt: skip
mod = define(
    "mod", np.mod, "mod(x, y)",
    lambda g, out, x, y: [g, strong_mul(negative(g), floor(divide(x, y)))],
    "Remainder of x / y, with the sign of y.",
    arity=2, result="same", formula="(g, -g floor(x / y))", domain=(REAL, POSITIVE),
    kinks=(Kink("x / y whole", "nothing: the value jumps", "the derivative from above"),),
)  # fmt: skip
floor_divide = define(
    "floor_divide", np.floor_divide, "floor_divide(x, y)", lambda g, out, x, y: [LocallyConstant(), LocallyConstant()],
    "x / y rounded down.",
    arity=2, result="same", formula="(0, 0)", domain=(REAL, POSITIVE),
)  # fmt: skip

# --- kinked -----------------------------------------------------------------------------------------------------------
abs = define(
    "abs", np.abs, "abs(x)", lambda g, out, x: [strong_mul(g, sign(x))],
    "Absolute value; the modulus of a complex number.", result="modulus",
    formula="g sign(x)", domain=(REAL,), kinks=(Kink("x = 0", "[-1, 1]", "0"),),
)  # fmt: skip
sign = define(
    "sign", np.sign, "1 if x > 0 else -1 if x < 0 else x", _locally_constant,
    "-1, 0 or 1.", result="same", formula="0", domain=(REAL,),
)  # fmt: skip


def _choose_grad(wins, loses):
    """Gradient of a choice between x and y by comparison: the winner takes g; a NaN takes it too, so that it shows."""

    def grad(g: Variable, out: Variable, x: Variable, y: Variable) -> list:
        zero = zeros_like(g)

        def term(mine: Variable, other: Variable) -> Variable:
            if isinstance(other, Constant):  # a bound, not a rival: 0 at the kink
                return where(loses(mine, other), zero, where(equal(mine, other), zero, g))
            share = zero if isinstance(mine, Constant) else multiply(g, 0.5)
            return where(loses(mine, other), zero, where(equal(mine, other), share, g))

        return [term(x, y), term(y, x)]

    return grad


TIE = (
    Kink("x = y, both variables", "any share of g to each, summing to g", "half each"),
    Kink("x = y, one of them a constant", "[0, 1]", "0"),
)
maximum = define(
    "maximum", np.maximum, "maximum(x, y)", _choose_grad(lambda a, b: greater(a, b), lambda a, b: less(a, b)),
    "The larger of x and y; NaN if either is NaN.", arity=2, result="same", formula="g to the larger",
    domain=(REAL, REAL), kinks=TIE,
)  # fmt: skip
minimum = define(
    "minimum", np.minimum, "minimum(x, y)", _choose_grad(lambda a, b: less(a, b), lambda a, b: greater(a, b)),
    "The smaller of x and y; NaN if either is NaN.", arity=2, result="same", formula="g to the smaller",
    domain=(REAL, REAL), kinks=TIE,
)  # fmt: skip


def _clip_grad(g: Variable, out: Variable, x: Variable, low: Variable, high: Variable) -> list:
    zero = zeros_like(g)
    capped = greater(x, high)  # numpy: minimum(high, maximum(x, low)), so the upper bound wins
    raised = logical_and(less(x, low), logical_not(greater(low, high)))
    return [
        where(logical_or(less(x, low), capped), zero, g),
        where(raised, g, zero),
        where(logical_or(capped, logical_and(less(x, low), greater(low, high))), g, zero),
    ]


clip = define(
    "clip", lambda x, low, high: np.minimum(high, np.maximum(x, low)), "minimum(z, maximum(x, y))", _clip_grad,
    "x held within the closed interval [low, high]; bounds are numbers or variables.",
    arity=3, result="same", formula="g to x inside the closed interval, else to the bound that holds",
    domain=(REAL, (-1.5, -0.5), (0.5, 1.5)),
    kinks=(Kink("x = low or x = high", "[0, 1]", "1 to x: the interval is closed"),),
)  # fmt: skip
where: Elementwise = define(
    "where", np.where, "y if x else z",
    lambda g, out, c, x, y: [Disconnected(), where(c, g, zeros_like(g)), where(c, zeros_like(g), g)],
    "x where the condition holds, else y. The branch not taken gets exactly zero gradient.",
    arity=3, result="same", formula="(disconnected, g where c, g where not c)", domain=((0, 1), REAL, REAL),
)  # fmt: skip

# --- comparisons and logic: booleans ----------------------------------------------------------------------------------
COMPARISONS = {
    "equal": (np.equal, "x == y", "Whether x and y are equal, element by element (`==` itself compares identity)."),
    "less": (np.less, "x < y", "Whether x < y."),
    "less_equal": (np.less_equal, "x <= y", "Whether x <= y."),
    "greater": (np.greater, "x > y", "Whether x > y."),
    "greater_equal": (np.greater_equal, "x >= y", "Whether x >= y."),
    "logical_and": (np.logical_and, "(x != 0) and (y != 0)", "Whether both are true (non-zero)."),
    "logical_or": (np.logical_or, "(x != 0) or (y != 0)", "Whether either is true (non-zero)."),
    "logical_xor": (np.logical_xor, "(x != 0) != (y != 0)", "Whether exactly one is true (non-zero)."),
}
equal, less, less_equal, greater, greater_equal, logical_and, logical_or, logical_xor = (
    define(name, f, native, _never, doc, arity=2, result="bool", domain=(REAL, REAL))
    for name, (f, native, doc) in COMPARISONS.items()
)
logical_not = define("logical_not", np.logical_not, "not (x != 0)", _never, "Whether x is false (zero).",
                     result="bool", domain=(REAL,))  # fmt: skip
isnan = define("isnan", np.isnan, "x != x", _never, "Whether x is NaN.", result="bool", domain=(REAL,))
isinf = define("isinf", np.isinf, "abs(x) == INFINITY", _never, "Whether x is infinite.", result="bool", domain=(REAL,))
isfinite = define("isfinite", np.isfinite, "isfinite(x)", _never, "Whether x is neither infinite nor NaN.",
                  result="bool", domain=(REAL,))  # fmt: skip
bitwise_and = define("bitwise_and", np.bitwise_and, "x & y", _never, "Bits set in both (integers, booleans).",
                     arity=2, result="same")  # fmt: skip
bitwise_or = define("bitwise_or", np.bitwise_or, "x | y", _never, "Bits set in either (integers, booleans).",
                    arity=2, result="same")  # fmt: skip
bitwise_xor = define("bitwise_xor", np.bitwise_xor, "x ^ y", _never, "Bits set in exactly one (integers, booleans).",
                     arity=2, result="same")  # fmt: skip
invert = define("invert", np.invert, "~x", _never, "All bits flipped; for booleans, not.", result="same")

# --- rounding: zero derivative wherever there is one ------------------------------------------------------------------
JUMP = (Kink("jumps", "nothing: the value jumps", "0, as everywhere"),)
floor = define("floor", np.floor, "floor(x)", _locally_constant, "x rounded down.",
               result="same", formula="0", domain=(REAL,), kinks=JUMP)  # fmt: skip
ceil = define("ceil", np.ceil, "ceil(x)", _locally_constant, "x rounded up.",
              result="same", formula="0", domain=(REAL,), kinks=JUMP)  # fmt: skip
trunc = define("trunc", np.trunc, "trunc(x)", _locally_constant, "x rounded towards zero.",
               result="same", formula="0", domain=(REAL,), kinks=JUMP)  # fmt: skip
rint = define("rint", np.rint, "rint(x)", _locally_constant, "x rounded to the nearest whole number, halves to even.",
              result="same", formula="0", domain=(REAL,), kinks=JUMP)  # fmt: skip
round = rint
