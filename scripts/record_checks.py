"""`check_op` on every entry of the library, kept in docs/atlas/checks.json for the atlas (`make atlas`)."""

import json
import platform
import sys
from datetime import date

import numpy as np
from atlas import RECORD, row

import pullback
from pullback.testing.check_op import examine
from pullback.testing.entries import all_entries


def main() -> int:
    entries, rows, wrong = all_entries(), {}, []
    for k, entry in enumerate(entries, 1):
        report = examine(entry)
        if sys.stderr.isatty():
            print(f"\r{k} of {len(entries)}", end="", file=sys.stderr)
        if report.right:
            rows[entry.name] = row(report)
        else:
            wrong.append(report)
    for report in wrong:
        print(f"\n{report}", file=sys.stderr)
    if wrong:
        return 1
    made = {
        "date": date.today().isoformat(),
        "pullback": pullback.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept)}" for name, kept in rows.items())
    RECORD.write_text(f'{{"made": {json.dumps(made)},\n"entries": {{\n{lines}\n}}}}\n')
    worst = {n: max(max((e for e in r["errors"].get(n, []) if e is not None), default=0) for r in rows.values())
             for n in "123"}  # fmt: skip
    print(f"{len(rows)} entries are right; largest errors of first, second, third order: {worst}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
