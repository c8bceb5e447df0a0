"""The `pullback` command: each job from files to files, and every mistake ended with one message and an exit code."""

import csv
import os
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.cli import demo as demo_command
from pullback.cli import main
from pullback.cli import warm as warm_command


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def houses(rng):
    """houses.csv: a price that follows from size and town, with gaps, a useless name and a date."""
    size, town = rng.uniform(40, 200, 300), rng.choice(["Ulm", "Bonn", "Köln"], 300)
    price = 1000 * size + np.select([town == "Ulm", town == "Bonn"], [0, 50_000], 90_000) + rng.normal(0, 5000, 300)
    with open("houses.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "size", "town", "sold", "price"])
        for i in range(300):
            shown_size = "" if i % 29 == 0 else f"{size[i]:.1f}"
            writer.writerow([f"house {i}", shown_size, town[i], f"20{i % 20:02d}-03-04", f"{price[i]:.0f}"])
    return price


def run(*arguments):
    return main([str(a) for a in arguments])


def fails(capsys, code, message, *arguments):
    assert run(*arguments) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith(f"pullback {arguments[0]}: ") and "Traceback" not in captured.err
    return captured


def test_a_table_from_rows_to_predictions(houses, capsys):
    assert run("train", "houses.csv", "--target", "price", "--epochs", 60, "--plot", "curve.png", "--seed", 1) == 0
    text = capsys.readouterr().out
    assert "300 rows. The target price is a number." in text
    assert "numbers: size" in text and "dates: sold" in text and "categories: town" in text
    assert "not used: id (nearly every row has a value of its own" in text
    assert "On 60 rows that were held back:" in text and "Saved model.safetensors" in text
    explained = float(text.rpartition("explained variance (R2) ")[2].split()[0])
    assert explained > 0.8
    assert open("curve.png", "rb").read(4) == b"\x89PNG"

    assert run("predict", "model.safetensors", "houses.csv") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "price" and len(lines) == 301
    found = np.array(lines[1:], float)
    complete = np.arange(300) % 29 != 0
    assert np.corrcoef(found[complete], houses[complete])[0, 1] > 0.95

    assert run("predict", "model.safetensors", "houses.csv", "--output", "priced.npy") == 0
    np.testing.assert_allclose(np.load("priced.npy"), found, rtol=1e-5)
    assert run("predict", "model.safetensors", "houses.csv", "--output", "priced.csv") == 0
    assert open("priced.csv").read().splitlines() == lines


def test_classes_of_a_table(rng, capsys):
    X = rng.normal(size=(120, 2))
    with open("flowers.tsv", "w") as file:
        file.write("width\tstation\tspecies\n")
        for a, b in X:
            file.write(f"{a:.3f}\t{int(b > 0)}\t{'iris' if a + 2 * (b > 0) > 1 else 'rose'}\n")
        file.write("1.0\t0\t\n")
    arguments = "train flowers.tsv --target species --category station --epochs 40 --hidden 16 --learning-rate 0.01"
    assert run(*arguments.split(), "--output", "flowers.safetensors") == 0
    text = capsys.readouterr().out
    assert "1 rows without a value of 'species' are left out." in text
    assert "The target species is one of iris, rose." in text and "categories: station" in text
    assert float(text.rpartition("accuracy ")[2].split()[0]) > 0.85
    assert run("predict", "flowers.safetensors", "flowers.tsv") == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {row["species"] for row in rows} == {"iris", "rose"}
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)


def write_network():
    with open("mynets.py", "w") as file:
        file.write(
            "from pullback import nn\n"
            "def small():\n"
            "    return nn.Network([nn.Input(4), nn.Connected(6, activation='tanh'), nn.Connected(3), nn.Softmax()])\n"
            "compiled = small()\n"
            "compiled.compile(nn.SGD(0.5), 'cross_entropy', ['accuracy'])\n"
            "number = 3\n"
        )


