"""What each call inside a kernel becomes: words of the language, conversions, helpers, other kernels."""

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from . import intrinsics
from .emit import FAST, Lanes, Literal, Value, Variable, describe, is_vector
from .intrinsics import Intrinsic
from .kernel import Kernel, KernelInstance
from .lower_expressions import Registers, Scope
from .types import (
    Pointer,
    Problem,
    Scalar,
    TypeParameter,
    Vector,
    bool_,
    common_type,
    element_of,
    f16,
    f32,
    f64,
    i32,
    i64,
    ptr,
    u32,
    u64,
)  # fmt: skip

if TYPE_CHECKING:
    from .lower import Lowering

STACK_LIMIT = 64 * 1024  # bytes of one `local` array: threads have small stacks on some systems
DEEPEST = 50  # helpers inside helpers


def call(low: "Lowering", node: ast.Call) -> Any:
    """Lower one call expression."""
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        raise Problem("* and ** arguments aren't part of the kernel language")
    args = [low.expression(a) for a in node.args]
    keywords = {k.arg: low.expression(k.value) for k in node.keywords}
    if isinstance(node.func, ast.Call) and low.expression(node.func.func) is intrinsics.dispatch:
        return _dispatch(low, node.func, args, keywords)
    function = low.expression(node.func)
    if isinstance(function, KernelInstance):
        keywords = {**_as_literals(function.bindings), **keywords}
        function = function.kernel
    if isinstance(function, Kernel):
        return (
            inline(low, function, args, keywords, node) if function.inline else call_unit(low, function, args, keywords)
        )
    if keywords:
        raise Problem(f"{ast.unparse(node.func)} takes no keyword arguments")
    if isinstance(function, Scalar):
        _expect(function.name, args, 1, 1)
        return low.ir.convert(args[0], function)
    if isinstance(function, Pointer):
        return _reinterpret_pointer(function, args)
    if function is ptr:
        _expect("ptr", args, 1, 1)
        return ptr(_element_type(low, args[0], "ptr"))
    name = function.name if isinstance(function, Intrinsic) else getattr(function, "__name__", "")
    if isinstance(function, Intrinsic) and function.libm_arguments:
        _expect(name, args, function.libm_arguments, function.libm_arguments)
        return _libm(low, name, args)
    if name not in LOWERINGS:
        raise Problem(f"{ast.unparse(node.func)} can't be called in a kernel")
    lowering = LOWERINGS[name]
    most = lowering.__code__.co_argcount - 1
    _expect(name, args, most - len(lowering.__defaults__ or ()), most)
    return lowering(low, *args)


def _expect(name: str, args: list[Any], least: int, most: int) -> None:
    if not least <= len(args) <= most:
        count = f"{least}" if least == most else f"{least} to {most}"
        raise Problem(f"{name} takes {count} argument{'s' * (most > 1)}, {len(args)} were given")


def _as_literals(bindings: dict[str, Any]) -> dict[str, Any]:
    return {name: v if isinstance(v, Scalar) else Literal(v) for name, v in bindings.items()}


def _reinterpret_pointer(kind: Pointer, args: list[Any]) -> Value:
    _expect(repr(kind), args, 1, 1)
    if not isinstance(args[0], Value) or not isinstance(args[0].type, Pointer):
        raise Problem(f"{kind}(...) takes a pointer, not {describe(args[0])}")
    return Value(kind, args[0].ref)


# Words


def _number(low: "Lowering", value: Any, name: str) -> Value:
    """An argument that must be a number; a literal alone gets its default type."""
    value = low.ir.plain(value)
    if isinstance(value, Literal):
        return low.ir.constant(value.value, low.kind_for(value))
    if not isinstance(value, Value) or isinstance(value.type, Pointer):
        raise Problem(f"{name} takes a number, not {describe(value)}")
    return value


def _float(low: "Lowering", value: Any, name: str) -> Value:
    if isinstance(value, Literal):
        return low.ir.constant(float(value.value), low.scope.default_float)
    value = _number(low, value, name)
    if not element_of(value.type).is_float:
        raise Problem(f"{name} takes a float, not {describe(value)}: convert it first")
    return value


def _vector(low: "Lowering", value: Any, name: str) -> Value:
    value = low.ir.plain(value)
    if not is_vector(value):
        raise Problem(f"{name} takes a vector, not {describe(value)}")
    return value


