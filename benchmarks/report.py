"""Tables of what was measured: plain text for the terminal, Markdown for the docs."""

import datetime
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.runner import ratio
from benchmarks.workloads import WORKLOADS, find_workload

Record = dict[str, Any]


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
    """pullback's own figures in a record: one, or one per workload of a cold start."""
    results = record["results"]
    for group in [results] if record["workload"] in WORKLOADS else results.values():
        yield group["pullback"]


def title(record: Record) -> str:
    key = record["workload"]
    if key in WORKLOADS:
        return f"{key}: {WORKLOADS[key].title}"
    what = "process start to first step done" if key.startswith("W9") else "first step against depth"
    caches = "empty" if key.endswith("-fresh") else "warm"
    return f"{key.removesuffix('-fresh')}: {what}, {caches} compile caches"


def rows(record: Record) -> list[list[str]]:
    """The heading and one row per contender; its reason in place of figures where it failed."""
    return step_rows(record) if record["workload"] in WORKLOADS else first_step_rows(record)


def step_rows(record: Record) -> list[list[str]]:
    """Fastest first."""
    results, base = record["results"], record["base"]
    table = [["", "ms/step", f"/ {base}", "peak MB", "first step s", "losses within"]]
    for name, r in sorted(results.items(), key=lambda item: item[1].get("ms", float("inf"))):
        if "failed" in r:
            table.append([name, r["failed"]])
        else:
            relative = ratio(r, results[base])
            figures = [f"{r['ms']:.3f}", "" if relative is None else f"{relative:.2f}"]
            memory_and_start = [f"{r['peak_memory_mb']:.0f}", f"{r['first_step_seconds']:.2f}"]
            table.append([name, *figures, *memory_and_start, f"{r['disagreement']:.0e}"])
    return table


def first_step_rows(record: Record) -> list[list[str]]:
    """One row per workload and contender."""
    table = [["", "", "process s", "import s", "first step s", "peak MB"]]
    for key, group in record["results"].items():
        for name, r in group.items():
            if "failed" in r:
                table.append([find_workload(key).title, name, r["failed"]])
            else:
                seconds = [f"{r[f'{what}_seconds']:.2f}" for what in ("cold_start", "import", "first_step")]
                table.append([find_workload(key).title, name, *seconds, f"{r['peak_memory_mb']:.0f}"])
    return table


def summary(record: Record) -> str | None:
    """One line: pullback against the fastest of the others."""
    results = {name: r for name, r in record["results"].items() if "failed" not in r}
    others = [name for name in results if name != "pullback"]
    if record["workload"] not in WORKLOADS or "pullback" not in results or not others:
        return None
    fastest = min(others, key=lambda name: results[name]["ms"])
    return f"pullback / {fastest}: {ratio(results['pullback'], results[fastest]):.2f}"


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


def markdown(results: Path) -> str:
    """All records of a folder, in order of their workloads."""
    parts: list[str] = []
    for path in (results / f"{key}.json" for key in (*WORKLOADS, "W9", "W9-fresh", "W10", "W10-fresh")):
        if path.exists():
            record = json.loads(path.read_text())
            heading, *body = rows(record)
            width = len(heading)
            lines = [heading, ["---"] * width, *(line + [""] * (width - len(line)) for line in body)]
            where = "{cpu}, {cores} cores, Python {python}, {date}".format(**record["machine"])
            parts += [f"## {title(record)}", "\n".join(f"| {' | '.join(line)} |" for line in lines), where]
    return "\n\n".join(parts)
