"""What each section of a cfg file means: a layer of `nn`. One function per kind of section."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..nn.activations import ACTIVATIONS
from ..nn.initializers import Normal, Scaled
from ..nn.layers.base import Layer, Spec
from ..nn.layers.basic import Activation, Connected, Dropout, Logistic, Softmax
from ..nn.layers.convolution import AvgPool, Convolutional, MaxPool
from ..nn.layers.cost import COSTS, Cost
from ..nn.layers.detection import Detection, GaussianYolo, Iseg, Region, Yolo
from ..nn.layers.grouped_softmax import GroupedSoftmax
from ..nn.layers.merge import Route, Sam, ScaleChannels, Shortcut
from ..nn.layers.normalization import BatchNorm
from ..nn.layers.rearrange import Crop, FlatReorg, Reorg, Reorg3d, Shuffler, Upsample
from ..nn.layers.recurrent import SimpleRNN
from ..nn.layers.scaling import DropBlock, Empty, Implicit, L1Norm, L2Norm, Normalization
from ..nn.layers.sublayers import CRNN, RNN, ConvLSTM, GatedGRU, GatedLSTM
from ..nn.layers.unshared import (
    BlurredConvolutional,
    BlurredMaxPool,
    ChannelMaxPool,
    Deconvolutional,
    Local,
)
from .cfg import Cfg, CfgError, Section
from .dialects import Dialect
from .tree import read_tree

RENAMED = {"revleaky": "leaky", "selu": "selu_darknet", "gelu": "gelu_tanh"}
HE_NORMAL = Scaled(2.0, "in", "normal")
HE_UNIFORM = Scaled(2.0 / 3.0, "in", "uniform")  # uniform within sqrt(2 / inputs)
BLURS = {1: "binomial", 2: "mean"}


@dataclass
class Reading:
    """Where the reading of a cfg stands when a section is at hand.

    Attributes:
        section: at hand.
        previous: what comes out of the layer before.
        outputs, names: what comes out of each layer so far, and its name, by Darknet's numbers.
        common: settings that every layer takes: name, learning_rate, frozen.
        head_strides: of the heads, where the size of images is open.
    """

    cfg: Cfg
    dialect: Dialect
    section: Section
    previous: Spec
    outputs: list[Spec]
    names: list[str]
    common: dict[str, Any] = field(default_factory=dict)
    head_strides: dict[int, tuple[float, float]] = field(default_factory=dict)

    def activation(self, default: str = "logistic", key: str = "activation") -> str:
        name = self.section.choice(key, default, {**ACTIVATIONS, **RENAMED})
        return RENAMED.get(name, name)

    def normalized(self) -> Any:
        return self.dialect.statistics if self.section.flag("batch_normalize") else False

    def layer(self, number: int, key: str) -> int:
        """Darknet's number of a layer that the section refers to."""
        here = self.section.index
        found = number if number >= 0 else here + number
        if not 0 <= found < here:
            what = "itself or a later layer" if found >= here else "a layer before the first"
            raise CfgError(f"{self.section.place(key)}: {key}={number} refers to {what} (this is layer {here})")
        return found

    def layers(self, key: str) -> tuple[int, ...]:
        return tuple(self.layer(n, key) for n in self.section.wholes(key))

    def named(self, key: str) -> tuple[str, ...]:
        """The layers that a key lists, by their names in the Network."""
        return tuple(self.names[n] for n in self.layers(key))

    def strides(self) -> tuple[int, int]:
        """(vertical, horizontal)."""
        s = self.section
        stride = s.whole("stride", 1, least=1)
        return s.whole("stride_y", stride, least=1), s.whole("stride_x", stride, least=1)

    def padding(self, size: int) -> int:
        """size / 2 if pad is set, else padding."""
        padding = self.section.whole("padding", 0, least=0)
        return size // 2 if self.section.flag("pad") else padding


