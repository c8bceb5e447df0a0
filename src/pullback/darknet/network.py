"""Networks from Darknet's files, and back."""

import warnings
from pathlib import Path

import numpy as np

from ..config import config
from ..errors import ArgumentError, ArgumentTypeError, FormatError
from ..nn.arrays import about
from ..nn.checkpoint import write_file
from ..nn.network import Network
from .build import Placed, guess_dialect, read_layers, unread
from .cfg import Cfg, CfgWarning, parse_cfg, read_cfg
from .dialects import ALEXEYAB, PJREDDIE, Dialect, dialect_of
from .weights import Header, header_of, initial_values, layout, read_content, read_values, to_bytes

KEY = "darknet"  # of what a Network from Darknet's files keeps in its metadata


def from_darknet(
    cfg: str | Path | Cfg,
    weights: str | Path | None = None,
    *,
    dialect: str | None = None,
    cutoff: int | None = None,
    header: int | None = None,
    any_size: bool = False,
    darknet_gradients: bool = False,
    dtype: str | None = None,
    seed: int = 0,
    name: str | None = None,
) -> Network:
    """The network that a cfg file describes, with the numbers of a weights file.

    Args:
        cfg: a path, or a Cfg. Layers are named by their section and Darknet's number: "convolutional_0".
        weights: a path; without it the parameters get first values.
        dialect: whose Darknet: "pjreddie", "alexeyab" or "hank". Unless given it is told by sections and keys that only
            one fork has, and by the size of the weights file.
        cutoff: read only the weights of the layers below this number.
        header: length of the weights' header in bytes, where it isn't what the version in it says: 16 for files of
            32-bit machines, 0 for files without one.
        any_size: images of other height and width than [net] says may come in too; not for layers that need to know.
        darknet_gradients: layers have Darknet's own gradients where those are wrong, see the guide; losses
            have them by `Trainer` or `losses_of(network, darknet_gradients=True)`.
        dtype, seed, name: as in `nn.Network`.

    Returns:
        A Network whose outputs are the layers that no other takes. Images come in as (batch, height, width, channels),
        RGB between 0 and 1; recurrent networks take (batch, time, ...).

    Raises:
        CfgError: the cfg can't be; the message names line and section.
        FormatError: the weights don't fit; the message names the layer.

    Warns:
        CfgWarning: unknown keys.
    """
    cfg = cfg if isinstance(cfg, Cfg) else read_cfg(cfg)
    dtype = dtype or config.floatX
    content = None if weights is None else read_content(weights)
    with about(cfg.name):
        fork = _choose(cfg, dialect, content)
        placed = read_layers(cfg, fork, dtype, any_size, darknet_gradients)
    values, begin = None, Header(*fork.revision)
    if content is not None:
        with about(str(weights)):
            begin, known = read_values(content, placed, fork, _checked(cutoff), header)
        values = initial_values(placed, known, dtype, seed)
    network = Network.__new__(Network)
    network._set_up([one.layer for one in placed], unread(placed), dtype, seed, name or cfg.name, values)
    options = {"any_size": any_size, "darknet_gradients": darknet_gradients}
    network.metadata[KEY] = {"cfg": cfg.text, "dialect": fork.name, **options} | _kept(begin)
    return network


def _checked(cutoff: int | None) -> int | None:
    if cutoff is not None and cutoff < 0:
        raise ArgumentError(f"cutoff={cutoff}; expected a number of layers")
    return cutoff


def _kept(header: Header) -> dict[str, object]:
    """A header as JSON values."""
    return {
        "version": [header.major, header.minor, header.revision],
        "header": header.length,
        "seen": header.seen,
    }


def load_weights(
    network: Network, weights: str | Path, *, cutoff: int | None = None, header: int | None = None
) -> None:
    """Read a weights file into a network that came from a cfg; if it doesn't fit, nothing is changed.

    Args:
        cutoff, header: as in `from_darknet`.
    """
    _, fork, placed = placed_layers(network)
    content = read_content(weights)
    with about(str(weights)):
        begin, known = read_values(content, placed, fork, _checked(cutoff), header)
    values = network.get_values()
    for name, value in known.items():
        values[name][..., : value.shape[-1]] = value
    network.set_values(values)
    network.metadata[KEY] |= _kept(begin)


def _choose(cfg: Cfg, dialect: str | None, content: np.ndarray | None) -> Dialect:
    """The fork that was named, or else the one that the files are most likely of."""
    if dialect is not None:
        return dialect_of(dialect)
    guess = guess_dialect(cfg)
    if content is None:
        return guess or PJREDDIE
    guess = guess or (ALEXEYAB if _revision(content) == ALEXEYAB.revision[2] else PJREDDIE)
    others = [fork for fork in (PJREDDIE, ALEXEYAB) if fork is not guess]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CfgWarning)
        for fork in (guess, *others):
            try:
                floats = layout(read_layers(cfg, fork), fork).floats
            except FormatError:
                continue
            if len(content) in (20 + 4 * floats, 16 + 4 * floats, 4 * floats):
                return fork
    return guess


def _revision(content: np.ndarray) -> int | None:
    try:
        return header_of(content).revision
    except FormatError:
        return None


def placed_layers(network: Network) -> tuple[Cfg, Dialect, list[Placed]]:
    """The cfg that a network was read from, its fork, and its layers."""
    kept = network.metadata.get(KEY)
    if kept is None:
        raise ArgumentTypeError(f"{network!r} wasn't read from a Darknet cfg")
    cfg, fork = parse_cfg(kept["cfg"]), dialect_of(kept["dialect"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CfgWarning)
        return cfg, fork, read_layers(cfg, fork, network.dtype, kept["any_size"], kept["darknet_gradients"])


def to_darknet(
    network: Network,
    cfg: str | Path | None = None,
    weights: str | Path | None = None,
    *,
    seen: int | None = None,
    cutoff: int | None = None,
) -> None:
    """Write a network that was read from Darknet's files as such: bit for bit the same, if nothing was changed.

    Args:
        cfg, weights: where to; None leaves it out. Each file is written as a whole or not at all.
        seen: the count of images seen in training; what was read, unless given.
        cutoff: write only the weights of the layers below this number.
    """
    _, fork, placed = placed_layers(network)
    kept = network.metadata[KEY]
    if cfg is not None:
        write_file(Path(cfg), kept["cfg"].encode("utf-8", "surrogateescape"))
    if weights is not None:
        header = Header(*kept["version"], kept["seen"] if seen is None else seen, kept["header"])
        write_file(Path(weights), to_bytes(network.get_values(), placed, fork, header, cutoff))


def read_header(path: str | Path) -> Header:
    """The header of a weights file."""
    with about(str(path)):
        return header_of(read_content(path))
