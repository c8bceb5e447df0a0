"""The kernel language: typed Python functions compiled to vector code, their object cache, and the launcher of plans.

`docs/kernel-language.md` teaches it. The room knows nothing of graphs or networks.
"""

from typing import Any

from .arguments import ArgumentBlock, address_of, call
from .intrinsics import *
from .intrinsics import INTRINSICS
from .kernel import Kernel, KernelInstance, from_source, helper, kernel
from .launcher import Launch, get_threads, run, set_flush_denormals, set_threads
from .target import isa
from .types import BY_DTYPE, T, TypeParameter, bool_, f16, f32, f64, i8, i32, i64, ptr, u8, u32, u64
from .units import assembly, ir, link

__all__ = [
    "BY_DTYPE", "ArgumentBlock", "Kernel", "KernelInstance", "Launch", "T", "TypeParameter", "address_of",
    "assembly", "bool_", "call", "f16", "f32", "f64", "from_source", "get_threads", "helper", "i32",
    "i64", "i8", "ir", "isa", "kernel", "link", "ptr", "run", "set_flush_denormals", "set_threads", "u32", "u64", "u8",
    *INTRINSICS,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "VL":
        from .target import lanes

        return lanes()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
