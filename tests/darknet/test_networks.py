"""Networks from real cfg files: layers, parameters, operations, and every mistake named."""

# ruff: noqa: E501 (a table of mistakes and messages)

import warnings
from io import StringIO
from math import prod
from pathlib import Path

import numpy as np
import pytest

from pullback.darknet import CfgError, CfgWarning, parse_cfg
from pullback.darknet.build import guess_dialect, in_order, read_layers
from pullback.darknet.dialects import dialect_of
from pullback.darknet.weights import layout
from pullback.errors import ArgumentTypeError, UnknownNameError
from pullback.nn import Network

CFGS = Path(__file__).parent.parent / "data" / "darknet" / "cfg"
FORKS = {"pj": "pjreddie", "ab": "alexeyab", "hk": "hank"}
#  file: (layers, numbers stored, numbers trained, billions of operations)
KNOWN = {
    "pj_cifar": (17, 7_687_050, 7_681_674, "1.624"),
    "pj_darknet": (16, 7_323_480, 7_319_416, "0.965"),
    "pj_darknet19": (26, 20_856_776, 20_842_376, "7.291"),
    "pj_alexnet": (14, 62_378_344, 62_378_344, "2.271"),
    "pj_resnet18": (29, 11_523_496, 11_515_688, "4.688"),
    "pj_yolov1-tiny": (16, 27_099_950, 27_095_374, "3.216"),
    "pj_t1.test": (16, 36_531_294, 36_531_294, "2.277"),
    "pj_yolov2-tiny-voc": (16, 15_867_885, 15_861_773, "6.971"),
    "pj_yolov2-voc": (32, 50_676_061, 50_655_389, "29.360"),
    "pj_yolov3-tiny": (24, 8_858_734, 8_852_366, "5.565"),
    "pj_rnn.train": (5, 8_950_016, 8_931_584, "0.018"),
    "pj_gru": (5, 1_250_048, 1_250_048, "0.002"),
    "ab_lstm.train": (6, 22_380_800, 22_331_648, "0.045"),
    "ab_crnn.train": (7, 9_015_808, 8_997_376, "0.018"),
    "ab_yolov4-tiny": (38, 6_062_814, 6_056_606, "6.908"),
    "ab_yolov4-csp-s-mish": (112, 8_291_165, 8_270_621, "20.890"),
    "ab_efficientnet_b0": (136, 4_890_040, 4_853_720, "0.915"),
    "hk_yolov7-tiny": (99, 6_241_885, 6_227_101, "5.789"),
}
pytestmark = pytest.mark.filterwarnings("ignore::pullback.darknet.CfgWarning")


def net(text, **options):
    return Network.from_darknet(parse_cfg(text), **options)


@pytest.mark.parametrize("name", KNOWN)
def test_layers_parameters_and_operations(name):
    fork = dialect_of(FORKS[name[:2]])
    placed = read_layers(parse_cfg((CFGS / f"{name}.cfg").read_bytes()), fork)
    stored, trained = (
        sum(prod(p.shape) for one in placed for p in one.parameters.values() if p.trainable or not only)
        for only in (False, True)
    )
    operations = sum(one.layer.operations(one.inputs, one.output) for one in placed)
    found = (len(list(in_order(placed))), stored, trained, f"{operations / 1e9:.3f}")
    assert found == KNOWN[name]
    assert layout(placed, fork).floats == stored


@pytest.mark.parametrize("name", ["pj_gru", "ab_efficientnet_b0", "ab_yolov4-tiny", "hk_yolov7-tiny"])
def test_files_are_written_back_bit_for_bit(name, tmp_path):
    first = Network.from_darknet(CFGS / f"{name}.cfg", dialect=FORKS[name[:2]], seed=3)
    first.to_darknet(tmp_path / "a.cfg", tmp_path / "a.weights", seen=12_345)
    assert (tmp_path / "a.weights").stat().st_size == 20 + 4 * KNOWN[name][1]
    again = Network.from_darknet(tmp_path / "a.cfg", tmp_path / "a.weights", dialect=FORKS[name[:2]])
    again.to_darknet(tmp_path / "b.cfg", tmp_path / "b.weights")
    for end in ("cfg", "weights"):
        assert (tmp_path / f"a.{end}").read_bytes() == (tmp_path / f"b.{end}").read_bytes()
    assert (tmp_path / "a.cfg").read_bytes() == (CFGS / f"{name}.cfg").read_bytes()
    assert again.metadata["darknet"]["seen"] == 12_345


