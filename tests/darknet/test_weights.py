"""Weights files: headers, layouts, parts, and every way in which a file can be wrong."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pullback.darknet import load_weights, parse_cfg, read_header
from pullback.darknet.build import read_layers
from pullback.darknet.dialects import PJREDDIE
from pullback.darknet.weights import header_of, read_values
from pullback.errors import ArgumentError, FileAccessError, FormatError, PullbackError
from pullback.nn import Network

NET = "[net]\nwidth=4\nheight=3\nchannels=2\n"
CONV = "[convolutional]\nfilters=3\nsize=2\nbatch_normalize=1\nactivation=linear\n"
CONNECTED = "[connected]\noutput=2\nactivation=linear\n"


def pack(*numbers, version=(0, 2, 0), seen=0):
    wide = version[0] * 10 + version[1] >= 2 and max(version[:2]) < 1000
    return struct.pack("<iii" + ("Q" if wide else "I"), *version, seen) + np.array(numbers, "<f4").tobytes()


def build(tmp_path, text, blob, **options):
    (tmp_path / "a.weights").write_bytes(blob)
    return Network.from_darknet(parse_cfg(text), tmp_path / "a.weights", **options)


@pytest.mark.parametrize(
    ("version", "length"), [((0, 1, 0), 16), ((0, 2, 0), 20), ((0, 2, 5), 20), ((1, 0, 0), 20), ((0, 1001, 0), 16)]
)
def test_the_version_says_how_long_the_header_is(version, length):
    header = header_of(pack(1.0, version=version, seen=77))
    assert (header.length, header.seen, header.transposed) == (length, 77, version[1] > 1000)
    assert header.to_bytes() == pack(version=version, seen=77)


def test_convolutional_holds_biases_scales_means_variances_weights(tmp_path):
    numbers = np.arange(12 + 3 * 2 * 4, dtype=np.float32)
    net = build(tmp_path, NET + CONV, pack(*numbers))
    values = {k.partition(".")[2]: v for k, v in net.get_values().items()}
    for i, key in enumerate(("bias", "scale", "running_mean", "running_variance")):
        assert values[key].tolist() == numbers[3 * i : 3 * i + 3].tolist()
    assert np.array_equal(values["weight"], numbers[12:].reshape(3, 2, 2, 2).transpose(2, 3, 1, 0))


def test_connected_holds_weights_before_scales_and_images_channels_first(tmp_path):
    text = NET + CONNECTED.replace("activation", "batch_normalize=1\nactivation")
    numbers = np.arange(2 + 48 + 6, dtype=np.float32)
    net = build(tmp_path, text, pack(*numbers))
    values = {k.partition(".")[2]: v for k, v in net.get_values().items()}
    file = numbers[2:50].reshape(2, 2, 3, 4)  # outputs, channels, rows, columns
    assert np.array_equal(values["weight"].reshape(3, 4, 2, 2), file.transpose(2, 3, 1, 0))
    assert values["scale"].tolist() == [50, 51] and values["running_variance"].tolist() == [54, 55]


def test_a_version_above_1000_stores_connected_layers_transposed(tmp_path):
    text = "[net]\ninputs=3\n" + CONNECTED
    plain = build(tmp_path, text, pack(0, 0, 1, 2, 3, 4, 5, 6))
    turned = build(tmp_path, text, pack(0, 0, 1, 4, 2, 5, 3, 6, version=(0, 1001, 0)))
    assert np.array_equal(plain.get_values()["connected_0.weight"], turned.get_values()["connected_0.weight"])
    turned.to_darknet(weights=tmp_path / "b.weights")
    assert (tmp_path / "b.weights").read_bytes() == (tmp_path / "a.weights").read_bytes()


def test_flipped_weights_are_stored_the_other_way_round(tmp_path):
    text = "[net]\nwidth=4\nheight=3\nchannels=2\n[convolutional]\nfilters=3\nsize=2\n"
    file = np.arange(24, dtype=np.float32)
    plain = build(tmp_path, text, pack(0, 0, 0, *file))
    blob = pack(0, 0, 0, *file.reshape(3, 8).T.ravel())
    turned = build(tmp_path, text + "flipped=1\n", blob)
    assert np.array_equal(plain.get_values()["convolutional_0.weight"], turned.get_values()["convolutional_0.weight"])
    turned.to_darknet(weights=tmp_path / "b.weights")
    assert (tmp_path / "b.weights").read_bytes() == blob


def test_forks_store_batchnorm_and_gates_differently(tmp_path):
    text = NET + "[batchnorm]\n"
    net = build(tmp_path, text, pack(*range(6)), dialect="pjreddie")
    assert net.get_values()["batchnorm_0.scale"].tolist() == [0, 1]
    net = build(tmp_path, text, pack(*range(8)), dialect="alexeyab")
    assert net.get_values()["batchnorm_0.bias"].tolist() == [0, 1]
    assert net.get_values()["batchnorm_0.scale"].tolist() == [2, 3]
    for count, fork in ((6, "pjreddie"), (8, "alexeyab")):  # told by the size
        assert build(tmp_path, text, pack(*range(count))).metadata["darknet"]["dialect"] == fork
    text = "[net]\ninputs=1\n[lstm]\noutput=1\n"
    numbers = np.arange(16, dtype=np.float32)  # eight times bias, weight
    order = {"pjreddie": "state_i state_f state_o state_g input_i input_f input_o input_g",
             "alexeyab": "state_f state_i state_g state_o input_f input_i input_g input_o"}  # fmt: skip
    for fork, names in order.items():
        values = build(tmp_path, text, pack(*numbers), dialect=fork).get_values()
        for i, name in enumerate(names.split()):
            assert (values[f"lstm_0.{name}_bias"][0], values[f"lstm_0.{name}_weight"][0, 0]) == (2 * i, 2 * i + 1)


def test_a_header_of_another_length_must_be_said(tmp_path):
    text = "[net]\ninputs=1\n[connected]\noutput=1\n"
    short = struct.pack("<iiii", 0, 2, 0, 7) + np.array([1, 2], "<f4").tobytes()
    with pytest.raises(FormatError, match="A header of 16 bytes would fit: say header=16"):
        build(tmp_path, text, short)
    assert build(tmp_path, text, short, header=16).metadata["darknet"]["seen"] == 7
    bare = np.array([1, 2], "<f4").tobytes()
    assert build(tmp_path, text, bare, header=0).get_values()["connected_0.weight"][0, 0] == 2
    with pytest.raises(ArgumentError, match="header=12"):
        build(tmp_path, text, bare, header=12)


def test_sizes_must_be_exact_and_a_misfit_changes_nothing(tmp_path):
    text = NET + CONV + CONNECTED
    blob = pack(*range(36 + 2 + 2 * 18))
    net = build(tmp_path, text, blob)
    before = net.get_values()
    message = r"316 bytes, the file has 312: it ends in the weight of line 10, \[connected\] \(layer 1\) after 35 of 36"
    for wrong, expected in ((blob[:-4], message), (blob + bytes(4), "4 bytes too many"), (blob[:-2], "it ends in"),
                            (blob[:30], "in the bias of line 5"), (blob[:7], "too short for a header")):  # fmt: skip
        (tmp_path / "b.weights").write_bytes(wrong)
        with pytest.raises(FormatError, match=expected):
            load_weights(net, tmp_path / "b.weights")
        assert all(np.array_equal(v, before[k]) for k, v in net.get_values().items())
    load_weights(net, tmp_path / "a.weights")


def test_a_big_endian_file_is_recognised():
    with pytest.raises(FormatError, match="big-endian"):
        header_of(struct.pack(">iiiQf", 0, 2, 0, 0, 1.0))


def test_parts_of_files(tmp_path):
    text = NET + CONV + CONNECTED
    numbers = np.arange(1, 36 + 2 + 36 + 1)
    part = build(tmp_path, text, pack(*numbers), cutoff=1)
    assert part.get_values()["convolutional_0.bias"].tolist() == [1, 2, 3]
    assert not np.isin(part.get_values()["connected_1.weight"], numbers).any()
    only = build(tmp_path, text, pack(*numbers[:36]), cutoff=1)
    assert np.array_equal(only.get_values()["convolutional_0.weight"], part.get_values()["convolutional_0.weight"])
    part.to_darknet(weights=tmp_path / "b.weights", cutoff=1)
    assert (tmp_path / "b.weights").read_bytes() == (tmp_path / "a.weights").read_bytes()
    skipping = build(tmp_path, text.replace("[connected]\n", "[connected]\ndontload=1\n"), pack(*numbers[:36]))
    assert skipping.get_values()["convolutional_0.bias"].tolist() == [1, 2, 3]
    without = text.replace("[convolutional]\n", "[convolutional]\ndontloadscales=1\n")
    values = build(tmp_path, without, pack(*numbers[: 36 - 9 + 38])).get_values()
    assert values["convolutional_0.scale"].tolist() == [1, 1, 1]
    few = text.replace("[convolutional]\n", "[convolutional]\nnumload=2\n")
    values = build(tmp_path, few, pack(*numbers[: 24 + 38])).get_values()
    assert values["convolutional_0.bias"].tolist() == [1, 2, 0]


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileAccessError, match="can't read"):
        read_header(tmp_path / "none.weights")


CFG = parse_cfg(NET + CONV + CONNECTED)
PLACED = read_layers(CFG, PJREDDIE)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.sampled_from([None, 0, 1, 2, 5]), st.sampled_from([None, 0, 16, 20]))
def test_any_bytes_are_read_or_refused(content, cutoff, header):
    try:
        read_values(np.frombuffer(content, np.uint8), PLACED, PJREDDIE, cutoff, header)
    except PullbackError:
        pass
