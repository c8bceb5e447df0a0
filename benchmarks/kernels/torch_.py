"""The operations in PyTorch: each function gives, by the layout or the form, what computes output and gradients."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F

Run = Callable[[], list[torch.Tensor]]
CHANNELS_LAST = {"channels_last": torch.channels_last, "channels_first": torch.contiguous_format}


def differentiated(operation: Callable[..., torch.Tensor], tensors: Sequence[torch.Tensor]) -> Run:
    """The output and the gradients with respect to all tensors but the last, which is the upstream gradient."""
    *given, upstream = tensors
    given = [t.detach().requires_grad_() for t in given]

    def run() -> list[torch.Tensor]:
        y = operation(*given)
        return [y.detach(), *torch.autograd.grad(y, given, upstream)]

    return run


def plain(operation: Callable[..., torch.Tensor], arrays: Sequence[np.ndarray]) -> Run:
    return differentiated(operation, [torch.from_numpy(a) for a in arrays])


def images(array: np.ndarray, form: torch.memory_format) -> torch.Tensor:
    """Of (batch, height, width, channels)."""
    return torch.from_numpy(array).permute(0, 3, 1, 2).contiguous(memory_format=form)


def as_given(run: Run, filters_at: int | None = None) -> Run:
    """Results in the order of axes of the workload's arrays; only for the comparison, strides change nothing."""

    def permuted() -> list[torch.Tensor]:
        found = run()
        return [
            t if t.ndim != 4 else t.permute(2, 3, 1, 0) if i == filters_at else t.permute(0, 2, 3, 1)
            for i, t in enumerate(found)
        ]

    return permuted


def convolution(arrays: Sequence[np.ndarray], stride: int, padding: int, groups: int) -> dict[str, Run]:
    def operation(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, w, stride=stride, padding=padding, groups=groups)

    runs = {}
    for name, form in CHANNELS_LAST.items():
        filters = torch.from_numpy(arrays[1]).permute(3, 2, 0, 1).contiguous(memory_format=form)
        tensors = [images(arrays[0], form), filters, images(arrays[2], form)]
        runs[name] = as_given(differentiated(operation, tensors), filters_at=2)
    return runs


def gemm(arrays: Sequence[np.ndarray]) -> dict[str, Run]:
    return {"mm": plain(torch.mm, arrays)}


def attention(arrays: Sequence[np.ndarray]) -> dict[str, Run]:
    def by_products(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v

    return {"sdpa": plain(F.scaled_dot_product_attention, arrays), "products": plain(by_products, arrays)}


def batch_norm(arrays: Sequence[np.ndarray]) -> dict[str, Run]:
    def operation(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, gamma, beta, training=True)

    runs = {}
    for name, form in CHANNELS_LAST.items():
        middle = [torch.from_numpy(a) for a in arrays[1:3]]
        tensors = [images(arrays[0], form), *middle, images(arrays[3], form)]
        runs[name] = as_given(differentiated(operation, tensors))
    return runs


def layer_norm(arrays: Sequence[np.ndarray]) -> dict[str, Run]:
    return {"layer_norm": plain(lambda x, gamma, beta: F.layer_norm(x, gamma.shape, gamma, beta), arrays)}


def softmax_xent(arrays: Sequence[np.ndarray]) -> dict[str, Run]:
    x, y = (torch.from_numpy(a) for a in arrays)
    x.requires_grad_()

    def run() -> list[torch.Tensor]:
        cost = F.cross_entropy(x, y)
        return [cost.detach(), *torch.autograd.grad(cost, x)]

    return {"cross_entropy": run}


def gelu(arrays: Sequence[np.ndarray]) -> dict[str, Run]:
    return {"gelu": plain(F.gelu, arrays)}


def max_pool(arrays: Sequence[np.ndarray]) -> dict[str, Run]:
    def operation(x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(x, 2)

    return {
        name: as_given(differentiated(operation, [images(a, form) for a in arrays]))
        for name, form in CHANNELS_LAST.items()
    }


def chain(arrays: Sequence[np.ndarray]) -> dict[str, Run]:
    moving = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]

    def run() -> list[torch.Tensor]:
        x, y, z = moving
        cost = (x * torch.sigmoid(x) + torch.tanh(y) * z).mean()
        gradients = torch.autograd.grad(cost, moving)
        with torch.no_grad():
            for v, g in zip(moving, gradients):
                v.sub_(g, alpha=0.1)
        return [cost.detach()]

    return {"eager": run}


def strided(arrays: Sequence[np.ndarray]) -> dict[str, Run]:
    (x,) = (torch.from_numpy(a) for a in arrays)
    return {"contiguous": lambda: [x[::5].contiguous()]}
