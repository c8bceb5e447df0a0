"""From rows of boxes to objects, from objects to mAP, and the files around them."""

import json

import numpy as np
import pytest
from PIL import Image

from pullback.cli import main
from pullback.darknet import (
    CfgWarning,
    Detector,
    Found,
    average_precision,
    evaluate,
    label_path,
    parse_cfg,
    read_data,
    read_labels,
    read_list,
    read_names,
    suppress,
)
from pullback.darknet.detector import frames_of
from pullback.darknet.images import as_photo, letterboxed, prepared, read_image
from pullback.darknet.suppression import distance_overlap, overlap
from pullback.darknet.tree import read_tree
from pullback.errors import ArgumentError, ArgumentTypeError, FileAccessError, FormatError, PullbackError, ShapeError
from pullback.nn import Network

# --- suppression ------------------------------------------------------------------------------------------------------


def test_overlaps():
    a, b = np.array([0.5, 0.5, 0.4, 0.4]), np.array([0.6, 0.5, 0.4, 0.4])
    assert overlap(a, b) == pytest.approx(0.12 / 0.2)
    assert distance_overlap(a, b) == pytest.approx(0.6 - 0.01 / (0.25 + 0.16))
    assert overlap(a, np.zeros(4)) == 0 and overlap(np.zeros(4), np.zeros(4)) == 0


ROWS = np.array([[
    [0.50, 0.5, 0.4, 0.4, 0.9, 0.8, 0.1],
    [0.55, 0.5, 0.4, 0.4, 0.8, 0.7, 0.6],
    [0.20, 0.2, 0.1, 0.1, 0.7, 0.0, 0.6],
    [0.90, 0.9, 0.1, 0.1, 0.3, 0.2, 0.3],
    [np.nan, 0.9, 0.1, 0.1, 0.9, 0.9, 0.9],
]])  # fmt: skip


def test_suppression_is_per_class_and_the_surest_stays():
    (found,) = suppress(ROWS, threshold=0.5)
    assert [(o.label, o.score, o.box[0]) for o in found] == [(0, 0.8, 0.5), (1, 0.6, 0.55), (1, 0.6, 0.2)]
    (found,) = suppress(ROWS, threshold=0.5, iou_threshold=0.9)
    assert [o.score for o in found] == [0.8, 0.7, 0.6, 0.6]
    (found,) = suppress(ROWS, threshold=0.5, kind="objectness")
    assert [(o.label, o.objectness) for o in found] == [(0, 0.9), (1, 0.7)]
    (found,) = suppress([ROWS[:, :2], ROWS[:, 2:]], threshold=0.25)
    assert len(found) == 4


def test_suppression_by_distance_keeps_boxes_that_lie_apart():
    rows = np.array([[[0.5, 0.5, 0.4, 0.4, 1, 0.9], [0.6, 0.5, 0.4, 0.4, 1, 0.8]]])  # IoU 0.6, DIoU 0.5756
    assert [len(suppress(rows, 0.1, 0.59, kind)[0]) for kind in ("default", "greedynms", "diounms")] == [1, 2, 2]


def test_suppression_refuses_what_makes_no_sense():
    with pytest.raises(ArgumentError, match="iou_threshold=2"):
        suppress(ROWS, iou_threshold=2)
    with pytest.raises(ArgumentError, match="kind='soft'"):
        suppress(ROWS, kind="soft")
    with pytest.raises(ShapeError, match="expected"):
        suppress(ROWS[0])


# --- average precision ------------------------------------------------------------------------------------------------


def test_average_precision_by_hand():
    precision, recall = np.array([1, 1 / 2, 2 / 3, 2 / 4]), np.array([0.5, 0.5, 1, 1])
    assert average_precision(precision, recall) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert average_precision(precision, recall, 11) == pytest.approx((6 + 5 * 2 / 3) / 11)
    assert average_precision(precision, recall, 101) == pytest.approx((51 + 50 * 2 / 3) / 101)
    assert average_precision(np.array([]), np.array([])) == 0
    with pytest.raises(ArgumentError, match="points=7"):
        average_precision(precision, recall, 7)


def box(x, label=0, score=0.9):
    return Found((x, 0.5, 0.2, 0.2), label, score, 1.0)


