"""Tables of what was measured: plain text for the terminal, Markdown for the docs."""

import datetime
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.kernels.cases import CASES
from benchmarks.runner import ISA_VARIABLES, ratio
from benchmarks.workloads import AVX2_TARGETS, WORKLOADS, find_workload

Record = dict[str, Any]
KERNEL_TABLES = ("kernels", "scaling")
OTHER_TITLES = {
    "kernels": "Single kernels beside PyTorch, forward + backward, in one process",
    "scaling": "Convolutions, forward + dX + dW, by one thread and by two: the same bits",
    "sizes": "Installed size with dependencies, and peak memory after the first step of W1",
}
SIZES = ("installed_mb", "peak_memory_mb")
LIMITS = {  # seconds that pullback may take: of the whole process, or with empty caches of the first step
    "W9": ("process s", {"W1": 0.40, "W3": 0.50}),
    "W10-fresh": ("first step s", {"W10:4": 0.60, "W10:64": 0.95}),
}


def machine() -> dict[str, Any]:
    """What the figures depend on besides the libraries."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    date = datetime.date.today().isoformat()
    return {"date": date, "cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}


def of_pullback(record: Record) -> Iterator[dict[str, Any]]:
    """pullback's own figures in a record: one, one per workload of a cold start, or one per kernel."""
    results = record["results"]
    if record["workload"] in KERNEL_TABLES:
        yield from results.values()
    elif record["workload"] in (*WORKLOADS, "sizes"):
        yield results["pullback"]
    else:
        yield from (group["pullback"] for group in results.values())


def title(record: Record) -> str:
    key = record["workload"]
    held = f", all held to {record['isa'].upper()}" if record.get("isa") else ""
    held += ", processor time of one thread" if record.get("busy") else ""
    if key in WORKLOADS:
        return f"{key}: {WORKLOADS[key].title}{held}"
    if key in OTHER_TITLES:
        peak = f"; sgemm reaches {record['sgemm_gflops']:.0f} GFLOP/s" if key in KERNEL_TABLES else ""
        return f"{OTHER_TITLES[key]}{peak}{held}"
    what = "process start to first step done" if key.startswith("W9") else "first step against depth"
    caches = "empty" if key.endswith("-fresh") else "warm"
    return f"{key.removesuffix('-fresh')}: {what}, {caches} compile caches{held}"


def rows(record: Record) -> list[list[str]]:
    """The heading and one row per contender; its reason in place of figures where it failed."""
    tables = {"kernels": kernel_rows, "scaling": scaling_rows, "sizes": size_rows} | dict.fromkeys(WORKLOADS, step_rows)
    return tables.get(record["workload"], first_step_rows)(record)


def kernel_rows(record: Record) -> list[list[str]]:
    """One row per kernel, in the order of the cases."""
    table = [["", "pullback ms", "PyTorch ms", "its fastest form", "ratio", "at most", "of peak", "results within"]]
    for case in CASES:
        r = record["results"].get(case.name)
        if r is None:
            continue
        if "failed" in r:
            table.append([case.title, r["failed"]])
            continue
        share = "" if r["share_of_peak"] is None else f"{r['share_of_peak']:.0%}"
        times = [f"{r['ms']:.3f}", f"{r['torch_ms'][r['fastest']]:.3f}", r["fastest"]]
        table.append([case.title, *times, f"{r['ratio']:.2f}", f"{case.target:.2f}", share, f"{r['disagreement']:.0e}"])
    return table


def scaling_rows(record: Record) -> list[list[str]]:
    """One row per convolution."""
    table = [["", "1 thread ms", "2 threads ms", "times faster", "at least"]]
    titles = {case.name: case.title for case in CASES}
    for name, r in record["results"].items():
        if "failed" in r:
            table.append([titles[name], r["failed"]])
        else:
            table.append([titles[name], f"{r['ms']['1']:.3f}", f"{r['ms']['2']:.3f}", f"{r['ratio']:.2f}", "1.70"])
    return table


def size_rows(record: Record) -> list[list[str]]:
    """One row per library."""
    table = [["", "installed MB", "peak MB"]]
    for name, r in record["results"].items():
        table.append([name, r["failed"]] if "failed" in r else [name, *(f"{r[k]:.0f}" for k in SIZES)])
    return table


