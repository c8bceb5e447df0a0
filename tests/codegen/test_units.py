"""Linking: units are found in the process, in the cache, or compiled; the cache survives whatever happens to it."""

import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from pullback.codegen import T, call, f32, f64, from_source, i64, ir, kernel, link, ptr, toolchain, units, unroll
from pullback.codegen.cache import Entry, ObjectCache, default_folder
from pullback.errors import KernelError

COUNTER = iter(range(10**9))


def fresh(body: str = "y[0] = {}", **names):
    """A kernel that no cache can know yet."""
    number = next(COUNTER) + 1000 * os.getpid() % 10**9
    return from_source(
        "fresh", f"def fresh(y: ptr(i64), lo: i64, hi: i64):\n    {body.format(number)}\n", names
    ), number


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiled(monkeypatch):
    """The IR texts that LLVM is asked to compile."""
    texts = []
    original = toolchain.compile_ir
    monkeypatch.setattr(toolchain, "compile_ir", lambda text, machine: texts.append(text) or original(text, machine))
    return texts


def forget(*kernels):
    """As in a new process: the units aren't loaded."""
    for one in kernels:
        units.forget(one)


@kernel
def inner(x: ptr(T), n: i64, M: i64):
    for i in unroll(M):
        x[i] += T(n)


@kernel
def outer(x: ptr(T), lo: i64, hi: i64):
    inner(x, hi, M=2)


def run_outer() -> list[float]:
    x = np.zeros(3)
    call(outer.specialise(T=f64), x, n=4)
    return list(x)


def test_a_linked_unit_is_not_compiled_again(folder, compiled):
    kernel, number = fresh()
    y = np.zeros(1, "i8")
    for _ in range(3):
        call(kernel, y, n=1)
    assert y[0] == number
    assert sum("@fresh_" in t for t in compiled) == 1
    assert link([kernel]) == {kernel: link([kernel.specialise()])[kernel.specialise()]}


def test_units_and_what_they_call_come_from_the_cache(folder, compiled):
    forget(outer.specialise(T=f64), inner.specialise(T=f64, M=2))
    assert run_outer() == [4, 4, 0]
    before = len(compiled)
    forget(outer.specialise(T=f64), inner.specialise(T=f64, M=2))
    assert run_outer() == [4, 4, 0]
    assert len(compiled) == before


def test_new_units_link_against_those_already_loaded(folder, compiled):
    run_outer()
    forget(outer.specialise(T=f64))
    assert run_outer() == [4, 4, 0]


def test_the_cached_files_name_what_they_call(folder):
    forget(outer.specialise(T=f64), inner.specialise(T=f64, M=2))
    run_outer()
    headers = [json.loads(f.read_bytes().split(b"\n")[0]) for f in folder.glob("*.o")]
    assert [inner.key, {"T": "f64"}, {"M": 2}] in [call for h in headers for call in h["notes"] or []]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "header", "other"])
def test_a_damaged_file_is_made_again(folder, compiled, caplog, damage):
    kernel, number = fresh()
    link([kernel])
    file = next(f for f in folder.glob("*.o") if b"fresh_" in f.read_bytes())
    whole = file.read_bytes()
    broken = {
        "truncate": whole[:-100],
        "flip": whole[:-50] + bytes([whole[-50] ^ 1]) + whole[-49:],
        "empty": b"",
        "header": b"{}\n" + whole,
        "other": b'["a list"]\n',
    }[damage]
    file.write_bytes(broken)
    forget(kernel)
    y = np.zeros(1, "i8")
    with caplog.at_level(logging.WARNING):
        call(kernel, y, n=1)
    assert y[0] == number
    assert sum("@fresh_" in t for t in compiled) == 2
    assert file.read_bytes() == whole
    assert "is damaged and will be made again" in caplog.text


def test_notes_that_no_longer_fit_mean_a_new_compilation(folder, compiled):
    kernel, number = fresh()
    link([kernel])
    file = next(f for f in folder.glob("*.o") if b"fresh_" in f.read_bytes())
    store, name = ObjectCache(folder), file.stem
    store.put(name, Entry([["no such key", {}, {}]], store.get(name).code))
    forget(kernel)
    link([kernel])
    assert sum("@fresh_" in t for t in compiled) == 2


