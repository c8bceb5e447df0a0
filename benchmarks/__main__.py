"""`python -m benchmarks mlp lenet`: the same network in pullback and in other libraries, alternately in one run."""

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from benchmarks import report
from benchmarks.contenders import PEERS, Contender, select
from benchmarks.runner import (
    BUSY_VARIABLES,
    ISA_VARIABLES,
    RESULTS,
    cold_starts,
    compare,
    installed_sizes,
    single_kernels,
)
from benchmarks.workloads import COLD_START, DEPTHS, WORKLOADS

FIRST_STEPS = {"cold": ("W9", COLD_START), "depth": ("W10", list(DEPTHS))}
OTHER_TABLES = ("kernels", "scaling", "sizes")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    names = ", ".join(dict.fromkeys(work.name for work in WORKLOADS.values()))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Times the same work in several libraries: float32, 2 threads, one process each, in turn.",
        epilog=f"workloads: {names}, cold, depth, {', '.join(OTHER_TABLES)}, all; or {', '.join(WORKLOADS)}, W9, W10",
    )
    parser.add_argument("workloads", nargs="*", default=["mlp", "lenet"], metavar="WORKLOAD")
    parser.add_argument(
        "--peers",
        nargs="+",
        default=["torch:eager"],
        metavar="PEER",
        help="libraries beside pullback, such as torch, torch:compile, jax, all (default: torch:eager)",
    )
    parser.add_argument("--base", default="torch:eager", help="ratios and losses are compared with this one's")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slice", type=float, default=0.5, help="seconds that each has in a round")
    parser.add_argument("--patience", type=float, default=300, help="seconds for a build with its first step")
    parser.add_argument("--fresh", action="store_true", help="cold, depth: with empty compile caches")
    parser.add_argument("--isa", choices=list(ISA_VARIABLES), help="hold all to fewer instructions than there are")
    parser.add_argument(
        "--busy", action="store_true", help="one thread and processor time, for a machine that has other work to do"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--markdown", action="store_true", help="print the recorded results as Markdown and stop")
    parser.add_argument(
        "--setup", nargs="+", metavar="PEER", choices=list(PEERS), help="install libraries, one environment each"
    )
    return parser.parse_args(arguments)


def find(names: list[str]) -> list[str]:
    """The ids of the workloads that `names` (names or ids) stand for."""
    found: list[str] = []
    for name in names:
        steps = [key for key, (identity, _) in FIRST_STEPS.items() if name in (key, identity, "all")]
        tables = [key for key in OTHER_TABLES if name in (key, "all")]
        keys = [key for key, work in WORKLOADS.items() if name in (key, work.name, "all")] + steps + tables
        if not keys:
            raise LookupError(f"no workload is called '{name}'; see python -m benchmarks --help")
        found += keys
    return list(dict.fromkeys(found))


def setup(names: list[str]) -> int:
    for name in names:
        try:
            PEERS[name].install()
        except subprocess.CalledProcessError as problem:
            print(f"benchmarks: could not install {name}: {problem}", file=sys.stderr)
            return 2
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.setup:
        return setup(options.setup)
    if options.markdown:
        print(report.markdown(RESULTS))
        return 0
    os.environ.update(ISA_VARIABLES.get(options.isa, {}) | (BUSY_VARIABLES if options.busy else {}))
    try:
        workloads = find(options.workloads)
        contenders = select(["pullback", *options.peers])
        recorded = [measure(workload, contenders, options) for workload in workloads]
    except LookupError as problem:
        print(f"benchmarks: {problem.args[0]}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(recorded, indent=1))
    return int(any("failed" in figures for record in recorded for figures in report.of_pullback(record)))


def measure(workload: str, contenders: list[Contender], options: argparse.Namespace) -> dict[str, Any]:
    """Measures one workload, prints its table and keeps its record in results/."""
    key, base = workload, options.base
    record: dict[str, Any] = {}
    if workload in FIRST_STEPS:
        key, works = FIRST_STEPS[workload]
        key += "-fresh" if options.fresh else ""
        record["results"] = cold_starts(works, contenders, options.rounds, options.fresh, options.patience)
    elif workload == "sizes":
        record["results"] = installed_sizes(contenders, options.patience)
    elif workload in OTHER_TABLES:
        what = "beside" if workload == "kernels" else workload
        record = single_kernels(what, options.rounds, options.slice, options.patience)
    else:
        base, record["results"] = compare(workload, contenders, base, options.rounds, options.slice, options.patience)
    held = {"isa": options.isa, "busy": options.busy}
    record = {"workload": key, **held, "base": base, "machine": report.machine()} | record
    RESULTS.mkdir(exist_ok=True)
    name = "-".join(filter(None, [key, options.isa, "busy" if options.busy else None]))
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    if not options.json:
        print(report.table(record), flush=True)
    return record


if __name__ == "__main__":
    sys.exit(main())