def convolutional(r: Reading) -> Layer:
    s = r.section
    size = s.whole("size", 1, least=1)
    dilation = s.whole("dilation", 1, least=1) if size > 1 else 1
    settings = dict(
        filters=s.whole("filters", 1, least=1),
        size=size,
        stride=r.strides(),
        padding=r.padding(size) * dilation,
        dilation=dilation,
        groups=s.whole("groups", 1, least=1),
        activation=r.activation(),
        batch_normalize=r.normalized(),
        initial=HE_NORMAL,
        **r.common,
    )
    for key in ("binary", "xnor", "bin_output"):
        if s.flag(key):
            raise CfgError(f"{s.place(key)}: {key}=1 (weights of one bit) isn't supported")
    blur = s.whole("antialiasing", 0, least=0)
    return BlurredConvolutional(**settings, blur=BLURS.get(blur, "binomial")) if blur else Convolutional(**settings)


def deconvolutional(r: Reading) -> Layer:
    s = r.section
    size = s.whole("size", 1, least=1)
    return Deconvolutional(
        s.whole("filters", 1, least=1), size, s.whole("stride", 1, least=1), r.padding(size), r.activation(),
        r.normalized(), HE_NORMAL, **r.common,
    )  # fmt: skip


def local(r: Reading) -> Layer:
    s = r.section
    size = s.whole("size", 1, least=1)
    padding = size // 2 if s.flag("pad") else 0
    return Local(
        s.whole("filters", 1, least=1), size, s.whole("stride", 1, least=1), padding, r.activation(), HE_UNIFORM,
        **r.common,
    )  # fmt: skip


def connected(r: Reading) -> Layer:
    return Connected(
        r.section.whole("output", 1, least=1), r.activation(), batch_normalize=r.normalized(), initial=HE_UNIFORM,
        **r.common,
    )  # fmt: skip


