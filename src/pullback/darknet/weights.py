"""Darknet's .weights files: a header, then every layer's numbers as little-endian float32, one layer after the other.

The header is three int32 (major, minor, revision) and the count of images seen in training: uint64 from version 0.2 on,
uint32 before. A major or minor above 1000 says that connected layers are stored input by input.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from ..errors import ArgumentError, FileAccessError, FormatError
from ..nn.layers.base import Layer, Parameter, Spec
from ..nn.layers.basic import Connected
from ..nn.layers.convolution import Convolutional
from ..nn.layers.normalization import BatchNorm
from ..nn.layers.recurrent import TimeDistributed
from ..nn.layers.scaling import Implicit
from ..nn.layers.sublayers import ConvLSTM, GatedGRU, GatedLSTM, Recurrent
from ..nn.layers.unshared import Deconvolutional, Local
from .build import Placed, in_order
from .dialects import Dialect
from .theirs import WithDarknetGradient

STATISTICS = ("scale", "running_mean", "running_variance")
TRANSPOSED = 1000


@dataclass(frozen=True)
class Header:
    """The first bytes of a weights file.

    Attributes:
        major, minor, revision: of the format.
        seen: images seen in training.
        length: in bytes: 20, 16, or 0 for a file without a header.
    """

    major: int = 0
    minor: int = 2
    revision: int = 0
    seen: int = 0
    length: int = 20

    @property
    def transposed(self) -> bool:
        """Whether connected layers are stored input by input."""
        return self.major > TRANSPOSED or self.minor > TRANSPOSED

    def to_bytes(self) -> bytes:
        if self.length == 0:
            return b""
        if not 0 <= self.seen < 1 << (64 if self.length == 20 else 32):
            raise ArgumentError(f"seen={self.seen} doesn't fit into the header")
        return struct.pack(
            "<iii" + ("Q" if self.length == 20 else "I"), self.major, self.minor, self.revision, self.seen
        )


def header_of(content: bytes | np.ndarray, length: int | None = None) -> Header:
    """The header at the beginning of a file.

    Args:
        content: the file, or its first 20 bytes.
        length: of the header, where the version doesn't say it: 16 for files of 32-bit machines, 0 for none.

    Raises:
        FormatError: the file is too short, or was written on a big-endian machine.
    """
    if length not in (None, 0, 16, 20):
        raise ArgumentError(f"header={length}; expected 20, 16 or 0 bytes")
    if length == 0:
        return Header(length=0)
    begin = bytes(content[:20])
    if len(begin) < 16:
        raise FormatError(f"{len(content)} bytes are too short for a header")
    major, minor, revision = struct.unpack("<iii", begin[:12])
    swapped = struct.unpack(">iii", begin[:12])
    if max(abs(major), abs(minor), abs(revision)) >= 1 << 16 and all(0 <= v < 1 << 16 for v in swapped):
        raise FormatError(f"it was written on a big-endian machine (version {'.'.join(map(str, swapped))})")
    if length is None:
        length = 20 if major * 10 + minor >= 2 and major < TRANSPOSED and minor < TRANSPOSED else 16
    if len(begin) < length:
        raise FormatError(f"{len(content)} bytes are too short for a header")
    (seen,) = struct.unpack("<Q" if length == 20 else "<I", begin[12:length])
    return Header(major, minor, revision, seen, length)


@dataclass(frozen=True)
class Block:
    """One run of numbers in the file, and the parameter that it fills.

    Attributes:
        key: the parameter's name within its layer.
        shape: as it lies in the file.
        axes: the file's axes in our order.
        final: the parameter's shape.
        part: how many of the last axis it fills; None for all.
    """

    key: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    final: tuple[int, ...]
    part: int | None = None

    @property
    def count(self) -> int:
        return prod(self.shape)

    def decoded(self, numbers: np.ndarray) -> np.ndarray:
        """The parameter's array."""
        return np.ascontiguousarray(numbers.reshape(self.shape).transpose(self.axes)).reshape(self.final)

    def encoded(self, value: np.ndarray) -> np.ndarray:
        """The numbers as they lie in the file."""
        return value.reshape([self.shape[a] for a in self.axes]).transpose(np.argsort(self.axes)).ravel()


def vector(key: str, n: int) -> Block:
    return Block(key, (n,), (0,), (n,))


def conv_blocks(layer: Convolutional, x: Spec, flipped: bool, scales: bool, filters: int | None) -> Iterator[Block]:
    """biases; with batch normalisation scales, means and variances; weights (filters, channels / groups, rows,
    columns)."""
    n = filters or layer.filters
    rows, columns, channels, _ = layer.parameters(x)["weight"].shape
    partial = n if filters else None
    if layer.batch_normalize or layer.bias:
        yield replace(vector("bias", n), part=partial)
    if layer.batch_normalize and scales:
        for key in STATISTICS:
            yield replace(vector(key, n), part=partial)
    final = (rows, columns, channels, n)
    if flipped:
        yield Block("weight", (channels, rows, columns, n), (1, 2, 0, 3), final, partial)
    else:
        yield Block("weight", (n, channels, rows, columns), (2, 3, 1, 0), final, partial)


