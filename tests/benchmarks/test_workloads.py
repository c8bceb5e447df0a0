"""The workloads give the shapes, and the work, that they are known for."""

import numpy as np
import pytest

from benchmarks.peers.numpy_ import mlp
from benchmarks.workloads import DEPTHS, WORKLOADS, Conv, ConvNet, Dense, Mlp, find_workload


@pytest.mark.parametrize(
    ("key", "losses"),
    [("W1", [3.5613, 3.2342, 2.9487, 2.6961, 2.4764]), ("W1b", [2.8324, 2.7915, 2.5276, 2.2728, 2.1593])],
)
def test_first_losses_are_those_that_other_libraries_print(key: str, losses: list[float]) -> None:
    step = mlp(WORKLOADS[key].spec, "by_hand")
    assert [step() for _ in losses] == pytest.approx(losses, abs=1e-4)


def test_labels_of_repeated_inputs_contradict_each_other() -> None:
    x, y = WORKLOADS["W1"].spec.data()
    assert np.array_equal(x[:16], x[16:])
    assert not (y[:16] == y[16:]).any()


def test_shapes_of_lenet_and_of_the_detector() -> None:
    lenet, yolo = WORKLOADS["W3"].spec, WORKLOADS["W5"].spec
    assert lenet.shapes() == [(20, 24, 24), (20, 12, 12), (50, 8, 8), (50, 4, 4), (500, 1, 1), (10, 1, 1)]
    first_head, route, second_head = (yolo.shapes()[i] for i in (16, 20, 23))
    assert (first_head, route, second_head) == ((255, 13, 13), (384, 26, 26), (255, 26, 26))


def test_channels_last_parameters_compute_the_same(rng: np.random.Generator) -> None:
    network = ConvNet(2, (3, 5, 4), (Conv(6, 5, padding=2, batch_norm=False), Dense(7)))
    (first, second), (first_nhwc, second_nhwc) = network.parameters(), network.parameters_nhwc()
    patch = rng.standard_normal((3, 5, 5))
    one = np.einsum("chw,fchw->f", patch, first["weights"])
    assert np.allclose(one, np.einsum("hwc,hwcf->f", patch.transpose(1, 2, 0), first_nhwc["weights"]))
    image = rng.standard_normal((6, 5, 4))
    flat = image.ravel() @ second["weights"]
    assert np.allclose(flat, image.transpose(1, 2, 0).ravel() @ second_nhwc["weights"])


@pytest.mark.parametrize("key", [*WORKLOADS, *DEPTHS])
def test_parameters_are_float32_and_the_same_each_time(key: str) -> None:
    spec = find_workload(key).spec

    def arrays(parameters: object) -> list[np.ndarray]:
        if isinstance(parameters, np.ndarray):
            return [parameters]
        inner = parameters.values() if isinstance(parameters, dict) else parameters
        return [array for item in inner for array in arrays(item)]

    first, again = arrays(spec.parameters()), arrays(spec.parameters())
    assert first and all(np.array_equal(a, b) for a, b in zip(first, again))
    assert {a.dtype.name for a in first} == {"float32"}


def test_depth_counts_hidden_layers() -> None:
    assert DEPTHS["W10:4"].spec == Mlp(32, (64, 64, 64, 64, 64, 10))
