"""`pullback predict`"""

import csv
import io
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np

from ..data import TableEncoder, TargetEncoder, read_table
from ..errors import ArgumentError
from ..nn import Network
from ..nn.checkpoint import write_file
from .sources import read_arrays


def run(options: Namespace) -> None:
    """Predict for raw rows or an array, and print or write the result."""
    if options.output and not options.output.endswith((".csv", ".npy")):
        raise ArgumentError(f"--output {options.output!r}: expected a .csv or .npy file")
    network = Network.load(options.model)
    if "table" in network.metadata and not options.rows.endswith(".npy"):
        names, columns = predict_rows(network, options.rows)
    elif options.rows.endswith(".npy"):
        values = network.predict(read_arrays(options.rows))
        if not isinstance(values, np.ndarray):
            raise ArgumentError(f"{options.model} has {len(values)} outputs; predict with it in Python")
        if options.output and options.output.endswith(".npy"):
            return _write(options.output, _npy(values))
        flat = values.reshape(len(values), -1)
        names, columns = [f"output {i}" for i in range(flat.shape[1])], list(flat.T)
    else:
        raise ArgumentError(f"{options.model} wasn't trained on a table: give an .npy file instead of {options.rows}")
    if options.output and options.output.endswith(".npy"):
        return _write(options.output, _npy(columns[0]))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*(map(_plain, column) for column in columns)))
    if options.output:
        return _write(options.output, text.getvalue().encode())
    sys.stdout.write(text.getvalue())


def predict_rows(network: Network, source) -> tuple[list[str], list[np.ndarray]]:
    """Names and columns of the prediction for raw rows: the target, and the probability of a class."""
    saved = network.metadata["table"]
    encoder, target = TableEncoder.from_json(saved["columns"]), TargetEncoder.from_json(saved["target"])
    output = network.predict(encoder.encode(read_table(source, encoder.kinds)))
    columns = [target.decode(output)]
    if target.task == "regression":
        return [target.name], columns
    return [target.name, "probability"], [*columns, output.max(axis=1)]


def _plain(value) -> str:
    return f"{value:.6g}" if isinstance(value, np.floating) else str(value)


def _npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _write(path: str, content: bytes) -> None:
    write_file(Path(path), content)
    print(f"Wrote {path}", file=sys.stderr)
