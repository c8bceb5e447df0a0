"""`check_gradient` tells right gradients from wrong ones, whoever wrote them, and names the mistake."""

import ast
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError, ArgumentTypeError, MissingPackageError, UnknownNameError
from pullback.testing import CheckError, check_gradient, check_target

FUNCTIONS = Path(__file__).parent / "functions"


def expected(kind: str) -> dict[str, str | None]:
    """The table in a module of functions, read without importing its library."""
    tree = ast.parse((FUNCTIONS / f"{kind}_functions.py").read_text())
    (table,) = (n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "EXPECTED")
    return ast.literal_eval(table)


INSTALLED = [kind for kind in ("numpy", "torch", "jax") if importlib.util.find_spec(kind)]
CASES = [(kind, name, mistake) for kind in INSTALLED for name, mistake in expected(kind).items()]


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
def test_five_of_ten_functions_are_wrong(kind: str) -> None:
    kinds = list(expected(kind).values())
    assert len(kinds) == 10 and kinds.count(None) == 5


@pytest.mark.parametrize(("kind", "name", "mistake"), CASES, ids=lambda value: str(value))
def test_right_and_wrong_are_told_apart(kind: str, name: str, mistake: str | None) -> None:
    report = check_target(f"{FUNCTIONS / f'{kind}_functions.py'}:{name}", verbose=False)
    assert {m.kind for m in report.mistakes} == (set() if mistake is None else {mistake}), str(report)


def test_a_pullback_function_is_proved_to_second_order(rng: np.random.Generator) -> None:
    report = check_gradient(lambda x, w: pb.tanh(x @ w).sum(axis=1), (3, 4), (4, 2), verbose=False)
    assert report.right and report.inputs == ["x", "w"]
    assert 0 < report.largest(1) < 1e-9 and 0 < report.largest(2) < 1e-8


def test_a_compiled_function_is_proved() -> None:
    x = pb.tensor("float64", (None,), "x")
    assert check_gradient(pb.function([x], pb.sum(pb.exp(x))), (4,), verbose=False).right


def test_a_network_is_proved_parameter_by_parameter() -> None:
    network = nn.Network([nn.Input(4), nn.Connected(3, activation="tanh"), nn.Connected(2)])
    report = check_gradient(network, (5, 4), verbose=False)
    assert report.right and len(report.answers) >= 4


def test_the_input_is_shrunk_to_what_fails() -> None:
    report = check_gradient(
        lambda x: np.where(x > 1, x**2, x), (5, 6), vjp=lambda g, x: g * np.where(x > 1, x, 1), verbose=False
    )
    (mistake,) = report.mistakes
    (x,) = mistake.at
    assert x.size <= 2 and (x > 1).any()
    assert mistake.input == 0 and mistake.found != pytest.approx(mistake.expected)


def test_the_report_says_input_by_input_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    report = check_gradient(lambda x, y: x * y, (3,), (3,), vjp=lambda g, x, y: (g * y, -g * x))
    text = capsys.readouterr().out
    assert "x  right  first order" in text and "y  WRONG" in text and "sign" in text and "seen at" in text
    with pytest.raises(CheckError, match="sign"):
        report.raise_if_wrong()


def test_a_gradient_in_single_precision_is_named() -> None:
    report = check_gradient(np.exp, (3,), vjp=lambda g, x: np.float32(g * np.exp(x)), verbose=False)
    assert [m.kind for m in report.mistakes] == ["dtype"]


def test_a_backward_pass_that_keeps_adding_is_caught() -> None:
    total = np.zeros((2, 3))

    def backward(g: np.ndarray, x: np.ndarray) -> np.ndarray:
        nonlocal total
        total = total + 2 * g * x
        return total

    report = check_gradient(lambda x: x**2, (2, 3), vjp=backward, verbose=False)
    assert report.mistakes[0].kind == "stale buffer"


def test_a_function_that_writes_its_input_is_caught() -> None:
    def cube(x: np.ndarray) -> np.ndarray:
        y = x.copy()
        x *= x
        return x * y

    report = check_gradient(cube, (3,), grad=lambda x: 3 * x**2, verbose=False)
    assert [m.kind for m in report.mistakes] == ["writes its input"]


def test_an_input_that_does_not_matter_may_have_no_gradient() -> None:
    report = check_gradient(lambda x, y: x**2, (3,), (3,), vjp=lambda g, x, y: (2 * g * x, None), verbose=False)
    assert report.right and report.answers == ["formula", "disconnected"]
    report = check_gradient(lambda x, y: x * y, (3,), (3,), vjp=lambda g, x, y: (g * y, None), verbose=False)
    assert [m.kind for m in report.mistakes] == ["disconnected"]


def test_random_functions_are_not_called_right() -> None:
    noise = np.random.default_rng(0)
    report = check_gradient(lambda x: x + 1e-4 * noise.random(), (3,), vjp=lambda g, x: g, verbose=False)
    assert [m.kind for m in report.mistakes] == ["not smooth"]


def test_what_has_no_derivative_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="vjp="):
        check_gradient(lambda x: x, (3,))
    with pytest.raises(ArgumentError, match="framework"):
        check_gradient(np.exp, (3,), framework="theano")
    with pytest.raises(ArgumentTypeError, match="shape"):
        check_gradient(np.exp, "3x4", grad=np.exp)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingPackageError, match="pip install torch"):
        check_gradient(lambda x: x, (3,), framework="torch")


def test_targets_that_do_not_exist_are_named() -> None:
    with pytest.raises(UnknownNameError, match="'tanh'"):
        check_target(f"{FUNCTIONS / 'numpy_functions.py'}:tahn")
    with pytest.raises(UnknownNameError, match="no_such_module"):
        check_target("no_such_module:f")
    with pytest.raises(ArgumentError, match="module:name"):
        check_target("numpy_functions")
    with pytest.raises(ArgumentError, match="3x4"):
        check_target(f"{FUNCTIONS / 'numpy_functions.py'}:tanh", ["three"])


def test_shapes_on_the_command_line() -> None:
    target = f"{FUNCTIONS / 'numpy_functions.py'}:take_rows"
    assert check_target(target, ["4x3", "5:int"], verbose=False).right
    assert check_target(f"{FUNCTIONS / 'numpy_functions.py'}:softplus", ["()"], verbose=False).right
