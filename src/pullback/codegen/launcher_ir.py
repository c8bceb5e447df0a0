"""The launcher as LLVM IR: runs a plan, and shares the chunks of a parallel record between threads.

A plan is an array of records of five int64: function, argument block, n, chunks, unused. A kernel gets
(arguments, lo, hi, tid): tid is 0 for the caller and 1, 2, ... for the workers.

A parallel record is published as a *ticket*: generation << 32 | one bit for each free chunk. A thread takes a chunk by
compare-and-swap on the ticket, so that one that is descheduled between records can't take anything stale, and one that
holds no chunk never keeps the caller waiting. Each thread looks first in its own share of the chunks: equal records
run on the same core each time and find their data in its cache.

An idle worker spins, then sleeps: on Linux in a futex on `sequence`, which each parallel record increments; elsewhere
it returns 1, and Python parks it on a condition variable until the next plan.
"""

import platform
import sys

RECORD = 5  # int64 numbers
MOST_CHUNKS = 32

EXPORTS = ("run_plan", "worker", "wake", "stop", "threads", "sleepers", "control_word")

_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98}


def has_futex() -> bool:
    """Whether workers can sleep inside native code here."""
    return sys.platform == "linux" and platform.machine() in _FUTEX_NUMBER


def launcher_ir(futex: bool) -> str:
    """The IR text; `futex` chooses how idle workers sleep."""
    machine = platform.machine().lower()
    x86 = machine in ("x86_64", "amd64")
    pause = "call void @llvm.x86.sse2.pause()" if x86 else ""
    if machine in ("arm64", "aarch64"):
        pause = 'call void asm sideeffect "yield", ""()'
    number = _FUTEX_NUMBER.get(platform.machine(), 0)
    futex_call = f"call i64 (i64, ...) @syscall(i64 {number}, ptr @sequence,"
    wait = f"%slept = {futex_call} i64 128, i32 %s, ptr null, ptr null, i32 0)"  # FUTEX_WAIT | FUTEX_PRIVATE_FLAG
    wake = f"%woken = {futex_call} i64 129, i32 1000, ptr null, ptr null, i32 0)"  # FUTEX_WAKE | FUTEX_PRIVATE_FLAG
    pieces = {
        "PAUSE": pause,
        "YIELD": "" if sys.platform == "win32" else "%yielded = call i32 @sched_yield()",
        "WAIT": _SLEEP.replace("WAIT", wait) if futex else "  ret i64 1",
        "WAKE": wake if futex else "",
        "SAVE_CONTROL": _SAVE_CONTROL if x86 else "",
        "RESTORE_CONTROL": "call void @llvm.x86.sse.ldmxcsr(ptr %saved)" if x86 else "",
        "SET_CONTROL": _SET_CONTROL if x86 else "br label %call",
        "DECLARATIONS": (_X86 if x86 else "") + ("" if sys.platform == "win32" else "declare i32 @sched_yield()\n"),
    }
    text = _TEXT
    for name, piece in pieces.items():
        text = text.replace(f"${name}", piece)
    return text + ("declare i64 @syscall(i64, ...)\n" if futex else "")


_X86 = """
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""

_SLEEP = """
  %x = atomicrmw add ptr @sleepers, i32 1 seq_cst
  WAIT
  %y = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %fresh
"""

_SAVE_CONTROL = """
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  call void @llvm.x86.sse.stmxcsr(ptr %changed)
  %now = load i32, ptr %changed
  %with = or i32 %now, %flush
  store i32 %with, ptr %changed
  call void @llvm.x86.sse.ldmxcsr(ptr %changed)
"""

_SET_CONTROL = """
  %flush = load i32, ptr @control_word
  %is_worker = icmp ne i64 %tid, 0
  %dirty = icmp ne i32 %flush, 0
  %must = and i1 %is_worker, %dirty
  br i1 %must, label %set, label %call
set:
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %now = load i32, ptr %slot
  %with = or i32 %now, %flush
  store i32 %with, ptr %slot
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  br label %call
"""

_TEXT = """
@ticket = global i64 0, align 64
@done = global i64 0, align 64
@sequence = global i32 0, align 64
@sleepers = global i32 0, align 64
@function = global ptr null, align 64
@arguments = global ptr null
@length = global i64 0
@chunks = global i64 0
@threads = global i64 1, align 64
@stop = global i32 0
@control_word = global i32 0

declare i64 @llvm.cttz.i64(i64, i1)
$DECLARATIONS

