"""`pullback check`"""

from argparse import Namespace

from ..testing import CheckError, Report
from .sources import find_arrays, find_network


def run(options: Namespace) -> int:
    """Prove a network's gradient and print what was measured for each parameter."""
    network = find_network(options.model)
    X, y = find_arrays(options.data) if options.data else (None, None)
    settings = {"samples": options.samples, "points": options.points, "seed": options.seed}
    try:
        report = network.check_gradients(X, y, **settings)
    except CheckError as error:
        report = error.report
    print_report(report)
    return 0 if report.right else 3


def print_report(report: Report) -> None:
    """Errors layer by layer, mistakes, and the largest error."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    wrong = {m.input for m in report.mistakes}
    errors = report.errors.get(1, [])
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("layer")
    table.add_column("parameter")
    table.add_column("largest relative error", justify="right")
    table.add_column("")
    for i, name in enumerate(report.inputs):
        layer, _, parameter = name.rpartition(".")
        error = errors[i] if i < len(errors) else None
        verdict = "[bold red]WRONG" if i in wrong else "right"
        table.add_row(
            layer or name, parameter if layer else "(input)", "" if error is None else f"{error:.1e}", verdict
        )
    console = Console(highlight=False)
    console.print(table)
    for mistake in report.mistakes:
        console.print(f"{report.inputs[mistake.input]}: {mistake}", markup=False)
    console.print(
        f"{'Every gradient is right' if report.right else 'Some gradients are WRONG'}: largest relative error "
        f"{report.largest(1):.1e} in {report.draws} draws, {report.redraws} of them redrawn because of a kink."
    )
