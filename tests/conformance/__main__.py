"""Run folders of conformance data: `python -m tests.conformance tests/data/cases tests/data/golden`."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from . import runner
from .outcome import FAILED, PASSED, SKIPPED

DATA = Path(__file__).parent.parent / "data"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("path", nargs="*", type=Path, help="folders with a manifest.json or cases.json")
    parser.add_argument("--only", action="append", metavar="FAMILY", help="only this family, category or case")
    parser.add_argument("--except", dest="without", action="append", metavar="FAMILY", default=[], help="leave it out")
    parser.add_argument("--list-skipped", action="store_true", help="say which cases were skipped, and why")
    parser.add_argument("--backend", choices=("reference", "native"), help="one backend only; both unless given")
    options = parser.parse_args(arguments)
    backends = (options.backend,) if options.backend else ("reference", "native")
    counts: Counter[str] = Counter()
    for folder in options.path or [DATA / "cases", DATA / "golden"]:
        try:
            found = runner.run_folder(folder, backends, options.only, options.without)
            for outcome in found:
                counts[outcome.status] += 1
                if outcome.status == FAILED:
                    print(f"FAILED {outcome.family}/{outcome.case}: {outcome.why}", flush=True)
                elif outcome.status == SKIPPED and options.list_skipped:
                    print(f"SKIPPED {outcome.family}/{outcome.case}: {outcome.why}", flush=True)
        except (OSError, ValueError) as error:
            print(f"can't read {folder}: {error}", file=sys.stderr)
            return 2
    print(f"{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[SKIPPED]} skipped")
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
