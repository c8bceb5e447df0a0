"""The house's walls: a room imports only rooms with lower numbers, and `import pullback` stays light."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "pullback"
FILES = sorted(SOURCE.rglob("*.py"))

FLOORS = [
    "errors", "config", "graph", "ops", "gradient", "control", "rewrites", "codegen", "kernels", "compile", "testing",
    "data", "nn", "darknet", "interop compat distributed", "cli", "__main__",
]  # fmt: skip
NUMBER = {room: number for number, floor in enumerate(FLOORS) for room in floor.split()}
KNOWS = {"codegen": {"errors", "config"}, "kernels": {"errors", "config", "codegen"}}


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).with_suffix("").parts[0]


def imported_names(tree: ast.AST, file: Path) -> Iterator[str]:
    """Absolute dotted names of all that `tree` imports (`from a import b` gives `a.b`, be it a module or not)."""
    package = ("pullback", *file.relative_to(SOURCE).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


def run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: what is outside functions, and not for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not typing_only and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from run_at_import(node)


def every_file(files: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("file", files, ids=lambda file: str(file.relative_to(SOURCE)))


@every_file([file for file in FILES if file != SOURCE / "__init__.py"])
def test_a_room_imports_only_rooms_with_lower_numbers(file: Path) -> None:
    room = room_of(file)
    assert room in NUMBER, f"{file.name} is in no room of the house"
    for name in imported_names(ast.parse(file.read_text()), file):
        package, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if package == "pullback" and other != room:
            assert NUMBER.get(other, len(FLOORS)) < NUMBER[room], f"{room} imports {name}, which is not below it"
            assert other in KNOWS.get(room, NUMBER), f"{room} knows nothing of {other}, yet imports {name}"


def imported_at_top(file: Path) -> set[str]:
    imports = [n for n in run_at_import(ast.parse(file.read_text())) if isinstance(n, ast.Import | ast.ImportFrom)]
    return set(imported_names(ast.Module(imports, []), file))


def needs_a_slow_package(file: Path) -> bool:
    packages = {name.partition(".")[0] for name in imported_at_top(file)}
    return not packages <= {*sys.stdlib_module_names, "numpy", "pullback"}


def test_slow_packages_are_imported_by_functions_or_by_modules_that_only_functions_import() -> None:
    modules = {file: ".".join(["pullback", *file.relative_to(SOURCE).with_suffix("").parts]) for file in FILES}
    slow = [module for file, module in modules.items() if needs_a_slow_package(file)]
    for file in FILES:
        for name in imported_at_top(file):
            assert not any(f"{name}.".startswith(f"{module}.") for module in slow), f"{file} imports {name} too early"
    assert not any(module.endswith("__init__") for module in slow)


def test_importing_pullback_loads_no_slow_package() -> None:
    code = "import sys, pullback; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    slow = {"scipy", "llvmlite", "rich", "safetensors", "matplotlib", "pandas", "PIL", "mlxtend", "hypothesis", "torch"}
    assert not slow & set(loaded)


def test_the_wheel_is_pure() -> None:
    compiled = {*EXTENSION_SUFFIXES, ".so", ".pyd", ".dll", ".dylib", ".o", ".c", ".cpp", ".pyx"}
    assert not [file for file in SOURCE.rglob("*") if file.suffix in compiled]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert build["build-system"]["build-backend"] == "hatchling.build"
    assert "hooks" not in build["tool"]["hatch"].get("build", {}), "a build hook could compile"
    assert (SOURCE / "py.typed").exists()