def _pointer(value: Any, name: str) -> Value:
    if not isinstance(value, Value) or not isinstance(value.type, Pointer):
        raise Problem(f"{name} takes a pointer, not {describe(value)}")
    return value


def _constant(value: Any, name: str) -> int:
    if not isinstance(value, Literal) or not isinstance(value.value, int):
        raise Problem(f"{name} takes a compile-time integer, not {describe(value)}")
    return value.value


def _element_type(low: "Lowering", kind: Any, name: str) -> Scalar:
    kind = low.scope.default_float if kind is None else kind
    if not isinstance(kind, Scalar):
        raise Problem(f"{name} takes a scalar type, not {describe(kind)}")
    return kind


def _ld(low: "Lowering", p: Any, n: Any = None) -> Value:
    return low.ir.load_run(_pointer(p, "ld"), None if n is None else low.ir.first_lanes(n))


def _st(low: "Lowering", p: Any, v: Any, n: Any = None) -> None:
    low.ir.store_run(_pointer(p, "st"), v, None if n is None else low.ir.first_lanes(n))


def _prefetch(low: "Lowering", p: Any, write: Any = None) -> None:
    write = 0 if write is None else int(_constant(write, "prefetch"))
    low.ir.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    low.ir.line(f"call void @llvm.prefetch.p0(ptr {_pointer(p, 'prefetch').ref}, i32 {write}, i32 3, i32 1)")


def _regs(low: "Lowering", n: Any, kind: Any = None) -> Registers:
    kind = Vector(_element_type(low, kind, "regs"))
    if kind.element is f16:
        raise Problem("f16 is a storage type: registers hold f32")
    zero = low.ir.splat(low.ir.constant(False if kind.element is bool_ else 0, kind.element))
    slots = [Variable(f"register {i}", kind, low.ir.allocate(kind), 0) for i in range(_constant(n, "regs"))]
    for variable in slots:
        low.ir.write(variable.slot, zero)
    return Registers(slots)


def _local(low: "Lowering", n: Any, kind: Any = None) -> Value:
    kind, count = _element_type(low, kind, "local"), _constant(n, "local")
    if not 0 < count * kind.size <= STACK_LIMIT:
        raise Problem(f"local takes 1 to {STACK_LIMIT} bytes, {count} elements of {kind} are {count * kind.size}")
    return low.ir.allocate_array(kind, count)


def _vec(low: "Lowering", x: Any) -> Value:
    return low.ir.splat(_number(low, x, "vec"))


def _vsum(low: "Lowering", v: Any) -> Value:
    return low.ir.reduce("Add", _vector(low, v, "vsum"))


def _vmax(low: "Lowering", v: Any) -> Value:
    return low.ir.reduce("maximum", _vector(low, v, "vmax"))


def _vmin(low: "Lowering", v: Any) -> Value:
    return low.ir.reduce("minimum", _vector(low, v, "vmin"))


def _vany(low: "Lowering", m: Any) -> Value:
    m = _bools(low, m, "vany")
    if low.ir.mask is not None:
        m = low.ir.arithmetic("BitAnd", m, low.ir.mask)
    return low.ir.call(bool_, f"llvm.vector.reduce.or.v{low.ir.vl}i1", m)


def _vall(low: "Lowering", m: Any) -> Value:
    m = _bools(low, m, "vall")
    if low.ir.mask is not None:
        m = low.ir.arithmetic("BitOr", m, low.ir.invert(low.ir.mask))
    return low.ir.call(bool_, f"llvm.vector.reduce.and.v{low.ir.vl}i1", m)


def _bools(low: "Lowering", m: Any, name: str) -> Value:
    m = _vector(low, m, name)
    if m.type.element is not bool_:
        raise Problem(f"{name} takes a comparison of vectors, not {describe(m)}")
    return m


def _vtrans(low: "Lowering", r: Any) -> None:
    """log2(VL) rounds: in each, registers b apart exchange blocks of b lanes."""
    ir = low.ir
    if not isinstance(r, Registers) or len(r) != ir.vl:
        raise Problem(f"vtrans takes a register array of VL = {ir.vl}")
    values = [ir.read(v.slot, v.type) for v in r]
    kind, width, block = r[0].type, ir.vl, ir.vl // 2
    while block:
        for i in range(width):
            if i & block:
                continue
            low_half = [j if not j & block else width + j - block for j in range(width)]
            high_half = [j + block if not j & block else width + j for j in range(width)]
            pair = values[i], values[i | block]
            for place, lanes in ((i, low_half), (i | block, high_half)):
                order = f"<{width} x i32> <{', '.join(f'i32 {j}' for j in lanes)}>"
                values[place] = ir.value(kind, f"shufflevector {ir.typed(pair[0])}, {ir.typed(pair[1])}, {order}")
        block //= 2
    for variable, value in zip(r, values):
        low.store_variable(variable, value)


