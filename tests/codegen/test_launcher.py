"""Plans and the threads that run them: each chunk once, from any thread, after a fork, at the end of the process."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from pullback.codegen import (
    ArgumentBlock,
    Launch,
    f32,
    get_threads,
    i64,
    kernel,
    launcher,
    link,
    ptr,
    run,
    set_flush_denormals,
    set_threads,
    vrange,
)
from pullback.errors import ArgumentError


@kernel
def count(x: ptr(i64), step: i64, lo: i64, hi: i64):
    for i in range(lo, hi):
        x[i] += step


@kernel
def who(x: ptr(i64), lo: i64, hi: i64, tid: i64):
    for i in range(lo, hi):
        x[i] = 1 + tid


@kernel
def slow(x: ptr(i64), rounds: i64, lo: i64, hi: i64, tid: i64):
    for i in range(lo, hi):
        for r in range(rounds):
            x[i] = x[i] * 5 % 1000003 + r
        x[i] = 1 + tid


def plan(kernel, records: list[tuple]) -> tuple[np.ndarray, list]:
    """A table of (arguments, n, chunks) records of one kernel, and what it needs alive."""
    address = link([kernel])[kernel]
    blocks = [ArgumentBlock(kernel, *arguments) for arguments, _, _ in records]
    rows = [(address, block.address, n, chunks, 0) for block, (_, n, chunks) in zip(blocks, records)]
    return np.array(rows, np.int64).reshape(-1, 5), blocks


def run_once(kernel, records: list[tuple]) -> None:
    table, keep = plan(kernel, records)
    run(table)


@pytest.fixture(params=["futex", "park"])
def pool(request, monkeypatch):
    """Both ways of waiting, with more threads than most machines of a test farm have."""
    if request.param == "futex" and not launcher.launcher_ir.has_futex():
        pytest.skip("no futex here")
    made = launcher.Pool(futex=request.param == "futex")
    made.threads = 3
    monkeypatch.setattr(launcher, "pool", lambda: made)
    yield made
    made.stop()


def test_every_chunk_runs_exactly_once(pool):
    x = np.zeros(100, np.int64)
    cases = [(100, c) for c in (1, 2, 3, 7, 31, 32)] + [(5, 32), (0, 4), (1, 2)]
    table, keep = plan(count, [((x, 1), n, chunks) for n, chunks in cases for _ in range(5)])
    launch = Launch(table)
    for _ in range(200):
        launch()
    wanted = np.zeros(100)
    for n, _ in cases:
        wanted[:n] += 5 * 200
    np.testing.assert_array_equal(x, wanted)


def test_the_bounds_of_chunks_depend_on_n_alone(pool):
    """The i-th of c chunks is [n*i // c, n*(i+1) // c), however many threads there are."""

    @kernel
    def mark(x: ptr(i64), lo: i64, hi: i64):
        for i in range(lo, hi):
            x[i] = lo

    results = []
    for threads in (1, 2, 3):
        pool.stop()
        pool.threads = threads
        x = np.zeros(37, np.int64)
        run_once(mark, [((x,), 37, 5)])
        results.append(x)
    bounds = [37 * i // 5 for i in range(6)]
    wanted = np.concatenate([np.full(hi - lo, lo) for lo, hi in zip(bounds, bounds[1:])])
    for x in results:
        np.testing.assert_array_equal(x, wanted)


def test_workers_take_part_and_have_their_own_number(pool):
    x = np.zeros(32, np.int64)
    table, keep = plan(slow, [((x, 20000), 32, 32)])
    launch = Launch(table)
    seen = set()
    for _ in range(200):
        launch()
        seen |= set(x)
        if seen == {1, 2, 3}:
            break
    assert 1 in seen and len(seen) > 1 and seen <= {1, 2, 3}


def test_serial_records_run_on_the_calling_thread(pool):
    x = np.zeros(8, np.int64)
    run_once(who, [((x,), 8, 1)])
    np.testing.assert_array_equal(x, 1)
    assert not pool.started  # and need no threads at all


@kernel
def affine(x: ptr(i64), step: i64, lo: i64, hi: i64):
    for i in range(lo, hi):
        x[i] = (x[i] * 7 + step) % 1000003


def test_records_run_in_order(pool):
    x = np.arange(64)
    y = x.copy()
    table, keep = plan(affine, [((x, r), 64, 1 + r % 4) for r in range(40)])
    for _ in range(50):
        Launch(table)()
        for r in range(40):
            y = (y * 7 + r) % 1000003
    np.testing.assert_array_equal(x, y)


def test_several_python_threads_run_plans(pool):
    arrays = [np.zeros(50, np.int64) for _ in range(4)]

    def work(x):
        table, keep = plan(count, [((x, 1), 50, 4)] * 10)
        launch = Launch(table)
        for _ in range(100):
            launch()

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x in arrays:
        np.testing.assert_array_equal(x, 1000)


def test_workers_that_sleep_wake_up(pool):
    import time

    x = np.zeros(32, np.int64)
    table, keep = plan(slow, [((x, 20000), 32, 32)])
    launch = Launch(table)
    launch()
    time.sleep(0.05)  # far longer than they spin
    workers_seen = False
    for _ in range(100):
        launch()
        workers_seen |= bool((x > 1).any())
    assert workers_seen


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_workers(pool):
    x = np.zeros(32, np.int64)
    table, keep = plan(slow, [((x, 1000), 32, 32)])
    launch = Launch(table)
    launch()
    stop = threading.Event()

    def busy():
        y = np.zeros(32, np.int64)
        other, keep = plan(count, [((y, 1), 32, 8)])
        again = Launch(other)
        while not stop.is_set():
            again()

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                with contextlib.suppress(BaseException):
                    signal.alarm(20)
                    x[:] = 0
                    for _ in range(50):
                        launch()
                    os._exit(0 if (x > 0).all() else 3)
                os._exit(4)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()
    launch()
    assert (x > 0).all()


def test_the_number_of_threads(monkeypatch):
    before = get_threads()
    try:
        for threads in (1, 4, 2):
            set_threads(threads)
            assert get_threads() == threads
            x = np.zeros(32, np.int64)
            run_once(who, [((x,), 32, 32)])
            assert set(x) <= set(range(1, threads + 1))
        for wrong in (0, 257, 1.5, "two"):
            with pytest.raises(ArgumentError, match="an integer from 1 to 256"):
                set_threads(wrong)
    finally:
        set_threads(before)
    monkeypatch.setenv("PULLBACK_THREADS", "7")
    assert launcher.default_threads() == 7
    monkeypatch.setenv("PULLBACK_THREADS", "many")
    with pytest.raises(ArgumentError, match="not 'many'"):
        launcher.default_threads()
    monkeypatch.delenv("PULLBACK_THREADS")
    assert 1 <= launcher.default_threads() <= (os.cpu_count() or 1)


def test_tables_are_checked():
    good, keep = plan(count, [((np.zeros(3, np.int64), 1), 3, 2)])
    for table, message in [
        (good.astype(np.int32), r"int32 \(1, 5\)"),
        (good[:, :4], r"int64 \(1, 4\)"),
        (good[0], r"int64 \(5,\)"),
        ([[1, 2, 3, 4, 5]], "not list"),
        (np.concatenate([good, good])[::-1], "contiguous"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            Launch(table)
    for chunks in (0, 33):
        bad = good.copy()
        bad[0, 3] = chunks
        with pytest.raises(ArgumentError, match="1 to 32 chunks"):
            Launch(bad)
    with pytest.raises(ArgumentError, match="2 records to run of a plan of 1"):
        Launch(good, 2)
    Launch(good, 0)()
    Launch(good[:0])()


def test_arguments_and_lengths_may_change_between_runs():
    x = np.zeros(6, np.int64)
    table, (block,) = plan(count, [((x, 1), 6, 2)])
    launch = Launch(table)
    launch()
    block.set("step", 10)
    table[0, 2] = 3
    launch()
    np.testing.assert_array_equal(x, [11, 11, 11, 1, 1, 1])


@kernel
def halve(x: ptr(f32), lo: i64, hi: i64):
    for i in vrange(lo, hi):
        x[i] *= 0.5


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="an x86 control word")
def test_denormals_are_kept_unless_asked_otherwise():
    tiny = np.float32(1.2e-38)  # the least normal number is 1.175e-38
    for flush, wanted in ((False, tiny / 2), (True, 0), (False, tiny / 2)):
        set_flush_denormals(flush)
        try:
            x = np.full(64, tiny)
            run_once(halve, [((x,), 64, 8)])
            np.testing.assert_array_equal(x, wanted)
            assert np.float32(1e-40) * np.float32(0.5) > 0  # the caller's own arithmetic is untouched
        finally:
            set_flush_denormals(False)


PROGRAM = """
import sys, time, numpy as np
from pullback.codegen import ArgumentBlock, Launch, from_source, link, set_threads
text = "def k(x: ptr(i64), lo: i64, hi: i64):\\n    for i in range(lo, hi):\\n        x[i] += 1\\n"
k = from_source("k", text)
x = np.zeros(64, np.int64)
block = ArgumentBlock(k, x)
launch = Launch(np.array([[link([k])[k], block.address, 64, 8, 0]] * 100, np.int64))
set_threads(4)
launch()
if sys.argv[1] == "interrupt":
    try:
        print("ready", flush=True)
        while True:
            launch()
    except KeyboardInterrupt:
        assert (x == x[0]).all() and x[0] % 100 == 0
        print("interrupted", flush=True)
if sys.argv[1] == "thread":
    import threading
    threading.Thread(target=lambda: [launch() for _ in range(10**9)], daemon=True).start()
    time.sleep(0.05)
"""


@pytest.mark.parametrize("how", ["plain", "thread"])
def test_the_interpreter_ends_at_once(how):
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], timeout=30, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_control_c_between_plans():
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, "interrupt"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert out == "interrupted\n" and process.returncode == 0