def _pool(r: Reading) -> dict[str, Any]:
    s = r.section
    stride = s.whole("stride", 1, least=1)
    size = s.whole("size", stride, least=1)
    padding = s.whole("padding", size - 1, least=0)
    side = (padding // 2, padding - padding // 2)  # the padding is the total, the odd cell at the right and bottom
    return dict(size=size, stride=r.strides(), padding=(side, side), **r.common)


def maxpool(r: Reading) -> Layer:
    s = r.section
    if s.flag("maxpool_depth"):
        return ChannelMaxPool(s.whole("out_channels", 1, least=1), **r.common)
    blur = s.whole("antialiasing", 0, least=0)
    return BlurredMaxPool(**_pool(r), blur=BLURS.get(blur, "binomial")) if blur else MaxPool(**_pool(r))


def local_avgpool(r: Reading) -> Layer:
    return AvgPool(**_pool(r), counts_padding=False)


def avgpool(r: Reading) -> Layer:
    return AvgPool(**r.common)


def dropout(r: Reading) -> Layer:
    s = r.section
    probability = s.real("probability", 0.5 if r.dialect.name == "pjreddie" else 0.2)
    if not s.flag("dropblock"):
        return Dropout(probability, **r.common)
    size = s.whole("dropblock_size_abs", 7, least=1)
    if "dropblock_size_rel" in s and len(r.previous.shape) == 3:
        size = max(1, int(s.real("dropblock_size_rel") * r.previous.shape[1]))
    return DropBlock(probability, size, **r.common)


def batchnorm(r: Reading) -> Layer:
    kept = r.dialect.statistics
    return BatchNorm(kept.epsilon, kept.momentum, kept.epsilon_outside, kept.unbiased, **r.common)


def activation(r: Reading) -> Layer:
    return Activation(r.activation("linear"), **r.common)


def softmax(r: Reading) -> Layer:
    s = r.section
    groups, temperature = s.whole("groups", 1, least=1), s.real("temperature", 1.0)
    if "tree" in s:
        return GroupedSoftmax(read_tree(s.text("tree")).group_sizes, temperature, **r.common)
    shape = r.previous.shape
    pixel = len(shape) < 3 or shape[:2] == (1, 1)
    if s.flag("spatial") or (groups == 1 and pixel):
        return Softmax(temperature, **r.common)
    return GroupedSoftmax(groups, temperature, **r.common)


def logistic(r: Reading) -> Layer:
    return Logistic(**r.common)


def l1norm(r: Reading) -> Layer:
    return L1Norm(**r.common)


def l2norm(r: Reading) -> Layer:
    return L2Norm(**r.common)


def cost(r: Reading) -> Layer:
    s = r.section
    return Cost(
        s.choice("type", "sse", COSTS), s.real("scale", 1.0), s.real("ratio", 0.0), s.real("noobj", 1.0),
        s.real("thresh", 0.0), s.real("smoothing", 0.0), **r.common,
    )  # fmt: skip


def crop(r: Reading) -> Layer:
    s = r.section
    return Crop(
        s.whole("crop_height", 1, least=1), s.whole("crop_width", 1, least=1), s.flag("flip"), not s.flag("noadjust"),
        **r.common,
    )  # fmt: skip


def normalization(r: Reading) -> Layer:
    s = r.section
    return Normalization(
        s.whole("size", 5, least=1), s.real("alpha", 1e-4), s.real("beta", 0.75), s.real("kappa", 1.0), **r.common
    )


def route(r: Reading) -> Layer:
    s = r.section
    layers = r.named("layers")
    return Route(layers, s.whole("groups", 1, least=1), s.whole("group_id", 0, least=0), **r.common)


def shortcut(r: Reading) -> Layer:
    s = r.section
    kinds = {"none": "none", "per_feature": "per_layer", "per_layer": "per_layer", "per_channel": "per_channel"}
    weights = kinds[s.choice("weights_type", "none", kinds)]
    scaled = {"none": "none", "relu": "relu", "avg_relu": "relu", "softmax": "softmax"}
    normalized = scaled[s.choice("weights_normalization", "none", scaled)]
    layers = r.named("from")
    previous, others = r.previous.shape, [r.outputs[n].shape for n in r.layers("from")]
    resamples = r.dialect.resamples and any(len(o) == 3 and o[:2] != previous[:2] for o in others)
    return Shortcut(
        layers, r.activation("linear"), s.real("alpha", 1.0), s.real("beta", 1.0), weights, normalized,
        "resample" if resamples else "leading", **r.common,
    )  # fmt: skip


def upsample(r: Reading) -> Layer:
    stride = r.section.whole("stride", 2)
    scale = r.section.real("scale", 1.0)
    if stride == 0:
        raise CfgError(f"{r.section.place('stride')}: stride=0; expected a factor, negative to make images smaller")
    return Upsample(abs(stride), scale, "sum" if stride < 0 else "", **r.common)


def shuffler(r: Reading) -> Layer:
    return Shuffler(r.section.whole("scale", 2, least=1), **r.common)


def reorg(r: Reading) -> Layer:
    s = r.section
    if s.whole("extra", 0):
        raise CfgError(f"{s.place('extra')}: extra isn't supported")
    kind = FlatReorg if s.flag("flatten") else Reorg
    return kind(s.whole("stride", 1, least=1), s.flag("reverse"), **r.common)


def reorg3d(r: Reading) -> Layer:
    return Reorg3d(r.section.whole("stride", 1, least=1), r.section.flag("reverse"), **r.common)


def rnn(r: Reading) -> Layer:
    s = r.section
    outputs = s.whole("output", 1, least=1)
    hidden = outputs if r.dialect.name == "pjreddie" else s.whole("hidden", 1, least=1)
    return RNN(outputs, hidden, r.activation(), r.normalized(), s.flag("shortcut"), HE_UNIFORM, **r.common)


def simple_rnn(r: Reading) -> Layer:
    outputs = r.section.whole("output", 1, least=1)
    return SimpleRNN(outputs, return_sequences=True, activation=r.activation("tanh"), **r.common)


def lstm(r: Reading) -> Layer:
    return GatedLSTM(r.section.whole("output", 1, least=1), r.normalized(), HE_UNIFORM, **r.common)


def gru(r: Reading) -> Layer:
    candidate = "tanh" if r.section.flag("tanh") else "logistic"
    return GatedGRU(r.section.whole("output", 1, least=1), candidate, r.normalized(), HE_UNIFORM, **r.common)


def crnn(r: Reading) -> Layer:
    s = r.section
    size = s.whole("size", 3, least=1)
    given = "pad" in s or "padding" in s or "size" in s
    return CRNN(
        s.whole("output" if "output" in s else "output_filters", 1, least=1),
        s.whole("hidden" if "hidden" in s else "hidden_filters", 1, least=1),
        r.activation(),
        r.normalized(),
        s.flag("shortcut"),
        HE_NORMAL,
        size=size,
        stride=s.whole("stride", 1, least=1),
        dilation=s.whole("dilation", 1, least=1),
        padding=r.padding(size) if given else size // 2,
        groups=s.whole("groups", 1, least=1),
        **r.common,
    )


def conv_lstm(r: Reading) -> Layer:
    s = r.section
    if s.flag("bottleneck"):
        raise CfgError(f"{s.place('bottleneck')}: bottleneck=1 isn't supported")
    size = s.whole("size", 3, least=1)
    return ConvLSTM(
        s.whole("output", 1, least=1),
        size,
        s.whole("stride", 1, least=1),
        s.whole("dilation", 1, least=1),
        r.padding(size),
        s.whole("groups", 1, least=1),
        r.activation("linear"),
        r.activation("tanh", "lstm_activation"),
        s.flag("peephole"),
        s.real("state_constrain", 0.0, least=0),
        r.normalized(),
        HE_NORMAL,
        **r.common,
    )


def scale_channels(r: Reading) -> Layer:
    (other,) = _one(r, "from")
    return ScaleChannels(other, r.section.flag("scale_wh"), r.activation("linear"), **r.common)


def sam(r: Reading) -> Layer:
    (other,) = _one(r, "from")
    return Sam(other, r.activation("linear"), **r.common)


def _one(r: Reading, key: str) -> tuple[str, ...]:
    layers = r.named(key)
    if len(layers) != 1:
        raise CfgError(f"{r.section.place(key)}: {key} names {len(layers)} layers; expected one")
    return layers


def implicit(r: Reading) -> Layer:
    s = r.section
    return Implicit(
        s.whole("filters", 128, least=1), s.whole("atoms", 1, least=1), Normal(s.real("std", 0.2, least=0)), **r.common
    )


def empty(r: Reading) -> Layer:
    return Empty(**r.common)


# --- heads ------------------------------------------------------------------------------------------------------------


def _anchors(r: Reading, numbers: int) -> tuple[tuple[float, float], ...]:
    s = r.section
    values = s.reals("anchors") if "anchors" in s else (0.5,) * (2 * numbers)
    if len(values) < 2 * numbers or any(v <= 0 for v in values):
        raise CfgError(
            f"{s.place('anchors')}: num={numbers} anchors need {2 * numbers} numbers above 0, got {len(values)}"
        )
    return tuple(zip(values[0 : 2 * numbers : 2], values[1 : 2 * numbers : 2]))


def _check_filters(r: Reading, anchors: int, entries: int, formula: str) -> None:
    """A head takes anchors x entries channels; the message says which section to change."""
    shape = r.previous.shape
    expected = anchors * entries
    if len(shape) != 3 or shape[2] != expected:
        found = shape[2] if len(shape) == 3 else r.previous
        before = r.cfg.layers[r.section.index - 1] if r.section.index else r.cfg.net
        raise CfgError(
            f"{r.section}: takes {anchors} x ({formula}) = {expected} channels, but {before} gives {found}: "
            f"set filters={expected} there"
        )


def _stride(r: Reading) -> tuple[float, float]:
    """Pixels of the network's input per cell, (vertical, horizontal)."""
    net, (height, width, _) = r.cfg.net, r.previous.shape
    if None in (height, width):
        return r.head_strides[r.section.index]
    return net.whole("height") / height, net.whole("width") / width


def _yolo(r: Reading, extra: int) -> dict[str, Any]:
    s = r.section
    classes, num = s.whole("classes", 20, least=1), s.whole("num", 1, least=1)
    mask = s.wholes("mask") if "mask" in s else tuple(range(num))
    if any(not 0 <= m < num for m in mask):
        raise CfgError(f"{s.place('mask')}: mask={s.text('mask')}; expected numbers from 0 to num - 1 = {num - 1}")
    formula = f"{classes} classes + {5 + extra}"
    _check_filters(r, len(mask), classes + 5 + extra, formula)
    return dict(
        classes=classes,
        anchors=_anchors(r, num),
        mask=mask,
        stride=_stride(r),
        ignore_threshold=s.real("ignore_thresh", 0.5),
        truth_threshold=s.real("truth_thresh", 1.0),
        scale_xy=s.real("scale_x_y", 1.0),
        new_coordinates=s.flag("new_coords"),
        iou_loss=s.choice("iou_loss", "mse", ("mse", "iou", "giou", "diou", "ciou")),
        iou_normalizer=s.real("iou_normalizer", 0.75),
        object_normalizer=s.real("obj_normalizer", 1.0),
        class_normalizer=s.real("cls_normalizer", 1.0),
        iou_threshold=s.real("iou_thresh", 1.0),
        label_smoothing=s.real("label_smooth_eps", 0.0, least=0),
        focal=s.flag("focal_loss"),
        smooth_objectness=s.flag("objectness_smooth"),
        nms=s.choice("nms_kind", "default", ("default", "greedynms", "diounms", "cornersnms")),
        nms_beta=s.real("beta_nms", 0.6),
        most=s.whole("max", 90 if r.dialect.name == "pjreddie" else 200, least=1),
        ignores_any_class=r.dialect.name == "pjreddie",
        **r.common,
    )


def yolo(r: Reading) -> Layer:
    return Yolo(**_yolo(r, 0))


def gaussian_yolo(r: Reading) -> Layer:
    return GaussianYolo(**_yolo(r, 4), uncertainty_normalizer=r.section.real("uc_normalizer", 1.0))


def region(r: Reading) -> Layer:
    s = r.section
    classes, num, coords = s.whole("classes", 20, least=1), s.whole("num", 1, least=1), s.whole("coords", 4, least=4)
    background = s.flag("background")
    _check_filters(r, num, coords + 1 + classes, f"{classes} classes + {coords + 1}")
    parents = read_tree(s.text("tree")).parents if "tree" in s else ()
    return Region(
        classes=classes,
        anchors=_anchors(r, num),
        coords=coords,
        softmax=s.flag("softmax"),
        background=background,
        parents=parents,
        threshold=s.real("thresh", 0.5),
        rescore=s.flag("rescore"),
        bias_match=s.flag("bias_match"),
        coord_scale=s.real("coord_scale", 1.0),
        object_scale=s.real("object_scale", 1.0),
        noobject_scale=s.real("noobject_scale", 1.0),
        class_scale=s.real("class_scale", 1.0),
        mask_scale=s.real("mask_scale", 1.0),
        most=s.whole("max", 30, least=1),
        **r.common,
    )


def detection(r: Reading) -> Layer:
    s = r.section
    classes, coords, num = s.whole("classes", 1, least=1), s.whole("coords", 1, least=1), s.whole("num", 1, least=1)
    side = s.whole("side", 7, least=1)
    expected = side * side * ((1 + coords) * num + classes)
    found = 1
    for n in r.previous.shape:
        found *= n
    if found != expected:
        raise CfgError(
            f"{s}: takes side^2 x ((1 + coords) x num + classes) = {side}^2 x ((1 + {coords}) x {num} + {classes}) = "
            f"{expected} numbers, got {found}"
        )
    return Detection(
        classes=classes,
        coords=coords,
        side=side,
        number=num,
        softmax=s.flag("softmax"),
        sqrt=s.flag("sqrt"),
        rescore=s.flag("rescore"),
        coord_scale=s.real("coord_scale", 1.0),
        object_scale=s.real("object_scale", 1.0),
        noobject_scale=s.real("noobject_scale", 1.0),
        class_scale=s.real("class_scale", 1.0),
        most=s.whole("max", 90, least=1),
        **r.common,
    )


def iseg(r: Reading) -> Layer:
    classes, ids = r.section.whole("classes", 20, least=1), r.section.whole("ids", 32, least=0)
    _check_filters(r, 1, classes + ids, f"{classes} classes + {ids} ids")
    return Iseg(classes, ids, **r.common)


READERS: dict[str, Callable[[Reading], Layer]] = {
    "Gaussian_yolo": gaussian_yolo,
    **{
        f.__name__: f
        for f in (
            activation, avgpool, batchnorm, connected, conv_lstm, convolutional, cost, crnn, crop, deconvolutional,
            detection, dropout, empty, gru, implicit, iseg, l1norm, l2norm, local, local_avgpool, logistic, lstm,
            maxpool, normalization, region, reorg, reorg3d, rnn, route, sam, scale_channels, shortcut, shuffler,
            simple_rnn, softmax, upsample, yolo,
        )
    },
}  # fmt: skip
