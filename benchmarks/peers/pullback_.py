"""pullback, by what a user types: `nn.Network` where there are layers for it, `pb.function` for the rest."""

from collections.abc import Callable, Mapping, Sequence

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
RECURRENT_NAMES = {
    "input_weights": "weight",
    "recurrent_weights": "recurrent_weight",
    "bias": "bias",
    "recurrent_bias": "recurrent_bias",
}
Step = Callable[[], float]
Layers = list[tuple[nn.Layer, Mapping[str, np.ndarray]]]


def network(inputs: nn.Input, layers: Layers, outputs: Sequence[int] | None = None) -> nn.Network:
    """The layers with the workload's weights in them."""
    net = nn.Network([inputs, *(layer for layer, _ in layers)], outputs=outputs)
    for node, (_, values) in zip(net.nodes[1:], layers):
        for name, value in values.items():
            node.parameters[NAMES.get(name, name)].set_value(value)
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
    return trainer(network(nn.Input(spec.sizes[0]), [*layers, (nn.Softmax(), {})]), ADAM, spec.data())


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
            return nn.MaxPool(size, stride, padding=((0, 1), (0, 1)) if stride == 1 else 0)
        case w.Dense(outputs=outputs, activation=activation):
            return nn.Connected(outputs, activation=activation)
        case w.AveragePool():
            return nn.AvgPool()
        case w.Upsample():
            return nn.layers.Upsample()
        case w.Yolo():
            return nn.Activation("logistic")
        case w.Route(layers=layers):
            return nn.Route(tuple(j + 1 if j >= 0 else j for j in layers))  # the Input is number 0


def image_network(spec: w.ConvNet, *last: nn.Layer, outputs: Sequence[int] | None = None) -> nn.Network:
    channels, height, width = spec.image
    layers = [(layer_of(layer), values) for layer, values in zip(spec.layers, spec.parameters_nhwc())]
    return network(nn.Input((height, width, channels)), [*layers, *((layer, {}) for layer in last)], outputs)


def train_convnet(spec: w.ConvNet, variant: str) -> Step:
    return trainer(image_network(spec, nn.Softmax()), SGD, spec.data("NHWC"))


def run_convnet(spec: w.ConvNet, variant: str) -> Step:
    heads = [i + 1 for i, layer in enumerate(spec.layers) if isinstance(layer, w.Yolo)]
    net = image_network(spec, outputs=heads)
    x, _ = spec.data("NHWC")
    return lambda: float(net.predict(x)[0].mean())


def update_gate_first(array: np.ndarray) -> np.ndarray:
    """Column blocks z, r, n from the workload's r, z, n."""
    r, z, n = np.split(array, 3, -1)
    return np.concatenate([z, r, n], -1)


def cell(spec: w.Recurrent, return_sequences: bool = False) -> Layers:
    values = {ours: spec.parameters()[name] for name, ours in RECURRENT_NAMES.items() if name in spec.parameters()}
    if spec.cell == "lstm":
        return [(nn.LSTM(spec.hidden, return_sequences=return_sequences), values)]
    values = {name: update_gate_first(value) for name, value in values.items()}
    return [(nn.GRU(spec.hidden, return_sequences=return_sequences), values)]


def batch_first(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.swapaxes(0, 1))


def recurrent(spec: w.Recurrent, variant: str) -> Step:
    p, (x, y) = spec.parameters(), spec.data()
    dense = (nn.Connected(spec.classes), {"weights": p["output_weights"], "bias": p["output_bias"]})
    net = network(nn.Input((spec.time, spec.features)), [*cell(spec), dense, (nn.Softmax(), {})])
    return trainer(net, ADAM, (batch_first(x), y))


def run_recurrent(spec: w.Recurrent, variant: str) -> Step:
    net = network(nn.Input((spec.time, spec.features)), cell(spec, return_sequences=True))
    x = batch_first(spec.data()[0])
    return lambda: float(net.predict(x)[:, -1].sum())


def scan_recurrent(spec: w.Recurrent, variant: str) -> Step:
    """The LSTM in small operations."""
    x, y = pb.ftensor3("x"), pb.lvector("y")
    p = {name: pb.shared(value, name=name) for name, value in spec.parameters().items()}

    def step(projected: pb.Variable, h: pb.Variable, c: pb.Variable) -> list[pb.Variable]:
        gates = projected + h @ p["recurrent_weights"]
        i, f, g, o = (gates[:, k * spec.hidden : (k + 1) * spec.hidden] for k in range(4))
        c = pb.sigmoid(f) * c + pb.sigmoid(i) * pb.tanh(g)
        return [pb.sigmoid(o) * pb.tanh(c), c]

    start = pb.zeros((spec.batch, spec.hidden), dtype="float32")
    outputs, _ = pb.scan(step, sequences=x @ p["input_weights"] + p["bias"], outputs_info=[start, start])
    cost = pb.softmax_cross_entropy(outputs[-1] @ p["output_weights"] + p["output_bias"], y).mean()
    train = pb.function([x, y], cost, updates=ADAM.updates(cost, list(p.values())))
    data = spec.data()
    return lambda: float(train(*data))


def characters(spec: w.Characters, variant: str) -> Step:
    p = spec.parameters()
    layers: Layers = [(nn.Embedding(spec.vocabulary, spec.features), {"weights": p["embedding"]})]
    for i in range(spec.layers):
        values = {"weight": p[f"weights{i}"], "recurrent_weight": p[f"recurrent{i}"], "bias": p[f"bias{i}"]}
        layers.append((nn.LSTM(spec.hidden, return_sequences=True), values))
    dense = {"weights": p["output_weights"], "bias": p["output_bias"]}
    layers += [(nn.TimeDistributed(nn.Connected(spec.vocabulary)), dense), (nn.Softmax(), {})]
    return trainer(network(nn.Input((spec.time,), dtype="int64"), layers), ADAM, spec.data())


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