def test_a_network_of_ones_own(rng, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "mynets", raising=False)
    write_network()
    X = rng.normal(size=(90, 4)).astype("float32")
    y = X[:, :3].argmax(1)
    np.savez("data.npz", X=X, y=y)
    for network in ("mynets:small", "mynets.py:compiled"):
        assert run("train", network, "--data", "data.npz", "--epochs", 3, "--output", "own.safetensors") == 0
        assert "On 18 rows that were held back: loss" in capsys.readouterr().out
    before = nn.Network.load("own.safetensors").history
    assert run("train", "own.safetensors", "--data", "data.npz", "--epochs", 2, "--learning-rate", "0.1",
               "--output", "own.safetensors") == 0  # fmt: skip
    after = nn.Network.load("own.safetensors")
    assert len(after.history) == len(before) + 2 and after.learning_rate == 0.1
    capsys.readouterr()

    np.save("X.npy", X)
    assert run("predict", "own.safetensors", "X.npy", "--output", "p.npy") == 0
    np.testing.assert_array_equal(np.load("p.npy"), after.predict(X))
    assert run("predict", "own.safetensors", "X.npy") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "output 0,output 1,output 2" and len(lines) == 91

    assert run("summary", "mynets:small") == 0
    text = capsys.readouterr().out
    assert "Connected (tanh)" in text and "3 layers, float32" in text and "51" in text

    for data in ([], ["--data", "data.npz"]):
        assert run("check", "own.safetensors", "--points", 1, *data) == 0
        assert "Every gradient is right: largest relative error" in capsys.readouterr().out


def test_a_wrong_gradient_ends_with_its_own_code(capsys, monkeypatch):
    with open("wrongnet.py", "w") as file:
        file.write(
            "from dataclasses import dataclass\n"
            "import pullback as pb\n"
            "from pullback import nn\n"
            "@dataclass(frozen=True)\n"
            "class Double(pb.Op):\n"
            "    def make_node(self, x): return pb.Apply(self, [x], [x.type])\n"
            "    def perform(self, x): return 2 * x\n"
            "    def grad(self, inputs, output_grads): return [-2 * output_grads[0]]\n"
            "@dataclass(frozen=True)\n"
            "class Doubled(nn.Layer):\n"
            "    def describe(self, x): return x\n"
            "    def apply(self, parameters, inputs, context): return Double()(inputs[0])\n"
            "net = nn.Network([nn.Input(2), nn.Connected(3), Doubled(), nn.Connected(1)])\n"
        )
    assert run("check", "wrongnet.py:net") == 3
    text = capsys.readouterr().out
    assert "WRONG" in text and "connected_1.weight: input 0, first order, sign" in text


def write_functions():
    with open("slopes.py", "w") as file:
        file.write(
            "import numpy as np\n"
            "import pullback as pb\n"
            "def scaled(x, s): return x * s\n"
            "def scaled_vjp(g, x, s): return g * s, (g * x)[-1]\n"
            "def cube(x): return x**3\n"
            "def cube_grad(x): return 3 * x**2\n"
            "def mine(x, w): return pb.tanh(x @ w)\n"
            "def takes_nothing(): return 3\n"
        )


def test_a_function_is_checked_input_by_input(capsys):
    write_functions()
    assert run("check", "slopes.py:cube", "--shapes", "2x3") == 0
    assert capsys.readouterr().out.startswith("cube: right\n  x  right  first order ")
    assert run("check", "slopes.py:scaled", "--shapes", "4x3", "3", "--orders", 1) == 3
    text = capsys.readouterr().out
    assert "scaled: WRONG\n  x  right" in text and "s  WRONG\n" in text
    assert "missing broadcast sum" in text and "worst at [" in text and "seen at [[" in text
    assert run("check", "slopes.py:mine", "--shapes", "4x3", "3x2", "--points", 1) == 0
    assert "second order" in capsys.readouterr().out
    assert run("check", "pullback.ops.linear:MatMul", "--shapes", "3x4", "4x2") == 0
    assert capsys.readouterr().out.startswith("MatMul: right")
    np.save("x.npy", np.full((2, 2), 3.0))
    assert run("check", "slopes.py:cube", "--shapes", "x.npy", "--points", 1) == 0
    for message, *arguments in [
        ("--data is for networks", "slopes.py:cube", "--data", "mnist5k"),
        ("a shape looks like 3x4", "slopes.py:cube", "--shapes", "3by4"),
        ("can't read no.npy", "slopes.py:cube", "--shapes", "no.npy"),
        ("can't tell what", "slopes.py:takes_nothing"),
        ("slopes.py has no 'cubes'. Did you mean 'cube'", "slopes.py:cubes"),
        ("expected a .safetensors file, a .cfg file or module:name", "cube"),
    ]:
        fails(capsys, 1, message, "check", *arguments)
    write_network()
    fails(capsys, 1, "--shapes and --framework are for functions", "check", "mynets.py:small", "--shapes", "3x4")


