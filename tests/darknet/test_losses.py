"""Losses of heads: the gradient is that of the cost which is shown; assignments are Darknet's."""

import numpy as np
import pytest

import pullback as pb
from pullback.darknet import CostLoss, RegionLoss, YoloLoss, losses_of, parse_cfg
from pullback.darknet.assignment import YoloAssignment, best_overlaps, shape_overlap
from pullback.errors import ArgumentError, IndexRangeError, ShapeError
from pullback.nn import Cost, Network, Region, Yolo
from pullback.nn.layers.base import Spec

NET = """[net]
width=24
height=16
channels=2
[convolutional]
filters=5
size=3
stride=2
pad=1
activation=mish
[convolutional]
filters={}
size=3
stride=2
pad=1
activation={}
[{}]
{}
"""
ANCHORS = "classes=3\nnum=3\nmask=0,2\nanchors=3,4,6,5,12,10\n"
HEADS = {
    "yolo": NET.format(16, "linear", "yolo", ANCHORS),
    "yolo with ciou": NET.format(
        16, "linear", "yolo", ANCHORS + "iou_loss=ciou\nscale_x_y=1.2\niou_thresh=.2\nlabel_smooth_eps=.1\n"),
    "yolo with new coordinates": NET.format(
        16, "logistic", "yolo", ANCHORS + "new_coords=1\nscale_x_y=2\nfocal_loss=1\n"),
    "Gaussian_yolo": NET.format(24, "linear", "Gaussian_yolo", ANCHORS),
    "Gaussian_yolo with giou": NET.format(24, "linear", "Gaussian_yolo", ANCHORS + "iou_loss=giou\n"),
    "region": NET.format(16, "linear", "region", "classes=3\nnum=2\nanchors=1,1,2,2\nsoftmax=1\n"),
    "region by logistic": NET.format(
        16, "linear", "region", "classes=3\nnum=2\nanchors=1,1,2,2\nbias_match=1\nnoobject_scale=.5\ncoord_scale=2\n"),
    "region with background": NET.format(16, "linear", "region", "classes=3\nnum=2\nanchors=1,1,2,2\nbackground=1\n"),
    "detection": NET.format(4, "linear", "connected", "output=52\nactivation=linear\n")
    + "[detection]\nclasses=3\ncoords=4\nside=2\nnum=2\nsqrt=1\ncoord_scale=5\nnoobject_scale=.5\n",
    "detection with softmax": NET.format(4, "linear", "connected", "output=52\nactivation=linear\n")
    + "[detection]\nclasses=3\ncoords=4\nside=2\nnum=2\nsoftmax=1\n",
    "iseg": NET.format(7, "linear", "iseg", "classes=3\nids=4\n"),
    "cost": NET.format(4, "linear", "avgpool", "") + "[cost]\ntype=smooth\nscale=2\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_the_gradient_is_that_of_the_cost(name):
    net = Network.from_darknet(parse_cfg(HEADS[name]), dtype="float64", seed=2)
    net.compile("sgd", losses_of(net))
    report = net.check_gradients(samples=3, points=1)
    assert report.largest(1) < 1e-6


@pytest.mark.parametrize("name", ["yolo", "region", "detection", "Gaussian_yolo", "iseg"])
def test_training_lowers_the_cost(name):
    net = Network.from_darknet(parse_cfg(HEADS[name]))
    loss = losses_of(net)[0]
    net.compile(pb.nn.Adam(5e-3), [loss])
    x = np.random.default_rng(0).random((4, 16, 24, 2)).astype("float32")
    y = loss.example(net.outputs[0].output, 4, np.random.default_rng(1))
    costs = [net.train_on_batch(x, y) for _ in range(25)]
    assert costs[-1] < 0.9 * costs[0]
    assert np.isfinite(net.evaluate(x, y)["loss"]) and net.predict(x).shape[0] == 4


def gradient(loss, head, raw, truths):
    x = pb.tensor("float64", raw.shape, "x")
    cost = pb.sum(loss(head.split(x), pb.asarray(truths)))
    return pb.function([x], pb.grad(cost, x))(raw)


@pytest.fixture
def yolo():
    head = Yolo(2, ((8.0, 8.0), (16.0, 12.0)), (0, 1), (8.0, 8.0), iou_normalizer=1.0)
    raw = np.random.default_rng(0).normal(size=(1, 3, 4, 14))
    return head, raw, np.array([[[1, 0.6, 0.4, 0.5, 0.55], [0, 0, 0, 0, 0]]])


def test_darknet_gradients_are_darknets_deltas(yolo):
    head, raw, truths = yolo
    true = -gradient(YoloLoss(head), head, raw, truths)
    theirs = -gradient(YoloLoss(head, darknet_gradients=True), head, raw, truths)
    x, y, w, h = truths[0, 0, 1:]
    row, column, n = 1, 2, 1  # 0.6 x 4 and 0.4 x 3; 16 x 13.2 pixels are like the second anchor
    t = raw[0, row, column, 7 * n : 7 * n + 7]
    s = 1 / (1 + np.exp(-t))
    scale = 2 - w * h
    delta = [
        scale * (x * 4 - column - s[0]),
        scale * (y * 3 - row - s[1]),
        scale * (np.log(w * 32 / 16) - t[2]),
        scale * (np.log(h * 24 / 12) - t[3]),
        1 - s[4],
        0 - s[5],
        1 - s[6],
    ]
    found = theirs[0, row, column, 7 * n : 7 * n + 7]
    assert np.allclose(found, delta, atol=1e-9)
    assert np.allclose(true[0, row, column, 7:9], np.array(delta[:2]) * s[:2] * (1 - s[:2]), atol=1e-9)
    assert np.allclose(np.delete(true, np.s_[7:9], 3), np.delete(theirs, np.s_[7:9], 3), atol=1e-12)
    # without a truth: the objectness is drawn to 0, all else is left alone
    other = true[0, 0, 0].reshape(2, 7)
    assert np.allclose(other[:, 4], -1 / (1 + np.exp(-raw[0, 0, 0].reshape(2, 7)[:, 4])))
    assert not other[:, [0, 1, 2, 3, 5, 6]].any()


def test_boxes_that_overlap_a_truth_learn_no_objectness(yolo):
    head, raw, truths = yolo
    raw = raw.copy()
    # the first anchor of the truth's cell predicts the truth itself
    raw[0, 1, 2, :4] = [np.log(0.4 / 0.6), np.log(0.2 / 0.8), np.log(16 / 8), np.log(13.2 / 8)]
    assert gradient(YoloLoss(head), head, raw, truths)[0, 1, 2, 4] == 0
    lax = Yolo(2, head.anchors, head.mask, head.stride, ignore_threshold=1.0)
    assert gradient(YoloLoss(lax), lax, raw, truths)[0, 1, 2, 4] > 0


def test_assignment_takes_every_anchor_that_is_like_enough():
    boxes, probabilities = np.full((1, 2, 2, 2, 4), 0.01), np.zeros((1, 2, 2, 2, 3))
    truths = np.array([[[2, 0.25, 0.75, 0.5, 0.5], [1, 1.0, 1.0, 0.5, 0.5], [0, 0.5, 2.0, 0.1, 0.1]]])
    settings = (((1.0, 1.0), (0.9, 1.0)), (0, 1), 0.5, 1.0)
    for threshold, count in ((1.0, 2), (0.85, 4)):
        op = YoloAssignment(*settings, threshold, True, False)
        objectness, box, classes = op.perform(boxes, probabilities, truths)
        assert box[..., 4].sum() == count and objectness[..., 0].sum() == count
        assert box[0, 1, 0, 0, :4].tolist() == truths[0, 0, 1:].tolist()
        assert classes[0, 1, 0, 0].tolist() == [0, 0, 1] and classes[0, 1, 1, 0].tolist() == [0, 1, 0]
    assert shape_overlap(np.array([[1.0, 2.0]]), np.array([2.0, 1.0]))[0] == pytest.approx(1 / 3)
    assert best_overlaps(np.zeros((3, 4)), np.zeros((2, 5)))[0].tolist() == [0, 0, 0]


def test_ignoring_by_class_needs_a_class_that_is_likely():
    boxes = np.tile(np.array([0.5, 0.5, 0.4, 0.4]), (1, 1, 1, 2, 1))
    truths = np.array([[[1, 0.5, 0.5, 0.4, 0.4]]])
    probabilities = np.array([[0.0, 0.9], [0.9, 0.0]]).reshape(1, 1, 1, 2, 2)
    op = YoloAssignment(((9.0, 9.0), (9.0, 9.0), (0.4, 0.4)), (0, 1), 0.5, 1.0, 1.0, False, False)
    assert op.perform(boxes, probabilities, truths)[0][..., 1].ravel().tolist() == [0, 1]
    smooth = YoloAssignment(op.sizes, op.mask, 0.5, 1.0, 1.0, False, True)
    assert np.allclose(smooth.perform(boxes, probabilities, truths)[0].reshape(2, 2), [[1, 1], [0, 1]])


def test_rescoring_learns_the_overlap_and_warming_draws_to_anchors():
    raw = np.zeros((1, 1, 1, 7))
    truths = np.array([[[0, 0.5, 0.5, 0.5, 1.0]]])
    head = Region(2, ((1.0, 1.0),), softmax=True, rescore=True)
    g = gradient(RegionLoss(head), head, raw, truths)  # the box is the whole image: IoU 0.5, objectness 0.5
    assert g[0, 0, 0, 4] == pytest.approx(0)
    cold, warm = (gradient(RegionLoss(head, warm=w), head, raw + 1, np.zeros((1, 1, 5))) for w in (False, True))
    assert not cold[0, 0, 0, :4].any() and warm[0, 0, 0, 2] == pytest.approx(0.01)


def test_costs():
    p, t = np.array([[0.2, 0.9, -3.0]]), np.array([[1.0, 0.0, 1234.0]])

    def run(t=t, **options):
        x = pb.tensor("float64", p.shape, "x")
        cost = CostLoss(Cost(**options))(x, pb.asarray(t))
        value, g = pb.function([x], [cost, pb.grad(pb.sum(cost), x)])(p)
        return float(value[0]), g[0].tolist()

    value, g = run(type="masked")
    assert value == pytest.approx(0.64 + 0.81) and g == pytest.approx([-1.6, 1.8, 0])
    value, g = run(t=np.array([[1.0, 0.0, 0.0]]), type="smooth", scale=2.0)
    assert value == pytest.approx(2 * (0.64 + 0.81 + 5)) and g == pytest.approx([-3.2, 3.6, -4])
    value, g = run(t=np.array([[1.0, 0.0, 1.0]]), type="wgan")
    assert value == pytest.approx(-0.2 + 0.9 + 3) and g == pytest.approx([-1, 1, -1])
    value, g = run(t=np.array([[1.0, -1.0, 1.0]]), type="hinge")
    assert value == pytest.approx(0.8 + 1.9 + 4) and g == pytest.approx([-1, 1, -1])
    value, g = run(t=np.array([[1.0, 0.0, 0.0]]), type="seg", noobj=0.5)
    assert value == pytest.approx(0.64 + 0.5 * (0.81 + 9)) and g == pytest.approx([-1.6, 0.9, -3])
    value, g = run(t=np.array([[1.0, 0.0, 0.0]]), type="sse", thresh=0.85)
    assert value == pytest.approx(0.81 + 9) and g[0] == 0
    value, g = run(t=np.array([[1.0, 0.0, 0.0]]), type="sse", ratio=0.3)
    assert g[:2] == [0, 0] and g[2] == pytest.approx(-6)
    with pytest.raises(ArgumentError, match="type='l3'"):
        Cost("l3")


def test_targets_are_checked(yolo):
    loss, spec = YoloLoss(yolo[0]), Spec((24, 7), "float32")
    with pytest.raises(ShapeError, match=r"expected \(n, truths, 5\)"):
        loss.target_type(spec, np.zeros((3, 5)))
    with pytest.raises(IndexRangeError, match="classes from 2 to 2; the network has 2"):
        loss.check(spec, np.array([[[2, 0.5, 0.5, 0.1, 0.1]]]))
    with pytest.raises(ArgumentError, match="nan"):
        loss.check(spec, np.full((1, 1, 5), np.nan))


GRADIENTS = {
    "l2norm": ("[l2norm]\n", lambda x, g: g),
    "softmax": ("[softmax]\ntemperature=2\nspatial=1\n", lambda x, g: g),
    "normalization": ("[normalization]\nalpha=.5\nsize=3\n", lambda x, g: g * lrn_factor(x)),
    "activation": ("[activation]\nactivation=tanh\n", lambda x, g: g * (1 - np.tanh(x) ** 2)),
}


def lrn_factor(x):
    squares = np.pad(np.square(x), ((0, 0),) * 3 + ((1, 1),))
    return (1 + 0.5 * sum(squares[..., i : i + x.shape[-1]] for i in range(3))) ** -0.75


@pytest.mark.parametrize("name", GRADIENTS)
def test_layers_with_darknets_gradients(name):
    section, expected = GRADIENTS[name]
    text = f"[net]\nwidth=2\nheight=2\nchannels=3\n{section}[activation]\nactivation=linear\n"
    x = np.random.default_rng(0).normal(size=(2, 2, 2, 3))
    upstream = np.random.default_rng(1).normal(size=x.shape)
    symbol = pb.tensor("float64", x.shape, "x")
    values, gradients = [], []
    for theirs in (False, True):
        y = Network.from_darknet(parse_cfg(text), dtype="float64", darknet_gradients=theirs)(symbol)
        value, g = pb.function([symbol], [y, pb.grad(pb.sum(y * upstream), symbol)])(x)
        values.append(value)
        gradients.append(g)
    assert np.allclose(*values)
    assert np.allclose(gradients[1], expected(x, upstream))
    assert np.allclose(*gradients) == (name == "activation")


def test_a_gru_with_darknets_gradient_learns_nothing_before_it():
    text = parse_cfg("[net]\ninputs=3\n[connected]\noutput=3\n[gru]\noutput=2\n[connected]\noutput=2\n")
    net = Network.from_darknet(text, darknet_gradients=True)
    net.compile("sgd", "mse")
    x = np.ones((2, 4, 3), "float32")
    _, gradients = net.gradient(x, np.zeros((2, 4, 2), "float32"))
    silent = {name for name, g in gradients.items() if not g.any()}
    assert {name.split(".")[0] for name in silent} == {"connected_0", "gru_1"}


def test_smooth_costs_with_darknets_gradient_point_away_beyond_one():
    x = pb.tensor("float64", (1, 2), "x")
    loss = CostLoss(Cost("smooth"), darknet_gradients=True)(x, pb.asarray(np.zeros((1, 2))))
    value, g = pb.function([x], [loss, pb.grad(pb.sum(loss), x)])(np.array([[0.5, 3.0]]))
    assert value[0] == pytest.approx(0.25 + 5) and g[0].tolist() == [1.0, -2.0]