def test_a_second_claim_on_a_truth_is_wrong():
    truths = [np.array([[0, 0.3, 0.5, 0.2, 0.2], [0, 0.8, 0.5, 0.2, 0.2]]), np.zeros((0, 5))]
    found = [[box(0.3), box(0.31, score=0.8), box(0.8, score=0.7)], [box(0.5, score=0.6)]]
    result = evaluate(found, truths, classes=2, threshold=0.65)
    assert result.curves[0].precision.tolist() == pytest.approx([1, 1 / 2, 2 / 3, 2 / 4])
    assert result.curves[0].average_precision == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert result.mean_average_precision == pytest.approx(0.5 * result.curves[0].average_precision)
    assert (result.precision, result.recall) == pytest.approx((2 / 3, 1))
    assert result.f1 == pytest.approx(0.8) and result.mean_overlap == pytest.approx(1)
    left_out = evaluate(found, truths, classes=2, absent_counts=False)
    assert left_out.mean_average_precision == result.curves[0].average_precision


def test_difficult_truths_need_not_be_found_and_may_be():
    truths = [np.array([[0, 0.3, 0.5, 0.2, 0.2], [0, 0.8, 0.5, 0.2, 0.2]])]
    for found in ([box(0.3)], [box(0.3), box(0.8)]):
        result = evaluate([found], truths, 1, difficult=[np.array([False, True])])
        assert result.mean_average_precision == 1 and result.curves[0].truths == 1


def test_the_overlap_that_is_right_is_a_choice():
    truths = [np.array([[0, 0.35, 0.5, 0.2, 0.2]])]  # IoU 0.6
    assert [evaluate([[box(0.3)]], truths, 1, iou_threshold=t).recall for t in (0.5, 0.75)] == [1, 0]
    with pytest.raises(ShapeError, match="1 images with detections, but 0"):
        evaluate([[]], [], 1)


# --- files ------------------------------------------------------------------------------------------------------------


def test_data_names_and_lists(tmp_path):
    (tmp_path / "a.names").write_bytes(b"cat\r\ndog \r\n\r\n")
    (tmp_path / "train.txt").write_text("images/one.jpg\n\nimages/two.jpg\n")
    (tmp_path / "a.data").write_text("classes=2\n# comment\ntrain = train.txt\n\nnames= a.names\nbackup =b\n")
    data = read_data(tmp_path / "a.data")
    assert data.names == ("cat", "dog") and data.classes == 2 and data.valid is None
    assert read_list(data.train) == [tmp_path / "images/one.jpg", tmp_path / "images/two.jpg"]
    (tmp_path / "b.data").write_text("clases=2\nnames=a.names\n")
    with pytest.warns(CfgWarning, match="line 1: unknown key 'clases'. Did you mean 'classes'"):
        assert read_data(tmp_path / "b.data").classes == 2
    for text, message in (("classes=3\nnames=a.names\n", "classes=3, but .* holds 2 names"), ("classes\n", "line 1"),
                          ("classes=0\n", "classes='0'"), ("train=x\n", "classes=''")):  # fmt: skip
        (tmp_path / "c.data").write_text(text)
        with pytest.raises(FormatError, match=message):
            read_data(tmp_path / "c.data")
    with pytest.raises(FileAccessError):
        read_names(tmp_path / "none.names")


def test_labels(tmp_path):
    assert str(label_path("/a/images/b/images/c.jpg")) == "/a/images/b/labels/c.txt"
    assert str(label_path("/a/VOC/JPEGImages/c.d.png")) == "/a/VOC/labels/c.d.txt"
    assert str(label_path("/a/photos/c.jpg")) == "/a/photos/c.txt"
    path = tmp_path / "a.txt"
    path.write_text("1 .5 .5 .25 .5\n\n0 0.1 0.1 0.0001 0.1\n0 1 0 1 1\r\n")
    assert np.allclose(read_labels(path, 2), [[1, 0.5, 0.5, 0.25, 0.5], [0, 1, 0, 1, 1]])
    path.write_text("")
    assert read_labels(path).shape == (0, 5)


