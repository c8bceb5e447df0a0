"""A cfg file as a list of layers, checked section by section before anything is allocated."""

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from ..errors import PullbackError, nearest
from ..nn.layers.base import Layer, Parameter, Spec
from ..nn.layers.basic import Dropout, Input, Softmax
from ..nn.layers.detection import Yolo
from ..nn.layers.rearrange import Reshape
from ..nn.layers.recurrent import RecurrentLayer, TimeDistributed
from ..nn.layers.sublayers import Recurrent
from .cfg import Cfg, CfgError, CfgWarning, Section, located
from .dialects import ALEXEYAB, HANK, PJREDDIE, Dialect
from .keys import (
    ALEXEYAB_ACTIVATIONS,
    ALEXEYAB_KEYS,
    ALEXEYAB_SECTIONS,
    PJREDDIE_SECTIONS,
    UNSUPPORTED,
    canonical,
    known_keys,
)
from .sections import READERS, Reading
from .theirs import WithDarknetGradient, with_darknet_gradient

SEQUENCES = {"rnn", "simple_rnn", "lstm", "gru", "crnn", "conv_lstm"}
IMAGES = {"convolutional", "deconvolutional", "local", "maxpool", "local_avgpool", "avgpool", "upsample", "yolo"}
HANK_DROPPED = {
    "reorg", "activation", "batchnorm", "local", "normalization", "crop", "detection", "gru", "conv_lstm", "history",
    "implicit",
}  # fmt: skip
LARGEST = 64 << 30  # bytes, where the machine doesn't say how much memory it has


@dataclass(frozen=True)
class Placed:
    """One section's layer.

    Attributes:
        section: None of a layer that stands in no section.
        layer: with its name.
        inputs, output: what comes in and what goes out.
        parameters: as the layer asks for them.
    """

    section: Section | None
    layer: Layer
    inputs: tuple[Spec, ...]
    output: Spec
    parameters: dict[str, Parameter]

    @property
    def kind(self) -> str:
        """The full name of the section."""
        return canonical(self.section.name)


def guess_dialect(cfg: Cfg) -> Dialect | None:
    """The fork whose sections, keys or activations the file has; None if it could be any."""
    for section in cfg.layers:
        name = canonical(section.name)
        if name in PJREDDIE_SECTIONS or (name == "shortcut" and ("alpha" in section or "beta" in section)):
            return PJREDDIE
        alexeyab = name in ALEXEYAB_SECTIONS or section.text("activation", "") in ALEXEYAB_ACTIVATIONS
        if alexeyab or any(key in section for key in ALEXEYAB_KEYS.get(name, "").split()):
            return ALEXEYAB
    return ALEXEYAB if any(key in cfg.net for key in ALEXEYAB_KEYS["net"].split()) else None


def read_layers(
    cfg: Cfg, dialect: Dialect, dtype: str = "float32", any_size: bool = False, darknet_gradients: bool = False
) -> list[Placed]:
    """All layers of a cfg, the Input first.

    Args:
        any_size: images of other height and width than [net] says may come in too.
        darknet_gradients: layers before the last have Darknet's own gradients where those are wrong.

    Raises:
        CfgError: what can't be, with line and section.

    Warns:
        CfgWarning: an unknown key, with the nearest known one.
    """
    _check_net(cfg)
    strides = _strides(cfg, dialect, dtype) if any_size else {}
    first = _input(cfg, dtype, any_size)
    placed = [Placed(None, first, (), Spec(first.shape, dtype), {})]
    by_name = {"input": placed[0].output}
    outputs: list[Spec] = []
    names: list[str] = []
    frozen = _last_frozen(cfg)
    sequence = any(canonical(s.name) in SEQUENCES for s in cfg.layers)
    bytes_so_far = 0
    for section in cfg.layers:
        kind = _kind(section, dialect)
        name = f"{kind.lower()}_{section.index}"
        common = {
            "name": name,
            "learning_rate": section.real("learning_rate", 1.0),
            "frozen": section.index <= frozen or section.flag("dont_update"),
        }
        previous = placed[-1].output
        if kind in IMAGES and len(previous.shape) == 1:
            placed.append(_as_image(previous, placed[-1].layer.name))
            by_name[placed[-1].layer.name] = previous = placed[-1].output
        step = Spec(previous.shape[1:], dtype) if sequence and kind not in SEQUENCES else previous
        try:
            layer = READERS[kind](Reading(cfg, dialect, section, step, outputs, names, common, strides))
            if darknet_gradients and section is not cfg.layers[-1]:
                layer = with_darknet_gradient(layer)
            layer = _over_time(layer, previous) if sequence else layer
            specs = tuple(_spec(reference, by_name, previous) for reference in layer.sources())
            output = layer.describe(*specs)
            parameters = layer.parameters(*specs)
        except CfgError:
            raise
        except PullbackError as error:
            raise located(section, error) from None
        bytes_so_far += _size(parameters, output, section, bytes_so_far)
        placed.append(Placed(section, layer, specs, output, parameters))
        outputs.append(output)
        names.append(name)
        by_name[name] = output
    return placed


