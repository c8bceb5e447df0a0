"""Run folders of recorded Darknet networks: `python -m tests.darknet_oracle tests/data/darknet/oracle`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .runner import run_folder

DATA = Path(__file__).parent.parent / "data" / "darknet" / "oracle"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.darknet_oracle", description=__doc__)
    parser.add_argument("path", nargs="*", type=Path, default=[DATA], help="folders with a manifest.json")
    parser.add_argument("--only", action="append", metavar="CASE", help="only this case")
    parser.add_argument("--backend", choices=("reference", "native"), help="one backend only; both unless given")
    options = parser.parse_args(arguments)
    backends = (options.backend,) if options.backend else ("reference", "native")
    passed = failed = 0
    for folder in options.path:
        try:
            for case, wrong in run_folder(folder, backends, options.only):
                passed, failed = passed + (not wrong), failed + bool(wrong)
                for line in wrong:
                    print(f"FAILED {case}: {line}", flush=True)
        except (OSError, ValueError, KeyError) as error:
            print(f"can't read {folder}: {error!r}", file=sys.stderr)
            return 2
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
