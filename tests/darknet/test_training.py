"""Training as Darknet does it."""

import numpy as np
import pytest
from PIL import Image

from pullback.cli import main
from pullback.darknet import load_weights, parse_cfg, read_header
from pullback.darknet.augmentation import Augmentation, augmentation_of, clipped, fitted, mixup, mosaic
from pullback.darknet.dialects import PJREDDIE
from pullback.darknet.policies import policy_of, regime_of
from pullback.darknet.training import Drawer, PhotoFiles, Trainer, anchors_of
from pullback.errors import ArgumentError, FormatError, NonFiniteError
from pullback.nn import SGD, Adam, Network


def rates(settings, *steps):
    policy = policy_of(parse_cfg(f"[net]\nlearning_rate=0.1\n{settings}"), PJREDDIE)
    return [policy.rate(n) for n in steps]


@pytest.mark.parametrize(
    ("settings", "steps", "expected"),
    [
        ("", (0, 500), [0.1, 0.1]),
        ("policy=step\nstep=10\nscale=.5", (9, 10, 25), [0.1, 0.05, 0.025]),
        ("policy=steps\nsteps=10,20\nscales=.1,.5", (9, 10, 20), [0.1, 0.01, 0.005]),
        ("policy=exp\ngamma=.9", (0, 2), [0.1, 0.081]),
        ("policy=poly\nmax_batches=100", (0, 50, 100), [0.1, 0.1 / 16, 0]),
        ("policy=sig\ngamma=.5\nstep=10", (10, 14), [0.05, 0.1 / (1 + np.exp(2))]),
        ("policy=sgdr\nsgdr_cycle=10\nsgdr_mult=2\nlearning_rate_min=0", (0, 5, 10, 20), [0.1, 0.05, 0.1, 0.05]),
        ("policy=steps\nsteps=2\nscales=.1\nburn_in=4", (0, 2, 3, 4), [0, 0.1 / 16, 0.1 * 81 / 256, 0.01]),
        ("power=2\nburn_in=4", (0, 2), [0, 0.1 / 4]),
    ],
)
def test_policies(settings, steps, expected):
    assert rates(settings, *steps) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_the_random_policy_is_drawn_anew_for_each_batch_and_repeats_itself():
    first = rates("policy=random\npower=2", 0, 1, 2)
    assert len(set(first)) == 3 and all(0 < r < 0.1 for r in first)
    assert rates("policy=random\npower=2", 2, 0) == [first[2], first[0]]


def test_policies_that_make_no_sense():
    for text, message in (("policy=poly", "needs max_batches"), ("policy=steps\nsteps=1,2\nscales=1", "2 steps, but 1"),
                          ("policy=stpes", "policy=stpes is not known. Did you mean 'step")):  # fmt: skip
        with pytest.raises(FormatError, match=message):
            rates(text, 0)


def test_regimes():
    regime = regime_of(parse_cfg("[net]\nbatch=64\nsubdivisions=16\nmomentum=.8\ndecay=.0005\n"), PJREDDIE)
    assert (regime.batch, regime.subdivisions, regime.max_batches) == (64, 16, 0)
    assert isinstance(regime.optimizer, SGD) and regime.optimizer.momentum == 0.8
    assert regime.optimizer.weight_decay == 0.0005
    adam = regime_of(parse_cfg("[net]\nadam=1\nB1=.8\n"), PJREDDIE).optimizer
    assert isinstance(adam, Adam) and (adam.beta1, adam.epsilon) == (0.8, 1e-7)


# --- augmentation -----------------------------------------------------------------------------------------------------

PHOTO = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
BOXES = np.array([[1, 0.5, 0.5, 0.5, 0.5], [0, 0.05, 0.1, 0.1, 0.2]], np.float32)
ALL = Augmentation(jitter=0.3, flip=True, hue=0.1, saturation=1.5, exposure=1.5)


def test_a_sample_follows_from_its_seed():
    a, b, c = (fitted(PHOTO, BOXES, (16, 24), ALL, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])
    assert not np.array_equal(a[0], c[0])
    assert a[0].dtype == np.float32 and a[0].shape == (16, 24, 3) and 0 <= a[0].min() <= a[0].max() <= 1


@pytest.mark.parametrize("seed", range(6))
def test_boxes_move_with_what_they_hold(seed):
    photo = np.full((40, 60, 3), 30, np.uint8)
    photo[10:20, 15:30] = 250
    how = Augmentation(jitter=0.3, exposure=1.2)
    image, boxes = fitted(photo, np.array([[0, 22.5 / 60, 15 / 40, 15 / 60, 10 / 40]]), (64, 96), how,
                          np.random.default_rng(seed))  # fmt: skip
    rows, columns = np.nonzero(image.mean(-1) > 0.7)
    x, y, w, h = boxes[0, 1:] * (96, 64, 96, 64)
    assert (x - w / 2, x + w / 2) == pytest.approx((columns.min(), columns.max() + 1), abs=1.6)
    assert (y - h / 2, y + h / 2) == pytest.approx((rows.min(), rows.max() + 1), abs=1.6)


