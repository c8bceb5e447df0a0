"""Typed values and the LLVM instructions that compute with them: literals, conversions, arithmetic, reductions."""

import contextlib
import operator
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .target import lanes
from .types import (
    Pointer,
    Problem,
    Scalar,
    Vector,
    bool_,
    common_type,
    element_of,
    f16,
    f32,
    f64,
    i64,
    neutral,
    widens,
)  # fmt: skip

# Never nnan or ninf: NaN and infinity stay what they are. Nor arcp: x / sqrt(y) becomes x * rsqrt(y), NaN for y = 0.
FAST = "nsz contract "

FOLD = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv, "Pow": operator.pow,
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "LShift": operator.lshift, "RShift": operator.rshift,
    "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor, "Lt": operator.lt, "LtE": operator.le,
    "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq, "NotEq": operator.ne, "Is": operator.is_,
    "IsNot": operator.is_not,
}  # fmt: skip
SIGNS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "LShift": "<<", "RShift": ">>",
    "BitAnd": "&", "BitOr": "|", "BitXor": "^", "Pow": "**", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=",
    "Eq": "==", "NotEq": "!=",
}  # fmt: skip
_FLOAT_OPS = {"Add": "fadd", "Sub": "fsub", "Mult": "fmul", "Div": "fdiv"}
_BIT_OPS = {"BitAnd": "and", "BitOr": "or", "BitXor": "xor"}
_INTEGER_OPS = {"Add": "add", "Sub": "sub", "Mult": "mul", "LShift": "shl", **_BIT_OPS}
_CONDITIONS = {"Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Eq": "eq", "NotEq": "ne"}


@dataclass(frozen=True)
class Literal:
    """A number known at compile time, without a type of its own: it takes that of what stands beside it."""

    value: Any


@dataclass(frozen=True)
class Value:
    """A run-time value: its type and how LLVM calls it. `literal` remembers the number that a typed constant holds."""

    type: Any
    ref: str
    literal: Any = None


@dataclass(frozen=True)
class Lanes:
    """The integers base, base + stride, ... of the lanes of a vector loop: what memory accesses are made of."""

    base: Value | Literal
    stride: Value | Literal


@dataclass(frozen=True)
class Variable:
    """A local variable, made on `line` (0: part of a register array): a stack slot that LLVM turns into registers."""

    name: str
    type: Any
    slot: str
    line: int


def describe(value: Any) -> str:
    """What an error message calls a value."""
    if isinstance(value, Literal):
        return f"the literal {value.value!r}"
    if isinstance(value, Lanes):
        return "a vector loop's index"
    return f"{value.type}" if isinstance(value, Value) else repr(value)


def is_vector(value: Any) -> bool:
    return isinstance(value, Lanes) or (isinstance(value, Value) and isinstance(value.type, Vector))


