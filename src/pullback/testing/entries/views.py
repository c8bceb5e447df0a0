"""Ops that change the gradient and not the value. Their gradient is no derivative, by intent."""

import numpy as np

from ... import ops
from ..entry import Entry, real

ENTRIES = [
    Entry("disconnected_grad", ops.disconnected_grad, (real("a b"),), differs={0: "it says so"},
          pullback=lambda arrays, cotangents: [None]),
    Entry("zero_grad", ops.zero_grad, (real("a b"),), pullback=lambda arrays, cotangents: [np.zeros_like(arrays[0])]),
    Entry("grad_clip", lambda x: ops.grad_clip(x, -0.5, 0.7), (real("a b"),),
          pullback=lambda arrays, cotangents: [np.clip(cotangents[0], -0.5, 0.7)]),
    Entry("grad_scale", lambda x: ops.grad_scale(x, -3.0), (real("a b"),),
          pullback=lambda arrays, cotangents: [-3.0 * cotangents[0]]),
    Entry("undefined_grad", ops.undefined_grad, (real("a b"),), differs={0: "it says so"},
          pullback=lambda arrays, cotangents: [None]),
]  # fmt: skip
