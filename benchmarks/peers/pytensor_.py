"""PyTensor. numba, or c: what pip gives, without a BLAS linked. It has no multi-channel convolution or pooling."""

import os
from collections.abc import Callable

flags = ["floatX=float32", "warn_float64=ignore"]
if "PYTENSOR_COMPILEDIR" in os.environ:
    flags.append(f"base_compiledir={os.environ['PYTENSOR_COMPILEDIR']}")
os.environ["PYTENSOR_FLAGS"] = ",".join(flags)

import numpy as np
import pytensor
import pytensor.tensor as pt

from benchmarks import workloads as w

VERSION = pytensor.__version__
MODES = {"numba": "NUMBA", "c": "CVM"}
Step = Callable[[], float]
Shared = pytensor.compile.SharedVariable
Variable = pt.TensorVariable


def shared(array: np.ndarray) -> Shared:
    return pytensor.shared(np.asarray(array, np.float32))


def zeros_like(parameter: Shared) -> Shared:
    return shared(np.zeros_like(parameter.get_value()))


def adam(parameters: list[Shared], gradients: list[Variable]) -> list[tuple[Shared, Variable]]:
    rate, beta1, beta2, epsilon = map(np.float32, (w.ADAM.learning_rate, w.ADAM.beta1, w.ADAM.beta2, w.ADAM.epsilon))
    one, t = np.float32(1), shared(0)
    updates = [(t, t + one)]
    unbias1, unbias2 = one - pt.power(beta1, t + one), one - pt.power(beta2, t + one)
    for p, g in zip(parameters, gradients):
        m, v = zeros_like(p), zeros_like(p)
        m1, v1 = beta1 * m + (one - beta1) * g, beta2 * v + (one - beta2) * g * g
        updates += [(m, m1), (v, v1), (p, p - rate * (m1 / unbias1) / (pt.sqrt(v1 / unbias2) + epsilon))]
    return updates


def cross_entropy(logits: Variable, labels: Variable) -> Variable:
    return -pt.special.log_softmax(logits, axis=-1)[pt.arange(labels.shape[0]), labels].mean()


def trainer(inputs: list[Variable], cost: Variable, parameters: list[Shared], variant: str, data: tuple) -> Step:
    updates = adam(parameters, pt.grad(cost, parameters))
    run = pytensor.function(inputs, cost, updates=updates, mode=MODES[variant], trust_input=True)
    return lambda: float(run(*data))


def dense_network(spec: w.Mlp, x: Variable) -> tuple[list[Shared], Variable]:
    pairs = [(shared(weights), shared(bias)) for weights, bias in spec.parameters()]
    for weights, bias in pairs[:-1]:
        x = pt.maximum(x @ weights + bias, np.float32(0))
    weights, bias = pairs[-1]
    return [p for pair in pairs for p in pair], x @ weights + bias


def mlp(spec: w.Mlp, variant: str) -> Step:
    x, y = pt.fmatrix(), pt.lvector()
    parameters, logits = dense_network(spec, x)
    return trainer([x, y], cross_entropy(logits, y), parameters, variant, spec.data())


def recurrent(spec: w.Recurrent, variant: str) -> Step:
    x, y = pt.ftensor3(), pt.lvector()
    p = {name: shared(value) for name, value in spec.parameters().items()}
    n, one = spec.hidden, np.float32(1)

    def gates(a: Variable, count: int) -> list[Variable]:
        return [a[:, i * n : (i + 1) * n] for i in range(count)]

    def lstm(projected: Variable, h: Variable, c: Variable, weights: Variable, *_: Variable) -> tuple:
        i, f, g, o = gates(projected + h @ weights, 4)
        c = pt.sigmoid(f) * c + pt.sigmoid(i) * pt.tanh(g)
        return pt.sigmoid(o) * pt.tanh(c), c

    def gru(projected: Variable, h: Variable, weights: Variable, bias: Variable) -> Variable:
        xr, xz, xn = gates(projected, 3)
        hr, hz, hn = gates(h @ weights + bias, 3)
        r, z = pt.sigmoid(xr + hr), pt.sigmoid(xz + hz)
        return (one - z) * pt.tanh(xn + r * hn) + z * h

    rows = x.reshape((-1, spec.features)) @ p["input_weights"]
    projected = rows.reshape((x.shape[0], x.shape[1], -1)) + p["bias"]
    start = pt.zeros((spec.batch, n), dtype="float32")
    is_lstm = spec.cell == "lstm"
    states = pytensor.scan(
        lstm if is_lstm else gru,
        sequences=[projected],
        outputs_info=[start, start] if is_lstm else [start],
        non_sequences=[p["recurrent_weights"]] if is_lstm else [p["recurrent_weights"], p["recurrent_bias"]],
        strict=True,
        return_updates=False,
    )
    last = states[0][-1] if is_lstm else states[-1]
    cost = cross_entropy(last @ p["output_weights"] + p["output_bias"], y)
    return trainer([x, y], cost, list(p.values()), variant, spec.data())


scan_recurrent = recurrent


def transformer(spec: w.Transformer, variant: str) -> Step:
    x, y = pt.ftensor3(), pt.ftensor3()
    p = {name: shared(value) for name, value in spec.parameters().items()}
    depth, full = spec.features // spec.heads, (spec.batch, spec.time, spec.features)
    half, one, root_half = map(np.float32, (0.5, 1, 0.5**0.5))

    def dense(a: Variable, name: str) -> Variable:
        rows = a.reshape((spec.batch * spec.time, -1)) @ p[name] + p[f"{name}_bias"]
        return rows.reshape((spec.batch, spec.time, -1))

    def normalized(a: Variable, name: str) -> Variable:
        centred = a - a.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        return centred / pt.sqrt(variance + np.float32(spec.epsilon)) * p[f"{name}_gain"] + p[f"{name}_bias"]

    qkv = dense(normalized(x, "norm1"), "qkv").reshape((spec.batch, spec.time, 3, spec.heads, depth))
    heads = qkv.transpose((2, 0, 3, 1, 4))
    scores = (heads[0] @ heads[1].transpose((0, 1, 3, 2))) / np.float32(depth**0.5)
    attended = (pt.special.softmax(scores, axis=-1) @ heads[2]).transpose((0, 2, 1, 3)).reshape(full)
    z = x + dense(attended, "projection")
    u = dense(normalized(z, "norm2"), "expand")
    z = z + dense(u * half * (one + pt.erf(u * root_half)), "contract")
    return trainer([x, y], ((z - y) ** 2).mean(), list(p.values()), variant, spec.data())


def hessian_vector_product(spec: w.Mlp, variant: str) -> Step:
    x, y = pt.fmatrix(), pt.lvector()
    parameters, logits = dense_network(spec, x)
    vector = [shared(array) for pair in spec.direction() for array in pair]
    gradients = pt.grad(cross_entropy(logits, y), parameters)
    products = pt.grad(sum((g * v).sum() for g, v in zip(gradients, vector)), parameters)
    check = sum((h * v).sum() for h, v in zip(products, vector))
    run = pytensor.function([x, y], [check, *products], mode=MODES[variant], trust_input=True)
    data = spec.data()
    return lambda: float(run(*data)[0])
