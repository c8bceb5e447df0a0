"""Overlaps of boxes against areas counted out, and the cases where a quotient has nothing below."""

from math import atan, pi

import numpy as np
import pytest

import pullback as pb
from pullback.errors import ArgumentError, ShapeError
from pullback.graph import evaluate

KINDS = {"iou": pb.box_iou, "giou": pb.box_giou, "diou": pb.box_diou, "ciou": pb.box_ciou}


def run(output):
    return evaluate([output])[0]


def measures(a, b) -> dict[str, float]:
    """All four for two boxes (left, top, right, bottom), by arithmetic on numbers."""
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(across, 0) * max(down, 0)
    (wa, ha), (wb, hb) = ((x[2] - x[0], x[3] - x[1]) for x in (a, b))
    union = wa * ha + wb * hb - common
    width, height = max(a[2], b[2]) - min(a[0], b[0]), max(a[3], b[3]) - min(a[1], b[1])
    iou = common / union
    centres = sum(((a[i] + a[i + 2]) / 2 - (b[i] + b[i + 2]) / 2) ** 2 for i in (0, 1))
    diou = iou - centres / (width**2 + height**2)
    v = 4 / pi**2 * (atan(wa / ha) - atan(wb / hb)) ** 2
    giou = iou - (width * height - union) / (width * height)
    return {"iou": iou, "giou": giou, "diou": diou, "ciou": diou - v * v / (1 - iou + v)}


@pytest.fixture
def corners(rng):
    """Pairs of boxes, some of them far apart, as (left, top, right, bottom)."""
    low = rng.uniform(-2, 2, (2, 20, 2))
    return np.concatenate([low, low + rng.uniform(0.2, 3, (2, 20, 2))], -1)


@pytest.mark.parametrize("kind", KINDS)
def test_values_in_every_format(corners, kind) -> None:
    expected = [measures(p, q)[kind] for p, q in zip(*corners)]
    size = corners[..., 2:] - corners[..., :2]
    forms = {
        "xyxy": corners,
        "xywh": np.concatenate([corners[..., :2], size], -1),
        "cxcywh": np.concatenate([corners[..., :2] + size / 2, size], -1),
    }
    for fmt, (a, b) in forms.items():
        np.testing.assert_allclose(run(KINDS[kind](a, b, fmt)), expected, atol=1e-12)
        np.testing.assert_allclose(run(pb.box_loss(a, b, kind, fmt, "none")), 1 - np.array(expected), atol=1e-12)


def test_boxes_meet_pairwise_by_broadcasting(corners) -> None:
    a, b = corners[0, :3], corners[1, :5]
    found = run(pb.box_iou(a[:, None], b, "xyxy"))
    assert found.shape == (3, 5)
    np.testing.assert_allclose(found, [[measures(p, q)["iou"] for q in b] for p in a], atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        ([0, 0, 0, 0], [0, 0, 0, 0], 0.0),
        ([1, 1, 2, 3], [1, 1, 2, 3], 1.0),
        ([1, 1, -2, 3], [1, 1, 0, 3], 0.0),
    ],
)
def test_empty_and_equal_boxes_are_finite_to_the_second_order(kind, a, b, value) -> None:
    x, y = pb.dvector(), pb.dvector()
    overlap = KINDS[kind](x, y)
    first = pb.grad(overlap, [x, y])
    second = pb.grad(pb.sum(pb.square(first[0])) + pb.sum(first[1] * 3.0), [x, y])
    found = evaluate([overlap, *first, *second], {x: np.array(a, float), y: np.array(b, float)})
    assert all(np.isfinite(v).all() for v in found)
    assert kind != "iou" or found[0] == value


@pytest.mark.parametrize("kind", ["giou", "diou", "ciou"])
def test_boxes_apart_still_say_which_way_to_go(kind) -> None:
    x = pb.dvector()
    g = evaluate([pb.grad(KINDS[kind](x, [4.0, 0.0, 1.0, 1.0]), x)], {x: np.array([0.0, 0.0, 1.0, 1.0])})[0]
    assert g[0] > 0
    plain = evaluate([pb.grad(pb.box_iou(x, [4.0, 0.0, 1.0, 1.0]), x)], {x: np.array([0.0, 0.0, 1.0, 1.0])})[0]
    np.testing.assert_array_equal(plain, [0.0, 0.0, 0.0, 0.0])


def test_dtypes() -> None:
    box = np.ones((2, 4), "float32")
    assert run(pb.box_ciou(box, box)).dtype == "float32"
    assert pb.box_iou(np.ones((2, 4), int), box).dtype == "float32"


def test_refusals() -> None:
    with pytest.raises(ArgumentError, match="box_iou: fmt='yxyx'; expected one of"):
        pb.box_iou(pb.dmatrix(), pb.dmatrix(), "yxyx")
    with pytest.raises(ShapeError, match=r"box_giou: a box has 4 numbers \(cxcywh\) .* got float64\[2, 5\]"):
        pb.box_giou(np.ones((2, 5)), np.ones((2, 4)))
    with pytest.raises(ArgumentError, match="kind='eiou'; expected one of"):
        pb.box_loss(pb.dmatrix(), pb.dmatrix(), "eiou")