def test_a_saved_model_file_still_knows_its_darknet_files(tmp_path):
    network = Network.from_darknet(CFGS / "pj_gru.cfg")
    network.save(tmp_path / "a.safetensors")
    network.to_darknet(weights=tmp_path / "a.weights")
    Network.load(tmp_path / "a.safetensors").to_darknet(tmp_path / "b.cfg", tmp_path / "b.weights")
    assert (tmp_path / "a.weights").read_bytes() == (tmp_path / "b.weights").read_bytes()


def test_the_summary_names_layers_by_darknets_numbers():
    text = StringIO()
    Network.from_darknet(CFGS / "pj_yolov3-tiny.cfg").summary(text)
    for shown in ("yolo_23", "24 layers", "8,858,734", "8,852,366 learnt", "5.565 G"):
        assert shown in text.getvalue()


@pytest.mark.parametrize("name", ["pj_rnn.train", "pj_gru", "ab_lstm.train", "ab_crnn.train"])
def test_recurrent_networks_run_over_time(name):
    text = (CFGS / f"{name}.cfg").read_text().replace("1024", "12").replace("256", "10")
    network = net(text, dialect=FORKS[name[:2]])
    x = np.random.default_rng(0).normal(size=(3, 5, 10)).astype("float32")
    y = network.predict(x)
    assert y.shape == (3, 5, 10) and np.allclose(y.sum(-1), 1, atol=1e-5)
    assert np.allclose(network.predict(x[:1]), y[:1], atol=1e-6)


def test_a_simple_rnn():
    network = net("[net]\ninputs=3\n[simple_rnn]\noutput=2\nactivation=tanh\n[connected]\noutput=1\n")
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    assert network.predict(x).shape == (2, 4, 1)
    assert network.check_gradients(x, samples=2, points=1).largest(1) < 1e-6


def test_the_fork_is_told_by_what_only_it_has():
    guesses = {name: guess_dialect(parse_cfg((CFGS / f"{name}.cfg").read_bytes())) for name in KNOWN}
    assert {name: g.name for name, g in guesses.items() if g} == {
        "ab_yolov4-tiny": "alexeyab", "ab_yolov4-csp-s-mish": "alexeyab", "ab_efficientnet_b0": "alexeyab",
        "hk_yolov7-tiny": "alexeyab",
    }  # fmt: skip


