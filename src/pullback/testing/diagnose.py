"""From a wrong gradient to the likely kind of mistake."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from .differences import STEPS, Arrays, flat, norm, numerical_jacobian
from .report import Mistake
from .subject import Subject

CLOSE = 1e-5  # relative distance below which a guess explains the gradient that was found
LARGEST = 400  # elements of an input beyond which its Jacobian isn't taken column by column


def diagnose(
    subject: Subject,
    arrays: Arrays,
    cotangents: Arrays,
    grads: list[np.ndarray | None],
    group: list[int],
    order: int,
    error: float,
) -> Mistake:
    """The mistake behind a gradient that disagrees with differences along a direction that moves the inputs `group`."""
    worst: Mistake | None = None
    for i in group:
        found = grads[i]
        if found is None or arrays[i].size > LARGEST:
            continue
        terms = flat(cotangents)[:, None] * numerical_jacobian(subject.value, arrays, i, STEPS[1])
        expected = terms.sum(axis=0).reshape(arrays[i].shape)
        gap = np.abs(np.where(np.isfinite(found), found - expected, np.inf))
        element = np.unravel_index(int(np.argmax(gap)), gap.shape)
        if gap[element] <= CLOSE * norm(expected) and len(group) > 1:
            continue
        kind, message = likely_kind(subject, arrays, cotangents, grads, i, found, expected, terms)
        mistake = Mistake(
            kind,
            message,
            i,
            order,
            tuple(int(k) for k in element),
            float(expected[element]),
            float(found[element]),
            error,
            tuple(arrays),
        )
        if worst is None or gap[element] > abs(worst.expected - worst.found):
            worst = mistake
    if worst is None:
        message = "the gradient disagrees with differences along a random direction"
        worst = Mistake("wrong formula", message, group[0], order, error=error, at=tuple(arrays))
    return worst


def likely_kind(
    subject: Subject,
    arrays: Arrays,
    cotangents: Arrays,
    grads: list[np.ndarray | None],
    i: int,
    found: np.ndarray,
    expected: np.ndarray,
    terms: np.ndarray,
) -> tuple[str, str]:
    """(kind, message): the first explanation that fits. `terms[o, j]` is what output o adds to element j of input i."""
    if not np.isfinite(found).all():
        return "non-finite", "the gradient is NaN or infinite where the function is smooth"
    if subject.answers[i] == "disconnected":
        return "disconnected", "the rule says that the output doesn't depend on this input, but it does"
    if not found.any():
        return "dropped term", "the gradient is zero, yet the output changes with this input"
    if not _is_linear(subject, arrays, cotangents, i, found):
        return (
            "upstream gradient",
            "the gradient isn't proportional to the upstream gradient: is that used as a factor?",
        )
    for explain in (_sign, _factor, _rearranged, _swapped, _dropped, _partial_sum):
        answer = explain(subject, arrays, cotangents, grads, i, found, expected, terms)
        if answer:
            return answer
    wrong = np.abs(found - expected) > CLOSE * np.abs(expected).max()
    return "wrong formula", f"{int(wrong.sum())} of {wrong.size} elements are wrong"


def close(a: np.ndarray, b: np.ndarray, tolerance: float = CLOSE) -> bool:
    return a.shape == b.shape and norm(a - b) <= tolerance * max(norm(a), norm(b))


def _is_linear(subject: Subject, arrays: Arrays, cotangents: Arrays, i: int, found: np.ndarray) -> bool:
    doubled = subject.pull(arrays, [2 * c for c in cotangents])[i]
    return doubled is not None and close(doubled, 2 * found)


def _sign(subject, arrays, cotangents, grads, i, found, expected, terms):
    return ("sign", "the gradient has the wrong sign") if close(found, -expected) else None


def _factor(subject, arrays, cotangents, grads, i, found, expected, terms):
    ratio = float(np.vdot(found, expected)) / max(float(np.vdot(expected, expected)), 1e-300)
    if expected.size < 2 or not close(found, ratio * expected):
        return None
    copies = terms.shape[0] / expected.size
    if copies > 1 and np.isclose(ratio * copies, 1.0):
        return (
            "missing broadcast sum",
            f"the gradient is averaged over the {copies:g} places the input was broadcast to",
        )
    lengths = {n: f"output {o}, axis {a}" for o, c in enumerate(cotangents) for a, n in enumerate(c.shape) if n > 1}
    lengths |= {n: f"axis {a} of the input" for a, n in enumerate(expected.shape) if n > 1}
    lengths |= {expected.size: "the number of elements"}
    hint = next((f"; {n} is {what}" for n, what in lengths.items() if np.isclose([n, 1 / n], ratio).any()), "")
    return "factor", f"the gradient is {ratio:.6g} times what it should be{hint}"


def _rearranged(subject, arrays, cotangents, grads, i, found, expected, terms):
    for order in permutations(range(found.ndim)):
        if list(order) != sorted(order) and close(found.transpose(order), expected):
            return "transposed", f"the gradient has its axes in the order {order}"
    for axis in range(found.ndim):
        if found.shape[axis] > 1 and close(np.flip(found, axis), expected):
            return "transposed", f"the gradient is reversed along axis {axis}"
        for shift in range(1, found.shape[axis]):
            if close(np.roll(found, shift, axis), expected):
                return "transposed", f"the gradient is shifted by {shift} along axis {axis}"
    upstream = flat(cotangents)
    if found.size == upstream.size > 1 and upstream.all():
        if close(found.reshape(-1), terms / upstream[:, None] @ upstream):
            return "transposed", "the Jacobian is applied to the upstream gradient, not its transpose"
    if found.size > 1 and close(np.sort(found, axis=None), np.sort(expected, axis=None)):
        return "transposed", "the right numbers stand at the wrong places"
    return None


def _swapped(subject, arrays, cotangents, grads, i, found, expected, terms):
    for j, other in enumerate(arrays):
        if j != i and other.dtype.kind == "f" and other.shape == found.shape and 1 < other.size <= LARGEST:
            belongs = flat(cotangents) @ numerical_jacobian(subject.value, arrays, j, STEPS[1])
            if close(found, belongs.reshape(found.shape)):
                return "swapped", f"this is the gradient of input {j}"
    return None


def _partial_sum(subject, arrays, cotangents, grads, i, found, expected, terms):
    """Elements that several outputs contribute to hold only one, or some, of the contributions."""
    tolerance = CLOSE * np.abs(expected).max()
    wrong = np.flatnonzero(np.abs(found - expected) > tolerance)
    scattered = 0
    for j in wrong:
        parts = terms[np.abs(terms[:, j]) > tolerance, j]
        if len(parts) < 2 or not any(abs(found.flat[j] - s) <= tolerance for s in _partial_sums(parts)):
            return None
        scattered += 1
    if not scattered:
        return None
    if scattered == found.size and len(cotangents) == 1 and terms.shape[0] > found.size:
        return "missing broadcast sum", "only some of the places that the input was broadcast to are summed"
    return "overwritten accumulation", f"{scattered} elements hold only part of the contributions that belong in them"


def _partial_sums(parts: np.ndarray) -> Iterator[float]:
    yield 0.0
    yield from parts
    yield from np.cumsum(parts)[:-1]
    yield from np.cumsum(parts[::-1])[:-1]
    yield from parts.sum() - parts


def _dropped(subject, arrays, cotangents, grads, i, found, expected, terms):
    sizes = np.cumsum([c.size for c in cotangents])[:-1]
    for o, part in enumerate(np.split(terms, sizes) if len(cotangents) > 1 else []):
        if close(found, expected - part.sum(axis=0).reshape(expected.shape)):
            return "dropped term", f"nothing of output {o} arrives here"
    missing = expected - found
    for axis in range(missing.ndim):
        if missing.shape[axis] > 1 and close(
            missing, np.broadcast_to(missing.mean(axis, keepdims=True), missing.shape)
        ):
            return "dropped term", f"a term is missing that is constant along axis {axis}"
    known = [
        ("the input", arrays[i]),
        ("the upstream gradient", cotangents[0]),
        ("the output", subject.value(arrays)[0]),
    ]
    for what, array in known:
        if array.shape == missing.shape and missing.size > 1 and _proportional(missing, array):
            return "dropped term", f"a term is missing that is proportional to {what}"
    return None


def _proportional(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a is a multiple of b along some axis: a = c b with c constant along it."""
    for axis in range(b.ndim):
        c = (a * b).sum(axis, keepdims=True) / np.maximum((b * b).sum(axis, keepdims=True), 1e-300)
        if b.shape[axis] > 2 and close(c * b, a):
            return True
    return False
