"""Loops, branches and functions as ops, which hold graphs and differentiate them: scan to the third order."""

from typing import Any

from ... import control, ops
from ...control.inner import Passed
from ..entry import Entry, Point, integer, mask, positive, real

THIRD: dict[str, Any] = dict(orders=3, sizes={"t": (2, 3), "n": (2, 2)}, single=("n",), empty=("n",))
STEPS: dict[str, Any] = dict(sizes={"t": (2, 4), "n": (2, 3)})


def recurrence(x: Any, h0: Any, w: Any) -> Any:
    """A plain recurrent network: h = tanh(x + h w)."""
    return control.scan(lambda x_t, h, w: ops.tanh(x_t + h @ w), [x], [h0], [w])


def two_states(x: Any, a0: Any, b0: Any) -> Any:
    def step(x_t: Any, a: Any, b: Any) -> Any:
        return ops.sin(a + x_t * b), b * a, a - x_t

    return control.scan(step, [x], [a0, b0, None])


def neighbours(x: Any, h0: Any) -> Any:
    def step(before: Any, now: Any, older: Any, old: Any) -> Any:
        return ops.tanh(older * before + 0.5 * old * now)

    return control.scan(step, [dict(input=x, taps=[-1, 0])], [dict(initial=h0, taps=[-2, -1])])


def until(x: Any, total: Any) -> Any:
    def step(x_t: Any, total: Any) -> Any:
        total = total + ops.square(x_t)
        return total, control.until(total > 4.0)

    return control.scan(step, [x], [total])


ENTRIES = [
    Entry("scan", recurrence, (real("t n", name="x"), real("n", name="h0"), real("n n", name="w")), **THIRD,
          references=("pymc-devs/pytensor#1772: there the third derivative of scan is wrong",)),
    Entry("scan[states and results]", two_states, (real("t"), real(), real()), **STEPS),
    Entry("scan[neighbours]", neighbours, (real("t n"), real("2 n")), sizes={"t": (3, 5)}, empty=("n",), single=("n",)),
    Entry("scan[backwards]", lambda x, h0: control.scan(lambda x_t, h: ops.tanh(x_t * h), [x], [h0], go_backwards=True),
          (real("t n"), real("n")), **STEPS),
    Entry("scan[n_steps]", lambda h0, w: control.scan(lambda h, w: ops.sin(h * w), (), [h0], [w], n_steps=4),
          (real("n"), real("n"))),
    Entry("scan[until]", until, (real("t"), positive()), sizes={"t": (3, 6)}),
    Entry("scan[truncated]", lambda x, h0: control.scan(lambda x_t, h: x_t * h, [x], [h0], truncate_gradient=1),
          (real("3"), real()), orders=1,
          pullback=lambda arrays, cotangents: truncated(*arrays, *cotangents)),
    Entry("scan[integers]", lambda x, n: control.scan(lambda x_t, n_t: x_t * n_t, [x, n]), (real("t"), integer("t"))),
    Entry("map", lambda x, y: control.map(lambda a, b: a * ops.exp(b), [x, y]), (real("t n"), real("t n")), **STEPS),
    Entry("foldl", lambda x, s: control.foldl(lambda x_t, s: ops.sin(s) + x_t, [x], s), (real("t n"), real("n")),
          **STEPS, empty=("n",)),
    Entry("foldr", lambda x, s: control.foldr(lambda x_t, s: ops.sin(s) * x_t, [x], s), (real("t n"), real("n")),
          **STEPS, empty=("n",)),
    Entry("ifelse", lambda c, x, y: control.ifelse(c, ops.sin(x) * y, x - y), (mask(), real("n"), real("n"))),
    Entry("ifelse[the other branch is infinite]", lambda c, x: control.ifelse(c, ops.sqrt(x), x),
          (mask(), positive("n")),
          points=(Point((False, [0.0]), (None, [1.0]), why="sqrt at 0 isn't taken"),)),
    Entry("while_loop", lambda x: control.while_loop(lambda s: ops.sum(s) < 20.0, lambda s: 1.5 * s + 1.0, x, 40),
          (positive("n"),), sizes={"n": (2, 3)}, empty=()),
    Entry("checkpoint", lambda x, w: control.checkpoint(lambda x, w: ops.tanh(x @ w) * ops.sum(x), x, w),
          (real("n m"), real("m k"))),
    Entry("passed", Passed(), (real("a b"),)),
    Entry("as_op", lambda x, y: control.as_op(lambda x, y: (ops.sin(x * y), x))(x, y), (real("n"), real("n")),
          orders=3),
]  # fmt: skip


def truncated(x: Any, h0: Any, g: Any) -> tuple[Any, Any]:
    """The gradient of h_t = x_t h_(t-1), of which only the last step is walked back."""
    return [0.0, 0.0, g[2] * x[1] * x[0] * h0], 0.0 * h0