HEAD = "[net]\nwidth=32\nheight=32\nchannels=3\n[convolutional]\nfilters={}\nsize=3\npad=1\nactivation=linear\n"
YOLO = HEAD + "[yolo]\nmask=0,1,2\nanchors=1,2,3,4,5,6\nnum=3\nclasses=3\n"
MISTAKES = {
    "filters": (YOLO.format(20), r"line 10, \[yolo\] \(layer 1\): takes 3 x \(3 classes \+ 5\) = 24 channels, but line 5, "
                r"\[convolutional\] \(layer 0\) gives \(32, 32, 20\)|gives 20: set filters=24 there"),
    "anchors missing": (YOLO.format(24).replace("anchors=1,2,3,4,5,6", "anchors=1,2"), "num=3 anchors need 6 numbers"),
    "mask": (YOLO.format(24).replace("mask=0,1,2", "mask=0,1,5"), "mask=0,1,5; expected numbers from 0 to num - 1 = 2"),
    "forward route": (HEAD.format(8) + "[route]\nlayers=3\n", r"layers=3 refers to itself or a later layer \(this is layer 1"),
    "own route": (HEAD.format(8) + "[route]\nlayers=1\n", "refers to itself"),
    "before the first": (HEAD.format(8) + "[route]\nlayers=-5\n", "refers to a layer before the first"),
    "sizes of a route": (HEAD.format(8) + "[maxpool]\nsize=2\nstride=2\n[route]\nlayers=-1,-2\n", "line 13, .route."),
    "shrinks to nothing": (HEAD.format(8) + "[convolutional]\nsize=40\n", r"line 10.*a window of 40 cells doesn't fit"),
    "negative size": (HEAD.format(8).replace("size=3", "size=-3"), "size=-3; expected at least 1"),
    "no size": (HEAD.format(8).replace("width=32", "width=0"), "missing or 0"),
    "groups": (HEAD.format(8) + "groups=3\n", "groups=3"),
    "unknown section": (HEAD.format(8) + "[convolutionl]\n", r"line 10: there is no section .*Did you mean 'convolutional'"),
    "unknown activation": (HEAD.format(8).replace("linear", "leeky"), "activation=leeky is not known. Did you mean 'leaky'"),
    "a billion filters": (HEAD.format(1_000_000_000), "GiB"),
    "first section": ("[convolutional]\nfilters=1\n", r"the first section is \[convolutional\]; expected \[net\]"),
    "no layers": ("[net]\nwidth=3\nheight=3\nchannels=1\n", "no layers after"),
    "net twice": (HEAD.format(8) + "[net]\nwidth=3\n", "comes again"),
    "detection": (HEAD.format(1).replace("width=32", "width=4").replace("height=32", "height=4") + "[detection]\nside=7\n",
                  r"side\^2"),
    "unsupported": (HEAD.format(8) + "[contrastive]\n", "isn't supported"),
    "stride of upsample": (HEAD.format(8) + "[upsample]\nstride=0\n", "stride=0"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_line_and_section(name):
    text, message = MISTAKES[name]
    with pytest.raises(CfgError, match=message):
        net(text)


def test_unknown_keys_warn_with_the_nearest_known_one():
    with pytest.warns(CfgWarning, match=r"line 10, \[convolutional\]: unknown key 'dilatoin'.*Did you mean 'dilation'"):
        net(HEAD.format(4) + "dilatoin=2\n")


def test_known_files_warn_of_nothing_but_their_duplicates():
    for path in CFGS.glob("*.cfg"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            read_layers(parse_cfg(path.read_bytes()), dialect_of(FORKS[path.name[:2]]))
        assert all("is given again" in str(w.message) for w in caught), [str(w.message) for w in caught]


def test_forks_that_lack_a_section_and_unknown_forks_are_refused():
    with pytest.raises(CfgError, match="hank's Darknet has no"):
        net(HEAD.format(4) + "[reorg]\nstride=2\n", dialect="hank")
    with pytest.raises(UnknownNameError, match="Did you mean 'alexeyab'"):
        net(HEAD.format(4), dialect="alexyab")


def test_a_network_from_elsewhere_has_no_darknet_files(tmp_path):
    from pullback import nn

    with pytest.raises(ArgumentTypeError, match="wasn't read from a Darknet cfg"):
        nn.Network([nn.Input(3), nn.Connected(2)]).to_darknet(tmp_path / "a.cfg")


def test_images_of_any_size():
    text = (CFGS / "pj_yolov3-tiny.cfg").read_text().replace("filters=1024", "filters=16").replace("512", "16")
    fixed, free = net(text, seed=1), net(text, seed=1, any_size=True)
    x = np.random.default_rng(0).random((1, 416, 416, 3)).astype("float32")
    for a, b in zip(fixed.predict(x), free.predict(x)):
        assert np.allclose(a, b, atol=1e-5)
    assert [y.shape for y in free.predict(x[:, :96, :160])] == [(1, 45, 85), (1, 180, 85)]


def test_stopbackward_and_learning_rates_of_layers():
    text = HEAD.format(4) + "learning_rate=0.5\n[convolutional]\nfilters=2\nstopbackward=1\n[convolutional]\nfilters=2\n"
    network = net(text)
    assert [node.layer.frozen for node in network.nodes[1:]] == [True, True, False]
    assert network.nodes[1].layer.learning_rate == 0.5
    assert {v.name.partition(".")[0] for v in network.trainable} == {"convolutional_2"}
