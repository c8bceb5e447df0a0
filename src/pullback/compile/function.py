"""`function`: an expression made callable."""

import functools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config import config
from ..errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GraphError,
    MissingInputError,
    PullbackError,
    UnknownNameError,
    UnusedInputError,
    nearest,
)
from ..graph import (
    Constant,
    SharedVariable,
    TensorType,
    Variable,
    ancestors,
    as_variable,
    clone_replace,
    flatten,
    leaves,
    shared_variables,
    unflatten,
    user_line,
)
from ..rewrites import optimize
from .program import Program

Outputs = Variable | Sequence[Variable] | Mapping[str, Variable] | None
Updates = Mapping[SharedVariable, Any] | Iterable[tuple[SharedVariable, Any]] | None


@dataclass(frozen=True)
class In:
    """An input of `function` with a default value, or with another name for keyword calls."""

    variable: Variable
    default: Any = None
    name: str | None = None


def function(
    inputs: Sequence[Variable | In],
    outputs: Outputs = None,
    *,
    updates: Updates = None,
    givens: Mapping[Variable, Any] | Iterable[tuple[Variable, Any]] | None = None,
    name: str | None = None,
    on_unused_input: str = "raise",
    no_default_updates: bool = False,
    backend: str | None = None,
) -> "Function":
    """Make a callable that computes `outputs` from `inputs`.

    Args:
        inputs: variables in calling order; `In(x, default=...)` gives one a default.
        outputs: a variable (the call returns an array), a list or tuple (a list of arrays), a dict (a dict of arrays),
            or None.
        updates: {shared: new value}. All are computed from the old values and committed together after the last step; a
            failure commits none.
        givens: {variable: replacement}, applied before anything else.
        name: for messages.
        on_unused_input: "raise", "warn" or "ignore".
        no_default_updates: leave the `default_update` of shared variables (random streams) alone.
        backend: "native" or "reference"; config.backend when the function is made, unless given.

    Returns:
        A Function. It owns nothing that it returns: results are fresh arrays.

    Example:
        >>> import pullback as pb
        >>> x = pb.scalar("x")
        >>> pb.function([x], x * 2)(3.0)
        array(6., dtype=float32)
    """
    return Function(inputs, outputs, updates, givens, name, on_unused_input, no_default_updates, backend)