def _lane(low: "Lowering", v: Any, k: Any) -> Value:
    v = _vector(low, v, "lane")
    if isinstance(k, Literal) and not 0 <= _constant(k, "lane") < low.ir.vl:
        raise Problem(f"lane {k.value} of {low.ir.vl}")
    k = low.ir.coerce(k, i64, "a lane")
    return low.ir.value(v.type.element, f"extractelement {low.ir.typed(v)}, i64 {k.ref}")


def _fma(low: "Lowering", a: Any, b: Any, c: Any) -> Value:
    ir = low.ir
    operands = [ir.plain(x) for x in (a, b, c)]
    typed = [x for x in operands if isinstance(x, Value)]
    if not typed or not all(isinstance(element_of(x.type), Scalar) and element_of(x.type).is_float for x in typed):
        raise Problem("fma takes floats, at least one of them not a literal")
    kind = element_of(typed[0].type)
    for x in typed[1:]:
        kind = common_type(kind, element_of(x.type))
    whole = Vector(kind) if any(map(is_vector, typed)) else kind
    operands = [ir.coerce(x, whole, "an argument of fma", fill=True) for x in operands]
    return ir.call(whole, f"llvm.fma.{ir.suffix(whole)}", *operands, flags=ir.flags)


def _unary_float(name: str) -> Callable[["Lowering", Any], Value]:
    def lowering(low: "Lowering", x: Any) -> Value:
        x = _float(low, x, name)
        return low.ir.call(x.type, f"llvm.{name}.{low.ir.suffix(x.type)}", x, flags=low.ir.flags)

    return lowering


def _copysign(low: "Lowering", a: Any, b: Any) -> Value:
    a, b = low.ir.unify(*low.typed_pair(a, b))
    _float(low, a, "copysign")
    return low.ir.call(a.type, f"llvm.copysign.{low.ir.suffix(a.type)}", a, b)


def _abs(low: "Lowering", x: Any) -> Any:
    if isinstance(x, Literal):
        return Literal(abs(x.value))
    x = _number(low, x, "abs")
    element = element_of(x.type)
    if element.is_float:
        return low.ir.call(x.type, f"llvm.fabs.{low.ir.suffix(x.type)}", x)
    if element.kind == "signed":
        return low.ir.call(x.type, f"llvm.abs.{low.ir.suffix(x.type)}", x, extra="i1 0")
    return x


def _max(low: "Lowering", a: Any, b: Any) -> Any:
    return _extremum(low, a, b, "Gt")


def _min(low: "Lowering", a: Any, b: Any) -> Any:
    return _extremum(low, a, b, "Lt")


def _extremum(low: "Lowering", a: Any, b: Any, better: str) -> Any:
    """Python's rule: b if b is better than a, else a; so a NaN in a stays and one in b is dropped."""
    if isinstance(a, Literal) and isinstance(b, Literal):
        return Literal((max if better == "Gt" else min)(a.value, b.value))
    a, b = low.ir.unify(a, b)
    return low.ir.select(low.ir.compare(better, b, a), b, a)


def _maximum(low: "Lowering", a: Any, b: Any) -> Any:
    return _keeping_nan(low, a, b, "Gt")


def _minimum(low: "Lowering", a: Any, b: Any) -> Any:
    return _keeping_nan(low, a, b, "Lt")


def _keeping_nan(low: "Lowering", a: Any, b: Any, better: str) -> Any:
    """NumPy's rule: NaN if either is NaN."""
    if isinstance(a, Literal):
        a, b = b, a  # a literal, which isn't NaN, goes second: then Python's rule keeps the NaN
    if isinstance(b, Literal) or not element_of(low.ir.plain(b).type).is_float:
        return _extremum(low, a, b, better)
    a, b = low.ir.unify(a, b)
    kept = low.ir.select(low.ir.compare(better, b, a), b, a)
    return low.ir.select(_isnan(low, b), b, kept)