def test_a_photo_is_letterboxed_or_stretched():
    boxes = np.array([[0, 0.5, 0.5, 1, 1]], np.float32)
    for letterbox, height in ((True, 0.5), (False, 1.0)):
        how = Augmentation(letterbox=letterbox, flip=False)
        image, moved = fitted(np.zeros((10, 20, 3), np.uint8), boxes, (16, 16), how, np.random.default_rng(0))
        assert moved[0, 3:].tolist() == [1, height] and (image == 0).mean() == height


def test_without_any_change_a_sample_is_the_photo():
    image, boxes = fitted(PHOTO, BOXES, (20, 30), Augmentation(flip=False), np.random.default_rng(0))
    assert np.array_equal(image, PHOTO * np.float32(1 / 255)) and np.allclose(boxes, BOXES)


def test_boxes_are_cut_off_at_the_edge():
    cut = clipped(np.array([[0, 0.0, 0.5, 0.2, 0.4], [1, 1.5, 0.5, 0.2, 0.2]]))
    assert np.allclose(cut, [[0, 0.05, 0.5, 0.1, 0.4]])


def test_mosaics_and_mixtures():
    rng = np.random.default_rng(0)
    samples = [(np.full((8, 8, 3), i, np.float32), np.array([[i, 0.5, 0.5, 1, 1]], np.float32)) for i in range(4)]
    image, boxes = mosaic(samples, rng)
    assert [image[0, 0, 0], image[0, -1, 0], image[-1, 0, 0], image[-1, -1, 0]] == [0, 1, 2, 3]
    assert boxes[:, 0].tolist() == [0, 1, 2, 3] and (boxes[:, 3] * boxes[:, 4]).sum() == pytest.approx(1)
    image, boxes = mixup(samples[0], samples[2])
    assert (image == 1).all() and len(boxes) == 2


def test_what_a_cfg_asks_for():
    how = augmentation_of(parse_cfg("[net]\nhue=.1\nsaturation=1.5\nflip=0\nmosaic=1\n[region]\njitter=.3\n"), PJREDDIE)
    assert (how.hue, how.saturation, how.flip, how.mosaic, how.jitter, how.mixup) == (0.1, 1.5, False, True, 0.3, False)


# --- training ---------------------------------------------------------------------------------------------------------

CFG = """[net]
width=32
height=32
channels=3
batch=4
subdivisions={}
learning_rate=0.01
momentum=.9
decay=.001
max_batches=6
policy=steps
steps=3
scales=.5
saturation=1.5
{}
[convolutional]
filters=4
size=3
stride=4
pad=1
activation=leaky
[convolutional]
filters=14
size=1
activation=linear
[yolo]
classes=2
num=2
mask=0,1
anchors=8,8,16,8
jitter=.2
random={}
"""


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    for i in range(5):
        Image.fromarray(rng.integers(0, 256, (24, 40, 3), dtype=np.uint8)).save(f"images/{i}.png")
        (tmp_path / f"labels/{i}.txt").write_text(f"{i % 2} 0.5 0.5 0.4 0.3\n")
    (tmp_path / "train.txt").write_text("".join(f"images/{i}.png\n" for i in range(5)))
    return PhotoFiles("train.txt", 2)


def network(parts=1, net="", random=0, **options):
    return Network.from_darknet(parse_cfg(CFG.format(parts, net, random)), seed=1, **options)


def test_subdivisions_change_nothing(photos):
    values = []
    for parts in (1, 2, 3):
        net = network(parts, dtype="float64")
        trainer = Trainer(net, photos)
        costs = [trainer.step() for _ in range(3)]
        values.append((costs, net.get_values()))
    for costs, found in values[1:]:
        assert costs == pytest.approx(values[0][0], rel=1e-9)
        assert all(np.allclose(v, values[0][1][k], rtol=1e-9, atol=1e-12) for k, v in found.items())


def test_the_step_is_darknets(photos):
    net = network(dtype="float64")
    trainer = Trainer(net, photos)
    update = {k: np.zeros_like(v) for k, v in net.get_values().items()}
    for batch in range(4):
        w = net.get_values()
        images, truths = trainer._batch(trainer.seen, 4, (32, 32))
        _, gradients = net.gradient(images, truths)
        rate = trainer.learning_rate
        assert rate == pytest.approx(0.01 if batch < 3 else 0.005)
        trainer.step()
        for name, new in net.get_values().items():
            decay = 0.001 if name.endswith("weight") else 0.0
            update[name] += -4 * gradients[name] - decay * 4 * w[name]
            assert np.allclose(new, w[name] + rate / 4 * update[name], rtol=1e-9, atol=1e-12)
            update[name] *= 0.9


