"""What kernels are called with: argument blocks."""

import struct
from typing import Any

import numpy as np

from ..errors import KernelError
from .kernel import Kernel, KernelInstance, Parameter, as_instance
from .launcher import run
from .types import Pointer, bool_, f32
from .units import link


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element."""
    return array.__array_interface__["data"][0]


class ArgumentBlock:
    """The arguments of one kernel call, packed as the entry function reads them: one int64 slot each.

    Args:
        kernel: an entry kernel or instance.
        values: one for each parameter but lo, hi and tid. Pointers take an array (which is kept alive) or an address,
            floats and integers a Python or NumPy number.
    Raises:
        KernelError: the wrong number of values, or a value that doesn't fit its parameter.
    """

    def __init__(self, kernel: Kernel | KernelInstance, *values: Any) -> None:
        self.instance = as_instance(kernel)
        parameters = self.instance.arguments
        if len(values) != len(parameters):
            names = ", ".join(p.name for p in parameters)
            raise KernelError(
                f"kernel {self.instance.name} takes {len(parameters)} arguments ({names}), {len(values)} were given"
            )
        self.array = np.zeros(max(len(parameters), 1), np.int64)
        self.address = address_of(self.array)
        self._slots = {p.name: i for i, p in enumerate(parameters)}
        self._kept: dict[str, Any] = {}
        for parameter, value in zip(parameters, values):
            self.set(parameter.name, value)

    def slot(self, name: str) -> int:
        """Where the parameter stands in `array`."""
        if name not in self._slots:
            raise KernelError(f"kernel {self.instance.name} has no argument {name!r}; it has {', '.join(self._slots)}")
        return self._slots[name]

    def set(self, name: str, value: Any) -> None:
        """Change one argument."""
        slot = self.slot(name)
        self.array[slot] = _packed(self.instance, self.instance.arguments[slot], value)
        self._kept[name] = value if isinstance(value, np.ndarray) else None


def _packed(instance: KernelInstance, parameter: Parameter, value: Any) -> int:
    kind = parameter.type

    def wrong(why: str) -> KernelError:
        return KernelError(f"kernel {instance.name}, argument {parameter.name}: {kind}: {why}")

    if isinstance(kind, Pointer):
        if isinstance(value, np.ndarray):
            if value.dtype != kind.element.dtype:
                raise wrong(f"the array has dtype {value.dtype}")
            return address_of(value)
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return int(value)
        raise wrong(f"expected an array or an address, not {type(value).__name__}")
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if kind.is_float:
        if not isinstance(value, int | float | np.integer | np.floating):
            raise wrong(f"expected a number, not {type(value).__name__}")
        if kind is f32:
            return int(np.float32(value).view(np.int32))
        return struct.unpack("<q", struct.pack("<d", float(value)))[0]
    if kind is bool_:
        if not isinstance(value, bool | np.bool_):
            raise wrong(f"expected a bool, not {type(value).__name__}")
        return int(value)
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise wrong(f"expected an integer, not {type(value).__name__}")
    low, high = kind.range
    if not low <= int(value) <= high:
        raise wrong(f"{value} is outside {low} to {high}")
    return int(value) if int(value) < 1 << 63 else int(value) - (1 << 64)


def call(kernel: Kernel | KernelInstance, *values: Any, n: int, chunks: int = 1) -> None:
    """Link a kernel and run it once over [0, n): for tests and experiments. A plan does this without the overhead."""
    block = ArgumentBlock(kernel, *values)
    address = link([kernel])[kernel]
    run(np.array([[address, block.address, n, chunks, 0]], np.int64))
