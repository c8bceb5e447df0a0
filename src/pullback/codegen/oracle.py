"""Run a kernel as plain Python: its own oracle, and its debug mode.

The kernel's source is rewritten so that each operation goes through the typed values of `oracle_values`; the lines stay
where they are, so a debugger steps through the source as it was written. Nothing is shared with the compiler but the
parser and the table of types.
"""

import ast
import copy
import functools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import KernelBoundsError, KernelError
from . import oracle_values as values
from . import target
from .intrinsics import Intrinsic
from .kernel import Kernel, KernelInstance, Parameter, default_float
from .oracle_values import Lanes, OutOfBounds, Pointer, RegisterArray, is_literal, is_vector, plain, type_of
from .oracle_words import WORDS
from .types import Pointer as PointerType
from .types import Problem, Scalar, TypeParameter, bool_, common_type, i64

FRAME = "_frame"


def run_python(kernel: Kernel, args: list[Any], bindings: dict[str, Any]) -> Any:
    """See `Kernel.python`."""
    with np.errstate(all="ignore"):
        return Machine().call(kernel, args, bindings)


class Machine:
    """What all frames of one run share."""

    def __init__(self) -> None:
        self.width = target.lanes()
        self.mask: np.ndarray | None = None
        self.clock = 0  # counts register arrays and vector loops
        self.loop_start = 0
        self.dry = False  # evaluating for the type alone: memory isn't touched

    def call(self, kernel: Kernel, args: list[Any], bindings: dict[str, Any]) -> Any:
        """Run a kernel or helper."""
        names = [p.name for p in kernel.parameters if p.name not in bindings]
        if len(args) != len(names):
            raise KernelError(
                f"kernel {kernel.name} takes {len(names)} arguments ({', '.join(names)}), not {len(args)}"
            )
        given = {**dict(zip(names, args)), **bindings}
        for p in kernel.parameters:
            if isinstance(p.type, PointerType) and isinstance(given[p.name], np.ndarray):
                given[p.name] = Pointer.to(given[p.name], p.name)
        try:
            frame = Frame(self, kernel, given)
            arguments = [frame.argument(p, given[p.name], p.name in bindings) for p in kernel.parameters]
            return frame.result(kernel.rewritten(frame, *arguments))
        except OutOfBounds as error:
            raise KernelBoundsError(f"kernel {kernel.name}{_line(kernel, error)}: {error}") from None
        except Problem as error:
            raise KernelError(f"kernel {kernel.name}{_line(kernel, error)}: {error}") from None


def _line(kernel: Kernel, error: BaseException) -> str:
    """File and line of the kernel where an error came up."""
    for entry in reversed(traceback.extract_tb(error.__traceback__)):
        if entry.filename == kernel.file and entry.name == kernel.name:
            return f", {entry.filename} line {entry.lineno}"
    return ""


