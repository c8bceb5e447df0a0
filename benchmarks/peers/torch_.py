"""PyTorch. eager: the default optimizer; eager_fused: `fused=True`; compile: torch.compile of the loss as well."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import workloads as w

torch.set_num_threads(w.THREADS)
VERSION = torch.__version__
Step = Callable[[], float]


def tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array)


def transposed(array: np.ndarray) -> torch.Tensor:
    return tensor(array.T.copy())


def optimizer(parameters: Iterable[nn.Parameter], kind: w.Adam | w.Sgd, variant: str) -> torch.optim.Optimizer:
    fused = None if variant == "eager" else True
    trained = [p for p in parameters if p.requires_grad]
    if isinstance(kind, w.Adam):
        betas = kind.beta1, kind.beta2
        return torch.optim.Adam(trained, lr=kind.learning_rate, betas=betas, eps=kind.epsilon, fused=fused)
    return torch.optim.SGD(trained, lr=kind.learning_rate, momentum=kind.momentum, fused=fused)


def trainer(
    model: nn.Module, loss_of: Callable, kind: w.Adam | w.Sgd, variant: str, data: tuple[np.ndarray, np.ndarray]
) -> Step:
    update = optimizer(model.parameters(), kind, variant)
    x, y = data

    def cost(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return loss_of(model(x), y)

    if variant == "compile":
        cost = torch.compile(cost)

    def step() -> float:
        update.zero_grad(set_to_none=True)
        loss = cost(tensor(x), tensor(y))
        loss.backward()
        update.step()
        return loss.item()

    return step


def linear(weights: np.ndarray, bias: np.ndarray) -> nn.Linear:
    layer = nn.Linear(*weights.shape)
    layer.weight.data, layer.bias.data = transposed(weights), tensor(bias)
    return layer


def dense_network(spec: w.Mlp) -> nn.Sequential:
    layers = [layer for weights, bias in spec.parameters() for layer in (linear(weights, bias), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def mlp(spec: w.Mlp, variant: str) -> Step:
    return trainer(dense_network(spec), F.cross_entropy, w.ADAM, variant, spec.data())


class RecurrentNetwork(nn.Module):
    def __init__(self, spec: w.Recurrent) -> None:
        super().__init__()
        p = spec.parameters()
        cell = nn.LSTM if spec.cell == "lstm" else nn.GRU
        self.cell = cell(spec.features, spec.hidden)
        self.cell.weight_ih_l0.data = transposed(p["input_weights"])
        self.cell.weight_hh_l0.data = transposed(p["recurrent_weights"])
        self.cell.bias_ih_l0.data = tensor(p["bias"])
        if spec.cell == "lstm":  # PyTorch has two biases whose sum counts; the workload has one
            self.cell.bias_hh_l0.data.zero_()
            self.cell.bias_hh_l0.requires_grad_(False)
        else:
            self.cell.bias_hh_l0.data = tensor(p["recurrent_bias"])
        self.output = linear(p["output_weights"], p["output_bias"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.cell(x)[0][-1])


def recurrent(spec: w.Recurrent, variant: str) -> Step:
    return trainer(RecurrentNetwork(spec), F.cross_entropy, w.ADAM, variant, spec.data())


def run_recurrent(spec: w.Recurrent, variant: str) -> Step:
    if variant == "eager_fused":
        raise w.UnsupportedWorkload("no optimizer here: the same as eager")
    cell = RecurrentNetwork(spec).cell
    x, _ = spec.data()
    if variant == "compile":
        cell = torch.compile(cell)

    def step() -> float:
        with torch.no_grad() if variant == "compile" else torch.inference_mode():
            return float(cell(tensor(x))[0][-1].sum())

    return step


class CharacterModel(nn.Module):
    def __init__(self, spec: w.Characters) -> None:
        super().__init__()
        p = spec.parameters()
        self.embedding = nn.Embedding.from_pretrained(tensor(p["embedding"]), freeze=False)
        self.cells = nn.LSTM(spec.features, spec.hidden, spec.layers)
        for i in range(spec.layers):
            getattr(self.cells, f"weight_ih_l{i}").data = transposed(p[f"weights{i}"])
            getattr(self.cells, f"weight_hh_l{i}").data = transposed(p[f"recurrent{i}"])
            getattr(self.cells, f"bias_ih_l{i}").data = tensor(p[f"bias{i}"])
            getattr(self.cells, f"bias_hh_l{i}").data.zero_()
            getattr(self.cells, f"bias_hh_l{i}").requires_grad_(False)
        self.output = linear(p["output_weights"], p["output_bias"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.cells(self.embedding(x))[0])


def characters(spec: w.Characters, variant: str) -> Step:
    def loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / spec.batch

    time_first = tuple(np.ascontiguousarray(a.T) for a in spec.data())
    return trainer(CharacterModel(spec), loss, w.ADAM, variant, time_first)


def modules_of(layer: w.Layer, values: dict[str, np.ndarray], shape: tuple[int, int, int]) -> list[nn.Module]:
    """What `layer` (not a Route) is in PyTorch, for inputs of (channels, height, width) `shape`."""
    modules: list[nn.Module] = []
    match layer:
        case w.Conv():
            conv = nn.Conv2d(shape[0], layer.filters, layer.size, padding=layer.pad, bias=not layer.batch_norm)
            conv.weight.data = tensor(values["weights"])
            modules.append(conv)
            if layer.batch_norm:
                momentum = 1 - w.BATCH_NORM_MOMENTUM
                modules.append(nn.BatchNorm2d(layer.filters, eps=w.BATCH_NORM_EPSILON, momentum=momentum))
            else:
                conv.bias.data = tensor(values["bias"])
        case w.MaxPool():
            if layer.stride == 1:
                modules.append(nn.ConstantPad2d((0, 1, 0, 1), float("-inf")))
            modules.append(nn.MaxPool2d(layer.size, layer.stride))
        case w.Dense():
            modules += [nn.Flatten(), linear(values["weights"], values["bias"])]
        case w.AveragePool():
            modules += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        case w.Upsample():
            modules.append(nn.Upsample(scale_factor=2))
        case w.Yolo():
            modules.append(nn.Sigmoid())
    activation = getattr(layer, "activation", "linear")
    if activation != "linear":
        modules.append(nn.ReLU() if activation == "relu" else nn.LeakyReLU(w.LEAKY_SLOPE))
    return modules


class Convolutional(nn.Module):
    def __init__(self, spec: w.ConvNet) -> None:
        super().__init__()
        self.spec = spec
        described = zip(spec.layers, spec.parameters(), spec.input_shapes())
        self.steps = nn.ModuleList(nn.Sequential(*modules_of(*layer)) for layer in described)
        self.routes = {i: spec.sources(i) for i, layer in enumerate(spec.layers) if isinstance(layer, w.Route)}
        self.kept = {j for joined in self.routes.values() for j in joined}

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        outputs: dict[int, torch.Tensor] = {}
        heads: list[torch.Tensor] = []
        for i, (layer, module) in enumerate(zip(self.spec.layers, self.steps)):
            x = torch.cat([outputs[j] for j in self.routes[i]], 1) if i in self.routes else module(x)
            if isinstance(layer, w.Yolo):
                heads.append(x)
            if i in self.kept:
                outputs[i] = x
        return tuple(heads) if heads else x


def train_convnet(spec: w.ConvNet, variant: str) -> Step:
    return trainer(Convolutional(spec).train(), F.cross_entropy, w.SGD, variant, spec.data())


def run_convnet(spec: w.ConvNet, variant: str) -> Step:
    if variant == "eager_fused":
        raise w.UnsupportedWorkload("no optimizer here: the same as eager")
    model = Convolutional(spec).eval()
    x, _ = spec.data()
    if variant == "compile":
        model = torch.compile(model)

    def step() -> float:
        with torch.no_grad() if variant == "compile" else torch.inference_mode():
            return float(model(tensor(x))[0].mean())

    return step


class TransformerBlock(nn.Module):
    def __init__(self, spec: w.Transformer) -> None:
        super().__init__()
        self.spec, p = spec, spec.parameters()
        names = ("qkv", "projection", "expand", "contract")
        self.qkv, self.projection, self.expand, self.contract = (linear(p[n], p[f"{n}_bias"]) for n in names)
        self.norm1 = nn.LayerNorm(spec.features, eps=spec.epsilon)
        self.norm2 = nn.LayerNorm(spec.features, eps=spec.epsilon)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = self.spec
        heads = self.qkv(self.norm1(x)).view(s.batch, s.time, 3, s.heads, s.features // s.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(s.batch, s.time, s.features)
        x = x + self.projection(attended)
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


def transformer(spec: w.Transformer, variant: str) -> Step:
    return trainer(TransformerBlock(spec), F.mse_loss, w.ADAM, variant, spec.data())


def hessian_vector_product(spec: w.Mlp, variant: str) -> Step:
    if variant == "eager_fused":
        raise w.UnsupportedWorkload("no optimizer here: the same as eager")
    model = dense_network(spec)
    x, y = spec.data()
    parameters = dict(model.named_parameters())
    arrays = [array for pair in spec.direction() for array in pair]
    vector = {name: transposed(a) if a.ndim == 2 else tensor(a) for name, a in zip(parameters, arrays)}

    def eager(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        loss = F.cross_entropy(model(x), y)
        gradients = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
        return torch.autograd.grad(gradients, list(parameters.values()), grad_outputs=list(vector.values()))

    def functional(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        def loss(p: dict[str, torch.Tensor]) -> torch.Tensor:
            return F.cross_entropy(torch.func.functional_call(model, p, (x,)), y)

        constants = {name: p.detach() for name, p in parameters.items()}
        return list(torch.func.jvp(torch.func.grad(loss), (constants,), (vector,))[1].values())

    product = torch.compile(functional) if variant == "compile" else eager

    def step() -> float:
        result = product(tensor(x), tensor(y))
        return float(sum((h * v).sum() for h, v in zip(result, vector.values())))

    return step