def connected_blocks(layer: Connected, x: Spec, transposed: bool, scales: bool) -> Iterator[Block]:
    """biases, weights (outputs, inputs), and then, with batch normalisation, scales, means and variances. Inputs that
    are images lie in the order (channels, height, width)."""
    yield vector("bias", layer.outputs)
    yield from (Block(b.key, b.shape, b.axes, b.final) for b in _matrix(layer.outputs, x, transposed))
    if layer.batch_normalize and scales:
        for key in STATISTICS:
            yield vector(key, layer.outputs)


def _matrix(outputs: int, x: Spec, transposed: bool) -> Iterator[Block]:
    shape = x.shape
    channels_first = (shape[2], shape[0], shape[1]) if len(shape) == 3 else (prod(shape),)
    n = len(channels_first)
    stored = (*channels_first, outputs) if transposed else (outputs, *channels_first)
    first = 0 if transposed else 1  # of the input's axes
    inputs = (first + 1, first + 2, first) if n == 3 else (first,)
    yield Block("weight", stored, (*inputs, n if transposed else 0), (prod(shape), outputs))


def stored_blocks(placed: Placed, dialect: Dialect, transposed: bool) -> list[Block]:
    """What a layer has in the file, in order."""
    section, layer = placed.section, placed.layer
    if isinstance(layer, WithDarknetGradient):
        layer = layer.layer
    inputs = placed.inputs
    if isinstance(layer, TimeDistributed):
        layer, inputs = layer.layer, tuple(Spec(x.shape[1:], x.dtype) for x in inputs)
    scales = not section.flag("dontloadscales")
    return list(_blocks(placed, layer, inputs[0], dialect, transposed, scales)) if placed.parameters else []


def _blocks(
    placed: Placed, layer: Layer, x: Spec, dialect: Dialect, transposed: bool, scales: bool
) -> Iterator[Block]:
    section = placed.section
    match layer:
        case Convolutional():
            if section.whole("share_index", 0):
                return
            filters = min(section.whole("numload", 0, least=0), layer.filters) or None
            yield from conv_blocks(layer, x, section.flag("flipped"), scales, filters)
        case Connected():
            yield from connected_blocks(layer, x, transposed, scales)
        case Deconvolutional():
            yield vector("bias", layer.filters)
            if layer.batch_normalize and scales:
                yield from (vector(key, layer.filters) for key in STATISTICS)
            rows, columns, filters, channels = placed.parameters["weight"].shape
            yield Block("weight", (channels, filters, rows, columns), (2, 3, 1, 0), (rows, columns, filters, channels))
        case Local():
            rows, columns, _, filters = placed.parameters["weight"].shape
            yield Block("bias", (filters, rows, columns), (1, 2, 0), (rows, columns, filters))
            down, across, c = *np.broadcast_to(layer.size, 2).tolist(), x.shape[2]
            shape = (rows, columns, filters, c, down, across)
            yield Block("weight", shape, (0, 1, 4, 5, 3, 2), placed.parameters["weight"].shape)
        case BatchNorm():
            n = x.shape[-1]
            yield from (vector(key, n) for key in (("bias",) if dialect.batchnorm_bias else ()) + STATISTICS)
        case Implicit():
            yield Block("weight", (layer.filters, layer.atoms, 1), (1, 2, 0), (layer.atoms, 1, layer.filters))
        case Recurrent():
            yield from _sublayer_blocks(placed, layer, dialect, transposed, scales)
        case _:  # the weights of a shortcut
            for key, parameter in placed.parameters.items():
                yield Block(key, parameter.shape, tuple(range(len(parameter.shape))), parameter.shape)


