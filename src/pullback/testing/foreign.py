"""Functions of other libraries, with their hand-written or derived gradients, as subjects of a proof."""

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError, MissingPackageError
from ..graph import Op, TensorType, Variable
from .differences import Arrays
from .report import Mistake, Wrong
from .subject import GraphSubject, Subject

FRAMEWORKS = ("pullback", "numpy", "torch", "jax")
DERIVATIVES = (
    "vjp",
    "grad",
    "jacobian",
    "backward",
)  # attributes of a function that may hold its hand-written derivative


def subject_of(
    f: Any, examples: Sequence[np.ndarray], framework: str | None, derivatives: dict[str, Callable[..., Any]]
) -> tuple[Subject, list[np.ndarray]]:
    """The subject that `f` is, and arrays to add to the examples (a module's own parameters).

    Raises:
        ArgumentTypeError: nothing tells what `f` is, or it has no derivative.
    """
    framework = framework or framework_of(f, derivatives)
    if framework not in FRAMEWORKS:
        raise ArgumentError(f"check_gradient: framework={framework!r}; expected one of {FRAMEWORKS}")
    names = parameter_names(f, len(examples))
    if framework == "pullback":
        return pullback_subject(f, examples, names), []
    if framework == "torch":
        return torch_subject(f, examples, names)
    if framework == "jax":
        return JaxSubject(f, examples, names), []
    return NumpySubject(f, examples, names, derivatives), []


def framework_of(f: Any, derivatives: dict[str, Any]) -> str | None:
    """Whose function `f` is: told by its class, by a derivative that comes with it, or by the modules that it uses."""
    if derivatives:
        return "numpy"
    classes = f.__mro__ if isinstance(f, type) else type(f).__mro__
    homes = {cls.__module__.partition(".")[0] for cls in classes}
    for home, name in (("torch", "torch"), ("jax", "jax"), ("jaxlib", "jax"), ("pullback", "pullback")):
        if home in homes:
            return name
    if isinstance(f, (tuple, list)) or any(callable(getattr(f, name, None)) for name in DERIVATIVES):
        return "numpy"
    used = modules_used(inspect.unwrap(f) if callable(f) else f)
    found = [name for name in ("torch", "jax", "pullback") if name in used]
    return found[0] if found else None


def modules_used(f: Any) -> set[str]:
    """Top-level names of the packages that a Python function, and the functions that it calls, refer to."""
    found: set[str] = set()
    seen: set[int] = set()
    queue = [f]
    while queue:
        code_of = queue.pop()
        code, scope = getattr(code_of, "__code__", None), getattr(code_of, "__globals__", {})
        if code is None or id(code) in seen or len(seen) > 100:
            continue
        seen.add(id(code))
        for name in _names(code):
            value = scope.get(name)
            if inspect.ismodule(value):
                found.add(value.__name__.partition(".")[0])
            elif inspect.isfunction(value):
                queue.append(value)
            elif value is not None:
                found.add(str(getattr(value, "__module__", "")).partition(".")[0])
    return found


def _names(code: Any) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if inspect.iscode(constant):
            names |= _names(constant)
    return names


def parameter_names(f: Any, count: int) -> list[str]:
    target = f[0] if isinstance(f, (tuple, list)) else f
    target = getattr(target, "forward", target)
    try:
        found = [p.name for p in inspect.signature(target).parameters.values() if p.name not in ("ctx", "self")]
    except (TypeError, ValueError):
        found = []
    return [found[i] if i < len(found) else f"input {i}" for i in range(count)]


# --- pullback ---------------------------------------------------------------------------------------------------------
def pullback_subject(f: Any, examples: Sequence[np.ndarray], names: Sequence[str]) -> GraphSubject:
    """An Op, a compiled Function, or a Python function from variables to variables."""
    if hasattr(f, "outputs") and hasattr(f, "inputs") and not isinstance(f, Op):
        return GraphSubject(f.inputs, f.outputs)
    op = f() if isinstance(f, type) else f
    dtypes = ["float64" if a.dtype.kind == "f" else a.dtype.name for a in examples]
    inputs = [Variable(TensorType(d, (None,) * a.ndim), name=n) for d, a, n in zip(dtypes, examples, names)]
    outputs = op(*inputs)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    for y in outputs:
        if not isinstance(y, Variable):
            raise ArgumentTypeError(f"check_gradient: {f!r} gave {type(y).__name__}; expected a pullback expression")
    return GraphSubject(inputs, outputs)