def _isnan(low: "Lowering", x: Any) -> Value:
    x = _float(low, x, "isnan")
    return low.ir.value(Vector(bool_) if is_vector(x) else bool_, f"fcmp uno {low.ir.typed(x)}, {x.ref}")


def _isfinite(low: "Lowering", x: Any) -> Value:
    return low.ir.compare("Lt", _abs(low, _float(low, x, "isfinite")), Literal(float("inf")))


def _bits(low: "Lowering", n: Any) -> Value:
    n = _number(low, n, "bits")
    width = {i32: f32, u32: f32, i64: f64, u64: f64}.get(element_of(n.type))
    if width is None:
        raise Problem(f"bits takes an i32, u32, i64 or u64, not {describe(n)}")
    return low.ir.reinterpret(n, width)


def _ibits(low: "Lowering", x: Any) -> Value:
    x = _float(low, x, "ibits")
    return low.ir.reinterpret(x, {f32: i32, f64: i64}[element_of(x.type)])


def _mulhi(low: "Lowering", a: Any, b: Any) -> Value:
    ir = low.ir
    a, b = ir.unify(a, b)
    element = element_of(a.type)
    if element not in (u32, u64):
        raise Problem(f"mulhi takes two u32 or two u64, not {element}")
    wide = f"i{2 * element.bits}"
    wide = f"<{ir.vl} x {wide}>" if is_vector(a) else wide
    factors = [ir.named(f"zext {ir.typed(v)} to {wide}") for v in (a, b)]
    product = ir.named(f"mul {wide} {factors[0]}, {factors[1]}")
    amount = element.bits if not is_vector(a) else f"<{', '.join([f'i{2 * element.bits} {element.bits}'] * ir.vl)}>"
    upper = ir.named(f"lshr {wide} {product}, {amount}")
    return ir.value(a.type, f"trunc {wide} {upper} to {ir.llvm(a.type)}")


LOWERINGS: dict[str, Callable] = {
    "ld": _ld, "st": _st, "prefetch": _prefetch, "regs": _regs, "local": _local, "vec": _vec, "vsum": _vsum,
    "vmax": _vmax, "vmin": _vmin, "vany": _vany, "vall": _vall, "vtrans": _vtrans, "lane": _lane, "fma": _fma,
    "copysign": _copysign, "abs": _abs, "max": _max, "min": _min, "maximum": _maximum, "minimum": _minimum,
    "isnan": _isnan, "isfinite": _isfinite, "bits": _bits, "ibits": _ibits, "mulhi": _mulhi,
    **{name: _unary_float(name) for name in ("sqrt", "floor", "ceil", "rint", "trunc")},
}  # fmt: skip


def _libm(low: "Lowering", name: str, args: list[Any]) -> Value:
    """A function of the C library; a vector goes through a small loop, one lane after the other."""
    ir = low.ir
    values = [_float(low, a, name) for a in args]
    if len(values) == 2:
        values = list(
            ir.unify(*(a if isinstance(a, Literal) else v for a, v in zip(args, values)))
            if any(isinstance(v, Value) and not isinstance(a, Literal) for a, v in zip(args, values))
            else values
        )
    kind = values[0].type
    element = element_of(kind)
    symbol = name + ("f" if element is f32 else "")
    if not isinstance(kind, Vector):
        return ir.call(kind, symbol, *values)
    scalar, vector, count = element.llvm, ir.llvm(kind), len(values)
    ir.declarations.add(f"declare {scalar} @{symbol}({', '.join([scalar] * count)})")
    ir.definitions[symbol] = lane_loop(symbol, scalar, vector, count, ir.vl)
    return ir.value(kind, f"call {vector} @lanes.{symbol}({', '.join(map(ir.typed, values))})")


def lane_loop(symbol: str, scalar: str, vector: str, count: int, width: int) -> str:
    """IR of a function that applies a scalar function to each lane."""
    numbers = range(count)
    lines = [f"define internal {vector} @lanes.{symbol}({', '.join(f'{vector} %x{k}' for k in numbers)}) noinline {{"]
    lines += ["entry:", f"  %out = alloca {vector}, align 64"]
    lines += [f"  %in{k} = alloca {vector}, align 64" for k in numbers]
    lines += [f"  store {vector} %x{k}, ptr %in{k}, align 64" for k in numbers]
    lines += ["  br label %loop", "loop:", "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]"]
    for k in numbers:
        lines += [f"  %p{k} = getelementptr {scalar}, ptr %in{k}, i64 %i", f"  %a{k} = load {scalar}, ptr %p{k}"]
    lines += [f"  %y = call {scalar} @{symbol}({', '.join(f'{scalar} %a{k}' for k in numbers)})"]
    lines += [f"  %q = getelementptr {scalar}, ptr %out, i64 %i", f"  store {scalar} %y, ptr %q"]
    lines += ["  %next = add i64 %i, 1", f"  %more = icmp slt i64 %next, {width}"]
    lines += ["  br i1 %more, label %loop, label %end", "end:", f"  %result = load {vector}, ptr %out, align 64"]
    return "\n".join([*lines, f"  ret {vector} %result", "}"])


