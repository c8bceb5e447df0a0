"""From the syntax tree of a kernel to the LLVM IR of one unit: statements, the function, its entry."""

import ast
from typing import Any

from . import lower_calls
from .emit import Lanes, Literal, Value, Variable, describe, is_vector
from .kernel import KernelInstance
from .lower_calls import flags_of
from .lower_expressions import ExpressionLowering, Registers
from .types import Pointer, Problem, Scalar, Vector, bool_, f16, i64


class Lowering(ExpressionLowering):
    """Writes one unit: the function of an instance and, for an entry kernel, its wrapper."""

    def unit(self) -> str:
        """The IR text of the unit."""
        scope, instance = self.scope, self.instance
        self.ir.flags = flags_of(scope.kernel)
        parameters = []
        for name, value in instance.constants.items():
            scope.fixed[name] = Literal(value)
        for p in instance.signature:
            kind = p.type
            if kind is f16:
                raise self.error(scope.source.tree, f"parameter {p.name}: f16 is a storage type; take an f32")
            noalias = " noalias" if isinstance(kind, Pointer) and not scope.kernel.inplace else ""
            parameters.append(f"{kind.llvm}{noalias} %arg.{p.name}")
            self.bind_argument(p.name, Value(kind, f"%arg.{p.name}"))
        scope.defined |= set(scope.fixed) | set(scope.variables)
        self.block(scope.source.tree.body)
        returns = scope.concrete(scope.kernel.returns)
        if not self.terminated:
            if returns is not None:
                raise self.error(scope.source.tree, f"the end can be reached without a return of {returns}")
            self.ir.line("ret void")
        head = f"define {self.ir.llvm(returns) if returns else 'void'} @{instance.symbol}({', '.join(parameters)})"
        body = [f"{head} noinline {ATTRIBUTES} {{", "entry:", *self.ir.allocas, *self.ir.lines, "}"]
        pieces = ["\n".join(sorted(self.ir.declarations)), *self.ir.definitions.values(), "\n".join(body)]
        if instance.is_entry:
            pieces.append(entry_wrapper(instance))
        return "\n\n".join(pieces) + "\n"

    def bind_argument(self, name: str, value: Any) -> None:
        """Give a parameter its value: a variable where the body assigns to it, else the value itself."""
        if self.scope.source.assignments[name] == 1:
            self.scope.fixed[name] = value
        else:
            self.store_name(name, self.ir.plain(value), self.scope.source.tree)

    # Statements

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.terminated:
                return
            method = getattr(self, "_statement_" + type(statement).__name__, None)
            with self.located(statement):
                if method is None:
                    raise Problem(f"a {type(statement).__name__} statement isn't part of the kernel language")
                method(statement)

    def _statement_Pass(self, statement: ast.Pass) -> None:
        pass

    def _statement_Expr(self, statement: ast.Expr) -> None:
        if isinstance(statement.value, ast.Constant):
            return  # a docstring
        if not isinstance(statement.value, ast.Call):
            raise Problem("an expression whose value is dropped does nothing")
        self.expression(statement.value)

    def _statement_Assert(self, statement: ast.Assert) -> None:
        """Checked here where it is constant, else only by the plain-Python run."""
        with self.ir.detached():
            test = self.expression(statement.test)
        if isinstance(test, Literal) and not test.value:
            text = statement.msg.value if isinstance(statement.msg, ast.Constant) else ast.unparse(statement.test)
            raise Problem(f"assertion failed: {text}")

    def _statement_Return(self, statement: ast.Return) -> None:
        scope = self.scope
        if scope.vector_depth:
            raise Problem("return inside a vector loop")
        value = None if statement.value is None else self.expression(statement.value)
        self.terminated = True
        if scope.kernel.inline:
            self.leave_helper(value)
            return
        kind = scope.concrete(scope.kernel.returns)
        if kind is None:
            if value is not None:
                raise Problem("the kernel returns a value, but its signature has no '-> type'")
            self.ir.line("ret void")
            return
        self.ir.line(f"ret {self.ir.typed(self.ir.coerce(value, kind, 'the result'))}")

    def leave_helper(self, value: Any) -> None:
        """A return of an inlined helper: leave the values in slots and go to its end."""
        values = value if isinstance(value, tuple) else (value,)
        scope = self.scope
        declared = scope.concrete(scope.kernel.returns)
        kinds = [declared if isinstance(declared, Scalar) else self.kind_for(v) for v in values]
        kinds = [Vector(k) if is_vector(v) and isinstance(k, Scalar) else k for k, v in zip(kinds, values)]
        if scope.results is None:
            scope.results = [(self.ir.allocate(kind), kind) for kind in kinds]
        if len(scope.results) != len(values):
            raise Problem("returns of one helper give different numbers of values")
        for (slot, kind), one in zip(scope.results, values):
            self.ir.write(slot, self.ir.coerce(one, kind, "the result"))
        self.ir.branch(scope.end)

    def _statement_Assign(self, statement: ast.Assign) -> None:
        value = self.expression(statement.value)
        for target in statement.targets:
            self.assign(target, value)

    def _statement_AugAssign(self, statement: ast.AugAssign) -> None:
        op = type(statement.op).__name__
        if isinstance(statement.target, ast.Name):
            old = self.expression(ast.copy_location(ast.Name(statement.target.id, ast.Load()), statement.target))
            self.assign(statement.target, self.ir.arithmetic(op, old, self.expression(statement.value)))
            return
        container, index = self.expression(statement.target.value), self.expression(statement.target.slice)
        old = self.element(container, index)
        self.set_element(container, index, self.ir.arithmetic(op, old, self.expression(statement.value)))

    def _statement_AnnAssign(self, statement: ast.AnnAssign) -> None:
        raise Problem("a local variable's type is that of its first value: write s = f64(0), not s: f64 = 0")

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.assign_name(target, value)
        elif isinstance(target, ast.Subscript):
            self.set_element(self.expression(target.value), self.expression(target.slice), value)
        elif isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                raise Problem(f"{len(target.elts)} names on the left, but {describe_count(value)} on the right")
            for one, part in zip(target.elts, value):
                self.assign(one, part)
        else:
            raise Problem(f"{ast.unparse(target)} can't be assigned to")

    def assign_name(self, target: ast.Name, value: Any) -> None:
        name, scope = target.id, self.scope
        if scope.source.assignments[name] == 1 and isinstance(value, Literal | Registers | Lanes):
            scope.fixed[name] = value
            scope.defined.add(name)
            return
        if name in scope.fixed:
            what = "a compile-time constant" if isinstance(scope.fixed[name], Literal) else "fixed here"
            raise Problem(f"{name} is {what} and can't be assigned to")
        value = self.ir.plain(value)
        if not isinstance(value, Literal | Value):
            raise Problem(f"{describe(value)} can't be held in a variable")
        self.store_name(name, value, target)

    def store_name(self, name: str, value: Any, node: ast.AST) -> None:
        scope = self.scope
        if name not in scope.variables:
            kind = self.kind_for(value)
            scope.variables[name] = Variable(name, kind, self.ir.allocate(kind), scope.source.line_of(node))
        self.store_variable(scope.variables[name], value)
        scope.defined.add(name)

    def _statement_If(self, statement: ast.If) -> None:
        test = self.condition(statement.test)
        if isinstance(test, Literal):
            self.block(statement.body if test.value else statement.orelse)
            return
        yes, no, end = self.ir.label(), self.ir.label(), self.ir.label()
        self.ir.branch_if(test, yes, no)
        before, outcomes = set(self.scope.defined), []
        for label, body in ((yes, statement.body), (no, statement.orelse)):
            self.ir.place(label)
            self.scope.defined = set(before)
            self.block(body)
            if not self.terminated:
                outcomes.append(self.scope.defined)
                self.ir.branch(end)
            self.terminated = False
        self.terminated = not outcomes
        self.scope.defined = set.intersection(*outcomes) if outcomes else before
        if outcomes:
            self.ir.place(end)

    def _statement_While(self, statement: ast.While) -> None:
        if statement.orelse:
            raise Problem("a loop's else isn't part of the kernel language")
        head, body, end = self.ir.label(), self.ir.label(), self.ir.label()
        self.ir.branch(head)
        self.ir.place(head)
        test = self.condition(statement.test)
        if isinstance(test, Literal):
            test = self.ir.constant(bool(test.value), bool_)
        self.ir.branch_if(test, body, end)
        self.ir.place(body)
        self.loop_body(statement.body, head, end)
        self.ir.place(end)

    def loop_body(self, body: list[ast.stmt], next_label: str, end: str) -> None:
        """A body that runs any number of times: what it defines isn't known to be defined after it."""
        before = set(self.scope.defined)
        self.scope.loops.append((next_label, end))
        self.block(body)
        self.scope.loops.pop()
        if not self.terminated:
            self.ir.branch(next_label)
        self.terminated = False
        self.scope.defined = before

    def _statement_Break(self, statement: ast.Break) -> None:
        self._jump(1)

    def _statement_Continue(self, statement: ast.Continue) -> None:
        self._jump(0)

    def _jump(self, which: int) -> None:
        if not self.scope.loops or self.scope.loops[-1] == ("", ""):
            raise Problem("break and continue work in range and while loops, not in vector or unrolled ones")
        self.ir.branch(self.scope.loops[-1][which])
        self.terminated = True

    def _statement_For(self, statement: ast.For) -> None:
        call = statement.iter
        if not isinstance(call, ast.Call) or call.keywords or not isinstance(statement.target, ast.Name):
            raise Problem("a for loop has one name and runs over range, vrange, vfull or unroll")
        if statement.orelse:
            raise Problem("a loop's else isn't part of the kernel language")
        kind = self.expression(call.func)
        word = "range" if kind is range else getattr(kind, "name", None)
        loop = {"range": self._range, "unroll": self._unroll, "vrange": self._vector_loop, "vfull": self._vector_loop}
        if word not in loop:
            raise Problem(f"a for loop runs over range, vrange, vfull or unroll, not {ast.unparse(call.func)}")
        if not 1 <= len(call.args) <= 3:
            raise Problem(f"{word} takes 1 to 3 arguments, {len(call.args)} were given")
        name = statement.target.id
        if name in self.scope.variables or name in {p.name for p in self.scope.kernel.parameters}:
            raise Problem(f"the loop index {name} is also a variable")
        if name in self.scope.source.stored_in(statement):
            raise Problem(f"the loop index {name} is assigned to in the loop")
        loop[word](statement, name, [self.expression(a) for a in call.args], word)
        self.scope.fixed.pop(name, None)
        self.scope.defined.discard(name)

    def _index(self, name: str, value: Any) -> None:
        self.scope.fixed[name] = value
        self.scope.defined.add(name)

    def _unroll(self, statement: ast.For, name: str, bounds: list[Any], word: str) -> None:
        if not all(isinstance(b, Literal) and isinstance(b.value, int) for b in bounds):
            raise Problem("the bounds of unroll must be compile-time integers")
        self.scope.loops.append(("", ""))
        for i in range(*(b.value for b in bounds)):
            self._index(name, Literal(i))
            self.block(statement.body)
        self.scope.loops.pop()

    def _range(self, statement: ast.For, name: str, bounds: list[Any], word: str) -> None:
        ir = self.ir
        step = bounds[2] if len(bounds) == 3 else Literal(1)
        if not isinstance(step, Literal) or not isinstance(step.value, int) or step.value == 0:
            raise Problem("the step of a range is a compile-time integer other than 0")
        low, high = (Literal(0), bounds[0]) if len(bounds) == 1 else bounds[:2]
        low, high = (ir.coerce(b, i64, "a bound of range") for b in (low, high))
        slot, head, body, advance, end = ir.allocate(i64), *(ir.label() for _ in range(4))
        ir.write(slot, low)
        ir.branch(head)
        ir.place(head)
        index = ir.read(slot, i64)
        ir.branch_if(ir.compare("Lt" if step.value > 0 else "Gt", index, high), body, end)
        ir.place(body)
        self._index(name, index)
        self.loop_body(statement.body, advance, end)
        ir.place(advance)
        ir.write(slot, ir.arithmetic("Add", index, step))
        ir.branch(head)
        ir.place(end)

    def _vector_loop(self, statement: ast.For, name: str, bounds: list[Any], word: str) -> None:
        """Whole blocks; then, for vrange, one block under a mask."""
        if self.in_vector_loop:
            raise Problem("a vector loop inside a vector loop")
        if len(bounds) == 3 and (word == "vrange" or not isinstance(bounds[2], Literal)):
            raise Problem("vrange takes lo and hi; vfull takes lo, hi and a compile-time number of vectors")
        ir = self.ir
        low, high = (Literal(0), bounds[0]) if len(bounds) == 1 else bounds[:2]
        low, high = (ir.coerce(b, i64, f"a bound of {word}") for b in (low, high))
        width = ir.vl * (bounds[2].value if len(bounds) == 3 else 1)
        slot, head, body, tail, masked, end = ir.allocate(i64), *(ir.label() for _ in range(5))
        ir.write(slot, low)
        ir.branch(head)
        ir.place(head)
        index = ir.read(slot, i64)
        following = ir.arithmetic("Add", index, Literal(width))
        ir.branch_if(ir.compare("LtE", following, high), body, tail if word == "vrange" else end)
        ir.place(body)
        self._vector_body(statement, name, index, None)
        ir.write(slot, following)
        ir.branch(head)
        if word == "vrange":
            ir.place(tail)
            ir.branch_if(ir.compare("Lt", index, high), masked, end)
            ir.place(masked)
            self._vector_body(statement, name, index, ir.first_lanes(ir.arithmetic("Sub", high, index)))
            ir.branch(end)
        ir.place(end)

    def _vector_body(self, statement: ast.For, name: str, index: Value, mask: Value | None) -> None:
        scope, before = self.scope, set(self.scope.defined)
        outside = {v.slot for n, v in scope.variables.items() if n in scope.defined}
        outside |= {v.slot for r in scope.fixed.values() if isinstance(r, Registers) for v in r}
        self._index(name, Lanes(index, Literal(1)))
        self.in_vector_loop, self.ir.mask, self.outside = True, mask, frozenset(outside)
        scope.vector_depth += 1
        scope.loops.append(("", ""))
        self.block(statement.body)
        scope.loops.pop()
        scope.vector_depth -= 1
        self.in_vector_loop, self.ir.mask, self.outside = False, None, frozenset()
        scope.defined = before

    def _expression_Call(self, node: ast.Call) -> Any:
        return lower_calls.call(self, node)