# --- NumPy ------------------------------------------------------------------------------------------------------------
class NumpySubject:
    """A NumPy function and a derivative written by hand.

    The derivative is one of: `vjp(cotangent, *inputs)`, one gradient per input; `grad(*inputs)`, the gradients of a
    scalar function, or of a function of one array the elementwise derivative; `jacobian(*inputs)`, per input an array
    of shape output.shape + input.shape; or the methods `forward(*inputs)` and `backward(cotangent)` of an object.
    """

    def __init__(
        self, f: Any, examples: Sequence[np.ndarray], names: Sequence[str], derivatives: dict[str, Callable[..., Any]]
    ) -> None:
        if isinstance(f, (tuple, list)):
            f, rule = f
            derivatives = {"vjp": rule}
        self.names = list(names)
        self.function = getattr(f, "forward", f)
        given = {**{n: getattr(f, n) for n in DERIVATIVES if callable(getattr(f, n, None))}, **derivatives}
        if not given:
            raise ArgumentTypeError(
                f"check_gradient: {f!r} has no derivative; give vjp=, grad= or jacobian= (functions), or framework="
            )
        self.kind = next(n for n in DERIVATIVES if n in given)
        self.rule = given[self.kind]
        self.answers = ["formula" if a.dtype.kind == "f" else "discrete" for a in examples]
        arrays = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in examples]
        for i, g in enumerate(self.pull(arrays, [np.ones(y.shape) for y in self.value(arrays)])):
            if g is None and self.answers[i] == "formula":
                self.answers[i] = "disconnected"

    def value(self, arrays: Arrays) -> list[np.ndarray]:
        return floats(self._call(self.function, arrays))

    def _call(self, f: Callable[..., Any], arrays: Arrays) -> Any:
        """Call with copies, and see that they are left alone."""
        copies = [np.array(a) for a in arrays]
        result = f(*copies)
        for i, (a, b) in enumerate(zip(arrays, copies)):
            if not np.array_equal(a, b, equal_nan=True):
                raise Wrong(
                    Mistake("writes its input", f"{getattr(f, '__name__', f)} changes the array it was given", i)
                )
        return result

    def pull(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray | None]:
        cotangent = cotangents[0] if len(cotangents) == 1 else tuple(cotangents)
        if self.kind == "vjp":
            answers = self._call(lambda *copies: self.rule(cotangent, *copies), arrays)
        elif self.kind == "backward":
            self.value(arrays)
            answers = self.rule(cotangent)
        else:
            answers = self._call(self.rule, arrays)
        answers = list(answers) if isinstance(answers, (tuple, list)) else [answers]
        answers += [None] * (len(arrays) - len(answers))
        grads = [None if g is None else np.asarray(g) for g in answers]
        if self.kind == "jacobian":
            return [None if J is None else _contract(cotangents, J) for J in grads]
        if self.kind == "grad":
            return [None if g is None else _scaled(cotangents[0], g) for g in grads]
        return grads

    def decisions(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray]:
        return []

    def derivative(self) -> None:
        return None


def _contract(cotangents: Arrays, jacobian: np.ndarray) -> np.ndarray:
    cotangent = np.asarray(cotangents[0])
    return np.tensordot(cotangent, jacobian, axes=cotangent.ndim)


def _scaled(cotangent: np.ndarray, g: np.ndarray) -> np.ndarray:
    """A scalar function's gradient, or an elementwise derivative, times the cotangent."""
    return cotangent * g


def floats(outputs: Any) -> list[np.ndarray]:
    """The float outputs as arrays."""
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    arrays = [np.asarray(y) for y in outputs]
    return [y for y in arrays if y.dtype.kind == "f"]


# --- PyTorch ----------------------------------------------------------------------------------------------------------
def torch_subject(f: Any, examples: Sequence[np.ndarray], names: list[str]) -> tuple["TorchSubject", list[np.ndarray]]:
    """A function, a `torch.autograd.Function`, or a module; a module's parameters become inputs too."""
    torch = _import("torch")
    if isinstance(f, type) and issubclass(f, torch.autograd.Function):
        return TorchSubject(f.apply, examples, names), []
    if not isinstance(f, torch.nn.Module):
        return TorchSubject(f, examples, names), []
    module = copy.deepcopy(f).double()
    parameters = {name: p.detach().numpy().copy() for name, p in module.named_parameters()}

    def call(*tensors: Any) -> Any:
        inputs, own = tensors[: len(examples)], tensors[len(examples) :]
        return torch.func.functional_call(module, dict(zip(parameters, own)), tuple(inputs))

    values = list(parameters.values())
    return TorchSubject(call, [*examples, *values], [*names, *parameters]), values