CFG = """[net]
width=8
height=8
channels=3

[convolutional]
batch_normalize=1
filters=4
size=3
stride=1
pad=1
activation=leaky

[avgpool]

[softmax]
"""


def test_convert(rng, capsys):
    with open("small.cfg", "w") as file:
        file.write(CFG)
    X = rng.random((2, 8, 8, 3)).astype("float32")
    assert run("convert", "small.cfg", "small.weights") == 0
    assert run("convert", "small.weights", "model.safetensors") == 0
    assert "Wrote <Network 'small" in capsys.readouterr().out
    net = nn.Network.load("model.safetensors")
    assert run("convert", "model.safetensors", "again.weights") == 0
    assert open("again.weights", "rb").read() == open("small.weights", "rb").read()
    assert run("convert", "model.safetensors", "again.cfg") == 0 and open("again.cfg").read() == CFG
    assert run("convert", "model.safetensors", "values.npz") == 0
    assert {k: v.shape for k, v in np.load("values.npz").items()} == {k: v.shape for k, v in net.get_values().items()}
    options = ["--network", "small.cfg", "--dtype", "float64"]
    assert run("convert", "values.npz", "back.safetensors", *options) == 0
    back = nn.Network.load("back.safetensors")
    assert back.dtype == "float64"
    np.testing.assert_allclose(back.predict(X), net.predict(X), rtol=1e-5)
    assert run("summary", "small.cfg") == 0 and "Convolutional" in capsys.readouterr().out
    with open("wide.cfg", "w") as file:
        file.write(CFG.replace("width=8", "width=200").replace("height=8", "height=150"))
    assert run("check", "wide.cfg", "--points", 1) == 0
    text = capsys.readouterr().out
    assert text.startswith("wide.cfg is checked on images of 32 x 32 instead of 150 x 200.")
    assert "Every gradient is right" in text

    np.savez("odd.npz", weight=np.zeros(3))
    os.remove("small.cfg")
    write_network()
    for message, *arguments in [
        ("'model.onnx': expected a name that ends in one of", "model.safetensors", "model.onnx"),
        ("holds numbers only and there is no small.cfg: say --cfg FILE", "small.weights", "x.safetensors"),
        ("holds arrays only: say whose with --network", "values.npz", "x.safetensors"),
        ("the network has no parameter 'weight'", "odd.npz", "x.safetensors", "--network", "again.cfg"),
        ("wasn't read from a Darknet cfg", "mynets.py:small", "x.weights"),
    ]:
        fails(capsys, 1, message, "convert", *arguments)
    assert not os.path.exists("x.safetensors") and not os.path.exists("x.weights")


def test_warm(capsys, monkeypatch):
    write_network()
    assert run("warm", "mynets.py:compiled") == 0
    assert capsys.readouterr().out.startswith("1 networks in ")
    made = list(warm_command.common())
    monkeypatch.setattr(warm_command, "common", lambda: [made[0], made[-1]])
    assert run("warm") == 0
    text = capsys.readouterr().out
    assert text.startswith("2 networks in ") and "kernels compiled" in text


def test_info(capsys):
    assert run("info") == 0
    text = capsys.readouterr().out
    assert f"pullback     {pb.__version__}" in text and "threads" in text and "compiled ones" in text
    assert "MISSING" not in text


