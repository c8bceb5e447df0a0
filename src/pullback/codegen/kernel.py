"""Kernels: typed Python functions that are compiled, and the instances that `specialise` makes of them.

Nothing here parses source or imports LLVM: a warm start only computes keys.
"""

import functools
import hashlib
import inspect
import sys
import textwrap
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import KernelError
from . import intrinsics, target
from .types import SCALARS, Pointer, Scalar, T, TypeParameter, f32, f64, ptr

if TYPE_CHECKING:
    from .source import Source

_keys_lock = threading.RLock()
_keys_in_progress: set["Kernel"] = set()

RANGE_PARAMETERS = ("lo", "hi", "tid")

LANGUAGE = {**SCALARS, **intrinsics.INTRINSICS, "ptr": ptr, "T": T}


@dataclass(frozen=True)
class Parameter:
    """One argument of a kernel: its name and its type (None: an untyped argument of a helper)."""

    name: str
    type: Any


class Kernel:
    """A function of the kernel language, as made by `@kernel`, `@helper` or `from_source`.

    Attributes:
        function: the Python function as written.
        parameters: its arguments and their types.
        returns: type of the result, or None.
        inline: a helper, written into its callers.
        inplace: pointers may be equal; without it no two pointers may reach the same element if one of them writes it.
        reassoc: sums may be reordered.
        strict: no fused or reordered arithmetic at all: the same bits as plain Python.
    """

    def __init__(
        self,
        function: Callable,
        *,
        inline: bool = False,
        inplace: bool = False,
        reassoc: bool = False,
        strict: bool = False,
        source: str | None = None,
    ) -> None:
        self.function = function
        self.name = function.__name__
        self.inline = inline
        self.inplace = inplace
        self.reassoc = reassoc
        self.strict = strict
        self.generated = source
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__name__ = self.name
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        annotations = {name: self._resolve(text) for name, text in function.__annotations__.items()}
        self.parameters = tuple(Parameter(name, annotations.get(name)) for name in names)
        self.returns = annotations.get("return")
        self._check_signature()
        self._instances: dict[tuple, KernelInstance] = {}

    @property
    def file(self) -> str:
        """Where the source stands."""
        return self.function.__code__.co_filename

    @functools.cached_property
    def type_parameters(self) -> tuple[TypeParameter, ...]:
        """The type parameters in the annotations, in order of appearance."""
        kinds = [p.type.element if isinstance(p.type, Pointer) else p.type for p in self.parameters]
        return tuple(dict.fromkeys(kind for kind in kinds if isinstance(kind, TypeParameter)))

    @property
    def names(self) -> Mapping[str, Any]:
        """What the body may refer to: closure variables before globals."""
        closure = inspect.getclosurevars(self.function).nonlocals if self.function.__closure__ else {}
        return {**self.function.__globals__, **closure} if closure else self.function.__globals__

    def referenced(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of each outer name in the body, attributes of modules included."""
        code, names = self.function.__code__, self.names
        for name in (*code.co_names, *code.co_freevars):
            value = names.get(name)
            yield name, value
            if isinstance(value, types.ModuleType):
                for attribute in code.co_names:
                    if attribute in vars(value):
                        yield f"{name}.{attribute}", vars(value)[attribute]

    @functools.cached_property
    def callees(self) -> dict[str, "Kernel"]:
        """Every kernel and helper that can be reached from this one, itself included, by key."""
        found, todo = {}, [self]
        while todo:
            one = todo.pop()
            if one.key not in found:
                found[one.key] = one
                values = (value for _, value in one.referenced())
                kernels = (v.kernel if isinstance(v, KernelInstance) else v for v in values)
                todo += [k for k in kernels if isinstance(k, Kernel)]
        return found

    @functools.cached_property
    def key(self) -> str:
        """Hash of all that the object code depends on, the types bound later apart; made without the source text."""
        code = self.function.__code__
        constants = [c for c in code.co_consts if c is not self.function.__doc__]
        with _keys_lock:
            if self in _keys_in_progress:
                return f"recursive {self.name}"  # the compiler will refuse it
            _keys_in_progress.add(self)
            try:
                outer = [(name, _content(value)) for name, value in self.referenced()]
            finally:
                _keys_in_progress.remove(self)
        content = (
            sys.implementation.cache_tag, self.name, code.co_code.hex(), constants, code.co_names, code.co_varnames,
            self.parameters, self.returns, self.inline, self.inplace, self.reassoc, self.strict, outer,
        )  # fmt: skip
        return hashlib.sha256(repr(content).encode()).hexdigest()

    @functools.cached_property
    def source(self) -> str:
        """The text of the function, without indentation."""
        if self.generated is not None:
            return self.generated
        try:
            return textwrap.dedent(inspect.getsource(self.function))
        except OSError as error:
            raise KernelError(
                f"kernel {self.name}: its source can't be read ({error}). Define it in a file, or with from_source."
            ) from error

    @functools.cached_property
    def parsed(self) -> "Source":
        """The syntax tree."""
        from .source import parse

        return parse(self)

    @functools.cached_property
    def rewritten(self) -> Callable:
        """The function that `python` runs."""
        from .oracle import rewrite

        return rewrite(self)

    def specialise(self, **bindings: Any) -> "KernelInstance":
        """Fix type parameters (`T=f64`) and compile-time constants (`M=4`).

        Returns:
            The instance, whose remaining parameters are the run-time arguments.
        Raises:
            KernelError: a type parameter is left open, or a name or value doesn't fit.
        """
        known = tuple((name, type(value), value) for name, value in bindings.items())
        if known not in self._instances:
            self._instances[known] = KernelInstance(self, *self._sorted_bindings(bindings))
        return self._instances[known]

    def python(self, *args: Any, lo: int | None = None, hi: int | None = None, tid: int = 0, **bindings: Any) -> Any:
        """Run as plain Python, with bounds checks: the oracle and the debug mode of the compiled kernel.

        Args:
            args: NumPy arrays for pointers, numbers for scalars. Type parameters not bound come from the arrays.
            lo, hi, tid: the last parameters of an entry kernel.
            bindings: as in `specialise`.
        Raises:
            KernelBoundsError: an access outside an array: kernel, line, pointer, index.
        """
        from .oracle import run_python

        trailing = {"lo": lo, "hi": hi, "tid": tid}
        names = [p.name for p in self.parameters if p.name not in bindings]
        extra = [trailing[n] for n in names[len(args) :] if n in RANGE_PARAMETERS and trailing[n] is not None]
        return run_python(self, [*args, *extra], bindings)

    def _resolve(self, annotation: Any) -> Any:
        if isinstance(annotation, str):  # from __future__ import annotations
            return eval(annotation, dict(self.names))
        return annotation

    def _check_signature(self) -> None:
        code = self.function.__code__
        plain = not (code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)) and not code.co_kwonlyargcount
        if not plain or self.function.__defaults__:
            raise self._signature_error("parameters are positional, without defaults")
        for parameter in self.parameters:
            if parameter.type is None and self.inline:
                continue
            if not isinstance(parameter.type, Scalar | Pointer | TypeParameter):
                raise self._signature_error(
                    f"parameter {parameter.name!r} has annotation {parameter.type!r}: expected a scalar type such as "
                    "f32 or i64, ptr(...) of one, or a type parameter"
                )

    def _signature_error(self, message: str) -> KernelError:
        return KernelError(f"kernel {self.name}, {self.file} line {self.function.__code__.co_firstlineno}: {message}")

    def _sorted_bindings(self, bindings: Mapping[str, Any]) -> tuple[dict[TypeParameter, Scalar], dict[str, Any]]:
        open_types = {t.name: t for t in self.type_parameters}
        scalars = {p.name: p.type for p in self.parameters if not isinstance(p.type, Pointer)}
        bound_types, constants = {}, {}
        for name, value in bindings.items():
            if name in open_types:
                if not isinstance(value, Scalar):
                    raise self._signature_error(f"type parameter {name} takes a type such as f32, not {value!r}")
                bound_types[open_types[name]] = value
            elif name in scalars:
                if not isinstance(value, int | float):
                    raise self._signature_error(f"constant {name} takes a Python number, not {value!r}")
                constants[name] = value
            else:
                known = ", ".join([*open_types, *scalars])
                raise self._signature_error(f"nothing called {name!r} to specialise; it has {known or 'nothing'}")
        missing = [name for name, t in open_types.items() if t not in bound_types]
        if missing and not self.inline:
            raise self._signature_error(
                f"type parameter {missing[0]} is open: bind it, as in specialise({missing[0]}=f32)"
            )
        return bound_types, constants

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"kernel {self.name} isn't called directly: link it and run it, or use {self.name}.python(...)")

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


class KernelInstance:
    """A kernel with all its types and compile-time constants fixed: what is compiled, cached and linked."""

    def __init__(self, kernel: Kernel, types: Mapping[TypeParameter, Scalar], constants: Mapping[str, Any]) -> None:
        self.kernel = kernel
        self.types = dict(types)
        self.constants = {p.name: constants[p.name] for p in kernel.parameters if p.name in constants}

    @functools.cached_property
    def name(self) -> str:
        """The kernel's name with what was fixed, as in `gemm[T=f32, M=4]`."""
        fixed = [f"{t.name}={s.name}" for t, s in self.types.items()]
        fixed += [f"{name}={value}" for name, value in self.constants.items()]
        return f"{self.kernel.name}[{', '.join(fixed)}]" if fixed else self.kernel.name

    @functools.cached_property
    def key(self) -> str:
        """Hash of all that the object code depends on, the machine and the compiler apart."""
        return hashlib.sha256(repr((self.kernel.key, self.bindings)).encode()).hexdigest()

    @property
    def bindings(self) -> dict[str, Any]:
        """The keyword arguments of `specialise` that give this instance."""
        return {**{t.name: s for t, s in self.types.items()}, **self.constants}

    @property
    def symbol(self) -> str:
        """Name of the compiled function."""
        return f"{self.kernel.name}_{self.key[:24]}"

    @property
    def entry_symbol(self) -> str:
        """Name of the wrapper `void entry(i64 *args, i64 lo, i64 hi, i64 tid)`."""
        return self.symbol + ".entry"

    @functools.cached_property
    def signature(self) -> tuple[Parameter, ...]:
        """The run-time parameters with concrete types."""
        run_time = [p for p in self.kernel.parameters if p.name not in self.constants]
        return tuple(Parameter(p.name, self.concrete(p.type)) for p in run_time)

    @functools.cached_property
    def arguments(self) -> tuple[Parameter, ...]:
        """The parameters in an argument block: all but the trailing lo, hi and tid."""
        names = tuple(p.name for p in self.signature)
        trailing = 3 if names[-3:] == RANGE_PARAMETERS else 2
        return self.signature[:-trailing] if self.is_entry else self.signature

    @property
    def is_entry(self) -> bool:
        """Whether a plan can call it: its last parameters are `lo: i64, hi: i64[, tid: i64]`, it returns nothing."""
        names = tuple(p.name for p in self.signature)
        return self.kernel.returns is None and (names[-3:] == RANGE_PARAMETERS or names[-2:] == RANGE_PARAMETERS[:2])

    def concrete(self, kind: Any) -> Any:
        """A type of the kernel with its type parameters replaced."""
        if isinstance(kind, TypeParameter):
            return self.types[kind]
        if isinstance(kind, Pointer) and isinstance(kind.element, TypeParameter):
            return Pointer(self.types[kind.element])
        return kind

    def python(self, *args: Any, **kwargs: Any) -> Any:
        """`Kernel.python` with this instance's types and constants."""
        return self.kernel.python(*args, **kwargs, **self.bindings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelInstance) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


def as_instance(kernel: Kernel | KernelInstance) -> KernelInstance:
    """The instance itself, or the only instance of a kernel without type parameters."""
    return kernel if isinstance(kernel, KernelInstance) else kernel.specialise()


def default_float(kinds: Iterator[Any]) -> Scalar:
    """The type of a float literal that stands alone: what all float types of the signature agree on, else f32."""
    floats = {f32 if k.bits == 16 else k for k in kinds if isinstance(k, Scalar) and k.is_float}
    return f64 if floats == {f64} else f32


def kernel(function: Callable | None = None, **options: bool) -> Any:
    """Decorator: a typed function that becomes a unit of object code of its own.

    Options are `inplace`, `reassoc` and `strict`; see `Kernel`.
    """
    return Kernel(function, **options) if function is not None else functools.partial(Kernel, **options)


def helper(function: Callable | None = None, **options: bool) -> Any:
    """Decorator: a function that is written into its callers, on scalars or vectors as the call has them."""
    return Kernel(function, inline=True, **options) if function else functools.partial(Kernel, inline=True, **options)


def from_source(name: str, text: str, names: Mapping[str, Any] | None = None, **options: bool) -> Kernel:
    """A kernel from generated source text that defines a function called `name`.

    Args:
        names: what the text refers to beside the words of the language (which are always known).
        options: as for `kernel`, and `inline=True` for a helper.
    """
    scope = {**LANGUAGE, "VL": target.lanes(), **(names or {}), "__name__": __name__}
    try:
        exec(compile(text, f"<kernel {name}>", "exec"), scope)
    except SyntaxError as error:
        raise KernelError(f"generated kernel {name}, line {error.lineno}: {error.msg}\n    {error.text}") from error
    if not isinstance(scope.get(name), types.FunctionType):
        raise KernelError(f"generated kernel {name}: its text defines no function of that name")
    return Kernel(scope[name], source=text, **options)


def _content(value: Any) -> str:
    """What a referenced value adds to a key: numbers and tuples by value, kernels by key, the rest by name."""
    if isinstance(value, Kernel | KernelInstance):
        return value.key
    if isinstance(value, tuple):
        return f"({', '.join(map(_content, value))})"
    if isinstance(value, int | float | np.generic | Scalar | TypeParameter | Pointer | intrinsics.Intrinsic):
        return repr(value)
    return f"{type(value).__name__} {getattr(value, '__name__', '')}"
