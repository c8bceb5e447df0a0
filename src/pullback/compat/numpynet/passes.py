"""An expression that is run forwards now and backwards later."""

from collections.abc import Sequence

import numpy as np

from ...compile import function
from ...gradient.engine import grad
from ...graph import Variable, clone_replace, toposort

Arrays = Sequence[np.ndarray]


class Pass:
    """Two compiled functions: values, and gradients from what the first one left behind.

    What is left behind is every variable of the value's graph that the gradient's graph needs, so that nothing is
    computed twice and a random mask stays the same.

    Args:
        inputs: float variables; each gets a gradient.
        output: what cotangents are of.
        extras: other variables whose values are wanted.
    """

    def __init__(self, inputs: Sequence[Variable], output: Variable, extras: Sequence[Variable] = ()) -> None:
        cotangent = Variable(output.type, name="cotangent")
        grads = grad(None, list(inputs), known_grads={output: cotangent}, disconnected_inputs="ignore")
        forwards = toposort([output, *extras], stop=inputs)
        made = {v for node in forwards for v in node.outputs}
        there = set(forwards)
        needed = [v for node in toposort(grads) if node not in there for v in node.inputs if v in made]
        kept = list(dict.fromkeys(v for v in [*needed, *grads] if v in made))
        stand_ins = {v: Variable(v.type) for v in kept}
        self.extras = len(extras)
        self._forward = function(list(inputs), [output, *extras, *kept], name="forward", on_unused_input="ignore")
        self._backward = function(
            [*inputs, *stand_ins.values(), cotangent],
            clone_replace(grads, stand_ins),
            name="backward",
            on_unused_input="ignore",
        )

    def forward(self, arrays: Arrays) -> tuple[np.ndarray, Arrays, Arrays]:
        """(the output, the extras, what `backward` needs)."""
        output, *rest = self._forward(*arrays)
        return output, rest[: self.extras], rest[self.extras :]

    def backward(self, arrays: Arrays, kept: Arrays, cotangent: np.ndarray) -> Arrays:
        """The gradients to the inputs; `arrays` are those that went forward."""
        return self._backward(*arrays, *kept, cotangent)
