"""The machine that kernels are compiled for: its vector instructions and its lane count."""

import functools
import os
import platform

from ..errors import ArgumentError

LANES = {"avx512": 16, "avx2": 8, "neon": 8, "plain": 4}
AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
AVX2 = {"avx2", "fma", "f16c"}


@functools.cache
def isa() -> str:
    """The instruction set in use: "avx512", "avx2", "neon" or "plain"; PULLBACK_ISA forces a narrower one."""
    forced = os.environ.get("PULLBACK_ISA")
    native = _native_isa()
    if not forced or forced == native:
        return native
    narrower = {"avx512": ("avx2", "plain"), "avx2": ("plain",), "neon": (), "plain": ()}[native]
    if forced not in narrower:
        raise ArgumentError(f"PULLBACK_ISA={forced}: this machine has {native}; expected one of {(native, *narrower)}")
    return forced


@functools.cache
def lanes() -> int:
    """VL, the elements in one vector of the language: the same for all element types."""
    return LANES[isa()]


def cpu_and_features() -> tuple[str, str]:
    """LLVM's names for what to compile for: the host itself, or a generic processor of a forced narrower set."""
    import llvmlite.binding as llvm

    if isa() == _native_isa():
        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return {"avx2": "haswell", "plain": "x86-64"}[isa()], ""


@functools.cache
def _native_isa() -> str:
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "neon"
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return "plain"
    flags = _cpu_flags()
    if flags >= AVX512 | AVX2:
        return "avx512"
    return "avx2" if flags >= AVX2 else "plain"


def _cpu_flags() -> set[str]:
    """Feature names of the first processor: from the kernel where it tells (microseconds), else from LLVM."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    import llvmlite.binding as llvm

    return {name for name, present in llvm.get_host_cpu_features().items() if present}