def test_demo(capsys, monkeypatch):
    X, y = pb.data.mnist5k()
    monkeypatch.setattr(demo_command, "mnist5k", lambda: (X[::8], y[::8]))
    monkeypatch.setattr(demo_command, "HELD_BACK", 125)
    assert run("demo", "--epochs", 2, "--output", "out/demo") == 0
    text = capsys.readouterr().out
    assert "500 handwritten digits of MNIST to learn from, 125 held back." in text
    assert "Held-out accuracy 0." in text and "Every gradient is right" in text
    assert sorted(os.listdir("out/demo")) == ["learning-curve.png", "mistakes.png", "model.safetensors"]
    assert nn.Network.load("out/demo/model.safetensors").predict(X[:2]).shape == (2, 10)


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_mistakes_are_ended_with_a_message(houses, capsys):
    open("file", "w").close()
    for message, *arguments in [
        ("the table has no column 'prise'. Did you mean 'price'", "train", "houses.csv", "--target", "prise"),
        ("can't read none.csv: No such file", "train", "none.csv", "--target", "price"),
        ("no folder nowhere", "train", "houses.csv", "--target", "price", "--output", "nowhere/m.safetensors"),
        ("the table has no column 'siez'", "train", "houses.csv", "--target", "price", "--drop", "siez"),
        ("holds text such as 'Bonn'", "train", "houses.csv", "--target", "town", "--task", "regression"),
        ("is no network: expected a .safetensors file, a .cfg", "train", "houses.csv", "--data", "mnist5k"),
        ("expected mnist5k or an .npz file", "check", "statistics:mean", "--data", "x.csv"),
        ("there is no module 'nonsense'", "summary", "nonsense:net"),
        ("there is no file nets.py", "summary", "nets.py:net"),
        ("statistics has no 'meen'. Did you mean 'mean'", "summary", "statistics:meen"),
        ("expected an nn.Network", "summary", "math:pi"),
        ("none.safetensors: can't read it: No such file", "summary", "none.safetensors"),
        ("expected a .csv or .npy file", "predict", "m.safetensors", "houses.csv", "--output", "out.txt"),
        ("can't write into file/demo", "demo", "--output", "file/demo"),
    ]:
        if arguments[0] == "check":
            write_network()
            arguments[1] = "mynets.py:small"
        fails(capsys, 1, message, *arguments)
    assert sorted(os.listdir()) == ["file", "houses.csv", "mynets.py"]


def test_mistakes_of_prediction(houses, capsys):
    net = nn.Network([nn.Input(3), nn.Connected(1)])
    net.save("plain.safetensors")
    fails(capsys, 1, "wasn't trained on a table: give an .npy file", "predict", "plain.safetensors", "houses.csv")
    np.save("wide.npy", np.zeros((2, 5)))
    fails(capsys, 1, "X has shape (2, 5); layer 0 (Input) takes (n, 3)", "predict", "plain.safetensors", "wide.npy")
    with open("cut.npy", "wb") as file:
        file.write(open("wide.npy", "rb").read()[:-7])
    fails(capsys, 1, "cut.npy is no whole .npy or .npz file", "predict", "plain.safetensors", "cut.npy")
    np.savez("half.npz", X=np.zeros(3))
    fails(capsys, 1, "holds the arrays ['X'], but no y", "check", "plain.safetensors", "--data", "half.npz")
    run("train", "houses.csv", "--target", "price", "--epochs", 1)
    with open("other.csv", "w") as file:
        file.write("id,town,sold\na,Ulm,2001-01-01\n")
    fails(capsys, 1, "the rows lack the column 'size'", "predict", "model.safetensors", "other.csv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["trian"], "invalid choice: 'trian'"),
        (["train", "x.csv"], "one of the arguments --target --data is required"),
        (["demo", "--epochs", "0"], "expected a whole number from 1 up, got '0'"),
        (["train", "x.csv", "--target", "y", "--held-back", "2"], "expected a number between 0 and 1, got '2'"),
        (["train", "x.csv", "--target", "y", "--hidden", "8,x"], "expected a whole number from 1 up, got 'x'"),
        (["demo", "--seed", "-1"], "expected a whole number from 0 up"),
    ],
)
def test_wrong_command_lines(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize("name", [None, "demo", "train", "predict", "summary", "check", "convert", "warm", "info"])
def test_help_shows_examples(name, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*([name] if name else []), "--help")
    text = capsys.readouterr().out
    assert ended.value.code == 0 and f"examples:\n  pullback {name or 'demo'}" in text
    assert ("exit codes:" in text) == (name is None)


def test_debug_shows_the_traceback_and_bugs_say_so(capsys, monkeypatch):
    with pytest.raises(pb.FileAccessError):
        run("summary", "none.safetensors", "--debug")

    def broken(options):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("pullback.cli.summary.run", broken)
    captured = fails(capsys, 70, "ZeroDivisionError: division by zero", "summary", "none.safetensors")
    assert "a bug in pullback: run again with --debug" in captured.err

    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("pullback.cli.summary.run", interrupted)
    fails(capsys, 130, "interrupted", "summary", "none.safetensors")


def test_as_a_program():
    nn.Network([nn.Input(3), nn.Connected(1)]).save("net.safetensors")
    call = [sys.executable, "-m", "pullback", "summary", "net.safetensors"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert "1 layer, float32" in done.stdout and done.stderr == ""
    version = subprocess.run([sys.executable, "-m", "pullback", "--version"], capture_output=True, text=True)
    assert version.stdout.strip() == f"pullback {pb.__version__}"
