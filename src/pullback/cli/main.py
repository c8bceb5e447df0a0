"""What the command line says, and which function does it."""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
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
    return import_module(f".{name}", __package__).run


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
        "train a small network on 4,000 real handwritten digits, test it on 1,000, and check its gradient; or find a "
        "face in a photo; or train a detector of digits on photos",
        "  pullback demo\n  pullback demo --epochs 20 --output my-demo\n  pullback demo detect\n  pullback demo yolo",
    )
    choices = ["digits", "detect", "yolo"]
    demo.add_argument("what", nargs="?", default="digits", choices=choices, help="(default: digits)")
    demo.add_argument("--output", default="demo", metavar="FOLDER", help="where results are written (default: demo)")
    demo.add_argument("--epochs", type=whole, help="passes over the digits (default: 10)")
    demo.add_argument("--seed", type=natural, default=0, help="of everything random (default: 0)")

    train = add(
        "train",
        "train a network on a table, or a network of your own on arrays, and save it",
        "  pullback train houses.csv --target price\n"
        "  pullback train flowers.tsv --target species --output flowers.safetensors --category station\n"
        "  pullback train mynetworks:lenet --data mnist5k --epochs 5\n"
        "  pullback train model.safetensors --data more.npz        (arrays X and y)\n"
        "  pullback train yolov3-tiny.cfg --data voc.data          (a detector, as Darknet trains it)",
    )
    train.add_argument("source", help="a table (CSV, TSV), a model file, a Darknet .cfg, or module:name of a "
                       "Network")  # fmt: skip
    what = train.add_mutually_exclusive_group(required=True)
    what.add_argument("--target", metavar="COLUMN", help="the column of the table that shall be predicted")
    what.add_argument("--data", metavar="DATA", help="mnist5k, or an .npz file with arrays X and y, for a network; a "
                      ".data file for a Darknet detector")  # fmt: skip
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
    train.add_argument("--weights", metavar="FILE", help="a detector's .weights or .backup, to go on from")
    train.add_argument("--dialect", choices=["pjreddie", "alexeyab", "hank"], help="whose Darknet it is")
    train.add_argument("--darknet-gradients", action="store_true", help="Darknet's own gradients where they are wrong")

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

    detect = add(
        "detect",
        "find objects in photos with a Darknet detector: draws labelled boxes and writes JSON",
        "  pullback detect yolov3-tiny.cfg yolov3-tiny.weights street.jpg --names coco.names\n"
        "  pullback detect model.safetensors photos/ --output found\n"
        "  pullback detect yolov4.cfg yolov4.weights traffic.mp4 --threshold 0.3",
    )
    detect.add_argument("model", help="a Darknet .cfg, or a model file made of one")
    detect.add_argument("rest", nargs="+", metavar="[WEIGHTS] PHOTO", help="the .weights of a .cfg, then a photo, a "
                        "folder, a list (.txt) or a video")  # fmt: skip
    detect.add_argument("--output", default=".", metavar="FOLDER", help="where results are written (default: here)")
    _detector_options(detect, 0.5)

    mean = add(
        "map",
        "measure a Darknet detector on labelled images: mAP, precision, recall, and their curves",
        "  pullback map yolov3-tiny.cfg yolov3-tiny.weights --data voc.data --plot curves.png",
    )
    mean.add_argument("model", help="a Darknet .cfg, or a model file made of one")
    mean.add_argument("weights", nargs="?", help="the .weights of a .cfg")
    mean.add_argument("--data", required=True, metavar="FILE", help="a .data file whose `valid` lists the images")
    mean.add_argument("--iou", type=share, default=0.5, help="overlap of a right detection (default: 0.5)")
    mean.add_argument("--points", type=int, choices=[0, 11, 101], default=0, help="of the curve: 0 for its whole area")
    mean.add_argument("--plot", metavar="FILE", help="draw the precision-recall curves as PNG")
    _detector_options(mean, 0.005)

    summary = add(
        "summary",
        "show a network's layers, shapes, parameters and floating-point operations",
        "  pullback summary model.safetensors\n  pullback summary mynetworks:lenet",
    )
    summary.add_argument("model", help="a model file, a Darknet .cfg, or module:name of a Network")

    check = add(
        "check",
        "prove a gradient against differences in float64: that of a network, layer by layer, or that of a function of "
        "NumPy, PyTorch, JAX or pullback, input by input",
        "  pullback check model.safetensors\n"
        "  pullback check mynetworks:lenet --data mnist5k\n"
        "  pullback check mymodule:softmax --shapes 5x4            (its derivative: mymodule:softmax_vjp, ...)\n"
        "  pullback check layers.py:MyFunction --shapes 3x4 4x2 2  (a torch.autograd.Function)",
    )
    check.add_argument("target", help="a model file, a Darknet .cfg, or module:name of a Network or a function")
    check.add_argument(
        "--shapes",
        nargs="+",
        default=[],
        metavar="SHAPE",
        help="what a function takes, input by input: 3x4, 5, () for a number, 6:int for whole numbers, or x.npy",
    )
    check.add_argument("--framework", choices=["numpy", "torch", "jax", "pullback"], help="(default: found out)")
    check.add_argument("--orders", type=int, choices=[1, 2], default=2, help="1: not the gradient's own gradient")
    check.add_argument("--data", metavar="DATA", help="for a network: mnist5k, or an .npz file with X and y")
    check.add_argument("--samples", type=whole, default=2, help="for a network: rows per draw (default: 2)")
    check.add_argument("--points", type=whole, help="draws per input (default: 3, for a network 2)")
    check.add_argument("--seed", type=natural, default=0, help="of the draws (default: 0)")

    convert = add(
        "convert",
        "write a network in another format",
        "  pullback convert yolo.weights yolo.safetensors          (yolo.cfg lies beside it)\n"
        "  pullback convert yolo.safetensors yolo.weights\n"
        "  pullback convert model.safetensors parameters.npz\n"
        "  pullback convert parameters.npz model.safetensors --network mynetworks:lenet",
    )
    convert.add_argument("source", help="a .safetensors, .weights, .cfg or .npz file, or module:name of a Network")
    convert.add_argument("target", help="a name that ends in .safetensors, .weights, .cfg or .npz")
    convert.add_argument("--cfg", metavar="FILE", help="of a .weights file (default: the same name with .cfg)")
    convert.add_argument("--dialect", metavar="NAME", help="whose Darknet (default: told by the files)")
    convert.add_argument("--network", metavar="NETWORK", help="whose parameters an .npz file holds")
    convert.add_argument("--dtype", choices=["float32", "float64"], help="of the parameters (default: as they are)")

    warm = add(
        "warm",
        "compile the kernels that a network, or the usual kinds of networks, need, so that later starts are quick",
        "  pullback warm\n  pullback warm model.safetensors mynetworks:lenet",
    )
    warm.add_argument("networks", nargs="*", help="model files, Darknet .cfg files, or module:name of Networks")

    add("info", "show version, processor, settings, kernel cache and packages", "  pullback info")
    return top


def _detector_options(sub: argparse.ArgumentParser, threshold: float) -> None:
    sub.add_argument("--names", metavar="FILE", help="names of the classes, one per line")
    sub.add_argument("--dialect", choices=["pjreddie", "alexeyab", "hank"], help="whose Darknet (default: a guess)")
    sub.add_argument("--threshold", type=share, default=threshold, help=f"of scores (default: {threshold})")
    sub.add_argument("--nms", type=share, default=0.45, help="overlap at which two boxes are one (default: 0.45)")
    sub.add_argument("--letterbox", action=argparse.BooleanOptionalAction, help="keep the photo's proportions, or "
                     "stretch it (default: as the fork does)")  # fmt: skip


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