class TorchSubject:
    """A function of tensors, differentiated by `torch.autograd.grad`."""

    def __init__(self, f: Callable[..., Any], examples: Sequence[np.ndarray], names: Sequence[str]) -> None:
        self.torch = _import("torch")
        self.f = f
        self.names = list(names)
        self.answers = ["formula" if a.dtype.kind == "f" else "discrete" for a in examples]
        self.examples = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in examples]
        cotangents = [np.ones(y.shape) for y in self.value(self.examples)]
        for i, g in enumerate(self.pull(self.examples, cotangents)):
            if g is None and self.answers[i] == "formula":
                self.answers[i] = "disconnected"

    def tensors(self, arrays: Arrays) -> list[Any]:
        made = [self.torch.from_numpy(np.array(a)) for a in arrays]
        return [t.requires_grad_() if t.is_floating_point() else t for t in made]

    def outputs(self, tensors: Sequence[Any]) -> list[Any]:
        found = self.f(*tensors)
        found = found if isinstance(found, (tuple, list)) else [found]
        return [y for y in found if self.torch.is_tensor(y) and y.is_floating_point()]

    def value(self, arrays: Arrays) -> list[np.ndarray]:
        return [y.detach().numpy() for y in self.outputs(self.tensors(arrays))]

    def pulled(self, tensors: Sequence[Any], cotangents: Sequence[Any], differentiable: bool) -> list[Any]:
        """Per input its gradient or None, as tensors."""
        moved = [t for t in tensors if t.is_floating_point()]
        pairs = [(y, c.to(y.dtype)) for y, c in zip(self.outputs(tensors), cotangents) if y.requires_grad]
        if not pairs:
            return [None] * len(tensors)
        outputs, weights = zip(*pairs)
        found = iter(self.torch.autograd.grad(outputs, moved, weights, create_graph=differentiable, allow_unused=True))
        return [next(found) if t.is_floating_point() else None for t in tensors]

    def pull(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray | None]:
        weights = [self.torch.from_numpy(np.array(c)) for c in cotangents]
        grads = self.pulled(self.tensors(arrays), weights, False)
        return [None if g is None else g.detach().numpy() for g in grads]

    def decisions(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray]:
        return []

    def derivative(self) -> "TorchSubject":
        count = len(self.names)
        kept = [i for i, answer in enumerate(self.answers) if answer == "formula"]
        cotangents = [np.ones(y.shape) for y in self.value(self.examples)]

        def backward(*tensors: Any) -> list[Any]:
            grads = self.pulled(tensors[:count], tensors[count:], True)
            return [grads[i] for i in kept]

        names = [*self.names, *(f"cotangent {o}" for o in range(len(cotangents)))]
        return TorchSubject(backward, [*self.examples, *cotangents], names)


# --- JAX --------------------------------------------------------------------------------------------------------------
class JaxSubject:
    """A function of JAX arrays, differentiated by `jax.vjp` in float64."""

    def __init__(self, f: Callable[..., Any], examples: Sequence[np.ndarray], names: Sequence[str]) -> None:
        self.jax = _import("jax")
        self.jax.config.update("jax_enable_x64", True)
        self.f = f
        self.names = list(names)
        self.moved = [a.dtype.kind == "f" for a in examples]
        self.answers = ["formula" if m else "discrete" for m in self.moved]
        self.examples = [a.astype(np.float64) if m else a for a, m in zip(examples, self.moved)]

    def outputs(self, arrays: Sequence[Any]) -> list[Any]:
        found = self.jax.tree_util.tree_leaves(self.f(*arrays))
        return [y for y in found if np.issubdtype(np.asarray(y).dtype if np.isscalar(y) else y.dtype, np.floating)]

    def value(self, arrays: Arrays) -> list[np.ndarray]:
        return [np.asarray(y) for y in self.outputs([self.jax.numpy.asarray(a) for a in arrays])]

    def pulled(self, arrays: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Gradients of the float inputs, as JAX arrays."""

        def of_floats(*given: Any) -> list[Any]:
            floats = iter(given)
            return self.outputs([next(floats) if m else a for a, m in zip(arrays, self.moved)])

        outputs, pull = self.jax.vjp(of_floats, *[a for a, m in zip(arrays, self.moved) if m])
        return list(pull([c.astype(y.dtype) for c, y in zip(cotangents, outputs)]))

    def pull(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray | None]:
        make = self.jax.numpy.asarray
        found = iter(self.pulled([make(a) for a in arrays], [make(c) for c in cotangents]))
        return [np.asarray(next(found)) if m else None for m in self.moved]

    def decisions(self, arrays: Arrays, cotangents: Arrays) -> list[np.ndarray]:
        return []

    def derivative(self) -> "JaxSubject":
        count = len(self.names)
        cotangents = [np.ones(y.shape) for y in self.value(self.examples)]
        names = [*self.names, *(f"cotangent {o}" for o in range(len(cotangents)))]
        return JaxSubject(lambda *all: self.pulled(all[:count], all[count:]), [*self.examples, *cotangents], names)


def _import(package: str) -> Any:
    try:
        return __import__(package)
    except ImportError:
        raise MissingPackageError(f"{package} isn't installed; this function needs it: pip install {package}") from None