@pytest.mark.parametrize(
    "line", ["0 .5 .5 .1", "0 .5 .5 .1 nan", "2 .5 .5 .1 .1", "-1 .5 .5 .1 .1", "0.5 .5 .5 .1 .1", "0 5 .5 .1 .1",
             "0 .5 .5 -1 .1", "0 .5 .5 .1 x", "inf .5 .5 .1 .1"],
)  # fmt: skip
def test_labels_that_are_wrong_are_named_with_their_line(tmp_path, line):
    (tmp_path / "a.txt").write_text(f"0 .5 .5 .1 .1\n{line}\n")
    with pytest.raises(FormatError, match="line 2"):
        read_labels(tmp_path / "a.txt", 2)


def test_word_trees(tmp_path):
    (tmp_path / "a.tree").write_text("thing -1\nbeing -1\ncar 0\nbus 0\ncat 1\n")
    tree = read_tree(tmp_path / "a.tree")
    assert tree.parents == (-1, -1, 0, 0, 1) and tree.group_sizes == (2, 2, 1)
    (tmp_path / "a.tree").write_text("thing 3\n")
    with pytest.raises(FormatError, match="line 1: the parent 3"):
        read_tree(tmp_path / "a.tree")


# --- images -----------------------------------------------------------------------------------------------------------


def test_images_of_every_kind_become_rgb_bytes(tmp_path):
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (6, 9, 3), dtype=np.uint8)
    Image.fromarray(rgb).save(tmp_path / "rgb.png")
    Image.fromarray(rgb[:, :, 0]).save(tmp_path / "grey.png")
    Image.fromarray(rgb[:, :, 0].astype(np.uint16) * 257).save(tmp_path / "deep.png")
    Image.fromarray(np.dstack([rgb, np.zeros((6, 9), np.uint8)])).save(tmp_path / "clear.png")
    Image.fromarray(rgb).convert("P").save(tmp_path / "palette.gif")
    assert np.array_equal(read_image(tmp_path / "rgb.png"), rgb)
    for name in ("grey", "deep"):
        assert np.array_equal(read_image(tmp_path / f"{name}.png"), np.repeat(rgb[:, :, :1], 3, 2)), name
    assert (read_image(tmp_path / "clear.png") == 255).all()
    assert read_image(tmp_path / "palette.gif").shape == (6, 9, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.fromarray(rgb).save(tmp_path / "turned.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "turned.png"), np.rot90(rgb, -1))


def test_images_that_are_none_are_refused(tmp_path):
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "text.png").write_text("no image")
    Image.fromarray(np.zeros((40, 40, 3), np.uint8)).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:60])
    for name in ("empty.jpg", "text.png", "cut.png"):
        with pytest.raises(FormatError, match=name):
            read_image(tmp_path / name)
    with pytest.raises(FileAccessError, match="there is no file"):
        read_image(tmp_path / "none.png")
    for wrong in (np.zeros((0, 3, 3)), np.zeros((2, 2, 5)), np.zeros(3)):
        with pytest.raises(ShapeError):
            as_photo(wrong)
    for wrong in (np.full((2, 2), 2.0), np.zeros((2, 2), bool), np.full((2, 2), np.nan)):
        with pytest.raises(ArgumentError):
            as_photo(wrong)


def test_letterboxes_keep_proportions():
    photo = np.full((10, 40, 3), 255, np.uint8)
    image, place = letterboxed(photo, 20, 20)
    assert place == (0, 0.35, 1, 0.25)  # 5 rows from row 7
    assert (image[7:12] == 1).all() and (image[:7] == 0.5).all() and (image[12:] == 0.5).all()
    assert prepared(photo, 8, 8, 1)[0].shape == (8, 8, 1)


# --- detectors and the command ----------------------------------------------------------------------------------------

