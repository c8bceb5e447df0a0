"""Every node of a graph held to the protocol while it runs: types, shapes, aliases, buffers, memory layouts."""

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from ..gradient.engine import check_answers
from ..graph import Apply, TensorType, Variable, run_node, toposort
from ..graph.interpreter import lookup
from .differences import Arrays
from .report import Mistake, Wrong

FILLS = {"f": (np.nan, 0.0), "c": (np.nan, 0.0), "i": (-(2**6), 0), "u": (2**6, 0), "b": (True, False)}
LAYOUTS = ("transposed", "strided", "reversed")


def audit(inputs: Sequence[Variable], outputs: Sequence[Variable], arrays: Arrays) -> list[np.ndarray]:
    """Run the graph, examining each node; the outputs' values.

    Raises:
        Wrong: the first breach of the protocol, naming the op.
    """
    values: dict[Variable, np.ndarray] = dict(zip(inputs, arrays))
    for node in toposort(outputs, stop=inputs):
        given = [lookup(values, v) for v in node.inputs]
        values.update(zip(node.outputs, audit_node(node, given)))
    return [lookup(values, v) for v in outputs]


def audit_node(node: Apply, arrays: Arrays) -> list[np.ndarray]:
    """Run one node and examine how it behaves."""
    op = node.op
    given = [np.array(a, order="C") for a in arrays]
    before = [a.copy() for a in given]
    with poisoned_buffers(0):
        outputs = _run(node, given)
    for i, (a, b) in enumerate(zip(given, before)):
        if i not in op.destroy_map.values() and not same(a, b):
            raise Wrong(
                Mistake("writes its input", f"{op}.perform changed its input {i}; copy it, or declare destroy_map")
            )
    _check_views(node, given, outputs)
    _check_inferred_shapes(node, before, outputs)
    first = [y.copy() for y in outputs]
    with poisoned_buffers(1):
        again = _run(node, [a.copy() for a in before])
    for o, (y, saved, z) in enumerate(zip(outputs, first, again)):
        if not same(saved, z):
            message = f"output {o} of {op} depends on what its buffer held before: two calls on the same inputs differ"
            raise Wrong(Mistake("stale buffer", message))
        if overlap(y, z):
            message = f"output {o} of {op} is the same array at every call: an earlier result is overwritten"
            raise Wrong(Mistake("stale buffer", message))
    check_layouts(node, before, first)
    return first


def _run(node: Apply, arrays: Arrays) -> list[np.ndarray]:
    """Call `perform` and compare what it returns with what `make_node` promised."""
    op = node.op
    result = op.perform(*arrays)
    outputs = [np.asarray(y) for y in (result if isinstance(result, (tuple, list)) else (result,))]
    if len(outputs) != len(node.outputs):
        raise Wrong(
            Mistake("outputs", f"{op}.perform returned {len(outputs)} arrays; make_node has {len(node.outputs)}")
        )
    for o, (v, y) in enumerate(zip(node.outputs, outputs)):
        if y.dtype.name != v.type.dtype:
            raise Wrong(Mistake("dtype", f"output {o} of {op} is {y.dtype}; make_node promised {v.type}"))
        if y.ndim != v.type.ndim or any(n is not None and n != m for n, m in zip(v.type.shape, y.shape)):
            raise Wrong(Mistake("shape", f"output {o} of {op} has shape {y.shape}; make_node promised {v.type}"))
    return outputs


def _check_views(node: Apply, inputs: Arrays, outputs: Arrays) -> None:
    op = node.op
    declared = {**op.view_map, **op.destroy_map}
    for o, y in enumerate(outputs):
        for i, x in enumerate(inputs):
            if overlap(x, y) and declared.get(o) != i:
                message = f"output {o} of {op} is a view of its input {i}; copy it, or declare view_map = {{{o}: {i}}}"
                raise Wrong(Mistake("undeclared view", message))
        for p in range(o):
            if overlap(outputs[p], y) and declared.get(o, -1) != declared.get(p, -2):
                raise Wrong(Mistake("undeclared view", f"outputs {p} and {o} of {op} share memory"))


def _check_inferred_shapes(node: Apply, inputs: Arrays, outputs: Arrays) -> None:
    shapes = [a.shape for a in inputs]
    truth = [y.shape for y in outputs]
    for values in ([None] * len(inputs), inputs):
        told = node.op.infer_shape(node, shapes, values)
        if told is not None and [tuple(s) for s in told] != truth:
            message = (
                f"{node.op}.infer_shape says {[tuple(s) for s in told]} for inputs of shapes {shapes}; it is {truth}"
            )
            raise Wrong(Mistake("shape", message))