# Kernels and helpers


def infer_types(
    low: "Lowering", kernel: Kernel, given: Iterable[tuple[Any, Any]], keywords: dict[str, Any]
) -> dict[TypeParameter, Scalar]:
    """The type parameters of a callee from (annotation, argument) pairs and from keywords such as T=f32."""
    found = {t: keywords.pop(t.name) for t in kernel.type_parameters if t.name in keywords}
    explicit = set(found)
    for kind, value in given:
        parameter = kind.element if isinstance(kind, Pointer) else kind
        if not isinstance(parameter, TypeParameter) or parameter in explicit:
            continue
        value = low.ir.plain(value)
        if not isinstance(value, Value) or isinstance(value.type, Pointer) != isinstance(kind, Pointer):
            continue
        element = value.type.element if isinstance(kind, Pointer) else element_of(value.type)
        known = found.get(parameter, element)
        if isinstance(kind, Pointer) and known != element:
            raise Problem(f"{kernel.name}: {parameter} is {known} and {element} at once")
        found[parameter] = common_type(known, element)
    for parameter in kernel.type_parameters:
        if not isinstance(found.setdefault(parameter, low.scope.default_float), Scalar):
            raise Problem(f"{kernel.name}: {parameter} takes a type such as f32")
    return found


def _match(kernel: Kernel, args: list[Any], keywords: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """(name, annotation, argument) of each parameter."""
    types = {t.name for t in kernel.type_parameters}
    names = [p.name for p in kernel.parameters]
    unknown = [k for k in keywords if k not in names and k not in types]
    if unknown:
        raise Problem(f"{kernel.name} has no parameter {unknown[0]!r}")
    positional = [p for p in kernel.parameters if p.name not in keywords]
    if len(args) != len(positional):
        wanted = ", ".join(p.name for p in positional)
        raise Problem(f"{kernel.name} takes {len(positional)} arguments ({wanted}), {len(args)} were given")
    values = {p.name: a for p, a in zip(positional, args)} | {k: v for k, v in keywords.items() if k in names}
    return [(p.name, p.type, values[p.name]) for p in kernel.parameters]


def call_unit(low: "Lowering", kernel: Kernel, args: list[Any], keywords: dict[str, Any]) -> Any:
    """Call another kernel, which is compiled apart. Keyword arguments are compile-time constants."""
    matched = _match(kernel, args, keywords)
    types = infer_types(low, kernel, ((kind, value) for _, kind, value in matched), keywords)
    for name, value in keywords.items():
        if not isinstance(value, Literal):
            raise Problem(f"the keyword argument {name} of {kernel.name} must be a compile-time constant")
    constants = {name: value.value for name, value in keywords.items()}
    instance = kernel.specialise(**{t.name: s for t, s in types.items()}, **constants)
    return _emit_call(low, instance, args)


def _emit_call(low: "Lowering", instance: KernelInstance, args: list[Any]) -> Any:
    ir, name = low.ir, instance.kernel.name
    given = [ir.coerce(value, p.type, f"argument {p.name} of {name}") for p, value in zip(instance.signature, args)]
    returns = instance.concrete(instance.kernel.returns)
    result = ir.llvm(returns) if returns else "void"
    if instance.key == low.instance.key:
        raise Problem(f"{name} calls itself: recursion isn't part of the kernel language")
    low.units[instance.symbol] = instance
    ir.declarations.add(
        f"declare {result} @{instance.symbol}({', '.join(ir.llvm(p.type) for p in instance.signature)})"
    )
    text = f"call {result} @{instance.symbol}({', '.join(map(ir.typed, given))})"
    if returns:
        return ir.value(returns, text)
    ir.line(text)
    return None


def _dispatch(low: "Lowering", node: ast.Call, args: list[Any], constants: dict[str, Any]) -> None:
    """A switch over the specialisations of one kernel for a run-time integer."""
    if len(node.args) != 1 or len(node.keywords) != 3:
        raise Problem("dispatch takes a kernel, one parameter of it, low and high: dispatch(tile, M=m, low=1, high=4)")
    kernel = low.expression(node.args[0])
    keywords = {k.arg: low.expression(k.value) for k in node.keywords}
    if isinstance(kernel, KernelInstance):
        constants, kernel = {**_as_literals(kernel.bindings), **constants}, kernel.kernel
    if not isinstance(kernel, Kernel) or kernel.inline or kernel.returns is not None:
        raise Problem("dispatch takes a kernel that returns nothing")
    lowest, highest = (_constant(keywords.pop(k, None), "dispatch's low and high") for k in ("low", "high"))
    (name, chosen), *_ = keywords.items()
    ir = low.ir
    chosen = ir.coerce(chosen, i64, f"the value of {name}")
    labels = {value: ir.label() for value in range(lowest, highest + 1)}
    wrong, end = ir.label(), ir.label()
    table = " ".join(f"i64 {value}, label %{label}" for value, label in labels.items())
    ir.line(f"switch i64 {chosen.ref}, label %{wrong} [ {table} ]")
    for value, label in labels.items():
        ir.place(label)
        call_unit(low, kernel, args, {**constants, name: Literal(value)})
        ir.branch(end)
    ir.place(wrong)
    ir.declarations.add("declare void @llvm.trap()")
    ir.line("call void @llvm.trap()")
    ir.line("unreachable")
    ir.place(end)


def inline(low: "Lowering", kernel: Kernel, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
    """Write a helper's body here, on scalars or vectors as the call has them."""
    if len(low.callers) > DEEPEST:
        raise Problem(f"{kernel.name}: helpers call each other without end")
    matched = _match(kernel, args, keywords)
    types = infer_types(low, kernel, ((kind, value) for _, kind, value in matched), keywords)
    inner = Scope(kernel, types)
    bound = {}
    for name, kind, value in matched:
        changes = inner.source.assignments[name] > 1
        bound[name] = _as_declared(low, inner.concrete(kind), value, f"argument {name}", changes)
    outer, flags = low.scope, low.ir.flags
    low.callers.append((outer, node))
    low.scope, low.ir.flags = inner, flags_of(kernel)
    try:
        for name, value in bound.items():
            low.bind_argument(name, value)
        inner.defined |= set(bound)
        return _helper_body(low, inner)
    finally:
        low.scope, low.ir.flags = outer, flags
        low.callers.pop()


def _as_declared(low: "Lowering", kind: Any, value: Any, where: str, changes: bool = False) -> Any:
    """An argument or result of a helper in its declared type.

    An integer or bool literal stays a compile-time constant, unless it is the first value of a variable that changes.
    """
    if kind is None or (kind is i64 and isinstance(value, Lanes)):
        return value
    whole = Vector(kind) if is_vector(value) and isinstance(kind, Scalar) else kind
    typed = low.ir.coerce(value, whole, where)
    stays = isinstance(value, Literal) and isinstance(kind, Scalar) and not kind.is_float and not changes
    return value if stays else typed


def _helper_body(low: "Lowering", scope: Scope) -> Any:
    body = scope.source.tree.body
    returns = [n for n in ast.walk(scope.source.tree) if isinstance(n, ast.Return)]
    if not returns:
        low.block(body)
        return None
    if len(returns) == 1 and body[-1] is returns[0] and returns[0].value is not None:
        low.block(body[:-1])
        value = low.expression(returns[0].value)
        declared = scope.concrete(scope.kernel.returns)
        with low.located(returns[0]):
            return _as_declared(low, declared, value, "the result") if isinstance(declared, Scalar) else value
    scope.end = low.ir.label()
    low.block(body)
    if not low.terminated:
        if scope.results is not None:
            raise Problem(f"{scope.kernel.name}: the end can be reached without a return")
        low.ir.branch(scope.end)
    low.terminated = False
    low.ir.place(scope.end)
    values = tuple(low.ir.read(slot, kind) for slot, kind in scope.results or ())
    return values[0] if len(values) == 1 else values or None


def flags_of(kernel: Kernel) -> str:
    """The fast-math flags that a kernel allows itself."""
    return "" if kernel.strict else FAST + ("reassoc " if kernel.reassoc else "")
