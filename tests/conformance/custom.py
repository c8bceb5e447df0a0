"""Tests of the cases that no expression can state: `test_<case id>(case, backend)`."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import pullback as pb
from pullback import darknet, nn

from .cases import array_of
from .outcome import Mismatch


def require(condition: Any, message: str) -> None:
    if not condition:
        raise Mismatch(message)


def test_dropout_mask_shared(case: dict[str, Any], backend: str) -> None:
    """Value and gradient share the mask, which is new at every call, and the same again from the same seed."""
    ones = array_of(case["inputs"]["x"])

    def build() -> pb.compile.Function:
        x = pb.tensor("float64", ones.shape, "x")
        y = pb.dropout(x, 0.5, pb.RandomStream(seed=1))
        return pb.function([x], [y, pb.grad(pb.sum(y), x)], backend=backend)

    def call(f: pb.compile.Function) -> tuple[np.ndarray, np.ndarray]:
        y, g = f(ones)
        require(np.isin(y, (0.0, 2.0)).all(), "an entry of y is neither 0 nor 2")
        require(np.array_equal(y, g), "the gradient isn't the mask of the forward pass")
        return y, g

    f = build()
    first, second = call(f), call(f)
    zeros = int((first[0] == 0).sum())
    require(400 <= zeros <= 600, f"{zeros} of 1000 entries were dropped, expected 400 to 600")
    require(not np.array_equal(first[0], second[0]), "the second call drew the same mask")
    again = build()
    require(np.array_equal(call(again)[0], first[0]), "the same seed drew another first mask")
    require(np.array_equal(call(again)[0], second[0]), "the same seed drew another second mask")


def test_resume_bit_exact(case: dict[str, Any], backend: str) -> None:
    """Training that is stopped and resumed in another process gives the bits of training without a break."""
    root = Path(__file__).parent.parent.parent
    with tempfile.TemporaryDirectory() as folder:
        whole, half, rest = (Path(folder) / f"{name}.safetensors" for name in ("whole", "half", "rest"))
        for steps, source, target in ((6, "-", whole), (3, "-", half), (6, half, rest)):
            command = [sys.executable, "-m", "tests.conformance.resume", str(steps), backend, str(source), str(target)]
            done = subprocess.run(command, cwd=root, capture_output=True, text=True)
            require(done.returncode == 0, f"the process that trains up to step {steps} failed: {done.stderr[-500:]}")
        seen, resumed = (json.loads(path.with_suffix(".json").read_text()) for path in (whole, rest))
        same = len(seen) == 6 and resumed == seen[3:]
        require(same, f"rows or losses of steps 4 to 6 differ: {resumed} and {seen[3:]}")
        require(whole.read_bytes() == rest.read_bytes(), "the final states differ")
        check_every_part_is_needed(half)


def check_every_part_is_needed(checkpoint: Path) -> None:
    """A checkpoint without any one of its parts is refused by the name of the part."""
    from safetensors.numpy import load_file, save_file

    header = checkpoint.read_bytes()
    length = int.from_bytes(header[:8], "little")
    description = json.loads(json.loads(header[8 : 8 + length])["__metadata__"]["pullback"])
    arrays = load_file(checkpoint)
    damaged = checkpoint.with_name("damaged.safetensors")
    slots = [name for name in arrays if name.startswith("optimizer/")]
    for name in [*slots, "draws", "cursor"]:
        kept = {k: v for k, v in arrays.items() if k != name}
        told = {k: v for k, v in description.items() if k != name}
        save_file(kept, damaged, metadata={"pullback": json.dumps(told)})
        word = name.removeprefix("optimizer/")
        try:
            nn.Network.load(damaged)
        except pb.PullbackError as error:
            require(word in str(error), f"without {word} loading says: {error}")
        else:
            raise Mismatch(f"a checkpoint without {word} was loaded")


ONE_NUMBER = """
[net]
height=1
width=1
channels=1
[implicit]
filters=1
std=0
"""


def test_weights_header_seen_width(case: dict[str, Any], backend: str) -> None:
    """The header counts images in 8 bytes from version 0.2 on, in 4 before; the numbers behind it stay in place."""
    content = array_of(case["inputs"]["bytes"]).tobytes()
    older = bytes.fromhex("00000000 01000000 00000000 00000000 0000803f")
    major = bytes.fromhex("01000000 00000000 00000000 0000000000000000 0000803f")
    network = darknet.from_darknet(darknet.parse_cfg(ONE_NUMBER))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.weights"

        def load(written: bytes) -> np.ndarray:
            path.write_bytes(written)
            darknet.load_weights(network, path)
            (value,) = network.get_values().values()
            return value.ravel()

        for written, version, length in ((content, (0, 2, 0), 20), (older, (0, 1, 0), 16), (major, (1, 0, 0), 20)):
            network.set_values({name: v * 0 for name, v in network.get_values().items()})
            require(load(written).tolist() == [1.0], f"version {version}: the number read isn't 1")
            header = darknet.read_header(path)
            found = (header.major, header.minor, header.revision)
            require(found == version and header.seen == 0, f"version {version}, seen 0 are read as {header}")
            require(header.length == length, f"version {version}: a header of {header.length} bytes, expected {length}")
        for wrong in (content[:-4], content + content[-4:]):
            before = network.get_values()
            try:
                load(wrong)
            except ValueError as error:
                told = str(len(content)) in str(error) and str(len(wrong)) in str(error)
                require(told, f"the lengths {len(content)} and {len(wrong)} aren't both in: {error}")
            else:
                raise Mismatch(f"{len(wrong)} bytes were loaded, {len(content)} are expected")
            same = all(np.array_equal(v, before[name]) for name, v in network.get_values().items())
            require(same, "a refused file changed the network")
