"""Cfg files: nothing is lost, settings are typed, mistakes are named with their line."""

import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.darknet import CfgError, CfgWarning, parse_cfg, read_cfg
from pullback.darknet.build import read_layers
from pullback.darknet.dialects import PJREDDIE
from pullback.errors import ArgumentError, FileAccessError, PullbackError

DATA = Path(__file__).parent.parent / "data" / "darknet"
CFGS = sorted((DATA / "cfg").glob("*.cfg"))
pytestmark = pytest.mark.filterwarnings("ignore::pullback.darknet.CfgWarning")


@pytest.mark.parametrize("path", [*CFGS, DATA / "tiny-face.cfg"], ids=lambda p: p.stem)
def test_a_file_is_written_byte_for_byte(path, tmp_path):
    cfg = read_cfg(path)
    cfg.write(tmp_path / "copy.cfg")
    assert (tmp_path / "copy.cfg").read_bytes() == path.read_bytes()


def test_comments_blanks_line_ends_and_duplicates():
    text = "\ufeff# first\r\n[net]\r\n width = 1 6 ; pixels\r\nheight\t=\t8\r\n;x=1\r\n\r\n[ conv ]\r\n"
    text += "filters=6 # six\nfilters=7"
    with pytest.warns(CfgWarning, match="line 9, .conv.: filters is given again; line 8 counts"):
        cfg = parse_cfg(text)
    assert cfg.text == text
    assert (cfg.net.whole("width"), cfg.net.whole("height"), cfg.layers[0].whole("filters")) == (16, 8, 6)
    assert cfg.layers[0].index == 0 and cfg.layers[0].name == "conv"


def test_bytes_that_are_no_utf8_survive(tmp_path):
    content = b"[net]\n# caf\xe9\nwidth=8\n"
    cfg = parse_cfg(content)
    cfg.write(tmp_path / "a.cfg")
    assert (tmp_path / "a.cfg").read_bytes() == content


def test_settings_change_in_place_and_new_ones_are_added_below():
    cfg = parse_cfg("[net]\r\nwidth = 416   # pixels\r\n\r\n[conv]\r\nfilters=8\r\n[yolo]\r\nclasses=2\r\n")
    cfg.set(0, "width", 320)
    cfg.set(1, "pad", 1)
    cfg.set(1, "filters", 16)
    cfg.set(2, "mask", (0, 1))
    assert cfg.text == (
        "[net]\r\nwidth = 320   # pixels\r\n\r\n[conv]\r\nfilters=16\r\npad=1\r\n[yolo]\r\nclasses=2\r\nmask=0,1\r\n"
    )
    again = parse_cfg(cfg.text)
    assert [s.line for s in again] == [s.line for s in cfg]
    assert again.layers[1].wholes("mask") == (0, 1)
    with pytest.raises(ArgumentError, match="can't stand"):
        cfg.set(0, "width", "3#4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no section"),
        ("width=3\n", r"line 1: width=3 comes before the first section"),
        ("[net\n", r"line 1: '\[net' is no whole"),
        ("[net]\nwidth\n", "line 2: 'width' is neither"),
        ("[net]\n=3\n", "line 2"),
    ],
)
def test_lines_that_are_nothing_are_named(text, message):
    with pytest.raises(CfgError, match=message):
        parse_cfg(text)


@pytest.mark.parametrize("value", ["many", "1.5", "nan", "inf", "", "99999999999", "0x10"])
def test_numbers_are_numbers(value):
    section = parse_cfg(f"[net]\nwidth={value}\n").net
    with pytest.raises(CfgError, match=r"line 2, \[net\]: width=.*expected a whole number"):
        section.whole("width")
    assert section.whole("height", 7) == 7


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileAccessError, match="nothing.cfg"):
        read_cfg(tmp_path / "nothing.cfg")


KEYS = st.sampled_from(
    ["width", "height", "channels", "filters", "size", "stride", "pad", "layers", "from", "classes", "num", "anchors",
     "mask", "groups", "output", "activation", "padding", "stride_x", "nonsense", "batch_normalize", "hidden", "side"]
)  # fmt: skip
VALUES = st.one_of(
    st.integers(-5, 40).map(str),
    st.integers(-(10**12), 10**12).map(str),
    st.sampled_from(["leaky", "linear", "mish", "-1,-2", "0,1", "-1", "1,2,3,4", "", "x", "1e3", "2.0", "#", "\0"]),
)
SECTIONS = st.sampled_from(
    "convolutional connected maxpool avgpool route shortcut upsample reorg yolo region detection dropout softmax cost "
    "crop rnn lstm gru crnn local deconvolutional batchnorm sam scale_channels implicit iseg conv_lstm Gaussian_yolo "
    "reorg3d normalization local_avgpool history nonsense net".split()
)


@settings(max_examples=250, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_a_cfg_or_an_error_of_ours(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert parse_cfg(text).text == text
        except PullbackError:
            pass


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(SECTIONS, st.lists(st.tuples(KEYS, VALUES), max_size=5)), max_size=5), st.booleans())
def test_any_sections_give_layers_or_an_error_of_ours(sections, images):
    size = "width=12\nheight=8\nchannels=4\n" if images else "inputs=12\n"
    lines = [f"[net]\n{size}"] + [f"[{n}]\n" + "".join(f"{k}={v}\n" for k, v in o) for n, o in sections]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read_layers(parse_cfg("".join(lines)), PJREDDIE)
        except PullbackError:
            pass