def check_layouts(node: Apply, arrays: Arrays, expected: Arrays) -> None:
    """The same values in other memory layouts give the same outputs; a repeated (zero-stride) input counts as often."""
    if not any(a.ndim and a.size > 1 for a in arrays):
        return
    for layout in LAYOUTS:
        _compare_layout(node, [relaid(a, layout) for a in arrays], expected, layout)
    repeated = [a.ndim > 0 and a.shape[0] > 1 and a.dtype.kind == "f" for a in arrays]
    if any(repeated):
        views = [np.broadcast_to(a[:1], a.shape) if r else a for a, r in zip(arrays, repeated)]
        try:
            copies = run_node(node, [np.array(a) for a in views])
        except ValueError:  # repeated values are illegal here, whatever their layout
            return
        _compare_layout(node, views, copies, "zero-stride")


def _compare_layout(node: Apply, arrays: Arrays, expected: Arrays, layout: str) -> None:
    try:
        outputs = run_node(node, arrays)
    except Exception as error:
        message = f"{node.op} fails on {layout} inputs: {type(error).__name__}: {error}"
        raise Wrong(Mistake("memory layout", message)) from error
    for o, (y, z) in enumerate(zip(outputs, expected)):
        gap = difference(y, z)
        if gap > (1e-10 if z.dtype.itemsize >= 8 else 1e-4):
            message = f"output {o} of {node.op} differs by {gap:.1e} when the inputs are {layout}"
            raise Wrong(Mistake("memory layout", message))


def relaid(a: np.ndarray, layout: str) -> np.ndarray:
    """The same values, laid out in memory so that they aren't contiguous."""
    if a.ndim == 0:
        return a
    if layout == "transposed":
        return np.array(a.T, order="C").T
    if layout == "strided":
        wide = np.empty((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
        wide[..., 1::2] = a
        return wide[..., 1::2]
    return np.array(a[..., ::-1], order="C")[..., ::-1]


def check_rule(node: Apply) -> None:
    """The rule's own terms, before the engine adapts them: one typed answer per input, each in its input's dtype."""
    cotangents = [Variable(v.type if v.type.is_float else TensorType("float32", v.type.shape)) for v in node.outputs]
    floats = {v.dtype for v in (*node.inputs, *node.outputs) if v.type.is_float}
    pattern = node.op.connection_pattern(node)
    if len(pattern) != len(node.inputs) or any(len(row) != len(node.outputs) for row in pattern):
        message = f"{node.op}.connection_pattern has rows {pattern}; expected a row per input, an entry per output"
        raise Wrong(Mistake("connection pattern", message))
    answers = check_answers(node, node.op.L_op(node.inputs, node.outputs, cotangents))
    for i, (answer, x) in enumerate(zip(answers, node.inputs)):
        tensor = isinstance(answer.type, TensorType)
        if tensor and answer.ndim != x.ndim and not node.op.broadcasts:
            kind = "missing broadcast sum" if answer.ndim > x.ndim else "shape"
            message = f"the rule of {node.op} gives a {answer.ndim}-d term for its input {i}, which is {x.ndim}-d"
            raise Wrong(Mistake(kind, message, i, 1))
        if tensor and x.type.is_float and len(floats) == 1 and answer.dtype != x.dtype:
            message = f"the rule of {node.op} answers in {answer.dtype} for its input {i}, which is {x.dtype}"
            raise Wrong(Mistake("dtype", message, i, 1))


@contextlib.contextmanager
def poisoned_buffers(which: int) -> Iterator[None]:
    """While open, `np.empty` and `np.empty_like` hand out memory full of NaN (0) or zeros (1), so that what is never
    written can be told."""
    originals = np.empty, np.empty_like

    def poisoned(make):
        def empty(*args, **kwargs):
            array = make(*args, **kwargs)
            if array.dtype.kind in FILLS:
                array.fill(FILLS[array.dtype.kind][which])
            return array

        return empty

    np.empty, np.empty_like = map(poisoned, originals)
    try:
        yield
    finally:
        np.empty, np.empty_like = originals


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have an element in common."""
    try:
        return np.shares_memory(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal in dtype, shape and every element; NaN equals NaN."""
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest finite number in `b`; infinite if shapes, dtypes, NaNs or
    infinities differ."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return np.inf
    if a.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) else np.inf
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return np.inf
    if not finite.any():
        return 0.0
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a[finite].astype(wide), b[finite].astype(wide)
    scale = float(np.abs(b).max())
    gap = float(np.abs(a - b).max())
    return gap / scale if scale else gap