class Emitter:
    """Writes the instructions of one LLVM function."""

    def __init__(self) -> None:
        self.vl = lanes()
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.declarations: set[str] = set()
        self.definitions: dict[str, str] = {}
        self.flags = FAST
        self.mask: Value | None = None
        self.count = 0

    # Text

    def temporary(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def label(self) -> str:
        self.count += 1
        return f"L{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def place(self, label: str) -> None:
        self.lines.append(label + ":")

    def value(self, kind: Any, text: str) -> Value:
        result = self.temporary()
        self.lines.append(f"  {result} = {text}")
        return Value(kind, result)

    def branch(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch_if(self, condition: Value, yes: str, no: str) -> None:
        self.line(f"br i1 {condition.ref}, label %{yes}, label %{no}")

    @contextlib.contextmanager
    def detached(self) -> Iterator[list[str]]:
        """Collect lines apart, to be placed later."""
        outer, self.lines = self.lines, []
        try:
            yield self.lines
        finally:
            self.lines = outer

    def llvm(self, kind: Any) -> str:
        return f"<{self.vl} x {kind.element.llvm}>" if isinstance(kind, Vector) else kind.llvm

    def typed(self, value: Value) -> str:
        return f"{self.llvm(value.type)} {value.ref}"

    def suffix(self, kind: Any) -> str:
        """How the names of LLVM's intrinsics spell a type."""
        element = element_of(kind)
        name = f"f{element.bits}" if element.is_float else f"i{element.bits}"
        return f"v{self.vl}{name}" if isinstance(kind, Vector) else name

    def call(self, kind: Any, name: str, *args: Value, extra: str = "", flags: str = "") -> Value:
        """A call of an external function or LLVM intrinsic; `extra` are trailing immediate arguments, as in "i1 0"."""
        result = self.llvm(kind)
        types = [self.llvm(a.type) for a in args] + [e.split()[0] for e in extra.split(", ") if e]
        self.declarations.add(f"declare {result} @{name}({', '.join(types)})")
        given = ", ".join([*map(self.typed, args), *([extra] if extra else [])])
        return self.value(kind, f"call {flags}{result} @{name}({given})")

    def allocate(self, kind: Any) -> str:
        """A stack slot for one value."""
        self.count += 1
        self.allocas.append(f"  %s{self.count} = alloca {self.llvm(kind)}")
        return f"%s{self.count}"

    def allocate_array(self, element: Scalar, count: int) -> Value:
        """A 64-byte aligned array on the stack."""
        self.count += 1
        self.allocas.append(f"  %s{self.count} = alloca {element.stored}, i64 {count}, align 64")
        return Value(Pointer(element), f"%s{self.count}")

    def read(self, slot: str, kind: Any) -> Value:
        return self.value(kind, f"load {self.llvm(kind)}, ptr {slot}")

    def write(self, slot: str, value: Value) -> None:
        self.line(f"store {self.typed(value)}, ptr {slot}")

    # Literals and conversions

    def constant(self, number: Any, kind: Scalar, explicit: bool = False) -> Value:
        """A literal as a value of a type. Only an explicit conversion cuts a fraction or wraps an integer."""
        if kind is bool_:
            if not isinstance(number, bool) and not explicit:
                raise Problem(f"{number!r} isn't a bool")
            return Value(bool_, "true" if number else "false", bool(number))
        if isinstance(number, bool) and not explicit:
            raise Problem(f"{number} isn't a number: convert it, as in {kind}({number})")
        if kind.is_float:
            return Value(kind, _float_text(number, kind), float(number))
        if isinstance(number, float) and not explicit:
            raise Problem(f"the literal {number!r} meets a value of type {kind}: convert one of them")
        low, high = kind.range
        whole = int(number)
        if not low <= whole <= high:
            if not explicit:
                raise Problem(f"{whole} is outside {kind}")
            whole = (whole - low) % (1 << kind.bits) + low
        return Value(kind, str(whole), whole)

    def splat(self, value: Value) -> Value:
        if isinstance(value.type, Vector):
            return value
        kind = Vector(value.type)
        if value.literal is not None:
            return Value(kind, "<" + ", ".join([self.typed(value)] * self.vl) + ">", value.literal)
        first = self.value(kind, f"insertelement {self.llvm(kind)} poison, {self.typed(value)}, i32 0")
        zeros = f"<{self.vl} x i32> zeroinitializer"
        return self.value(kind, f"shufflevector {self.typed(first)}, {self.llvm(kind)} poison, {zeros}")

    def iota(self, stride: int = 1, kind: Scalar = i64) -> Value:
        numbers = ", ".join(f"{kind.llvm} {j * stride}" for j in range(self.vl))
        return Value(Vector(kind), f"<{numbers}>")

    def plain(self, value: Any) -> Any:
        """Lanes as the vector of their integers; anything else as it is."""
        if not isinstance(value, Lanes):
            return value
        if isinstance(value.stride, Literal):
            steps = self.iota(value.stride.value)
        else:
            steps = self.arithmetic("Mult", self.iota(), value.stride)
        return self.arithmetic("Add", steps, value.base)

    def convert(self, value: Any, target: Scalar) -> Value:
        """`f32(x)` and the like, elementwise. A float outside an integer's range gives an unspecified integer."""
        value = self.plain(value)
        if isinstance(value, Literal):
            return self.constant(value.value, target, explicit=True)
        source = element_of(value.type)
        if not isinstance(source, Scalar):
            raise Problem(f"{describe(value)} can't be converted to {target}")
        if target is f16:
            raise Problem("f16 is a storage type: it is reached by storing an f32 through ptr(f16)")
        if source == target:
            return value
        kind = Vector(target) if isinstance(value.type, Vector) else target
        if target is bool_:
            zero = self.constant(0, source)
            return self.compare("NotEq", value, self.splat(zero) if is_vector(value) else zero)
        if source.llvm == target.llvm:
            return Value(kind, value.ref)
        result = self.value(kind, f"{_conversion(source, target)} {self.typed(value)} to {self.llvm(kind)}")
        if source.is_float and not target.is_float:
            return self.value(kind, f"freeze {self.typed(result)}")
        return result

    def coerce(self, value: Any, kind: Any, where: str, fill: bool = False) -> Value:
        """The implicit conversion to a declared type: literals adapt, numbers widen, all else is refused.

        A typed scalar becomes a vector only with `fill`.
        """
        value = self.plain(value)
        element = element_of(kind)
        if isinstance(kind, Pointer):
            if isinstance(value, Value) and value.type == kind:
                return value
            raise Problem(f"{where} is a {kind}, but gets {describe(value)}")
        if isinstance(value, Literal):
            if not isinstance(value.value, bool | int | float):
                raise Problem(f"{where} is a {kind}, but gets {describe(value)}")
            result = self.constant(value.value, element)
            return self.splat(result) if isinstance(kind, Vector) else result
        if not isinstance(value, Value) or isinstance(value.type, Pointer):
            raise Problem(f"{where} is a {kind}, but gets {describe(value)}")
        if is_vector(value) and not isinstance(kind, Vector):
            raise Problem(f"{where} is a scalar {kind}, but gets a vector of {element_of(value.type)}")
        if isinstance(kind, Vector) and not is_vector(value) and not fill:
            raise Problem(f"{where} is a {kind}, but gets a scalar {value.type}: write vec(...) to fill all lanes")
        if not widens(element_of(value.type), element):
            raise Problem(f"{where} is {kind}, but gets {value.type}: write {element}(...) to convert")
        value = self.convert(value, element)
        return self.splat(value) if isinstance(kind, Vector) else value

    def unify(self, a: Any, b: Any) -> tuple[Value, Value]:
        """Two operands in their common type; a scalar beside a vector fills all lanes."""
        a, b = self.plain(a), self.plain(b)
        for operand in (a, b):
            if not isinstance(operand, Literal | Value) or isinstance(getattr(operand, "type", None), Pointer):
                raise Problem(f"{describe(operand)} isn't a number")
        if isinstance(a, Literal):
            a, b = self._adapt(a, b), b
        elif isinstance(b, Literal):
            b = self._adapt(b, a)
        else:
            kind = common_type(element_of(a.type), element_of(b.type))
            a, b = self.convert(a, kind), self.convert(b, kind)
        if is_vector(a) or is_vector(b):
            a, b = self.splat(a), self.splat(b)
        return a, b

    def _adapt(self, literal: Literal, beside: Value) -> Value:
        return self.constant(literal.value, element_of(beside.type))

    # Arithmetic

    def arithmetic(self, op: str, a: Any, b: Any) -> Any:
        """`a op b` for literals, numbers, vectors, lanes and pointers."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return fold(op, a, b)
        if isinstance(a, Value) and isinstance(a.type, Pointer):
            return self._move_pointer(op, a, b)
        affine = self._affine(op, a, b)
        if affine is not None:
            return affine
        if op == "Pow":
            return self._power(a, b)
        a, b = self.unify(a, b)
        kind, element = a.type, element_of(a.type)
        if element.is_float:
            if op not in _FLOAT_OPS:
                raise Problem(f"{SIGNS[op]} isn't defined for {element}")
            return self.value(kind, f"{_FLOAT_OPS[op]} {self.flags}{self.typed(a)}, {b.ref}")
        if element is bool_:
            if op not in _BIT_OPS:
                raise Problem(f"{SIGNS[op]} isn't defined for bool_: convert, as in f32(condition)")
            return self.value(kind, f"{_BIT_OPS[op]} {self.typed(a)}, {b.ref}")
        if op in ("FloorDiv", "Mod"):
            return self._divide(op, a, b)
        if op == "Div":
            raise Problem(f"/ isn't defined for {element}: write //, or convert to a float type first")
        if op == "RShift":
            return self.value(kind, f"{'ashr' if element.kind == 'signed' else 'lshr'} {self.typed(a)}, {b.ref}")
        exact = "nsw " if element is i64 and op in ("Add", "Sub", "Mult") else ""
        return self.value(kind, f"{_INTEGER_OPS[op]} {exact}{self.typed(a)}, {b.ref}")

    def _move_pointer(self, op: str, pointer: Value, offset: Any) -> Value:
        if op not in ("Add", "Sub"):
            raise Problem(f"{SIGNS[op]} isn't defined for {pointer.type}")
        if is_vector(offset):
            raise Problem("a pointer moves by a scalar: index it with the vector instead, as in p[i]")
        offset = self.coerce(offset, i64, "a pointer's offset")
        if op == "Sub":
            offset = self.negate(offset)
        return self.offset(pointer, offset)

    def offset(self, pointer: Value, index: Value) -> Value:
        stored = pointer.type.element.stored
        return self.value(pointer.type, f"getelementptr inbounds {stored}, {self.typed(pointer)}, i64 {index.ref}")

    def _affine(self, op: str, a: Any, b: Any) -> Lanes | None:
        """Keep i + n, n - i and i * n as lanes, so that accesses stay contiguous or strided."""
        scalar_a, scalar_b = self._scalar_index(a), self._scalar_index(b)
        if isinstance(a, Lanes) and scalar_b is not None:
            if op in ("Add", "Sub"):
                return Lanes(self.arithmetic(op, a.base, scalar_b), a.stride)
            if op == "Mult":
                return Lanes(*(self.arithmetic("Mult", part, scalar_b) for part in (a.base, a.stride)))
        if isinstance(b, Lanes) and scalar_a is not None:
            if op in ("Add", "Mult"):
                return self._affine(op, b, a)
            if op == "Sub":
                return Lanes(self.arithmetic("Sub", scalar_a, b.base), self.negate(b.stride))
        return None

    def _scalar_index(self, value: Any) -> Value | Literal | None:
        if isinstance(value, Literal):
            return value if isinstance(value.value, int) else None
        if isinstance(value, Value) and isinstance(value.type, Scalar) and widens(value.type, i64):
            return self.convert(value, i64)
        return None

    def _power(self, base: Any, exponent: Any) -> Value:
        if not isinstance(exponent, Literal) or not isinstance(exponent.value, int) or not 0 <= exponent.value <= 64:
            raise Problem("** takes a literal integer exponent from 0 to 64; for others call pow(x, y)")
        result, square, left = Literal(1), base, exponent.value
        while left:
            if left & 1:
                result = square if result == Literal(1) else self.arithmetic("Mult", result, square)
            left >>= 1
            if left:
                square = self.arithmetic("Mult", square, square)
        return result

    def _divide(self, op: str, a: Value, b: Value) -> Value:
        """Python's // and %: the quotient is rounded down and the remainder has the divisor's sign."""
        kind, element = a.type, element_of(a.type)
        if b.literal == 0:
            raise Problem("division by zero")
        if self.mask is not None and b.literal is None and isinstance(kind, Vector):
            b = self.select(self.mask, b, Literal(1))  # lanes that are off hold zeros, and dividing by zero traps
        if element.kind == "unsigned":
            return self.value(kind, f"{'udiv' if op == 'FloorDiv' else 'urem'} {self.typed(a)}, {b.ref}")
        if b.literal is not None and b.literal > 0 and b.literal & (b.literal - 1) == 0:
            if op == "Mod":
                return self.arithmetic("BitAnd", a, Literal(b.literal - 1))
            return self.arithmetic("RShift", a, Literal(b.literal.bit_length() - 1))
        remainder = self.value(kind, f"srem {self.typed(a)}, {b.ref}")
        opposite = self.compare("Lt", self.arithmetic("BitXor", remainder, b), Literal(0))
        fix = self.arithmetic("BitAnd", opposite, self.compare("NotEq", remainder, Literal(0)))
        if op == "Mod":
            return self.arithmetic("Add", remainder, self.select(fix, b, Literal(0)))
        quotient = self.value(kind, f"sdiv {self.typed(a)}, {b.ref}")
        return self.arithmetic("Sub", quotient, self.convert(fix, element))

    def negate(self, value: Any) -> Any:
        if isinstance(value, Literal):
            return Literal(-value.value)
        if isinstance(value, Lanes):
            return Lanes(self.negate(value.base), self.negate(value.stride))
        element = element_of(value.type)
        if not isinstance(element, Scalar) or element is bool_:
            raise Problem(f"- isn't defined for {value.type}")
        if element.is_float:
            return self.value(value.type, f"fneg {self.flags}{self.typed(value)}")
        zero = self.constant(0, element)
        return self.arithmetic("Sub", self.splat(zero) if is_vector(value) else zero, value)

    def compare(self, op: str, a: Any, b: Any) -> Any:
        """Comparisons give bool_; with NaN only != is true."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return fold(op, a, b)
        if op not in _CONDITIONS:
            raise Problem(f"{op} isn't defined in kernels")
        a, b = self.unify(a, b)
        kind, element, condition = a.type, element_of(a.type), _CONDITIONS[op]
        result = Vector(bool_) if isinstance(kind, Vector) else bool_
        if element.is_float:
            order = "u" if op == "NotEq" else "o"
            return self.value(result, f"fcmp {order}{condition} {self.typed(a)}, {b.ref}")
        if element is bool_ and op not in ("Eq", "NotEq"):
            raise Problem(f"{SIGNS[op]} isn't defined for bool_")
        sign = "" if op in ("Eq", "NotEq") else ("s" if element.kind == "signed" else "u")
        return self.value(result, f"icmp {sign}{condition} {self.typed(a)}, {b.ref}")

    def invert(self, value: Any) -> Any:
        """Logical `not`."""
        if isinstance(value, Literal):
            return Literal(not value.value)
        true = self.constant(True, bool_)
        return self.arithmetic("BitXor", value, self.splat(true) if is_vector(value) else true)

    def complement(self, value: Any) -> Any:
        """`~`: every bit the other way round."""
        value = self.plain(value)
        if isinstance(value, Literal):
            return Literal(~value.value)
        element = element_of(value.type)
        ones = self.constant(True if element is bool_ else -1, element, explicit=True)
        return self.arithmetic("BitXor", value, ones)

    def select(self, condition: Value, a: Any, b: Any) -> Value:
        """Elementwise `a if condition else b`."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            raise Problem("a choice between two literals has no type: convert one, as in T(0.0)")
        if isinstance(a, Value) and isinstance(a.type, Pointer):
            if is_vector(condition):
                raise Problem("lanes can't choose between pointers: choose between what they point at")
            b = self.coerce(b, a.type, "the other side of a choice")
            return self.value(a.type, f"select {self.typed(condition)}, {self.typed(a)}, {self.typed(b)}")
        a, b = self.unify(a, b)
        if isinstance(condition.type, Vector):
            a, b = self.splat(a), self.splat(b)
        flags = self.flags if element_of(a.type).is_float else ""
        return self.value(a.type, f"select {flags}{self.typed(condition)}, {self.typed(a)}, {self.typed(b)}")

    # Reductions

    def reduce(self, op: str, value: Value) -> Value:
        """Fold the live lanes of a vector by halves; op is "Add", "maximum" or "minimum"."""
        element = value.type.element
        if self.mask is not None:
            value = self.select(self.mask, value, self.constant(neutral(op, element), element))
        ref, width = value.ref, self.vl
        while width > 1:
            half, parts = width // 2, []
            for start in (0, half):
                places = ", ".join(f"i32 {start + j}" for j in range(half))
                whole = f"<{width} x {element.llvm}>"
                parts.append(self.named(f"shufflevector {whole} {ref}, {whole} poison, <{half} x i32> <{places}>"))
            ref, width = self._combine(op, half, element, *parts), half
        return self.value(element, f"extractelement <1 x {element.llvm}> {ref}, i32 0")

    def _combine(self, op: str, width: int, element: Scalar, a: str, b: str) -> str:
        """One step of a reduction, on vectors narrower than VL (which have no type in the language)."""
        kind = f"<{width} x {element.llvm}>"
        if op == "Add":
            return self.named(f"fadd {self.flags}{kind} {a}, {b}" if element.is_float else f"add {kind} {a}, {b}")
        order = "o" if element.is_float else ("s" if element.kind == "signed" else "u")
        compare = "fcmp" if element.is_float else "icmp"
        better = self.named(f"{compare} {order}{'gt' if op == 'maximum' else 'lt'} {kind} {b}, {a}")
        kept = self.named(f"select <{width} x i1> {better}, {kind} {b}, {kind} {a}")
        if not element.is_float:
            return kept
        missing = self.named(f"fcmp uno {kind} {b}, {b}")
        return self.named(f"select <{width} x i1> {missing}, {kind} {b}, {kind} {kept}")

    def named(self, instruction: str) -> str:
        """The name of an instruction's result, where its type is none of the language's."""
        result = self.temporary()
        self.line(f"{result} = {instruction}")
        return result


def fold(op: str, a: Literal, b: Literal) -> Literal:
    """Arithmetic between literals, done by Python."""
    try:
        return Literal(FOLD[op](a.value, b.value))
    except (ArithmeticError, TypeError, ValueError, KeyError) as error:
        raise Problem(f"{a.value!r} {SIGNS.get(op, op)} {b.value!r}: {error}") from error


def _float_text(number: Any, kind: Scalar) -> str:
    """LLVM writes a float constant as the bits of the double of the same value."""
    number = float(number)
    if kind is f32:
        try:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError as error:
            raise Problem(f"{number!r} is outside f32") from error
    elif kind is not f64:
        raise Problem("f16 is a storage type")
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def _conversion(source: Scalar, target: Scalar) -> str:
    if source.is_float and target.is_float:
        return "fpext" if target.bits > source.bits else "fptrunc"
    if source.is_float:
        return "fptosi" if target.kind == "signed" else "fptoui"
    if target.is_float:
        return "sitofp" if source.kind == "signed" else "uitofp"
    if target.bits < source.bits:
        return "trunc"
    return "sext" if source.kind == "signed" else "zext"
