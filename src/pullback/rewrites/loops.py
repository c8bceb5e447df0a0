"""Products pushed out of loops: one large product before or after a scan instead of a small one at every step.

    before   x_t W           with x_t a slice and W constant:  X W once, its slices are walked
    after    r_t = u_t W     as a result:                      u_t is given out, U W once
    after    S += a_t^T b_t  as a running sum:                 a_t and b_t are given out, A^T B once

The sums are the same ones in another order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..control import Scan
from ..graph import Apply, ClosedGraph, Variable, ancestors, clone_replace
from ..graph.function_graph import FunctionGraph
from ..ops.arithmetic import add
from ..ops.elementwise import Elementwise, SumTo
from ..ops.linear import MatMul
from ..ops.reduce import Sum
from ..ops.shape import Transpose, length, reshape, transpose


def push_out_of_loops(graph: FunctionGraph) -> bool:
    """Rewrite every scan of `graph` that holds such products, in place; whether there was one."""
    changed = False
    for node in graph.toposort():
        if isinstance(node.op, Scan) and not node.op.until:
            loop = Loop(node)
            if loop.push_out():
                graph.replace(dict(zip(node.outputs, loop.outputs())))
                changed = True
    return changed


@dataclass
class State:
    """A state of the loop: what it begins with, the variables by which it is read, its new value."""

    initial: Variable
    taps: tuple[int, ...]
    read: list[Variable]
    new: Variable
    last_only: bool


class Loop:
    """A scan taken apart: slices with their sequences, states, results, constants; and put together again."""

    def __init__(self, node: Apply) -> None:
        self.node, self.op = node, node.op
        op = self.op
        slices, states, inside = op.inner_groups()
        self.count, sequences, initial, constants = op.groups(node.inputs)
        kept = op.last_only or (False,) * op.n_states
        self.slices = dict(zip(slices, sequences))
        self.constants = dict(zip(inside, constants))
        outputs = op.graph.outputs
        self.states = [State(*parts) for parts in zip(initial, op.taps, map(list, states), outputs, kept)]
        self.results = list(outputs[op.n_states :])
        self.places: list[tuple[str, int]] = [("state", k) for k in range(op.n_states)]
        self.places += [("result", i) for i in range(len(self.results))]
        self.final: dict[tuple[str, int], Callable[[Sequence[Variable]], Variable]] = {}  # from the stacked results

    def push_out(self) -> bool:
        found = [self._sums_after(), self._results_after(), self._products_before()]
        return any(found)

    # --- before the loop ----------------------------------------------------------------------------------------------
    def _products_before(self) -> bool:
        replaced: dict[Variable, Variable] = {}
        for inner in self.op.graph.nodes:
            if not isinstance(inner.op, MatMul):
                continue
            x, w = inner.inputs
            outer = self._constant(w)
            if x in self.slices and x.ndim == 2 and outer is not None:
                walked = Variable(inner.outputs[0].type)
                self.slices[walked] = on_rows(self.slices[x], outer)
                replaced[inner.outputs[0]] = walked
        if replaced:
            everything = clone_replace([*(s.new for s in self.states), *self.results], replaced)
            for state, new in zip(self.states, everything):
                state.new = new
            self.results = everything[len(self.states) :]
        return bool(replaced)

    def _constant(self, w: Variable) -> Variable | None:
        """The outer expression of a matrix that is the same at every step."""
        if w in self.constants and w.ndim == 2:
            return self.constants[w]
        if w.owner is not None and isinstance(w.owner.op, Transpose) and w.ndim == 2:
            inner = self._constant(w.owner.inputs[0])
            return None if inner is None else transpose(inner)
        return None

    # --- after the loop -----------------------------------------------------------------------------------------------
    def _results_after(self) -> bool:
        changed = False
        for place in [p for p in self.places if p[0] == "result" and p not in self.final]:
            node = self.results[place[1]].owner
            if node is None or not isinstance(node.op, MatMul) or node.inputs[0].ndim != 2:
                continue
            outer = self._constant(node.inputs[1])
            if outer is not None:
                self.results[place[1]] = node.inputs[0]
                self.final[place] = lambda stacked, i=place[1], w=outer: on_rows(stacked[i], w)
                changed = True
        return changed

    def _sums_after(self) -> bool:
        changed = False
        for k, state in enumerate(self.states):
            term = self._running_sum(state)
            node = None if term is None else term.owner
            if node is None:
                continue
            if isinstance(node.op, MatMul) and all(v.ndim == 2 for v in node.inputs):
                left, right = node.inputs
                turned = left.owner is not None and isinstance(left.owner.op, Transpose)
                a = self._given_out(left.owner.inputs[0] if turned else left)
                b = self._given_out(right)
                self.final["state", k] = lambda stacked, a=a, b=b, turned=turned, first=state.initial: add(
                    first[-1], product_over_steps(stacked[a], stacked[b], turned)
                )
            elif isinstance(node.op, Sum) and node.op.axis == (0,) and not node.op.keepdims:
                b = self._given_out(node.inputs[0])
                self.final["state", k] = lambda stacked, b=b, first=state.initial: add(
                    first[-1], Sum((0, 1))(stacked[b])
                )
            elif isinstance(node.op, SumTo) and node.inputs[1] in self.constants:
                b, like = self._given_out(node.inputs[0]), self.constants[node.inputs[1]]
                self.final["state", k] = lambda stacked, b=b, like=like, first=state.initial: add(
                    first[-1], SumTo()(stacked[b], like)
                )
            else:
                continue
            changed = True
        if changed:
            self.states = [s for k, s in enumerate(self.states) if ("state", k) not in self.final]
        return changed

    def _running_sum(self, state: State) -> Variable | None:
        """What is added at each step to a state that only adds up, and of which only the end is wanted."""
        node = state.new.owner
        if not state.last_only or state.taps != (-1,) or node is None:
            return None
        total = state.read[0]
        if not isinstance(node.op, Elementwise) or node.op.row.name != "add" or total not in node.inputs:
            return None
        term = node.inputs[1] if node.inputs[0] is total else node.inputs[0]
        elsewhere = [*(s.new for s in self.states if s is not state), *self.results, term]
        if total in set(ancestors(elsewhere)):
            return None
        return term

    def _given_out(self, v: Variable) -> int:
        """The number of the result that gives out `v` at every step."""
        for i, given in enumerate(self.results):
            if given is v:
                return i
        self.results.append(v)
        return len(self.results) - 1

    # --- together again -----------------------------------------------------------------------------------------------
    def outputs(self) -> list[Variable]:
        """Expressions for the old node's outputs."""
        op = self.op
        wanted = [*(s.new for s in self.states), *self.results]
        used = set(ancestors(wanted))
        slices = [v for v in self.slices if v in used]
        constants = [v for v in self.constants if v in used]
        inputs = [*slices, *(v for s in self.states for v in s.read), *constants]
        new_op = replace(
            op, graph=ClosedGraph(inputs, wanted), n_sequences=len(slices), taps=tuple(s.taps for s in self.states),
            last_only=tuple(s.last_only for s in self.states),
        )  # fmt: skip
        found = new_op.make_node(
            self.count, *(self.slices[v] for v in slices), *(s.initial for s in self.states),
            *(self.constants[v] for v in constants),
        ).outputs  # fmt: skip
        stacked = found[len(self.states) :]
        by_state = iter(found)
        answers = []
        for place in self.places:
            if place in self.final:
                answers.append(self.final[place](stacked))
            else:
                answers.append(next(by_state) if place[0] == "state" else stacked[place[1]])
        return answers


def on_rows(x: Variable, w: Variable) -> Variable:
    """x[t] @ w for all steps t, as one product."""
    steps, rows = length(x, 0), length(x, 1)
    product = MatMul()(reshape(x, (steps * rows, length(x, 2))), w)
    return reshape(product, (steps, rows, length(w, 1)))


def product_over_steps(a: Variable, b: Variable, turned: bool) -> Variable:
    """The sum over steps of a[t]^T b[t] (turned) or a[t] b[t], as one product."""
    steps, rows = length(b, 0), length(b, 1)
    if turned:
        left = transpose(reshape(a, (steps * rows, length(a, 2))))
    else:
        left = reshape(transpose(a, (1, 0, 2)), (length(a, 1), steps * rows))
    return MatMul()(left, reshape(b, (steps * rows, length(b, 2))))

