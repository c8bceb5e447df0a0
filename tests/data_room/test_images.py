"""Image files as arrays, folders of classes, and random changes of batches."""

import numpy as np
import pytest
from PIL import Image

import pullback as pb
from pullback import data, nn
from pullback.data import augment


def write(path, array, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array, np.uint8)).save(path, **options)


@pytest.fixture
def folder(tmp_path, rng):
    """Ten images of each of two classes: the light ones and the dark ones."""
    for i in range(10):
        for name, low in (("dark", 0), ("light", 150)):
            write(tmp_path / "set" / name / "more" / f"{i:02}.png", rng.integers(low, low + 100, (12, 9, 3)))
    write(tmp_path / "set" / "empty" / "note.txt.png", np.zeros((2, 2)))
    (tmp_path / "set" / "empty" / "note.txt.png").unlink()
    (tmp_path / "set" / "readme.txt").write_text("no class")
    return tmp_path / "set"


def test_a_folder_of_classes(folder):
    images, labels, classes = data.image_folder(folder, (12, 9))
    assert classes == ["dark", "light"] and labels.tolist() == [0] * 10 + [1] * 10 and labels.dtype == "int64"
    assert images.shape == (20, 12, 9, 3) and len(images) == 20 and images.size == 20 * 12 * 9 * 3 and not images._kept
    wanted = np.stack([np.asarray(Image.open(f)) for f in images.files]) / np.float32(255)
    np.testing.assert_allclose(np.asarray(images), wanted, rtol=1e-6)
    np.testing.assert_array_equal(images.take([3, 19, 3]), np.asarray(images)[[3, 19, 3]])
    np.testing.assert_array_equal(images[2], np.asarray(images)[2])
    np.testing.assert_array_equal(np.asarray(images[5:8]), np.asarray(images)[5:8])
    np.testing.assert_array_equal(np.asarray(images[labels == 1]), np.asarray(images)[10:])
    assert sum(1 for _ in images) == 20 and np.asarray(images, "float64").dtype == "float64"


def test_images_are_kept_as_bytes_unless_told_otherwise(folder):
    for keep in (True, False):
        images, _, _ = data.image_folder(folder, (6, 5), keep=keep)
        images[3:7].take([0, 1])
        assert len(images._kept) == (2 if keep else 0)
    assert all(kept.dtype == np.uint8 for kept in images._kept.values())


def test_three_ways_to_fit(tmp_path):
    wide = np.zeros((4, 8, 3))
    wide[:, :2], wide[:, 6:] = 255, 255
    write(tmp_path / "a.png", wide)
    crop, letterbox, stretch = (
        data.Images([tmp_path / "a.png"], (4, 4), fit=fit)[0] for fit in ("crop", "letterbox", "stretch")
    )
    assert not crop.any()
    assert (letterbox[0] == letterbox[3]).all() and abs(letterbox[0] - 0.5).max() < 0.01 and letterbox[1, 0].min() > 0.8
    assert stretch[:, 0].min() > 0.8 and stretch[:, 1].max() < 0.2


def test_grey_transparent_and_turned(tmp_path):
    write(tmp_path / "grey.png", np.full((3, 3), 51))
    assert data.Images([tmp_path / "grey.png"], (3, 3))[0] == pytest.approx(0.2)
    write(tmp_path / "red.png", np.broadcast_to([255, 0, 0], (2, 2, 3)))
    red = data.Images([tmp_path / "red.png"], (2, 2), channels=1)[0]
    assert red.shape == (2, 2, 1) and red == pytest.approx(0.299, abs=0.003)
    write(tmp_path / "clear.png", np.broadcast_to([0, 0, 0, 0], (2, 2, 4)))
    assert (data.Images([tmp_path / "clear.png"], (2, 2))[0] == 1).all()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    tall = np.zeros((8, 16, 3))
    tall[:, :8] = 255
    write(tmp_path / "turned.jpg", tall, exif=exif, quality=95)
    turned = data.Images([tmp_path / "turned.jpg"], (16, 8))[0]
    assert turned[:7].min() > 0.9 and turned[9:].max() < 0.1


def test_bad_files_and_settings(folder, tmp_path):
    (folder / "dark" / "more" / "03.png").write_bytes(b"no image")
    images, labels, _ = data.image_folder(folder, (4, 4))
    with pytest.raises(pb.FormatError, match="03.png is no whole image"):
        np.asarray(images)
    with pytest.raises(pb.FileAccessError, match="there is no folder"):
        data.image_folder(tmp_path / "none", (4, 4))
    with pytest.raises(pb.FileAccessError, match="no folders with images"):
        data.image_folder(folder / "dark" / "more", (4, 4))
    for options, message in (({"fit": "squeeze"}, "fit='squeeze'"), ({"channels": 4}, "channels=4")):
        with pytest.raises(pb.ArgumentError, match=message):
            data.image_folder(folder, (4, 4), **options)
    with pytest.raises(pb.ArgumentError, match="expected .height, width"):
        data.Images([], (4, 0))
    with pytest.raises(pb.FileAccessError, match="there is no file"):
        data.Images([tmp_path / "gone.png"], (2, 2))[0]