def assert_usable_without_cache(caplog):
    (one, first), (two, second) = fresh(), fresh()
    y = np.zeros(1, "i8")
    with caplog.at_level(logging.WARNING):
        for kernel, number in ((one, first), (two, second)):
            call(kernel, y, n=1)
            assert y[0] == number
    assert caplog.text.count("can't be used") == 1


def test_a_folder_that_is_a_file_costs_only_time(folder, caplog):
    folder.write_text("in the way")
    assert_usable_without_cache(caplog)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX permissions")
def test_a_folder_that_others_may_write_to_is_not_used(folder, caplog):
    folder.mkdir()
    folder.chmod(0o777)
    assert_usable_without_cache(caplog)
    assert list(folder.iterdir()) == []


def test_a_full_disk_costs_only_time(folder, caplog, monkeypatch):
    def no_space(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", no_space)
    assert_usable_without_cache(caplog)
    assert list(folder.iterdir()) == []


def test_an_unwritable_folder_costs_only_time(folder, caplog, monkeypatch):
    folder.mkdir(mode=0o700)

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", denied)
    assert_usable_without_cache(caplog)


def test_where_the_cache_is(monkeypatch):
    home = pathlib.Path.home()
    for name in ("PULLBACK_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_folder() == home / ".cache" / "pullback"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert default_folder() == pathlib.Path("/elsewhere/pullback")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_folder() == home / "Library" / "Caches" / "pullback"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert default_folder() == pathlib.Path("/local/pullback/cache")
    monkeypatch.setenv("PULLBACK_CACHE_DIR", "/mine")
    assert default_folder() == pathlib.Path("/mine")


# Keys


def changed(text: str, before: str, after: str, **names):
    make = lambda t, **n: from_source("k", t, {**names, **n})  # noqa: E731
    return make(text).key, make(text.replace(before, after)).key


TEXT = "def k(x: ptr(T), lo: i64, hi: i64):\n    for i in vrange(lo, hi):\n        x[i] = x[i] * 2.0 + FACTOR\n"


@pytest.mark.parametrize(
    "before, after",
    [
        ("2.0", "3.0"), ("2.0", "2"), ("* 2.0", "+ 2.0"), ("vrange", "vfull"), ("ptr(T)", "ptr(f64)"),
        ("hi: i64)", "hi: i64, tid: i64)"), ("x[i] * 2.0", "min(x[i], 2.0)"), ("lo, hi)", "hi, lo)"),
    ],
)  # fmt: skip
def test_a_key_depends_on_code_constants_and_types(before, after):
    one, other = changed(TEXT, before, after, FACTOR=1.0)
    assert one != other


def test_a_key_depends_on_outer_values_helpers_and_options():
    def key(helper_body="x + 1.0", factor=1.0, **options):
        helper = from_source("helper", f"def helper(x):\n    return {helper_body}\n", inline=True)
        text = TEXT.replace("x[i] * 2.0", "helper(x[i])")
        return from_source("k", text, {"helper": helper, "FACTOR": factor}, **options).key

    assert key() == key()
    keys = {key(), key("x + 2.0"), key(factor=2.0), key(factor=1), key(factor=-0.0), key(factor=0.0)}
    keys |= {key(**{option: True}) for option in ("strict", "reassoc", "inplace")}
    assert len(keys) == 9


def test_a_key_does_not_depend_on_comments_and_lines():
    text = TEXT.replace("\n    for", "\n    # why\n\n    for")
    assert from_source("k", TEXT, {"FACTOR": 1.0}).key == from_source("k", text, {"FACTOR": 1.0}).key


def test_equal_kernels_are_one_unit(folder, compiled):
    (one, number), _ = fresh(), None
    text = f"def fresh(y: ptr(i64), lo: i64, hi: i64):\n    y[0] = {number}\n"
    other = from_source("fresh", text)
    addresses = link([one, other])
    assert addresses[one] == addresses[other]
    assert one.specialise() == other.specialise()
    assert sum("@fresh_" in t for t in compiled) == 1


# Many at once


def test_threads_link_at_once(folder):
    kernels = [fresh() for _ in range(4)]
    failures = []

    def work():
        try:
            y = np.zeros(1, "i8")
            for kernel, number in kernels:
                call(kernel, y, n=1)
                assert y[0] == number
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


PROGRAM = """
import numpy as np
from pullback.codegen import call, from_source, isa
for number in range(6):
    text = f"def made(y: ptr(f32), lo: i64, hi: i64):\\n    for i in vrange(hi):\\n        y[i] = y[i] + {number}\\n"
    y = np.arange(21, dtype="f4")
    call(from_source("made", text), y, n=21)
    assert (y == np.arange(21) + number).all()
print(isa())
"""


def start(**environment) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_processes_share_a_cache(folder):
    processes = [start() for _ in range(3)]
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert len(list(folder.glob("*.o"))) == 7  # six kernels and the launcher
    assert not list(folder.glob(".new*"))


def test_a_narrower_instruction_set_can_be_forced(folder):
    process = start(PULLBACK_ISA="plain")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out.strip() == "plain", err
    process = start(PULLBACK_ISA="avx4096")
    out, err = process.communicate(timeout=60)
    assert process.returncode != 0 and "PULLBACK_ISA=avx4096: this machine has" in err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_another_thread_compiles(folder):
    kernels = [fresh() for _ in range(12)]
    thread = threading.Thread(target=lambda: [link([k]) for k, _ in kernels[:-1]])
    thread.start()
    try:
        for _ in range(4):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                y = np.zeros(1, "i8")
                call(kernels[-1][0], y, n=1)
                os._exit(0 if y[0] == kernels[-1][1] else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        thread.join()


def test_threads_share_one_pool_and_one_linker():
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=60)
    assert done.stdout == "1\n", done.stderr


FIRST_USE = """
import threading
from pullback.codegen import launcher
start, pools = threading.Barrier(4), []
def work():
    start.wait()
    pools.append(launcher.pool())
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(set(map(id, pools))))
"""


# LLVM


def test_compilation_is_serial_where_llvmlite_has_no_lock_to_lift(folder, monkeypatch):
    monkeypatch.setattr(toolchain, "_locked_functions", list)
    with toolchain.parallel_llvm() as parallel:
        assert not parallel
    kernel, number = fresh()
    y = np.zeros(1, "i8")
    call(kernel, y, n=1)
    assert y[0] == number


def test_the_lock_of_llvmlite_is_put_back():
    wrappers = list(toolchain.llvm.ffi.lib._fntab.values())
    before = [w._lock for w in wrappers]
    with pytest.raises(KeyError), toolchain.parallel_llvm():
        raise KeyError
    assert [w._lock for w in wrappers] == before


def test_a_failing_kernel_among_many_raises_its_own_error(folder):
    good = [fresh()[0] for _ in range(3)]
    bad, _ = fresh("y[0] = {} + nothing_here")
    with pytest.raises(KernelError, match="nothing_here"):
        link([*good, bad, fresh()[0]])
    assert len(link(good)) == 3


def test_only_entry_kernels_are_linked():
    with pytest.raises(KernelError, match="inner.*isn't an entry"):
        link([inner.specialise(T=f32, M=1)])
    with pytest.raises(KernelError, match="type parameter T is open"):
        link([outer])


def test_code_assumes_nothing_about_nan_and_infinity():
    text = ir(from_source("k", TEXT, {"FACTOR": 1.0}).specialise(T=f32))
    assert "nsz contract" in text and "noalias" in text
    assert not any(word in text for word in ("nnan", "ninf", "arcp", "fast", "reassoc"))
    assert "reassoc" in ir(from_source("k", TEXT, {"FACTOR": 1.0}, reassoc=True).specialise(T=f32))
    assert "noalias" not in ir(from_source("k", TEXT, {"FACTOR": 1.0}, inplace=True).specialise(T=f32))
    assert "contract" not in ir(from_source("k", TEXT, {"FACTOR": 1.0}, strict=True).specialise(T=f32))


def test_a_warm_link_neither_parses_nor_compiles(folder, compiled, monkeypatch):
    kernel, number = fresh()
    link([kernel])
    forget(kernel)
    again = from_source("fresh", kernel.source)
    monkeypatch.setattr(type(again), "parsed", property(lambda self: pytest.fail("parsed")))
    compiled.clear()
    link([again])
    assert not compiled
