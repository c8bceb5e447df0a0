"""`pullback check`"""

import sys
from argparse import Namespace

from ..darknet import read_cfg
from ..errors import ArgumentError, PullbackError
from ..nn import Network
from ..testing import CheckError, Report, check_target
from .sources import find_arrays, find_network, find_object, network_in

SMALL = (32, 64, 128, 256)


def run(options: Namespace) -> int:
    """Prove the gradient of a network or of anybody's function, and print what was measured."""
    target = options.target
    if target.endswith(".cfg"):
        network = small_network(target, options)
    elif target.endswith(".safetensors") or ":" not in target:
        network = find_network(target)
    else:
        network = network_in(find_object(target))
    report = of_network(network, options) if isinstance(network, Network) else of_function(options)
    return 0 if report.right else 3


def small_network(path: str, options: Namespace) -> Network:
    """The network of a Darknet cfg, for images as small as it takes: on large ones every step of a difference crosses
    the kink of some unit."""
    own = read_cfg(path).net
    if options.data is not None or "height" not in own or "width" not in own:
        return find_network(path)
    height, width = own.whole("height"), own.whole("width")
    for size in (n for n in SMALL if n < min(height, width)):
        cfg = read_cfg(path)
        cfg.set(0, "height", size)
        cfg.set(0, "width", size)
        try:
            network = Network.from_darknet(cfg)
        except PullbackError:
            continue  # its layers need a larger image
        print(f"{path} is checked on images of {size} x {size} instead of {height} x {width}.")
        return network
    return find_network(path)


def of_function(options: Namespace) -> Report:
    """Check a function input by input."""
    if options.data is not None:
        raise ArgumentError(f"--data is for networks; give the shapes of what {options.target} takes: --shapes 3x4 5")
    settings = {"framework": options.framework, "orders": options.orders, "points": options.points or 3}
    return check_target(options.target, options.shapes, seed=options.seed, **settings)


def of_network(network: Network, options: Namespace) -> Report:
    """Check a network parameter by parameter."""
    if options.shapes or options.framework:
        raise ArgumentError("--shapes and --framework are for functions; a network knows its shapes")
    from rich.progress import Progress

    X, y = find_arrays(options.data) if options.data else (None, None)
    settings = {"samples": options.samples, "points": options.points or 2, "seed": options.seed}
    with Progress(transient=True, disable=not sys.stdout.isatty()) as progress:
        bar = progress.add_task("")

        def show(name: str, done: int, total: int) -> None:
            progress.update(bar, description=name, completed=done, total=total)

        try:
            report = network.check_gradients(X, y, **settings, progress=show)
        except CheckError as error:
            report = error.report
    print_report(report)
    return report


def print_report(report: Report) -> None:
    """Errors layer by layer, mistakes, and the largest error."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    wrong = {m.input: "[bold red]not smooth" if m.kind == "not smooth" else "[bold red]WRONG" for m in report.mistakes}
    errors = report.errors.get(1, [])
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("layer")
    table.add_column("parameter")
    table.add_column("largest relative error", justify="right")
    table.add_column("")
    for i, name in enumerate(report.inputs):
        layer, _, parameter = name.rpartition(".")
        error = errors[i] if i < len(errors) else None
        verdict = wrong.get(i, "right")
        table.add_row(
            layer or name, parameter if layer else "(input)", "" if error is None else f"{error:.1e}", verdict
        )
    console = Console(highlight=False)
    console.print(table)
    for mistake in report.mistakes:
        console.print(f"{report.inputs[mistake.input]}: {mistake}", markup=False)
    verdict = "Every gradient is right" if report.right else "Some gradients are WRONG"
    if not report.right and all(m.kind == "not smooth" for m in report.mistakes):
        verdict = "Some gradients can't be checked here (try --samples 1)"
    console.print(
        f"{verdict}: largest relative error "
        f"{report.largest(1):.1e} in {report.draws} draws, {report.redraws} of them redrawn because of a kink."
    )