def step_rows(record: Record) -> list[list[str]]:
    """Fastest first. The first step's time is the clock's, and tells nothing on a busy machine."""
    results, base, busy = record["results"], record["base"], record.get("busy")
    first = [] if busy else ["first step s"]
    table = [["", "ms/step", f"/ {base}", "peak MB", *first, "losses within"]]
    for name, r in sorted(results.items(), key=lambda item: item[1].get("ms", float("inf"))):
        if "failed" in r:
            table.append([name, r["failed"]])
        else:
            relative = ratio(r, results[base])
            figures = [f"{r['ms']:.3f}", "" if relative is None else f"{relative:.2f}", f"{r['peak_memory_mb']:.0f}"]
            start = [] if busy else [f"{r['first_step_seconds']:.2f}"]
            table.append([name, *figures, *start, f"{r['disagreement']:.0e}"])
    return table


def first_step_rows(record: Record) -> list[list[str]]:
    """One row per workload and contender."""
    what, limits = LIMITS.get(record["workload"], ("", {}))
    table = [["", "", "process s", "import s", "first step s", "peak MB", f"{what} at most" if what else ""]]
    for key, group in record["results"].items():
        for name, r in group.items():
            if "failed" in r:
                table.append([find_workload(key).title, name, r["failed"]])
            else:
                seconds = [f"{r[f'{what}_seconds']:.2f}" for what in ("cold_start", "import", "first_step")]
                limit = f"{limits[key]:.2f}" if name == "pullback" and key in limits else ""
                table.append([find_workload(key).title, name, *seconds, f"{r['peak_memory_mb']:.0f}", limit])
    return table


def fastest_rival(record: Record) -> str | None:
    """The contender that pullback's target speaks of; None where there are no times to compare."""
    key, results = record["workload"], {name: r for name, r in record["results"].items() if "failed" not in r}
    if key not in WORKLOADS or "pullback" not in results:
        return None
    rivals = [name for name in results if name != "pullback" and name.startswith(WORKLOADS[key].against)]
    return min(rivals, key=lambda name: results[name]["ms"], default=None)


def summary(record: Record) -> str | None:
    """One line: pullback against the fastest of the others."""
    fastest = fastest_rival(record)
    if fastest is None:
        return None
    relative = ratio(record["results"]["pullback"], record["results"][fastest])
    return f"pullback / {fastest}: {relative:.2f}, to be at most {target(record):.2f}"


def target(record: Record) -> float:
    """The share of the fastest other's time that pullback is to stay within."""
    key = record["workload"]
    own = WORKLOADS[key].target
    return AVX2_TARGETS.get(key, own) if record.get("isa") == "avx2" else own


def table(record: Record) -> str:
    """For the terminal."""
    lines = rows(record)
    names = next(i for i, cell in enumerate(lines[0]) if cell)  # leading columns that hold names
    full = [line for line in lines if len(line) == len(lines[0])]
    widths = [max(len(line[i]) for line in (lines if i < names else full)) for i in range(len(lines[0]))]
    text = [title(record)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line[:names], widths)]
        figures = line[names:]
        if line in full:
            figures = [cell.rjust(width) for cell, width in zip(figures, widths[names:])]
        text.append("  " + "  ".join([*cells, *figures]).rstrip())
    return "\n".join([*text, *filter(None, [summary(record)])]) + "\n"


def overview(records: list[Record]) -> list[list[str]]:
    """One row per workload: pullback against the fastest of the others in the same run."""
    table = [["", "pullback ms", "fastest other", "its ms", "ratio", "at most"]]
    for record in records:
        fastest = fastest_rival(record)
        if fastest is not None:
            ours, theirs = record["results"]["pullback"], record["results"][fastest]
            figures = [f"{ours['ms']:.3f}", fastest, f"{theirs['ms']:.3f}", f"{ratio(ours, theirs):.2f}"]
            table.append([title(record), *figures, f"{target(record):.2f}"])
    return table


def as_markdown(lines: list[list[str]]) -> str:
    width = len(lines[0])
    lines = [lines[0], ["---"] * width, *(line + [""] * (width - len(line)) for line in lines[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown(results: Path) -> str:
    """All records of a folder: an overview, then their tables, in order of their workloads."""
    keys = [*WORKLOADS, "W9", "W9-fresh", "W10", "W10-fresh", *OTHER_TITLES]
    suffixes = [f"{isa}{busy}" for busy in ("", "-busy") for isa in ("", *(f"-{isa}" for isa in ISA_VARIABLES))]
    names = [f"{key}{suffix}" for suffix in suffixes for key in keys]
    paths = [path for name in names if (path := results / f"{name}.json").exists()]
    records = [json.loads(path.read_text()) for path in paths]
    parts = ["## Overview", as_markdown(overview(records))]
    for record in records:
        where = "{cpu}, {cores} cores, Python {python}, {date}".format(**record["machine"])
        parts += [f"## {title(record)}", as_markdown(rows(record)), where]
    return "\n\n".join(parts)