define internal i1 @take_chunk(i64 %tid) noinline nounwind {
entry:
  %slot = alloca i32
  br label %look
look:
  %ticket = load atomic i64, ptr @ticket acquire, align 8
  %free = and i64 %ticket, 4294967295
  %any = icmp ne i64 %free, 0
  br i1 %any, label %try, label %none
try:
  %hint = load atomic i64, ptr @chunks monotonic, align 8
  %all = load i64, ptr @threads
  %scaled = mul i64 %tid, %hint
  %share = udiv i64 %scaled, %all
  %start = and i64 %share, 31
  %own = lshr i64 %free, %start
  %has_own = icmp ne i64 %own, 0
  %own_first = call i64 @llvm.cttz.i64(i64 %own, i1 false)
  %own_index = add i64 %own_first, %start
  %any_index = call i64 @llvm.cttz.i64(i64 %free, i1 false)
  %i = select i1 %has_own, i64 %own_index, i64 %any_index
  %bit = shl i64 1, %i
  %rest = xor i64 %ticket, %bit
  %swap = cmpxchg ptr @ticket, i64 %ticket, i64 %rest acq_rel acquire
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %look
run:
  $SET_CONTROL
call:
  %fn = load ptr, ptr @function
  %args = load ptr, ptr @arguments
  %n = load i64, ptr @length
  %count = load atomic i64, ptr @chunks monotonic, align 8
  %before = mul i64 %n, %i
  %lo = udiv i64 %before, %count
  %after = add i64 %before, %n
  %hi = udiv i64 %after, %count
  call void %fn(ptr %args, i64 %lo, i64 %hi, i64 %tid)
  %d = atomicrmw add ptr @done, i64 1 release
  ret i1 true
none:
  ret i1 false
}

define i64 @worker(i64 %spins, i64 %tid) nounwind {
entry:
  br label %fresh
fresh:
  %s = load atomic i32, ptr @sequence acquire, align 4
  br label %look
look:
  %k = phi i64 [ 0, %fresh ], [ %k1, %idle ]
  %halt = load atomic i32, ptr @stop acquire, align 4
  %halted = icmp ne i32 %halt, 0
  br i1 %halted, label %out, label %go
out:
  ret i64 0
go:
  %took = call i1 @take_chunk(i64 %tid)
  br i1 %took, label %fresh, label %idle
idle:
  $PAUSE
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %spins
  br i1 %more, label %look, label %sleep
sleep:
$WAIT
}

define void @wake() nounwind {
  %q = atomicrmw add ptr @sequence, i32 1 seq_cst
  $WAKE
  ret void
}

define internal void @run_parallel(ptr %fn, ptr %args, i64 %n, i64 %count) nounwind {
entry:
  store ptr %fn, ptr @function
  store ptr %args, ptr @arguments
  store i64 %n, ptr @length
  store atomic i64 %count, ptr @chunks monotonic, align 8
  store atomic i64 0, ptr @done release, align 8
  %old = load atomic i64, ptr @ticket monotonic, align 8
  %generation = lshr i64 %old, 32
  %next = add i64 %generation, 1
  %high = shl i64 %next, 32
  %power = shl i64 1, %count
  %all = sub i64 %power, 1
  %new = or i64 %high, %all
  store atomic i64 %new, ptr @ticket seq_cst, align 8
  %q = atomicrmw add ptr @sequence, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %call_them, label %mine
call_them:
  $WAKE
  br label %mine
mine:
  %took = call i1 @take_chunk(i64 0)
  br i1 %took, label %mine, label %wait
wait:
  %k = phi i64 [ 0, %mine ], [ %k1, %again ]
  %d = load atomic i64, ptr @done acquire, align 8
  %finished = icmp eq i64 %d, %count
  br i1 %finished, label %out, label %spin
spin:
  $PAUSE
  %k1 = add i64 %k, 1
  %long = icmp sgt i64 %k1, 20000
  br i1 %long, label %yield, label %again
yield:
  $YIELD
  br label %again
again:
  br label %wait
out:
  ret void
}

define internal void @run_records(ptr %records, i64 %n) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %r = phi ptr [ %records, %entry ], [ %r1, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %one, label %out
one:
  %fn = load ptr, ptr %r
  %pa = getelementptr i64, ptr %r, i64 1
  %args = load ptr, ptr %pa
  %pn = getelementptr i64, ptr %r, i64 2
  %length = load i64, ptr %pn
  %pc = getelementptr i64, ptr %r, i64 3
  %count = load i64, ptr %pc
  %parallel = icmp sgt i64 %count, 1
  br i1 %parallel, label %shared, label %alone
shared:
  call void @run_parallel(ptr %fn, ptr %args, i64 %length, i64 %count)
  br label %next
alone:
  call void %fn(ptr %args, i64 0, i64 %length, i64 0)
  br label %next
next:
  %i1 = add i64 %i, 1
  %r1 = getelementptr i64, ptr %r, i64 5
  br label %head
out:
  ret void
}

define void @run_plan(ptr %records, i64 %n) nounwind {
entry:
  %saved = alloca i32
  %changed = alloca i32
  %flush = load i32, ptr @control_word
  %flushing = icmp ne i32 %flush, 0
  br i1 %flushing, label %special, label %usual
usual:
  call void @run_records(ptr %records, i64 %n)
  ret void
special:
  $SAVE_CONTROL
  call void @run_records(ptr %records, i64 %n)
  $RESTORE_CONTROL
  ret void
}
"""
