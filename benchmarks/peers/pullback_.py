"""pullback, by what a user types: `nn.Network` where there are layers for it, `pb.function` for the rest."""

from collections.abc import Callable, Mapping

import numpy as np

import pullback as pb
from benchmarks import workloads as w
from pullback import nn

VERSION = pb.__version__
ADAM = nn.Adam(w.ADAM.learning_rate, beta1=w.ADAM.beta1, beta2=w.ADAM.beta2, epsilon=w.ADAM.epsilon)
SGD = nn.SGD(w.SGD.learning_rate, momentum=w.SGD.momentum)
NAMES = {
    "weights": "weight",
    "bias": "bias",
    "gamma": "scale",
    "beta": "bias",
    "mean": "running_mean",
    "variance": "running_variance",
}
Step = Callable[[], float]


def network(input_shape: tuple[int, ...], layers: list[tuple[nn.Layer, Mapping[str, np.ndarray]]]) -> nn.Network:
    """The layers with the workload's weights in them."""
    net = nn.Network([nn.Input(input_shape), *(layer for layer, _ in layers)])
    for node, (_, values) in zip(net.nodes[1:], layers):
        for name, value in values.items():
            node.parameters[NAMES[name]].set_value(value)
    return net


def trainer(net: nn.Network, optimizer: nn.Optimizer, data: tuple[np.ndarray, np.ndarray]) -> Step:
    net.compile(optimizer=optimizer, loss="cross_entropy")
    return lambda: net.train_on_batch(*data)


def mlp(spec: w.Mlp, variant: str) -> Step:
    parameters = spec.parameters()
    last = len(parameters) - 1
    layers = [
        (nn.Connected(bias.size, activation="linear" if i == last else "relu"), {"weights": weights, "bias": bias})
        for i, (weights, bias) in enumerate(parameters)
    ]
    return trainer(network(spec.sizes[:1], [*layers, (nn.Softmax(), {})]), ADAM, spec.data())


def layer_of(layer: w.Layer) -> nn.Layer:
    match layer:
        case w.Conv():
            return nn.Convolutional(
                layer.filters,
                layer.size,
                padding=layer.pad,
                batch_normalize=layer.batch_norm,
                activation=layer.activation,
            )
        case w.MaxPool(size=size, stride=stride):
            return nn.MaxPool(size, stride)
        case w.Dense(outputs=outputs, activation=activation):
            return nn.Connected(outputs, activation=activation)
        case w.AveragePool():
            return nn.AvgPool()
    raise w.UnsupportedWorkload(f"no layer for {type(layer).__name__} yet")


def train_convnet(spec: w.ConvNet, variant: str) -> Step:
    channels, height, width = spec.image
    layers = [(layer_of(layer), values) for layer, values in zip(spec.layers, spec.parameters_nhwc())]
    net = network((height, width, channels), [*layers, (nn.Softmax(), {})])
    return trainer(net, SGD, spec.data("NHWC"))


def recurrent(spec: w.Recurrent, variant: str) -> Step:
    values = spec.parameters()
    if spec.cell == "gru":  # the workload's blocks are r, z, n, ours z, r, n
        for name in ("input_weights", "recurrent_weights", "bias", "recurrent_bias"):
            r, z, n = np.split(values[name], 3, -1)
            values[name] = np.concatenate([z, r, n], -1)
    p = {name: pb.shared(value, name=name) for name, value in values.items()}
    x, y = pb.ftensor3("x"), pb.lvector("y")
    network, biases = (pb.lstm, ["bias"]) if spec.cell == "lstm" else (pb.gru, ["bias", "recurrent_bias"])
    outputs, *_ = network(x, p["input_weights"], p["recurrent_weights"], *(p[b] for b in biases))
    cost = pb.softmax_cross_entropy(outputs[-1] @ p["output_weights"] + p["output_bias"], y).mean()
    train = pb.function([x, y], cost, updates=ADAM.updates(cost, list(p.values())))
    data = spec.data()
    return lambda: float(train(*data))


def transformer(spec: w.Transformer, variant: str) -> Step:
    x, y = pb.ftensor3("x"), pb.ftensor3("y")
    p = {name: pb.shared(value, name=name) for name, value in spec.parameters().items()}
    batch, time, features = spec.batch, spec.time, spec.features
    depth = features // spec.heads

    def dense(x: pb.Variable, name: str) -> pb.Variable:
        return x @ p[name] + p[f"{name}_bias"]

    def normalized(x: pb.Variable, name: str) -> pb.Variable:
        return pb.layer_norm(x, p[f"{name}_gain"], p[f"{name}_bias"], eps=spec.epsilon)

    heads = dense(normalized(x, "norm1"), "qkv").reshape((batch, time, 3, spec.heads, depth)).transpose((2, 0, 3, 1, 4))
    attended = pb.scaled_dot_product_attention(heads[0], heads[1], heads[2])
    attended = attended.transpose((0, 2, 1, 3)).reshape((batch, time, features))
    z = x + dense(attended, "projection")
    z = z + dense(pb.gelu(dense(normalized(z, "norm2"), "expand")), "contract")
    cost = pb.square(z - y).mean()
    train = pb.function([x, y], cost, updates=ADAM.updates(cost, list(p.values())))
    data = spec.data()
    return lambda: float(train(*data))


def hessian_vector_product(spec: w.Mlp, variant: str) -> Step:
    x, y = pb.fmatrix("x"), pb.lvector("y")
    parameters = [pb.shared(array) for pair in spec.parameters() for array in pair]
    vector = [pb.shared(array) for pair in spec.direction() for array in pair]
    hidden = x
    for weights, bias in zip(parameters[:-2:2], parameters[1:-2:2]):
        hidden = pb.relu(hidden @ weights + bias)
    cost = pb.softmax_cross_entropy(hidden @ parameters[-2] + parameters[-1], y).mean()
    along = sum(pb.sum(g * v) for g, v in zip(pb.grad(cost, parameters), vector))
    products = pb.grad(along, parameters)
    check = sum(pb.sum(h * v) for h, v in zip(products, vector))
    run = pb.function([x, y], [check, *products])
    data = spec.data()
    return lambda: float(run(*data)[0])