CFG = """[net]
width=32
height=32
channels=3
[convolutional]
filters=14
size=32
activation=linear
[yolo]
classes=2
num=2
mask=0,1
anchors=8,8,16,8
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A detector that always finds one box of class 1 in the middle of the image, half as wide, a quarter as high."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.cfg").write_text(CFG)
    net = Network.from_darknet(tmp_path / "a.cfg")
    values = {k: np.zeros_like(v) for k, v in net.get_values().items()}
    bias = values["convolutional_0.bias"]
    bias[:] = -9
    bias[[7, 8, 9, 10]] = 0
    bias[[11, 13]] = 9
    net.set_values(values)
    net.to_darknet(weights="a.weights")
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    for i, label in enumerate((1, 0)):
        Image.fromarray(np.full((60, 80, 3), 100, np.uint8)).save(f"images/{i}.png")
        (tmp_path / f"labels/{i}.txt").write_text(f"{label} 0.5 0.5 0.5 0.25\n")
    (tmp_path / "valid.txt").write_text("images/0.png\nimages/1.png\n")
    (tmp_path / "a.names").write_text("cat\ndog\n")
    (tmp_path / "a.data").write_text("classes=2\nvalid=valid.txt\nnames=a.names\n")
    return tmp_path


def test_a_detector_finds_boxes_in_the_photos_own_fractions(files):
    net = Network.from_darknet("a.cfg", "a.weights")
    (one,) = Detector(net, letterbox=False)("images/0.png")
    assert one.label == 1 and one.score > 0.99 and one.box == pytest.approx((0.5, 0.5, 0.5, 0.25))
    (one,) = Detector(net)(np.zeros((16, 32, 3), np.uint8))  # pjreddie's: letterboxed
    assert one.box == pytest.approx((0.5, 0.5, 0.5, 0.5))
    assert not Detector(Network.from_darknet("a.cfg", "a.weights", dialect="alexeyab")).letterbox
    assert Detector(net).all([]) == []
    other = parse_cfg("[net]\ninputs=3\n[connected]\noutput=2\n")
    with pytest.raises(ArgumentTypeError, match="is no detector: its outputs are Connected"):
        Detector(Network.from_darknet(other))


def test_detect_draws_and_writes_json(files, capsys):
    command = ["detect", "a.cfg", "a.weights", "images", "--names", "a.names", "--output", "out", "--no-letterbox"]
    assert main(command) == 0
    assert "2 images in" in capsys.readouterr().out
    found = json.loads((files / "out/images-detections.json").read_text())
    assert [one["image"] for one in found] == ["0", "1"]
    assert found[0]["objects"][0]["name"] == "dog"
    assert found[0]["objects"][0]["pixels"] == {"left": 20.0, "top": 22.5, "width": 40.0, "height": 15.0}
    assert (read_image("out/0-detections.png") != 100).any()


def test_detect_takes_single_photos_lists_and_animations(files):
    frames = [Image.fromarray(np.full((8, 8, 3), 50 * i, np.uint8)) for i in range(3)]
    frames[0].save("film.gif", save_all=True, append_images=frames[1:])
    counts = {source: frames_of(source)[0] for source in ("images/0.png", "valid.txt", "film.gif")}
    assert counts == {"images/0.png": 1, "valid.txt": 2, "film.gif": 3}
    assert len(list(frames_of("film.gif")[1])) == 3
    assert main(["detect", "a.cfg", "a.weights", "film.gif"]) == 0
    assert (files / "film-00002-detections.png").exists()
    with pytest.raises(PullbackError):
        frames_of("labels")


def test_map_prints_average_precision(files, capsys):
    assert main(["map", "a.cfg", "a.weights", "--data", "a.data", "--plot", "curves.png"]) == 0
    text = capsys.readouterr().out
    assert "mAP 0.5000" in text  # class 1 is found, and once too often; class 0 is missed
    assert (files / "curves.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["detect", "a.cfg", "images/0.png"], "needs its weights"),
        (["detect", "a.cfg", "a.weights", "nothing.jpg"], "there is no file nothing.jpg"),
        (["detect", "a.cfg", "labels/0.txt", "images/0.png"], "the file has 19"),
        (["map", "a.cfg", "a.weights", "--data", "valid.txt"], "is not key = value"),
        (["detect", "a.cfg", "a.weights", "x", "y"], "expected weights and one photo"),
    ],
)
def test_the_command_says_what_is_wrong(files, capsys, arguments, message):
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_the_demo_finds_the_face(tmp_path, capsys):
    assert main(["demo", "detect", "--output", str(tmp_path)]) == 0
    assert "a face, score 0.97" in capsys.readouterr().out
    (face,) = json.loads((tmp_path / "astronaut-faces.json").read_text())
    assert [face["pixels"][k] for k in ("left", "top")] == pytest.approx([163, 76], abs=3)
