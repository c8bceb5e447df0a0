"""From expressions in a kernel's syntax tree to LLVM IR: names, arithmetic, choices, memory accesses."""

import ast
import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import KernelError
from .emit import FOLD, Lanes, Literal, Value, Variable, describe, fold, is_vector
from .emit_memory import MemoryEmitter
from .intrinsics import Intrinsic
from .kernel import Kernel, KernelInstance, default_float
from .types import Pointer, Problem, Scalar, TypeParameter, Vector, bool_, element_of, i64, ptr

BUILTINS = {"range": range, "abs": abs, "min": min, "max": max}


class Registers(tuple):
    """The variables of a register array."""


class Scope:
    """The names of one kernel body, or of one helper while it is written into its caller."""

    def __init__(self, kernel: Kernel, bound_types: dict[TypeParameter, Scalar]) -> None:
        self.kernel = kernel
        self.source = kernel.parsed
        self.types = bound_types
        self.names = kernel.names
        self.fixed: dict[str, Any] = {}  # compile-time constants, register arrays, loop indices, read-only arguments
        self.variables: dict[str, Variable] = {}
        self.defined: set[str] = set()
        self.loops: list[tuple[str, str]] = []  # (label of continue, label of break) of the run-time loops
        self.results: list[tuple[str, Any]] | None = None  # slots of an inlined helper with several returns
        self.end: str | None = None
        self.vector_depth = 0  # of the loops in this scope
        signature = [self.concrete(p.type) for p in kernel.parameters]
        self.default_float = default_float(k.element if isinstance(k, Pointer) else k for k in signature)

    def concrete(self, kind: Any) -> Any:
        """A type with its type parameters replaced."""
        if isinstance(kind, TypeParameter):
            if kind not in self.types:
                raise Problem(f"type parameter {kind} isn't one of this kernel")
            return self.types[kind]
        if isinstance(kind, Pointer):
            return Pointer(self.concrete(kind.element))
        return kind


