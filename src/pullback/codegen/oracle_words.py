"""The words of the language when a kernel runs as plain Python. Each takes the frame, then the word's arguments."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import oracle_values as values
from .oracle_values import Pointer, RegisterArray, is_literal, plain, type_of
from .types import Problem, Scalar, neutral

if TYPE_CHECKING:
    from .oracle import Frame


def _run(frame: "Frame", n: Any) -> tuple[np.ndarray, np.ndarray]:
    """Indices of VL elements in a row, and which of them a count leaves on."""
    index = np.arange(frame.machine.width)
    return index, index < (frame.machine.width if n is None else int(n))


def ld(frame: "Frame", p: Pointer, n: Any = None) -> np.ndarray:
    if frame.machine.dry:
        return values.in_register(np.zeros(frame.machine.width, p.data.dtype))
    return p.read_lanes(*_run(frame, n))


def st(frame: "Frame", p: Pointer, v: Any, n: Any = None) -> None:
    v = values.coerce(v, type_of(values.in_register(p.element.dtype.type(0))))
    p.write_lanes(*_run(frame, n), np.broadcast_to(v, frame.machine.width))


def prefetch(frame: "Frame", p: Pointer, write: bool = False) -> None:
    pass


def regs(frame: "Frame", n: int, kind: Scalar | None = None) -> RegisterArray:
    machine = frame.machine
    machine.clock += 1
    result = RegisterArray(np.zeros(machine.width, (kind or frame.default_float).dtype) for _ in range(n))
    result.clock = machine.clock
    return result


def local(frame: "Frame", n: int, kind: Scalar | None = None) -> Pointer:
    """Scratch starts with NaN, or a number that nobody expects."""
    dtype = (kind or frame.default_float).dtype
    return Pointer(np.full(n, np.nan if dtype.kind == "f" else 85, dtype), 0, f"local({n})")


def _typed(frame: "Frame", x: Any) -> Any:
    x = plain(x)
    return values.convert(x, frame.literal_type(x)) if is_literal(x) else x


def _float(frame: "Frame", x: Any) -> Any:
    return values.convert(float(x), frame.default_float) if is_literal(x) else x


def vec(frame: "Frame", x: Any) -> np.ndarray:
    x = _typed(frame, x)
    return np.full(frame.machine.width, x, type_of(x).dtype)


def _reduction(op: str, combine: Callable[[Any, Any], Any]) -> Callable[["Frame", Any], Any]:
    def word(frame: "Frame", v: Any) -> Any:
        v = plain(v)
        if frame.machine.mask is not None:
            v = np.where(frame.machine.mask, v, v.dtype.type(neutral(op, type_of(v))))
        return values.reduce_lanes(combine, v)

    return word


def vany(frame: "Frame", m: np.ndarray) -> bool:
    return bool(np.any(m if frame.machine.mask is None else m & frame.machine.mask))


def vall(frame: "Frame", m: np.ndarray) -> bool:
    return bool(np.all(m if frame.machine.mask is None else m | ~frame.machine.mask))


def vtrans(frame: "Frame", r: RegisterArray) -> None:
    for i, row in enumerate(np.stack(r).T):
        frame.set_register(r, i, row.copy())


def lane(frame: "Frame", v: Any, k: Any) -> Any:
    v = plain(v)
    return bool(v[int(k)]) if v.dtype == bool else v[int(k)]


def fma(frame: "Frame", a: Any, b: Any, c: Any) -> Any:
    return values.fma(*map(plain, (a, b, c)))


def _numpy(function: Callable[[Any], Any]) -> Callable[["Frame", Any], Any]:
    return lambda frame, x: function(_float(frame, x))


def copysign(frame: "Frame", a: Any, b: Any) -> Any:
    return np.copysign(*values.unify(*frame.pair(a, b)))


def absolute(frame: "Frame", x: Any) -> Any:
    return abs(plain(x))


def _extremum(rule: Callable[[Any, Any, str], Any], better: str) -> Callable[["Frame", Any, Any], Any]:
    return lambda frame, a, b: rule(a, b, better)


def isnan(frame: "Frame", x: Any) -> Any:
    result = np.isnan(_float(frame, x))
    return result if np.ndim(result) else bool(result)


def isfinite(frame: "Frame", x: Any) -> Any:
    result = np.isfinite(_float(frame, x))
    return result if np.ndim(result) else bool(result)


def bits(frame: "Frame", n: Any) -> Any:
    return values.bits(_typed(frame, n))


def ibits(frame: "Frame", x: Any) -> Any:
    return values.ibits(_float(frame, x))


def mulhi(frame: "Frame", a: Any, b: Any) -> Any:
    return values.mulhi(a, b)


def dispatch(frame: "Frame", kernel: Any, *, low: int, high: int, **chosen: Any) -> Callable[..., None]:
    """The chosen specialisation, to be called with the arguments."""
    ((name, value),) = chosen.items()
    if not low <= value <= high:
        raise Problem(f"dispatch: {name} = {value} is outside {low} to {high}")

    def specialised(*args: Any, **constants: Any) -> None:
        frame.call(kernel, list(args), {**constants, name: int(value)})

    return specialised


WORDS: dict[str, Callable] = {
    "ld": ld, "st": st, "prefetch": prefetch, "regs": regs, "local": local, "vec": vec, "vany": vany, "vall": vall,
    "vtrans": vtrans, "lane": lane, "fma": fma, "copysign": copysign, "abs": absolute, "isnan": isnan,
    "isfinite": isfinite, "bits": bits, "ibits": ibits, "mulhi": mulhi, "dispatch": dispatch,
    "vsum": _reduction("Add", lambda a, b: a + b),
    "vmax": _reduction("maximum", lambda a, b: values.numpy_extremum(a, b, "Gt")),
    "vmin": _reduction("minimum", lambda a, b: values.numpy_extremum(a, b, "Lt")),
    "max": _extremum(values.python_extremum, "Gt"), "min": _extremum(values.python_extremum, "Lt"),
    "maximum": _extremum(values.numpy_extremum, "Gt"), "minimum": _extremum(values.numpy_extremum, "Lt"),
    "sqrt": _numpy(np.sqrt), "floor": _numpy(np.floor), "ceil": _numpy(np.ceil), "rint": _numpy(np.rint),
    "trunc": _numpy(np.trunc),
}  # fmt: skip
