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
    what = "process start to first step done" if key.startswith("W9") else "build and first step"
    caches = "empty" if key.endswith("-fresh") else "warm"
    return f"{key.removesuffix('-fresh')}: {what}, {caches} compile caches"


def columns(record: Record) -> list[list[str]]:
    """The heading and one row per contender, fastest first."""
    results, base = record["results"], record["base"]
    if record["workload"] in WORKLOADS:
        rows = [["", "ms/step", f"/ {base}", "peak MB", "first step s", "losses within"]]
        for name, r in sorted(results.items(), key=lambda item: item[1].get("ms", float("inf"))):
            if "failed" in r:
                rows.append([name, r["failed"]])
            else:
                relative = ratio(r, results[base])
                figures = [f"{r['ms']:.3f}", "" if relative is None else f"{relative:.2f}"]
                memory_and_start = [f"{r['peak_memory_mb']:.0f}", f"{r['first_step_seconds']:.2f}"]
                rows.append([name, *figures, *memory_and_start, f"{r['disagreement']:.0e}"])
        return rows
    figure = "cold_start_seconds" if record["workload"].startswith("W9") else "first_step_seconds"
    headings = [part for key in results for part in (f"{find_workload(key).title}, s", "peak MB")]
    rows = [["", *headings, "import s"]]
    for name in next(iter(results.values())):
        groups = [group[name] for group in results.values()]
        failed = next((r["failed"] for r in groups if "failed" in r), None)
        if failed is not None:
            rows.append([name, failed])
        else:
            cells = [cell for r in groups for cell in (f"{r[figure]:.2f}", f"{r['peak_memory_mb']:.0f}")]
            rows.append([name, *cells, f"{groups[0]['import_seconds']:.2f}"])
    return rows


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
    rows = columns(record)
    full = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(len(row[i]) for row in full) for i in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    lines = [title(record)]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])] if row in full else row[1:]
        lines.append("  " + "  ".join(cells))
    lines += filter(None, [summary(record)])
    return "\n".join(lines) + "\n"


def markdown(results: Path) -> str:
    """All records of a folder, in order of their workloads."""
    order = [*WORKLOADS, "W9", "W9-fresh", "W10", "W10-fresh"]
    parts: list[str] = []
    for path in (results / f"{key}.json" for key in order):
        if path.exists():
            record = json.loads(path.read_text())
            heading, *rows = columns(record)
            width = len(heading)
            lines = [heading, ["---", *["---:"] * (width - 1)], *(row + [""] * (width - len(row)) for row in rows)]
            where = "{cpu}, {cores} cores, Python {python}, {date}".format(**record["machine"])
            parts += [f"## {title(record)}", "\n".join(f"| {' | '.join(line)} |" for line in lines), where]
    return "\n\n".join(parts)
