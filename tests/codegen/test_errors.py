"""What the compiler refuses: the message names kernel, file, line and the reason."""

import math
import re

import pytest

from pullback.codegen import T, f32, from_source, helper, i64, ir, kernel, ptr, vrange, vsum
from pullback.errors import KernelError, PullbackError


@helper
def doubled(x: T) -> T:
    return x + x


@helper
def endless(x):
    return endless(x)


@kernel
def callee(x: ptr(T), n: i64, M: i64):
    x[n] = M


NAMES = {"doubled": doubled, "endless": endless, "callee": callee, "math": math, "TABLE": (1, 2), "TEXT": "no"}

# (body, line in the body that is at fault, part of the message); x, y: ptr(f32), k: ptr(i32), m: ptr(bool_), n: i64
REFUSED = [
    # names and types of variables
    ("y[0] = unknown", 1, "the name 'unknown' isn't defined"),
    ("y[0] = TEXT", 1, "TEXT is a str"),
    ("y[0] = math.nothing", 1, "math.nothing isn't known"),
    ("if n > 0:\n    a = 1.0\ny[0] = a", 3, "a may be unset here"),
    ("for i in range(n):\n    a = x[i]\ny[0] = a", 3, "a may be unset here"),
    ("for i in range(n):\n    y[i] = 0\ny[0] = i", 3, "i may be unset here"),
    ("a: f32 = 0.0", 1, "write s = f64(0), not s: f64 = 0"),
    ("a = x\na = k", 2, "variable a (made on line 2) is a ptr(f32), but gets ptr(i32)"),
    ("a = n\na = x[0]", 2, "is i64, but gets f32: write i64(...) to convert"),
    ("a = x[0]\na = f64(1) * a", 2, "is f32, but gets f64: write f32(...)"),
    ("a = x[0] < 1\na = n", 2, "is bool_, but gets i64"),
    # vectors and scalars
    ("a = x[0]\nfor i in vrange(n):\n    a = x[i]", 3, "a (made on line 2) is a scalar f32, but gets a vector"),
    ("a = 0.0\nfor i in vrange(n):\n    a += x[i]", 3, "is a scalar f32, but gets a vector"),
    ("for i in vrange(n):\n    a = x[0]\n    a = x[i]", 3, "is a scalar f32, but gets a vector"),
    ("for i in vrange(n):\n    a = x[i]\n    a = x[0]", 3, "is a vector of f32, but gets a scalar f32: write vec(...)"),
    ("for i in vrange(n):\n    y[0] = x[i]", 2, "an element of ptr(f32) is a scalar f32, but gets a vector"),
    ("for i in vrange(n):\n    if x[i] > 0:\n        y[i] = 0", 2, "a vector has no single truth"),
    ("for i in vrange(n):\n    while x[i] > 0:\n        y[i] = 0", 2, "a vector has no single truth"),
    ("for i in vrange(n):\n    for j in vrange(n):\n        y[j] = 0", 2, "a vector loop inside a vector loop"),
    ("for i in vrange(n):\n    break", 2, "not in vector or unrolled ones"),
    ("for i in vrange(n):\n    return", 2, "return inside a vector loop"),
    ("for i in vrange(n):\n    i = 3\n", 1, "the loop index i is assigned to"),
    ("for i in vrange(n):\n    y[i] = (x + i)[0]", 2, "a pointer moves by a scalar"),
    ("y[0] = vsum(x[0])", 1, "vsum takes a vector, not f32"),
    # operations
    ("y[0] = x[0] + n", 1, "f32 and i64 don't mix: convert one of them, as in f32(...)"),
    ("y[0] = x[0] & x[1]", 1, "& isn't defined for f32"),
    ("y[0] = x[0] // x[1]", 1, "// isn't defined for f32"),
    ("y[0] = n / 2", 1, "/ isn't defined for i64: write //"),
    ("y[0] = (x[0] < 1) + 1", 1, "1 isn't a bool"),
    ("y[0] = (x[0] < 1) + (x[1] < 1)", 1, "+ isn't defined for bool_"),
    ("k[0] = k[1] + 0.5", 1, "the literal 0.5 meets a value of type i32"),
    ("k[0] = k[1] + 2**40", 1, "1099511627776 is outside i32"),
    ("y[0] = x[0] * 1e39", 1, "1e+39 is outside f32"),
    ("y[0] = x[0] ** x[1]", 1, "** takes a literal integer exponent"),
    ("y[0] = x[0] @ x[1]", 1, "MatMult isn't part of the kernel language"),
    ("y[0] = x * 2", 1, "* isn't defined for ptr(f32)"),
    ("y[0] = 1 // 0 * x[0]", 1, "1 // 0"),
    ("k[0] = k[1] // 0", 1, "division by zero"),
    ("y[0] = x[0] if n else 1.0", 1, "a condition is a comparison, not i64"),
    ("if x[0]:\n    pass", 1, "a condition is a comparison, not f32"),
    ("y[0] = x[0.5]", 1, "the literal 0.5 meets a value of type i64"),
    ("y[0] = n[0]", 1, "i64 can't be indexed"),
    # stores
    ("y[0] = f64(1)", 1, "is f32, but gets f64: write f32(...)"),
    ("k[0] = n", 1, "is i32, but gets i64"),
    ("k[0] = x[0]", 1, "is i32, but gets f32"),
    ("m[0] = 1", 1, "1 isn't a bool"),
    ("y[0] = m[0]", 1, "is f32, but gets bool_"),
    ("y[0] = True", 1, "True isn't a number: convert it, as in f32(True)"),
    ("y[0] = x", 1, "is a f32, but gets ptr(f32)"),
    ("n[0] = 1", 1, "i64 can't be indexed"),
    # loops
    ("for i in unroll(n):\n    y[i] = 0", 1, "the bounds of unroll must be compile-time integers"),
    ("for i in range(0, n, n):\n    y[i] = 0", 1, "the step of a range is a compile-time integer"),
    ("for i in range(x[0]):\n    y[i] = 0", 1, "a bound of range is i64, but gets f32"),
    ("for i in (1, 2):\n    y[i] = 0", 1, "runs over range, vrange, vfull or unroll"),
    ("for i in max(1, 2):\n    y[i] = 0", 1, "runs over range, vrange, vfull or unroll, not max"),
    ("for i in vrange(0, n, 2):\n    y[i] = 0", 1, "vrange takes lo and hi"),
    ("for n in range(3):\n    y[n] = 0", 1, "the loop index n is also a variable"),
    ("for i in range(3):\n    pass\nelse:\n    pass", 1, "a loop's else isn't part"),
    ("for i in unroll(3):\n    continue", 2, "break and continue work in range and while loops"),
    # calls
    ("y[0] = doubled()", 1, "doubled takes 1 arguments (x), 0 were given"),
    ("y[0] = doubled(x[0], z=1)", 1, "doubled has no parameter 'z'"),
    ("y[0] = endless(x[0])", 1, "helpers call each other without end"),
    ("callee(x, 1, M=n)", 1, "the keyword argument M of callee must be a compile-time constant"),
    ("callee(x, x[0], 1)", 1, "argument n of callee is i64, but gets f32"),
    ("callee(n, 1, 1)", 1, "argument x of callee is a ptr(f32), but gets i64"),
    ("refused(x, y, k, m, n, 0, 1)", 1, "refused is a function"),
    ("y[0] = sqrt(x[0], x[1])", 1, "sqrt takes 1 argument, 2 were given"),
    ("y[0] = sqrt(n)", 1, "sqrt takes a float, not i64"),
    ("y[0] = fma(1.0, 2.0, 3.0)", 1, "at least one of them not a literal"),
    ("y[0] = fma(x[0], n, 1.0)", 1, "fma takes floats"),
    ("y[0] = bits(x[0])", 1, "bits takes an i32, u32, i64 or u64"),
    ("y[0] = mulhi(k[0], k[1])", 1, "mulhi takes two u32 or two u64, not i32"),
    ("y[0] = f16(x[0])", 1, "f16 is a storage type"),
    ("y[0] = print(x[0])", 1, "the name 'print' isn't defined"),
    ("y[0] = max(x[0], x[1], key=1)", 1, "takes no keyword arguments"),
    ("y[0] = range(3)", 1, "range can't be called in a kernel"),
    ("dispatch(callee, M=n, low=1)(x, 1)", 1, "dispatch takes a kernel, one parameter of it, low and high"),
    ("dispatch(doubled, x=n, low=1, high=2)()", 1, "dispatch takes a kernel that returns nothing"),
    # registers and scratch
    ("r = regs(n)", 1, "regs takes a compile-time integer"),
    ("r = regs(2)\nr[n] = x[0]", 2, "an index into a register array must be a compile-time integer"),
    ("r = regs(2)\ny[0] = vsum(r[2])", 2, "index 2 is outside a register array of 2"),
    ("r = regs(2)\nr[0] = x[0]", 2, "is a vector of f32, but gets a scalar f32"),
    ("r = regs(2)\nvtrans(r)", 2, "vtrans takes a register array of VL"),
    ("p = local(n)", 1, "local takes a compile-time integer"),
    ("p = local(100000)", 1, "local takes 1 to 65536 bytes"),
    ("y[0] = TABLE[2]", 1, "index 2 is outside a tuple of 2"),
    # forms of Python that aren't in the language
    ("y[0] = [1.0]", 1, "a List expression isn't part of the kernel language"),
    ("y[0] = (lambda: 1.0)()", 1, "a Lambda expression isn't part of the kernel language"),
    ("import math", 1, "a Import statement isn't part of the kernel language"),
    ("y[0] = 'a'", 1, "'a' isn't part of the kernel language"),
    ("x[0] < 1", 1, "an expression whose value is dropped does nothing"),
    ("a, b = x[0]", 1, "2 names on the left, but one value on the right"),
    ("a = b = x[0:1]", 1, "a Slice expression isn't part of the kernel language"),
    ("return x[0]", 1, "the kernel returns a value, but its signature has no '-> type'"),
    ("assert 2 > 3, 'two is less'", 1, "assertion failed: two is less"),
]
HEAD = "def refused(x: ptr(f32), y: ptr(f32), k: ptr(i32), m: ptr(bool_), n: i64, lo: i64, hi: i64):\n"


