"""The libraries that take part, and which Python interpreter runs each."""

import importlib.util
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
VENVS = Path(os.environ.get("PULLBACK_BENCH_VENVS", HERE / "venvs"))


@dataclass(frozen=True)
class Peer:
    """A library, the settings that it is run in, and what pip installs for it."""

    name: str
    package: str
    variants: tuple[str, ...]
    requirements: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def module(self) -> str:
        return f"benchmarks.peers.{self.name}_"

    def interpreter(self) -> str | None:
        """The Python of its own virtual environment, else this one if the package is here, else None."""
        own = VENVS / self.name / "bin" / "python"
        if own.exists():
            return str(own)
        return sys.executable if importlib.util.find_spec(self.package) else None

    def install(self) -> None:
        """Into an environment of its own, unless these very requirements are there."""
        venv = VENVS / self.name
        python, stamp = venv / "bin" / "python", venv / "requirements.txt"
        wanted = "\n".join(self.requirements)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *self.requirements], check=True)
        stamp.write_text(wanted)


def own_requirements() -> tuple[str, ...]:
    """What pullback needs: single kernels are measured in PyTorch's environment, beside it."""
    return tuple(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])


_TORCH = ("torch==2.13.0", "--extra-index-url", "https://download.pytorch.org/whl/cpu")
PEERS = {
    peer.name: peer
    for peer in (
        Peer("pullback", "pullback", ("native",), (str(ROOT),)),
        Peer("torch", "torch", ("eager", "eager_fused", "compile"), (*_TORCH, *own_requirements())),
        Peer("jax", "jax", ("jit",), ("jax==0.10.2", "jaxlib==0.10.2")),
        Peer(
            "tensorflow",
            "tensorflow",
            ("function", "xla"),
            ("tensorflow-cpu==2.21.0",),
            {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        ),
        Peer("pytensor", "pytensor", ("numba", "c"), ("pytensor==3.0.7",)),
        Peer("onnxruntime", "onnxruntime", ("default",), ("onnxruntime", "onnx")),
        Peer("opencv", "cv2", ("darknet",), ("opencv-python-headless<5", "numpy")),
        Peer("numpy", "numpy", ("by_hand",), ("numpy",)),
        Peer("mygrad", "mygrad", ("eager",), ("mygrad==2.5.0",)),
        Peer("autograd", "autograd", ("eager",), ("autograd==1.9.1", "scipy")),
    )
}


@dataclass(frozen=True)
class Contender:
    """One setting of one library: `torch:eager`."""

    peer: Peer
    variant: str

    def __str__(self) -> str:
        return self.peer.name if len(self.peer.variants) == 1 else f"{self.peer.name}:{self.variant}"


def select(names: list[str]) -> list[Contender]:
    """`torch` means all its variants, `torch:eager` that one, `all` everything that is installed.

    Raises LookupError for an unknown name and for a library that isn't installed, saying how to install it."""
    chosen: list[Contender] = []
    for name in names:
        if name == "all":
            chosen += [Contender(peer, v) for peer in PEERS.values() if peer.interpreter() for v in peer.variants]
            continue
        library, _, variant = name.partition(":")
        peer = PEERS.get(library)
        if peer is None or variant and variant not in peer.variants:
            known = ", ".join(str(Contender(p, v)) for p in PEERS.values() for v in p.variants)
            raise LookupError(f"no contender is called '{name}'; there are: {known}, all")
        if peer.interpreter() is None:
            raise LookupError(f"{library} is not installed; run: python -m benchmarks --setup {library}")
        chosen += [Contender(peer, v) for v in peer.variants if variant in ("", v)]
    return list(dict.fromkeys(chosen))
