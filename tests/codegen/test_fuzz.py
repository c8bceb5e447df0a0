"""Random kernels: compiled and plain-Python runs give the same bits."""

import os
import random

import numpy as np
import pytest

from pullback.codegen import BY_DTYPE, call, from_source

SEEDS = 400 if os.environ.get("PULLBACK_PROVE") else 24
FLOATS = ("f32", "f64")
INTEGERS = ("i32", "i64", "u32", "u64", "u8")
TYPES = (*FLOATS, *INTEGERS, "bool_")
DTYPES = {t.name: dtype for dtype, t in BY_DTYPE.items()}
COUNT = 53  # elements: whole blocks and a tail for every vector length


class Writer:
    """Writes one random kernel. Scalar parameters are s_T, arrays a_T (inputs) and y_T (outputs)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.variables: dict[tuple[str, bool], list[str]] = {}
        self.count = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def expression(self, kind: str, vector: bool, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(kind, vector)
        sub = lambda k=kind, v=vector: self.expression(k, v, depth - 1)  # noqa: E731
        other = self.random.random() < 0.7 and vector  # whether the second operand is a vector too
        a, b = sub(), self.expression(kind, other, depth - 1)
        if self.random.random() < 0.5 and vector:
            a, b = b, a
        if kind == "bool_":
            return self.truth(vector, depth, a, b)
        if self.random.random() < 0.15:
            return f"({sub()} if {self.expression('bool_', vector, depth - 1)} else {b})"
        if self.random.random() < 0.15:
            return self.conversion(kind, vector, depth)
        if kind in FLOATS:
            return self.float_operation(kind, vector, depth, a, b)
        return self.integer_operation(kind, a, b)

    def leaf(self, kind: str, vector: bool) -> str:
        known = self.variables.get((kind, vector), [])
        if known and self.random.random() < 0.4:
            return self.random.choice(known)
        array = f"a_{kind}"
        if vector:
            places = ("i", "i", "i + 3", "i * 2", "2 + i * 2", "i * step + 1", "70 - i", "at[i]")
            return f"{array}[{self.pick(*places)}]"
        literal = {"bool_": "bool_(1)"}.get(kind, f"{kind}({self.random.randint(0, 9)})")
        return self.pick(f"s_{kind}", f"{array}[n - {self.random.randint(1, 9)}]", literal)

    def truth(self, vector: bool, depth: int, a: str, b: str) -> str:
        kind = self.pick(*FLOATS, *INTEGERS)
        x, y = self.expression(kind, vector, depth - 1), self.expression(kind, vector, depth - 1)
        comparison = f"({x} {self.pick('<', '<=', '>', '>=', '==', '!=')} {y})"
        number = self.expression(self.pick(*FLOATS), vector, depth - 1)
        return self.pick(
            comparison, comparison, f"(not {a})", f"({a} and {b})", f"({a} or {b})", f"({a} ^ {b})",
            f"isnan({number})", f"isfinite({number})", f"({x} < {y} <= {x})",
        )  # fmt: skip

    def conversion(self, kind: str, vector: bool, depth: int) -> str:
        source = self.pick(*TYPES)
        inner = self.expression(source, vector, depth - 1)
        if source in FLOATS and kind in INTEGERS:
            inner = f"min(max({inner}, 0.0), 200.0) if isfinite({inner}) else {source}(1.0)"
        return f"{kind}({inner})"

    def float_operation(self, kind: str, vector: bool, depth: int, a: str, b: str) -> str:
        unary = self.pick("abs", "sqrt", "floor", "ceil", "rint", "trunc", "-", "+")
        width = self.pick({"f32": "i32", "f64": "i64"}[kind], {"f32": "u32", "f64": "u64"}[kind])
        whole = self.expression({"f32": "i32", "f64": "i64"}[kind], vector, depth - 1)
        return self.pick(
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})", f"({a} * 1.25)", f"(0.5 - {a})",
            f"{unary}({a})", f"fma({a}, {b}, {a})", f"fma({a}, 0.3, {b})", f"max({a}, {b})", f"min({a}, {b})",
            f"maximum({a}, {b})", f"minimum({a}, 0.0)", f"copysign({a}, {b})", f"(({a}) ** 3)",
            f"bits({width}(ibits({a})))", f"{kind}({whole})",
        )  # fmt: skip

    def integer_operation(self, kind: str, a: str, b: str) -> str:
        shift = self.random.randint(0, 7)
        divisor = f"({b} % 7 - 8)" if kind[0] == "i" and self.random.random() < 0.5 else f"({b} % 7 + 3)"
        product = f"(({a} * {b}) % 1009)" if kind == "i64" else f"({a} * {b})"
        high = f"mulhi({a}, {b})" if kind in ("u32", "u64") else f"({a} ^ {b})"
        left = f"(({a} & 255) << {shift})"
        return self.pick(
            f"(({a} + {b}) % 100003)" if kind == "i64" else f"({a} + {b})", f"(({a} - {b}) >> 1)", product,
            f"({a} // {divisor})", f"({a} % {divisor})", f"({a} // 8)", f"({a} % 16)", f"({a} // 5)", left,
            f"({a} >> {shift})", f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"(~{a})", high,
            f"max({a}, {b})", f"min({a}, 7)", f"abs({a})", f"({a} // ({b} | 1))" if kind[0] == "u" else f"({a} + 1)",
        )  # fmt: skip

    def whole(self, kind: str, vector: bool, depth: int) -> str:
        """An expression that is surely a vector where one is wanted."""
        text = self.expression(kind, vector, depth)
        return f"vec({text})" if vector else text

    def body(self, vector: bool, indent: str) -> list[str]:
        """Some variables, choices and loops, then stores of every kind."""
        before = {key: list(names) for key, names in self.variables.items()}
        lines = []
        for _ in range(3):
            kind, wide = self.pick(*TYPES), vector and self.random.random() < 0.8
            self.count += 1
            name = f"v{self.count}"
            lines.append(f"{indent}{name} = {self.whole(kind, wide, 2)}")
            form = self.random.random()
            again = self.whole(kind, wide, 2)
            if form < 0.3:
                lines += [f"{indent}if {self.expression('bool_', False, 2)}:", f"{indent}    {name} = {again}"]
                lines += [f"{indent}else:", f"{indent}    {name} = {self.whole(kind, wide, 1)}"]
            elif form < 0.6:
                lines += [f"{indent}for row{self.count} in range({self.random.randint(0, 3)}):"]
                lines += [f"{indent}    {name} = {again}"]
            elif form < 0.8:
                lines += [f"{indent}for step{self.count} in unroll(2):", f"{indent}    {name} = {again}"]
            self.variables.setdefault((kind, wide), []).append(name)
        for kind in self.random.sample(TYPES, 3):
            index = self.pick("i", "i", "i + 2", "i * 2 + 1") if vector else f"{self.random.randint(0, 9)}"
            lines.append(f"{indent}y_{kind}[{index}] = {self.expression(kind, vector, 3)}")
        self.variables = before
        return lines

    def kernel(self) -> str:
        pointers = [f"{p}_{t}: ptr({t})" for p in "ay" for t in TYPES]
        scalars = [f"s_{t}: {t}" for t in TYPES]
        head = f"def fuzzed({', '.join([*pointers, *scalars])}, at: ptr(i32), step: i64, n: i64, lo: i64, hi: i64):"
        lines = [head, "    total = vec(f32(0.0))", "    best = vec(f64(-1.0))"]
        for vector in (False, True, True):
            if vector:
                lines.append("    for i in vrange(lo, hi):")
            lines += self.body(vector, "        " if vector else "    ")
            if vector:
                lines += [f"        total += {self.expression('f32', True, 2)}"]
                lines += [f"        best = maximum(best, {self.expression('f64', True, 2)})"]
                lines += [f"        y_f64[n + 3] += vsum({self.whole('f64', True, 1)})"]
        lines += ["    y_f32[n] = vsum(total)", "    y_f64[n] = vmax(best)", "    y_f64[n + 1] = vmin(best)"]
        return "\n".join([*lines, ""])


def values(kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    if kind in FLOATS:
        x = (rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size)).astype(DTYPES[kind])
        x[rng.integers(0, size, 8)] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 2.5, -3.0]
        return x
    if kind == "bool_":
        return rng.random(size) < 0.5
    low = 0 if kind[0] == "u" else -200
    return rng.integers(low, 200, size).astype(DTYPES[kind])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_compiled_equals_python(seed):
    text = Writer(seed).kernel()
    kernel = from_source("fuzzed", text, strict=True)
    rng = np.random.default_rng(seed)
    size = 2 * COUNT + 80
    inputs = [values(kind, size, rng) for kind in TYPES]
    outputs = [values(kind, size, rng) for kind in TYPES]
    scalars = [values(kind, 9, rng)[8].item() for kind in TYPES]
    at = rng.integers(0, size, size).astype(np.int32)
    results = []
    for run in ("compiled", "python"):
        arrays = [*(a.copy() for a in inputs), *(a.copy() for a in outputs)]
        if run == "compiled":
            call(kernel, *arrays, *scalars, at, 2, COUNT, n=COUNT)
        else:
            kernel.python(*arrays, *scalars, at, 2, COUNT, lo=0, hi=COUNT)
        results.append(arrays)
    for kind, compiled, python in zip(TYPES * 2, *results):
        same = np.array_equal(compiled, python, equal_nan=kind in FLOATS)
        wrong = np.flatnonzero(~((compiled == python) | ((compiled != compiled) & (python != python))))
        assert same, f"{kind} at {wrong[:5]}: {compiled[wrong[:5]]} and {python[wrong[:5]]} from\n{text}"
