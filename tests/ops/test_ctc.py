"""CTC against all alignments listed."""

import itertools

import numpy as np
import pytest

import pullback as pb
from pullback.errors import IndexRangeError, NotImplementedGradientError, ShapeError
from pullback.graph import evaluate


def run(output):
    return evaluate([output])[0]


def collapsed(path, blank):
    """A path without repetitions and blanks."""
    return [c for i, c in enumerate(path) if c != blank and (i == 0 or c != path[i - 1])]


def listed(log_y, labels, steps, blank):
    """-log of the summed probability of every path of the right length that says `labels`."""
    total = 0.0
    for path in itertools.product(range(log_y.shape[1]), repeat=steps):
        if collapsed(path, blank) == list(labels):
            total += np.exp(sum(log_y[t, c] for t, c in enumerate(path)))
    return -np.log(total) if total else np.inf


@pytest.mark.parametrize("blank", [0, 2])
def test_the_loss_sums_over_all_alignments(rng, blank) -> None:
    log_y = np.log(rng.dirichlet(np.ones(4), (5, 8)))
    classes = [c for c in range(4) if c != blank]
    labels = rng.choice(classes, (8, 3))
    labels[0] = classes[0]  # the same label three times
    steps, lengths = np.array([5, 5, 5, 4, 3, 2, 0, 0]), np.array([3, 2, 0, 3, 3, 3, 0, 1])
    expected = [listed(log_y[:, n], labels[n, : lengths[n]], steps[n], blank) for n in range(8)]
    found = run(pb.ctc_loss(log_y, labels, steps, lengths, blank, reduction="none"))
    np.testing.assert_allclose(found, expected)
    finite = np.where(np.isinf(expected), 0, expected)
    ours = run(pb.ctc_loss(log_y, labels, steps, lengths, blank, zero_infinity=True))
    np.testing.assert_allclose(ours, finite.mean())


def test_probabilities_pass_somewhere_at_every_step(rng) -> None:
    """Occupancies of one step sum to 1, so gradients of log-probabilities sum to -g within a sample's length."""
    log_y = pb.dtensor3()
    loss = pb.sum(pb.ctc_loss(log_y, [[1, 2, 2], [3, 3, 1]], [6, 4], [3, 1], reduction="none"))
    g = evaluate([pb.grad(loss, log_y)], {log_y: np.log(rng.dirichlet(np.ones(4), (6, 2)))})[0]
    np.testing.assert_allclose(g.sum(2), -np.array([[1, 1]] * 4 + [[1, 0]] * 2), atol=1e-12)


def test_the_gradient_by_logits_is_softmax_less_occupancy(rng) -> None:
    logits = pb.dtensor3()
    loss = pb.ctc_loss(pb.log_softmax(logits), [[1, 2]], [4], [2])
    g = evaluate([pb.grad(loss, logits)], {logits: rng.normal(size=(4, 1, 3))})[0]
    np.testing.assert_allclose(g.sum(2), 0, atol=1e-12)


def test_many_steps_neither_underflow_nor_lose_precision(rng) -> None:
    log_y = np.full((2000, 1, 5), np.log(0.2), "float32")
    loss = run(pb.ctc_loss(log_y, np.ones((1, 1), int), [2000], [1]))
    # the label's run may start and end anywhere: 2000 * 2001 / 2 alignments
    np.testing.assert_allclose(loss, 2000 * np.log(5) - np.log(2000 * 2001 / 2), rtol=1e-6)
    assert loss.dtype == "float32"


def test_a_class_ruled_out() -> None:
    log_y = pb.dtensor3()
    value = np.array([[[-np.inf, 0.0]], [[np.log(0.5), np.log(0.5)]]])
    loss = pb.ctc_loss(log_y, [[1]], [2], [1])
    found, g = evaluate([loss, pb.grad(loss, log_y)], {log_y: value})
    np.testing.assert_allclose(found, 0, atol=1e-15)
    np.testing.assert_allclose(g, [[[0.0, -1.0]], [[-0.5, -0.5]]])


def test_no_steps_and_no_samples() -> None:
    np.testing.assert_array_equal(
        run(pb.ctc_loss(np.zeros((0, 2, 3)), np.ones((2, 1), int), [0, 0], [0, 1], reduction="none")), [0.0, np.inf]
    )
    none = np.zeros(0, int)
    assert run(pb.ctc_loss(np.zeros((4, 0, 3)), none.reshape(0, 2), none, none, reduction="none")).shape == (0,)


def test_a_third_derivative_is_a_typed_refusal(rng) -> None:
    log_y = pb.dtensor3()
    loss = pb.ctc_loss(log_y, [[1]], [3], [1])
    second = pb.grad(pb.sum(pb.square(pb.grad(loss, log_y))), log_y)
    with pytest.raises(NotImplementedGradientError, match="third derivatives of CTC"):
        pb.grad(pb.sum(pb.square(second)), log_y)


class TestRefusals:
    @pytest.mark.parametrize(("label", "name"), [(4, "4"), (-1, "-1"), (0, "0")])
    def test_labels(self, label, name) -> None:
        with pytest.raises(IndexRangeError, match=f"label {name} of sample 1, place 0, is no class"):
            run(pb.ctc_loss(np.zeros((3, 2, 4)), [[1], [label]], [3, 3], [1, 1]))

    def test_labels_beyond_the_length_are_not_read(self) -> None:
        assert np.isfinite(run(pb.ctc_loss(np.zeros((3, 1, 4)), [[1, 99]], [3], [1])))

    def test_lengths(self) -> None:
        with pytest.raises(IndexRangeError, match=r"input_lengths\[1\] is 4; expected 0 to 3"):
            run(pb.ctc_loss(np.zeros((3, 2, 4)), [[1], [1]], [3, 4], [1, 1]))
        with pytest.raises(IndexRangeError, match=r"target_lengths\[0\] is 2; expected 0 to 1"):
            run(pb.ctc_loss(np.zeros((3, 2, 4)), [[1], [1]], [3, 3], [2, 1]))

    def test_ranks_and_samples(self) -> None:
        with pytest.raises(ShapeError, match=r"expected \(time, batch, classes\)"):
            pb.ctc_loss(pb.dmatrix(), pb.lmatrix(), pb.lvector(), pb.lvector())
        with pytest.raises(ShapeError, match="are 2 samples"):
            run(pb.ctc_loss(np.zeros((3, 2, 4)), [[1]], [3], [1]))

    def test_blank(self) -> None:
        with pytest.raises(IndexRangeError, match="blank=4 is no class"):
            pb.ctc_loss(np.zeros((3, 2, 4)), [[1], [1]], [3, 3], [1, 1], blank=4)