def _strides(cfg: Cfg, dialect: Dialect, dtype: str) -> dict[int, tuple[float, float]]:
    """Of each head: pixels of the network's input per cell, (vertical, horizontal)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CfgWarning)
        placed = read_layers(cfg, dialect, dtype)
    return {one.section.index: one.layer.stride for one in placed if isinstance(one.layer, Yolo)}


def _spec(reference: Any, by_name: dict[str, Spec], previous: Spec) -> Spec:
    return previous if reference == -1 else by_name[reference]


def _kind(section: Section, dialect: Dialect) -> str:
    """The full name of a section that is known; its keys are looked over."""
    kind = canonical(section.name)
    if kind in UNSUPPORTED:
        raise CfgError(f"{section}: [{section.name}] ({UNSUPPORTED[kind]}) isn't supported")
    if kind not in READERS:
        raise CfgError(f"line {section.line}: there is no section [{section.name}]. {nearest(section.name, READERS)}")
    if dialect is HANK and kind in HANK_DROPPED:
        raise CfgError(f"{section}: hank's Darknet has no [{section.name}]: say dialect='alexeyab' or 'pjreddie'")
    warn_of_unknown(section, kind)
    return kind


def warn_of_unknown(section: Section, kind: str) -> None:
    """Warn of keys that no fork knows."""
    known = known_keys(kind)
    for setting in section.settings:
        if setting.key not in known:
            hint = nearest(setting.key, known) if known else "It takes no keys."
            warnings.warn(
                f"line {setting.line}, [{section.name}]: unknown key {setting.key!r} has no effect. "
                + (hint if hint.startswith(("Did", "It")) else ""),
                CfgWarning,
                stacklevel=2,
            )


def _check_net(cfg: Cfg) -> None:
    if canonical(cfg.net.name) != "net":
        raise CfgError(f"line {cfg.net.line}: the first section is [{cfg.net.name}]; expected [net]")
    if not cfg.layers:
        raise CfgError(f"{cfg.name}: there are no layers after [net]")
    warn_of_unknown(cfg.net, "net")
    for section in cfg.layers:
        if canonical(section.name) == "net":
            raise CfgError(f"line {section.line}: [{section.name}] comes again; it is the first section, and only that")


def _input(cfg: Cfg, dtype: str, any_size: bool) -> Input:
    """What comes in: images, vectors, or sequences of either."""
    net = cfg.net
    height, width, channels = (net.whole(key, 0, least=0) for key in ("height", "width", "channels"))
    inputs = net.whole("inputs", height * width * channels, least=0)
    if not inputs:
        raise CfgError(f"{net}: height, width and channels (or inputs) are missing or 0")
    image = height > 0 and width > 0 and channels > 0
    if image and inputs != height * width * channels:
        raise CfgError(
            f"{net.place('inputs')}: inputs={inputs}, but height x width x channels = {height * width * channels}"
        )
    shape = (height, width, channels) if image else (inputs,)
    if any_size:
        if not image:
            raise CfgError(f"{net}: only images can be of any size")
        shape = (None, None, channels)
    sequence = any(canonical(s.name) in SEQUENCES for s in cfg.layers)
    return Input((None, *shape) if sequence else shape, dtype=dtype, name="input")


def _last_frozen(cfg: Cfg) -> int:
    """The last layer that is not trained because stopbackward stands there; -1 for none."""
    return max((s.index for s in cfg.layers if s.flag("stopbackward")), default=-1)


def _as_image(x: Spec, name: str) -> Placed:
    shape = (1, 1, x.shape[0])
    layer = Reshape(shape, name=f"{name}_image", after=name)
    return Placed(None, layer, (x,), Spec(shape, x.dtype), {})


def _over_time(layer: Layer, previous: Spec) -> Layer:
    """The layer as it works on sequences."""
    as_it_is = isinstance(layer, (Recurrent, RecurrentLayer, WithDarknetGradient, Dropout, Softmax))
    if as_it_is or layer.sources() != (-1,):
        return layer
    common = {"name": layer.name, "learning_rate": layer.learning_rate, "frozen": layer.frozen}
    return TimeDistributed(layer, **common)


def _size(parameters: dict[str, Parameter], output: Spec, section: Section, before: int) -> int:
    """Bytes of a layer's parameters and output in float32; refuses what no memory holds."""
    size = 4 * sum(prod(p.shape) for p in parameters.values())
    size += 4 * prod(n or 1 for n in output.shape)
    memory = _memory()
    if before + size > memory:
        raise CfgError(
            f"{section}: the network would need {(before + size) / 2**30:,.1f} GiB up to here, more than this "
            f"machine's {memory / 2**30:,.1f} GiB"
        )
    return size


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return LARGEST


def unread(placed: list[Placed]) -> list[str]:
    """Names of the layers that no later layer takes: the network's outputs."""
    read = set()
    for before, one in zip([None, *placed], placed):
        for reference in one.layer.sources():
            read.add(before.layer.name if reference == -1 else reference)
    return [one.layer.name for one in placed if one.layer.name not in read]


def in_order(placed: list[Placed]) -> Iterator[Placed]:
    """The layers that stand in sections."""
    return (one for one in placed if one.section is not None)

