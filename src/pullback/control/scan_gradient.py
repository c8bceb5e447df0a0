"""The gradient of Scan: a scan from the last step to the first, carrying the cotangents of the states.

At step t the cotangent of state k is what comes from outside (its entry in the output's gradient) plus what later steps
sent back. The step's own pullback gives the cotangents of the slice (a result), of the states that it read (sent on to
earlier steps) and of the constant values (added up).
"""

from collections.abc import Sequence

from ..graph import ClosedGraph, DisconnectedType, Variable, ancestors, clone_replace
from ..ops.arithmetic import add, greater, minimum, where
from ..ops.elementwise import zeros_like
from ..ops.indexing import set_subtensor
from ..ops.rearrange import flip
from ..ops.shape import concatenate, expand_dims, length, stack
from .graph_op import refused
from .inner import is_answer, is_float, pullback_graph
from .scan_op import Scan


class ScanPullback:
    """One use of a scan, and the gradients that arrive at its outputs; `answers()` gives one per input of the node."""

    def __init__(
        self, op: Scan, inputs: Sequence[Variable], outputs: Sequence[Variable], output_grads: Sequence[Variable]
    ) -> None:
        self.op, self.inputs, self.outputs, self.output_grads = op, inputs, outputs, output_grads
        self.count, self.sequences, self.initial, self.constants = op.groups(inputs)
        self.slices, self.states, self.inner_constants = op.inner_groups()
        wrt = [v for v in op.graph.inputs if is_float(v)]
        cotangents, found = pullback_graph(op.graph, wrt)
        self.found = dict(zip(wrt, found))
        float_outputs = [k for k, v in enumerate(op.graph.outputs) if is_float(v)]
        self.arriving = dict(zip(float_outputs, cotangents))  # output of the graph -> its cotangent inside a step
        self._full_node: Sequence[Variable] | None = None

    def answers(self) -> list[Variable]:
        op = self.op
        state_answers = [self.found[v] for taps in self.states for v in taps if v in self.found]
        blocked = next((a for a in state_answers if is_answer(a)), None)
        if blocked is not None:  # the state is the way by which everything reaches later steps
            return [
                refused(op, i, blocked) if is_float(x) else DisconnectedType()() for i, x in enumerate(self.inputs)
            ]
        self._plan_window()
        slots, accumulators, results = self._run()
        answers = [DisconnectedType()()]
        answers += [self._sequence_answer(i, v, results) for i, v in enumerate(self.slices)]
        for k, initial in enumerate(self.initial):
            answers.append(self._initial_answer(slots[k]) if k in slots and is_float(initial) else DisconnectedType()())
        for v in self.inner_constants:
            i = len(answers)
            answer = self.found.get(v)
            if answer is not None and is_answer(answer):
                answers.append(refused(op, i, answer))
            else:
                answers.append(accumulators[v] if v in accumulators else DisconnectedType()())
        return answers

    # --- the window of steps that the gradient goes through -----------------------------------------------------------
    def _plan_window(self) -> None:
        op = self.op
        self.ran = length(self._trajectory()) if op.until else self.count
        self.whole = op.truncate < 0 and not op.until
        self.depth = self.ran if op.truncate < 0 else minimum(self.ran, op.truncate)
        self.skipped = self.ran - self.depth

    def _trajectory(self) -> Variable:
        """Any output with one entry per step."""
        kept = self.op.last_only or (False,) * self.op.n_states
        place = next((j for j in range(len(self.outputs)) if j >= len(kept) or not kept[j]), None)
        return self._full()[0] if place is None else self.outputs[place]

    def _full(self) -> Sequence[Variable]:
        """The outputs with all states: of this node, or of one that gives them out."""
        if not any(self.op.last_only):
            return self.outputs
        if self._full_node is None:
            self._full_node = self.op.with_all_states().make_node(*self.inputs).outputs
        return self._full_node

    def _window(self, x: Variable) -> Variable:
        """The entries of a sequence (or trajectory) that belong to the steps in the window."""
        if self.whole:
            return x
        return x[: self.depth] if self.op.backwards else x[self.skipped : self.ran]

    def _past(self, k: int, tap: int) -> Variable:
        """What step t read of state k at distance `tap`, for the steps in the window."""
        reach, trajectory, initial = self.op.reach[k], self._full()[k], self.initial[k][-self.op.reach[k] :]
        if self.op.backwards:
            everything = concatenate([trajectory, flip(initial, 0)], axis=0)
            return everything[-tap : self.depth - tap]
        everything = concatenate([initial, trajectory], axis=0)
        return everything[self.skipped + (reach + tap) : self.ran + (reach + tap)]

    # --- the backward scan --------------------------------------------------------------------------------------------
    def _formula(self, v: Variable) -> Variable | None:
        answer = self.found.get(v)
        if answer is None or isinstance(answer.type, DisconnectedType) or is_answer(answer):
            return None
        return answer

    def _run(self) -> tuple[dict[int, list[Variable]], dict[Variable, Variable], dict[Variable, Variable]]:
        """(cotangents of the first states by state, sums by constant, stacked cotangents by slice)."""
        op = self.op
        last = op.last_only or (False,) * op.n_states
        reading: list[tuple[Variable, Variable]] = []  # (inner slice, sequence)
        slots: dict[int, list[Variable]] = {}
        arrives: dict[Variable, Variable] = {}  # cotangent inside the step -> expression
        starts: list[Variable] = []
        for k, inside in self.arriving.items():
            if k >= op.n_states + op.n_results:
                continue
            if k >= op.n_states:
                reading.append((inside, self._window(self.output_grads[k])))
                continue
            slots[k] = [Variable(inside.type) for _ in range(op.reach[k])]
            zero = zeros_like(self.initial[k][0])
            starts += [self.output_grads[k] if last[k] and j == 0 else zero for j in range(op.reach[k])]
            arrives[inside] = slots[k][0]
            if not last[k]:
                outside = Variable(inside.type)
                reading.append((outside, self._window(self.output_grads[k])))
                arrives[inside] = add(slots[k][0], outside)
        new_slots = [v for k in slots for v in self._sent_on(k, slots[k])]
        summed = [v for v in self.inner_constants if self._formula(v) is not None]
        sums = [Variable(v.type) for v in summed]
        starts += [zeros_like(self._outer(v)) for v in summed]
        given = [v for v in self.slices if self._formula(v) is not None]
        outputs = [
            *new_slots,
            *(add(total, self._formula(v)) for total, v in zip(sums, summed)),
            *(self._formula(v) for v in given),
        ]
        outputs = clone_replace(outputs, arrives)
        used = set(ancestors(outputs))
        reading += [(v, self._window(x)) for v, x in zip(self.slices, self.sequences) if v in used]
        for k, variables in enumerate(self.states):
            reading += [(v, self._past(k, tap)) for v, tap in zip(variables, op.taps[k]) if v in used]
        reading = [(v, x) for v, x in reading if v in used]
        carried = [*(s for k in slots for s in slots[k]), *sums]
        fixed = [v for v in self.inner_constants if v in used]
        graph = ClosedGraph([*(v for v, _ in reading), *carried, *fixed], outputs)
        backward = Scan(
            graph, len(reading), ((-1,),) * len(carried), last_only=(True,) * len(carried),
            backwards=not op.backwards, name=f"gradient of {op.name}",
        )  # fmt: skip
        found = backward.make_node(
            self.depth, *(x for _, x in reading), *(expand_dims(v, 0) for v in starts), *map(self._outer, fixed)
        ).outputs
        at = 0
        final: dict[int, list[Variable]] = {}
        for k in slots:
            final[k] = list(found[at : at + op.reach[k]])
            at += op.reach[k]
        totals = dict(zip(summed, found[at:]))
        return final, totals, dict(zip(given, found[at + len(summed) :]))

    def _sent_on(self, k: int, slots: Sequence[Variable]) -> list[Variable]:
        """The slots of state k for the step before: slot j is for the state j steps before the present one."""
        by_tap = {tap: self._formula(v) for v, tap in zip(self.states[k], self.op.taps[k])}
        sent = []
        for j in range(len(slots)):
            terms = [slots[j + 1]] if j + 1 < len(slots) else []
            if by_tap.get(-(j + 1)) is not None:
                terms.append(by_tap[-(j + 1)])
            sent.append(add(*terms) if len(terms) == 2 else terms[0] if terms else zeros_like(slots[j]))
        return sent

    def _outer(self, v: Variable) -> Variable:
        """The node's input for an inner constant value."""
        return self.constants[list(self.inner_constants).index(v)]

    # --- answers ------------------------------------------------------------------------------------------------------
    def _sequence_answer(self, i: int, v: Variable, results: dict[Variable, Variable]) -> Variable:
        answer = self.found.get(v)
        if answer is not None and is_answer(answer):
            return refused(self.op, 1 + i, answer)
        if v not in results:
            return DisconnectedType()()
        if self.whole:
            return results[v]
        zeros = zeros_like(self.sequences[i])
        return set_subtensor(self._window(zeros), results[v])

    def _initial_answer(self, slots: Sequence[Variable]) -> Variable:
        g = stack(list(slots)[::-1], axis=0)
        return g if self.op.truncate < 0 else where(greater(self.skipped, 0), zeros_like(g), g)