class ExpressionLowering:
    """Gives the expressions of one unit their values; `Lowering` adds the statements."""

    def __init__(self, instance: KernelInstance) -> None:
        self.instance = instance
        self.ir = MemoryEmitter()
        self.scope = Scope(instance.kernel, instance.types)
        self.callers: list[tuple[Scope, ast.AST]] = []
        self.units: dict[str, KernelInstance] = {}
        self.terminated = False
        self.in_vector_loop = False
        self.outside: frozenset[str] = frozenset()  # slots of the variables that a masked block may not change in full

    # Errors

    def error(self, node: ast.AST, message: str) -> KernelError:
        """An error at a node, with the chain of inlined helpers that led there."""
        places = [self.scope.source.where(node)]
        places += [scope.source.where(call) for scope, call in reversed(self.callers)]
        return KernelError("\n".join([f"kernel {self.instance.name}: {message}", *places]))

    @contextlib.contextmanager
    def located(self, node: ast.AST) -> Iterator[None]:
        try:
            yield
        except Problem as problem:
            raise self.error(node, str(problem)) from None

    # Variables

    def store_variable(self, variable: Variable, value: Any) -> None:
        """Assign; in the masked block of a vector loop only the live lanes of an outer vector change."""
        where = f"variable {variable.name} (made on line {variable.line})" if variable.line else variable.name
        value = self.ir.coerce(value, variable.type, where)
        if self.ir.mask is not None and variable.slot in self.outside and isinstance(variable.type, Vector):
            value = self.ir.select(self.ir.mask, value, self.ir.read(variable.slot, variable.type))
        self.ir.write(variable.slot, value)

    def kind_for(self, value: Any) -> Any:
        """The type of a variable that is first given this value."""
        if isinstance(value, Literal):
            number = value.value
            return bool_ if isinstance(number, bool) else i64 if isinstance(number, int) else self.scope.default_float
        if isinstance(value, Lanes):
            return Vector(i64)
        if not isinstance(value, Value):
            raise Problem(f"{describe(value)} isn't a value")
        return value.type

    # Expressions

    def expression(self, node: ast.expr) -> Any:
        """The value of an expression: a Value, Literal, Lanes, a tuple of these, or something known at compile time."""
        method = getattr(self, "_expression_" + type(node).__name__, None)
        try:
            if method is None:
                raise Problem(f"a {type(node).__name__} expression isn't part of the kernel language")
            return method(node)
        except Problem as problem:
            raise self.error(node, str(problem)) from None

    def condition(self, node: ast.expr) -> Any:
        """A scalar bool, or a literal, for `if` and `while`."""
        test = self.expression(node)
        with self.located(node):
            if is_vector(test):
                raise Problem("a vector has no single truth: write `a if condition else b`, vany(...) or vall(...)")
            return self.truth(test)

    def truth(self, test: Any) -> Any:
        """The test of a choice: a literal, a bool or a vector of bools."""
        test = self.ir.plain(test)
        if not isinstance(test, Literal) and (not isinstance(test, Value) or element_of(test.type) is not bool_):
            raise Problem(f"a condition is a comparison, not {describe(test)}")
        return test

    def _expression_Constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, bool | int | float):
            raise Problem(f"{node.value!r} isn't part of the kernel language")
        return Literal(node.value)

    def _expression_Name(self, node: ast.Name) -> Any:
        name, scope = node.id, self.scope
        if name in scope.source.assignments:
            if name not in scope.defined:
                raise Problem(f"{name} may be unset here: give it a value on every path that leads to this line")
            if name in scope.fixed:
                return scope.fixed[name]
            variable = scope.variables[name]
            return self.ir.read(variable.slot, variable.type)
        if name not in scope.names and name not in BUILTINS:
            raise Problem(f"the name {name!r} isn't defined")
        return self.static(scope.names.get(name, BUILTINS.get(name)), name)

    def static(self, value: Any, name: str) -> Any:
        """An outer Python object as the compiler sees it."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool | int | float):
            return Literal(value)
        if isinstance(value, TypeParameter | Pointer):
            return self.scope.concrete(value)
        if isinstance(value, tuple):
            return tuple(self.static(v, name) for v in value)
        known = isinstance(value, Scalar | Kernel | KernelInstance | Intrinsic | types.ModuleType)
        if known or value is ptr or any(value is b for b in BUILTINS.values()):
            return value
        raise Problem(f"{name} is a {type(value).__name__}: kernels can use numbers, tuples of them, types and kernels")

    def _expression_Attribute(self, node: ast.Attribute) -> Any:
        container = self.expression(node.value)
        if not isinstance(container, types.ModuleType) or not hasattr(container, node.attr):
            raise Problem(f"{ast.unparse(node)} isn't known: only a module has attributes here")
        return self.static(getattr(container, node.attr), ast.unparse(node))

    def _expression_Tuple(self, node: ast.Tuple) -> tuple:
        return tuple(self.expression(e) for e in node.elts)

    def _expression_Subscript(self, node: ast.Subscript) -> Any:
        return self.element(self.expression(node.value), self.expression(node.slice))

    def element(self, container: Any, index: Any) -> Any:
        """container[index] for pointers, register arrays and constant tuples."""
        if isinstance(container, tuple):
            item = container[self._constant_index(container, index)]
            return self.ir.read(item.slot, item.type) if isinstance(item, Variable) else item
        return self.ir.load(container, index)

    def set_element(self, container: Any, index: Any, value: Any) -> None:
        if isinstance(container, Registers):
            variable = container[self._constant_index(container, index)]
            self.store_variable(variable, value)
            return
        self.ir.store(container, index, value)

    def _constant_index(self, container: tuple, index: Any) -> int:
        what = "a register array" if isinstance(container, Registers) else "a tuple"
        if not isinstance(index, Literal) or not isinstance(index.value, int):
            raise Problem(f"an index into {what} must be a compile-time integer")
        if not 0 <= index.value < len(container):
            raise Problem(f"index {index.value} is outside {what} of {len(container)}")
        return index.value

    def _expression_BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.expression(node.left), self.expression(node.right)
        op = type(node.op).__name__
        if op not in FOLD:
            raise Problem(f"{op} isn't part of the kernel language")
        return self.ir.arithmetic(op, left, right)

    def _expression_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            return self.ir.invert(value)
        if isinstance(node.op, ast.USub):
            return self.ir.negate(value)
        if isinstance(node.op, ast.Invert):
            return self.ir.complement(value)
        return value

    def _expression_Compare(self, node: ast.Compare) -> Any:
        operands = [self.expression(e) for e in (node.left, *node.comparators)]
        result: Any = Literal(True)
        for op, left, right in zip(node.ops, operands, operands[1:]):
            name = type(op).__name__
            if isinstance(left, Scalar) and isinstance(right, Scalar):
                name = {"Eq": "Is", "NotEq": "IsNot"}.get(name, name)
                one = fold(name, Literal(left), Literal(right))
            else:
                one = self.ir.compare(name, left, right)
            result = self.both(result, one)
        return result

    def both(self, a: Any, b: Any) -> Any:
        """`a and b` of two conditions that are already known."""
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Literal):
                return other if one.value else Literal(False)
        return self.ir.arithmetic("BitAnd", a, b)

    def _expression_BoolOp(self, node: ast.BoolOp) -> Any:
        """Short-circuit for scalars; for vectors the right side reads only the lanes that still matter."""
        is_and = isinstance(node.op, ast.And)
        result = self.truth(self.expression(node.values[0]))
        for operand in node.values[1:]:
            if isinstance(result, Literal):
                if bool(result.value) != is_and:
                    return result
                result = self.truth(self.expression(operand))
            elif is_vector(result):
                with self.lanes_where(result if is_and else self.ir.invert(result)):
                    right = self.expression(operand)
                result = self.ir.arithmetic("BitAnd" if is_and else "BitOr", result, right)
            elif is_cheap(operand):
                result = self.ir.arithmetic("BitAnd" if is_and else "BitOr", result, self.expression(operand))
            else:
                short = self.ir.constant(not is_and, bool_)
                branches = [lambda o=operand: self.expression(o), lambda s=short: s]
                result = self.branching(result, *(branches if is_and else branches[::-1]))
        return result

    def _expression_IfExp(self, node: ast.IfExp) -> Any:
        test = self.truth(self.expression(node.test))
        if isinstance(test, Literal):
            return self.expression(node.body if test.value else node.orelse)
        if not is_vector(test):
            if is_cheap(node.body) and is_cheap(node.orelse):
                return self.ir.select(test, *self.typed_pair(self.expression(node.body), self.expression(node.orelse)))
            return self.branching(test, lambda: self.expression(node.body), lambda: self.expression(node.orelse))
        with self.lanes_where(test):
            yes = self.expression(node.body)
        with self.lanes_where(self.ir.invert(test)):
            no = self.expression(node.orelse)
        return self.ir.select(test, *self.typed_pair(yes, no))

    def typed_pair(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Two literals get the type that a variable would have."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            kind = self.scope.default_float if isinstance(a.value + b.value, float) else self.kind_for(a)
            return self.ir.constant(a.value, kind), self.ir.constant(b.value, kind)
        return a, b

    @contextlib.contextmanager
    def lanes_where(self, condition: Value) -> Iterator[None]:
        """Narrow the mask to the lanes where a condition holds."""
        outer = self.ir.mask
        self.ir.mask = condition if outer is None else self.ir.arithmetic("BitAnd", outer, condition)
        try:
            yield
        finally:
            self.ir.mask = outer

    def branching(self, test: Value, yes: Callable[[], Any], no: Callable[[], Any]) -> Value:
        """A scalar choice that evaluates one side only."""
        ir = self.ir
        with ir.detached() as yes_lines:
            yes_value = ir.plain(yes())
        with ir.detached() as no_lines:
            no_value = ir.plain(no())
        yes_value, no_value = self.typed_pair(yes_value, no_value)
        kind = self._common_kind(yes_value, no_value)
        slot, labels, end = ir.allocate(kind), (ir.label(), ir.label()), ir.label()
        ir.branch_if(test, *labels)
        for label, lines, value in ((labels[0], yes_lines, yes_value), (labels[1], no_lines, no_value)):
            ir.place(label)
            ir.lines.extend(lines)
            ir.write(slot, ir.coerce(value, kind, "the value of a conditional expression", fill=True))
            ir.branch(end)
        ir.place(end)
        return ir.read(slot, kind)

    def _common_kind(self, a: Any, b: Any) -> Any:
        if isinstance(a, Value) and isinstance(b, Value) and a.type == b.type:
            return a.type
        with self.ir.detached():
            return self.ir.unify(a, b)[0].type


def is_cheap(node: ast.expr) -> bool:
    """Whether evaluating needlessly is harmless: no memory access, call or division."""
    costly = ast.Subscript | ast.Call | ast.FloorDiv | ast.Mod | ast.IfExp | ast.BoolOp
    return not any(isinstance(n, costly) for n in ast.walk(node))
