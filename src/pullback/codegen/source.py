"""The parsed source of a kernel, and errors that point into it."""

import ast
import functools
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import KernelError

if TYPE_CHECKING:
    from .kernel import Kernel


@dataclass(frozen=True)
class Source:
    """A kernel's syntax tree; `first_line` is the line of the file where its text begins."""

    kernel: "Kernel"
    tree: ast.FunctionDef
    lines: list[str]
    first_line: int

    def line_of(self, node: ast.AST) -> int:
        return self.first_line + node.lineno - 1

    def where(self, node: ast.AST) -> str:
        """File, line and text of a node."""
        text = self.lines[node.lineno - 1].strip() if node.lineno <= len(self.lines) else ast.unparse(node)
        return f"  {self.kernel.file}, line {self.line_of(node)}, in {self.kernel.name}\n    {text}"

    @functools.cached_property
    def assignments(self) -> dict[str, int]:
        """How often each local name is given a value; a name given one once may be a compile-time constant."""
        counts = dict.fromkeys((p.name for p in self.kernel.parameters), 1)
        for node in ast.walk(self.tree):
            if _is_store(node):
                counts[node.id] = counts.get(node.id, 0) + 1
            if isinstance(node, ast.AugAssign | ast.For) and isinstance(node.target, ast.Name):
                counts[node.target.id] = counts.get(node.target.id, 0) + 1
        return counts

    def stored_in(self, loop: ast.For) -> frozenset[str]:
        """The names that a loop's body gives values to."""
        return self._stores[loop]

    @functools.cached_property
    def _stores(self) -> dict[ast.For, frozenset[str]]:
        loops = [node for node in ast.walk(self.tree) if isinstance(node, ast.For)]
        bodies = {loop: [n for statement in loop.body for n in ast.walk(statement)] for loop in loops}
        return {loop: frozenset(n.id for n in nodes if _is_store(n)) for loop, nodes in bodies.items()}


def _is_store(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def parse(kernel: "Kernel") -> Source:
    """The tree of a kernel, checked to be the text that its byte code was made of."""
    code = kernel.function.__code__
    tree = ast.parse(kernel.source)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == kernel.name]
    if not functions:
        raise KernelError(
            f"kernel {kernel.name}, {kernel.file} line {code.co_firstlineno}: no 'def' found in its source"
        )
    function = functions[-1]
    first_line = 1 if kernel.generated is not None else code.co_firstlineno
    source = Source(kernel, function, kernel.source.splitlines(), first_line)
    if not _made_of(function, code):
        raise KernelError(
            f"kernel {kernel.name}, {kernel.file} line {code.co_firstlineno}: the file has changed since it was "
            "imported; start Python again"
        )
    return source


def _made_of(function: ast.FunctionDef, code: types.CodeType) -> bool:
    """Whether compiling the tree gives the byte code that runs (so that the key in the cache speaks of this text).

    A test runner may have rewritten assertions, so a kernel that has some is believed.
    """
    if any(isinstance(node, ast.Assert) for node in ast.walk(function)):
        return True
    bare = ast.FunctionDef(function.name, function.args, function.body, decorator_list=[], type_params=[])
    given = [ast.arg(name) for name in code.co_freevars]
    around = ast.arguments(posonlyargs=[], args=given, kwonlyargs=[], kw_defaults=[], defaults=[])
    body = [bare] if function.name in code.co_freevars else [ast.Global([function.name]), bare]
    outer = ast.FunctionDef("outer", around, body, decorator_list=[], type_params=[])
    module = compile(ast.fix_missing_locations(ast.Module([outer], [])), "<check>", "exec")
    compiled = _code_in(_code_in(module, "outer"), function.name)
    return _contents(compiled) == _contents(code)


def _code_in(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def _contents(code: types.CodeType) -> tuple:
    constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
    return code.co_code, code.co_names, code.co_varnames, repr(constants)
