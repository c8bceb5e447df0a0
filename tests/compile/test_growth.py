"""How plans grow with depth: kernels not at all, memory linearly, and with checkpoints like the square root."""

import numpy as np

import pullback as pb

WIDTH, ROWS = 32, 128


def training_plan(depth: int, segment: int | None = None):
    """The plan of one training step of a deep network, with a checkpoint every `segment` layers."""
    rng = np.random.default_rng(0)
    weights = [pb.shared((rng.standard_normal((WIDTH, WIDTH)) / 6).astype("float32")) for _ in range(depth)]

    def run(h, part):
        for w in part:
            h = pb.tanh(pb.sin(h @ w) + h)
        return h

    x = pb.matrix("x")
    h = x
    if segment is None:
        h = run(h, weights)
    else:
        for i in range(0, depth, segment):
            h = pb.checkpoint(lambda a, i=i: run(a, weights[i : i + segment]), h)
    cost = (h * h).sum()
    step = pb.function([x], cost, updates={w: w - 1e-3 * g for w, g in zip(weights, pb.grad(cost, weights))})
    value = step(np.ones((ROWS, WIDTH), "float32"))
    return step.program.latest_plan(), float(value)


def kernels(plan) -> set:
    return {step.instance for step in plan.steps}


def test_a_deeper_network_needs_no_more_kernels():
    shallow, deep = training_plan(4)[0], training_plan(40)[0]
    assert len(deep.steps) > 5 * len(shallow.steps)
    assert kernels(deep) == kernels(shallow)


def test_memory_is_linear_in_depth_and_with_checkpoints_its_square_root():
    plain = {depth: training_plan(depth) for depth in (16, 64)}
    saved = {depth: training_plan(depth, segment) for depth, segment in ((16, 4), (64, 8))}
    assert 3 < plain[64][0].arena_size / plain[16][0].arena_size < 5
    assert saved[64][0].arena_size / saved[16][0].arena_size < 2.5
    assert saved[64][0].arena_size < plain[64][0].arena_size / 3
    for depth in plain:
        np.testing.assert_allclose(saved[depth][1], plain[depth][1], rtol=1e-5)
