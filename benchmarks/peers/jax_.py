"""JAX on the CPU: the whole step under jax.jit, parameters and optimizer state donated."""

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import workloads as w

VERSION = jax.__version__
Step = Callable[[], float]
map_leaves = jax.tree_util.tree_map


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def adam(parameters: Any, state: Any, gradients: Any) -> tuple[Any, Any]:
    a = w.ADAM
    mean, square, t = state
    t = t + 1
    mean = map_leaves(lambda m, g: a.beta1 * m + (1 - a.beta1) * g, mean, gradients)
    square = map_leaves(lambda v, g: a.beta2 * v + (1 - a.beta2) * g * g, square, gradients)
    unbias1, unbias2 = 1 - a.beta1**t, 1 - a.beta2**t

    def updated(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return p - a.learning_rate * (m / unbias1) / (jnp.sqrt(v / unbias2) + a.epsilon)

    return map_leaves(updated, parameters, mean, square), (mean, square, t)


def sgd(parameters: Any, velocity: Any, gradients: Any) -> tuple[Any, Any]:
    velocity = map_leaves(lambda m, g: w.SGD.momentum * m + g, velocity, gradients)
    return map_leaves(lambda p, m: p - w.SGD.learning_rate * m, parameters, velocity), velocity


def trainer(loss: Callable, parameters: Any, kind: w.Adam | w.Sgd, data: tuple, statistics: Any = None) -> Step:
    """`loss(parameters, x, y, statistics)` gives the cost and the new running statistics."""
    x, y = data
    y = y.astype(np.int32) if y.dtype == np.int64 else y
    is_adam = isinstance(kind, w.Adam)
    update = adam if is_adam else sgd

    def training_step(parameters: Any, state: Any, statistics: Any, x: jax.Array, y: jax.Array) -> tuple:
        with_gradient = jax.value_and_grad(loss, has_aux=True)
        (cost, statistics), gradients = with_gradient(parameters, x, y, statistics)
        return *update(parameters, state, gradients), statistics, cost

    compiled = jax.jit(training_step, donate_argnums=(0, 1, 2))
    parameters = map_leaves(jnp.array, parameters)

    def zeros() -> Any:
        return map_leaves(jnp.zeros_like, parameters)

    held = [parameters, (zeros(), zeros(), jnp.float32(0)) if is_adam else zeros(), map_leaves(jnp.array, statistics)]

    def step() -> float:
        *held[:], cost = compiled(*held, x, y)
        return float(cost)

    return step


def dense_forward(parameters: list, x: jax.Array) -> jax.Array:
    for weights, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = parameters[-1]
    return x @ weights + bias


def mlp(spec: w.Mlp, variant: str) -> Step:
    def loss(p: list, x: jax.Array, y: jax.Array, _: None) -> tuple[jax.Array, None]:
        return cross_entropy(dense_forward(p, x), y), None

    return trainer(loss, spec.parameters(), w.ADAM, spec.data())


def lstm(state: tuple, projected: jax.Array, weights: jax.Array) -> tuple:
    h, c = state
    i, f, g, o = jnp.split(projected + h @ weights, 4, 1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru(h: jax.Array, projected: jax.Array, weights: jax.Array, bias: jax.Array) -> jax.Array:
    xr, xz, xn = jnp.split(projected, 3, 1)
    hr, hz, hn = jnp.split(h @ weights + bias, 3, 1)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    return (1 - z) * jnp.tanh(xn + r * hn) + z * h


def last_output(spec: w.Recurrent, p: dict, x: jax.Array) -> jax.Array:
    start = jnp.zeros((spec.batch, spec.hidden))
    projected = x @ p["input_weights"] + p["bias"]
    if spec.cell == "lstm":
        return lax.scan(lambda s, v: (lstm(s, v, p["recurrent_weights"]), None), (start, start), projected)[0][0]
    return lax.scan(lambda h, v: (gru(h, v, p["recurrent_weights"], p["recurrent_bias"]), None), start, projected)[0]


def recurrent(spec: w.Recurrent, variant: str) -> Step:
    def loss(p: dict, x: jax.Array, y: jax.Array, _: None) -> tuple[jax.Array, None]:
        return cross_entropy(last_output(spec, p, x) @ p["output_weights"] + p["output_bias"], y), None

    return trainer(loss, spec.parameters(), w.ADAM, spec.data())


scan_recurrent = recurrent


def run_recurrent(spec: w.Recurrent, variant: str) -> Step:
    parameters = map_leaves(jnp.array, spec.parameters())
    x, _ = spec.data()
    forward = jax.jit(lambda p, x: last_output(spec, p, x))
    return lambda: float(jax.block_until_ready(forward(parameters, x)).sum())


def characters(spec: w.Characters, variant: str) -> Step:
    start = jnp.zeros((spec.batch, spec.hidden))

    def loss(p: dict, x: jax.Array, y: jax.Array, _: None) -> tuple[jax.Array, None]:
        rows = p["embedding"][x]
        for i in range(spec.layers):

            def step(state: tuple, projected: jax.Array, weights: jax.Array = p[f"recurrent{i}"]) -> tuple:
                state = lstm(state, projected, weights)
                return state, state[0]

            rows = lax.scan(step, (start, start), rows @ p[f"weights{i}"] + p[f"bias{i}"])[1]
        logits = (rows @ p["output_weights"] + p["output_bias"]).reshape(-1, spec.vocabulary)
        return spec.time * cross_entropy(logits, y.reshape(-1)), None

    time_first = tuple(np.ascontiguousarray(a.T.astype(np.int32)) for a in spec.data())
    return trainer(loss, spec.parameters(), w.ADAM, time_first)


def split_parameters(spec: w.ConvNet) -> tuple[list[dict], list[dict]]:
    """What is learnt, and the running statistics."""
    running = ("mean", "variance")
    layers = spec.parameters_nhwc()
    learnt = [{name: a for name, a in layer.items() if name not in running} for layer in layers]
    return learnt, [{name: a for name, a in layer.items() if name in running} for layer in layers]


def batch_norm(x: jax.Array, p: dict, running: dict, train: bool) -> tuple[jax.Array, dict]:
    if train:
        keep = w.BATCH_NORM_MOMENTUM
        now = {"mean": jnp.mean(x, (0, 1, 2)), "variance": jnp.var(x, (0, 1, 2))}
        used, running = now, {name: keep * running[name] + (1 - keep) * now[name] for name in now}
    else:
        used = running
    scale = p["gamma"] * lax.rsqrt(used["variance"] + w.BATCH_NORM_EPSILON)
    return (x - used["mean"]) * scale + p["beta"], running


def conv_forward(spec: w.ConvNet, parameters: list, statistics: list, x: jax.Array, train: bool) -> tuple:
    """The heads' outputs, or the last layer's, with the new running statistics."""
    outputs, heads, renewed = [], [], []
    for i, (layer, p, running) in enumerate(zip(spec.layers, parameters, statistics)):
        match layer:
            case w.Conv():
                padding = [(layer.pad, layer.pad)] * 2
                kinds = ("NHWC", "HWIO", "NHWC")
                x = lax.conv_general_dilated(x, p["weights"], (1, 1), padding, dimension_numbers=kinds)
                if layer.batch_norm:
                    x, running = batch_norm(x, p, running, train)
                else:
                    x = x + p["bias"]
            case w.MaxPool(size=k, stride=s):
                edge = (0, 1) if s == 1 else (0, 0)
                x = lax.reduce_window(x, -jnp.inf, lax.max, (1, k, k, 1), (1, s, s, 1), ((0, 0), edge, edge, (0, 0)))
            case w.Dense():
                x = x.reshape(x.shape[0], -1) @ p["weights"] + p["bias"]
            case w.AveragePool():
                x = jnp.mean(x, (1, 2))
            case w.Upsample():
                x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
            case w.Route():
                x = jnp.concatenate([outputs[j] for j in spec.sources(i)], -1)
            case w.Yolo():
                heads.append(jax.nn.sigmoid(x))
        match getattr(layer, "activation", "linear"):
            case "leaky":
                x = jnp.where(x > 0, x, w.LEAKY_SLOPE * x)
            case "relu":
                x = jax.nn.relu(x)
        outputs.append(x)
        renewed.append(running)
    return heads or x, renewed


def train_convnet(spec: w.ConvNet, variant: str) -> Step:
    learnt, statistics = split_parameters(spec)

    def loss(p: list, x: jax.Array, y: jax.Array, statistics: list) -> tuple[jax.Array, list]:
        logits, statistics = conv_forward(spec, p, statistics, x, train=True)
        return cross_entropy(logits, y), statistics

    return trainer(loss, learnt, w.SGD, spec.data("NHWC"), statistics)


def run_convnet(spec: w.ConvNet, variant: str) -> Step:
    learnt, statistics = map_leaves(jnp.array, split_parameters(spec))
    x, _ = spec.data("NHWC")
    forward = jax.jit(lambda p, s, x: conv_forward(spec, p, s, x, train=False)[0])

    def step() -> float:
        return float(jax.block_until_ready(forward(learnt, statistics, x))[0].mean())

    return step


def transformer(spec: w.Transformer, variant: str) -> Step:
    depth = spec.features // spec.heads

    def normalized(x: jax.Array, gain: jax.Array, bias: jax.Array) -> jax.Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + spec.epsilon) * gain + bias

    def loss(p: dict, x: jax.Array, y: jax.Array, _: None) -> tuple[jax.Array, None]:
        def dense(x: jax.Array, name: str) -> jax.Array:
            return x @ p[name] + p[f"{name}_bias"]

        qkv = dense(normalized(x, p["norm1_gain"], p["norm1_bias"]), "qkv")
        q, k, v = jnp.moveaxis(qkv.reshape(spec.batch, spec.time, 3, spec.heads, depth), 2, 0)
        weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / depth**0.5, -1)
        attended = jnp.einsum("bhts,bshd->bthd", weights, v).reshape(spec.batch, spec.time, spec.features)
        x = x + dense(attended, "projection")
        expanded = dense(normalized(x, p["norm2_gain"], p["norm2_bias"]), "expand")
        x = x + dense(jax.nn.gelu(expanded, approximate=False), "contract")
        return jnp.mean((x - y) ** 2), None

    return trainer(loss, spec.parameters(), w.ADAM, spec.data())


def hessian_vector_product(spec: w.Mlp, variant: str) -> Step:
    x, y = spec.data()
    y = y.astype(np.int32)
    parameters, vector = map_leaves(jnp.array, (spec.parameters(), spec.direction()))

    @jax.jit
    def product(parameters: list, vector: list, x: jax.Array, y: jax.Array) -> tuple[list, jax.Array]:
        gradient = jax.grad(lambda p: cross_entropy(dense_forward(p, x), y))
        result = jax.jvp(gradient, (parameters,), (vector,))[1]
        products = map_leaves(lambda h, v: jnp.sum(h * v), result, vector)
        return result, sum(jax.tree_util.tree_leaves(products))

    def step() -> float:
        return float(jax.block_until_ready(product(parameters, vector, x, y))[1])

    return step