@pytest.mark.parametrize("body, line, message", REFUSED, ids=[b.replace("\n", "; ")[:50] for b, _, _ in REFUSED])
def test_refused(body, line, message):
    text = HEAD + "".join(f"    {part}\n" for part in body.split("\n"))
    with pytest.raises(KernelError) as caught:
        ir(from_source("refused", text, NAMES))
    assert message in str(caught.value)
    assert f"<kernel refused>, line {line + 1}, in refused" in str(caught.value)
    assert body.split("\n")[line - 1].strip() in str(caught.value)


@kernel
def faulty(x: ptr(T), lo: i64, hi: i64):
    for i in vrange(lo, hi):
        x[i] = x[i] * undefined_here  # noqa: F821


def test_file_line_and_text_of_a_kernel_in_a_file():
    with pytest.raises(KernelError) as caught:
        ir(faulty.specialise(T=f32))
    assert isinstance(caught.value, PullbackError) and isinstance(caught.value, TypeError)
    place = re.search(r"(\S+test_errors\.py), line (\d+), in faulty\n    (.*)", str(caught.value))
    assert "kernel faulty[T=f32]: the name 'undefined_here' isn't defined" in str(caught.value)
    assert open(place[1]).readlines()[int(place[2]) - 1].strip() == place[3]
    assert "undefined_here" in place[3]


