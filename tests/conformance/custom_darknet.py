"""Tests of the cases about Darknet's files that no expression can state."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import pullback as pb
from pullback.nn import Network

from .custom import require

ONE_FLOAT = "[net]\ninputs=1\n[implicit]\nfilters=1\natoms=1\n"


def test_weights_header_seen_width(case: dict[str, Any], backend: str) -> None:
    """The header is 20 bytes from version 0.2 on and 16 before; files that are too short or long change nothing."""
    del backend  # nothing is computed
    content = bytes.fromhex(case["inputs"]["bytes"]["data"].replace(" ", ""))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.weights"

        def header(blob: bytes) -> pb.darknet.Header:
            path.write_bytes(blob)
            found = pb.darknet.read_header(path)
            rest = np.frombuffer(blob[found.length :], "<f4")
            require(rest.tolist() == [1.0], f"after {found.length} bytes of header there is {rest}, expected one 1.0")
            return found

        found = header(content)
        require((found.major, found.minor, found.revision) == (0, 2, 0), f"the version is {found}")
        require((found.seen, found.length) == (0, 20), f"the header is {found}")
        require(header(bytes.fromhex("00000000010000000000000000000000 0000803f")).length == 16, "version 0.1 isn't 16")
        require(header(bytes.fromhex("01000000") + bytes(16) + content[20:]).length == 20, "version 1.0 isn't 20")

        path.write_bytes(content)
        net = Network.from_darknet(pb.darknet.parse_cfg(ONE_FLOAT), path)
        before = net.get_values()
        require([float(v.item()) for v in before.values()] == [1.0], f"the network holds {before}")
        for wrong in (content[:-4], content + bytes(4)):
            path.write_bytes(wrong)
            try:
                pb.darknet.load_weights(net, path)
            except ValueError as error:
                require("24" in str(error) and str(len(wrong)) in str(error), f"no lengths in {error}")
            else:
                require(False, f"{len(wrong)} bytes were taken for a network that needs 24")
            require(net.get_values() == before, "a refused file changed the network")
