"""`pullback convert`"""

import io
from argparse import Namespace
from pathlib import Path

import numpy as np

from ..errors import ArgumentError
from ..nn import Network
from ..nn.checkpoint import write_file
from .sources import find_network, read_arrays

TARGETS = (".safetensors", ".weights", ".cfg", ".npz")


def run(options: Namespace) -> None:
    """Read a network in one format and write it in another."""
    if not options.target.endswith(TARGETS):
        raise ArgumentError(f"{options.target!r}: expected a name that ends in one of {', '.join(TARGETS)}")
    network = find_source(options)
    if options.dtype is not None and options.dtype != network.dtype:
        network = network.astype(options.dtype)
    write(network, options.target)
    print(f"Wrote {network!r} to {options.target}")


def find_source(options: Namespace) -> Network:
    """The network in the file that shall be converted."""
    source = options.source
    if source.endswith(".weights"):
        cfg = options.cfg or str(Path(source).with_suffix(".cfg"))
        if not Path(cfg).is_file():
            raise ArgumentError(f"{source} holds numbers only and there is no {cfg}: say --cfg FILE")
        return find_network(cfg, source, options.dialect)
    if source.endswith(".npz"):
        if options.network is None:
            raise ArgumentError(f"{source} holds arrays only: say whose with --network NETWORK")
        network = find_network(options.network)
        network.set_values(read_arrays(source))
        return network
    return find_network(source, dialect=options.dialect)


def write(network: Network, target: str) -> None:
    """Write a whole network, or what of it the format holds."""
    if target.endswith(".safetensors"):
        network.save(target)
    elif target.endswith(".weights"):
        network.to_darknet(weights=target)
    elif target.endswith(".cfg"):
        network.to_darknet(cfg=target)
    else:
        content = io.BytesIO()
        np.savez(content, **network.get_values())
        write_file(Path(target), content.getvalue())
