"""From instances to addresses: find each unit in this process, then in the cache, else compile it; link what is new."""

import functools
import hashlib
import os
import pathlib
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import KernelError
from . import cache
from .kernel import Kernel, KernelInstance, as_instance
from .types import SCALARS


@dataclass
class Unit:
    """Object code of one instance, and the symbols it calls."""

    instance: KernelInstance
    code: bytes = b""
    calls: list[str] = field(default_factory=list)


class Store:
    """All units of this process by symbol; `addresses` holds those that are linked."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.addresses: dict[str, int] = {}

    def link(self, instances: list[KernelInstance]) -> dict[str, int]:
        """Make sure that the instances and all they call are loaded; gives the addresses by symbol."""
        wanted = [i for i in instances if i.symbol not in self.addresses]
        if wanted:
            with self.lock:
                self._load(_collect(wanted, self.addresses))
        return self.addresses

    def _load(self, units: dict[str, Unit]) -> None:
        from .toolchain import linker

        units = {symbol: unit for symbol, unit in units.items() if symbol not in self.addresses}
        if not units:
            return
        called = {symbol for unit in units.values() for symbol in unit.calls}
        exports = list(units) + [u.instance.entry_symbol for u in units.values() if u.instance.is_entry]
        imports = {symbol: self.addresses[symbol] for symbol in called if symbol in self.addresses}
        self.addresses |= linker().load([u.code for u in units.values()], imports, exports)


_store = Store()
if hasattr(os, "register_at_fork"):  # a child must not inherit a lock that a thread of its parent holds
    os.register_at_fork(
        before=_store.lock.acquire, after_in_parent=_store.lock.release, after_in_child=_store.lock.release
    )


def link(kernels: Iterable[Kernel | KernelInstance]) -> dict[Any, int]:
    """Addresses of the entry functions `void entry(int64 *args, int64 lo, int64 hi, int64 tid)` of entry kernels.

    Units are shared by all that use them: each is compiled once on a machine, and loaded once in a process.

    Raises:
        KernelError: a kernel is outside the language, or has no `lo: i64, hi: i64[, tid: i64]` at its end.
    """
    kernels = list(kernels)
    instances = [as_instance(k) for k in kernels]
    for instance in instances:
        if not instance.is_entry:
            raise KernelError(f"kernel {instance.name} isn't an entry: its last parameters aren't lo: i64, hi: i64")
    addresses = _store.link(instances)
    return {k: addresses[i.entry_symbol] for k, i in zip(kernels, instances)}


def load_ir(name: str, text: str, exports: Iterable[str]) -> dict[str, int]:
    """Load hand-written IR through the same cache; gives the addresses of `exports`."""
    from .toolchain import compile_ir, linker, new_machine

    with _store.lock:
        file = _file_name(f"{name} {hashlib.sha256(text.encode()).hexdigest()}")
        entry = object_cache().get(file)
        if entry is None:
            entry = cache.Entry(None, compile_ir(text, new_machine()))
            object_cache().put(file, entry)
        return linker().load([entry.code], {}, list(exports))


def forget(kernel: Kernel | KernelInstance) -> None:
    """Link the unit anew when it is next needed (its old code stays loaded, for those who hold its address)."""
    instance = as_instance(kernel)
    with _store.lock:
        _store.addresses.pop(instance.symbol, None)
        _store.addresses.pop(instance.entry_symbol, None)


def _collect(instances: list[KernelInstance], loaded: dict[str, int]) -> dict[str, Unit]:
    """The units of instances and of all that they call, found in the cache or compiled on all cores."""
    found: dict[str, Unit] = {}
    missing: list[KernelInstance] = []
    first = {i.symbol: i for i in instances}
    seen, todo = set(first), deque(first.values())
    while todo:
        instance = todo.popleft()
        entry = object_cache().get(_file_name(instance.key))
        called = None if entry is None else _resolved(entry.notes, instance)
        if called is None:
            missing.append(instance)
            continue
        found[instance.symbol] = Unit(instance, entry.code, [c.symbol for c in called])
        for one in called:
            if one.symbol not in seen and one.symbol not in loaded:
                seen.add(one.symbol)
                todo.append(one)
    return found | _compile_all(missing, seen, loaded) if missing else found


def _compile_all(missing: list[KernelInstance], seen: set[str], loaded: dict[str, int]) -> dict[str, Unit]:
    """Compile units, and those that turn out to be called, on all cores."""
    from .toolchain import new_machine, parallel_llvm

    units: dict[str, Unit] = {}
    todo, errors, active = deque(missing), [], 0
    changed = threading.Condition()

    def work() -> None:
        nonlocal active
        machine = new_machine()
        while True:
            with changed:
                while not todo and active and not errors:
                    changed.wait()
                if errors or not todo:
                    return
                instance = todo.popleft()
                active += 1
            try:
                unit, called = _make(instance, machine)
            except BaseException as error:
                with changed:
                    errors.append(error)
                    active -= 1
                    changed.notify_all()
                return
            with changed:
                active -= 1
                if unit is not None:
                    units[instance.symbol] = unit
                for one in called:
                    if one.symbol not in seen and one.symbol not in loaded:
                        seen.add(one.symbol)
                        todo.append(one)
                changed.notify_all()

    with parallel_llvm() as parallel:
        threads = [threading.Thread(target=work, daemon=True) for _ in range(_cores() - 1 if parallel else 0)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return units


def _make(instance: KernelInstance, machine: Any) -> tuple[Unit, list[KernelInstance]]:
    """One unit from the cache, or compiled and put there."""
    entry = object_cache().get(_file_name(instance.key))
    called = None if entry is None else _resolved(entry.notes, instance)
    if called is None:
        from .lower import lower
        from .toolchain import compile_ir

        text, units = lower(instance)
        called = list(units.values())
        entry = cache.Entry([_noted(c) for c in called], compile_ir(text, machine))
        object_cache().put(_file_name(instance.key), entry)
    return Unit(instance, entry.code, [c.symbol for c in called]), called


def _noted(instance: KernelInstance) -> list:
    """What is stored of a called instance: the kernel's key and the bindings."""
    types = {t.name: s.name for t, s in instance.types.items()}
    return [instance.kernel.key, types, instance.constants]


def _resolved(notes: Any, caller: KernelInstance) -> list[KernelInstance] | None:
    """The called instances from what was stored; None if they can't be found."""
    try:
        return [
            caller.kernel.callees[key].specialise(**{name: SCALARS[s] for name, s in types.items()}, **constants)
            for key, types, constants in notes
        ]
    except (KeyError, TypeError, ValueError):
        return None


def _file_name(key: str) -> str:
    from .toolchain import fingerprint

    return hashlib.sha256(f"{fingerprint()} {key}".encode()).hexdigest()[:40]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def object_cache() -> cache.ObjectCache:
    """The cache in use."""
    return _cache_of(cache.default_folder())


@functools.cache
def _cache_of(folder: pathlib.Path) -> cache.ObjectCache:
    return cache.ObjectCache(folder)


def ir(kernel: Kernel | KernelInstance) -> str:
    """The LLVM IR of one unit, for people who look at the code."""
    from .lower import lower

    return lower(as_instance(kernel))[0]


def assembly(kernel: Kernel | KernelInstance) -> str:
    """The machine code of one unit as text, for people who look at the code."""
    from . import toolchain

    return toolchain.assembly(ir(kernel))