ATTRIBUTES = 'nounwind mustprogress "prefer-vector-width"="512" "min-legal-vector-width"="512"'


def describe_count(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, tuple) else "one value"


def entry_wrapper(instance: KernelInstance) -> str:
    """`void entry(i64 *args, i64 lo, i64 hi, i64 tid)`, which unpacks an argument block."""
    lines, given = [], []
    for i, parameter in enumerate(instance.arguments):
        kind = parameter.type
        lines.append(f"  %p{i} = getelementptr i64, ptr %args, i64 {i}")
        lines.append(f"  %a{i} = load {kind.stored if kind is bool_ else kind.llvm}, ptr %p{i}, align 8")
        if kind is bool_:
            lines.append(f"  %b{i} = icmp ne i8 %a{i}, 0")
        given.append(f"{kind.llvm} %{'b' if kind is bool_ else 'a'}{i}")
    given += [f"i64 %{p.name}" for p in instance.signature[len(instance.arguments) :]]
    return "\n".join(
        [
            f"define void @{instance.entry_symbol}(ptr %args, i64 %lo, i64 %hi, i64 %tid) nounwind {{",
            *lines,
            f"  tail call void @{instance.symbol}({', '.join(given)})",
            "  ret void",
            "}",
        ]
    )


def lower(instance: KernelInstance) -> tuple[str, dict[str, KernelInstance]]:
    """The IR of an instance, and the instances that it calls.

    Raises:
        KernelError: something in the kernel is outside the language.
    """
    lowering = Lowering(instance)
    return lowering.unit(), lowering.units