def test_training_goes_on_from_a_backup_with_the_same_samples(photos, tmp_path):
    whole = Trainer(network(), photos)
    assert [batch for batch, _ in whole] == [1, 2, 3, 4, 5, 6]
    first = Trainer(network(), photos)
    for _ in range(3):
        first.step()
    first.save(tmp_path / "a.backup")
    assert read_header(tmp_path / "a.backup").seen == 12
    net = network()
    load_weights(net, tmp_path / "a.backup")
    second = Trainer(net, photos)
    assert (second.batches, second.learning_rate) == (3, pytest.approx(0.005))
    assert [batch for batch, _ in second] == [4, 5, 6]
    a, b = whole.drawer.batch(13, 2, (32, 32), 9), second.drawer.batch(13, 2, (32, 32), 9)
    assert all(np.array_equal(x, y) for x, y in zip(a, b))


def test_sizes_change_every_ten_batches(photos):
    trainer = Trainer(network(random=1, any_size=True), photos)
    sizes = []
    for batch in range(40):
        trainer.seen = 4 * batch
        sizes.append(trainer.size())
    assert all(len(set(sizes[i : i + 10])) == 1 for i in range(0, 40, 10))
    assert all(h % 32 == 0 and w % 32 == 0 for h, w in sizes)
    trainer.seen = 0
    assert np.isfinite(trainer.step())
    assert Trainer(network(random=1), photos).size() == (32, 32)


def test_the_running_average_of_weights(photos, tmp_path):
    net = network(net="ema_alpha=0.5")
    trainer = Trainer(net, photos)
    values = [trainer.step() and net.get_values() for _ in range(3)]
    name = "convolutional_0.weight"
    expected = 0.5 * (0.5 * values[0][name] + 0.5 * values[1][name]) + 0.5 * values[2][name]
    trainer.save(tmp_path / "average.weights", averaged=True)
    assert np.array_equal(net.get_values()[name], values[2][name])
    load_weights(net, tmp_path / "average.weights")
    assert np.allclose(net.get_values()[name], expected, atol=1e-6)


def test_a_cost_that_blows_up_ends_training(photos):
    net = network()
    trainer = Trainer(net, photos)
    net.set_values({"convolutional_0.weight": np.full((3, 3, 3, 4), 1e30)})
    with pytest.raises(NonFiniteError, match="lower learning_rate"):
        trainer.step()


def test_samples_use_mosaic_and_mixup(photos):
    drawer = Drawer(photos, Augmentation(mosaic=True, mixup=True))
    counts = [len(drawer.sample(n, (32, 32))[1]) for n in range(40)]
    assert {1, 2} <= set(counts) and max(counts) > 2


def test_anchors_are_the_centres_of_the_boxes():
    rng = np.random.default_rng(0)
    true = np.array([[4, 8], [16, 12], [30, 60]])
    sizes = (true[:, None] * rng.uniform(0.9, 1.1, (3, 50, 2))).reshape(-1, 2)
    assert np.allclose(anchors_of(sizes, 3), true, rtol=0.05)
    with pytest.raises(ArgumentError, match="need as many boxes"):
        anchors_of(sizes[:2], 3)


def test_the_command_trains_and_goes_on(photos, tmp_path, capsys):
    (tmp_path / "a.cfg").write_text(CFG.format(1, "", 0))
    (tmp_path / "a.data").write_text("classes=2\ntrain=train.txt\nvalid=train.txt\nbackup=kept\n")
    assert main(["train", "a.cfg", "--data", "a.data"]) == 0
    text = capsys.readouterr().out
    assert "6 batches" in text and "mAP" in text
    assert read_header(tmp_path / "kept/a.backup").seen == 24
    assert read_header(tmp_path / "kept/a_final.weights").seen == 24
    (tmp_path / "a.cfg").write_text(CFG.format(1, "", 0).replace("max_batches=6", "max_batches=8"))
    assert main(["train", "a.cfg", "--data", "a.data", "--weights", "kept/a.backup"]) == 0
    assert "going on after 24 images" in capsys.readouterr().out
    assert read_header(tmp_path / "kept/a_final.weights").seen == 32


def test_a_classifier_trains_on_arrays_as_its_cfg_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.cfg").write_text(
        "[net]\nwidth=4\nheight=4\nchannels=1\nbatch=8\nlearning_rate=.5\npolicy=poly\npower=1\nmax_batches=200\n"
        "[connected]\noutput=2\nactivation=linear\n[softmax]\n"
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4, 4, 1)).astype("float32")
    np.savez("a.npz", X=X, y=(X.mean((1, 2, 3)) > 0).astype("int64"))
    assert main(["train", "a.cfg", "--data", "a.npz", "--output", "a.safetensors"]) == 0
    text = capsys.readouterr().out
    assert float(text.rpartition("accuracy ")[2].split()[0].rstrip(",")) > 0.8
    net = Network.load("a.safetensors")
    assert net.recipe.optimizer.learning_rate.rate(100) == pytest.approx(0.25)
    net.to_darknet(weights="a.weights")
    assert (tmp_path / "a.weights").stat().st_size == 20 + 4 * (2 + 32)