def test_a_network_takes_them_like_an_array(folder):
    images, labels, classes = data.image_folder(folder, (6, 6))
    arrays = np.asarray(images)

    def trained(X, **options):
        net = nn.Network([nn.Input((6, 6, 3)), nn.Connected(4, activation="relu"), nn.Connected(2), nn.Softmax()])
        net.compile(nn.Adam(1e-2), "cross_entropy", ["accuracy"])
        history = net.fit(X, labels, epochs=8, batch_size=6, validation_split=0.2, verbose=False, **options)
        return net, history

    (lazy, first), (eager, second) = trained(images), trained(arrays)
    assert first.epochs == second.epochs
    np.testing.assert_array_equal(lazy.predict(images), eager.predict(arrays))
    assert lazy.evaluate(images, labels) == eager.evaluate(arrays, labels)
    assert lazy.train_on_batch(images[:4], labels[:4]) == eager.train_on_batch(arrays[:4], labels[:4])
    (kept, held), _ = data.split(images, labels, held_back=5, seed=2)
    assert isinstance(held, data.Images) and len(held) == 5 and len(kept) == 15
    with pytest.raises(pb.ShapeError, match=r"X has shape \(20, 5, 5, 3\)"):
        trained(data.image_folder(folder, (5, 5))[0])
    net, changed = trained(images, augment=augment.compose(augment.mirror(), augment.shift(1)))
    assert changed.epochs != first.epochs and trained(images, augment=augment.mirror(0.0))[1].epochs == first.epochs


# --- changes ----------------------------------------------------------------------------------------------------------


def test_mirror_and_shift(rng):
    images = rng.normal(size=(200, 5, 6, 2)).astype("float32")
    (mirrored, labels) = augment.mirror(0.25)(rng, images, np.arange(200))
    same = (mirrored == images).all((1, 2, 3))
    turned = (mirrored == images[:, :, ::-1]).all((1, 2, 3))
    assert (same ^ turned).all() and 25 < turned.sum() < 80 and labels.tolist() == list(range(200))
    (moved,) = augment.shift(2)(rng, images)
    around = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    places = set()
    for image, wide in zip(moved, around):
        (place,) = [(i, j) for i in range(5) for j in range(5) if np.array_equal(image, wide[i : i + 5, j : j + 6])]
        places.add(place)
    assert len(places) == 25
    (noisy,) = augment.noise(0.1)(rng, images)
    assert noisy.dtype == "float32" and np.std(noisy - images) == pytest.approx(0.1, rel=0.05)
    for make, value in ((augment.mirror, 1.5), (augment.shift, -1), (augment.noise, -0.1)):
        with pytest.raises(pb.ArgumentError, match="expected a"):
            make(value)


def test_changes_are_a_function_of_seed_epoch_and_batch():
    X, rows = np.zeros((7, 3)), np.arange(7)

    def change(rng, x, i):
        return x + rng.random(x.shape), i

    def epochs(batches, count):
        return [x for _ in range(count) for x, _ in batches]

    whole = epochs(data.Batches(X, rows, batch_size=3, seed=4, augment=change), 2)
    assert len({x.tobytes() for x in whole}) == 6
    again = data.Batches(X, rows, batch_size=3, seed=4, augment=change)
    next(iter(again))
    state = again.state()
    resumed = data.Batches(X, rows, batch_size=3, seed=4, augment=change)
    resumed.restore(state)
    np.testing.assert_array_equal(np.concatenate(epochs(resumed, 2)), np.concatenate(whole[1:]))
    other = epochs(data.Batches(X, rows, batch_size=3, seed=5, augment=change), 1)
    assert not np.array_equal(other[0], whole[0])


def test_a_change_that_loses_something_is_refused():
    X, rows = np.zeros((7, 3)), np.arange(7)
    for change, message in (
        (lambda rng, x, i: x, "augment got 2 arrays"),
        (lambda rng, x, i: (x[:2], i), r"arrays of lengths \[2, 3\]"),
    ):
        with pytest.raises(pb.PullbackError, match=message):
            next(iter(data.Batches(X, rows, batch_size=3, augment=change)))


def test_training_with_changes_is_resumed_bit_for_bit(rng, tmp_path):
    X, y = rng.normal(size=(30, 4, 4, 1)).astype("float32"), rng.normal(size=(30, 1)).astype("float32")

    def made():
        net = nn.Network([nn.Input((4, 4, 1)), nn.Connected(3, activation="tanh"), nn.Connected(1)], seed=2)
        net.compile("adam", "mse")
        return net

    options = {"batch_size": 8, "verbose": False, "augment": augment.noise(0.1), "sample_weight": np.ones(30)}
    whole = made()
    whole.fit(X, y, epochs=4, **options)
    first = made()
    first.fit(X, y, epochs=2, **options)
    first.save(tmp_path / "net.safetensors")
    second = nn.Network.load(tmp_path / "net.safetensors")
    second.fit(X, y, epochs=4, resume=True, **options)
    for name, value in whole.get_values().items():
        np.testing.assert_array_equal(value, second.get_values()[name])
