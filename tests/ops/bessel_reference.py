"""Derivatives of Bessel functions by mpmath, as tests/data/bessel.json: `python -m tests.ops.bessel_reference`."""

import json
from itertools import product
from pathlib import Path

import mpmath as mp

EXACT = {"iv": mp.besseli, "ive": lambda v, x: mp.exp(-x) * mp.besseli(v, x), "jv": mp.besselj, "kv": mp.besselk}
DERIVATIVES = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1)]
V = (0.0, 1e-9, 0.3, 1.0, 2.5, 10.25, 40.0, -1e-9, -0.3, -1.0, -2.0, -3.2, -10.0)
X = (1e-8, 0.07, 0.9, 5.0, 9.7, 30.0, 60.5)


def exact(kind: str, v: float, x: float, n: int, m: int) -> float:
    """d^n/dv^n d^m/dx^m at 100 digits."""
    f = EXACT[kind]
    with mp.workdps(100):
        v, x = mp.mpf(v), mp.mpf(x)
        if n and m:
            return float(mp.diff(f, (v, x), (n, m)))
        if n:
            return float(mp.diff(lambda t: f(t, x), v, n))
        return float(mp.diff(lambda t: f(v, t), x, m)) if m else float(f(v, x))


if __name__ == "__main__":
    rows = []
    for kind, (n, m) in product(EXACT, DERIVATIVES):
        for i, (v, x) in enumerate(product(V, X)):
            odd = kind == "kv" and n % 2 == 1 and v == 0  # exactly zero
            if (i + 3 * n + 5 * m) % 8 == 0 and not odd:
                value = exact(kind, v, x, n, m)
                rows.append({"kind": kind, "n": n, "m": m, "v": v, "x": x, "value": value})
    lines = ",\n".join(map(json.dumps, rows))
    (Path(__file__).parent.parent / "data" / "bessel.json").write_text(f"[\n{lines}\n]\n")
