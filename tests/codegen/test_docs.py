"""The page that teaches the language: its examples run and do what they say."""

import importlib.util
import pathlib
import re

import numpy as np

from pullback.codegen import VL, call, f32, f64, from_source, intrinsics

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "kernel-language.md"


def test_the_examples(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 6
    file = tmp_path / "page.py"
    file.write_text("from pullback.codegen import *\nfrom pullback.codegen import VL\n\n" + "\n\n".join(blocks))
    spec = importlib.util.spec_from_file_location("page", file)
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    np.testing.assert_array_equal(page.y, np.maximum(page.x, 0))
    rng = np.random.default_rng(0)
    for m in (2, 4):
        a, b, c = rng.random((5, m)), rng.random((5, VL)), np.zeros((m, VL))
        call(page.tiles.specialise(T=f64), a, b, c, m, 5, n=1)
        np.testing.assert_allclose(c, a.T @ b)
    text = """
def use(x: ptr(T), y: ptr(T), lo: i64, hi: i64):
    y[0] = dot(x, x, hi)
    for i in vrange(1, hi):
        s, c = rotate(x[i], 1.0, 0.0, 1.0)
        y[i] = sigmoid(s) + c
"""
    use = from_source("use", text, {"dot": page.dot, "rotate": page.rotate, "sigmoid": page.sigmoid})
    x = rng.random(37).astype("f4")
    y = np.zeros_like(x)
    call(use.specialise(T=f32), x, y, n=37)
    np.testing.assert_allclose(y[0], x @ x, rtol=1e-6)
    np.testing.assert_allclose(y[1:], 1 / (1 + np.exp(1)) + x[1:], rtol=1e-6)


def test_every_word_is_on_the_page():
    words = set(re.findall(r"[a-z_0-9]+", PAGE.read_text()))
    assert set(intrinsics.INTRINSICS) <= words
