"""PyTorch functions, `autograd.Function`s and modules: five right, five wrong."""

import torch

EXPECTED = {
    "Cube": None,
    "gelu": None,
    "Scale": None,
    "network": None,
    "attention": None,
    "CubeSign": "sign",
    "CubeUpstream": "upstream gradient",
    "ScaleLastRow": "missing broadcast sum",
    "TakeOverwrites": "overwritten accumulation",
    "CubeSecond": "factor",
}


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x**2


class CubeSign(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return -3 * g * x**2


class CubeUpstream(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2


class _Slope(torch.autograd.Function):
    """3 g x^2 with a wrong derivative of its own."""

    @staticmethod
    def forward(ctx, g, x):
        ctx.save_for_backward(g, x)
        return 3 * g * x**2

    @staticmethod
    def backward(ctx, w):
        g, x = ctx.saved_tensors
        return 3 * w * x**2, 3 * w * g * x


class CubeSecond(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return _Slope.apply(g, x)


def gelu(x):
    return torch.nn.functional.gelu(x)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * s, (g * x).sum(0)


Scale_inputs = (3, 4), (4,)


class ScaleLastRow(Scale):
    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * s, (g * x)[-1]


ScaleLastRow_inputs = Scale_inputs

network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.LayerNorm(3), torch.nn.Linear(3, 2))


def attention(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


attention_inputs = (2, 3, 4), (2, 5, 4), (2, 5, 3)


class TakeOverwrites(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rows):
        ctx.save_for_backward(x, rows)
        return x[rows]

    @staticmethod
    def backward(ctx, g):
        x, rows = ctx.saved_tensors
        out = torch.zeros_like(x)
        out[rows] = g
        return out, None


TakeOverwrites_inputs = (4, 3), torch.tensor([0, 2, 0, 3, 0])
