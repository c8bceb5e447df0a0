"""LLVM through llvmlite: IR text to object code, object code to addresses. Imported only when something is linked."""

import contextlib
import functools
import hashlib
import pathlib
import threading
from collections.abc import Iterator, Mapping

import llvmlite.binding as llvm

from . import target

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def new_machine(level: int = 1) -> llvm.TargetMachine:
    """A code generator; one a thread."""
    cpu, features = target.cpu_and_features()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small"
    )


@functools.cache
def fingerprint() -> str:
    """Hash of what object code depends on beside the kernel: this compiler's source, LLVM, the processor."""
    digest = hashlib.sha256()
    for file in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    digest.update(repr((llvm.llvm_version_info, llvm.get_default_triple(), target.cpu_and_features())).encode())
    digest.update(str(target.lanes()).encode())
    return digest.hexdigest()


def compile_ir(text: str, machine: llvm.TargetMachine) -> bytes:
    """IR text to an object file."""
    return machine.emit_object(_optimised(text, machine))


def assembly(text: str) -> str:
    """IR text to assembly, for people who look at the code."""
    machine = new_machine()
    return machine.emit_assembly(_optimised(text, machine))


def _optimised(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """The few passes that explicit vector code needs: LLVM's own -O1 takes three times as long, for the same code."""
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()  # variables from stack slots to registers
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_loop_rotate_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return module


@contextlib.contextmanager
def parallel_llvm() -> Iterator[bool]:
    """Let several threads compile at once, where this llvmlite allows it; gives whether it does.

    llvmlite holds one lock round every call, although LLVM is safe with one context a thread. The lock is a private
    attribute: if it isn't where it is expected, nothing is changed and compilation stays serial.
    """
    compile_ir("define void @first() { ret void }", new_machine())  # binds every function that compilation uses
    wrappers = _locked_functions()
    locks = [wrapper._lock for wrapper in wrappers]
    if not wrappers:
        yield False
        return
    free = contextlib.nullcontext()
    try:
        for wrapper in wrappers:
            wrapper._lock = free
        yield True
    finally:
        for wrapper, lock in zip(wrappers, locks):
            wrapper._lock = lock


def _locked_functions() -> list:
    """llvmlite's wrappers of LLVM's functions, if each holds the lock where this module knows it; else none."""
    wrappers = list(getattr(getattr(llvm.ffi, "lib", None), "_fntab", {}).values())
    return wrappers if all(hasattr(w, "_lock") for w in wrappers) else []


class Linker:
    """Loads object files into this process, for good."""

    def __init__(self) -> None:
        self._jit = llvm.create_lljit_compiler(new_machine())
        self._libraries: list = []
        self._lock = threading.Lock()

    def load(self, objects: list[bytes], imports: Mapping[str, int], exports: list[str]) -> dict[str, int]:
        """Link objects with each other and with already loaded symbols; gives the addresses of `exports`."""
        builder = llvm.JITLibraryBuilder()
        for data in objects:
            builder.add_object_img(data)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        builder.add_current_process()
        with self._lock:
            library = builder.link(self._jit, f"pullback{len(self._libraries)}")
            self._libraries.append(library)
        return {name: library[name] for name in exports}


@functools.cache
def linker() -> Linker:
    """The process's linker."""
    return Linker()
