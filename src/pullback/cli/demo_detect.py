"""`pullback demo detect`: a real detector finds the face in a real photo."""

import json
import time
from argparse import Namespace
from importlib.resources import as_file, files
from typing import Any

from ..darknet.detector import Detector, as_json
from ..darknet.images import annotated, write_image
from ..errors import MissingPackageError
from ..nn import Network
from ..nn.checkpoint import write_file
from .demo import make_folder

THRESHOLD = 0.5


def tiny_face() -> Network:
    """The face detector that comes with this package (MIT licence, see NOTICE.md beside it)."""
    with as_file(files("pullback.darknet") / "models") as folder:
        return Network.from_darknet(folder / "tiny-face.cfg", folder / "tiny-face.weights", name="tiny-face")


def photo_of(name: str) -> Any:
    """A photo of scikit-image's."""
    try:
        from skimage import data
    except ImportError:
        raise MissingPackageError("the photos need scikit-image: pip install 'pullback[data]'") from None
    return getattr(data, name)()


def run(options: Namespace) -> None:
    """Detect, draw, and write photo and JSON."""
    folder = make_folder(options.output)
    begin = time.perf_counter()
    photo = photo_of("astronaut")
    found = Detector(tiny_face(), THRESHOLD)(photo)
    write_image(annotated(photo, found, ("face",)), folder / "astronaut-faces.png")
    described = as_json(found, ("face",), *photo.shape[:2])
    write_file(folder / "astronaut-faces.json", (json.dumps(described, indent=1) + "\n").encode())
    for one in described:
        place = ", ".join(f"{key} {value:.0f}" for key, value in one["pixels"].items())
        print(f"a face, score {one['score']:.3f}, at {place} of {photo.shape[1]} x {photo.shape[0]} pixels")
    print(f"Wrote {folder / 'astronaut-faces.png'} and .json after {time.perf_counter() - begin:.2f} s.")
