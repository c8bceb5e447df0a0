"""What the command line says, and which function does it."""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.metadata import version

from ..errors import PullbackError

DONE, MISTAKE, USAGE, WRONG_GRADIENT, BUG, INTERRUPTED = 0, 1, 2, 3, 70, 130
EXIT_CODES = """exit codes:
  0  done
  1  something in the files, data or names that were given is wrong (the message says what)
  2  the command line is wrong
  3  a gradient is wrong (check, demo)
  70 an error in pullback itself (--debug shows where)
  130 interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        return command(options.command)(options) or DONE
    except PullbackError as error:
        return _fail(options, MISTAKE, f"error: {error}")
    except KeyboardInterrupt:
        return _fail(options, INTERRUPTED, "interrupted")
    except BrokenPipeError:
        sys.stdout = None  # whoever read the output has gone
        return DONE
    except Exception as error:
        note = "this is a bug in pullback: run again with --debug to see where"
        return _fail(options, BUG, f"{type(error).__name__}: {error}\n{note}")


def _fail(options: argparse.Namespace, code: int, message: str) -> int:
    """Say what went wrong; with --debug raise it instead."""
    if options.debug:
        raise
    print(f"pullback {options.command}: {message}", file=sys.stderr)
    return code


def command(name: str) -> Callable[[argparse.Namespace], int | None]:
    """The function of a command, imported only when it is asked for."""
    from . import check, demo, predict, summary, train

    return {"check": check, "demo": demo, "predict": predict, "summary": summary, "train": train}[name].run


def parser() -> argparse.ArgumentParser:
    """Every command and its options."""
    top = argparse.ArgumentParser(
        prog="pullback",
        description="Deep learning for CPUs with gradients that you can trust.",
        epilog=f"examples:\n  pullback demo\n  pullback train houses.csv --target price\n"
        f"  pullback predict model.safetensors houses.csv\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"pullback {version('pullback')}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, summary: str, examples: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--debug", action="store_true", help="show the traceback of an error")
        return sub

    demo = add(
        "demo",
        "train a small network on 4,000 real handwritten digits, test it on 1,000, and check its gradient",
        "  pullback demo\n  pullback demo --epochs 20 --output my-demo",
    )
    demo.add_argument("--output", default="demo", metavar="FOLDER", help="where results are written (default: demo)")
    demo.add_argument("--epochs", type=whole, default=10, help="passes over the digits (default: 10)")
    demo.add_argument("--seed", type=natural, default=0, help="of everything random (default: 0)")

    train = add(
        "train",
        "train a network on a table, or a network of your own on arrays, and save it",
        "  pullback train houses.csv --target price\n"
        "  pullback train flowers.tsv --target species --output flowers.safetensors --category station\n"
        "  pullback train mynetworks:lenet --data mnist5k --epochs 5\n"
        "  pullback train model.safetensors --data more.npz        (arrays X and y)",
    )
    train.add_argument("source", help="a table (CSV, TSV), a model file, or module:name of a Network")
    what = train.add_mutually_exclusive_group(required=True)
    what.add_argument("--target", metavar="COLUMN", help="the column of the table that shall be predicted")
    what.add_argument("--data", metavar="DATA", help="mnist5k, or an .npz file with arrays X and y, for a network")
    train.add_argument("--output", default="model.safetensors", metavar="FILE", help="(default: model.safetensors)")
    train.add_argument("--epochs", type=whole, help="passes over the data at most (default: 200 for tables, else 10)")
    train.add_argument("--batch-size", type=whole, help="rows per step (default: by the number of rows)")
    train.add_argument("--learning-rate", type=float, metavar="RATE", help="(default: 0.003 for tables)")
    train.add_argument("--hidden", type=widths, metavar="N,N", help="widths of the hidden layers, for tables")
    train.add_argument("--task", choices=["classification", "regression"], help="(default: by looking at the target)")
    train.add_argument("--category", action="append", default=[], metavar="COLUMN", help="numbers that are names")
    train.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="a column that isn't used")
    train.add_argument("--held-back", type=share, default=0.2, metavar="SHARE", help="rows to test on (default: 0.2)")
    train.add_argument("--seed", type=natural, default=0, help="of everything random (default: 0)")
    train.add_argument("--plot", metavar="FILE", help="write the learning curve as PNG")

    predict = add(
        "predict",
        "predict with a saved network: raw rows of a table, or an array",
        "  pullback predict model.safetensors houses.csv\n"
        "  pullback predict model.safetensors houses.csv --output priced.csv\n"
        "  pullback predict digits.safetensors images.npy --output probabilities.npy",
    )
    predict.add_argument("model", help="a model file")
    predict.add_argument("rows", help="a table (CSV, TSV) with the columns of training, or an .npy file")
    predict.add_argument("--output", metavar="FILE", help="a .csv or .npy file (default: print as CSV)")

    summary = add(
        "summary",
        "show a network's layers, shapes, parameters and floating-point operations",
        "  pullback summary model.safetensors\n  pullback summary mynetworks:lenet",
    )
    summary.add_argument("model", help="a model file, or module:name of a Network")

    check = add(
        "check",
        "prove every gradient of a network against differences in float64, layer by layer",
        "  pullback check model.safetensors\n  pullback check mynetworks:lenet --data mnist5k",
    )
    check.add_argument("model", help="a model file, or module:name of a Network")
    check.add_argument("--data", metavar="DATA", help="mnist5k, or an .npz file with X and y (default: random numbers)")
    check.add_argument("--samples", type=whole, default=4, help="rows per draw (default: 4)")
    check.add_argument("--points", type=whole, default=2, help="draws per parameter (default: 2)")
    check.add_argument("--seed", type=natural, default=0, help="of the draws (default: 0)")
    return top


def whole(text: str) -> int:
    """A whole number from 1 up."""
    return _number(text, int, lambda n: n >= 1, "a whole number from 1 up")


def natural(text: str) -> int:
    """A whole number from 0 up."""
    return _number(text, int, lambda n: n >= 0, "a whole number from 0 up")


def share(text: str) -> float:
    """A number between 0 and 1."""
    return _number(text, float, lambda x: 0 < x < 1, "a number between 0 and 1")


def widths(text: str) -> tuple[int, ...]:
    """Whole numbers from 1 up, with commas between them."""
    return tuple(whole(part) for part in text.split(","))


def _number(text: str, kind: type, fits: Callable[[float], bool], what: str) -> float:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not fits(value):
        raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")
    return value
