"""`pullback summary`"""

from argparse import Namespace

from .sources import find_network


def run(options: Namespace) -> None:
    """Print a network as a table."""
    find_network(options.model).summary()