def _sublayer_blocks(
    placed: Placed, layer: Recurrent, dialect: Dialect, transposed: bool, scales: bool
) -> Iterator[Block]:
    found = {
        name: (sub.layer, spec) for sub, spec in layer.sublayers(layer._frame(*placed.inputs)) for name in sub.names
    }
    match layer:
        case GatedLSTM():
            order: tuple[str, ...] = dialect.lstm_gates
        case GatedGRU():
            order = dialect.gru_gates
        case ConvLSTM():
            order = (*(f"cell_{g}" for g in "fio" if layer.peephole), *(f"state_{g}" for g in "figo"),
                     *(f"input_{g}" for g in "figo"))  # fmt: skip
        case _:
            order = tuple(found)
    for name in order:
        part, spec = found[name]
        if isinstance(part, Connected):
            blocks = connected_blocks(part, spec, transposed, scales)
        else:
            blocks = conv_blocks(part, spec, False, scales, None)
        yield from (replace(block, key=f"{name}_{block.key}") for block in blocks)


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Which block of the file goes where.

    Attributes:
        blocks: (layer, block) in the order of the file.
    """

    blocks: tuple[tuple[Placed, Block], ...]

    @property
    def floats(self) -> int:
        return sum(block.count for _, block in self.blocks)


def layout(
    placed: list[Placed], dialect: Dialect, transposed: bool = False, cutoff: int | None = None, skip: str = "dontload"
) -> Layout:
    """The layout of a weights file.

    Args:
        cutoff: only layers below this number are in the file, or are read.
        skip: the key of a section that keeps its layer out: "dontload" or "dontsave".
    """
    return Layout(
        tuple(
            (one, block)
            for one in in_order(placed)
            if (cutoff is None or one.section.index < cutoff) and not one.section.flag(skip)
            for block in stored_blocks(one, dialect, transposed)
        )
    )


def read_content(path: str | Path) -> np.ndarray:
    """A file's bytes."""
    try:
        return np.fromfile(path, np.uint8)
    except (OSError, ValueError) as error:
        raise FileAccessError(f"can't read {path}: {getattr(error, 'strerror', None) or error}") from None


def read_values(
    content: np.ndarray,
    placed: list[Placed],
    dialect: Dialect,
    cutoff: int | None = None,
    header_length: int | None = None,
) -> tuple[Header, dict[str, np.ndarray]]:
    """The header, and the arrays of all parameters that the file holds, by "<layer>.<parameter>".

    Args:
        content: the file's bytes.
        cutoff: read only the layers below this number; the file may hold more.
        header_length: see `header_of`.

    Raises:
        FormatError: the file is shorter or longer than the layers; the message says in which layer it ended.
    """
    whole = layout(placed, dialect).floats
    header = header_of(content, header_length)
    wanted = layout(placed, dialect, header.transposed, cutoff)
    available, rest = divmod(len(content) - header.length, 4)
    if available < wanted.floats or (cutoff is None and (available != whole or rest)):
        raise FormatError(_misfit(content, header, wanted, whole, available))
    numbers = content[header.length : header.length + 4 * wanted.floats].view("<f4")
    values: dict[str, np.ndarray] = {}
    start = 0
    for one, block in wanted.blocks:
        values[f"{one.layer.name}.{block.key}"] = block.decoded(numbers[start : start + block.count])
        start += block.count
    return header, values


def _misfit(content: np.ndarray, header: Header, wanted: Layout, whole: int, available: int) -> str:
    sizes = f"{header.length} bytes of header and {whole:,} numbers are {header.length + 4 * whole:,} bytes, the file "
    sizes += f"has {len(content):,}"
    fitting = [n for n in (20, 16, 0) if n != header.length and len(content) == n + 4 * whole]
    hint = f" A header of {fitting[0]} bytes would fit: say header={fitting[0]} if it has that." if fitting else ""
    if available >= whole:
        extra = len(content) - header.length - 4 * whole
        return f"{sizes}: {extra:,} bytes too many. It belongs to another cfg, or another fork's (dialect=...).{hint}"
    start = 0
    for one, block in wanted.blocks:
        if start + block.count > available:
            there = f"{max(available - start, 0):,} of {block.count:,} numbers"
            place = f"in the {block.key} of {one.section} after {there}"
            return f"{sizes}: it ends {place}. It is cut short, or belongs to another cfg; cutoff= reads a part.{hint}"
        start += block.count
    return sizes


def to_bytes(
    values: dict[str, np.ndarray], placed: list[Placed], dialect: Dialect, header: Header, cutoff: int | None = None
) -> bytes:
    """A weights file of all parameters."""
    parts = [header.to_bytes()]
    for one, block in layout(placed, dialect, header.transposed, cutoff, skip="dontsave").blocks:
        value = values[f"{one.layer.name}.{block.key}"]
        if block.part is not None:
            value = value[..., : block.part]
        parts.append(block.encoded(value).astype("<f4").tobytes())
    return b"".join(parts)


def initial_values(
    placed: list[Placed], known: dict[str, np.ndarray], dtype: str, seed: int
) -> dict[str, np.ndarray]:
    """All parameters: the known ones, others by their rule; parts are put into the rest's first values."""
    values: dict[str, np.ndarray] = {}
    for index, one in enumerate(placed):
        for number, (key, parameter) in enumerate(one.parameters.items()):
            name = f"{one.layer.name}.{key}"
            value = known.get(name)
            if value is None or value.shape != parameter.shape:
                whole = _first(parameter, index, number, seed).astype(dtype)
                if value is not None:
                    whole[..., : value.shape[-1]] = value
                value = whole
            values[name] = value
    return values


def _first(parameter: Parameter, index: int, number: int, seed: int) -> np.ndarray:
    return np.asarray(parameter.initial(parameter.shape, np.random.default_rng((seed, index, number))))