class Frame:
    """One call of a kernel or helper: the types of its variables, and what each operation means."""

    def __init__(self, machine: Machine, kernel: Kernel, given: dict[str, Any]) -> None:
        self.machine = machine
        self.kernel = kernel
        self.assignments = kernel.parsed.assignments
        self.types = _inferred_types(kernel, given)
        self.values: dict[str, Any] = {}
        self.outside: frozenset[str] = frozenset()  # variables that the current vector block found
        signature = [self.concrete(p.type) for p in kernel.parameters]
        self.default_float = default_float(k.element if isinstance(k, PointerType) else k for k in signature)

    def concrete(self, kind: Any) -> Any:
        if isinstance(kind, TypeParameter):
            return self.types[kind]
        return PointerType(self.concrete(kind.element)) if isinstance(kind, PointerType) else kind

    def argument(self, parameter: Parameter, value: Any, constant: bool) -> Any:
        kind, name = self.concrete(parameter.type), parameter.name
        changes = self.assignments[name] > 1
        if isinstance(kind, PointerType):
            if not isinstance(value, Pointer) or value.element != kind.element:
                found = value.data.dtype if isinstance(value, Pointer) else type(value).__name__
                raise Problem(f"argument {name} is a {kind}, but gets {found}")
        elif isinstance(kind, Scalar) and not constant:
            value = self.declared(kind, value, self.kernel.inline and not changes)
        elif changes and is_literal(value):
            value = values.convert(value, self.literal_type(value))
        self.values[name] = value
        return value

    def declared(self, kind: Scalar, value: Any, literals_stay: bool) -> Any:
        """An argument or result in its declared type; integer and bool literals of helpers stay literals."""
        if isinstance(value, Lanes) and kind is i64:
            return value
        typed = values.coerce(value, kind)
        return value if literals_stay and is_literal(value) and not kind.is_float else typed

    def result(self, value: Any) -> Any:
        kind = self.concrete(self.kernel.returns)
        return self.declared(kind, value, self.kernel.inline) if isinstance(kind, Scalar) else value

    # Names

    def outer(self, name: str) -> Any:
        """An outer name: a number as a literal, a type parameter as its type."""
        names = self.kernel.names
        if name not in names and name not in BUILTINS:
            raise Problem(f"the name {name!r} isn't defined")
        return self.static(names.get(name, BUILTINS.get(name)))

    def static(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        return self.concrete(value) if isinstance(value, TypeParameter | PointerType) else value

    def attribute(self, container: Any, name: str) -> Any:
        return self.static(getattr(container, name))

    def bind(self, name: str, value: Any) -> Any:
        """Assign to a local variable, whose type is that of its first value."""
        if not self.assignments[name] == 1 or not (is_literal(value) or isinstance(value, Lanes | RegisterArray)):
            value = self._typed_for(name, plain(value))
        self.values[name] = value
        return value

    def _typed_for(self, name: str, value: Any) -> Any:
        if name not in self.values:
            if is_literal(value):
                value = values.convert(value, self.literal_type(value))
            return value
        old = self.values[name]
        if isinstance(old, Pointer):
            if not isinstance(value, Pointer) or value.element != old.element:
                raise Problem(f"variable {name} is a pointer to {old.element}")
            return value
        if is_vector(value) and not is_vector(old):
            raise Problem(f"variable {name} is a scalar, but gets a vector")
        if is_vector(old) and not is_vector(value) and not is_literal(value):
            raise Problem(f"variable {name} is a vector, but gets a scalar: write vec(...)")
        value = values.coerce(value, type_of(old))
        if not is_vector(old):
            return value
        value = np.broadcast_to(value, old.shape)
        mask = self.machine.mask
        return np.where(mask, value, old) if mask is not None and name in self.outside else value

    def literal_type(self, value: Any) -> Scalar:
        return bool_ if isinstance(value, bool) else i64 if isinstance(value, int) else self.default_float

    # Control

    def truth(self, test: Any) -> bool:
        if not isinstance(test, bool) and not is_literal(test):
            raise Problem("a condition is a scalar comparison")
        return bool(test)

    def loop(self, word: Any, bounds: list[Any]) -> Iterator[Any]:
        """What a for loop runs over."""
        if word is range:
            return (np.int64(i) for i in range(*map(int, bounds)))
        if word.name == "unroll":
            return iter(range(*bounds))
        low, high = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        blocks = bounds[2] if len(bounds) == 3 else 1
        return self._vector_loop(int(low), int(high), blocks * self.machine.width, word.name == "vfull")

    def _vector_loop(self, low: int, high: int, step: int, full: bool) -> Iterator[Lanes]:
        machine = self.machine
        if full and (high - low) % step:
            raise Problem(f"vfull runs over {max(high - low, 0)} elements, not a multiple of {step}")
        machine.clock += 1
        machine.loop_start = machine.clock
        outside, self.outside = self.outside, frozenset(self.values)
        for start in range(low, high, step):
            if start + step > high:
                machine.mask = np.arange(machine.width) < high - start
            yield Lanes(start, 1, machine.width)
        machine.mask, self.outside = None, outside

    def check(self, test: Any, text: str) -> None:
        if not self.truth(test):
            raise AssertionError(f"kernel {self.kernel.name}: {text}")

    # Operations

    def binary(self, op: str, a: Any, b: Any) -> Any:
        return values.arithmetic(op, a, b, self.machine.mask)

    def unary(self, op: str, a: Any) -> Any:
        if op == "Not" or (op == "Invert" and isinstance(a, bool)):
            return ~a if isinstance(a, np.ndarray) else not a
        if op == "Invert":
            return ~plain(a)
        return values.negate(a) if op == "USub" else a

    def compare(self, ops: list[str], operands: list[Any]) -> Any:
        result: Any = True
        for op, left, right in zip(ops, operands, operands[1:]):
            one = values.compare(op, left, right)
            result = one if result is True else np.logical_and(result, one)
        return bool(result) if np.ndim(result) == 0 else result

    def logical(self, is_and: bool, first: Any, rest: list[Callable[[], Any]]) -> Any:
        """`and`, `or`: a scalar decides alone where it can; a vector narrows the lanes that the right side reads."""
        result = first
        for operand in rest:
            if not is_vector(result):
                if bool(result) != is_and:
                    return bool(result)
                result = operand()
            else:
                right = self._where(result if is_and else ~result, operand)
                result = result & right if is_and else result | right
        return result

    def choose(self, test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """`yes if test else no`."""
        if is_vector(test):
            return values.choose_lanes(test, *self.pair(self._where(test, yes), self._where(~test, no)))
        chosen, other = plain((yes if test else no)()), self._dry(no if test else yes)
        if isinstance(chosen, Pointer):
            return chosen
        chosen, other = values.unify(*self.pair(chosen, other))
        return np.broadcast_to(chosen, other.shape) if is_vector(other) else chosen

    def pair(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Two literals get the type that a variable would have."""
        if is_literal(a) and is_literal(b):
            kind = self.literal_type(a + b if not isinstance(a, bool) else a)
            return values.convert(a, kind), values.convert(b, kind)
        return a, b

    def _where(self, condition: np.ndarray, part: Callable[[], Any]) -> Any:
        outer = self.machine.mask
        self.machine.mask = condition if outer is None else outer & condition
        try:
            return plain(part())
        finally:
            self.machine.mask = outer

    def _dry(self, part: Callable[[], Any]) -> Any:
        """The side of a choice that isn't taken, for its type alone."""
        outer, self.machine.dry = self.machine.dry, True
        try:
            return plain(part())
        except ZeroDivisionError:
            return 0
        finally:
            self.machine.dry = outer

    def get(self, container: Any, index: Any) -> Any:
        """container[index]."""
        if isinstance(container, list | tuple):
            return container[index]
        if self.machine.dry:
            zero = values.in_register(np.zeros((), container.data.dtype)[()])
            return np.full(self.machine.width, zero) if is_vector(index) else zero
        if not is_vector(index):
            return container.read(int(index))
        return container.read_lanes(plain(index), self._live())

    def put(self, container: Any, index: Any, value: Any) -> None:
        """container[index] = value."""
        value = plain(value)
        if isinstance(container, RegisterArray):
            self.set_register(container, index, value)
            return
        kind = container.element
        value = values.coerce(value, values.type_of(values.in_register(kind.dtype.type(0))))
        if not is_vector(index):
            if is_vector(value):
                raise Problem("a vector is stored at a scalar index: write st(p, v)")
            container.write(int(index), value)
            return
        container.write_lanes(plain(index), self._live(), np.broadcast_to(value, self.machine.width))

    def augment(self, container: Any, index: Any, op: str, value: Callable[[], Any]) -> None:
        """container[index] op= value."""
        self.put(container, index, self.binary(op, self.get(container, index), value()))

    def set_register(self, registers: RegisterArray, index: int, value: Any) -> None:
        old = registers[index]
        if not is_vector(value) and not is_literal(value):
            raise Problem("a register gets a scalar: write vec(...)")
        value = np.broadcast_to(values.coerce(value, type_of(old)), old.shape)
        mask = self.machine.mask
        inside = registers.clock > self.machine.loop_start
        registers[index] = value if mask is None or inside else np.where(mask, value, old)

    def _live(self) -> np.ndarray:
        return np.ones(self.machine.width, bool) if self.machine.mask is None else self.machine.mask

    # Calls

    def call(self, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        if isinstance(function, KernelInstance):
            keywords, function = {**function.bindings, **keywords}, function.kernel
        if isinstance(function, Kernel):
            return self.machine.call(function, args, keywords)
        if isinstance(function, Scalar):
            return values.convert(args[0], function)
        if isinstance(function, PointerType):
            return args[0].seen_as(function.element)
        if isinstance(function, Intrinsic):
            if function.libm_arguments:
                return self._libm(function.name, args)
            return WORDS[function.name](self, *args, **keywords)
        if function in (abs, min, max):
            return WORDS[function.__name__](self, *args)
        return function(*args, **keywords)  # ptr, and what dispatch gives

    def _libm(self, name: str, args: list[Any]) -> Any:
        typed = [plain(a) for a in args if not is_literal(a)]
        kind = functools.reduce(common_type, map(type_of, typed)) if typed else self.default_float
        return values.libm(name, *(values.coerce(float(a) if is_literal(a) else a, kind) for a in args))


BUILTINS = {"range": range, "abs": abs, "min": min, "max": max}


def _inferred_types(kernel: Kernel, given: dict[str, Any]) -> dict[TypeParameter, Scalar]:
    """The type parameters from bindings, pointers and numbers."""
    found = {t: given[t.name] for t in kernel.type_parameters if t.name in given}
    explicit = set(found)
    for p in kernel.parameters:
        kind = p.type.element if isinstance(p.type, PointerType) else p.type
        value = given[p.name]
        if not isinstance(kind, TypeParameter) or kind in explicit or is_literal(value):
            continue
        element = value.element if isinstance(value, Pointer) else type_of(value)
        found[kind] = common_type(found.get(kind, element), element)
    default = default_float(found.values())
    return {t: found.get(t, default) for t in kernel.type_parameters}


def rewrite(kernel: Kernel) -> Callable:
    """The kernel as a function of a frame and its arguments."""
    source = kernel.parsed
    tree = ast.increment_lineno(copy.deepcopy(source.tree), source.first_line - 1)
    tree = _Rewriter(source.assignments).visit(tree)
    tree.args = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(FRAME), *(ast.arg(p.name) for p in kernel.parameters)],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    tree.decorator_list, tree.returns = [], None
    module = ast.fix_missing_locations(ast.Module([tree], []))
    scope: dict[str, Any] = {}
    exec(compile(module, kernel.file, "exec"), scope)
    return scope[kernel.name]


def _frame_call(method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name(FRAME, ast.Load()), method, ast.Load()), list(args), [])


def _text(value: Any) -> ast.Constant:
    return ast.Constant(value)


def _list(items: list[ast.expr]) -> ast.List:
    return ast.List(items, ast.Load())


def _later(body: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, body)


class _Rewriter(ast.NodeTransformer):
    """Turns each operation of a kernel into a call of the frame's method for it."""

    def __init__(self, local_names: dict[str, int]) -> None:
        self.local_names = local_names

    def visit(self, node: ast.AST) -> Any:
        result = super().visit(node)
        if isinstance(node, ast.expr | ast.stmt):
            for new in result if isinstance(result, list) else [result]:
                if not hasattr(new, "lineno"):
                    ast.copy_location(new, node)
        return result

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return node if node.id in self.local_names else _frame_call("outer", _text(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return _frame_call("attribute", self.visit(node.value), _text(node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return _frame_call("get", self.visit(node.value), self.visit(node.slice))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return _frame_call("binary", _text(type(node.op).__name__), self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return _frame_call("unary", _text(type(node.op).__name__), self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        ops = [_text(type(op).__name__) for op in node.ops]
        return _frame_call("compare", _list(ops), _list([self.visit(e) for e in (node.left, *node.comparators)]))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        first, *rest = (self.visit(e) for e in node.values)
        return _frame_call("logical", _text(isinstance(node.op, ast.And)), first, _list([_later(e) for e in rest]))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return _frame_call(
            "choose", self.visit(node.test), _later(self.visit(node.body)), _later(self.visit(node.orelse))
        )

    def visit_Call(self, node: ast.Call) -> ast.expr:
        keywords = ast.Dict([_text(k.arg) for k in node.keywords], [self.visit(k.value) for k in node.keywords])
        return _frame_call("call", self.visit(node.func), _list([self.visit(a) for a in node.args]), keywords)

    def visit_If(self, node: ast.If) -> ast.stmt:
        return self._with_test(node)

    def visit_While(self, node: ast.While) -> ast.stmt:
        return self._with_test(node)

    def _with_test(self, node: Any) -> ast.stmt:
        node.test = _frame_call("truth", self.visit(node.test))
        node.body = self._block(node.body)
        node.orelse = self._block(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        call = node.iter
        node.iter = _frame_call("loop", self.visit(call.func), _list([self.visit(a) for a in call.args]))
        node.body = self._block(node.body)
        return node

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            result.extend(new if isinstance(new, list) else [new])
        return result

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        text = node.msg if isinstance(node.msg, ast.Constant) else _text(ast.unparse(node.test))
        return ast.Expr(_frame_call("check", self.visit(node.test), text))

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        value = ast.Name("_value", ast.Load())
        keep = ast.Assign([ast.Name("_value", ast.Store())], self.visit(node.value))
        return [keep, *(s for target in node.targets for s in self._store(target, value))]

    def _store(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Name):
            return [ast.Assign([ast.Name(target.id, ast.Store())], _frame_call("bind", _text(target.id), value))]
        if isinstance(target, ast.Tuple):
            parts = [ast.Subscript(value, _text(i), ast.Load()) for i in range(len(target.elts))]
            return [s for one, part in zip(target.elts, parts) for s in self._store(one, part)]
        return [ast.Expr(_frame_call("put", self.visit(target.value), self.visit(target.slice), value))]

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        op, value = _text(type(node.op).__name__), self.visit(node.value)
        if isinstance(node.target, ast.Name):
            old = ast.Name(node.target.id, ast.Load())
            new = _frame_call("bind", _text(node.target.id), _frame_call("binary", op, old, value))
            return ast.Assign([ast.Name(node.target.id, ast.Store())], new)
        place = node.target
        return ast.Expr(_frame_call("augment", self.visit(place.value), self.visit(place.slice), op, _later(value)))