class Function:
    """A compiled expression: call it with arrays. Thread-safe; picklable.

    Attributes:
        inputs: the symbolic inputs, in order.
        outputs: the symbolic outputs, as a list.
        updates: {shared variable: expression of its next value}.
    """

    def __init__(
        self,
        inputs: Sequence[Variable | In],
        outputs: Outputs,
        updates: Updates,
        givens: Any,
        name: str | None,
        on_unused_input: str,
        no_default_updates: bool,
        backend: str | None,
    ) -> None:
        if on_unused_input not in ("raise", "warn", "ignore"):
            raise ArgumentError(f"function: on_unused_input={on_unused_input!r}; expected 'raise', 'warn' or 'ignore'")
        self.backend = backend or config.backend
        if self.backend not in ("native", "reference"):
            raise ArgumentError(f"function: backend={backend!r}; expected 'native' or 'reference'")
        self.origin = user_line()
        self.name = name or "function"
        specs = _input_specs(inputs)
        self.inputs = [spec.variable for spec in specs]
        self.names = [spec.name or spec.variable.name for spec in specs]
        self.defaults = [None if s.default is None else s.variable.type.filter(s.default) for s in specs]
        self.outputs, self._pack = _output_spec(outputs)
        self.updates = _check_updates(updates)
        self._apply_givens(givens)
        if not no_default_updates:
            self._add_default_updates()
        self._check_leaves(on_unused_input)
        self._programs: dict[tuple, Program] = {}
        self._lock = threading.RLock()

    # --- calling ------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute. Arguments go by position or by the inputs' names."""
        if kwargs or len(args) != len(self.inputs):
            args = self._bind_arguments(args, kwargs)
        arrays = []
        for (dtype, ndim), value in zip(self._quick_checks, args):
            fits = type(value) is np.ndarray and value.dtype is dtype and value.ndim == ndim
            arrays.append(value if fits else self._filter(len(arrays), value))
        program = self._programs.get((config.nan_guard, *[s.storage.shape for s in self._loose])) or self.program
        return self._pack(program.run(arrays))

    @functools.cached_property
    def _quick_checks(self) -> list[tuple[np.dtype, int]]:
        """What an array must be to need no closer look; rank -1 where a length is prescribed."""
        return [(np.dtype(v.dtype), v.ndim if v.type.shape == (None,) * v.ndim else -1) for v in self.inputs]

    @functools.cached_property
    def _loose(self) -> list[SharedVariable]:
        """Shared variables whose type leaves a length open: rewriting relies on the lengths that they have now."""
        found = shared_variables([*self.outputs, *self.updates, *self.updates.values()])
        return [s for s in found if None in s.type.shape]

    @property
    def program(self) -> Program:
        """What runs at the present shapes of the shared variables: made when first needed.

        Under the NaN guard nothing is fused or simplified, so that the op which is named is one that the user wrote.
        """
        shapes = {s: s.storage.shape for s in self._loose}
        key = (config.nan_guard, *shapes.values())
        if key not in self._programs:
            with self._lock:
                if key not in self._programs:
                    with config.override(rewrites="stabilising" if config.nan_guard else config.rewrites):
                        roots = optimize([*self.outputs, *self.updates.values()], self.inputs, shapes)
                    n = len(self.outputs)
                    new_values = dict(zip(self.updates, roots[n:]))
                    self._programs[key] = Program(self.inputs, roots[:n], new_values, self.backend)
        return self._programs[key]

    def profile(self, *args: Any, repeats: int = 20) -> Any:
        """Where the time of a call goes: `repeats + 1` calls with `args`, with a clock around every step of the plan.

        They are calls like any others: updates are applied at each of them. Print the result to read it. Functions on
        the native backend only, without results whose size depends on values.
        """
        from .plan import Plan
        from .profile import profile_calls

        self(*args)
        plan = self.program.latest_plan()
        if not isinstance(plan, Plan):
            raise GraphError(f"{self.name}: its plan is in parts, because sizes in it depend on values; no profile")
        return profile_calls(lambda: self(*args), plan, repeats)

    def _filter(self, i: int, value: Any) -> np.ndarray:
        try:
            return self.inputs[i].type.filter(value)
        except PullbackError as error:
            label = f"{self.names[i]!r} (number {i})" if self.names[i] else f"number {i}"
            raise type(error)(f"{self.name}: input {label}: {error}") from None

    def _bind_arguments(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        if len(args) > len(self.inputs):
            raise ArgumentTypeError(f"{self.name} takes {len(self.inputs)} inputs, got {len(args)}")
        values: list[Any] = [*args, *[None] * (len(self.inputs) - len(args))]
        for key, value in kwargs.items():
            if key not in self.names:
                known = [n for n in self.names if n]
                raise UnknownNameError(f"{self.name} has no input named {key!r}. {nearest(key, known)}")
            i = self.names.index(key)
            if i < len(args):
                raise ArgumentTypeError(f"{self.name}: input {key!r} given twice")
            values[i] = value
        for i, value in enumerate(values):
            if value is None:
                if self.defaults[i] is None:
                    label = repr(self.names[i]) if self.names[i] else f"number {i}"
                    raise MissingInputError(f"{self.name}: input {label} ({self.inputs[i].type}) is missing")
                values[i] = self.defaults[i]
        return values

    # --- building -----------------------------------------------------------------------------------------------------
    def _apply_givens(self, givens: Any) -> None:
        if not givens:
            return
        replace: dict[Variable, Variable] = {}
        for old, new in dict(givens).items():
            if not isinstance(old, Variable):
                raise ArgumentTypeError(f"{self.name}: a key of givens is {old!r}, not a Variable")
            new = new if isinstance(new, Variable) else as_variable(old.type.filter(new))
            if new.type.dtype != old.type.dtype or new.type.ndim != old.type.ndim:
                raise GraphError(f"{self.name}: givens replaces {old!r} ({old.type}) by {new!r} of type {new.type}")
            replace[old] = new
        roots = clone_replace([*self.outputs, *self.updates.values()], replace)
        self.outputs = roots[: len(self.outputs)]
        self.updates = dict(zip(self.updates, roots[len(self.outputs) :]))

    def _add_default_updates(self) -> None:
        """Advance every shared counter that the computation reads, once per call."""
        pending = [*self.outputs, *self.updates.values()]
        while pending:
            found = [s for s in shared_variables(pending) if s.default_update is not None and s not in self.updates]
            pending = [s.default_update for s in found]
            self.updates.update(zip(found, pending))

    def _check_leaves(self, on_unused_input: str) -> None:
        roots = [*self.outputs, *self.updates.values()]
        known = set(self.inputs)
        for leaf in leaves(roots, stop=known):
            if leaf not in known and not isinstance(leaf, (Constant, SharedVariable)):
                raise MissingInputError(
                    f"{self.name} needs {leaf!r} ({leaf.type}), which is not among its inputs "
                    f"{[repr(v) for v in self.inputs]}; add it, or replace it through givens"
                )
        if on_unused_input != "ignore":
            used = set(ancestors(roots, stop=known))
            for v in self.inputs:
                if v not in used:
                    message = (
                        f"{self.name}: no output needs the input {v!r}; remove it, or pass on_unused_input='ignore'"
                    )
                    if on_unused_input == "raise":
                        raise UnusedInputError(message)
                    import warnings

                    warnings.warn(message, stacklevel=4)

    def __repr__(self) -> str:
        return f"<{self.name}({', '.join(n or str(v.type) for n, v in zip(self.names, self.inputs))})>"

    def __getstate__(self) -> dict[str, Any]:
        """A function is pickled as its graph and the values of its shared variables, and compiled again on load."""
        left_out = ("_lock", "_programs", "_quick_checks", "_loose", "inputs", "outputs", "updates")
        state = {key: value for key, value in self.__dict__.items() if key not in left_out}
        roots = [*self.inputs, *self.outputs, *self.updates, *self.updates.values()]
        state["_graph"] = flatten(roots), len(self.inputs), len(self.outputs)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        flat, n_inputs, n_outputs = state.pop("_graph")
        self.__dict__.update(state, _programs={}, _lock=threading.RLock())
        roots = unflatten(flat)
        self.inputs, rest = roots[:n_inputs], roots[n_inputs:]
        self.outputs, rest = rest[:n_outputs], rest[n_outputs:]
        half = len(rest) // 2
        self.updates = dict(zip(rest[:half], rest[half:]))


def evaluate_variable(self: Variable, given: Mapping[Variable, Any] | None = None) -> np.ndarray:
    """The value of an expression, given values for its inputs: `(x + y).eval({x: 1.0, y: 2.0})`."""
    given = dict(given or {})
    for v in given:
        if not isinstance(v, Variable):
            raise ArgumentTypeError(f"eval: the key {v!r} is not a Variable")
    f = function(list(given), self, on_unused_input="ignore", no_default_updates=True, name="eval")
    return f(*given.values())


@dataclass(frozen=True)
class Pack:
    """How a call's results are handed over: one array, a list, a dict, or nothing."""

    form: str
    keys: tuple[str, ...] = ()

    def __call__(self, arrays: list[np.ndarray]) -> Any:
        if self.form == "single":
            return arrays[0]
        if self.form == "dict":
            return dict(zip(self.keys, arrays))
        return arrays if self.form == "list" else None


def _output_spec(outputs: Outputs) -> tuple[list[Variable], "Pack"]:
    if outputs is None:
        return [], Pack("none")
    if isinstance(outputs, Mapping):
        found, pack = list(outputs.values()), Pack("dict", tuple(outputs))
    elif isinstance(outputs, (list, tuple)):
        found, pack = list(outputs), Pack("list")
    else:
        found, pack = [outputs], Pack("single")
    for v in found:
        if callable(v) and not isinstance(v, Variable):
            raise ArgumentTypeError("function takes expressions; to compile a plain function use pb.jit")
        if not isinstance(v, Variable) or not isinstance(v.type, TensorType):
            raise ArgumentTypeError(f"function: an output is {v!r}; expected tensor variables")
    return found, pack


def _input_specs(inputs: Sequence[Variable | In]) -> list[In]:
    if isinstance(inputs, (Variable, In)):
        raise ArgumentTypeError("function: inputs must be a list of variables")
    specs = [spec if isinstance(spec, In) else In(spec) for spec in inputs]
    seen: set[Variable] = set()
    for spec in specs:
        v = spec.variable
        if not isinstance(v, Variable) or not isinstance(v.type, TensorType):
            raise ArgumentTypeError(f"function: {v!r} can't be an input; expected tensor variables")
        if isinstance(v, (SharedVariable, Constant)):
            kind = "shared variable: use updates or givens" if isinstance(v, SharedVariable) else "constant"
            raise ArgumentTypeError(f"function: the input {v!r} is a {kind}")
        if v in seen:
            raise ArgumentError(f"function: the input {v!r} is given twice")
        seen.add(v)
    return specs


def _check_updates(updates: Updates) -> dict[SharedVariable, Variable]:
    pairs = list(updates.items() if isinstance(updates, Mapping) else updates or ())
    checked: dict[SharedVariable, Variable] = {}
    for shared, new in pairs:
        if not isinstance(shared, SharedVariable):
            raise ArgumentTypeError(f"updates: {shared!r} is not a shared variable; make it with pb.shared")
        if shared in checked:
            raise ArgumentError(f"updates: {shared!r} is updated twice")
        new = new if isinstance(new, Variable) else as_variable(shared.type.filter(new))
        if new.type.dtype != shared.type.dtype:
            raise DTypeError(
                f"updates: {shared!r} is {shared.type}, its new value is {new.type}; cast it: .astype({shared.dtype!r})"
            )
        if new.type.ndim != shared.type.ndim:
            raise GraphError(f"updates: {shared!r} is {shared.type}, its new value is {new.type}")
        checked[shared] = new
    return checked
