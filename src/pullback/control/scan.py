"""`scan`: repeat a function over the first axis of sequences, carrying state; and maps, folds and loops made of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError, ArgumentTypeError, DTypeError, GraphError, ShapeError
from ..graph import SharedVariable, TensorType, Variable, as_variable, clone_replace
from ..ops.arithmetic import minimum
from ..ops.dtypes import as_tensor
from ..ops.rearrange import flip
from ..ops.shape import expand_dims, length
from .inner import close, trace
from .scan_op import Scan

__all__ = ["foldl", "foldr", "map", "scan", "until"]


@dataclass(frozen=True)
class Until:
    """The end condition among what a step returns: the loop stops after the step in which it is true."""

    condition: Variable


def until(condition: Any) -> Until:
    """Mark `condition` (a scalar) as the end condition: the last thing that a step function returns."""
    condition = as_variable(condition)
    if condition.ndim != 0:
        raise ArgumentTypeError(f"until: the condition must be a scalar, got {condition.type}")
    return Until(condition.astype("bool"))


@dataclass(frozen=True)
class State:
    """A recurrent output: its values before the first step (oldest first, on a first axis), and where it is read."""

    initial: Variable
    taps: tuple[int, ...]


def scan(
    fn: Callable[..., Any],
    sequences: Any = (),
    outputs_info: Any = None,
    non_sequences: Any = (),
    n_steps: Any = None,
    *,
    go_backwards: bool = False,
    truncate_gradient: int = -1,
    return_list: bool = False,
    return_updates: bool = False,
    name: str = "scan",
) -> Any:
    """Call `fn` for each step and stack what it returns on a new first axis.

    Args:
        fn: `fn(slice of each sequence.., earlier values of each state.., non_sequences..)` returns the new states and
            other results: a variable, a list or tuple, optionally with `pb.until(condition)` last, and optionally a
            dict of updates of shared variables beside them. It is called once, on symbolic variables; variables that
            it captures from outside work like non_sequences.
        sequences: arrays whose first axis is walked; `dict(input=x, taps=[-1, 0])` gives fn several neighbours.
        outputs_info: one entry per output: an initial value (the output is a state, given back at the next step),
            `dict(initial=values, taps=[-2, -1])` with as many initial values on the first axis as the state reaches
            back, or None (a result that isn't fed back). Left out altogether: all outputs are results (a map).
        non_sequences: values that are the same at every step.
        n_steps: how many steps; by default the length of the sequences (the shortest one). Zero steps give arrays of
            length 0.
        go_backwards: walk the sequences from their end (results stay in the order of the steps).
        truncate_gradient: let gradients go back through the last so many steps only; -1 for all.
        return_list: always return a list. Else one output is returned bare.
        return_updates: return (outputs, updates), where updates are the final values of the shared variables that fn
            updates, to be handed to `pb.function`.

    Random draws: a draw's key and counter are inputs, so a draw inside `fn` that doesn't depend on the step is the same
    at every step. Draw outside with a first axis of steps, and pass the result as a sequence, for fresh values.

    Gradients: with respect to sequences, initial values and everything that is read inside, to any order.

    Example:
        >>> import pullback as pb
        >>> x = pb.vector("x")
        >>> zero = pb.constant(0.0, dtype="float32")
        >>> totals = pb.scan(lambda x_t, total: total + x_t, sequences=x, outputs_info=zero)
        >>> totals.eval({x: [1.0, 2.0, 3.0]})
        array([1., 3., 6.], dtype=float32)
    """
    slices, walked = _sequences(sequences, go_backwards)
    fixed = [as_tensor(x) for x in _listed(non_sequences)]
    if n_steps is None and not walked:
        raise ArgumentError(f"{name}: without sequences n_steps must be given")
    count = _step_count(n_steps, walked)
    walked = [x if n_steps is None and len(walked) == 1 else x[:count] for x in walked]
    infos = None if outputs_info is None else [_state(info, name) for info in _listed(outputs_info)]
    states = [info for info in infos or () if info is not None]
    tap_variables = [[Variable(_slice_type(s.initial)) for _ in s.taps] for s in states]
    fixed_inside = [Variable(x.type, name=x.name) for x in fixed]
    arguments = [*slices, *(v for taps in tap_variables for v in taps), *fixed_inside]
    outputs, condition, updates = _split(trace(fn, arguments, name), name)
    if infos is None:
        infos = [None] * len(outputs)
    if len(infos) != len(outputs):
        raise ArgumentError(f"{name}: fn returned {len(outputs)} outputs, outputs_info has {len(infos)} entries")
    new_states = [v for v, info in zip(outputs, infos) if info is not None]
    results = [v for v, info in zip(outputs, infos) if info is None]
    for shared, new in updates.items():  # a shared variable that fn updates is one more state
        inside = Variable(shared.type, name=shared.name)
        states.append(State(expand_dims(shared, 0), (-1,)))
        tap_variables.append([inside])
        everything = clone_replace([*new_states, *results, *condition, new, *updates.values()], {shared: inside})
        n, m, c = len(new_states), len(results), len(condition)
        new_states, results, condition = everything[:n], everything[n : n + m], everything[n + m : n + m + c]
        new_states.append(everything[n + m + c])
        updates = dict(zip(updates, everything[n + m + c + 1 :]))
    _check_states(new_states, states, name)
    inner_inputs = [*slices, *(v for taps in tap_variables for v in taps), *fixed_inside]
    graph, captured = close(inner_inputs, [*new_states, *results, *condition])
    op = Scan(
        graph, len(slices), tuple(s.taps for s in states), until=bool(condition), truncate=truncate_gradient, name=name
    )
    found = list(op.make_node(count, *walked, *(s.initial for s in states), *fixed, *captured).outputs)
    by_state, rest = iter(found), iter(found[len(states) :])
    ordered = [next(rest) if info is None else next(by_state) for info in infos]
    final = {shared: next(by_state)[-1] for shared in updates}
    if updates and not return_updates:
        raise GraphError(
            f"{name}: fn updates {list(updates)}; pass return_updates=True and hand the updates to pb.function"
        )
    answer: Any = ordered if return_list or len(ordered) != 1 else ordered[0]
    return (answer, final) if return_updates else answer


def map(fn: Callable[..., Any], sequences: Any, non_sequences: Any = (), **options: Any) -> Any:
    """`fn` of each slice of the sequences, stacked. Options as for `scan`."""
    return scan(fn, sequences, None, non_sequences, **options)


def foldl(fn: Callable[..., Any], sequences: Any, outputs_info: Any, non_sequences: Any = (), **options: Any) -> Any:
    """The last value of a state that `fn` carries over the sequences from left to right. Options as for `scan`."""
    outputs = scan(fn, sequences, outputs_info, non_sequences, return_list=True, **options)
    last = [v[-1] for v in outputs]
    return last if len(last) != 1 else last[0]


def foldr(fn: Callable[..., Any], sequences: Any, outputs_info: Any, non_sequences: Any = (), **options: Any) -> Any:
    """The same from right to left."""
    return foldl(fn, sequences, outputs_info, non_sequences, go_backwards=True, **options)


# --- arguments --------------------------------------------------------------------------------------------------------


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _slice_type(x: Variable) -> TensorType:
    return TensorType(x.dtype, x.type.shape[1:])


def _sequences(sequences: Any, go_backwards: bool) -> tuple[list[Variable], list[Variable]]:
    """(inner slices, arrays walked from the front): one of each per sequence and tap."""
    slices, walked = [], []
    for entry in _listed(sequences):
        given = entry if isinstance(entry, Mapping) else {"input": entry}
        x = as_tensor(given["input"])
        taps = tuple(_listed(given.get("taps", 0)))
        if x.ndim == 0:
            raise ShapeError("scan: a sequence needs a first axis to walk along, got a scalar")
        x = flip(x, 0) if go_backwards else x
        low, high = min(0, *taps), max(0, *taps)
        for tap in taps:
            window = x if low == high == 0 else x[tap - low : length(x) + (tap - high)]
            slices.append(Variable(_slice_type(x), name=x.name and f"{x.name}[t]"))
            walked.append(window)
    return slices, walked


def _step_count(n_steps: Any, walked: Sequence[Variable]) -> Variable:
    if n_steps is not None:
        count = as_variable(n_steps)
        if count.ndim != 0 or not count.type.is_discrete:
            raise ArgumentTypeError(f"scan: n_steps must be an integer, got {count.type}")
        return count.astype("int64")
    count = length(walked[0])
    for x in walked[1:]:
        count = minimum(count, length(x))
    return count


def _state(info: Any, name: str) -> State | None:
    if info is None or (isinstance(info, Mapping) and info.get("initial") is None):
        return None
    if not isinstance(info, Mapping):
        return State(expand_dims(as_tensor(info), 0), (-1,))
    taps = tuple(_listed(info.get("taps", -1)))
    if not taps or any(not isinstance(t, int) or t >= 0 for t in taps):
        raise ArgumentError(f"{name}: a state is read at taps {taps}; expected negative integers")
    initial = as_tensor(info["initial"])
    return State(expand_dims(initial, 0) if taps == (-1,) else initial, taps)


def _split(returned: Any, name: str) -> tuple[list[Variable], list[Variable], dict[SharedVariable, Variable]]:
    """(outputs, [condition] or [], updates) of what a step function returned."""
    updates: dict[SharedVariable, Variable] = {}
    condition: list[Variable] = []
    outputs: list[Variable] = []

    def take(item: Any) -> None:
        if isinstance(item, Until):
            condition.append(item.condition)
        elif isinstance(item, Mapping):
            updates.update((s, as_variable(v)) for s, v in item.items())
        elif isinstance(item, (list, tuple)):
            for part in item:
                take(part)
        elif item is not None:
            outputs.append(as_tensor(item))

    take(returned)
    if len(condition) > 1:
        raise ArgumentError(f"{name}: fn returned more than one pb.until(...)")
    for shared in updates:
        if not isinstance(shared, SharedVariable):
            raise ArgumentTypeError(f"{name}: fn updates {shared!r}, which is not a shared variable")
    return outputs, condition, updates


def _check_states(new_states: list[Variable], states: Sequence[State], name: str) -> None:
    for i, (new, state) in enumerate(zip(new_states, states)):
        old = _slice_type(state.initial)
        if new.type.dtype != old.dtype:
            raise DTypeError(
                f"{name}: state {i} begins as {old.dtype}, but fn returns {new.type.dtype} for it; cast one of them"
            )
        if new.type.ndim != old.ndim:
            raise ShapeError(f"{name}: state {i} begins with {old.ndim} dimensions, but fn returns {new.type} for it")