@helper
def blamed(x):
    y = vsum(x)
    return y


@kernel
def blaming(x: ptr(f32), lo: i64, hi: i64):
    x[0] = blamed(x[1])


def test_an_error_inside_a_helper_shows_who_called_it():
    with pytest.raises(KernelError) as caught:
        ir(blaming)
    message = str(caught.value)
    assert message.index("in blamed\n    y = vsum(x)") < message.index("in blaming\n    x[0] = blamed(x[1])")


SIGNATURES = [
    ("def f(x, lo: i64, hi: i64):\n    pass\n", "parameter 'x' has annotation None"),
    ("def f(x: int, lo: i64, hi: i64):\n    pass\n", "parameter 'x' has annotation <class 'int'>"),
    ("def f(x: ptr(f32), n: i64 = 3):\n    pass\n", "parameters are positional, without defaults"),
    ("def f(*x: i64):\n    pass\n", "parameters are positional"),
    ("def g():\n    pass\n", "its text defines no function of that name"),
    ("def f(x: ptr(f32):\n    pass\n", "generated kernel f, line 1"),
]


@pytest.mark.parametrize("text, message", SIGNATURES)
def test_signatures(text, message):
    with pytest.raises(KernelError, match=re.escape(message)):
        from_source("f", text)


def test_specialise_checks_names_and_values():
    for bindings, message in [
        ({}, "type parameter T is open"),
        ({"T": f32, "S": f32}, "nothing called 'S' to specialise"),
        ({"T": 3}, "type parameter T takes a type"),
        ({"T": f32, "M": "four"}, "constant M takes a Python number"),
        ({"T": f32, "x": 3}, "nothing called 'x' to specialise"),
    ]:
        with pytest.raises(KernelError, match=message):
            callee.specialise(**bindings)


@kernel
def ping(x: ptr(f32), n: i64):
    pong(x, n - 1)


@kernel
def pong(x: ptr(f32), n: i64):
    ping(x, n - 1)


@kernel
def again(x: ptr(f32), lo: i64, hi: i64):
    again(x, lo, hi - 1)


def test_recursion_is_refused():
    with pytest.raises(KernelError, match="again calls itself: recursion isn't part"):
        ir(again)


def test_keys_of_kernels_that_call_each_other_have_an_end():
    assert ping.key != pong.key


def test_a_missing_return_is_found():
    for body in ("pass", "if n > 0:\n        return 1.0"):
        with pytest.raises(KernelError, match="the end can be reached without a return"):
            ir(from_source("f", f"def f(n: i64) -> f32:\n    {body}\n"))


def test_kernels_and_words_arent_called_directly():
    with pytest.raises(TypeError, match="callee isn't called directly"):
        callee(1, 2, 3)
    with pytest.raises(TypeError, match="vsum.* has a meaning only inside a kernel"):
        vsum(3)
    with pytest.raises(TypeError, match=r"T\(...\) has a meaning only inside a kernel"):
        T(3)
    with pytest.raises(TypeError, match="takes a scalar type such as f32"):
        ptr(3)


def test_source_that_can_no_longer_be_read_or_has_changed(tmp_path):
    import importlib.util
    import linecache

    file = tmp_path / "changing.py"
    text = (
        "from pullback.codegen import i64, kernel, ptr\n@kernel\ndef k(x: ptr(i64), lo: i64, hi: i64):\n    x[0] = 1\n"
    )
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("changing", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file.write_text(text.replace("= 1", "= 2"))
    linecache.checkcache()
    with pytest.raises(KernelError, match="the file has changed since it was imported"):
        ir(module.k)
    file.unlink()
    linecache.checkcache()
    with pytest.raises(KernelError, match="its source can't be read"):
        ir(kernel(module.k.function))
